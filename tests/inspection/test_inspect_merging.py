"""Fewer neurons, the same function."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.inspection import inspect
from biasfree.inspection._merging import compress, merged_for_function
from biasfree.models._layers import Layers


def split(weights, rng, copies=6):
    """Every hidden neuron replaced by several on the same ray, of random sizes and shares, in random order."""
    weights = [np.asarray(w) for w in weights]
    for layer in range(len(weights) - 1):
        width = weights[layer].shape[0]
        factors = rng.uniform(0.1, 5, size=(width, copies))
        shares = rng.dirichlet(np.ones(copies), size=width)
        order = rng.permutation(width * copies)
        weights[layer] = (factors[:, :, None] * weights[layer][:, None, :]).reshape(width * copies, -1)[order]
        after = (shares / factors)[None] * weights[layer + 1][:, :, None]
        weights[layer + 1] = after.reshape(len(after), -1)[:, order]
    return weights


def relative(first, second, samples=2000, seed=0):
    x = np.random.default_rng(seed).normal(size=(samples, first.widths[0]))
    ours, theirs = np.asarray(first(x)), np.asarray(second(x))
    return np.abs(ours.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max()


@pytest.mark.parametrize("widths", [[4, 5, 1], [3, 6, 2], [4, 5, 6, 1], [3, 4, 5, 4, 2]])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_neurons_that_were_split_come_together_again(widths, slope) -> None:
    rng = np.random.default_rng(0)
    small = bf.Network.init(widths, slope, 2.0, 1)
    wide = bf.Network(split(small.weights, rng), slope)
    found = compress(wide)
    # A neuron that only ReLUs reach, with weights that are all negative, is silent and goes too.
    assert found.widths == compress(small).widths
    assert slope == 0 or found.widths == small.widths
    assert relative(found, wide) < 1e-12
    assert relative(found, small) < 1e-12


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.4]), st.integers(1, 2), st.booleans())
def test_never_more_neurons_and_never_another_function(seed, slope, outputs, deep) -> None:
    """Whole numbers make parallel, opposite, zero and cancelling neurons common."""
    rng = np.random.default_rng(seed)
    widths = [2, 6, 4, outputs] if deep else [2, 8, outputs]
    weights = [rng.integers(-1, 2, size=(m, n)).astype(float) for n, m in itertools.pairwise(widths)]
    model = Layers.of(weights, None, [slope] * (len(widths) - 2))
    found = merged_for_function(model)
    assert sum(found.layers.widths[1:-1]) <= sum(widths[1:-1])
    x = rng.normal(size=(500, 2))
    scale = max(model.scale, 1.0)
    assert np.abs(model(x) - found.layers(x)).max() <= 1e-12 * scale
    assert found.error <= 1e-12 * scale


def test_the_least_number_of_neurons() -> None:
    """|x₁| + |x₂| needs a neuron per ray; 2x₁ + |x₂| of eight neurons needs three or four; a linear map two."""
    rays = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    doubled = np.concatenate([rays, 3 * rays])
    weights = np.array([1.0, 1.0, 1.0, 1.0])
    assert compress(bf.Network([doubled, [[*weights / 2, *weights / 6]]], 0.0)).widths[1] <= 4
    linear = np.array([[2.0, -2.0, 0.0, 0.0]])
    assert compress(bf.Network([rays, linear], 0.0)).widths[1] == 2
    mixed = np.array([[2.0, -2.0, 1.0, 1.0]])
    assert compress(bf.Network([rays, mixed], 0.0)).widths[1] <= 4
    # Three pairs whose kinks cancel are one linear map: two neurons instead of six.
    rng = np.random.default_rng(0)
    rows, out = rng.normal(size=(3, 4)), rng.normal(size=3)
    pairs = bf.Network([np.concatenate([rows, -rows]), [[*out, *-out]]], 0.1)
    assert compress(pairs).widths[1] == 2
    assert relative(compress(pairs), pairs) < 1e-12


def test_eq_40_is_two_neurons() -> None:
    network = bf.Network.aligned_relu([10, 40, 40, 40, 1], 0.7, 0)
    found = inspect(network)
    assert found.neurons_after_merging == 2
    assert relative(found.compressed.as_network(), network) < 1e-12


def test_a_zero_network_and_a_linear_one() -> None:
    assert inspect(bf.Network([np.zeros((5, 3)), np.zeros((1, 5))], 0.0)).neurons_after_merging == 0
    linear = bf.Network.init([3, 50, 50, 1], 1.0, 1.0, 0)
    assert compress(linear).widths == (3, 1)
    assert relative(compress(linear), linear) < 1e-12


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_error_of_merging_nearly_parallel_neurons_is_certified(outputs, layers) -> None:
    rng = np.random.default_rng(3)
    small = bf.Network.init([3, *[4] * layers, outputs], 0.0, 2.0, 2)
    weights = split(small.weights, rng)
    blurred = [w + 1e-5 * np.abs(w).mean() * rng.normal(size=w.shape) for w in weights]
    wide = Layers.of(blurred, None, [0.0] * layers)
    assert merged_for_function(wide).layers.widths == wide.widths
    found = merged_for_function(wide, 1e-3)
    assert found.layers.widths == small.widths
    assert 0 < found.error < 1e-3 * wide.scale
    # Random inputs, and those near the kinks, where merging errs most.
    near = [x - (x @ w)[:, None] * w for w in _units(weights[0][::5]) for x in [rng.normal(size=(500, 3))]]
    x = np.concatenate([rng.normal(size=(100_000, 3)), *near])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert np.linalg.norm(wide(x) - found.layers(x), axis=1).max() <= found.error


def _units(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_biases_are_merged_with_their_neurons() -> None:
    rng = np.random.default_rng(4)
    row, factors = rng.normal(size=(3, 2)), np.array([1.0, 2.0, 0.5])
    first = np.concatenate([f * row for f in factors] + [np.zeros((2, 2))])
    bias = np.concatenate([f * np.array([0.3, -0.2, 0.9]) for f in factors] + [[2.0, -1.0]])
    model = Layers.of([first, rng.normal(size=(2, 11))], [bias, rng.normal(size=2)], [0.25])
    found = merged_for_function(model)
    assert found.layers.widths == (2, 3, 2)
    x = rng.normal(size=(1000, 2))
    np.testing.assert_allclose(found.layers(x), model(x), atol=1e-12)


def test_a_wide_network_trained_on_symmetric_data_is_a_handful_of_neurons(tmp_path) -> None:
    """From rank-one weights exactly two neurons; from random ones two as well, with an error that is certified."""
    data = bf.datasets.symmetric_gaussian(seed=0)
    data = bf.Dataset(data.inputs[:40, :4], data.targets[:40]).symmetrised()
    for start in ("rank one", "random"):
        network = (
            bf.Network.rank_one(4, 500, 0.0, 1e-3, 0) if start == "rank one"
            else bf.Network.init([4, 500, 1], 0.0, 1e-4, 0)
        )  # fmt: skip
        trained = bf.gradient_flow(network, data, until=400.0).final
        tolerance = None if start == "rank one" else 1e-2
        found = inspect(trained, data, tolerance=tolerance)
        assert found.neurons_after_merging <= 4
        assert found.distance_from_linear < 1e-3
        small = found.compressed.as_network()
        x = np.random.default_rng(0).normal(size=(2000, 4))
        gap = np.abs(np.asarray(small(x)) - np.asarray(trained(x)))
        assert (gap <= found.merged.error * np.linalg.norm(x, axis=1) + 1e-14).all()
        if start == "rank one":
            assert relative(small, trained) < 1e-12
        else:
            assert found.merged.error < 0.02 * np.linalg.norm(found.linear_map)
        found.compressed.save(tmp_path / "small.npz")
        assert relative(bf.Network.load(tmp_path / "small.npz"), small) == 0


def test_tolerances_are_checked() -> None:
    network = bf.Network.init([2, 3, 1], 0.0, 1.0, 0)
    with pytest.raises(ValueError, match="tolerance"):
        compress(network, -1.0)
    with pytest.raises(ValueError, match="below 1"):
        compress(network, 1.0)
