"""The same run once more, in turned axes and at a tenth of the tolerance: how far do the two differ?

With several outputs a network may rest near a saddle while the direction that will drive it away is smaller than
rounding, or than the tolerance, in neurons that are large: when it leaves, and which way, is then an accident. Balance,
energy and admissibility hold all the same. The flow of turned inputs and outputs is the turned flow, but every sum is
rounded otherwise; so what hangs on rounding or on the tolerance differs between the two, and nothing else does. With
one output there is no such direction: where a neuron rests, its whole pull is zero.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.dynamics._loop import Outcome
from biasfree.dynamics._plan import TIGHTEST, Plan, Stop
from biasfree.dynamics._recorder import Recorder

_TIGHTER = 0.1  # times rtol: then what they differ by is what the looser one is off by
_LOOKS = 8  # saved times at which they are compared, besides the start; chosen: what has gone apart mostly stays so


def is_due(outcome: Outcome, plan: Plan, method: str) -> bool:
    """Whether a run of several outputs asks for another: one by the exact flow, where lines matter."""
    return bool(method == "exact" and not plan.network.is_linear and outcome.recorder.times[-1] > plan.start)


@dataclass(frozen=True)
class Rerun:
    """A run in other axes.

    Attributes:
        plan: what to run.
        inner, outer: orthogonal matrices: inputs are multiplied by the one, targets by the other.
    """

    plan: Plan
    inner: Float[np.ndarray, "dim dim"]
    outer: Float[np.ndarray, "outputs outputs"]

    @classmethod
    def of(cls, outcome: Outcome, plan: Plan) -> "Rerun":
        """Of a run that has ended, to where it came."""
        first, second = (np.asarray(layer) for layer in plan.network.weights)
        inner, outer, data = _turn(first.shape[1]), _turn(second.shape[0]), plan.dataset
        if plan.loss != "square":  # a softmax is the same in another order only
            outer = np.eye(len(outer))[::-1]
        times = outcome.recorder.times
        some = np.unique(np.linspace(0, len(times) - 1, _LOOKS + 1).round().astype(int))
        again = replace(
            plan, network=plan.network.with_weights((first @ inner, outer.T @ second)),
            dataset=Dataset(data.inputs @ inner, data.targets @ outer, data.name), until=float(times[-1]),
            rtol=max(_TIGHTER * plan.rtol, TIGHTEST), stop=Stop(), save=times[some],
        )  # fmt: skip
        return cls(again, inner, outer)

    def gap(self, one: Recorder, other: Recorder) -> float:
        """How far both are apart at times that both saved, relative to the largest weight; infinite if that is none."""
        _, mine, theirs = np.intersect1d(one.times, other.times, return_indices=True)
        first, second = (layer[mine] for layer in one.stacked())
        inner, outer = (layer[theirs] for layer in other.stacked())
        largest = max(np.abs(first).max(), np.abs(second).max())
        off = np.maximum(np.abs(inner @ self.inner.T - first).max(), np.abs(self.outer @ outer - second).max())
        if not np.isfinite(off):  # a NaN would be above no limit
            return math.inf
        return float(off / largest) if largest > 0 else 0.0


def _turn(dim: int) -> Float[np.ndarray, "dim dim"]:
    """A rotation of so many axes, any but always the same."""
    return np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
