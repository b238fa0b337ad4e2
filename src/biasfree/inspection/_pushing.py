"""The Jacobian of a graph of images at one sample: its colours pushed through, operation by operation, by NumPy."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import sliding_window_view

from biasfree.inspection._colouring import Plan
from biasfree.inspection._convolving import convolution
from biasfree.models import Graph, Node, _evaluate
from biasfree.models import _operations as ops

# A direction at each input of an operation, and the one behind it.
Push = Callable[[list[np.ndarray]], np.ndarray]
# Entries of one value's directions that are held together.
_HELD = 40_000_000


def jacobian(graph: Graph, plan: Plan, inputs: Sequence[np.ndarray]) -> Float[np.ndarray, "out dim"]:
    """A_x at one sample (a batch of one).

    Each value has only the colours it needs. Where even these do not fit in memory, all values have the last one's, and
    one colour after the other goes through.
    """
    pushes = _pushes(graph, plan, inputs)
    if max(plan.colours(place) * math.prod(shape) for place, shape in enumerate(plan.shapes)) <= _HELD:
        return plan.filled(_all_at_once(graph, plan, pushes))
    first = plan.recoloured(plan.start(), 0, plan.periods[-1])
    return plan.filled(np.stack([_one(graph, plan, pushes, first(colour)) for colour in plan.each(-1)]))


def _all_at_once(graph: Graph, plan: Plan, pushes: list[Push]) -> Float[np.ndarray, "colours *out"]:
    held = {0: plan.start()}
    last_use = {i: place for place, node in enumerate(graph.nodes, len(graph.ports)) for i in node.inputs}
    for place, (node, push) in enumerate(zip(graph.nodes, pushes, strict=True), len(graph.ports)):
        if not plan.moves(place):
            continue
        given = [
            plan.recoloured(held[i], i, plan.periods[place]) if plan.moves(i) else _zeros(plan.shapes[i])
            for i in node.inputs
        ]
        held[place] = products = np.empty((plan.colours(place), *plan.shapes[place]))
        for k, colour in enumerate(plan.each(place)):
            products[k] = push([each(colour) for each in given])
        for i in node.inputs:
            if last_use[i] == place:
                held.pop(i, None)
    return held.popitem()[1]


def _one(graph: Graph, plan: Plan, pushes: list[Push], direction: np.ndarray) -> np.ndarray:
    held = [direction, *(np.zeros(shape) for shape in plan.shapes[1 : len(graph.ports)])]
    for place, (node, push) in enumerate(zip(graph.nodes, pushes, strict=True), len(graph.ports)):
        held.append(push([held[i] for i in node.inputs]) if plan.moves(place) else np.zeros(plan.shapes[place]))
    return held[-1]


def _zeros(shape: tuple[int, ...]) -> Callable[[Any], np.ndarray]:
    zeros = np.zeros(shape)
    return lambda _: zeros


def _pushes(graph: Graph, plan: Plan, inputs: Sequence[np.ndarray]) -> list[Push]:
    """What each node does to directions, at the values of the sample."""
    bent = sorted({i for node in graph.nodes if _needs_values(node.operation) for i in node.inputs})
    computed = _evaluate.everything(graph.nodes, inputs, tuple(bent))
    values = dict(zip(bent, (np.asarray(value)[0] for value in computed), strict=True))
    # Where the derivative is the same everywhere, a value is known by its shape alone.
    return [
        derivative(node.operation, *(values.get(i, np.broadcast_to(0.0, plan.shapes[i])) for i in node.inputs))
        if plan.moves(place)
        else lambda given: given[0]
        for place, node in enumerate(graph.nodes, len(graph.ports))
    ]


def _needs_values(operation: ops.Operation) -> bool:
    largest = isinstance(operation, ops.Pool) and operation.largest
    return largest or isinstance(operation, (ops.Activation, ops.Elementwise, ops.Product))


@functools.singledispatch
def derivative(operation: ops.Operation, *values: np.ndarray) -> Push:
    """The derivative of an operation at its inputs' values, of one sample."""
    raise TypeError(f"no rule to push directions through {type(operation).__name__}")


@derivative.register
def _(operation: ops.Conv, value: np.ndarray) -> Push:
    convolved = convolution(operation, value.shape)
    return lambda given: convolved(given[0])


@derivative.register
def _(operation: ops.Scale, value: np.ndarray) -> Push:
    return lambda given: given[0] * operation.factor


@derivative.register
def _(operation: ops.Activation, value: np.ndarray) -> Push:
    slope = np.where(value > 0, 1.0, operation.slope)
    return lambda given: given[0] * slope


@derivative.register
def _(operation: ops.Elementwise, value: np.ndarray) -> Push:
    slope = np.asarray(_evaluate.along((Node(operation, (0,)),), (value[None],), (np.ones_like(value[None]),)))[0]
    return lambda given: given[0] * slope


@derivative.register
def _(operation: ops.Sum, *values: np.ndarray) -> Push:
    return lambda given: sum((sign * each for sign, each in zip(operation.signs, given, strict=True)), np.zeros(()))


@derivative.register
def _(operation: ops.Product, first: np.ndarray, second: np.ndarray) -> Push:
    return lambda given: given[0] * second + first * given[1]


@derivative.register
def _(operation: ops.Concat, *values: np.ndarray) -> Push:
    return lambda given: np.concatenate(given, axis=operation.axis)


@derivative.register
def _(operation: ops.Upsample, value: np.ndarray) -> Push:
    factors = (*(1,) * (value.ndim - len(operation.factors)), *operation.factors)
    index = np.ix_(*(np.repeat(np.arange(n), factor) for n, factor in zip(value.shape, factors, strict=True)))
    return lambda given: given[0][index]


@derivative.register
def _(operation: ops.Pad, value: np.ndarray) -> Push:
    return lambda given: _padded(given[0], operation.widths, mode=operation.mode)


@derivative.register
def _(operation: ops.Pool, value: np.ndarray) -> Push:
    last = tuple(range(-len(operation.kernel), 0))
    if not operation.largest:
        counted = _windows(np.ones(value.shape), operation).sum(last)
        inside = math.prod(operation.kernel) if operation.count_padding else counted
        return lambda given: _windows(given[0], operation).sum(last) / inside
    # The first of the largest entries of each window is the one that moves.
    windows = _windows(value, operation, constant_values=-np.inf)
    largest = windows.reshape(*windows.shape[: value.ndim], -1).argmax(axis=-1)
    where: Any = (*np.ix_(*map(np.arange, largest.shape)), *np.unravel_index(largest, operation.kernel))
    return lambda given: _windows(given[0], operation)[where]


def _windows(given: np.ndarray, operation: ops.Pool, **fill: float) -> np.ndarray:
    """A view, shape (…, *positions, *kernel)."""
    rank = len(operation.kernel)
    padded = _padded(given, operation.padding, mode="constant", **fill)
    windows = sliding_window_view(padded, operation.kernel, axis=tuple(range(-rank, 0)))
    steps: Any = (..., *(slice(None, None, s) for s in operation.stride), *(slice(None),) * rank)
    return windows[steps]


def _padded(given: np.ndarray, widths: Sequence[tuple[int, int]], **how: Any) -> np.ndarray:
    """Padded along the last axes; negative widths crop."""
    each = list(zip(given.shape[-len(widths) :], widths, strict=True))
    inside: Any = (..., *(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in each))
    still = ((0, 0),) * (given.ndim - len(widths))
    return np.pad(given[inside], (*still, *((max(low, 0), max(high, 0)) for low, high in widths)), **how)
