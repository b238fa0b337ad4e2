"""The first zero of sums of exponentials, compiled (``native/sums.c``)."""

from ctypes import byref, c_int64

import numpy as np
from jaxtyping import Float

from biasfree.native import address, library
from biasfree.switching._box import WORK


def first_zero(
    rates: Float[np.ndarray, "terms"], parts: Float[np.ndarray, "sums terms"], room: float
) -> tuple[float, int]:
    """When one of the sums Σ_j c_j e^{r_j t}, which begin at or above zero, first falls below it, and which.

    A sum that begins at zero, up to rounding, is taken to begin there exactly: it falls below only if it goes down.

    Args:
        rates: r, falling.
        parts: c of each sum.
        room: how far to look.

    Returns:
        The time and the sum's number; −1 if none falls below within ``room``: the time is then ``room``, or infinite if
        none ever does.

    >>> time, which = first_zero(np.array([1.0, 0.0, -1.0]), np.array([[1.0, 0.0, 1.0], [-1.0, 4.0, 0.0]]), np.inf)
    >>> round(time, 9), which  # ln 4
    (1.386294361, 1)
    """
    rates, parts = np.ascontiguousarray(rates, dtype=float), np.ascontiguousarray(parts, dtype=float)
    part, flags = np.empty(2 * len(rates)), np.empty((2, len(parts)), dtype=np.uint8)
    which, arcs = c_int64(), c_int64()
    time = library().biasfree_first_zero(
        address(rates), address(parts), len(parts), len(rates), room, address(part), address(flags[0], np.uint8),
        address(flags[1], np.uint8), byref(which), byref(arcs),
    )  # fmt: skip
    WORK.arcs += 1 + arcs.value
    return time, which.value
