"""ONNX files of fully connected chains: followed from the one input to the one output, one sentence for all others."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from biasfree.models._chain import Chain
from biasfree.models._model import Model
from biasfree.models._onnx_format import Graph, Node, Tensor, graph_of, store

_MOST_BYTES = 2**28
_KNOWN = "MatMul, Gemm, Add, Relu, LeakyRelu, Identity, Flatten, Reshape, Transpose of stored weights and Constant"


def read_onnx(source: Path) -> Model:
    """The model in an ONNX file.

    Raises:
        ValueError: anything but a fully connected chain with stored float32 or float64 weights.
    """
    size = source.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: {size:,} bytes are more than the {_MOST_BYTES:,} we take in.")
    try:
        graph = graph_of(source.read_bytes())
        chain, notes, rounding = _followed(graph)
        return chain.model(source=f"{source.name} (ONNX)", rounding=rounding, notes=notes)
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as an ONNX network: {str(error).rstrip('.')}.") from error


def _followed(graph: Graph) -> tuple[Chain, list[str], float]:
    """Walk from the input to the output."""
    nodes = _without_constants(graph)
    if not nodes:
        raise ValueError("its graph holds no operations")
    for node in nodes:
        if node.domain not in ("", "ai.onnx"):
            raise ValueError(f"the operator {node} is of another domain, {node.domain!r}")
        if node.operator not in _OPERATORS:
            raise ValueError(f"the operator {node} is not one of a fully connected chain: {_KNOWN}")
    inputs = [name for name in graph.inputs if name not in graph.constants]
    if len(inputs) != 1 or len(graph.outputs) != 1:
        raise ValueError(
            f"a chain has one input and one output, and it has {len(inputs)} inputs and {len(graph.outputs)} outputs"
        )
    produced = [name for node in nodes for name in node.outputs]
    if len(set(produced)) != len(produced) or set(produced) & (set(graph.constants) | set(inputs)):
        raise ValueError("a value of its graph is given more than once")
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in set(node.inputs) - set(graph.constants) - {""}:
            users.setdefault(name, []).append(node)

    chain, notes = Chain(), []
    current, met, rounding = inputs[0], 0, 0.0
    while current in users:
        if len(users[current]) > 1 or current == graph.outputs[0]:
            raise ValueError(f"it branches: the value {current!r} is used more than once")
        (node,) = users[current]
        met += 1
        if met > len(nodes):
            raise ValueError("its graph has a cycle")
        if len(node.outputs) != 1:
            raise ValueError(f"the node {node} has {len(node.outputs)} outputs")
        stored = [graph.constants.get(name) for name in node.inputs]
        rounding = max([rounding, *(tensor.rounding for tensor in stored if tensor is not None)])
        note = _OPERATORS[node.operator](node, chain, node.inputs.index(current), stored)
        notes += [note] if note and note not in notes else []
        current = node.outputs[0]
    if current != graph.outputs[0]:
        raise ValueError(f"its operations end at {current!r}, not at its output {graph.outputs[0]!r}")
    if met < len(nodes):
        raise ValueError(f"{len(nodes) - met} of its operations do not lie between its input and its output")
    return chain, notes, rounding


def _without_constants(graph: Graph) -> list[Node]:
    """Nodes that depend on the input; those that only rearrange stored tensors are carried out."""
    nodes = []
    for node in graph.nodes:
        if not node.outputs:
            raise ValueError(f"the node {node} has no output")
        stored = [graph.constants.get(name) for name in node.inputs]
        if node.operator == "Constant":
            if "value" not in node.tensors:
                raise ValueError(f"the node {node} is a constant that is no tensor")
            tensor = node.tensors["value"]
            store(graph.constants, Tensor(node.outputs[0], tensor.values, tensor.rounding))
        elif node.operator in ("Identity", "Transpose") and len(stored) == 1 and stored[0] is not None:
            values = stored[0].values
            if node.operator == "Transpose":
                order = node.lists.get("perm", list(range(values.ndim))[::-1])
                if sorted(order) != list(range(values.ndim)):
                    raise ValueError(f"the node {node} transposes {values.ndim} axes in the order {order}")
                values = values.transpose(order)
            store(graph.constants, Tensor(node.outputs[0], values, stored[0].rounding))
        else:
            nodes.append(node)
    return nodes


# Operators: each adds to the chain what it does to the value at place `place` of its inputs, and may say a sentence.


def _matmul(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    chain.matrix(_matrix(node, place, stored, 2).T)


def _gemm(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    if node.numbers.get("transA", 0):
        raise ValueError(f"the node {node} transposes its input, whose rows are samples")
    matrix = _matrix(node, place, stored, 3)
    weight = float(node.numbers.get("alpha", 1.0)) * (matrix if node.numbers.get("transB", 0) else matrix.T)
    bias = None
    if len(stored) == 3 and node.inputs[2]:
        if stored[2] is None:
            raise ValueError(f"the node {node} adds something that is not stored in the file")
        bias = float(node.numbers.get("beta", 1.0)) * _vector(node, stored[2], weight.shape[0])
    chain.matrix(weight, bias)


def _add(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    other = stored[1 - place] if len(stored) == 2 else None
    if other is None:
        raise ValueError(f"the node {node} adds something that is not stored in the file; skips are not read")
    chain.add(_vector(node, other, chain.width))


def _relu(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    chain.activation(0.0)


def _leaky_relu(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    # Attributes are float32, so 0.01 is 0.00999999977…, also in a float64 network.
    chain.activation(float(node.numbers.get("alpha", np.float32(0.01))))


def _identity(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    pass


def _flatten(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> str | None:
    axis = node.numbers.get("axis", 1)
    if axis != 1 and not (axis == -1 and chain.width is not None):
        raise ValueError(f"the node {node} flattens from axis {axis}; only 1, one row per sample, keeps samples apart")
    return None if chain.weights else "Inputs are taken flattened, row by row."


def _reshape(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> str | None:
    shape = stored[1] if len(stored) == 2 and place == 0 else None
    if shape is None or shape.values.dtype != np.int64 or shape.values.shape != (2,):
        raise ValueError(f"the node {node} reshapes to something else than one row per sample")
    rows, columns = (int(n) for n in shape.values)
    if (
        rows not in (-1, 0)
        or (chain.width is not None and columns not in (-1, 0, chain.width))
        or rows == columns == -1
    ):
        raise ValueError(f"the node {node} reshapes to ({rows}, {columns}), which is not one row per sample")
    return None if chain.weights else "Inputs are taken flattened, row by row."


def _transpose(node: Node, chain: Chain, place: int, stored: list[Tensor | None]) -> None:
    raise ValueError(f"the node {node} transposes its input, whose rows are samples")


_OPERATORS: dict[str, Callable[[Node, Chain, int, list[Tensor | None]], str | None]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _add,
    "Relu": _relu,
    "LeakyRelu": _leaky_relu,
    "Identity": _identity,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Transpose": _transpose,
}


def _matrix(node: Node, place: int, stored: list[Tensor | None], most: int) -> np.ndarray:
    if not 2 <= len(stored) <= most:
        raise ValueError(f"the node {node} has {len(stored)} inputs")
    if place == 1 and stored[0] is not None:
        raise ValueError(f"the node {node} multiplies from the left; export a network whose samples are rows")
    tensor = stored[1]
    if place != 0 or tensor is None:
        raise ValueError(f"the node {node} multiplies by something that is not stored in the file")
    if tensor.values.ndim != 2 or tensor.values.dtype != np.float64:
        raise ValueError(
            f"the node {node} multiplies by {tensor.name[:40]!r} of shape {tensor.values.shape}, no matrix"
        )
    return tensor.values


def _vector(node: Node, tensor: Tensor, width: int | None) -> np.ndarray:
    shape, values = tensor.values.shape, tensor.values
    if values.dtype != np.float64 or values.size == 0 or any(n != 1 for n in shape[:-1]):
        raise ValueError(f"the node {node} adds {tensor.name[:40]!r} of shape {shape}, which is no bias")
    if values.size == 1 and width is not None:
        return np.full(width, values.reshape(-1)[0])
    return values.reshape(-1)
