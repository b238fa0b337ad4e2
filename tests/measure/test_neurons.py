"""States and patterns of neurons against a plain loop, and on runs whose answer is known by construction."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.measure import _neurons
from biasfree.measure._neurons import neurons


def patterns(network: bf.Network, inputs: np.ndarray) -> list[np.ndarray]:
    """h > 0, neuron by neuron and sample by sample, for each hidden layer."""
    found = []
    weights = [np.asarray(w) for w in network.weights]
    for layer in range(network.depth - 1):
        active = np.zeros((network.widths[layer + 1], len(inputs)), dtype=bool)
        for sample, x in enumerate(inputs):
            signals = [x]
            for k in range(layer + 1):
                h = weights[k] @ signals[-1]
                if network.skips[k]:
                    h = h + signals[k + 1 - network.skips[k]]
                signals.append(np.where(h > 0, h, network.slope * h) if network.rectified[k] else h)
            active[:, sample] = h > 0
        found.append(active)
    return found


@pytest.fixture(scope="module")
def trajectory() -> bf.Trajectory:
    """A run in which neurons change their patterns, die and become always active."""
    rng = np.random.default_rng(20)
    data = bf.Dataset(np.abs(rng.normal(size=(6, 3))) + 0.2, 2 * rng.normal(size=6))
    network = bf.Network.init([3, 6, 6, 1], 0.0, 2.0, rng)
    return bf.gradient_flow(network, data, until=2.0, rtol=1e-8, method="tsit5", save=8)


def test_a_run_against_a_plain_loop(trajectory: bf.Trajectory) -> None:
    found = neurons(trajectory)
    by_time = [patterns(network, trajectory.dataset.inputs) for network in trajectory.networks]
    for layer in range(2):
        here = found.layers[layer]
        active = np.stack([each[layer] for each in by_time])
        np.testing.assert_array_equal(here.dead, ~active.any(axis=2))
        np.testing.assert_array_equal(here.always_active, active.all(axis=2))
        np.testing.assert_array_equal(here.switching, active.any(axis=2) & ~active.all(axis=2))
        np.testing.assert_array_equal(here.stably_active, active.all(axis=(0, 2)))
        for neuron in range(6):
            kinds = [(a.any(), a.all()) for a in active[:, neuron]]
            state = pattern = len(trajectory.times) - 1
            while state and kinds[state - 1] == kinds[-1]:
                state -= 1
            while pattern and (active[pattern - 1, neuron] == active[-1, neuron]).all():
                pattern -= 1
            assert here.state_since[neuron] == trajectory.times[state]
            assert here.pattern_since[neuron] == trajectory.times[pattern]
            same = [(active[:, other] == active[:, neuron]).all() for other in range(6)]
            np.testing.assert_array_equal(here.groups == here.groups[neuron], same)
    # The run is worth looking at: some state and some pattern changes late.
    assert max(layer.state_since.max() for layer in found.layers) > 0.5
    assert max(layer.pattern_since.max() for layer in found.layers) > 1.0


@pytest.mark.parametrize("at_once", [1, 100, 10**9])
def test_memory_limit_does_not_change_the_answer(
    trajectory: bf.Trajectory, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = neurons(trajectory)
    monkeypatch.setattr(_neurons, "_AT_ONCE", at_once)
    pieces = neurons(trajectory)
    for one, two in zip(whole.layers, pieces.layers, strict=True):
        np.testing.assert_array_equal(one.active_share, two.active_share)
        np.testing.assert_array_equal(one.pattern_since, two.pattern_since)
        np.testing.assert_array_equal(one.groups[:, None] == one.groups, two.groups[:, None] == two.groups)


def test_state_and_pattern_are_told_apart() -> None:
    """On samples ±e₁, ±e₂ of the plane, by hand.

    Neuron 0 turns from one side to the other at t = 2: switching throughout, pattern new at 2. Neuron 1 has no weight
    until t = 1, so is dead, then switches. Neuron 2 never changes.
    """
    first = np.array([
        [[1.0, 1.0], [0.0, 0.0], [1.0, -1.0]],
        [[2.0, 1.0], [1.0, 1.0], [1.0, -1.0]],
        [[-1.0, -2.0], [1.0, 2.0], [2.0, -1.0]],
        [[-1.0, -1.0], [3.0, 1.0], [1.0, -2.0]],
    ])  # fmt: skip
    template = bf.Network([first[0], np.ones((1, 3))], 0.0)
    data = bf.Dataset([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], np.zeros(4))
    run = SimpleNamespace(
        template=template, weights=(first, np.ones((4, 1, 3))), times=np.array([0.0, 1.0, 2.0, 3.0]), dataset=data
    )
    (layer,) = neurons(run).layers
    np.testing.assert_array_equal(layer.state_since, [0, 1, 0])
    np.testing.assert_array_equal(layer.pattern_since, [2, 1, 0])
    assert not layer.stably_active.any()
    assert (
        str(layer) == "layer 1: 0 dead, 0 always active, 3 switching; states constant since t = 1, patterns since t = 2"
    )
    # From t = 2 on all is constant.
    (late,) = neurons(run, since=1.5).layers
    np.testing.assert_array_equal(late.pattern_since, 2)
    # On other samples: positive ones.
    (other,) = neurons(run, [[1.0, 0.1], [1.0, 0.2]], since=2.0).layers
    np.testing.assert_array_equal(other.always_active[-1], [False, True, True])
    np.testing.assert_array_equal(other.dead[-1], [True, False, False])


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_symmetric_inputs_leave_every_first_layer_neuron_active_on_half(seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(5, 3))
    network = bf.Network.init([3, 4, 1], 0.0, 1.0, rng)
    (layer,) = neurons(network, np.concatenate([half, -half])).layers
    np.testing.assert_array_equal(layer.active_share, 0.5)
    assert layer.switching.all()
    assert layer.state_since is None


@pytest.mark.parametrize("slope", [0.0, 0.4])
def test_skips_and_layers_without_activation(slope: float) -> None:
    network = bf.Network.init([3, 4, 4, 4, 1], slope, 2.0, 3, rectified=[True, False, True], skips=[0, 1, 2, 0])
    inputs = np.random.default_rng(1).normal(size=(7, 3))
    found, known = neurons(network, inputs), patterns(network, inputs)
    for k in (0, 2):
        np.testing.assert_array_equal(found.layers[k].active_share, known[k].mean(axis=1))
    # The second layer has no activation, so no pattern: it acts linearly on every sample.
    assert not known[1].all()
    assert found.layers[1].always_active.all()
    assert neurons(network.with_slope(1.0), inputs).layers[0].always_active.all()


def test_the_kink_belongs_to_the_inactive_side() -> None:
    (layer,) = neurons(bf.Network([[[1.0, 0.0]], [[1.0]]], 0.0), [[0.0, 5.0]]).layers
    assert layer.dead.all()


NETWORK = bf.Network.init([3, 4, 1], 0.0, 1.0, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: neurons(NETWORK), "pass inputs"),
        (lambda: neurons(NETWORK, np.ones((2, 4))), r"shape \(samples, 3\)"),
        (lambda: neurons(NETWORK, np.ones((0, 3))), r"shape \(samples, 3\)"),
        (lambda: neurons(NETWORK, [[np.inf, 0, 0]]), "finite"),
        (lambda: neurons(NETWORK, np.ones((2, 3)), since=1.0), "a single network has none"),
        (lambda: neurons(bf.Network([[[1.0]]], 0.0), [[1.0]]), "no hidden neurons"),
        (lambda: neurons("network", [[1.0]]), "Network or a Trajectory"),
    ],
)
def test_refusals(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_a_time_after_the_end_is_refused(trajectory: bf.Trajectory) -> None:
    with pytest.raises(ValueError, match="last saved time, 2"):
        neurons(trajectory, since=3.0)
