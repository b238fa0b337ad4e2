"""Theorem 1, Corollary 2 and canonical forms: hidden duplicate, opposite and cancelling neurons at any scale."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.theory import depth_separation_network, homogeneity_error, parity_form, same_function

SCALES = st.sampled_from([1e-150, 1e-60, 1e-8, 1.0, 1e30, 1e100])


def _scaled(matrix, factor):
    """Its first entry is another."""
    changed = np.array(matrix)
    changed[0, 0] *= factor
    return changed


def hidden(rng: np.random.Generator, dim: int, terms: int, slope: float) -> tuple[bf.Network, np.ndarray, np.ndarray]:
    """A network of known linear map and even terms, disguised by copies, opposites and cancelling pairs."""
    a, b = (1 + slope) / 2, (1 - slope) / 2
    directions = rng.normal(size=(terms, dim))
    coefficients = rng.choice([-1, 1], terms) * rng.uniform(0.5, 2, terms)
    first, second = [], []
    linear = rng.normal(size=dim)
    # Each term split over neurons of both orientations and several lengths.
    for v, c in zip(directions, coefficients, strict=True):
        shares = rng.dirichlet(np.ones(3)) * c / b
        for share, sign in zip(shares, (1, -1, 1), strict=True):
            length = 10.0 ** rng.uniform(-3, 3)
            first.append(sign * length * v)
            second.append(share / length)
            linear_of_term = a * share * sign * v
            first += [linear_of_term, -linear_of_term]
            second += [-1 / (2 * a), 1 / (2 * a)]
    # Pairs whose even parts cancel and whose linear parts do too.
    for _ in range(2):
        v, c = rng.normal(size=dim), rng.normal()
        first += [v, v * 2]
        second += [c, -c / 2]
    first += [linear, -linear]
    second += [1 / (2 * a), -1 / (2 * a)]
    order = rng.permutation(len(first))
    network = bf.Network([np.array(first)[order], np.array(second)[order][None]], slope)
    return network, linear, (np.linalg.norm(directions, axis=1) * coefficients)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), dim=st.integers(2, 5), terms=st.integers(0, 4),
    slope=st.sampled_from([0.0, 0.2, 0.9]), scales=st.tuples(SCALES, SCALES),
)  # fmt: skip
def test_disguised_networks_are_recognised(
    seed: int, dim: int, terms: int, slope: float, scales: tuple[float, float]
) -> None:
    plain, linear, coefficients = hidden(np.random.default_rng(seed), dim, terms, slope)
    network = bf.Network([s * np.asarray(w) for s, w in zip(scales, plain.weights, strict=True)], slope)
    size = scales[0] * scales[1]
    form = parity_form(network)
    assert len(form.directions) == terms
    assert form.is_linear == form.is_odd == (terms == 0)
    np.testing.assert_allclose(form.linear_map[0], size * linear, rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_allclose(np.sort(form.coefficients[0]), np.sort(size * coefficients), rtol=1e-9)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), outputs=st.integers(1, 3), slope=st.sampled_from([0.0, 0.5, 1.0]), scale=SCALES)
def test_rebuilt_networks_are_the_same_function(seed: int, outputs: int, slope: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    network = bf.Network([scale * rng.normal(size=(6, 3)), rng.normal(size=(outputs, 6))], slope)
    form = parity_form(network)
    other = slope if slope == 1 else 0.3
    rebuilt = form.network(other)
    assert same_function(network, rebuilt)
    x = rng.normal(size=(40, 3))
    np.testing.assert_allclose(form(x), network(x), rtol=0, atol=1e-12 * scale * 30)
    np.testing.assert_allclose(rebuilt(x), network(x), rtol=0, atol=1e-11 * scale * 30)
    changed = network.with_weights([_scaled(network.weights[0], 1 + 1e-5), network.weights[1]])
    assert not same_function(network, changed)


def test_parity_is_the_functions_own() -> None:
    network = bf.Network.init([4, 7, 1], slope=0.2, init_scale=1.0, seed=3)
    form = parity_form(network)
    x = np.random.default_rng(0).normal(size=(50, 4))
    up, down = np.asarray(network(x)), np.asarray(network(-x))
    np.testing.assert_allclose(form.linear_part(x), (up - down) / 2, atol=1e-14)
    np.testing.assert_allclose(form.even_part(x), (up + down) / 2, atol=1e-14)


def test_assumption_4_is_linear_and_its_perturbation_is_not() -> None:
    network = bf.Network.rank_one(3, 8, slope=0.0, init_scale=1e-9, seed=0)
    assert parity_form(network).is_linear
    nudged = network.with_weights([network.weights[0], _scaled(network.weights[1], 1.001)])
    assert not parity_form(nudged).is_linear


def test_even_and_zero_networks() -> None:
    even = bf.Network([[[1.0, 2.0], [-1.0, -2.0]], [[1.0, 1.0]]], slope=0.0)
    assert parity_form(even).is_even
    assert not parity_form(even).is_linear
    zero = bf.Network([np.zeros((2, 2)), np.zeros((1, 2))], slope=0.0)
    assert parity_form(zero).is_linear
    assert parity_form(zero).is_even
    assert same_function(zero, parity_form(zero).network())


def test_depth_separation_network_is_odd_nonlinear_and_beyond_two_layers() -> None:
    g = depth_separation_network()
    data = bf.datasets.depth_separation(pairs=40, seed=1)
    np.testing.assert_allclose(g(data.inputs), data.targets, atol=1e-15)
    np.testing.assert_allclose(g(-data.inputs), -np.asarray(g(data.inputs)), atol=1e-15)
    assert bf.measure.linearity(g, data.inputs).error > 0.1
    # Corollary 2: the best two-layer fit of this odd function is linear, and not exact; three layers fit it.
    two = bf.theory.best_possible_loss(data, depth=2)
    assert two.loss == pytest.approx(bf.theory.best_possible_loss(data, slope=1.0).loss, rel=1e-12)
    assert two.loss > 1e-2
    assert bf.theory.best_possible_loss(data, depth=3).loss == 0


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_every_network_is_positively_homogeneous(depth: int) -> None:
    widths = [3] + [5] * (depth - 1) + [2]
    network = bf.Network.init(widths, slope=0.1, init_scale=3.0, seed=0)
    assert homogeneity_error(network, jnp.eye(3), [1e-200, 1e200]) < 1e-14


def test_refuses_what_the_theorem_is_not_about() -> None:
    with pytest.raises(ValueError, match="two layers"):
        parity_form(bf.Network.init([2, 3, 3, 1], 0.0, 1.0, seed=0))
    with pytest.raises(ValueError, match="slope below 1"):
        parity_form(bf.Network.init([2, 3, 1], 0.0, 1.0, seed=0)).network(slope=1.0)
    with pytest.raises(ValueError, match="above 0"):
        homogeneity_error(lambda x: x[:, 0], np.eye(2), [-1.0])


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), outputs=st.integers(1, 5), slope=st.sampled_from([0.0, 0.3, 0.8]), odd=st.booleans())
def test_theorem_1_and_corollary_2_for_any_number_of_outputs(seed: int, outputs: int, slope: float, odd: bool) -> None:
    rng = np.random.default_rng(seed)
    network = bf.Network([rng.normal(size=(5, 3)), rng.normal(size=(outputs, 5))], slope)
    if odd:
        # Every neuron with its mirror image, at another length.
        first, second = (np.asarray(w) for w in network.weights)
        network = bf.Network(
            [np.concatenate([first, -2 * first]), np.concatenate([second, -second / 2], axis=1)], slope
        )
    x = rng.normal(size=(7, 3))
    above, below = (np.asarray(network(z)).reshape(7, -1) for z in (x, -x))
    form = parity_form(network)
    np.testing.assert_allclose(form.linear_part(x).reshape(7, -1), (above - below) / 2, atol=1e-12)
    np.testing.assert_allclose(form.even_part(x).reshape(7, -1), (above + below) / 2, atol=1e-12)
    assert form.is_linear == form.is_odd == odd
    # Even parts that cancel in one output alone do not make the function linear.
    if outputs > 1 and not odd:
        second = np.asarray(network.weights[1]).copy()
        second[0] = 0.0
        assert not parity_form(bf.Network([network.weights[0], second], slope)).is_linear
    turned = bf.Network([network.weights[0], np.asarray(network.weights[1])[::-1]], slope)
    assert same_function(network, turned) == (outputs == 1)
