"""Parts of the exact flow, each against the plain computation it replaces."""

import numpy as np
import pytest

import biasfree as bf
from biasfree import Network, datasets
from biasfree.dynamics.exact import _reduced
from biasfree.dynamics.exact._decisions import empty_pattern
from biasfree.dynamics.exact._early import early_phase, spectral_norm
from biasfree.dynamics.exact._field import velocity
from biasfree.dynamics.exact._forms import after_crossing, form_of, velocity_by_form
from biasfree.dynamics.exact._merging import alike, of_members, parallel
from biasfree.dynamics.exact._samples import grouped_data
from biasfree.lines import lines

SETTINGS = {"loss": "square", "rtol": 1e-6, "weight_decay": 0.01, "clock": "time"}


class TestForms:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        inputs = rng.normal(size=(60, 3))
        inputs = np.concatenate([inputs, -2 * inputs[:20], np.zeros((1, 3))])  # lines with samples on both sides
        dataset = bf.Dataset(inputs, rng.normal(size=len(inputs)))
        data = grouped_data(lines(dataset.inputs), dataset, 0.3, SETTINGS)
        rows = rng.normal(size=(4, 4))
        side = np.where(rows[:3, :-1] @ data.transposed < 0, -1.0, 1.0)
        pattern = empty_pattern(side, np.array([1]), 3)  # three neurons and a difference within the second
        pattern.side[2, 5], pattern.held[2, 0] = 0.0, 5  # the third slides
        pattern.rank[2] = pattern.span[2] = 1
        pattern.basis[2, 0] = data.directions[5]
        return data, pattern, np.concatenate([rows[:, :-1].ravel(), rows[:, -1], [0.0]])

    def velocities(self, data, pattern, form, state) -> tuple[np.ndarray, np.ndarray]:
        plain, by_form = np.empty((2, len(state)))
        p, q = np.empty((2, len(data.directions)))
        velocity(state, data, pattern, plain, p, q)
        velocity_by_form(state, data, pattern, form, by_form)
        return plain, by_form

    def test_velocity_is_that_of_the_lines(self, problem) -> None:
        data, pattern, state = problem
        form = form_of(data, pattern)
        assert form.constant.shape == (9,)
        plain, by_form = self.velocities(data, pattern, form, state)
        np.testing.assert_allclose(by_form, plain, rtol=1e-12)

    def test_crossings_change_it_as_building_it_afresh(self, problem) -> None:
        data, pattern, _ = problem
        form = form_of(data, pattern)
        for h, line in ((0, 2), (1, 2), (1, 7), (0, 5)):
            pattern.side[h, line] *= -1
            after_crossing(form, data, pattern, h, line)
        fresh = form_of(data, pattern)
        np.testing.assert_allclose(form.matrix, fresh.matrix, atol=1e-13)
        np.testing.assert_allclose(form.constant, fresh.constant, atol=1e-13)

    def test_many_neurons_on_few_lines_have_none(self, problem) -> None:
        data, _, _ = problem
        many = empty_pattern(np.ones((20, len(data.directions))), np.zeros(0, dtype=np.int64), 3)
        assert form_of(data, many).constant.size == 0


class TestRiders:
    """A wide network on symmetric data, with riders and with every unaligned neuron a group of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls):
        data = datasets.symmetric_gaussian(dim=5, pairs=100, target="linear_plus_sine", seed=0)
        start = Network.init([5, 600, 1], 0.0, 1e-6, 0)
        boarded = []
        with pytest.MonkeyPatch.context() as patch:
            plain = _reduced.Reduced._grouped

            def watched(self, neurons):
                found = plain(self, neurons)
                boarded.append(len(self.riders))
                return found

            patch.setattr(_reduced.Reduced, "_grouped", watched)
            riding = bf.gradient_flow(start, data, until=60, save=30, method="exact")
            patch.setattr(_reduced, "_MANY_SIDES", np.inf)
            strict = bf.gradient_flow(start, data, until=60, save=30, method="exact")
        assert boarded[0] > 20
        assert boarded[1] == 0
        return riding, strict

    def test_losses_agree(self, runs) -> None:
        riding, strict = runs
        np.testing.assert_allclose(riding.losses, strict.losses, atol=1e-7)

    def test_every_neuron_agrees(self, runs) -> None:
        """Each in proportion to its own size, riders too."""
        riding, strict = (np.concatenate([r.weights[0], r.weights[1].transpose(0, 2, 1)], axis=2) for r in runs)
        size = np.linalg.norm(strict, axis=2)
        assert (np.linalg.norm(riding - strict, axis=2) / size).max() < 1e-5

    def test_gauges(self, runs) -> None:
        assert runs[0].balance_drift < 1e-7
        assert runs[0].energy_gap < 1e-6


class TestMerging:
    rng = np.random.default_rng(1)
    neurons = np.outer(rng.uniform(0.5, 2, size=2000), [1.0, 2.0, -1.0]) + 1e-5 * rng.normal(size=(2000, 3))

    def test_every_neuron_comes_back(self) -> None:
        merged = of_members(self.neurons, alike(self.neurons, np.arange(2000), np.zeros(2000), 1e-3))
        assert len(merged.groups) == 1
        rows, _ = merged.rows()
        np.testing.assert_allclose(merged.restored(rows), self.neurons, atol=1e-14)
        np.testing.assert_allclose(merged.some(np.array([3, 1]), rows), self.neurons[[3, 1]], atol=1e-14)

    def test_the_leading_row_has_the_groups_square(self) -> None:
        """A large group's rows come from ZᵀZ, a small one's from its singular value decomposition."""
        for count in (500, 2000):
            group = of_members(self.neurons[:count], [np.arange(count)]).groups[0]
            values, vectors = np.linalg.eigh(self.neurons[:count].T @ self.neurons[:count])
            assert np.sum(group.rows[0] ** 2) == pytest.approx(values[-1], rel=1e-12)
            assert abs(group.rows[0] @ vectors[:, -1]) == pytest.approx(np.linalg.norm(group.rows[0]), rel=1e-12)

    def test_leaving_changes_nothing_for_anybody(self) -> None:
        merged = of_members(self.neurons, [np.arange(2000)])
        left = merged.without(np.array([7, 12]), merged.rows()[0])
        assert [len(group.members) for group in left.groups] == [1998, 1, 1]
        np.testing.assert_allclose(left.restored(left.rows()[0]), self.neurons, atol=1e-14)
        total = sum(np.sum(group.rows[0] ** 2) for group in left.groups)
        assert total == pytest.approx(np.sum(merged.groups[0].rows[0] ** 2), rel=1e-9)

    def test_light_ones_are_left(self) -> None:
        neurons = self.neurons.copy()
        neurons[5] = [1e-3, 0, 0]
        found, left = parallel(neurons, np.arange(2000), 1e-3, light=1e-2)
        assert len(found) == 1
        assert left.tolist() == [5]


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
def test_loss_of_the_early_phase(loss: str) -> None:
    """Its closed form against the networks' own loss; the neglected part is of second order."""
    data = datasets.xor()
    start = Network.init([2, 12, 1], 0.1, 1e-4, 0)
    neurons = np.column_stack([np.asarray(start.weights[0]), np.asarray(start.weights[1])[0]])
    early = early_phase(
        neurons, lines(data.inputs), data.targets, spectral_norm(data.inputs), slope=0.1, loss=loss, decay=0.0,
        scale=1.0, rtol=1e-3, until=100.0,
    )  # fmt: skip
    assert early is not None
    for time in (0.0, 0.5 * early.time, early.time):
        now = early.at(time)
        network = Network([now[:, :-1], now[None, :, -1]], 0.1)
        here = bf.losses.get(loss).value(network(data.inputs).T, data.targets[None])
        nothing = bf.losses.get(loss).value(np.zeros((1, data.samples)), data.targets[None])
        assert float(nothing - here) == pytest.approx(early.gain(time), abs=1e-7, rel=1e-3)
        assert early.gain(time) != 0


def test_starts_of_1e_200() -> None:
    data = datasets.xor()
    run = bf.gradient_flow(Network.init([2, 12, 1], 0.0, 1e-200, 0), data, until=2000, save=20, method="exact")
    assert run.status.name == "reached"
    assert np.isfinite(run.losses).all()
    assert run.energy_gap < 1e-6
