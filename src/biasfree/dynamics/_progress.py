"""Telling how far a run is, and how much work to give to one compiled call."""

import math
import time as clock_time
from collections.abc import Callable
from typing import NamedTuple

from biasfree.dynamics import _field
from biasfree.dynamics._pieces import Piece
from biasfree.dynamics._plan import Plan

_SECONDS_PER_CALL = 0.3  # short enough that Ctrl-C and a progress bar feel immediate
_FEWEST, _MOST = 4, 100_000  # attempts of one call: the first, which compiles, should do next to nothing else
_FASTER = 4.0  # the quota grows by this at most: a first call's time says little about the next one's
_SECONDS, _PART = 0.1, 0.01  # a callback is called again after so long, or after so much of the way
_SHORTEST = 1e-6  # seconds; a call takes longer, but clocks may say 0
_LARGEST_LOG = 709.0  # e^709 is the largest loss that float64 holds


class Progress(NamedTuple):
    """What a progress callback is given, a few times a second."""

    time: float
    until: float
    steps: int
    loss: float

    @property
    def fraction(self) -> float:
        """Part of the way, 0 to 1; 0 when there is no end time."""
        return self.time / self.until if math.isfinite(self.until) else 0.0


ProgressCallback = Callable[[Progress], None]


def next_quota(quota: int, seconds: float) -> int:
    """Steps for the next compiled call, so that one lasts about a third of a second."""
    return int(min(max(_FEWEST, quota * min(_FASTER, _SECONDS_PER_CALL / max(seconds, _SHORTEST))), _MOST))


class Reporter:
    """Calls a callback at every hundredth of the way, and several times a second between."""

    def __init__(self, plan: Plan, callback: ProgressCallback | None) -> None:
        """Nothing is reported without a callback."""
        self._plan, self._callback = plan, callback
        self._last_time, self._last_call = -math.inf, -math.inf

    def report(self, piece: Piece, steps: int, last: bool) -> None:
        """After a piece; the loss costs an evaluation, so it is computed only for a callback that is due."""
        if self._callback is None:
            return
        now, until = clock_time.perf_counter(), self._plan.until
        further = math.isfinite(until) and piece.end - self._last_time >= _PART * until
        if not further and now - self._last_call < _SECONDS and not last:
            return
        self._last_time, self._last_call = piece.end, now
        self._callback(Progress(piece.end, until, steps, self._loss(piece)))

    def _loss(self, piece: Piece) -> float:
        point, plan = piece.at(piece.end), self._plan
        level = point.log_loss
        if math.isnan(level):
            problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
            kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
            level = float(_field.log_loss(point.weights, problem, kind))
        return math.exp(level) if level < _LARGEST_LOG else level
