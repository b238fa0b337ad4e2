"""The data a network is trained on, with the two moments the theory speaks of."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.classes import check_probabilities, one_hot
from biasfree.shown import Shown


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Dataset(Shown):
    """Inputs and targets, frozen.

    Attributes:
        inputs: shape (samples, dim).
        targets: shape (samples,), or (samples, outputs) for vector targets.
        classes: names of the classes, if the targets are classes; empty for numbers. Targets are then one-hot, or the
            probabilities of the classes.
        name: what tables and plots call it.
        origin: how it was made (generator, arguments, seed); travels with every result.

    >>> data = Dataset([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], "two points")
    >>> print(data)
    two points: 2 samples, 2 dimensions
    >>> data.correlation
    array([ 0.5, -1. ])
    >>> species = Dataset([[1.0], [2.0], [3.0]], ["setosa", "virginica", "setosa"], "flowers", classes=True)
    >>> species, species.classes
    (flowers: 3 samples, 1 dimension, 2 classes, ('setosa', 'virginica'))
    >>> species.targets.tolist(), species.labels.tolist()
    ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 0])
    """

    inputs: Float[np.ndarray, "samples dim"]
    targets: Float[np.ndarray, "samples"] | Float[np.ndarray, "samples outputs"]
    name: str
    origin: Mapping[str, Any]
    classes: tuple[str, ...]

    def __init__(
        self,
        inputs: Any,
        targets: Any,
        name: str = "data",
        origin: Mapping[str, Any] | None = None,
        classes: bool | Sequence[Any] = (),
    ) -> None:
        """Check shapes and values; keep private, read-only float64 copies.

        Args:
            inputs: shape (samples, dim).
            targets: numbers of shape (samples,) or (samples, outputs). With ``classes``: one class per sample, by name
                or by number 0, …, K − 1; or of shape (samples, K), their probabilities.
            name: what tables and plots call it.
            origin: how it was made.
            classes: the classes' names in the order of the outputs; True for those that occur, sorted.
        """
        inputs = checks.numeric(inputs, "inputs")
        names: tuple[str, ...] = ()
        if classes is not False and (classes is True or len(classes)):
            targets, names = _classified(targets, classes)
        targets = checks.numeric(targets, "targets")
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
        frozen = {
            "inputs": inputs, "targets": targets, "name": name, "origin": MappingProxyType(dict(origin or {})),
            "classes": names,
        }  # fmt: skip
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

    @property
    def labels(self) -> Int[np.ndarray, "samples"]:
        """The class of each sample, the likeliest one where they are probabilities.

        Raises:
            ValueError: the targets are numbers.
        """
        if not self.classes:
            raise ValueError(f"{self.name} has no classes. Give their names with Dataset(…, classes=…).")
        return np.argmax(self.targets, axis=1)

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
        )  # (−x, −y) belongs to no class: the targets are numbers now

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
            self.classes,
        )

    def __str__(self) -> str:
        """One line: name and sizes."""
        outputs = "" if self.outputs == 1 else f", {self.outputs} {'classes' if self.classes else 'outputs'}"
        samples = "sample" if self.samples == 1 else "samples"
        dimensions = "dimension" if self.dim == 1 else "dimensions"
        return f"{self.name}: {self.samples} {samples}, {self.dim} {dimensions}{outputs}"

    __repr__ = __str__


def _classified(targets: Any, classes: bool | Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    """Targets one-hot or as probabilities, and the classes' names."""
    given = np.asarray(targets)
    if classes is True:
        if given.ndim != 1:
            raise ValueError(
                f"classes=True needs one class per sample, got targets of shape {given.shape}. Name the classes."
            )
        distinct = np.unique(given)
        names, number = tuple(_name(value) for value in distinct), np.searchsorted(distinct, given)
    else:
        assert not isinstance(classes, bool)
        names = tuple(_name(value) for value in classes)
        if len(set(names)) < len(names):
            raise ValueError(f"classes must have different names, got {', '.join(names)}.")
        if given.ndim == 2:
            if given.shape[1] != len(names):
                raise ValueError(f"targets have {given.shape[1]} columns but {len(names)} classes are named.")
            check_probabilities(checks.finite(checks.numeric(targets, "targets"), "targets"))
            return targets, names
        number = _numbers(given, names)
    if len(names) < 2:
        raise ValueError(f"a class target needs at least two classes, got {', '.join(names) or 'none'}.")
    return one_hot(number, len(names)), names


def _numbers(given: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """The class of each sample: by name, or by number where the names are not numbers themselves."""
    known = {name: index for index, name in enumerate(names)}
    said = [_name(value) for value in given.ravel()]
    if all(each in known for each in said):
        return np.array([known[each] for each in said], dtype=int)
    if np.issubdtype(given.dtype, np.number):
        return given
    unknown = next(each for each in said if each not in known)
    raise ValueError(f"{unknown!r} is none of the classes {', '.join(names)}.")


def _name(value: Any) -> str:
    """A class's name: 1.0 is called 1."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
