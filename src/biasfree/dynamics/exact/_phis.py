"""The functions φ_k(z) = Σ_i z^i/(i + k)! of exponential steps."""

import math

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._methods import NODES

_SERIES, _TERMS = 3.0, 26  # |z| below which φ's formulas cancel, up to 30 times for φ₈, and terms of its series there
FACTORIALS = np.array([math.factorial(j) for j in range(_TERMS + len(NODES) + 1)], dtype=float)
_SERIES_OF = 1 / FACTORIALS[np.arange(1, len(NODES) + 1)[:, None] + np.arange(_TERMS)]


def phis(z: Float[np.ndarray, "*n"], last: int) -> Float[np.ndarray, "last *n"]:
    """φ₁, …, φ_last of each entry; where the formulas cancel, by series.

    >>> one, two, three = phis(np.array([0.0, -1e9]), 3)
    >>> bool(np.allclose(one, [1, 1e-9])), bool(np.allclose(three * 6, [1, 3e-9]))
    (True, True)
    """
    flat = z.ravel()
    small = np.flatnonzero(np.abs(flat) < _SERIES)
    y = np.minimum(flat, 700.0)
    y[small] = 1.0
    values = np.empty((last, flat.size))
    values[0] = np.expm1(y) / y
    for k in range(1, last):
        values[k] = (values[k - 1] - 1 / FACTORIALS[k]) / y
    near, powers = flat[small], np.ones((_TERMS, small.size))
    for i in range(1, _TERMS):
        np.multiply(powers[i - 1], near, out=powers[i])
    values[:, small] = _SERIES_OF[:last] @ powers
    return values.reshape(last, *z.shape)
