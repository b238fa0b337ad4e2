"""What can happen within a step, and when it happens first; explicit and exponential steps are searched alike.

A step gives its way as one or more **arcs**, each a curve of degree 7 (``_kernels``). Along it

- a row meets a line: wᵀd_l changes sign;
- a slide ends: |ς| reaches 1, or its line stops attracting (both margins in ``native/search.c`` are functions of
  time that must stay positive; they are interpolated at eight points of each arc);
- the v of a sliding row turns: v·v_begin changes sign;
- the loss falls to a level.

The first zero of each is found from its Bernstein coefficients, not from samples: a dip between two points of a step is
found however short it is. w = 0 is no event of its own: a row gets there along the last ray that its slides leave it,
and meets all other lines at once. A row at rest there is asked whether something draws it away.
"""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics._float64 import NEVER, TIME_RESOLUTION
from biasfree.dynamics.exact._arrays import Desk, Pattern, Sought
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._kernels import BLUR, log_levels, quiet, real, scan
from biasfree.dynamics.exact._methods import NODES, basis, on_curve
from biasfree.dynamics.exact._sliding import leaving_zero, resting

_ROOM = 256  # crossings of one arc that there is room for at least
_TOGETHER = 1e-12  # part of an arc within which one row meets several lines at once
_SHAPES = 32  # chosen: room for so many shapes is kept; results do not depend on it, what is made anew does
_MORE_ROOM = 8  # chosen: times the room where it was not enough; few searches until it is, and results are the same
_BELOW = 2e-15  # bound: 9 ε of ln L, what rounding makes of it when the same rows are found once more from the time
_FIRST_WIDTH = 1e-9  # chosen: of the time, where a level is first looked for; the result is found by bisection
_WIDER = 4  # chosen: times the width from one look to the next; likewise
_NOBODY = np.zeros((0, 3))


class _Rooms(threading.local):
    """Room that is used again for every step of one shape, by one thread; nothing of it is kept."""

    def __init__(self) -> None:
        self.sought = functools.lru_cache(maxsize=_SHAPES)(Sought.room)
        self.desk = functools.lru_cache(maxsize=_SHAPES)(Desk.room)


_ROOMS = _Rooms()


@dataclass(frozen=True)
class Arcs:
    """Parts of a step, one after the other.

    Attributes:
        begins, ends: of each, in time since the step's start.
        curves: of the rows.
    """

    begins: Float[np.ndarray, "arcs"]
    ends: Float[np.ndarray, "arcs"]
    curves: Float[np.ndarray, "arcs 8 rows columns"]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ends)

    def at(self, times: Float[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The arc that each time lies in, and x ∈ [0, 1] there."""
        number = np.minimum(np.searchsorted(self.ends, times), len(self) - 1)
        begins = self.begins[number]
        return number, (times - begins) / (self.ends[number] - begins)


class Event(NamedTuple):
    """What happens to a row first.

    Attributes:
        time: when, in the units of whoever was searched.
        kind: "met", "slide" (one ends, or the row leaves w = 0) or "level".
        row: whose.
        lines: met.
    """

    time: float
    kind: str
    row: int = -1
    lines: Int[np.ndarray, "met"] = np.zeros(0, dtype=np.int64)


class Search(NamedTuple):
    """What a search finds.

    Attributes:
        event: the first event, if there is one.
        beyond: how far a slide was beyond its end on the way there.
        near: rows and lines that meet, or come within the row's radius of each other, up to there; and x ∈ [0, 1] of
            its arc, above 1 if they do not meet.
    """

    event: Event | None
    beyond: float
    near: Float[np.ndarray, "some 3"]


def search(
    arcs: Arcs,
    data: Data,
    pattern: Pattern,
    level: float,
    radius: Float[np.ndarray, "active"] | None = None,
    slack: float = BLUR,
) -> Search:
    """The first event of a step; ``radius`` is that of merged neurons about their row, ``slack`` the arcs' error."""
    beyond, near, number = 0.0, [_NOBODY], 0
    radius = np.zeros(len(pattern.side)) if radius is None else radius
    rests = (pattern.span == data.directions.shape[1]).any()
    while True:
        if not rests:
            skipped, farther = _quiet(arcs.curves[number:], data, pattern, level, radius)
            beyond, number = max(beyond, farther), number + skipped
        if number == len(arcs):
            return Search(None, beyond, np.concatenate(near))
        curve = arcs.curves[number]
        count, sought = scanned(curve, data, pattern, level, radius, slack)
        near.append(sought.met[:count, :3].copy())
        events = happenings(curve, count, sought, data, pattern)
        beyond = max(beyond, farthest(sought, events[0].time if events else NEVER))
        if events:
            begin, end = float(arcs.begins[number]), float(arcs.ends[number])
            first = events[0]._replace(time=begin + events[0].time * (end - begin))
            return Search(first, beyond, np.concatenate(near))
        number += 1


def _quiet(
    curves: Float[np.ndarray, "n 8 rows columns"], data: Data, pattern: Pattern, level: float, radius: np.ndarray
) -> tuple[int, float]:
    """The first of some curves along which anything happens, and how far a slide is beyond its end before."""
    desk, sought = room_for(curves.shape, data, pattern)
    desk.radius[:] = radius
    return quiet(curves, data, pattern, level, desk, sought)


def room_for(z: tuple[int, ...], data: Data, pattern: Pattern, crossings: int | None = None) -> tuple[Desk, Sought]:
    """Room for rows of a shape to be searched, and for what is found: a crossing of each row unless told otherwise."""
    crossings = _usual(pattern) if crossings is None else crossings
    desk = _ROOMS.desk(*z[-2:], len(pattern.side), *data.transposed.shape)
    return desk, _ROOMS.sought(crossings, len(pattern.slides))


def _usual(pattern: Pattern) -> int:
    """Crossings that there is room for at first; powers of two, so that few sizes are kept."""
    return max(_ROOM, 2 ** len(pattern.side).bit_length())


def scanned(
    curve: Float[np.ndarray, "8 rows columns"],
    data: Data,
    pattern: Pattern,
    level: float,
    radius: np.ndarray,
    slack: float = BLUR,
) -> tuple[int, Sought]:
    """The number of crossings along a curve, and all that was found; ``slack`` is its own error (``real``)."""
    room = _usual(pattern)
    while True:
        desk, sought = room_for(curve.shape, data, pattern, room)
        desk.radius[:] = radius
        count = scan(curve, 0.0, 0.0, BLUR, data, pattern, level, desk, sought)
        if count < 0:
            return 0, sought
        if count < room:
            return real(curve, 1.0, count, data, pattern, desk, sought, slack), sought
        room *= _MORE_ROOM  # there may be more than there is room for


def happenings(
    curve: Float[np.ndarray, "8 rows columns"],
    count: int,
    sought: Sought,
    data: Data,
    pattern: Pattern,
    length: float = 0.0,
) -> list[Event]:
    """The first event of every row along a curve, and the loss level; in order, times are x ∈ [0, 1].

    The curve's ``length`` matters to given pulls only.
    """
    first: dict[int, Event] = {}
    met = sought.met[:count]
    for row_number, line_number, x, _ in met[np.argsort(met[:, 2], kind="stable")].tolist():
        row, line = int(row_number), int(line_number)
        if x > 1.0:
            break
        if row not in first:
            first[row] = Event(x, "met", row, _one(line))
        elif x <= first[row].time + _TOGETHER:
            first[row] = first[row]._replace(lines=np.append(first[row].lines, line))
    for (row, _), x in zip(pattern.slides.tolist(), sought.ended.tolist(), strict=False):
        if x <= min(1.0, first[row].time if row in first else 1.0):
            first[row] = Event(x, "slide", row)
    events = list(first.values())
    if sought.ended[-1] <= 1.0:
        events.append(Event(float(sought.ended[-1]), "level"))
    row, x = _drawn(curve, length, data, pattern, min((event.time for event in events), default=1.0))
    if x <= 1.0:
        events.append(Event(x, "slide", row))
    return sorted(events, key=lambda event: (event.time, _RANKS[event.kind]))


@functools.cache
def _one(line: int) -> Int[np.ndarray, "1"]:
    """A line by itself; nobody writes to it."""
    alone = np.array([line])
    alone.flags.writeable = False
    return alone


_RANKS = {"level": 0, "slide": 1, "met": 2}  # of what happens at once


def farthest(sought: Sought, until: float) -> float:
    """How far a slide was beyond its end, before it ended and before x = ``until``."""
    if len(sought.ended) == 1:
        return 0.0
    return float(sought.beyond[NODES[:, None] < np.minimum(sought.ended[:-1], until)].max(initial=0.0))


def polished(
    rows: Callable[[float], Float[np.ndarray, "rows columns"]], time: float, until: float, data: Data, active: int,
    level: float,
) -> float:  # fmt: skip
    """The time at which the loss is at a level, from one that is right to the interpolation: at or just below it."""

    def above(t: float) -> bool:
        # Below it by rounding, so that the same rows, found once more from the time, are too.
        return float(log_levels(rows(t)[None], active, data)[0]) > level - _BELOW * abs(level)

    width = _FIRST_WIDTH * time
    low, high = max(time - width, 0.0), min(time, until)
    while above(high) and high < until:
        low, high, width = high, min(high + width, until), _WIDER * width
    while not above(low) and low > 0.0:
        low, width = max(low - width, 0.0), _WIDER * width
    return halved(lambda t: not above(t), low, high, TIME_RESOLUTION * high)


def halved(is_past: Callable[[float], bool], low: float, high: float, width: float) -> float:
    """A time at or just past the change of ``is_past``, false at ``low`` and true at ``high``, to within ``width``."""
    while high - low > width:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if is_past(middle) else (middle, high)
    return high


def _drawn(curve: np.ndarray, length: float, data: Data, pattern: Pattern, until: float) -> tuple[int, float]:
    """A row at rest at w = 0 that something draws away first, and when, x ≤ ``until``; NEVER if none is.

    Rows rest rarely. Whether one still does is a matter of the whole rule at w = 0, so that it is asked once an arc,
    and the time found by bisection.
    """
    if not (pattern.span == data.directions.shape[1]).any():
        return -1, NEVER

    def leaving(x: float, some: Int[np.ndarray, "some"]) -> Int[np.ndarray, "left"]:
        here = data._replace(given_at=data.given_at + data.given_rate * length * x) if len(data.given) else data
        return leaving_zero(on_curve(basis(x), curve), pattern, here, some)

    last = min(until, 1.0)
    rows = leaving(last, resting(pattern, data.directions.shape[1]))
    if not rows.size:
        return -1, NEVER
    first = halved(lambda x: bool(leaving(x, rows).size), 0.0, last, _TOGETHER)
    return int(leaving(first, rows)[0]), first
