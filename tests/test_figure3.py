"""Figure 3 of the journal paper (Figure 1 of the workshop): six slopes on 20-dimensional symmetric data, γ = 1e-8."""

import numpy as np
import pytest

import biasfree as bf

SLOPES = (0.0, 0.2, 0.4, 0.6, 0.8)
# The even part, b = (1−α)/2 of the activation, takes this long to vanish at α = 0.8.
LINEAR_TIME = 250.0


def draw(seed: int, width: int = 500) -> tuple[bf.Dataset, bf.Network]:
    """One generator for inputs, teacher, W1, W2, in this order."""
    rng = np.random.default_rng(seed)
    data = bf.datasets.symmetric_gaussian(target="linear_plus_sine", seed=rng)
    return data, bf.Network.init([20, width, 1], 1.0, 1e-8, rng)


def predicted_error(network: bf.Network, data: bf.Dataset) -> float:
    """|ε|/2, ε = (‖r₁⁺‖² − ‖r₁⁻‖²)/‖r₁‖², r₁ = (W₁β̄ + W₂ᵀ)/2: what a random start lacks of Assumption 4."""
    first, second = map(np.asarray, network.weights)
    r = first @ (data.correlation / np.linalg.norm(data.correlation)) + second[0]
    return abs(np.sum(r * np.abs(r))) / np.sum(r**2) / 2


def relu_twin(network: bf.Network, slope: float) -> bf.Network:
    return network.with_slope(slope).rescaled(np.sqrt(2 / (slope + 1)))


def check(seed: int, slopes: tuple[float, ...]) -> None:
    data, network = draw(seed)
    solution = np.linalg.solve(data.covariance, data.correlation)
    least_squares = 0.5 * np.mean((data.targets - data.inputs @ solution) ** 2)
    linear = bf.gradient_flow(network, data, until=LINEAR_TIME, save=4)
    assert linear.losses[-1] == pytest.approx(least_squares, abs=1e-8)
    size = np.sqrt(sum(np.sum(np.asarray(w) ** 2) for w in linear.final.weights))
    for slope in slopes:
        time = LINEAR_TIME * 2 / (slope + 1)
        run = bf.gradient_flow(relu_twin(network, slope), data, until=time, save=4)
        assert run.losses[-1] == pytest.approx(least_squares, abs=1e-8)
        apart = [
            np.sqrt((slope + 1) / 2) * np.asarray(a) - np.asarray(b)
            for a, b in zip(run.final.weights, linear.final.weights, strict=True)
        ]
        error = np.sqrt(sum(np.sum(d**2) for d in apart)) / size
        assert error == pytest.approx(predicted_error(network, data), rel=0.05), slope


def test_predicted_errors_are_the_known_ones() -> None:
    assert [100 * predicted_error(*reversed(draw(seed))) for seed in (0, 1, 2)] == pytest.approx(
        [0.827, 0.827, 4.64], abs=0.005
    )


def test_ends_at_least_squares_with_the_predicted_weight_error() -> None:
    check(0, (0.0, 0.8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_five_seeds_and_all_slopes(seed: int) -> None:
    check(seed, SLOPES)


@pytest.mark.parametrize("width", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_default_tolerance_is_within_1e_5_of_a_tight_run(width: int) -> None:
    """The loss curve of the α = 0 run against rtol = 1e-10, at times through the drop."""
    data, network = draw(0, width)
    start, times = relu_twin(network, 0.0), np.linspace(0, 40, 41)
    plain, tight = (
        bf.gradient_flow(start, data, until=40.0, save=times, rtol=rtol, method=method)
        for rtol, method in ((1e-6, "auto"), (1e-10, "dopri8"))
    )
    assert np.abs(plain.losses - tight.losses).max() < 1e-5
