"""The largest ‖f(x) − Mx‖/‖x‖ that can be found: ascent on the sphere from many starts, those beside kinks included.

A lower bound on the supremum, which the certificate bounds from above; where both agree nothing is left to know.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from biasfree.models import Layers
from biasfree.theory import ParityForm

Rows = Float[np.ndarray, "points dim"]
_STARTS, _STEPS, _WORK = 1_000, 120, 4e9


def of_form(form: ParityForm, tried: Rows, seed: int) -> tuple[np.ndarray, float]:
    """x and ‖Σ c|vᵀx|‖/‖x‖ for a canonical form; not by the network's outputs, whose rounding hides parts of 1e-16."""

    def ascent(x: Rows) -> tuple[np.ndarray, Rows]:
        y = x @ form.directions.T
        rest = np.abs(y) @ form.coefficients.T
        size = np.linalg.norm(rest, axis=1)
        pull = (rest / np.where(size > 0, size, 1.0)[:, None]) @ form.coefficients
        return size, (np.sign(y) * pull) @ form.directions

    return _best(ascent, tried, form.directions, seed, form.directions.size * (1 + len(form.coefficients)))


def of_layers(
    layers: Layers, linear_map: Float[np.ndarray, "out dim"], tried: Rows, seed: int
) -> tuple[np.ndarray, float]:
    """x and ‖f(x) − Mx‖/‖x‖ for layers without biases."""

    def ascent(x: Rows) -> tuple[np.ndarray, Rows]:
        signals = layers.preactivations(x)
        rest = signals[-1] - x @ linear_map.T
        size = np.linalg.norm(rest, axis=1)
        unit = rest / np.where(size > 0, size, 1.0)[:, None]
        pull = unit @ layers.weights[-1]
        for k in range(layers.depth - 2, -1, -1):
            pull = (np.where(signals[k] > 0, 1.0, layers.slopes[k]) * pull) @ layers.weights[k]
        return size, pull - unit @ linear_map

    rows = layers.weights[0]
    return _best(ascent, tried, rows[rows.any(axis=1)], seed, 2 * sum(w.size for w in layers.weights))


def _best(
    ascent: Callable[[Rows], tuple[np.ndarray, Rows]], tried: Rows, kinks: Rows, seed: int, work: int
) -> tuple[np.ndarray, float]:
    """The best of given points, random ones and ones beside kinks, the better ones improved step by step."""
    dim = tried.shape[1]
    count = int(np.clip(_WORK / (_STEPS * max(work, 1)), 16, _STARTS))
    rng = np.random.default_rng(seed)
    random = rng.normal(size=(2 * count, dim))
    if len(kinks):
        chosen = _unit(kinks[rng.integers(len(kinks), size=count)])
        random[:count] -= (random[:count] * chosen).sum(axis=1, keepdims=True) * chosen
    starts = _unit(np.concatenate([tried[: 4 * count], random[np.abs(random).max(axis=1) > 0]]))
    size, pull = ascent(starts)
    order = np.argsort(-size)[:count]
    # Beside those that are large already some that are not: the largest may lie in a narrow wedge.
    others = len(starts) - 1 - np.arange(min(count // 2, len(starts)))
    kept = np.unique(np.concatenate([order, others]))
    x, size, pull = starts[kept], size[kept], pull[kept]
    reach = np.full(len(x), 0.3)
    for _ in range(_STEPS):
        along = pull - (pull * x).sum(axis=1, keepdims=True) * x
        length = np.linalg.norm(along, axis=1)
        moved = _unit(x + (reach / np.where(length > 0, length, 1.0))[:, None] * along)
        moved_size, fresh = ascent(moved)
        better = moved_size > size
        x, pull = np.where(better[:, None], moved, x), np.where(better[:, None], fresh, pull)
        size, reach = np.maximum(moved_size, size), reach * np.where(better, 1.5, 0.5)
    top = int(np.argmax(size))
    return x[top], float(size[top])


def _unit(vectors: Rows) -> Rows:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
