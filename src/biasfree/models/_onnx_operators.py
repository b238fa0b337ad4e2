"""ONNX operators as operations of a graph, one small function each; the batch is the first axis of every value."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from biasfree.models import _operations as ops
from biasfree.models._onnx_builder import Call, Made, UnknownError, attributes_of


def inputs_of(proto: Any, constants: dict[str, np.ndarray]) -> int | None:
    """How many numbers a node takes that multiplies by a stored matrix from the right."""
    weight = constants.get(proto.input[1]) if proto.op_type in ("MatMul", "Gemm") else None
    if weight is None or weight.ndim != 2:
        return None
    turned = proto.op_type == "Gemm" and attributes_of(proto).get("transB", 0)
    return int(weight.shape[1 if turned else 0])


def is_chain_start(users: list[Any]) -> bool:
    """Whether an input goes straight into a Flatten or a Reshape."""
    return len(users) == 1 and users[0].op_type in ("Flatten", "Reshape")


# Layers


def _matmul(call: Call) -> Made:
    if call.names[0] in call.builder.constants:
        raise ValueError(f"the node {call.title} multiplies from the left; export a network whose samples are rows")
    return ops.Linear(_matrix(call, call.needed(1)).T), (call.value(),)


def _gemm(call: Call) -> Made:
    if call.names[0] in call.builder.constants:
        raise ValueError(f"the node {call.title} multiplies from the left; export a network whose samples are rows")
    if call.get("transA", 0):
        raise ValueError(f"the node {call.title} transposes its input, whose rows are samples")
    matrix = _matrix(call, call.needed(1))
    weight = float(call.get("alpha", 1.0)) * (matrix if call.get("transB", 0) else matrix.T)
    bias = call.stored(2)
    if bias is not None:
        if bias.size not in (1, len(weight)) or (bias.ndim > 1 and bias.shape[0] != 1):
            raise ValueError(f"the node {call.title} adds a bias of shape {bias.shape} to {len(weight)} neurons")
        bias = float(call.get("beta", 1.0)) * np.broadcast_to(bias.reshape(-1), len(weight)).astype(float)
    return ops.Linear(weight, bias), (call.value(),)


def _matrix(call: Call, matrix: np.ndarray) -> np.ndarray:
    if matrix.ndim != 2 or not matrix.size or matrix.dtype != np.float64:
        raise ValueError(
            f"the node {call.title} multiplies by stored numbers of shape {matrix.shape} and type {matrix.dtype}, no "
            "matrix of weights"
        )
    shape = call.shape()
    turned = bool(call.get("transB", 0))
    width = matrix.shape[1 if turned else 0]
    if shape is not None and shape[-1] is not None and shape[-1] != width:
        raise ValueError(f"widths must chain: the node {call.title} takes {width} numbers and is given {shape[-1]}")
    return np.asarray(matrix, dtype=float)


def _conv(call: Call, transposed: bool = False) -> Made:
    weight, bias = call.needed(1), call.stored(2)
    rank = weight.ndim - 2
    if rank not in (1, 2) or weight.dtype != np.float64:
        raise UnknownError(f"the node {call.title} has a kernel of shape {weight.shape}; 1-d and 2-d ones are read")
    groups = int(call.get("group", 1))
    stride = tuple(map(int, call.get("strides", [1] * rank)))
    dilation = tuple(map(int, call.get("dilations", [1] * rank)))
    extra = tuple(map(int, call.get("output_padding", [0] * rank)))
    if "output_shape" in call.attributes:
        raise UnknownError(f"the node {call.title} states its output's shape")
    lists = (stride, dilation, extra)
    if any(len(each) != rank for each in lists) or min(*stride, *dilation, groups) < 1 or weight.shape[0] % groups:
        raise ValueError(f"the attributes of the node {call.title} do not fit its kernel of shape {weight.shape}")
    padding = _padding(call, weight.shape[2:], stride, dilation)
    made = ops.Conv(weight, bias, stride, padding, dilation, groups, transposed, extra)
    if bias is not None and bias.shape != (made.channels[1],):
        raise ValueError(f"the node {call.title} adds a bias of shape {bias.shape} to {made.channels[1]} channels")
    shape = call.shape()
    if shape is not None and len(shape) == rank + 2 and shape[1] not in (None, made.channels[0]):
        raise ValueError(f"the node {call.title} takes {made.channels[0]} channels and is given {shape[1]}")
    return made, (call.value(),)


def _padding(
    call: Call, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    rank = len(kernel)
    automatic = call.get("auto_pad", b"NOTSET")
    automatic = automatic.decode() if isinstance(automatic, bytes) else str(automatic)
    if automatic in ("NOTSET", ""):
        pads = [int(n) for n in call.get("pads", [0] * 2 * rank)]
        if len(pads) != 2 * rank:
            raise ValueError(f"the node {call.title} pads {len(pads)} sides of {rank} axes")
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    if automatic == "VALID":
        return ((0, 0),) * rank
    if any(s != 1 for s in stride):
        raise UnknownError(f"the node {call.title} pads by {automatic} with a stride; export explicit padding")
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    half = [(n // 2, n - n // 2) for n in total]
    return tuple(half if automatic == "SAME_UPPER" else [(b, a) for a, b in half])


def _batch_norm(call: Call) -> Made:
    if call.get("training_mode", 0):
        raise UnknownError(f"the node {call.title} is in training mode; export the network in evaluation mode")
    scale, bias, mean, variance = (call.needed(i) for i in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + float(call.get("epsilon", 1e-5)))
    rank = call.rank()
    axes = (-1, *(1,) * ((rank or 2) - 2))
    return ops.Scale(factor.reshape(axes), (bias - mean * factor).reshape(axes), True), (call.value(),)


# Combining


def _add(call: Call, sign: int = 1) -> Made:
    if len(call.names) > 2:
        return ops.Sum((1,) * len(call.names)), tuple(call.value(i) for i in range(len(call.names)))
    kept = [i for i in (0, 1) if call.names[i] in call.builder.places]
    if len(kept) == 2:
        return ops.Sum((1, sign)), (call.value(0), call.value(1))
    value = call.value(kept[0])
    other = call.same(call.needed(1 - kept[0]))
    _fits(call, other, kept[0])
    first = sign if kept[0] == 1 else 1
    return ops.Scale(np.array(float(first)), other if kept[0] == 1 else sign * other), (value,)


def _multiply(call: Call, divide: bool = False) -> Made:
    kept = [i for i in (0, 1) if call.names[i] in call.builder.places]
    if len(kept) == 2:
        if divide:
            raise UnknownError(f"the node {call.title} divides one computed value by another")
        return ops.Product(), (call.value(0), call.value(1))
    if divide and kept[0] == 1:
        raise UnknownError(f"the node {call.title} divides by a computed value")
    other = call.same(call.needed(1 - kept[0]))
    _fits(call, other, kept[0])
    if divide and (other == 0).any():
        raise ValueError(f"the node {call.title} divides by zero")
    return ops.Scale(1 / other if divide else other), (call.value(kept[0]),)


def _fits(call: Call, other: np.ndarray, index: int) -> None:
    shape = call.shape(index)
    if shape is None:
        return
    for want, have in zip(shape[:0:-1], other.shape[::-1], strict=False):
        if want is not None and have not in (1, want):
            raise ValueError(
                f"the node {call.title} combines {want} numbers per sample with {have} stored ones; a bias has one "
                "number per neuron"
            )


def _concat(call: Call) -> Made:
    places = tuple(call.value(i) for i in range(len(call.names)))
    return ops.Concat(call.axis(int(call.get("axis", 1)))), places


# Activations


def _relu(call: Call) -> Made:
    return ops.Activation(np.zeros(())), (call.value(),)


def _leaky_relu(call: Call) -> Made:
    # Attributes are float32, so 0.01 is 0.00999999977…, also in a float64 network.
    return ops.Activation(np.array(_finite(call, float(call.get("alpha", np.float32(0.01)))))), (call.value(),)


def _prelu(call: Call) -> Made:
    return ops.Activation(call.same(call.needed(1))), (call.value(),)


def _clip(call: Call) -> Made:
    low = call.stored(1) if len(call.names) > 1 else call.attributes.get("min")
    high = call.stored(2) if len(call.names) > 2 else call.attributes.get("max")
    if low is not None and float(low) == 0 and (high is None or float(high) >= 3e38):
        return ops.Activation(np.zeros(())), (call.value(),)
    raise UnknownError(f"the node {call.title} clips; only Clip from 0 on, a ReLU, is read")


def _smooth(name: str) -> Callable[[Call], Made]:
    return lambda call: (ops.Elementwise(name), (call.value(),))


def _softmax(call: Call) -> Made:
    return ops.Elementwise("Softmax", call.axis(int(call.get("axis", -1))) + 1), (call.value(),)


def _layer_norm(call: Call) -> Made:
    if len(call.outputs) > 1:
        raise UnknownError(f"the node {call.title} gives its mean and spread too")
    rank, axis = call.rank(), int(call.get("axis", -1))
    if rank is None and axis >= 0:
        raise UnknownError(f"the node {call.title} counts axes of a value of unknown shape")
    axes = -axis if axis < 0 else (rank or 0) - axis
    made = ops.LayerNorm(call.stored(1), call.stored(2), axes, float(call.get("epsilon", 1e-5)))
    return made, (call.value(),)


def _finite(call: Call, number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"the slope of the node {call.title} is {number}")
    return number


# Shapes


def _identity(call: Call) -> Made:
    return call.value()


def _dropout(call: Call) -> Made:
    training = call.stored(2) if len(call.names) > 2 else None
    if training is not None and bool(np.any(training)):
        raise UnknownError(f"the node {call.title} is in training mode; export the network in evaluation mode")
    if len(call.outputs) > 1:
        raise UnknownError(f"the node {call.title} gives its mask too")
    return call.value()


def _cast(call: Call) -> Made:
    from onnx import TensorProto

    to = int(call.get("to", TensorProto.FLOAT))
    if to not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        raise UnknownError(f"the node {call.title} makes whole numbers of its input")
    note = "Casts between floating types are left out: everything is computed in float64."
    call.builder.notes += [note] if note not in call.builder.notes else []
    return call.value()


def _flatten(call: Call) -> Made:
    axis = int(call.get("axis", 1))
    if axis < 0 and call.rank() is not None:
        axis += call.rank() or 0
    if axis != 1:
        raise ValueError(
            f"the node {call.title} flattens from axis {axis}; only 1, one row per sample, keeps samples apart"
        )
    return ops.Reshape((-1,)), (call.value(),)


def _reshape(call: Call) -> Made:
    wanted, given = call.whole(1), call.shape()
    if not wanted:
        raise ValueError(f"the node {call.title} reshapes to no axes")
    first = wanted[0]
    # The samples' axis: 0 copies it, −1 works it out, and a fixed batch of the export is that size.
    batch = given[0] if given else None
    samples = first in (-1, 0) or (batch is not None and first == batch)
    rest = [(given[i] if given and i < len(given) else None) if n == 0 else n for i, n in enumerate(wanted[1:], 1)]
    if not samples or any(n is None for n in rest) or sum(n == -1 for n in (*rest, *([-1] if first == -1 else []))) > 1:
        raise ValueError(f"the node {call.title} reshapes to {tuple(wanted)}, which is not one row per sample")
    if given and first == -1 and all(n is not None for n in given[1:]):
        per_sample = math.prod(n or 1 for n in given[1:])
        if math.prod(n or 1 for n in rest) != per_sample:
            raise ValueError(f"the node {call.title} reshapes {per_sample} numbers per sample to {tuple(rest)}")
    return ops.Reshape(tuple(int(n or 0) for n in rest)), (call.value(),)


def _squeeze(call: Call) -> Made:
    shape = call.shape()
    axes = call.whole(1) if len(call.names) > 1 and call.names[1] else call.get("axes", None)
    if shape is None or axes is None or any(n is None for n in shape[1:]):
        raise UnknownError(f"the node {call.title} drops axes of a value of unknown shape")
    dropped = {call.axis(int(a)) for a in axes}
    return ops.Reshape(tuple(int(n or 1) for i, n in enumerate(shape[1:]) if i not in dropped)), (call.value(),)


def _unsqueeze(call: Call) -> Made:
    shape = call.shape()
    axes = call.whole(1) if len(call.names) > 1 else [int(a) for a in call.get("axes", [])]
    if shape is None or any(n is None for n in shape[1:]) or any(a == 0 for a in axes):
        raise UnknownError(f"the node {call.title} adds axes to a value of unknown shape")
    sizes: list[int | None] = list(shape)
    total = len(shape) + len(axes)
    for a in sorted(a % total for a in axes):
        sizes.insert(a, 1)
    return ops.Reshape(tuple(int(n or 1) for n in sizes[1:])), (call.value(),)


def _transpose(call: Call) -> Made:
    order = [int(n) for n in call.get("perm", [])]
    if not order or order[0] != 0:
        raise ValueError(f"the node {call.title} transposes its input, whose rows are samples")
    return ops.Transpose(tuple(n - 1 for n in order[1:])), (call.value(),)


def _shape_of(call: Call) -> Made:
    shape = call.shape()
    if shape is None or any(n is None for n in shape[1:]):
        raise UnknownError(f"the node {call.title} asks for a shape that is not known")
    # 0 stands for the samples' axis: a Reshape copies it.
    whole = np.array([0, *(n or 0 for n in shape[1:])])
    return whole[int(call.get("start", 0)) : call.attributes.get("end")]


# Pooling and sizes


def _pool(largest: bool) -> Callable[[Call], Made]:
    def rule(call: Call) -> Made:
        kernel = tuple(map(int, call.get("kernel_shape", [])))
        rank = len(kernel)
        stride = tuple(map(int, call.get("strides", [1] * rank)))
        dilation = tuple(map(int, call.get("dilations", [1] * rank)))
        if call.get("ceil_mode", 0) or any(d != 1 for d in dilation) or len(call.outputs) > 1 or not kernel:
            raise UnknownError(f"the node {call.title} pools with ceil_mode, dilation or indices")
        padding = _padding(call, kernel, stride, dilation)
        return ops.Pool(largest, kernel, stride, padding, bool(call.get("count_include_pad", 0))), (call.value(),)

    return rule


def _whole_pool(kind: str) -> Callable[[Call], Made]:
    def rule(call: Call) -> Made:
        rank = call.rank()
        if rank is None or rank < 3:
            raise UnknownError(f"the node {call.title} pools a value of unknown shape")
        return ops.Reduce(kind, tuple(range(1, rank - 1)), True), (call.value(),)

    return rule


def _reduce(kind: str) -> Callable[[Call], Made]:
    def rule(call: Call) -> Made:
        axes = call.whole(1) if len(call.names) > 1 and call.names[1] else call.get("axes", None)
        if axes is None:
            raise UnknownError(f"the node {call.title} works along the samples' axis")
        reduced = tuple(sorted(call.axis(int(a)) for a in axes))
        return ops.Reduce(kind, reduced, bool(call.get("keepdims", 1))), (call.value(),)

    return rule


def _resize(call: Call) -> Made:
    mode = call.get("mode", b"nearest")
    scales = next((call.stored(i) for i in (2, 1) if i < len(call.names) and call.names[i]), None)
    sizes = call.stored(3) if len(call.names) > 3 else None
    shape = call.shape()
    if sizes is not None and shape is not None and all(shape[1:]):
        scales = np.array([1.0, *(s / n for s, n in zip(sizes[1:], [n or 1 for n in shape[1:]], strict=False))])
    whole = scales is not None and scales.size and np.all(scales == np.round(scales)) and np.all(scales >= 1)
    if mode not in (b"nearest", "nearest") or scales is None or not whole or scales[0] != 1:
        raise UnknownError(f"the node {call.title} resizes otherwise than to a multiple by the nearest neighbour")
    coordinates = call.get("coordinate_transformation_mode", b"half_pixel")
    rounding = call.get("nearest_mode", b"round_prefer_floor")
    # For whole multiples these two pairs repeat every entry; others shift by one.
    if (coordinates, rounding) not in (
        (b"asymmetric", b"floor"), (b"half_pixel", b"round_prefer_floor"), (b"half_pixel", b"round_prefer_ceil")
    ) and call.title.startswith("Resize"):  # fmt: skip
        raise UnknownError(f"the node {call.title} resizes by {coordinates!r}, {rounding!r}")
    return ops.Upsample(tuple(int(n) for n in scales[1:])), (call.value(),)


def _pad(call: Call) -> Made:
    mode = call.get("mode", b"constant")
    mode = mode.decode() if isinstance(mode, bytes) else str(mode)
    pads = call.whole(1) if len(call.names) > 1 else [int(n) for n in call.get("pads", [])]
    value = call.stored(2) if len(call.names) > 2 else None
    if len(call.names) > 3 or mode not in ("constant", "reflect", "edge") or (value is not None and np.any(value)):
        raise UnknownError(f"the node {call.title} pads otherwise than by zeros, reflection or repetition")
    rank = len(pads) // 2
    widths = tuple(zip(pads[:rank], pads[rank:], strict=True))
    if not widths or widths[0] != (0, 0):
        raise UnknownError(f"the node {call.title} pads the samples' axis")
    return ops.Pad(widths[1:], mode), (call.value(),)


OPERATORS: dict[str, Callable[[Call], Made]] = {
    "MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvTranspose": lambda call: _conv(call, True),
    "BatchNormalization": _batch_norm, "Add": _add, "Sum": _add, "Sub": lambda call: _add(call, -1),
    "Mul": _multiply, "Div": lambda call: _multiply(call, True), "Concat": _concat,
    "Neg": lambda call: (ops.Scale(np.array(-1.0)), (call.value(),)),
    "Relu": _relu, "LeakyRelu": _leaky_relu, "PRelu": _prelu, "Clip": _clip, "Softmax": _softmax,
    "Tanh": _smooth("Tanh"), "Sigmoid": _smooth("Sigmoid"), "Erf": _smooth("Erf"), "Exp": _smooth("Exp"),
    "Softplus": _smooth("Softplus"), "Abs": _smooth("Abs"), "Sqrt": _smooth("Sqrt"), "LayerNormalization": _layer_norm,
    "Identity": _identity, "Dropout": _dropout, "Cast": _cast, "Flatten": _flatten, "Reshape": _reshape,
    "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Transpose": _transpose, "Shape": _shape_of,
    "AveragePool": _pool(False), "MaxPool": _pool(True), "GlobalAveragePool": _whole_pool("mean"),
    "GlobalMaxPool": _whole_pool("max"), "ReduceMean": _reduce("mean"), "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("max"), "Resize": _resize, "Upsample": _resize, "Pad": _pad,
}  # fmt: skip
