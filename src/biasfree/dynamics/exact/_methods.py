"""The two Runge–Kutta methods of the exact flow, and polynomials by Bernstein coefficients.

**Order 8** by Dormand and Prince with their dense output of degree 7, for smooth stretches. **Order 3** by Bogacki and
Shampine, whose curve is the cubic through values and velocities at both ends, where events follow each other far more
closely than the long steps could go: twelve stages would be spent on what lies beyond the next event.
"""

from math import comb

import numpy as np
from jaxtyping import Float
from numpy.polynomial import Polynomial

from biasfree.dynamics.exact import _dop853
from biasfree.dynamics.exact._kernels import Method

DEGREE = 7
# Chebyshev's points of the unit interval, ends included.
NODES = 0.5 - 0.5 * np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)


def basis(x: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "... 8"]:
    """Bernstein's polynomials of degree 7 at x: a curve's value there is basis(x) @ curve.

    >>> basis(0.0), float(basis(0.3).sum().round(12))
    (array([1., 0., 0., 0., 0., 0., 0., 0.]), 1.0)
    """
    x = np.asarray(x, dtype=float)[..., None]
    powers = np.arange(DEGREE + 1)
    return _BINOMIALS * x**powers * (1 - x) ** (DEGREE - powers)


_BINOMIALS = np.array([comb(DEGREE, k) for k in range(DEGREE + 1)], dtype=float)
FROM_NODES = np.linalg.inv(basis(NODES))  # values at the nodes → coefficients


def _coefficients(polynomial: Polynomial) -> np.ndarray:
    return FROM_NODES @ polynomial(NODES)


def _order_8() -> Method:
    x, y = Polynomial([0, 1]), Polynomial([1, -1])
    # Dormand and Prince's nested form: x(c₁ + (1−x)(c₂ + x(c₃ + …))).
    nested, terms = x, []
    for k in range(7):
        terms.append(_coefficients(nested))
        nested = nested * (y if k % 2 == 0 else x)
    change, first, last = _dop853.A[12], np.eye(16)[0], np.eye(16)[12]
    stages = np.vstack([change, first - change, 2 * change - first - last, _dop853.CURVE])
    dense = np.column_stack(terms) @ stages
    dense[0], dense[-1] = 0.0, change  # both ends exactly
    return Method(_dop853.A, _dop853.ERROR, _dop853.ERROR_LOW, dense, 13)


def _order_3() -> Method:
    weights = np.array([2 / 9, 1 / 3, 4 / 9, 0.0])
    a = np.array([[0, 0, 0, 0], [1 / 2, 0, 0, 0], [0, 3 / 4, 0, 0], weights])
    first, last = np.eye(4)[0], np.eye(4)[3]
    cubic = np.array([np.zeros(4), first / 3, weights - last / 3, weights])  # Bernstein coefficients of degree 3
    x = NODES[:, None]
    values = np.hstack([comb(3, k) * x**k * (1 - x) ** (3 - k) for k in range(4)]) @ cubic
    dense = FROM_NODES @ values
    dense[0], dense[-1] = 0.0, weights
    return Method(a, np.array([-5 / 72, 1 / 12, 1 / 9, -1 / 8]), np.zeros(4), dense, 4)


ORDER_8, ORDER_3 = _order_8(), _order_3()
