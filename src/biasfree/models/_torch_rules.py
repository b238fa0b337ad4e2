"""What each layer and function of PyTorch is as an operation; layers are known by the names of their classes."""

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from biasfree.models import _operations as ops

Made = tuple[ops.Operation, tuple[int, ...]] | int | None

_SAME = ("Identity", "Dropout", "Dropout1d", "Dropout2d", "AlphaDropout")
_SMOOTH = {
    "Tanh": "Tanh", "Sigmoid": "Sigmoid", "GELU": "Gelu", "SiLU": "Silu", "ELU": "Elu", "Softplus": "Softplus",
    "tanh": "Tanh", "sigmoid": "Sigmoid", "gelu": "Gelu", "silu": "Silu", "elu": "Elu", "softplus": "Softplus",
    "exp": "Exp", "abs": "Abs", "sqrt": "Sqrt", "erf": "Erf",
}  # fmt: skip


class UnknownError(ValueError):
    """A layer or a function that we have no rule for."""


def array(tensor: Any) -> np.ndarray:
    """A tensor's numbers in float64."""
    return np.asarray(tensor.detach().cpu().double().numpy())


def rule(node: Any, traced: Any, places: Mapping[Any, int]) -> Made:
    """The operation of a traced node, the place of a value it passes on, or None for a stored tensor.

    Raises:
        UnknownError: no rule for it.
    """
    if node.op == "get_attr":
        return None
    if node.op == "call_module":
        layer = traced.get_submodule(node.target)
        return _layer(layer, f"{type(layer).__name__} ({node.target})", _places(node, places))
    return _function(node, traced, places)


def first_shape(node: Any, traced: Any) -> tuple[int | None, ...]:
    """The shape of an input, from the first layer that takes it."""
    for user in node.users:
        layer: Any = traced.get_submodule(user.target) if user.op == "call_module" else None
        kind = type(layer).__name__
        if kind == "Linear":
            return (int(layer.in_features),)
        if kind.startswith("Conv"):
            return (int(layer.in_channels), *(None,) * len(layer.kernel_size))
        if kind in ("Flatten", *_SAME, "ReLU", "LeakyReLU") or user.op in ("call_function", "call_method"):
            shape = first_shape(user, traced) if user.users else ()
            if shape:
                return shape
    return ()


def _places(node: Any, places: Mapping[Any, int]) -> tuple[int, ...]:
    inputs = tuple(places[a] for a in node.args if a in places)
    if not inputs:
        raise UnknownError(f"{node.target} is not given a computed value")
    return inputs


def _layer(layer: Any, title: str, inputs: tuple[int, ...]) -> Made:
    kind = type(layer).__name__
    bias = array(layer.bias) if hasattr(getattr(layer, "bias", None), "detach") else None
    if kind == "Linear":
        return ops.Linear(array(layer.weight), bias), inputs
    if kind in ("Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"):
        return _conv(layer, bias, title), inputs
    if kind in ("BatchNorm1d", "BatchNorm2d") and layer.running_var is not None:
        rank = 0 if kind == "BatchNorm1d" else 2
        factor = 1 / np.sqrt(array(layer.running_var) + layer.eps)
        factor = factor if layer.weight is None else factor * array(layer.weight)
        shift = (0.0 if bias is None else bias) - factor * array(layer.running_mean)
        axes = (-1, *(1,) * rank)
        return ops.Scale(factor.reshape(axes), shift.reshape(axes), True), inputs
    if kind == "ReLU":
        return ops.Activation(np.zeros(())), inputs
    if kind == "LeakyReLU":
        return ops.Activation(np.array(float(layer.negative_slope))), inputs
    if kind == "PReLU":
        slope = array(layer.weight)
        if slope.size > 1:
            raise UnknownError(f"{title} has a slope per channel; export the network to ONNX")
        return ops.Activation(slope.reshape(())), inputs
    if kind in _SAME:
        return inputs[0]
    if kind == "Flatten" and (layer.start_dim, layer.end_dim) == (1, -1):
        return ops.Reshape((-1,)), inputs
    if kind in ("AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d"):
        return _pool(layer, kind), inputs
    if kind == "AdaptiveAvgPool2d" and layer.output_size in (1, (1, 1)):
        return ops.Reduce("mean", (1, 2), True), inputs
    if kind == "Upsample" and layer.mode == "nearest" and layer.scale_factor is not None:
        factors = _many(layer.scale_factor, 2)
        if all(f == int(f) for f in factors):
            return ops.Upsample(tuple(int(f) for f in factors)), inputs
    if kind == "LayerNorm":
        factor = None if layer.weight is None else array(layer.weight)
        return ops.LayerNorm(factor, bias, len(layer.normalized_shape), float(layer.eps)), inputs
    if kind == "Softmax" and layer.dim is not None and layer.dim != 0:
        return ops.Elementwise("Softmax", int(layer.dim)), inputs
    if kind in _SMOOTH:
        return ops.Elementwise(_SMOOTH[kind]), inputs
    raise UnknownError(f"{title} is not a layer we know")


def _conv(layer: Any, bias: np.ndarray | None, title: str) -> ops.Conv:
    if layer.padding_mode != "zeros":
        raise UnknownError(f"{title} pads by {layer.padding_mode}")
    rank, transposed = len(layer.kernel_size), "Transpose" in type(layer).__name__
    if layer.padding == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        padding = tuple((n // 2, n - n // 2) for n in total)
    else:
        padding = tuple((int(p), int(p)) for p in ((0,) * rank if layer.padding == "valid" else layer.padding))
    extra = tuple(layer.output_padding) if transposed else (0,) * rank
    return ops.Conv(
        array(layer.weight), bias, tuple(layer.stride), padding, tuple(layer.dilation), int(layer.groups), transposed,
        extra,
    )  # fmt: skip


def _pool(layer: Any, kind: str) -> ops.Pool:
    rank, largest = int(kind[-2]), kind.startswith("Max")
    if layer.ceil_mode or (largest and (layer.return_indices or _many(layer.dilation, rank) != (1,) * rank)):
        raise UnknownError(f"{kind} with ceil_mode, dilation or indices is not one we know")
    kernel, padding = _many(layer.kernel_size, rank), _many(layer.padding, rank)
    stride = kernel if layer.stride is None else _many(layer.stride, rank)
    counted = not largest and layer.count_include_pad
    return ops.Pool(largest, kernel, stride, tuple((p, p) for p in padding), counted)


def _many(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


# Functions and methods


def _function(node: Any, traced: Any, places: Mapping[Any, int]) -> Made:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    arguments = list(node.args)
    if name in ("add", "sub", "mul", "truediv", "iadd", "isub", "imul") and len(arguments) == 2:
        return _arithmetic(name.removeprefix("i"), arguments, traced, places)
    if name in ("cat", "concat") and arguments:
        axis = arguments[1] if len(arguments) > 1 else node.kwargs.get("dim", 0)
        if axis < 1:
            raise UnknownError("cat along the samples' axis, or an axis counted from the end, is not one we know")
        return ops.Concat(axis - 1), tuple(places[a] for a in arguments[0])
    if name in ("size", "getattr", "getitem"):
        return None
    inputs = _places(node, places)
    if name in ("relu", "relu_"):
        return ops.Activation(np.zeros(())), inputs
    if name in ("leaky_relu", "leaky_relu_"):
        slope = arguments[1] if len(arguments) > 1 else node.kwargs.get("negative_slope", 0.01)
        return ops.Activation(np.array(float(slope))), inputs
    if name in ("dropout", "contiguous", "float", "double"):
        if name == "dropout" and node.kwargs.get("training", arguments[2] if len(arguments) > 2 else True):
            raise UnknownError("dropout in training mode is random")
        return inputs[0]
    if name == "flatten" and (arguments[1:] or [node.kwargs.get("start_dim", 0)])[0] == 1 and len(arguments) <= 2:
        return ops.Reshape((-1,)), inputs
    if name in ("view", "reshape") and len(arguments) > 1:
        return _reshape(arguments[1:], places), inputs
    if name == "neg":
        return ops.Scale(np.array(-1.0)), inputs
    if name == "softmax" and node.kwargs.get("dim", arguments[1] if len(arguments) > 1 else 0) not in (0, None):
        return ops.Elementwise(
            "Softmax", int(node.kwargs.get("dim", arguments[1] if len(arguments) > 1 else 0))
        ), inputs
    if name in ("mean", "amax", "sum"):
        axes = arguments[1] if len(arguments) > 1 else node.kwargs.get("dim")
        axes = (axes,) if isinstance(axes, int) else axes
        if axes and all(a > 0 for a in axes):
            kind = "max" if name == "amax" else name
            return ops.Reduce(kind, tuple(a - 1 for a in axes), bool(node.kwargs.get("keepdim", False))), inputs
    if name in _SMOOTH:
        return ops.Elementwise(_SMOOTH[name]), inputs
    raise UnknownError(f"the function {name} is not one we know")


def _arithmetic(name: str, arguments: list[Any], traced: Any, places: Mapping[Any, int]) -> Made:
    first, second = arguments
    if first in places and second in places:
        if name == "truediv":
            raise UnknownError("one computed value is divided by another")
        if name == "mul":
            return ops.Product(), (places[first], places[second])
        return ops.Sum((1, 1 if name == "add" else -1)), (places[first], places[second])
    value, other = (first, second) if first in places else (second, first)
    if value not in places:
        raise UnknownError(f"{name} of stored numbers alone")
    number = _stored(other, traced)
    if name == "truediv" and value is second:
        raise UnknownError("a number is divided by a computed value")
    if name in ("mul", "truediv"):
        return ops.Scale(number if name == "mul" else 1 / number), (places[value],)
    sign = -1.0 if name == "sub" else 1.0
    if value is second:
        return ops.Scale(np.array(sign), number), (places[value],)
    return ops.Scale(np.array(1.0), sign * number), (places[value],)


def _stored(value: Any, traced: Any) -> np.ndarray:
    if isinstance(value, (int, float)):
        return np.array(float(value))
    if getattr(value, "op", None) != "get_attr":
        raise UnknownError("a value that is neither computed from the input nor stored")
    values = array(operator.attrgetter(value.target)(traced))
    return values[0] if values.ndim > 1 and values.shape[0] == 1 else values


def _reshape(shape: list[Any], places: Mapping[Any, int]) -> ops.Reshape:
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if len(sizes) < 2 or not all(isinstance(n, int) for n in sizes[1:]):
        raise UnknownError("a reshape to sizes that are worked out")
    # The samples' axis is a traced size, or −1 with all others given.
    if isinstance(sizes[0], int) and (sizes[0] != -1 or -1 in sizes[1:]):
        raise UnknownError(f"a reshape to {tuple(sizes)}, which is not one row per sample")
    return ops.Reshape(tuple(sizes[1:]))
