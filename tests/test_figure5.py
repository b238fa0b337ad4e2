"""Figure 5 of the journal paper (Figure 3 of the workshop): low-rank weights of deep networks on a linear target."""

import functools

import numpy as np
import pytest

import biasfree as bf
from biasfree.measure import fit_eq_39, fit_eq_40, linearity, structure

UNTIL = 2000.0


@functools.cache
def start(seed: int, slope: float) -> tuple[bf.Network, bf.Dataset]:
    """Width 100, three layers, scale 1e-2, 20 dimensions, 1000 pairs, y = wᵀx; both networks from the same weights."""
    data = bf.datasets.symmetric_gaussian(dim=20, pairs=1000, target="linear", seed=seed)
    return bf.Network.init([20, 100, 100, 1], slope, 1e-2, seed), data


def flow(seed: int, slope: float) -> bf.Trajectory:
    """Deep ReLU networks at rtol 1e-5: 1e-6 costs four times the gradients and moves the loss by less than 4e-4."""
    network, data = start(seed, slope)
    return bf.gradient_flow(network, data, until=UNTIL, save=20, rtol=1e-5)


def check_linear(network: bf.Network) -> None:
    ratios = [s.singular_values[1] / s.singular_values[0] for s in structure(network).layers[:-1]]
    assert max(ratios) < 0.01
    assert max(fit_eq_39(network).residuals) < 0.02


def check_relu(network: bf.Network, data: bf.Dataset) -> None:
    first, second, third = structure(network).layers
    assert first.singular_values[1] / first.singular_values[0] < 0.01
    assert len(third.singular_values) == 1
    assert second.singular_values[2] / second.singular_values[0] < 0.01
    # Rank two, not one.
    assert second.singular_values[1] / second.singular_values[0] > 0.5
    assert second.negative_mass < 0.01
    assert max(fit_eq_40(network).residuals) < 0.02
    assert linearity(network, data.inputs).error < 1e-3


@pytest.mark.slow
def test_flow_finds_the_structure_with_a_fifth_of_the_gradients() -> None:
    linear = flow(0, 1.0)
    check_linear(linear.final)
    assert linear.counts.evaluations <= 4000
    relu = flow(0, 0.0)
    check_relu(relu.final, start(0, 0.0)[1])
    assert relu.counts.evaluations <= 4000
    assert linear.losses[-1] < 1e-6
    assert relu.losses[-1] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds(seed: int) -> None:
    check_linear(flow(seed, 1.0).final)
    relu = flow(seed, 0.0)
    check_relu(relu.final, start(seed, 0.0)[1])
    assert relu.counts.evaluations <= 4000


@pytest.mark.slow
def test_the_papers_descent() -> None:
    """20,000 epochs at 0.1, the same time 2000."""
    for slope in (1.0, 0.0):
        network, data = start(0, slope)
        run = bf.gradient_descent(network, data, learning_rate=0.1, steps=20_000, save=20)
        if slope:
            check_linear(run.final)
        else:
            check_relu(run.final, data)
        flowed = flow(0, slope)
        apart = [np.asarray(a) - np.asarray(b) for a, b in zip(run.final.weights, flowed.final.weights, strict=True)]
        size = sum(float(np.sum(np.asarray(w) ** 2)) for w in flowed.final.weights)
        assert np.sqrt(sum(float(np.sum(d**2)) for d in apart) / size) < 0.02
