"""Conservation laws: their time derivative along the exact gradient, and their drift along integrated flows.

Every quantity is quadratic in the weights, so its derivative along the flow, Q'(W)[−∇L], is (Q(W − ∇L) − Q(W + ∇L))/2
without any error of differencing. Laws are checked against that for any architecture, with the gradient by JAX.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.measure._invariants import (
    Invariant,
    active_block_balance,
    branch_balance,
    matrix_balance,
    neuron_balance,
    same_pattern_balance,
    stream_balance,
)
from biasfree.networks import forward

RTOL = 1e-8
SKIPS = (0, 1, 1, 0, 2, 0)  # W1, M2, M3, then B = W4 and C = W5 in a branch, W6

# Derivatives at any weights


def step(network: bf.Network, inputs: np.ndarray, targets: np.ndarray) -> tuple[bf.Network, bf.Network]:
    """The network one gradient forth and one back."""

    def loss(weights):
        outputs = forward(weights, jnp.asarray(inputs), network.slope, network.architecture)
        return 0.5 * jnp.mean(jnp.sum((targets - outputs) ** 2, axis=0))

    gradients = jax.grad(loss)(network.weights)
    return tuple(
        network.with_weights([w - sign * g for w, g in zip(network.weights, gradients, strict=True)])
        for sign in (1, -1)
    )


@st.composite
def architectures(draw) -> tuple[bf.Network, np.ndarray, np.ndarray]:
    """Networks of width three throughout, outputs too, so that skips may join any two layers."""
    depth = draw(st.integers(2, 5))
    skips = [draw(st.integers(0, layer)) if draw(st.booleans()) else 0 for layer in range(1, depth + 1)]
    rectified = [draw(st.booleans()) for _ in range(depth - 1)]
    slope = draw(st.sampled_from([0.3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    network = bf.Network.init([3] * (depth + 1), slope, 2.0, rng, rectified=rectified, skips=skips)
    return network, rng.normal(size=(8, 3)), rng.normal(size=(3, 8))


def rate(measure, there: bf.Network, back: bf.Network, *args) -> tuple[np.ndarray, Invariant]:
    ahead, behind = measure(there, *args), measure(back, *args)
    return (ahead.value - behind.value) / 2 / (ahead.scale + behind.scale), ahead


@settings(deadline=None, max_examples=80)
@given(case=architectures())
def test_what_is_called_conserved_has_no_derivative_and_the_rest_has_one(case) -> None:
    network, inputs, targets = case
    there, back = step(network, inputs, targets)
    for layer in range(1, network.depth):
        for measure in (neuron_balance, matrix_balance):
            speed, law = rate(measure, there, back, layer)
            if law.conserved:
                assert np.abs(speed).max() < 1e-13, law
            elif "skip" in law.reason:
                assert np.abs(speed).max() > 1e-7, law
        try:
            speed, law = rate(stream_balance, there, back, layer)
        except ValueError as refusal:
            assert "joined by identity skips to the" in str(refusal)  # noqa: PT017
        else:
            assert np.abs(speed).max() < 1e-13, law


@settings(deadline=None, max_examples=40)
@given(case=architectures())
def test_entries_of_a_relu_layer_move_unless_the_two_neurons_share_their_pattern(case) -> None:
    network, inputs, targets = case
    there, back = step(network, inputs, targets)
    for layer in range(1, network.depth):
        speed, law = rate(matrix_balance, there, back, layer)
        if "skip" in law.reason:
            continue
        same = {tuple(pair) for pair in same_pattern_balance(network, layer, inputs).neurons.tolist()}
        always = active_block_balance(network, layer, inputs).neurons
        assert {(i, j) for i in always.tolist() for j in always.tolist() if i < j} <= same
        for i in range(3):
            for j in range(i + 1, 3):
                if (i, j) in same:
                    assert abs(speed[i, j]) < 1e-13
                else:
                    assert abs(speed[i, j]) > 1e-9


def test_an_identity_skip_left_out_leaves_no_law() -> None:
    rng = np.random.default_rng(0)
    network = bf.Network.init([3, 3, 3, 3], 1.0, 2.0, rng, skips=[0, 1, 0])
    there, back = step(network, rng.normal(size=(8, 3)), rng.normal(size=(3, 8)))
    for layer in (1, 2):
        with_identity, without = (
            matrix_balance(there, layer, identity=choice).value - matrix_balance(back, layer, identity=choice).value
            for choice in (True, False)
        )
        assert np.abs(with_identity).max() < 1e-13
        assert np.abs(without).max() > 1e-2
        assert not matrix_balance(network, layer, identity=False).conserved


# Along integrated flows


def problem(seed: int) -> tuple[bf.Dataset, bf.Network]:
    rng = np.random.default_rng(seed)
    data = bf.Dataset(np.abs(rng.normal(size=(6, 3))) + 0.2, 2 * rng.normal(size=6))
    return data, bf.Network.init([3, 6, 6, 1], 0.0, 2.0, rng)


def flow(network: bf.Network, data: bf.Dataset, rtol: float = RTOL, **options) -> bf.Trajectory:
    return bf.gradient_flow(network, data, until=2.0, rtol=rtol, method="tsit5", save=8, **options)


@pytest.fixture(scope="module")
def relu() -> bf.Trajectory:
    """Inputs in the positive orthant: three first-layer and two second-layer neurons stay active on all of them."""
    data, network = problem(10)
    return flow(network, data)


@pytest.fixture(scope="module")
def skipped() -> bf.Trajectory:
    data, _ = problem(0)
    return flow(bf.Network.init([3, 5, 5, 5, 5, 5, 1], 1.0, 1.5, 0, skips=SKIPS), data)


def independent(trajectory: bf.Trajectory, layer: int) -> np.ndarray:
    """WWᵀ − WᵀW by a loop."""
    return np.array(
        [
            np.asarray(n.weights[layer - 1]) @ np.asarray(n.weights[layer - 1]).T
            - np.asarray(n.weights[layer]).T @ np.asarray(n.weights[layer])
            for n in trajectory.networks
        ]
    )


def test_relu_layers_conserve_neurons_and_active_blocks_but_not_the_matrix(relu: bf.Trajectory) -> None:
    for layer, active in ((1, 3), (2, 2)):
        whole = independent(relu, layer)
        neuron, matrix = neuron_balance(relu, layer), matrix_balance(relu, layer)
        block, pairs = active_block_balance(relu, layer), same_pattern_balance(relu, layer)
        np.testing.assert_allclose(matrix.value, whole, atol=1e-13)
        np.testing.assert_allclose(neuron.value, np.diagonal(whole, axis1=1, axis2=2), atol=1e-13)
        assert len(block.neurons) == active
        np.testing.assert_allclose(block.value, whole[:, block.neurons][:, :, block.neurons], atol=1e-13)
        assert len(pairs.neurons) >= 1
        for law in (neuron, block, pairs):
            assert law.conserved
            assert law.relative_drift < RTOL
        assert not matrix.conserved
        assert matrix.drift.max() > 0.1
        assert matrix.drift[0] == 0
        np.testing.assert_allclose(matrix.drift, np.abs(whole - whole[0]).max(axis=(1, 2)), atol=1e-13)


def test_the_full_relu_matrix_drifts_where_neurons_switch() -> None:
    data, network = problem(20)
    trajectory = flow(network, data)
    for layer, least in ((1, 0.3), (2, 0.5)):
        assert matrix_balance(trajectory, layer).drift.max() > least
        assert neuron_balance(trajectory, layer).relative_drift < RTOL
    # No neuron is always active throughout, which is no conserved quantity but none at all.
    empty = active_block_balance(trajectory, 1)
    assert empty.value.shape == (9, 0, 0)
    assert np.isnan(empty.relative_drift)
    assert str(empty).endswith("there are none")


def test_neurons_that_settle_obey_the_law_from_then_on(relu: bf.Trajectory) -> None:
    """Four second-layer neurons are always active from t = 1.25, two of them from the start."""
    late = active_block_balance(relu, 2, since=1.25)
    assert len(late.neurons) == 4
    assert late.times[0] == 1.25
    assert late.relative_drift < RTOL
    entries = np.ix_(late.neurons, late.neurons)
    before = independent(relu, 2)
    assert np.abs(before[5][entries] - before[0][entries]).max() > 1e-3


def test_drift_of_a_law_is_the_integrators_and_of_a_counter_example_is_not(relu: bf.Trajectory) -> None:
    data, network = problem(10)
    coarse = flow(network, data, rtol=1e-5)
    assert neuron_balance(coarse, 1).relative_drift > 100 * neuron_balance(relu, 1).relative_drift
    assert matrix_balance(coarse, 1).drift.max() == pytest.approx(matrix_balance(relu, 1).drift.max(), rel=1e-2)


def test_linear_layers_conserve_the_matrix() -> None:
    data, network = problem(10)
    trajectory = flow(network.with_slope(1.0), data)
    for layer in (1, 2):
        law = matrix_balance(trajectory, layer)
        assert law.conserved
        assert law.relative_drift < RTOL
        moved = np.abs(trajectory.weights[layer][-1] - trajectory.weights[layer][0]).max()
        assert moved > 0.1
        assert "conserved, as layer" in str(law)


def test_weight_decay_shrinks_what_is_conserved() -> None:
    """Q(t) = e^{−2λt} Q(0)."""
    data, network = problem(10)
    trajectory = flow(network.with_slope(1.0), data, weight_decay=0.3)
    law = matrix_balance(trajectory, 1)
    assert law.relative_drift < RTOL
    np.testing.assert_allclose(law.value[-1], np.exp(-2 * 0.3 * 2.0) * law.value[0], atol=1e-6)
    late = active_block_balance(trajectory, 1, since=1.0)
    assert late.relative_drift < RTOL
    on_loss_clock = dataclasses.replace(trajectory, settings={**trajectory.settings, "clock": "loss"})
    with pytest.raises(ValueError, match="unknown factor"):
        neuron_balance(on_loss_clock, 1)


def test_identity_skips_and_branches(skipped: bf.Trajectory) -> None:
    weights = [np.asarray(w) for w in skipped.weights]
    m2, m3 = weights[1] + np.eye(5), weights[2] + np.eye(5)
    whole = matrix_balance(skipped, 2)
    np.testing.assert_allclose(whole.value, m2 @ m2.mT - m3.mT @ m3, atol=1e-13)
    assert whole.formula == "M2 M2ᵀ − M3ᵀ M3"
    mixed = matrix_balance(skipped, 1)
    np.testing.assert_allclose(mixed.value, weights[0] @ weights[0].mT - m2.mT @ m2, atol=1e-13)
    branch = branch_balance(skipped, 5)
    np.testing.assert_allclose(branch.value, weights[3] @ weights[3].mT - weights[4].mT @ weights[4], atol=1e-13)
    for law in (whole, mixed, branch, neuron_balance(skipped, 1), stream_balance(skipped, 3)):
        assert law.conserved
        assert law.relative_drift < RTOL
    # Without the identity, and between the branch and its neighbours, nothing is conserved.
    for fails in (matrix_balance(skipped, 1, identity=False), matrix_balance(skipped, 3), matrix_balance(skipped, 5)):
        assert not fails.conserved
        assert fails.drift.max() > 0.1


def test_the_stream_through_a_branch_keeps_its_law_with_decay(skipped: bf.Trajectory) -> None:
    decayed = flow(skipped.template, skipped.dataset, weight_decay=0.2)
    for layer in (1, 2, 3, 5):
        law = stream_balance(decayed, layer)
        assert law.relative_drift < RTOL
        w = [np.asarray(each) for each in decayed.weights]
        total = sum(w[k] @ w[k].mT for k in (0, 1, 2, 4)) - sum(w[k].mT @ w[k] for k in (1, 2, 3, 5))
        np.testing.assert_allclose(law.value, total, atol=1e-12)
    assert branch_balance(decayed, 5).relative_drift < RTOL
    with pytest.raises(ValueError, match="pulls W to 0 and not M"):
        matrix_balance(decayed, 1)
    with pytest.raises(ValueError, match="pulls W to 0 and not M"):
        neuron_balance(decayed, 2)


NETWORK = bf.Network.init([3, 4, 1], 0.0, 1.0, 0)
SKIPPED = bf.Network.init([4, 4, 4, 1], 1.0, 1.0, 0, skips=[0, 2, 0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: neuron_balance(NETWORK, 2), "1 to 1"),
        (lambda: matrix_balance(NETWORK, 0), "at least 1"),
        (lambda: matrix_balance(bf.Network([[[1.0]]], 1.0), 1), "no hidden neurons"),
        (lambda: active_block_balance(NETWORK, 1), "pass inputs"),
        (lambda: branch_balance(NETWORK, 2), "no identity skip over two layers"),
        (lambda: stream_balance(SKIPPED, 2), "the input, which is given"),
        (lambda: neuron_balance(NETWORK, 1).drift, "pass a trajectory"),
        (lambda: neuron_balance([1.0], 1), "Network or a Trajectory"),
    ],
)
def test_refusals(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
