"""The least loss that networks of any width can reach: never beaten in training, attained by an explicit network."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._draws import descents
from biasfree.studies._study import Result, Study, at_least, at_most

SETS, SAMPLES, DIM, WIDTH, SCALE = 20, 8, 2, 40, 2.0
RATE, STEPS, SAVES = 0.05, 4000, 20
DEPTHS = (2, 3)


def _random_set(seed: int) -> bf.Dataset:
    """Eight samples on two to five lines, on both sides and with repeats, where not everything can be fitted."""
    rng = np.random.default_rng([seed, DIM])
    number = rng.integers(2, 6)
    angles = (np.arange(number) + rng.uniform(-0.25, 0.25, number)) * np.pi / number
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    distances = rng.choice([-1.0, 1.0, -1.5, 0.5], (SAMPLES, 1))
    return bf.Dataset(distances * directions[rng.integers(0, number, SAMPLES)], rng.normal(size=SAMPLES))


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Random sets: the bound, the network that attains it, and trained networks of two and three layers."""
    sets = [_random_set(1000 * seed + k) for k in range(SETS // 4 if quick else SETS)]
    depths = DEPTHS[:1] if quick else DEPTHS
    bounds, reached, attained = (np.zeros((len(depths), len(sets))) for _ in range(3))
    for i, depth in enumerate(depths):
        widths = [DIM, *[WIDTH] * (depth - 1), 1]
        starts = [bf.Network.init(widths, 0.0, SCALE, seed=1000 * seed + j) for j in range(len(sets))]
        trained = descents(starts, sets, learning_rate=RATE, steps=STEPS, save=SAVES)
        reached[i] = [each.losses.min() for each in trained]
        for j, data in enumerate(sets):
            best = theory.best_possible_loss(data, depth)
            bounds[i, j] = best.loss
            attained[i, j] = 0.5 * np.mean((best.network()(data.inputs) - data.targets) ** 2)
    variance = np.array([0.5 * np.mean(data.targets**2) for data in sets])
    linear = np.array([theory.best_possible_loss(data, slope=1.0).loss for data in sets])
    squares = np.array([float(theory.linear_loss(theory.least_squares(data), data)) for data in sets])
    above = (reached - bounds) / variance
    return Result(
        measured={
            "lowest trained loss above the bound": float(above.min()),
            "share of trained networks within 1 % of it": float(np.mean(above < 0.01)),
            "explicit network's loss against the bound": float(np.abs(attained - bounds).max() / variance.max()),
            "α = 1 against least squares": float(np.abs(linear - squares).max() / variance.max()),
            "share of sets that two layers cannot fit": float(np.mean(bounds[0] > 1e-9)),
            "share of sets that three layers cannot fit": float(
                np.mean([theory.best_possible_loss(data, 3).loss > 1e-9 for data in sets])
            ),
        },
        expected={
            "lowest trained loss above the bound": at_least(-1e-12),
            "share of trained networks within 1 % of it": at_least(0.9, loosely=0.5),
            "explicit network's loss against the bound": at_most(1e-12),
            "α = 1 against least squares": at_most(1e-12),
        },
        why="Along a ray a network without biases is linear, and two layers share one linear map between all lines. "
        "That leaves a least-squares problem whose minimum no width can pass; most networks of forty neurons come "
        "close to it in training, so it is the infimum and not merely a bound. Losses are relative to ½⟨y²⟩.",
        data={"bounds": bounds / variance, "reached": reached / variance, "depths": np.array(depths)},
        settings={
            "sets": len(sets), "samples": SAMPLES, "dim": DIM, "width": WIDTH, "initial scale": SCALE, "rate": RATE,
            "steps": STEPS,
        },
    )  # fmt: skip


STUDY = Study(
    id="best-possible-loss",
    title="What no width can fit",
    reference="this project, from Zhang et al., Theorem 1",
    statement="Whatever its width, a network without biases cannot bring the square loss on a given data set below a "
    "number that a linear least-squares problem gives: one for two layers, one per ray for three and more; with α = 1 "
    "it is ordinary least squares. An explicit network attains it.",
    formula="f(t d_l) = t wᵀd_l + |t| g_l (two layers),  max(t,0) p_l + max(−t,0) q_l (deep)",
    run=run,
)
