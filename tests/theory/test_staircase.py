"""Several linear networks: levels and times of the loss staircase beside simulations."""

import itertools

import numpy as np
import pytest

import biasfree as bf
from biasfree.theory import several_linear_networks

SETS = {"orthogonal": (bf.datasets.orthogonal_pair(), 45.0), "xor": (bf.datasets.xor(), 95.0)}


def compare(name: str, loss: str, scale: float) -> tuple[float, float]:
    """Largest relative error of the predicted times, and of the curve."""
    data, until = SETS[name]
    until *= (2 if loss == "logistic" else 1) * np.log(1 / scale) / np.log(1e6)
    network = bf.Network.init([2, 60, 1], 0.0, scale, seed=3)
    stairs = several_linear_networks(network, data, loss)
    run = bf.gradient_flow(network, data, until=until, save=400, loss=loss)
    middle = 0.5 * (stairs.levels[1:] + stairs.levels[:-1])
    measured = np.array([run.time_of_loss(level) for level in middle])
    assert stairs.linear_networks == data.samples
    assert stairs.coupling == 0
    return float(np.abs(stairs.times / measured - 1).max()), float(np.abs(stairs.losses(run.times) - run.losses).max())


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_orthogonal_inputs(loss: str) -> None:
    """Nothing slides while learning: the prediction is as exact as the simulation."""
    times, curve = compare("orthogonal", loss, 1e-6)
    assert times < 1e-5
    assert curve < 1e-6


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_xor(loss: str) -> None:
    """Neurons slide on each other's samples; there the simulation chatters, and is right to about 1e-3."""
    times, curve = compare("xor", loss, 1e-6)
    assert times < 0.005
    assert curve < 0.005


def test_simple_times_get_better_with_smaller_starts() -> None:
    """ln(1/γ)/rate alone: within 10 % at γ = 1e-6, and nearer for each smaller γ."""
    data = bf.datasets.xor()
    errors = []
    for scale in (1e-6, 1e-12, 1e-24, 1e-48):
        stairs = several_linear_networks(bf.Network.init([2, 60, 1], 0.0, scale, seed=3), data)
        simple = np.array([group.escape_time(scale) for group in stairs.groups])
        errors.append(np.abs(simple / stairs.times - 1).max())
    assert errors[0] < 0.1
    assert all(later < 0.6 * earlier for earlier, later in itertools.pairwise(errors))


def test_levels_are_those_of_fitting_one_sample_after_the_other() -> None:
    stairs = several_linear_networks(bf.Network.init([2, 60, 1], 0.0, 1e-6, seed=0), bf.datasets.xor())
    assert stairs.levels.tolist() == pytest.approx([0.5, 0.375, 0.25, 0.125, 0.0])
    assert [g.rate for g in stairs.groups] == pytest.approx([1.0, 0.75, 0.5, 0.25])
    logistic = several_linear_networks(bf.Network.init([2, 60, 1], 0.0, 1e-6, seed=0), bf.datasets.xor(), "logistic")
    assert logistic.levels.tolist() == pytest.approx((np.log(2) * np.array([1, 0.75, 0.5, 0.25, 0])).tolist())


def test_one_group_is_the_logistic_curve() -> None:
    """A single sample: u² obeys d(u²)/dt = 2u²(ρ − Hu²), whose solution is a logistic function of time."""
    data = bf.Dataset([[0.6, 0.8]], [2.0])
    network = bf.Network.init([2, 20, 1], 0.0, 1e-6, seed=0)
    stairs = several_linear_networks(network, data)
    times = np.linspace(0, 15, 31)
    start = stairs.starts[0] ** 2
    expected = 2 / (1 + (2 / start - 1) * np.exp(-2 * 2.0 * times))
    np.testing.assert_allclose(stairs.outputs(times)[:, 0], expected, atol=1e-9)


def test_symmetric_data_make_one_linear_network_and_follow_eq_34() -> None:
    """Both signs gather at ±β̄. Treated as two halves they predict Eq. 34's course of the whole, up to the imbalance."""
    data = bf.datasets.symmetric_gaussian(dim=4, pairs=30, seed=1)
    network = bf.Network.init([4, 2000, 1], 0.0, 1e-8, seed=1)
    stairs = several_linear_networks(network, data)
    assert stairs.linear_networks == 1
    start = bf.theory.aligned_start(network, data)
    times = np.linspace(0, 120, 25)
    w = bf.theory.reduced_flow(times, data.covariance, data.correlation, start.direction, start.norm, 0.0)
    assert np.abs(stairs.losses(times) - bf.theory.linear_loss(w, data)).max() < 5e-3


def test_leaky_groups_overlap_and_say_so() -> None:
    stairs = several_linear_networks(bf.Network.init([2, 60, 1], 0.3, 1e-6, seed=0), bf.datasets.xor())
    assert stairs.coupling > 0.1
    assert "approximation" in str(stairs)


def test_nothing_grows() -> None:
    dead = bf.Network([[[-1.0, 0.0]], [[1.0]]], slope=0.0)
    with pytest.raises(ValueError, match="no neuron grows"):
        several_linear_networks(dead, bf.Dataset([[1.0, 0.0]], [1.0]))
    with pytest.raises(ValueError, match="labels"):
        several_linear_networks(dead, bf.Dataset([[1.0, 0.0]], [0.5]), "logistic")
