"""Neurons that fade on a plateau and grow again: what the exact flow must not forget of them (``_balance``)."""

import dataclasses
import math

import numpy as np
import pytest

import biasfree as bf
from biasfree.dynamics import _guard
from tests.random_problems import wide_problem
from tests.wide import distance

FADES = 4897  # thirteen neurons from 1e-36; on the first plateau some fade by 1e9 and grow again
NEAR_FITTED_LINES = 543  # tiny neurons beside lines that are fitted, where fast directions rest


def own_drift(run: bf.Trajectory) -> np.ndarray:
    """How far ‖w‖² − v² of every neuron is from its law, relative to the neuron's own size then."""
    largest = np.abs(run.weights[0][0]).max()
    first, second = (layer / largest for layer in run.weights)
    incoming, outgoing = (first**2).sum(axis=2), (second**2).sum(axis=1)
    fade = np.exp(-2 * run.settings["weight_decay"] * run.times)[:, None]
    balance = incoming - outgoing
    return np.abs(balance - fade * balance[0]) / (incoming + outgoing)


@pytest.fixture(scope="module")
def runs() -> dict[float, bf.Trajectory]:
    start, data, options = wide_problem(FADES)
    times = np.linspace(0.0, options["until"], 401)
    return {rtol: bf.gradient_flow(start, data, save=times, rtol=rtol, **options) for rtol in (1e-6, 3e-7, 1e-8)}


class TestFaded:
    def test_every_neuron_keeps_its_balance_by_its_own_size(self, runs):
        for run in runs.values():
            sizes = np.abs(run.weights[0]).max(axis=2)
            peak = np.maximum.accumulate(sizes, axis=0)
            assert (peak / sizes).max() > 1e6, "nothing fades: this tests nothing"
            assert own_drift(run).max() < 1e-5

    def test_tolerances_agree(self, runs):
        for rtol in (1e-6, 3e-7):
            assert distance(runs[rtol], runs[1e-8]) < 100 * rtol

    def test_what_may_be_lost_is_told(self, runs):
        assert runs[1e-6].status.name == "reached"
        assert 1e-8 < runs[1e-6].counts.regrowth_error < 1e-4
        assert "grew again" in str(runs[1e-6])

    @pytest.mark.parametrize("angle", [0.3, 2.0])
    def test_other_axes_differ_by_no_more_than_is_told(self, runs, angle):
        start, data, options = wide_problem(FADES)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        turned = bf.Network([start.weights[0] @ turn.T, start.weights[1]], start.slope)
        other = bf.Dataset(np.asarray(data.inputs) @ turn.T, np.asarray(data.targets))
        run = bf.gradient_flow(turned, other, save=runs[1e-6].times, rtol=1e-6, **options)
        off = np.abs(run.weights[0] @ turn - runs[1e-6].weights[0]).max() / np.abs(runs[1e-6].weights[0]).max()
        assert off < 2 * run.counts.regrowth_error + 100e-6

    def test_a_run_that_lost_too_much_is_refused_and_not_tried_again(self, runs):
        counts = dataclasses.replace(runs[1e-6].counts, regrowth_error=2e-4)
        judged = _guard.judged(dataclasses.replace(runs[1e-6], counts=counts))
        assert judged.status.name == "inaccurate"
        assert "grew again" in judged.status.message
        assert _guard.judge(judged).lost_to_rounding
        assert not _guard.judge(runs[1e-6]).lost_to_rounding


@pytest.mark.parametrize("rtol", [7e-7, 3e-7, 1e-7])
def test_steps_off_the_edge_of_stability_let_fitted_lines_rest(rtol):
    start, data, options = wide_problem(NEAR_FITTED_LINES)
    loose, tight = (bf.gradient_flow(start, data, save=10, rtol=each, **options) for each in (rtol, 1e-9))
    assert loose.status.complete
    assert distance(loose, tight) < 100 * rtol


@pytest.mark.parametrize(("offset", "rtol"), [(1e-12, 1e-6), (1e-9, 1e-6), (1e-12, 1e-10)])
def test_on_the_loss_clock_with_decay_it_is_told_what_may_be_lost(offset: float, rtol: float) -> None:
    """Balances are not put back there. L stays ln 2, so that w = e^{−λs/L}(A e^{ρs} + B e^{−ρs}), ρ = ½/L."""
    level, decay, size = math.log(2), 1e-3, 1e-20
    start = bf.Network([[[size]], [[-size * (1 - offset)]]], 0.0)
    until = math.log(2 / offset) * level / 0.5 * 2  # as large as at the start, and once more
    run = bf.gradient_flow(
        start, bf.Dataset([[1.0]], [1.0]), loss="logistic", clock="loss", weight_decay=decay, until=until, rtol=rtol,
        save=4, method="exact",
    )  # fmt: skip
    up, down = 0.5 * size * offset, 0.5 * size * (2 - offset)
    growth = np.exp(0.5 / level * run.times)
    truth = np.exp(-decay / level * run.times) * (up * growth + down / growth)
    off = np.abs(run.weights[0][:, 0, 0] / truth - 1).max()
    assert off < 100 * rtol + run.counts.regrowth_error
    assert run.status.complete == (run.counts.regrowth_error <= 100 * rtol + 1e-9)
    assert run.counts.regrowth_error > (1e-5 if offset == 1e-12 else 1e-9)
