"""What a diagnosis is made of: the linear solution, the least losses, and starts that were simulated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Levels, Reading, looks, read_course
from biasfree.diagnosis._forecast import Forecast
from biasfree.diagnosis._simulation import part, simulated
from biasfree.dynamics import Trajectory
from biasfree.networks import Network

# How long a simulation runs, in escape times, unless something is foretold to happen later; and what
# stands for the escape time of a network that never escapes.
_LONG, _NEVER = 8.0, 1e4
COMPARED = ("verdict", "escape_time", "departure_time", "nonlinearity")


@dataclass(frozen=True)
class Solution:
    """The linear solution: where a linear network ends, and a ReLU network while it is linear.

    Attributes:
        kind: "least squares", "max margin" (separable labels) or "logistic regression".
        loss: its loss; 0 for a max margin, approached as the weights grow.
        accuracy: share of labels it gets right; None for numbers to predict.
        weights: the map, or its direction for a max margin.
    """

    kind: str
    loss: float
    accuracy: float | None
    weights: np.ndarray

    def __str__(self) -> str:
        """Kind, loss and accuracy."""
        right = "" if self.accuracy is None else f", {self.accuracy:.1%} of the labels right"
        return f"{self.kind}, loss {self.loss:.4g}{right}"


@dataclass(frozen=True)
class Floor:
    """The least losses that networks of any width can reach.

    Attributes:
        two_layer, deep: without biases, two layers, and three or more.
        with_bias: with biases: what samples of equal inputs but other targets leave.
        payers: the samples that pay most of the two-layer network's, the dearest first.
    """

    two_layer: float
    deep: float
    with_bias: float
    payers: np.ndarray


@dataclass(frozen=True)
class Check:
    """One start simulated, beside what was foretold for it.

    Attributes:
        seed: of the weights.
        predicted, measured: verdict, escape time, departure time (None: not within the run), nonlinearity and, measured
            only, the losses at the end.
        until: how long the simulation ran.
        status: how it ended.
    """

    seed: int
    predicted: Mapping[str, Any]
    measured: Mapping[str, Any]
    until: float
    status: str
    times: np.ndarray
    losses: np.ndarray
    linear_times: np.ndarray
    linear_losses: np.ndarray

    @property
    def agrees(self) -> bool:
        """Whether what was found is what was foretold, or nothing was."""
        return self.predicted["verdict"] in (None, self.measured["verdict"])


def solution_of(data: Dataset, loss: str) -> Solution:
    """Where a linear network ends."""
    if loss == "square":
        best = theory.best_possible_loss(data, slope=1.0)
        return Solution("least squares", best.loss, None, np.asarray(best.linear_map))
    if theory.separability(data):
        return Solution("max margin", 0.0, 1.0, theory.max_margin(data).direction)
    best = theory.best_possible_loss(data, slope=1.0, loss=loss)
    weights = np.asarray(best.linear_map)
    right = float(np.mean(np.sign(data.inputs @ weights) == data.targets))
    return Solution("logistic regression", best.loss, right, weights)


def floor_of(data: Dataset, loss: str, slope: float) -> Floor:
    """What no network goes below."""
    two = theory.best_possible_loss(data, 2, slope, loss)
    deep = theory.best_possible_loss(data, "deep", slope, loss)
    return Floor(two.loss, deep.loss, _with_bias(data, loss), two.samples_off)


def _with_bias(data: Dataset, loss: str) -> float:
    """Wide networks with biases fit anything; only equal inputs with other targets cost."""
    _, group = np.unique(data.inputs, axis=0, return_inverse=True)
    group = group.ravel()
    count = np.bincount(group)
    mean = np.bincount(group, data.targets) / count
    if loss == "square":
        return float(0.5 * np.mean((data.targets - mean[group]) ** 2))
    share = 0.5 * (1 + mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nan_to_num(share * np.log(share)) - np.nan_to_num((1 - share) * np.log1p(-share))
    return float(count @ entropy / len(data.targets))


def checked(
    start: Network,
    data: Dataset,
    loss: str,
    foretold: Forecast,
    levels: Levels,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> Check:
    """Simulate a start and the linear network of the same weights.

    Args:
        start: two layers, one output.
        data: scalar targets.
        loss: "square" or "logistic".
        foretold: its forecast, which says how far to look.
        levels: of the loss.
        seed: of the start.
        progress: called with the share that is done.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    escape = min(foretold.escape_time, _NEVER)
    until = _LONG * escape
    if foretold.departure_time is not None:
        until = max(until, min(1.3 * foretold.departure_time, 100 * escape))
    options: dict[str, Any] = {"until": until, "save": looks(0.5 * _LONG * escape, until)}
    run = simulated(start, data, loss, part(progress, 0, 0.8), **options)
    linear = simulated(start.with_slope(1.0), data, loss, part(progress, 0.8, 1), **options)
    course = Course(run.times, run.losses, run.networks)
    return check_of(seed, foretold, read_course(course, data, levels), course, linear, run.status.message)


def check_of(
    seed: int, foretold: Forecast | None, found: Reading, course: Course, linear: Trajectory, status: str
) -> Check:
    """What was foretold, if anything was, beside what was found."""
    measured = {name: getattr(found, name) for name in COMPARED}
    return Check(
        seed,
        {name: getattr(foretold, name, None) for name in COMPARED},
        {**measured, "final_loss": float(course.losses[-1]), "linear_loss": float(linear.losses[-1])},
        float(course.times[-1]),
        status,
        course.times,
        course.losses,
        linear.times,
        linear.losses,
    )
