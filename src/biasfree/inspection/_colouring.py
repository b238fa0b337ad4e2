"""Jacobians of convolutional networks by few products: pixels too far apart to reach one output share a direction.

Along each axis of an image, output position p depends on input positions low(p) … high(p) only. These ranges follow
from the operations. With d the longest range, inputs d apart never meet in an output, so d directions per axis (and one
set per channel) hold the whole Jacobian: the idea of Curtis, Powell and Reid for sparse Jacobians.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from biasfree.models import Graph
from biasfree.models import _operations as ops

Range = tuple[Int[np.ndarray, "positions"], Int[np.ndarray, "positions"]]


@dataclass(frozen=True, eq=False)
class Plan:
    """Which directions to multiply by, and where their products belong.

    Attributes:
        shape: of the input, (channels, *axes).
        out: of the output, (channels, *axes).
        ranges: per axis the first and the last input position that each output position depends on.
        periods: per axis the length of the longest range.
    """

    shape: tuple[int, ...]
    out: tuple[int, ...]
    ranges: tuple[Range, ...]
    periods: tuple[int, ...]

    @property
    def products(self) -> int:
        """Directions in all."""
        return self.shape[0] * math.prod(self.periods)

    def tangents(self) -> np.ndarray:
        """One row per channel and colour, ones at all inputs of that colour; shape (products, inputs)."""
        colour = np.zeros(self.shape[1:], dtype=int)
        for axis, (size, period) in enumerate(zip(self.shape[1:], self.periods, strict=True)):
            along = (np.arange(size) % period).reshape(-1, *(1,) * (len(self.periods) - axis - 1))
            colour = colour * period + along
        count = math.prod(self.periods)
        one = (colour.reshape(-1)[None] == np.arange(count)[:, None]).astype(float)
        found = np.zeros((self.shape[0], count, self.shape[0], one.shape[1]))
        for channel in range(self.shape[0]):
            found[channel, :, channel] = one
        return found.reshape(self.products, -1)

    def filled(self, products: np.ndarray) -> np.ndarray:
        """The Jacobian, shape (outputs, inputs), from A times each row of ``tangents``."""
        channels, count = self.shape[0], math.prod(self.periods)
        outputs, pixels = math.prod(self.out), math.prod(self.shape[1:])
        jacobian = np.zeros((outputs, channels * pixels))
        position = np.indices(self.out[1:]).reshape(len(self.periods), -1)
        rows = np.arange(outputs).reshape(self.out[0], -1)
        values = products.reshape(channels, count, self.out[0], -1)
        for colour in range(count):
            pixel, inside = np.zeros(position.shape[1], dtype=int), np.ones(position.shape[1], dtype=bool)
            parts = np.unravel_index(colour, self.periods)
            for axis, (low, high) in enumerate(self.ranges):
                first = low[position[axis]]
                found = first + (parts[axis] - first) % self.periods[axis]
                inside &= found <= high[position[axis]]
                pixel = pixel * self.shape[axis + 1] + np.minimum(found, self.shape[axis + 1] - 1)
            for channel in range(channels):
                block = values[channel, colour][:, inside]
                jacobian[rows[:, inside], channel * pixels + pixel[inside]] = block
        return jacobian


def plan(graph: Graph, shapes: list[tuple[int, ...]]) -> Plan | None:
    """The plan of a graph of images, for values of these shapes; None where an output sees the whole input anyway."""
    rank = len(shapes[0]) - 1
    if rank < 1 or len(shapes[-1]) != rank + 1:
        return None
    start: tuple[Range, ...] = tuple((np.arange(n), np.arange(n)) for n in shapes[0][1:])
    # Extra inputs do not move: an empty range, low above high, which every union leaves as it is.
    held: list[tuple[Range, ...] | None] = [start]
    for shape in shapes[1 : len(graph.ports)]:
        still = tuple((np.full(n, 10**9), np.full(n, -1)) for n in shape[1:])
        held.append(still if len(still) == rank else None)
    for place, node in enumerate(graph.nodes, len(graph.ports)):
        given = [held[i] for i in node.inputs]
        if any(g is None for g in given):
            held.append(None)
            continue
        held.append(_reached(node.operation, [g for g in given if g is not None], shapes[place], rank))
    last = held[-1]
    if last is None or any(len(low) != n for (low, _), n in zip(last, shapes[-1][1:], strict=True)):
        return None
    ranges = tuple((np.minimum(low, n - 1), high) for (low, high), n in zip(last, shapes[0][1:], strict=True))
    periods = tuple(max(1, int((high - low + 1).max())) for low, high in ranges)
    return Plan(shapes[0], shapes[-1], ranges, periods)


def _reached(
    operation: ops.Operation, given: list[tuple[Range, ...]], shape: tuple[int, ...], rank: int
) -> tuple[Range, ...] | None:
    """What each position of a value depends on, axis by axis."""
    first = given[0]
    if isinstance(operation, (ops.Activation, ops.Scale)) or type(operation) is ops.Elementwise:
        local = not isinstance(operation, ops.Elementwise) or operation.function != "Softmax"
        return first if local else None
    if isinstance(operation, (ops.Sum, ops.Product)) or (isinstance(operation, ops.Concat) and operation.axis == 0):
        return tuple(
            (np.min([g[a][0] for g in given], axis=0), np.max([g[a][1] for g in given], axis=0)) for a in range(rank)
        )
    if isinstance(operation, ops.Conv) and operation.weight.ndim == rank + 2:
        kernel = operation.weight.shape[2:]
        windows = [
            _transposed(first[a], shape[a + 1], kernel[a], operation.stride[a], operation.padding[a][0],
                        operation.dilation[a])
            if operation.transposed
            else _window(first[a], shape[a + 1], kernel[a], operation.stride[a], operation.padding[a][0],
                         operation.dilation[a])
            for a in range(rank)
        ]  # fmt: skip
        return tuple(windows)
    if isinstance(operation, ops.Pool) and len(operation.kernel) == rank:
        return tuple(
            _window(first[a], shape[a + 1], operation.kernel[a], operation.stride[a], operation.padding[a][0], 1)
            for a in range(rank)
        )
    if isinstance(operation, ops.Upsample):
        factors = operation.factors[-rank:]
        return tuple((np.repeat(low, f), np.repeat(high, f)) for (low, high), f in zip(first, factors, strict=True))
    return None


def _window(before: Range, positions: int, kernel: int, stride: int, padding: int, dilation: int) -> Range:
    """Output p sees inputs p·stride − padding + dilation·(0 … kernel − 1)."""
    at = np.arange(positions)[:, None] * stride - padding + dilation * np.arange(kernel)
    return _over(before, at, (at >= 0) & (at < len(before[0])))


def _transposed(before: Range, positions: int, kernel: int, stride: int, padding: int, dilation: int) -> Range:
    """Input q reaches outputs q·stride − padding + dilation·(0 … kernel − 1)."""
    at = np.arange(positions)[:, None] + padding - dilation * np.arange(kernel)
    whole = at % stride == 0
    return _over(before, at // stride, whole & (at // stride >= 0) & (at // stride < len(before[0])))


def _over(before: Range, at: np.ndarray, valid: np.ndarray) -> Range:
    inside = np.clip(at, 0, len(before[0]) - 1)
    low = np.where(valid, before[0][inside], 10**9).min(axis=1)
    high = np.where(valid, before[1][inside], -1).max(axis=1)
    return low, high
