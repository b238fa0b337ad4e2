"""The awake neurons of a plateau without the sleeping ones: where they come to rest, and what they leave unexplained.

Sleepers are too small to disturb them, so that the flow of the awake neurons alone is the plateau's until it ends.
Mostly they come to rest; the plateau then ends by what sleeps. Sometimes they do not: a neuron that turns slowly enters
another cell and finds more to learn, and the plateau ends by itself.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from biasfree import dynamics
from biasfree.measure._cutting import cut
from biasfree.networks import Network
from biasfree.theory import _point_losses

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# Residuals are taken for constant over stretches; so many, each with an equal part of their change.
_STRETCHES = 8
# Residuals that move by less than this share in all are one stretch.
_STILL = 1e-3


class Stretch(NamedTuple):
    """Residuals and curvatures −∂ℓ/∂f, ∂²ℓ/∂f² of every sample, from a time on."""

    begin: float
    residuals: Float[np.ndarray, "samples"]
    curvature: Float[np.ndarray, "samples"]


@dataclass(frozen=True, eq=False)
class Alone:
    """The awake neurons by themselves.

    Attributes:
        stretches: their residuals over time; the last one holds for good, or until ``end``.
        end: when they end the plateau by themselves; infinite if they come to rest on it.
        still: the rate at which their sizes change in the last stretch; slower growth than this means nothing.
    """

    stretches: tuple[Stretch, ...]
    end: float
    still: float = 0.0


def alone(run: "Trajectory", begin: float, slowest: float, awake: Bool[np.ndarray, "width"], least: float) -> Alone:
    """Follow the awake neurons alone from ``begin`` on, as far as the run went.

    Args:
        run: of a two-layer network with one output.
        begin: of the plateau.
        slowest: when the run is slowest on it; of several waits of the awake neurons this tells the one that is meant.
        awake: which neurons.
        least: the smallest visible fall of the loss.
    """
    data, loss = run.dataset, run.settings["loss"]

    def stretch(time: float, network: Network | None) -> Stretch:
        outputs = np.zeros(data.samples) if network is None else np.asarray(network(data.inputs))
        return Stretch(
            time,
            np.asarray(_point_losses.residual(loss, outputs, data.targets)),
            np.asarray(_point_losses.curvature(loss, outputs, data.targets)),
        )

    left = float(run.times[-1]) - begin
    if not awake.any() or not left > 0:
        return Alone((stretch(begin, None if not awake.any() else _only(run.at(begin), awake)),), np.inf)
    decay = run.settings["weight_decay"]
    start = _only(run.at(begin), awake)
    course = dynamics.gradient_flow(start, data, loss=loss, until=left, weight_decay=decay, rtol=1e-6)
    cuts, _ = cut(course.times, course.objectives(), course.rounding, least)
    first = next((each for each in cuts if begin + each.end > slowest), None)
    end = np.inf if first is None else begin + first.end
    # What is left when they are slowest is the plateau's own residual.
    last = (
        len(course.times) - 1 if first is None or np.isinf(end) else int(np.argmin(abs(course.times - first.slowest)))
    )
    outputs = np.array([np.asarray(course.networks[i](data.inputs)) for i in range(last + 1)])
    residuals = np.asarray(_point_losses.residual(loss, outputs, data.targets))
    moved = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(residuals, axis=0), axis=1))])
    size = float(np.linalg.norm(residuals[-1]))
    if moved[-1] <= _STILL * max(size, float(np.linalg.norm(data.targets)) * _STILL):
        return Alone((stretch(begin, course.networks[last]),), end, _pace(course, last))
    edges = np.linspace(0, moved[-1], _STRETCHES + 1)
    begins = begin + np.interp(edges[:-1], moved, course.times[: last + 1])
    middles = np.searchsorted(moved, 0.5 * (edges[:-1] + edges[1:]))
    found = [stretch(float(t), course.networks[int(i)]) for t, i in zip(begins, middles, strict=True)]
    found.append(stretch(begin + float(course.times[last]), course.networks[last]))
    return Alone(tuple(found), end, _pace(course, last))


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
