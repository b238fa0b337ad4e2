"""The two Runge–Kutta methods of the exact flow, and polynomials by Bernstein coefficients.

**Order 8** by Dormand and Prince with their dense output of degree 7, for smooth stretches. **Order 3** by Bogacki and
Shampine, whose curve is the cubic through values and velocities at both ends, where events follow each other far more
closely than the long steps could go: twelve stages would be spent on what lies beyond the next event.
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


def _order_8() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = Polynomial([0, 1]), Polynomial([1, -1])
    # Dormand and Prince's nested form: x(c₁ + (1−x)(c₂ + x(c₃ + …))).
    nested, terms = x, []
    for k in range(7):
        terms.append(_coefficients(nested))
        nested = nested * (y if k % 2 == 0 else x)
    change, first, last = _dop853.A[12], np.eye(16)[0], np.eye(16)[12]
    stages = np.vstack([change, first - change, 2 * change - first - last, _dop853.CURVE])
    dense, errors = np.column_stack(terms) @ stages, np.zeros((3, 16))
    dense[0], dense[-1] = 0.0, change  # both ends exactly
    errors[0, :13], errors[1, :13] = _dop853.ERROR, _dop853.ERROR_LOW
    errors[2] = basis(_dop853.A[-1].sum()) @ dense - _dop853.A[-1]
    return _dop853.A, errors, dense


def _order_3() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    weights = np.array([2 / 9, 1 / 3, 4 / 9, 0.0])
    a, errors, dense = np.zeros((16, 16)), np.zeros((3, 16)), np.zeros((8, 16))
    a[1, 0], a[2, 1], a[3, :4] = 1 / 2, 3 / 4, weights
    errors[0, :4] = -5 / 72, 1 / 12, 1 / 9, -1 / 8
    first, last = np.eye(4)[0], np.eye(4)[3]
    cubic = np.array([np.zeros(4), first / 3, weights - last / 3, weights])  # Bernstein coefficients of degree 3
    x = NODES[:, None]
    values = np.hstack([comb(3, k) * x**k * (1 - x) ** (3 - k) for k in range(4)]) @ cubic
    dense[:, :4] = FROM_NODES @ values
    dense[0], dense[-1, :4] = 0.0, weights
    return a, errors, dense


def _tables() -> Tables:
    a, errors, dense = (np.stack(part) for part in zip(_order_8(), _order_3(), strict=True))
    return Tables(a, a.sum(axis=2), errors, dense)


TABLES = _tables()
ORDER_8, ORDER_3 = Method(0, 8, 13, 16, 10.0), Method(1, 3, 4, 4, 3.0)
