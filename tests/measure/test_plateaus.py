"""Plateaus: the cutting rule on synthetic staircases, and what is told of real ones."""

import itertools
import json

import numpy as np
import pytest

import biasfree as bf
from biasfree import theory
from biasfree.measure._cutting import cut


def staircase(
    seed: int, noise: float = 0.0, saves: int = 2000
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, values, levels and drop times of sigmoids far enough apart to be seen."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    widths = rng.uniform(0.5, 3.0, count)
    gaps = rng.uniform(12, 60, count) * np.maximum(widths, np.roll(widths, 1))
    drops, sizes = np.cumsum(gaps), rng.uniform(0.05, 1.0, count)
    times = np.linspace(0, drops[-1] + 30 * widths[-1], saves)
    values = 0.3 + sum(s / (1 + np.exp((times - t) / w)) for s, t, w in zip(sizes, drops, widths, strict=True))
    levels = 0.3 + np.concatenate([[sizes.sum()], sizes.sum() - np.cumsum(sizes)])
    return times, values + noise * sizes.sum() * rng.normal(size=saves), levels, drops


class TestTheRule:
    @pytest.mark.parametrize("seed", range(40))
    def test_every_step_of_a_staircase_is_found_and_no_other(self, seed: int) -> None:
        times, values, levels, drops = staircase(seed)
        found, falling = cut(times, values)
        assert not falling
        assert [each.level for each in found] == pytest.approx(levels, abs=1e-3)
        middle = [0.5 * (one.end + two.begin) for one, two in itertools.pairwise(found)]
        assert middle == pytest.approx(drops, rel=0.02)

    @pytest.mark.parametrize("noise", [1e-4, 1e-3])
    @pytest.mark.parametrize("seed", range(1, 9))
    def test_noise_adds_no_plateau_and_hides_none_above_it(self, seed: int, noise: float) -> None:
        times, values, levels, _ = staircase(seed, noise)
        whole = levels[0] - levels[-1]
        seen = [levels[0], *levels[1:][-np.diff(levels) > 50 * noise * whole]]
        found, falling = cut(times, values)
        assert not falling
        assert [each.level for each in found] == pytest.approx(seen, abs=0.01 * whole)

    def test_units_of_time_and_loss_do_not_matter(self) -> None:
        times, values, *_ = staircase(3)
        plain, scaled = cut(times, values)[0], cut(1e5 * times, 1e-7 * values)[0]
        assert [1e5 * each.begin for each in plain] == pytest.approx([each.begin for each in scaled])
        assert [1e-7 * each.level for each in plain] == pytest.approx([each.level for each in scaled])

    def test_how_densely_a_run_is_saved_does_not_matter(self) -> None:
        fine, coarse = (cut(*staircase(5, saves=saves)[:2])[0] for saves in (20_000, 400))
        assert [each.level for each in fine] == pytest.approx([each.level for each in coarse], abs=1e-3)

    def test_an_exponential_has_one_plateau_its_end(self) -> None:
        times = np.linspace(0, 60, 500)
        found, falling = cut(times, 1 + np.exp(-times))
        assert len(found) == 1
        assert not falling
        assert found[0].end == np.inf
        assert found[0].begin == pytest.approx(np.log(10), rel=0.05)

    def test_a_power_law_is_still_falling(self) -> None:
        times = np.linspace(0, 50, 500)
        found, falling = cut(times, 1 / (1 + times))
        assert falling
        assert not found

    @pytest.mark.parametrize("scale", [1e-12, 1e-50])
    def test_no_wait_longer_than_a_tenth_of_the_escape_is_missed_and_none_is_made_up(self, scale: float) -> None:
        # Groups that do not see each other: each learns its part of the loss along a logistic curve, at ln(1/γ)/ρ.
        rng, tried = np.random.default_rng(7), 0
        low, high = (np.log((1 - np.sqrt(1 - share)) / np.sqrt(1 - share)) / 2 for share in (0.1, 0.9))
        while tried < 300:
            count = int(rng.integers(2, 5))
            rates, sizes = np.sort(np.exp(rng.uniform(np.log(0.1), 0, count)))[::-1], rng.uniform(0.05, 1.0, count)
            drops = np.log(1 / scale) / rates
            waits = drops[1:] + low / rates[1:] - drops[:-1] - high / rates[:-1]
            if (waits * rates[1:] <= 0.1 * np.log(1 / scale)).any():
                continue
            tried += 1
            times = np.linspace(0, drops[-1] + 15 / rates[-1], 3000)
            grown = 1 / (1 + np.exp(-2 * rates * (times[:, None] - drops)))
            found, _ = cut(times, (1 - grown) ** 2 @ sizes)
            left = np.append(np.cumsum(sizes[::-1])[::-1], 0.0)
            assert [each.level for each in found] == pytest.approx(left, abs=0.05 * left[0])

    def test_times_that_nearly_coincide_make_no_plateau(self) -> None:
        # One smooth fall, with events a billionth apart between which rounding makes the loss fall ten times faster.
        times = np.linspace(0, 60, 400)
        values = 1 / (1 + np.exp(times - 30.0))
        close = 26.0 + 1e-9 * np.arange(1, 4)
        at = int(np.searchsorted(times, close[0]))
        level = 1 / (1 + np.exp(-4.0))
        times, values = np.insert(times, at, close), np.insert(values, at, level - 1e-9 * np.arange(3))
        found, _ = cut(times, values)
        assert [each.level for each in found] == pytest.approx([1.0, 0.0], abs=1e-3)

    def test_a_straight_line_has_none(self) -> None:
        times = np.linspace(0, 1, 100)
        assert cut(times, 1 - times) == ([], True)

    def test_a_sum_of_exponentials_is_one_fall(self) -> None:
        # Fast, then slow, but never slow between two faster times.
        times = np.geomspace(1e-3, 1e3, 600) - 1e-3
        found, _ = cut(times, np.exp(-times) + 0.5 * np.exp(-times / 10) + 0.2)
        assert len(found) == 1

    def test_a_constant_is_one_plateau(self) -> None:
        (only,), falling = cut(np.arange(5.0), np.ones(5))
        assert (only.begin, only.end, only.level, falling) == (0.0, np.inf, 1.0, False)

    def test_a_rise_is_none(self) -> None:
        assert cut(np.arange(5.0), np.array([1.0, 2, 4, 8, 16]))[0] == []


@pytest.fixture(scope="module")
def xor() -> bf.measure.Plateaus:
    start = bf.Network.init([2, 40, 1], slope=0.0, init_scale=1e-12, seed=0)
    return bf.gradient_flow(start, bf.datasets.xor(), until=150).plateaus()


class TestXor:
    def test_levels_are_those_of_four_linear_networks_learned_one_by_one(self, xor: bf.measure.Plateaus) -> None:
        assert xor.levels == pytest.approx([0.5, 0.375, 0.25, 0.125, 0.0], abs=2e-3)
        assert [None if p.networks is None else len(p.networks) for p in xor] == [0, 1, 2, 3, 4]
        assert xor[3].networks is not None
        assert sorted(sum(xor[3].networks, ())) == [1, 2, 3]

    def test_growth_rates_are_the_extrema_of_g(self, xor: bf.measure.Plateaus) -> None:
        for plateau, rates in zip(xor, ([1, 0.75, 0.5, 0.25], [0.75, 0.5, 0.25], [0.5, 0.25], [0.25]), strict=False):
            assert plateau.growth is not None
            assert [group.rate for group in plateau.growth] == pytest.approx(rates, rel=2e-3)

    def test_every_end_is_predicted_to_a_hundredth_by_the_early_flow(self, xor: bf.measure.Plateaus) -> None:
        assert xor.predicted_ends[:4] == pytest.approx(xor.ends[:4], rel=0.01)
        assert {p.predicted_by for p in xor.plateaus[:4]} == {"early flow"}

    def test_the_last_one_is_a_minimum_by_a_second_criterion(self, xor: bf.measure.Plateaus) -> None:
        assert (xor[4].reason.kind, xor[4].end, xor[4].predicted_end) == ("minimum", np.inf, np.inf)
        assert xor[4].level == pytest.approx(theory.best_possible_loss(bf.datasets.xor()).loss, abs=1e-9)

    def test_everything_is_plain_json(self, xor: bf.measure.Plateaus) -> None:
        told = json.loads(json.dumps(xor.to_dict(), allow_nan=False))
        assert told["plateaus"][4]["end"] is None
        assert told["plateaus"][1]["reason"] == "grows"
        assert len(told["plateaus"]) == len(xor) == 5

    def test_it_reads_as_a_story(self, xor: bf.measure.Plateaus) -> None:
        assert "5 plateaus" in str(xor)
        assert "3 linear networks" in str(xor[3])

    @pytest.mark.parametrize("rate", [0.05, 0.4])
    def test_descent_at_small_and_large_rates_waits_at_the_same_levels(
        self, xor: bf.measure.Plateaus, rate: float
    ) -> None:
        start = bf.Network.init([2, 40, 1], slope=0.0, init_scale=1e-12, seed=0)
        run = bf.gradient_descent(start, bf.datasets.xor(), learning_rate=rate, steps=round(180 / rate), save=400)
        found = bf.plateaus(run)
        assert found.levels == pytest.approx(xor.levels, abs=0.012)
        # Its clock runs slow, and the prediction knows it.
        assert found.predicted_ends[:4] == pytest.approx(found.ends[:4], rel=0.05)


class TestOtherRuns:
    def test_logistic_loss_ends_in_a_power_law(self) -> None:
        start = bf.Network.init([2, 30, 1], slope=0.0, init_scale=1e-8, seed=0)
        found = bf.gradient_flow(start, bf.datasets.orthogonal_pair(), loss="logistic", until=150).plateaus()
        assert found.predicted_ends[:2] == pytest.approx(found.ends[:2], rel=0.05)

    def test_of_deep_networks_levels_and_linearity_are_told(self) -> None:
        data = bf.datasets.symmetric_gaussian(dim=3, pairs=10, seed=0)
        start = bf.Network.init([3, 10, 10, 1], 0.0, 0.05, seed=0)
        found = bf.gradient_descent(start, data, learning_rate=0.1, steps=4000).plateaus()
        assert len(found) >= 1
        assert found[0].reason.kind == "not told"
        assert np.isnan(found[0].predicted_end)
        assert all(0 <= p.nonlinearity <= 1.5 for p in found)

    def test_weight_decay_is_cut_by_what_the_flow_descends_on(self) -> None:
        start = bf.Network.init([2, 30, 1], slope=0.0, init_scale=1e-8, seed=0)
        run = bf.gradient_flow(start, bf.datasets.orthogonal_pair(), until=200, weight_decay=0.05)
        found = run.plateaus()
        assert len(found) == 3
        assert found.predicted_ends[:2] == pytest.approx(found.ends[:2], rel=0.05)

    def test_a_start_that_nothing_moves_is_one_plateau(self) -> None:
        run = bf.gradient_flow(bf.Network([np.zeros((3, 2)), np.zeros((1, 3))], 0.0), bf.datasets.xor(), until=10)
        (only,) = run.plateaus()
        assert only.end == np.inf

    def test_six_points_stay_or_leave_as_predicted(self) -> None:
        data, outcome = bf.datasets.six_points(), {}
        for seed in (0, 1):
            run = bf.gradient_flow(bf.Network.init([2, 100, 1], 0.0, 1e-3, seed=seed), data, until=2000, stop=1e-6)
            outcome[seed] = run.plateaus()
        leaves, stays = outcome[0], outcome[1]
        assert leaves.predicted_ends[:-1] == pytest.approx(leaves.ends[:-1], rel=0.1)
        assert (stays[-1].reason.kind, stays[-1].predicted_end) == ("nobody grows", np.inf)
        # It could do better: what is missing is a sleeper.
        assert theory.best_possible_loss(data).loss < 1e-9 < stays[-1].level
        assert "width" in stays[-1].reason.text

    def test_something_else_is_refused_in_one_sentence(self) -> None:
        with pytest.raises(ValueError, match=r"plateaus takes a Trajectory, got list\."):
            bf.plateaus([1, 2])  # type: ignore[arg-type]
