"""Velocities on pairs of inputs ±x, which need half of the products, against those of samples one by one."""

import numpy as np
import pytest

from biasfree import Dataset, Network, datasets, gradient_flow
from biasfree.dynamics import _field
from biasfree.dynamics._paired import pairs_of
from biasfree.dynamics._vector_field import ByNumpy, ByPairs, Layers, vector_field

DEEP = [[3, 8, 7, 1], [3, 8, 7, 2], [3, 8, 7, 6, 1], [3, 8, 7, 6, 5, 2]]


def paired_inputs(rng, pairs=9, dim=3):
    """Pairs in any order, one of them twice."""
    half = rng.normal(size=(pairs, dim))
    half[1], half[2, 0] = half[0], 0.0
    return rng.permutation(np.concatenate([half, -half]))


def both_fields(network, inputs, targets, loss, clock, decay=0.1):
    numbers = _field.problem(network, Dataset(inputs, targets), loss, decay)
    kind = _field.Kind(loss, network.architecture, clock)
    layers = Layers(network.weights)
    return ByPairs(layers, pairs_of(numbers.inputs), numbers, kind), ByNumpy(layers, numbers, kind)


@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize(("loss", "clock"), [("square", "time"), ("logistic", "time"), ("logistic", "loss")])
@pytest.mark.parametrize("widths", DEEP, ids=str)
def test_pairs_and_samples_agree(widths, loss, clock, slope) -> None:
    """Targets have no symmetry, layers may be linear, and neurons that are silent or dead are among them."""
    rng = np.random.default_rng(0)
    inputs = paired_inputs(rng)
    targets = np.sign(rng.normal(size=(len(inputs), widths[-1])))
    for rectified in (None, [True, *[False] * (len(widths) - 3)]):
        network = Network.init(widths, slope, 1.5, 1, rectified=rectified)
        for silent in (False, True):
            weights = [np.array(w) for w in network.weights]
            weights[0][2] *= 1e-9
            if silent:
                weights[0][0] = 0.0  # σ' is α on both sides
            pairs, samples = both_fields(network, inputs, targets, loss, clock)
            flat = np.concatenate([w.ravel() for w in weights])
            ours, theirs = (Layers(weights).of(field.velocity(flat)) for field in (pairs, samples))
            for one, two in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-14)
            # Of a neuron that is 10⁹ times smaller: right in proportion.
            np.testing.assert_allclose(ours[1][:, 2], theirs[1][:, 2], rtol=1e-10, atol=1e-22)
            assert pairs.log_loss() == pytest.approx(samples.log_loss(), rel=1e-12)
            assert [layer.sum() for layer in pairs.active()[1:]] == [layer.sum() for layer in samples.active()[1:]]


def test_only_what_comes_in_pairs_is_taken_for_pairs() -> None:
    rng = np.random.default_rng(1)
    inputs = paired_inputs(rng)
    plus, minus = pairs_of(inputs)
    np.testing.assert_array_equal(inputs[plus], -inputs[minus])
    assert sorted([*plus, *minus]) == list(range(len(inputs)))
    moved = inputs.copy()
    moved[3, 1] = np.nextafter(moved[3, 1], np.inf)
    for other in (moved, inputs[1:], np.concatenate([inputs, np.zeros((2, 3))]), np.abs(inputs)):
        assert pairs_of(other) is None


def test_large_deep_networks_on_symmetric_data_take_pairs() -> None:
    data = datasets.symmetric_gaussian(5, 200, seed=0)
    for widths, slope, taken in (([5, 60, 60, 1], 0.0, ByPairs), ([5, 60, 60, 1], 1.0, ByNumpy)):
        network = Network.init(widths, slope, 0.1, 0)
        numbers, kind = _field.problem(network, data, "square", 0.0), _field.Kind("square", network.architecture)
        assert type(vector_field(Layers(network.weights), numbers, kind)) is taken


def test_a_run_on_pairs_is_that_on_samples(monkeypatch) -> None:
    data = datasets.symmetric_gaussian(5, 200, seed=0)
    start = Network.init([5, 60, 60, 1], 0.0, 0.3, 0)
    runs = []
    for least in (0, 10**12):
        monkeypatch.setattr("biasfree.dynamics._vector_field._LARGE", least)
        runs.append(gradient_flow(start, data, until=20.0, save=10, rtol=1e-6))
    ours, theirs = runs
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-8)
    for one, two in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-8)
