"""The early phase of a two-layer network, in closed form, for the adaptive steps.

While the output is negligible the exact flow's closed form (``exact._early``) needs no steps at all, only a little work
for every crossing: as measured, about that of 300,000 + 50·samples multiplications, of which a gradient has 4·samples·
width·dim. On large generic data crossings come by the hundred thousand at first, and steps that take many of them at
once are the cheaper way; later there are few. So the steps begin, and from time to time it is looked how many crossings
they took. Once these would have cost less than the steps, the closed form takes over, to the end of the phase. Where no
line matters (symmetric data, linear networks) it does so at once.

Deep networks have no such phase: their early flow is homogeneous of higher degree, and its steps lengthen as the start
gets smaller. One ten times smaller costs about a fifth more of them, as measured at depths 3 and 4.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import losses
from biasfree.dynamics._float64 import LARGEST_EXPONENT
from biasfree.dynamics._pieces import Point
from biasfree.dynamics._plan import Plan
from biasfree.lines import Lines, lines

if TYPE_CHECKING:
    from biasfree.dynamics.exact._early import Early

_CROSSING, _PER_SAMPLE = 300_000, 50  # multiplications, as measured
_FIRST_WAIT = 8  # accepted steps between the first looks; later a third of all so far
_SMALLEST, _LARGEST = 1e-290, 1e290  # what the closed form multiplies and takes logarithms of must be a number


@dataclass(frozen=True)
class Leap:
    """A way through the early phase; times count from where it begins."""

    duration: float
    switches: int
    dim: int
    _early: "Early"

    def at(self, elapsed: float) -> Point:
        """Both layers, and ∫‖Ẇ‖² since the beginning."""
        neurons = self._early.at(elapsed)
        return Point((neurons[:, : self.dim], neurons[:, self.dim :].T), self._early.energy(elapsed))


class EarlyJump:
    """Looks for the moment to leap, once in a run."""

    def __init__(self, plan: Plan) -> None:
        """Two layers; else it never leaps."""
        network = plan.network
        self.over = network.depth != 2 or any(network.skips)
        self.next_look = 0
        self._plan = plan
        self._slope = 1.0 if network.is_linear else network.slope
        self._inputs = np.asarray(plan.dataset.inputs)
        self._targets = np.asarray(plan.dataset.targets, dtype=float)
        self._lines: Lines | None = None
        self._active: np.ndarray | None = None
        self._evaluations = 0

    def look(self, weights: Any, time: float, accepted: int, evaluations: int, log_loss: float) -> Leap | None:
        """The leap to take here, if it is the cheaper way by now; ``log_loss`` is that of the start."""
        first, second = (np.asarray(layer) for layer in weights)
        self.next_look = accepted + accepted // 3 + _FIRST_WAIT
        if self._lines is None:
            self._lines = lines(self._inputs)
        if not self._cheaper(first, evaluations):
            return None
        self.over = True
        return self._leap(np.column_stack([first, second.T]), self._lines, time, log_loss)

    def _cheaper(self, first: np.ndarray, evaluations: int) -> bool:
        """Whether the crossings since the last look would have cost less than the steps."""
        assert self._lines is not None
        residual = losses.get(self._plan.loss).initial_residual(self._targets)
        if self._slope == 1 or not self._lines.pulls(residual)[2].size:
            return True
        if self._targets.ndim == 2:  # a crossing of several outputs costs a singular value decomposition, uncompiled
            self.over = True
            return False
        before, self._active = self._active, first @ self._inputs.T > 0
        spent, self._evaluations = evaluations - self._evaluations, evaluations
        gradient = 4 * self._inputs.size * len(first)
        crossing = _CROSSING + _PER_SAMPLE * len(self._inputs)
        return before is not None and crossing * int(np.sum(self._active != before)) <= gradient * spent

    def _leap(self, neurons: np.ndarray, grouped: Lines, time: float, log_loss: float) -> Leap | None:
        from biasfree.dynamics.exact._early import early_phase, spectral_norm

        plan = self._plan
        power = spectral_norm(self._inputs)
        scale = math.exp(min(log_loss, LARGEST_EXPONENT)) if plan.clock == "loss" else 1.0
        if not all(_SMALLEST < size < _LARGEST for size in (power, scale, power / max(scale, _SMALLEST))):
            return None
        early = early_phase(
            neurons, grouped, self._targets, power, slope=self._slope, loss=plan.loss, decay=plan.weight_decay / scale,
            scale=scale, rtol=plan.rtol, until=plan.until - time,
        )  # fmt: skip
        return None if early is None else Leap(early.time, len(early.events), grouped.directions.shape[1], early)
