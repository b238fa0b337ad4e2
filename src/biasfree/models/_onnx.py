"""ONNX files, by the onnx package: parsed, checked, and followed from the inputs to the output. Nothing is executed.

Limits are looked at before anything is read into arrays: bytes of the file and of its external data, nodes, tensors.
"""

from pathlib import Path
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models import _onnx_operators as operators
from biasfree.models._folding import folded
from biasfree.models._graph import Graph, Port
from biasfree.models._onnx_builder import Builder

_MOST_BYTES = 2**28
_MOST_NODES = 10_000
_MOST_DIMS = 8
# Floating types by their names in the format, with the relative rounding of each; whole numbers serve as shapes.
_ROUNDING = {"FLOAT": 2.0**-24, "DOUBLE": 2.0**-53, "FLOAT16": 2.0**-11, "BFLOAT16": 2.0**-8}
_WHOLE = ("INT64", "INT32", "BOOL", "UINT8", "INT8")


def read_onnx(source: Path) -> Graph:
    """The graph in an ONNX file, its external data included.

    Raises:
        ValueError: a broken file, one beyond our limits, or one of whose beginning nothing can be read.
    """
    checks.installed("onnx", extra="onnx", what="reading ONNX")
    size = source.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: {size:,} bytes are more than the {_MOST_BYTES:,} we take in.")
    try:
        proto = _parsed(source.read_bytes())
        _with_external_data(proto, source.parent, _MOST_BYTES - size)
        _checked(proto)
        return _followed(proto, f"{source.name} (ONNX)")
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as an ONNX network: {str(error).rstrip('.')}.") from error


def _parsed(data: bytes) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise ValueError("it is not an ONNX model, or is damaged") from error
    if not proto.HasField("graph"):
        raise ValueError("it holds no graph")
    if len(proto.graph.node) > _MOST_NODES:
        raise ValueError(f"it has more than {_MOST_NODES:,} nodes")
    if proto.graph.sparse_initializer:
        raise ValueError("it stores sparse weights, which we do not read; export them dense")
    return proto


def _with_external_data(proto: Any, folder: Path, most: int) -> None:
    """Load weights that lie in files beside the model: the default of ``torch.onnx.export`` for large ones."""
    import onnx
    from onnx import external_data_helper

    held = [t for t in proto.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    total = 0
    for tensor in held:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        place = folder / entries.get("location", "")
        if "location" not in entries or not place.is_file():
            raise ValueError(
                f"the weights {tensor.name[:40]!r} are in the file {entries.get('location', '?')[:60]!r}, which is not "
                "beside it; keep both files together"
            )
        try:
            begin = int(entries.get("offset", 0))
            length = int(entries.get("length", place.stat().st_size - begin))
        except ValueError as error:
            raise ValueError(f"the place of the weights {tensor.name[:40]!r} is no number") from error
        total += max(length, 0)
        if total > most:
            raise ValueError(f"its external data are more than the {_MOST_BYTES:,} bytes we take in")
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except (onnx.checker.ValidationError, ValueError, OSError, RuntimeError, OverflowError) as error:
            raise ValueError(f"its external data cannot be read: {_first_line(error)}") from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _checked(proto: Any) -> None:
    import onnx

    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        # The checker raises types of its own from C++, RuntimeError and TypeError among them.
        raise ValueError(f"the checker of the onnx package refuses it: {_first_line(error)}") from error


def _followed(proto: Any, source: str) -> Graph:
    import onnx

    graph, rounding = proto.graph, 0.0
    constants: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.name in constants:
            raise ValueError(f"the tensor {tensor.name[:40]!r} is stored twice")
        constants[tensor.name], rounded = stored_values(tensor)
        rounding = max(rounding, rounded)
    ports, notes = [], []
    for value in graph.input:
        if value.name not in constants:
            port, note = _port(value, graph, constants)
            ports.append(port)
            notes += [note] if note else []
    if not ports:
        raise ValueError("it has no input that is not stored in it")
    if not graph.node:
        raise ValueError("its graph holds no operations")
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    except Exception:
        inferred = graph  # shapes of values are a help, not a need
    known = {v.name: _shape(v) for v in (*graph.input, *inferred.value_info, *inferred.output)}
    builder = Builder(
        operators.OPERATORS, constants, [p.name for p in ports], {k: v for k, v in known.items() if v is not None}
    )
    for node in graph.node:
        rounding = max(rounding, *(stored_values(a.t)[1] for a in node.attribute if a.HasField("t")), 0.0)
        builder.add(node)
    nodes, left_out = builder.finished([value.name for value in graph.output])
    whole = Graph(tuple(ports), tuple(nodes), source, rounding or 2.0**-53, (*notes, *builder.notes), tuple(left_out))
    return folded(whole)


def stored_values(tensor: Any) -> tuple[np.ndarray, float]:
    """Stored numbers, float64 or int64, with the relative rounding they were stored with."""
    import onnx

    shown, kind = repr(tensor.name[:40]), onnx.TensorProto.DataType.Name(tensor.data_type)
    if len(tensor.dims) > _MOST_DIMS:
        raise ValueError(f"the tensor {shown} has more than {_MOST_DIMS} dimensions")
    if kind not in _ROUNDING and kind not in _WHOLE:
        raise ValueError(f"the tensor {shown} is of type {kind}; only floating and whole numbers are read")
    try:
        values = onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(
            f"the tensor {shown} declares shape {list(tensor.dims)[:_MOST_DIMS]}, and its data are of another size"
        ) from error
    if kind in _WHOLE:
        return values.astype(np.int64), 0.0
    numbers = values.astype(np.float64)
    bad = ~np.isfinite(numbers)
    # Infinity is a bound of Clip; anywhere else a weight that is no number has no meaning.
    if bad.any() and numbers.size > 1:
        raise ValueError(f"the tensor {shown} holds {int(bad.sum())} entries that are not finite")
    return numbers, _ROUNDING[kind]


def _shape(value: Any) -> list[int | None] | None:
    """The declared sizes, None where open; None when there is no shape at all."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim]


def _port(value: Any, graph: Any, constants: dict[str, np.ndarray]) -> tuple[Port, str | None]:
    shape = _shape(value)
    users = [node for node in graph.node if value.name in node.input]
    if not users:
        raise ValueError(f"its input {value.name[:40]!r} is not used by any operation")
    width = next((operators.inputs_of(node, constants) for node in users if len(node.input) > 1), None)
    if shape is None or len(shape) < 2:
        if width is None or (shape is not None and len(shape) == 1):
            raise ValueError(
                f"its input {value.name[:40]!r} has {'no' if shape is None else 'one'} declared size; export it with "
                "the samples as the first axis"
            )
        shape = [None, width]
    sizes = tuple(shape[1:])
    if len(sizes) == 1 and sizes[0] is None and width is not None:
        sizes = (width,)
    if len(sizes) > 1 and operators.is_chain_start(users):
        return Port(value.name, sizes), "Inputs are taken flattened, row by row."
    return Port(value.name, sizes), None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:1])[:160].rstrip(".") or type(error).__name__
