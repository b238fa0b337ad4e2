"""Steps beside a pull that all neurons share.

On symmetric data every neuron feels the same A, ẇ = Aᵀv, v̇ = Aw, and little else. With A = Σ s u tᵀ the parts
tᵀw + uᵀv and tᵀw − uᵀv of a neuron grow as e^{±s·time}, and the rest of its weights stays. While outputs are small A
hardly changes: steps beside that motion are as long as times that are saved allow, where the weights themselves would
need several for each factor of e.
"""

import math
from ctypes import byref
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._one_step import RungeKutta, Step
from biasfree.dynamics._runge_kutta import METHODS, energy_of
from biasfree.dynamics._vector_field import VectorField
from biasfree.dynamics.exact._kernels import engine
from biasfree.native import address, structure

Flat = Float[np.ndarray, "size"]
Parts = Float[np.ndarray, "width parts"]
_BEGIN = 2.0  # e-folds of the first step beside a shared pull
_MOST_WORSE = 10.0  # e-folds by which the next step's error may be thought to grow
_GROWTH = 4.0  # e-folds of a step in closed form: there and back they cost e^8 of 16 digits
_PULL = structure("Pull", "p inner outer inner_t rates room i width dim outputs count")


class SharedPull:
    """A of a step, and what it makes of neurons' parts (``native/pull.c``): those that grow, then those that shrink."""

    def __init__(self, pull: Float[np.ndarray, "outputs dim"], width: int, longest: float) -> None:
        """A, made smaller where e^{s·longest} would lose digits."""
        outer, sizes, inner = np.linalg.svd(pull, full_matrices=False)
        sizes = sizes * min(1.0, _GROWTH / (float(sizes[0]) * longest)) if sizes[0] > 0 else sizes
        count = -(-len(sizes) // 4) * 4  # four at a time
        filled = np.zeros((sum(pull.shape), count))
        filled[:, : len(sizes)] = np.concatenate([inner.T, outer])
        self.rates = np.zeros(2 * count)  # at which the parts grow
        self.rates[: len(sizes)], self.rates[count : count + len(sizes)] = sizes, -sizes
        dim, outputs = pull.shape[1], pull.shape[0]
        self._held = filled[:dim], filled[dim:], filled[:dim].T.copy(), self.rates, np.empty(2 * count)
        self._pull: Any = _PULL(*map(address, self._held), width, dim, outputs, count)
        self._shape = width, 2 * count

    def parts(self, flat: Flat) -> Parts:
        """Of every neuron's weights, all in a row."""
        found = np.empty(self._shape)
        engine().biasfree_pull_parts(byref(self._pull), address(flat), address(found))
        return found

    def place(
        self,
        here: Flat,
        stages: np.ndarray,
        begins: Parts,
        remaining: np.ndarray,
        weights: np.ndarray,
        back: np.ndarray,
    ) -> tuple[Flat, Parts]:
        """``here`` + Σ weights·stages, but for its parts, which are (begins + Σ weights·remaining)/back; and these."""
        there, parts = np.empty(here.size), np.empty(self._shape)
        engine().biasfree_pull_place(
            byref(self._pull), address(here), address(stages), address(begins), address(remaining), address(weights),
            len(weights), address(back), address(parts), address(there),
        )  # fmt: skip
        return there, parts

    def put_remaining(self, moving: Flat, parts: Parts, back: np.ndarray, to: Parts) -> None:
        """What a velocity's parts are beside the pull at these parts, times ``back``."""
        engine().biasfree_pull_remaining(byref(self._pull), address(moving), address(parts), address(back), address(to))


class AlongSharedPull:
    """A Runge–Kutta method for what the flow does beside the shared pull.

    Parts c have a closed form for an A that is kept over a step: they grow as e^{st}. So a method is applied to
    z = e^{−st}c, whose velocity is what remains (Lawson's way), and to all else as ever. Any A will do; the last one
    seen is taken.
    """

    longest = math.inf

    def __init__(self, name: str) -> None:
        """One of ``_runge_kutta.METHODS``."""
        self._method = METHODS[name]
        self.order = self._method.order
        self._nodes = np.append(self._method.a.sum(axis=1), 1.0)
        # The estimates of the error are summed up before they are moved to the step's end: one row for each.
        self._estimates = [each for each in (self._method.error, self._method.second) if each is not None]
        alone = np.eye(len(self._estimates))
        self._rule = self._method._replace(
            b=np.zeros(len(alone) - 1), error=alone[0], second=alone[1] if len(alone) > 1 else None
        )

    def first(self, field: VectorField, here: Flat, first: Flat, rtol: float) -> tuple[float, int]:
        """See ``Steps``: what grows by the shared pull needs no steps, so it is a part of an e-fold."""
        size = _size(field)
        return (_BEGIN / size if size > 0 else 0.0), 0

    def worse(self, field: VectorField, length: float) -> float:
        """See ``Steps``: outputs, which are all that disturbs the shared pull, grow by twice its rate."""
        return math.exp(min(2 * _size(field) * length, _MOST_WORSE))

    def take(self, field: VectorField, here: Flat, first: Flat, length: float) -> Step:
        """See ``Steps``."""
        method, pull = self._method, _pull_of(field)
        shared = SharedPull(pull, here.size // sum(pull.shape), length)
        back = np.exp(-np.outer(length * self._nodes, shared.rates))  # what brings a part back to the step's begin
        begins = parts = shared.parts(here)
        stages, remaining = np.empty((len(back), here.size)), np.empty((len(back), *begins.shape))
        moving, there = first, here
        for s, growth in enumerate(back):
            if s:
                weights = length * (method.a[s, :s] if s < len(method.b) else method.b)
                there, parts = shared.place(here, stages, begins, remaining, weights, growth)
                moving = field.velocity(there)
            stages[s] = moving
            shared.put_remaining(moving, parts, growth, remaining[s])
        nothing, no_parts = np.zeros(here.size), np.zeros(begins.shape)
        errors = [shared.place(nothing, stages, no_parts, remaining, each, back[-1])[0] for each in self._estimates]
        return Step(there, moving, energy_of(stages, method), np.array(errors), self._rule, len(method.b))


def _pull_of(field: VectorField) -> Float[np.ndarray, "outputs dim"]:
    """The last pull seen; none where that is no number: steps are then plain ones."""
    pull = field.shared_pull()
    assert pull is not None
    return pull if np.isfinite(pull).all() else np.zeros_like(pull)


def _size(field: VectorField) -> float:
    """The largest rate of the shared pull."""
    return float(np.linalg.norm(_pull_of(field), 2))


def shared_or_plain(name: str, field: VectorField) -> AlongSharedPull | RungeKutta:
    """The method beside the shared pull where there is one."""
    return RungeKutta(name) if field.shared_pull() is None else AlongSharedPull(name)
