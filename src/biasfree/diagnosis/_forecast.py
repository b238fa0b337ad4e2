"""What will happen to a two-layer network on given data, predicted.

- **Condition 3** (or just what its proofs use): the network is its linear twin; Eq. 34's reduced flow is the course.
- **Elsewhere** the early phase is followed neuron by neuron. By its end the neurons have gathered in a few directions;
  parallel ones act as one, and the flow of that small network is the course of the large one (``_reduction``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import STRAIGHT, Bend, Course, Levels, Reading, looks, passing, read_course
from biasfree.diagnosis._reduction import Reduced, reduced
from biasfree.diagnosis._simulation import simulated
from biasfree.networks import Network

# How far to look, in escape times: on all samples, and on some of many.
HORIZON, SHORT, _SAVED = 60.0, 20.0, 300


@dataclass(frozen=True)
class Forecast:
    """The course of one start.

    Attributes:
        how: "exact", "reduced network" or, where several outputs' neurons are too many for one, "early phase and flow";
            of a deep network "Appendix F", or "simulation" where no theory applies.
        reading: when it escapes, and how linear it is on the samples and as a function.
        times, losses: the learning curve.
        last: the network at its end, as a function of inputs; None where the end is not known.
        sitting: the last network before the departure; None where there is none.
        stairs: where it acts as several linear networks, the steps of the loss; with several outputs on symmetric data
            those of its modes.
        gathering: where neurons gather at first; empty where there are too many lines to follow.
        course: the predicted networks over time, of several outputs.
        joined: neurons within this angle, in radians, go on as one; that they part later is not predicted.
    """

    how: str
    reading: Reading
    times: Float[np.ndarray, "times"]
    losses: Float[np.ndarray, "times"]
    last: Callable[[Any], Any] | None = None
    sitting: Network | None = None
    stairs: theory.Staircase | theory.ModeStaircase | None = None
    gathering: tuple[theory.Gathering, ...] = ()
    course: Course | None = None
    joined: float = 0.0

    @property
    def escape_time(self) -> float:
        """When half of what the linear solution gains is gained; of order ln(1/γ)/rate."""
        return self.reading.escape_time

    @property
    def verdict(self) -> str:
        """In the words of the title's question."""
        return self.reading.decides.verdict

    @property
    def departure_time(self) -> float | None:
        """When the network stops being linear, by its outputs or by its loss; None if never, as far as was looked."""
        return self.reading.decides.departure_time

    @property
    def nonlinearity(self) -> float:
        """What is not linear in the outputs, of the question that decides."""
        return self.reading.decides.nonlinearity

    @property
    def until(self) -> float:
        """How far was looked."""
        return float(self.times[-1]) if len(self.times) else 0.0


def straight(escape: float, bent: float = 0.0, count: int = 1) -> Reading:
    """The reading of a network that is linear throughout, but for what it bends in passing."""
    bend = Bend("linear", None, 0.0, bent, 0.0) if bent else STRAIGHT
    return Reading(escape, bend, bend, False, count, np.zeros((2, 0)), np.zeros(0))


def forecast(
    start: Network,
    dataset: Dataset,
    loss: str,
    even: bool,
    levels: Levels,
    fresh: tuple[Dataset, Levels] | None = None,
    watch: Callable[[], None] | None = None,
) -> Forecast:
    """Predict the course of a start.

    Args:
        start: two layers, one output.
        dataset: scalar targets.
        loss: "square" or "logistic".
        even: whether Condition 3 holds, or what its proofs use of it.
        levels: of the loss.
        fresh: other samples of the same kind to read the course on, with the levels there.
        watch: called now and then; it ends the work by raising KeyboardInterrupt.
    """
    if (start.is_linear or even) and np.linalg.norm(dataset.correlation) > 0:
        return _exact(start, dataset, loss, levels)
    return _reduced(start, dataset, loss, levels, fresh, watch)


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
    final = np.asarray(course)[-1]
    reading = straight(rate_time if escaped is None else escaped, bent)
    return Forecast("exact", reading, times, np.asarray(curve), lambda inputs: np.asarray(inputs) @ final)


def _reduced(
    start: Network,
    dataset: Dataset,
    loss: str,
    levels: Levels,
    fresh: tuple[Dataset, Levels] | None,
    watch: Callable[[], None] | None,
) -> Forecast:
    few = reduced(start, dataset, loss, watch)
    if few is None:
        return Forecast("reduced network", straight(np.inf, count=0), np.zeros(0), np.zeros(0))
    predicted = followed("reduced network", few, start, dataset, loss, levels, fresh, watch)
    count, stairs = predicted.reading.count, None
    if count is not None and count > 1 and few.groups:
        steps = theory.several_linear_networks(start, dataset, loss)
        stairs = steps if steps.linear_networks == count else None
    return replace(predicted, stairs=stairs, gathering=few.groups, course=None)


def followed(
    how: str,
    few: Reduced,
    start: Network,
    dataset: Dataset,
    loss: str,
    levels: Levels,
    fresh: tuple[Dataset, Levels] | None,
    watch: Callable[[], None] | None,
    horizon: float = HORIZON,
) -> Forecast:
    """The course of what the early phase leaves of a start, for one output or several.

    Args:
        how: the forecast's.
        few: what the early phase leaves.
        start, dataset, loss, levels, fresh, watch: as of ``forecast``.
        horizon: how far to look, in escape times, where the course is read on the data themselves.
    """
    scale = max(theory.escape_time(min(start_norm(start), 0.5), few.rate), few.time)
    end = (horizon if fresh is None else SHORT) * scale
    callback = None if watch is None else lambda progress: watch()
    run = simulated(few.network, dataset, loss, callback, until=end, save=looks(0.1 * end, end))
    course = Course(few.time + run.times, run.losses, run.networks)
    reading = read_course(course, dataset, levels) if fresh is None else read_course(course, *fresh, loss)
    seen = len(reading.losses)
    return Forecast(
        how,
        replace(reading, bends=np.concatenate([np.zeros((2, 1)), reading.bends], axis=1)),
        np.concatenate([[0.0], course.times[:seen]]),
        np.concatenate([[levels.first if fresh is None else fresh[1].first], reading.losses]),
        course.networks[seen - 1],
        before(course, reading.decides.departure_time),
        course=Course(course.times[:seen], reading.losses, course.networks[:seen]),
        joined=few.joined,
    )


def before(course: Course, departure: float | None) -> Network | None:
    """The last saved network before a departure."""
    if departure is None:
        return None
    return course.networks[max(int(np.searchsorted(course.times, departure)) - 1, 0)]


def start_norm(start: Network) -> float:
    """About the size a random start's growing part has: half of either layer's square."""
    return float(np.sqrt(0.5 * sum(np.sum(np.asarray(w) ** 2) for w in start.weights) / 2))
