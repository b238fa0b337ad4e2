"""Several linear networks: the loss staircase of data on which neurons gather in more than one direction.

After the early phase the neurons of group k share a direction r_k and the sign s_k of w₂, and act as one neuron of
size u_k² = Σ|w₂|‖w‖. Each meets sample i with slope φ_ki (1 if r_kᵀx_i > 0, else α). If no two groups meet the same
sample, or only orthogonally, each group is a linear network by itself, on its own inputs φ_ki x_i and targets s_k y_i:

    d(ln u)/dt = rᵀe,   dr/dt = (I − rrᵀ)e,   e = P⟨φ s y x⟩ − P⟨φ² x xᵀ⟩u²r     (square loss),

P projecting out the lines the group slides on. Small u grows as e^{ρ_k t}, so groups are learned one after the
other, fastest first, and the loss falls in steps. Each group's start u_k(0) is what its neurons' early growth
extrapolates to at t = 0.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.networks import Network
from biasfree.theory import _point_losses
from biasfree.theory._early_flow import early_flow
from biasfree.theory._gathering import Gathering, gather
from biasfree.theory._time_course import course, finite_times


@dataclass(frozen=True)
class Staircase:
    """The predicted learning curve of several linear networks.

    Attributes:
        groups: the gathering directions with their neurons, in the order of their growth, fastest first.
        starts: u_k(0), the norm each group's aligned neurons would have had at t = 0.
        levels: the loss before any group is learned, after the first, after the second, …; shape (groups + 1,).
        times: when the loss passes half way from each level to the next, shape (groups,).
        coupling: the largest overlap |⟨σ(r_jᵀx)σ(r_kᵀx)⟩| of two groups, relative to their own; 0 when they are
            independent.
        dataset, loss, slope: what was asked.
    """

    groups: tuple[Gathering, ...]
    starts: Float[np.ndarray, "groups"]
    levels: Float[np.ndarray, "levels"]
    times: Float[np.ndarray, "groups"]
    coupling: float
    dataset: Dataset
    loss: str
    slope: float
    _parts: tuple["_Part", ...]

    @property
    def linear_networks(self) -> int:
        """How many linear networks: a group with w₂ > 0 and its mirror image with w₂ < 0 make one."""
        mirrored = sum(
            1
            for i, g in enumerate(self.groups)
            for h in self.groups[:i]
            if g.sign != h.sign and np.linalg.norm(g.direction + h.direction) < 1e-7
        )
        return len(self.groups) - mirrored

    def outputs(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times samples"]:
        """f(x_i; t) of all groups together."""
        t = checks.numeric(times, "times")
        return sum((part.outputs(t) for part in self._parts), np.zeros((*t.shape, self.dataset.samples)))

    def losses(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times"]:
        """The predicted loss curve."""
        return _point_losses.value(self.loss, self.outputs(times), self.dataset.targets).mean(axis=-1)

    def __str__(self) -> str:
        """Steps with their times."""
        levels = " → ".join(f"{level:.4g}" for level in self.levels)
        times = ", ".join(f"{t:.4g}" for t in self.times)
        tail = "" if self.coupling < 1e-9 else f"; groups overlap by {self.coupling:.2g}, so this is an approximation"
        plural = "s" * (self.linear_networks != 1)
        return f"{self.linear_networks} linear network{plural}: loss {levels} at t = {times}{tail}"


@dataclass(frozen=True)
class _Part:
    """One group as a linear network on its own inputs φx and targets sy, moving across the lines it slides on."""

    inputs: Float[np.ndarray, "samples dim"]
    targets: Float[np.ndarray, "samples"]
    sign: float
    direction: Float[np.ndarray, "dim"]
    start: float
    projection: Float[np.ndarray, "dim dim"]
    loss: str
    # Until when it is integrated, and the course until then: whoever looks for a level asks again and again.
    _known: list[Any] = field(default_factory=list, compare=False, repr=False)

    def pull(self, w: np.ndarray) -> np.ndarray:
        output = self.inputs @ w
        residual = _point_losses.residual(self.loss, output, self.targets)
        return self.projection @ (residual @ self.inputs) / len(self.targets)

    def outputs(self, times: np.ndarray) -> np.ndarray:
        """s φ_i wᵀx_i at each time."""
        times = finite_times(times)
        end = float(np.max(times, initial=0.0))
        if not self._known or self._known[0] < end:
            self._known[:] = end, course(self.pull, self.direction, self.start, end)
        return self.sign * self._known[1](times) @ self.inputs.T

    def final(self) -> np.ndarray:
        """Outputs when it has learned what it can: least squares, or infinite margins on what it can classify."""
        seen = self.inputs @ self.projection
        if self.loss == "square":
            return self.sign * seen @ np.linalg.lstsq(seen, self.targets, rcond=None)[0]
        reached = seen @ self.direction
        with np.errstate(invalid="ignore"):
            return self.sign * np.where(np.abs(reached) > 1e-9, reached * np.inf, 0.0)


def several_linear_networks(network: Network, dataset: Dataset, loss: str = "square") -> Staircase:
    """The groups a network's neurons form, each group's growth, and the loss staircase they predict.

    Exact in the limit of small weights for orthogonal inputs, XOR and other data whose groups do not meet each
    other's samples (``coupling`` = 0); elsewhere the groups are treated as if they did not, and ``coupling`` says by
    how much they do.

    Args:
        network: two layers, one output: the start.
        dataset: scalar targets.
        loss: "square", "logistic" or "exponential".

    Raises:
        ValueError: another depth, several outputs, labels other than ±1 where the loss needs them, no neuron that
            grows.

    >>> from biasfree import datasets
    >>> start = Network.init([2, 60, 1], slope=0.0, init_scale=1e-6, seed=0)
    >>> print(several_linear_networks(start, datasets.orthogonal_pair()))
    2 linear networks: loss 0.5 → 0.25 → 0 at t = 12.52, 25.09
    """
    losses.get(loss).check_targets(dataset.targets)
    flow = early_flow(network, dataset, loss)
    groups = gather(flow)
    if not groups:
        raise ValueError("no neuron grows from this start: every one is inactive on all samples or shrinks.")
    slope = 1.0 if network.is_linear else network.slope
    parts = []
    for group in groups:
        reach = dataset.inputs @ group.direction
        # Samples on the group's own boundary are met by neither side.
        boundary = np.abs(reach) <= 1e-9 * np.linalg.norm(dataset.inputs, axis=1)
        factor = np.where(boundary, 0.0, np.where(reach > 0, 1.0, slope))
        held = flow.directions[flow.sliding[group.neurons[0]]]
        projection = np.eye(dataset.dim) - np.linalg.pinv(held) @ held if len(held) else np.eye(dataset.dim)
        log_sizes = 2 * flow.log_amplitude[group.neurons]
        start = np.exp(0.5 * np.logaddexp.reduce(log_sizes))
        parts.append(
            _Part(
                factor[:, None] * dataset.inputs,
                group.sign * dataset.targets,
                group.sign,
                group.direction,
                start,
                projection,
                loss,
            )
        )
    levels = _levels(parts, dataset, loss)
    stairs = Staircase(
        groups,
        np.array([part.start for part in parts]),
        levels,
        np.full(len(groups), np.nan),
        _coupling(parts),
        dataset,
        loss,
        slope,
        tuple(parts),
    )
    # Well after the slowest group's escape.
    end = max(g.escape_time(min(part.start, 0.5)) + 30 / g.rate for g, part in zip(groups, parts, strict=True))
    middle = 0.5 * (levels[1:] + levels[:-1])
    return dataclasses.replace(stairs, times=_passing(stairs, middle, end))


def _levels(parts: list[_Part], dataset: Dataset, loss: str) -> np.ndarray:
    """The loss with none, one, two, … of the groups at their end, in the order of growth."""
    outputs = np.zeros(dataset.samples)
    levels = [_point_losses.value(loss, outputs, dataset.targets).mean()]
    for part in parts:
        outputs = outputs + part.final()
        levels.append(_point_losses.value(loss, outputs, dataset.targets).mean())
    # An exact fit's rounding is an exact fit.
    return np.where(np.array(levels) < 1e-28 * levels[0], 0.0, levels)


def _coupling(parts: list[_Part]) -> float:
    features = np.array([part.inputs @ part.direction for part in parts])
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-300)
    overlap = np.abs(features @ features.T) - np.eye(len(parts))
    return float(np.maximum(overlap, 0.0).max(initial=0.0))


def _passing(stairs: Staircase, levels: np.ndarray, end: float) -> np.ndarray:
    """When the predicted loss passes each level before ``end``; all brackets are narrowed together, grid by grid."""
    low, high, missed = np.zeros(len(levels)), np.full(len(levels), end), np.zeros(len(levels), dtype=bool)
    for points in (257, 65, 65):
        grid = np.unique(np.concatenate([np.linspace(a, b, points) for a, b in zip(low, high, strict=True)]))
        curve = stairs.losses(grid)
        missed |= curve[-1] > levels
        below = np.array([int(np.argmax(curve <= level)) or 1 for level in levels])
        low, high = grid[below - 1], grid[below]
    fall = np.where(missed, 1.0, curve[below - 1] - curve[below])
    return np.where(missed, np.inf, low + (curve[below - 1] - levels) / fall * (high - low))
