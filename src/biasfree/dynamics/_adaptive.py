"""Adaptive steps as an integrator, and the two ends of a run that need no steps.

A run begins with the early phase in closed form where there is one (``_early_jump``), goes on by steps (``_stepper``),
and ends in closed form where it comes to rest (``_rest_watch``, ``_steady``).
"""

import math
from collections.abc import Callable

import numpy as np

from biasfree.dynamics import _field, _status, _stepper, _work
from biasfree.dynamics._early_jump import EarlyJump
from biasfree.dynamics._pieces import Budget, Counts, How, Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._rest_watch import RestWatch
from biasfree.dynamics._standing import Standing, stands_still
from biasfree.dynamics._status import Status
from biasfree.dynamics._vector_field import Layers, vector_field
from biasfree.switching import Switches

# What a state keeps when the weights are moved by closed form; all else is of the place it is at.
_KEPT = ("step", "accepted", "rejected", "smallest", "caution", "chattered", "chatter_step", "local_errors")


class Adaptive:
    """Runge–Kutta steps of adapted size."""

    dense = False

    def __init__(self, plan: Plan, method: str) -> None:
        """Take ``method``'s steps."""
        whole = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
        self._plan, self._method = plan, method
        self._problem = _field.by_moments(whole, plan.network, plan.loss)
        self._kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
        self._early, self._watch = EarlyJump(plan), RestWatch(plan)
        weights = plan.network.weights
        layers = Layers(weights)
        field = vector_field(layers, self._problem, self._kind)
        level = self._begins_at = field.log_loss_at(weights)
        if math.isnan(level):
            level = float(_field.log_loss(weights, self._problem, self._kind))
        self._control = _stepper.Control(plan.rtol, plan.atol, plan.smallest_step, level, plan.stop.level)
        self._stepper = _stepper.Stepper(field, layers, self._problem, self._kind, method, self._control)
        with np.errstate(all="ignore"):  # looked for, at last by the guard
            self._state = self._stepper.start(weights, plan.start)
        self._leapt = self._rested = ""
        self._gradient = _work.of_gradient(plan.network, plan.dataset)

    @property
    def moves(self) -> bool:
        """Whether anything moves now."""
        return bool(self._state.velocity.any())

    def advance(self, budget: Budget) -> Piece:
        """Go on, within the budget."""
        return self._leap(self._state) or self._rest(self._state) or self._steps(self._state, budget)

    @property
    def by_line(self) -> bool:
        """Whether velocities go by line, beside which a matrix library has only small products to make."""
        return self._stepper.by_line

    # The pieces

    def _steps(self, state: _stepper.State, budget: Budget) -> Piece:
        before = state.accepted
        looks = [
            watch.next_look - before
            for watch, off in ((self._watch, self._watch.off), (self._early, self._early.over))
            if not off
        ]
        begin, steps = state.time, min([budget.steps, *looks])
        state = self._state = self._stepper.advance(state, budget.until, budget.pause, steps, budget.attempts)
        return self._standing(state, begin, state.accepted - before, self._ended(state))

    def _standing(
        self, state: _stepper.State, begin: float | None = None, accepted: int = 0, ended: Status | None = None
    ) -> Piece:
        """A piece of steps, known at its end."""
        time, weights = state.time, self._stepper.weights(state.flat)
        first = time if begin is None else begin

        def at(_: float) -> Point:
            known = math.isfinite(state.log_loss)
            return Point(weights, state.energy, state.log_loss if known else self._stepper.log_loss_at(weights))

        return Piece(
            first, time, at, self._method, accepted, dense=False, ended=ended,
            log_loss=self._begins_at if first == self._plan.start else math.nan,
        )  # fmt: skip

    def _ended(self, state: _stepper.State) -> Status | None:
        axis, time = self._plan.axis, state.time
        if state.failed:
            return (_status.not_finite if state.overflowed else _status.no_smaller_step)(axis, time)
        return _status.at_level(axis, time) if state.level_reached else None

    def _leap(self, state: _stepper.State) -> Piece | None:
        """The early phase, once it is the cheaper way."""
        accepted, time = state.accepted, state.time
        if self._early.over or accepted < self._early.next_look:
            return None
        evaluations = self._stepper.evaluations
        weights, level = self._stepper.weights(state.flat), self._control.initial_log_loss
        leap = self._early.look(weights, time, accepted, evaluations, level)
        if leap is None:
            return None
        end = self._end_of(time, leap.duration)
        self._leapt = _status.leapt(self._plan.axis, time, end, leap.switches)
        return self._jump(state, end, leap.at, leap.duration)

    def _rest(self, state: _stepper.State) -> Piece | None:
        """The end, or a part of the way to it, in closed form."""
        if not self._watch.due(state.accepted):
            return None
        time, speed, weights = state.time, math.sqrt(state.squared_speed), self._stepper.weights(state.flat)
        coming = self._watch.look(weights, time, state.step, speed, state.accepted, self._problem, self._kind)
        if coming is None:
            return None

        def at(elapsed: float) -> Point:
            return Point(coming.rest.weights(elapsed), coming.rest.energy(elapsed))

        if coming.final and self._plan.stop.converged:
            # Asked to stop there, the run jumps to its end.
            last, energy = at(coming.duration), state.energy
            point = last._replace(energy=energy + last.energy)
            after = math.nextafter(time, math.inf)
            return Piece(time, after, lambda _: point, How.COMING_TO_REST, accepted=0, ended=_status.converged(time))
        if coming.final:
            self._rested = _status.came_to_rest(coming.since)
        return self._jump(state, self._end_of(time, coming.duration), at, coming.duration, How.COMING_TO_REST)

    def _end_of(self, time: float, duration: float) -> float:
        """Where a closed form ends; the run's end is met exactly."""
        return self._plan.until if duration >= self._plan.until - time else time + duration

    def _jump(
        self,
        state: _stepper.State,
        end: float,
        way: Callable[[float], Point],
        duration: float,
        how: How = How.EARLY,
    ) -> Piece:
        """A piece known in closed form; the steps go on where it ends."""
        begin, energy = state.time, state.energy

        def at(time: float) -> Point:
            point = way(duration if time >= end else time - begin)
            return Point(point.weights, energy + point.energy, self._stepper.log_loss_at(point.weights))

        last = at(end)
        kept = {name: getattr(state, name) for name in _KEPT}
        self._state = self._stepper.start(last.weights, end)._replace(energy=last.energy, **kept)
        return Piece(begin, end, at, how, accepted=0)

    # What it has to say

    def counts(self) -> Counts:
        """What it has cost so far; a product of the Hessian with a vector counts as two gradients."""
        state = self._state
        accepted, rejected, chattered = state.accepted, state.rejected, state.chattered
        return Counts(
            evaluations=self._stepper.evaluations + 2 * self._watch.products,
            accepted=accepted,
            rejected=rejected,
            chattered=chattered,
            smallest_step=state.smallest,
            chatter_step=state.chatter_step if chattered else 0.0,
            local_errors=state.local_errors,
            work=self._gradient * (self._stepper.evaluations + 2 * self._watch.products),
        )

    def remark(self) -> str:
        """On what was in closed form, and on chattering."""
        counts, chatter = self.counts(), ""
        if counts.chattered:
            chatter = _status.chattered(counts.chattered, counts.accepted, counts.chatter_step)
        return " ".join(filter(None, (self._leapt, self._rested, chatter)))

    def events(self) -> Switches | None:
        """Not known: steps pass over them."""
        return None

    def admissibility(self) -> float:
        """Does not apply: nothing is held on a line."""
        return math.nan


def begin(plan: Plan, method: str) -> tuple[Adaptive | Standing, bool]:
    """Who takes the steps, and whether line by line; a start that nothing moves needs none."""
    steps = Adaptive(plan, method)
    return Standing(plan) if not steps.moves and stands_still(plan) else steps, steps.by_line
