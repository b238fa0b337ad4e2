"""Any feed-forward network: operations on named values, in an order in which each comes after what it needs.

This is what every reader gives. A fully connected chain is also ``Layers``, about which more can be said exactly.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models import _operations as ops
from biasfree.models._layers import Layers
from biasfree.networks import Network

# Entries of all values of a batch together.
_AT_ONCE = 30_000_000


@dataclass(frozen=True)
class Port:
    """An input: its name, and its shape without the samples' axis; None where a size is open."""

    name: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        """Name and shape."""
        return f"{self.name} of shape ({', '.join('any' if n is None else str(n) for n in self.shape)})"


@dataclass(frozen=True, eq=False)
class Node:
    """An operation, and the places of its inputs: 0, 1, … are the graph's inputs, then come the nodes."""

    operation: ops.Operation
    inputs: tuple[int, ...]
    name: str = ""

    def __str__(self) -> str:
        """Its kind, and its name where it has one."""
        return f"{self.operation.title}{f' ({self.name})' if self.name else ''}"


@dataclass(frozen=True, eq=False)
class Graph:
    """A network as a directed acyclic graph; the last node is its output.

    Attributes:
        ports: its inputs. The first is x; others (noise maps) are extra inputs.
        nodes: its operations.
        source: what it was read from.
        rounding: relative rounding of the stored numbers.
        notes: what had to be assumed in reading it, a sentence each.
        left_out: what of the network is not in this graph, a sentence each; empty for a whole one.
        chain: the layers it was made from, where it was made from layers.
    """

    ports: tuple[Port, ...]
    nodes: tuple[Node, ...]
    source: str = "a network"
    rounding: float = 2.0**-53
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    chain: Layers | None = None

    @classmethod
    def from_layers(cls, layers: Layers) -> "Graph":
        """A fully connected chain as a graph."""
        nodes: list[Node] = []
        for k, weight in enumerate(layers.weights):
            nodes.append(Node(ops.Linear(weight, layers.biases[k]), (len(nodes),), f"W{k + 1}"))
            if k < layers.depth - 1 and layers.slopes[k] != 1:
                nodes.append(Node(ops.Activation(np.array(layers.slopes[k])), (len(nodes),)))
        port = Port("x", (layers.widths[0],))
        return cls((port,), tuple(nodes), layers.source, layers.rounding, layers.notes, chain=layers)

    @classmethod
    def from_network(cls, network: Network) -> "Graph":
        """A ``Network``, with identity skips over any number of layers."""
        if all(span <= 1 for span in network.skips):
            return cls.from_layers(Layers.from_network(network))
        nodes: list[Node] = []
        # What enters layer l, by place.
        entering = [0]
        for k, weight in enumerate(network.weights):
            nodes.append(Node(ops.Linear(np.asarray(weight, dtype=float)), (entering[-1],), f"W{k + 1}"))
            if network.skips[k]:
                nodes.append(Node(ops.Sum(), (len(nodes), entering[k + 1 - network.skips[k]])))
            if k < len(network.weights) - 1 and network.rectified[k] and network.slope != 1:
                nodes.append(Node(ops.Activation(np.array(float(network.slope))), (len(nodes),)))
            entering.append(len(nodes))
        return cls((Port("x", (network.widths[0],)),), tuple(nodes), f"a {network}")

    # What it is

    @property
    def shifts(self) -> tuple[Node, ...]:
        """Nodes that add something other than zero, whatever their input: biases."""
        return tuple(node for node in self.nodes if node.operation.shift is not None)

    @property
    def bias_free(self) -> bool:
        """Whether nothing is added anywhere."""
        return not self.shifts

    @property
    def homogeneous(self) -> bool:
        """Whether f(cx) = c f(x), c > 0, follows from its operations, in all inputs jointly."""
        return self.bias_free and all(node.operation.homogeneous for node in self.nodes)

    @property
    def piecewise_linear(self) -> bool:
        """Whether it is linear (plus constant) in cells."""
        return all(node.operation.piecewise_linear for node in self.nodes)

    @property
    def is_affine(self) -> bool:
        """Whether it is linear plus constant by construction: nothing bends."""
        return self.piecewise_linear and not any(_bends(node.operation) for node in self.nodes)

    @cached_property
    def layers(self) -> Layers | None:
        """As a fully connected chain, None if it is none."""
        from biasfree.models._chain import chain_of_graph

        return self.chain if self.chain is not None else chain_of_graph(self)

    # Function

    def __call__(self, *inputs: Any) -> np.ndarray:
        """f on a batch: one array per input, shape (samples, *shape) or (samples, entries)."""
        from biasfree.models import _evaluate

        values = self.given(inputs)
        return np.concatenate([np.asarray(_evaluate.outputs(self.nodes, part)) for part in self.batches(values)])

    def given(self, inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The inputs as float64 of the right shapes.

        Raises:
            ValueError: another number of inputs, shapes that do not fit, numbers of samples that differ.
        """
        if len(inputs) != len(self.ports):
            names = ", ".join(map(str, self.ports))
            raise ValueError(f"the network takes {len(self.ports)} inputs ({names}), got {len(inputs)}.")
        arrays = tuple(
            fitted(checks.numeric(array, port.name), port) for array, port in zip(inputs, self.ports, strict=True)
        )
        if len({len(array) for array in arrays}) > 1:
            raise ValueError(f"inputs must be equally many samples, got {', '.join(str(len(a)) for a in arrays)}.")
        return arrays

    def batches(self, values: tuple[np.ndarray, ...], copies: int = 1) -> Iterable[tuple[np.ndarray, ...]]:
        """The samples in groups whose values fit in memory together, each taken ``copies`` times."""
        rows = max(1, _AT_ONCE // (copies * max(1, self.entries(values[: len(self.ports)]))))
        for start in range(0, max(len(values[0]), 1), rows):
            yield tuple(value[start : start + rows] for value in values)

    def entries(self, values: tuple[np.ndarray, ...]) -> int:
        """Numbers of all values of one sample."""
        return sum(math.prod(shape) for shape in self.shapes(values))

    def shapes(self, values: tuple[np.ndarray, ...]) -> list[tuple[int, ...]]:
        """The shape of every value, inputs first, for inputs of these shapes.

        Raises:
            ValueError: shapes that the operations do not accept.
        """
        from biasfree.models import _evaluate

        try:
            return _evaluate.shapes(self.nodes, tuple(v[:1] for v in values))
        except (TypeError, ValueError, IndexError, ZeroDivisionError, AssertionError) as error:
            sizes = ", ".join(str(v.shape[1:]) for v in values)
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"the network does not take inputs of shape {sizes}: {first[:200].rstrip('.')}."
            ) from error

    def open_sizes(self, size: int) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs, with this in place of sizes that are open."""
        return tuple(tuple(size if n is None else n for n in port.shape) for port in self.ports)

    def __str__(self) -> str:
        """One line: what it is made of."""
        if self.layers is not None:
            return str(self.layers)
        counts: dict[str, int] = {}
        for node in self.nodes:
            if not isinstance(node.operation, (ops.Reshape, ops.Transpose)):
                counts[node.operation.title] = counts.get(node.operation.title, 0) + 1
        made = ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
        kind = "network" + (" with biases" if not self.bias_free else "")
        return f"{kind} of {made or 'nothing'}"

    __repr__ = __str__


def fitted(array: np.ndarray, port: Port) -> np.ndarray:
    """An array as a batch of a port's inputs: as it is, or unfolded from one row per sample.

    Raises:
        ValueError: a shape that does not fit.
    """
    fits = array.ndim == len(port.shape) + 1 and all(
        want is None or want == have for want, have in zip(port.shape, array.shape[1:], strict=True)
    )
    if fits:
        return array
    known = [n for n in port.shape if n is not None]
    if array.ndim == 2 and len(known) == len(port.shape) and array.shape[1] == math.prod(known):
        return array.reshape(len(array), *known)
    if array.ndim == 2 and len(port.shape) == 1:
        raise ValueError(f"the model takes inputs of dimension {known[0]}, and the data have shape {array.shape}.")
    raise ValueError(f"the model takes {port} per sample, and the data have shape {array.shape}.")


def _bends(operation: ops.Operation) -> bool:
    if isinstance(operation, ops.Activation):
        return bool(np.any(np.asarray(operation.slope) != 1))
    return (isinstance(operation, ops.Pool) and operation.largest) or (
        isinstance(operation, ops.Reduce) and operation.kind == "max"
    )
