"""The compiled part as seen from Python: one trial step, steps until something happens, and the search of a curve.

Everything else is NumPy and Python. The C functions (``biasfree/native``) hold loops over plain arrays and nothing
else; ``_arrays`` and ``_data`` have what they read and write.
"""

import ctypes
import functools
import math
from ctypes import byref

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Desk, Form, Limits, Pattern, Sought, Trial
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._methods import AT_NODES, FROM_NODES, NODES, ORDER_5, ORDER_8, TABLES, Method
from biasfree.native import WHOLE, address, library, structure

BLUR = 1e-12  # a row has met a line when it is beyond it by this part of its size: above what rounding makes of wᵀd = 0
ROUNDING = 1e-13  # of all pulls together, what rounding may have made of one: 16 digits less what sums of many lose

_TABLES = structure("Tables", "p a times errors dense nodes at_nodes from_nodes")
_METHOD = structure("Method", "i number order core stages d grow")
_JUDGED = structure("Judged", "d error stiffness")


@functools.cache
def engine() -> ctypes.CDLL:
    """The library, with the tables of the methods."""
    loaded = library()
    loaded.biasfree_tables(byref(_TABLES(*map(address, (*TABLES, NODES, AT_NODES, FROM_NODES)))))
    return loaded


METHODS = (_METHOD * 2)(_METHOD(*ORDER_8), _METHOD(*ORDER_5))


def attempt(
    n: int, first: int, time: float, step: float, energy: float, data: Data, pattern: Pattern, form: Form,
    limits: Limits, method: Method, share: Float[np.ndarray, "passive"], trial: Trial, desk: Desk,
) -> tuple[float, float]:  # fmt: skip
    """Step n from the desk's start, beginning with its ``first`` stage: 1 if the velocity there is known, else 0.

    Returns the error in units of the tolerance, and step × fastest rate, as two estimates at the step's end show it.
    The curve is filled only where the error is at most 1. Of a step of length 0 only the velocity is found.
    """
    judged = _JUDGED()
    engine().biasfree_attempt(
        n, first, time, step, energy, byref(data.c), byref(pattern.c), byref(form.c), byref(limits.c),
        byref(METHODS[method.number]), address(share), byref(trial.c), byref(desk.c), byref(judged),
    )  # fmt: skip
    return judged.error, judged.stiffness


def scan(
    curve: Float[np.ndarray, "8 rows columns"], begin: float, length: float, blur: float, data: Data, pattern: Pattern,
    level: float, desk: Desk, sought: Sought,
) -> int:  # fmt: skip
    """Search a curve for all that can happen along it (``_events``); times begin and length matter to given pulls only.

    Returns how many crossings there are, -1 if nothing happens at all. Crossings that there is no room for are left
    out: ask again with more room if all of it is used.
    """
    return engine().biasfree_scan(
        address(curve), begin, length, blur, byref(data.c), byref(pattern.c), level, byref(desk.c), byref(sought.c)
    )


def quiet(
    curves: Float[np.ndarray, "n 8 rows columns"], data: Data, pattern: Pattern, level: float, desk: Desk,
    sought: Sought,
) -> tuple[int, float]:  # fmt: skip
    """The first of some curves along which anything happens, and how far a slide is beyond its end before."""
    beyond = ctypes.c_double(0.0)
    first = engine().biasfree_quiet(
        len(curves), address(curves), BLUR, byref(data.c), byref(pattern.c), level, byref(desk.c), byref(sought.c),
        byref(beyond),
    )  # fmt: skip
    return first, beyond.value


def real(
    curve: Float[np.ndarray, "8 rows columns"], length: float, count: int, data: Data, pattern: Pattern, desk: Desk,
    sought: Sought, slack: float,
) -> int:  # fmt: skip
    """Leave out crossings that are made by a curve's own error; how many are left.

    A row close to a line, or leaving it slowly, may be taken beyond it while its velocity there leads back, or nowhere:
    by ``slack`` of its size at the curve's end, and CURVE (``native/engine.h``) times that within it. ``length`` is
    that of the curve, for pulls that are given.
    """
    return engine().biasfree_real(
        address(curve), length, count, slack, byref(data.c), byref(pattern.c), byref(desk.c), byref(sought.c)
    )


def along(
    number: Int[np.ndarray, "n"], x: Float[np.ndarray, "n"], curves: Float[np.ndarray, "curves 8 rows columns"],
    energies: Float[np.ndarray, "curves 8"], states: Float[np.ndarray, "n rows columns"],
    rows: Int[np.ndarray, "some"] | None = None,
) -> Float[np.ndarray, "n"]:  # fmt: skip
    """Fill in where some curves are at x ∈ [0, 1] of each, of some rows or of all; their energies there."""
    reached, named = np.empty(len(x)), 0 if rows is None else len(rows)
    engine().biasfree_along(
        len(x), address(number, WHOLE), address(x), address(curves), address(energies), *states.shape[1:],
        None if rows is None else address(rows, WHOLE), named, address(states), address(reached),
    )  # fmt: skip
    return reached


def log_levels(
    states: Float[np.ndarray, "states rows columns"], active: int, data: Data
) -> Float[np.ndarray, "states"]:
    """Ln L of states, with the sides that their rows have there: some may have crossed lines within a step."""
    states, lines = np.ascontiguousarray(states), data.transposed.shape[1]
    levels, side = np.empty(len(states)), np.empty((active, lines))
    room = np.empty((4 * data.outputs + 1) * lines)
    engine().biasfree_levels(
        len(states), address(states), states.shape[1], active, byref(data.c), address(side), address(room),
        address(levels),
    )  # fmt: skip
    return levels


def line_forces(
    lin: Float[np.ndarray, "*n outputs lines"], even: Float[np.ndarray, "*n outputs lines"], data: Data,
    mass: Float[np.ndarray, "*n"] | None = None,
) -> tuple[Float[np.ndarray, "*n outputs lines"], Float[np.ndarray, "*n outputs lines"]]:  # fmt: skip
    """p and q from what the lines put out; and the size that these are differences of, if it is asked for."""
    lin, even = np.ascontiguousarray(lin), np.ascontiguousarray(even)
    p, q, room = np.empty_like(lin), np.empty_like(lin), np.empty((4 * data.outputs + 1) * lin.shape[-1])
    engine().biasfree_pulls(
        math.prod(lin.shape[:-2]), address(lin), address(even), byref(data.c), address(p), address(q),
        None if mass is None else address(mass), address(room),
    )  # fmt: skip
    return p, q


def speeds(
    states: Float[np.ndarray, "n rows columns"], p: Float[np.ndarray, "n outputs lines"],
    q: Float[np.ndarray, "n outputs lines"], data: Data, pattern: Pattern, desk: Desk,
) -> Float[np.ndarray, "n rows columns"]:  # fmt: skip
    """The velocities of several states whose p and q are known; on the loss clock without decay."""
    states, p, q, found = (np.ascontiguousarray(each) for each in (states, p, q, np.empty(states.shape)))
    engine().biasfree_speeds(
        len(states), *map(address, (states, p, q)), byref(data.c), byref(pattern.c), byref(desk.c), address(found)
    )
    return found


def pulls_in_c(
    states: Float[np.ndarray, "*n rows columns"], data: Data, side: Float[np.ndarray, "active lines"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ln L, p, q, the size that these are differences of, and M of the active rows, what they slide on included."""
    states, side, several = np.ascontiguousarray(states), np.ascontiguousarray(side), states.shape[:-2]
    (dim, lines), outputs = data.transposed.shape, data.outputs
    level, mass = np.empty(several), np.empty(several)
    p, q = np.empty((*several, outputs, lines)), np.empty((*several, outputs, lines))
    matrices, room = np.empty((*several, len(side), dim, outputs)), np.empty((4 * outputs + 1) * lines)
    engine().biasfree_pulls_of(
        math.prod(several), address(states), states.shape[-2], len(side), byref(data.c), address(side),
        *map(address, (level, p, q, mass, matrices, room)),
    )  # fmt: skip
    return level, p, q, mass, matrices
