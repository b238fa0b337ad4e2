"""Steps that stay stable however long they are: Runge–Kutta–Chebyshev, of order 2 (Sommeijer, Shampine, Verwer 1998).

A flow that has fitted much of its data moves slowly along some directions and would be at rest along others at once:
the Hessian's largest eigenvalue ρ bounds a step of the usual methods, Bogacki and Shampine's by 2.5/ρ, whatever the
tolerance. s stages of Chebyshev's polynomials reach 0.65 s²/ρ instead, with an error that is controlled as any other.
Eigenvalues of a Hessian are real, which is what they need. Within 2/ρ Bogacki and Shampine's steps are taken: these
have the smaller error.

ρ is looked for by the power method on differences of velocities, beginning with the direction of the last time: two
velocities after every twenty, and again after a step that failed. Where the tolerance is so small that Chebyshev's
steps, of a lower order, fail and are to be as short as Bogacki and Shampine's may be, these are taken for a while: for
one step at first, for twice as many after each further failure.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._one_step import RungeKutta, Step
from biasfree.dynamics._runge_kutta import Method
from biasfree.dynamics._vector_field import VectorField

Flat = Float[np.ndarray, "size"]

_DAMPING = 2 / 13  # of the polynomials: what holds their stability by a margin (the authors' choice)
_REACH = 1.54  # s² ≥ 1 + 1.54 ρ·length: the authors' bound of where s stages are stable
_PLAIN = 2.0  # ρ·length up to which Bogacki and Shampine's steps are taken: stable up to 2.5
_HELD = 16  # steps for which, at most, nothing else is tried after one of Chebyshev's has failed
_MOST = 200  # stages: a step of more would not be interrupted for long
_MARGIN = 1.2  # on ρ, which the power method approaches from below
_AGE, _FIRST, _AGAIN = 20, 12, 2  # velocities between looks for ρ; iterations of the first look and of later ones
_KEPT = 0.9  # of what ρ was, below which one look does not bring it
_TRUSTED = 2.0  # times what a look sees: more than that was not ρ, but a kink beside the weights
_SETTLED = 0.05  # relative change at which an iteration is the last
_ROUNDING = 1e-9  # of a step that is to be as long as may be
_NUDGE = 1e-7  # of the weights, by which velocities are compared
# 0.8(W₀ − W₁) + 0.4·length·(Ẇ₀ + Ẇ₁), the local error up to terms of higher order.
_ESTIMATE = Method(3, np.zeros((2, 2)), np.zeros(2), np.array([0.8, 0.4, 0.4]))


class _Stage(NamedTuple):
    """W_j = begin·W_0 + last·W_{j−1} + before·W_{j−2} + length·(moving·Ẇ_{j−1} + first·Ẇ_0)."""

    begin: float
    last: float
    before: float
    moving: float
    first: float


@functools.cache
def _table(stages: int) -> tuple[float, list[_Stage], Float[np.ndarray, "stages-1 5"]]:
    """The first stage's length, and the stages from the second on, as numbers and as an array."""
    at = 1 + _DAMPING / stages**2
    value, slope, bend = [1.0, at], [0.0, 1.0], [0.0, 0.0]  # of Chebyshev's polynomials there
    for j in range(2, stages + 1):
        value.append(2 * at * value[-1] - value[-2])
        bend.append(4 * slope[-1] + 2 * at * bend[-1] - bend[-2])
        slope.append(2 * value[j - 1] + 2 * at * slope[-1] - slope[-2])
    scale = slope[stages] / bend[stages]
    b = [bend[j] / slope[j] ** 2 for j in range(2, stages + 1)]
    b = [b[0], b[0], *b]
    rows = []
    for j in range(2, stages + 1):
        last, before, moving = 2 * b[j] * at / b[j - 1], -b[j] / b[j - 2], 2 * b[j] * scale / b[j - 1]
        rows.append(_Stage(1 - last - before, last, before, moving, -(1 - b[j - 1] * value[j - 1]) * moving))
    return b[1] * scale, rows, np.array(rows)


class Chebyshev:
    """Bogacki and Shampine's steps where they are stable, and Chebyshev's where not."""

    order = 3

    def __init__(self) -> None:
        """Nothing is known of ρ."""
        self._plain = RungeKutta("bosh3")
        self._rate, self._direction, self._age = 0.0, np.zeros(0), 0
        self._tried: Flat | None = None  # from where the last step was
        self._stabilised = False  # whether that was one of Chebyshev's
        self._held, self._hold = 0, 1  # steps that are not to be such, and how many are not after the next failure

    @property
    def longest(self) -> float:
        """See ``Steps``."""
        reach = _PLAIN if self._held else (_MOST**2 - 1) / _REACH
        return reach / self._rate if self._rate > 0 else math.inf

    def first(self, field: VectorField, here: Flat, first: Flat, rtol: float) -> tuple[float, int]:
        """See ``Steps``: rtol^{1/3}/ρ, with which a smooth field meets the tolerance."""
        looked = self._look(field, here, first)
        self._tried = None  # nothing has failed here
        return (rtol ** (1.0 / self.order) / self._rate if self._rate > 0 else 0.0), looked

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """See ``Steps``."""
        failed = self._tried is here
        looked = self._look(field, here, first)
        reach = self._rate * length
        if self._stabilised and not failed:
            self._hold = 1
        elif self._stabilised and reach <= _PLAIN:
            self._held, self._hold = self._hold, min(2 * self._hold, _HELD)
        self._stabilised = reach > _PLAIN * (1 + _ROUNDING)
        if not self._stabilised:
            step = self._plain.take(field, here, first, length)
        else:
            step = _stabilised(field, here, first, length, math.ceil(math.sqrt(1 + _REACH * reach)))
        self._age += step.evaluations
        return step._replace(evaluations=step.evaluations + looked)

    def worse(self, field: VectorField, length: float) -> float:
        """See ``Steps``."""
        return 1.0

    def _look(self, field: VectorField, here: Flat, first: Flat) -> int:
        """Look for ρ where it is due; how many velocities that took."""
        failed, self._tried = self._tried is here, here
        self._held = max(self._held - 1, 0)
        if self._direction.size and self._age < _AGE and not failed:
            return 0
        most = _AGAIN if self._direction.size else _FIRST
        direction, self._age, rate = self._direction if self._direction.size else first, 0, 0.0
        size = math.sqrt(float(here @ here))
        for looked in range(1, most + 1):
            length = math.sqrt(float(direction @ direction))
            if not (length > 0 and size > 0):
                return looked - 1
            nudge = _NUDGE * size / length
            direction = (field.velocity(here + nudge * direction) - first) / (nudge * length)
            before, rate = rate, math.sqrt(float(direction @ direction))
            if abs(rate - before) <= _SETTLED * rate:
                break
        if not math.isfinite(rate):  # ρ is not known here: error control decides, and the next look begins anew
            direction, rate = np.zeros(0), 0.0
        # Two iterations may miss a direction that has become the fastest: what is known is forgotten slowly.
        self._direction, self._rate = direction, max(_MARGIN * rate, min(_KEPT * self._rate, _TRUSTED * rate))
        return looked


def _stabilised(field: VectorField, here: Flat, first: Flat, length: float, stages: int) -> Step:
    """A step of so many stages; ∫‖Ẇ‖² goes with the weights, by the same rule."""
    begins, rows, table = _table(stages)
    power = float(first @ first)
    there, energy_before, energy = here + begins * length * first, 0.0, begins * power
    known = np.array([here, there, here, first, first])  # W_0, W_{j−1}, W_{j−2}, Ẇ_{j−1}, Ẇ_0
    weights = table * np.array([1.0, 1.0, 1.0, length, length])
    for row, weight in zip(rows, weights, strict=True):
        known[3] = moving = field.velocity(there)
        there = weight @ known
        known[2], known[1] = known[1], there
        energy_after = row.last * energy + row.before * energy_before
        energy_after += row.moving * float(moving @ moving) + row.first * power
        energy_before, energy = energy, energy_after
    moving = field.velocity(there)
    parts = np.array([(here - there) / length, first, moving])
    return Step(there, moving, energy, parts, _ESTIMATE, stages)
