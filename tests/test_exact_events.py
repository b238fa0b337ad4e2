"""What the exact flow finds along a step and decides there, each against a direct computation."""

import math
from ctypes import byref, c_int64
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

import biasfree as bf
from biasfree import Network
from biasfree.dynamics.exact import _state
from biasfree.dynamics.exact._arrays import Desk, Pattern, Sought
from biasfree.dynamics.exact._carried import Carried
from biasfree.dynamics.exact._data import Data, by_line
from biasfree.dynamics.exact._events import Arcs, happenings, scanned, search
from biasfree.dynamics.exact._field import pulls_of, velocity
from biasfree.dynamics.exact._kernels import scan
from biasfree.dynamics.exact._methods import basis
from biasfree.dynamics.exact._sliding import decide, nobody_slides, written
from biasfree.lines import lines
from biasfree.native import library
from biasfree.switching import Settled, from_zero, settle
from tests.exact_reference import reference_flow
from tests.test_both_languages import numbers

NEAR_BY = numbers("engine.h")["NEAR_BY"]

seeds = st.integers(0, 10**6)


def square_data(inputs: object, targets: object, slope: float = 0.0, decay: float = 0.0) -> Data:
    dataset = bf.Dataset(inputs, targets)
    return by_line(lines(dataset.inputs), dataset, slope, "square", "time", decay)


def first_crossing(coefficients: np.ndarray, radius: float = 0.0) -> float:
    """Where ``scan`` finds one neuron in one dimension to meet its line; 2 if it does not."""
    data = square_data([[1.0]], [1.0])
    curve = np.zeros((8, 1, 2))
    curve[:, 0, 0] = coefficients
    pattern = nobody_slides(np.ones((1, 1)), np.arange(1), 1)
    sought, desk = Sought.room(4, 0), Desk.room(1, 2, 1, 1, 1)
    desk.radius[0] = radius
    count = scan(curve, 0.0, 0.0, 0.0, data, pattern, -np.inf, desk, sought)
    assert count <= 1
    return float(sought.met[0, 2]) if count > 0 else 2.0


def product(*factors: np.ndarray) -> np.ndarray:
    """Bernstein coefficients of a product, from those of its factors."""
    found = np.ones(1)
    for factor in factors:
        n, m = len(found) - 1, len(factor) - 1
        scaled = [np.array([comb(k, i) for i in range(k + 1)]) * c for k, c in ((n, found), (m, factor))]
        found = np.convolve(*scaled) / [comb(n + m, i) for i in range(n + m + 1)]
    return found


class TestScan:
    @given(st.lists(st.floats(-1, 1), min_size=8, max_size=8))
    def test_first_crossing_against_a_grid(self, coefficients: list[float]) -> None:
        c = np.array(coefficients)
        c[0] = abs(c[0]) + 1e-6
        x = first_crossing(c)
        grid = np.linspace(0, 1, 20_001)
        values = basis(grid) @ c
        # Nothing below zero before it, and zero there; whatever the grid sees is seen.
        assert values[grid < x].min() > -1e-13
        if x <= 1:
            assert abs(basis(x) @ c) < 1e-13
        else:
            assert values.min() > -1e-13

    @given(seeds, st.floats(0.01, 0.99), st.sampled_from([5e-7, 5e-6, 1e-4]))
    def test_dips_too_short_for_a_grid(self, seed: int, middle: float, half: float) -> None:
        """(x − c)² − δ² times something positive: below zero for 1e-6 of the step and more."""
        dip = np.array([middle**2, -middle * (1 - middle), (1 - middle) ** 2]) - half**2
        positive = np.random.default_rng(seed).uniform(0.2, 1, size=6)
        c = product(dip, positive)
        grid = np.linspace(0, 1, 1001)
        if half < 1e-6:
            assume(np.abs(grid - middle).min() > half)
            assert (basis(grid) @ c).min() > 0
        assert first_crossing(c) == pytest.approx(middle - half, abs=2e-9 / half * 1e-6 + 1e-13)

    @given(seeds, st.floats(0.01, 0.99))
    def test_a_touch_from_above_is_no_crossing(self, seed: int, middle: float) -> None:
        dip = np.array([middle**2, -middle * (1 - middle), (1 - middle) ** 2]) + 1e-12
        positive = np.random.default_rng(seed).uniform(0.2, 1, size=6)
        assert first_crossing(product(dip, positive)) == 2.0
        assert first_crossing(product(dip, positive), radius=1.0) == NEAR_BY

    @given(st.lists(st.floats(0.02, 0.98), min_size=2, max_size=5, unique=True))
    def test_the_first_of_many_roots(self, roots: list[float]) -> None:
        roots = sorted(roots)
        assume(min(np.diff(roots)) > 1e-4)
        factors = [np.array([r, r - 1]) for r in roots]  # r − x
        c = product(*factors, np.ones(8 - len(roots)))
        assert first_crossing(c) == pytest.approx(roots[0], abs=1e-7)

    def test_beginning_on_the_line(self) -> None:
        """On it and going on: no event; on it and turning back: one at once."""
        assert first_crossing(np.linspace(0, 1, 8)) == 2.0
        assert first_crossing(np.linspace(0, -1, 8)) == 0.0

    @pytest.mark.parametrize("loss", ["square", "logistic"])
    def test_loss_level(self, loss: str) -> None:
        """Where ln L falls to a level, between two points of a step."""
        dataset = bf.Dataset([[1.0, 0.2], [0.3, -1.0]], [1.0, 1.0])
        data = by_line(lines(dataset.inputs), dataset, 0.3, loss, "time", 0.0)
        begin, end = np.array([[0.5, -0.4, 0.3]]), np.array([[0.6, -0.5, 0.9]])
        curve = begin + (end - begin) * np.linspace(0, 1, 8)[:, None, None]
        side = np.where(begin[:, :2] @ data.transposed < 0, -1.0, 1.0)
        pattern = nobody_slides(side, np.arange(1), 2)

        def height(x: float) -> float:
            return float(pulls_of(begin + x * (end - begin), data, side).level)

        level = height(0.371)
        arcs = Arcs(np.array([2.0]), np.array([4.0]), curve[None])
        event = search(arcs, data, pattern, level).event
        assert event.kind == "level"
        # What is interpolated is ln L.
        assert event.time == pytest.approx(2 + 2 * 0.371, abs=1e-5)
        assert search(arcs, data, pattern, height(1.0) - 1e-3).event is None

    def test_the_first_of_more_crossings_than_are_listed(self) -> None:
        """Hundreds of rows meet hundreds of lines in one step; the last row is the first to do so."""
        rng = np.random.default_rng(0)
        data = square_data(rng.normal(size=(60, 2)), rng.normal(size=60))
        begin = rng.normal(size=(20, 3))
        end = -begin
        end[-1] -= 20 * begin[-1]  # it turns around sooner
        curve = begin + (end - begin) * np.linspace(0, 1, 8)[:, None, None]
        side = np.where(begin[:, :2] @ data.transposed < 0, -1.0, 1.0)
        arcs = Arcs(np.array([0.0]), np.array([1.0]), curve[None])
        event = search(arcs, data, nobody_slides(side, np.arange(20), 2), -np.inf).event
        assert event.row == 19
        assert event.time == pytest.approx(1 / 22)

    def test_what_comes_near_is_kept_from_every_arc(self) -> None:
        data = square_data(np.eye(2), [1.0, 1.0])
        pattern = nobody_slides(np.ones((1, 2)), np.arange(1), 2)
        near = [np.repeat(np.array([[row]]), 8, axis=0) for row in ([1.0, 0.05, 1.0], [0.05, 1.0, 1.0])]
        arcs = Arcs(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.stack(near))
        found = search(arcs, data, pattern, -np.inf, np.array([0.1]))
        assert found.event is None
        lines_near = [int(np.argmax(data.directions[int(line)])) for _, line, _ in found.near]
        assert lines_near == [1, 0]

    def test_arcs_are_searched_in_order_and_lines_met_together_are_named_together(self) -> None:
        data = square_data(np.eye(3), [1.0, 1.0, 1.0])
        pattern = nobody_slides(np.ones((2, 3)), np.arange(2), 3)
        begin = np.array([[0.3, 0.3, 1.0, 1.0], [0.9, 1.0, 1.0, 1.0]])
        end = np.array([[-0.7, -0.7, 1.0, 1.0], [-0.1, 1.0, 1.0, 1.0]])
        curve = begin + (end - begin) * np.linspace(0, 1, 8)[:, None, None]
        standing = np.repeat(begin[None], 8, axis=0)
        arcs = Arcs(np.array([0.0, 5.0]), np.array([5.0, 7.0]), np.stack([standing, curve]))
        found = search(arcs, data, pattern, -np.inf)
        assert (found.event.kind, found.event.row, sorted(found.event.lines)) == ("met", 0, [0, 1])
        assert found.event.time == pytest.approx(5.6)
        count, sought = scanned(curve, data, pattern, -np.inf, np.zeros(2))
        events = happenings(curve, count, sought, data, pattern)
        assert [(event.row, sorted(event.lines)) for event in events] == [(0, [0, 1]), (1, [0])]
        np.testing.assert_allclose([event.time for event in events], [0.3, 0.9], atol=1e-10)


class TestMargins:
    """Of rows that slide on two lines each, with three outputs."""

    @staticmethod
    def problem(seed: int) -> tuple[Data, Pattern, np.ndarray]:
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(9, 4))
        data = square_data(np.concatenate([inputs, -inputs[:4]]), rng.normal(size=(13, 3)), 0.2)
        z = rng.normal(size=(2, 7))
        pattern = nobody_slides(np.where(z[:, :4] @ data.transposed < 0, -1.0, 1.0), np.arange(2), 4)
        for h, held in ((0, [1, 4]), (1, [2, 7])):
            sliding = np.isin(np.arange(9), held)
            pattern = written(pattern, data, h, pattern.side[h], sliding)
        return data, pattern, z

    @staticmethod
    def direct(z: np.ndarray, data: Data, pattern: Pattern) -> np.ndarray:
        """−s ± ς·s with ς from least squares, as (slides, 2)."""
        found, expected = pulls_of(z, data, pattern.side), []
        for h in range(len(pattern.side)):
            held = np.flatnonzero(pattern.side[h] == 0)
            second = z[h, 4:]
            free = found.matrices[h] @ second  # without the lines that are slid on
            plain = np.zeros(4)
            for line in range(len(data.directions)):
                plain += (second @ (found.p[:, line] + pattern.side[h, line] * found.q[:, line])) * data.directions[
                    line
                ]
            np.testing.assert_allclose(free, plain, atol=1e-13)
            strength = second @ found.q[:, held]
            wanted = np.linalg.lstsq(data.directions[held].T, -free, rcond=None)[0]  # ς·s
            expected += np.column_stack([-strength + wanted, -strength - wanted]).tolist()
        return np.array(expected)

    @pytest.mark.parametrize("seed", range(10))
    def test_against_least_squares(self, seed: int) -> None:
        data, pattern, z = self.problem(seed)
        desk, sought, standing = Desk.room(2, 7, 2, 4, 9), Sought.room(64, 4), np.repeat(z[None], 8, axis=0)
        scan(standing, 0.0, 0.0, 0.0, data, pattern, -np.inf, desk, sought)
        found, expected = pulls_of(z, data, pattern.side), self.direct(z, data, pattern)
        for values in sought.values:
            np.testing.assert_allclose(values[:-1].reshape(4, 3)[:, :2], expected, atol=1e-12)
        size = np.abs(z[pattern.slides[:, 0], 4:]).max(axis=1) * found.scale
        np.testing.assert_allclose(
            sought.beyond, np.broadcast_to(np.maximum(0.0, -expected.min(axis=1) / size), (8, 4)), atol=1e-14
        )

    @pytest.mark.parametrize("seed", range(10))
    def test_a_held_row_does_not_move_across(self, seed: int) -> None:
        """ς as found puts the velocity into the lines' surfaces, as ``velocity`` does by projection."""
        data, pattern, z = self.problem(seed)
        found = pulls_of(z, data, pattern.side)
        moving = velocity(z, found, pattern)
        margins = self.direct(z, data, pattern)
        for h in range(2):
            held = np.flatnonzero(pattern.side[h] == 0)
            pull = 0.5 * (margins[2 * h : 2 * h + 2, 0] - margins[2 * h : 2 * h + 2, 1])
            free = found.matrices[h] @ z[h, 4:]
            np.testing.assert_allclose(free + pull @ data.directions[held], moving[h, :4], atol=1e-12)

    def test_ends_of_slides_against_a_search_by_halving(self) -> None:
        """On a straight way margins are of degree 3, and the first zero of the least of them is the event."""
        within = 0
        for seed in range(8):
            data, pattern, begin = self.problem(seed)
            for h, line in pattern.slides:  # all lines slid on attract at first
                data.sums[1, :, line] -= 30.0 * begin[h, 4:]
            end = begin + np.random.default_rng(seed).normal(size=begin.shape)
            curve = begin + (end - begin) * np.linspace(0, 1, 8)[:, None, None]

            def least(x: float, slide: int, curve=curve, data=data, pattern=pattern) -> float:
                z, h = np.tensordot(basis(x), curve, 1), pattern.slides[slide, 0]
                return min(*self.direct(z, data, pattern)[slide], z[h, 4:] @ curve[0, h, 4:])

            desk, sought = Desk.room(2, 7, 2, 4, 9), Sought.room(64, 4)
            scan(curve, 0.0, 0.0, 0.0, data, pattern, -np.inf, desk, sought)
            grid = np.linspace(0, 1, 101)
            for slide in range(4):
                below = np.flatnonzero([least(x, slide) < 0 for x in grid])
                assert (sought.ended[slide] == 0) == (below.size > 0 and below[0] == 0)
                if sought.ended[slide] > 0 and below.size:
                    truth = brentq(least, *grid[below[0] - 1 : below[0] + 1], args=(slide,))
                    assert sought.ended[slide] == pytest.approx(truth, abs=1e-9)
                    within += 1
                elif not below.size:
                    assert sought.ended[slide] == 2.0
        assert within > 8


def random_lines(seed: int, most: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(1, most)), int(rng.integers(2, 5))
    directions = rng.normal(size=(count, dim))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return directions, rng.normal(size=count), rng.normal(size=dim) * rng.choice([0.0, 0.3, 2.0]), rng


def assert_filippov(
    settled: Settled, directions: np.ndarray, strength: np.ndarray, drift: np.ndarray, on: np.ndarray
) -> np.ndarray:
    """The velocity is one that a solution may leave with: on the lines it is ``on``, ς is the side it goes to."""
    pull = drift + (settled.side * strength) @ directions
    ahead, noise = directions @ pull, 1e-9 * (np.linalg.norm(drift) + np.abs(strength).sum())
    assert (np.abs(settled.side) <= 1).all()
    assert (settled.side[on] * ahead[on] >= -noise).all()
    assert (np.abs(ahead[on & (np.abs(settled.side) < 1)]) <= noise).all()
    assert (np.abs(ahead[settled.sliding]) <= noise).all()
    assert (strength[settled.sliding] <= 0).all()  # no slide on a repelling line
    return pull


class TestDecisions:
    @given(seeds)
    def test_settling_is_a_solution(self, seed: int) -> None:
        """A row comes to slide on some attracting lines, then meets another one that it moves towards."""
        directions, strength, drift, rng = random_lines(seed)
        side = rng.choice([-1.0, 1.0], size=len(strength))
        nothing, attracting = np.zeros(len(strength), dtype=bool), strength < 0
        met = np.flatnonzero(attracting & (rng.random(len(strength)) < 0.6))[: directions.shape[1] - 1]
        begun = settle(directions, strength, drift, 1.0, side, nothing, met)
        on = np.isin(np.arange(len(strength)), met)
        pull = assert_filippov(begun, directions, strength, drift, on)
        towards = np.flatnonzero(~on & (begun.side * (directions @ pull) < -1e-9))
        for line in towards.tolist():
            then = settle(directions, strength, drift, 1.0, begun.side, begun.sliding, np.array([line]))
            on = begun.sliding.copy()
            on[line] = True
            assert_filippov(then, directions, strength, drift, on)
            assert {kind for _, kind in then.events} <= {"cross", "slide", "leave"}

    @given(seeds)
    def test_leaving_zero_is_a_solution(self, seed: int) -> None:
        directions, strength, drift, rng = random_lines(seed, 20)
        side = rng.choice([-1.0, 1.0], size=len(strength))
        settled = from_zero(directions, strength, drift, side, np.zeros(len(side), dtype=bool))
        pull = assert_filippov(settled, directions, strength, drift, np.ones(len(side), dtype=bool))
        if settled.rests:
            assert np.linalg.norm(pull) <= 1e-9 * (np.linalg.norm(drift) + np.abs(strength).sum())

    @given(seeds)
    def test_resting_at_zero_goes_on_or_ends_by_a_solution(self, seed: int) -> None:
        directions, strength, drift, rng = random_lines(seed, 20)
        side = rng.uniform(-1, 1, size=len(strength))
        sliding = (strength < 0) & (rng.random(len(side)) < 0.3)
        side = np.where(sliding, side, np.where(side < 0, -1.0, 1.0))
        settled = from_zero(directions, strength, drift, side, sliding, rests=True)
        assert_filippov(settled, directions, strength, drift, np.ones(len(side), dtype=bool))

    @given(seeds, st.floats(-100, 100))
    def test_scaling_changes_nothing(self, seed: int, exponent: float) -> None:
        """Neither the size of the pulls nor, of the same neuron, that of w₂."""
        directions, strength, drift, rng = random_lines(seed)
        side = rng.choice([-1.0, 1.0], size=len(strength))
        nothing, met = np.zeros(len(side), dtype=bool), np.flatnonzero(rng.random(len(side)) < 0.5)
        scale = 2.0 ** round(exponent / math.log10(2))
        plain, scaled = (
            (from_zero(directions, c * strength, c * drift, side, nothing),
             settle(directions, c * strength, c * drift, 1.0, side, nothing, met))
            for c in (1.0, scale)
        )  # fmt: skip
        for one, other in zip(plain, scaled, strict=True):
            np.testing.assert_allclose(other.side, one.side, atol=1e-9)
            assert (other.sliding == one.sliding).all()
            assert other.events == one.events
            assert other.rests == one.rests


@pytest.mark.parametrize("length", [0.25, 2.0])
def test_a_row_alone_is_let_go_from_zero_by_the_pulls_of_that_moment(length: float) -> None:
    """Two lines at right angles, q = -1/2 on both: it rests while |p| is below that; along the curve p = (x, 0)."""
    data, x = square_data(np.eye(2), [1.0, 1.0]), np.linspace(0, 1, 8)
    given = np.stack([np.stack([x, 0 * x], axis=1), np.full((8, 2), -0.5)], axis=1)
    data = data._replace(given=given, given_at=0.2, given_rate=0.5 / length)
    sides = np.zeros((1, 2))
    free = nobody_slides(sides, np.arange(1), 2)
    pattern = written(free, data, 0, sides[0], np.zeros(2, dtype=bool), everything=True)
    curve, sought = np.array([0.0, 0.0, 1.0]) * np.ones((8, 1, 3)), Sought.room(4, 0)
    events = happenings(curve, 0, sought._replace(ended=np.full_like(sought.ended, 2.0)), data, pattern, length)
    assert [(event.kind, event.row) for event in events] == [("slide", 0)]
    assert 0.2 + 0.5 * events[0].time == pytest.approx(0.5, abs=1e-9)


class TestSplitting:
    """Two neurons √(rtol/10)/3 apart, one group, on either side of the line across (1, 0)."""

    @staticmethod
    def carried(ahead: float) -> Carried:
        # Residuals on both sides of the line: the group moves across it by the first while it is counted there, and is
        # pushed apart by the sum of both.
        data = square_data([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [ahead, 1.0 - ahead, 1e-3])
        angle = 1e-4 * np.array([1.0, 1.1])
        neurons = np.column_stack([np.sin(angle), np.cos(angle), [1e-3, 1e-3]])
        return Carried(neurons, data, 1e-6)

    @pytest.mark.parametrize(("ahead", "splits"), [(1e-9, True), (-3.0, False)], ids=["slowly", "fast"])
    def test_repelling_lines(self, ahead: float, splits: bool) -> None:
        carried = self.carried(ahead)
        assert carried.active == 1
        before = carried.groups.restored(carried.z)
        carried.z[0, 0] -= 1.05e-4 * np.sqrt(2)  # the group's middle comes onto the line
        middle = carried.groups.restored(carried.z)
        line = int(np.argmax(np.abs(carried.data.directions[:, 0])))
        found = carried.pulls()
        assert float(carried.z[0, 2:] @ found.q[:, line]) > 0  # repelling
        assert carried.split(np.array([[0, line, 0.5]]), carried.radius(), 10.0) is splits
        assert carried.active == (2 if splits else 1)
        np.testing.assert_allclose(carried.groups.restored(carried.z), middle, atol=1e-15)
        assert np.abs(before - middle).max() > 1e-5
        if splits:
            np.testing.assert_array_equal(carried.pattern.side[:, line], np.sign(middle[:, 0]))

    def test_single_neurons_and_weak_lines_are_left_alone(self) -> None:
        carried = self.carried(1e-9)
        line = int(np.argmax(np.abs(carried.data.directions[:, 0])))
        assert not carried.split(np.array([[0, line, 3.0]]), np.zeros(1), 10.0)
        # Over before they are driven apart.
        assert not carried.split(np.array([[0, line, 3.0]]), carried.radius(), 1e-9)

    def test_one_that_goes_by_itself_before_it_has_crossed_is_where_it_was(self) -> None:
        carried = self.carried(-3.0)
        carried.z[0, 0] -= 1.05e-4 * np.sqrt(2)
        before = carried.groups.restored(carried.z)
        line = int(np.argmax(np.abs(carried.data.directions[:, 0])))
        old = carried.pulls()
        behind = int(np.argmax(before[:, :2] @ carried.data.directions[line] * carried.pattern.side[0, line]))
        side = carried.pattern.side[0, line]
        assert [each.kind for each in carried.decide(0, np.array([line]))] == ["cross"]
        assert float(np.abs(old.q[:, line]).max()) > 0
        # All are carried with the side beyond, as if they had been there; no time has passed.
        assert np.abs(carried.groups.restored(carried.z) - before)[behind].max() > 1e-8
        assert carried.dissolve([0], 10.0)
        np.testing.assert_allclose(carried.groups.restored(carried.z)[behind], before[behind], rtol=0, atol=1e-10)
        row = int(carried.groups.row_of[behind])
        assert carried.pattern.side[row, line] == side
        assert carried.pattern.side[1 - row, line] == -side


class TestStillNeurons:
    """Inactive on every sample at slope 0."""

    data = bf.Dataset([[1.0, 0.2], [0.3, 1.0], [1.0, 1.0]], [1.0, -0.5, 0.3])
    start = Network([[[0.5, 0.1], [-1.0, -0.5], [0.1, 0.4], [0.0, 0.0]], [[0.3, 2.0, -0.2, 0.0]]], 0.0)

    @pytest.mark.parametrize("decay", [0.0, 0.2])
    def test_they_fade_and_do_nothing_else(self, decay: float) -> None:
        run = bf.gradient_flow(self.start, self.data, until=8.0, save=16, weight_decay=decay, method="exact")
        assert run.status.name == "reached"
        for layer, axis in ((run.weights[0], 1), (run.weights[1], 2)):
            still = np.take(layer, 1, axis=axis)
            np.testing.assert_allclose(still, np.exp(-decay * run.times)[:, None] * still[0], rtol=1e-13)
            assert not np.take(layer, 3, axis=axis).any()
        assert run.energy_gap < 1e-6
        if len(run.events):
            assert not np.isin([1, 3], run.events.neurons).any()

    def test_the_others_do_not_feel_them(self) -> None:
        first, second = (np.asarray(layer) for layer in self.start.weights)
        alone = Network([first[[0, 2]], second[:, [0, 2]]], 0.0)
        runs = [bf.gradient_flow(net, self.data, until=8.0, save=4, method="exact") for net in (self.start, alone)]
        np.testing.assert_allclose(runs[0].weights[0][:, [0, 2]], runs[1].weights[0], atol=1e-10)
        np.testing.assert_allclose(runs[0].losses, runs[1].losses, atol=1e-10)


class TestEvents:
    """Three copies of each of two neurons, of different sizes: parallel, so that each three are one group."""

    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls):
        data = bf.datasets.six_points()
        start = Network.init([2, 6, 1], 0.0, 0.3, 1)
        first, second = (np.asarray(layer) for layer in start.weights)
        parts = np.sqrt([0.2, 0.3, 0.5])
        wide = np.einsum("p,hd->phd", parts, first).reshape(-1, 2), np.einsum("p,kh->kph", parts, second).reshape(1, -1)
        return [bf.gradient_flow(net, data, until=30.0, save=3, method="exact") for net in (start, Network(wide, 0.0))]

    def test_every_neuron_of_a_group_is_named(self, runs) -> None:
        alone, wide = (
            {(int(h), int(line), str(kind), round(float(t), 5)) for t, h, line, kind in zip(*columns, strict=True)}
            for columns in ((run.events.times, run.events.neurons, run.events.lines, run.events.kinds) for run in runs)
        )
        assert alone
        assert wide == {(h + 6 * copy, line, kind, time) for h, line, kind, time in alone for copy in range(3)}

    def test_groups_move_as_one(self, runs) -> None:
        np.testing.assert_allclose(runs[0].losses, runs[1].losses, atol=1e-7)


class TestPullsThatCancel:
    """Samples of both labels on one line pull against each other: rounding is that of their sizes, not of their sum."""

    @pytest.mark.parametrize("clock", ["time", "loss"])
    @pytest.mark.parametrize("loss", ["logistic", "exponential"])
    def test_the_size_that_rounding_is_measured_by(self, loss: str, clock: str) -> None:
        rng = np.random.default_rng(0)
        inputs, labels, z = rng.normal(size=(20, 1)), np.sign(rng.normal(size=20)), rng.normal(size=(3, 2))
        data = by_line(lines(inputs), bf.Dataset(inputs, labels), 0.2, loss, clock, 0.0)
        before = inputs @ z[:, 0][None]
        margins = labels * (np.where(before > 0, before, 0.2 * before) @ z[:, 1])
        falls = np.exp(-margins) if loss == "exponential" else 1 / (1 + np.exp(margins))
        level = np.mean(np.exp(-margins) if loss == "exponential" else np.log1p(np.exp(-margins)))
        expected = np.mean(falls * np.abs(inputs[:, 0])) / (level if clock == "loss" else 1.0)
        side = np.where(z[:, :1] @ data.transposed > 0, 1.0, -1.0)
        assert float(pulls_of(z, data, side).mass) == pytest.approx(expected, rel=1e-13)

    def test_a_slide_among_them_does_not_end_on_noise(self) -> None:
        """The neurons fit what they can; what then pulls at the one that slides is rounding, of either sign.

        It was let go, and met its line again, for ever.
        """
        rng = np.random.default_rng(95)
        samples, width = int(rng.integers(10, 60)), int(rng.integers(2, 12))
        inputs = rng.normal(size=(samples, 1)) * 10 ** rng.uniform(0, 2.5)
        data = bf.Dataset(inputs, np.where(rng.normal(size=samples) > 0, 1.0, -1.0))
        start = Network([rng.normal(size=(width, 1)) * 0.5, rng.normal(size=(1, width)) * 0.5], 0.0)
        run = bf.gradient_flow(
            start, data, loss="exponential", clock="loss", until=1.0, save=4, method="exact", max_steps=4000
        )
        assert run.status.name == "reached"
        first, second = map(np.asarray, start.weights)
        reference = reference_flow(
            inputs, np.asarray(data.targets), first, second[0], slope=0.0, loss="exponential", clock="loss", until=1.0,
            save=4, escape=True, weight_decay=0.0,
        )  # fmt: skip
        np.testing.assert_allclose(run.weights[0][-1], reference.first[-1], atol=1e-6)
        np.testing.assert_allclose(run.weights[1][-1][0], reference.second[-1], atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_c_decides_at_zero_is_the_rule(outputs: int) -> None:
    plain = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(int(rng.integers(2, 6)), 2))
        inputs = np.concatenate([inputs, -rng.uniform(0.1, 2) * inputs[: rng.integers(0, 3)]])
        dataset = bf.Dataset(inputs, rng.normal(size=(len(inputs), outputs)))
        grouped = lines(dataset.inputs)
        data = by_line(grouped, dataset, float(rng.choice([0.0, 0.3])), "square", "time", 0.0)
        z, held = rng.normal(size=(4, 2 + outputs)), int(rng.integers(len(grouped)))
        z[1, :2] = 0.0
        sliding = np.arange(len(grouped)) == held
        pattern = nobody_slides(rng.choice([-1.0, 1.0], size=(3, len(grouped))), np.array([0, 1, 2, 1]), 2)
        pattern = written(pattern, data, 1, pattern.side[1], sliding)
        after = z.copy()
        decided = decide(after, pattern, data, 1, np.array([held - 1]))
        desk = Desk.room(4, 2 + outputs, 3, *data.transposed.shape)
        desk.rows[0] = z
        own = Pattern(*(part.copy() for part in pattern))
        if not library().biasfree_leave_zero(byref(data.c), byref(own.c), byref(desk.c), c_int64(1)):
            np.testing.assert_array_equal(own.side, pattern.side)
            continue
        plain += 1
        np.testing.assert_array_equal(desk.rows[0], after)
        np.testing.assert_allclose(own.side, decided.pattern.side, atol=1e-12)
        np.testing.assert_array_equal(own.span, decided.pattern.span)
        np.testing.assert_array_equal(own.slides[: own.c.count], decided.pattern.slides)
        np.testing.assert_array_equal(own.dual[: own.c.count], decided.pattern.dual)
        np.testing.assert_array_equal(own.basis[1, : own.span[1]], decided.pattern.basis[1, : own.span[1]])
    assert plain > 100


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 6, 7])
def test_branches_are_the_same_whoever_decides(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Network.init([2, 40, 1], 0.0, 1e-2, seed)
    runs = []
    for largest in (_state._DIRECT, 0):  # in C, and by Python
        monkeypatch.setattr(_state, "_DIRECT", largest)
        runs.append(bf.gradient_flow(start, bf.datasets.six_points(), until=30, save=10, method="exact", rtol=1e-9))
    events = [run.events for run in runs]
    branches = [np.column_stack([e.neurons, e.lines])[e.kinds == "branch"].tolist() for e in events if e is not None]
    assert branches[0] == branches[1]
    assert len(branches[0]) > 0
    np.testing.assert_allclose(runs[0].weights[0], runs[1].weights[0], atol=1e-7)


class TestStartsOnALine:
    """One neuron on the line of the first of two samples; the second pulls it across."""

    START = bf.Network([[[0.0, 0.1]], [[0.1]]], 0.0)

    def run(self, targets: list[float]) -> bf.Trajectory:
        data = bf.Dataset([[1.0, 0.0], [-1.0, 0.3]], targets)
        return bf.gradient_flow(self.START, data, until=0.2, method="exact")

    @pytest.mark.parametrize("targets", [[-1.0, 0.4], [1.0, -0.4]])
    def test_pulled_the_same_way_on_both_sides_it_just_goes(self, targets: list[float]) -> None:
        run = self.run(targets)
        assert not len(run.events)
        way = float(run.final.weights[0][0, 0])
        assert np.sign(way) == -np.sign(targets[1])

    def test_pulled_back_from_both_sides_it_slides_from_the_start(self) -> None:
        run = self.run([-1.0, -0.4])
        assert run.events.kinds.tolist() == ["slide"]
        assert run.events.times.tolist() == [0.0]
        assert run.final.weights[0][0, 0] == 0

    def test_repelled_to_both_sides_a_branch_is_told(self) -> None:
        run = self.run([1.0, 0.4])
        assert run.events.kinds.tolist() == ["branch"]
        assert run.events.times.tolist() == [0.0]
        assert "not unique" in run.status.message
        assert run.final.weights[0][0, 0] < 0  # σ'(0) = 0

    def test_so_is_one_that_starts_at_zero(self) -> None:
        data = bf.Dataset([[1.0, 0.5], [-0.3, 1.0]], [0.4, 0.3])
        run = bf.gradient_flow(bf.Network([[[0.0, 0.0]], [[0.3]]], 0.0), data, until=0.2, method="exact")
        assert set(run.events.kinds) == {"branch"}
        assert not run.events.times.any()
        assert "not unique" in run.status.message


def test_a_table_of_events_that_is_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one, data = bf.Network.init([2, 1, 1], 0.0, 0.1, 0), bf.datasets.six_points()
    start = bf.Network([np.repeat(one.weights[0], 30, axis=0), np.repeat(one.weights[1], 30, axis=1)], 0.0)
    every = bf.gradient_flow(start, data, until=30.0, method="exact")
    monkeypatch.setattr("biasfree.dynamics.exact._state._MOST_EVENTS", 5)
    one_each = bf.gradient_flow(start, data, until=30.0, method="exact")
    assert len(every.events) == 30 * len(one_each.events) > 0
    assert "one neuron of each group" in one_each.status.message
    assert "one neuron of each group" not in every.status.message
