"""What an ONNX file holds, read by ourselves: no onnx package, nothing executed.

A file is a protocol buffer: a model holds a graph, a graph holds nodes (operations on named values), initializers
(stored tensors), and the declarations of inputs and outputs.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from biasfree.models._protobuf import BYTES, FIXED32, VARINT, Wire, signed, text, varints

_MOST_NODES = 10_000
_MOST_DIMS = 8
_MOST_ENTRIES = 64
# Tensor types: how raw bytes are laid out, which field holds typed entries, relative rounding.
_TYPES = {1: ("<f4", 4, 2.0**-24), 11: ("<f8", 10, 2.0**-53), 7: ("<i8", 7, 0.0)}


@dataclass
class Tensor:
    """Stored numbers, float64 or int64, with the relative rounding they were stored with."""

    name: str = ""
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rounding: float = 0.0


@dataclass
class Node:
    """An operation on named values."""

    operator: str = ""
    name: str = ""
    domain: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    numbers: dict[str, float | int] = field(default_factory=dict)
    lists: dict[str, list[int]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        """Operator and name."""
        return f"{self.operator or '?'}{f' ({self.name})' if self.name else ''}"


@dataclass
class Graph:
    """Operations in their order, stored tensors by name, names of inputs and outputs."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def graph_of(data: bytes) -> Graph:
    """The graph in the bytes of a file.

    Raises:
        ValueError: bytes that are no ONNX model, or one beyond our limits; part of a sentence.
    """
    return _Reader(data).model()


def store(constants: dict[str, Tensor], tensor: Tensor) -> None:
    """Add a tensor, whose name must be new."""
    if tensor.name in constants:
        raise ValueError(f"the tensor {tensor.name[:40]!r} is stored twice")
    constants[tensor.name] = tensor


class _Reader:
    """The messages of the format, by their field numbers; unknown fields are passed over, as the format asks."""

    def __init__(self, data: bytes) -> None:
        self.data, self.wire = memoryview(data), Wire()

    def model(self) -> Graph:
        if not len(self.data):
            raise ValueError("it is empty")
        graphs = [value for number, kind, value in self.wire.read(self.data) if number == 7 and kind == BYTES]
        if len(graphs) != 1:
            raise ValueError("it holds no graph" if not graphs else "it holds more than one graph")
        return self.graph(_bytes(graphs[0]))

    def graph(self, message: memoryview) -> Graph:
        graph = Graph()
        for number, _, value in self.wire.read(message):
            if number == 1:
                if len(graph.nodes) == _MOST_NODES:
                    raise ValueError(f"it has more than {_MOST_NODES:,} nodes")
                graph.nodes.append(self.node(_bytes(value)))
            elif number == 5:
                store(graph.constants, self.tensor(_bytes(value)))
            elif number == 11:
                graph.inputs.append(self.value_name(_bytes(value)))
            elif number == 12:
                graph.outputs.append(self.value_name(_bytes(value)))
            elif number == 15:
                raise ValueError("it stores sparse weights, which we do not read; export them dense")
        return graph

    def value_name(self, message: memoryview) -> str:
        return next((text(value) for number, _, value in self.wire.read(message) if number == 1), "")

    def node(self, message: memoryview) -> Node:
        node = Node()
        for number, _, value in self.wire.read(message):
            if number == 1:
                node.inputs.append(text(value))
            elif number == 2:
                node.outputs.append(text(value))
            elif number == 3:
                node.name = text(value)
            elif number == 4:
                node.operator = text(value)
            elif number == 5:
                self.attribute(node, _bytes(value))
            elif number == 7:
                node.domain = text(value)
            if len(node.inputs) + len(node.outputs) > _MOST_ENTRIES:
                raise ValueError(f"the node {node} has more than {_MOST_ENTRIES} inputs and outputs")
        return node

    def attribute(self, node: Node, message: memoryview) -> None:
        name, entries = "", []
        # Graphs within attributes are not looked into: no operator of a chain has any.
        for number, kind, value in self.wire.read(message):
            if number == 1:
                name = text(value)
            elif number == 2 and kind == FIXED32:
                node.numbers[name] = float(np.frombuffer(_bytes(value), "<f4")[0])
            elif number == 3 and kind == VARINT:
                node.numbers[name] = signed(_int(value))
            elif number == 5:
                node.tensors[name] = self.tensor(_bytes(value))
            elif number == 8:
                entries += [signed(value)] if isinstance(value, int) else varints(value, _MOST_ENTRIES)
                if len(entries) > _MOST_ENTRIES:
                    raise ValueError(f"an attribute has more than {_MOST_ENTRIES} numbers")
        if entries:
            node.lists[name] = entries

    def tensor(self, message: memoryview) -> Tensor:
        tensor, kind, dims = Tensor(), 0, []
        raw: memoryview | None = None
        typed: dict[int, list[int | memoryview]] = {}
        for number, _, value in self.wire.read(message):
            if number == 1:
                dims += [signed(value)] if isinstance(value, int) else varints(value, _MOST_DIMS)
                if len(dims) > _MOST_DIMS:
                    raise ValueError(f"a tensor has more than {_MOST_DIMS} dimensions")
            elif number == 2:
                kind = _int(value)
            elif number == 8:
                tensor.name = text(value)
            elif number == 9:
                raw = _bytes(value)
            elif number in (4, 7, 10):
                typed.setdefault(number, []).append(value)
            elif number == 13 or (number == 14 and value):
                raise ValueError("its weights are in another file (external data); save them within the ONNX file")
        shown = repr(tensor.name[:40])
        if kind not in _TYPES:
            raise ValueError(f"the tensor {shown} is of type {kind}; only float32 and float64 are read")
        layout, where, tensor.rounding = _TYPES[kind]
        if any(d < 0 for d in dims):
            raise ValueError(f"the tensor {shown} declares a negative size, {dims}")
        count, width = math.prod(dims), np.dtype(layout).itemsize
        if where == 7 and raw is None:
            tensor.values = np.array(_int64s(typed.get(7, [])), dtype=np.int64)
        else:
            data = raw if raw is not None else b"".join(_bytes(part) for part in typed.get(where, []))
            if len(data) != count * width:
                raise ValueError(f"the tensor {shown} declares shape {dims} but stores {len(data):,} bytes")
            tensor.values = np.frombuffer(data, layout)
        if tensor.values.size != count:
            raise ValueError(f"the tensor {shown} declares shape {dims} but stores {tensor.values.size} numbers")
        tensor.values = tensor.values.reshape(dims).astype(np.int64 if where == 7 else np.float64)
        return tensor


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number stands where a message belongs")
    return value


def _int(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise ValueError("a message stands where a number belongs")
    return value


def _int64s(parts: list[int | memoryview]) -> list[int]:
    found: list[int] = []
    for part in parts:
        found += [signed(part)] if isinstance(part, int) else varints(part, _MOST_ENTRIES)
        if len(found) > _MOST_ENTRIES:
            raise ValueError(f"a list of whole numbers has more than {_MOST_ENTRIES} entries")
    return found
