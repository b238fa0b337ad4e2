"""Steps of one length: Chebyshev's, and those beside a pull that all neurons share."""

import numpy as np
import pytest
from scipy.linalg import expm

import biasfree as bf
from biasfree.dynamics import _field
from biasfree.dynamics._chebyshev import Chebyshev, _stabilised
from biasfree.dynamics._one_step import RungeKutta
from biasfree.dynamics._shared_pull import AlongSharedPull, SharedPull
from biasfree.dynamics._vector_field import ByLine, Layers


class Linear:
    """Ẇ = −ΛW with rates of very different size."""

    def __init__(self, rates) -> None:
        self.rates, self.velocities = np.asarray(rates, dtype=float), 0

    def velocity(self, flat):
        self.velocities += 1
        return -self.rates * flat

    def stages(self, here, first, length, method):
        stages, there = [first], here
        for s in range(1, len(method.b) + 1):
            there = here + length * (method.a[s, :s] if s < len(method.b) else method.b) @ np.array(stages)
            stages.append(self.velocity(there))
        return np.array(stages), there


@pytest.mark.parametrize("stages", [2, 3, 5, 10, 40])
def test_chebyshev_is_of_order_two_and_its_estimate_is_the_error(stages) -> None:
    field, start = Linear([1.0]), np.array([1.0])
    errors, estimates, energies = [], [], []
    for length in (0.02, 0.01):
        step = _stabilised(field, start, field.velocity(start), length, stages)
        errors.append(step.there[0] - np.exp(-length))
        estimates.append(length * step.rule.error @ step.parts[:, 0])
        energies.append(length * step.energy - (1 - np.exp(-2 * length)) / 2)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3, abs=0.05)
    assert np.log2(energies[0] / energies[1]) == pytest.approx(3, abs=0.1)
    # The estimate is that of the polynomials' limit: of the sign and the size of the error, never far below it.
    assert 0.5 < abs(estimates[1] / errors[1]) < 3.0


@pytest.mark.parametrize("stages", [3, 6, 15, 50])
def test_chebyshev_is_stable_as_far_as_it_says(stages) -> None:
    reach = (stages**2 - 1) / 1.54
    for part in np.linspace(0.01, 1.0, 200):
        field = Linear([part * reach])
        step = _stabilised(field, np.array([1.0]), -field.rates, 1.0, stages)
        assert abs(step.there[0]) <= 1.0
    beyond = Linear([2.0 * stages**2])
    assert abs(_stabilised(beyond, np.array([1.0]), -beyond.rates, 1.0, stages).there[0]) > 1.0


def test_long_steps_cost_the_square_root_of_stiffness() -> None:
    field = Linear([1e-3, 1.0, 100.0])
    steps, here = Chebyshev(), np.array([1.0, 1e-3, 1e-3])
    first = steps.take(field, here, field.velocity(here), 1e-3)  # within the usual methods' reach
    assert first.evaluations <= 3 + 12
    step = steps.take(field, first.there, first.velocity, 50.0)  # 5,000 times beyond it: 2,000 of Bosh3's steps
    assert step.evaluations < 120
    np.testing.assert_allclose(step.there[0], np.exp(-0.05), rtol=1e-4)
    assert np.abs(step.there[1:]).max() < 1e-3


def test_steps_have_a_length_that_is_soon_done_and_survive_a_rate_that_is_no_number() -> None:
    field, steps, here = Linear([1.0, 1e6]), Chebyshev(), np.array([1.0, 1e-3])
    steps.take(field, here, field.velocity(here), 1e-9)
    longest = steps.longest
    assert 1e-3 < longest < 0.1
    assert steps.take(field, here + 0.0, field.velocity(here), longest).evaluations <= 200
    field.rates = np.array([np.nan, 1.0])
    for _ in range(12):
        broken = steps.take(field, here + 0.0, field.velocity(here), 0.1)
    assert not np.isfinite(broken.there).all()
    field.rates = np.array([1.0, 2.0])
    for _ in range(12):
        healthy = steps.take(field, here + 0.0, field.velocity(here), 0.1)
    np.testing.assert_allclose(healthy.there, here * np.exp(-0.1 * field.rates), rtol=1e-4)
    assert np.isfinite(steps.longest)


def test_chebyshev_on_a_flow_agrees_with_a_tight_one() -> None:
    rng = np.random.default_rng(0)
    data = bf.Dataset(rng.normal(size=(80, 6)), rng.normal(size=(80, 2)))
    start = bf.Network.init([6, 40, 2], 0.2, 0.3, 1)
    exact = bf.gradient_flow(start, data, until=5.0, rtol=1e-8, save=5, method="exact")
    for rtol, room in ((1e-2, 1e-2), (1e-4, 1e-3)):
        run = bf.gradient_flow(start, data, until=5.0, rtol=rtol, save=5, method="rkc")
        assert run.status.name == "reached"
        np.testing.assert_allclose(run.losses, exact.losses, rtol=room)


def test_the_parts_of_a_shared_pull_grow_by_themselves() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(7, 4)), rng.normal(size=(3, 7))]
    pull, flat = rng.normal(size=(3, 4)), np.concatenate([np.ravel(w) for w in weights])
    shared = SharedPull(pull, 7, 0.5)
    generator = np.block([[np.zeros((4, 4)), pull.T], [pull, np.zeros((3, 3))]])
    neurons = expm(0.5 * generator) @ np.concatenate([weights[0].T, weights[1]])
    right, parts = np.concatenate([neurons[:4].T.ravel(), neurons[4:].ravel()]), shared.parts(flat)
    np.testing.assert_allclose(shared.parts(right), parts * np.exp(0.5 * shared.rates))
    no_stages = np.zeros((0, flat.size)), parts, np.zeros((0, *parts.shape)), np.zeros(0)
    moved, grown = shared.place(flat, *no_stages, np.exp(-0.5 * shared.rates))
    np.testing.assert_allclose(moved, right)
    np.testing.assert_allclose(grown, shared.parts(right))
    left = np.empty_like(parts)
    velocity = np.concatenate([(weights[1].T @ pull).ravel(), (pull @ weights[0].T).ravel()])
    shared.put_remaining(velocity, parts, np.ones(parts.shape[1]), left)  # nothing moves beside the pull
    np.testing.assert_allclose(left, 0, atol=1e-12)


def test_steps_beside_a_pull_that_is_no_number_are_plain_ones() -> None:
    network, field = symmetric("square")
    here = np.concatenate([np.ravel(w) for w in network.weights])
    first = field.velocity(here)
    plain = RungeKutta("tsit5").take(field, here, first, 1e-3)
    field.velocity(np.full(here.size, np.nan))
    assert np.isnan(field.shared_pull()).all()
    steps = AlongSharedPull("tsit5")
    assert steps.worse(field, 1.0) == 1.0
    np.testing.assert_allclose(steps.take(field, here, first, 1e-3).there, plain.there, atol=1e-14)


def symmetric(loss):
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(150, 5))
    data = bf.Dataset(inputs, inputs @ rng.normal(size=(5, 2)), "pairs").symmetrised()
    network = bf.Network.init([5, 120, 2], 0.0, 0.2, 1)
    numbers = _field.problem(network, data, loss, 0.0)
    return network, ByLine(Layers(network.weights), numbers, _field.Kind(loss, network.architecture))


@pytest.mark.parametrize("name", ["bosh3", "tsit5", "dopri8"])
def test_steps_beside_the_shared_pull_agree_with_plain_ones(name) -> None:
    network, field = symmetric("square")
    here = np.concatenate([np.ravel(w) for w in network.weights])
    first = field.velocity(here)
    plain = RungeKutta(name).take(field, here, first, 1e-3)
    field.velocity(here)
    beside = AlongSharedPull(name).take(field, here, first, 1e-3)
    np.testing.assert_allclose(beside.there, plain.there, atol=1e-11)
    np.testing.assert_allclose(beside.velocity, plain.velocity, atol=1e-8)
    assert beside.energy == pytest.approx(plain.energy, rel=1e-6)


def test_a_symmetric_run_of_several_outputs_agrees_with_another_method() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(150, 5))
    data = bf.Dataset(inputs, inputs @ rng.normal(size=(5, 2)), "pairs").symmetrised()
    start = bf.Network.init([5, 120, 2], 0.0, 1e-6, 1)
    auto = bf.gradient_flow(start, data, until=15.0, save=6)
    assert auto.settings["method"] == "tsit5"
    other = bf.gradient_flow(start, data, until=15.0, save=6, rtol=1e-8, method="bosh3")
    np.testing.assert_allclose(auto.losses, other.losses, atol=1e-6 * other.losses[0])
    assert auto.energy_gap < 1e-5
    assert auto.losses[-1] < 0.1 * auto.losses[0]
