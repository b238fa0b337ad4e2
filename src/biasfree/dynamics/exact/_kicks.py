"""Crossings that need not end a step: rows that pass lines so fast that nothing could hold them there.

Crossing line l changes ẇ by the kick −2ςs_l d_l. It is added to the step's end to second order, for all crossings of
the step together. A crossing at a time τ before the end has the first order τ·kick. The second has two parts: what
the kicks do to the velocity, J Σ ½τ²kick, by a difference of velocities, and what grows from zero since the crossing
(the crossed line's response to |wᵀd|), which is what the velocity with the new sides has at the end beyond the kicks,
over τ/2. The second order itself must be within the tolerance. A few heavy rows on thousands of lines cross dozens in
a step like this.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Limits, Pattern
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import pulls_of, velocity
from biasfree.dynamics.exact._kernels import ROUNDING
from biasfree.dynamics.exact._methods import basis
from biasfree.dynamics.exact._sliding import flipped

_UNFELT = 0.01  # part of its tolerance that a crossing may move a row by in a step and not be felt
_PASSES = 10.0  # times the kick, the speed across a line at which nothing can hold a row there


class Crossings(NamedTuple):
    """Rows and lines that meet, and when, x ∈ [0, 1]."""

    pairs: Int[np.ndarray, "some 2"]
    times: Float[np.ndarray, "some"]

    def take(self, which: np.ndarray) -> "Crossings":
        """Some of them."""
        return Crossings(self.pairs[which], self.times[which])


class Step(NamedTuple):
    """The step of all rows as if nothing happened in it."""

    length: float
    curve: Float[np.ndarray, "8 rows columns"]
    data: Data
    pattern: Pattern


class Kicks(NamedTuple):
    """What crossings add to the rows of a step.

    Attributes:
        crossed: rows, lines and times.
        kicks: what each adds to ẇ, times the step's length, (crossings, dim).
        second: what all add to the step's end in second order.
        energy: what they add to the energy.
    """

    crossed: Crossings
    kicks: Float[np.ndarray, "crossings dim"]
    second: Float[np.ndarray, "rows columns"]
    energy: float

    def add(self, x: float, z: Float[np.ndarray, "rows columns"]) -> float:
        """Add what the crossings before x have made of the rows there; what they add to the energy."""
        before, dim = self.crossed.times < x, self.kicks.shape[1]
        late = (x - self.crossed.times[before])[:, None]
        np.add.at(z[:, :dim], self.crossed.pairs[before, 0], late * self.kicks[before])
        z += x**2 * self.second
        return x * self.energy


def passing(step: Step, crossed: Crossings, limits: Limits) -> Kicks | None:
    """What crossings do to a step, to second order; None if that is not enough for all of them."""
    length, curve, data, pattern = step
    (rows, lines), times, dim, active = crossed.pairs.T, crossed.times, data.transposed.shape[0], len(pattern.side)
    begin, end = curve[0], curve[-1]
    found = pulls_of(np.stack([begin, end]), data, pattern.side)
    speed = velocity(end, found.take(1), pattern)
    directions, side = data.directions[lines], pattern.side[rows, lines]
    x = 0.5 * (1 + times)[:, None]
    second = (1 - x) * begin[rows, dim:] + x * end[rows, dim:]
    strength = np.sum(second * ((1 - x) * found.q[0][:, lines].T + x * found.q[1][:, lines].T), axis=1)
    across, beyond = np.sum(directions * speed[rows, :dim], axis=1), np.sum(directions * end[rows, :dim], axis=1)
    noise = ROUNDING * (found.take(1).whole + data.mass) * np.linalg.norm(second, axis=1)
    passes = (side * across < 0) & (np.abs(across) > _PASSES * 2 * np.abs(strength))
    left = ((1 - times) * length)[:, None]
    room = limits.atol + limits.rtol * np.abs(end[:active]).max(axis=1)
    unfelt = 2 * np.abs(strength) * left[:, 0] <= _UNFELT * room[rows]
    if not ((side * beyond < 0) & (passes | unfelt | (np.abs(strength) <= noise))).all():
        return None
    kicks = (-2 * side * strength)[:, None] * directions
    bent, kicked = np.zeros((2, *end.shape))
    for out, part in ((bent, 0.5 * left**2 * kicks), (kicked, kicks)):
        np.add.at(out[:, :dim], rows, part)
    size = np.abs(strength)
    mean = float(size @ left[:, 0] / size.sum()) if size.any() else 0.0
    new = flipped(pattern, crossed.pairs.tolist())
    moved = velocity(end + bent, pulls_of(end + bent, data, pattern.side), pattern)
    fresh = velocity(end, pulls_of(end, data, new.side), new)
    correction = moved - speed + 0.5 * mean * (fresh - speed - kicked)
    correction[active:] = 0.0
    if not (np.abs(correction[:active]).max(axis=1) <= room).all():
        return None
    return Kicks(crossed, length * kicks, correction, _energy(step, crossed, kicks))


def _energy(step: Step, crossed: Crossings, kicks: Float[np.ndarray, "crossings dim"]) -> float:
    """What kicks add to ∫‖ẇ‖²: 2∫ẇ·K + ∫‖K‖², with K all kicks of a row so far."""
    rows, times, dim = crossed.pairs[:, 0], crossed.times, kicks.shape[1]
    there = np.einsum("nk,knj->nj", basis(times), step.curve[:, rows, :dim])
    total = 2 * float(np.sum(kicks * (step.curve[-1, rows, :dim] - there)))
    for row in np.unique(rows).tolist():
        own = rows == row
        both = step.length * (1 - np.maximum(times[own][:, None], times[own]))  # time with both kicks
        total += float(np.sum(both * (kicks[own] @ kicks[own].T)))
    return total
