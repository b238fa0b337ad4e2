"""How a plateau of a two-layer network ends: the awake neurons alone, the sleepers on their residuals, again and again.

The first group of sleepers to grow may find hardly anything to learn: it wakes without a visible fall of the loss, and
the plateau goes on with one group more awake and other residuals. So the group is counted with the awake ones, and the
question asked again, until a fall is visible or nobody grows.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from biasfree.measure._alone import Alone, alone
from biasfree.measure._cutting import Cut
from biasfree.measure._waking import Waking, waking

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
    """

    end: float
    turning: bool
    waking: Waking
    awake: Alone
    unseen: int

    @property
    def by(self) -> str:
        """What the prediction rests on."""
        if not math.isfinite(self.end):
            return ""
        return "awake neurons alone" if self.end == self.awake.end else "early flow"


def ending(run: "Trajectory", each: Cut, sleeping: Bool[np.ndarray, "width"], least: float) -> Ending:
    """Predict the end of a plateau from its first moment.

    Args:
        run: of a two-layer network with one output.
        each: the plateau.
        sleeping: its sleeping neurons.
        least: the smallest visible fall of the loss; a square loss below it is fitted, and nothing is left to predict.
    """
    if 0 <= each.level < least and run.settings["loss"] == "square":
        return Ending(np.inf, False, Waking.nobody(), Alone((), np.inf), 0)
    begin, decay, rate = run.at(each.begin), run.settings["weight_decay"], run.settings.get("learning_rate", 0.0)
    asleep, found = sleeping.copy(), None
    for unseen in range(_ROUNDS):
        awake = alone(run, each.begin, each.slowest, ~asleep, least)
        future = waking(begin, np.flatnonzero(asleep), run.dataset, awake, decay, rate)
        end = min(future.end, awake.end)
        if found is None:
            found = Ending(end, awake.end < future.end, future, awake, 0)
        else:
            # Neurons that have woken in the meantime end it, not those that were awake before.
            found = replace(found, end=end, turning=False, awake=awake, unseen=unseen)
        if awake.end <= future.end or future.fall >= _PLENTY * least:
            break
        asleep[future.first] = False
    assert found is not None
    return found
