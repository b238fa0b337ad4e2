"""Graphs computed by JAX in float64, and their Jacobians multiplied with many vectors at once.

Networks of one structure share their compiled functions: weights are arguments, the structure is static.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from biasfree.models import _operations as ops

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "Tanh": jnp.tanh,
    "Sigmoid": jax.nn.sigmoid,
    "Gelu": functools.partial(jax.nn.gelu, approximate=False),
    "Silu": jax.nn.silu,
    "Elu": jax.nn.elu,
    "Softplus": jax.nn.softplus,
    "Exp": jnp.exp,
    "Abs": jnp.abs,
    "Erf": jax.scipy.special.erf,
    "Sqrt": jnp.sqrt,
}


def outputs(nodes: tuple[Any, ...], values: Sequence[np.ndarray]) -> Any:
    """The value of the last node."""
    return _outputs(nodes, tuple(values))


def everything(nodes: tuple[Any, ...], values: Sequence[np.ndarray], wanted: tuple[int, ...]) -> list[Any]:
    """The values of some places: 0, 1, … are the inputs, then come the nodes."""
    return _places(nodes, tuple(values), wanted)


def shapes(nodes: tuple[Any, ...], values: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """The shape of every value, without the samples' axis; nothing is computed."""
    given = tuple(jax.ShapeDtypeStruct(np.shape(v), np.float64) for v in values)
    return [tuple(v.shape[1:]) for v in jax.eval_shape(_all, nodes, given)]


def along(nodes: tuple[Any, ...], values: Sequence[np.ndarray], tangents: Sequence[np.ndarray]) -> Any:
    """A_x t for each sample with its own t."""
    return _along(nodes, tuple(values), tuple(tangents))


def from_one(nodes: tuple[Any, ...], values: Sequence[np.ndarray], tangents: np.ndarray) -> Any:
    """A_x t for many t at one x (a batch of one sample): masks are found once, all t go through together."""
    return _from_one(nodes, tuple(values), tangents)


def back_to_one(nodes: tuple[Any, ...], values: Sequence[np.ndarray], cotangents: np.ndarray) -> Any:
    """A_xᵀ u for many u at one x."""
    return _back_to_one(nodes, tuple(values), cotangents)


def _all(nodes: tuple[Any, ...], values: tuple[Any, ...]) -> list[Any]:
    computed = list(values)
    for node in nodes:
        computed.append(apply(node.operation, *(computed[i] for i in node.inputs)))
    return computed


@jax.jit
def _outputs(nodes: Any, values: Any) -> Any:
    return _all(nodes, values)[-1]


@functools.partial(jax.jit, static_argnums=2)
def _places(nodes: Any, values: Any, wanted: tuple[int, ...]) -> Any:
    computed = _all(nodes, values)
    return [computed[i] for i in wanted]


@jax.jit
def _along(nodes: Any, values: Any, tangents: Any) -> Any:
    return jax.jvp(lambda *v: _all(nodes, v)[-1], values, tangents)[1]


@jax.jit
def _from_one(nodes: Any, values: Any, tangents: Any) -> Any:
    def product(tangent: Any) -> Any:
        return jax.jvp(lambda first: _all(nodes, (first, *values[1:]))[-1], values[:1], (tangent[None],))[1][0]

    return jax.vmap(product)(tangents)


@jax.jit
def _back_to_one(nodes: Any, values: Any, cotangents: Any) -> Any:
    _, pull = jax.vjp(lambda first: _all(nodes, (first, *values[1:]))[-1], values[0])
    return jax.vmap(lambda u: pull(u[None])[0][0])(cotangents)


# Operations


@functools.singledispatch
def apply(operation: ops.Operation, *values: Any) -> Any:
    """The operation's value."""
    raise TypeError(f"no rule to compute {type(operation).__name__}")


@apply.register
def _(operation: ops.Linear, value: Any) -> Any:
    product = value @ jnp.asarray(operation.weight).T
    return product if operation.bias is None else product + operation.bias


@apply.register
def _(operation: ops.Conv, value: Any) -> Any:
    kernel, stride, padding, apart = plain(operation, jnp.asarray(operation.weight))
    convolved = jax.lax.conv_general_dilated(
        value, kernel, stride, padding, lhs_dilation=apart, rhs_dilation=operation.dilation,
        feature_group_count=operation.groups,
    )  # fmt: skip
    if operation.bias is None:
        return convolved
    return convolved + jnp.asarray(operation.bias).reshape(-1, *(1,) * (kernel.ndim - 2))


def plain(operation: ops.Conv, kernel: Any) -> tuple[Any, ops.Sizes, tuple[tuple[int, int], ...], ops.Sizes]:
    """Kernel, stride and padding of a convolution, and how far apart its inputs are set before it.

    The transpose of a convolution is one: of inputs set apart by the stride, with the kernel turned round.
    """
    rank, padding = kernel.ndim - 2, operation.padding
    if not operation.transposed:
        return kernel, operation.stride, padding, (1,) * rank
    groups, (first, second) = operation.groups, kernel.shape[:2]
    split = kernel.reshape(groups, first // groups, second, *kernel.shape[2:]).swapaxes(1, 2)
    turned = split.reshape(groups * second, first // groups, *kernel.shape[2:])[:, :, *(slice(None, None, -1),) * rank]
    reach = [d * (k - 1) for d, k in zip(operation.dilation, kernel.shape[2:], strict=True)]
    around = tuple((r - low, r - high + e) for r, (low, high), e in zip(reach, padding, operation.extra, strict=True))
    return turned, (1,) * rank, around, operation.stride


@apply.register
def _(operation: ops.Scale, value: Any) -> Any:
    scaled = value * operation.factor
    return scaled if operation.bias is None else scaled + operation.bias


@apply.register
def _(operation: ops.Activation, value: Any) -> Any:
    return jnp.where(value > 0, value, operation.slope * value)


@apply.register
def _(operation: ops.Sum, *values: Any) -> Any:
    return sum(sign * value for sign, value in zip(operation.signs, values, strict=True))


@apply.register
def _(operation: ops.Concat, *values: Any) -> Any:
    return jnp.concatenate(values, axis=operation.axis + 1)


@apply.register
def _(operation: ops.Pool, value: Any) -> Any:
    rank = len(operation.kernel)
    ahead = (1,) * (value.ndim - rank)
    window, stride = (*ahead, *operation.kernel), (*ahead, *operation.stride)
    padding = (*((0, 0),) * len(ahead), *operation.padding)
    if operation.largest:
        return jax.lax.reduce_window(value, -jnp.inf, jax.lax.max, window, stride, padding)
    total = jax.lax.reduce_window(value, 0.0, jax.lax.add, window, stride, padding)
    if operation.count_padding:
        return total / np.prod(operation.kernel)
    return total / jax.lax.reduce_window(jnp.ones_like(value), 0.0, jax.lax.add, window, stride, padding)


@apply.register
def _(operation: ops.Reduce, value: Any) -> Any:
    function: Any = {"mean": jnp.mean, "sum": jnp.sum, "max": jnp.max}[operation.kind]
    return function(value, axis=tuple(a + 1 for a in operation.axes), keepdims=operation.keep)


@apply.register
def _(operation: ops.Reshape, value: Any) -> Any:
    # A −1 must not take the samples' axis for its own, which matters for a batch of none.
    count, known = int(np.prod(value.shape[1:])), int(np.prod([n for n in operation.shape if n >= 0]))
    return value.reshape(len(value), *(count // max(known, 1) if n < 0 else n for n in operation.shape))


@apply.register
def _(operation: ops.Transpose, value: Any) -> Any:
    return value.transpose(0, *(a + 1 for a in operation.order))


@apply.register
def _(operation: ops.Upsample, value: Any) -> Any:
    first = value.ndim - len(operation.factors)
    for axis, factor in enumerate(operation.factors, first):
        value = jnp.repeat(value, factor, axis=axis) if factor > 1 else value
    return value


@apply.register
def _(operation: ops.Pad, value: Any) -> Any:
    axes = [(0, 0)] * (value.ndim - len(operation.widths)) + list(operation.widths)
    inside = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(value.shape, axes, strict=True))
    return jnp.pad(value[inside], [(max(low, 0), max(high, 0)) for low, high in axes], mode=operation.mode)


@apply.register
def _(operation: ops.Elementwise, value: Any) -> Any:
    if operation.function == "Softmax":
        return jax.nn.softmax(value, axis=operation.axis)
    return FUNCTIONS[operation.function](value)


@apply.register
def _(operation: ops.LayerNorm, value: Any) -> Any:
    axes = tuple(range(value.ndim - operation.axes, value.ndim))
    centred = value - value.mean(axes, keepdims=True)
    normalised = centred / jnp.sqrt((centred**2).mean(axes, keepdims=True) + operation.epsilon)
    normalised = normalised if operation.factor is None else normalised * operation.factor
    return normalised if operation.bias is None else normalised + operation.bias


@apply.register
def _(operation: ops.Product, first: Any, second: Any) -> Any:
    return first * second


def _register() -> None:
    from biasfree.models._graph import Node

    for kind in ops.ALL:
        numbers = [f.name for f in fields(kind) if f.metadata.get("numbers")]
        jax.tree_util.register_dataclass(kind, numbers, [f.name for f in fields(kind) if f.name not in numbers])
    # Names do not make another structure. (JAX 0.6's register_dataclass cannot leave out a field.)
    jax.tree_util.register_pytree_node(
        Node, lambda node: ((node.operation,), node.inputs), lambda inputs, parts: Node(parts[0], inputs)
    )


_register()
