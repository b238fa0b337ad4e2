"""Rows that go on alone after an event: against steps that end at every event, and against pulls computed plainly."""

import numpy as np
import pytest

import biasfree as bf
from biasfree.dynamics.exact import _alone, _follow, _state
from biasfree.dynamics.exact._arrays import START, Desk, Form, Limits, Trial
from biasfree.dynamics.exact._data import by_line
from biasfree.dynamics.exact._field import matrices_of, no_form, pulls_of, velocity
from biasfree.dynamics.exact._kernels import attempt
from biasfree.dynamics.exact._methods import AT_NODES, FROM_NODES, NODES, ORDER_8, basis, on_curve
from biasfree.dynamics.exact._sliding import nobody_slides
from biasfree.lines import lines

THREE = bf.Dataset([(-0.75, 1.0), (-0.5, 1.0), (0.125, 1.0)], [1.1, 0.1, 0.8])


def balanced(width: int, scale: float = 1e-3) -> bf.Network:
    rng = np.random.default_rng(0)
    first = scale / np.sqrt(width) * rng.standard_normal((width, 2))
    return bf.Network([first, (rng.choice([-1.0, 1.0], size=width) * np.linalg.norm(first, axis=1))[None]], 0.0)


def generic(seed: int, loss: str = "square") -> tuple[bf.Network, bf.Dataset]:
    rng = np.random.default_rng(seed)
    targets = rng.standard_normal(12)
    data = bf.Dataset(rng.standard_normal((12, 3)), np.sign(targets) if loss != "square" else targets)
    return bf.Network.init([3, 12, 1], 0.0, 0.05, seed), data


def no_arcs(data) -> _follow._Arcs:
    return _follow._Arcs.room(0, len(data.transposed) + data.outputs, data.transposed.shape[1])


@pytest.fixture(autouse=True)
def never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """These networks are so small that events would simply cut their steps (``_travel``)."""
    monkeypatch.setattr(_state, "_DIRECT", 0)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch):
    """Let every step end at its first event, for all rows."""

    def stop() -> None:
        monkeypatch.setattr(_alone, "_WORTH", np.inf)
        monkeypatch.setattr(_alone, "_UNFELT", 0.0)
        monkeypatch.setattr(_alone, "passing", lambda *_: None)

    return stop


class TestAgainstStoppingAtEveryEvent:
    @pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
    @pytest.mark.parametrize("seed", range(4))
    def test_generic_data(self, together, seed: int, loss: str) -> None:
        start, data = generic(seed, loss)
        alone = bf.gradient_flow(start, data, until=10.0, save=20, loss=loss, method="exact")
        together()
        stopped = bf.gradient_flow(start, data, until=10.0, save=20, loss=loss, method="exact", rtol=1e-9)
        np.testing.assert_allclose(alone.losses, stopped.losses, rtol=0, atol=2e-6 * stopped.losses[0])
        assert alone.energy_gap < 1e-5

    def test_events_are_told_at_their_own_times(self, together) -> None:
        start = balanced(40)
        alone = bf.gradient_flow(start, THREE, until=8.0, save=5, method="exact")
        together()
        stopped = bf.gradient_flow(start, THREE, until=8.0, save=5, method="exact", rtol=1e-9)
        first, other = ({} for _ in range(2))
        for run, told in ((alone, first), (stopped, other)):
            for time, *what in zip(
                run.events.times, run.events.neurons, run.events.lines, run.events.kinds, strict=True
            ):
                told.setdefault(tuple(what), time)
        assert set(first) == set(other)
        assert len(first) > 20
        assert max(abs(first[what] - other[what]) for what in first) < 1e-4
        assert alone.counts.accepted < 0.6 * stopped.counts.accepted

    @pytest.mark.parametrize("outputs", [1, 3])
    @pytest.mark.parametrize("seed", range(3))
    def test_events_followed_in_c_and_in_python(self, monkeypatch: pytest.MonkeyPatch, seed: int, outputs: int) -> None:
        rng = np.random.default_rng(seed)
        data = bf.Dataset(rng.standard_normal((15, 3)), np.squeeze(rng.standard_normal((15, outputs))))
        start = bf.Network.init([3, 40, outputs], 0.0, 0.02, seed)
        options = {"until": 6.0, "save": 30, "method": "exact", "rtol": 1e-8}
        compiled = bf.gradient_flow(start, data, **options)
        monkeypatch.setattr(
            _follow, "_plain", lambda step, first, data, *_: _follow._ways_of(no_arcs(data), first, data)
        )
        python = bf.gradient_flow(start, data, **options)
        assert len(compiled.events) == len(python.events) > 50
        for one, other in zip(compiled.weights, python.weights, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-8 * np.abs(other).max())
        assert abs(compiled.energy_gap - python.energy_gap) < 1e-9

    def test_dead_neurons_stay_where_they_are(self) -> None:
        """Neurons that die on a line lie on it, many in one direction: they are merged and never cross it again."""
        runs = [bf.gradient_flow(balanced(1600), THREE, until=12.0, method="exact", rtol=r) for r in (1e-6, 1e-8)]
        for run in runs:
            crossed = np.stack([run.events.neurons, run.events.lines])[:, run.events.kinds == "cross"]
            assert np.unique(crossed, axis=1, return_counts=True)[1].max() == 1
        assert len(runs[0].events) == len(runs[1].events) > 1000

    def test_a_wider_network_takes_no_more_steps(self) -> None:
        """Twice the neurons meet twice the lines; the steps of all rows do not follow."""
        narrow, wide = (bf.gradient_flow(balanced(width), THREE, until=10.0, method="exact") for width in (100, 400))
        assert len(wide.events) > 3 * len(narrow.events)
        assert wide.counts.accepted < 1.5 * narrow.counts.accepted

    def test_saved_times_within_a_step(self, together) -> None:
        """What is saved between the event and the step's end is right too."""
        start = balanced(40)
        times = np.linspace(0, 6, 301)
        alone = bf.gradient_flow(start, THREE, until=6.0, save=times, method="exact")
        together()
        stopped = bf.gradient_flow(start, THREE, until=6.0, save=times, method="exact", rtol=1e-9)
        size = np.abs(stopped.weights[0]).max(axis=(1, 2), keepdims=True)
        assert (np.abs(alone.weights[0] - stopped.weights[0]) / size).max() < 1e-5


class TestCrossingsThatJustPass:
    """Few neurons on many lines, each of which pulls little: whole steps through dozens of crossings (``_kicks``)."""

    KINDS = (("square", 1), ("logistic", 1), ("exponential", 1), ("square", 3), ("cross-entropy", 3))

    def many_lines(self, loss: str, outputs: int, decay: float = 0.0) -> tuple[bf.Network, bf.Dataset, dict]:
        rng = np.random.default_rng(3)
        inputs = rng.standard_normal((200, 4))
        targets = inputs @ rng.standard_normal((4, outputs))
        if loss == "cross-entropy":
            targets = np.eye(outputs)[np.argmax(targets, axis=1)]
        elif loss != "square":
            targets = np.sign(targets)
        inputs, targets = np.concatenate([inputs, -inputs]), np.concatenate([targets, -targets])
        if loss == "cross-entropy":
            targets = np.concatenate([targets[:200], np.roll(targets[:200], 1, axis=1)])
        data = bf.Dataset(inputs, targets[:, 0] if outputs == 1 else targets)
        first = rng.standard_normal((2, 4))
        first, second = np.concatenate([first, -first]), rng.standard_normal((outputs, 2))
        start = bf.Network([0.7 * first, 0.7 * np.concatenate([second, -1.05 * second], axis=1)], 0.2)
        return start, data, {"loss": loss, "weight_decay": decay, "until": 4.0}

    @pytest.mark.parametrize(("loss", "outputs"), KINDS)
    @pytest.mark.parametrize("decay", [0.0, pytest.param(0.05, marks=pytest.mark.slow)])
    def test_against_stopping_at_each(self, together, loss: str, outputs: int, decay: float) -> None:
        start, data, options = self.many_lines(loss, outputs, decay)
        times = np.linspace(0.0, 4.0, 81)
        whole = bf.gradient_flow(start, data, method="exact", save=times, **options)
        together()
        stopped = bf.gradient_flow(start, data, method="exact", save=times, rtol=1e-9, **options)
        assert len(stopped.events) > 30
        assert len(whole.events) == len(stopped.events)
        assert whole.counts.accepted < 0.5 * stopped.counts.accepted
        for one, other in zip(whole.weights, stopped.weights, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=3e-6 * np.abs(other).max())
        assert whole.energy_gap < 3e-6

    @pytest.mark.parametrize("rtol", [1e-5, 1e-7, 1e-9])
    def test_the_error_is_within_the_tolerance(self, together, rtol: float) -> None:
        start, data, options = self.many_lines("square", 1)
        run = bf.gradient_flow(start, data, method="exact", rtol=rtol, **options)
        together()
        truth = bf.gradient_flow(start, data, method="exact", rtol=1e-12, **options)
        assert np.abs(run.weights[0][-1] - truth.weights[0][-1]).max() < rtol

    def test_merged_neurons_come_out_one_by_one(self, together) -> None:
        """Two neurons in almost one direction are carried as one row and their difference, through all crossings."""
        start, data, options = self.many_lines("square", 1)
        first, second = (np.asarray(weight).copy() for weight in start.weights)
        first[1], second[:, 1] = 0.7 * first[0] + 1e-5, 0.7 * second[:, 0]
        start = bf.Network([first, second], 0.2)
        whole = bf.gradient_flow(start, data, method="exact", **options)
        together()
        stopped = bf.gradient_flow(start, data, method="exact", rtol=1e-11, **options)
        apart, truth = (
            run.weights[0][-1][1] / run.weights[1][-1][0, 1] - run.weights[0][-1][0] / run.weights[1][-1][0, 0]
            for run in (whole, stopped)
        )
        np.testing.assert_allclose(apart, truth, rtol=0, atol=0.05 * np.abs(truth).max())


def test_the_new_side_of_a_line_without_pull_is_felt() -> None:
    """Its sample is fitted, so that crossing it kicks nobody; beyond it the output there is another."""
    rng = np.random.default_rng([19, 100])
    data = bf.Dataset(rng.standard_normal((3, 2)), rng.standard_normal(3))
    width = int(rng.integers(1, 7))
    start = bf.Network([rng.standard_normal((width, 2)) * 1e-100, rng.standard_normal((1, width)) * 1e-100], 0.0)
    run = bf.gradient_flow(start, data, until=1500.0, rtol=1e-8, method="exact")
    assert (np.abs(run.events.times - 1159.643) < 1e-2).any()
    assert run.energy_gap < 1e-9


class TestGivenPulls:
    @pytest.mark.parametrize("loss", ["square", "logistic"])
    def test_a_row_alone_moves_as_among_the_others(self, loss: str) -> None:
        """With the pulls of a smooth step given, one row of it takes the way it had among all."""
        rng = np.random.default_rng(1)
        targets = rng.standard_normal(5)
        dataset = bf.Dataset(rng.standard_normal((5, 3)), np.sign(targets) if loss != "square" else targets)
        data = by_line(lines(dataset.inputs), dataset, 0.2, loss, "time", 0.01)
        z = rng.standard_normal((4, 4))
        side = np.where(z[:, :3] @ data.transposed < 0, -1.0, 1.0)
        pattern, limits = nobody_slides(side, np.arange(4), 3), Limits(1e300, 0.0, 1.0)

        def step(rows, data, pattern, form):
            trial, desk = Trial.room(1, *rows.shape), Desk.room(*rows.shape, len(rows), *data.transposed.shape)
            desk.rows[START] = rows
            attempt(0, 0, 0.0, 0.05, 0.0, data, pattern, form, limits, ORDER_8, np.zeros(0), trial, desk)
            return trial.curves[0]

        curve = step(z, data, pattern, no_form(1))
        found = pulls_of(on_curve(AT_NODES, curve), data, side)
        given = on_curve(FROM_NODES, np.concatenate([found.p, found.q], axis=1))
        alone = data._replace(given=given, given_at=0.0, given_rate=1 / 0.05)
        own = nobody_slides(side[2:3], np.arange(1), 3)
        pulled = matrices_of(given[:, :1], given[:, 1:], data, own.side).reshape(-1, 1)
        form = Form(np.ascontiguousarray(pulled), np.zeros((0, 0)))
        np.testing.assert_allclose(step(z[2:3], alone, own, form), curve[:, 2:3], atol=1e-11)
        for x in NODES:
            here = alone._replace(given_at=float(x))
            place = on_curve(basis(x), curve)
            plain = velocity(place, pulls_of(place, data, side), pattern)[2:3]
            found_alone = velocity(place[2:3], pulls_of(place[2:3], here, side[2:3]), own)
            np.testing.assert_allclose(found_alone, plain, atol=1e-9)


def test_lines_that_are_met_because_of_others_are_crossed_in_the_same_step() -> None:
    """Kicks drive a row through a fan of lines, many of which it would not meet without them.

    They were left to the next step, which took the row for one that lies on all of them, at w = 0.
    """
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.uniform(0.5, 1.0, 200), rng.uniform(-0.01, 0.01, 200)])
    inputs[101] = [-1.0, 0.1]
    data = bf.Dataset(inputs, np.where(np.arange(200) == 101, 5.0, 1.0))
    start = bf.Network([[[-0.3, 0.1], [-0.03, -4.0], [0.2, 0.1]], [[0.3, 0.3, 0.3]]], 0.0)
    loose, tight = (bf.gradient_flow(start, data, until=1.0, method="exact", rtol=rtol) for rtol in (1e-6, 1e-9))
    assert loose.status.name == "reached"
    np.testing.assert_allclose(loose.weights[0][-1], tight.weights[0][-1], atol=4e-4)
    assert len(loose.events) == len(tight.events) == 156
