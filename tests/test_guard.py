"""What the guard lets through, and what a run says that it does not."""

import dataclasses
import math

import numpy as np
import pytest

import biasfree as bf
from biasfree import Network, Trajectory, datasets
from biasfree.dynamics import _flow, _guard

DATA = datasets.symmetric_gaussian(dim=3, pairs=20, target="linear_plus_sine", seed=3)
START = Network.init([3, 6, 1], 0.4, 0.3, 11)


@pytest.fixture(scope="module")
def flow() -> Trajectory:
    return bf.gradient_flow(START, DATA, until=4.0, save=8)


def doctored(run: Trajectory, **changes) -> Trajectory:
    return _guard.judged(dataclasses.replace(run, **changes))


def changed(array: np.ndarray, index, value: float) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def test_a_sound_run_passes(flow) -> None:
    assert flow.status.name == "reached"
    assert _guard.judged(flow) is flow


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(flow, value) -> None:
    first, second = flow.weights
    run = doctored(flow, weights=(changed(first, (3, 0, 0), value), second))
    assert run.status.name == "not finite"
    assert f"weights at {flow.times[3]:.6g}" in run.status.message
    assert flow.status.message in run.status.message


def test_losses_that_are_no_numbers(flow) -> None:
    run = doctored(flow, log_losses=changed(flow.log_losses, -1, np.nan))
    assert run.status.name == "not finite"
    assert "the loss at 4 is not a number" in run.status.message


def test_a_loss_of_zero_must_be_one(flow) -> None:
    assert "said to be 0 and is not" in doctored(flow, log_losses=changed(flow.log_losses, -1, -np.inf)).status.message
    fitted = bf.gradient_flow(Network([[[2.0]], [[0.5]]], 1.0), bf.Dataset([[1.0]], [1.0]), until=3.0)
    assert fitted.log_losses[-1] == -np.inf
    assert fitted.status.name == "reached"


def test_an_objective_above_its_start(flow) -> None:
    losses = changed(flow.losses, -1, 1.1 * flow.losses[0])
    energies = changed(flow.energies, -1, flow.losses[0] - losses[-1])  # as if the energy law held
    run = doctored(flow, losses=losses, log_losses=np.log(losses), energies=energies)
    assert run.status.name == "inaccurate"
    assert "rise of the objective" in run.status.message


def test_the_gauges(flow) -> None:
    first, second = flow.weights
    drifting = doctored(flow, weights=(changed(first, (-1, 0, 0), first[-1, 0, 0] + 0.01), second))
    leaking = doctored(flow, energies=changed(flow.energies, -1, 1.01 * flow.energies[-1]))
    sliding = doctored(flow, admissibility=0.3)
    for run, gauge in ((drifting, "balance drift"), (leaking, "energy gap"), (sliding, "inadmissible slide")):
        assert run.status.name == "inaccurate"
        assert not run.status.complete
        for text in (gauge, "above", "smaller rtol", flow.status.message):
            assert text in run.status.message


def test_weights_whose_squares_overflow(flow) -> None:
    first, second = flow.weights
    run = doctored(flow, weights=(changed(first, (-1, 0, 0), 1e200), second))
    assert run.status.name == "inaccurate"
    assert "balance drift is inf" in run.status.message


def test_a_run_cut_short_keeps_its_name_and_gets_the_sentence(flow) -> None:
    cut = dataclasses.replace(flow, status=flow.status._replace(name="interrupted"))
    run = doctored(cut, admissibility=0.3)
    assert run.status.name == "interrupted"
    assert "not to be trusted" in run.status.message


def test_energy_does_not_count_where_steps_chatter(flow) -> None:
    counts = dataclasses.replace(flow.counts, chattered=5)
    run = doctored(flow, counts=counts, energies=changed(flow.energies, -1, 2 * flow.energies[-1]))
    assert math.isnan(run.energy_gap)
    assert run.status.name == "reached"
    assert "does not apply where steps chatter" in str(run)


def test_descent_is_judged_for_its_numbers_alone() -> None:
    run = bf.gradient_descent(START, DATA, learning_rate=0.3, steps=30)
    assert run.status.name == "reached"
    assert "it is descent, not the flow" in str(run)
    first, second = run.weights
    assert doctored(run, weights=(changed(first, (1, 0, 0), np.nan), second)).status.name == "not finite"


@pytest.mark.parametrize(
    ("samples", "width", "rtol", "method"),
    [(6, 5000, 1e-6, "exact"), (30, 5000, 1e-6, "exact"), (31, 5000, 1e-6, "bosh3"), (100, 100, 1e-3, "exact"),
     (30, 5000, 1e-3, "rkc"), (300, 100, 1e-6, "bosh3")],
)  # fmt: skip
def test_few_lines_are_for_the_exact_flow_at_any_width(samples: int, width: int, rtol: float, method: str) -> None:
    """But where few digits are asked for, steps across crossings are quicker than to meet each."""
    rng = np.random.default_rng(0)
    data = bf.Dataset(rng.normal(size=(samples, 3)), rng.normal(size=samples))
    run = bf.gradient_flow(bf.Network.init([3, width, 1], 0.0, 1e-3, 0), data, until=1e-6, save=1, rtol=rtol)
    assert run.settings["method"] == method


class TestAutoGoesOn:
    """Where the exact flow fails, adaptive steps do the work, and the result says so."""

    def integrated(self, monkeypatch, spoil) -> Trajectory:
        whole = _flow._integrate

        def integrate(plan, method, recorder, progress):
            if method != "exact":
                return whole(plan, method, recorder, progress)
            return spoil(whole, plan, recorder)

        monkeypatch.setattr(_flow, "_integrate", integrate)
        return bf.gradient_flow(START, DATA, until=4.0, save=8, rtol=1e-8)

    def test_from_the_start_if_the_result_is_not_to_be_trusted(self, monkeypatch, flow) -> None:
        def spoil(whole, plan, recorder):
            return dataclasses.replace(whole(plan, "exact", recorder, None), admissibility=0.1)

        run = self.integrated(monkeypatch, spoil)
        assert run.status.name == "reached"
        assert run.settings["method"] == "bosh3"
        assert "not to be trusted: the inadmissible slide is 0.1" in run.settings["because"]
        np.testing.assert_allclose(run.losses, flow.losses, rtol=1e-4)

    def test_from_where_it_stands_if_it_is_stuck(self, monkeypatch, flow) -> None:
        def spoil(whole, plan, recorder):
            half = dataclasses.replace(plan, until=2.0)
            outcome = whole(half, "exact", recorder, None)
            return dataclasses.replace(outcome, status=outcome.status._replace(name="stuck"))

        run = self.integrated(monkeypatch, spoil)
        assert run.status.name == "reached"
        assert [stretch.how for stretch in run.stretches] == ["steps between events", "bosh3"]
        assert run.stretches[0].end == run.stretches[1].begin == 2.0
        assert run.settings["because"] == "the exact flow was stuck at t = 2; bosh3 went on from there"
        assert run.times.tolist() == flow.times.tolist()
        np.testing.assert_allclose(run.losses, flow.losses, rtol=1e-4)
        assert run.energy_gap < 1e-4 or run.counts.chattered
        np.testing.assert_allclose(run.energies, flow.energies, rtol=1e-3)
        assert "steps between events to t = 2, bosh3 to t = 4" in str(run)
        monkeypatch.undo()
        np.testing.assert_allclose(run.at(1.7).weights[0], flow.at(1.7).weights[0], atol=1e-5)


def test_a_third_of_the_loss_is_no_small_error_at_any_tolerance() -> None:
    run = bf.gradient_flow(
        bf.Network.init([2, 4, 1], 0.0, 0.1, 0), bf.datasets.six_points(), until=5.0, method="bosh3", rtol=1e-3, save=4
    )
    off = dataclasses.replace(run, energies=run.energies + 0.5 * run.losses[0] * (run.times > 0))
    assert off.energy_gap > 0.3
    assert _guard.judged(run).status.complete
    assert _guard.judged(off).status.name == "inaccurate"


class TestOnceMoreAtATighterTolerance:
    """A result that the guard refuses is computed again at a hundredth of the tolerance; only then by other methods."""

    @pytest.fixture
    def refused_at_first(self, monkeypatch):
        whole = _flow._integrate

        def integrate(plan, method, recorder, progress):
            outcome = whole(plan, method, recorder, progress)
            return dataclasses.replace(outcome, admissibility=0.1) if plan.rtol == 1e-6 else outcome

        monkeypatch.setattr(_flow, "_integrate", integrate)

    def test_auto_asks_the_exact_flow_again(self, refused_at_first, flow) -> None:
        run = bf.gradient_flow(START, DATA, until=4.0, save=8)
        assert run.status.name == "reached"
        assert (run.settings["method"], run.settings["rtol"]) == ("exact", 1e-8)
        assert (
            "the result at rtol 1e-06 was not to be trusted: the inadmissible slide is 0.1" in run.settings["because"]
        )
        assert run.times.tolist() == flow.times.tolist()
        np.testing.assert_allclose(run.losses, flow.losses, rtol=1e-6)

    def test_a_method_that_was_asked_for_is_not_replaced(self, refused_at_first) -> None:
        run = bf.gradient_flow(START, DATA, until=4.0, save=8, method="exact")
        assert (run.settings["rtol"], run.status.name) == (1e-6, "inaccurate")
