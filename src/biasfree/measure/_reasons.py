"""Why a plateau ends, or never does."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biasfree.lines import lines
from biasfree.measure._cutting import Cut
from biasfree.measure._waking import Waking

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# Residuals that no direction sees, relative to the targets, leave nothing to grow.
_NOTHING = 1e-6


@dataclass(frozen=True)
class Reason:
    """Why a plateau ends or stays.

    Attributes:
        kind: "grows" (sleepers grow until they end it), "minimum" (no growth rate is positive: no two-layer network of
            any width does better), "nobody grows" (there are growing directions, but no sleeper in their basins),
            "turning" (awake neurons have not come to rest and go on by themselves) or "not told".
        text: the sentence.
    """

    kind: str
    text: str


NOT_TOLD = Reason("not told", "It is explained for two-layer networks with one output on the flow's own clock only.")


def reason(future: Waking, each: Cut, run: "Trajectory", residuals: np.ndarray) -> Reason:
    """The reason for what happens to a plateau of a two-layer network."""
    until = float(run.times[-1])
    if math.isfinite(future.end):
        fastest = future.growth[0]
        text = f"They end it at t ≈ {future.end:.4g} by prediction"
        if math.isfinite(each.end):
            text += f", {each.end:.4g} measured."
        elif future.end > until:
            text += f", after the end of the run (t = {until:.4g})."
        else:
            text += ", but it has not ended."
        return Reason("grows", text if fastest is not None else "")
    grouped, data = lines(run.dataset.inputs), run.dataset
    pull, even, kept = grouped.pulls(residuals / data.samples)
    reach = float(np.mean(np.abs(data.targets) * np.linalg.norm(data.inputs, axis=1)))
    if np.linalg.norm(pull) + np.abs(even[kept]).sum() <= _NOTHING * reach:
        return Reason(
            "minimum",
            "It never ends: no direction has a positive growth rate, so no two-layer network without biases, however "
            "wide, does better.",
        )
    text = (
        f"It never ends: no sleeper is in a growing basin ({len(future.resting)} feel no pull where they are, "
        f"{len(future.inactive)} are active on no sample)."
    )
    return Reason("nobody grows", text)
