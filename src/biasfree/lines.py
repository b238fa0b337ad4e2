"""Lines and rays through the origin: what a network without biases can tell apart.

Two vectors that differ by a factor share a switching surface and, up to that factor, every response. Samples and rows
of W₁ are therefore grouped by line: x_i = t_i d_l with d_l the unit direction of line l and t_i of either sign.
"""

import math
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks

# Beyond the rounding of a normalisation, far below any distance data or weights are given to.
TOLERANCE = 1e-12
_PROJECTIONS = 3
_LEFT = 1e-11
_LARGEST_KNOWN = 1_000_000  # numbers of vectors whose lines are kept: they take as much room again
_known: dict[tuple[int, float], tuple[weakref.ref, "Lines"]] = {}  # of arrays that are still there and cannot change


@dataclass(frozen=True)
class Lines:
    """Vectors x_i = t_i d_l grouped by line.

    Attributes:
        directions: unit vectors d_l, shape (lines, dim); the entry of largest size is positive.
        member: the line of each vector, −1 for a zero vector; shape (vectors,).
        position: t_i, signed; shape (vectors,).
    """

    directions: Float[np.ndarray, "lines dim"]
    member: Int[np.ndarray, "vectors"]
    position: Float[np.ndarray, "vectors"]

    def __len__(self) -> int:
        """Number of distinct lines."""
        return len(self.directions)

    def total(self, values: Float[np.ndarray, "vectors ..."]) -> Float[np.ndarray, "lines ..."]:
        """Sum of ``values`` over the vectors of each line; vectors at the origin are left out."""
        off_origin = self.member >= 0
        each = math.prod(values.shape[1:])
        totals = np.zeros(len(self) * each)
        # Number by number: NumPy adds whole rows ten times as slowly.
        np.add.at(totals, (self.member[off_origin, None] * each + np.arange(each)).ravel(), values[off_origin].ravel())
        return totals.reshape(len(self), *values.shape[1:])

    def pulls(
        self, values: Float[np.ndarray, "vectors *outputs"]
    ) -> tuple[Float[np.ndarray, "*outputs dim"], Float[np.ndarray, "lines *outputs"], Int[np.ndarray, "kept"]]:
        """Σv_i x_i, Σv_i|t_i| of each line, and the lines on which that is more than a cancellation's rounding.

        With several values per vector one row of the first and one column of the second for each.

        >>> total, even, kept = lines([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]]).pulls(np.array([1.0, -1.0, 3.0]))
        >>> total, even, kept
        (array([2., 6.]), array([0., 6.]), array([1]))
        """
        terms = (np.abs(self.position) * values.T).T
        even, mass = self.total(terms), self.total(np.abs(terms))
        remaining = (np.abs(even) > _LEFT * mass).reshape(len(self), -1).any(axis=1)
        return self.odd(values).T @ self.directions, even, np.flatnonzero(remaining)

    def odd(self, values: Float[np.ndarray, "vectors *outputs"]) -> Float[np.ndarray, "lines *outputs"]:
        """Σv_i t_i of each line."""
        return self.total((self.position * values.T).T)

    def pairs_up(self, targets: Float[np.ndarray, "vectors *outputs"]) -> bool:
        """Whether on every line Σt|t| = 0 and Σ|t|y = 0, as on symmetric data: odd and even part never meet there.

        >>> lines([[1.0, 0.0], [-1.0, 0.0]]).pairs_up(np.array([2.0, -2.0]))
        True
        """
        size = np.abs(self.position)
        return len(self) > 0 and all(
            bool((np.abs(self.total(part)) <= TOLERANCE * self.total(np.abs(part))).all())
            for part in (self.position * size, (size * targets.T).T)
        )


def lines(vectors: Float[Any, "vectors dim"], tolerance: float = TOLERANCE) -> Lines:
    """Group vectors by their line through the origin, in O(vectors · log(vectors)).

    Args:
        vectors: shape (vectors, dim), of any scale: 1e-150 and 1e100 may stand side by side.
        tolerance: directions closer than this (as unit vectors, up to sign) count as one line.

    >>> grouped = lines([[3.0, 4.0], [-6.0, -8.0], [0.0, 1.0]])
    >>> len(grouped), grouped.member
    (2, array([0, 0, 1]))
    >>> grouped.position
    array([  5., -10.,   1.])
    """
    lasting = isinstance(vectors, np.ndarray) and vectors.base is None and not vectors.flags.writeable
    if not lasting or vectors.size > _LARGEST_KNOWN:
        return _grouped(checks.numeric(vectors, "vectors"), tolerance)
    key = id(vectors), tolerance  # the inputs of a data set, which many ask for
    if key not in _known:
        grouped = _grouped(checks.numeric(vectors, "vectors"), tolerance)
        for array in (grouped.directions, grouped.member, grouped.position):
            array.flags.writeable = False
        _known[key] = weakref.ref(vectors, lambda _: _known.pop(key, None)), grouped
    return _known[key][1]


def _grouped(vectors: Float[np.ndarray, "vectors dim"], tolerance: float) -> Lines:
    # Divided by its largest entry first, so that squares neither overflow nor underflow.
    size = np.abs(vectors).max(axis=1, initial=0.0)
    off_origin = np.flatnonzero(size)
    scaled = vectors[off_origin] / size[off_origin, None]
    length = np.linalg.norm(scaled, axis=1)
    member, side, first = up_to_sign(scaled / length[:, None], tolerance)
    directions = scaled[first] / length[first, None]
    flip = np.where(np.take_along_axis(directions, _leading(directions)[:, None], 1)[:, 0] < 0, -1.0, 1.0)

    members = np.full(len(vectors), -1)
    members[off_origin] = member
    position = np.zeros(len(vectors))
    position[off_origin] = side * flip[member] * length * size[off_origin]
    return Lines(directions * flip[:, None], members, position)


def up_to_sign(
    points: Float[np.ndarray, "points dim"], tolerance: float
) -> tuple[Int[np.ndarray, "points"], Float[np.ndarray, "points"], Int[np.ndarray, "groups"]]:
    """Group points that are equal up to sign, within ``tolerance``; no object of points × points is formed.

    The sizes |gᵀx| of projections on a few fixed random g agree for ±x. Sorted by them, points whose keys leave no
    gap above the tolerance are candidates; each is then compared to the first of its group.

    Returns:
        For each point its group and its sign relative to the group's first point; for each group that first point.
    """
    count, dim = points.shape
    # The grouping does not depend on these draws, only its speed does.
    probes = np.random.default_rng(0).normal(size=(_PROJECTIONS, dim))
    probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    candidate, pending = np.zeros(count, dtype=int), np.arange(count)
    for probe in probes:
        key = np.abs((points if len(pending) == count else points[pending]) @ probe)
        # Keys of x and −x may be rounded differently.
        candidate = split_at_gaps(candidate, key, max(tolerance, 1e-14 * key.max(initial=0.0)))
        # Whoever is alone by one key is alone: of generic points nearly all are by the first.
        crowded = np.bincount(candidate)[candidate] > 1
        candidate, pending = candidate[crowded], pending[crowded]

    alone = np.ones(count, dtype=bool)
    alone[pending] = False
    firsts = [np.flatnonzero(alone)]
    groups = len(firsts[0])
    group, side = np.full(count, -1), np.ones(count)
    group[alone] = np.arange(groups)
    while pending.size:
        # The first pending point of every candidate group stands for it; what does not match waits for the next round.
        _, leader, belongs = np.unique(candidate, return_index=True, return_inverse=True)
        reference = points[pending[leader[belongs]]]
        here = points[pending]
        sign = np.where(np.einsum("pd,pd->p", here, reference) < 0, -1.0, 1.0)
        near = np.linalg.norm(here - sign[:, None] * reference, axis=1) <= tolerance
        group[pending[near]], side[pending[near]] = groups + belongs[near], sign[near]
        firsts.append(pending[leader])
        groups += len(leader)
        candidate, pending = candidate[~near], pending[~near]
    first = np.concatenate(firsts)
    # Groups in the order in which they first appear.
    appears = np.zeros(count, dtype=bool)
    appears[first] = True
    rank = (np.cumsum(appears) - 1)[first]
    return rank[group], side, np.flatnonzero(appears)


def split_at_gaps(
    label: Int[np.ndarray, "points"], values: Float[np.ndarray, "points"], tolerance: float
) -> Int[np.ndarray, "points"]:
    """Labels split further wherever the sorted values of one label leave a gap above the tolerance.

    >>> split_at_gaps(np.array([0, 0, 0, 1]), np.array([5.0, 1.0, 1.1, 1.0]), 0.5)
    array([1, 0, 0, 2])
    """
    order = np.lexsort((values, label))
    fresh = (np.diff(label[order], prepend=-1) != 0) | (np.diff(values[order], prepend=-np.inf) > tolerance)
    split = np.empty_like(label)
    split[order] = np.cumsum(fresh) - 1
    return split


def _leading(directions: Float[np.ndarray, "lines dim"]) -> Int[np.ndarray, "lines"]:
    """Index of the entry of largest size, the first of those that tie."""
    sizes = np.abs(directions)
    return np.argmax(sizes >= sizes.max(axis=1, keepdims=True, initial=0.0) - TOLERANCE, axis=1)
