"""The one loop that runs every integrator: ask for a piece, save what is due, look for the end, report progress."""

import contextlib
import gc
import math
import time as clock_time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from biasfree.dynamics import _field, _status, _stops
from biasfree.dynamics._pieces import Budget, Counts, Integrator, Piece, Point, Stretch
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._progress import ProgressCallback, Reporter, next_quota
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._status import Status
from biasfree.switching import Switches

_FIRST_ATTEMPTS = 4  # the first call compiles; let it do next to nothing else


@dataclass(frozen=True)
class Outcome:
    """What a run leaves.

    Attributes:
        recorder: what was saved.
        status: how it ended, with the integrator's remark.
        last: time and weights where it ended.
        counts, events, admissibility: as of ``Integrator``.
        stretches: by what it was integrated, from when to when.
    """

    recorder: Recorder
    status: Status
    last: tuple[float, Point]
    counts: Counts
    stretches: tuple[Stretch, ...]
    events: Switches | None = None
    admissibility: float = math.nan

    def followed_by(self, other: "Outcome") -> "Outcome":
        """This run and the one that took it up where it ended, with the same recorder."""
        return replace(
            other,
            counts=self.counts + other.counts,
            stretches=joined([*self.stretches, *other.stretches]),
            events=self.events if other.events is None else other.events,
            admissibility=float(np.fmax(self.admissibility, other.admissibility)),
        )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without Python's search for cycles of objects: a run makes none, and where PyTorch is loaded it takes a third.

    The search walks through the objects of every library, and the many small ones of a run set it off again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@collector_paused()
@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")  # looked for, at last by the guard
def run(integrator: Integrator, plan: Plan, recorder: Recorder, progress: ProgressCallback | None = None) -> Outcome:
    """Integrate ``plan``; Ctrl-C ends a run at its last piece, or at its start, and keeps all until then."""
    here = Point(tuple(np.asarray(layer) for layer in plan.network.weights), 0.0)
    piece = Piece(plan.start, plan.start, lambda _: here, how="", accepted=0)
    reporter, attempts, stretches = Reporter(plan, progress), _FIRST_ATTEMPTS, list[Stretch]()
    try:
        recorder.take(piece)
        status = _stops.at_start(_level_of(plan), plan) if plan.stop.level > -math.inf else None
        while status is None:
            began = clock_time.perf_counter()
            piece = integrator.advance(_budget(integrator, plan, recorder, attempts))
            recorder.take(piece)
            stretches = [*stretches[:-1], *joined([*stretches[-1:], Stretch.of(piece)])]
            counts = integrator.counts()
            status = _stops.ended(piece, counts, plan)
            reporter.report(piece, counts.accepted, last=status is not None)
            attempts = next_quota(attempts, clock_time.perf_counter() - began)
    except KeyboardInterrupt:
        status = _status.interrupted(plan.axis, piece.end)
    recorder.close(piece, cut_short=status.name != "reached")
    return Outcome(
        recorder,
        status.saying(integrator.remark()),
        (piece.end, piece.at(piece.end)),
        integrator.counts(),
        tuple(stretches),
        integrator.events(),
        integrator.admissibility(),
    )


def _level_of(plan: Plan) -> float:
    """ln L at the start."""
    problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
    kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
    return float(_field.log_loss(plan.network.weights, problem, kind))


def _budget(integrator: Integrator, plan: Plan, recorder: Recorder, attempts: int) -> Budget:
    """Dense pieces are asked for any time within them; others must end where something is to be saved."""
    attempts = min(attempts, _stops.attempts_left(integrator.counts(), plan))
    if integrator.dense:
        return Budget(plan.until, recorder.steps_left, attempts)
    return Budget(min(recorder.next_time(plan.until), plan.until), recorder.steps_left, attempts, recorder.pause)


def joined(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """One stretch for consecutive ones of the same kind; those without length are left out."""
    result: list[Stretch] = []
    for stretch in stretches:
        if result and result[-1].how == stretch.how:
            result[-1] = result[-1]._replace(end=stretch.end, steps=result[-1].steps + stretch.steps)
        elif stretch.end > stretch.begin:
            result.append(stretch)
    return tuple(result)
