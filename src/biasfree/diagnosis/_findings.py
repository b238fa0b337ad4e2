"""Starts that were simulated, beside what was predicted for them; and the least losses of any network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Reading, looks, read_course
from biasfree.diagnosis._forecast import Forecast
from biasfree.diagnosis._sampling import Draw
from biasfree.diagnosis._simulation import part, simulated
from biasfree.diagnosis._stages import accuracy_at
from biasfree.dynamics import Trajectory
from biasfree.networks import Network

# How long a simulation runs, in escape times, unless what decides is predicted to happen later; and what
# stands for the escape time of a network that never escapes.
_LONG, _NEVER = 8.0, 1e4
# Rows up to which the least losses are found on all of them, and not on a draw.
MOST_ON_LINES = 200_000


@dataclass(frozen=True)
class Floor:
    """The least losses that networks of any width can reach.

    Attributes:
        two_layer, deep: without biases, two layers, and three or more.
        with_bias: with biases: what samples of equal inputs but other targets leave.
        payers: the samples that pay most of the two-layer network's, the costliest first.
    """

    two_layer: float
    deep: float
    with_bias: float
    payers: np.ndarray


@dataclass(frozen=True)
class Check:
    """One start simulated, beside what was predicted for it.

    Attributes:
        seed: of the weights.
        predicted, measured: verdict, what thresholds a tenth off make of it (None: the same), escape time, departure
            time (None: not within the run), nonlinearity, for classes the accuracy at the simulation's end and,
            measured only, the losses there.
        reading: all that was measured.
        course: the simulated network over time.
        run, linear: the simulation (its last part, where there are several), and that of the linear twin.
    """

    seed: int
    predicted: Mapping[str, Any]
    measured: Mapping[str, Any]
    reading: Reading
    course: Course
    run: Trajectory
    linear: Trajectory

    @property
    def until(self) -> float:
        """How long the simulation ran."""
        return float(self.course.times[-1])

    @property
    def status(self) -> str:
        """How it ended."""
        return self.run.status.message

    @property
    def times(self) -> np.ndarray:
        """Of the saved networks."""
        return self.course.times

    @property
    def losses(self) -> np.ndarray:
        """At these times."""
        return self.course.losses

    @property
    def agrees(self) -> bool:
        """Whether what was measured is what was predicted, or nothing was predicted."""
        return self.predicted["verdict"] in (None, self.measured["verdict"])


def floor_of(data: Dataset, loss: str, slope: float) -> Floor:
    """What no network goes below."""
    two = theory.best_possible_loss(data, 2, slope, loss)
    deep = theory.best_possible_loss(data, "deep", slope, loss)
    return Floor(two.loss, deep.loss, _with_bias(data, loss), two.samples_off)


def _with_bias(data: Dataset, loss: str) -> float:
    """Wide networks with biases fit anything; only equal inputs with other targets cost."""
    _, group = np.unique(data.inputs, axis=0, return_inverse=True)
    group = group.ravel()
    targets = data.targets.reshape(data.samples, -1)
    means = np.column_stack([np.bincount(group, target) / np.bincount(group) for target in targets.T])[group]
    if loss == "square":
        return float(0.5 * np.mean(np.sum((targets - means) ** 2, axis=1)))
    shares = means if loss == "cross-entropy" else np.column_stack([0.5 * (1 + means), 0.5 * (1 - means)])
    return float(np.mean(np.sum(scipy.special.entr(shares), axis=1)))


def checked(
    start: Network,
    draw: Draw,
    loss: str,
    predicted: Forecast,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> Check:
    """Simulate a start and the linear network of the same weights.

    Args:
        start: two layers.
        draw: the data it learns.
        loss: its name.
        predicted: its forecast, which says how far to look.
        seed: of the start.
        progress: called with the share that is done.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    escape = min(predicted.escape_time, _NEVER)
    decided = max(predicted.reading.on_samples.decided_time, predicted.reading.as_function.decided_time)
    until = max(_LONG * escape, min(1.3 * decided, 100 * escape))
    options: dict[str, Any] = {"until": until, "save": looks(0.5 * _LONG * escape, until)}
    run = simulated(start, draw.data, loss, part(progress, 0, 0.8), **options)
    linear = simulated(start.with_slope(1.0), draw.data, loss, part(progress, 0.8, 1), **options)
    return check_of(seed, predicted, draw, loss, Course(run.times, run.losses, run.networks), run, linear)


def check_of(
    seed: int, predicted: Forecast | None, draw: Draw, loss: str, course: Course, run: Trajectory, linear: Trajectory
) -> Check:
    """What was predicted, if anything was, beside what was measured."""
    reading = (
        read_course(course, draw.data, draw.levels) if draw.fresh is None else read_course(course, *draw.fresh, loss)
    )
    seen = Course(course.times[: len(reading.losses)], reading.losses, course.networks[: len(reading.losses)])
    ahead: dict[str, Any] = _compared(None if predicted is None else predicted.reading)
    measured: dict[str, Any] = _compared(reading)
    if draw.data.classes:
        last = float(seen.times[-1])
        known = None if predicted is None else predicted.course
        ahead["accuracy"] = None if known is None else accuracy_at(known, last, draw.data)
        measured["accuracy"] = accuracy_at(seen, last, draw.data)
    losses = {"final_loss": float(reading.losses[-1]), "linear_loss": float(linear.losses[-1])}
    return Check(
        seed,
        ahead,
        {**measured, **losses},
        reading,
        seen,
        run,
        linear,
    )


def _compared(reading: Reading | None) -> dict[str, Any]:
    if reading is None:
        return dict.fromkeys(("verdict", "otherwise", "escape_time", "departure_time", "nonlinearity"))
    bend = reading.decides
    return {
        "verdict": bend.verdict,
        "otherwise": bend.otherwise,
        "escape_time": reading.escape_time,
        "departure_time": bend.departure_time,
        "nonlinearity": bend.nonlinearity,
    }
