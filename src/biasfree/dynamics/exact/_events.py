"""What can happen within a step, and when it happens first; explicit and exponential steps are searched alike.

A step gives its way as one or more **arcs**, each a curve of degree 7 (``_kernels``). Along it

- a row meets a line: wᵀd_l changes sign;
- a slide ends: |ς| reaches 1, or its line stops attracting (both margins of ``_kernels._margins`` are functions of
  time that must stay positive; they are interpolated at eight points of each arc);
- the v of a sliding row turns: v·v_begin changes sign;
- the loss falls to a level.

The first zero of each is found from its Bernstein coefficients, not from samples: a dip between two points of a step is
found however short it is. w = 0 is no event of its own: a row gets there along the last ray that its slides leave it,
and meets all other lines at once. A row at rest there is asked whether something draws it away.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import pulls_of
from biasfree.dynamics.exact._kernels import Pattern, Sought, scan
from biasfree.dynamics.exact._methods import FROM_NODES, NODES, basis
from biasfree.dynamics.exact._sliding import ROUNDING, drawn_from_zero, resting

BLUR = 1e-12  # a row has met a line when it is beyond it by this part of its size: above what rounding makes of wᵀd = 0
_TOGETHER = 1e-12  # part of a arc within which one row meets several lines at once
_ROOM = 256  # crossings of one arc that there is room for at first
_AT_NODES = basis(NODES)
_NOBODY, _NEVER = np.zeros((0, 2), dtype=np.int64), np.zeros(0)
_sought = functools.lru_cache(maxsize=16)(Sought.room)  # used again for every step of one shape; nothing of it is kept


class Arc(NamedTuple):
    """A part of a step, from ``begin`` to ``end`` in time since its start, and the rows' curve there."""

    begin: float
    end: float
    curve: Float[np.ndarray, "8 rows columns"]

    def time(self, x: float) -> float:
        """The time since the step's start at x ∈ [0, 1]."""
        return self.begin + x * (self.end - self.begin)


@dataclass(frozen=True)
class Event:
    """The first event of a step.

    Attributes:
        time: since the step's start.
        kind: "met", "slide" (one ends) or "level".
        row: whose.
        lines: met.
        crossed: all rows and lines that meet in a step of one arc, and their x, if nothing but crossings happens.
    """

    time: float
    kind: str
    row: int = -1
    lines: Int[np.ndarray, "met"] | None = None
    crossed: tuple[Int[np.ndarray, "crossings 2"], Float[np.ndarray, "crossings"]] | None = None


class Search(NamedTuple):
    """What a search finds.

    Attributes:
        event: the first event, if there is one.
        beyond: how far a slide was beyond its end on the way there.
        near: rows and lines that meet, or come within the row's radius of each other, up to there.
    """

    event: Event | None
    beyond: float
    near: Int[np.ndarray, "some 2"]


def search(
    arcs: list[Arc], data: Data, pattern: Pattern, level: float, radius: Float[np.ndarray, "active"] | None = None
) -> Search:
    """The first event of a step; ``radius`` is that of merged neurons about their row."""
    beyond, near = 0.0, [_NOBODY]
    radius = np.zeros(len(pattern.side)) if radius is None else radius
    room = _ROOM
    for arc in arcs:
        while True:
            sought = _sought(room, len(pattern.slides), *arc.curve.shape[1:], *data.transposed.shape)
            count = scan(arc.curve, data, pattern, level, BLUR, ROUNDING, radius, _AT_NODES, FROM_NODES, sought)
            if count < room:
                break
            room *= 8  # there may be more than there is room for
        pairs, times, met, ended, fell = _NOBODY, _NEVER, 2.0, 2.0, float(sought.fell[0])
        if count:
            pairs, times = sought.pairs[:count].copy(), sought.times[:count].copy()
            near.append(pairs)
            met = min(met, float(times.min()))
        if len(pattern.slides):
            ended = float(sought.ended.min())
        row, drawn = _drawn(arc, data, pattern, min(met, ended, fell, 1.0))
        first = min(met, ended, fell, drawn)
        if len(pattern.slides):
            beyond = max(beyond, float(sought.beyond[first > NODES].max(initial=0.0)))
        if first > 1.0:
            continue
        if fell == first:
            event = Event(arc.time(fell), "level")
        elif drawn == first:
            event = Event(arc.time(drawn), "slide", row)
        elif ended == first:
            event = Event(arc.time(ended), "slide", int(pattern.slides[np.argmin(sought.ended), 0]))
        else:
            row = int(pairs[np.argmin(times), 0])
            lines = pairs[(pairs[:, 0] == row) & (times <= met + _TOGETHER), 1]
            alone = len(arcs) == 1 and min(ended, fell, drawn) > 1.0
            meets = times <= 1.0
            event = Event(arc.time(met), "met", row, lines, (pairs[meets], times[meets]) if alone else None)
        return Search(event, beyond, np.concatenate(near))
    return Search(None, beyond, np.concatenate(near) if len(near) > 1 else _NOBODY)


def polished(
    rows: Callable[[float], Float[np.ndarray, "rows columns"]], time: float, until: float, data: Data, pattern: Pattern,
    level: float,
) -> float:  # fmt: skip
    """The time at which the loss is at a level, from one that is right to the interpolation: at or just below it."""

    def above(t: float) -> bool:
        return bool(pulls_of(rows(t), data, pattern.side).level > level)

    width = 1e-9 * time
    low, high = max(time - width, 0.0), min(time, until)
    while above(high) and high < until:
        low, high, width = high, min(high + width, until), 4 * width
    while not above(low) and low > 0.0:
        low, width = max(low - width, 0.0), 4 * width
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return high


def _drawn(arc: Arc, data: Data, pattern: Pattern, until: float) -> tuple[int, float]:
    """The first row at rest at w = 0 that something draws away, and when, x ≤ ``until``; 2 if none is.

    Rows rest rarely. Whether one still does is a matter of the whole rule at w = 0, so that it is asked once an arc,
    and the time found by bisection.
    """
    first = (-1, 2.0)
    if not (pattern.span == data.directions.shape[1]).any():
        return first
    for h in resting(pattern, data.directions.shape[1]).tolist():

        def leaves(x: float, h: int = h) -> bool:
            z = np.einsum("k,k...->...", basis(x), arc.curve)
            return not drawn_from_zero(z, pattern, data, h, pulls_of(z, data, pattern.side)).rests

        low, high = 0.0, min(until, first[1], 1.0)
        if not leaves(high):
            continue
        while high - low > 1e-12:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if leaves(middle) else (middle, high)
        first = (h, high)
    return first
