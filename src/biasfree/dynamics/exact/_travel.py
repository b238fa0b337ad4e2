"""Steps from event to event where a network is small (``native/travel.c``).

A step of all rows costs microseconds there. So a step in which something happens is simply cut at its first event, as
often as need be, and control comes back to Python only where an event is not plain, or something is due.
"""

import threading
from ctypes import Structure, byref, memmove, sizeof
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Limits, Pattern, Trial
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import room_for
from biasfree.dynamics.exact._kernels import METHODS, engine
from biasfree.dynamics.exact._march import apart_in_c
from biasfree.dynamics.exact._pace import Pace
from biasfree.native import address, structure

_CROSSINGS = 512  # of one step that there is room for; chosen: where there are more, others decide
_EVENTS = 2048  # of one course that there is room for; chosen: a course ends when it is full
_OVERHEAD = 2_000  # multiplications that cost as much as what a step costs besides them (measured)
KINDS = np.array(["cross", "slide", "leave", "branch"])  # of events, as C numbers them
_NOT_PLAIN, _AT_ZERO = 1, 3  # why a course ended: before what is not decided in C, or where a row is at w = 0
_COURSE = structure(
    "Course",
    "d began left level slack rtol angle outgrown i steps attempts stiff look d last_event time energy inadmissible "
    "i taken events why row line",
    pace=Pace,
)
_RECORD = structure("Record", "p parts when rows lines kinds strain scratch i room")


class _Notes(threading.local):
    """Room for the events of one course, used again by one thread; nothing of it is kept."""

    def __init__(self) -> None:
        self.when, self.what = np.empty(_EVENTS), np.empty((3, _EVENTS), dtype=np.int64)
        self.addresses = address(self.when), *(address(each, np.int64) for each in self.what)


_NOTES = _Notes()


class Wanted(NamedTuple):
    """How far a course may go.

    Attributes:
        began, left: when it begins, and the time until its end.
        level: ln L that ends it.
        slack: the error of a curve.
        rtol, angle: of the run, and between the neurons of a group.
        outgrown: squared differences within a group, in units of its row, that part it.
        steps, attempts: that may be taken, and of the whole run.
        stiff, look: steps held by stability, and accepted ones, from which exponential steps and rest are thought of.
        last_event: when there was one, since the beginning.
        energy: so far.
    """

    began: float
    left: float
    level: float
    slack: float
    rtol: float
    angle: float
    outgrown: float
    steps: int
    attempts: int
    stiff: int
    look: int
    last_event: float
    energy: float


class Travelled(NamedTuple):
    """Where a course led.

    Attributes:
        z, pattern: rows and pattern at its end.
        time, energy: likewise, since its beginning and all together.
        last_event: when there was one.
        lengths, parts: of each step, and how much of it was gone.
        trial: the steps' curves.
        beyond: how far a slide was beyond its end.
        when, rows, lines, kinds: of every event.
        left: what comes next is not decided here.
        zero: row and line it has met, where a row is at w = 0 at the end: what it does there is still to be decided.
    """

    z: Float[np.ndarray, "rows columns"]
    pattern: Pattern
    time: float
    energy: float
    last_event: float
    lengths: Float[np.ndarray, "steps"]
    parts: Float[np.ndarray, "steps"]
    trial: Trial
    beyond: float
    when: Float[np.ndarray, "events"]
    rows: Int[np.ndarray, "events"]
    lines: Int[np.ndarray, "events"]
    kinds: np.ndarray
    left: bool
    zero: tuple[int, int] | None


def travel(
    z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, limits: Limits,
    apart: Float[np.ndarray, "2 passive"], own_balance: Structure | None, strain: Float[np.ndarray, "active"],
    pace: Pace, wanted: Wanted,
) -> Travelled:  # fmt: skip
    """Steps from rows ``z`` through plain events; pace and groups' strain are changed."""
    count, active = data.transposed.shape[1], len(pattern.side)
    z, own = z.copy(), _with_room(pattern, active)
    trial, parts = Trial.room(wanted.steps, len(z), z.shape[1]), np.empty(wanted.steps)
    scratch = np.empty(2 * (active + data.outputs * count))
    desk, sought = room_for(z.shape, data, own, _CROSSINGS)
    course: Any = _COURSE(**wanted._asdict(), pace=pace)
    course.pace.overhead = _OVERHEAD / (active * count * z.shape[1])
    own.c.count = len(pattern.slides)
    record = _RECORD(address(parts), *_NOTES.addresses, address(strain), address(scratch), _EVENTS)
    engine().biasfree_travel(
        address(z), byref(data.c), byref(own.c), byref(limits.c), byref(METHODS), byref(apart_in_c(apart)),
        None if own_balance is None else byref(own_balance), byref(trial.c), byref(desk.c), byref(sought.c),
        byref(course), byref(record),
    )  # fmt: skip
    course.pace.overhead = pace.overhead
    memmove(byref(pace), byref(course.pace), sizeof(Pace))
    taken, events, slides = course.taken, course.events, own.c.count
    if events:
        pattern = Pattern(
            own.side, own.owner, own.basis, own.span, own.slides[:slides].copy(), own.dual[:slides].copy()
        )
    rows, lines, kinds = _NOTES.what[:, :events].copy()
    return Travelled(
        z, pattern, course.time, course.energy, course.last_event, trial.lengths[:taken], parts[:taken], trial,
        course.inadmissible, _NOTES.when[:events].copy(), rows, lines, KINDS[kinds], course.why == _NOT_PLAIN,
        (course.row, course.line) if course.why == _AT_ZERO else None,
    )  # fmt: skip


def _with_room(pattern: Pattern, more: int) -> Pattern:
    """A copy with room for more slides."""
    return Pattern(
        pattern.side.copy(), pattern.owner, pattern.basis.copy(), pattern.span.copy(),
        np.concatenate([pattern.slides, np.empty((more, 2), dtype=np.int64)]),
        np.concatenate([pattern.dual, np.empty((more, pattern.dual.shape[1]))]),
    )  # fmt: skip
