"""The awake neurons of a plateau without the sleeping ones: where they come to rest, and what they leave unexplained.

Sleepers are too small to disturb them, so that the flow of the awake neurons alone is the plateau's until it ends.
Mostly they come to rest; the plateau then ends by what sleeps. Sometimes they do not: a neuron that turns slowly enters
another cell and finds more to learn, and the plateau ends by itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from biasfree import dynamics
from biasfree.measure._cutting import Cut, cut
from biasfree.measure._samples import Samples
from biasfree.networks import Network

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# Residuals are taken for constant over stretches, each at its average over time: so many with an equal part of their
# change, the last of them halved again and again as the awake neurons come to rest.
_STRETCHES, _HALVINGS = 8, 8
# Residuals that move by less than this share in all are one stretch, the last.
_STILL = 1e-3
# With several outputs they are followed for so many times the plateau's length, and always looked at closely for so
# many times as long as until the plateau's slowest moment: at so many times or more.
_LATER, _SEEN = 3.0, 30


class Stretch(NamedTuple):
    """Residuals and curvatures −∂ℓ/∂f, ∂²ℓ/∂f² of every sample, from a time on."""

    begin: float
    residuals: Float[np.ndarray, "samples *outputs"]
    curvature: Float[np.ndarray, "samples outputs outputs"]


@dataclass(frozen=True, eq=False)
class Alone:
    """The awake neurons by themselves.

    Attributes:
        stretches: their residuals over time; the last one holds for good, or until ``end``.
        end: when they end the plateau by themselves; infinite if they come to rest on it.
        still: the rate at which their sizes change in the last stretch; slower growth than this means nothing.
        rest: when they are slowest.
        later: their flow from then on; None if nobody is awake.
    """

    stretches: tuple[Stretch, ...]
    end: float
    still: float = 0.0
    rest: float = 0.0
    later: tuple[Float[np.ndarray, "later"], tuple[Network, ...]] | None = None


def alone(run: "Trajectory", each: Cut, awake: Bool[np.ndarray, "width"], least: float) -> Alone:
    """Follow the awake neurons alone from a plateau's first moment on, as far as the run went.

    Args:
        run: of a two-layer network.
        each: the plateau. Of several waits of the awake neurons its slowest moment says which one is meant.
        awake: which neurons.
        least: the smallest visible fall of the loss.
    """
    begin, samples = each.begin, Samples.of(run)
    if not awake.any():
        return Alone((_stretch(samples, begin, None),), np.inf)
    start, left = _only(run.at(begin), awake), float(run.times[-1]) - begin
    if run.template.widths[-1] > 1:
        # Their end is predicted from what grows in them; where they would go after it takes long and does not matter.
        left = min(left, _LATER * (each.end - begin))
    if not left > 0:
        return Alone((_stretch(samples, begin, start),), np.inf, 0.0, begin, (np.array([begin]), (start,)))
    course = _course(run, start, left, each.slowest - begin)
    cuts, _ = cut(course.times, course.objectives(), course.rounding, least)
    first = next((wait for wait in cuts if begin + wait.end > each.slowest), None)
    end = np.inf if first is None else begin + first.end
    # What is left when they are slowest is the plateau's own residual.
    last = (
        len(course.times) - 1 if first is None or np.isinf(end) else int(np.argmin(abs(course.times - first.slowest)))
    )
    later = (begin + course.times[last:], tuple(course.networks[last:]))
    return Alone(_stretches(samples, begin, course, last), end, _pace(course, last), float(later[0][0]), later)


def _course(run: "Trajectory", start: Network, until: float, slowest: float) -> "Trajectory":
    """The flow of the awake neurons, saved densely enough to show a wait whose slowest moment is this."""
    method = run.settings["method"] if run.template.widths[-1] > 1 else "auto"
    settings: dict[str, Any] = {
        "loss": run.settings["loss"], "until": until, "weight_decay": run.settings["weight_decay"], "rtol": 1e-6,
        "method": "auto" if method == "descent" else method,
    }  # fmt: skip
    course = dynamics.gradient_flow(start, run.dataset, **settings)
    near = min(_LATER * slowest, until)
    if near > 0 and np.count_nonzero(course.times <= near) < _SEEN:
        # The solver's own steps pass over a short wait.
        seen = np.union1d(course.times, np.linspace(0, near, 2 * _SEEN))
        course = dynamics.gradient_flow(start, run.dataset, save=seen[seen <= until], **settings)
    return course


def _stretch(samples: Samples, time: float, network: Network | None) -> Stretch:
    outputs = samples.zero() if network is None else samples.outputs(network)
    return Stretch(time, samples.residuals(outputs), samples.curvature(outputs))


def _stretches(samples: Samples, begin: float, course: "Trajectory", last: int) -> tuple[Stretch, ...]:
    """The residuals up to a saved time, at which the awake neurons rest."""
    residuals = samples.residuals(np.array([samples.outputs(course.networks[i]) for i in range(last + 1)]))
    residuals, times = residuals.reshape(last + 1, -1), course.times[: last + 1]
    moved = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(residuals, axis=0), axis=1))])
    still = _STILL * max(float(np.linalg.norm(residuals[-1])), float(np.linalg.norm(samples.targets)) * _STILL)
    if moved[-1] <= still:
        return (_stretch(samples, begin, course.networks[last]),)
    parts = np.append(np.arange(_STRETCHES) / _STRETCHES, 1 - 0.5 ** np.arange(1, _HALVINGS + 1) / _STRETCHES)
    upto = np.append(parts[(1 - parts) * moved[-1] > still] * moved[-1], moved[-1] - still)
    edges = np.interp(upto, moved, times)
    stretches = [
        _stretch(samples, begin + float(t), course.networks[int(i)])._replace(
            residuals=mean.reshape(samples.targets.shape)
        )
        for t, i, mean in zip(edges, np.searchsorted(times, edges), _averages(times, residuals, edges), strict=False)
    ]
    stretches.append(_stretch(samples, begin + float(edges[-1]), course.networks[last]))
    return tuple(stretches)


def _averages(times: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Over the time between neighbouring edges, of values on straight lines between saved times; rows are times.

    Where nothing is between two edges, the value there.
    """
    at = np.unique(np.concatenate([times, edges]))
    rows = np.column_stack([np.interp(at, times, column) for column in values.T])
    areas = np.concatenate([np.zeros((1, rows.shape[1])), 0.5 * (rows[1:] + rows[:-1]) * np.diff(at)[:, None]])
    upto, k = np.cumsum(areas, axis=0), np.searchsorted(at, edges)
    lengths = np.diff(edges)[:, None]
    return np.where(lengths > 0, np.diff(upto[k], axis=0) / np.where(lengths > 0, lengths, 1.0), rows[k[:-1]])


def _pace(course: "Trajectory", last: int) -> float:
    """How fast the neurons' sizes |v|‖w‖ change at a saved time, per unit of time."""
    sizes = [
        np.linalg.norm(course.weights[0][k], axis=1) * np.linalg.norm(course.weights[1][k], axis=0)
        for k in (max(last - 1, 0), last)
    ]
    time = course.times[last] - course.times[max(last - 1, 0)]
    return float(np.abs(sizes[1] - sizes[0]).max() / (sizes[1].max() * time)) if time > 0 and sizes[1].any() else 0.0


def _only(network: Network, awake: np.ndarray) -> Network:
    """The network of these neurons."""
    return network.with_weights([np.asarray(network.weights[0])[awake], np.asarray(network.weights[1])[:, awake]])
