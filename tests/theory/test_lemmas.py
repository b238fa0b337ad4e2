"""Lemmas 8 to 11 against automatic differentiation and numbers found by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biasfree import Dataset, Network, datasets
from biasfree.theory._asymmetry import asymmetry
from biasfree.theory._lemmas import equation_24a, lemma_8, lemma_9, lemma_10, lemma_11
from biasfree.theory._symmetry import symmetry

SEEDS = st.integers(0, 10**6)
SLOPES = st.sampled_from([0.0, 0.3, 1.0])


def draw(seed: int, slope: float, outputs: int = 1) -> tuple[Network, Dataset]:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 3)
    data = Dataset(rng.normal(size=(7, 3)) @ rng.normal(size=(3, 3)), rng.normal(size=(7, outputs)))
    return Network.init([3, 5, outputs], slope, scale, rng), data


def gradient(network: Network, value: Callable[[Any, Any], Any], layer: int, inputs: np.ndarray) -> np.ndarray:
    """Gradient of ⟨value(σ(W₁x), f)⟩ by W₁ (layer 0) or W₂ (layer 1), away from the kink of σ."""

    def mean(weights: Any) -> Any:
        before = inputs @ weights[0].T
        hidden = jnp.where(before > 0, before, network.slope * before)
        return jnp.sum(value(hidden, hidden @ weights[1].T)) / len(inputs)

    return np.asarray(jax.grad(mean)(network.weights)[layer])


@settings(deadline=None, max_examples=15)
@given(SEEDS, SLOPES, st.sampled_from([1, 2]))
def test_left_sides_are_terms_of_the_gradient(seed: int, slope: float, outputs: int) -> None:
    """⟨yᵀf⟩ has the gradients of Lemma 11, ½⟨‖f‖²⟩ those of Eq. 24, and ½⟨‖σ(W₁x)‖²⟩ by W₁ that of Lemma 9."""
    network, data = draw(seed, slope, outputs)
    targets = data.targets.reshape(data.samples, -1)
    first, second = lemma_11(network, data).first_layer, lemma_11(network, data).second_layer
    assert np.allclose(first.left, gradient(network, lambda _, f: f * targets, 0, data.inputs), rtol=1e-11)
    assert np.allclose(second.left, gradient(network, lambda _, f: f * targets, 1, data.inputs), rtol=1e-11)
    half_square = gradient(network, lambda _, f: 0.5 * f**2, 0, data.inputs)
    assert equation_24a(network, data).left == pytest.approx(np.linalg.norm(half_square), rel=1e-11)
    hidden_square = gradient(network, lambda hidden, _: 0.5 * hidden**2, 0, data.inputs)
    assert lemma_9(network, data).left == pytest.approx(np.linalg.norm(hidden_square), rel=1e-11)


@settings(deadline=None, max_examples=100)
@given(SEEDS, SLOPES, st.sampled_from([1, 2]))
def test_inequalities_hold_for_every_network_and_data_set(seed: int, slope: float, outputs: int) -> None:
    network, data = draw(seed, slope, outputs)
    first, second = (np.asarray(w) for w in network.weights)
    hidden = np.maximum(data.inputs @ first.T, slope * data.inputs @ first.T)
    trace = np.mean(np.sum(data.inputs**2, axis=1))
    spectral = np.sqrt(np.linalg.eigvalsh(first.T @ first)[-1])
    eight, nine, term = lemma_8(network, data), lemma_9(network, data), equation_24a(network, data)
    assert eight.left == pytest.approx(np.linalg.norm(np.mean([np.outer(h, h) for h in hidden], axis=0)))
    assert eight.right == pytest.approx(spectral**2 * trace)
    assert nine.right == pytest.approx(spectral * trace)
    assert term.right == pytest.approx(np.linalg.eigvalsh(second @ second.T)[-1] * spectral * trace)
    for inequality in (eight, nine, term):
        assert inequality.holds
        assert inequality.slack == inequality.right - inequality.left


@pytest.mark.parametrize(
    ("slope", "x", "share"), [(0.0, 3.0, 1.0), (0.0, -3.0, 0.0), (0.5, -3.0, 0.25), (1.0, -3.0, 1.0)]
)
def test_one_neuron_and_one_sample(slope: float, x: float, share: float) -> None:
    """Equality where the neuron is active; α² of it where it is not."""
    network, data = Network([[[2.0]], [[-5.0]]], slope), Dataset([[x]], [1.0])
    for inequality, right in (
        (lemma_8(network, data), 36.0),
        (lemma_9(network, data), 18.0),
        (equation_24a(network, data), 450.0),
    ):
        assert inequality.right == pytest.approx(right)
        assert inequality.left == pytest.approx(share * right)
        assert str(inequality).endswith("holds")


def test_a_spectral_norm_on_the_right_suffices() -> None:
    """Equal neurons on one line of inputs: equalities for any width, with either norm of W₁."""
    network, data = Network([np.ones((4, 1)), np.ones((1, 4))], 0.0), Dataset([[1.0], [2.0]], [0.0, 0.0])
    for inequality in (lemma_8(network, data), lemma_9(network, data), equation_24a(network, data)):
        assert inequality.left == pytest.approx(inequality.right, rel=1e-14)


def test_the_second_layer_cannot_be_taken_out_of_the_average() -> None:
    """Eq. 24a as printed, W₂ᵀW₂ times Lemma 9's average, is another matrix: x = (1, −1) excites one neuron of two."""
    network, data = Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]], 0.0), Dataset([[1.0, -1.0]], [0.0])
    printed = np.ones((2, 2)) @ np.array([[1.0, -1.0], [0.0, 0.0]])
    assert equation_24a(network, data).left == pytest.approx(np.sqrt(2))
    assert np.linalg.norm(printed) == pytest.approx(2)


@settings(deadline=None, max_examples=50)
@given(SEEDS, SLOPES, st.sampled_from([1, 2]))
def test_identities_hold_under_condition_3(seed: int, slope: float, outputs: int) -> None:
    network, data = draw(seed, slope, outputs)
    data = data.symmetrised()
    assert symmetry(data, 0.0).holds
    both = lemma_11(network, data)
    average = lemma_10(data, np.random.default_rng(seed).normal(size=3))
    for identity in (both.first_layer, both.second_layer, average.covariance, average.correlation):
        assert identity.holds
        assert identity.error < 1e-13
        assert identity.left.shape == identity.right.shape


def test_the_papers_data_give_rounding_errors_and_asymmetric_data_do_not() -> None:
    data = datasets.symmetric_gaussian(target="linear_plus_sine", seed=0)
    network = Network.init([20, 50, 1], 0.2, 1.0, seed=1)
    for identity in (lemma_11(network, data).first_layer, lemma_11(network, data).second_layer):
        assert identity.error < 2e-15
    xor, small = datasets.xor(), Network.init([2, 50, 1], 0.0, 1.0, seed=1)
    for identity in (lemma_11(small, xor).first_layer, lemma_11(small, xor).second_layer):
        assert identity.error > 0.5
        assert not identity.holds
    assert "fails" in str(lemma_11(small, xor))
    # A linear network needs no symmetry.
    linear = lemma_11(small.with_slope(1.0), xor)
    assert linear.first_layer.holds
    assert linear.second_layer.holds


@settings(deadline=None, max_examples=50)
@given(SEEDS)
def test_errors_of_lemma_10_are_the_half_space_asymmetry(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = Dataset(rng.normal(size=(6, 2)), rng.normal(size=6))
    largest = asymmetry(data)
    at_best = (lemma_10(data, largest.correlation.direction), lemma_10(data, largest.covariance.direction))
    assert at_best[0].correlation.error == pytest.approx(largest.correlation.lower)
    assert at_best[1].covariance.error == pytest.approx(largest.covariance.lower)
    anywhere = lemma_10(data, rng.normal(size=2))
    assert anywhere.correlation.error <= largest.correlation.upper * (1 + 1e-12)
    assert anywhere.covariance.error <= largest.covariance.upper * (1 + 1e-12)


def test_six_points_by_hand() -> None:
    """The half space x₁ > 0 holds (1, ±1) and (1, ε): Σ sums to [[3, ε], [ε, 2 + ε²]], β to (1, −ε), each times 2/6."""
    half = lemma_10(datasets.six_points(0.5), [1.0, 0.0])
    assert half.covariance.left == pytest.approx(np.array([[3, 0.5], [0.5, 2.25]]) / 3)
    assert half.correlation.left == pytest.approx(np.array([1, -0.5]) / 3)


@settings(deadline=None, max_examples=30)
@given(SEEDS, SLOPES)
def test_samples_on_the_hyperplane_count_half(seed: int, slope: float) -> None:
    """Neurons and half spaces orthogonal to some of the samples, also up to rounding, and a neuron of no weight."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(6, 3))
    normal = np.cross(inputs[0], inputs[1])
    data = Dataset(np.concatenate([inputs, np.zeros((1, 3))]), rng.normal(size=7)).symmetrised()
    average = lemma_10(data, normal)
    assert average.covariance.holds
    assert average.correlation.holds
    network = Network([np.stack([normal, np.zeros(3), rng.normal(size=3)]), rng.normal(size=(1, 3))], slope)
    assert lemma_11(network, data).first_layer.holds
    assert lemma_11(network, data).second_layer.holds


def test_a_pair_on_the_hyperplane_by_hand() -> None:
    """(0, ±1) lie on the boundary of the half space x₁ > 0, and must not be lost or counted twice."""
    data = Dataset([[0.0, 1.0], [0.0, -1.0], [2.0, 0.0], [-2.0, 0.0]], [3.0, -3.0, 1.0, -1.0])
    half = lemma_10(data, [1.0, 0.0])
    assert half.covariance.left.tolist() == [[2.0, 0.0], [0.0, 0.5]]
    assert half.correlation.left.tolist() == [1.0, 1.5]


def test_rounding_does_not_decide_the_side() -> None:
    """0.1 + 0.2 is above 0.3 in floating point: both samples of this pair would lie in the half space x₁ + x₂ > 0."""
    data = Dataset([[0.1 + 0.2, -0.3], [-0.3, 0.1 + 0.2]], [1.0, -1.0])
    assert (data.inputs @ np.ones(2) > 0).all()
    assert symmetry(data, 1e-12).holds
    half = lemma_10(data, [1.0, 1.0])
    assert half.covariance.error < 1e-15
    assert half.correlation.error < 1e-15


def test_nothing_to_compare_with() -> None:
    """An even target has β = 0: the relative error is infinite, and 0 where both sides vanish."""
    even = Dataset([[1.0, 2.0], [-1.0, -2.0]], [1.0, 1.0])
    assert lemma_10(even, [1.0, 0.0]).correlation.error == np.inf
    zero = lemma_10(Dataset([[1.0, 2.0], [-1.0, -2.0]], [0.0, 0.0]), [1.0, 0.0]).correlation
    assert zero.error == 0
    assert zero.holds


def test_bad_input_gets_a_sentence() -> None:
    data = datasets.xor()
    for call in (lemma_8, lemma_9, equation_24a, lemma_11):
        with pytest.raises(ValueError, match="networks of two layers without skips, got one with 3 layers"):
            call(Network.init([2, 3, 3, 1], 0.0, 1.0, seed=0), data)
        with pytest.raises(ValueError, match="the network takes 3 inputs but the data set has 2"):
            call(Network.init([3, 3, 1], 0.0, 1.0, seed=0), data)
    with pytest.raises(ValueError, match="skips"):
        lemma_8(Network([np.eye(2), np.eye(2)], 0.0, skips=[0, 2]), data)
    with pytest.raises(ValueError, match="2 outputs but the data set has 1"):
        lemma_11(Network.init([2, 3, 2], 0.0, 1.0, seed=0), data)
    for direction in ([1.0], [0.0, 0.0], [[1.0, 0.0]]):
        with pytest.raises(ValueError, match="direction must be 2 numbers, not all 0"):
            lemma_10(data, direction)
