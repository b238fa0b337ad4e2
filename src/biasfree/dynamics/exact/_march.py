"""Steps one after the other, until something happens within one."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._arrays import START, Desk, Form, Limits, Pattern, Sought, Trial
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._kernels import BLUR, attempt, scan
from biasfree.dynamics.exact._methods import Method

_SHRINK_MOST, _SHRINK = 0.1, 0.2  # usual bounds of a step's change
_CAREFUL = 0.9  # usual part of the step that the error allows
_STABLE = 4.0  # step × fastest rate from which stability holds the steps; that of order 8 ends near 6


class Going(NamedTuple):
    """How a march may go."""

    left: float  # time until its end
    smallest: float  # step below which it gives up
    longest: float  # step
    step: float  # wanted first
    per_time: float  # 1/time over which an error may be as large as the tolerance; 0: over any step
    stiff: int  # steps held by stability, less those that were not
    steps: int  # accepted ones, at most
    energy: float  # so far
    level: float  # ln L at which it ends


class Marched(NamedTuple):
    """How a march went.

    Attributes:
        steps, rejected: their number; what the last one met is in ``Sought``.
        step: wanted next.
        stiff: as in ``Going``.
        smallest: accepted step.
        crossings: in ``Sought``; -1 if nothing at all happened.
    """

    steps: int
    rejected: int
    step: float
    stiff: int
    smallest: float
    crossings: int


def march(
    z: Float[np.ndarray, "rows columns"], going: Going, data: Data, pattern: Pattern, form: Form, limits: Limits,
    method: Method, apart: Float[np.ndarray, "2 passive"], trial: Trial, desk: Desk, sought: Sought,
) -> Marched:  # fmt: skip
    """Steps from rows ``z``; ``trial`` holds them all, ``sought`` what happened in the last one.

    ``apart`` holds spread and share of the passive rows (``Merged``). The velocity where the steps end is the trial's
    first stage.
    """
    taken, rejected, crossings, stiff, first = 0, 0, -1, going.stiff, 0
    time, energy, step, smallest, allowed = 0.0, going.energy, going.step, math.inf, limits
    desk.rows[START], active, dim = z, len(pattern.side), len(data.transposed)
    while crossings < 0 and taken < going.steps and rejected <= 2 * going.steps and time < going.left:
        length = min(step, going.longest, going.left - time)
        if not length > going.smallest:
            break
        if going.per_time > 0:
            allowed = Limits(limits.rtol * min(1.0, length * going.per_time), 0.0, limits.energy)
        error, stiffness = attempt(
            taken, first, time, length, energy, data, pattern, form, allowed, method, apart[1], trial, desk
        )
        wanted, held, first = length * _factor(error, method), stiffness > _STABLE, 1
        if not error <= 1:
            # At the edge of stability every second or third step fails.
            step, rejected, stiff = wanted, rejected + 1, stiff + 3 if held else max(0, stiff - 1)
            continue
        # A step cut short by the end says nothing against the one that was planned.
        step, smallest = wanted if length >= step else max(step, wanted), min(smallest, length)
        stiff, trial.lengths[taken] = stiff + 1 if held else max(0, stiff - 1), length
        if len(z) > active:
            reach = math.sqrt(dim) * apart[0] * np.abs(desk.rows[START, active:, :dim]).max(axis=1)  # at least
            desk.radius[:] = np.bincount(pattern.owner[active:], reach, minlength=active)
        else:
            desk.radius[:] = 0.0
        crossings = scan(trial.curves[taken], time, length, BLUR, data, pattern, going.level, desk, sought)
        energy = float(trial.energies[taken, 7])
        desk.rows[START] = trial.curves[taken, 7]
        trial.stages[0], trial.powers[0] = trial.stages[method.core - 1], trial.powers[method.core - 1]
        taken, time = taken + 1, time + length
    return Marched(taken, rejected, step, stiff, smallest, crossings)


def _factor(error: float, method: Method) -> float:
    """What the next step should be, in units of one of this error."""
    if not error < math.inf:
        return _SHRINK_MOST
    factor = _CAREFUL * max(error, 1e-14) ** (-1 / method.order)
    if error <= 1:
        return min(method.grow, max(_SHRINK, factor))
    return max(_SHRINK if error < 1e10 else _SHRINK_MOST, factor)
