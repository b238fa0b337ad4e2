"""Operations on stored tensors alone, carried out while a file is read: those that exporters write."""

from collections.abc import Callable
from typing import Any

import numpy as np

_MOST = 2**24


class FoldedTooMuch(Exception):  # noqa: N818
    """More numbers than we take in; its text says how many."""


def _constant(attributes: dict[str, Any]) -> np.ndarray:
    from biasfree.models._onnx import stored_values

    if "value" in attributes:
        return stored_values(attributes["value"])[0]
    for name in ("value_float", "value_floats"):
        if name in attributes:
            return np.asarray(attributes[name], dtype=np.float64)
    for name in ("value_int", "value_ints"):
        if name in attributes:
            return np.asarray(attributes[name], dtype=np.int64)
    raise ValueError("a constant that is no tensor")


def _turned(attributes: dict[str, Any], values: np.ndarray) -> np.ndarray:
    order = attributes.get("perm", list(range(values.ndim))[::-1])
    return values.transpose([int(n) for n in order])


def _cast_stored(attributes: dict[str, Any], values: np.ndarray) -> np.ndarray:
    from onnx import TensorProto

    whole = attributes["to"] in (TensorProto.INT64, TensorProto.INT32)
    return values.astype(np.int64 if whole else np.float64)


def _reshape_stored(attributes: dict[str, Any], values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return values.reshape([values.shape[i] if n == 0 else int(n) for i, n in enumerate(shape.reshape(-1))])


def _axes_of(attributes: dict[str, Any], axes: tuple[np.ndarray, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in (axes[0].reshape(-1) if axes else attributes["axes"]))


def _together(function: Callable[..., Any], first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Entry by entry, if what broadcasting makes is not too much."""
    return np.asarray(function(*_bounded(int(np.prod(np.broadcast_shapes(first.shape, second.shape))), first, second)))


def _gathered(values: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
    values, at = _bounded(at.size * values.size // max(values.shape[axis], 1), values, at)
    return np.take(values, at, axis=axis)


def _bounded(count: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    if count > _MOST:
        raise FoldedTooMuch(f"{count:,}")
    return arrays


FOLDS: dict[str, Callable[..., np.ndarray]] = {
    "Constant": _constant,
    "Identity": lambda attributes, values: values,
    "Transpose": _turned,
    "Cast": _cast_stored,
    "Reshape": _reshape_stored,
    "Unsqueeze": lambda attributes, values, *axes: np.expand_dims(values, _axes_of(attributes, axes)),
    "Squeeze": lambda attributes, values, *axes: np.squeeze(values, _axes_of(attributes, axes)),
    "Concat": lambda attributes, *values: np.concatenate(values, axis=int(attributes["axis"])),
    "Gather": lambda attributes, values, at: _gathered(values, at, int(attributes.get("axis", 0))),
    "Add": lambda attributes, first, second: _together(np.add, first, second),
    "Sub": lambda attributes, first, second: _together(np.subtract, first, second),
    "Mul": lambda attributes, first, second: _together(np.multiply, first, second),
    "Sqrt": lambda attributes, values: np.sqrt(values),
    "Neg": lambda attributes, values: -values,
}
