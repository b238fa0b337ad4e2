"""The functions φ_k(z) = Σ_i z^i/(i + k)! of exponential steps (``native/late.c``)."""

import math

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._kernels import engine
from biasfree.dynamics.exact._methods import NODES
from biasfree.native import address

FACTORIALS = np.array([math.factorial(j) for j in range(len(NODES) + 1)], dtype=float)


def phis(z: Float[np.ndarray, "*n"], last: int) -> Float[np.ndarray, "last *n"]:
    """φ₁, …, φ_last of each entry; where the formulas cancel, by series.

    >>> one, two, three = phis(np.array([0.0, -1e9]), 3)
    >>> bool(np.allclose(one, [1, 1e-9])), bool(np.allclose(three * 6, [1, 3e-9]))
    (True, True)
    """
    z, values = np.ascontiguousarray(z, dtype=float), np.empty((last, *z.shape))
    engine().biasfree_phis(z.size, address(z), last, address(values))
    return values
