"""From a list of operations to layers: what ONNX graphs and PyTorch modules are made of, one after the other."""

from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import checks
from biasfree.models import _operations as ops
from biasfree.models._layers import Layers

if TYPE_CHECKING:
    from biasfree.models._graph import Graph


class Chain:
    """Collects the operations of a chain one after the other, and gives the model they are.

    Operations that are no layer of their own become one without changing the function: an activation or a bias that
    no matrix precedes is preceded by the identity.
    """

    def __init__(self) -> None:
        """An empty chain: the identity of unknown dimension."""
        self.weights: list[np.ndarray] = []
        self.biases: list[np.ndarray | None] = []
        self.slopes: list[float] = []
        self._first_slope: float | None = None
        self._shift: np.ndarray | None = None

    @property
    def width(self) -> int | None:
        """Numbers that leave the last operation, None while unknown."""
        if self.weights:
            return self.weights[-1].shape[0]
        return None if self._shift is None else len(self._shift)

    def matrix(self, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
        """Apply W, then add b.

        Raises:
            ValueError: widths that do not chain.
        """
        if self.width is not None and weight.shape[1] != self.width:
            raise ValueError(
                f"widths must chain: layer {len(self.weights) + 1} takes {weight.shape[1]} numbers and is given "
                f"{self.width}."
            )
        if not self.weights and self._first_slope is not None:
            self._identity(weight.shape[1])
            self.slopes.append(self._first_slope)
        elif len(self.slopes) < len(self.weights):
            self.slopes.append(1.0)
        if self._shift is not None:
            bias = weight @ self._shift + (0.0 if bias is None else bias)
            self._shift = None
        self.weights.append(weight)
        self.biases.append(bias)

    def add(self, bias: np.ndarray) -> None:
        """Add a vector.

        Raises:
            ValueError: a vector of another length.
        """
        if self.width is not None and len(bias) != self.width:
            raise ValueError(f"a bias of {len(bias)} numbers is added to {self.width} neurons.")
        if self.weights and len(self.slopes) < len(self.weights):
            before = self.biases[-1]
            self.biases[-1] = bias if before is None else before + bias
        elif not self.weights and self._first_slope is not None:
            self._identity(len(bias))
            self.slopes.append(self._first_slope)
            self._shift = bias
        else:
            self._shift = bias if self._shift is None else self._shift + bias

    def activation(self, slope: float) -> None:
        """Apply σ of this slope."""
        slope = checks.slope(slope)
        if self._shift is not None:
            self.matrix(np.eye(len(self._shift)))
        if not self.weights:
            self._first_slope = slope * (1.0 if self._first_slope is None else self._first_slope)
        elif len(self.slopes) < len(self.weights):
            self.slopes.append(slope)
        else:
            # σ keeps signs, so slopes multiply.
            self.slopes[-1] *= slope

    def layers(self, **about: Any) -> Layers:
        """All of them.

        Raises:
            ValueError: no layer, or what ``Layers.of`` refuses.
        """
        notes = list(about.pop("notes", ()))
        if not self.weights:
            raise ValueError("there is no layer of weights in it.")
        if self._shift is not None or len(self.slopes) == len(self.weights):
            notes.append(
                "The last layer is followed by an activation or a bias of its own; this is read as one layer more."
            )
            self.matrix(np.eye(self.weights[-1].shape[0]))
        return Layers.of(self.weights, self.biases, self.slopes, notes=notes, **about)

    def _identity(self, width: int) -> None:
        self.weights.append(np.eye(width))
        self.biases.append(None)


def chain_of_graph(graph: "Graph") -> Layers | None:
    """The layers of a graph that is a fully connected chain; None for any other."""
    if len(graph.ports) != 1 or any(node.inputs != (i,) for i, node in enumerate(graph.nodes)):
        return None
    chain, shape = Chain(), graph.ports[0].shape
    if any(n is None for n in shape):
        return None
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, ops.Reshape) and (operation.shape == (-1,) or operation.shape == (chain.width,)):
            shape = (-1,)
        elif len(shape) > 1:
            return None
        elif isinstance(operation, ops.Linear):
            chain.matrix(operation.weight, operation.bias)
        elif isinstance(operation, ops.Activation) and np.size(operation.slope) == 1:
            slope = float(np.asarray(operation.slope).reshape(-1)[0])
            if not 0 <= slope <= 1:
                return None
            chain.activation(slope)
        elif isinstance(operation, ops.Scale):
            width = chain.width or max(np.size(operation.factor), np.size(operation.bias or 0.0), shape[0] or 1)
            if np.any(operation.factor != 1):
                chain.matrix(np.diag(np.broadcast_to(operation.factor, width)))
            if operation.bias is not None:
                chain.add(np.array(np.broadcast_to(operation.bias, width)))
        else:
            return None
    if not chain.weights:
        return None
    return chain.layers(source=graph.source, rounding=graph.rounding, notes=graph.notes)
