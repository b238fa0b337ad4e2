"""How long the next explicit step should be, and by which method.

A step of order 8 costs 15 evaluations, one of order 3 costs 3, and either its bookkeeping. Events cut both short, so
that the one which goes further for its cost is taken, judged by the usual distance between events.
"""

from dataclasses import dataclass

import numpy as np

from biasfree.dynamics.exact._kernels import Method
from biasfree.dynamics.exact._methods import ORDER_3, ORDER_8

_SHRINK_MOST, _SHRINK, _GROW, _GROW_SHORT = 0.1, 0.2, 10.0, 3.0  # usual bounds of a step's change
_CAREFUL = 0.9  # usual part of the step that the error allows
_STABLE = 4.0  # step × fastest rate from which stability holds the steps; that of order 8 ends near 6
_FORGET = 0.3  # weight of the last distance between events in its running mean
_RARER, _FREE = 1.1, 2.0  # what a step without an event makes of that mean, and what its length does at least
_EXPECTED = 0.02  # first guess of a short step, as part of a long one
_BEYOND = 2.5  # usual distances between events that a short step looks ahead
_CLOSEST = 1e-3  # part of a long step below which events do not make steps shorter


@dataclass
class Pace:
    """How long the next step should be, and what steps have cost."""

    long: float  # the next step of order 8
    short: float = 0.0  # of order 3; 0: not tried yet
    gap: float = np.inf  # usual distance between events
    overhead: float = 0.0  # what a step costs besides its evaluations, in evaluations
    stiff: int = 0  # steps held by stability, less those that were not
    accepted: int = 0
    rejected: int = 0
    evaluations: int = 0
    smallest: float = np.inf

    def method(self) -> tuple[Method, float]:
        """The method that goes further per evaluation, and its step."""
        short = self.short or _EXPECTED * self.long
        worth = (len(ORDER_8.a) - 1 + self.overhead) / (len(ORDER_3.a) - 1 + self.overhead)
        if worth * min(short, self.gap) > min(self.long, self.gap):
            return ORDER_3, min(short, self.long, _BEYOND * self.gap)
        return ORDER_8, self.long

    def met_event(self, distance: float) -> None:
        """An event ended a step, a distance after the one before."""
        distance = max(distance, _CLOSEST * self.long)
        self.gap = distance if self.gap == np.inf else (1 - _FORGET) * self.gap + _FORGET * distance

    def free(self, length: float) -> None:
        """A step that no event ended: they have become rarer."""
        self.gap = max(_RARER * self.gap, _FREE * length)

    def judged(self, order: int, step: float, error: float, stiffness: float) -> None:
        """Take a trial's error into account."""
        bounded = max(error, 1e-14) if np.isfinite(error) else np.inf
        factor = _CAREFUL * bounded ** (-1 / order)
        if error <= 1:
            self.accepted += 1
            self.smallest = min(self.smallest, step)
            factor = min(_GROW, max(_SHRINK, factor))
        else:
            self.rejected += 1
            factor = max(_SHRINK if error < 1e10 else _SHRINK_MOST, factor)
        if order == 8:
            # A step cut short by the end of the run says nothing against the one that was planned.
            self.long = step * factor if error > 1 or step >= self.long else max(self.long, step * factor)
            # At the edge of stability every second or third step fails.
            held = stiffness > _STABLE
            self.stiff = self.stiff + 3 if error > 1 and held else self.stiff + 1 if held else max(0, self.stiff - 1)
        else:
            self.short = step * min(factor, _GROW_SHORT) if error > 1 or step >= self.short else self.short
