"""PyTorch modules, traced by ``torch.fx``, and state dicts of ``torch.save``, by ``torch.load(weights_only=True)``.

torch is imported only where a module is given, which has imported it, or where a ``.pt`` file is read. The graph that
is found is compared with the module's own outputs on random inputs, so that a wrong reading is found out.
"""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models import _operations as ops
from biasfree.models import _torch_rules as rules
from biasfree.models._folding import folded
from biasfree.models._graph import Graph, Node, Port
from biasfree.models._layers import Layers
from biasfree.models._safetensors import layers_of

_MOST_BYTES = 2**28
_PROBES = 8
_OPEN_SIZE = 16
_WITHOUT_TORCH = "Or save the weights with safetensors, export the network to ONNX, or write them with numpy.savez."
_ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def is_module(subject: Any) -> bool:
    """Whether it looks like a ``torch.nn.Module``."""
    return callable(subject) and all(hasattr(subject, name) for name in ("named_children", "parameters", "training"))


# State dicts


def read_state(source: Path, slope: float | None, otherwise: str) -> Layers:
    """The chain of layers in a file of ``torch.save(module.state_dict(), …)``, where torch is installed.

    Raises:
        ValueError: no torch here, anything but tensors in the file, tensors that are no chain.
    """
    checks.installed("torch", extra="torch", what=f"reading {source.name}, a pickle of torch,", remedy=_WITHOUT_TORCH)
    try:
        with zipfile.ZipFile(source) as archive:
            declared = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"{source.name} is a pickle and not an archive of torch.save: {otherwise}") from error
    if declared > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: it unpacks to {declared:,} bytes, more than {_MOST_BYTES:,}.")
    import torch

    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{source.name} is a pickle that torch.load(weights_only=True) refuses; it holds more than tensors, and "
            f"{otherwise}"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(hasattr(v, "detach") for v in state.values()):
        raise ValueError(f"cannot read {source.name}: it is no state dict of a module, which holds tensors by name.")
    kinds = [str(v.dtype).removeprefix("torch.") for v in state.values()]
    rounding = max((_ROUNDING[kind] for kind in kinds if kind in _ROUNDING), default=2.0**-24)
    try:
        tensors = {str(name): rules.array(v) for name, v in state.items()}
        return layers_of(tensors, slope, {}, source=f"{source.name} (PyTorch)", rounding=rounding)
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as a network: {str(error).rstrip('.')}.") from error


# Modules


def read_module(module: Any, slope: float | None, shapes: tuple[tuple[int, ...], ...] | None = None) -> Graph:
    """The graph that a module computes.

    Args:
        module: in evaluation mode.
        slope: α to be taken between bare Linear layers, None for what the module does.
        shapes: of its inputs without the samples' axis, where data are given.

    Raises:
        ValueError: a forward that cannot be traced, or outputs that are not those of the graph found.
    """
    name = type(module).__name__
    _in_evaluation(module)
    parameters = list(module.parameters())
    kinds = {str(p.dtype).removeprefix("torch.") for p in parameters}
    rounding = max((_ROUNDING.get(k, 2.0**-24) for k in kinds), default=2.0**-24)
    traced = _traced(module, name)
    ports, nodes, left_out = _followed(traced, module, name, shapes)
    graph = folded(Graph(tuple(ports), tuple(nodes), f"the PyTorch module {name}", rounding, left_out=tuple(left_out)))
    if slope is not None:
        return _with_slope(graph, slope)
    if not left_out:
        _compared(module, graph, parameters, name)
    return graph


def _in_evaluation(module: Any) -> None:
    for path, part in module.named_modules():
        kind = type(part).__name__
        if part.training and (kind.startswith("BatchNorm") or (kind.startswith("Dropout") and part.p)):
            raise ValueError(f"{path or kind} is a {kind} in training mode. Call module.eval() first.")


def _traced(module: Any, name: str) -> Any:
    import torch.fx

    try:
        return torch.fx.symbolic_trace(module)
    except Exception as error:
        # Tracing runs the user's forward, which may raise anything.
        first = (str(error).strip().splitlines() or ["?"])[0][:120].rstrip(".")
        raise ValueError(
            f"cannot read the module {name}: torch.fx does not follow its forward ({first}). Pass a function and "
            "inputs, or export it to ONNX."
        ) from error


def _followed(
    traced: Any, module: Any, name: str, shapes: tuple[tuple[int, ...], ...] | None
) -> tuple[list[Port], list[Node], list[str]]:
    """The traced operations as nodes, up to the first that we have no rule for."""
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    given = shapes if shapes is not None and len(shapes) == len(inputs) else None
    ports = [
        Port(node.name, tuple(given[i]) if given is not None else rules.first_shape(node, traced))
        for i, node in enumerate(inputs)
    ]
    places: dict[Any, int] = {node: i for i, node in enumerate(inputs)}
    nodes: list[Node] = []
    left_out: list[str] = []
    output = 0
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            output = places.get(node.args[0], output) if node.op == "output" else output
            continue
        try:
            made = rules.rule(node, traced, places)
        except rules.UnknownError as error:
            if not any(isinstance(n.operation, (ops.Linear, ops.Conv)) for n in nodes):
                raise ValueError(f"cannot read the module {name}: {error}.") from error
            left_out.append(f"From there on it is left out: {error}. What follows is about what {nodes[-1]} gives.")
            output = len(ports) + len(nodes) - 1
            break
        if isinstance(made, int):
            places[node] = made
        elif made is not None:
            nodes.append(Node(made[0], made[1], str(node.target) if node.op == "call_module" else node.name))
            places[node] = len(ports) + len(nodes) - 1
    if output != len(ports) + len(nodes) - 1:
        nodes.append(Node(ops.Scale(np.array(1.0)), (output,), "output"))
    return ports, nodes, left_out


def _with_slope(graph: Graph, slope: float) -> Graph:
    """Bare Linear layers with σ of a slope between them, as asked for."""
    linear = [node.operation for node in graph.nodes]
    if not all(isinstance(o, (ops.Linear, ops.Reshape)) for o in linear):
        raise ValueError("the module names its own activations; leave the slope out.")
    layers = [o for o in linear if isinstance(o, ops.Linear)]
    note = f"σ of slope {slope:g}, as asked for, is taken after every layer but the last."
    made = Layers.of(
        [o.weight for o in layers], [o.bias for o in layers], [slope] * (len(layers) - 1), source=graph.source,
        rounding=graph.rounding, notes=(note,),
    )  # fmt: skip
    return Graph.from_layers(made)


def _compared(module: Any, graph: Graph, parameters: list[Any], name: str) -> None:
    """The module's outputs beside the graph's.

    Raises:
        ValueError: they differ, or the module does not run.
    """
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(_PROBES, *shape)) for shape in graph.open_sizes(_OPEN_SIZE)]
    try:
        like = parameters[0] if parameters else None
        given = [_tensor(values, like) for values in inputs]
        theirs = rules.array(module(*given))
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"cannot run the module {name} on inputs of shape {', '.join(str(v.shape[1:]) for v in inputs)}: "
            f"{(str(error).splitlines() or ['?'])[0][:160].rstrip('.')}. Give data of the right shape."
        ) from error
    ours = graph(*(rules.array(v) for v in given))
    size = max(float(np.abs(theirs).max(initial=0.0)), float(np.abs(ours).max(initial=0.0)), 1e-300)
    allowed = 1e4 * graph.rounding * size
    if ours.size != theirs.size or np.abs(ours.reshape(theirs.shape) - theirs).max() > allowed:
        raise ValueError(
            f"cannot read the module {name}: its outputs are not those of the operations that torch.fx traced in it. "
            "Pass a function and inputs, or export it to ONNX."
        )


def _tensor(values: np.ndarray, like: Any) -> Any:
    import torch

    return torch.tensor(values.tolist(), dtype=torch.float64 if like is None else like.dtype)
