"""The exact flow of a two-layer network: early phase in closed form, then from event to event, merging as it goes."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from biasfree.datasets import Dataset
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._settings import Progress, ProgressCallback, Status, axis
from biasfree.dynamics._trajectory import Counts
from biasfree.dynamics.exact import _steps
from biasfree.dynamics.exact._early import early_phase, spectral_norm
from biasfree.dynamics.exact._field import Data, log_loss_of
from biasfree.dynamics.exact._late import LARGEST, Step, first_event
from biasfree.dynamics.exact._reduced import Reduced
from biasfree.dynamics.exact._samples import by_moments, grouped_data, outputs
from biasfree.lines import Lines, lines
from biasfree.networks import Network
from biasfree.switching import Switches

_THREADS = ThreadpoolController()
_QUOTA, _SAVES, _MERGE_EVERY, _MERGE_SOON = 200, 64, 25, 8
_SAFETY = 0.3  # part of rtol that a step may spend
_UNRESOLVED = -1e9
_DECISIONS = 3000
_PATIENCE, _HARDLY = 20_000, 1e-8  # attempts after which so small a part of the way is no way at all
_MANY_GROUPS = 200
_FLOOD = 1000  # events without a step of time among them
_CROWDED, _NOT_AGAIN = 8.0, 20  # events to a step from which steps are short; steps to wait after one was too long


@dataclass
class Outcome:
    """What a run leaves."""

    recorder: Recorder
    counts: Counts
    status: Status
    events: Switches


def integrate(
    network: Network,
    weights: Any,
    dataset: Dataset,
    settings: dict[str, Any],
    points: np.ndarray | None,
    progress: ProgressCallback | None,
    start: float = 0.0,
) -> Outcome:
    """Integrate from ``weights`` at ``start``; see ``gradient_flow`` for the settings."""
    # Threads of the linear algebra would cost more than they give: all matrices are small.
    with _THREADS.limit(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        return _integrate(_Run(network, weights, dataset, settings, points, start), settings, progress)


def _integrate(run: "_Run", settings: dict[str, Any], progress: ProgressCallback | None) -> Outcome:
    try:
        while run.status is None:
            run.advance()
            if progress is not None:
                progress(Progress(run.time, settings["until"], run.accepted, math.exp(min(run.net.log_loss(), 700.0))))
    except KeyboardInterrupt:
        run.keep(force=True)
        run.end("interrupted", f"interrupted at {run.axis} = {run.time:.6g}; all until then is kept.")
    assert run.status is not None
    counts = Counts(run.evaluations, run.accepted, run.rejected)
    return Outcome(run.recorder, counts, run.told(), Switches.of(run.events))


@dataclass
class _Run:
    network: Network
    weights: Any
    dataset: Dataset
    settings: dict[str, Any]
    points: np.ndarray | None
    time: float
    status: Status | None = None
    events: list[tuple[float, int, int, str]] = field(default_factory=list)
    accepted: int = 0
    rejected: int = 0
    decided: int = 0
    evaluations: int = 0

    def __post_init__(self) -> None:
        settings = self.settings
        self.axis = axis(settings["clock"])
        self.until = settings["until"]
        first, second = (np.asarray(w, dtype=float) for w in self.weights)
        neurons = np.column_stack([first, second[0]])
        slope = 1.0 if self.network.is_linear else self.network.slope
        grouped = lines(self.dataset.inputs)
        data = grouped_data(grouped, self.dataset, slope, settings)
        self.recorder = Recorder((first, second), self.points, self.until - self.time)
        neurons, energy, first_loss = self._start(neurons, grouped, slope, data)
        self.limits = _steps.Limits(
            _SAFETY * settings["rtol"],
            settings["atol"],
            1.0 if settings["clock"] == "loss" else max(math.exp(min(first_loss, 700.0)), 1e-300),
            settings["stop_log_loss"],
            0.4 * settings["rtol"],
            False,
        )
        if not np.isfinite(neurons).all():
            self._end_not_finite()
        if self.status is not None:
            neurons = np.zeros_like(neurons)  # nothing is left to do for them
        if data.b == 0 and settings["loss"] == "square":
            data = by_moments(self.dataset, settings)
        self.net = Reduced(neurons, energy, data, settings["rtol"])
        self.step = self._first_step()
        self.since_merge, self.wait_merge, self.still, self.next_late = 0, self._soonest_merge, 0, 0
        self.next_look, self.late, self.length, self.stiff = 1, False, 0.0, 0
        self.symmetric = settings["loss"] == "square" and grouped.pairs_up(np.asarray(self.dataset.targets))
        self.gap, self.last_event, self.next_short = math.inf, self.time, 0
        self.missing = self.recorder.steps_to_next
        if self.status is None and self.time >= self.until:
            self._finish()

    def _start(self, neurons: np.ndarray, grouped: Lines, slope: float, data: Data) -> tuple[np.ndarray, float, float]:
        """Go through the early phase, if there is one: neurons and energy at its end, and ln L at the start."""
        settings, begun = self.settings, self.time
        by_loss = settings["clock"] == "loss"
        nothing = np.zeros(len(grouped))
        at_zero = math.exp(log_loss_of(nothing, nothing, data))  # L of f = 0
        scale = at_zero if by_loss else 1.0
        early = None
        if len(grouped) and np.isfinite(neurons).all():
            early = early_phase(
                neurons, grouped, np.asarray(self.dataset.targets, dtype=float),
                spectral_norm(np.asarray(self.dataset.inputs)),
                slope=slope, loss=settings["loss"], decay=settings["weight_decay"] / scale, scale=scale,
                rtol=settings["rtol"], until=self.until - begun,
            )  # fmt: skip
        if early is None:
            first_loss = float(log_loss_of(*outputs(neurons, data), data))
        else:
            first_loss = math.log(at_zero - scale * early.gain(0.0))
        self._offer(begun, neurons, 0.0, first_loss, keep=not self.recorder.asked)
        # A run that ended at a level must not begin above it by rounding.
        if first_loss - 1e-12 <= settings["stop_log_loss"] > -math.inf:
            self._offer(begun, neurons, 0.0, first_loss, keep=True)
            self.end("loss level", "the loss was at the level asked for from the start.")
        elif not math.isfinite(first_loss) and first_loss > -math.inf:
            self._end_not_finite()
        if early is None or self.status is not None:
            return neurons, 0.0, first_loss
        self.events += [(begun + t, h, line, kind) for t, h, line, kind in early.events]
        while (wanted := min(self.recorder.next_time(self.until), self.recorder.pause)) <= begun + early.time:
            level = math.log(at_zero - scale * early.gain(wanted - begun))
            self._offer(wanted, early.at(wanted - begun), early.energy(wanted - begun), level, keep=False)
            if min(self.recorder.next_time(self.until), self.recorder.pause) <= wanted:
                break
        self.time = min(begun + early.time, self.until)
        return early.at(early.time), early.energy(early.time), first_loss

    def _first_step(self) -> float:
        moved = np.linalg.norm(self.net.velocity()[:-1])
        left = self.until - self.time
        if moved == 0:
            return left if math.isfinite(left) else 1.0
        return min(0.05 * float(np.linalg.norm(self.net.state[:-1]) / moved), left) or 1e-300

    # The loop

    def advance(self) -> None:
        """Some steps, and what follows from them."""
        if self.late:
            self._go_late()
        else:
            self._go_on()
        if self.status is None:
            self._look_around()

    def _go_on(self) -> None:
        """One call of the compiled loop."""
        recorder, net = self.recorder, self.net
        quota = _QUOTA if recorder.asked else min(_QUOTA, self.missing)
        quota = min(quota, max(1, self.wait_merge - self.since_merge))
        saves = recorder.upcoming(_SAVES)
        # There may be more to save beyond: no step may pass them.
        end = min(self.until, float(saves[-1])) if len(saves) == _SAVES else self.until
        log = _steps.Log(
            np.empty((min(len(saves), _SAVES), len(net.state))),
            np.empty((net.pattern.side.size + 16, 2), dtype=np.int64),
            np.empty(net.pattern.side.size + 16),
            np.zeros(1, dtype=np.int64),
        )
        began = self.time
        if net.data.by_loss:
            # Residuals are e^{−m}/L: what counts is a margin's own error, not its relative one.
            self.limits = self.limits._replace(rtol=_SAFETY * self.settings["rtol"] / max(1.0, -net.log_loss()))
        # Steps of a few events' distance, where that is far below the step that accuracy allows.
        dense = _CROWDED * self.gap < self.step and self.accepted >= self.next_short
        reach = 2.5 * self.gap if dense else 0.0
        limits = self.limits._replace(watch=self._may_be_late and self.accepted >= self.next_late)
        state, time, step, self.stiff, left, why, neuron, line, accepted, rejected, saved, crossed = _steps.advance(
            net.state, self.time, self.step, self.stiff, reach, end, quota, saves, net.data, net.pattern,
            net.form(), limits, log,
        )  # fmt: skip
        self.evaluations += int(log.spent[0])
        if reach > 0 and left == 0:
            self.next_short = self.accepted + _NOT_AGAIN
        net.state, self.time, self.step = state, float(time), float(step)
        self.accepted += accepted
        self.rejected += rejected
        self.missing -= accepted
        self.since_merge += accepted
        self.still = 0 if time > began * (1 + 1e-14) else self.still + 1
        if why in (_steps.MET, _steps.FULL, _steps.TURNED) and self.time > self.last_event:
            since = self.time - self.last_event
            self.gap, self.last_event = since if self.gap == math.inf else 0.7 * self.gap + 0.3 * since, self.time
        for index in range(saved):
            kept = log.saved[index]
            self._offer(float(saves[index]), net.neurons(kept), float(kept[-1]), net.log_loss(kept), keep=False)
        for index in range(crossed):
            who = net.groups.representatives[log.crossed[index, 0]]
            self.events.append((float(log.crossed_at[index]), who, int(log.crossed[index, 1]), "cross"))
        if self.missing <= 0 and not recorder.asked:
            self.keep()
            self.missing = recorder.steps_to_next
        if why == _steps.REACHED and self.time >= self.until:
            self._finish()
        elif why == _steps.LEVEL:
            self._end_at_level()
        elif why == _steps.FAILED:
            self.keep(force=True)
            self._end_not_finite()
        elif why == _steps.STIFF:
            self.late, self.length, self.stiff = True, 4 * self.step, 0
        elif why == _steps.PARTED:
            net.regroup()
        elif why == _steps.MET:
            self._decide(int(neuron), np.array([line]))
        elif why in (_steps.FULL, _steps.TURNED):
            self._decide(int(neuron), None, turned=why == _steps.TURNED)
        soon = why == _steps.MET and self.since_merge >= _MERGE_SOON and self.wait_merge == _MERGE_EVERY
        if self.status is None and (self.since_merge >= self.wait_merge or soon):
            self._merge()

    def _look_around(self) -> None:
        """Whether to end: at rest, out of patience, out of precision, or out of reach."""
        attempts = self.accepted + self.rejected
        limit = _DECISIONS + 2 * self.net.groups.width * len(self.net.data.directions)
        if self.settings["stop_converged"] and self.accepted >= self.next_look:
            self._look_for_rest()
        if self.status is not None:
            return
        if attempts >= self.settings["max_steps"]:
            self._cut_short(
                "step limit",
                f"after {self.settings['max_steps']} steps. Try increasing max_steps, or a larger rtol.",
            )
        elif attempts >= _PATIENCE and math.isfinite(self.until) and self.time < _HARDLY * self.until:
            self._cut_short(
                "step limit",
                f"for at this pace {self.axis} = {self.until:g} is out of reach. "
                "The problem is too stiff; rescale the data, or ask for a shorter time.",
            )
        elif self.net.data.by_loss and self.net.log_loss() < _UNRESOLVED:
            self._cut_short(
                "precision limit",
                f"ln L = {self.net.log_loss():.3g}: float64 does not tell margins of this size apart. Stop at a "
                "log-loss level above it.",
            )
        elif self.still > _FLOOD or self.decided > limit:
            self._cut_short("stuck", "by events without end. Use another method.")

    def _cut_short(self, name: str, why: str) -> None:
        self.keep(force=True)
        self.end(name, f"stopped at {self.axis} = {self.time:.6g} {why}")

    @property
    def _soonest_merge(self) -> int:
        """Steps until grouping is worth a try: many groups make steps dear, and riders are to be watched."""
        many = len(self.net.groups.groups) > _MANY_GROUPS or self.net.riders.size
        return _MERGE_EVERY // 6 if many else _MERGE_EVERY

    @property
    def _may_be_late(self) -> bool:
        return self.net.entries <= LARGEST and not (self.net.data.by_loss and self.net.data.decay > 0)

    def _go_late(self) -> None:
        """Exponential steps for as long as they are the longer ones."""
        explicit, length = self.step, self.length
        # Fast directions are damped, not excited: margins are safe with the plain tolerance.
        rtol, atol = 0.1 * _SAFETY * self.settings["rtol"], self.limits.atol
        for _ in range(_QUOTA):
            if self.status is not None:
                return
            self.length = length
            step = Step.of(self.net.state, self.net.data, self.net.pattern, 1e-3 * self.settings["rtol"])
            self.evaluations += 1 + len(step.index)
            if self._rests(step):
                return
            for _ in range(10):
                length = min(length, step.longest(), self.until - self.time)
                error = step.try_length(length, rtol, atol)
                self.evaluations += 2
                if error <= 1:
                    break
                self.rejected += 1
                length *= max(0.1, 0.9 * error ** (-1 / 4))
            if not error <= 1 or (length < 2 * explicit and length < self.until - self.time):
                self.late, self.next_late = False, self.accepted + 50
                return
            while step.outgrown(length):
                length *= 0.5
                error = step.try_length(length, rtol, atol)
            event = first_event(step, length, self.limits.level)
            arrival = length if event is None else event.time
            began, reached = self.time, self.until if arrival >= self.until - self.time else self.time + arrival
            while (wanted := min(self.recorder.next_time(self.until), self.recorder.pause)) <= reached:
                there = step.whole(wanted - began)
                self._offer(wanted, self.net.neurons(there), float(there[-1]), self.net.log_loss(there), keep=False)
                if min(self.recorder.next_time(self.until), self.recorder.pause) <= wanted:
                    break
            self.still = 0 if arrival > 1e-14 * began else self.still + 1
            self.net.state, self.time = step.whole(arrival), reached
            self.accepted += 1
            self.missing -= 1
            if not self.recorder.asked:
                self.keep()
            if event is not None and event.kind == "level":
                self._end_at_level()
            elif event is not None:
                self._decide(event.neuron, None if event.line < 0 else np.array([event.line]), turned=event.turned)
                self._settle_pushed()
                continue
            elif self.time >= self.until:
                self._finish()
            if _steps.parted(self.net.state, self.net.pattern, self.net.dim, self.limits.apart):
                self.net.regroup()
            length *= min(5.0, 0.9 * max(error, 1e-9) ** (-1 / 4))

    def _settle_pushed(self) -> None:
        """Decide for neurons that are on a surface and pushed through it now."""
        net = self.net
        log = _steps.Log(
            np.empty((0, len(net.state))), np.empty((0, 2), dtype=np.int64), np.empty(0), np.zeros(1, dtype=np.int64)
        )
        for _ in range(_FLOOD):
            found = _steps.advance(
                net.state, self.time, self.step, 0, 0.0, self.until, 0, np.zeros(0), net.data, net.pattern, net.form(),
                self.limits, log,
            )  # fmt: skip
            if found[5] != _steps.MET:
                return
            self._decide(int(found[6]), np.array([found[7]]))

    def _look_for_rest(self) -> None:
        self.next_look = self.accepted + 5 + self.accepted // 10
        slow = 50 * self.step * float(np.linalg.norm(self.net.velocity()[:-1])) <= 1e-2 * np.linalg.norm(
            self.net.state[:-1]
        )
        if slow and self._may_be_late and not self.net.data.by_loss:
            self._rests(Step.of(self.net.state, self.net.data, self.net.pattern, 0.0))

    def _rests(self, step: Step) -> bool:
        """Whether the flow is at rest for good, if that is to be found out."""
        if not self.settings["stop_converged"]:
            return False
        horizon = self.until - self.time if math.isfinite(self.until) else 10 * max(self.time, 1.0)
        size = float(np.linalg.norm(self.net.state[:-1]))
        if step.displacement(horizon) > self.limits.rtol * size:
            return False
        self.keep()
        time = self.time
        self.net.state, self.time = step.whole(horizon), math.nextafter(self.time, math.inf)
        self.keep(force=True)
        self.end("converged", f"converged at t = {time:.6g}; the last state is where the flow comes to rest.")
        return True

    def _merge(self) -> None:
        self.since_merge = 0
        if self.symmetric and not self.net.linear and self.net.drop_even_part(self.dataset, self.settings):
            return
        soon = self.net.merge() or self.net.riders.size
        self.wait_merge = self._soonest_merge if soon else min(2 * self.wait_merge, 400)

    def _end_not_finite(self) -> None:
        self.end(
            "not finite",
            f"the weights stopped being finite beyond {self.axis} = {self.time:.6g}; what is kept ends there. "
            "Start smaller, rescale the data, or lower until.",
        )

    def _end_at_level(self) -> None:
        self.keep(force=True)
        self.end("loss level", f"the loss fell to the level asked for at {self.axis} = {self.time:.6g}.")

    def _decide(self, h: int, met: np.ndarray | None, *, turned: bool = False) -> None:
        self.decided += 1
        self.events += [(self.time, *event) for event in self.net.decide(h, met, turned=turned)]

    # What is kept and told

    def keep(self, force: bool = False) -> None:
        """Offer the present state to the recorder."""
        keep = force or not self.recorder.asked
        self._offer(self.time, self.net.neurons(), float(self.net.state[-1]), self.net.log_loss(), keep=keep)

    def _offer(self, time: float, neurons: np.ndarray, energy: float, level: float, *, keep: bool) -> None:
        self.recorder.offer(time, (neurons[:, :-1], neurons[None, :, -1]), energy, keep=keep, log_loss=level)

    def _finish(self) -> None:
        self.keep()
        self.end("reached", f"reached {self.axis} = {self.until:g}.")

    def end(self, name: str, message: str) -> None:
        """Note how it ended."""
        self.status = Status(name, message)

    def told(self) -> Status:
        """The status with a word on the events."""
        assert self.status is not None
        table = Switches.of(self.events)
        message = f"{self.status.message} Events: {table}." if len(table) else self.status.message
        branches = int(np.sum(table.kinds == "branch")) if len(table) else 0
        if branches:
            message += (
                " At a branch the flow is not unique, since a surface turned from attracting to repelling; "
                "the neuron left to the side it leaned to."
            )
        return self.status._replace(message=message)
