"""How negligible neurons meet lines: Filippov's rule and the compiled crossings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import biasfree as bf
from biasfree import Network, theory
from biasfree.switching import WORK, Runner, Settled, _neurons, from_zero, settle, start_on, still_rests
from biasfree.switching._box import least_pull
from biasfree.switching._compiled import solved
from biasfree.switching._filippov import Start
from biasfree.switching._sums import first_zero


@given(st.integers(0, 10_000), st.floats(-6, 0), st.floats(-4, 0))
def test_least_pull_is_a_minimum(seed: int, smaller: float, spread: float) -> None:
    """Conditions of Karush, Kuhn and Tucker, also where the lines are far weaker than the rest of c."""
    rng = np.random.default_rng(seed)
    count, dim = rng.integers(1, 6), rng.integers(2, 12)
    directions = rng.normal(size=(count, dim))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    strength = 10**smaller * rng.normal(size=count) * 10 ** (spread * rng.random(count))
    rest = rng.choice([0.1, 1.0]) * rng.normal(size=dim)
    # Most such lines are crossed; a rest that is nearly across them makes them slid on.
    along = np.linalg.lstsq(directions.T, rest, rcond=None)[0] @ directions
    rest -= (1 - 10**smaller) * along
    sides = least_pull(directions, strength, rest)
    slope = strength * (directions @ (rest + (sides * strength) @ directions))
    noise = 1e-10 * np.abs(strength) * (np.linalg.norm(rest) + np.abs(strength).sum())
    assert (np.abs(sides) <= 1).all()
    inside = np.abs(sides) < 1
    assert (np.abs(slope[inside]) <= noise[inside]).all()
    assert (slope[~inside] * sides[~inside] <= noise[~inside]).all()


@pytest.mark.parametrize("dim", [2, 4])
def test_whether_a_neuron_still_rests_is_what_the_rule_says(dim: int) -> None:
    """Asked from the ς that held it before the pulls changed, by little or by much; both answers occur."""
    answers = []
    for seed in range(150):
        rng = np.random.default_rng([seed, dim])
        directions = rng.normal(size=(int(rng.integers(dim, 30)), dim))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        strength, drift = -np.abs(rng.normal(size=len(directions))), 0.3 * rng.normal(size=dim)
        strength[rng.random(len(strength)) < 0.2] *= -0.1
        nowhere = np.zeros(len(directions), dtype=bool)
        held = from_zero(directions, strength, drift, np.ones(len(directions)), nowhere, rests=True)
        if not held.rests:
            continue
        for change in (1e-9, 1e-2, 1.0, 10.0):
            now = strength + change * 0.1 * rng.normal(size=len(strength)), drift + change * rng.normal(size=dim)
            expected = from_zero(directions, *now, held.side, nowhere, rests=True).rests
            assert still_rests(directions, *now, held.side) == expected
            answers.append(expected)
    assert 0.1 < np.mean(answers) < 0.9


def test_lines_slid_on_are_independent() -> None:
    """Of three lines in a plane, a neuron held at the origin of it slides on two at most."""
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [np.sqrt(0.5), np.sqrt(0.5)]])
    sides = least_pull(directions, np.full(3, -1.0), np.array([0.1, 0.2]))
    assert np.sum(np.abs(sides) < 1) <= 2
    np.testing.assert_allclose([0.1, 0.2] - sides @ directions, 0.0, atol=1e-14)


def test_small_systems() -> None:
    rng = np.random.default_rng(0)
    for count in range(5):
        matrix, right = rng.normal(size=(count, count)), rng.normal(size=count)
        np.testing.assert_allclose(solved(matrix.copy(), right.copy()), np.linalg.solve(matrix, right), rtol=1e-9)
    assert np.isinf(solved(np.zeros((2, 2)), np.ones(2))).all()


@pytest.mark.parametrize("samples", [300, 2600])  # with the products of all lines at hand, and without
def test_crowded_lines_against_small_steps(samples: int) -> None:
    """Hundreds of crossings and slides per neuron, beside ẇ = w₂c, ẇ₂ = cᵀw by the midpoint rule."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(samples, 4))
    data = bf.Dataset(inputs, np.sin(2 * inputs[:, 0]) + np.abs(inputs[:, 1]))
    start = Network.init([4, 6, 1], 0.0, 1e-6, 0)
    until, steps = 6.0, 20_000 if samples == 300 else 4000
    flow = theory.early_flow(start, data, until=until)
    assert np.sum(flow.switches.kinds == "cross") > 100 * samples / 300

    def velocity(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        active = inputs @ first.T > 0
        pull = (active * data.targets[:, None]).T @ inputs / samples
        return second[:, None] * pull, np.einsum("hd,hd->h", pull, first)

    first, second = np.asarray(start.weights[0]), np.asarray(start.weights[1])[0]
    step = until / steps
    for _ in range(steps):
        one, two = velocity(first, second)
        one, two = velocity(first + 0.5 * step * one, second + 0.5 * step * two)
        first, second = first + step * one, second + step * two
    found = flow.at(until)
    size = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(found.weights[0]) / size, first / size, atol=2e-3)
    np.testing.assert_allclose(np.asarray(found.weights[1])[0] / size[:, 0], second / size[:, 0], atol=2e-3)


@pytest.mark.parametrize("power", [-120, -190, -300, 100])
def test_what_is_decided_does_not_depend_on_the_size_of_pulls(power: int) -> None:
    """Pulls of 1e-190 have squares of 0: a neuron was sent from w = 0 to where it could not stay."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        directions = rng.normal(size=(4, 2))
        strength, drift = rng.normal(size=4), rng.normal(size=2)
        side, sliding = np.sign(rng.normal(size=4)), np.array([False, False, False, True])
        for rule in (
            lambda q, u, *rest: from_zero(rest[0], q, u, *rest[1:]),
            lambda q, u, *rest: settle(rest[0], q, u, 1.0, *rest[1:], np.array([1])),
        ):
            one, other = (rule(s * strength, s * drift, directions, side, sliding) for s in (1.0, 10.0**power))
            np.testing.assert_array_equal(one.sliding, other.sliding)
            np.testing.assert_allclose(one.side, other.side, rtol=1e-9)


def sums_of_exponentials(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rates ±s and 0, falling, and twelve sums that begin above zero, one of them at it."""
    rng = np.random.default_rng(seed)
    half = np.sort(rng.uniform(0.1, 2, size=3))
    rates = np.concatenate([half[::-1], [0.0], -half])
    parts = rng.normal(size=(12, 7))
    parts[:, 3] += np.maximum(0, 0.1 - parts.sum(axis=1))
    parts[0, 3] -= parts[0].sum()
    return rates, parts


@pytest.mark.parametrize("seed", range(30))
def test_the_first_zero_of_sums_of_exponentials_is_what_a_fine_grid_shows(seed):
    rates, parts = sums_of_exponentials(seed)
    times = np.linspace(0, 40, 40_001)[1:]
    with np.errstate(over="ignore"):
        values = np.exp(np.multiply.outer(times, rates)) @ parts.T
    below = np.where((values < 0).any(axis=0), times[(values < 0).argmax(axis=0)], np.inf)
    found, which = first_zero(rates, parts, np.inf)
    assert found == pytest.approx(below.min(), abs=1.1e-3)
    if np.isfinite(found):
        assert which == below.argmin()
        assert abs(np.exp(rates * found) @ parts[which]) <= 1e-11 * np.abs(parts[which] * np.exp(rates * found)).sum()
    assert first_zero(rates, parts, 0.5 * min(found, 10.0))[1] == -1


@pytest.mark.parametrize("apart", [1e-6, 1e-9, 1e-13, 1e-15])
@pytest.mark.parametrize("rest", [(0, 0, 0), (30, -1, 5)])
def test_rates_that_are_almost_the_same_take_few_arcs(apart, rest):
    """The sum falls after ln 2 over the difference of two rates: up to 10¹⁵ e-folds, once looked at one by one."""
    rates, before = np.array([1 + apart, 1.0, 0.0, -1.0, -1.0]), WORK.arcs
    time, which = first_zero(rates, np.array([[-1.0, 2.0, *rest]]), np.inf)
    assert which == 0
    assert time == pytest.approx(np.log(2) / (rates[0] - rates[1]), rel=1e-12)
    assert WORK.arcs - before <= 30


def test_a_sum_of_equal_rates_never_falls():
    before = WORK.arcs
    assert first_zero(np.array([1.0, 1.0, 0.0]), np.array([[-1.0, 2.0, 0.0], [-2.0, 3.0, 1.0]]), np.inf)[1] == -1
    assert WORK.arcs - before <= 60


def a_neuron_and_lines_in_a_plane(seed: int) -> tuple[np.ndarray, ...]:
    """Three dimensions; directions, strengths, drift, w and w₂."""
    rng = np.random.default_rng(seed)
    count = rng.integers(3, 7)
    angle = rng.uniform(0, np.pi, count)
    directions = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    if rng.random() < 0.5:
        directions = np.vstack([directions, [0.0, 0.0, 1.0]])
    strength = rng.normal(size=len(directions))
    strength[:count] = -np.abs(strength[:count]) * np.where(rng.random(count) < 0.8, 1, -1)
    return directions, strength, rng.normal(size=3), rng.normal(size=3), np.abs(rng.normal())


@pytest.mark.parametrize("seed", [26, 91, 102, 107, 135, 149, 183, 184, 192, 276, 287])
def test_lines_of_a_plane_that_are_met_at_once_against_small_steps(seed: int) -> None:
    """A neuron slides on one of them to where all meet. It used to decide on one after the other, and to forget those
    it had just passed when a later decision turned it back."""
    directions, strength, drift, first, second = a_neuron_and_lines_in_a_plane(seed)
    runner = Runner(directions, strength, drift, 0 * strength, first[None], np.array([second]))
    runner.advance_all(2.0)
    assert not runner.stuck
    w, v, size = runner.segments().at(2.0, 1)
    for _ in range(10_000):
        pull = drift + (np.sign(directions @ first) * strength) @ directions
        first, second = first + 2e-4 * second * pull, second + 2e-4 * pull @ first
    scale = np.abs(first).max() + abs(second)
    np.testing.assert_allclose(np.exp(size[0]) * w[0], first, atol=6e-3 * scale)
    assert np.exp(size[0]) * v[0] == pytest.approx(second, abs=6e-3 * scale)


def test_more_than_one_way_out_of_where_lines_of_a_plane_meet_is_a_branch() -> None:
    directions, strength, drift, first, second = a_neuron_and_lines_in_a_plane(93)
    runner = Runner(directions, strength, drift, 0 * strength, first[None], np.array([second]))
    runner.advance_all(2.0)
    table = runner.switches()
    assert (strength[table.lines[table.kinds == "branch"]] > 0).all()
    assert (table.kinds == "branch").sum() == 2


def a_neuron_on_lines(seed: int, lies_on: int = 1) -> tuple[np.ndarray, ...]:
    """Lines along the axes and two others; so many entries of w are zero."""
    rng = np.random.default_rng([seed, 5])
    dim = max(rng.integers(2, 4), lies_on + 1)
    directions = np.vstack([np.eye(dim), rng.normal(size=(2, dim))])
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    strength, drift, first = rng.normal(size=len(directions)), 2 * rng.normal(size=dim), rng.normal(size=dim)
    first[rng.integers(dim)] = 0.0
    first[: lies_on - 1] = 0.0
    return directions, strength, drift, first, np.abs(rng.normal())


@pytest.mark.parametrize("seed", [12, 15, 21, 27])
def test_a_start_on_a_line_that_repels_goes_where_it_is_pulled(seed: int) -> None:
    """The other side was taken, whatever pulled at it, and the line was never met again."""
    directions, strength, drift, first, second = a_neuron_on_lines(seed)
    runner = Runner(directions, strength, drift, 0 * strength, first[None], np.array([second]))
    runner.advance_all(0.2)
    w, _, size = runner.segments().at(0.2, 1)
    for _ in range(2000):
        pull = drift + (np.sign(directions @ first) * strength) @ directions
        first, second = first + 1e-4 * second * pull, second + 1e-4 * pull @ first
    np.testing.assert_allclose(np.exp(size[0]) * w[0], first, atol=5e-3 * np.abs(first).max())


def test_a_neuron_that_is_turned_back_for_ever_is_said_to_be_stuck(monkeypatch) -> None:
    """Where a decision put it on a side that leads back, and the next one changed nothing: no rule does so."""
    unchanged = lambda *given: Settled(given[4], given[5], [])  # noqa: E731
    monkeypatch.setattr(_neurons, "where_many_meet", unchanged)
    monkeypatch.setattr(_neurons, "start_on", lambda *given: Start(Settled(-given[4], given[4] == 0, []), []))
    neuron = [[0.0, 1.0]], [1.0]
    runner = Runner(np.eye(2)[:1], np.array([0.1]), np.array([1.0, 0.5]), np.zeros(1), *map(np.array, neuron))
    runner.advance_all(1.0)
    assert runner.stuck


def test_a_start_on_a_line_against_all_that_it_may_be() -> None:
    """One line and pulls of all kinds, on it and beside it; ς is what ẇ leads to, and the other one is told."""
    e, rng, seen = np.eye(2)[:1], np.random.default_rng(0), set()
    for _ in range(300):
        q, kink, u = rng.choice([-1.0, 0.0, 1.0]), rng.choice([-1.0, 0.0, 1.0]), float(rng.integers(-2, 3))
        settled, either = start_on(
            e, np.array([q]), np.array([u, 0.3]), np.array([kink]), np.ones(1), np.zeros(1, dtype=int), 1e-9
        )
        side = float(settled.side[0])
        if u - q >= 0 and u + q <= 0 and q < 0:  # both lead back
            assert side == pytest.approx(-u / q)
            assert bool(settled.sliding[0]) == (abs(side) < 1)
        else:
            assert side * (u + side * q) >= 0  # it does not lead back
        both = u - q <= 0 <= u + q and q > 0
        assert either == ([0] if both else [])
        if both and u + kink:
            assert side == np.sign(u + kink)  # as descent
        elif both and u:
            assert side == -np.sign(u)  # where less pulls
        seen.add((both, bool(settled.sliding[0]), side))
    assert len(seen) >= 5
