"""Plain gradient descent on a two-layer network, written to be obviously right: the source of truths in tests."""

from typing import Any, NamedTuple

import numba
import numpy as np


class End(NamedTuple):
    """Where descent gets to: the loss without decay's part, and the weights."""

    loss: float
    first: np.ndarray
    second: np.ndarray


def descend(
    inputs: Any, targets: Any, first: Any, second: Any, *, until: float, steps: int, slope: float = 0.0,
    weight_decay: float = 0.0,
) -> End:  # fmt: skip
    """Square loss, ``steps`` steps at rate until/steps; σ'(0) is the slope of the negative side."""
    first, second = np.array(first, float), np.array(second, float).ravel()
    inputs, targets = np.array(inputs, float), np.array(targets, float).ravel()
    loss = _descend(inputs, targets, first, second, until / steps, steps, slope, weight_decay)
    return End(loss, first, second)


def limit(*problem: Any, steps: int, **options: Any) -> tuple[float, float]:
    """The loss extrapolated linearly to rate zero from two rates, and by how much that moves it."""
    rough, fine = (descend(*problem, steps=count, **options).loss for count in (steps, 2 * steps))
    return 2 * fine - rough, abs(fine - rough)


@numba.njit(cache=True)
def _descend(inputs, targets, first, second, rate, steps, slope, decay):
    samples, dim = inputs.shape
    width = len(second)
    moves, turns = np.zeros_like(first), np.zeros_like(second)
    before = np.zeros((width, samples))
    outputs = np.zeros(samples)
    for step in range(steps + 1):
        outputs[:] = 0.0
        for h in range(width):
            for i in range(samples):
                total = 0.0
                for d in range(dim):
                    total += first[h, d] * inputs[i, d]
                before[h, i] = total
                outputs[i] += second[h] * (total if total > 0 else slope * total)
        if step == steps:
            break
        for h in range(width):
            turns[h] = -decay * second[h]
            for d in range(dim):
                moves[h, d] = -decay * first[h, d]
            for i in range(samples):
                error = (targets[i] - outputs[i]) / samples
                gate = 1.0 if before[h, i] > 0 else slope
                turns[h] += error * gate * before[h, i]
                for d in range(dim):
                    moves[h, d] += error * gate * second[h] * inputs[i, d]
        first += rate * moves
        second += rate * turns
    return 0.5 * np.mean((outputs - targets) ** 2)
