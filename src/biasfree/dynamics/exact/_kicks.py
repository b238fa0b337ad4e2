"""Crossings that need not end a step: rows that pass lines so fast that nothing could hold them there.

The step of all rows with their sides held, z₀(x), is taken as if nothing happened; a few heavy rows on thousands of
lines cross dozens of them in it. Each crossing c changes ẇ of its row by a kick k_c = −2ςs_l d_l. The true way is
z₀ + δ with

    δ(x) = Σ_c k_c (x − x_c)₊ + ∫₀ˣ r,    r = G(z₀ + δ) − F(z₀) − Σ_{x_c < x} k_c,

F the velocity with the sides held and G that with the sides which the rows have at x. The kicks take the jumps out of
G, so that r is continuous: the trapezoidal rule is right for it to second order in the distance of its points, and a
rule with half as many says how right. Times and kicks are those of the way as it is, δ included (``native/kicks.c``).
If it leads beyond lines that z₀ does not meet, the step is gone through once more with these among the crossings.

Differences between merged neurons (passive rows) are kicked like their row, and at the crossing itself they change by
their saltation k_c(d_lᵀw)/(d_lᵀẇ): they meet the line at another time.
"""

from ctypes import byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Form, Limits, Pattern
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import room_for
from biasfree.dynamics.exact._field import Pulls
from biasfree.dynamics.exact._kernels import ROUNDING, engine
from biasfree.dynamics.exact._methods import basis
from biasfree.native import address, structure

_POINTS, _POINTS_BY_LINES = 16, 4  # parts of a step: where a form makes velocities cheap, and where all lines make them
_FINER = 4  # times as many, where these are not enough and so many would be; chosen: cost alone
_OFF = 0.3  # part of its tolerance by which a row may be off for the points, as they say themselves; as a step's SAFETY
_AGAIN = 4  # times that a step is gone through with more crossings, where these have led to others; chosen: cost alone
_MOST_OUTPUTS = 64  # as in native/engine.h
_LARGEST = 2_000_000  # numbers to work with, 16 MB; chosen: memory

_PASSING = structure(
    "Passing",
    "p rows lines times begins kicks jumps base rest summed levels power slope offset room "
    "d length noise i count points",
)


class Crossings(NamedTuple):
    """Rows and lines that meet, and when, x ∈ [0, 1]."""

    pairs: Int[np.ndarray, "some 2"]
    times: Float[np.ndarray, "some"]

    def take(self, which: np.ndarray) -> "Crossings":
        """Some of them."""
        return Crossings(self.pairs[which], self.times[which])


class Step(NamedTuple):
    """The step of all rows as if nothing happened in it; the form of its pattern is empty where it is not used."""

    length: float
    curve: Float[np.ndarray, "8 rows columns"]
    data: Data
    pattern: Pattern
    form: Form


class Kicks(NamedTuple):
    """What crossings add to the rows of a step.

    Attributes:
        crossed: rows, lines and times.
        directions: of the lines, (crossings, dim).
        begins: d·w of each row as if nothing had happened, where it crosses, (crossings,).
        kicks: along d, what a crossing adds to ẇ of every row, times the step's length; (crossings, rows).
        jumps: along d, what the crossing itself adds to a passive row; (crossings, rows).
        rest, summed: r at equal distances, times the step's length, and its integral.
        rests: d·∫r of each row up to where it crosses, (crossings,).
        energy: what r adds to the energy by itself, at equal distances.
        length: of the step.
        side, form: after the step.
    """

    crossed: Crossings
    directions: Float[np.ndarray, "crossings dim"]
    begins: Float[np.ndarray, "crossings"]
    kicks: Float[np.ndarray, "crossings rows"]
    jumps: Float[np.ndarray, "crossings rows"]
    rest: Float[np.ndarray, "points rows columns"]
    summed: Float[np.ndarray, "points rows columns"]
    rests: Float[np.ndarray, "crossings"]
    energy: Float[np.ndarray, "points"]
    length: float
    side: Float[np.ndarray, "active lines"]
    form: Form

    def add(self, x: float, z: Float[np.ndarray, "rows columns"]) -> float:
        """Add what the crossings before x have made of the rows there; what they add to the energy."""
        before, dim, parts = self.crossed.times < x, self.directions.shape[1], len(self.rest) - 1
        rows, directions = self.crossed.pairs[before, 0], self.directions[before]
        times, kicks = self.crossed.times[before], self.kicks[before]
        own, late = kicks[np.arange(len(rows)), rows], x - times
        free = np.sum(directions * z[rows, :dim], axis=1)
        z[:, :dim] += (late[:, None] * kicks + self.jumps[before]).T @ directions
        n = min(int(x * parts), parts - 1)
        part = x * parts - n
        summed = self.summed[n] + part / parts * (self.rest[n] + 0.5 * part * (self.rest[n + 1] - self.rest[n]))
        z += summed
        # ∫‖ẇ + (K + r)/h‖²: the kicks K with ẇ, with each other and with r exactly, since K jumps.
        both = np.minimum(late[:, None], late) * (rows[:, None] == rows) * (directions @ directions.T)
        rest = np.sum(directions * summed[rows, :dim], axis=1) - self.rests[before]
        gained = float(own @ (2 * (free - self.begins[before]) + both @ own + 2 * rest)) / self.length
        return gained + float(self.energy[n] + part * (self.energy[n + 1] - self.energy[n]))


def passing(step: Step, crossed: Crossings, limits: Limits, pulls: Pulls) -> Kicks | None:
    """What crossings do to a step; None where some row might be held, or where they do more than can be followed."""
    rows, columns = step.curve.shape[1:]
    points = _POINTS if step.form.constant.size else _POINTS_BY_LINES
    numbers = 2 * len(crossed.times) * rows + 3 * _FINER * points * rows * columns
    if step.pattern.span[crossed.pairs[:, 0]].any() or step.data.outputs > _MOST_OUTPUTS or numbers > _LARGEST:
        return None
    room = limits.atol + limits.rtol * np.abs(step.curve[-1, : len(step.pattern.side)]).max(axis=1)
    for _ in range(_AGAIN):
        kicks = _precise(step, crossed.take(np.argsort(crossed.times, kind="stable")), room, pulls, points)
        if kicks is None:
            return None
        more = _met_besides(step, kicks, room)
        if not len(more.times):
            return kicks
        crossed = Crossings(*(np.concatenate(both) for both in zip(crossed, more, strict=True)))
    return None


def _precise(step: Step, crossed: Crossings, room: np.ndarray, pulls: Pulls, points: int) -> Kicks | None:
    """A step through its crossings, at as many points as it takes; None where that is not enough."""
    kicks = _followed(step, crossed, room, pulls, points)
    if kicks is None:
        return None
    # The rule with all points is off by a third of what it differs from the one with half of them.
    off = float(np.max(_off(kicks, len(room)) / room))
    if off > _OFF and off <= _OFF * _FINER**2:
        kicks = _followed(step, crossed, room, pulls, _FINER * points)
        off = np.inf if kicks is None else float(np.max(_off(kicks, len(room)) / room))
    return kicks if off <= _OFF else None


def _met_besides(step: Step, kicks: Kicks, room: Float[np.ndarray, "active"]) -> Crossings:
    """Lines that rows were led beyond, further than they may be off, and that z₀ does not meet; and about when."""
    dim, parts = step.data.directions.shape[1], len(kicks.rest) - 1

    def sides(x: float, z: np.ndarray) -> Float[np.ndarray, "active lines"]:
        kicks.add(x, z)
        return kicks.side * (z[: len(room), :dim] @ step.data.transposed)

    pairs = np.argwhere(sides(1.0, step.curve[-1].copy()) < -room[:, None])
    if not len(pairs):
        return Crossings(pairs, np.zeros(0))
    x = np.arange(parts + 1) / parts
    states = np.tensordot(basis(x), step.curve, axes=1)
    products = np.stack([sides(*each)[tuple(pairs.T)] for each in zip(x.tolist(), states, strict=True)])
    first = np.maximum(1, np.argmax(products < 0, axis=0))
    before, after = products[first - 1, np.arange(len(pairs))], products[first, np.arange(len(pairs))]
    part = np.clip(before / np.where(before > after, before - after, 1.0), 0.0, 1.0)
    return Crossings(pairs, (first - 1 + part) / parts)


def _off(kicks: Kicks, active: int) -> Float[np.ndarray, "active"]:
    """What the points may be off by."""
    return np.abs(_summed(kicks.rest[::2, :active]) - kicks.summed[::2, :active]).max(axis=(0, 2)) / 3


def _followed(step: Step, crossed: Crossings, room: np.ndarray, pulls: Pulls, points: int) -> Kicks | None:
    """A step through its crossings, in order, at so many points; ``room`` is what each row may be off by."""
    length, curve, data, pattern, form = step
    (rows, columns), count = curve.shape[1:], len(crossed.times)
    who, lines = np.ascontiguousarray(crossed.pairs.T)
    times, begins, (kicks, jumps) = crossed.times.copy(), np.zeros(count), np.zeros((2, count, rows))
    base, rest, summed = np.empty((3, points + 1, rows, columns))
    (levels, power), bends = np.zeros((2, points + 1)), np.zeros((2, rows, columns - data.outputs))
    turned, turned_form = pattern._replace(side=pattern.side.copy()), Form(form.constant.copy(), form.matrix.copy())
    asked = _PASSING(
        address(who, np.int64), address(lines, np.int64),
        *map(address, (times, begins, kicks, jumps, base, rest, summed, levels, power, *bends, room)),
        length, ROUNDING * pulls.scale, count, points,
    )  # fmt: skip
    desk, _ = room_for(curve.shape, data, pattern)
    if not engine().biasfree_kicks(
        address(curve), byref(asked), byref(data.c), byref(pattern.c), byref(form.c), byref(turned.c),
        byref(turned_form.c), byref(desk.c),
    ):  # fmt: skip
        return None
    done = times <= 1
    who, times, directions = who[done], times[done], data.directions[lines[done]]
    n = np.minimum((times * points).astype(int), points - 1)
    part = (times * points - n)[:, None]
    grown = rest[n, who] + 0.5 * part * (rest[n + 1, who] - rest[n, who])
    reached = (summed[n, who] + part / points * grown)[:, : directions.shape[1]]
    return Kicks(
        Crossings(crossed.pairs[done], times), directions, begins[done], kicks[done], jumps[done], rest, summed,
        np.sum(directions * reached, axis=1), _summed(power), length, turned.side, turned_form,
    )  # fmt: skip


def _summed(rest: Float[np.ndarray, "points *shape"]) -> Float[np.ndarray, "points *shape"]:
    """∫₀ˣ of what is given at equal distances, by the trapezoidal rule."""
    total = np.zeros_like(rest)
    np.cumsum(0.5 / (len(rest) - 1) * (rest[1:] + rest[:-1]), axis=0, out=total[1:])
    return total
