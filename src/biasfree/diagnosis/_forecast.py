"""What will happen to a two-layer network on given data, foretold.

- **Condition 3** (or just what its proofs use): the network is its linear twin; Eq. 34's reduced flow is the course.
- **Elsewhere** the early phase is followed neuron by neuron. By its end the neurons have gathered in a few directions;
  parallel ones act as one, and the flow of that small network is the course of the large one (``_reduction``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Levels, looks, passing, read_course
from biasfree.diagnosis._reduction import reduced, seen
from biasfree.diagnosis._simulation import simulated
from biasfree.networks import Network

_HORIZON, _SAVED = 60.0, 300


@dataclass(frozen=True)
class Forecast:
    """The course of one start.

    Attributes:
        how: "exact" or "reduced network"; of a deep network "Appendix F", or "simulation" where no theory speaks.
        escape_time: when half of what the linear solution gains is gained; of order ln(1/γ)/rate.
        departure_time: when the network stops being linear, by its outputs or by its loss; None if it never does, as
            far as was looked.
        nonlinearity: what is not linear in the outputs, at its largest while the linear solution is sat at, or of the
            whole course if it is not.
        passing: the same in passing, before the linear solution is sat at.
        count: number of linear networks the network acts as; None where that is no description.
        verdict: in the words of the title's question.
        times, losses: the learning curve.
        stairs: where it acts as several linear networks, the steps of the loss.
        gathering: where neurons gather at first; empty where lines are too many to tell.
    """

    how: str
    escape_time: float
    departure_time: float | None
    nonlinearity: float
    passing: float
    count: int | None
    verdict: str
    times: Float[np.ndarray, "times"]
    losses: Float[np.ndarray, "times"]
    stairs: theory.Staircase | None = None
    gathering: tuple[theory.Gathering, ...] = ()

    @property
    def until(self) -> float:
        """How far was looked."""
        return float(self.times[-1]) if len(self.times) else 0.0


def forecast(start: Network, dataset: Dataset, loss: str, asymmetry: theory.Asymmetry, levels: Levels) -> Forecast:
    """Foretell the course of a start.

    Args:
        start: two layers, one output.
        dataset: scalar targets.
        loss: "square" or "logistic".
        asymmetry: of the data.
        levels: of the loss.
    """
    uneven = max(asymmetry.correlation.upper, asymmetry.covariance.upper)
    if (start.is_linear or uneven < 1e-9) and np.linalg.norm(dataset.correlation) > 0:
        return _exact(start, dataset, loss, levels)
    return _reduced(start, dataset, loss, levels)


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that are there."""
    there = [v for v in values if v is not None and np.isfinite(v)]
    return float(np.median(there)) if there else None


def _exact(start: Network, dataset: Dataset, loss: str, levels: Levels) -> Forecast:
    aligned = theory.aligned_start(start, dataset, loss)
    rate_time = theory.escape_time(min(aligned.norm, 0.5), aligned.rate)
    times = np.linspace(0, 4 * rate_time, _SAVED + 1)
    slope = 1.0 if start.is_linear else start.slope
    if loss == "square":
        course = theory.reduced_flow(
            times, dataset.covariance, dataset.correlation, aligned.direction, aligned.norm, slope
        )
    else:
        course = theory.reduced_flow_logistic(times, dataset, aligned.direction, aligned.norm, slope)
    curve = theory.linear_loss(course, dataset, loss)
    escaped = passing(times, -curve, -levels.gained)
    # Two sign paths whose starts differ by ε are learned at times that differ: at half height u₊² − u₋² is ε/2 of the
    # whole, half of it even, and less by (1−α)/(1+α) the nearer the slope is to 1.
    bent = 0.25 * abs(aligned.imbalance) * (1 - slope) / (1 + slope)
    return Forecast(
        "exact", rate_time if escaped is None else escaped, None, 0.0, bent, 1, "linear", times, np.asarray(curve)
    )


def _reduced(start: Network, dataset: Dataset, loss: str, levels: Levels) -> Forecast:
    few = reduced(start, dataset, loss)
    if few is None:
        return Forecast("reduced network", np.inf, None, 0.0, 0.0, 0, "linear", np.zeros(0), np.zeros(0))
    scale = max(theory.escape_time(min(start_norm(start), 0.5), few.rate), few.time)
    looked_at = seen(dataset)
    end = _HORIZON * scale
    run = simulated(few.network, looked_at, loss, until=end, save=looks(0.1 * end, end))
    found = read_course(Course(few.time + run.times, run.losses, run.networks), looked_at, levels)
    stairs = None
    if found.count is not None and found.count > 1 and few.groups:
        told = theory.several_linear_networks(start, looked_at, loss)
        stairs = told if told.linear_networks == found.count else None
    return Forecast(
        "reduced network",
        found.escape_time,
        found.departure_time,
        found.nonlinearity,
        found.passing,
        found.count,
        found.verdict,
        np.concatenate([[0.0], few.time + run.times]),
        np.concatenate([[levels.first], run.losses]),
        stairs,
        few.groups,
    )


def start_norm(start: Network) -> float:
    """About the size a random start's growing part has: half of either layer's square."""
    return float(np.sqrt(0.5 * sum(np.sum(np.asarray(w) ** 2) for w in start.weights) / 2))
