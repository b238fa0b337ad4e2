"""Adaptive steps as an integrator: the compiled loop, and the two ends of a run that need no steps.

A run begins with the early phase in closed form where there is one (``_early_jump``), goes on by steps (``_stepper``),
and ends in closed form where it comes to rest (``_rest_watch``, ``_steady``).
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from biasfree.dynamics import _field, _status, _stepper
from biasfree.dynamics._compiling import announced
from biasfree.dynamics._early_jump import EarlyJump
from biasfree.dynamics._pieces import Budget, Counts, Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._rest_watch import RestWatch
from biasfree.dynamics._status import Status
from biasfree.switching import Switches

# What a state keeps when the weights are moved by closed form; all else is of the place it is at.
_KEPT = ("step", "accepted", "rejected", "smallest", "caution", "chattered", "chatter_step")


class Adaptive:
    """Runge–Kutta steps of adapted size."""

    dense = False

    def __init__(self, plan: Plan, method: str) -> None:
        """Take ``method``'s steps; the first piece compiles them."""
        whole = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
        self._plan, self._method = plan, method
        self._problem = _field.by_moments(whole, plan.network, plan.loss)
        self._kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
        self._early, self._watch = EarlyJump(plan), RestWatch(plan)
        self._state: _stepper.State | None = None
        self._control: _stepper.Control | None = None
        self._leapt = self._rested = ""

    def advance(self, budget: Budget) -> Piece:
        """Go on, within the budget."""
        first = self._state is None
        if self._state is None or self._control is None:
            with announced("adaptive steps"):
                self._state, self._control = self._begin()
        state, control = self._state, self._control
        if first and float(control.initial_log_loss) <= self._plan.stop.level > -math.inf:
            return self._standing(state, ended=_status.at_level_from_start())
        return self._leap(state, control) or self._rest(state, control) or self._steps(state, control, budget)

    # The pieces

    def _begin(self) -> tuple[_stepper.State, _stepper.Control]:
        plan = self._plan
        weights = tuple(jnp.asarray(layer) for layer in plan.network.weights)
        control = _stepper.Control(
            rtol=jnp.asarray(plan.rtol, dtype=float),
            atol=jnp.asarray(plan.atol, dtype=float),
            smallest_step=jnp.asarray(plan.smallest_step, dtype=float),
            initial_log_loss=_field.compiled_log_loss(weights, self._problem, kind=self._kind),
            stop_log_loss=jnp.asarray(plan.stop.level, dtype=float),
        )
        state = self._started(weights, control, plan.start)
        # Compiled here, by steps of none, so that what is announced is compiling alone.
        return jax.block_until_ready(self._call(state, control, Budget(plan.start, 0, 0))), control

    def _started(self, weights: Any, control: _stepper.Control, time: float) -> _stepper.State:
        return _stepper.start(weights, self._problem, control, time, kind=self._kind, method=self._method)

    def _call(self, state: _stepper.State, control: _stepper.Control, budget: Budget) -> _stepper.State:
        return _stepper.advance(
            state, self._problem, control, budget.until, budget.pause, budget.steps, budget.attempts,
            kind=self._kind, method=self._method,
        )  # fmt: skip

    def _steps(self, state: _stepper.State, control: _stepper.Control, budget: Budget) -> Piece:
        before = int(state.accepted)
        looks = [
            watch.next_look - before
            for watch, off in ((self._watch, self._watch.off), (self._early, self._early.over))
            if not off
        ]
        begin = float(state.time)
        state = self._call(state, control, budget._replace(steps=min([budget.steps, *looks])))
        self._state = state
        return self._standing(state, begin, int(state.accepted) - before, self._ended(state))

    def _standing(
        self, state: _stepper.State, begin: float | None = None, accepted: int = 0, ended: Status | None = None
    ) -> Piece:
        """A piece of steps, known at its end."""
        time = float(state.time)

        def at(_: float) -> Point:
            return Point(tuple(np.asarray(w) for w in state.weights), float(state.energy))

        return Piece(time if begin is None else begin, time, at, self._method, accepted, dense=False, ended=ended)

    def _ended(self, state: _stepper.State) -> Status | None:
        axis, time = self._plan.axis, float(state.time)
        if bool(state.failed):
            return (_status.not_finite if bool(state.overflowed) else _status.no_smaller_step)(axis, time)
        return _status.at_level(axis, time) if bool(state.level_reached) else None

    def _leap(self, state: _stepper.State, control: _stepper.Control) -> Piece | None:
        """The early phase, once it is the cheaper way."""
        accepted, time = int(state.accepted), float(state.time)
        if self._early.over or accepted < self._early.next_look:
            return None
        evaluations = _stepper.evaluations(self._method, accepted + int(state.rejected))
        leap = self._early.look(state.weights, time, accepted, evaluations, float(control.initial_log_loss))
        if leap is None:
            return None
        end = self._end_of(time, leap.duration)
        self._leapt = (
            f"The early phase from {self._plan.axis} = {time:.6g} to {end:.6g} is in closed form, with "
            f"{leap.switches} switches."
        )
        return self._jump(state, control, end, leap.at, leap.duration)

    def _rest(self, state: _stepper.State, control: _stepper.Control) -> Piece | None:
        """The end, or a part of the way to it, in closed form."""
        if not self._watch.due(int(state.accepted)):
            return None
        time, speed = float(state.time), math.sqrt(float(state.squared_speed))
        coming = self._watch.look(
            state.weights, time, float(state.step), speed, int(state.accepted), self._problem, self._kind
        )
        if coming is None:
            return None

        def at(elapsed: float) -> Point:
            weights = coming.rest.weights(elapsed)
            return Point(tuple(np.asarray(w) for w in weights), coming.rest.energy(elapsed))

        if coming.final and self._plan.stop.converged:
            # Asked to stop there, the run jumps to its end.
            last, energy = at(coming.duration), float(state.energy)
            point = last._replace(energy=energy + last.energy)
            after = math.nextafter(time, math.inf)
            return Piece(time, after, lambda _: point, "coming to rest", ended=_status.converged(time))
        if coming.final:
            self._rested = f"It was coming to rest, in closed form, from t = {coming.since:.6g} on."
        return self._jump(state, control, self._end_of(time, coming.duration), at, coming.duration, "coming to rest")

    def _end_of(self, time: float, duration: float) -> float:
        """Where a closed form ends; the run's end is met exactly."""
        return self._plan.until if duration >= self._plan.until - time else time + duration

    def _jump(
        self,
        state: _stepper.State,
        control: _stepper.Control,
        end: float,
        way: Callable[[float], Point],
        duration: float,
        how: str = "closed form",
    ) -> Piece:
        """A piece known in closed form; the steps go on where it ends."""
        begin, energy = float(state.time), float(state.energy)

        def at(time: float) -> Point:
            point = way(duration if time >= end else time - begin)
            return point._replace(energy=energy + point.energy)

        last = at(end)
        fresh = self._started(tuple(map(jnp.asarray, last.weights)), control, end)
        kept = {name: getattr(state, name) for name in _KEPT}
        self._state = fresh._replace(energy=jnp.asarray(last.energy, float), **kept)
        return Piece(begin, end, at, how)

    # What it has to say

    def counts(self) -> Counts:
        """What it has cost so far; a product of the Hessian with a vector counts as two gradients."""
        state = self._state
        if state is None:
            return Counts(0, 0)
        accepted, rejected, chattered = int(state.accepted), int(state.rejected), int(state.chattered)
        return Counts(
            evaluations=_stepper.evaluations(self._method, accepted + rejected) + 2 * self._watch.products,
            accepted=accepted,
            rejected=rejected,
            chattered=chattered,
            smallest_step=float(state.smallest),
            chatter_step=float(state.chatter_step) if chattered else 0.0,
        )

    def remark(self) -> str:
        """On what was in closed form, and on chattering."""
        counts, chatter = self.counts(), ""
        if counts.chattered:
            chatter = (
                f"It chattered: in {counts.chattered} of {counts.accepted} steps, the smallest of them "
                f"{counts.chatter_step:.3g}, neurons crossed an activation boundary straight back; where they slide "
                "along it, they are followed to about such a step only."
            )
        return " ".join(filter(None, (self._leapt, self._rested, chatter)))

    def events(self) -> Switches | None:
        """Not known: steps pass over them."""
        return None

    def admissibility(self) -> float:
        """Does not apply: nothing is held on a line."""
        return math.nan
