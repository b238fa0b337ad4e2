"""Fits of Eqs. 39 and 40 on weights built from known vectors, under noise, and after training on a linear target."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import biasfree as bf
from biasfree.measure._low_rank_fit import fit_eq_39, fit_eq_40
from biasfree.measure._structure import structure

ROOT2 = np.sqrt(2)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def two_paths(rng: np.random.Generator, widths: list[int], plus: float, minus: float) -> tuple[list, list, np.ndarray]:
    """Weights of a ReLU network whose positive and negative paths have norms ``plus`` and ``minus`` in every layer.

    Returns them with the unit vectors r_l and r of Eq. 40, which they obey when both norms are u/√2.
    """
    direction = unit(rng.normal(size=widths[0]))
    parts = []
    for width in widths[1:-1]:
        positive = rng.permutation(width) < rng.integers(1, width)
        sizes = rng.uniform(0.2, 1, size=width)
        parts.append((unit(np.where(positive, sizes, 0)), unit(np.where(positive, 0, sizes))))
    signed = [plus * up - minus * down for up, down in parts]
    middle = [
        plus * np.outer(after[0], before[0]) + minus * np.outer(after[1], before[1])
        for before, after in itertools.pairwise(parts)
    ]
    return [np.outer(signed[0], direction), *middle, signed[-1][None]], [unit(r) for r in signed], direction


WIDTHS = st.lists(st.integers(2, 7), min_size=1, max_size=4).map(lambda hidden: [3, *hidden, 1])
SEEDS = st.integers(0, 10**6)


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, widths=WIDTHS, size=st.floats(1e-8, 1e3))
def test_exact_eq_39_is_found(seed: int, widths: list[int], size: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = [unit(rng.normal(size=width)) for width in widths[:-1]]
    chain = [*vectors, np.ones(1)]
    weights = [size * np.outer(after, before) for before, after in itertools.pairwise(chain)]
    fit = fit_eq_39(bf.Network(weights, 1.0))
    assert fit.residuals.max() < 1e-12
    assert fit.norm == pytest.approx(size)
    np.testing.assert_allclose(fit.direction, vectors[0], atol=1e-12)
    for found, known in zip(fit.neurons, vectors[1:], strict=True):
        np.testing.assert_allclose(found, known, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, widths=WIDTHS, size=st.floats(1e-8, 1e3), slope=st.sampled_from([0.0, 0.5]))
def test_exact_eq_40_is_found(seed: int, widths: list[int], size: float, slope: float) -> None:
    weights, neurons, direction = two_paths(np.random.default_rng(seed), widths, size / ROOT2, size / ROOT2)
    fit = fit_eq_40(bf.Network(weights, slope if len(widths) == 3 else 0.0))
    assert fit.residuals.max() < 1e-12
    assert fit.norm == pytest.approx(size)
    np.testing.assert_allclose(fit.path_norms, size / ROOT2, rtol=1e-12)
    np.testing.assert_allclose(fit.direction, direction, atol=1e-12)
    for found, known in zip(fit.neurons, neurons, strict=True):
        np.testing.assert_allclose(found, known, atol=1e-12)


@pytest.mark.parametrize("make", [bf.Network.aligned_linear, bf.Network.aligned_relu])
@pytest.mark.parametrize("hidden", [[6], [6, 8], [7, 6, 9], [6, 6, 6, 6]])
def test_aligned_starts_in_any_order_of_neurons(make, hidden: list[int]) -> None:
    rng, r = np.random.default_rng(5), unit(np.array([1.0, -2.0, 0.5]))
    network = make([3, *hidden, 1], scale=0.3, seed=1, direction=r)
    for layer, width in enumerate(hidden, 1):
        network = network.permuted(layer, rng.permutation(width))
    fit = (fit_eq_39 if network.is_linear else fit_eq_40)(network)
    assert fit.residuals.max() < 1e-12
    assert fit.norm == pytest.approx(0.3)
    np.testing.assert_allclose(fit.direction, r, atol=1e-12)
    first, last = np.asarray(network.weights[0]), np.asarray(network.weights[-1])
    np.testing.assert_allclose(fit.neurons[0], first @ r / 0.3, atol=1e-12)
    np.testing.assert_allclose(fit.neurons[-1], last[0] / 0.3, atol=1e-12)
    # In the order found, every r_l is positive first, and the middle layers of Eq. 40 show their two blocks.
    counts = [int((r_l > 0).sum()) for r_l in fit.neurons]
    for layer, order in enumerate(fit.orders, 1):
        assert (np.diff(fit.neurons[layer - 1][order]) <= 0).all()
        network = network.permuted(layer, order)
    for layer in range(1, len(hidden)):
        middle = np.asarray(network.weights[layer])
        across = np.concatenate(
            [middle[: counts[layer], counts[layer - 1] :].ravel(), middle[counts[layer] :, : counts[layer - 1]].ravel()]
        )
        assert (across < 0).all() if network.is_linear else not across.any()


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, widths=WIDTHS, noise=st.floats(1e-6, 0.05), linear=st.booleans())
def test_noise_is_never_fitted_worse_than_by_the_truth(
    seed: int, widths: list[int], noise: float, linear: bool
) -> None:
    """Least squares over a family that holds the noiseless weights: the residual is at most the noise."""
    rng = np.random.default_rng(seed)
    if linear:
        weights = [np.asarray(w) for w in bf.Network.aligned_linear(widths, 1.0, rng).weights]
    else:
        weights, _, _ = two_paths(rng, widths, 1.0, rng.uniform(0.7, 1.3))
    noises = [noise * rng.normal(size=w.shape) / np.sqrt(w.size) for w in weights]
    noisy = [w + n for w, n in zip(weights, noises, strict=True)]
    network = bf.Network(noisy, float(linear))
    found = fit_eq_39(network).residuals if linear else fit_eq_40(network).path_residuals
    squares = np.sum([(f * np.linalg.norm(w)) ** 2 for f, w in zip(found, noisy, strict=True)])
    assert squares <= (1 + 1e-9) * np.sum([np.sum(n**2) for n in noises])


@pytest.mark.parametrize("equation", [39, 40])
def test_no_optimiser_finds_a_better_fit(equation: int) -> None:
    rng, widths = np.random.default_rng(0), [3, 5, 4, 1]
    if equation == 39:
        exact = [np.asarray(w) for w in bf.Network.aligned_linear(widths, 1.0, rng).weights]
        masks = [np.ones(1)] * 2
    else:
        exact, neurons, _ = two_paths(rng, widths, 1.0, 1.2)
        masks = [r > 0 for r in neurons]
    noisy = [w + 0.1 * rng.normal(size=w.shape) / np.sqrt(w.size) for w in exact]
    fit = (fit_eq_39 if equation == 39 else fit_eq_40)(bf.Network(noisy, 1.0 if equation == 39 else 0.0))
    residuals = fit.residuals if equation == 39 else fit.path_residuals
    reached = np.sum([(f * np.linalg.norm(w)) ** 2 for f, w in zip(residuals, noisy, strict=True)])

    def squares(parameters: np.ndarray) -> float:
        """One norm and one unit vector per layer and side; the signs of the neurons as they were made."""
        plus, minus, r, one, two = np.split(parameters, np.cumsum([1, 1, 3, 5]))
        if equation == 39:
            chains = [(plus, [unit(r), unit(one), unit(two), np.ones(1)])]
        else:
            up = [unit(np.where(mask, v, 0)) for v, mask in zip((one, two), masks, strict=True)]
            down = [unit(np.where(mask, 0, -v)) for v, mask in zip((one, two), masks, strict=True)]
            chains = [(plus, [unit(r), *up, np.ones(1)]), (minus, [-unit(r), *down, -np.ones(1)])]
        fitted = [sum(size * np.outer(chain[k + 1], chain[k]) for size, chain in chains) for k in range(3)]
        return float(sum(np.sum((w - f) ** 2) for w, f in zip(noisy, fitted, strict=True)))

    start = np.concatenate([[1.0, 1.2], fit.direction, *fit.neurons])
    start += 0.05 * rng.normal(size=start.size)
    best = minimize(squares, start, method="BFGS", options={"gtol": 1e-9}).fun
    assert reached == pytest.approx(best, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, plus=st.floats(0.5, 2), minus=st.floats(0.5, 2))
def test_paths_of_unequal_norm(seed: int, plus: float, minus: float) -> None:
    """Found exactly as paths. As Eq. 40 the first and last layers fit; the middle ones have √2 p²/u in place of p."""
    weights, neurons, _ = two_paths(np.random.default_rng(seed), [3, 6, 5, 4, 1], plus, minus)
    fit = fit_eq_40(bf.Network(weights, 0.0))
    np.testing.assert_allclose(fit.path_norms, [plus, minus], rtol=1e-10)
    assert fit.path_residuals.max() < 1e-10
    norm = np.hypot(plus, minus)
    assert fit.norm == pytest.approx(norm)
    np.testing.assert_allclose(fit.neurons[1], neurons[1], atol=1e-10)
    off = np.hypot(ROOT2 * plus**2 / norm - plus, ROOT2 * minus**2 / norm - minus) / norm
    np.testing.assert_allclose(fit.residuals, [0, off, off, 0], atol=1e-10)


def test_eq_39_does_not_describe_eq_40() -> None:
    """⟨r₂r₁ᵀ, its two blocks times √2⟩ = 1/√2, so that u is fitted as (2 + 1/√2)/3 of its value."""
    fit = fit_eq_39(bf.Network.aligned_relu([3, 8, 8, 1], init_scale=0.5, seed=2))
    share = (2 + 1 / ROOT2) / 3
    assert fit.norm == pytest.approx(0.5 * share)
    middle = np.sqrt(1 - 2 * share / ROOT2 + share**2)
    np.testing.assert_allclose(fit.residuals, [1 - share, middle, 1 - share], rtol=1e-10)


def test_a_stack_is_fitted_like_its_members() -> None:
    networks = [bf.Network.aligned_relu([3, 5, 6, 1], init_scale=0.3, seed=seed) for seed in range(4)]
    rng = np.random.default_rng(0)
    stacked = [np.stack([w + 0.02 * rng.normal(size=w.shape) for w in layer]) for layer in
               zip(*([np.asarray(w) for w in n.weights] for n in networks), strict=True)]  # fmt: skip
    run = SimpleNamespace(template=networks[0], weights=stacked, times=np.arange(4.0))
    fit = fit_eq_40(run)
    assert fit.orders[1].shape == (4, 6)
    for index in range(4):
        alone = fit_eq_40(networks[0].with_weights([w[index] for w in stacked]))
        np.testing.assert_allclose(fit.residuals[index], alone.residuals, rtol=1e-6)
        assert fit.norm[index] == pytest.approx(float(alone.norm))
        np.testing.assert_allclose(fit.neurons[0][index], alone.neurons[0], atol=1e-6)
    assert str(fit).startswith(f"Eq. 40 at t = 3: u = {fit.norm[-1]:.4g}, relative residuals W1 ")


def trained(data: bf.Dataset, width: int, until: float, slope: float) -> bf.Trajectory:
    network = bf.Network.init([data.dim, width, width, 1], slope, 1e-2, seed=1)
    return bf.gradient_flow(network, data, until=until, rtol=1e-5, method="bosh3", save=4)


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_small_random_weights_trained_on_a_linear_target(slope: float) -> None:
    """Both end in their form: then f = u^L rᵀx, or (u/√2)^L rᵀx for Eq. 40, is the target wᵀx."""
    teacher = np.ones(5)
    data = bf.datasets.symmetric_gaussian(dim=5, pairs=50, target=lambda x: x @ teacher, seed=0)
    trajectory = trained(data, 30, 800.0, slope)
    fit = (fit_eq_39 if slope else fit_eq_40)(trajectory)
    assert (fit.residuals[-1] < 0.01).all()
    assert fit.residuals[0].max() > 0.5
    np.testing.assert_allclose(fit.direction[-1], unit(teacher), atol=1e-3)
    per_layer = fit.norm[-1] / (1 if slope else ROOT2)
    assert per_layer**3 == pytest.approx(np.linalg.norm(teacher), rel=1e-3)
    if not slope:
        np.testing.assert_allclose(fit.path_norms[-1], per_layer, rtol=1e-3)
        # On the plateau at t = 400 one path is learned, p³ = ‖w‖, and the other is not: half of the loss is left.
        assert trajectory.losses[2] == pytest.approx(trajectory.losses[0] / 2, rel=1e-2)
        assert fit.path_norms[2].max() ** 3 == pytest.approx(np.linalg.norm(teacher), rel=1e-3)
        assert fit.path_norms[2].min() < 0.2
        assert fit.path_residuals[2, 1] < 0.01
        assert fit.residuals[2, 1] > 0.4


@pytest.mark.slow
def test_figure_3_residuals() -> None:
    """Width 100, 20 dimensions, 1000 pairs: about 0.009, 0.0075 and 0.002."""
    trajectory = trained(bf.datasets.symmetric_gaussian(seed=0), 100, 2000.0, 0.0)
    fit, found = fit_eq_40(trajectory), structure(trajectory)
    assert (fit.residuals[-1] < [0.012, 0.01, 0.004]).all()
    assert found.layers[1].negative_mass[-1] < 0.01
    assert found.layers[1].ratios[-1, 1] > 0.98
    assert found.layers[1].ratios[-1, 2] < 0.01
    assert found.layers[0].ratios[-1, 1] < 0.01


LINEAR = bf.Network.aligned_linear([3, 4, 4, 1], 1.0, seed=0)
RELU = bf.Network.aligned_relu([3, 4, 4, 1], 1.0, seed=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fit_eq_40(LINEAR), "this one is linear. Use fit_eq_39"),
        (lambda: fit_eq_40(RELU.with_slope(0.2)), "slope 0.2"),
        (lambda: fit_eq_40(bf.Network(RELU.weights, 0.0, [True, False])), "all ReLU"),
        (lambda: fit_eq_39(bf.Network([[[1.0, 2.0]]], 1.0)), "one layer"),
        (lambda: fit_eq_40(bf.Network([[[1.0, 2.0]]], 0.0)), "one layer"),
        (lambda: fit_eq_40(bf.Network([np.eye(2), np.eye(2)], 0.0)), "2 outputs"),
        (lambda: fit_eq_39(bf.Network(LINEAR.weights, 1.0, skips=[0, 1, 0])), "identity skips"),
        (lambda: fit_eq_39(bf.Network([np.zeros((2, 3)), np.ones((1, 2))], 1.0)), "layer 1 are zero"),
        (lambda: fit_eq_39([1.0]), "Network or a Trajectory"),
    ],
)
def test_refusals(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
