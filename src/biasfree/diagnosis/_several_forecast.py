"""What will happen to a two-layer network of several outputs, predicted: ``_forecast`` for one.

- **Linear networks**: their own flow.
- **Elsewhere** the early phase is followed neuron by neuron (``_several_early``), and the flow of what it leaves, of
  few neurons where they have gathered, is the course. Under Condition 3 and square loss the modes of β are told too.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Levels, looks, passing, read_course
from biasfree.diagnosis._forecast import HORIZON, SHORT, Forecast, before, start_norm, straight
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
    told = None if watch is None else lambda progress: watch()
    rate = float(np.linalg.norm(pulled(dataset, loss).correlation, 2))
    if start.is_linear and rate > 0:
        until = 4 * theory.escape_time(min(start_norm(start), 0.5), rate)
        run = simulated(start, dataset, loss, told, until=until, save=300)
        escaped = passing(run.times, -run.losses, -levels.gained)
        reading = straight(until / 4 if escaped is None else escaped)
        course = Course(run.times, run.losses, run.networks)
        return Forecast("exact", reading, run.times, run.losses, run.final, course=course)
    few = reduced_several(start, dataset, loss, watch)
    if few is None:
        return Forecast("reduced network", straight(np.inf, count=0), np.zeros(0), np.zeros(0))
    scale = max(theory.escape_time(min(start_norm(start), 0.5), few.rate), few.time)
    weights = few.network.widths[1] * (dataset.dim + dataset.outputs)
    end = (SHORT if fresh is not None or dataset.samples * weights > _LARGE else HORIZON) * scale
    run = simulated(few.network, dataset, loss, told, until=end, save=looks(0.1 * end, end))
    course = Course(few.time + run.times, run.losses, run.networks)
    found = read_course(course, dataset, levels) if fresh is None else read_course(course, *fresh, loss)
    seen = len(found.losses)
    return Forecast(
        "reduced network" if few.network.widths[1] < start.widths[1] else "early phase and flow",
        replace(found, bends=np.concatenate([np.zeros((2, 1)), found.bends], axis=1)),
        np.concatenate([[0.0], course.times[:seen]]),
        np.concatenate([[levels.first if fresh is None else fresh[1].first], found.losses]),
        course.networks[seen - 1],
        before(course, found.decides.departure_time),
        theory.mode_staircase(start, dataset) if even and loss == "square" else None,
        course=Course(course.times[:seen], found.losses, course.networks[:seen]),
    )
