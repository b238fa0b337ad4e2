"""Plateaus of several outputs: what grows, in sleepers and in awake neurons, and when it ends them."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import biasfree as bf
from biasfree.measure import _ending
from biasfree.measure._inner_growth import _linearised, _pulls, _responses, _velocity
from biasfree.measure._samples import Samples
from tests.measure.plateau_families import class_set, several_run

STRENGTHS = np.array([1.0, 0.6])


@functools.cache
def modes() -> tuple[bf.Dataset, np.ndarray, np.ndarray]:
    """White symmetric inputs in the plane with y = Bx, and B's singular vectors of outputs and inputs as columns."""
    base = bf.datasets.symmetric_gaussian(2, 4, whiten=True, seed=0)
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(2, 2)))[0] for _ in range(2))
    return bf.Dataset(base.inputs, base.inputs @ right @ np.diag(STRENGTHS) @ left.T), left, right


@functools.cache
def mode_by_mode() -> bf.measure.Plateaus:
    start = bf.Network.init([2, 20, 2], slope=0.0, init_scale=1e-12, seed=0)
    return bf.gradient_flow(start, modes()[0], until=200).plateaus()


class TestModesOneByOne:
    def test_levels_are_those_of_the_modes_that_are_left(self) -> None:
        # White inputs: L = ½Σs² over the modes not yet learned.
        assert mode_by_mode().levels == pytest.approx([0.68, 0.18, 0.0], abs=2e-3)

    def test_the_first_grows_in_sleepers_the_second_in_awake_neurons_at_half_its_strength(self) -> None:
        first, second, last = mode_by_mode()
        assert first.growth is not None
        assert [group.rate for group in first.growth[:2]] == pytest.approx([0.5, 0.5], rel=1e-6)
        assert first.predicted_by == "early flow"
        assert second.parts[0].rate == pytest.approx(0.3, rel=0.01)
        assert (second.predicted_by, second.reason.kind) == ("linearised flow", "grows")
        assert (last.reason.kind, last.predicted_end) == ("minimum", np.inf)

    def test_they_grow_along_its_singular_vectors(self) -> None:
        _, left, right = modes()
        first, second, _ = mode_by_mode()
        assert first.growth is not None
        for pair, k in ((first.growth[0], 0), (second.parts[0], 1)):
            assert abs(pair.direction @ right[:, k]) == pytest.approx(1, abs=1e-3)
            assert abs(pair.output @ left[:, k]) == pytest.approx(1, abs=1e-3)

    def test_both_ends_are_predicted(self) -> None:
        found = mode_by_mode()
        assert found.predicted_ends[:2] == pytest.approx(found.ends[:2], rel=0.03)

    def test_the_story_and_the_numbers_tell_it(self) -> None:
        told = json.loads(json.dumps(mode_by_mode().to_dict(), allow_nan=False))
        assert told["plateaus"][1]["parts"][0]["rate"] == pytest.approx(0.3, rel=0.01)
        assert "Awake neurons also grow in further directions" in str(mode_by_mode()[1])


def test_an_output_that_is_always_zero_changes_nothing() -> None:
    data = bf.datasets.orthogonal_pair()
    padded = bf.Dataset(data.inputs, np.column_stack([data.targets, np.zeros(data.samples)]))
    start = bf.Network.init([2, 20, 1], slope=0.0, init_scale=1e-12, seed=0)
    first, second = (np.asarray(layer) for layer in start.weights)
    wide = bf.Network([first, np.concatenate([second, np.zeros_like(second)])], 0.0)
    one, two = (bf.gradient_flow(*pair, until=120).plateaus() for pair in ((start, data), (wide, padded)))
    assert two.levels == pytest.approx(one.levels, abs=1e-9)
    # Ends lie between saved times, which need not be the same.
    assert two.ends == pytest.approx(one.ends, rel=1e-3)
    assert two.predicted_ends == pytest.approx(one.predicted_ends, rel=1e-3)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_random_targets_and_classes(number: int) -> None:
    found = several_run(number)
    assert sum(np.isfinite(each.end) for each in found) >= 2
    assert all(each.right for each in found), "\n".join(map(str, found))


def test_where_sleepers_cannot_be_followed_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*_: object) -> None:
        raise ArithmeticError("a neuron met lines again and again.")

    monkeypatch.setattr(_ending, "waking", undecided)
    found = bf.plateaus(mode_by_mode().trajectory)
    assert len(found) == 3
    assert np.isnan(found[0].predicted_end)
    assert (found[0].reason.kind, found[0].predicted_by) == ("not told", "")
    assert "Its end is not predicted: a neuron met lines" in str(found[0])


@pytest.mark.parametrize(("loss", "slope"), [("square", 0.0), ("square", 0.3), ("cross-entropy", 0.0)])
def test_the_linearised_flow_is_minus_the_hessian(loss: str, slope: float) -> None:
    data = class_set(1)
    network = bf.Network.init([data.dim, 6, 3], slope, 1.5, seed=3)
    samples = Samples(data, loss)
    outputs = samples.outputs(network)
    active, frames = _responses(network, data.inputs)
    pulls = _pulls(data.inputs, active, frames, samples.residuals(outputs))
    found = _linearised(network, data.inputs, active, frames, pulls, samples.curvature(outputs))
    inputs, targets = jnp.asarray(data.inputs), jnp.asarray(samples.targets)

    def objective(flat: jax.Array) -> jax.Array:
        rows = flat.reshape(6, -1)
        reach = inputs @ rows[:, : data.dim].T
        f = jnp.where(reach > 0, reach, slope * reach) @ rows[:, data.dim :]
        if loss == "square":
            return 0.5 * jnp.mean(jnp.sum((targets - f) ** 2, axis=1))
        return -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(f, axis=1), axis=1))

    flat = np.concatenate([np.asarray(network.weights[0]), np.asarray(network.weights[1]).T], axis=1).ravel()
    assert samples.mean_loss(outputs) == pytest.approx(float(objective(jnp.asarray(flat))), rel=1e-12)
    np.testing.assert_allclose(found, -np.asarray(jax.hessian(objective)(jnp.asarray(flat))), atol=1e-12)
    moved = _velocity(network, pulls, 0.0).ravel()
    np.testing.assert_allclose(moved, -np.asarray(jax.grad(objective)(jnp.asarray(flat))), atol=1e-12)
