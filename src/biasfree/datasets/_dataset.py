"""The data a network is trained on, with the two moments the theory speaks of."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Dataset:
    """Inputs and targets, frozen.

    Attributes:
        inputs: shape (samples, dim).
        targets: shape (samples,), or (samples, outputs) for vector targets.
        name: what tables and plots call it.
        origin: how it was made (generator, arguments, seed); travels with every result.

    >>> data = Dataset([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], "two points")
    >>> print(data)
    two points: 2 samples, 2 dimensions
    >>> data.correlation
    array([ 0.5, -1. ])
    """

    inputs: Float[np.ndarray, "samples dim"]
    targets: Float[np.ndarray, "samples"] | Float[np.ndarray, "samples outputs"]
    name: str
    origin: Mapping[str, Any]

    def __init__(self, inputs: Any, targets: Any, name: str = "data", origin: Mapping[str, Any] | None = None) -> None:
        """Check shapes and values; keep private, read-only float64 copies."""
        inputs, targets = checks.numeric(inputs, "inputs"), checks.numeric(targets, "targets")
        if inputs.ndim != 2:
            raise ValueError(
                f"inputs must have shape (samples, dim), got shape {inputs.shape}. "
                "For samples of one number each, use inputs.reshape(-1, 1)."
            )
        if inputs.size == 0:
            raise ValueError(f"inputs must hold at least one sample of one dimension, got shape {inputs.shape}.")
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if targets.ndim not in (1, 2) or targets.size == 0:
            raise ValueError(f"targets must have shape (samples,) or (samples, outputs), got shape {targets.shape}.")
        if len(inputs) != len(targets):
            raise ValueError(
                f"inputs and targets must have the same length, got {len(inputs)} inputs and {len(targets)} targets."
            )
        for array, what in ((inputs, "inputs"), (targets, "targets")):
            checks.finite(array, what).flags.writeable = False
        frozen = {"inputs": inputs, "targets": targets, "name": name, "origin": MappingProxyType(dict(origin or {}))}
        for attribute, value in frozen.items():
            object.__setattr__(self, attribute, value)

    @property
    def samples(self) -> int:
        """Number of samples P."""
        return self.inputs.shape[0]

    @property
    def dim(self) -> int:
        """Input dimension D."""
        return self.inputs.shape[1]

    @property
    def outputs(self) -> int:
        """Number of outputs, 1 for scalar targets."""
        return 1 if self.targets.ndim == 1 else self.targets.shape[1]

    @functools.cached_property
    def covariance(self) -> Float[np.ndarray, "dim dim"]:
        """Input covariance Σ = ⟨x xᵀ⟩ (Eq. 9); the mean is not removed."""
        return self.inputs.T @ self.inputs / self.samples

    @functools.cached_property
    def correlation(self) -> Float[np.ndarray, "dim"] | Float[np.ndarray, "outputs dim"]:
        """Input-output correlation β = ⟨y x⟩ (Eq. 9), one row per output for vector targets."""
        return self.targets.T @ self.inputs / self.samples

    def symmetrised(self) -> "Dataset":
        """Add (−x, −y) for every (x, y): Condition 3 then holds exactly.

        >>> Dataset([[2.0]], [1.0]).symmetrised().targets
        array([ 1., -1.])
        """
        return Dataset(
            np.concatenate([self.inputs, -self.inputs]),
            np.concatenate([self.targets, -self.targets]),
            f"{self.name}, symmetrised",
            {**self.origin, "symmetrised": True},
        )

    def with_ones(self) -> "Dataset":
        """Stack a constant 1 on every input: [x, 1] (Appendix B, which shows it is no bias).

        >>> Dataset([[2.0], [3.0]], [1.0, -1.0]).with_ones().inputs
        array([[2., 1.],
               [3., 1.]])
        """
        return Dataset(
            np.column_stack([self.inputs, np.ones(self.samples)]),
            self.targets,
            f"{self.name}, with ones",
            {**self.origin, "with_ones": True},
        )

    def __str__(self) -> str:
        """One line: name and sizes."""
        outputs = "" if self.outputs == 1 else f", {self.outputs} outputs"
        samples = "sample" if self.samples == 1 else "samples"
        dimensions = "dimension" if self.dim == 1 else "dimensions"
        return f"{self.name}: {self.samples} {samples}, {self.dim} {dimensions}{outputs}"

    __repr__ = __str__
