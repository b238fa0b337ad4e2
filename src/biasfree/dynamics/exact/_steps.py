"""Explicit steps, and crossings that need not end them.

There are many short steps (``_pace``): their errors are held to the same error per time as the long ones'.

**Crossings within a step.** Crossing line l changes ẇ by the kick −2ςs_l d_l. Where that cannot stop the row, it is
added to the step's end to second order, for all crossings of the step together. A crossing at a time τ before the end
has the first order τ·kick d. The second has two parts: what the kicks do to the velocity, J Σ ½τ²kick d, by a
difference of velocities, and what grows from zero since the crossing (the crossed line's response to |wᵀd|), which is
what the velocity with the new sides has at the end beyond the kicks, over τ/2. The second order itself must be within
the tolerance, and no row may be beyond a line, no slide beyond its end, after it; else the step ends at its first
crossing. With thousands of lines most crossings are of this kind.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Arc, search
from biasfree.dynamics.exact._field import pulls_of, velocity
from biasfree.dynamics.exact._kernels import Form, Limits, Pattern, Trial, attempt
from biasfree.dynamics.exact._methods import ORDER_8, basis
from biasfree.dynamics.exact._pace import Pace
from biasfree.dynamics.exact._sliding import ROUNDING, flipped

SAFETY = 0.3  # part of rtol that a step may spend
_UNFELT = 0.01  # part of its tolerance that a crossing may move a row by in a step and not be felt
_PASSES = 10.0  # times the kick, the speed across a line at which nothing can hold a row there


class Taken(NamedTuple):
    """A step that was accepted, before anything is cut off it."""

    length: float
    curve: Float[np.ndarray, "8 rows columns"]
    energies: Float[np.ndarray, "8"]
    order: int


def take(
    z: np.ndarray, energy: float, left: float, data: Data, pattern: Pattern, form: Form, limits: Limits, pace: Pace,
    trial: Trial,
) -> Taken | None:  # fmt: skip
    """One step of at most ``left``; None if it was rejected."""
    method, wanted = pace.method()
    order = 8 if method is ORDER_8 else 3
    step = min(wanted, left)
    allowed = limits if order == 8 else limits._replace(rtol=limits.rtol * min(1.0, step / pace.long), atol=0.0)
    error, stiffness = attempt(z, energy, step, data, pattern, form, allowed, method, trial)
    pace.evaluations += method.core - 1 + (len(method.a) - method.core if error <= 1 else 0)
    pace.judged(order, step, error, stiffness)
    if not error <= 1:
        return None
    return Taken(step, trial.curve.copy(), trial.energies.copy(), order)


class Corrected(NamedTuple):
    """A step's end after crossings within it.

    Attributes:
        z: the rows there.
        energy: what the crossings add to the energy.
        pairs, times: rows and lines crossed, and x.
        kicks: what each adds to ẇ, (crossings, dim).
    """

    z: Float[np.ndarray, "rows columns"]
    energy: float
    pairs: Int[np.ndarray, "crossings 2"]
    times: Float[np.ndarray, "crossings"]
    kicks: Float[np.ndarray, "crossings dim"]

    def added(self, x: float, length: float, rows: int) -> Float[np.ndarray, "rows dim"]:
        """What the crossings before x have added to w, to first order."""
        found = np.zeros((rows, self.kicks.shape[1]))
        before = self.times < x
        np.add.at(found, self.pairs[before, 0], (x - self.times[before])[:, None] * length * self.kicks[before])
        return found


def through(
    taken: Taken, crossed: tuple[np.ndarray, np.ndarray], data: Data, pattern: Pattern, limits: Limits, level: float
) -> Corrected | None:
    """The end of a step in which rows crossed lines; None if that is not enough."""
    pairs, times = crossed
    (rows, lines), dim, active = pairs.T, data.directions.shape[1], len(pattern.side)
    begin, end = taken.curve[0], taken.curve[-1]
    new = flipped(pattern, pairs.tolist())
    found = pulls_of(np.stack([begin, end]), data, pattern.side)
    speed = velocity(end, found.take(1), pattern)
    directions, side = data.directions[lines], pattern.side[rows, lines]
    x = 0.5 * (1 + times)[:, None]
    second = (1 - x) * begin[rows, dim:] + x * end[rows, dim:]
    strength = np.sum(second * ((1 - x) * found.q[0][:, lines].T + x * found.q[1][:, lines].T), axis=1)
    across, beyond = np.sum(directions * speed[rows, :dim], axis=1), np.sum(directions * end[rows, :dim], axis=1)
    noise = ROUNDING * (found.take(1).whole + data.mass) * np.linalg.norm(second, axis=1)
    passes = (side * across < 0) & (np.abs(across) > _PASSES * 2 * np.abs(strength))
    left = ((1 - times) * taken.length)[:, None]
    room = limits.atol + limits.rtol * np.abs(end[:active]).max(axis=1)
    unfelt = 2 * np.abs(strength) * left[:, 0] <= _UNFELT * room[rows]
    if not ((side * beyond < 0) & (passes | unfelt | (np.abs(strength) <= noise))).all():
        return None
    kicks = (-2 * side * strength)[:, None] * directions
    first, bent, kicked = np.zeros((3, *end.shape))
    for out, part in ((first, left * kicks), (bent, 0.5 * left**2 * kicks), (kicked, kicks)):
        np.add.at(out[:, :dim], rows, part)
    size = np.abs(strength)
    mean = float(size @ left[:, 0] / size.sum()) if size.any() else 0.0
    moved = velocity(end + bent, pulls_of(end + bent, data, pattern.side), pattern)
    fresh = velocity(end, pulls_of(end, data, new.side), new)
    correction = moved - speed + 0.5 * mean * (fresh - speed - kicked)
    correction[active:] = 0.0
    if not (np.abs(correction[:active]).max(axis=1) <= room).all():
        return None
    z = end + first + correction
    if not _admissible(z, data, new, level):
        return None
    return Corrected(z, 2 * float(np.sum(speed[:active] * first[:active])), pairs, times, kicks)


def _admissible(z: np.ndarray, data: Data, pattern: Pattern, level: float) -> bool:
    """Whether no row is beyond a line, no slide beyond its end, and the loss above its level."""
    standing = Arc(0.0, 0.0, np.repeat(z[None], 8, axis=0))
    return search([standing], data, pattern, level).event is None


def within(taken: Taken, corrected: Corrected | None, x: float) -> tuple[np.ndarray, float]:
    """Rows and energy at x ∈ [0, 1] of a step."""
    weights = basis(x)
    z = np.einsum("k,k...->...", weights, taken.curve)
    energy = float(weights @ taken.energies)
    if corrected is not None:
        z[:, : corrected.kicks.shape[1]] += corrected.added(x, taken.length, len(z))
        energy += x * corrected.energy
    return z, energy
