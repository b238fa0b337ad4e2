"""What can happen within a step, and when it happens first; explicit and exponential steps are searched alike.

A step gives its way as one or more **arcs**, each a curve of degree 7 (``_kernels``). Along it

- a row meets a line: wᵀd_l changes sign;
- a slide ends: |ς| reaches 1, or its line stops attracting (both margins of ``_kernels._margins`` are functions of
  time that must stay positive; they are interpolated at eight points of each arc);
- the v of a sliding row turns: v·v_begin changes sign;
- the loss falls to a level.

The first zero of each is found from its Bernstein coefficients, not from samples: a dip between two points of a step is
found however short it is. w = 0 is no event of its own: a row gets there along the last ray that its slides leave it,
and meets all other lines at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._kernels import Pattern, Sought, scan
from biasfree.dynamics.exact._methods import FROM_NODES, NODES, basis
from biasfree.dynamics.exact._sliding import ROUNDING

BLUR = 1e-12  # a row has met a line when it is beyond it by this part of its size: above what rounding makes of wᵀd = 0
_TOGETHER = 1e-12  # part of a arc within which one row meets several lines at once
_ROOM = 256  # crossings of one arc that are listed
_AT_NODES = basis(NODES)


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
    beyond, near = 0.0, []
    radius = np.zeros(len(pattern.side)) if radius is None else radius
    sought = Sought.room(_ROOM, len(pattern.slides), *arcs[0].curve.shape[1:], *data.transposed.shape)
    for arc in arcs:
        count = scan(arc.curve, data, pattern, level, BLUR, ROUNDING, radius, _AT_NODES, FROM_NODES, sought)
        pairs, times = sought.pairs[:count], sought.times[:count]
        near.append(pairs)
        met, fell = float(times.min(initial=2.0)), float(sought.fell[0])
        ended = float(sought.ended.min(initial=2.0))
        first = min(met, ended, fell)
        beyond = max(beyond, float(sought.beyond[first > NODES].max(initial=0.0)))
        if first > 1.0:
            continue
        if fell == first:
            event = Event(arc.time(fell), "level")
        elif ended == first:
            event = Event(arc.time(ended), "slide", int(pattern.slides[np.argmin(sought.ended), 0]))
        else:
            row = int(pairs[np.argmin(times), 0])
            lines = pairs[(pairs[:, 0] == row) & (times <= met + _TOGETHER), 1]
            alone = len(arcs) == 1 and ended > 1.0 and fell > 1.0 and count < _ROOM
            meets = times <= 1.0
            event = Event(arc.time(met), "met", row, lines, (pairs[meets], times[meets]) if alone else None)
        return Search(event, beyond, np.concatenate(near))
    return Search(None, beyond, np.concatenate(near))
