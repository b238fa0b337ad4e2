"""How the cost of a gradient grows when samples, width or dimension double, twice."""

import itertools
from statistics import median
from typing import Any

import numpy as np

import biasfree as bf
from bench._clock import say, timed
from bench._figure3 import complete

BASE = {"samples": 2000, "width": 500, "dim": 20}
SEED, RATE, SCALE = 0, 0.004, 1e-2


def measure(quick: bool) -> dict[str, Any]:
    """Seconds per step of ``gradient_descent`` for each size, and the factor of each doubling."""
    rounds, steps = (3, 100) if quick else (5, 200)
    sizes = {("base", 1): BASE}
    sizes |= {(axis, factor): BASE | {axis: factor * BASE[axis]} for axis in BASE for factor in (2, 4)}
    problems = {key: _problem(**size) for key, size in sizes.items()}
    say("growth: warm-up")
    for problem in problems.values():
        _descend(*problem, 20)
    turns: dict[Any, list[float]] = {key: [] for key in problems}
    for turn in range(rounds):
        say(f"growth: round {turn + 1} of {rounds}")
        for key, problem in problems.items():
            seconds, _ = timed(lambda problem=problem: _descend(*problem, steps))
            turns[key].append(seconds / steps)
    return {
        "settings": {"base": BASE, "steps": steps, "rounds": rounds, "rate": RATE, "scale": SCALE, "seed": SEED},
        "base_seconds_per_step": turns["base", 1],
        "axes": {axis: _axis([turns["base", 1], turns[axis, 2], turns[axis, 4]]) for axis in BASE},
    }


def _axis(columns: list[list[float]]) -> dict[str, Any]:
    """Medians by size; the factor of a doubling is the median of the quotients within a round."""
    return {
        "seconds_per_step": columns,
        "median_seconds_per_step": [median(column) for column in columns],
        "factors": [median(np.divide(large, small).tolist()) for small, large in itertools.pairwise(columns)],
    }


def _problem(samples: int, width: int, dim: int) -> tuple[bf.Network, bf.Dataset]:
    data = bf.datasets.symmetric_gaussian(dim=dim, pairs=samples // 2, target="linear_plus_sine", seed=SEED)
    return bf.Network.init([dim, width, 1], 0.0, SCALE, seed=SEED), data


def _descend(start: bf.Network, data: bf.Dataset, steps: int) -> None:
    complete(bf.gradient_descent(start, data, learning_rate=RATE, steps=steps, save=1))
