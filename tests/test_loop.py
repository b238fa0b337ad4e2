"""The loop and its recorder, with an integrator of which everything is known."""

import contextlib
import dataclasses
import gc
import math
import time

import numpy as np
import pytest

import biasfree as bf
from biasfree import Network, Stop, datasets
from biasfree.dynamics import _loop, _status, methods
from biasfree.dynamics._pieces import Counts, Piece, Point, Stretch
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._recorder import Recorder
from biasfree.native import _compiling

NETWORK = Network([[[1.0]], [[0.0]]], 1.0)


class Clock:
    """A weight that tells the time; steps of a given length, dense or not."""

    def __init__(self, step: float = 0.3, dense: bool = True, interrupted_after: int = 10**9, end=None) -> None:
        self.step, self.dense, self.left, self.end = step, dense, interrupted_after, end
        self.time, self.steps, self.asked = 0.0, 0, []

    def at(self, t: float) -> Point:
        self.asked.append(t)
        return Point((np.full((1, 1), 1 + t), np.zeros((1, 1))), 2 * t)

    def advance(self, budget) -> Piece:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        begin = self.time
        self.time = min(begin + self.step, budget.until)
        self.steps += 1
        how = "early" if begin < 1 else "late"
        ended = self.end if self.end is not None and self.steps == 5 else None
        return Piece(begin, self.time, self.at, how, dense=self.dense, ended=ended)

    def counts(self) -> Counts:
        return Counts(self.steps, self.steps)

    def remark(self) -> str:
        return "Ticked."

    def events(self) -> None:
        return None

    def admissibility(self) -> float:
        return math.nan


def plan(until: float = 10.0, **options) -> Plan:
    return Plan(NETWORK, bf.Dataset([[1.0]], [1.0]), "square", until, 1e-6, 0.0, **options)


def run(clock: Clock, points=None, until: float = 10.0, progress=None, **options) -> _loop.Outcome:
    points = None if points is None else np.asarray(points, dtype=float)
    return _loop.run(clock, plan(until, **options), Recorder(NETWORK.weights, points, until), progress)


def saved(outcome: _loop.Outcome) -> np.ndarray:
    weights = outcome.recorder.stacked()[0][:, 0, 0]
    np.testing.assert_allclose(weights, 1 + outcome.recorder.times, atol=1e-12)
    np.testing.assert_allclose(outcome.recorder.energies, 2 * outcome.recorder.times, atol=1e-12)
    return outcome.recorder.times


@pytest.mark.parametrize("dense", [True, False])
def test_times_asked_for_are_met_exactly_and_nothing_else_is_saved(dense) -> None:
    times = [0.0, 0.31, 0.32, 5.0, 10.0]
    outcome = run(Clock(dense=dense), times)
    assert saved(outcome).tolist() == times
    assert outcome.status == ("reached", "reached t = 10. Ticked.")


def test_dense_pieces_are_not_cut_at_times_asked_for() -> None:
    assert run(Clock(), np.linspace(0, 10, 400)).counts.accepted == run(Clock(), [10.0]).counts.accepted


@pytest.mark.parametrize("dense", [True, False])
def test_of_a_run_without_times_steps_are_thinned_and_times_are_spread(dense) -> None:
    clock = Clock(step=0.001, dense=dense)
    times = saved(run(clock, until=10.0))
    assert times[0] == 0
    assert times[-1] == 10
    assert 200 <= len(times) <= 403
    assert np.diff(times).max() <= 10 / 200 + 0.002
    if dense:  # exactly at these times
        assert np.isin(np.round(np.arange(1, 200) * 0.05, 9), np.round(times, 9)).all()


def test_an_unbounded_run_keeps_its_steps() -> None:
    clock = Clock(end=_status.converged(1.5))
    times = saved(run(clock, until=math.inf, stop=Stop(converged=True)))
    np.testing.assert_allclose(times, [0, 0.3, 0.6, 0.9, 1.2, 1.5])


def test_a_run_cut_short_keeps_its_end() -> None:
    outcome = run(Clock(), [0.0, 1.0, 2.0, 10.0], max_steps=7)
    assert outcome.status.name == "step limit"
    np.testing.assert_allclose(saved(outcome), [0.0, 1.0, 2.0, 2.1])


@pytest.mark.parametrize("points", [None, [5.0, 10.0]])
def test_interruption_in_the_first_piece_keeps_the_start(points) -> None:
    outcome = run(Clock(interrupted_after=0), points)
    assert outcome.status.name == "interrupted"
    assert saved(outcome).tolist() == [0.0]
    later = run(Clock(interrupted_after=3), points)
    assert saved(later)[-1] == pytest.approx(0.9)


@pytest.mark.parametrize("when", ["start", "advance"])
def test_interruption_in_the_first_piece_of_a_flow(monkeypatch, when) -> None:
    """At the first velocities, which are computed before the loop, or at the first steps."""
    from biasfree.dynamics import _stepper

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_stepper.Stepper, when, interrupt)
    start = Network.init([2, 5, 1], 0.0, 0.1, 0)
    flow = bf.gradient_flow(start, datasets.xor(), until=3.0, method="bosh3", save=[1.0, 3.0])
    assert flow.status.name == "interrupted"
    assert flow.times.tolist() == [0.0]
    np.testing.assert_array_equal(flow.final.weights[0], start.weights[0])


def test_interruption_before_adaptive_steps_go_on_keeps_what_the_exact_flow_did(monkeypatch) -> None:
    from biasfree.dynamics import _stepper
    from biasfree.dynamics.exact import Exact

    advance = Exact.advance

    def stuck_after_a_while(self, budget):
        piece = advance(self, budget)
        ended = _status.Status("stuck", "no way on.") if piece.end > 1 else piece.ended
        return dataclasses.replace(piece, ended=ended)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Exact, "advance", stuck_after_a_while)
    monkeypatch.setattr(_stepper.Stepper, "start", interrupt)
    flow = bf.gradient_flow(Network.init([2, 5, 1], 0.0, 0.1, 0), datasets.xor(), until=30.0)
    assert flow.status.name == "interrupted"
    assert 1 < flow.times[-1] < 30
    assert flow.events is not None
    assert flow.counts.accepted > 0


def test_stretches_of_the_same_kind_are_one() -> None:
    early, late = run(Clock(), [10.0]).stretches
    assert (early.how, early.steps, late.how) == ("early", 4, "late")
    assert early.end == late.begin == pytest.approx(1.2)
    assert (early.begin, late.end) == (0.0, 10.0)
    assert _loop.joined([Stretch(0, 0, "nothing", 0), early]) == (early,)


def test_progress_is_told_at_every_hundredth_of_the_way() -> None:
    told = []
    run(Clock(step=0.001), [10.0], progress=told.append)
    assert 100 <= len(told) <= 110
    assert told[-1].fraction == 1.0
    assert told[0].loss == pytest.approx(0.5)


def test_patience_ends() -> None:
    outcome = run(Clock(step=1e-14), [10.0])
    assert "out of reach" in outcome.status.message
    assert outcome.counts.accepted == 20_000


class TestAnnounced:
    def test_says_so_once_if_it_lasts(self, monkeypatch, capsys) -> None:
        monkeypatch.setenv("BIASFREE_QUIET", "0")
        monkeypatch.setattr(_compiling, "_PATIENCE", 0.02)
        for _ in range(2):
            with _compiling.announced("a test"):
                time.sleep(0.1)
        assert capsys.readouterr() == ("", "biasfree: compiling a test, once …\n")

    def test_says_nothing_if_it_is_fast_or_to_be_quiet(self, monkeypatch, capsys) -> None:
        monkeypatch.setattr(_compiling, "_PATIENCE", 0.02)
        with _compiling.announced("quiet"):
            time.sleep(0.1)
        monkeypatch.setenv("BIASFREE_QUIET", "")
        with _compiling.announced("fast"):
            pass
        time.sleep(0.1)
        assert capsys.readouterr() == ("", "")


class TestTheCollectorOfCycles:
    """It is paused while a run goes, and afterwards as it was before."""

    @pytest.mark.parametrize("enabled", [True, False])
    @pytest.mark.parametrize("fails", [False, True])
    def test_it_is_left_as_it_was(self, enabled: bool, fails: bool) -> None:
        seen = []

        def progress(report: object) -> None:
            seen.append(gc.isenabled())
            if fails:
                raise RuntimeError

        before = gc.isenabled()
        try:
            gc.enable() if enabled else gc.disable()
            with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
                bf.gradient_flow(
                    bf.Network.init([2, 4, 1], 0.0, 0.1, 0), bf.datasets.six_points(), until=2.0, progress=progress
                )
            assert gc.isenabled() == enabled
        finally:
            gc.enable() if before else gc.disable()
        assert seen
        assert not any(seen)

    def test_a_run_leaves_no_cycles_behind(self) -> None:
        start, data = bf.Network.init([2, 20, 1], 0.0, 1e-3, 0), bf.datasets.six_points()
        bf.gradient_flow(start, data, until=100.0)
        gc.collect()
        run = bf.gradient_flow(start, data, until=100.0)
        assert run.counts.accepted > 30
        assert gc.collect() < 200


def test_ctrl_c_while_a_piece_is_saved_does_not_lose_its_end() -> None:
    """What is due is noted before the networks are made; the end of a run is kept all the same."""
    recorder, interrupted = Recorder(NETWORK.weights, None, 4.0), []

    def several(times):
        if not interrupted:
            interrupted.append(times)
            raise KeyboardInterrupt
        return [Point(NETWORK.weights, 0.0) for _ in times]

    piece = Piece(0.0, 2.0, lambda time: several([time])[0], "", ends=[1.0, 2.0], several=several)
    with pytest.raises(KeyboardInterrupt):
        recorder.take(piece)
    assert interrupted[0][-1] == 2.0
    recorder.close(piece, cut_short=True)
    assert recorder.times.tolist() == [2.0]


@pytest.mark.parametrize("method", ["exact", "bosh3", "tsit5", "rkc"])
@pytest.mark.parametrize("until", [1.0, math.inf])
def test_a_level_met_at_the_start_is_said_by_every_method(method: str, until: float) -> None:
    """Zero weights never move, but the loss they begin with is below what is asked for."""
    data = bf.Dataset([[1.0, 0.5], [-0.3, 1.0]], [0.4, -0.3])
    run = bf.gradient_flow(
        Network([np.zeros((2, 2)), np.zeros((1, 2))], 0.0), data, until=until, stop=0.2, method=method
    )
    assert run.losses[0] < 0.2
    assert run.status.name == "loss level"
    assert "from the start" in run.status.message
    assert run.times[-1] == 0
    assert run.counts.accepted == 0


EULER = """
import numpy as np

from biasfree.dynamics import _field
from biasfree.dynamics._pieces import Counts, Piece, Point
from biasfree.dynamics.methods import Begun, Method

STEP = 1e-3


class Euler:
    dense = False

    def __init__(self, plan):
        self.plan, self.time, self.weights, self.steps, self.energy = plan, 0.0, plan.network.weights, 0, 0.0
        self.problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
        self.kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)

    def advance(self, budget):
        begin, h = self.time, min(STEP, budget.until - self.time)
        velocity = _field.velocity(self.weights, self.problem, self.kind)
        self.weights = tuple(w + h * dw for w, dw in zip(self.weights, velocity, strict=True))
        self.energy += h * sum(float((dw**2).sum()) for dw in velocity)
        self.time, self.steps = begin + h, self.steps + 1
        here = Point(self.weights, self.energy)
        return Piece(begin, self.time, lambda t: here, "Euler's steps", 1, dense=False)

    def counts(self):
        return Counts(accepted=self.steps, rejected=0, evaluations=self.steps)

    def remark(self):
        return ""

    def events(self):
        return None

    def admissibility(self):
        return np.nan


METHODS = [Method("euler", lambda plan: Begun(Euler(plan), one_thread=False))]
"""


def test_a_new_method_is_a_new_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "euler.py").write_text(EULER)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    monkeypatch.setitem(methods.BY_NAME, "euler", methods.found()["euler"])
    data, start = datasets.xor(), Network.init([2, 3, 1], 0.3, 0.5, 0)
    run = bf.gradient_flow(start, data, until=0.5, method="euler", rtol=1e-2)
    assert run.status.name == "reached"
    assert run.stretches == (Stretch(0.0, run.times[-1], "Euler's steps", run.counts.accepted),)
    assert "euler (asked for)" in str(run)
    descent = bf.gradient_descent(start, data, steps=500, learning_rate=1e-3)
    for ours, theirs in zip(run.final.weights, descent.final.weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
