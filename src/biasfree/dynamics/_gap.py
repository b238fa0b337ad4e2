"""How far gradient descent at a learning rate is from the flow it approximates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics._descent import gradient_descent
from biasfree.dynamics._flow import gradient_flow
from biasfree.dynamics._progress import ProgressCallback
from biasfree.dynamics._trajectory import Trajectory
from biasfree.networks import Network


@dataclass(frozen=True, eq=False)
class DescentGap:
    """Descent against flow over time, from one start.

    Attributes:
        times: flow times compared at: those that both runs came to.
        loss: |L_descent − L_flow| at each.
        weights: ‖W_descent − W_flow‖/‖W_flow‖, all layers together.
        outputs: root mean square over the samples of f_descent − f_flow, relative to that of the targets.
        learning_rate: η.
        descent, flow: the two trajectories.
    """

    times: Float[np.ndarray, "times"]
    loss: Float[np.ndarray, "times"]
    weights: Float[np.ndarray, "times"]
    outputs: Float[np.ndarray, "times"]
    learning_rate: float
    descent: Trajectory
    flow: Trajectory

    @property
    def cut_short(self) -> str:
        """Why the comparison ends before the time asked for; empty if it does not."""
        runs = {"descent": self.descent, "flow": self.flow}
        return " ".join(f"The {name} {run.status.message}" for name, run in runs.items() if not run.status.complete)

    def __str__(self) -> str:
        """The largest of each gap and when it occurs."""
        lines = [f"Descent at rate {self.learning_rate:g} against the flow, t = 0 … {self.times[-1]:g}"]
        if self.cut_short:
            lines.append(f"  compared only at times that both came to. {self.cut_short}")
        for name in ("loss", "weights", "outputs"):
            gap = getattr(self, name)
            lines.append(
                f"  {name:<9}largest gap {gap.max():.3g} at t = {self.times[gap.argmax()]:.4g}, last {gap[-1]:.3g}"
            )
        return "\n".join(lines)


def descent_gap(
    network: Network,
    dataset: Dataset,
    *,
    learning_rate: float,
    until: float,
    loss: str = "square",
    weight_decay: float = 0.0,
    points: int = 100,
    rtol: float = 1e-8,
    progress: ProgressCallback | None = None,
    **flow: Any,
) -> DescentGap:
    """Run descent and flow from the same start and compare them at the same flow times.

    Where one of them is cut short they are compared as far as both went, and ``cut_short`` says why.

    Args:
        network: the start.
        dataset: full batch.
        learning_rate: η of the descent.
        until: flow time; descent takes ``until/learning_rate`` steps.
        loss: as in ``gradient_flow``.
        weight_decay: λ.
        points: number of evenly spaced times to compare at.
        rtol: tolerance of the flow; keep it far below the gap.
        progress: as in ``gradient_flow``.
        **flow: further arguments of ``gradient_flow``.

    >>> from biasfree import Network, datasets
    >>> start = Network.init([2, 10, 1], 1.0, 0.1, seed=0)
    >>> gap = descent_gap(start, datasets.xor(), learning_rate=0.01, until=2.0, points=4)
    >>> gap.weights[0], bool(gap.weights.max() < 0.02)
    (np.float64(0.0), True)
    """
    rate, end = checks.positive(learning_rate, "learning_rate"), checks.positive(until, "until")
    steps = round(end / rate)
    if steps < 1:
        raise ValueError(f"until must be at least one step of the learning rate {rate:g}, got {end:g}.")
    saved = np.unique(np.round(np.linspace(0, steps, checks.count(points, "points") + 1)).astype(int))
    common: dict[str, Any] = {"loss": loss, "weight_decay": weight_decay, "progress": progress}
    descended = gradient_descent(network, dataset, learning_rate=rate, steps=steps, save=saved, **common)
    flowed = gradient_flow(network, dataset, until=steps * rate, rtol=rtol, save=saved * rate, **common, **flow)

    # By time, not by number: a run that is cut short keeps its end, at a time the other does not have.
    times, ours, theirs = np.intersect1d(descended.times, flowed.times, return_indices=True)
    first, second = [descended.networks[i] for i in ours], [flowed.networks[i] for i in theirs]
    size = np.sqrt(np.mean(dataset.targets**2))
    outputs = [
        np.sqrt(np.mean((a(dataset.inputs) - b(dataset.inputs)) ** 2)) for a, b in zip(first, second, strict=True)
    ]
    return DescentGap(
        times=times,
        loss=np.abs(descended.losses[ours] - flowed.losses[theirs]),
        weights=np.array([_distance(a, b) for a, b in zip(first, second, strict=True)]),
        outputs=np.array(outputs) / (size if size else 1.0),
        learning_rate=rate,
        descent=descended,
        flow=flowed,
    )


def _distance(first: Network, second: Network) -> float:
    pairs = list(zip(first.weights, second.weights, strict=True))
    apart = sum(float(((a - b) ** 2).sum()) for a, b in pairs)
    size = sum(float((b**2).sum()) for _, b in pairs)
    return float(np.sqrt(apart / size)) if apart else 0.0
