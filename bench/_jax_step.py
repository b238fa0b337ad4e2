"""A trial step of the exact flow written in JAX: what ``_runge_kutta.trial`` does, for square loss.

Shapes are fixed when it is compiled; all else is traced. Stages are combined by a product with the stacked stages:
adding them up term by term is no faster and takes half as long again to compile.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import DOP853

from biasfree.dynamics.exact._field import Data, Pattern
from biasfree.dynamics.exact._forms import Form

_A, _B, STAGES = DOP853.A, DOP853.B, 12


class Problem(NamedTuple):
    """What the velocity depends on beside the state."""

    directions: Any  # (lines, dim)
    moments: Any  # Σt², Σt|t|, Σty and Σ|t|y, (4, lines)
    a: Any
    b: Any
    decay: Any
    samples: Any
    side: Any  # (active, lines)
    basis: Any  # zero beyond what is projected across, (active, room, dim)
    owner: Any  # (passive,)
    constant: Any  # of the form; empty where there is none
    matrix: Any


def problem(data: Data, pattern: Pattern, form: Form, active: int, passive: int) -> Problem:
    """The same data and pattern for JAX, with rows of zeros up to ``active`` and ``passive`` ones."""
    more = active - len(pattern.side)
    dim = data.directions.shape[1]
    used = np.arange(pattern.basis.shape[1]) < pattern.span[:, None]
    room = more * dim if form.constant.size else 0
    return jax.device_put(
        Problem(
            data.directions, data.moments.T.copy(),
            np.float64(data.a), np.float64(data.b), np.float64(data.decay), np.float64(data.samples),
            np.pad(pattern.side, ((0, more), (0, 0))),
            np.pad(pattern.basis * used[:, :, None], ((0, more), (0, 0), (0, 0))),
            np.pad(pattern.owner, (0, passive - len(pattern.owner))),
            np.pad(form.constant, (0, room)),
            np.pad(form.matrix, (0, room)),
        )
    )  # fmt: skip


def padded(state: np.ndarray, pattern: Pattern, dim: int, active: int, passive: int) -> np.ndarray:
    """A state with rows of zeros up to ``active`` and ``passive`` ones."""
    old, rows = len(pattern.side), len(pattern.side) + len(pattern.owner)
    whole = np.zeros((active + passive, dim + 1))
    where = np.r_[:old, active : active + rows - old]
    whole[where, :dim], whole[where, dim] = state[: rows * dim].reshape(rows, dim), state[rows * dim : -1]
    return np.concatenate([whole[:, :dim].ravel(), whole[:, dim], state[-1:]])


def unpadded(state: np.ndarray, pattern: Pattern, dim: int, active: int) -> np.ndarray:
    """Take them out again."""
    old, rows = len(pattern.side), (len(state) - 1) // (dim + 1)
    where = np.r_[:old, active : active + len(pattern.owner)]
    first, second = state[: rows * dim].reshape(rows, dim), state[rows * dim : -1]
    return np.concatenate([first[where].ravel(), second[where], state[-1:]])


def _split(state: Any, dim: int) -> tuple[Any, Any]:
    rows = (state.shape[0] - 1) // (dim + 1)
    return state[: rows * dim].reshape(rows, dim), state[rows * dim : -1]


def _moved(first: Any, second: Any, pull: Any, problem: Problem) -> Any:
    """As ``_field.project`` and ``_field.moved``."""
    along = jnp.sum(problem.basis * pull[:, None, :], axis=2, keepdims=True)
    pull = pull - jnp.sum(along * problem.basis, axis=1)
    active = pull.shape[0]
    if problem.owner.shape[0]:
        pull = jnp.concatenate([pull, pull[problem.owner]])
    out_first = second[:, None] * pull - problem.decay * first
    out_second = jnp.sum(pull * first, axis=1) - problem.decay * second
    power = jnp.sum(out_first[:active] ** 2) + jnp.sum(out_second[:active] ** 2)
    return jnp.concatenate([out_first.ravel(), out_second, power[None]])


def _velocity(state: Any, problem: Problem) -> tuple[Any, Any, Any]:
    """The velocity, p and q."""
    active = problem.side.shape[0]
    first, second = _split(state, problem.directions.shape[1])
    terms = second[:active, None] * jnp.dot(first[:active], problem.directions.T)
    lin, even = problem.a * jnp.sum(terms, axis=0), problem.b * jnp.sum(problem.side * terms, axis=0)
    square, mixed, plain, bent = problem.moments
    p = problem.a * (plain - lin * square - even * mixed) / problem.samples
    q = problem.b * (bent - lin * mixed - even * square) / problem.samples
    return _moved(first, second, jnp.dot(p + problem.side * q, problem.directions), problem), p, q


def _within(state: Any, problem: Problem) -> Any:
    if not problem.constant.shape[0]:
        return _velocity(state, problem)[0]
    active, dim = problem.side.shape[0], problem.directions.shape[1]
    first, second = _split(state, dim)
    products = (second[:active, None] * first[:active]).ravel()
    pull = (problem.constant - jnp.dot(problem.matrix, products)).reshape(active, dim)
    return _moved(first, second, pull, problem)


def _combine(state: Any, stages: list[Any], step: Any, weights: np.ndarray) -> Any:
    return state + step * jnp.dot(weights[: len(stages)], jnp.stack(stages))


def _ended(last: Any, end: Any, stages: Any, step: Any, problem: Problem) -> tuple[Any, ...]:
    """End of the step, its stages, its stiffness, and p and q at the end."""
    final, p, q = _velocity(end, problem)
    speeds, places = jnp.sum((final - stages[-1])[:-1] ** 2), jnp.sum((end - last)[:-1] ** 2)
    stiffness = jnp.where(places > 0, step * jnp.sqrt(speeds / jnp.where(places > 0, places, 1.0)), 0.0)
    return end, jnp.stack([*stages, final]), stiffness, p, q


@jax.jit
def unrolled(state: Any, begin: Any, step: Any, problem: Problem) -> tuple[Any, ...]:
    """One step; ``begin`` is the velocity at its beginning."""
    stages, last = [begin], state
    for s in range(1, STAGES):
        last = _combine(state, stages, step, _A[s])
        stages.append(_within(last, problem))
    return _ended(last, _combine(state, stages, step, _B), stages, step, problem)


@jax.jit
def rolled(state: Any, begin: Any, step: Any, problem: Problem) -> tuple[Any, ...]:
    """The same with a loop over the stages, for less to compile."""
    table = jnp.asarray(_A[:STAGES, :STAGES])

    def stage(s: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        stages, _ = carry
        place = state + step * jnp.dot(table[s], stages)
        return stages.at[s].set(_within(place, problem)), place

    stages = jnp.zeros((STAGES, *state.shape)).at[0].set(begin)
    stages, last = jax.lax.fori_loop(1, STAGES, stage, (stages, state))
    return _ended(last, state + step * jnp.dot(_B, stages), stages, step, problem)


@partial(jax.jit, static_argnums=0)
def repeated(one: Any, state: Any, begin: Any, step: Any, problem: Problem, times: Any) -> Any:
    """Many steps in one call; ``one`` is ``unrolled`` or ``rolled``."""

    def next_step(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        end, stages, *_ = one(*carry, step, problem)
        return end, stages[STAGES]

    return jax.lax.fori_loop(0, times, next_step, (state, begin))[0]
