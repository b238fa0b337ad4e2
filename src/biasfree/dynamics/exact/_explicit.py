"""Explicit steps from event to event, and the merging of neurons between them."""

import math

from biasfree.dynamics import _status
from biasfree.dynamics._pieces import Piece, Point
from biasfree.dynamics._status import Status
from biasfree.dynamics.exact._data import by_moments
from biasfree.dynamics.exact._events import Arc, Event, polished, search
from biasfree.dynamics.exact._kernels import Limits
from biasfree.dynamics.exact._state import State
from biasfree.dynamics.exact._steps import SAFETY, Corrected, Taken, take, through, within

_MERGE_EVERY, _MERGE_SOON, _MERGE_SELDOM = 25, 4, 400  # steps between looks for parallel neurons
_MANY_GROUPS = 200  # groups from which they are looked for soon: they make steps costly
_WATCH = 8  # steps between looks whether a group has come apart
_ABSOLUTE = 1e-290  # every row is judged by its own size: one that is negligible now may be the one that grows
_FIRST = 0.05  # of the time in which the start would move by its own size, the first step


class Explicit:
    """Takes explicit steps on a state."""

    def __init__(self, state: State, symmetric: bool) -> None:
        """Begin with a short step."""
        self.state, self._symmetric = state, symmetric
        plan = state.plan
        # Errors of the energy are judged against the first loss; on the loss clock it is ln L that falls by it.
        height = 1.0 if plan.clock == "loss" else math.exp(min(state.level, 700.0))
        self.limits = Limits(SAFETY * plan.rtol, _ABSOLUTE, height)
        self._merged_at, self._merge_wait = 0, self._soonest_merge
        left = plan.until - state.time
        state.pace.long = left if math.isfinite(left) else 1.0
        if state.speed > 0:
            state.pace.long = min(_FIRST * state.size / state.speed, state.pace.long) or 1e-300

    def advance(self, until: float) -> Piece:
        """One step, cut short by the first event within it."""
        state = self.state
        now, began, view = state.carried, state.time, state.view()
        left, level = until - began, state.plan.stop.level
        while True:
            taken = self._taken(left)
            if isinstance(taken, Status):
                return self._failed(taken)
            radius = now.radius()
            event, beyond, near = search([Arc(0.0, taken.length, taken.curve)], now.data, now.pattern, level, radius)
            if not now.split(near, radius, state.pace.long):
                break
            state.moved()
            view = state.view()
            # What was parted must not be merged again at once.
            self._merged_at, self._merge_wait = state.pace.accepted, min(2 * self._merge_wait, _MERGE_SELDOM)
        state.inadmissible = max(state.inadmissible, beyond)
        corrected = None
        if event is not None and event.crossed is not None:
            corrected = through(taken, event.crossed, now.data, now.pattern, self._limits(), level)
        arrival = self._arrive(taken, event if corrected is None else None, corrected)
        state.time = until if arrival >= left else began + arrival
        ended = self._after(taken, event if corrected is None else None, corrected, began)

        def at(time: float) -> Point:
            x = min(max((time - began) / taken.length, 0.0), arrival / taken.length)
            return view.point(*within(taken, corrected, x), time)

        return Piece(began, state.time, at, f"explicit steps of order {taken.order}", ended=ended)

    def _failed(self, status: Status) -> Piece:
        """Nothing more can be done here."""
        state = self.state
        view, z, energy, time = state.view(), state.carried.z, state.energy, state.time
        return Piece(time, time, lambda t: view.point(z, energy, t), "explicit steps", 0, ended=status)

    def _taken(self, left: float) -> Taken | Status:
        """A step that was accepted, or why there is none."""
        state, pace, plan = self.state, self.state.pace, self.state.plan
        now, limits = state.carried, self._limits()
        while True:
            if not min(pace.method()[1], left) > 1e-15 * state.time + 1e-300:
                return _status.no_smaller_step(plan.axis, state.time)
            if pace.accepted + pace.rejected >= plan.max_steps:
                return _status.out_of_steps(plan.axis, state.time, plan.max_steps)
            taken = take(now.z, state.energy, left, now.data, now.pattern, now.form(), limits, pace, state.trial)
            if taken is not None:
                return taken

    def _limits(self) -> Limits:
        if self.state.plan.clock == "time":
            return self.limits
        # Residuals are e^{−m}/L: what counts is a margin's own error, not its relative one.
        return self.limits._replace(rtol=self.limits.rtol / max(1.0, -self.state.level))

    def _arrive(self, taken: Taken, event: Event | None, corrected: Corrected | None) -> float:
        """Move the rows to where the step ends; how long it took."""
        state, now = self.state, self.state.carried
        if event is not None:
            arrival = event.time
            if event.kind == "level":
                arrival = polished(
                    lambda t: within(taken, None, t / taken.length)[0], arrival, taken.length, now.data, now.pattern,
                    state.plan.stop.level,
                )  # fmt: skip
            now.z, state.energy = within(taken, None, arrival / taken.length)
            return arrival
        if corrected is not None:
            for x, noted in zip(corrected.times.tolist(), now.cross(corrected.pairs), strict=True):
                state.note(state.time + x * taken.length, [noted])
            now.z, state.energy = corrected.z, float(taken.energies[-1]) + corrected.energy
        else:
            now.z, state.energy = taken.curve[-1].copy(), float(taken.energies[-1])
        return taken.length

    def _after(self, taken: Taken, event: Event | None, corrected: Corrected | None, began: float) -> Status | None:
        """Decide what follows from the event; group afresh where that is due."""
        state = self.state
        ended = state.after(event, began)
        if event is None and corrected is None:
            last = 12 if taken.order == 8 else 3  # the stage at the step's end
            state.trial.stages[0], state.trial.powers[0] = state.trial.stages[last], state.trial.powers[last]
        else:
            state.moved()
        if event is None:
            state.pace.free(taken.length)
        if not (math.isfinite(state.energy) and math.isfinite(state.size)):
            return _status.not_finite(state.plan.axis, began)
        if ended is None:
            self._look_around()
        return ended

    def _look_around(self) -> None:
        """Merge what has become parallel, and let go what has come apart."""
        state, now, pace = self.state, self.state.carried, self.state.pace
        since = pace.accepted - self._merged_at
        if state.plan.weight_decay > 0 and now.vanish():
            state.moved()
        if since % _WATCH == 0 and now.parted():
            now.regroup()
            state.moved()
        elif since >= self._merge_wait:
            self._merged_at = pace.accepted
            if self._symmetric and not now.linear and now.even_part_is_gone():
                state.restart(by_moments(state.plan.dataset, state.plan.weight_decay, now.data.a))
                return
            before = now.z
            soon = now.merge() or now.riders.size
            self._merge_wait = self._soonest_merge if soon else min(2 * self._merge_wait, _MERGE_SELDOM)
            if now.z is not before:
                state.moved()

    @property
    def _soonest_merge(self) -> int:
        now = self.state.carried
        return _MERGE_SOON if len(now.groups.groups) > _MANY_GROUPS or now.riders.size else _MERGE_EVERY
