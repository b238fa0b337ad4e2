"""What will happen to a two-layer network of several outputs, predicted: ``_forecast`` for one.

- **Linear networks**: their own flow.
- **Elsewhere** the early phase is followed neuron by neuron (``_several_early``), and the flow of what it leaves, of
  few neurons where they have gathered, is the course. Under Condition 3 and square loss the modes of β are given too.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Levels, passing
from biasfree.diagnosis._forecast import HORIZON, SHORT, Forecast, followed, start_norm, straight
from biasfree.diagnosis._several_early import pulled, reduced_several
from biasfree.diagnosis._simulation import simulated
from biasfree.networks import Network

# Samples × weights from which on a course is looked at as shortly as on draws of a large table.
_LARGE = 5e6


def several_forecast(
    start: Network,
    dataset: Dataset,
    loss: str,
    even: bool,
    levels: Levels,
    fresh: tuple[Dataset, Levels] | None = None,
    watch: Callable[[], None] | None = None,
) -> Forecast:
    """Predict the course of a start with several outputs; arguments as of ``_forecast.forecast``."""
    callback = None if watch is None else lambda progress: watch()
    rate = float(np.linalg.norm(pulled(dataset, loss).correlation, 2))
    if start.is_linear and rate > 0:
        until = 4 * theory.escape_time(min(start_norm(start), 0.5), rate)
        run = simulated(start, dataset, loss, callback, until=until, save=300)
        escaped = passing(run.times, -run.losses, -levels.gained)
        reading = straight(until / 4 if escaped is None else escaped)
        course = Course(run.times, run.losses, run.networks)
        return Forecast("exact", reading, run.times, run.losses, run.final, course=course)
    few = reduced_several(start, dataset, loss, watch)
    if few is None:
        return Forecast("reduced network", straight(np.inf, count=0), np.zeros(0), np.zeros(0))
    weights = few.network.widths[1] * (dataset.dim + dataset.outputs)
    horizon = SHORT if dataset.samples * weights > _LARGE else HORIZON
    how = "reduced network" if few.network.widths[1] < start.widths[1] else "early phase and flow"
    predicted = followed(how, few, start, dataset, loss, levels, fresh, watch, horizon)
    return replace(predicted, stairs=theory.mode_staircase(start, dataset) if even and loss == "square" else None)
