"""Appendix F as theory: Eqs. 41 and 42, the reduced flow, its closed form, and the staircase of the two sign paths."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import biasfree as bf
from biasfree.theory._deep import effective_map, eq_12_velocity, eq_42_velocity
from biasfree.theory._deep_closed import aligned_norm, aligned_time, drop_time
from biasfree.theory._deep_flow import deep_reduced_flow, deep_weights
from biasfree.theory._deep_paths import deep_staircase, two_path_flow, two_path_weights
from biasfree.theory._sign_paths import SignPaths, sign_paths, wide_paths
from tests.systems import riccati

DIM, WIDTH = 3, 6
DATA = bf.datasets.symmetric_gaussian(dim=DIM, pairs=10, seed=1)
WHITE = bf.datasets.symmetric_gaussian(dim=DIM, pairs=10, whiten=True, seed=1)
STRENGTH = float(np.linalg.norm(DATA.correlation))
TIGHT = {"rtol": 1e-11, "method": "dopri8", "save": 12}


def widths(depth: int, dim: int = DIM) -> list[int]:
    return [dim, *[WIDTH] * (depth - 1), 1]


def uneven(depth: int, scale: float, direction: np.ndarray, positive: float = 0.6) -> bf.Network:
    """Eq. 40 with ‖r_l⁺‖ = ``positive`` and ‖r_l⁻‖ to match."""
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(depth - 1):
        size, sign = np.abs(rng.normal(size=WIDTH)), np.where(rng.permutation(WIDTH) < WIDTH // 2, 1.0, -1.0)
        for side, norm in ((1, positive), (-1, np.sqrt(1 - positive**2))):
            size[sign == side] *= norm / np.linalg.norm(size[sign == side])
        sides.append(sign * size)
    outer = [np.outer(after, before) for before, after in itertools.pairwise(sides)]
    middle = [np.sqrt(2) * np.where(block > 0, block, 0) for block in outer]
    first = np.outer(sides[0], direction / np.linalg.norm(direction))
    return bf.Network([scale * w for w in (first, *middle, sides[-1][None])], slope=0.0)


def gradient(network: bf.Network, data: bf.Dataset) -> list[np.ndarray]:
    """−∂L/∂W_l by automatic differentiation."""

    def loss(start: bf.Network) -> jax.Array:
        return 0.5 * jnp.sum((start(data.inputs) - data.targets) ** 2) / data.samples

    return [-np.asarray(w) for w in jax.grad(loss)(network).weights]


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def largest_gap(trajectory: bf.Trajectory, weights: tuple[np.ndarray, ...]) -> np.ndarray:
    """Largest entry of any layer's difference, time by time."""
    pairs = zip(trajectory.weights, weights, strict=True)
    return np.max([np.abs(a - b).reshape(len(a), -1).max(axis=1) for a, b in pairs], axis=0)


# Eqs. 41, 12 and 42


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_eq_41_is_the_function_of_an_aligned_network(depth, slope) -> None:
    network = bf.Network.aligned_relu(widths(depth), 1.3, seed=depth).with_slope(slope)
    claim = effective_map(network, DATA.inputs)
    assert claim.error < 1e-14
    assert claim.factor == pytest.approx((1 + slope ** (depth - 1)) / 2)
    np.testing.assert_allclose(DATA.inputs @ claim.map, network(DATA.inputs), atol=1e-14)


def test_eq_41_fails_off_the_form() -> None:
    assert effective_map(bf.Network.init(widths(3), 0.0, 1.0, seed=0), DATA.inputs).error > 0.1
    # With paths of unequal norms the network is not linear at all.
    assert effective_map(uneven(3, 1.0, DATA.correlation), DATA.inputs).error > 0.1


@pytest.mark.parametrize("outputs", [1, 2])
def test_eq_12_is_the_gradient_of_a_linear_network(outputs) -> None:
    network = bf.Network.init([DIM, 4, 5, outputs], 1.0, 1.5, seed=outputs)
    targets = DATA.targets if outputs == 1 else np.stack([DATA.targets, DATA.inputs[:, 0]], axis=1)
    data = bf.Dataset(DATA.inputs, targets)
    for found, expected in zip(
        eq_12_velocity(network, data.covariance, data.correlation), gradient(network, data), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_eq_42_is_the_gradient_only_when_corrected(depth) -> None:
    network = bf.Network.aligned_relu(widths(depth), 0.8, seed=depth)
    expected = gradient(network, DATA)
    corrected, printed = (eq_42_velocity(network, DATA.covariance, DATA.correlation, printed=p) for p in (False, True))
    for layer in range(depth):
        assert relative(corrected[layer], expected[layer]) < 1e-13
        # The printed one fills the empty blocks of the middle layers: as much again as there should be.
        error = relative(printed[layer], expected[layer])
        assert error == pytest.approx(1.0 if 0 < layer < depth - 1 else 0.0, abs=1e-13)


# The reduced flow


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_full_flow_follows_the_reduced_one_and_keeps_its_form(depth) -> None:
    """ReLU from Eq. 40, linear from Eq. 39: weights over the whole course, their form, and one another at half time."""
    scale = 0.5
    starts = {
        True: bf.Network.aligned_relu(widths(depth), scale, seed=2),
        False: bf.Network.aligned_linear(widths(depth), scale / np.sqrt(2), seed=2),
    }
    outputs = []
    for rectified, start in starts.items():
        norm = float(np.linalg.norm(start.weights[0]))
        until = 6 * drop_time(depth, norm, STRENGTH, rectified=rectified)
        run = bf.gradient_flow(start, DATA, until=until, **TIGHT)
        flow = deep_reduced_flow(
            run.times, DATA.covariance, DATA.correlation, effective_map(start).map, norm, depth, rectified
        )
        assert largest_gap(run, deep_weights(flow, start)).max() < 1e-10
        np.testing.assert_allclose(run.losses, flow.excess_losses, atol=1e-11)  # a linear target leaves no loss
        assert run.losses[-1] < 0.02 * run.losses[0]
        # The form: empty blocks stay empty, r_l stay where they are, all layers keep one norm, W₁ stays rank one.
        norms = np.array([np.linalg.norm(w, axis=(1, 2)) for w in run.weights])
        assert np.ptp(norms, axis=0).max() < 1e-10
        for w, n in zip(run.weights[1:], norms[1:], strict=True):
            np.testing.assert_allclose(w / n[:, None, None], np.broadcast_to(w[0] / n[0], w.shape), atol=1e-10)
        np.testing.assert_array_less(np.linalg.svd(run.weights[0], compute_uv=False)[:, 1], 1e-10)
        outputs.append(np.stack([network(DATA.inputs) for network in run.networks]))
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-10)


@pytest.mark.parametrize("rectified", [True, False])
def test_depth_two_is_the_riccati_solution(rectified) -> None:
    times = np.array([[4.0, 0.0], [1.0, 12.0]])
    direction, norm = np.array([0.6, 0.0, -0.8]), 0.2
    flow = deep_reduced_flow(times, WHITE.covariance, WHITE.correlation, direction, norm, 2, rectified)
    a = 0.5 if rectified else 1.0
    column = np.sqrt(a) * norm * np.append(direction, 1.0)[:, None]
    for t, w in zip(times.ravel(), flow.maps.reshape(-1, DIM), strict=True):
        np.testing.assert_allclose(w, riccati(WHITE.correlation, column, a * t)[:-1, -1], rtol=1e-11, atol=1e-12)


def test_reduced_flow_far_in_time() -> None:
    """t = 10⁶ and t = ∞ agree, also where Σ is stiff or singular and layers start unequal; times come in any order."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    for spectrum in ([1.0, 0.5, 2.0, 0.1], [1.0, 1e-3, 0.3, 1.0], [1.0, 0.0, 0.3, 0.0]):
        covariance = (basis * spectrum) @ basis.T
        correlation = covariance @ rng.normal(size=4)
        for depth, norms in ((2, 0.3), (3, [0.1, 0.5, 0.3]), (4, 0.4)):
            flow = deep_reduced_flow([np.inf, 0.0, 1e6], covariance, correlation, np.ones(4), norms, depth)
            np.testing.assert_allclose(flow.maps[2], flow.maps[0], atol=1e-9)
            np.testing.assert_allclose(flow.layer_norms[2], flow.layer_norms[0], atol=1e-9)
            np.testing.assert_allclose(covariance @ flow.maps[0], correlation, atol=1e-12)
            np.testing.assert_allclose(flow.layer_norms[1], norms, rtol=1e-15)
            # Conserved: differences of squared norms, and what Σ does not see of the first layer.
            differences = np.diff(flow.layer_norms**2, axis=1)
            np.testing.assert_allclose(differences[0], differences[1], atol=1e-12)
            unseen = basis[:, np.array(spectrum) == 0]
            first = flow.layer_norms[:, :1] * flow.directions
            np.testing.assert_allclose(first[0] @ unseen, first[1] @ unseen, atol=1e-12)


@given(
    st.integers(2, 5), st.floats(0.05, 2.0), st.floats(-1, 1), st.floats(0.2, 3.0), st.booleans(), st.floats(0.1, 1.0)
)
@settings(max_examples=25, deadline=None)
def test_excess_loss_falls_and_time_scales(depth, norm, cosine, other, rectified, factor) -> None:
    """dL/dt ≤ 0; and (Σ, β, t) → (cΣ, cβ, t/c) changes nothing."""
    covariance, correlation = np.diag([1.0, other]), np.array([1.0, 0.4])
    direction = np.array([cosine, np.sqrt(1.01 - cosine**2)])
    times = np.linspace(0, 20, 15)
    flow = deep_reduced_flow(times, covariance, correlation, direction, norm, depth, rectified)
    assert (np.diff(flow.excess_losses) <= 1e-12).all()
    scaled = deep_reduced_flow(
        times / factor, factor * covariance, factor * correlation, direction, norm, depth, rectified
    )
    np.testing.assert_allclose(scaled.maps, flow.maps, atol=1e-9)


def test_tiny_norms_neither_underflow_nor_stall() -> None:
    flow = deep_reduced_flow([0.0, 1e6, np.inf], np.eye(2), [1.0, 0.0], [1.0, 1.0], 1e-200, depth=4)
    assert flow.norms[1] == pytest.approx(1e-200, rel=1e-9)
    np.testing.assert_allclose(flow.maps[2], [1.0, 0.0], atol=1e-12)
    # At depth 2 it escapes: after t = 2 ln(u/u₀)/s it has grown to u.
    grown = deep_reduced_flow(2 * np.log(1e195), np.eye(2), [1.0, 0.0], [1.0, 0.0], 1e-200, depth=2)
    assert grown.norms == pytest.approx(1e-5, rel=1e-9)


# Closed form


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
@pytest.mark.parametrize("initial", [1e-3, 0.3, 4.0])
@pytest.mark.parametrize("rectified", [True, False])
def test_closed_form_is_the_integral(depth, initial, rectified) -> None:
    strength, curvature = 1.3, 0.7
    share, pace = (np.sqrt(2), 0.5) if rectified else (1.0, 1.0)
    limit = share * (strength / curvature) ** (1 / depth)
    assert aligned_norm(np.inf, depth, initial, strength, curvature, rectified) == pytest.approx(limit, rel=1e-15)
    norms = initial + np.array([0.0, 0.2, 0.7, 0.999]) * (limit - initial)
    times = aligned_time(norms, depth, initial, strength, curvature, rectified)

    def slowness(u: float) -> float:
        x = u / share
        return 1 / (share * pace * x ** (depth - 1) * (strength - curvature * x**depth))

    # In ln u, where the integrand varies least.
    integral = [
        quad(lambda v: np.exp(v) * slowness(np.exp(v)), np.log(initial), np.log(u), epsrel=1e-12, limit=200)[0]
        for u in norms
    ]
    np.testing.assert_allclose(times, integral, rtol=1e-10, atol=1e-15)
    # There and back in time: a long wait leaves few digits of a time for the norm, but not the other way round.
    again = aligned_norm(times, depth, initial, strength, curvature, rectified)
    np.testing.assert_allclose(
        aligned_time(again, depth, initial, strength, curvature, rectified), times, rtol=1e-11, atol=1e-14
    )


def test_closed_form_at_depth_two_is_logistic() -> None:
    times = np.array([0.0, 1.0, 5.0, 30.0, 1e6])
    square = 1.3 / (1 + (1.3 / 1e-6 - 1) * np.exp(-2 * 1.3 * times))
    np.testing.assert_allclose(aligned_norm(times, 2, 1e-3, 1.3, rectified=False) ** 2, square, rtol=1e-12)
    np.testing.assert_allclose(aligned_norm(2 * times, 2, np.sqrt(2) * 1e-3, 1.3) ** 2, 2 * square, rtol=1e-12)


@given(st.integers(2, 6), st.floats(0.2, 3.0), st.floats(0.3, 3.0), st.floats(0.3, 3.0), st.booleans())
@settings(max_examples=25, deadline=None)
def test_closed_form_is_the_reduced_flow(depth, initial, strength, curvature, rectified) -> None:
    times = np.linspace(0, 5, 9)
    flow = deep_reduced_flow(times, np.diag([curvature, 1.0]), [strength, 0.0], [1.0, 0.0], initial, depth, rectified)
    closed = aligned_norm(times, depth, initial, strength, curvature, rectified)
    np.testing.assert_allclose(flow.norms, closed, rtol=1e-9)


def test_closed_form_at_rest() -> None:
    np.testing.assert_array_equal(aligned_norm([0.0, 3.0, np.inf], 3, 1.0, 1.0, rectified=False), 1.0)
    np.testing.assert_array_equal(aligned_time([0.1, np.sqrt(2)], 3, 0.1, 1.0)[0], 0.0)
    assert aligned_time(1.0, 3, 0.1, 1.0, rectified=False) == np.inf


# When the loss drops


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("rectified", [True, False])
def test_drop_time_halves_the_loss(depth, rectified) -> None:
    direction = WHITE.correlation
    strength = float(np.linalg.norm(direction))
    time = drop_time(depth, 0.1, strength, rectified=rectified)
    flow = deep_reduced_flow([0.0, time], np.eye(DIM), direction, direction, 0.1, depth, rectified)
    assert flow.excess_losses[1] == pytest.approx(0.5 * flow.excess_losses[0], rel=1e-9)


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_drop_time_tends_to_its_leading_order(depth) -> None:
    gaps = []
    for scale in (1e-2, 1e-4, 1e-6):
        exact, leading = (drop_time(depth, scale, 2.0, 0.5, leading_order=order) for order in (False, True))
        gaps.append(abs(exact / leading - 1))
        rate = 2.0 * 2 ** (-depth / 2)
        if depth > 2:
            assert leading == pytest.approx(scale ** (2 - depth) / ((depth - 2) * rate), rel=1e-12)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < (0.05 if depth == 2 else 1e-5)


@given(st.integers(2, 4), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_no_network_correlates_better_than_one_path(depth, seed) -> None:
    """⟨y f⟩ ≤ (s/2) Π‖W_l‖ on white symmetric data with a linear target: no random start drops before one path does."""
    network = bf.Network.init(widths(depth), 0.0, 1.0, seed)
    bound = 0.5 * np.linalg.norm(WHITE.correlation) * np.prod([np.linalg.norm(w) for w in network.weights])
    assert np.mean(WHITE.targets * network(WHITE.inputs)) <= bound
    weights = [np.zeros(w.shape) for w in network.weights]
    weights[0][0] = WHITE.correlation / np.linalg.norm(WHITE.correlation)
    for weight in weights[1:]:
        weight[0, 0] = 1.0
    path = network.with_weights(weights)
    assert np.mean(WHITE.targets * path(WHITE.inputs)) == pytest.approx(0.5 * np.linalg.norm(WHITE.correlation))


# Two paths


def test_paths_are_read_off_exactly() -> None:
    network = uneven(4, 0.5, np.array([1.0, 0.3, -0.2]))
    paths = sign_paths(network, [1.0, 0.0, 0.0])
    for path, side in enumerate((0.6, 0.8)):
        expected = 0.5 * np.array([side, np.sqrt(2) * side**2, np.sqrt(2) * side**2, side])
        np.testing.assert_allclose(paths.layer_norms[path], expected, rtol=1e-14)
    np.testing.assert_allclose(paths.alignments, 1.0, rtol=1e-13)
    assert all((both.sum(axis=0) == 1).all() for both in paths.members)
    overlap = sign_paths(network, [1.0, 0.0, 0.0], middle="overlap")
    np.testing.assert_allclose(overlap.layer_norms, paths.layer_norms, rtol=1e-13)
    x = DATA.inputs
    outputs = np.where(x @ paths.directions[0] > 0, x @ paths.maps[0], x @ paths.maps[1])
    np.testing.assert_allclose(network(x), outputs, atol=1e-15)


@pytest.mark.parametrize("depth", [3, 4])
def test_unequal_paths_are_independent_on_white_data(depth) -> None:
    start = uneven(depth, 0.5, WHITE.correlation)
    paths = sign_paths(start, WHITE.correlation)
    steps = deep_staircase(paths, WHITE.covariance, WHITE.correlation)
    run = bf.gradient_flow(start, WHITE, until=2 * steps.times[1], **TIGHT)
    flow = two_path_flow(run.times, WHITE.covariance, WHITE.correlation, paths)
    assert largest_gap(run, two_path_weights(flow, start)).max() < 1e-10
    np.testing.assert_allclose(run.losses, flow.excess_losses, atol=1e-11)
    assert not flow.between(WHITE.inputs).any()


def test_unequal_paths_leak_once_a_sample_lies_between() -> None:
    start = uneven(3, 0.5, DATA.correlation / STRENGTH + [0.1, -0.1, 0.6])
    paths = sign_paths(start, DATA.correlation)
    run = bf.gradient_flow(start, DATA, until=20.0, **TIGHT)
    flow = two_path_flow(run.times, DATA.covariance, DATA.correlation, paths)
    gaps, between = largest_gap(run, two_path_weights(flow, start)), flow.between(DATA.inputs)
    first = int(np.flatnonzero(between)[0])
    assert first >= 2
    assert gaps[:first].max() < 1e-10
    assert 1e-5 < gaps[-1] < 1e-2
    empty = np.asarray(start.weights[1]) == 0
    assert not run.weights[1][:first][:, empty].any()
    assert np.abs(run.weights[1][-1][empty]).max() > 1e-5


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_staircase_on_white_data_is_two_drop_times(depth) -> None:
    norms, strength = (0.05, 0.04), 1.7
    steps = deep_staircase(SignPaths.of_norms(norms, [0.0, 1.0], depth), np.eye(2), [0.0, strength])
    # A drop from zero output instead of from the start's: (1 − m₀/s)² of the loss are left to begin with.
    for time, norm in zip(steps.times, norms, strict=True):
        fraction = 1 - 0.5 / (1 - norm**depth / strength) ** 2
        assert time == pytest.approx(drop_time(depth, np.sqrt(2) * norm, strength, fraction=fraction), rel=1e-9)
    assert steps.first == "positive"
    assert (steps.wait > 0) == (depth > 2)


def test_loss_with_one_path_learned_is_exactly_half_way() -> None:
    data = bf.datasets.symmetric_gaussian(dim=DIM, pairs=10, target="linear_plus_sine", seed=4)
    solution = np.linalg.solve(data.covariance, data.correlation)
    power = float(np.mean(data.targets**2))
    paths = SignPaths.of_norms([0.1, 0.2], data.correlation, 3)
    levels = deep_staircase(paths, data.covariance, data.correlation, power).levels
    one_path = bf.Network([solution[None], [[1.0]], [[1.0]]], slope=0.0)
    both_paths = bf.Network([[*solution[None], *-solution[None]], np.eye(2), [[1.0, -1.0]]], slope=0.0)
    for level, outputs in zip(levels, (0.0, one_path(data.inputs), both_paths(data.inputs)), strict=True):
        assert level == pytest.approx(float(0.5 * np.mean((data.targets - outputs) ** 2)), rel=1e-13)


def test_paths_that_are_learned_already() -> None:
    paths = SignPaths.of_norms([1.0, 0.1], [1.0, 0.0], 3)
    steps = deep_staircase(paths, np.eye(2), [1.0, 0.0])
    assert steps.first == "positive"
    np.testing.assert_array_equal(steps.spans[0], 0.0)
    assert steps.times[1] > 10


def staircase_of(seed: int, dim: int, width: int, pairs: int, scale: float) -> tuple[np.ndarray, ...]:
    """Both times of a random start: as simulated, predicted from t = 0, predicted when the loss has fallen by 1 %."""
    data = bf.datasets.symmetric_gaussian(dim=dim, pairs=pairs, seed=seed)
    network = bf.Network.init([dim, width, width, 1], 0.0, scale, seed)
    moments = data.covariance, data.correlation
    begin = deep_staircase(sign_paths(network, data.correlation, "overlap"), *moments)
    run = bf.gradient_flow(network, data, until=1.25 * begin.times[1], save=400)
    left = run.losses / run.losses[0]
    found = np.array([run.time_of_loss(part * run.losses[0]) for part in (0.75, 0.25)])
    early = int(np.flatnonzero(left < 0.99)[0])
    paths = sign_paths(run.networks[early], data.correlation)
    later = deep_staircase(paths, *moments)
    assert later.wait > 0
    assert np.abs(left - 0.5).min() < 1e-3
    # The whole curve of the first step; the second stands out as steeply, so that only its time is compared.
    since = run.times[early:] - run.times[early]
    step = since < later.spans[0, 2]
    curve = two_path_flow(since[step], *moments, paths).excess_losses / run.losses[0]
    np.testing.assert_allclose(curve, left[early:][step], atol=1e-3)
    return found, begin.times, run.times[early] + later.times


def test_both_times_of_a_random_start() -> None:
    """Width 40: to 5 % from the initial weights alone for this draw, far closer once the loss has fallen by 1 %."""
    found, from_start, from_early = staircase_of(3, 5, 40, 30, 0.03)
    np.testing.assert_allclose(from_start, found, rtol=0.05)
    # The second path is still aligning when the first drops.
    np.testing.assert_allclose(from_early[0], found[0], rtol=1e-4)
    np.testing.assert_allclose(from_early[1], found[1], rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_both_times_at_the_papers_size(seed) -> None:
    found, from_start, from_early = staircase_of(seed, 20, 100, 200, 0.01)
    np.testing.assert_allclose(from_start, found, rtol=0.1)
    # The second path is still aligning when the first drops.
    np.testing.assert_allclose(from_early[0], found[0], rtol=1e-4)
    np.testing.assert_allclose(from_early[1], found[1], rtol=2e-3)


def test_wide_start_scales_as_one_over_scale() -> None:
    times = [
        deep_staircase(wide_paths(g, DATA.correlation), DATA.covariance, DATA.correlation).times for g in (1e-2, 1e-4)
    ]
    assert times[0][0] == times[0][1]
    assert times[1][0] / times[0][0] == pytest.approx(100, rel=0.01)
    # What wide_paths says the norms tend to, at a finite width.
    random = sign_paths(bf.Network.init([DIM, 3000, 300, 1], 0.0, 1e-2, 0), DATA.correlation, "overlap")
    np.testing.assert_allclose(
        random.layer_norms[:, [0, 2]], wide_paths(1e-2, DATA.correlation).layer_norms[:, [0, 2]], rtol=0.1
    )
    assert np.abs(random.layer_norms[:, 1]).max() < 1e-3 * 1e-2


# Bad input


ALIGNED = bf.Network.aligned_relu(widths(3), 0.5, seed=0)
FLOW = deep_reduced_flow([0.0], np.eye(DIM), np.ones(DIM), np.ones(DIM), 0.5, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: effective_map(bf.Network([np.eye(2)], 0.0, skips=[1])), "without skips"),
        (lambda: eq_12_velocity(ALIGNED, np.eye(DIM), np.ones(DIM)), "Eq. 12 is for linear networks"),
        (lambda: eq_42_velocity(ALIGNED.with_slope(0.1), np.eye(DIM), np.ones(DIM)), "slope 0"),
        (lambda: eq_42_velocity(ALIGNED, np.eye(2), np.ones(2)), "needs a covariance of shape"),
        (lambda: deep_reduced_flow([-1.0], np.eye(2), [1, 0], [1, 0], 0.1, 3), "times must be at least 0, got -1.0"),
        (lambda: deep_reduced_flow([1.0], np.eye(2), [1, 0], [1, 0], 0.0, 3), "init_scale must be one finite number"),
        (lambda: deep_reduced_flow([1.0], np.eye(2), [1, 0], [0, 0], 0.1, 3), "initial_direction must be a nonzero"),
        (lambda: deep_reduced_flow([1.0], np.eye(2), [1, 0], [1, 0], 0.1, 1), "depth must be a whole number"),
        (lambda: deep_reduced_flow([1.0], -np.eye(2), [1, 0], [1, 0], 0.1, 3), "covariance must be symmetric"),
        (lambda: deep_reduced_flow([1.0], np.diag([1, 0]), [1, 1], [1, 0], 0.1, 3), "range of covariance"),
        (lambda: deep_weights(FLOW, bf.Network.init(widths(3), 0.0, 0.5, 0)), "must be the start of this flow"),
        (lambda: deep_weights(FLOW, bf.Network.aligned_relu(widths(4), 0.5, 0)), "3-layer network"),
        (lambda: aligned_time(3.0, 3, 0.1, 1.0), "between the initial norm, 0.1, and its limit"),
        (lambda: drop_time(3, 0.1, 1.0, fraction=1.0), "between 0 and 1"),
        (lambda: sign_paths(bf.Network.rank_one(DIM, 4, 0.0, 0.1, 0), np.ones(DIM)), "three layers or more"),
        (lambda: sign_paths(ALIGNED, np.zeros(DIM)), "correlation must be a nonzero vector"),
        (lambda: sign_paths(ALIGNED, np.ones(DIM), "gian"), "Did you mean 'gain'"),
        (lambda: SignPaths.of_norms([0.1], [1.0], 3), "norms must be 2 numbers"),
        (lambda: deep_staircase(SignPaths.of_norms([1, 2], [1.0], 3), [[1.0]], [0.0]), "nothing linear to learn"),
        (lambda: deep_staircase(SignPaths.of_norms([1, 2], [1.0], 3), [[1.0]], [2.0], 1.0), "target_power must be"),
        (lambda: two_path_flow([1.0], np.eye(2), [1, 0], SignPaths.of_norms([1, 2], [1.0], 3)), "paths are of 1"),
        (
            lambda: two_path_weights(
                two_path_flow([1.0], [[1.0]], [1.0], SignPaths.of_norms([1, 2], [1.0], 3)), ALIGNED
            ),
            "sign_paths read off this network",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(call, sentence) -> None:
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        call()
