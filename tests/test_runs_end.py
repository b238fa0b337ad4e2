"""Runs of several outputs come to their end, and what they cost is counted; nothing here looks at a clock."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import biasfree as bf
from biasfree.dynamics.exact import _exact
from biasfree.dynamics.exact._data import by_line
from biasfree.dynamics.exact._late import LateStep
from biasfree.dynamics.exact._sliding import nobody_slides
from biasfree.lines import lines
from tests.random_problems import wide_problem_of_several

DECAY = 0.1


def linear_step(sizes: tuple[float, float]) -> LateStep:
    """A linear network of two outputs at e₁ → e₁ and e₂ → e₂, of one row each, and a light row in some direction."""
    data = by_line(lines(np.eye(2)), bf.Dataset(np.eye(2), np.eye(2)), 1.0, "square", "time", DECAY)
    one, other = sizes
    z = np.array([[one, 0.0, one, 0.0], [0.0, other, 0.0, other], [3e-20, 1e-20, 2e-20, 5e-20]])
    return LateStep(z, data, nobody_slides(np.ones((3, len(data.directions))), np.arange(3), 2), 1e-9)


class TestRestUnderDecay:
    """Where rows rest, λ is a singular value of every M: it holds them against decay. It may be so twice."""

    rests = math.sqrt(1 - 2 * DECAY)  # where a residual of ½(1 − u²) is λ

    def test_two_pulls_that_hold_against_decay_make_nothing_grow(self) -> None:
        step = linear_step((self.rests, self.rests))
        np.testing.assert_allclose(np.linalg.svd(step._light_pulls()[-1], compute_uv=False), DECAY)
        assert step.rests(1e9, 1e-6)
        times = np.array([0.0, 1.0, 30.0, 1e4])
        pull, fades = step._light_pulls()[-1], -DECAY * np.eye(2)
        pulled = np.block([[fades, pull], [pull.T, fades]])
        expected = [expm(time * pulled) @ step.z[2] for time in times]
        np.testing.assert_allclose(step.at_rest(times)[0][:, 2], expected, rtol=1e-10)

    def test_a_light_row_that_one_of_two_pulls_makes_grow_is_waited_for(self) -> None:
        step = linear_step((self.rests, 0.0))
        assert np.linalg.svd(step._light_pulls()[-1], compute_uv=False)[0] == pytest.approx(0.5)
        assert not step.rests(1e9, 1e-6)

    @pytest.mark.parametrize("seed", [152, 196])
    def test_wide_problems_that_end_at_rest_take_few_steps(self, seed: int) -> None:
        """They took three hundred arcs at a time until t = 10⁹, for light rows that λ held."""
        start, data, options = wide_problem_of_several(seed)
        runs = [bf.gradient_flow(start, data, save=3, rtol=rtol, max_steps=2500, **options) for rtol in (1e-6, 1e-8)]
        for run in runs:
            assert run.status.name == "reached"
            assert run.stretches[-1].how == "coming to rest"
        for one, other in zip(*(run.weights for run in runs), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(other).max())


class TestWhatIsCounted:
    """A run that nobody has limited ends by its work, so that nothing costly may be left out of it."""

    def test_every_arc_of_an_exponential_step_is_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wide problem 152, if it never saw rest: steps of three hundred arcs took three times what was counted."""
        monkeypatch.setattr(LateStep, "rests", lambda *_: False)
        start, data, options = wide_problem_of_several(152)
        work = [bf.gradient_flow(start, data, **{**options, "until": end}).counts.work for end in (1.5e5, 5e5)]
        steps = 3.5e5 / 71_000  # each is as long as three hundred arcs may be
        assert work[1] - work[0] > 12_000 * steps

    def test_neurons_that_two_equal_pulls_let_fade_are_not_watched_for_ever(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two singular values differ by rounding alone: a line that would be met after 10¹⁶ e-folds was looked for."""
        angles, rng = 0.1 + 0.4 * math.pi * np.arange(5), np.random.default_rng(0)
        inputs = np.column_stack([np.cos(angles), np.sin(angles)])
        inputs = np.concatenate([inputs, -inputs])
        targets = inputs * np.where(np.arange(10) == 0, 1.3, 1.0)[:, None]
        start = bf.Network([1e-60 * rng.normal(size=(120, 2)), 1e-60 * rng.normal(size=(2, 120))], 0.0)
        data, how = bf.Dataset(inputs, targets), dict[str, Any](weight_decay=2.0, save=3)
        run = bf.gradient_flow(start, data, until=1e8, **how)
        assert run.status.name == "reached"
        assert 120 < run.counts.work < 1e5
        assert not run.weights[0][-1].any()
        how |= {"until": 30.0, "rtol": 1e-8}
        closed = bf.gradient_flow(start, data, **how)
        monkeypatch.setattr(_exact, "_SMALL", 10**9)
        steps = bf.gradient_flow(start, data, **how)
        assert closed.stretches[0].how == "early phase, in closed form" != steps.stretches[0].how
        for one, other in zip(closed.weights, steps.weights, strict=True):
            sizes = np.abs(other).max(axis=(1, 2), keepdims=True)
            np.testing.assert_allclose(one / sizes, other / sizes, rtol=0, atol=1e-7)


def test_what_a_run_was_between_its_saves_costs_no_more_than_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide problem 19904 ended in time, and took up again from where it was last saved it went on without end."""
    start, data = bf.Network.init([2, 12, 1], 0.0, 1e-2, 0), bf.datasets.six_points()
    unasked, asked = (bf.gradient_flow(start, data, until=900.0, save=1, max_steps=most) for most in (None, 10_000))
    np.testing.assert_allclose(unasked.at(800.0).weights[0], asked.at(800.0).weights[0])
    monkeypatch.setattr("biasfree.dynamics._work._ALLOWED", 10.0)
    with pytest.raises(RuntimeError, match=r"could not integrate to 800: stopped at .* as much work as a run"):
        unasked.at(800.0)
    assert asked.at(800.0)
