"""Deep networks: what theory says of them, which is little, and what a simulation says.

**Theory** (Appendix F). On even inputs with an odd target that a linear map fits, the layers of a ReLU network tend to
Eq. 40's form, in which f = ½W_L⋯W₁x for ever: linear. Fitted or not, Eq. 40 is invariant under an odd target; but
unless the target is linear a small deviation grows and the network leaves, as three layers can express odd functions
that are not linear. When it does is not known. On other data nothing is known.

So only the first case is predicted. All others are simulated, by a bounded number of steps, and the verdict is then a
measurement.
"""

from collections.abc import Callable

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import Course, Levels, looks
from biasfree.diagnosis._findings import Check, check_of
from biasfree.diagnosis._forecast import Forecast, straight
from biasfree.diagnosis._sampling import Draw
from biasfree.diagnosis._several_early import pulled
from biasfree.diagnosis._simulation import part, simulated
from biasfree.dynamics import Stop
from biasfree.networks import Network

# How much longer than the soonest possible drop to wait for it, and how long to look after it, in escape times.
_PATIENCE, _AFTER = 300.0, 4.0
# Steps of one simulation.
_STEPS = 4_000


def deep_forecast(
    start: Network, data: Dataset, loss: str, symmetry: theory.Symmetry, levels: Levels
) -> Forecast | None:
    """What Appendix F predicts of a start; None where it says nothing.

    Args:
        start: three layers or more.
        data: as many outputs; of several nothing is predicted.
        loss: its name.
        symmetry: of the data.
        levels: of the loss.
    """
    fitted = levels.linear <= 1e-9 * levels.first
    nothing = np.zeros(0)
    if start.is_linear:
        return Forecast("exact", straight(np.nan), nothing, nothing)
    if data.outputs > 1 or not (symmetry.holds and fitted):
        return None
    escape = np.nan
    if loss == "square" and start.depth == 3 and start.slope == 0:
        stairs = theory.deep_staircase(
            theory.sign_paths(start, data.correlation, middle="overlap"),
            data.covariance,
            data.correlation,
            float(np.mean(data.targets**2)),
        )
        # Half of the gain is the plateau between the two paths' steps: some time on it.
        escape = 0.5 * float(stairs.spans[0, 2] + stairs.spans[1, 0])
    return Forecast("Appendix F", straight(escape), nothing, nothing)


def deep_check(
    start: Network,
    draw: Draw,
    loss: str,
    predicted: Forecast | None,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> tuple[Check, Forecast]:
    """Simulate a start and its linear twin until both have escaped, and some escape times more.

    Args:
        start: three layers or more.
        draw: the data it learns.
        loss: its name.
        predicted: of ``deep_forecast``.
        seed: of the start.
        progress: called with the share that is done.

    Returns:
        The check, and the forecast: the one given, or what was measured in its place.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    data = draw.data
    latest = _PATIENCE * soonest(start, data, loss)
    level = Stop(loss=draw.levels.gained)
    waiting = simulated(start, data, loss, part(progress, 0, 0.3), until=latest, stop=level, max_steps=_STEPS)
    escape = float(waiting.times[-1])
    after = _AFTER * escape
    run = simulated(
        waiting.final, data, loss, part(progress, 0.3, 0.7), until=after, save=looks(escape, after), max_steps=_STEPS
    )
    both = escape + float(run.times[-1])
    linear = simulated(
        start.with_slope(1.0), data, loss, part(progress, 0.7, 1.0), until=both, save=looks(escape, both),
        max_steps=_STEPS,
    )  # fmt: skip
    times = np.concatenate([waiting.times, escape + run.times[1:]])
    losses = np.concatenate([waiting.losses, run.losses[1:]])
    course = Course(times, losses, [*waiting.networks, *run.networks[1:]])
    check = check_of(seed, predicted, draw, loss, course, run, linear)
    if predicted is not None:
        return check, predicted
    return check, Forecast("simulation", check.reading, check.times, check.losses, check.course.networks[-1])


def soonest(start: Network, data: Dataset, loss: str) -> float:
    """Before this no network of these layer norms drops on white data of the same β, to leading order."""
    strength = (0.5 if loss == "logistic" else 1.0) * float(np.linalg.norm(pulled(data, loss).correlation))
    # Data without correlation are learned later still; their scale stands in.
    floor = 1e-3 * float(np.sqrt(np.mean(data.targets**2) * np.trace(data.covariance)))
    norm = float(np.mean([np.linalg.norm(np.asarray(w)) for w in start.weights]))
    curvature = float(np.linalg.norm(data.covariance, 2))
    rest = max(strength, floor) / curvature
    begun = min(np.sqrt(2) * norm, 0.5 * rest ** (1 / start.depth))
    return theory.drop_time(start.depth, begun, max(strength, floor), curvature, rectified=not start.is_linear)
