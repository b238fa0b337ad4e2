"""Many descents at once, in one compiled loop: for shares of draws, and for studies that must be quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import biasfree as bf
from biasfree import losses
from biasfree.dynamics import _field
from biasfree.networks import Architecture

_FEW = 8  # samples up to which a gradient is written out
_TWO_LAYERS = Architecture((True,), (0, 0))


@dataclass(frozen=True)
class Draw:
    """One of the descents, with the attributes of a Trajectory that studies use.

    Attributes:
        times: t = ηk of the saves, the start first.
        losses: at these times.
        weights: per layer, shape (saved, out, in).
        template: the start.
        dataset: what it was trained on.
    """

    times: np.ndarray
    losses: np.ndarray
    weights: tuple[np.ndarray, ...]
    template: bf.Network
    dataset: bf.Dataset


def saved_network(run: bf.Trajectory | Draw, save: int) -> bf.Network:
    """One of the saved networks, without building the hundreds of others."""
    return run.template.with_weights([layer[save] for layer in run.weights])


def descents(
    starts: Sequence[bf.Network],
    data: Sequence[bf.Dataset],
    *,
    loss: str = "square",
    learning_rate: float,
    steps: int,
    save: int,
) -> list[Draw]:
    """Descent from each start on its own set, all of one shape, saved ``save`` times."""
    # Stacked by NumPy: JAX would compile a function for each shape.
    problems = [_field.problem(start, each, loss, 0.0) for start, each in zip(starts, data, strict=True)]
    weights, problem = (_stacked(each) for each in ([start.weights for start in starts], problems))
    kind, stride = _field.Kind(loss, starts[0].architecture), steps // save
    saved, logarithms = _descend(weights, problem, learning_rate, stride, saves=save, kind=kind)
    times, losses = learning_rate * stride * np.arange(save + 1), np.exp(np.asarray(logarithms))
    layers = tuple(map(np.asarray, saved))
    return [
        Draw(times, losses[:, k], tuple(layer[:, k] for layer in layers), starts[k], data[k])
        for k in range(len(starts))
    ]


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(list(map(np.asarray, leaves))), *trees)


def _written_out(weights: Any, problem: _field.Problem, kind: _field.Kind) -> Any:
    """``_field.velocity`` of two layers with one output, without decay, sample by sample: products of few cost more."""
    first, second = weights
    inputs, slope, dims = problem.inputs, problem.slope, range(first.shape[1])
    met = [sum(first[:, d] * x[d] for d in dims) for x in inputs]
    hidden = [jnp.where(h > 0, h, slope * h) for h in met]
    outputs = jnp.stack([jnp.sum(second[0] * h) for h in hidden])[None]
    error = losses.get(kind.loss).residual(outputs, problem.targets)[0] / len(inputs)
    pulls = [jnp.where(h > 0, 1.0, slope) * second[0] * e for h, e in zip(met, error, strict=True)]
    return (
        jnp.stack([sum(pull * x[d] for pull, x in zip(pulls, inputs, strict=True)) for d in dims], axis=1),
        sum(h * e for h, e in zip(hidden, error, strict=True))[None],
    )


@partial(jax.jit, static_argnames=("saves", "kind"))
def _descend(weights: Any, problem: _field.Problem, rate: Any, stride: Any, *, saves: int, kind: _field.Kind) -> Any:
    """The weights and ln L at the start and after every ``stride`` steps."""
    few = problem.inputs.shape[1] <= _FEW and kind.architecture == _TWO_LAYERS and weights[1].shape[1] == 1
    velocity = jax.vmap(partial(_written_out if few else _field.velocity, kind=kind))
    log_loss = jax.vmap(partial(_field.log_loss, kind=kind))

    def step(_: Any, weights: Any) -> Any:
        return tuple(w + rate * v for w, v in zip(weights, velocity(weights, problem), strict=True))

    def save(weights: Any, _: None) -> Any:
        return jax.lax.fori_loop(0, stride, step, weights), (weights, log_loss(weights, problem))

    weights = tuple(map(jnp.asarray, weights))
    return jax.lax.scan(save, weights, None, length=saves + 1)[1]
