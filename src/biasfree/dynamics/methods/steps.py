"""Adaptive steps: explicit Runge–Kutta methods, and one whose steps stay stable however long they are."""

import functools

from biasfree.dynamics._plan import Plan
from biasfree.dynamics.methods._method import Begun, Method


def _begin(plan: Plan, name: str) -> Begun:
    from biasfree.dynamics._adaptive import begin  # and SciPy's integrators

    return Begun(*begin(plan, name))


_NAMES = ("bosh3", "dopri5", "tsit5", "dopri8", "rkc")
METHODS = [Method(name, functools.partial(_begin, name=name)) for name in _NAMES]
