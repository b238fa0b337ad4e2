"""The exact flow: against an independent event-driven reference, descent, closed forms and conservation laws."""

import math

import numpy as np
import pytest

import biasfree as bf
from biasfree import Network, datasets, theory
from tests.exact_reference import extrapolated_descent, reference_flow
from tests.random_problems import random_problem

SAVES = 10


def weights_of(run: bf.Trajectory) -> np.ndarray:
    return np.concatenate(
        [run.weights[0].reshape(len(run.times), -1), run.weights[1].reshape(len(run.times), -1)], axis=1
    )


def compare(start: Network, data: bf.Dataset, **options) -> bf.Trajectory:
    """Run both and ask for agreement to 1e-7 in losses, relative to the first one, and in weights."""
    run = bf.gradient_flow(start, data, method="exact", save=SAVES, rtol=1e-10, **options)
    first, second = map(np.asarray, start.weights)
    # A neuron at w = 0 follows the limit of descent, as ours does.
    reference = reference_flow(
        data.inputs, data.targets, first, second[0], slope=start.slope, save=SAVES, escape=True, **options
    )
    assert run.status.name == "reached"
    np.testing.assert_allclose(run.times, reference.times, rtol=1e-12)
    np.testing.assert_allclose(run.losses, reference.losses, rtol=0, atol=1e-7 * reference.losses[0])
    theirs = np.concatenate([reference.first.reshape(SAVES + 1, -1), reference.second.reshape(SAVES + 1, -1)], axis=1)
    np.testing.assert_allclose(weights_of(run), theirs, rtol=0, atol=1e-7 * np.abs(theirs).max())
    return run


class TestAgainstTheReference:
    @pytest.mark.parametrize("loss", ["square", "logistic"])
    @pytest.mark.parametrize(
        ("data", "until"), [(datasets.six_points(), 40.0), (datasets.xor(), 12.0), (datasets.orthogonal_pair(), 20.0)],
        ids=["six points", "XOR", "orthogonal pair"],
    )  # fmt: skip
    def test_the_papers_sets(self, data: bf.Dataset, until: float, loss: str) -> None:
        run = compare(Network.init([2, 10, 1], 0.0, 1e-2, 1), data, until=until, loss=loss)
        assert len(run.events)

    @pytest.mark.parametrize("seed", range(4))
    def test_random_sets_in_three_dimensions(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        data = bf.Dataset(rng.normal(size=(8, 3)), rng.normal(size=8))
        compare(Network.init([3, 10, 1], 0.3 * (seed % 2), 1e-2, seed), data, until=15.0)

    @pytest.mark.parametrize("seed", range(60))
    def test_small_random_problems(self, seed: int) -> None:
        start, data, options = random_problem(seed, small=True)
        compare(start, data, **options)


class TestManyNeuronsAtZero:
    """Six samples in the plane: neurons whose v is larger than their w come to w = 0, rest there, and are let go."""

    @staticmethod
    def data() -> bf.Dataset:
        rng = np.random.default_rng(6002)
        return bf.Dataset(rng.standard_normal((6, 2)), rng.standard_normal(6))

    def test_in_the_middle_of_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As a wide network does it, where no event cuts a step of all rows but those that let neurons go."""
        monkeypatch.setattr("biasfree.dynamics.exact._state._DIRECT", 0)
        run = compare(Network.init([2, 40, 1], 0.0, 1e-3, 0), self.data(), until=20.0)
        assert np.count_nonzero(run.events.kinds == "branch") > 20
        assert run.counts.accepted < 150

    def test_steps_do_not_become_more_with_the_width(self) -> None:
        """Where each that came to w = 0 and each that left it cut a step, there were 152 and 531."""
        narrow, wide = (
            bf.gradient_flow(Network.init([2, width, 1], 0.0, 1e-3, 0), self.data(), until=20.0)
            for width in (400, 1600)
        )
        assert np.count_nonzero(wide.events.kinds == "branch") > 1000
        assert wide.counts.accepted <= 1.5 * narrow.counts.accepted


def test_descent_extrapolated_to_rate_zero() -> None:
    """Where nothing switches, descent's expansion in its rate is smooth and Richardson's rule gives the flow."""
    data = datasets.symmetric_gaussian(dim=3, pairs=6, seed=0)
    start = Network.init([3, 4, 1], 1.0, 0.3, 0)
    run = bf.gradient_flow(start, data, method="exact", until=4.0, save=4, rtol=1e-11)
    first, second = map(np.asarray, start.weights)
    limit = extrapolated_descent(data.inputs, data.targets, first, second[0], slope=1.0, until=4.0, steps=100)
    np.testing.assert_allclose(run.weights[0][-1], limit.first, atol=1e-9)


class TestSixPoints:
    """The papers' perturbed symmetry, width 100."""

    @pytest.fixture(scope="class")
    def runs(self) -> dict[float, bf.Trajectory]:
        start = Network.init([2, 100, 1], 0.0, 1e-3, 0)
        return {
            rtol: bf.gradient_flow(start, datasets.six_points(), until=1000, save=200, rtol=rtol, method="exact")
            for rtol in (1e-6, 1e-8, 1e-10)
        }

    def test_losses_agree_between_tolerances(self, runs) -> None:
        for rtol, room in ((1e-6, 3e-4), (1e-8, 1e-6)):
            # On the plateau; its end makes any error grow with the departure.
            assert np.abs(runs[rtol].losses - runs[1e-10].losses)[:101].max() < rtol
            assert np.abs(runs[rtol].losses - runs[1e-10].losses).max() < room

    def test_landmarks(self, runs) -> None:
        run = runs[1e-8]
        assert run.losses[20] == pytest.approx(0.44279, abs=1e-5)
        assert run.time_of_loss(0.43) == pytest.approx(627, abs=5)
        kinds, counts = np.unique(run.events.kinds, return_counts=True)
        table = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
        assert table["slide"] == pytest.approx(28, abs=2)
        assert 80 < table["cross"] < 130

    def test_gauges(self, runs) -> None:
        for rtol, run in runs.items():
            assert run.energy_gap < 2 * rtol
            assert run.balance_drift < rtol
        assert (np.diff(runs[1e-8].events.times) >= 0).all()

    def test_neurons_slide_on_their_lines(self, runs) -> None:
        """What the table says is slid on at a saved time has wᵀd = 0 there."""
        run = runs[1e-8]
        table = run.events
        from biasfree.lines import lines

        grouped = lines(run.dataset.inputs)
        sliding, checked = set(), 0
        for index, time in enumerate(run.times[:60]):
            for k in np.flatnonzero((table.times <= time) & (table.times > (run.times[index - 1] if index else -1))):
                pair = (int(table.neurons[k]), int(table.lines[k]))
                if table.kinds[k] == "slide":
                    sliding.add(pair)
                elif table.kinds[k] == "branch":  # at w = 0 everything may change
                    sliding = {other for other in sliding if other[0] != pair[0]}
                else:
                    sliding.discard(pair)
            if time > 1:
                for neuron, line in sliding:
                    w = run.weights[0][index, neuron]
                    assert abs(w @ grouped.directions[line]) <= 1e-9 * np.linalg.norm(w)
                    checked += 1
        assert checked


class TestSymmetricData:
    data = datasets.symmetric_gaussian(dim=5, pairs=100, target="linear_plus_sine", seed=0)

    def test_closed_form_of_white_data(self) -> None:
        """Eq. 38 from an Assumption-4 start."""
        white = datasets.symmetric_gaussian(dim=4, pairs=50, target="linear", seed=1, whiten=True)
        start = Network.rank_one(4, 8, 0.2, 1e-3, 0)
        run = bf.gradient_flow(start, white, until=30, save=30, method="exact", rtol=1e-10)
        curve = theory.closed_form(run.times, white.correlation, *_direction(start), 0.2)
        found = np.array([(network(np.eye(4)) - network(-np.eye(4))) / 2 for network in run.networks])
        np.testing.assert_allclose(found, curve, atol=1e-8)

    @pytest.mark.parametrize("slope", [0.0, 0.4, 1.0])
    def test_agrees_with_adaptive_steps(self, slope: float) -> None:
        start = Network.init([5, 40, 1], slope, 1e-4, 0)
        exact, plain = (
            bf.gradient_flow(start, self.data, until=40, save=8, rtol=1e-9, method=method)
            for method in ("exact", "dopri8")
        )
        np.testing.assert_allclose(exact.losses, plain.losses, atol=1e-8)
        np.testing.assert_allclose(weights_of(exact), weights_of(plain), atol=1e-7)

    def test_a_tiny_start_costs_no_more(self) -> None:
        rate = 0.5 * float(np.linalg.norm(self.data.correlation))
        runs = [
            bf.gradient_flow(
                Network.init([5, 40, 1], 0.0, scale, 0),
                self.data,
                until=60 + math.log(1e-8 / scale) / rate,
                method="exact",
            )
            for scale in (1e-8, 1e-100)
        ]
        assert runs[1].counts.accepted <= 1.5 * runs[0].counts.accepted
        assert runs[0].losses[-1] == pytest.approx(runs[1].losses[-1], rel=1e-6)

    def test_width_does_not_count_after_the_early_phase(self) -> None:
        runs = [
            bf.gradient_flow(Network.init([5, width, 1], 0.0, 1e-8, 0), self.data, until=60, save=4, method="exact")
            for width in (50, 5000)
        ]
        assert runs[1].counts.evaluations < 3 * runs[0].counts.evaluations
        assert runs[1].weights[0].shape[1] == 5000
        assert runs[1].balance_drift < 1e-7


def _direction(start: Network) -> tuple[np.ndarray, float]:
    first = np.asarray(start.weights[0])
    _, sizes, rows = np.linalg.svd(first, full_matrices=False)
    return rows[0], float(sizes[0])


class TestManyRandomProblems:
    """Dimension 1–5, samples 1–12, width 1–30, scale 1e-12…1, any slope, three losses, decay, both clocks."""

    @pytest.mark.parametrize("first", [0])
    def test_none_fails(self, first: int) -> None:
        self._run(range(first, first + 100))

    @pytest.mark.slow
    @pytest.mark.parametrize("first", range(100, 2000, 100))
    def test_none_of_two_thousand_fails(self, first: int) -> None:
        self._run(range(first, first + 100))

    @staticmethod
    def _run(seeds: range) -> None:
        for seed in seeds:
            start, data, options = random_problem(seed)
            run = bf.gradient_flow(start, data, save=SAVES, **options)
            assert run.status.complete, (seed, run.status)
            assert all(np.isfinite(layer).all() for layer in run.weights), seed
            if run.settings["method"] == "exact" and math.isfinite(run.energy_gap):
                assert run.energy_gap < 1e-6, (seed, run.energy_gap)


class TestEdges:
    def test_one_neuron_and_one_sample(self) -> None:
        run = compare(Network([[[0.3]], [[0.2]]], 0.0), bf.Dataset([[2.0]], [1.0]), until=5.0)
        assert run.losses[-1] < 1e-6

    def test_all_zero(self) -> None:
        run = bf.gradient_flow(
            Network([np.zeros((3, 2)), np.zeros((1, 3))], 0.0), datasets.xor(), until=5, method="exact"
        )
        assert run.losses[-1] == run.losses[0]

    def test_samples_at_the_origin(self) -> None:
        data = bf.Dataset([[0.0, 0.0], [1.0, 0.5], [-0.3, 1.0]], [1.0, 1.0, -1.0])
        for loss in ("square", "logistic", "exponential"):
            compare(Network.init([2, 5, 1], 0.2, 0.3, 0), data, until=4.0, loss=loss)

    def test_start_on_a_line(self) -> None:
        data = bf.Dataset([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, -0.5, 0.2])
        start = Network([[[0.0, 0.3], [0.2, -0.2]], [[0.4, -0.3]]], 0.0)
        run = bf.gradient_flow(start, data, until=5.0, method="exact", rtol=1e-9)
        assert run.energy_gap < 1e-8

    def test_deep_networks_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two-layer networks"):
            bf.gradient_flow(Network.init([2, 3, 3, 1], 0.0, 0.1, 0), datasets.xor(), until=1, method="exact")

    def test_auto_says_why(self) -> None:
        assert (
            bf.gradient_flow(Network.init([2, 5, 1], 0.0, 0.1, 0), datasets.xor(), until=1).settings["method"]
            == "exact"
        )
        rng = np.random.default_rng(0)
        many = bf.Dataset(rng.normal(size=(300, 2)), rng.normal(size=300))
        run = bf.gradient_flow(Network.init([2, 100, 1], 0.0, 0.1, 0), many, until=0.1)
        assert run.settings["method"] == "bosh3"
        assert "too often" in str(run)

    def test_the_table_is_stored(self, tmp_path) -> None:
        run = bf.gradient_flow(Network.init([2, 20, 1], 0.0, 0.1, 0), datasets.six_points(), until=20, method="exact")
        run.save(tmp_path / "run.nc")
        again = bf.Trajectory.load(tmp_path / "run.nc")
        assert again.events is not None
        assert again.events.kinds.tolist() == run.events.kinds.tolist()
        np.testing.assert_array_equal(again.events.times, run.events.times)

    def test_taking_up_a_saved_network(self) -> None:
        start = Network.init([2, 20, 1], 0.0, 0.1, 0)
        run = bf.gradient_flow(start, datasets.six_points(), until=20, method="exact", save=4, rtol=1e-9)
        fine = bf.gradient_flow(start, datasets.six_points(), until=20, method="exact", save=20, rtol=1e-9)
        for one, two in zip(run.at(13.0).weights, fine.networks[13].weights, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-7)

    def test_saving_more_changes_nothing(self) -> None:
        """More saves than the compiled loop keeps at a time, within steps and across them."""
        start = Network.init([2, 60, 1], 0.0, 1e-6, 3)
        few, many = (bf.gradient_flow(start, datasets.orthogonal_pair(), until=45, save=n) for n in (20, 400))
        np.testing.assert_allclose(few.losses, many.losses[::20], atol=1e-6)
        stairs = theory.several_linear_networks(start, datasets.orthogonal_pair())
        np.testing.assert_allclose(many.losses, stairs.losses(many.times), atol=1e-6)

    def test_converged(self) -> None:
        start = Network.init([2, 20, 1], 0.0, 0.1, 0)
        run = bf.gradient_flow(start, datasets.orthogonal_pair(), until=math.inf, stop="converged", method="exact")
        assert run.status.name == "converged"
        assert run.losses[-1] < 1e-12

    def test_a_plateau_is_not_the_end(self) -> None:
        start = Network.init([2, 60, 1], 0.0, 1e-6, 0)
        run = bf.gradient_flow(start, datasets.xor(), until=math.inf, stop="converged", method="exact")
        assert run.losses[-1] < 1e-10

    def test_an_end_that_float64_hardly_tells_from_the_start(self) -> None:
        start = Network.init([2, 20, 1], 0.0, 0.1, 0)
        times = [0.0, math.nextafter(36.0, 0.0), 37.0]
        run = bf.gradient_flow(start, datasets.six_points(), until=37.0, save=times, method="exact")
        np.testing.assert_allclose(run.at(36.0).weights[0], run.networks[1].weights[0], rtol=1e-12)

    def test_loss_level(self) -> None:
        start = Network.init([2, 20, 1], 0.0, 0.1, 0)
        run = bf.gradient_flow(start, datasets.six_points(), until=1000, stop=0.45, method="exact")
        assert run.losses[-1] == pytest.approx(0.45, rel=1e-9)
