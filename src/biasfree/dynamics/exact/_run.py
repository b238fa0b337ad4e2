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
from biasfree.dynamics.exact import _merging, _steps
from biasfree.dynamics.exact._decisions import ON_A_LINE, Judge, empty_pattern
from biasfree.dynamics.exact._early import early_phase
from biasfree.dynamics.exact._field import (
    Pattern,
    log_loss,
    log_loss_of,
    outputs_by_line,
    rows_of,
    split,
    velocity,
)
from biasfree.dynamics.exact._late import LARGEST, Step, first_event
from biasfree.dynamics.exact._samples import (
    by_moments,
    grouped_data,
    keys_of_sides,
    outputs,
    spectral_norm,
)
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.switching import Switches

_THREADS = ThreadpoolController()
_STAGES = 12
_QUOTA, _SAVES, _MERGE_EVERY, _MERGE_SOON = 200, 64, 25, 8
_SAFETY = 0.3  # part of rtol that a step may spend
_UNRESOLVED = -1e9
_DECISIONS = 3000
_PATIENCE, _HARDLY = 20_000, 1e-8  # attempts after which so small a part of the way is no way at all
_MANY_GROUPS = 200
_PASSAGES = 50  # of w = 0 by one neuron, after which it only trembles there
_FLOOD = 1000  # events without a step of time among them


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
                progress(Progress(run.time, settings["until"], run.accepted, math.exp(min(run.log_loss(), 700.0))))
    except KeyboardInterrupt:
        run.keep(force=True)
        run.end("interrupted", f"interrupted at {run.axis} = {run.time:.6g}; all until then is kept.")
    assert run.status is not None
    counts = Counts(_STAGES * (run.accepted + run.rejected), run.accepted, run.rejected)
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
    passed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.settings
        self.axis = axis(settings["clock"])
        self.until = settings["until"]
        first, second = (np.asarray(w, dtype=float) for w in self.weights)
        neurons = np.column_stack([first, second[0]])
        self.dim = first.shape[1]
        slope = 1.0 if self.network.is_linear else self.network.slope
        grouped = lines(self.dataset.inputs)
        self.linear = slope == 1.0
        self.data = grouped_data(grouped, self.dataset, slope, settings)
        self.recorder = Recorder((first, second), self.points, self.until - self.time)
        self.tolerance = math.sqrt(0.1 * settings["rtol"])
        begun, first_loss = self.time, self._first_log_loss(neurons)
        self.limits = _steps.Limits(
            _SAFETY * settings["rtol"],
            settings["atol"],
            1.0 if settings["clock"] == "loss" else max(math.exp(min(first_loss, 700.0)), 1e-300),
            settings["stop_log_loss"],
            4 * self.tolerance**2,
            False,
        )
        self._offer(self.time, neurons, 0.0, first_loss, keep=not self.recorder.asked)
        energy = 0.0
        # A run that ended at a level must not begin above it by rounding.
        if first_loss - 1e-12 <= settings["stop_log_loss"] > -math.inf:
            self._offer(self.time, neurons, 0.0, first_loss, keep=True)
            self.end("loss level", "the loss was at the level asked for from the start.")
        elif not math.isfinite(first_loss) and first_loss > -math.inf:
            self._end_not_finite()
        elif len(grouped):
            scale = math.exp(first_loss) if settings["clock"] == "loss" else 1.0
            early = early_phase(
                neurons, grouped, np.asarray(self.dataset.targets, dtype=float),
                spectral_norm(np.asarray(self.dataset.inputs)),
                slope=slope, loss=settings["loss"], decay=settings["weight_decay"] / scale, scale=scale,
                rtol=settings["rtol"], until=self.until - begun,
            )  # fmt: skip
            if early is not None:
                self.events += [(begun + t, h, line, kind) for t, h, line, kind in early.events]
                while (wanted := min(self.recorder.next_time(self.until), self.recorder.pause)) <= begun + early.time:
                    now = early.at(wanted - begun)
                    self._offer(wanted, now, early.energy(wanted - begun), self._first_log_loss(now), keep=False)
                    if min(self.recorder.next_time(self.until), self.recorder.pause) <= wanted:
                        break
                neurons, energy = early.at(early.time), early.energy(early.time)
                self.time = min(begun + early.time, self.until)
        if not np.isfinite(neurons).all():
            self._end_not_finite()
        if self.status is not None:
            neurons = np.zeros_like(neurons)  # nothing is left to do for them
        if self.linear and settings["loss"] == "square":
            self.data = by_moments(self.dataset, settings)
        self._group(neurons, energy)
        self.step = self._first_step()
        self.since_merge, self.wait_merge, self.still, self.next_late = 0, self._soonest_merge, 0, 0
        self.next_look, self.late, self.length, self.stiff = 1, False, 0.0, 0
        self.symmetric = grouped.pairs_up(np.asarray(self.dataset.targets))
        self.missing = self.recorder.steps_to_next
        if self.status is None and self.time >= self.until:
            self._finish()

    # Grouping

    def _first_log_loss(self, neurons: np.ndarray) -> float:
        """ln L of neurons whose pattern is plain."""
        return float(log_loss_of(*outputs(neurons, self.data), self.data))

    def _group(self, neurons: np.ndarray, energy: float) -> None:
        """Merge what is parallel at the start, and decide for neurons that lie on a line."""
        if self.linear:
            self.groups = _merging.reduced(neurons)
            rows, owner = self.groups.rows()
            self.pattern = empty_pattern(np.ones((len(rows), len(self.data.directions))), owner, self.dim)
            self.state = _state(rows, energy)
            return
        self.groups = _merging.merged(neurons, keys_of_sides(neurons, self.data, self.limits.rtol), self.tolerance)
        rows, owner = self.groups.rows()
        active = len(self.groups.groups)
        products = rows[:active, :-1] @ self.data.transposed
        self.pattern = empty_pattern(np.where(products < 0, -1.0, 1.0), owner, self.dim)
        self.state = _state(rows, energy)
        sizes = np.linalg.norm(rows[:active, :-1], axis=1)
        near = np.abs(products) <= ON_A_LINE * sizes[:, None]
        for h in np.flatnonzero(near.any(axis=1)).tolist():
            self._decide(h, np.flatnonzero(near[h]), log=False)

    def _neurons(self, state: np.ndarray) -> np.ndarray:
        first, second = split(state, rows_of(state, self.dim), self.dim)
        return self.groups.restored(np.column_stack([first, second]))

    def _first_step(self) -> float:
        speed = self._velocity()
        moved = np.linalg.norm(speed[:-1])
        left = self.until - self.time
        if moved == 0:
            return left if math.isfinite(left) else 1.0
        return min(0.05 * float(np.linalg.norm(self.state[:-1]) / moved), left) or 1e-300

    def _velocity(self) -> np.ndarray:
        out, count = np.empty_like(self.state), len(self.data.directions)
        velocity(self.state, self.data, self.pattern, out, np.empty(count), np.empty(count))
        return out

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
        recorder = self.recorder
        quota = _QUOTA if recorder.asked else min(_QUOTA, self.missing)
        quota = min(quota, max(1, self.wait_merge - self.since_merge))
        saves = recorder.upcoming(_SAVES)
        # There may be more to save beyond: no step may pass them.
        end = min(self.until, float(saves[-1])) if len(saves) == _SAVES else self.until
        log = _steps.Log(
            np.empty((min(len(saves), _SAVES), len(self.state))),
            np.empty((self.pattern.side.size + 16, 2), dtype=np.int64),
            np.empty(self.pattern.side.size + 16),
        )
        began = self.time
        if self.data.by_loss:
            # Residuals are e^{−m}/L: what counts is a margin's own error, not its relative one.
            self.limits = self.limits._replace(rtol=_SAFETY * self.settings["rtol"] / max(1.0, -self.log_loss()))
        limits = self.limits._replace(watch=self._may_be_late and self.accepted >= self.next_late)
        state, time, step, self.stiff, why, neuron, line, accepted, rejected, saved, crossed = _steps.advance(
            self.state, self.time, self.step, self.stiff, end, quota, saves, self.data, self.pattern, limits, log
        )
        self.state, self.time, self.step = state, float(time), float(step)
        self.accepted += accepted
        self.rejected += rejected
        self.missing -= accepted
        self.since_merge += accepted
        self.still = 0 if time > began * (1 + 1e-14) else self.still + 1
        for index in range(saved):
            kept = log.saved[index]
            self._offer(float(saves[index]), self._neurons(kept), float(kept[-1]), self.log_loss(kept), keep=False)
        for index in range(crossed):
            self._log(float(log.crossed_at[index]), int(log.crossed[index, 0]), int(log.crossed[index, 1]), "cross")
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
            self._regroup(anyway=True)
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
        limit = _DECISIONS + 2 * self.groups.width * len(self.data.directions)
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
        elif self.data.by_loss and self.log_loss() < _UNRESOLVED:
            self._cut_short(
                "precision limit",
                f"ln L = {self.log_loss():.3g}: float64 does not tell margins of this size apart. Stop at a log-loss "
                "level above it.",
            )
        elif self.still > _FLOOD or self.decided > limit:
            self._cut_short("stuck", "by events without end. Use another method.")

    def _cut_short(self, name: str, why: str) -> None:
        self.keep(force=True)
        self.end(name, f"stopped at {self.axis} = {self.time:.6g} {why}")

    @property
    def _soonest_merge(self) -> int:
        """Steps until grouping is worth a try: many groups make steps dear."""
        return _MERGE_EVERY if len(self.groups.groups) <= _MANY_GROUPS else _MERGE_EVERY // 6

    @property
    def _may_be_late(self) -> bool:
        small = len(self.pattern.side) * (self.dim + 1) <= LARGEST
        return small and not (self.data.by_loss and self.data.decay > 0)

    def _go_late(self) -> None:
        """Exponential steps for as long as they are the longer ones."""
        explicit, length = self.step, self.length
        # Fast directions are damped, not excited: margins are safe with the plain tolerance.
        rtol, atol = 0.1 * _SAFETY * self.settings["rtol"], self.limits.atol
        for _ in range(_QUOTA):
            if self.status is not None:
                return
            self.length = length
            step = Step.of(self.state, self.data, self.pattern, 1e-3 * self.settings["rtol"])
            if self._rests(step):
                return
            for _ in range(10):
                length = min(length, step.longest(), self.until - self.time)
                error = step.try_length(length, rtol, atol)
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
                self._offer(wanted, self._neurons(there), float(there[-1]), self.log_loss(there), keep=False)
                if min(self.recorder.next_time(self.until), self.recorder.pause) <= wanted:
                    break
            self.still = 0 if arrival > 1e-14 * began else self.still + 1
            self.state, self.time = step.whole(arrival), reached
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
            if _steps.parted(self.state, self.pattern, self.dim, self.limits.apart):
                self._regroup(anyway=True)
            length *= min(5.0, 0.9 * max(error, 1e-9) ** (-1 / 4))

    def _settle_pushed(self) -> None:
        """Decide for neurons that are on a surface and pushed through it now."""
        log = _steps.Log(np.empty((0, len(self.state))), np.empty((0, 2), dtype=np.int64), np.empty(0))
        for _ in range(_FLOOD):
            found = _steps.advance(
                self.state,
                self.time,
                self.step,
                0,
                self.until,
                0,
                np.zeros(0),
                self.data,
                self.pattern,
                self.limits,
                log,
            )
            if found[4] != _steps.MET:
                return
            self._decide(int(found[5]), np.array([found[6]]))

    def _look_for_rest(self) -> None:
        self.next_look = self.accepted + 5 + self.accepted // 10
        slow = 50 * self.step * float(np.linalg.norm(self._velocity()[:-1])) <= 1e-2 * np.linalg.norm(self.state[:-1])
        if slow and self._may_be_late and not self.data.by_loss:
            self._rests(Step.of(self.state, self.data, self.pattern, 0.0))

    def _rests(self, step: Step) -> bool:
        """Whether the flow is at rest for good, if that is to be found out."""
        if not self.settings["stop_converged"]:
            return False
        horizon = self.until - self.time if math.isfinite(self.until) else 10 * max(self.time, 1.0)
        size = float(np.linalg.norm(self.state[:-1]))
        if step.displacement(horizon) > self.limits.rtol * size:
            return False
        self.keep()
        time = self.time
        self.state, self.time = step.whole(horizon), math.nextafter(self.time, math.inf)
        self.keep(force=True)
        self.end("converged", f"converged at t = {time:.6g}; the last state is where the flow comes to rest.")
        return True

    def _merge(self) -> None:
        self.since_merge = 0
        count = len(self.groups.groups)
        if self._drop_even_part() or self.linear or count < 2:
            return
        self._regroup()
        fewer = len(self.groups.groups) < count
        self.wait_merge = self._soonest_merge if fewer else min(2 * self.wait_merge, 400)

    def _regroup(self, anyway: bool = False) -> None:
        """Group afresh, if that makes fewer groups or ``anyway``."""
        before, groups = self.pattern, self.groups
        pattern_of = np.zeros(groups.width, dtype=int)
        for row, group in enumerate(groups.groups):
            pattern_of[group.members] = row
        neurons = self._neurons(self.state)
        numbers: dict[tuple[bytes, int], int] = {}
        kinds = zip(before.side, before.span, strict=True)
        keys = np.array([numbers.setdefault((side.tobytes(), int(span)), len(numbers)) for side, span in kinds])
        found = _merging.merged(neurons, keys[pattern_of], self.tolerance)
        if len(found.groups) >= len(groups.groups) and not anyway:
            return
        self.groups = found
        rows, owner = found.rows()
        leaders = pattern_of[[group.members[0] for group in found.groups]]
        chosen = {name: np.ascontiguousarray(getattr(before, name)[leaders]) for name in Pattern._fields[:-1]}
        self.pattern = Pattern(**chosen, owner=owner)
        self.state = _state(rows, float(self.state[-1]))

    def _end_not_finite(self) -> None:
        self.end(
            "not finite",
            f"the weights stopped being finite beyond {self.axis} = {self.time:.6g}; what is kept ends there. "
            "Start smaller, rescale the data, or lower until.",
        )

    def _end_at_level(self) -> None:
        self.keep(force=True)
        self.end("loss level", f"the loss fell to the level asked for at {self.axis} = {self.time:.6g}.")

    def _drop_even_part(self) -> bool:
        """On symmetric data, go on with β and Σ alone once the even part of the outputs is below the tolerance."""
        if self.linear or not self.symmetric or self.settings["loss"] != "square":
            return False
        first, second = split(self.state, rows_of(self.state, self.dim), self.dim)
        active = len(self.pattern.side)
        lin, even = np.empty((2, len(self.data.directions)))
        products = first[:active] @ self.data.transposed
        outputs_by_line(products, second, self.pattern.side, lin, even, self.data.a, self.data.b)
        if np.abs(even).max() > 1e-3 * self.limits.rtol * np.abs(lin).max():
            return False
        neurons, energy = self._neurons(self.state), float(self.state[-1])
        self.linear = True
        self.data = by_moments(self.dataset, self.settings, self.data.a)
        self._group(neurons, energy)
        return True

    def _passages(self, h: int) -> int:
        """How often this neuron has passed w = 0 by now."""
        neuron = self.groups.representative(h)[0]
        self.passed[neuron] = self.passed.get(neuron, 0) + 1
        return self.passed[neuron]

    def _decide(self, h: int, met: np.ndarray | None, *, turned: bool = False, log: bool = True) -> None:
        self.decided += 1
        judge = Judge(self.data, self.pattern)
        if met is not None:
            at_zero = judge.at_origin(self.state, h) and self._passages(h) > _PASSAGES
            events = judge.meets(self.state, h, met, rest=at_zero)
        else:
            if turned:
                _, second = split(self.state, rows_of(self.state, self.dim), self.dim)
                second[h] = 0.0
            events = judge.turns(self.state, h)
        self.pattern = judge.pattern
        if log:
            for line, kind in events:
                self._log(self.time, h, line, kind)

    def _log(self, time: float, row: int, line: int, kind: str) -> None:
        self.events.append((time, self.groups.representative(row)[0], line, kind))

    # What is kept and told

    def log_loss(self, state: np.ndarray | None = None) -> float:
        """ln L of a state of the present grouping."""
        return float(log_loss(self.state if state is None else state, self.data, len(self.pattern.side)))

    def keep(self, force: bool = False) -> None:
        """Offer the present state to the recorder."""
        keep = force or not self.recorder.asked
        self._offer(self.time, self._neurons(self.state), float(self.state[-1]), self.log_loss(), keep=keep)

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


def _state(rows: np.ndarray, energy: float) -> np.ndarray:
    return np.concatenate([rows[:, :-1].ravel(), rows[:, -1], [energy]])
