"""The exact flow of a two-layer network: an integrator that goes from event to event, merging neurons as it goes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from biasfree.dynamics._pieces import Budget, Counts, Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._status import Status
from biasfree.dynamics.exact2._carried import Carried, Noted
from biasfree.dynamics.exact2._data import Data, by_line, by_moments
from biasfree.dynamics.exact2._early import Early, early_phase, spectral_norm
from biasfree.dynamics.exact2._events import Event, Stretch, search
from biasfree.dynamics.exact2._field import pulls_of, velocity
from biasfree.dynamics.exact2._kernels import Limits, Trial
from biasfree.dynamics.exact2._late import LARGEST, LateStep
from biasfree.dynamics.exact2._steps import SAFETY, Pace, take, through, within
from biasfree.lines import Lines, lines
from biasfree.switching import Switches

_THREADS = ThreadpoolController()
_MERGE_EVERY, _MERGE_SOON, _MERGE_SELDOM = 25, 4, 400  # steps between looks for parallel neurons
_WATCH = 8  # steps between looks whether a group has come apart
_MANY_GROUPS = 200  # groups from which they are looked for soon: they make steps costly
_STIFF = 12  # steps held by stability after which exponential steps are tried
_WORTH = 30.0  # explicit steps that an exponential one must be worth: it costs about as much (measured)
_LATER = 200  # explicit steps after exponential ones were not worth it
_LATE_ERROR = 0.1  # part of a step's tolerance for exponential steps, which are few and long
_LIGHT = 1e-3  # part of rtol of the squared weights below which a row is a light one in the late phase
_OVERHEAD = 12_000  # multiplications that cost as much as a step's bookkeeping (measured)
_FLOOD = 1000  # events without a step of time among them after which the flow is stuck
_UNRESOLVED = -1e9  # ln L beyond which float64 does not tell margins apart
_SMALL = 500  # lines × neurons up to which explicit steps go through the early phase too
_MOST_EVENTS = 1_000_000  # rows of the table of events


@dataclass(frozen=True)
class _View:
    """How to read rows of one grouping: what a piece needs to give networks."""

    carried_groups: Any
    still: np.ndarray
    still_neurons: np.ndarray
    data: Data
    side: np.ndarray
    decay: float
    since: float
    still_square: float

    def point(self, z: np.ndarray, energy: float, time: float) -> Point:
        dim, fade = self.data.directions.shape[1], math.exp(-self.decay * (time - self.since)) if self.decay else 1.0
        neurons = self.carried_groups.restored(z)
        neurons[self.still] = fade * self.still_neurons
        energy += 0.5 * self.decay * self.still_square * (1 - fade**2)
        level = float(pulls_of(z, self.data, self.side).level)
        return Point((neurons[:, :dim], np.ascontiguousarray(neurons[:, dim:].T)), energy, level)


class Exact:
    """Integrates one run; see ``Integrator``."""

    dense = True

    def __init__(self, plan: Plan) -> None:
        """Group the samples by line; the first piece goes through the early phase."""
        self.plan, self.time, self.energy = plan, plan.start, 0.0
        network = plan.network
        first, second = (np.asarray(layer, dtype=float) for layer in network.weights)
        self._start = np.column_stack([first, second.T])
        self._slope = 1.0 if network.is_linear else float(network.slope)
        self._lines = lines(plan.dataset.inputs)
        self._data = by_line(self._lines, plan.dataset, self._slope, plan.loss, plan.clock, plan.weight_decay)
        self._carried: Carried | None = None
        self._noted: list[tuple[float, Noted]] = []
        self._early_events: list[tuple[float, int, int, str]] = []
        self._inadmissible = 0.0
        self._still_energy = 0.0
        self._flood = 0
        self.pace = Pace(0.0)

    # The protocol

    def advance(self, budget: Budget) -> Piece:
        """Go on by one step, or through one phase."""
        # Threads of the linear algebra would cost more than they give: all matrices are small.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._carried is None:
                with _THREADS.limit(limits=1, user_api="blas"):
                    return self._begin(budget)
            return self._next(budget)

    def counts(self) -> Counts:
        """What it has cost so far."""
        pace = self.pace
        return Counts(pace.evaluations, pace.accepted, pace.rejected, smallest_step=pace.smallest)

    def events(self) -> Switches:
        """What every neuron did at which line and when."""
        rows = sum(len(noted.neurons) for _, noted in self._noted)
        events = list(self._early_events)
        for time, noted in self._noted:
            members = noted.neurons if rows <= _MOST_EVENTS else noted.neurons[:1]
            events += [(time, int(neuron), noted.line, noted.kind) for neuron in members]
        return Switches.of(events)

    def admissibility(self) -> float:
        """The largest inadmissible slide so far."""
        return self._inadmissible

    def remark(self) -> str:
        """A word on the events."""
        table = self.events()
        text = f" Events: {table}." if len(table) else ""
        if (table.kinds == "branch").any():
            text += (
                " At a branch the flow is not unique (v of a sliding neuron vanished, or its w); one stated rule was"
                " followed."
            )
        return text

    # Beginning

    def _begin(self, budget: Budget) -> Piece:
        plan, neurons = self.plan, self._start
        early = self._early_phase(neurons, budget) if np.isfinite(neurons).all() else None
        began = self.time
        if early is not None:
            self._early_events = [(began + t, h, line, kind) for t, h, line, kind in early.events]
            neurons, self.energy = early.at(early.time), early.energy(early.time)
            self.time = min(began + early.time, budget.until)
        data = self._data
        if data.b == 0 and plan.loss == "square":
            data = by_moments(plan.dataset, plan.weight_decay, 1.0)
        self._symmetric = plan.loss == "square" and self._lines.pairs_up(np.asarray(plan.dataset.targets))
        self._carry(neurons, data)
        first_level = self._level()
        self._limits = Limits(
            SAFETY * plan.rtol, plan.atol, 1.0 if plan.clock == "loss" else math.exp(min(first_level, 700.0))
        )
        self._merged_at, self._merge_wait, self._next_late, self._length = 0, self._soonest_merge, 0, 0.0
        self._late, self._last_event, self._next_look = False, self.time, 1
        self.pace.long = self._first_step(plan.until - self.time)
        if early is not None:
            scale, zero = self._early_scale()
            level = plan.stop.level

            def at(time: float) -> Point:
                now = early.at(time - began)
                dim = self._lines.directions.shape[1]
                value = zero - scale * early.gain(time - began)
                return Point((now[:, :dim], now[:, dim:].T), early.energy(time - began), math.log(value))

            ended = None
            if level > -math.inf and at(self.time).log_loss <= level:  # the loss hardly moves here
                ended = Status("loss level", f"the loss fell to the level asked for at {plan.axis} = {self.time:.6g}.")
            return Piece(began, self.time, at, "early phase in closed form", 0, True, ended)
        view = self._view()
        z, energy = self._now.z, self.energy
        return Piece(began, began, lambda time: view.point(z, energy, time), "start", 0, True, self._ended_at_once())

    def _ended_at_once(self) -> Status | None:
        if not np.isfinite(self._now.z).all() or math.isnan(self._level()):
            return Status("not finite", "the start is too large for float64. Start smaller, or rescale the data.")
        return None

    @property
    def _now(self) -> Carried:
        assert self._carried is not None
        return self._carried

    def _early_scale(self) -> tuple[float, float]:
        """What rates are divided by, and L of f = 0."""
        nothing = pulls_of(np.zeros((0, self._start.shape[1])), self._data, np.zeros((0, len(self._lines))))
        zero = math.exp(float(nothing.level))
        return (zero if self.plan.clock == "loss" else 1.0), zero

    def _early_phase(self, neurons: np.ndarray, budget: Budget) -> Early | None:
        plan, grouped = self.plan, self._lines
        if not len(grouped):
            return None
        felt = self._slope < 1 and grouped.pulls(np.asarray(plan.dataset.targets, dtype=float))[2].size > 0
        if felt and len(grouped) * len(neurons) <= _SMALL:
            return None
        scale, _ = self._early_scale()
        return early_phase(
            neurons, grouped, np.asarray(plan.dataset.targets, dtype=float),
            spectral_norm(np.asarray(plan.dataset.inputs)), slope=self._slope, loss=plan.loss,
            decay=plan.weight_decay / scale, scale=scale, rtol=plan.rtol, until=budget.until - self.time,
        )  # fmt: skip

    def _carry(self, neurons: np.ndarray, data: Data) -> None:
        if self._carried is None:
            self._carried = Carried(neurons, data, self.plan.rtol)
        else:
            self._still_energy += self._view().point(self._now.z, 0.0, self.time).energy
            self._carried.begin(neurons, data)
        self._still_since = self.time
        self._moved()

    def _view(self) -> _View:
        now, plan = self._now, self.plan
        return _View(
            now.groups, now.still, now.still_neurons, now.data, now.pattern.side,
            plan.weight_decay if plan.clock == "time" else 0.0, self._still_since, now.still_square,
        )  # fmt: skip

    def _moved(self) -> None:
        """The rows or their pattern are others than the last step left them: its velocity is of no use."""
        now = self._now
        found = now.pulls()
        self._trial = Trial.room(*now.z.shape, now.active, now.dim)
        moving = velocity(now.z, found, now.pattern)
        self.pace.overhead = _OVERHEAD / max(1, now.active * now.pattern.side.shape[1] * now.z.shape[1])
        self._trial.stages[0] = moving
        self._trial.powers[0] = float(np.sum(moving[: now.active] ** 2))

    def _first_step(self, left: float) -> float:
        moved = float(np.abs(self._trial.stages[0]).max(initial=0.0))
        if moved == 0:
            return left if math.isfinite(left) else 1.0
        return min(0.05 * float(np.abs(self._now.z).max()) / moved, left) or 1e-300

    def _level(self) -> float:
        return float(self._now.pulls().level)

    # Going on

    def _next(self, budget: Budget) -> Piece:
        began = self.time
        left = budget.until - began
        if self._trial.powers[0] == 0 and not self._trial.stages[0].any():
            return self._stands_still(budget)
        if self.pace.accepted >= self._next_look:
            with _THREADS.limit(limits=1, user_api="blas"):
                rested = self._look_for_rest(budget)
            if rested is not None:
                return rested
        if self._late or (self.pace.stiff >= _STIFF and self._may_be_late(left)):
            with _THREADS.limit(limits=1, user_api="blas"):
                piece = self._late_step(budget)
            if piece is not None:
                return piece
        piece = self._explicit_step(left, budget.until)
        if piece.ended is None:
            self._look_around()
        return piece

    def _may_be_late(self, left: float) -> bool:
        now = self._now
        fits = now.active * now.z.shape[1] <= LARGEST and not (now.data.by_loss and now.data.decay > 0)
        return fits and self.pace.accepted >= self._next_late and left > _WORTH * self.pace.long

    def _explicit_step(self, left: float, until: float) -> Piece:
        now, pace, plan, began = self._now, self.pace, self.plan, self.time
        limits = self._limits
        if now.data.by_loss:
            # Residuals are e^{−m}/L: what counts is a margin's own error, not its relative one.
            limits = limits._replace(rtol=limits.rtol / max(1.0, -self._level()))
        taken = None
        while taken is None:
            if not pace.method()[1] > 1e-15 * began + 1e-300 or pace.accepted + pace.rejected > plan.max_steps:
                return self._failed()
            taken = take(now.z, self.energy, left, now.data, now.pattern, now.form(), limits, pace, self._trial)
        length, view, before = taken.length, self._view(), self.energy
        level, radius = plan.stop.level, now.radius()
        event, beyond, near = search([Stretch(0.0, length, taken.curve)], now.data, now.pattern, level, radius)
        if now.split(near, radius, pace.long):
            self._moved()
            return self._explicit_step(left, until)
        self._inadmissible = max(self._inadmissible, beyond)
        corrected, how = None, f"explicit steps of order {taken.order}"
        if event is not None and event.crossed is not None:
            corrected = through(taken, event.crossed, now.data, now.pattern, limits, level)
        if corrected is not None:
            event = None
            for when in (self._note(began + x * length, now.cross(corrected.pairs[k : k + 1])) for k, x in enumerate(corrected.times)):  # noqa: E501
                pass
            now.z, self.energy = corrected.z, float(taken.energies[-1]) + corrected.energy
            arrival = length
        elif event is None:
            now.z, self.energy, arrival = taken.curve[-1].copy(), float(taken.energies[-1]), length
        else:
            arrival = event.time
            now.z, self.energy = within(taken, None, arrival / length)
        self.time = until if arrival >= left else began + arrival
        ended = self._after(event, began)
        if event is None and corrected is None:
            self._trial.stages[0] = self._trial.stages[12 if taken.order == 8 else 3]
            self._trial.powers[0] = self._trial.powers[12 if taken.order == 8 else 3]
            pace.free()
        else:
            self._moved()
        if not math.isfinite(self.energy) or not np.isfinite(self._now.z).all():
            ended = Status("not finite", f"the weights stopped being finite beyond {plan.axis} = {began:.6g}.")

        def at(time: float) -> Point:
            x = min(max((time - began) / length, 0.0), arrival / length)
            return view.point(*within(taken, corrected, x), time)

        del before
        return Piece(began, self.time, at, how, 1, True, ended)

    def _note(self, time: float, noted: list[Noted]) -> None:
        self._noted += [(time, each) for each in noted]

    def _after(self, event: Event | None, began: float) -> Status | None:
        """What follows from an event."""
        if event is None:
            self._flood = 0
            return None
        plan = self.plan
        if event.kind == "level":
            return Status("loss level", f"the loss fell to the level asked for at {plan.axis} = {self.time:.6g}.")
        none = np.zeros(0, dtype=np.int64)
        self._note(self.time, self._now.decide(event.row, none if event.lines is None else event.lines))
        self._flood = self._flood + 1 if self.time <= began * (1 + 1e-14) else 0
        self.pace.met_event(self.time - self._last_event)
        self._last_event = self.time
        if self._flood > _FLOOD + 4 * self._now.active:
            return Status("stuck", f"stuck at {plan.axis} = {self.time:.6g} by events without end. Use another method.")
        return None

    def _failed(self) -> Piece:
        view, z, energy = self._view(), self._now.z, self.energy
        if self.pace.accepted + self.pace.rejected > self.plan.max_steps:
            ended = Status(
                "step limit",
                f"stopped at {self.plan.axis} = {self.time:.6g} after {self.plan.max_steps} steps. Try increasing "
                "max_steps, or a larger rtol.",
            )
        else:
            ended = Status(
                "stuck",
                f"stuck at {self.plan.axis} = {self.time:.6g}: steps became too small for float64. Rescale the data, or "
                "use another method.",
            )
        return Piece(self.time, self.time, lambda time: view.point(z, energy, time), "explicit steps", 0, True, ended)

    def _look_around(self) -> None:
        """Merge what has become parallel, and let go what has come apart."""
        now = self._now
        since = self.pace.accepted - self._merged_at
        if since % _WATCH == 0 and now.parted():
            now.regroup()
            self._moved()
        elif since >= self._merge_wait:
            self._merged_at = self.pace.accepted
            if self._symmetric and not now.linear and now.even_part_is_gone():
                self._carry(self._neurons(), by_moments(self.plan.dataset, self.plan.weight_decay, now.data.a))
                return
            before = now.z
            soon = now.merge(self.pace.long) or now.riders.size
            self._merge_wait = self._soonest_merge if soon else min(2 * self._merge_wait, _MERGE_SELDOM)
            if now.z is not before:
                self._moved()

    def _neurons(self) -> np.ndarray:
        first, second = self._view().point(self._now.z, 0.0, self.time).weights
        return np.column_stack([first, second.T])

    @property
    def _soonest_merge(self) -> int:
        many = len(self._now.groups.groups) > _MANY_GROUPS or self._now.riders.size
        return _MERGE_SOON if many else _MERGE_EVERY

    # The late phase, and rest

    def _stands_still(self, budget: Budget) -> Piece:
        """Nothing moves at all: a stationary point, held for good."""
        view, z, energy, plan = self._view(), self._now.z, self.energy, self.plan
        began = self.time
        ended = None
        if plan.stop.converged:
            ended = Status("converged", f"converged at {plan.axis} = {began:.6g}: a stationary point, nothing moves.")
        else:
            self.time = budget.until
        return Piece(began, self.time, lambda time: view.point(z, energy, time), "at rest", 0, True, ended)

    def _look_for_rest(self, budget: Budget) -> Piece | None:
        now, pace = self._now, self.pace
        self._next_look = pace.accepted + 5 + pace.accepted // 10
        moving = float(np.abs(self._trial.stages[0]).max(initial=0.0))
        slow = 50 * pace.long * moving <= 1e-2 * float(np.abs(now.z).max(initial=0.0))
        fits = now.active * now.z.shape[1] <= LARGEST and not now.data.by_loss
        if not (slow and fits):
            return None
        left = budget.until - self.time
        horizon = left if math.isfinite(left) else 10 * max(self.time, 1.0)
        step = LateStep(now.z, now.data, now.pattern, 0.0)
        pace.evaluations += step.evaluations
        if not step.rests(horizon, 1e-3 * self.plan.rtol):
            return None
        return self._rests(step, horizon, budget)

    def _rests(self, step: LateStep, horizon: float, budget: Budget) -> Piece:
        """The flow is at rest for good: the linearised flow stands for the remaining time."""
        now, plan, view, began, energy = self._now, self.plan, self._view(), self.time, self.energy
        step.length = horizon
        step._ways = []

        def at(time: float) -> Point:
            return view.point(step.at(time - began), energy + step.energy(time - began), time)

        ended = None
        if plan.stop.converged:
            ended = Status("converged", f"converged at t = {began:.6g}; the last state is where the flow comes to rest.")
            now.z, self.energy = step.at(horizon), energy + step.energy(horizon)
            last, final = now.z, self.energy
            end = math.nextafter(began, math.inf)
            self.time = end
            return Piece(
                began, end, lambda time: view.point(last, final, time) if time > began else at(began), "at rest", 0,
                True, ended,
            )  # fmt: skip
        now.z, self.energy = step.at(budget.until - began), energy + step.energy(budget.until - began)
        self.time = budget.until
        self._moved()
        return Piece(began, self.time, at, "at rest", 0, True, ended)

    def _late_step(self, budget: Budget) -> Piece | None:
        """One exponential step; None where explicit ones are worth more."""
        now, plan, pace = self._now, self.plan, self.pace
        began, left, energy, explicit = self.time, budget.until - self.time, self.energy, pace.long
        rtol, atol = _LATE_ERROR * self._limits.rtol, self._limits.atol
        step = LateStep(now.z, now.data, now.pattern, _LIGHT * plan.rtol)
        if not self._late:
            self._length = 2 * _WORTH * explicit
        length, error = self._length, np.inf
        for _ in range(8):
            length = min(length, step.longest(), left)
            error = step.try_length(length, rtol, atol)
            if error <= 1 or length < _WORTH * explicit:
                break
            pace.rejected += 1
            length *= max(0.1, 0.9 * error ** (-1 / 4))
        pace.evaluations += step.evaluations
        ways = step.stretches() if error <= 1 else []
        worth = bool(ways) and (step.length_used >= min(_WORTH * explicit, left))
        if not worth:
            self._late, self._next_late, pace.stiff = False, pace.accepted + _LATER, 0
            return None
        self._late = True
        level, view = plan.stop.level, self._view()
        radius = now.radius()
        event, beyond, near = search(ways, now.data, now.pattern, level, radius)
        if now.split(near, radius, explicit):
            self._moved()
            return None
        self._inadmissible = max(self._inadmissible, beyond)
        arrival = step.length_used if event is None else event.time
        now.z, self.energy = step.at(arrival), energy + step.energy(arrival)
        self.time = budget.until if arrival >= left else began + arrival
        pace.accepted += 1
        self._length = length * min(5.0, 0.9 * max(error, 1e-9) ** (-1 / 4))
        ended = self._after(event, began)
        if now.parted():
            now.regroup()
        self._moved()

        def at(time: float) -> Point:
            elapsed = min(max(time - began, 0.0), arrival)
            return view.point(step.at(elapsed), energy + step.energy(elapsed), time)

        return Piece(began, self.time, at, "exponential steps", 1, True, ended)
