"""Why a plateau ends, or never does."""

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biasfree.lines import lines
from biasfree.measure._cutting import Cut
from biasfree.measure._ending import Ending
from biasfree.measure._missing import missing
from biasfree.measure._samples import Samples

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# Residuals that no direction sees, relative to the targets, leave nothing to grow.
_NOTHING = 1e-6


@dataclass(frozen=True)
class Reason:
    """Why a plateau ends or stays.

    Attributes:
        kind: "grows" (sleepers grow until they end it, or, with several outputs, awake neurons in further directions),
            "minimum" (no growth rate is positive: no two-layer network of any width does better, or the data are
            fitted), "nobody grows" (there are growing directions, but no sleeper in their basins), "turning" (awake
            neurons have not come to rest and go on by themselves) or "not told".
        text: the sentence.
    """

    kind: str
    text: str


NOT_EXPLAINED = Reason("not told", "It is explained for two-layer networks on the flow's own clock only.")


def reason(future: Ending, each: Cut, run: "Trajectory", way: list[tuple[np.ndarray, float]]) -> Reason:
    """The reason for what happens to a plateau of a two-layer network; see ``Reason``.

    Args:
        future: what becomes of it.
        each: where it is.
        run: the run.
        way: residuals and durations of the plateaus before it.
    """
    why = _reason(future, each, run, way)
    left_out = future.waking.undecided
    if not left_out:
        return why
    sleepers = "1 sleeper" if left_out == 1 else f"{left_out} sleepers"
    return Reason(why.kind, f"{why.text} The way of {sleepers} could not be decided and is left out.")


def _reason(future: Ending, each: Cut, run: "Trajectory", way: list[tuple[np.ndarray, float]]) -> Reason:
    end, until = future.end, float(run.times[-1])
    if math.isfinite(end):
        kind = "turning" if future.turning and not future.inner else "grows"
        text = "They end it"
        if future.turning:
            text = "The awake neurons" if future.inner else "Awake neurons still turn and"
            text += " end it by themselves"
        if future.unseen:
            which = "One of these groups wakes" if future.unseen == 1 else f"{future.unseen} of these groups wake"
            text = f"{which} without a visible fall of the loss; the next one ends it"
        text += f" at t ≈ {end:.4g} by prediction"
        if math.isfinite(each.end):
            return Reason(kind, f"{text}, {each.end:.4g} measured.")
        return Reason(kind, f"{text}, after the end of the run." if end > until else f"{text}, but it has not ended.")
    if not future.awake.stretches:
        return Reason("minimum", "It never ends: the data are fitted, and nothing visible is left to learn.")
    grouped, data = lines(run.dataset.inputs), run.dataset
    residuals = future.awake.stretches[-1].residuals
    pull, even, kept = grouped.pulls(residuals / data.samples)
    if np.linalg.norm(pull) + np.abs(even[kept]).sum() <= _NOTHING * Samples.of(run).reach:
        return Reason(
            "minimum",
            "It never ends: no direction has a positive growth rate, so no two-layer network without biases, however "
            "wide, does better.",
        )
    text = (
        f"It never ends: no sleeper is in a growing basin ({len(future.waking.resting)} feel no pull where they are, "
        f"{len(future.waking.inactive)} are active on no sample)."
    )
    slope = 1.0 if run.template.is_linear else run.template.slope
    scale = min(max(float(np.linalg.norm(np.asarray(layer))) for layer in run.template.weights), 1.0)
    with contextlib.suppress(ArithmeticError):  # of several outputs, where a random neuron's way cannot be decided
        text += " " + missing(data, slope, way, residuals, scale, run.settings["weight_decay"])
    return Reason("nobody grows", text)
