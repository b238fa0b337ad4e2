"""Jacobians of convolutional networks by few products: pixels too far apart to reach one output share a direction.

Along each axis of an image, position p of a value depends on input positions low(p) … high(p) only. These ranges follow
from the operations. With d the longest range, inputs d apart never meet, so d colours per axis (and one set per input
channel) hold the whole Jacobian: the idea of Curtis, Powell and Reid for sparse Jacobians. Early values see little and
need few colours; a value's *period* is its own d.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree.models import Graph
from biasfree.models import _operations as ops

Shape = tuple[int, ...]
Range = tuple[Int[np.ndarray, "positions"], Int[np.ndarray, "positions"]]
# Of a value: a range per axis, nothing for one that does not depend on x, None for one without such structure.
Reach = tuple[Range, ...] | None
_STILL: tuple[Range, ...] = ()
# The first position of an empty range: beyond every image.
_NOWHERE = 10**9


@dataclass(frozen=True, eq=False)
class Plan:
    """What each value of a graph depends on, and how many colours that takes.

    Attributes:
        shapes: of all values, inputs first, (channels, *axes) each.
        reaches: per value and axis the first and the last input position that each position depends on.
        periods: per value the colours along each axis; nothing for values that do not depend on x.
    """

    shapes: tuple[Shape, ...]
    reaches: tuple[tuple[Range, ...], ...]
    periods: tuple[Shape, ...]

    @property
    def products(self) -> int:
        """Directions in all."""
        return self.colours(-1)

    def moves(self, place: int) -> bool:
        """Whether a value depends on x."""
        return bool(self.reaches[place])

    def colours(self, place: int) -> int:
        """Directions that a value takes."""
        return self.shapes[0][0] * math.prod(self.periods[place])

    def start(self) -> Float[np.ndarray, "channels *input"]:
        """The input's own derivative: one colour for each of its channels."""
        channels, *axes = self.shapes[0]
        return np.eye(channels).reshape(channels, channels, *(1,) * len(axes)) * np.ones(axes)

    def each(self, place: int) -> Iterator[Shape]:
        """Input channel and colour of each direction that a value takes."""
        return itertools.product(range(self.shapes[0][0]), *map(range, self.periods[place]))

    def recoloured(self, tangents: np.ndarray, place: int, periods: Shape) -> Callable[[Shape], np.ndarray]:
        """From products of a value with the colours of its own periods those with the colours of longer ones.

        Each is put together when it is asked for, by input channel and colour.
        """
        shape, before = self.shapes[place], self.periods[place]
        given = tangents.reshape(self.shapes[0][0], *before, *shape)
        if before == periods:
            return lambda colour: given[colour]
        # Per axis and new colour: the pieces of it, by old colour.
        pieces: list[list[list[tuple[int, slice]]]] = [[[] for _ in range(period)] for period in periods]
        for axis, reach in enumerate(self.reaches[place]):
            for pixel, seen in _seen(reach, self.shapes[0][axis + 1]):
                pieces[axis][pixel % periods[axis]].append((pixel % before[axis], seen))

        def product(colour: Shape) -> np.ndarray:
            tangent = np.zeros(shape)
            for piece in itertools.product(*(pieces[axis][k] for axis, k in enumerate(colour[1:]))):
                where: Any = (slice(None), *(seen for _, seen in piece))
                old: Any = (colour[0], *(k for k, _ in piece))
                tangent[where] = given[old][where]
            return tangent

        return product

    def filled(self, products: np.ndarray) -> Float[np.ndarray, "out dim"]:
        """The Jacobian from the last value's products with all its colours."""
        (channels, *size), (out, *axes), periods = self.shapes[0], self.shapes[-1], self.periods[-1]
        values = np.moveaxis(products.reshape(channels, *periods, out, *axes), 0, -1)
        jacobian = np.zeros((out, *axes, channels, *size))
        seen = [list(_seen(reach, n)) for reach, n in zip(self.reaches[-1], size, strict=True)]
        for each in itertools.product(*seen):
            pixel, where = tuple(p for p, _ in each), tuple(s for _, s in each)
            colour = tuple(p % d for p, d in zip(pixel, periods, strict=True))
            at: Any = (slice(None), *where, slice(None), *pixel)
            there: Any = (*colour, slice(None), *where)
            jacobian[at] = values[there]
        return jacobian.reshape(out * math.prod(axes), -1)


def _seen(reach: Range, size: int) -> Iterator[tuple[int, slice]]:
    """Each input position, and the positions that depend on it; ranges only go forward, so these lie side by side."""
    low, high = reach
    first, last = np.searchsorted(high, np.arange(size)), np.searchsorted(low, np.arange(size), side="right")
    for pixel in range(size):
        if first[pixel] < last[pixel]:
            yield pixel, slice(int(first[pixel]), int(last[pixel]))


def plan(graph: Graph, shapes: Sequence[Shape]) -> Plan | None:
    """The plan of a graph of images, for values of these shapes; None where an output sees the whole input anyway."""
    rank = len(shapes[0]) - 1
    start = tuple((np.arange(n), np.arange(n)) for n in shapes[0][1:])
    reaches: list[tuple[Range, ...]] = [start, *(_STILL for _ in graph.ports[1:])]
    periods: list[Shape] = [(1,) * rank, *(() for _ in graph.ports[1:])]
    for place, node in enumerate(graph.nodes, len(graph.ports)):
        moving = [i for i in node.inputs if reaches[i]]
        reach = _reached(node.operation, [reaches[i] for i in moving], shapes[place]) if moving else _STILL
        # A value that is broadcast along an axis has lost its place on it.
        if reach is None or (moving and tuple(len(low) for low, _ in reach) != shapes[place][1:]):
            return None
        reaches.append(reach)
        longest = [int((high - low).max(initial=0)) + 1 for low, high in reach]
        periods.append(tuple(max(d, *(periods[i][a] for i in moving)) for a, d in enumerate(longest)))
    return Plan(tuple(shapes), tuple(reaches), tuple(periods)) if rank and reaches[-1] else None


def _reached(operation: ops.Operation, given: list[tuple[Range, ...]], shape: Shape) -> Reach:
    """What each position of a value depends on, axis by axis."""
    first, axes = given[0], range(len(given[0]))
    if isinstance(operation, (ops.Activation, ops.Scale, ops.Elementwise)):
        return None if isinstance(operation, ops.Elementwise) and operation.function == "Softmax" else first
    if isinstance(operation, (ops.Sum, ops.Product)) or (isinstance(operation, ops.Concat) and operation.axis == 0):
        if any(len(g[a][0]) != len(first[a][0]) for g in given for a in axes):
            return None
        return tuple((np.min([g[a][0] for g in given], axis=0), np.max([g[a][1] for g in given], axis=0)) for a in axes)
    sources = _sources(operation, [len(low) for low, _ in first], shape[1:])
    return None if sources is None else tuple(_over(first[a], sources[a]) for a in axes)


def _sources(operation: ops.Operation, sizes: list[int], shape: Shape) -> list[np.ndarray] | None:
    """Per axis the positions that each new position is made from, shape (new, some), −1 for none."""
    axes = range(len(sizes))
    if isinstance(operation, (ops.Conv, ops.Pool)):
        kernel = operation.kernel if isinstance(operation, ops.Pool) else operation.weight.shape[2:]
        if len(kernel) != len(sizes) or len(shape) != len(sizes):
            return None
        apart = (1,) * len(sizes) if isinstance(operation, ops.Pool) else operation.dilation
        window = _spread if isinstance(operation, ops.Conv) and operation.transposed else _window
        return [
            window(sizes[a], shape[a], operation.stride[a], operation.padding[a][0], apart[a] * np.arange(kernel[a]))
            for a in axes
        ]
    if isinstance(operation, ops.Upsample) and len(operation.factors) == len(sizes):
        return [np.repeat(np.arange(sizes[a]), operation.factors[a])[:, None] for a in axes]
    if isinstance(operation, ops.Pad) and len(operation.widths) == len(sizes):
        return [_padded(sizes[a], *operation.widths[a], operation.mode)[:, None] for a in axes]
    return None


def _window(size: int, new: int, stride: int, padding: int, taps: np.ndarray) -> np.ndarray:
    """Position p is made from p·stride − padding + taps."""
    at = np.arange(new)[:, None] * stride - padding + taps
    return np.where((at >= 0) & (at < size), at, -1)


def _spread(size: int, new: int, stride: int, padding: int, taps: np.ndarray) -> np.ndarray:
    """Position q reaches q·stride − padding + taps."""
    at = np.arange(new)[:, None] + padding - taps
    return np.where((at % stride == 0) & (at >= 0) & (at < size * stride), at // stride, -1)


def _padded(size: int, before: int, after: int, mode: str) -> np.ndarray:
    at = np.arange(size)[max(-before, 0) : size - max(-after, 0)]
    widths = (max(before, 0), max(after, 0))
    how: dict[str, Any] = {"constant_values": -1} if mode == "constant" else {"mode": mode}
    return np.pad(at, widths, **how)


def _over(before: Range, at: np.ndarray) -> Range:
    """The range of all that a new position is made from, widened until ranges only go forward."""
    low = np.where(at >= 0, before[0][at], _NOWHERE).min(axis=1)
    high = np.where(at >= 0, before[1][at], -1).max(axis=1)
    return np.minimum.accumulate(low[::-1])[::-1], np.maximum.accumulate(high)
