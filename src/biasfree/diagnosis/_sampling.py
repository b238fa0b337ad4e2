"""Large tables by part: rows drawn at random, pairs ±x kept together, and other rows to judge on.

A course is followed on a few thousand rows. On large data each start has a draw of its own, and its network is judged
on rows it has not seen, so that what it fits by chance does not count as a gain. What differs between the draws is the
sampling error: the standard error of the mean over them, which holds the spread of the starts too.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Levels, mean_loss

# Rows × weights that one evaluation of the gradient may take, at least and at most; rows per dimension.
_WORK, _MOST_WORK, _PER_DIMENSION, _LEAST = 4e6, 5e7, 40, 1000
# A draw needs no more rows than this, or than this for each dimension: its error is reported.
_ENOUGH, _ENOUGH_PER_DIMENSION = 2000, 200
# How many draws a sampling error is estimated from, at least.
LEAST_DRAWS = 3
_CHUNK = 50_000


@dataclass(frozen=True)
class Draw:
    """What one start is followed on.

    Attributes:
        data: the rows it learns.
        levels: of the loss there.
        fresh: other rows and the levels there, to judge it on; None if ``data`` are all there is.
    """

    data: Dataset
    levels: Levels
    fresh: tuple[Dataset, Levels] | None = None


def affordable(dim: int, widths: Sequence[int]) -> int:
    """How many rows a course may be followed on.

    Args:
        dim: of the inputs.
        widths: of the hidden layers.

    >>> affordable(20, [100]), affordable(2, [100])
    (1500, 13000)
    """
    sizes = [dim, *widths, 1]
    weights = sum(a * b for a, b in itertools.pairwise(sizes))
    wanted = max(_WORK / weights, _PER_DIMENSION * dim)
    return int(np.clip(wanted, _LEAST, max(_LEAST, _MOST_WORK / weights)) // 500 * 500)


def draws(
    data: Dataset, symmetry: theory.Symmetry, loss: str, rows: int, count: int, linear_map: np.ndarray
) -> list[Draw]:
    """One draw for each start.

    Args:
        data: all rows.
        symmetry: whose pairs stay together.
        loss: its name.
        rows: to learn, at most; as many others to judge on.
        count: of draws.
        linear_map: the linear solution of all rows.
    """
    if data.samples <= 2 * rows:
        return [Draw(data, levels_of(data, loss))] * count
    rows = min(rows, max(_ENOUGH, _ENOUGH_PER_DIMENSION * data.dim))
    drawn = []
    for number in range(count):
        order = shuffled(data.samples, symmetry.pairs, seed=[17, number])
        seen, other = (part(data, np.sort(order[k * rows : (k + 1) * rows])) for k in (0, 1))
        unseen = float(mean_loss(loss, other.inputs @ linear_map.T, other.targets))
        drawn.append(Draw(seen, levels_of(seen, loss), (other, Levels(_at_zero(other, loss), unseen))))
    return drawn


def shuffled(samples: int, pairs: Int[np.ndarray, "pairs 2"], seed: Sequence[int]) -> Int[np.ndarray, "samples"]:
    """All rows in random order, the two of a pair next to each other."""
    unit = np.arange(samples)
    unit[pairs[:, 1]] = pairs[:, 0]
    return np.argsort(np.random.default_rng(seed).random(samples)[unit], kind="stable")


def part(data: Dataset, rows: np.ndarray) -> Dataset:
    """Some rows of a data set."""
    return Dataset(data.inputs[rows], data.targets[rows], data.name, data.origin, data.classes)


def levels_of(data: Dataset, loss: str) -> Levels:
    """The loss at f = 0 and of the best linear map."""
    if loss == "logistic" and theory.separability(data):
        return Levels(_at_zero(data, loss), 0.0)
    return Levels(_at_zero(data, loss), theory.best_possible_loss(data, slope=1.0, loss=loss).loss)


def outputs_at(function: object, inputs: np.ndarray) -> np.ndarray:
    """Outputs of a network at many inputs, some at a time."""
    assert callable(function)
    cut = range(0, len(inputs), _CHUNK)
    return np.concatenate([np.asarray(function(inputs[begin : begin + _CHUNK])) for begin in cut])


def standard_error(values: Sequence[float | None]) -> float | None:
    """Of the mean over the draws that have the value; None where fewer than two do.

    >>> standard_error([1.0, 2.0, 3.0]) == float(1 / np.sqrt(3))
    True
    """
    there = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.std(there, ddof=1) / np.sqrt(len(there))) if len(there) >= 2 else None


def _at_zero(data: Dataset, loss: str) -> float:
    return mean_loss(loss, np.zeros(data.targets.shape), data.targets)


def typical_asymmetry(data: Dataset, directions: int = 200) -> float:
    """Root mean square of ‖B(r)‖/‖β‖ over random directions r, B(r) = ⟨sgn(rᵀx) y xᵀ⟩: 0 under Condition 3."""
    drawn = np.random.default_rng(0).normal(size=(directions, data.dim))
    sides, squares = np.sign(drawn @ data.inputs.T), np.zeros(directions)
    for target in data.targets.reshape(data.samples, -1).T:
        pull: Float[np.ndarray, "samples dim"] = target[:, None] * data.inputs / data.samples
        squares += np.sum((sides @ pull) ** 2, axis=1)
    unit = float(np.linalg.norm(data.correlation))
    return float(np.sqrt(np.mean(squares)) / unit) if unit else float("inf")
