"""One step: what an explicit method makes of a place and a length."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._runge_kutta import METHODS, Method, energy_of
from biasfree.dynamics._vector_field import VectorField

Flat = Float[np.ndarray, "size"]
_BEGIN = 0.5  # e-folds of the first step beside a shared pull
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


class SharedPull:
    """ẇ = Aᵀv, v̇ = Aw of all neurons: with A = Σ s u tᵀ their parts along t and u mix as e^{±s·time}."""

    def __init__(self, pull: Float[np.ndarray, "outputs dim"], longest: float) -> None:
        """A, made smaller where e^{s·longest} would lose digits."""
        outer, sizes, inner = np.linalg.svd(pull, full_matrices=False)
        self._outer, self._inner, self._columns = outer, inner.T, sum(pull.shape)
        self._rates = sizes * min(1.0, _GROWTH / (float(sizes[0]) * longest)) if sizes[0] > 0 else sizes

    def velocity(self, flat: Flat) -> Flat:
        """Of weights in a row."""
        along, out = self._parts(flat)
        return self._joined(out * self._rates, along * self._rates)

    def moved(self, flat: Flat, time: float) -> Flat:
        """Weights, in a row, after a time."""
        along, out = self._parts(flat)
        more, mixed = np.cosh(self._rates * time) - 1, np.sinh(self._rates * time)
        return flat + self._joined(more * along + mixed * out, more * out + mixed * along)

    def _parts(self, flat: Flat) -> tuple[np.ndarray, np.ndarray]:
        """Of every neuron, along t and along u."""
        width, dim = flat.size // self._columns, len(self._inner)
        first, second = flat[: width * dim].reshape(width, dim), flat[width * dim :].reshape(-1, width)
        return first @ self._inner, second.T @ self._outer

    def _joined(self, along: np.ndarray, out: np.ndarray) -> Flat:
        """The weights that have such parts and nothing else."""
        return np.concatenate([(along @ self._inner.T).ravel(), (self._outer @ out.T).ravel()])


class AlongSharedPull:
    """A Runge–Kutta method for what the flow does beside one pull that all neurons share.

    On symmetric data every neuron feels the same A, and little else. That motion has a closed form Φ_t for an A that is
    kept over a step, so a method is applied to z = Φ_{−t}W, whose velocity is what remains (Lawson's way). While
    outputs are small A hardly changes: steps are as long as times that are saved allow, where W itself would need
    several for each factor of e. Any A will do; the last one seen is taken.
    """

    longest = math.inf

    def __init__(self, name: str) -> None:
        """One of ``_runge_kutta.METHODS``."""
        self._method = METHODS[name]
        self.order = self._method.order
        self._nodes = [*self._method.a.sum(axis=1), 1.0]
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

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """See ``Steps``."""
        method, pull = self._method, field.shared_pull()
        assert pull is not None
        shared, nodes = SharedPull(pull, length), [node * length for node in self._nodes]
        stages, powers, moving, there = np.empty((len(nodes), here.size)), [], first, here
        for s, time in enumerate(nodes):
            if s:
                weights = method.a[s, :s] if s < len(method.b) else method.b
                there = shared.moved(here + length * (weights @ stages[:s]), time)
                moving = field.velocity(there)
            stages[s] = shared.moved(moving - shared.velocity(there), -time)
            powers.append(float(moving @ moving))
        parts = np.array([shared.moved(estimate, length) for estimate in self._estimates @ stages])
        return Step(there, moving, float(method.b @ powers[:-1]), parts, self._rule, len(method.b))


def shared_or_plain(name: str, field: VectorField) -> AlongSharedPull | RungeKutta:
    """The method beside the shared pull where there is one."""
    return RungeKutta(name) if field.shared_pull() is None else AlongSharedPull(name)
