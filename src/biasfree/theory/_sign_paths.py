"""The two sign paths of a deep ReLU network: which neurons they are made of, and how strong they are.

In Eq. 40's form the neurons with r_l > 0 of every layer make up one aligned chain (see ``_chain_flow``) that is active
where r₊ᵀx > 0, and those with r_l < 0 another, active where r₋ᵀx < 0. The paper takes their norms to be equal, which
holds at infinite width only; ``_deep_paths`` computes what follows when they are not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from biasfree import checks
from biasfree.networks import Network
from biasfree.theory._chain_flow import Chain
from biasfree.theory._deep import layers

# The positive path, then the negative one.
_SIGNS = (1.0, -1.0)


@dataclass(frozen=True)
class SignPaths:
    """The positive and the negative path of a deep ReLU network, in this order.

    Attributes:
        directions: r₊ and r₋, unit vectors, shape (2, dim).
        layer_norms: a_l of each path, shape (2, depth).
        members: for each hidden layer, which neurons are on either path, shape (2, width); empty for paths that were
            not read off a network.
        alignments: for each path, how much of its middle layers' gain is aligned already; 1 for an exact chain.
    """

    directions: Float[np.ndarray, "2 dim"]
    layer_norms: Float[np.ndarray, "2 depth"]
    members: tuple[Bool[np.ndarray, "2 width"], ...] = ()
    alignments: Float[np.ndarray, "2"] | None = None

    @classmethod
    def of_norms(cls, norms: Float[Any, "2"] | Float[Any, "2 depth"], direction: Any, depth: int) -> "SignPaths":
        """Paths of given norms along one direction, which is normalised here.

        Args:
            norms: of the positive and the negative path: one for all layers, shape (2,), or each its own, (2, depth).
                Eq. 40's are both u/√2.
            direction: r of both paths, shape (dim,).
            depth: L, at least 2.

        >>> SignPaths.of_norms([0.1, 0.2], [3.0, 4.0], depth=3).layer_norms
        array([[0.1, 0.1, 0.1],
               [0.2, 0.2, 0.2]])
        """
        depth = checks.count(depth, "depth", least=2)
        sizes = checks.finite(checks.numeric(norms, "norms"), "norms")
        r = checks.finite(checks.numeric(direction, "direction"), "direction")
        if sizes.shape not in ((2,), (2, depth)) or (sizes < 0).any() or (sizes.reshape(2, -1)[:, 0] == 0).any():
            raise ValueError(
                f"norms must be 2 numbers, or 2 × {depth}, of at least 0, the first layer's above 0; got {norms!r}."
            )
        if r.ndim != 1 or not r.any():
            raise ValueError(f"direction must be a nonzero vector, got shape {r.shape}.")
        r = r / np.abs(r).max()
        return cls(np.tile(r / np.linalg.norm(r), (2, 1)), np.broadcast_to(sizes.reshape(2, -1), (2, depth)).copy())

    @property
    def maps(self) -> Float[np.ndarray, "2 dim"]:
        """w₊ and w₋."""
        return np.prod(self.layer_norms, axis=1)[:, None] * self.directions

    @property
    def chains(self) -> tuple[Chain, ...]:
        """As starts of the reduced flow."""
        return tuple(Chain(*path) for path in zip(self.directions, self.layer_norms, strict=True))

    def __str__(self) -> str:
        """Norms in a line."""
        parts = [
            f"{name} path {', '.join(f'{a:.4g}' for a in norms)}"
            for name, norms in zip(("positive", "negative"), self.layer_norms, strict=True)
        ]
        tail = "" if self.alignments is None else f" (aligned to {', '.join(f'{a:.3g}' for a in self.alignments)})"
        return f"layer norms: {'; '.join(parts)}{tail}"


def sign_paths(network: Network, correlation: Float[Any, "dim"], middle: str = "gain") -> SignPaths:
    """Read the two paths off a network: exact for Eq. 40's form, an estimate while layers still align.

    A neuron of the first layer is on the positive path if it answers to β̄, one of the last hidden layer if its output
    weight is positive, one between if the path's signal makes it active; on the negative path the same for −β̄. Along
    these neurons z_l is the signal of ±β̄ and δ_l the backward one. Then a₁r = W₁ᵀz₁/‖z₁‖, a_L = ‖δ_{L−1}‖, and between

        "gain":     a_l² = ‖z_l‖/‖z_{l−1}‖ · ‖δ_{l−1}‖/‖δ_l‖, which counts all that passes the layer;
        "overlap":  a_l = δ_lᵀW_l z_{l−1}/(‖δ_l‖‖z_{l−1}‖), which counts only what is aligned already: right for
                    random weights at depth 3, where the rest averages out with width.

    Args:
        network: ReLU throughout (slope 0), three layers or more, one output, without skips.
        correlation: β = ⟨y x⟩ of its data, shape (dim,).
        middle: how to measure the layers between the first and the last.

    Raises:
        ValueError: another kind of network, a path without neurons.

    >>> network = Network.aligned_relu([2, 4, 4, 1], init_scale=1.0, seed=0, direction=[1.0, 0.0])
    >>> print(sign_paths(network, [2.0, 0.0]))
    layer norms: positive path 0.7071, 0.7071, 0.7071; negative path 0.7071, 0.7071, 0.7071 (aligned to 1, 1)
    """
    checks.one_of(middle, ("gain", "overlap"), "measure of middle layers")
    if network.slope != 0 or not all(network.rectified) or network.depth < 3 or network.widths[-1] != 1:
        raise ValueError(
            "sign paths are read off ReLU networks (slope 0) of three layers or more with one output, "
            f"got a {network}. With two layers Theorem 13 gives them: see aligned_start."
        )
    weights = layers(network)
    beta = checks.finite(checks.numeric(correlation, "correlation"), "correlation")
    if beta.shape != (weights[0].shape[1],) or not beta.any():
        raise ValueError(
            f"correlation must be a nonzero vector of {weights[0].shape[1]} numbers, got shape {beta.shape}."
        )
    read = [_path(weights, sign, sign * beta / np.linalg.norm(beta), middle) for sign in _SIGNS]
    directions, norms, members, alignments = zip(*read, strict=True)
    return SignPaths(
        np.array(directions),
        np.array(norms),
        tuple(np.array(both) for both in zip(*members, strict=True)),
        np.array(alignments),
    )


def wide_paths(init_scale: float, correlation: Float[Any, "dim"]) -> SignPaths:
    """The paths that a three-layer ReLU network starts with at large width, from the initialisation alone.

    Half of the neurons belong to either path: a₁ = γ/√(2 dim) is what W₁ has along β̄, a₃ = γ/√2, and a₂ = 0 as random
    middle weights have no overlap. The drop time that follows scales as 1/γ and needs no seed; the mean of a real
    network's two drops was found within 9 % of it (seven draws at widths 100 and 400). With more layers two or more of
    them have no overlap to begin with, and only what finite width leaves makes them grow: there is no such time.

    Args:
        init_scale: γ, so that ‖W_l‖ ≈ γ.
        correlation: β = ⟨y x⟩, shape (dim,).

    >>> wide_paths(0.01, [1.0, 0.0]).layer_norms[0]
    array([0.005     , 0.        , 0.00707107])
    """
    scale = checks.positive(init_scale, "init_scale")
    beta = checks.numeric(correlation, "correlation")
    norms = [scale / np.sqrt(2 * beta.size), 0.0, scale / np.sqrt(2)]
    return SignPaths.of_norms([norms, norms], beta, 3)


def _path(
    weights: list[np.ndarray], sign: float, probe: np.ndarray, middle: str
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], float]:
    """Direction, layer norms, member neurons and alignment of the path that answers to ``probe``."""
    last = len(weights) - 1
    signals, members = [probe], []
    for layer, weight in enumerate(weights[:-1], 1):
        h = weight @ signals[-1]
        members.append(sign * weights[-1][0] > 0 if layer == last else h > 0)
        signals.append(members[-1] * h)
    backward = [sign * members[-1] * weights[-1][0]]
    for weight, on in zip(weights[-2:0:-1], members[-2::-1], strict=True):
        backward.insert(0, on * (weight.T @ backward[0]))
    forth, back = ([float(np.linalg.norm(v)) for v in vectors] for vectors in (signals[1:], backward))
    if not min(*forth, *back) > 0:
        name = "positive" if sign > 0 else "negative"
        raise ValueError(f"no signal gets through the {name} path of this network; take a wider or an earlier one.")
    first = weights[0].T @ (signals[1] / forth[0])
    gains = np.sqrt([forth[i] / forth[i - 1] * back[i - 1] / back[i] for i in range(1, last)])
    overlaps = np.array([backward[i] @ weights[i] @ signals[i] / (back[i] * forth[i - 1]) for i in range(1, last)])
    norms = np.array([np.linalg.norm(first), *(gains if middle == "gain" else overlaps), back[-1]])
    return sign * first / norms[0], norms, members, float(np.prod(overlaps / gains))
