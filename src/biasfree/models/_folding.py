"""Scales put into the layer before them: batch normalisation in evaluation is a factor and a shift per channel.

W ↦ γW, b ↦ γb + δ. The shift δ is a bias wherever it is not zero, and is reported as one.
"""

from dataclasses import replace

import numpy as np

from biasfree.models import _operations as ops
from biasfree.models._graph import Graph, Node


def folded(graph: Graph) -> Graph:
    """The same function with fewer operations."""
    first = len(graph.ports)
    users: dict[int, int] = {}
    for node in graph.nodes:
        for place in node.inputs:
            users[place] = users.get(place, 0) + 1
    moved = {i: i for i in range(first)}
    nodes: list[Node] = []
    notes: list[str] = []
    for old, node in enumerate(graph.nodes, first):
        inputs = tuple(moved[i] for i in node.inputs)
        operation = node.operation
        if isinstance(operation, ops.Scale):
            if np.all(operation.factor == 1) and operation.shift is None:
                moved[old] = inputs[0]
                continue
            alone = users[node.inputs[0]] == 1 and inputs[0] >= first and inputs[0] == first + len(nodes) - 1
            joined = _joined(nodes[-1].operation, operation) if alone else None
            if operation.normalisation:
                notes.append(_note(node, operation, nodes[-1] if joined is not None else None))
            if joined is not None:
                nodes[-1] = replace(nodes[-1], operation=joined)
                moved[old] = inputs[0]
                continue
        nodes.append(Node(operation, inputs, node.name))
        moved[old] = first + len(nodes) - 1
    last = moved[first + len(graph.nodes) - 1]
    if last != first + len(nodes) - 1:
        # The output is a value in the middle, or an input: kept as the last by an operation that does nothing.
        nodes.append(Node(ops.Scale(np.array(1.0)), (last,), "output"))
    return replace(graph, nodes=tuple(nodes), notes=(*graph.notes, *_grouped(notes)))


def _joined(before: ops.Operation, scale: ops.Scale) -> ops.Operation | None:
    """The layer before with the scale in it, None if it cannot take it."""
    if isinstance(before, ops.Linear):
        outputs, trailing = len(before.weight), 0
    elif isinstance(before, ops.Conv) and before.bias is None:
        outputs, trailing = before.channels[1], before.weight.ndim - 2
    elif isinstance(before, ops.Conv):
        outputs, trailing = len(before.bias) if before.bias is not None else 0, before.weight.ndim - 2
    else:
        return None
    factor = _per_output(scale.factor, outputs, trailing)
    shift = None if scale.bias is None else _per_output(scale.bias, outputs, trailing)
    if factor is None or (scale.bias is not None and shift is None):
        return None
    bias = None if before.bias is None and shift is None else np.zeros(outputs)
    if bias is not None:
        bias = factor * (0.0 if before.bias is None else before.bias) + (0.0 if shift is None else shift)
    if isinstance(before, ops.Linear):
        return replace(before, weight=factor[:, None] * before.weight, bias=bias)
    kernel = before.weight
    if before.transposed:
        # (in, out/groups, …): the outputs of group g belong to its rows.
        split = kernel.reshape(before.groups, -1, *kernel.shape[1:])
        scaled = split * factor.reshape(before.groups, 1, kernel.shape[1], *(1,) * trailing)
        return replace(before, weight=scaled.reshape(kernel.shape), bias=bias)
    return replace(before, weight=kernel * factor.reshape(-1, 1, *(1,) * trailing), bias=bias)


def _per_output(values: np.ndarray, outputs: int, trailing: int) -> np.ndarray | None:
    """One number per output channel; None where entries differ in another way."""
    values = np.asarray(values, dtype=float)
    if values.size == 1:
        return np.full(outputs, values.reshape(-1)[0])
    # Channels come first, then the trailing axes of images.
    if values.ndim == trailing + 1 and values.size == len(values) == outputs:
        return values.reshape(-1)
    return None


def _note(node: Node, scale: ops.Scale, layer: Node | None) -> str:
    where = "is folded into the layer before it" if layer is not None else "is a factor and a shift per channel"
    shift = "; its shift is a bias" if scale.shift is not None else "; it shifts nothing"
    return f"BatchNorm {node.name} {where}{shift}."


def _grouped(notes: list[str]) -> list[str]:
    if len(notes) <= 2:
        return notes
    biased = sum("is a bias" in note for note in notes)
    return [
        f"{len(notes)} batch normalisations are folded into the layers before them where that is possible; the shifts "
        f"of {biased} of them are biases."
    ]
