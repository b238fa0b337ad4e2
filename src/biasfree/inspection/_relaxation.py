"""Sound bounds on what a bias-free network can reach on the unit ball or the unit box, by linear relaxation.

Where l ≤ h ≤ u, σ(h) lies between two lines in h: exactly one where l ≥ 0 or u ≤ 0, otherwise the chord above and any
slope between α and 1 below. Put in place of σ from the output backwards, every quantity is held between two affine
functions of the input, whose extrema on a ball or a box are norms of their coefficients.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.models._layers import Layers

# Beyond the rounding of the sums involved, relative to the largest of them.
ROUNDING = 1e-12
_LOWER_SLOPES = ("parallel", "adaptive")


@dataclass(frozen=True)
class Ranges:
    """Bounds on the inputs of the hidden neurons: per layer, shape (width,) each."""

    low: tuple[Float[np.ndarray, "width"], ...]
    high: tuple[Float[np.ndarray, "width"], ...]


def ranges(model: Layers, norm: float) -> Ranges:
    """How far the input of each hidden neuron can reach where ‖x‖ ≤ 1.

    Args:
        model: without biases.
        norm: 2 for the ball, ``np.inf`` for the box.
    """
    low: list[np.ndarray] = []
    high: list[np.ndarray] = []
    for layer in range(model.depth - 1):
        least, most = _extremes(model, model.weights[layer], layer, Ranges(tuple(low), tuple(high)), norm, None)
        low.append(least)
        high.append(most)
    return Ranges(tuple(low), tuple(high))


def deviation_bound(
    model: Layers, linear_map: Float[np.ndarray, "out dim"], norm: float = 2
) -> Float[np.ndarray, "out"]:
    """For each output a bound on |f(x) − Mx| where ‖x‖ ≤ 1, hence by homogeneity on |f(x) − Mx|/‖x‖ everywhere."""
    known = ranges(model, norm)
    low, high = _extremes(model, model.weights[-1], model.depth - 1, known, norm, linear_map)
    return np.maximum(high, -low)


def _extremes(
    model: Layers,
    rows: Float[np.ndarray, "rows width"],
    layer: int,
    known: Ranges,
    norm: float,
    minus: Float[np.ndarray, "rows dim"] | None,
) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]:
    """The least and the largest that rows · σ(h_layer) − minus · x can be, by whichever choice of lines is tighter."""
    tried = [
        (-_largest(model, -rows, layer, known, norm, None if minus is None else -minus, lower),
         _largest(model, rows, layer, known, norm, minus, lower))
        for lower in (_LOWER_SLOPES if layer else _LOWER_SLOPES[:1])
    ]  # fmt: skip
    return np.max([low for low, _ in tried], axis=0), np.min([high for _, high in tried], axis=0)


def _largest(
    model: Layers, rows: np.ndarray, layer: int, known: Ranges, norm: float, minus: np.ndarray | None, lower: str
) -> Float[np.ndarray, "rows"]:
    constant = np.zeros(len(rows))
    size = np.zeros(len(rows))
    for k in range(layer - 1, -1, -1):
        below, above, offset = _lines(known.low[k], known.high[k], model.slopes[k], lower)
        positive, negative = np.maximum(rows, 0), np.minimum(rows, 0)
        constant = constant + positive @ offset
        size = size + np.abs(rows) @ np.maximum(np.abs(known.low[k]), np.abs(known.high[k]))
        rows = (positive * above + negative * below) @ model.weights[k]
    if minus is not None:
        rows = rows - minus
        size = size + np.abs(minus).sum(axis=1)
    dual = 1 if np.isinf(norm) else 2
    reach = np.linalg.norm(rows, ord=dual, axis=1)
    return constant + reach + ROUNDING * (size + reach)


def _lines(low: np.ndarray, high: np.ndarray, slope: float, lower: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slope of the line below (through 0), slope and offset of the line above σ between low and high."""
    below = np.where(low >= 0, 1.0, slope)
    above = below.copy()
    offset = np.zeros_like(low)
    open_ = (low < 0) & (high > 0)
    least, most = low[open_], high[open_]
    above[open_] = (most - slope * least) / (most - least)
    offset[open_] = -(1 - slope) * most * least / (most - least)
    below[open_] = above[open_] if lower == "parallel" else np.where(most > -least, 1.0, slope)
    return below, above, offset
