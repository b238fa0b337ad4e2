"""A bias-free network as an immutable pytree.

h₁ = W₁x,  h_l = W_l φ_l(h_{l−1}),  f = h_L, where φ is σ(z) = max(z, αz) or the identity, layer by layer, and
an identity skip may add the input of an earlier layer to the output of a later one.
"""

import itertools
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from biasfree import checks, files
from biasfree.deprecated import renamed
from biasfree.networks import _start
from biasfree.networks._forward import Architecture, forward
from biasfree.shown import Shown


@jax.tree_util.register_pytree_with_keys_class
class Network(Shown):
    """A bias-free network: weights ``(W1, …, WL)``, slope α and architecture. Immutable, a pytree of JAX.

    Args:
        weights: matrices W_l of shape (width of layer l, width of layer l − 1); kept as NumPy arrays, read-only.
        slope: α of σ(z) = max(z, αz); 0 is ReLU, 1 a linear network.
        rectified: for each hidden layer, whether σ follows it; all by default.
        skips: for each layer, the span of the identity skip that ends there; 0 (no skip) by default.
        origin: how it was started; travels with every result, dropped by JAX transformations.

    Raises:
        ValueError: widths that do not chain, entries that are not finite, a slope outside [0, 1].

    >>> network = Network([np.eye(2), np.ones((1, 2))], slope=0.0)
    >>> print(network)
    2-2-1 ReLU network
    >>> float(network(np.array([3.0, -4.0])))
    3.0
    """

    weights: tuple[Float[Any, "out in"], ...]
    slope: float
    rectified: tuple[bool, ...]
    skips: tuple[int, ...]
    origin: Mapping[str, Any]

    def __init__(
        self,
        weights: Sequence[Any],
        slope: float,
        rectified: Sequence[bool] | None = None,
        skips: Sequence[int] | None = None,
        *,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        """Check and freeze; see the class."""
        matrices = [checks.numeric(w, f"W{i}") for i, w in enumerate(weights, 1)]
        if not matrices:
            raise ValueError("a network needs at least one layer, got no weights.")
        for i, matrix in enumerate(matrices, 1):
            if matrix.ndim != 2 or not matrix.size:
                raise ValueError(f"W{i} must be a matrix with at least one row and column, got shape {matrix.shape}.")
            checks.finite(matrix, f"W{i}")
        for i, (first, second) in enumerate(itertools.pairwise(matrices), 1):
            if first.shape[0] != second.shape[1]:
                raise ValueError(
                    f"widths must chain: W{i} has {first.shape[0]} rows but W{i + 1} has {second.shape[1]} columns."
                )
        depth = len(matrices)
        widths = [matrices[0].shape[1], *(m.shape[0] for m in matrices)]
        self._freeze(
            tuple(map(_frozen, matrices)),
            checks.slope(slope),
            _rectified(rectified, depth),
            _skips(skips, widths),
            origin or {},
        )

    def _freeze(self, weights: Any, slope: Any, rectified: Any, skips: Any, origin: Mapping[str, Any]) -> None:
        fields = {"weights": weights, "slope": slope, "rectified": rectified, "skips": skips}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "origin", MappingProxyType(dict(origin)))

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse: networks are immutable."""
        raise AttributeError(f"networks are immutable; make a new one instead of setting {name!r}.")

    # As a pytree: weights and slope are leaves. `origin` is left out, so that two networks of one architecture
    # have the same structure whatever their seeds, and a transformed network never claims a seed it lost.

    def tree_flatten_with_keys(self) -> tuple[Any, Any]:
        """Leaves with their names, and the architecture."""
        key = jax.tree_util.GetAttrKey
        return ((key("weights"), self.weights), (key("slope"), self.slope)), self.architecture

    @classmethod
    def tree_unflatten(cls, architecture: Architecture, leaves: Any) -> "Network":
        """Rebuild without checks: JAX passes tracers and stacked leaves here."""
        network = object.__new__(cls)
        network._freeze(leaves[0], leaves[1], *architecture, {})
        return network

    # Sizes

    @property
    def architecture(self) -> Architecture:
        """Activations and skips."""
        return Architecture(self.rectified, self.skips)

    @property
    def widths(self) -> tuple[int, ...]:
        """(input dimension, hidden widths …, outputs)."""
        return (self.weights[0].shape[1], *(w.shape[0] for w in self.weights))

    @property
    def depth(self) -> int:
        """Number of weight layers L."""
        return len(self.weights)

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear network by construction: α = 1, or no layer rectified."""
        return self.slope == 1 or not any(self.rectified)

    # Function

    def __call__(self, inputs: Float[Any, "*batch dim"]) -> Float[Any, "..."]:
        """Output f(x): shape ``inputs.shape[:-1]``, with a last axis of outputs if there are several.

        JAX arrays give JAX arrays, and so does a network that is being transformed; anything else gives NumPy arrays.

        Raises:
            ValueError: inputs of another dimension than the network's.
        """
        symbolic = any(isinstance(array, jax.core.Tracer) for array in (inputs, *self.weights))
        module = jnp if symbolic or isinstance(inputs, jax.Array) else np
        x = module.asarray(inputs, dtype=float)
        if x.ndim < 1 or x.shape[-1] != self.widths[0]:
            raise ValueError(f"inputs must end in dimension {self.widths[0]}, got shape {x.shape}.")
        weights = [module.asarray(w) for w in self.weights]
        # Like JAX, silent where numbers grow beyond what float64 holds.
        with np.errstate(over="ignore", invalid="ignore"):
            flat = forward(weights, x.reshape(-1, x.shape[-1]), self.slope, self.architecture).T
        return flat.reshape(x.shape[:-1] if self.widths[-1] == 1 else (*x.shape[:-1], self.widths[-1]))

    # Relatives

    def with_weights(self, weights: Sequence[Any]) -> "Network":
        """The same architecture and slope with other weights."""
        return Network(weights, self.slope, self.rectified, self.skips, origin=self.origin)

    def with_slope(self, slope: float) -> "Network":
        """The same weights with another slope; slope 1 is the linear twin."""
        return Network(self.weights, slope, self.rectified, self.skips, origin=self.origin)

    def rescaled(self, factor: float) -> "Network":
        """Every weight times ``factor``; the output of a network without skips is then ``factor**depth`` larger.

        Theorem 5 compares a network started at √(2/(α+1)) times its linear twin's weights.
        """
        factor = checks.positive(factor, "factor")
        origin = {**self.origin, "rescaled": factor * self.origin.get("rescaled", 1.0)} if self.origin else {}
        return Network([factor * w for w in self.weights], self.slope, self.rectified, self.skips, origin=origin)

    def neurons_rescaled(self, layer: int, factors: Any) -> "Network":
        """Incoming weights of each neuron of hidden layer ``layer`` times its factor, outgoing ones divided by it.

        The function stays the same: σ is positively homogeneous.
        """
        factors = checks.numeric(factors, "factors")
        self._hidden(layer, "rescale")
        if factors.shape != (self.widths[layer],) or not (factors > 0).all():
            raise ValueError(f"factors must be {self.widths[layer]} positive numbers, one per neuron.")
        weights = list(self.weights)
        weights[layer - 1] = factors[:, None] * weights[layer - 1]
        weights[layer] = weights[layer] / factors
        return self.with_weights(weights)

    def permuted(self, layer: int, order: Any) -> "Network":
        """The neurons of hidden layer ``layer`` (1 is the first) in another order; the function stays the same."""
        order = np.asarray(order)
        self._hidden(layer, "permute")
        if sorted(order.tolist()) != list(range(self.widths[layer])):
            raise ValueError(f"order must be a permutation of 0 … {self.widths[layer] - 1}.")
        weights = list(self.weights)
        weights[layer - 1] = weights[layer - 1][order]
        weights[layer] = weights[layer][:, order]
        return self.with_weights(weights)

    def _hidden(self, layer: int, verb: str) -> None:
        if not 1 <= layer < self.depth:
            raise ValueError(f"layer must name a hidden layer, 1 to {self.depth - 1}, got {layer!r}.")
        # A skip that starts, ends or runs past this layer's neurons ties them to other layers' neurons.
        if any(s and end - s + 1 <= layer <= end + 1 for end, s in enumerate(self.skips)):
            raise ValueError(
                f"cannot {verb} the neurons of layer {layer}: an identity skip fixes their order and scale."
            )

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an NPZ with arrays ``W1`` … ``WL``, ``slope``, ``rectified``, ``skips`` and a text ``origin``."""
        target = files.writable(path, (".npz",))
        arrays = {f"W{i}": np.asarray(w) for i, w in enumerate(self.weights, 1)}
        arrays |= {
            "slope": np.array(self.slope),
            "rectified": np.array(self.rectified, dtype=bool),
            "skips": np.array(self.skips, dtype=int),
            "origin": np.array(json.dumps(dict(self.origin))),
        }
        with files.written_whole(target) as draft:
            np.savez(draft, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Network":
        """Read what ``save`` wrote; an NPZ of ``W1`` … ``WL`` alone is read as a ReLU network."""
        source = files.readable(path)
        try:
            with np.load(source, allow_pickle=False) as archive:
                arrays = dict(archive)
        except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"cannot read {source.name} as a network: it is not an NPZ of plain arrays.") from error
        weights: list[np.ndarray] = []
        while f"W{len(weights) + 1}" in arrays:
            weights.append(arrays[f"W{len(weights) + 1}"])
        if not weights:
            raise ValueError(f"no array 'W1' in {source.name}. A network is stored as arrays W1, W2, ….")
        return cls(
            weights,
            float(arrays.get("slope", 0.0)),
            None if "rectified" not in arrays else arrays["rectified"].tolist(),
            None if "skips" not in arrays else arrays["skips"].tolist(),
            origin=json.loads(str(arrays["origin"])) if "origin" in arrays else {},
        )

    # Starts; each draws from `default_rng(seed)` layer by layer, W1 first.

    @classmethod
    @renamed(scale="init_scale")
    def init(
        cls,
        widths: Sequence[int],
        slope: float,
        init_scale: float,
        seed: int | np.random.Generator,
        *,
        rectified: Sequence[bool] | None = None,
        skips: Sequence[int] | None = None,
    ) -> "Network":
        """Small random weights as in Appendix G: layer l i.i.d. N(0, γ²/N_l), N_l its number of weights.

        Args:
            widths: (input dimension, hidden widths …, outputs).
            slope: α in [0, 1].
            init_scale: γ, so that ‖W_l‖ ≈ γ.
            seed: whole number or numpy Generator.
            rectified: for each hidden layer, whether σ follows it; all by default.
            skips: for each layer, the span of the identity skip that ends there; none by default.

        >>> Network.init([2, 100, 1], slope=0.0, init_scale=1e-3, seed=0).widths
        (2, 100, 1)
        """
        return cls(
            *_start.random(widths, slope, init_scale, seed), rectified, skips, origin=_origin("init", init_scale, seed)
        )

    @classmethod
    @renamed(scale="init_scale")
    def balanced(
        cls, widths: Sequence[int], slope: float, init_scale: float, seed: int | np.random.Generator
    ) -> "Network":
        """Random, with ‖incoming‖ = ‖outgoing‖ for every hidden neuron: the conserved balance is zero.

        >>> w1, w2 = Network.balanced([3, 5, 1], slope=0.0, init_scale=0.1, seed=0).weights
        >>> bool(jnp.allclose((w1**2).sum(1), (w2**2).sum(0)))
        True
        """
        return cls(*_start.balanced(widths, slope, init_scale, seed), origin=_origin("balanced", init_scale, seed))

    @classmethod
    @renamed(scale="init_scale")
    def rank_one(
        cls,
        dim: int,
        width: int,
        slope: float,
        init_scale: float,
        seed: int | np.random.Generator,
        direction: Any = None,
    ) -> "Network":
        """Two layers by Assumption 4: W₁ = W₂ᵀrᵀ, positive and negative parts of W₂ of equal norm, ‖W₂‖ = init_scale.

        Args:
            dim: input dimension.
            width: number of hidden neurons, at least 2.
            slope: α in [0, 1].
            init_scale: the norm of each layer.
            seed: whole number or numpy Generator.
            direction: r, normalised here; random by default.

        >>> w1, w2 = Network.rank_one(3, 8, slope=0.0, init_scale=0.1, seed=0).weights
        >>> int(np.linalg.matrix_rank(w1))
        1
        """
        weights = _start.rank_one(dim, width, init_scale, seed, direction)
        return cls(weights, slope, origin=_origin("rank_one", init_scale, seed))

    @classmethod
    @renamed(scale="init_scale")
    def aligned_linear(
        cls, widths: Sequence[int], init_scale: float, seed: int | np.random.Generator, direction: Any = None
    ) -> "Network":
        """A deep linear network by Eq. 39: every layer rank one, neighbours aligned, each of norm ``init_scale``.

        The unit vectors r_l have positive and negative parts of equal norm.

        >>> w1, w2, w3 = Network.aligned_linear([3, 6, 6, 1], init_scale=0.1, seed=0).weights
        >>> int(np.linalg.matrix_rank(w2))
        1
        """
        weights = _start.aligned(widths, init_scale, seed, direction, blocks=False)
        return cls(weights, 1.0, origin=_origin("aligned_linear", init_scale, seed))

    @classmethod
    @renamed(scale="init_scale")
    def aligned_relu(
        cls, widths: Sequence[int], init_scale: float, seed: int | np.random.Generator, direction: Any = None
    ) -> "Network":
        """A deep ReLU network by Eq. 40: first and last layers rank one, middle ones rank two and non-negative.

        The same seed gives the unit vectors r, r_l of ``aligned_linear``.

        >>> w1, w2, w3 = Network.aligned_relu([3, 6, 6, 1], init_scale=0.1, seed=0).weights
        >>> int(np.linalg.matrix_rank(w2)), bool((w2 >= 0).all())
        (2, True)
        """
        weights = _start.aligned(widths, init_scale, seed, direction, blocks=True)
        return cls(weights, 0.0, origin=_origin("aligned_relu", init_scale, seed))

    def __str__(self) -> str:
        """One line: widths and kind."""
        kind = "linear" if self.is_linear else "ReLU" if self.slope == 0 else f"leaky ReLU (slope {self.slope:g})"
        linear = sum(not r for r in self.rectified)
        layers = "layer" if linear == 1 else "layers"
        tail = f", {linear} hidden {layers} linear" if linear and not self.is_linear else ""
        count = sum(map(bool, self.skips))
        skips = f", {count} identity {'skip' if count == 1 else 'skips'}" if count else ""
        return f"{'-'.join(map(str, self.widths))} {kind} network{tail}{skips}"

    __repr__ = __str__


def _frozen(matrix: np.ndarray) -> np.ndarray:
    """A copy that nobody can change."""
    matrix = np.array(matrix)
    matrix.flags.writeable = False
    return matrix


def _rectified(rectified: Sequence[bool] | None, depth: int) -> tuple[bool, ...]:
    if rectified is None:
        return (True,) * (depth - 1)
    if len(rectified) != depth - 1:
        raise ValueError(f"rectified must have one entry per hidden layer, {depth - 1}, got {len(rectified)}.")
    return tuple(bool(r) for r in rectified)


def _skips(skips: Sequence[int] | None, widths: Sequence[int]) -> tuple[int, ...]:
    depth = len(widths) - 1
    if skips is None:
        return (0,) * depth
    if len(skips) != depth:
        raise ValueError(f"skips must have one entry per layer, {depth}, got {len(skips)}.")
    spans = tuple(checks.count(s, "the span of a skip", least=0) for s in skips)
    for layer, span in enumerate(spans, 1):
        if span > layer:
            raise ValueError(f"the skip that ends at layer {layer} spans {span} layers, more than there are before it.")
        if span and widths[layer - span] != widths[layer]:
            raise ValueError(
                f"an identity skip needs equal widths at both ends; at layer {layer} it would join "
                f"{widths[layer - span]} to {widths[layer]}."
            )
    return spans


def _origin(start: str, scale: float, seed: int | np.random.Generator) -> dict[str, Any]:
    return {"start": start, "scale": scale, "seed": checks.seed_name(seed)}
