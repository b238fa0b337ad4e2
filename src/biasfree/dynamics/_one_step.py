"""One step: what an explicit method makes of a place and a length."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._runge_kutta import METHODS, Method, energy_of
from biasfree.dynamics._vector_field import VectorField

Flat = Float[np.ndarray, "size"]
_BEGIN = 2.0  # e-folds of the first step beside a shared pull
_MOST_WORSE = 10.0  # e-folds by which the next step's error may be thought to grow
_GROWTH = 4.0  # e-folds of a step in closed form: there and back they cost e^8 of 16 digits


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


class SharedPull:
    """ẇ = Aᵀv, v̇ = Aw of all neurons: with A = Σ s u tᵀ their parts along t and u mix as e^{±s·time}.

    The parts of a neuron are tᵀw + uᵀv and tᵀw − uᵀv, for each t and u: the first grow, the second shrink, and the rest
    of its weights stays.
    """

    def __init__(self, pull: Float[np.ndarray, "outputs dim"], longest: float) -> None:
        """A, made smaller where e^{s·longest} would lose digits."""
        outer, sizes, inner = np.linalg.svd(pull, full_matrices=False)
        self._outer, self._inner, self._columns = outer, inner.T, sum(pull.shape)
        sizes = sizes * min(1.0, _GROWTH / (float(sizes[0]) * longest)) if sizes[0] > 0 else sizes
        self.rates = np.concatenate([sizes, -sizes])  # at which the parts grow

    def parts(self, flat: Flat) -> Float[np.ndarray, "width parts"]:
        """Of every neuron's weights, all in a row."""
        width, dim = flat.size // self._columns, len(self._inner)
        along = flat[: width * dim].reshape(width, dim) @ self._inner
        out = flat[width * dim :].reshape(-1, width).T @ self._outer
        return np.hstack([along + out, along - out])

    def add(self, parts: Float[np.ndarray, "width parts"], flat: Flat) -> None:
        """To weights in a row what has such parts and nothing else."""
        width, count = parts.shape
        end = width * len(self._inner)
        grown, shrunk = parts[:, : count // 2], parts[:, count // 2 :]
        flat[:end] += ((grown + shrunk) @ (0.5 * self._inner.T)).ravel()
        flat[end:] += ((0.5 * self._outer) @ (grown - shrunk).T).ravel()


class AlongSharedPull:
    """A Runge–Kutta method for what the flow does beside one pull that all neurons share.

    On symmetric data every neuron feels the same A, and little else. That motion has a closed form for an A that is
    kept over a step: parts c of neurons grow as e^{st}. So a method is applied to z = e^{−st}c, whose velocity is what
    remains (Lawson's way), and to all else as ever. While outputs are small A hardly changes: steps are as long as
    times that are saved allow, where c itself would need several for each factor of e. Any A will do; the last one seen
    is taken.
    """

    longest = math.inf

    def __init__(self, name: str) -> None:
        """One of ``_runge_kutta.METHODS``."""
        self._method = METHODS[name]
        self.order = self._method.order
        self._nodes = np.append(self._method.a.sum(axis=1), 1.0)
        # The estimates of the error are summed up before they are moved to the step's end: one row for each.
        estimates = [each for each in (self._method.error, self._method.second) if each is not None]
        self._estimates, alone = np.array(estimates), np.eye(len(estimates))
        self._rule = self._method._replace(
            b=np.zeros(len(estimates) - 1), error=alone[0], second=alone[1] if len(estimates) > 1 else None
        )

    def first(self, field: VectorField, here: Flat, first: Flat, rtol: float) -> tuple[float, int]:
        """See ``Steps``: what grows by the shared pull needs no steps, so it is a part of an e-fold."""
        pull = field.shared_pull()
        size = 0.0 if pull is None else float(np.linalg.norm(pull, 2))
        return (_BEGIN / size if size > 0 else 0.0), 0

    def worse(self, field: VectorField, length: float) -> float:
        """See ``Steps``: outputs, which are all that disturbs the shared pull, grow by twice its rate."""
        pull = field.shared_pull()
        return 1.0 if pull is None else math.exp(min(2 * float(np.linalg.norm(pull, 2)) * length, _MOST_WORSE))

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """See ``Steps``."""
        method, pull = self._method, field.shared_pull()
        assert pull is not None
        shared, times = SharedPull(pull, length), length * self._nodes
        back = np.exp(-np.outer(times, shared.rates))  # what brings a part back to the step's begin
        stages, moving, there = np.empty((len(times), here.size)), first, here
        begins = begun = shared.parts(here)
        parts = np.empty((len(times), 2, *begun.shape))  # ċ as it is, and ż, which is what remains
        flat_parts = parts.reshape(len(times), -1)
        for s, growth in enumerate(back):
            if s:
                weights = length * (method.a[s, :s] if s < len(method.b) else method.b)
                there = here + weights @ stages[:s]
                plain, remaining = (weights @ flat_parts[:s]).reshape(parts.shape[1:])
                begun = (begins + remaining) / growth
                shared.add(begun - begins - plain, there)
                moving = field.velocity(there)
            stages[s], parts[s, 0] = moving, shared.parts(moving)
            parts[s, 1] = (parts[s, 0] - shared.rates * begun) * growth
        errors = self._estimates @ stages
        for weights, error in zip(self._estimates, errors, strict=True):
            plain, remaining = (weights @ flat_parts).reshape(parts.shape[1:])
            shared.add(remaining / back[-1] - plain, error)
        return Step(there, moving, energy_of(stages, method), errors, self._rule, len(method.b))


def shared_or_plain(name: str, field: VectorField) -> AlongSharedPull | RungeKutta:
    """The method beside the shared pull where there is one."""
    return RungeKutta(name) if field.shared_pull() is None else AlongSharedPull(name)
