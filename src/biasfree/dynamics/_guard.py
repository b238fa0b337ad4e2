"""The guard at the door: every finished trajectory is looked at before it is handed out.

A run that fails may not be called a success. What is judged:

- weights and losses are numbers, and a loss of 0 is one;
- the objective, L + ½λ‖W‖², or ln L on the loss clock without decay, is not above its start (a flow only falls);
- balance drift, energy gap and admissibility, where they apply, are within a stated multiple of the tolerance, and
  so are what rounding may have made of neurons that faded and grew again, and what a second run differs by.

Descent is what it is at any rate, and approximates nothing: of it only the first is asked.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from biasfree.dynamics import _field, _status
from biasfree.dynamics._status import Gauge, Refusal
from biasfree.dynamics._trajectory import Trajectory
from biasfree.dynamics.methods import BY_NAME

_LEAST = np.finfo(float).tiny
_UNDERFLOW = math.log(5e-324)  # ln of a loss that float64 holds at all
_FLOOR = 1e-9  # of every gauge: rounding, summed over a long run's steps
# Multiples of rtol, ten times or more the largest measured over the runs of the tests, given beside each.
_BALANCE = 100.0  # 6.9 by the exact flow, 0.4 by adaptive steps
_BALANCE_IN_CHATTER = 3000.0  # 310: every step back and forth has an error of its own, of about the smallest step
_ENERGY = 100.0  # of the exact flow: 0.13
_ENERGY_OF_STEPS = 1000.0  # 12: energy is not under error control, and a step's tolerance is per neuron
_ENERGY_OVER_KINKS = 10_000.0  # 420: steps that pass over kinks integrate ‖Ẇ‖² across its jumps
_MOST_ENERGY = 0.3  # of the first loss, at any tolerance: nobody would call a third of it a small error
_ADMISSIBILITY = 1000.0  # a slide is held to the tolerance, and what is left of it grows until it ends
_LOST = 100.0  # to rounding, in neurons that grew again, or between two runs: as two tolerances may differ
_RISE = 100.0  # none rose; a step may err by rtol


class Verdict(NamedTuple):
    """What the guard says of a trajectory.

    Attributes:
        trajectory: to be handed out, its status replaced if it is not to be trusted.
        refusal: why it is not; None if it is.
        lost_to_rounding: whether neurons that faded and grew again may be lost, or what a plateau ends by: adaptive
            steps would do no better, nor say so.
    """

    trajectory: Trajectory
    refusal: Refusal | None = None
    lost_to_rounding: bool = False


def judge(trajectory: Trajectory) -> Verdict:
    """Look at a finished trajectory."""
    refusal = _not_numbers(trajectory)
    if trajectory.is_descent:
        return Verdict(_marked(trajectory, refusal), refusal)
    if refusal is None:
        too_large = (each for each in _gauges(trajectory) if each[1] > each[2])
        refusal = next((_status.too_large(*each) for each in too_large), None)
    lost = max(trajectory.counts.regrowth_error, trajectory.counts.rerun_gap) > _most_lost(trajectory)
    return Verdict(_marked(trajectory, refusal), refusal, bool(lost))


def judged(trajectory: Trajectory) -> Trajectory:
    """The trajectory, its status replaced if it is not to be trusted."""
    return judge(trajectory).trajectory


def _marked(trajectory: Trajectory, refusal: Refusal | None) -> Trajectory:
    if refusal is None:
        return trajectory
    return dataclasses.replace(trajectory, status=_status.refused(refusal, trajectory.status))


def _most_lost(trajectory: Trajectory) -> float:
    return float(_FLOOR + _LOST * trajectory.settings["rtol"])


def _not_numbers(trajectory: Trajectory) -> Refusal | None:
    """What is not a number."""
    finite = np.all([np.isfinite(layer).all(axis=(1, 2)) for layer in trajectory.weights], axis=0)
    if not finite.all():
        return _status.weights_not_finite(trajectory.times[np.argmin(finite)])
    for time, level in zip(trajectory.times, trajectory.log_losses, strict=True):
        if math.isnan(level):
            return _status.loss_not_a_number(time)
    # Only a square loss can be 0, and what rounding makes of the outputs may make it so.
    zero = -math.inf
    if trajectory.settings["loss"] == "square":
        zero = max(2 * math.log(max(trajectory.output_rounding, _LEAST)), _UNDERFLOW)
    for index in np.flatnonzero(trajectory.log_losses == -np.inf).tolist():
        if not _log_loss(trajectory, index) <= zero:
            return _status.loss_not_zero(trajectory.times[index])
    return None


def _log_loss(trajectory: Trajectory, index: int) -> float:
    """ln L from the saved weights."""
    problem, kind = trajectory.compiled_problem()
    weights = tuple(layer[index] for layer in trajectory.weights)
    return float(_field.log_loss(weights, problem, kind))


def _gauges(trajectory: Trajectory) -> Iterator[tuple[Gauge, float, float]]:
    """Each gauge with its value and limit; NaN, which is above nothing, where one does not apply."""
    rtol, scale = trajectory.settings["rtol"], _scale(trajectory)
    noise = trajectory.rounding / scale if math.isfinite(scale) else math.inf
    balance = _BALANCE_IN_CHATTER if trajectory.counts.chattered else _BALANCE
    if BY_NAME[trajectory.settings["method"]].meets_kinks:
        energy = _ENERGY
    else:
        energy = _ENERGY_OF_STEPS if trajectory.template.is_linear else _ENERGY_OVER_KINKS
    yield _status.BALANCE, trajectory.balance_drift, _FLOOR + balance * rtol
    allowed = energy * rtol if trajectory.by_logarithm else min(energy * rtol, _MOST_ENERGY)
    yield _status.ENERGY, trajectory.energy_gap, _FLOOR + allowed + noise
    yield _status.ADMISSIBILITY, trajectory.admissibility, _FLOOR + _ADMISSIBILITY * rtol
    yield _status.RISE, _rise(trajectory) / scale, _FLOOR + _RISE * rtol + noise
    yield _status.REGROWTH, trajectory.counts.regrowth_error, _most_lost(trajectory)
    yield _status.RERUN, trajectory.counts.rerun_gap, _most_lost(trajectory)


def _scale(trajectory: Trajectory) -> float:
    """What the objective is judged against: its start; 1 for ln L."""
    if trajectory.by_logarithm:
        return 1.0
    return max(float(trajectory.objectives()[0] + trajectory.energies[0]), _LEAST)


def _rise(trajectory: Trajectory) -> float:
    """How far the objective, or ln L, was ever above its start."""
    course = trajectory.log_losses if trajectory.by_logarithm else trajectory.objectives()
    with np.errstate(invalid="ignore"):
        return float(np.max(course - course[0]))
