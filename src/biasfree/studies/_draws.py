"""Many descents at once, in one compiled loop: for shares of draws, and for studies that must be quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import biasfree as bf
from biasfree.dynamics import _field


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


@partial(jax.jit, static_argnames=("saves", "kind"))
def _descend(weights: Any, problem: _field.Problem, rate: Any, stride: Any, *, saves: int, kind: _field.Kind) -> Any:
    """The weights and ln L at the start and after every ``stride`` steps."""
    velocity = jax.vmap(partial(_field.velocity, kind=kind))
    log_loss = jax.vmap(partial(_field.log_loss, kind=kind))

    def step(_: Any, weights: Any) -> Any:
        return tuple(w + rate * v for w, v in zip(weights, velocity(weights, problem), strict=True))

    def save(weights: Any, _: None) -> Any:
        return jax.lax.fori_loop(0, stride, step, weights), (weights, log_loss(weights, problem))

    weights = tuple(map(jnp.asarray, weights))
    return jax.lax.scan(save, weights, None, length=saves + 1)[1]
