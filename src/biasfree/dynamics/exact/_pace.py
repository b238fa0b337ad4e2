"""How long the next explicit step should be, and by which method.

A step of order 8 costs 15 evaluations, one of order 5 costs 6, and either its bookkeeping. Events cut both short, so
that the one which goes further for its cost is taken, judged by the usual distance between events. Short steps are held
to the same error per time as long ones: there are many of them.

The rule is C (``native/pace.c``): steps that are taken there and marches that are asked for here share it.
"""

import ctypes
from ctypes import byref

import numpy as np

from biasfree.dynamics.exact._kernels import METHODS, engine
from biasfree.dynamics.exact._march import Going, Marched
from biasfree.dynamics.exact._methods import ORDER_5, ORDER_8, Method


class Pace(ctypes.Structure):
    """How long the next step should be, and what steps have cost.

    Attributes:
        long, short: the next step of order 8, and of order 5; 0: not tried yet.
        gap: usual distance between events.
        overhead: what a step costs besides its evaluations, in evaluations.
        smallest: accepted step.
        rate: the fastest, as steps have shown it.
        stiff: steps held by stability, less those that were not.
        accepted, rejected, evaluations: so far.
        decided: events of rows alone, in Python.
        algebra: multiplications of what exponential steps decompose and solve.
        arcs: of exponential steps, which are drawn and searched one by one.
    """

    long: float
    short: float
    gap: float
    overhead: float
    smallest: float
    rate: float
    stiff: int
    accepted: int
    rejected: int
    evaluations: int
    _fields_ = (
        *((name, ctypes.c_double) for name in ("long", "short", "gap", "overhead", "smallest", "rate")),
        *((name, ctypes.c_int64) for name in ("stiff", "accepted", "rejected", "evaluations")),
    )

    def __init__(self, long: float) -> None:
        """Nothing is known but the first step."""
        super().__init__(long=long, gap=np.inf, smallest=np.inf)
        self.decided, self.algebra, self.arcs = 0, 0.0, 0

    def method(self) -> Method:
        """The method that goes further per evaluation."""
        return (ORDER_8, ORDER_5)[engine().biasfree_pace_method(byref(self), byref(METHODS))]

    def going(self, method: Method, left: float, smallest: float, steps: int, energy: float, level: float) -> Going:
        """How the next march may go."""
        longest = engine().biasfree_pace_longest(byref(self), method.number)
        step = engine().biasfree_pace_step(byref(self), method.number)
        per_time, stiff = (0.0, self.stiff) if method is ORDER_8 else (1 / self.long, 0)
        return Going(left, smallest, longest, step, per_time, stiff, steps, energy, level, self.rate)

    def gone(self, method: Method, marched: Marched) -> None:
        """Take a march into account."""
        if method is ORDER_8:
            self.long, self.stiff = marched.step, marched.stiff
        else:
            self.short = marched.step
            engine().biasfree_pace_went_short(byref(self), marched.steps)
        self.rate = marched.rate
        self.accepted += marched.steps
        self.rejected += marched.rejected
        self.evaluations += marched.steps * (method.stages - 1) + marched.rejected * (method.core - 1)
        self.smallest = min(self.smallest, marched.smallest)

    def met_event(self, distance: float) -> None:
        """An event ended a step, a distance after the one before."""
        engine().biasfree_pace_met_event(byref(self), distance)

    def free(self, length: float) -> None:
        """A step that no event ended: they have become rarer."""
        engine().biasfree_pace_free(byref(self), length)
