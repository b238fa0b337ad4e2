"""Depth separation in training: on Eq. 3's odd function two layers stop at the linear solution, three go on."""

import numpy as np
import pytest

import biasfree as bf
from biasfree.theory import best_possible_loss


def two_layers(seed: int) -> tuple[float, float]:
    """Final loss at t = 2000 (10,000 epochs at 0.2), and the least any two-layer network can reach."""
    data = bf.datasets.depth_separation(seed=seed)
    run = bf.gradient_flow(bf.Network.init([2, 100, 1], 0.0, 1e-2, seed), data, until=2000, save=2, rtol=1e-5)
    return float(run.losses[-1]), float(best_possible_loss(data, depth=2))


def test_two_layers_stop_at_the_linear_solution() -> None:
    loss, least = two_layers(0)
    data = bf.datasets.depth_separation(seed=0)
    assert least == pytest.approx(float(best_possible_loss(data, slope=1.0)), rel=1e-10)
    assert least < loss * (1 + 1e-9)
    assert loss == pytest.approx(least, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_for_other_seeds_too(seed: int) -> None:
    loss, least = two_layers(seed)
    assert loss == pytest.approx(least, rel=1e-3)


def three_layers(seed: int, points: str = "gaussian", pairs: int = 100) -> tuple[float, float]:
    """Lowest loss until t = 2500, data and weights from one stream, and the linear solution's."""
    rng = np.random.default_rng(seed)
    data = bf.datasets.depth_separation(pairs, points, seed=rng)
    start = bf.Network.init([2, 100, 100, 1], 0.0, 1e-2, rng)
    run = bf.gradient_flow(start, data, until=2500, save=[2500], rtol=1e-5, stop=1e-4)
    return float(run.losses[-1]), float(best_possible_loss(data, slope=1.0))


def test_three_layers_go_on_to_zero() -> None:
    loss, linear = three_layers(0)
    assert loss <= 1e-4 < linear / 100


@pytest.mark.slow
def test_three_layers_either_learn_the_function_or_wait_at_the_linear_solution() -> None:
    """Not every draw leaves by t = 2500: three of these ten do not."""
    draws = [three_layers(seed) for seed in range(10)]
    learned = [loss <= 1e-4 for loss, _ in draws]
    for (loss, linear), done in zip(draws, learned, strict=True):
        assert done or loss == pytest.approx(linear, rel=1e-3)
    assert learned[:3] == [True, True, True]
    assert 5 <= sum(learned) < 10


@pytest.mark.slow
def test_on_the_circle_most_wait_at_the_linear_solution() -> None:
    draws = [three_layers(seed, "circle", 32) for seed in range(6)]
    waiting = [loss == pytest.approx(linear, rel=1e-2) for loss, linear in draws]
    assert sum(waiting) >= 3


@pytest.mark.slow
def test_the_papers_descent_waits_for_the_same_draw() -> None:
    """80,000 steps at rate 0.2, from a draw that the flow does not see leave either."""
    rng = np.random.default_rng(3)
    data = bf.datasets.depth_separation(seed=rng)
    start = bf.Network.init([2, 100, 100, 1], 0.0, 1e-2, rng)
    run = bf.gradient_descent(start, data, learning_rate=0.2, steps=80_000, save=[80_000])
    assert run.losses[-1] == pytest.approx(float(best_possible_loss(data, slope=1.0)), rel=1e-3)
