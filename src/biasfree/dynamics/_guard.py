"""The guard at the door: every finished trajectory is looked at before it is handed out.

A run that fails may not be called a success. What is judged:

- weights and losses are numbers, and a loss of 0 is one;
- the objective, L + ½λ‖W‖², or ln L on the loss clock, is not above its start (a flow only falls);
- balance drift, energy gap and admissibility, where they apply, are within a stated multiple of the tolerance.

Descent is what it is at any rate, and approximates nothing: of it only the first is asked.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from biasfree.dynamics import _field, _status
from biasfree.dynamics._trajectory import Trajectory

_FLOOR = 1e-9  # of every gauge: rounding, summed over a long run's steps
# Multiples of rtol, about ten times the largest measured over the tests' runs: a step may spend rtol, and errors add.
_BALANCE, _ADMISSIBILITY, _RISE = 1000.0, 1000.0, 1000.0
_ENERGY = 1000.0
# Steps that pass over kinks integrate ‖Ẇ‖², which jumps there, without error control.
_ENERGY_OVER_KINKS = 1e5
_ROUNDINGS = 64.0  # of a sum over neurons and samples, in units of float64's own
_EXACT = ("exact",)


def judged(trajectory: Trajectory) -> Trajectory:
    """The trajectory, its status replaced if it is not to be trusted."""
    verdict = _not_numbers(trajectory)
    if verdict is not None:
        return dataclasses.replace(trajectory, status=_status.refused("not finite", verdict, trajectory.status))
    if trajectory.settings["method"] == "descent":
        return trajectory
    for gauge, value, limit in _gauges(trajectory):
        if value > limit:
            found = f"{gauge} is {value:.2g}, above {limit:.2g}. Use a smaller rtol, or another method."
            return dataclasses.replace(trajectory, status=_status.refused("inaccurate", found, trajectory.status))
    return trajectory


def _not_numbers(trajectory: Trajectory) -> str | None:
    """What is not a number, as a sentence."""
    for index, time in enumerate(trajectory.times):
        if not all(np.isfinite(layer[index]).all() for layer in trajectory.weights):
            return f"the weights at {time:.6g} are not finite. Rescale the data, or use another method."
    for time, level in zip(trajectory.times, trajectory.log_losses, strict=True):
        if math.isnan(level):
            return f"the loss at {time:.6g} is not a number. Rescale the data, or use another method."
    for zero in np.flatnonzero(trajectory.log_losses == -np.inf).tolist():
        if _log_loss(trajectory, zero) > -np.inf:
            return f"the loss at {trajectory.times[zero]:.6g} was said to be 0 and is not. Use another method."
    return None


def _log_loss(trajectory: Trajectory, index: int) -> float:
    """ln L from the saved weights."""
    problem, kind = trajectory.compiled_problem()
    weights = tuple(layer[index] for layer in trajectory.weights)
    return float(_field.compiled_log_loss(weights, problem, kind=kind))


def _gauges(trajectory: Trajectory) -> Iterator[tuple[str, float, float]]:
    """Name, value and limit of each gauge; NaN, which is above nothing, where one does not apply."""
    rtol, scale = trajectory.settings["rtol"], _scale(trajectory)
    noise = rounding(trajectory) / scale if math.isfinite(scale) else math.inf
    yield "the balance drift", trajectory.balance_drift, _FLOOR + _BALANCE * rtol
    yield "the inadmissible slide", trajectory.admissibility, _FLOOR + _ADMISSIBILITY * rtol
    meets_kinks = trajectory.template.is_linear or trajectory.settings["method"] in _EXACT
    energy = _ENERGY if meets_kinks else _ENERGY_OVER_KINKS
    yield "the energy gap", trajectory.energy_gap, _FLOOR + energy * rtol + noise
    yield "the rise of the objective above its start", _rise(trajectory) / scale, _FLOOR + _RISE * rtol + noise


def _scale(trajectory: Trajectory) -> float:
    """What the objective is judged against: its start; 1 for ln L."""
    if trajectory.settings["clock"] == "loss":
        return 1.0
    return max(float(trajectory.objectives()[0] + trajectory.energies[0]), np.finfo(float).tiny)


def _rise(trajectory: Trajectory) -> float:
    """How far the objective, or ln L, was ever above its start."""
    with np.errstate(invalid="ignore", over="ignore"):
        if trajectory.settings["clock"] == "time":
            course = trajectory.objectives()
        elif trajectory.settings["weight_decay"]:
            return math.nan
        else:
            course = trajectory.log_losses
        return float(np.max(course - course[0]))


def rounding(trajectory: Trajectory) -> float:
    """How far the objective (ln L on the loss clock) may be off because outputs are rounded, to first order.

    Outputs are sums of products of all layers: off by float64's rounding of ‖x‖ times the layers' norms.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.prod([np.sqrt((layer**2).sum(axis=(1, 2))).max() for layer in trajectory.weights])
        reach = reach * np.sqrt((np.asarray(trajectory.dataset.inputs) ** 2).sum(axis=1).max())
        noise = _ROUNDINGS * np.finfo(float).eps * float(reach + np.abs(trajectory.dataset.targets).max())
        if trajectory.settings["clock"] == "loss":
            return noise
        largest = float(np.exp(np.minimum(trajectory.log_losses.max(), 700.0)))
        slope = math.sqrt(2 * largest) if trajectory.settings["loss"] == "square" else max(largest, 1.0)
        return slope * noise + noise**2
