"""Where steps meet a loss level: how long a step is to be, and the place within it at which the level is met.

−d ln L/dt = ‖Ẇ‖²/L (on the loss clock ‖Ẇ‖²) is known at every state, so a step is aimed a little beyond the level, and
the level is then looked for within it: ln L and the weights between its ends are the cubics that have their values and
slopes. These are off by less than the step itself, which is of a lower order.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Flat = Float[np.ndarray, "size"]

_FAR = 2.0  # times a loss level: from then on steps are aimed at it
_AIM = 1.1  # times the way to it, so as not to end short of it
_MOST_SLOWING = 2.0  # L ~ t^(−1/2): a step that tells more was disturbed by something else
_STRAIGHT = 1e-6  # a bend below which a way is straight
_BEYOND = 1e-6  # of ln L, how far beyond the level the end is wanted: it must not be short of it
_CLOSE = 1e-4  # of ln L, how far beyond it may be
_TRIES, _HALVINGS = 4, 50  # of places within a step; of an interval, until float64 ends


class End(NamedTuple):
    """One end of a step."""

    flat: Flat
    velocity: Flat
    log_loss: float


def fall(velocity: Flat, log_loss: float, clock: str) -> float:
    """−d ln L/dt; the square of the speed on the loss clock."""
    squared = float(velocity @ velocity)
    with np.errstate(all="ignore"):
        return squared if clock == "loss" else squared * float(np.exp(-log_loss))


def way_to_level(here: End, before: End | None, level: float, clock: str) -> float:
    """How far the level is, and a little more; infinite where that is not known or it is far off.

    −d ln L/dt goes as a power of L, which the step from ``before`` tells: so do exponential falls, and power laws.
    """
    remains, falls = here.log_loss - level, fall(here.velocity, here.log_loss, clock)
    if not (0 < remains < math.log(_FAR) and 0 < falls < math.inf):  # nor where it is not a number
        return math.inf
    bend = remains * (_slowing(before, here, clock) if before is not None else 0.0)
    return _AIM * remains / falls * (math.expm1(bend) / bend if bend > _STRAIGHT else 1.0)


def _slowing(before: End, here: End, clock: str) -> float:
    """By how many e-folds −d ln L/dt has fallen for each e-fold of L."""
    fallen = before.log_loss - here.log_loss
    first, last = (fall(end.velocity, end.log_loss, clock) for end in (before, here))
    if not (0 < fallen < math.inf and 0 < first < math.inf and 0 < last < math.inf):
        return 0.0
    return min(max(math.log(first / last) / fallen, 0.0), _MOST_SLOWING)


def meeting(
    first: End, last: End, length: float, level: float, clock: str, look: Callable[[Flat], End]
) -> tuple[float, End] | None:
    """The part of a step at whose end the level is met, and what is there; None where that is its end.

    ``look`` takes velocity and loss at a place.
    """
    if not (last.log_loss < level - _CLOSE and level < first.log_loss < math.inf):
        return None
    slope, last_slope = (-length * fall(end.velocity, end.log_loss, clock) for end in (first, last))
    if not (math.isfinite(slope) and math.isfinite(last_slope)):
        return None
    aim = level - _BEYOND
    for _ in range(_TRIES):
        part = _where(first.log_loss, last.log_loss, slope, last_slope, aim)
        flat = sum(
            weight * each
            for weight, each in zip(
                _cubic(part), (first.flat, last.flat, length * first.velocity, length * last.velocity), strict=True
            )
        )
        found = look(np.asarray(flat))
        if level - _CLOSE <= found.log_loss <= level:
            return part, found
        aim += level - _BEYOND - found.log_loss
        if not last.log_loss < aim < first.log_loss:
            break
    return None


def _cubic(part: float) -> tuple[float, float, float, float]:
    """Weights of both ends and of both slopes in the cubic that has them."""
    rest = 1 - part
    return (1 + 2 * part) * rest**2, (3 - 2 * part) * part**2, part * rest**2, -rest * part**2


def _where(first: float, last: float, slope: float, last_slope: float, value: float) -> float:
    """The part at which the cubic takes a value between those of its ends."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        part = 0.5 * (low + high)
        weights = _cubic(part)
        at = weights[0] * first + weights[1] * last + weights[2] * slope + weights[3] * last_slope
        low, high = (part, high) if at > value else (low, part)
    return high


def energy_until(part: float, first: float, last: float, mean: float) -> float:
    """∫‖Ẇ‖² up to a part of a step of length one, from ‖Ẇ‖² at its ends and its mean: that of the quadratic."""
    bow = 6 * (mean - 0.5 * (first + last))
    return part * (first + part * (0.5 * (last - first + bow) - part * bow / 3))
