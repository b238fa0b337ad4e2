"""Depth separation in training: on Eq. 3's odd function two layers stop at the linear solution."""

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
