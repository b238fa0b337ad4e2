"""Random problems from the widest ranges, each at two tolerances, and many against methods of others."""

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import LSODA

import biasfree as bf
from tests.exact_reference import reference_flow
from tests.random_problems import wide_problem
from tests.wide import (
    LOOSE,
    NUDGE,
    QUICK,
    ROOM,
    SAVES,
    SEPARATRIX,
    SLOW,
    TIGHT,
    OverBudgetError,
    amplification,
    branched,
    budget,
    distance,
    examine,
    last_common,
    main,
    recorded,
    table,
)

BATCH = 100
INCOMPLETE = 0.02  # share of problems that may end with anything but what was asked, and say so
EXCUSED = 0.03  # share whose tolerances may differ because of a branch that is told, and as many for a separatrix


def run_batch(seeds: Iterable[int]) -> None:
    """Any exception, NaN, wrong status, hang, rise of the objective or difference between tolerances is told."""
    verdicts = [examine(seed) for seed in seeds]
    told = table(verdicts)
    print(told)
    assert not [verdict.seed for verdict in verdicts if verdict.reasons], told
    assert sum(bool(verdict.incomplete) for verdict in verdicts) <= INCOMPLETE * len(verdicts), told
    for excuse in ("branch", "separatrix"):
        assert sum(verdict.excused == excuse for verdict in verdicts) <= EXCUSED * len(verdicts), told


class TestEveryProblemAtTwoTolerances:
    @pytest.mark.parametrize("first", range(0, len(QUICK) // 2, BATCH))
    def test_none_of_the_first_fails(self, first: int) -> None:
        run_batch(QUICK[first : first + BATCH])

    @pytest.mark.slow
    @pytest.mark.parametrize("first", range(0, len(SLOW), BATCH))
    def test_none_of_ten_thousand_fails(self, first: int) -> None:
        run_batch(SLOW[first : first + BATCH])


class TestOnceBeyondTheirTime:
    """One of each cause for which a run took minutes or had no end; all are reached by now, within seconds."""

    @pytest.mark.parametrize(
        "seed",
        [
            1267,  # slides that end and begin because stiffness stirs up what holds them, and no step gets far
            1954,  # slides that rounding of large pulls drove off their lines, at any tolerance
            2399,  # a row that is zero, and would grow beyond all numbers
            2895,  # exponential steps that end where they begin, by an event of which nothing follows
            3281,  # a curved valley, stiff by 10⁸
            3679,  # more dimensions than lines, and many neurons that only these would let fold
            5106,  # a neuron at rest at w = 0, asked after every step whether it still does
            7971,  # short steps that are held by stability, and never counted as stiff
            8122,  # the same slides in one step again and again, while exponential steps wait for their turn
            8324,  # a slide on a line of many samples, ended by rounding of what cancels there
        ],
    )
    def test_it_comes_to_its_end(self, seed: int) -> None:
        verdict = examine(seed)
        assert verdict.statuses == ("reached", "reached")
        assert not verdict.reasons


class TestTheyAreWhatTheyShouldBe:
    """The problems themselves, so that the ranges above are not an empty promise."""

    def test_ranges(self) -> None:
        problems = [wide_problem(seed) for seed in range(500)]
        sizes = np.array([(*np.shape(data.inputs), net.weights[0].shape[0]) for net, data, _ in problems])
        assert sizes.min() == 1
        assert (sizes.max(0) >= (200, 30, 150)).all()
        assert 2 < np.median(sizes[:, 0]) < 30
        untils = np.array([options["until"] for *_, options in problems])
        assert untils.min() < 1e-6 < 1e6 < untils.max()
        starts = np.array([np.abs(np.asarray(net.weights[1])).max() for net, *_ in problems])
        assert 0 < np.min(starts[starts > 0]) < 1e-180 < 1 < starts.max()
        assert {options["loss"] for *_, options in problems} == {"square", "logistic", "exponential"}
        assert 0.1 < np.mean([options["clock"] == "loss" for *_, options in problems]) < 0.4
        assert max(options["weight_decay"] for *_, options in problems) > 4.5

    def test_something_happens(self) -> None:
        """In half of them weights move, in a quarter the loss falls to less than half."""
        moved, fell = [], []
        for seed in SLOW[100:140]:  # none that the batches of ``make test`` run
            start, data, options = wide_problem(seed)
            with budget(60):
                run = bf.gradient_flow(start, data, save=1, **options)
            moves = [np.abs(layer[-1] - layer[0]).max() for layer in run.weights]
            moved.append(max(moves) > 0.1 * max(np.abs(layer[0]).max() for layer in run.weights))
            fell.append(run.losses[-1] < 0.5 * run.losses[0])
        assert np.mean(moved) > 0.5
        assert np.mean(fell) > 0.25


def lsoda_flow(start: bf.Network, data: bf.Dataset, options: dict) -> np.ndarray | None:
    """The last weights, in a row, by scipy's LSODA on the bare field; None when 15,000 evaluations do not get there.

    σ' is that of the side a neuron is on, so that this cannot slide: it is for problems without sliding.
    """
    first, second = (np.array(layer, float) for layer in start.weights)
    inputs, targets = np.array(data.inputs, float), np.array(data.targets, float).ravel()
    slope, decay, loss, clock = start.slope, options["weight_decay"], options["loss"], options["clock"]
    cut = first.size

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        w, w2 = state[:cut].reshape(first.shape), state[cut:]
        before = inputs @ w.T
        gate = np.where(before > 0, 1.0, slope)
        outputs = (gate * before) @ w2
        size = 1.0
        if loss == "square":
            error = targets - outputs
        elif loss == "logistic":
            margins = targets * outputs
            error, size = targets * np.exp(-np.logaddexp(0, margins)), np.mean(np.logaddexp(0, -margins))
        else:
            falls = np.exp(-targets * outputs)
            error, size = targets * falls, np.mean(falls)
        if clock == "time":
            size = 1.0
        c = (gate * error[:, None]).T @ inputs / len(error)
        return np.concatenate([(w2[:, None] * c - decay * w).ravel(), (c * w).sum(1) - decay * w2]) / size

    state = np.concatenate([first.ravel(), second.ravel()])
    sizes = np.hypot(np.linalg.norm(first, axis=1), second[0])
    scales = np.concatenate([np.repeat(sizes, first.shape[1]), sizes])
    solver = LSODA(velocity, 0.0, state, options["until"], rtol=1e-11, atol=1e-11 * np.maximum(scales, 1e-290))
    while solver.status == "running" and solver.nfev < 15_000:
        solver.step()
    return solver.y if solver.status == "finished" else None


def last_weights(run: bf.Trajectory) -> np.ndarray:
    return np.concatenate([np.ravel(layer[-1]) for layer in run.weights])


def largest(run: bf.Trajectory) -> float:
    """The largest weight of all saved times; weights that have decayed since are not asked for all their digits."""
    return max(np.abs(layer).max() for layer in run.weights) or 1.0


def is_small(start: bf.Network, data: bf.Dataset, work: int) -> bool:
    return np.size(data.inputs) * start.weights[0].shape[0] <= work


class TestAgainstMethodsOfOthers:
    """Agreement within 1e-5 of the largest weight, or within what the flow makes of an error of rtol·100."""

    def test_scipy_where_nothing_slides(self) -> None:
        compared, apart, unfinished, separatrices = 0, [], [], []
        for seed in range(200):
            start, data, options = wide_problem(seed)
            # A neuron that starts exactly at w = 0 may have several ways; LSODA's right-hand side has σ'(0) = slope.
            at_zero = ~np.asarray(start.weights[0]).any(axis=1) & np.asarray(start.weights[1]).any(axis=0)
            if not is_small(start, data, 300) or at_zero.any():
                continue
            with budget(60):
                run = bf.gradient_flow(start, data, save=SAVES, rtol=TIGHT, **options)
            if run.status.name != "reached" or run.events is None or branched(run) or "slide" in run.events.kinds:
                continue
            try:
                with budget(5):
                    theirs = lsoda_flow(start, data, options)
            except OverBudgetError:
                theirs = None
            if theirs is None:
                unfinished.append(seed)
                continue
            compared += 1
            difference = np.abs(last_weights(run) - theirs).max() / largest(run)
            if difference > 1e-5:
                grows = amplification(run, start, data, options)
                if grows > SEPARATRIX and difference <= 1e-7 * grows:
                    separatrices.append(seed)
                else:
                    apart.append((seed, float(difference), grows))
        print(f"{compared} compared, {unfinished} not finished by LSODA, separatrices {separatrices}")
        assert not apart
        assert compared >= 40
        assert len(unfinished) <= 0.2 * compared
        assert len(separatrices) <= 0.03 * compared

    @pytest.mark.parametrize("seed", [141, 177, 264, 265, 307, 334, 437, 474, 609])
    def test_the_slow_reference_where_something_slides(self, seed: int) -> None:
        """Small ones of which the reference comes to an end within seconds; none of them branches or amplifies."""
        assert reference_difference(seed, 60.0) < 1e-5

    @pytest.mark.slow
    def test_the_slow_reference_on_all_that_slide(self) -> None:
        compared, apart = 0, []
        for seed in range(3000):
            difference = reference_difference(seed, 10.0)
            compared += math.isfinite(difference)
            if difference > 1e-5:
                apart.append((seed, difference))
        print(f"{compared} compared")
        assert not apart
        assert compared >= 50


def reference_difference(seed: int, seconds: float) -> float:
    """How far the last weights are from the reference's; NaN where nothing slides, or it branches or takes too long."""
    start, data, options = wide_problem(seed)
    if not is_small(start, data, 400) or start.slope == 1 or np.size(data.inputs) < 4:
        return math.nan
    with budget(60):
        run = bf.gradient_flow(start, data, save=SAVES, rtol=TIGHT, **options)
    if run.status.name != "reached" or run.events is None or branched(run) or "slide" not in run.events.kinds:
        return math.nan
    first, second = map(np.asarray, start.weights)
    given = {key: value for key, value in options.items() if key != "stop"}
    try:
        with budget(seconds), np.errstate(all="ignore"):
            reference = reference_flow(
                data.inputs, data.targets, first, second[0], slope=start.slope, save=SAVES, escape=True, **given
            )
    except (OverBudgetError, RuntimeError, ValueError, OverflowError):
        return math.nan
    theirs = np.concatenate([reference.first[-1].ravel(), reference.second[-1].ravel()])
    difference = float(np.abs(last_weights(run) - theirs).max() / largest(run))
    if difference > 1e-5 and difference <= 1e-7 * amplification(run, start, data, options):
        return math.nan
    return difference


class TestTheExcuseItself:
    """A separatrix is excused by measured growth only; the measure must be small where nothing amplifies."""

    @pytest.mark.parametrize("seed", range(3))
    def test_a_plain_problem_amplifies_nothing(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        data = bf.Dataset(rng.normal(size=(6, 3)), rng.normal(size=6))
        start = bf.Network.init([3, 5, 1], 0.2, 0.5, seed)
        run = bf.gradient_flow(start, data, until=2.0, save=SAVES, rtol=TIGHT)
        assert amplification(run, start, data, {"until": 2.0}) < SEPARATRIX

    def test_a_saddle_amplifies(self) -> None:
        """The linear network ẇ = w₂(y − w w₂) close to its saddle, on the side that decays first."""
        start, data = bf.Network([[[1.0]], [[-1.0 + 1e-7]]], 1.0), bf.Dataset([[1.0]], [1.0])
        run = bf.gradient_flow(start, data, until=30.0, save=SAVES, rtol=TIGHT)
        assert amplification(run, start, data, {"until": 30.0}) > 1e4

    def test_runs_that_end_early_are_compared_where_the_shorter_one_ended(self) -> None:
        rng = np.random.default_rng(1)
        data = bf.Dataset(rng.normal(size=(6, 3)), rng.normal(size=6))
        start, other = (bf.Network.init([3, 5, 1], 0.2, 0.5, seed) for seed in (0, 1))
        whole, apart = (bf.gradient_flow(net, data, until=20.0, save=[0.0, 20.0], rtol=TIGHT) for net in (start, other))
        short = bf.gradient_flow(start, data, until=20.0, save=[0.0, 20.0], rtol=LOOSE, max_steps=6)
        assert not short.status.complete
        assert 0 < last_common(short, whole) == short.times[-1] < 20.0
        assert distance(short, whole) < ROOM * LOOSE < distance(short, apart)
        shifted = dataclasses.replace(short, weights=tuple(layer * [[[1]], [[1.01]]] for layer in short.weights))
        assert distance(shifted, whole) > ROOM * LOOSE  # only the last one differs: it is looked at

    def test_verdicts_are_recorded_as_they_come(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "verdicts"
        for seeds in (["1", "2"], ["2", "3"]):
            monkeypatch.setattr("sys.argv", ["wide", "--record", str(path), "--seeds", *seeds])
            main()
        verdicts = recorded(path)
        assert [verdict.seed for verdict in verdicts] == [1, 2, 3]
        assert verdicts[1].statuses == examine(2).statuses

    def test_what_it_cannot_hide(self) -> None:
        assert math.isclose(ROOM * LOOSE * SEPARATRIX, 1e-2)  # the least that a separatrix allows
        assert NUDGE <= LOOSE
