"""The least possible loss: never beaten in training, attained by an explicit network, equal to known minima."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import biasfree as bf
from biasfree.lines import lines
from biasfree.theory import best_possible_loss

SETS, SAMPLES, DIM, WIDTH = 208, 8, 2, 40


def small_set(seed: int) -> bf.Dataset:
    """Samples on few lines, both sides, with repeats: where two layers cannot fit everything."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(rng.integers(2, 6), DIM))
    inputs = rng.choice([-1, 1, -2, 0.5], (SAMPLES, 1)) * directions[rng.integers(0, len(directions), SAMPLES)]
    return bf.Dataset(inputs, rng.normal(size=SAMPLES))


@functools.cache
def trained_losses(depth: int) -> np.ndarray:
    """The lowest loss along Adam runs of 208 random networks on as many sets, all at once."""

    def forward(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        z = x.T
        for w in weights[:-1]:
            z = jax.nn.relu(w @ z)
        return (weights[-1] @ z)[0]

    def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return 0.5 * jnp.mean((forward(weights, x) - y) ** 2)

    def train(key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        widths = [DIM] + [WIDTH] * (depth - 1) + [1]
        keys = jax.random.split(key, depth)
        weights = [jax.random.normal(k, (o, i)) / np.sqrt(i) for k, i, o in zip(keys, widths, widths[1:], strict=False)]

        def step(carry: tuple, k: jax.Array) -> tuple:
            weights, mean, square, best = carry
            value, gradient = jax.value_and_grad(loss)(weights, x, y)
            mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
            square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, gradient)
            rate = 0.03 * 0.5 ** (k / 400)
            weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-12), weights, mean, square)
            return (weights, mean, square, jnp.minimum(best, value)), None

        zeros = [jnp.zeros_like(w) for w in weights]
        return jax.lax.scan(step, (weights, zeros, zeros, jnp.inf), jnp.arange(3000))[0][-1]

    sets = [small_set(seed) for seed in range(SETS)]
    inputs, targets = (jnp.array([getattr(s, name) for s in sets]) for name in ("inputs", "targets"))
    return np.asarray(jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), SETS), inputs, targets))


@pytest.mark.parametrize("depth", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_no_trained_network_goes_below_it_and_many_come_close(depth: int) -> None:
    bounds = np.array([best_possible_loss(small_set(seed), depth).loss for seed in range(SETS)])
    trained = trained_losses(depth)
    assert (trained >= bounds * (1 - 1e-12) - 1e-15).all()
    # The bound is the infimum, not merely a bound: most of these networks are wide enough to come near it.
    assert np.mean(trained - bounds < 1e-4) > 0.8


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_attaining_networks_attain_it(slope: float) -> None:
    for seed in range(40):
        data = small_set(seed)
        for depth in (2, "deep"):
            best = best_possible_loss(data, depth, slope)
            outputs = np.asarray(best.network()(data.inputs))
            assert 0.5 * np.mean((outputs - data.targets) ** 2) == pytest.approx(best.loss, abs=1e-12)


def test_slope_one_and_depth_one_are_least_squares() -> None:
    rng = np.random.default_rng(0)
    data = bf.Dataset(rng.normal(size=(30, 4)), rng.normal(size=30))
    residual = np.linalg.lstsq(data.inputs, data.targets, rcond=None)[1][0] / 60
    for arguments in ({"slope": 1.0}, {"slope": 1.0, "depth": "deep"}, {"depth": 1}):
        best = best_possible_loss(data, **arguments)
        assert best.loss == pytest.approx(residual, rel=1e-12)
        np.testing.assert_allclose(best.linear_map, np.linalg.pinv(data.inputs) @ data.targets, rtol=1e-9)
    outputs = best_possible_loss(data, slope=1.0).network()(data.inputs)
    np.testing.assert_allclose(outputs, best.outputs, atol=1e-12)


def test_condition_3_makes_the_minimum_linear() -> None:
    """E.4: on even inputs with an odd target the even part is zero at the global minimum."""
    data = bf.datasets.symmetric_gaussian(dim=4, pairs=30, target="linear_plus_sine", seed=2)
    two, linear = best_possible_loss(data), best_possible_loss(data, slope=1.0)
    assert two.loss == pytest.approx(linear.loss, rel=1e-12)
    np.testing.assert_allclose(two.linear_map, linear.linear_map, rtol=1e-9)
    assert bf.theory.parity_form(two.network()).is_linear
    assert best_possible_loss(data, depth=3).loss < 1e-20


def test_landmarks() -> None:
    six = bf.datasets.six_points()
    assert best_possible_loss(six, slope=1.0).loss == pytest.approx(0.443615, abs=5e-7)
    # (±1, 0) would need slopes +1 of the one side and −1 of the other; the offset takes the two to different lines.
    assert best_possible_loss(six).loss == 0
    centred = bf.datasets.six_points(offset=0.0)
    assert best_possible_loss(centred).loss == pytest.approx(best_possible_loss(centred, slope=1.0).loss, rel=1e-12)
    assert best_possible_loss(bf.datasets.xor()).loss == 0


def test_rays_with_two_targets_and_samples_at_the_origin_pay_for_ever() -> None:
    data = bf.Dataset([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [1.0, 1.0, 2.0])
    # One slope for targets 1 at distances 1 and 2: p = 3/5 leaves ½(0.4² + 0.2²); the origin can only answer 0.
    best = best_possible_loss(data, depth="deep")
    assert best.loss == pytest.approx((0.5 * (0.4**2 + 0.2**2) + 0.5 * 4) / 3, rel=1e-12)
    assert best.samples_off.tolist() == [2, 0, 1]
    assert best.per_sample.sum() == pytest.approx(3 * best.loss)


def test_several_outputs_are_the_sum_of_their_own() -> None:
    rng = np.random.default_rng(3)
    base = small_set(5)
    targets = rng.normal(size=(SAMPLES, 3))
    for depth in (2, "deep"):
        together = best_possible_loss(bf.Dataset(base.inputs, targets), depth)
        apart = [best_possible_loss(bf.Dataset(base.inputs, y), depth).loss for y in targets.T]
        assert together.loss == pytest.approx(sum(apart), rel=1e-10)
        outputs = np.asarray(together.network()(base.inputs))
        assert 0.5 * np.mean(np.sum((outputs - targets) ** 2, axis=1)) == pytest.approx(together.loss, abs=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("depth", [2, "deep", 1])
def test_label_losses_against_a_general_optimiser(loss: str, depth: int | str) -> None:
    """scipy on the same unknowns, w and one number per line or ray; it may only approach an infimum at infinity."""
    for seed in range(8):
        base = small_set(seed)
        data = bf.Dataset(base.inputs, np.sign(base.targets))
        grouped = lines(data.inputs)
        own = np.abs(grouped.position)[:, None]
        if depth == 1:
            design = data.inputs
        elif depth == 2:
            design = np.column_stack([data.inputs, own * np.eye(len(grouped))[grouped.member]])
        else:
            design = own * np.eye(2 * len(grouped))[2 * grouped.member + (grouped.position < 0)]
        signed = data.targets[:, None] * design

        def objective(theta: np.ndarray, signed: np.ndarray = signed) -> float:
            margins = signed @ theta
            return np.mean(np.logaddexp(0, -margins) if loss == "logistic" else np.exp(-margins))

        found = minimize(objective, np.zeros(design.shape[1]), method="BFGS", options={"gtol": 1e-9}).fun
        best = best_possible_loss(data, depth, loss=loss)
        assert best.loss <= found + 1e-9
        assert found <= best.loss + 1e-4
        assert best.attained == bool(np.isfinite(best.outputs).all())


def test_separable_labels_have_infimum_zero_that_is_never_reached() -> None:
    best = best_possible_loss(bf.datasets.separable(dim=3, samples=20, seed=0), slope=1.0, loss="logistic")
    assert best.loss == 0
    assert not best.attained
    with pytest.raises(ValueError, match="no network attains"):
        best.network()


def test_a_hundred_thousand_samples() -> None:
    rng = np.random.default_rng(0)
    half = rng.normal(size=(50_000, 50))
    data = bf.Dataset(np.concatenate([half, -half]), rng.normal(size=100_000))
    best = best_possible_loss(data)
    # Noise on 50,000 lines: the even half of its variance can be fitted, the odd half, but for 50 numbers, cannot.
    assert best.loss == pytest.approx(0.25, rel=0.02)
    linear = np.linalg.lstsq(half, (data.targets[:50_000] - data.targets[50_000:]) / 2, rcond=None)[0]
    np.testing.assert_allclose(best.linear_map, linear, rtol=1e-6, atol=1e-9)


def test_scale_makes_no_difference() -> None:
    base = small_set(7)
    plain = best_possible_loss(base)
    for scale in (1e-120, 1e90):
        scaled = best_possible_loss(bf.Dataset(scale * base.inputs, base.targets))
        assert scaled.loss == pytest.approx(plain.loss, rel=1e-10)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="labels −1 and"):
        best_possible_loss(small_set(0), loss="logistic")
    with pytest.raises(ValueError, match="depth"):
        best_possible_loss(small_set(0), depth="dep")
    with pytest.raises(ValueError, match="at least 1"):
        best_possible_loss(small_set(0), depth=0)
