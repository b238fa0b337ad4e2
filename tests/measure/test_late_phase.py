"""The end of training on separable data: rank one, alignment, their rates, the margin, Ji & Telgarsky's bound."""

import functools

import numpy as np
import pytest

import biasfree as bf
from biasfree.measure import late_phase, rank_excess
from biasfree.theory import max_margin, rank_bound

DATA = bf.datasets.separable(dim=4, samples=16, seed=0)
TEN = np.log(10)


def until(network: bf.Network, log10_loss: float, data: bf.Dataset = DATA, loss: str = "logistic") -> bf.Trajectory:
    stop = bf.Stop(log_loss=log10_loss * TEN)
    run = bf.gradient_flow(network, data, loss=loss, clock="loss", until=np.inf, stop=stop)
    assert run.status.complete
    assert run.log_losses[-1] <= log10_loss * TEN
    return run


@functools.cache
def linear(depth: int) -> bf.Trajectory:
    return until(bf.Network.init([4, *[8] * (depth - 1), 1], 1.0, 0.5 if depth == 2 else 1.0, seed=0), -1000)


@functools.cache
def relu_then_linear(log10_loss: float) -> bf.Trajectory:
    start = bf.Network.init([4, 8, 8, 8, 8, 1], 0.0, 2.0, seed=0, rectified=[True, True, False, False])
    return until(start, log10_loss)


def test_linear_networks_become_rank_one_and_aligned_at_the_predicted_rate() -> None:
    """1 − ‖W‖₂/‖W‖_F ~ (ln 1/L)^(−2/depth), since ln 1/L ~ ‖θ‖^depth and ‖W‖_F² − ‖W‖₂² settles."""
    for depth in (2, 3):
        phase = late_phase(linear(depth))
        for law in phase.approaches.values():
            assert law.exponent == 2 / depth
            assert law.measured_exponent == pytest.approx(2 / depth, abs=0.02)
            assert law.misfit < 1e-2
        assert (phase.spectral_share[-1] > 0.999).all()
        assert (1 - phase.alignment[-1] < 1e-6).all()
        # numpy, one matrix at a time
        last = np.asarray(linear(depth).final.weights[0])
        sizes = np.linalg.svd(last, compute_uv=False)
        assert phase.spectral_share[-1, 0] == pytest.approx(sizes[0] / np.linalg.norm(last), rel=1e-12)


def test_their_direction_is_the_svms_and_the_angle_falls_like_one_over_the_log_of_the_loss() -> None:
    run = linear(2)
    phase = late_phase(run)
    product = np.asarray(run.final.weights[1] @ run.final.weights[0])[0]
    assert phase.svm_gap[-1] == pytest.approx(
        1 - product @ max_margin(DATA).direction / np.linalg.norm(product), abs=1e-12
    )
    assert phase.svm_gap[-1] < 1e-7
    tail = run.log_losses < -20
    slope = np.polyfit(np.log(-run.log_losses[tail]), np.log(phase.svm_gap[tail]), 1)[0]
    # 1 − cos is the square of the angle.
    assert slope == pytest.approx(-2, abs=0.1)


@pytest.mark.parametrize("depth", [2, 3])
def test_margins_rise_to_their_limit(depth: int) -> None:
    """Lyu & Li: the smoothed normalised margin never falls; for linear networks its limit is margin/depth^(depth/2)."""
    phase = late_phase(linear(depth))
    positive = phase.smoothed_margin > 0
    assert (np.diff(phase.smoothed_margin[positive]) > -1e-9).all()
    assert phase.normalised_margin[-1] == pytest.approx(max_margin(DATA).margin / depth ** (depth / 2), rel=0.01)
    assert phase.angle[-1] == 0
    assert phase.angle[np.argmax(phase.tail)] < 0.1


def test_relu_then_linear_layers() -> None:
    """Two ReLU and three linear layers: alignment comes early, rank one slowly, and the ReLU layers stay away."""
    phase = late_phase(relu_then_linear(-100))
    early = int(np.argmin(np.abs(phase.log_losses - np.log(1e-5))))
    assert ((phase.spectral_share[early, 2:4] > 0.75) & (phase.spectral_share[early, 2:4] < 0.9)).all()
    assert ((phase.spectral_share[-1, 2:4] > 0.93) & (phase.spectral_share[-1, 2:4] < 0.96)).all()
    assert (phase.alignment[-1, 2:] > 0.997).all()
    assert all(1.2 < spectrum.stable_rank[-1] < 1.8 for spectrum in phase.acting[:2])
    assert "0.99 is not reached" in str(phase)
    assert phase.rank.holds


@pytest.mark.slow
def test_what_a_run_to_1e_100_extrapolates_to_is_measured_at_1e_1000() -> None:
    near, far = late_phase(relu_then_linear(-100)), late_phase(relu_then_linear(-1000))
    for layer in (3, 4):
        expected = float(near.approaches[layer].share(-1000 * TEN))
        assert far.spectral_share[-1, layer - 1] == pytest.approx(expected, abs=2e-3)
        assert far.spectral_share[-1, layer - 1] > 0.97
        assert far.approaches[layer].measured_exponent == pytest.approx(2 / 5, abs=0.04)
    assert far.rank.holds


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_identity_skips_through_i_plus_w(loss: str) -> None:
    start = bf.Network.init([4, 8, 8, 8, 1], 1.0, 1.0, seed=0, skips=[0, 1, 1, 0])
    phase = late_phase(until(start, -1000, loss=loss))
    middle = int(np.argmin(np.abs(phase.log_losses - np.log(1e-10))))
    assert (phase.spectral_share[middle, 1:3] > 0.6).all()
    assert (phase.spectral_share[middle, 1:3] < 0.85).all()
    assert ((phase.spectral_share[-1, 1:3] > 0.94) & (phase.spectral_share[-1, 1:3] < 0.99)).all()
    assert (phase.alignment[-1] > 0.9999).all()
    assert phase.rank.holds
    assert phase.svm_gap[-1] < 1e-7


@pytest.mark.slow
def test_digits() -> None:
    data = bf.datasets.digits((0, 1))
    start = bf.Network.init([data.dim, 12, 12, 12, 12, 1], 0.0, 0.5, seed=0, rectified=[True, True, False, False])
    phase = late_phase(until(start, -100, data))
    assert (phase.spectral_share[-1, 2:4] > 0.9).all()
    assert (phase.alignment[-1, 2:] > 0.99).all()
    assert phase.rank.holds


def test_the_bound_holds_at_every_time_and_knows_its_start() -> None:
    for run in (linear(2), linear(3), relu_then_linear(-100)):
        found = rank_excess(run)
        assert found.holds
        assert (found.misalignment <= found.misalignment_limit + 1e-9).all()
        # D of a start ten times smaller is a hundred times smaller, and this run breaks it.
        smaller = rank_bound(run.template.rescaled(0.1)).excess
        assert (found.excess.max(axis=0) > smaller)[:-1].any()
        assert rank_bound(run.template).common >= rank_bound(run.template).excess.max()


def test_refusals() -> None:
    def descended(network: bf.Network, data: bf.Dataset = DATA, loss: str = "logistic") -> bf.Trajectory:
        return bf.gradient_descent(network, data, learning_rate=0.01, steps=10, save=2, loss=loss)

    two = bf.Network.init([4, 8, 1], 1.0, 0.5, seed=0)
    with pytest.raises(ValueError, match="comes to rest"):
        late_phase(descended(two, loss="square"))
    with pytest.raises(ValueError, match="side of its label"):
        late_phase(descended(two.rescaled(1e-3)))
    mixed = bf.Dataset(DATA.inputs[[0] * 16] * np.arange(1, 17)[:, None], np.resize([1.0, -1.0], 16))
    with pytest.raises(ValueError, match=r"separable|separate"):
        late_phase(descended(two, mixed))
    one = descended(bf.Network.init([4, 1], 1.0, 0.5, seed=0))
    with pytest.raises(ValueError, match="one layer"):
        late_phase(one)
    with pytest.raises(ValueError, match="one layer"):
        rank_bound(one.template)
    with pytest.raises(ValueError, match="Trajectory"):
        late_phase(two)
    with pytest.raises(ValueError, match="one output"):
        rank_bound(bf.Network.init([4, 8, 2], 1.0, 0.5, seed=0))
