"""The velocity of all weights in one row, and the stages of a step: by NumPy, or in C.

NumPy needs some twenty operations for a velocity, each of a few microseconds however small it is. For small networks
the loops in C (``native/deep.c``) need none of that, but are slower for each product. Larger ones of two layers go by
line (``_many_lines``), in a quarter of NumPy's time or less; larger deep ones on pairs of inputs ±x need half of the
products (``_paired``).
"""

import abc
import functools
import itertools
import math
from ctypes import byref
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float

from biasfree import losses
from biasfree.dynamics._field import Kind, Problem, Weights, velocity_from
from biasfree.dynamics._many_lines import ManyLines
from biasfree.dynamics._paired import PairedSamples, Pairs, pairs_of
from biasfree.dynamics._runge_kutta import Method
from biasfree.dynamics.exact._data import Data, sample_by_sample
from biasfree.dynamics.exact._kernels import engine
from biasfree.native import address, structure
from biasfree.networks import hidden_layers

Flat = Float[np.ndarray, "size"]
Active = tuple[Bool[np.ndarray, "width samples"], ...]
_SMALL = 30_000  # multiplications of a forward pass up to which loops in C are quicker (measured)
_LARGE = 1_000_000  # multiplications of the second layer from which half of them are worth some twenty small products
_DEEPEST = 64  # layers that C has room for
_DEEP = structure("Deep", "p widths rectified skips inputs d slope i depth samples size")


class Layers:
    """How the weights of all layers lie in one row."""

    def __init__(self, weights: Weights) -> None:
        """As many, and of the shapes, as these."""
        self.shapes = [np.shape(w) for w in weights]
        ends = list(itertools.accumulate(math.prod(shape) for shape in self.shapes))
        self._parts = [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    def of(self, flat: Flat) -> Weights:
        """The layers of a row."""
        return tuple(flat[part].reshape(shape) for part, shape in zip(self._parts, self.shapes, strict=True))


class VectorField(Protocol):
    """What steps need."""

    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""

    def stages(self, here: Flat, first: Flat, length: float, method: Method) -> tuple[np.ndarray, Flat]:
        """All stages of a step, the velocity at its end last, and where it ends."""

    def active(self) -> Active:
        """Per rectified layer, which neurons are active on which samples, where the last velocity was taken."""

    def log_loss(self) -> float:
        """Ln L there."""

    def known_log_loss(self) -> float:
        """Ln L there where it costs nothing, else NaN."""

    def log_loss_at(self, weights: Weights) -> float:
        """Ln L anywhere, where this is the quickest way to it; else NaN."""

    def shared_pull(self) -> Float[np.ndarray, "outputs dim"] | None:
        """A, where all neurons feel ẇ = Aᵀv, v̇ = Aw and little else; of the last velocity taken, which is as good."""


def vector_field(layers: Layers, problem: Problem, kind: Kind) -> VectorField:
    """The quicker one."""
    work = len(problem.inputs) * sum(math.prod(shape) for shape in layers.shapes)
    if work <= _SMALL and len(layers.shapes) <= _DEEPEST:
        return InC(layers, problem, kind)
    plain = len(layers.shapes) == 2 and not any(kind.architecture.skips) and all(kind.architecture.rectified)
    if plain and problem.slope < 1 and kind.clock == "time":
        return ByLine(layers, problem, kind)
    pairs = _worthwhile_pairs(layers, problem, kind)
    return ByNumpy(layers, problem, kind) if pairs is None else ByPairs(layers, pairs, problem, kind)


def _worthwhile_pairs(layers: Layers, problem: Problem, kind: Kind) -> Pairs | None:
    """The pairs of the inputs, where the second layer's products are what a velocity costs."""
    (first, dim), second, architecture = layers.shapes[0], layers.shapes[1][0], kind.architecture
    fits = len(layers.shapes) > 2 and architecture.rectified[0] and not any(architecture.skips) and problem.slope < 1
    large = len(problem.inputs) * first * second >= _LARGE and 2 * dim <= min(first, second)
    return pairs_of(problem.inputs) if fits and large else None


class _Plain:
    """A field of which nothing more is known than its velocity."""

    def known_log_loss(self) -> float:
        """See ``VectorField``."""
        return math.nan

    def log_loss_at(self, weights: Weights) -> float:
        """See ``VectorField``."""
        return math.nan

    def shared_pull(self) -> Float[np.ndarray, "outputs dim"] | None:
        """See ``VectorField``."""
        return None


class _StageByStage(_Plain, abc.ABC):
    """Stages by one velocity after the other."""

    @abc.abstractmethod
    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""

    def stages(self, here: Flat, first: Flat, length: float, method: Method) -> tuple[np.ndarray, Flat]:
        """See ``VectorField``."""
        stages, there = np.empty((len(method.b) + 1, here.size)), here
        stages[0] = first
        for s in range(1, len(stages)):
            parts = method.a[s, :s] if s < len(method.b) else method.b
            there = here + length * (parts @ stages[:s])
            stages[s] = self.velocity(there)
        return stages, there


class ByLine(_StageByStage):
    """Two layers, line by line."""

    def __init__(self, layers: Layers, problem: Problem, kind: Kind) -> None:
        """Lay the lines out."""
        self._layers, self._lines = layers, ManyLines(layers.shapes[0][0], problem, kind)
        self._flat = np.zeros(0)  # where the last velocity was taken
        self._pull = np.zeros((layers.shapes[1][0], layers.shapes[0][1]))  # Σ p dᵀ there

    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""
        self._flat = np.ascontiguousarray(flat)
        moving, self._pull = self._lines.velocity(self._flat)
        return moving

    def shared_pull(self) -> Float[np.ndarray, "outputs dim"] | None:
        """See ``VectorField``: on symmetric data."""
        return self._pull if self._lines.paired else None

    def active(self) -> Active:
        """See ``VectorField``; per line instead of per sample."""
        return (self._lines.active(self._layers.of(self._flat)[0]),)

    def known_log_loss(self) -> float:
        """See ``VectorField``."""
        return self._lines.log_loss()

    def log_loss(self) -> float:
        """See ``VectorField``."""
        known = self.known_log_loss()
        return known if math.isfinite(known) else self._lines.log_loss_at(self._flat)

    def log_loss_at(self, weights: Weights) -> float:
        """See ``VectorField``."""
        return self._lines.log_loss_at(np.concatenate([np.ravel(layer) for layer in weights]))


class ByNumpy(_StageByStage):
    """By matrix products."""

    def __init__(self, layers: Layers, problem: Problem, kind: Kind) -> None:
        """Nothing to prepare."""
        self._layers, self._problem, self._kind = layers, problem, kind
        self._signals: list[Any] = []  # what the layers put out where the last velocity was taken

    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""
        weights, problem = self._layers.of(flat), self._problem
        with np.errstate(all="ignore"):
            self._signals = hidden_layers(weights, problem.inputs, problem.slope, self._kind.architecture)
        moving = velocity_from(weights, self._signals, problem, self._kind)
        return np.concatenate([layer.ravel() for layer in moving])

    def active(self) -> Active:
        """See ``VectorField``."""
        hidden, rectified = self._signals[1:-1], self._kind.architecture.rectified
        return tuple(z > 0 for z, bent in zip(hidden, rectified, strict=True) if bent)

    def log_loss(self) -> float:
        """See ``VectorField``."""
        with np.errstate(all="ignore"):
            return float(losses.get(self._kind.loss).log_value(self._signals[-1], self._problem.targets))


class ByPairs(_StageByStage):
    """By matrix products, half of them: inputs come in pairs."""

    def __init__(self, layers: Layers, pairs: Pairs, problem: Problem, kind: Kind) -> None:
        """Put the samples in order."""
        self._layers, self._kind, self._samples = layers, kind, PairedSamples(pairs, problem, kind)

    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""
        with np.errstate(all="ignore"):
            moving = self._samples.velocity(self._layers.of(flat))
        return np.concatenate([layer.ravel() for layer in moving])

    def active(self) -> Active:
        """See ``VectorField``; in the first layer on one sample of each pair."""
        return self._samples.active()

    def known_log_loss(self) -> float:
        """See ``VectorField``: beside such products it costs nothing."""
        return self.log_loss()

    def log_loss(self) -> float:
        """See ``VectorField``."""
        with np.errstate(all="ignore"):
            return float(losses.get(self._kind.loss).log_value(*self._samples.outputs()))


class InC(_Plain):
    """By loops in C."""

    def __init__(self, layers: Layers, problem: Problem, kind: Kind) -> None:
        """Lay out what they read."""
        widths = [layers.shapes[0][1], *(shape[0] for shape in layers.shapes)]
        samples, whole = len(problem.inputs), functools.partial(np.array, dtype=np.int64)
        self._held = whole(widths), whole([*kind.architecture.rectified, False]), whole(kind.architecture.skips)
        self._inputs = np.ascontiguousarray(problem.inputs.T)
        self._data: Data = sample_by_sample(
            np.ascontiguousarray(problem.targets.T), float(problem.weight_decay), kind.loss, kind.clock
        )
        self._size = sum(math.prod(shape) for shape in layers.shapes)
        # Signals and errors take turns in the room, layer by layer.
        ends = [2 * samples * width for width in itertools.accumulate(widths)]
        self._signals = [
            slice(begin, begin + width * samples)
            for begin, width, rectified in zip(ends, widths[1:], kind.architecture.rectified, strict=False)
            if rectified
        ]
        self._samples = samples
        self._room = np.empty(2 * sum(widths) * samples + (4 * widths[-1] + 1) * samples)
        self._deep: Any = _DEEP(
            *(address(each, np.int64) for each in self._held), address(self._inputs), float(problem.slope),
            len(layers.shapes), samples, self._size,
        )  # fmt: skip

    def velocity(self, flat: Flat) -> Flat:
        """Of all weights."""
        moving = np.empty(self._size)
        engine().biasfree_deep_velocity(
            byref(self._deep), byref(self._data.c), address(flat), address(moving), address(self._room)
        )
        return moving

    def stages(self, here: Flat, first: Flat, length: float, method: Method) -> tuple[np.ndarray, Flat]:
        """See ``VectorField``."""
        stages, there = np.empty((len(method.b) + 1, self._size)), np.empty(self._size)
        stages[0] = first
        engine().biasfree_deep_stages(
            byref(self._deep), byref(self._data.c), address(here), length, address(method.a), address(method.b),
            len(method.b), address(stages), address(there), address(self._room),
        )  # fmt: skip
        return stages, there

    def active(self) -> Active:
        """See ``VectorField``."""
        return tuple((self._room[part] > 0).reshape(-1, self._samples) for part in self._signals)

    def log_loss(self) -> float:
        """See ``VectorField``."""
        return engine().biasfree_deep_level(byref(self._deep), byref(self._data.c), address(self._room))
