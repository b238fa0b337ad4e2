"""Plateaus of a run as intervals to shade and name: the one place that turns a trajectory into them."""

import math
from typing import TYPE_CHECKING, NamedTuple

from biasfree.measure import Plateau, plateaus

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory


class Shaded(NamedTuple):
    """An interval of flow time on which the loss waits.

    Attributes:
        begin, end: flow times; ``end`` is that of the run where the run does not leave it.
        level: the loss there.
        name: what the network is there, in two or three words.
        description: all that is known of it, in sentences.
        predicted_end: None where it is predicted to last, or where nothing is predicted.
    """

    begin: float
    end: float
    level: float
    name: str
    description: str
    predicted_end: float | None


def shaded(run: "Trajectory") -> list[Shaded]:
    """The plateaus of a run."""
    last = float(run.times[-1])
    return [
        Shaded(
            each.begin,
            min(each.end, last),
            each.level,
            _name(each),
            str(each),
            each.predicted_end if math.isfinite(each.predicted_end) else None,
        )
        for each in plateaus(run)
    ]


def _name(each: Plateau) -> str:
    if each.growth is not None and not each.directions:
        return "asleep"
    if each.growth is None and each.begin == 0:
        return "start"
    if each.networks is not None:
        return f"{len(each.networks)} linear network{'s' * (len(each.networks) != 1)}"
    return f"linear to {each.nonlinearity:.1g}" if each.nonlinearity < _NOT_LINEAR else "not linear"


_NOT_LINEAR = 0.1  # share of the outputs beyond which a function is called not linear, as in the plateaus' own story
