"""How long the next explicit step should be, and by which method.

A step of order 8 costs 15 evaluations, one of order 3 costs 3, and either its bookkeeping. Events cut both short, so
that the one which goes further for its cost is taken, judged by the usual distance between events. Short steps are held
to the same error per time as long ones: there are many of them.
"""

from dataclasses import dataclass

import numpy as np

from biasfree.dynamics.exact._march import Going, Marched
from biasfree.dynamics.exact._methods import ORDER_3, ORDER_8, Method

_FORGET = 0.3  # weight of the last distance between events in its running mean
_RARER, _FREE = 1.1, 2.0  # what a step without an event makes of that mean, and what its length does at least
_EXPECTED = 0.02  # first guess of a short step, as part of a long one
_BEYOND = 2.5  # usual distances between events that a short step looks ahead
# What a short step makes of the long one where that is shorter than the distance between events: else it would never
# be tried again where a kink has made it short, and short ones are held by stability for good (wide seeds 3087, 7971).
_TRIED_AGAIN = 1.01
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
    decided: int = 0  # events of rows alone, in Python
    algebra: float = 0.0  # multiplications of what exponential steps decompose and solve
    smallest: float = np.inf

    def method(self) -> Method:
        """The method that goes further per evaluation."""
        short = self.short or _EXPECTED * self.long
        worth = (ORDER_8.stages - 1 + self.overhead) / (ORDER_3.stages - 1 + self.overhead)
        return ORDER_3 if worth * min(short, self.gap) > min(self.long, self.gap) else ORDER_8

    def going(self, method: Method, left: float, smallest: float, steps: int, energy: float, level: float) -> Going:
        """How the next march may go."""
        if method is ORDER_8:
            return Going(left, smallest, np.inf, self.long, 0.0, self.stiff, steps, energy, level)
        longest, short = min(self.long, _BEYOND * self.gap), self.short or _EXPECTED * self.long
        return Going(left, smallest, longest, short, 1 / self.long, 0, steps, energy, level)

    def gone(self, method: Method, marched: Marched) -> None:
        """Take a march into account."""
        if method is ORDER_8:
            self.long, self.stiff = marched.step, marched.stiff
        else:
            self.short = marched.step
            if self.long < self.gap:
                self.long *= _TRIED_AGAIN**marched.steps
        self.accepted += marched.steps
        self.rejected += marched.rejected
        self.evaluations += marched.steps * (method.stages - 1) + marched.rejected * (method.core - 1)
        self.smallest = min(self.smallest, marched.smallest)

    def met_event(self, distance: float) -> None:
        """An event ended a step, a distance after the one before."""
        distance = max(distance, _CLOSEST * self.long)
        self.gap = distance if self.gap == np.inf else (1 - _FORGET) * self.gap + _FORGET * distance

    def free(self, length: float) -> None:
        """A step that no event ended: they have become rarer."""
        self.gap = max(_RARER * self.gap, _FREE * length)
