"""The guard at the door: every finished trajectory is looked at before it is handed out.

A run that fails may not be called a success. What is judged:

- weights and losses are numbers, and a loss of 0 is one;
- the objective, L + ½λ‖W‖², or ln L on the loss clock without decay, is not above its start (a flow only falls);
- balance drift, energy gap and admissibility, where they apply, are within a stated multiple of the tolerance, and
  so is what rounding may have made of neurons that faded and grew again.

Descent is what it is at any rate, and approximates nothing: of it only the first is asked.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from biasfree.dynamics import _field, _status
from biasfree.dynamics._trajectory import Trajectory

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
_REGROWTH = 100.0  # as two tolerances may differ
_RISE = 100.0  # none rose; a step may err by rtol


class Verdict(NamedTuple):
    """What the guard says of a trajectory.

    Attributes:
        trajectory: to be handed out, its status replaced if it is not to be trusted.
        lost_to_rounding: whether neurons that faded and grew again may be lost: adaptive steps would do no better, nor
            say so.
    """

    trajectory: Trajectory
    lost_to_rounding: bool


def judge(trajectory: Trajectory) -> Verdict:
    """Look at a finished trajectory."""
    lost = bool(trajectory.counts.regrowth_error > _most_regrowth(trajectory))
    return Verdict(judged(trajectory), lost)


def judged(trajectory: Trajectory) -> Trajectory:
    """The trajectory, its status replaced if it is not to be trusted."""
    verdict = _not_numbers(trajectory)
    if verdict is not None:
        return dataclasses.replace(trajectory, status=_status.refused("not finite", verdict, trajectory.status))
    if trajectory.settings["method"] == "descent":
        return trajectory
    for gauge, value, limit, advice in _gauges(trajectory):
        if value > limit:
            sentence = f"{gauge} is {value:.2g}, above {limit:.2g}. {advice}"
            return dataclasses.replace(trajectory, status=_status.refused("inaccurate", sentence, trajectory.status))
    return trajectory


def _most_regrowth(trajectory: Trajectory) -> float:
    return float(_FLOOR + _REGROWTH * trajectory.settings["rtol"])


def _not_numbers(trajectory: Trajectory) -> str | None:
    """What is not a number, as a sentence."""
    finite = np.all([np.isfinite(layer).all(axis=(1, 2)) for layer in trajectory.weights], axis=0)
    if not finite.all():
        time = trajectory.times[np.argmin(finite)]
        return f"the weights at {time:.6g} are not finite. Rescale the data, or use another method."
    for time, level in zip(trajectory.times, trajectory.log_losses, strict=True):
        if math.isnan(level):
            return f"the loss at {time:.6g} is not a number. Rescale the data, or use another method."
    # Only a square loss can be 0, and what rounding makes of the outputs may make it so.
    zero = -math.inf
    if trajectory.settings["loss"] == "square":
        zero = max(2 * math.log(max(trajectory.output_rounding, _LEAST)), _UNDERFLOW)
    for index in np.flatnonzero(trajectory.log_losses == -np.inf).tolist():
        if not _log_loss(trajectory, index) <= zero:
            return f"the loss at {trajectory.times[index]:.6g} was said to be 0 and is not. Use another method."
    return None


def _log_loss(trajectory: Trajectory, index: int) -> float:
    """ln L from the saved weights."""
    problem, kind = trajectory.compiled_problem()
    weights = tuple(layer[index] for layer in trajectory.weights)
    return float(_field.log_loss(weights, problem, kind))


def _gauges(trajectory: Trajectory) -> Iterator[tuple[str, float, float, str]]:
    """Name, value and limit of each gauge and what to do; NaN, which is above nothing, where one does not apply."""
    advice = "Use a smaller rtol, or another method."
    rtol, scale = trajectory.settings["rtol"], _scale(trajectory)
    noise = trajectory.rounding / scale if math.isfinite(scale) else math.inf
    balance = _BALANCE_IN_CHATTER if trajectory.counts.chattered else _BALANCE
    if trajectory.settings["method"] == "exact":
        energy = _ENERGY
    else:
        energy = _ENERGY_OF_STEPS if trajectory.template.is_linear else _ENERGY_OVER_KINKS
    yield "the balance drift", trajectory.balance_drift, _FLOOR + balance * rtol, advice
    allowed = energy * rtol if trajectory.by_logarithm else min(energy * rtol, _MOST_ENERGY)
    yield "the energy gap", trajectory.energy_gap, _FLOOR + allowed + noise, advice
    yield "the inadmissible slide", trajectory.admissibility, _FLOOR + _ADMISSIBILITY * rtol, advice
    yield "the rise of the objective above its start", _rise(trajectory) / scale, _FLOOR + _RISE * rtol + noise, advice
    advice = "Use a smaller rtol; if that says the same, float64 cannot tell, and only larger first weights would."
    faded = "what rounding may have made of neurons that faded and grew again"
    yield faded, trajectory.counts.regrowth_error, _most_regrowth(trajectory), advice


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
