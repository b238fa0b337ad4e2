"""From the nodes of an ONNX file to those of a graph: what is known, what is stored, what is out of reach."""

from collections.abc import Callable
from typing import Any

import numpy as np

from biasfree.models import _operations as ops
from biasfree.models._graph import Node
from biasfree.models._onnx_stored import FOLDS, FoldedTooMuch

Made = tuple[ops.Operation, tuple[int, ...]] | int | np.ndarray
_MOST_INPUTS = 64


class UnknownError(ValueError):
    """An operator, or a use of one, that we have no rule for; what comes before it may still be read."""


class Builder:
    """Collects nodes in order; values are known by their place, constant, or out of reach (``lost``)."""

    def __init__(
        self,
        operators: dict[str, Callable[["Call"], Made]],
        constants: dict[str, np.ndarray],
        inputs: list[str],
        shapes: dict[str, list[int | None]],
    ) -> None:
        """Rules by operator, stored tensors, names of the inputs, and shapes with the samples' axis where known."""
        self.operators = operators
        self.constants, self.shapes = dict(constants), shapes
        self.places = {name: i for i, name in enumerate(inputs)}
        self.count = len(inputs)
        self.nodes: list[Node] = []
        self.lost: dict[str, str] = {}
        self.feeding: list[int] = []
        self.notes: list[str] = []

    def add(self, proto: Any) -> None:
        """One node of the file."""
        title = f"{proto.op_type or '?'}{f' ({proto.name[:40]})' if proto.name else ''}"
        names = [name for name in proto.input if name]
        if len(proto.input) > _MOST_INPUTS:
            raise ValueError(f"the node {title} has more than {_MOST_INPUTS} inputs")
        if not proto.output:
            raise ValueError(f"the node {title} has no output")
        for name in proto.output:
            if name and (name in self.places or name in self.constants or name in self.lost):
                raise ValueError(f"the value {name[:40]!r} of its graph is given more than once")
        missing = [n for n in names if not (n in self.places or n in self.constants or n in self.lost)]
        if missing:
            raise ValueError(f"the node {title} uses {missing[0][:40]!r}, which is neither stored nor computed before")
        lost = [n for n in names if n in self.lost]
        if lost:
            self._leave_out(proto, self.lost[lost[0]], names)
            return
        attributes = attributes_of(proto)
        try:
            if proto.domain not in ("", "ai.onnx"):
                raise UnknownError(f"the operator {title} is of another domain, {proto.domain[:40]!r}")
            if all(n in self.constants for n in names):
                self._fold(proto, attributes, title)
                return
            rule = self.operators.get(proto.op_type)
            if rule is None:
                raise UnknownError(f"the operator {title} is not one we know")
            result = rule(Call(self, proto, attributes, title))
        except UnknownError as error:
            self._leave_out(proto, str(error), names)
            return
        if isinstance(result, np.ndarray):
            self.constants[proto.output[0]] = result
            return
        place = result if isinstance(result, int) else self.put(*result, proto.name or proto.output[0])
        self.places[proto.output[0]] = place

    def put(self, operation: ops.Operation, inputs: tuple[int, ...], name: str) -> int:
        """A node; its place."""
        self.nodes.append(Node(operation, inputs, name[:60]))
        return self.count + len(self.nodes) - 1

    def finished(self, outputs: list[str]) -> tuple[list[Node], list[str]]:
        """Nodes up to the output, and what is left out of it.

        Raises:
            ValueError: an output nobody makes, or one of whose way nothing is known.
        """
        left_out = []
        for name in outputs:
            if not (name in self.places or name in self.lost or name in self.constants):
                raise ValueError(f"no operation makes its output {name[:40]!r}")
        known = [name for name in outputs if name in self.places]
        if not outputs:
            raise ValueError("it has no output")
        if known:
            output = self.places[known[0]]
            if len(outputs) > 1:
                left_out.append(f"Of its {len(outputs)} outputs only {known[0]!r} is inspected.")
        else:
            with_weights = [p for p in self.feeding if self._has_weights(p)]
            reason = self.lost.get(outputs[0], "its output is constant")
            if not with_weights:
                raise ValueError(f"{reason}, and no layer of weights comes before it")
            output = max(with_weights)
            left_out.append(f"From there on it is left out: {reason}. What follows is about {self._name(output)}.")
        if output < self.count:
            raise ValueError("its output is its input")
        return self._pruned(output), left_out

    def _pruned(self, output: int) -> list[Node]:
        needed, stack = set(), [output]
        while stack:
            place = stack.pop()
            if place >= self.count and place not in needed:
                needed.add(place)
                stack += self.nodes[place - self.count].inputs
        order = sorted(needed)
        moved = {old: self.count + new for new, old in enumerate(order)} | {i: i for i in range(self.count)}
        kept = [self.nodes[place - self.count] for place in order]
        nodes = [Node(n.operation, tuple(moved[i] for i in n.inputs), n.name) for n in kept]
        used = {i for node in nodes for i in node.inputs}
        if not set(range(self.count)) <= used:
            raise ValueError("one of its inputs does not reach its output")
        return nodes

    def _has_weights(self, place: int) -> bool:
        stack, seen = [place], set()
        while stack:
            at = stack.pop()
            if at < self.count or at in seen:
                continue
            seen.add(at)
            node = self.nodes[at - self.count]
            if isinstance(node.operation, (ops.Linear, ops.Conv)):
                return True
            stack += node.inputs
        return False

    def _name(self, place: int) -> str:
        return "its input" if place < self.count else f"what {self.nodes[place - self.count]} gives"

    def _leave_out(self, proto: Any, reason: str, names: list[str]) -> None:
        self.feeding += [self.places[n] for n in names if n in self.places]
        for name in proto.output:
            self.lost[name] = reason

    def _fold(self, proto: Any, attributes: dict[str, Any], title: str) -> None:
        """Operations on stored tensors alone are carried out, those that exporters write."""
        rule = FOLDS.get(proto.op_type)
        if rule is None:
            raise UnknownError(f"the operator {title} on stored tensors is not one we know")
        try:
            result = rule(attributes, *(self.constants[n] for n in proto.input if n))
        except FoldedTooMuch as error:
            raise ValueError(f"the node {title} makes {error} numbers of stored ones, more than we take in") from error
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ValueError(f"the node {title} cannot be carried out on its stored tensors") from error
        self.constants[proto.output[0]] = result


class Call:
    """One node as an operator's function sees it."""

    def __init__(self, builder: Builder, proto: Any, attributes: dict[str, Any], title: str) -> None:
        """Its inputs by place or as stored numbers, its attributes, its name for sentences."""
        self.builder, self.attributes, self.title = builder, attributes, title
        self.names = list(proto.input)
        self.outputs = [name for name in proto.output if name]

    def value(self, index: int = 0) -> int:
        """The place of an input that is computed."""
        name = self.names[index] if index < len(self.names) else ""
        if name not in self.builder.places:
            raise UnknownError(f"the node {self.title} takes a stored tensor where a computed value belongs")
        return self.builder.places[name]

    def stored(self, index: int) -> np.ndarray | None:
        """A stored input, None where there is none."""
        name = self.names[index] if index < len(self.names) else ""
        if not name:
            return None
        if name not in self.builder.constants:
            raise UnknownError(f"the node {self.title} needs {name[:40]!r} to be stored, and it is computed")
        return self.builder.constants[name]

    def needed(self, index: int) -> np.ndarray:
        """A stored input that must be there."""
        value = self.stored(index)
        if value is None:
            raise ValueError(f"the node {self.title} lacks its input {index + 1}")
        return value

    def rank(self, index: int = 0) -> int | None:
        """Axes of an input, the samples' included."""
        shape = self.builder.shapes.get(self.names[index])
        return None if shape is None else len(shape)

    def shape(self, index: int = 0) -> list[int | None] | None:
        """The shape of an input, the samples' axis included."""
        return self.builder.shapes.get(self.names[index])

    def get(self, name: str, otherwise: Any) -> Any:
        """An attribute."""
        return self.attributes.get(name, otherwise)

    def whole(self, index: int) -> list[int]:
        """A stored input as whole numbers."""
        return [int(n) for n in np.asarray(self.needed(index)).reshape(-1)]

    def axis(self, axis: int) -> int:
        """An axis counted from the first after the samples.

        Raises:
            UnknownError: the samples' own axis, or one counted from an unknown end.
        """
        if axis < 0:
            rank = self.rank()
            if rank is None:
                raise UnknownError(f"the node {self.title} counts axes from the end of a value of unknown shape")
            axis += rank
        if axis < 1:
            raise UnknownError(f"the node {self.title} works along the samples' axis")
        return axis - 1

    def same(self, array: np.ndarray) -> np.ndarray:
        """Stored numbers that are combined with a value, with the samples' axis taken off."""
        rank = self.rank(0 if self.names[0] in self.builder.places else 1)
        if rank is not None and array.ndim > rank:
            if any(n != 1 for n in array.shape[: array.ndim - rank]):
                raise UnknownError(f"the node {self.title} makes more axes than its input has")
            array = array.reshape(array.shape[array.ndim - rank :])
        if array.ndim and (array.ndim == rank or (rank is None and array.ndim > 1)):
            if array.shape[0] != 1:
                raise ValueError(
                    f"the node {self.title} combines samples with stored numbers of shape {array.shape}, one for each "
                    "sample"
                )
            array = array[0]
        return np.asarray(array, dtype=float)


def attributes_of(proto: Any) -> dict[str, Any]:
    """The attributes of a node, by name."""
    from onnx import helper

    try:
        return {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    except (ValueError, TypeError) as error:
        raise ValueError(f"the attributes of the node {proto.op_type} cannot be read") from error
