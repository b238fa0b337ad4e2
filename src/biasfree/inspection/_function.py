"""A network, or any function, as inspection sees it: rows in, rows out, and products with its Jacobian A_x = ∂f/∂x.

Three kinds: fully connected layers by NumPy, graphs by JAX (both exact), and functions of which only values are known,
by central differences.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.inspection import _colouring
from biasfree.inspection._points import Points
from biasfree.models import Graph, Layers

Rows = Float[np.ndarray, "samples entries"]
# Entries of a Jacobian that is held whole.
MOST_ENTRIES = 20_000_000
_PRODUCTS = 32
# Directions that go through a graph together.
_GROUPS = (16, 64, 256)


class Function(ABC):
    """f and its Jacobian products; x and outputs are rows whatever their shape."""

    exact = True

    @abstractmethod
    def shaped(self, points: Points) -> np.ndarray:
        """f, shape (samples, *shape)."""

    def shape(self, points: Points) -> tuple[int, ...]:
        """The shape of one output."""
        return self.shaped(points[:1]).shape[1:]

    def __call__(self, points: Points) -> Rows:
        """F, shape (samples, outputs)."""
        outputs = self.shaped(points)
        return outputs.reshape(len(outputs), -1)

    @abstractmethod
    def along(self, points: Points, tangents: tuple[np.ndarray, ...]) -> Rows:
        """A_x t for each sample with its own t, one tangent array per input, shaped like it."""

    @abstractmethod
    def from_one(self, point: Points, tangents: Rows) -> Rows:
        """A_x t for many t at one sample; t moves x alone, shape (count, dim)."""

    def jacobian(self, point: Points) -> Float[np.ndarray, "out dim"]:
        """A_x at one sample, whole."""
        dim = point.x.shape[1]
        parts = [
            self.from_one(point, np.eye(dim)[start : start + _PRODUCTS * 8]).T for start in range(0, dim, _PRODUCTS * 8)
        ]
        return np.concatenate(parts, axis=1)


class ChainFunction(Function):
    """Fully connected layers."""

    def __init__(self, layers: Layers) -> None:
        """Of these layers."""
        self.layers = layers

    def shaped(self, points: Points) -> np.ndarray:
        """The output."""
        return self.layers(points.x)

    def along(self, points: Points, tangents: tuple[np.ndarray, ...]) -> Rows:
        """Tangents go through the layers with the signs of the samples."""
        return self._pushed(self._factors(points.x), tangents[0].reshape(len(points), -1))

    def from_one(self, point: Points, tangents: Rows) -> Rows:
        """As ``along``, with one sample's signs for all."""
        return self._pushed(self._factors(point.x), tangents)

    def jacobian(self, point: Points) -> Float[np.ndarray, "out dim"]:
        """The product of the layers, rows switched."""
        product, factors = self.layers.weights[0], self._factors(point.x)
        for weight, factor in zip(self.layers.weights[1:], factors, strict=True):
            product = weight @ (factor[0][:, None] * product)
        return product

    def _factors(self, x: np.ndarray) -> list[np.ndarray]:
        signals = self.layers.preactivations(x)[:-1]
        return [np.where(h > 0, 1.0, slope) for h, slope in zip(signals, self.layers.slopes, strict=True)]

    def _pushed(self, factors: list[np.ndarray], tangents: Rows) -> Rows:
        products = tangents @ self.layers.weights[0].T
        for weight, factor in zip(self.layers.weights[1:], factors, strict=True):
            products = (factor * products) @ weight.T
        return products


class GraphFunction(Function):
    """Any graph of operations."""

    def __init__(self, graph: Graph) -> None:
        """Of this graph."""
        self.graph = graph

    def shaped(self, points: Points) -> np.ndarray:
        """The output."""
        return self.graph(*points.values)

    def along(self, points: Points, tangents: tuple[np.ndarray, ...]) -> Rows:
        """Forward differentiation, in batches."""
        from biasfree.models import _evaluate

        count, products = len(points.values), []
        for part in self.graph.batches((*points.values, *tangents), 2):
            products.append(np.asarray(_evaluate.along(self.graph.nodes, part[:count], part[count:])))
        return _rows(np.concatenate(products))

    def shape(self, points: Points) -> tuple[int, ...]:
        """The shape of one output, without computing it."""
        return self.graph.shapes(points.values)[-1]

    def from_one(self, point: Points, tangents: Rows) -> Rows:
        """Forward differentiation of many directions at once."""
        from biasfree.models import _evaluate

        return self._in_groups(_evaluate.from_one, point, tangents.reshape(len(tangents), *point.shape))

    def back_to_one(self, point: Points, cotangents: Rows) -> Rows:
        """A_xᵀ u for many u at one sample."""
        from biasfree.models import _evaluate

        return self._in_groups(_evaluate.back_to_one, point, cotangents.reshape(len(cotangents), *self.shape(point)))

    def jacobian(self, point: Points) -> Float[np.ndarray, "out dim"]:
        """By as few products as its structure allows: directions whose outputs do not meet share one (`_colouring`)."""
        shapes = self.graph.shapes(point.values)
        dim, out = math.prod(point.shape), math.prod(shapes[-1])
        plan = _colouring.plan(self.graph, shapes)
        if plan is not None and plan.products <= out:
            from biasfree.inspection import _pushing

            return _pushing.jacobian(self.graph, plan, point.values)
        if out < dim:
            return self._by_rows(point, out)
        return super().jacobian(point)

    def _by_rows(self, point: Points, out: int) -> np.ndarray:
        step = _PRODUCTS * 8
        return np.concatenate([self.back_to_one(point, np.eye(out)[i : i + step]) for i in range(0, out, step)])

    def _in_groups(self, product: Callable[..., Any], point: Points, rows: np.ndarray) -> Rows:
        """Products in groups of a few sizes, filled up with zeros: each size is compiled once."""
        most = 40_000_000 // max(1, self.graph.entries(point.values))
        step = next((size for size in _GROUPS if size >= min(len(rows), most)), _GROUPS[-1])
        step = max(1, min(step, most))
        products = []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            filled = np.zeros((step, *part.shape[1:]))
            filled[: len(part)] = part
            products.append(_rows(np.asarray(product(self.graph.nodes, point.values, filled)))[: len(part)])
        return np.concatenate(products)


class BlackBox(Function):
    """A function of which only values are known; derivatives by central differences.

    For a piecewise linear function these are exact up to rounding, unless a kink lies within the step.
    """

    exact = False

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        """A function of a batch of inputs."""
        self.function, self.name = function, name
        # Relative step: balances rounding against curvature for the precision the outputs come in.
        self.step = 1e-5

    def shaped(self, points: Points) -> np.ndarray:
        """Its values, checked."""
        try:
            outputs = self.function(*points.values)
        except Exception as error:
            # Whatever the user's function raises is reported with the shape it was given.
            shapes = ", ".join(str(v.shape) for v in points.values)
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
            raise ValueError(f"{self.name} does not take inputs of shape {shapes}: {first}.") from error
        if hasattr(outputs, "detach"):
            outputs = outputs.detach().cpu().numpy()
        raw = np.asarray(outputs)
        if raw.dtype in (np.float32, np.float16):
            self.step = 1e-2
        values = checks.numeric(raw, f"what {self.name} gives")
        if values.ndim == 0 or len(values) != len(points):
            raise ValueError(
                f"{self.name} must give one output per sample: {len(points)} inputs gave shape {values.shape}."
            )
        return checks.finite(values, f"what {self.name} gives")

    def along(self, points: Points, tangents: tuple[np.ndarray, ...]) -> Rows:
        """(f(x + ht) − f(x − ht))/2h."""
        count = len(points)
        size = [np.linalg.norm(v.reshape(count, -1), axis=1) for v in points.values]
        reach = [np.linalg.norm(t.reshape(count, -1), axis=1) for t in tangents]
        whole = np.sqrt(sum(s**2 for s in size))
        moved = np.sqrt(sum(r**2 for r in reach))
        step = self.step * np.where(whole > 0, whole, 1.0) / np.where(moved > 0, moved, 1.0)

        def at(sign: float) -> Rows:
            shifted = tuple(
                v + (sign * step).reshape(-1, *(1,) * (v.ndim - 1)) * t
                for v, t in zip(points.values, tangents, strict=True)
            )
            return self(Points(shifted, points.name))

        return (at(1.0) - at(-1.0)) / (2 * step[:, None])

    def from_one(self, point: Points, tangents: Rows) -> Rows:
        """As ``along``, with the sample repeated."""
        products = []
        for start in range(0, len(tangents), _PRODUCTS):
            part = tangents[start : start + _PRODUCTS]
            many = point[np.zeros(len(part), dtype=int)]
            still = tuple(np.zeros_like(v) for v in many.values[1:])
            products.append(self.along(many, (part.reshape(many.values[0].shape), *still)))
        return np.concatenate(products)


def _rows(values: np.ndarray) -> Rows:
    return values.reshape(len(values), -1)
