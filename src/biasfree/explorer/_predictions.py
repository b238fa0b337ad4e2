"""What theory predicts for a view, as loss curves to lay over the simulated one, or why it predicts nothing.

- **Condition 3** (or a linear network): Eq. 38 on white data, else Eq. 34's reduced flow, from the aligned start that
  the random one is equivalent to.
- **Groups that share no sample**: the staircase of several linear networks.
- **Nearly symmetric data**: when the linear solution is left, by the law of departure.
- **Three layers** under Condition 3 with a linear target: when the two sign paths are learned.
"""

from typing import NamedTuple

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.explorer._view import View
from biasfree.networks import Network

_WHITE = 1e-9  # distance of Σ from the identity that is rounding
_APART = 0.05  # groups that overlap by more are not predicted as if they did not
_LINES = 60  # samples beyond which the early phase is too long for a page that waits
_ALMOST = 0.05  # of the linear solution's loss: how far below it the plateau of nearly symmetric data may lie
_FITTED = 1e-9  # of the initial loss: a linear map fits the target


class Prediction(NamedTuple):
    """A predicted loss curve.

    Attributes:
        name: by what it is predicted.
        times, losses: the curve.
        note: what it rests on, in a sentence.
        code: the lines of Python that compute ``losses``, after those that compute the run.
    """

    name: str
    times: np.ndarray
    losses: np.ndarray
    note: str
    code: str


class Predictions(NamedTuple):
    """All predictions, and a sentence where there is none."""

    curves: list[Prediction]
    why_none: str


def predictions(view: View, data: Dataset, start: Network, times: np.ndarray) -> Predictions:
    """Everything that theory predicts of the loss curve, at the times that the run saved."""
    if view.loss == "exponential":
        return Predictions([], "The papers' time courses are of square and logistic loss.")
    if not np.any(data.correlation):
        return Predictions([], "Inputs and target are uncorrelated (β = 0): no time course is known from there.")
    holds = start.is_linear or theory.symmetry(data).holds
    if view.depth == 2:
        return _two_layers(view, data, start, times, holds)
    return _deep(view, data, start, float(times[-1]), holds)


class Leaving(NamedTuple):
    """When the linear solution is left by the law of departure, the sentence on it, and its Python."""

    time: float
    description: str
    code: str


def leaving(view: View, data: Dataset) -> Leaving | None:
    """The law of departure, for two layers on data that are nearly symmetric; None elsewhere, or if nobody leaves."""
    if view.depth != 2 or view.slope == 1 or theory.symmetry(data).holds:
        return None
    try:
        law = theory.departure(
            data, view.slope, view.loss, view.scale, weight_decay=view.weight_decay, width=view.width, seed=view.seed
        )
    except (ValueError, ArithmeticError):  # the law does not cover this case
        return None
    if not (np.isfinite(law.time) and law.settled and law.linear_loss - law.level < _ALMOST * law.linear_loss):
        return None
    never = f", or never, with probability {law.stays(view.width):.2g} at this width"
    sentence = f"Law of departure: the linear solution is left at t ≈ {law.time:.4g}{never}."
    decay = f"weight_decay={view.weight_decay!r}, " if view.weight_decay else ""
    code = (
        f"law = bf.theory.departure(data, {view.slope!r}, {view.loss!r}, {view.scale!r}, {decay}width={view.width}, "
        f"seed={view.seed})\nprint(law.time)"
    )
    return Leaving(law.time, sentence, code)


def _two_layers(view: View, data: Dataset, start: Network, times: np.ndarray, holds: bool) -> Predictions:
    if holds:
        return Predictions([_equivalent(view, data, start, times)], "")
    if view.weight_decay:
        return Predictions([], "With weight decay the staircase of several linear networks is not known.")
    if data.samples > _LINES:
        return Predictions([], f"Off Condition 3 the early phase is followed here for up to {_LINES} samples.")
    stairs = theory.several_linear_networks(start, data, view.loss)
    if stairs.coupling > _APART:
        return Predictions(
            [],
            f"Groups of neurons overlap by {stairs.coupling:.2g}: they do not act as independent linear networks, and "
            "their staircase is not drawn.",
        )
    code = (
        f"stairs = bf.theory.several_linear_networks(start, data, {view.loss!r})\npredicted = stairs.losses(run.times)"
    )
    return Predictions([Prediction("several linear networks", times, stairs.losses(times), f"{stairs}.", code)], "")


def _equivalent(view: View, data: Dataset, start: Network, times: np.ndarray) -> Prediction:
    aligned = theory.aligned_start(start, data, view.loss)
    slope = 1.0 if start.is_linear else start.slope
    small = f"From the aligned start of norm {aligned.norm:.3g} that this one is equivalent to while it is small."
    then = f"aligned.direction, aligned.norm, {slope!r}"
    decay = f", {view.weight_decay!r}" if view.weight_decay else ""
    if view.loss == "logistic":
        course = theory.reduced_flow_logistic(times, data, aligned.direction, aligned.norm, slope, view.weight_decay)
        name, called = "reduced flow (Eq. 34, logistic)", f"reduced_flow_logistic(run.times, data, {then}{decay})"
    elif not view.weight_decay and np.abs(data.covariance - np.eye(data.dim)).max() < _WHITE:
        course = theory.closed_form(times, data.correlation, aligned.direction, aligned.norm, slope)
        name, called = "closed form (Eq. 38)", f"closed_form(run.times, data.correlation, {then})"
    else:
        course = theory.reduced_flow(
            times, data.covariance, data.correlation, aligned.direction, aligned.norm, slope, view.weight_decay
        )
        name = "reduced flow (Eq. 34)"
        called = f"reduced_flow(run.times, data.covariance, data.correlation, {then}{decay})"
    code = (
        f"aligned = bf.theory.aligned_start(start, data, {view.loss!r})\n"
        f"course = bf.theory.{called}\npredicted = bf.theory.linear_loss(course, data, {view.loss!r})"
    )
    return Prediction(name, times, np.asarray(theory.linear_loss(course, data, view.loss)), small, code)


def _deep(view: View, data: Dataset, start: Network, until: float, holds: bool) -> Predictions:
    power = float(np.mean(data.targets**2))
    fitted = float(theory.linear_loss(theory.least_squares(data), data)) <= _FITTED * 0.5 * power
    if not (holds and fitted and view.loss == "square" and start.slope == 0 and not view.weight_decay):
        return Predictions(
            [],
            "Of three layers theory predicts a time course for ReLU networks with square loss under Condition 3, where "
            "a linear map fits the target.",
        )
    paths = theory.sign_paths(start, data.correlation, middle="overlap")
    stairs = theory.deep_staircase(paths, data.covariance, data.correlation, power)
    steps = [t for t in stairs.times if t < until]
    levels = stairs.levels[: len(steps) + 1]
    note = f"{stairs}; times from a random start are good to a few per cent."
    curve = np.repeat([0.0, *steps, until], 2)[1:-1], np.repeat(levels, 2)
    code = (
        'paths = bf.theory.sign_paths(start, data.correlation, middle="overlap")\n'
        "stairs = bf.theory.deep_staircase(paths, data.covariance, data.correlation, (data.targets**2).mean())\n"
        "print(stairs.times, stairs.levels)"
    )
    return Predictions([Prediction("two sign paths (Appendix F)", *curve, note, code)], "")
