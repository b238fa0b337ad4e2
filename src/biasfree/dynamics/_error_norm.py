"""The size of a step's error.

An error is judged against the size of the neurons it touches, not against each number alone (some are always near
zero) nor against the largest layer (a group of neurons may still be 10⁶ times smaller than another and must be right in
proportion, for it grows later). The size of a neuron is √(⟨w²⟩ + ⟨v²⟩) over the weights that enter and leave it, and a
weight is judged against the smaller one of the two neurons it joins. The loops are C (``native/deep.c``).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._runge_kutta import Method
from biasfree.dynamics.exact._kernels import engine
from biasfree.native import address

Flat = Float[np.ndarray, "size"]


class Sizes(NamedTuple):
    """What errors are judged against, weight by weight, and ‖W_l‖² of every layer."""

    weights: Flat
    layers: Float[np.ndarray, "layers"]


def sizes_of(flat: Flat, shapes: list[tuple[int, ...]]) -> Sizes:
    """Of the weights of all layers, in one row.

    >>> [each.round(3).tolist() for each in sizes_of(np.array([3.0, 4.0, 0.0, 5.0]), [(2, 1), (1, 2)])]
    [[3.0, 6.403, 3.0, 6.403], [25.0, 25.0]]
    """
    widths = np.array([shapes[0][1], *(shape[0] for shape in shapes)], dtype=np.int64)
    sizes, layers, room = np.empty(flat.size), np.empty(len(shapes)), np.empty(int(widths.sum()))
    engine().biasfree_deep_sizes(
        address(widths, np.int64), len(shapes), address(flat), address(sizes), address(layers), address(room)
    )
    return Sizes(sizes, layers)


def error_ratio(
    stages: Float[np.ndarray, "s+1 size"], method: Method, before: Flat, after: Flat, sizes: Flat, atol: float,
    rtol: float,
) -> float:  # fmt: skip
    """Root mean square of error/(atol + rtol · size) of a step of length 1."""
    second = None if method.second is None else address(method.second)
    return engine().biasfree_deep_error(
        before.size, len(method.b), address(stages), address(method.error), second, address(before), address(after),
        address(sizes), atol, rtol,
    )  # fmt: skip
