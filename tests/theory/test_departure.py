"""The law of departure beside brute force, closed forms and runs."""

import numpy as np
import pytest

import biasfree as bf
from biasfree import theory
from biasfree.theory._competition import competition
from biasfree.theory._extrema import extrema
from biasfree.theory._half_spaces import half_spaces


def random_set(seed: int, dim: int, pairs: int, noise: float) -> bf.Dataset:
    data = bf.datasets.symmetric_gaussian(dim=dim, pairs=pairs, seed=seed)
    rng = np.random.default_rng(seed)
    return bf.Dataset(data.inputs, data.targets + noise * rng.normal(size=data.samples))


class TestThePlateau:
    @pytest.mark.parametrize("slope", [0.0, 0.3])
    def test_no_pull_is_left_in_the_cells_of_the_awake_groups(self, slope: float) -> None:
        data = random_set(0, 3, 15, 0.1)
        rest = half_spaces(data, slope, "square", 0.0)
        assert rest.settled
        for own in rest.maps:
            active = np.where(data.inputs @ own > 0, 1.0, slope)
            assert np.abs((rest.residuals * active) @ data.inputs).max() < 1e-10
        assert rest.loss < rest.linear_loss

    @pytest.mark.parametrize("loss", ["square", "logistic"])
    def test_under_decay_the_pull_is_the_decay(self, loss: str) -> None:
        data = bf.datasets.six_points(offset=0.05)
        rest = half_spaces(data, 0.0, loss, 0.01)
        for own, sign in zip(rest.maps, (1, -1), strict=True):
            side = sign * data.inputs @ own > 0
            pull = (rest.residuals * side) @ data.inputs / data.samples
            assert pull == pytest.approx(0.01 * own / np.linalg.norm(own), abs=1e-7)

    def test_it_is_where_a_flow_waits(self) -> None:
        # The six points' plateau: known to be at 0.44279.
        assert half_spaces(bf.datasets.six_points(), 0.0, "square", 0.0).loss == pytest.approx(0.44279, abs=1e-5)


class TestTheRate:
    @pytest.mark.parametrize("slope", [0.0, 0.4])
    @pytest.mark.parametrize("seed", range(6))
    def test_in_the_plane_it_is_that_of_brute_force(self, seed: int, slope: float) -> None:
        rng = np.random.default_rng(seed)
        data = bf.Dataset(rng.normal(size=(7, 2)), rng.normal(size=7))
        found, bound = extrema(data, data.targets, slope)
        angles = np.linspace(0, 2 * np.pi, 400_000, endpoint=False)
        reach = np.column_stack([np.cos(angles), np.sin(angles)]) @ data.inputs.T
        g = np.maximum(reach, slope * reach) @ data.targets / 7
        assert bound.exact
        assert bound.lower == pytest.approx(np.abs(g).max(), rel=3e-5)
        # Every local maximum of ±G above zero is found, and no other.
        for sign in (1, -1):
            inner = sign * g
            peaks = (inner > np.roll(inner, 1)) & (inner >= np.roll(inner, -1)) & (inner > 1e-6)
            rates = sorted(each.rate for each in found if each.sign == sign)
            assert rates == pytest.approx(sorted(inner[peaks]), rel=3e-5)

    def test_in_one_dimension(self) -> None:
        data = bf.Dataset([[1.0], [-2.0]], [1.0, 1.0])
        found, bound = extrema(data, data.targets, 0.0)
        assert bound.lower == pytest.approx(1.0)
        assert [(each.direction[0], each.sign, each.rate) for each in found] == [(-1.0, 1, 1.0), (1.0, 1, 0.5)]

    @pytest.mark.parametrize("dim", [3, pytest.param(4, marks=pytest.mark.slow)])
    def test_in_space_it_is_enclosed(self, dim: int) -> None:
        data = random_set(1, dim, 12, 0.3)
        _, bound = extrema(data, data.targets, 0.0)
        directions = np.random.default_rng(0).normal(size=(20_000, dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sampled = np.abs(np.maximum(directions @ data.inputs.T, 0) @ data.targets / data.samples).max()
        assert sampled <= bound.lower * (1 + 1e-12) <= bound.upper * (1 + 1e-9)

    def test_it_is_of_first_order_in_the_asymmetry(self) -> None:
        rates = [theory.departure(bf.datasets.six_points(offset=x)).rate.lower / x for x in (0.005, 0.01, 0.02, 0.04)]
        assert rates == pytest.approx([1 / 9] * 4, rel=0.02)


class TestCompetition:
    def test_one_kind_alone_is_a_logistic_curve(self) -> None:
        x = np.array([[1.0], [2.0]])
        response, residuals = np.array([x[:, 0]]), np.array([0.3, 0.1])
        alone = competition(response, np.ones(1), np.array([-20.0]), residuals, np.ones(2), np.zeros((2, 1)), 0.0)
        rate, weight = np.mean(x[:, 0] * residuals), np.mean(x[:, 0] ** 2)
        # Half of all the fall it can make: c = (1 − 1/√2)ρ/M, where e^{2ρt} = (c/c₀)/(1 − cM/ρ).
        c = (1 - np.sqrt(0.5)) * rate / weight
        time = (np.log(c) + 20 - np.log(np.sqrt(0.5))) / (2 * rate)
        assert alone.time_of_fall(0.25 * rate**2 / weight) == pytest.approx(time, rel=2e-6)
        assert alone.time_of_fall(rate**2 / weight) == np.inf


class TestTheLaw:
    def test_symmetric_data_are_never_left(self) -> None:
        law = theory.departure(random_set(0, 3, 20, 0.0), init_scale=1e-6)
        assert (law.time, law.growing, law.stays(1000)) == (np.inf, (), 1.0)
        assert "no direction has a positive growth rate" in law.reason

    def test_dense_data_are_never_left_for_want_of_sleepers(self) -> None:
        law = theory.departure(random_set(0, 3, 40, 0.1), init_scale=1e-4)
        assert law.rate.lower > 0
        assert law.time == np.inf
        assert "of 2000 random neurons" in law.reason

    def test_the_time_agrees_with_runs_on_the_six_points(self) -> None:
        data = bf.datasets.six_points(offset=0.08)
        level = float(theory.linear_loss(theory.least_squares(data), data)) - 0.03 * 0.5
        law = theory.departure(data, init_scale=1e-6)
        times = []
        for seed in range(5):
            start = bf.Network.init([2, 100, 1], 0.0, 1e-6, seed=seed)
            run = bf.gradient_flow(start, data, until=3 * law.time, stop=level)
            times += [float(run.times[-1])] if run.status.name == "loss level" else []
        assert len(times) >= 2
        assert np.median(times) == pytest.approx(law.time, rel=0.05)

    def test_whether_a_draw_leaves_hangs_on_the_second_kind_of_sleepers_alone(self) -> None:
        data, edge = bf.datasets.six_points(offset=0.08), np.array([-0.08, 1.0]) / np.hypot(0.08, 1.0)
        level = float(theory.linear_loss(theory.least_squares(data), data)) - 0.03 * 0.5

        def flow(first: np.ndarray, second: np.ndarray) -> bf.Trajectory:
            return bf.gradient_flow(bf.Network([first, second], 0.0), data, until=4000, stop=level)

        given: tuple[np.ndarray, np.ndarray] | None = None
        # Of these draws the first two leave and the last one stays.
        for seed, leaves in ((0, True), (2, True), (1, False)):
            first, second = (np.asarray(layer) for layer in bf.Network.init([2, 100, 1], 0.0, 1e-6, seed).weights)
            run = flow(first, second)
            assert (run.status.name == "loss level") == leaves
            w, v = (np.asarray(layer) for layer in run.at(400.0).weights)
            size = np.linalg.norm(w, axis=1)
            kind = (v[0] > 0) & (np.abs(w @ edge) > 0.999 * size) & (v[0] * size < 1e-3)
            assert kind.any() == leaves
            if leaves:
                assert flow(first[~kind], second[:, ~kind]).status.name == "reached"
                one = np.flatnonzero(kind)[:1]
                given = first[one], second[:, one]
        assert given is not None
        run = flow(np.concatenate([first, given[0]]), np.concatenate([second, given[1]], axis=1))
        assert run.status.name == "loss level"

    def test_the_slope_in_the_scale_is_the_difference_of_two_scales(self) -> None:
        data = bf.datasets.six_points(offset=0.02)
        small, smaller = (theory.departure(data, init_scale=scale) for scale in (1e-9, 1e-10))
        assert smaller.time - small.time == pytest.approx(small.per_e_fold * np.log(10), rel=0.02)

    def test_decay_lowers_the_rate_by_itself_and_at_the_threshold_nothing_grows(self) -> None:
        data = bf.datasets.six_points(offset=0.04)
        # Measured by flows at several scales, per e-fold: 0.00422, 0.00323, 0.00223, 0.00124, 0.00024.
        for decay, measured in ((0.0, 0.00422), (0.001, 0.00323), (0.002, 0.00223), (0.003, 0.00124)):
            law = theory.departure(data, weight_decay=decay)
            assert 1 / law.per_e_fold == pytest.approx(measured, abs=3e-5)
        threshold = theory.departure_threshold(data)
        assert theory.departure(data, weight_decay=1.01 * threshold).growing == ()
        assert theory.departure(data, weight_decay=0.99 * threshold).growing

    @pytest.mark.parametrize(("decay", "shrinks"), [(0.0041, False), (0.0043, True)])
    def test_under_decay_the_second_kind_grows_or_dies_beside_the_first_as_the_competition_says(
        self, decay: float, shrinks: bool
    ) -> None:
        data = bf.datasets.six_points(offset=0.04)
        rest = half_spaces(data, 0.0, "square", decay)
        directions, signs = np.array([[0.0, 1.0], [-0.04, 1.0]]), np.array([-1.0, 1.0])
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        responses = np.maximum(directions @ data.inputs.T, 0)
        pair = competition(responses, signs, np.zeros(2), rest.residuals, rest.curvature, rest.columns, decay)
        # Beside the first, which rests at ρ₁/M₁₁: twice the second one's net rate.
        rate = 2 * (pair.rates[1] - pair.overlaps[1, 0] * pair.rates[0] / pair.overlaps[0, 0])
        assert (rate < 0) == shrinks
        run = bf.gradient_flow(bf.Network.init([2, 100, 1], 0.0, 1e-3, 0), data, until=35_000, weight_decay=decay)

        def size(time: float) -> float:
            first, second = (np.asarray(layer) for layer in run.at(time).weights)
            along = first @ directions[1] > 0.999 * np.linalg.norm(first, axis=1)
            members = along & (second[0] > 0)
            return float(np.sum(second[0, members] * np.linalg.norm(first[members], axis=1)))

        assert np.log(size(35_000) / size(30_000)) / 5_000 == pytest.approx(rate, rel=0.02)
        law = theory.departure(data, init_scale=1e-3, weight_decay=decay)
        assert (law.stays(100) > 0.95) == shrinks

    def test_an_awake_groups_own_direction_is_no_sleeper_that_grows(self) -> None:
        data = bf.datasets.six_points(offset=0.04)
        for decay in (0.0042, 0.0046):
            law = theory.departure(data, init_scale=1e-3, weight_decay=decay)
            assert all(abs(kind.rate) > 1e-6 for kind in law.leavers)
        assert law.time == np.inf
        assert "shrink under weight decay" in law.reason

    def test_the_logistic_twin(self) -> None:
        data = bf.datasets.six_points(offset=0.1)
        square, logistic = theory.departure(data), theory.departure(data, loss="logistic")
        assert logistic.escape_rate == pytest.approx(0.5 * square.escape_rate)
        assert 0 < logistic.rate.lower < square.rate.lower

    def test_bad_input_gets_one_sentence(self) -> None:
        data = bf.datasets.six_points()
        for arguments, words in (
            ({"slope": 1.0}, "linear network"),
            ({"init_scale": 0.0}, "init_scale must be"),
            ({"loss": "hinge"}, "unknown loss"),
        ):
            with pytest.raises(ValueError, match=words):
                theory.departure(data, **arguments)
        with pytest.raises(ValueError, match="scalar targets"):
            theory.departure(bf.Dataset(np.eye(2), np.eye(2)))
