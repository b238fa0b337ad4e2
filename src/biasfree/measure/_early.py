"""When a run really leaves the early phase, beside the times that theory gives."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from biasfree import checks, theory

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory


@dataclass(frozen=True)
class EarlyPhase:
    """A run beside Eq. 23.

    Attributes:
        times: of the run.
        error: ‖W(t) − W̃(t)‖/‖W̃(t)‖, W̃ the solution Eq. 23, both layers together.
        departure: when the error first passes ``level``; inf if it does not.
        level: the error taken for departure.
        window: Theorem 13's, in which its error bound is claimed.
        escape: ln(1/‖r₁‖)/(κas), when the growing mode, of several outputs the fastest, would reach norm one.
    """

    times: Float[np.ndarray, "times"]
    error: Float[np.ndarray, "times"]
    departure: float
    level: float
    window: float
    escape: float

    def __str__(self) -> str:
        """The three times."""
        return (
            f"Eq. 23 holds to {self.level:.0%} until t = {self.departure:.4g}; "
            f"Theorem 13 claims it for t < {self.window:.4g}; its growing mode has norm one at t = {self.escape:.4g}"
        )


def early_phase(run: "Trajectory", level: float = 0.01) -> EarlyPhase:
    """Compare a run to Eq. 23 and find when it departs.

    Args:
        run: of a two-layer network, saved densely enough to place the departure (``save=200`` or so).
        level: relative error of the weights that counts as departure.

    Raises:
        ValueError: another depth, a run on the loss clock.

    >>> import biasfree as bf
    >>> data = bf.datasets.symmetric_gaussian(dim=3, pairs=10, seed=0)
    >>> start = bf.Network.init([3, 6, 1], slope=0.0, init_scale=1e-4, seed=1)
    >>> run = bf.gradient_flow(start, data, until=120, save=100)
    >>> phase = early_phase(run)
    >>> bool(phase.window < phase.departure < phase.escape)
    True
    """
    level = checks.positive(level, "level")
    if run.settings.get("clock") == "loss":
        raise ValueError("the early phase is about flow time, and this run is on the loss clock.")
    loss = run.settings["loss"]
    first, second = theory.early_solution(run.times, run.template, run.dataset, loss)
    apart = np.sum((run.weights[0] - first) ** 2, axis=(1, 2)) + np.sum((run.weights[1] - second) ** 2, axis=(1, 2))
    size = np.sum(first**2, axis=(1, 2)) + np.sum(second**2, axis=(1, 2))
    error = np.sqrt(apart / size)
    above = np.flatnonzero(error > level)
    departure = np.inf
    if above.size and above[0]:
        # The error grows exponentially: a straight line in its logarithm.
        i = above[0]
        departure = np.interp(np.log(level), np.log(np.maximum(error[i - 1 : i + 1], 1e-300)), run.times[i - 1 : i + 1])
    elif above.size:
        departure = 0.0
    return EarlyPhase(
        np.asarray(run.times),
        error,
        float(departure),
        level,
        theory.lemma_12(run.template, run.dataset).window,
        float(theory.growing_modes(run.template, run.dataset, loss).escape_times[0]),
    )
