"""One step: what an explicit method makes of a place and a length."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._runge_kutta import METHODS, Method, energy_of
from biasfree.dynamics._vector_field import VectorField

Flat = Float[np.ndarray, "size"]


class Step(NamedTuple):
    """Where a step ends, and what is known of it.

    Attributes:
        there: its end.
        velocity: there.
        energy: mean of ‖Ẇ‖² over it.
        parts: what the estimate of its error is made of, per unit of length.
        rule: the method that has their weights.
        evaluations: velocities that it took.
    """

    there: Flat
    velocity: Flat
    energy: float
    parts: Float[np.ndarray, "parts size"]
    rule: Method
    evaluations: int


class Steps(Protocol):
    """A method."""

    order: int  # the power of the length that its estimated error goes with

    @property
    def longest(self) -> float:
        """The longest step worth trying now."""

    def first(self, field: VectorField, here: Flat, first: Flat, rtol: float) -> tuple[float, int]:
        """A first step that the tolerance may well allow, 0 where none is known; and velocities that it took."""

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """The step of a length from ``here``, where the velocity is ``first``."""

    def worse(self, field: VectorField, length: float) -> float:
        """By what factor the error of a step is larger when the step begins so much later, as far as that is known."""


class RungeKutta:
    """A Runge–Kutta method of fixed stages."""

    longest = math.inf

    def __init__(self, name: str) -> None:
        """One of ``_runge_kutta.METHODS``."""
        self._method = METHODS[name]
        self.order = self._method.order

    def first(self, field: VectorField, here: Flat, first: Flat, rtol: float) -> tuple[float, int]:
        """See ``Steps``."""
        return 0.0, 0

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """See ``Steps``."""
        method = self._method
        stages, there = field.stages(here, first, length, method)
        return Step(there, stages[-1], energy_of(stages, method), stages, method, len(method.b))

    def worse(self, field: VectorField, length: float) -> float:
        """See ``Steps``."""
        return 1.0
