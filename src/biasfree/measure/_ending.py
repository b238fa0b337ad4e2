"""How a plateau of a two-layer network ends: the awake neurons alone, the sleepers on their residuals, again and again.

The first group of sleepers to grow may find hardly anything to learn: it wakes without a visible fall of the loss, and
the plateau goes on with one group more awake and other residuals. So the group is counted with the awake ones, and the
question asked again, until a fall is visible or nobody grows. With several outputs awake neurons may grow in further
directions (``_inner_growth``); where they do, that predicts their own end.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from biasfree.measure._alone import Alone, alone
from biasfree.measure._cutting import Cut
from biasfree.measure._inner_growth import Part, inner_growth, turned
from biasfree.measure._waking import Waking, lag, sees, waking
from biasfree.networks import Network

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

_ROUNDS = 6
# A group that can make so many times the smallest visible fall by itself ends a plateau.
_PLENTY = 10.0


@dataclass(frozen=True, eq=False)
class Ending:
    """What becomes of a plateau.

    Attributes:
        end: predicted; infinite if nothing ends it.
        turning: whether the awake neurons end it by themselves.
        waking: the sleepers on the plateau's residuals.
        awake: the awake neurons alone, those included that wake without a visible fall.
        unseen: how many groups do so before the end.
        parts: growing parts of the awake neurons, for several outputs, the fastest first; ``neurons`` are rows of the
            whole network.
        last_awake: the end by awake neurons that counted, by their parts or by their own flow.
    """

    end: float
    turning: bool
    waking: Waking
    awake: Alone
    unseen: int
    parts: tuple[Part, ...] = ()
    last_awake: float = math.inf

    @property
    def inner(self) -> bool:
        """Whether parts of awake neurons end it."""
        return math.isfinite(self.end) and any(part.end == self.end for part in self.parts)

    @property
    def by(self) -> str:
        """What the prediction rests on."""
        if not math.isfinite(self.end):
            return ""
        if self.inner:
            return "linearised flow"
        return "awake neurons alone" if self.end == self.last_awake else "early flow"


def ending(run: "Trajectory", each: Cut, sleeping: Bool[np.ndarray, "width"], least: float) -> Ending:
    """Predict the end of a plateau from its first moment.

    Args:
        run: of a two-layer network.
        each: the plateau.
        sleeping: its sleeping neurons.
        least: the smallest visible fall of the loss; a square loss below it is fitted, and nothing is left to predict.
    """
    if 0 <= each.level < least and run.settings["loss"] == "square":
        return Ending(np.inf, False, Waking.nobody(), Alone((), np.inf), 0)
    begin, decay, rate = (
        _beginning(run, each.begin),
        run.settings["weight_decay"],
        run.settings.get("learning_rate", 0.0),
    )
    asleep, result, slope = sleeping.copy(), None, 1.0 if run.template.is_linear else run.template.slope
    for unseen in range(_ROUNDS):
        awake = alone(run, each, ~asleep, least)
        future = waking(begin, np.flatnonzero(asleep), run.dataset, awake, decay, rate)
        parts = _parts(awake, run, ~asleep) if run.template.widths[-1] > 1 else ()
        ended = min((part.end for part in parts if part.fall >= _PLENTY * least), default=awake.end)
        if parts and awake.end < np.inf and turned(awake, run.dataset.inputs, slope, parts[0].rate) < ended:
            # They enter other cells before these parts have grown, and what was linearised holds no longer.
            ended = awake.end
        end = min(future.end, ended)
        if result is None:
            result = Ending(end, ended < future.end, future, awake, 0, parts, ended)
        else:
            # Neurons that have woken in the meantime end it, not those that were awake before.
            result = replace(result, end=end, turning=False, awake=awake, unseen=unseen, parts=parts, last_awake=ended)
        if ended <= future.end or future.fall >= _PLENTY * least:
            break
        asleep[future.first] = False
    assert result is not None
    return result


def _beginning(run: "Trajectory", time: float) -> Network:
    """The network at a plateau's first moment.

    A neuron that saw nothing when the run was last saved has not moved. Taken up again from the very edge of its cell
    it may: there the flow is not unique.
    """
    saved = run.networks[int(np.searchsorted(run.times, time, side="right")) - 1]
    still = ~sees(saved, run.dataset.inputs)
    (first, second), (before, above) = (map(np.asarray, network.weights) for network in (run.at(time), saved))
    return run.template.with_weights([np.where(still[:, None], before, first), np.where(still, above, second)])


def _parts(awake: Alone, run: "Trajectory", rows: Bool[np.ndarray, "width"]) -> tuple[Part, ...]:
    """The growing parts of awake neurons, on descent's own clock."""
    rate, begin = run.settings.get("learning_rate", 0.0), awake.stretches[0].begin
    growing = inner_growth(awake, run.dataset.inputs, run.settings["weight_decay"]) or ()
    named = (part._replace(neurons=np.flatnonzero(rows)[part.neurons]) for part in growing)
    return tuple(part._replace(end=begin + (part.end - begin) * lag(rate * part.rate)) for part in named)
