"""A trained network as it is read: fully connected layers, with biases if it has them, and a slope after each.

h₁ = W₁x + b₁,  h_l = W_l σ_{l−1}(h_{l−1}) + b_l,  f = h_L,  σ_l(z) = max(z, α_l z). Unlike ``Network`` it may have
biases and a different slope in each layer; slope 1 is a layer without activation.
"""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks, files
from biasfree.networks import Network

# Entries of a layer's activations held at once.
_AT_ONCE = 8_000_000


@dataclass(frozen=True, eq=False)
class Layers:
    """Weights, biases and slopes of a fully connected chain; ``of`` makes a checked one.

    Attributes:
        weights: W_l of shape (width of layer l, width of layer l − 1), float64.
        biases: b_l, or None for a layer without.
        slopes: α of each hidden layer; 1 where nothing follows.
        source: what it was read from.
        rounding: relative rounding of the stored numbers, 2⁻⁵³ for float64 and 2⁻²⁴ for float32.
        notes: what had to be assumed in reading it, a sentence each.
    """

    weights: tuple[Float[np.ndarray, "out in"], ...]
    biases: tuple[Float[np.ndarray, "out"] | None, ...]
    slopes: tuple[float, ...]
    source: str = "a network"
    rounding: float = 2.0**-53
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        weights: Sequence[Any],
        biases: Sequence[Any] | None,
        slopes: Sequence[float],
        **about: Any,
    ) -> "Layers":
        """Check shapes and values; biases that are all zero count as none.

        Raises:
            ValueError: widths that do not chain, entries that are not finite, slopes outside [0, 1].
        """
        notes = list(about.pop("notes", ()))
        if not weights:
            raise ValueError("a network needs at least one layer, got no weights.")
        matrices = []
        for i, weight in enumerate(weights, 1):
            matrix = checks.finite(checks.numeric(weight, f"W{i}"), f"W{i}")
            if matrix.ndim != 2 or not matrix.size:
                raise ValueError(f"W{i} must be a matrix with at least one row and column, got shape {matrix.shape}.")
            matrices.append(matrix)
        for i, (first, second) in enumerate(itertools.pairwise(matrices), 1):
            if first.shape[0] != second.shape[1]:
                raise ValueError(
                    f"widths must chain: W{i} has {first.shape[0]} rows but W{i + 1} has {second.shape[1]} columns."
                )
        vectors = [
            _bias(b, m.shape[0], i)
            for i, (b, m) in enumerate(zip(biases or [None] * len(matrices), matrices, strict=True), 1)
        ]
        if any(v is not None for v in vectors) and not any(v is not None and v.any() for v in vectors):
            notes.append("It has biases, and all of them are zero.")
        kept = tuple(None if v is None or not v.any() else v for v in vectors)
        if len(slopes) != len(matrices) - 1:
            raise ValueError(f"slopes must be one per hidden layer, {len(matrices) - 1}, got {len(slopes)}.")
        return cls(tuple(matrices), kept, tuple(checks.slope(s) for s in slopes), notes=tuple(notes), **about)

    @classmethod
    def from_network(cls, network: Network, source: str | None = None) -> "Layers":
        """A ``Network`` as a model; identity skips around one layer become I + W.

        Raises:
            ValueError: a skip over several layers, which no chain expresses.
        """
        if any(span > 1 for span in network.skips):
            raise ValueError(
                f"inspect reads chains of layers, got a {network} with an identity skip over several layers."
            )
        weights = [
            np.asarray(w, dtype=float) + (np.eye(w.shape[0]) if span else 0.0)
            for w, span in zip(network.weights, network.skips, strict=True)
        ]
        slopes = [network.slope if rectified else 1.0 for rectified in network.rectified]
        notes = ("Layers with an identity skip around them are taken as I + W.",) if any(network.skips) else ()
        return cls.of(weights, None, slopes, source=source or f"a {network}", notes=notes)

    # Sizes

    @property
    def widths(self) -> tuple[int, ...]:
        """(input dimension, hidden widths …, outputs)."""
        return (self.weights[0].shape[1], *(w.shape[0] for w in self.weights))

    @property
    def depth(self) -> int:
        """Number of weight layers L."""
        return len(self.weights)

    @property
    def bias_free(self) -> bool:
        """Whether no layer has a bias other than zero."""
        return all(b is None for b in self.biases)

    @property
    def is_affine(self) -> bool:
        """Whether it is linear plus constant by construction: no activation in any layer."""
        return all(s == 1 for s in self.slopes)

    @cached_property
    def scale(self) -> float:
        """‖|W_L|⋯|W₁|‖_F: the size of what is summed in an output, which rounding and cancellation are relative to."""
        total = np.abs(self.weights[0])
        for weight in self.weights[1:]:
            total = np.abs(weight) @ total
        return float(np.linalg.norm(total))

    def bias(self, layer: int) -> Float[np.ndarray, "out"]:
        """b of a layer (0 is the first), zeros if it has none."""
        bias = self.biases[layer]
        return np.zeros(self.weights[layer].shape[0]) if bias is None else bias

    # Function

    def preactivations(self, inputs: Float[np.ndarray, "samples dim"]) -> list[Float[np.ndarray, "samples width"]]:
        """h₁, …, h_L on the inputs; the last is the output."""
        hidden, signal = [], inputs
        for layer, weight in enumerate(self.weights):
            h = signal @ weight.T
            bias = self.biases[layer]
            if bias is not None:
                h = h + bias
            hidden.append(h)
            if layer < self.depth - 1:
                signal = np.where(h > 0, h, self.slopes[layer] * h)
        return hidden

    def __call__(self, inputs: Float[Any, "samples dim"]) -> Float[np.ndarray, "samples outputs"]:
        """f(x) for each row of inputs, always with an axis of outputs."""
        x = np.asarray(inputs, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.widths[0]:
            raise ValueError(f"inputs must have shape (samples, {self.widths[0]}), got shape {x.shape}.")
        pieces = [self.preactivations(part)[-1] for part in self.batches(x)]
        return np.concatenate(pieces) if pieces else np.zeros((0, self.widths[-1]))

    def batches(self, inputs: np.ndarray) -> list[np.ndarray]:
        """The inputs in groups whose activations fit in memory."""
        rows = max(1, _AT_ONCE // max(self.widths))
        return [inputs[i : i + rows] for i in range(0, len(inputs), rows)]

    # Relatives

    def replaced(self, weights: Sequence[np.ndarray], biases: Sequence[Any], slopes: Sequence[float]) -> "Layers":
        """The same origin with other layers."""
        return replace(self, weights=tuple(weights), biases=tuple(biases), slopes=tuple(slopes))

    def as_network(self) -> Network:
        """As a ``Network``.

        Raises:
            ValueError: biases, or activations of different slopes.
        """
        if not self.bias_free:
            raise ValueError("this model has biases, and a biasfree.Network has none.")
        slopes = {s for s in self.slopes if s != 1}
        if len(slopes) > 1:
            raise ValueError(f"a biasfree.Network has one slope, and this model has {sorted(slopes)}.")
        return Network(self.weights, slopes.pop() if slopes else 1.0, [s != 1 for s in self.slopes])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an NPZ with arrays W1 …, b1 … where there are biases, and ``slopes``; or ONNX, in float64.

        One slope without biases is written so that ``Network.load`` reads it too.
        """
        target = files.writable(path, (".npz", ".onnx"))
        if target.suffix.lower() == ".onnx":
            from biasfree.models._onnx_writing import write_onnx

            write_onnx(self, target)
            return
        if self.bias_free and len({s for s in self.slopes if s != 1}) <= 1:
            self.as_network().save(target)
            return
        arrays = {f"W{i}": w for i, w in enumerate(self.weights, 1)}
        arrays |= {f"b{i}": b for i, b in enumerate(self.biases, 1) if b is not None}
        arrays["slopes"] = np.array(self.slopes, dtype=float)
        with files.written_whole(target) as draft:
            np.savez(draft, allow_pickle=False, **arrays)

    def __str__(self) -> str:
        """One line: widths and kind."""
        slopes = {s for s in self.slopes if s != 1}
        if not slopes:
            kind = "linear"
        elif slopes == {0.0}:
            kind = "ReLU"
        elif len(slopes) == 1:
            kind = f"leaky ReLU (slope {slopes.pop():g})"
        else:
            kind = f"leaky ReLU (slopes {', '.join(f'{s:g}' for s in self.slopes)})"
        return f"{'-'.join(map(str, self.widths))} {kind} network{'' if self.bias_free else ' with biases'}"

    __repr__ = __str__


def _bias(bias: Any, width: int, layer: int) -> np.ndarray | None:
    if bias is None:
        return None
    vector = checks.finite(checks.numeric(bias, f"b{layer}"), f"b{layer}")
    if vector.shape != (width,):
        raise ValueError(f"b{layer} must be {width} numbers, one per neuron of its layer, got shape {vector.shape}.")
    return vector
