"""Is f(x) = Mx for every x? Decided by mixed-integer programming (SciPy's HiGHS), for small networks without biases.

On the box |x_i| ≤ 1 each neuron whose sign can change gets a binary variable δ, and z = σ(h) is the four inequalities

    z ≥ h,  z ≥ αh,  z ≤ h − (1−α)l(1−δ),  z ≤ αh + (1−α)uδ,

with l ≤ h ≤ u from linear relaxation. The largest ±(f_k(x) − M_kx) is then a linear objective. By homogeneity what
vanishes on the box vanishes everywhere.
"""

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, lil_array, vstack

from biasfree.inspection import _relaxation
from biasfree.models._layers import Layers

# HiGHS keeps constraints and whole numbers to this; neurons are scaled so that none exceeds 1.
SOLVER_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Maximum:
    """The largest |f_k(x) − M_kx| over outputs k and the box.

    Attributes:
        value: reached at ``point``, evaluated in float64.
        point: shape (dim,), in the box.
        bound: no x of the box exceeds it, the solver's tolerance added; infinite when time ran out too early.
        switches: binary variables.
        finished: whether the solver proved every maximum.
    """

    value: float
    point: Float[np.ndarray, "dim"]
    bound: float
    switches: int
    finished: bool


def largest_deviation(model: Layers, linear_map: Float[np.ndarray, "out dim"], seconds: float = 10.0) -> Maximum:
    """Maximise |f(x) − Mx| over the box [−1, 1]^dim, output by output.

    Args:
        model: without biases.
        linear_map: M, shape (outputs, dim).
        seconds: time limit for all outputs together.

    >>> from biasfree.theory import depth_separation_network
    >>> maximum = largest_deviation(Layers.from_network(depth_separation_network()), np.zeros((1, 2)))
    >>> round(maximum.value, 9), maximum.finished
    (1.0, True)
    """
    scaled, low, high = _scaled(model)
    problem = _Problem(scaled, low, high)
    deadline = time.monotonic() + seconds
    best, point, bound, finished = -1.0, np.zeros(model.widths[0]), 0.0, True
    for output, sign in [(k, s) for k in range(model.widths[-1]) for s in (1.0, -1.0)]:
        # In units of what is summed, so that the solver's absolute tolerances are relative ones.
        unit = float(np.abs(scaled.weights[-1][output]).sum() + np.abs(linear_map[output]).sum()) or 1.0
        cost = problem.cost(sign * scaled.weights[-1][output] / unit, -sign * linear_map[output] / unit)
        solution = problem.solve(-cost, max(0.05, deadline - time.monotonic()))
        finished = finished and solution.status == 0
        limit = -solution.mip_dual_bound if solution.mip_dual_bound is not None else np.inf
        bound = max(bound, unit * (limit + SOLVER_TOLERANCE))
        if solution.x is not None:
            maximiser = np.clip(solution.x[: model.widths[0]], -1, 1)
            # Corners and edges of the box are met only to the solver's tolerance.
            tried = np.stack([maximiser, np.round(maximiser, 5)])
            values = np.abs(model(tried) - tried @ linear_map.T).max(axis=1)
            if values.max() > best:
                best, point = float(values.max()), tried[np.argmax(values)]
    return Maximum(max(best, 0.0), point, max(float(bound), best), problem.switches, finished)


def _scaled(model: Layers) -> tuple[Layers, list[np.ndarray], list[np.ndarray]]:
    """Neurons rescaled so that none exceeds 1 on the box, which leaves the function as it is; their ranges."""
    ranges = _relaxation.ranges(model, np.inf)
    weights = [np.array(w) for w in model.weights]
    low, high = [], []
    for layer, (least_h, most_h) in enumerate(zip(ranges.low, ranges.high, strict=True)):
        size = np.maximum(np.abs(least_h), np.abs(most_h))
        size[size == 0] = 1.0
        weights[layer] = weights[layer] / size[:, None]
        weights[layer + 1] = weights[layer + 1] * size
        low.append(least_h / size)
        high.append(most_h / size)
    return model.replaced(weights, model.biases, model.slopes), low, high


class _Problem:
    """The constraints: variables are x, then z of every hidden layer, then the binaries."""

    def __init__(self, model: Layers, low: list[np.ndarray], high: list[np.ndarray]) -> None:
        widths = model.widths[:-1]
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(int)
        open_ = [
            np.flatnonzero((least_h < 0) & (most_h > 0)) if slope < 1 else np.zeros(0, dtype=int)
            for least_h, most_h, slope in zip(low, high, model.slopes, strict=True)
        ]
        self.switches = int(sum(map(len, open_)))
        self.model, self.count = model, int(starts[-1]) + self.switches
        self.last = slice(int(starts[-2]), int(starts[-1]))
        self.bounds = Bounds(np.full(self.count, -np.inf), np.full(self.count, np.inf))
        self.bounds.lb[: widths[0]], self.bounds.ub[: widths[0]] = -1, 1
        self.bounds.lb[starts[-1] :], self.bounds.ub[starts[-1] :] = 0, 1
        rows: list[csr_array] = []
        least: list[np.ndarray] = []
        most: list[np.ndarray] = []
        binary = int(starts[-1])
        for layer, (least_h, most_h) in enumerate(zip(low, high, strict=True)):
            slope, width = model.slopes[layer], widths[layer + 1]
            inputs, own = slice(starts[layer], starts[layer + 1]), starts[layer + 1]
            self.bounds.lb[own : own + width] = np.where(least_h > 0, least_h, slope * least_h) - SOLVER_TOLERANCE
            self.bounds.ub[own : own + width] = np.where(most_h > 0, most_h, slope * most_h) + SOLVER_TOLERANCE

            def part(
                neurons: np.ndarray, factor: float, switch: np.ndarray | None = None, binary: int = binary,
                inputs: slice = inputs, own: int = int(own), layer: int = layer,
            ) -> csr_array:  # fmt: skip
                """z − factor·h (+ switch·δ) of these neurons."""
                block = lil_array((len(neurons), self.count))
                block[:, inputs] = -factor * model.weights[layer][neurons]
                block[np.arange(len(neurons)), own + neurons] = 1.0
                if switch is not None:
                    block[np.arange(len(neurons)), binary + np.arange(len(neurons))] = switch
                return block.tocsr()

            def demand(block: csr_array, lower: np.ndarray | float, upper: np.ndarray | float) -> None:
                rows.append(block)
                least.append(np.broadcast_to(lower, block.shape[0]).astype(float))
                most.append(np.broadcast_to(upper, block.shape[0]).astype(float))

            fixed = np.setdiff1d(np.arange(width), open_[layer])
            for factor, chosen in (
                (1.0, fixed[(least_h[fixed] >= 0) | (slope == 1)]),
                (slope, fixed[(least_h[fixed] < 0) & (slope < 1)]),
            ):
                if len(chosen):
                    demand(part(chosen, factor), 0.0, 0.0)
            free = open_[layer]
            if len(free):
                gap_low, gap_high = (1 - slope) * least_h[free], (1 - slope) * most_h[free]
                demand(part(free, 1.0), 0.0, np.inf)
                demand(part(free, slope), 0.0, np.inf)
                demand(part(free, 1.0, -gap_low), -np.inf, -gap_low)
                demand(part(free, slope, -gap_high), -np.inf, 0.0)
            binary += len(free)
        self.constraints = LinearConstraint(vstack(rows).tocsr(), np.concatenate(least), np.concatenate(most))
        self.whole = np.zeros(self.count)
        self.whole[starts[-1] :] = 1

    def cost(self, outgoing: np.ndarray, direct: np.ndarray) -> np.ndarray:
        cost = np.zeros(self.count)
        cost[: len(direct)] = direct
        cost[self.last] += outgoing
        return cost

    def solve(self, cost: np.ndarray, seconds: float) -> Any:
        options = {"time_limit": seconds, "mip_rel_gap": 1e-6}
        with _silenced():
            return milp(cost, constraints=self.constraints, bounds=self.bounds, integrality=self.whole, options=options)


@contextmanager
def _silenced() -> Iterator[None]:
    """Standard output to nowhere: some releases of HiGHS print a line of their own from C, whatever their options."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        if os.name == "posix":
            # What C still holds back would otherwise appear after all.
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
