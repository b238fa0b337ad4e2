"""Explicit steps from event to event, and the merging of neurons between them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from biasfree.dynamics import _status, _stops
from biasfree.dynamics._float64 import NEVER, SMALLEST, TIME_RESOLUTION
from biasfree.dynamics._pieces import How, Piece, Point
from biasfree.dynamics._status import Status
from biasfree.dynamics.exact._alone import Joined, join
from biasfree.dynamics.exact._arrays import Desk, Limits, Sought
from biasfree.dynamics.exact._data import by_moments
from biasfree.dynamics.exact._events import Event, farthest, happenings, polished, scanned
from biasfree.dynamics.exact._kernels import real
from biasfree.dynamics.exact._kicks import Crossings, Step
from biasfree.dynamics.exact._state import State, View
from biasfree.dynamics.exact._steps import Steps
from biasfree.dynamics.exact._travel import Wanted, travel

_MERGE_EVERY, _MERGE_SOON, _MERGE_LATER = 25, 4, 50  # steps between looks for parallel neurons: a look costs a few
# And where a step is a matter of microseconds: there a look costs thirty (measured), and what follows from it more.
_MERGE_SMALL, _MERGE_SMALL_LATER = 60, 120
# And with several outputs, where all may hang on differences between parallel neurons. Chosen: they fall by an e-fold
# or two in a step, and keep some nine of their digits where they are merged by then.
_MERGE_SEVERAL = 8
_WORTH_MERGING = 1 / 4  # of the groups that merging must save there: it costs a hundred steps
_MERGE_SELDOM = 400  # and at most where groups have been parted; chosen: cost alone
_MANY_GROUPS = 200  # groups from which they are looked for soon: they make steps costly
_WATCH = 8  # steps between looks whether decay has made a row vanish; chosen: cost alone
_TOGETHER = 128  # steps taken at once there; chosen: cost alone
_TOGETHER_STIFF = (
    64  # likewise, where it is to be asked anew whether exponential steps are worth more; chosen: cost alone
)
_STIFF, _LOOK = 12, 8  # steps held by stability, and accepted ones, after which others are asked (``_rest``)
_MOST_SKIPPED = 64  # steps after which crossings are tried together again where that failed; chosen: cost alone
_AT_ONCE = 100_000  # numbers of networks that are made at once of a piece; chosen: memory
_FIRST = 0.05  # of the time in which the start would move by its own size, the first step; chosen: its error decides


class _Taken(NamedTuple):
    """Steps, their order, who comes near a line in the last one, and what happens there."""

    steps: Steps
    order: int
    met: Crossings
    events: list[Event]


class Explicit:
    """Takes explicit steps on a state."""

    def __init__(self, state: State, symmetric: bool) -> None:
        """Begin with a short step."""
        self.state, self._symmetric = state, symmetric
        self._merged_at, self._merge_wait = 0, self._soonest_merge
        self._not_plain = False  # what comes next is not for ``_travel``
        self._failures, self._not_together = 0, 0  # of crossings taken together, and steps until it is tried again
        left = state.plan.until - state.time
        state.pace.long = left if math.isfinite(left) else 1.0
        if state.speed > 0:
            state.pace.long = min(_FIRST * state.size / state.speed, state.pace.long) or SMALLEST

    def advance(self, until: float) -> Piece:
        """Steps until something happens, and what follows from it."""
        state, now = self.state, self.state.carried
        began, view = state.time, state.view()
        if until - began <= _unresolved(began):  # nothing can be added to the time that is short of the end
            state.time, z, energy = until, now.z, state.energy
            return Piece(began, until, lambda t: view.point(z, energy, t), How.ORDER_8, 0)
        piece = self._travelled(until) if self.state.is_small and not self._not_plain else None
        if piece is not None:
            return piece
        self._not_plain = False
        while True:
            taken = self._taken(until - began)
            if isinstance(taken, Status):
                return self._failed(taken)
            steps, how, met = taken.steps, self._how(taken.order), taken.met
            now.z, state.energy = steps.curves[-1, 0].copy(), float(steps.energies[-1, 0])
            if not now.split(np.column_stack([*met.pairs.T, met.times]), now.radius(), state.pace.long):
                break
            state.moved()
            # What was parted must not be merged again at once.
            self._merged_at, self._merge_wait = state.pace.accepted, min(2 * self._merge_wait, _MERGE_SELDOM)
            if len(steps.curves) > 1:
                steps = steps.without_last()
                return self._piece(steps, how, view, began, until)
            view = state.view()
        ended = self._end(steps, taken.events, met, until, began)
        return self._piece(steps, how, view, began, until, ended)

    def _travelled(self, until: float) -> Piece | None:
        """Steps through plain events; None where the next one is not plain."""
        state, now, pace, plan = self.state, self.state.carried, self.state.pace, self.state.plan
        began, view, stiff = state.time, state.view(), _STIFF if pace.stiff < _STIFF else plan.max_steps
        merge = self._merge_wait - (pace.accepted - self._merged_at)
        watch = self._watched()
        wanted = Wanted(
            began, until - began, plan.stop.level, state.limits.rtol, plan.rtol, now.tolerance,
            now.outgrown, max(1, min(merge, watch)), plan.max_steps, stiff, pace.accepted + _LOOK,
            state.last_event - began, state.energy,
        )  # fmt: skip
        course = travel(now.z, now.data, now.pattern, state.limits, now.apart(), state.kept(), now.strain, pace, wanted)
        if not course.lengths.size:
            return None
        self._not_plain = course.left
        now.travelled(course.z, course.pattern)
        state.arrived(began, course)
        steps = Steps.cut(course.trial, course.lengths, course.parts)
        state.time = _later(began, steps.arrival, until)
        ended = None if state.is_finite else _status.not_finite(plan.axis, began)
        if ended is None and course.zero is not None:
            row, line = course.zero
            ended = state.after(Event(steps.arrival, "met", row, np.array([line])), began + steps.last[0])
            state.moved()
        if ended is None:
            self._look_around()
        return self._piece(steps, How.BETWEEN_EVENTS, view, began, until, ended)

    def _watched(self) -> int:
        """Steps that may be taken there before something but groups must be looked after."""
        if self.state.plan.weight_decay > 0:
            return _WATCH
        return self.state.until_exponential(_TOGETHER_STIFF) if self.state.pace.stiff >= _STIFF else _TOGETHER

    def _piece(
        self, steps: Steps, how: How, view: View, began: float, until: float, ended: Status | None = None
    ) -> Piece:
        """What was gone, as the loop takes it."""
        state = self.state
        state.time = _later(began, steps.arrival, until)

        def several(times: Sequence[float]) -> list[Point]:
            parts = np.array_split(np.array(times), 1 + len(times) * steps.curves[0, 0].size // _AT_ONCE)
            return [point for part in parts for point in view.points(*steps.several(part - began), part)]

        ends = [*(began + end for end in steps.ends[:-1]), state.time]
        return Piece(
            began, state.time, lambda time: several([time])[0], how, len(ends), ended=ended, ends=ends, several=several
        )

    def _how(self, order: int) -> How:
        """What steps that Python took are called."""
        return How.BETWEEN_EVENTS if self.state.is_small else {8: How.ORDER_8, 5: How.ORDER_5}[order]

    def _failed(self, status: Status) -> Piece:
        """Nothing more can be done here."""
        state = self.state
        view, z, energy, time = state.view(), state.carried.z, state.energy, state.time
        return Piece(time, time, lambda t: view.point(z, energy, t), How.ORDER_8, 0, ended=status)

    def _taken(self, left: float) -> _Taken | Status:
        """Take steps; or say why there are none."""
        state, pace, plan = self.state, self.state.pace, self.state.plan
        smallest = _unresolved(state.time)
        while True:
            limited = _stops.out_of_steps(pace.accepted + pace.rejected, state.time, plan)
            if limited is not None:
                return limited
            method = pace.method()
            going = pace.going(method, left, smallest, self._together(), state.energy, plan.stop.level)
            marched, desk, sought = state.march(method, self._limits(), going)
            pace.gone(method, marched)
            if marched.steps:
                break
            if not min(marched.step, going.longest, left) > smallest:
                return _status.no_smaller_step(plan.axis, state.time)
        steps = Steps.of(state.trial, marched.steps)
        events, met = self._met(steps.curves[-1], marched.crossings, desk, sought)
        return _Taken(steps, method.order, met, events)

    def _together(self) -> int:
        """How many steps may be taken before something must be looked after."""
        state, now, pace = self.state, self.state.carried, self.state.pace
        if (now.pattern.span == now.dim).any():  # rows that rest at w = 0 are asked after every step
            return 1
        merge = self._merge_wait - (pace.accepted - self._merged_at)
        return max(1, min(state.steps, merge, state.plan.max_steps - pace.accepted))

    def _met(self, curve: np.ndarray, crossings: int, desk: Desk, sought: Sought) -> tuple[list[Event], Crossings]:
        """What happens along the last curve of a march, and who comes near a line there."""
        state, now = self.state, self.state.carried
        if crossings < 0 and not (now.pattern.span == now.dim).any():
            return [], Crossings(np.zeros((0, 2), dtype=np.int64), np.zeros(0))
        crossings = max(0, crossings)
        slack = state.limits.rtol
        if crossings == len(sought.met):
            radius, level = desk.radius.copy(), state.plan.stop.level
            crossings, sought = scanned(curve, now.data, now.pattern, level, radius, slack)
        else:
            crossings = real(curve, 1.0, crossings, now.data, now.pattern, desk, sought, slack)
        events = happenings(curve, crossings, sought, now.data, now.pattern)
        state.inadmissible = max(state.inadmissible, farthest(sought, events[0].time if events else NEVER))
        return events, Crossings(sought.met[:crossings, :2].astype(np.int64), sought.met[:crossings, 2].copy())

    def _limits(self) -> Limits:
        limits, level = self.state.limits, self.state.level if self.state.plan.clock == "loss" else 0.0
        # On the loss clock residuals are e^{−m}/L: what counts is a margin's own error, not its relative one.
        return limits._replace(rtol=limits.rtol / max(1.0, -level))

    def _end(self, steps: Steps, events: list[Event], met: Crossings, until: float, began: float) -> Status | None:
        """Move to where the steps end, and decide what follows from what happened there."""
        state, now, event = self.state, self.state.carried, None
        begin, length = steps.last
        noted = []
        if events:
            event, end = events[0], events[0].time
            if not self.state.is_small:
                whole = Step(length, steps.curves[-1], now.data, now.pattern, now.form())
                steps.joined = self._joined(whole, events, met)
                event, end = steps.joined.event, steps.joined.end
                noted = now.joined(steps.joined)
            steps.arrival = float(begin + end * length)
            if event is not None and event.kind == "level":
                guess, steps.arrival, level = steps.arrival, begin + length, state.plan.stop.level
                steps.arrival = polished(lambda t: steps.at(t)[0], guess, begin + length, now.data, now.active, level)
        now.z, state.energy = steps.at(steps.arrival)
        state.time = _later(began, steps.arrival, until)
        for x, each in noted:
            state.note(began + begin + x * length, [each])
        ended = state.after(event, began + begin)
        if events:
            state.moved()
        if event is None:
            state.pace.free(steps.arrival - begin)
        if not state.is_finite:
            return _status.not_finite(state.plan.axis, began)
        if ended is None:
            self._look_around()
        return ended

    def _joined(self, step: Step, events: list[Event], met: Crossings) -> Joined:
        """The step with rows that go alone; none that others ride with does."""
        now = self.state.carried
        heavy = np.zeros(now.active, dtype=bool)
        heavy[now.groups.row_of[now.riders]] = True
        self._not_together -= 1
        joined = join(step, events, met, self._limits(), now.pulls(), heavy, self._not_together < 0)
        self.state.pace.decided += joined.decided
        if joined.kicks is not None:
            self._failures = 0
        elif self._not_together < 0:
            self._failures += 1
            self._not_together = min(2 ** max(0, self._failures - 2), _MOST_SKIPPED) - 1
        return joined

    def _look_around(self) -> None:
        """Merge what has become parallel, and let go what has come apart."""
        state, now, pace = self.state, self.state.carried, self.state.pace
        if state.plan.weight_decay > 0 and now.vanish():
            state.moved()
        if state.balance.part(now, pace.long):
            state.moved()
        if now.parted():
            now.regroup(pace.long)
            state.moved()
            return
        if now.straighten():
            state.moved()
        if pace.accepted - self._merged_at >= self._merge_wait:
            self._merged_at = pace.accepted
            if self._symmetric and not now.linear and now.even_part_is_gone():
                state.restart(by_moments(state.plan.dataset, state.plan.weight_decay, now.data.a))
                return
            before = now.z
            worth = _WORTH_MERGING if state.is_small and now.data.outputs == 1 else 0.0
            soon = now.merge(worth, pace.long) or now.riders.size
            self._merge_wait = (
                self._soonest_merge if soon else max(self._merge_wait, min(2 * self._merge_wait, self._latest_merge))
            )
            if now.z is not before:
                state.moved()

    @property
    def _latest_merge(self) -> int:
        if self.state.carried.data.outputs > 1:
            return 0
        return _MERGE_SMALL_LATER if self.state.is_small else _MERGE_LATER

    @property
    def _soonest_merge(self) -> int:
        now = self.state.carried
        if len(now.groups.groups) > _MANY_GROUPS or now.riders.size:
            return _MERGE_SOON
        if now.data.outputs > 1:
            return _MERGE_SEVERAL
        return _MERGE_SMALL if self.state.is_small else _MERGE_EVERY


def _unresolved(time: float) -> float:
    """Steps so small that float64 does not add them to the time."""
    return TIME_RESOLUTION * time + SMALLEST


def _later(began: float, arrival: float, until: float) -> float:
    """The time after some steps; what rounding leaves of the way to the end is none."""
    time = began + arrival
    return until if until - time <= _unresolved(time) else time
