"""The size of a step's error.

An error is judged against the size of the neurons it touches, not against each number alone (some are always near
zero) nor against the largest layer (a group of neurons may still be 10⁶ times smaller than another and must be right in
proportion, for it grows later).
"""

import itertools
import math

import numpy as np
from jaxtyping import Float

Flat = Float[np.ndarray, "size"]


def error_ratio(error: Flat, before: Flat, after: Flat, sizes: Flat, atol: float, rtol: float) -> float:
    """Root mean square of error/(atol + rtol · size), size as in the module's text; above 1 is too much."""
    scale = np.maximum(np.maximum(np.abs(before), np.abs(after)), sizes)
    ratio = error / (atol + rtol * scale)
    return math.sqrt(float(ratio @ ratio) / ratio.size)


def entry_sizes(weights: tuple[Float[np.ndarray, "out in"], ...]) -> Flat:
    """For each entry of each layer, in one row, the smaller of the sizes of the two neurons it joins."""
    if len(weights) == 1:
        return np.full(weights[0].size, math.sqrt(float(np.mean(weights[0] ** 2))))
    into = [np.einsum("oi,oi->o", w, w) / w.shape[1] for w in weights[:-1]]
    out = [np.einsum("oi,oi->i", w, w) / w.shape[0] for w in weights[1:]]
    hidden = [np.sqrt(one + other) for one, other in zip(into, out, strict=True)]
    middle = [np.minimum(after[:, None], before).ravel() for before, after in itertools.pairwise(hidden)]
    return np.concatenate([np.repeat(hidden[0], weights[0].shape[1]), *middle, np.tile(hidden[-1], len(weights[-1]))])
