"""Plateaus that are said to last for ever: runs a thousand times longer, and a second criterion for each claim."""

import numpy as np
import pytest

import biasfree as bf
from biasfree import theory
from tests.measure.plateau_families import random_set

CLAIMS = {
    "xor": (bf.datasets.xor(), 40, 1e-12, 0, 150.0, "minimum"),
    "orthogonal pair": (bf.datasets.orthogonal_pair(), 20, 1e-8, 0, 100.0, "minimum"),
    "six points, a draw that stays": (bf.datasets.six_points(), 100, 1e-3, 1, 2000.0, "nobody grows"),
    # It leaves a saddle at about t = 1900 (when and which way rounding decides; a branch is logged) and fits slowly.
    "random 2": (random_set(2), 60, 1e-12, 2, 4500.0, None),
    "random 6": (random_set(6), 60, 1e-12, 6, 3000.0, None),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_it_stays_for_a_thousand_times_as_long(name: str) -> None:
    data, width, scale, seed, until, kind = CLAIMS[name]
    start = bf.Network.init([data.dim, width, 1], 0.0, scale, seed)
    run = bf.gradient_flow(start, data, until=until)
    last = run.plateaus()[-1]
    assert (last.end, last.predicted_end) == (np.inf, np.inf)
    assert kind in (None, last.reason.kind)
    longer = bf.gradient_flow(run.final, data, until=1000 * until)
    assert longer.losses[-1] == pytest.approx(last.level, abs=1e-3 * run.losses[0])
    if last.reason.kind == "minimum":
        # No network of any width does better: a least-squares problem, solved by itself.
        assert last.level == pytest.approx(theory.best_possible_loss(data).loss, abs=1e-6 * run.losses[0])
    else:
        # It is a local minimum and no more: descent, from weights nudged a little, comes back to it.
        rng = np.random.default_rng(0)
        nudged = [
            np.asarray(layer) + 1e-3 * rng.normal(size=layer.shape) * (np.abs(layer) > 1e-3)
            for layer in run.final.weights
        ]
        back = bf.gradient_descent(run.final.with_weights(nudged), data, learning_rate=0.02, steps=50_000)
        assert back.losses[-1] == pytest.approx(last.level, abs=1e-3 * run.losses[0])
        assert theory.best_possible_loss(data).loss < last.level - 1e-3 * run.losses[0]
