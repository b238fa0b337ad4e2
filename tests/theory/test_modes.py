"""Several outputs on symmetric data: the twin, the modes, their times, and what finite width leaves."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from biasfree import Dataset, Network, datasets, theory
from biasfree.theory import _finite_width


def several(dim: int = 5, pairs: int = 60, white: bool = True, strengths=(1.0, 0.7, 0.4), seed: int = 0) -> Dataset:
    """Symmetric Gaussian inputs, y = Bx with the singular values of B given."""
    base = datasets.symmetric_gaussian(dim, pairs, whiten=white, seed=seed)
    rng = np.random.default_rng([seed, 5])
    left, right = (np.linalg.qr(rng.normal(size=(size, len(strengths))))[0] for size in (3, dim))
    return Dataset(base.inputs, base.inputs @ (left @ np.diag(strengths) @ right.T).T, "several")


def flow(network: Network, data: Dataset, times: np.ndarray, loss: str = "square") -> list[list[np.ndarray]]:
    """The network's gradient flow by SciPy, written out here: [W₁, W₂] at each time."""
    shapes = [np.shape(w) for w in network.weights]
    split = int(np.prod(shapes[0]))
    slope = 1.0 if network.is_linear else network.slope

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        first, second = state[:split].reshape(shapes[0]), state[split:].reshape(shapes[1])
        signals = data.inputs @ first.T
        gains = np.where(signals > 0, 1.0, slope)
        outputs = (gains * signals) @ second.T
        if loss == "square":
            residual = data.targets - outputs
        else:
            odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            residual = data.targets - odds / odds.sum(axis=1, keepdims=True)
        back = gains * (residual @ second)
        return np.concatenate(
            [(back.T @ data.inputs).ravel(), (residual.T @ (gains * signals)).ravel()]
        ) / data.samples  # fmt: skip

    state = np.concatenate([np.ravel(w) for w in network.weights])
    found = solve_ivp(velocity, (0, times[-1]), state, "DOP853", times, rtol=1e-10, atol=1e-13 * np.abs(state).max())
    return [[row[:split].reshape(shapes[0]), row[split:].reshape(shapes[1])] for row in found.y.T]


@pytest.mark.parametrize("white", [True, False])
@pytest.mark.parametrize("slope", [1.0, 0.3])
def test_the_time_course_is_the_linear_network_s(white: bool, slope: float) -> None:
    data = several(white=white)
    start = Network.init([5, 12, 3], slope=slope, init_scale=1e-6, seed=3)
    stairs = theory.mode_staircase(start, data)
    assert stairs.white == white
    times = np.linspace(0, 1.3 * stairs.times[-1], 60)
    # The twin at (1+α)t/2, from the whole start and not from its growing part alone.
    runs = flow(theory.linear_twin(start), data, theory.linear_time(times, slope))
    maps = np.array([second @ first for first, second in runs])
    assert np.abs(stairs.maps(times) - maps).max() < 1e-5
    first, second = stairs.twin_weights(times)
    assert np.abs(first[-1] - runs[-1][0]).max() < 1e-5
    assert np.abs(second[-1] - runs[-1][1]).max() < 1e-5
    modes = stairs.modes
    strengths = np.einsum("mk,tkd,md->tm", modes.outputs, maps, modes.inputs)
    for mode in range(3):
        measured = np.interp(0.5 * strengths[-1, mode], strengths[:, mode], times)
        assert stairs.times[mode] == pytest.approx(measured, rel=2e-3)
    losses = 0.5 * np.mean(np.sum((data.targets[None] - data.inputs @ maps.mT) ** 2, axis=2), axis=1)
    assert np.abs(stairs.losses(times) - losses).max() < 1e-5


def test_saxe_s_closed_form_is_the_case_of_orthogonal_starts() -> None:
    data = several(strengths=(2.0, 1.0, 0.5))
    left, strengths, right = np.linalg.svd(data.correlation, full_matrices=False)
    readouts = 1e-3 * np.eye(4)[:3]
    start = Network([readouts.T @ right, left @ readouts], slope=1.0)
    stairs = theory.mode_staircase(start, data)
    times = np.linspace(0, 30, 40)
    seed = 1e-6
    expected = strengths / (1 - np.exp(-2 * strengths * times[:, None]) * (1 - strengths / seed))
    np.testing.assert_allclose(stairs.strengths(times), expected, rtol=1e-9)
    np.testing.assert_allclose(stairs.times, np.log(strengths / seed - 1) / (2 * strengths), rtol=1e-4)


@pytest.mark.parametrize("white", [True, False])
def test_the_levels_are_the_best_maps_of_each_rank(white: bool) -> None:
    data = several(white=white, pairs=30)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(30, 3))
    data = Dataset(data.inputs, data.targets + np.concatenate([noise, -noise]))
    levels = theory.mode_staircase(Network.init([5, 8, 3], 0.0, 1e-6, 0), data).levels
    fitted = data.inputs @ np.linalg.lstsq(data.inputs, data.targets, rcond=None)[0]
    _, _, axes = np.linalg.svd(fitted)
    for rank, level in enumerate(levels):
        best = fitted @ axes[:rank].T @ axes[:rank]
        assert level == pytest.approx(0.5 * np.mean(np.sum((data.targets - best) ** 2, axis=1)), rel=1e-10)


def test_tiny_starts_are_later_and_nothing_else() -> None:
    for white in (True, False):
        data = several(white=white)
        times = []
        for scale in (1e-10, 1e-100, 1e-200):
            stairs = theory.mode_staircase(Network.init([5, 12, 3], 0.0, scale, 0), data)
            assert np.isfinite(stairs.maps(stairs.times)).all()
            times.append(stairs.times)
        # 1/(as) per e-fold for the mode that is learned first; and on white input for every mode.
        waits = (times[2] - times[1]) / np.log(1e100) * stairs.modes.rates
        np.testing.assert_allclose(waits[: 3 if white else 1], 1, rtol=1e-4)


@pytest.mark.parametrize("slope", [0.0, 0.4])
def test_mirror_images_make_theorem_5_exact_for_any_outputs(slope: float) -> None:
    data = several(dim=3, pairs=6, white=False)
    start = theory.mirrored(Network.init([3, 3, 3], slope=slope, init_scale=0.5, seed=2))
    times = np.linspace(0, 12, 13)
    twins = flow(theory.linear_twin(start), data, theory.linear_time(times, slope))
    for run, twin in zip(flow(start, data, times), twins, strict=True):
        for weight, other in zip(run, twin, strict=True):
            assert np.abs(weight / theory.weight_factor(slope) - other).max() < 1e-7
        assert theory.parity_form(Network(run, slope), tolerance=1e-6).even_part(data.inputs) == pytest.approx(
            0, abs=1e-6
        )


def test_cross_entropy_has_a_twin_for_two_classes_only() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(8, 3))
    times = np.linspace(0, 20, 6)
    apart = {}
    for classes in (2, 3):
        # Probabilities that are odd about 1/K, as Condition 3 asks.
        tilt = np.tanh(inputs @ rng.normal(size=(3, classes)))
        tilt = 0.9 / classes * (tilt - tilt.mean(axis=1, keepdims=True)) / 2
        both = np.concatenate([1 / classes + tilt, 1 / classes - tilt])
        data = Dataset(np.concatenate([inputs, -inputs]), both, classes=range(classes))
        start = theory.mirrored(Network.init([3, 4, classes], slope=0.0, init_scale=1.0, seed=1))
        runs = flow(start, data, times, "cross-entropy")
        twins = flow(theory.linear_twin(start), data, theory.linear_time(times, 0.0), "cross-entropy")
        apart[classes] = max(
            np.abs(w * np.sqrt(0.5) - v).max()
            for r, t in zip(runs, twins, strict=True)
            for w, v in zip(r, t, strict=True)
        )
    assert apart[2] < 1e-7
    assert apart[3] > 1e-3


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_eq_23_for_several_outputs_is_a_matrix_exponential(loss: str) -> None:
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(9, 4)), rng.integers(0, 3, 9), classes=("a", "b", "c"))
    network = Network.init([4, 6, 3], slope=0.2, init_scale=1.0, seed=0)
    residual = data.targets - (1 / 3 if loss == "cross-entropy" else 0)
    pull = residual.T @ data.inputs / 9
    block = 0.6 * np.block([[np.zeros((4, 4)), pull.T], [pull, np.zeros((3, 3))]])
    state = np.concatenate([np.asarray(network.weights[0]).T, network.weights[1]])
    for time in (0.0, 1.5):
        first, second = theory.early_solution(time, network, data, loss)
        np.testing.assert_allclose(np.concatenate([first.T, second]), expm(block * time) @ state, atol=1e-12)
    modes = theory.growing_modes(network, data, loss)
    np.testing.assert_allclose(modes.strengths, np.linalg.svd(pull, compute_uv=False)[: len(modes)], atol=1e-12)
    np.testing.assert_allclose(modes.outputs.T * modes.strengths @ modes.inputs, pull, atol=1e-12)
    np.testing.assert_allclose(modes.norms, np.linalg.norm(modes.readouts, axis=1))
    np.testing.assert_allclose(
        modes.imbalances, np.sum(modes.readouts * np.abs(modes.readouts), axis=1) / modes.norms**2, atol=1e-12
    )


def test_one_output_is_the_old_theory() -> None:
    data = datasets.symmetric_gaussian(4, 40, seed=2)
    network = Network.init([4, 30, 1], slope=0.0, init_scale=1e-7, seed=1)
    old, modes = theory.aligned_start(network, data), theory.growing_modes(network, data)
    assert modes.norms[0] == pytest.approx(old.norm)
    assert abs(modes.imbalances[0]) == pytest.approx(abs(old.imbalance))
    assert modes.rates[0] == pytest.approx(old.rate)
    times = np.linspace(0, 150, 7)
    w = theory.reduced_flow(times, data.covariance, data.correlation, old.direction, old.norm, 0.0)
    np.testing.assert_allclose(theory.mode_staircase(network, data).maps(times)[:, 0], w, atol=1e-7)
    found = theory.finite_width_response(400.0, network, data)
    assert found.weights == pytest.approx(abs(old.imbalance) / 2, rel=0.05)
    # A linear network, and one of mirror images, have no even part to lose.
    assert theory.finite_width_response(400.0, network.with_slope(1.0), data).weights == 0
    assert theory.finite_width_response(400.0, theory.mirrored(network), data).unanswered < 1e-12


def test_the_kernel_of_the_even_part_is_its_gradients() -> None:
    rng = np.random.default_rng(0)
    first, second, points = rng.normal(size=(4, 3)), rng.normal(size=(2, 4)), rng.normal(size=(5, 3))

    def even(state: np.ndarray) -> np.ndarray:
        w, v = state[:12].reshape(4, 3), state[12:].reshape(2, 4)
        return (np.abs(points @ w.T) @ v.T).T.ravel()

    state = np.concatenate([first.ravel(), second.ravel()])
    gradients = np.array([(even(state + h) - even(state - h)) / 2e-6 for h in 1e-6 * np.eye(len(state))]).T
    values, kernel = _finite_width._even_part(first, second, points)
    np.testing.assert_allclose(values, even(state))
    np.testing.assert_allclose(kernel, gradients @ gradients.T, atol=1e-6)


def test_what_is_refused() -> None:
    data = several()
    with pytest.raises(ValueError, match="Use a wider network"):
        theory.mode_staircase(Network.init([5, 2, 3], 0.0, 1e-6, 0), data)
    with pytest.raises(ValueError, match="5 inputs to 2 outputs"):
        theory.growing_modes(Network.init([5, 4, 2], 0.0, 1e-6, 0), data)
    with pytest.raises(ValueError, match="two-layer"):
        theory.growing_modes(Network.init([5, 4, 4, 3], 0.0, 1e-6, 0), data)
    with pytest.raises(ValueError, match="β = 0"):
        theory.growing_modes(Network.init([1, 4, 2], 0.0, 1e-6, 0), Dataset([[1.0], [-1.0]], [[1.0, 2.0], [1.0, 2.0]]))
    with pytest.raises(ValueError, match="must lie after that"):
        theory.finite_width_response(1.0, Network.init([5, 9, 3], 0.0, 1e-6, 0), data)
