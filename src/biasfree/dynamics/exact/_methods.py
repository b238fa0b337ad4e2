"""The two Runge–Kutta methods of the exact flow, and polynomials by Bernstein coefficients.

Both are by Dormand and Prince. **Order 8**, with a dense output of degree 7, for smooth stretches. **Order 5**, with
one of degree 4 that costs nothing more, where events follow each other far more closely than the long steps could go:
fifteen stages would be spent on what lies beyond the next event. (One of order 3 needs half as many, and on the six
points, at the default tolerance, goes a thirtieth as far.)
"""

from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import Polynomial

from biasfree.dynamics.exact import _dop853

DEGREE = 7
# Chebyshev's points of the unit interval, ends included.
NODES = 0.5 - 0.5 * np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)


def basis(x: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "... 8"]:
    """Bernstein's polynomials of degree 7 at x: a curve's value there is basis(x) @ curve.

    >>> basis(0.0), float(basis(0.3).sum().round(12))
    (array([1., 0., 0., 0., 0., 0., 0., 0.]), 1.0)
    """
    if isinstance(x, float):
        y = 1 - x
        weights = [1.0, y]
        for _ in range(DEGREE - 1):
            weights.append(weights[-1] * y)
        weights.reverse()
        power = 1.0
        for k in range(DEGREE + 1):
            weights[k] *= power
            power *= x
        return _BINOMIALS * weights
    x = np.asarray(x, dtype=float)[..., None]
    return _BINOMIALS * x**_POWERS * (1 - x) ** _POWERS[::-1]


def on_curve(weights: Float[np.ndarray, "*n 8"], curve: Float[np.ndarray, "8 *shape"]) -> np.ndarray:
    """The points of a curve that ``basis`` gives the weights of, (*n, *shape)."""
    return (weights @ curve.reshape(len(curve), -1)).reshape(*weights.shape[:-1], *curve.shape[1:])


_POWERS = np.arange(DEGREE + 1)
_BINOMIALS = np.array([comb(DEGREE, k) for k in range(DEGREE + 1)], dtype=float)
AT_NODES = basis(NODES)  # coefficients → values at the nodes
FROM_NODES = np.linalg.inv(AT_NODES)  # and back


def _coefficients(polynomial: Polynomial) -> np.ndarray:
    return FROM_NODES @ polynomial(NODES)


class Method(NamedTuple):
    """A Runge–Kutta method: the last core stage is the velocity at the step's end; ``TABLES`` has its coefficients."""

    number: int  # in ``TABLES``
    order: int  # of the step
    core: int  # stages that decide about the step, its end included; those after them serve the curve
    stages: int  # all of them
    grow: float  # how much longer the next step may be


class Tables(NamedTuple):
    """Coefficients of methods, a method in each row; those with fewer stages have zeros.

    Attributes:
        a: of the stages, (methods, 16, 16).
        times: of the stages, as parts of the step, (methods, 16).
        errors: two embedded error estimates, the second 0 where there is one only, and how far the curve is from the
            last stage's place, 0 where there is none; (methods, 3, 16).
        dense: the curve is z + step·dense @ stages, (methods, 8, 16).
    """

    a: Float[np.ndarray, "methods 16 16"]
    times: Float[np.ndarray, "methods 16"]
    errors: Float[np.ndarray, "methods 3 16"]
    dense: Float[np.ndarray, "methods 8 16"]


def _curve(stages: Float[np.ndarray, "terms 16"]) -> Float[np.ndarray, "8 16"]:
    """The curve in Dormand and Prince's nested form: x(c₁ + (1−x)(c₂ + x(c₃ + …))), each c made of stages."""
    x, y = Polynomial([0, 1]), Polynomial([1, -1])
    nested, terms = x, []
    for k in range(len(stages)):
        terms.append(_coefficients(nested))
        nested = nested * (y if k % 2 == 0 else x)
    return np.column_stack(terms) @ stages


def _dense(change: np.ndarray, ends: int, more: np.ndarray) -> Float[np.ndarray, "8 16"]:
    """A curve from the step, its velocities at both ends, and ``more`` terms."""
    first, last = np.eye(16)[0], np.eye(16)[ends]
    dense = _curve(np.vstack([change, first - change, 2 * change - first - last, more]))
    dense[0], dense[-1] = 0.0, change  # both ends exactly
    return dense


def _order_8() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dense, errors = _dense(_dop853.A[12], 12, _dop853.CURVE), np.zeros((3, 16))
    errors[0, :13], errors[1, :13] = _dop853.ERROR, _dop853.ERROR_LOW
    errors[2] = basis(_dop853.A[-1].sum()) @ dense - _dop853.A[-1]
    return _dop853.A, errors, dense


def _order_5() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, errors, more = np.zeros((16, 16)), np.zeros((3, 16)), np.zeros(16)
    a[1, :1] = 1 / 5
    a[2, :2] = 3 / 40, 9 / 40
    a[3, :3] = 44 / 45, -56 / 15, 32 / 9
    a[4, :4] = 19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729
    a[5, :5] = 9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656
    a[6, :6] = 35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84
    errors[0, :7] = 71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40
    more[:7] = (
        -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
        701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
    )  # fmt: skip
    return a, errors, _dense(a[6], 6, more)


def _tables() -> Tables:
    a, errors, dense = (np.stack(part) for part in zip(_order_8(), _order_5(), strict=True))
    return Tables(a, a.sum(axis=2), errors, dense)


TABLES = _tables()
ORDER_8, ORDER_5 = Method(0, 8, 13, 16, 10.0), Method(1, 5, 7, 7, 5.0)
