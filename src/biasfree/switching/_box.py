"""The ς in [−1, 1]^m that make a pull least: Filippov's rule on attracting surfaces."""

import functools
import math
import threading

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

ROUNDING = 1e-11  # of all pulls together, what rounding may make of one
_FAR = 1e6  # beyond any bound
_DEPENDENT = 1e-14  # part of the largest singular value below which directions are dependent
_EPSILON = float(np.finfo(float).eps)


class _Work(threading.local):
    """What was done in a thread so far, for those who count it."""

    def __init__(self) -> None:
        self.arcs = 0  # e-folds or more, in which sums of exponentials were looked at (``_sums``)
        self.solved = 0  # systems of equations: most of what a decision costs on many lines


WORK = _Work()


def least_pull(
    directions: Float[np.ndarray, "held dim"], strength: Float[np.ndarray, "held"], rest: Float[np.ndarray, "dim"]
) -> Float[np.ndarray, "held"]:
    """ς in [−1, 1] that make ‖rest + Σ ς q d‖ least; ends of the interval exactly."""
    if len(directions) == 1:
        value = -(directions @ rest) / strength
        return np.where(np.abs(value) >= 1 - ROUNDING, np.sign(value), value)
    values = in_the_box(directions, strength, rest)
    while (free := np.flatnonzero(np.abs(values) < 1)).size > 1:
        _, sizes, basis = np.linalg.svd(directions[free].T)
        idle = basis[np.sum(sizes > _DEPENDENT * sizes.max(initial=0.0)) :].T
        if not idle.size:
            break
        # Along a direction that changes nothing, up to the first bound.
        way = idle[:, 0] / strength[free]
        room = np.where(way != 0, (np.sign(way) - values[free]) / np.where(way != 0, way, 1.0), np.inf)
        first = int(np.argmin(room))
        values[free] += room[first] * way
        values[free[first]] = np.sign(way[first])
    return np.clip(values, -1.0, 1.0)


def in_the_box(
    directions: np.ndarray, strength: np.ndarray, rest: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """The ς in [−1, 1]^m that make ‖rest + Σ ς q d‖ least, by the active-set method: bounds are met exactly.

    Of the variables at a bound one after the other is freed, as long as one wants to move inwards; the free ones go
    to where their equations hold, or to the first bound on the way. It begins with all of them free, or at ``start``.
    """
    count, loads = len(strength), strength[:, None] * directions
    values = np.zeros(count) if start is None else np.clip(start, -1.0, 1.0)
    free = np.flatnonzero(np.abs(values) < 1)
    noise = ROUNDING * (norm(rest) + np.abs(strength).sum())
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # lines may be as weak as 1e-300
        for _ in range(10 * count + 100):
            now = values[free]
            values[free] = 0.0
            target = _solved(directions[free], -rest - values @ loads) / strength[free]
            size = np.abs(target)
            target = np.where(
                np.abs(size - 1) <= ROUNDING, np.sign(target), np.minimum(np.maximum(target, -_FAR), _FAR)
            )
            step = target - now
            room = np.where(np.abs(target) > 1, (np.sign(step) - now) / step, np.inf)
            nearest = int(np.argmin(room)) if free.size else 0
            if free.size and room[nearest] < 1:
                values[free] = now + room[nearest] * step
                values[free[nearest]] = np.sign(step[nearest])
                free = np.delete(free, nearest)
                continue
            values[free] = target
            inwards = np.sign(strength) * (directions @ (rest + values @ loads)) * values - noise
            free = np.flatnonzero(np.abs(values) < 1)
            inwards[free] = 0.0
            first = int(np.argmax(inwards))
            if inwards[first] <= 0:
                break
            free = np.sort(np.append(free, first))
    return values


def _solved(directions: Float[np.ndarray, "free dim"], pull: Float[np.ndarray, "dim"]) -> Float[np.ndarray, "free"]:
    """The least z with Σ z d nearest to a pull: NumPy's lstsq, without what it takes to call it."""
    count, dim = directions.shape
    if not count:
        return np.zeros(0)
    WORK.solved += 1
    room = np.zeros(max(count, dim))
    room[:dim] = pull
    return np.asarray(lapack.dgelsd(directions.T, room, *_room(dim, count), _EPSILON * max(count, dim))[0][:count])


@functools.cache
def _room(rows: int, columns: int) -> tuple[int, int]:
    """What LAPACK wants to work in."""
    numbers, integers, _ = lapack.dgelsd_lwork(rows, columns, 1)
    return int(numbers), int(integers)


def norm(vector: np.ndarray) -> float:
    """Of few entries: NumPy's own looks at what it is given for longer."""
    return math.sqrt(vector @ vector)
