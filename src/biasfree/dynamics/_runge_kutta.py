"""Explicit Runge–Kutta methods with an error estimate, whose last stage is the next step's first.

Bogacki and Shampine's of order 3, Dormand and Prince's of orders 5 and 8 (coefficients as SciPy has them), and
Tsitouras' of order 5 (Computers & Mathematics with Applications 62, 2011).
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853, RK23, RK45

Flat = Float[np.ndarray, "size"]


class Method(NamedTuple):
    """A method of s stages besides the one at the step's end.

    Attributes:
        order: of the step.
        a: what each stage's place is made of, (s, s).
        b: what the step is made of, (s,).
        error: the embedded estimate, (s + 1,).
        second: another one of lower order, by which Dormand and Prince correct theirs of order 8.
    """

    order: int
    a: Float[np.ndarray, "s s"]
    b: Float[np.ndarray, "s"]
    error: Float[np.ndarray, "s+1"]
    second: Float[np.ndarray, "s+1"] | None = None


def _tsitouras() -> Method:
    a = np.zeros((6, 6))
    a[1, :1] = 0.161
    a[2, :2] = -0.008480655492356989, 0.335480655492357
    a[3, :3] = 2.8971530571054935, -6.359448489975075, 4.3622954328695815
    a[4, :4] = 5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525
    a[5, :5] = 5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383
    b = [0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774]
    error = [
        0.0017800110522257773, 0.0008164344596567463, -0.007880878010261994, 0.1447110071732629, -0.5823571654525552,
        0.45808210592918686, -1 / 66,
    ]  # fmt: skip
    return Method(5, a, np.array(b), np.array(error))


def _scipys(order: int, solver: Any) -> Method:
    stages = len(solver.B)
    a = np.zeros((stages, stages))
    a[:, : solver.A.shape[1]] = solver.A[:stages]
    error, second = (solver.E5, solver.E3) if order == 8 else (solver.E, None)
    error, second = (None if part is None else np.array(part, dtype=float) for part in (error, second))
    assert error is not None
    return Method(order, a, np.array(solver.B, dtype=float), error, second)


METHODS = {
    "bosh3": _scipys(3, RK23),
    "dopri5": _scipys(5, RK45),
    "tsit5": _tsitouras(),
    "dopri8": _scipys(8, DOP853),
}


def energy_of(stages: Float[np.ndarray, "s+1 size"], method: Method) -> float:
    """The mean of ‖Ẇ‖² over a step."""
    return float(method.b @ np.einsum("sn,sn->s", stages[:-1], stages[:-1]))
