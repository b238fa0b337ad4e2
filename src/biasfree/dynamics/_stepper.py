"""One compiled loop of adaptive Runge–Kutta steps, by diffrax's solvers.

**Error norm.** An error is judged against the size of the neurons it touches, not against each number alone (some
are always near zero) nor against the largest layer (a group of neurons may still be 10⁶ times smaller than
another and must be right in proportion, for it grows later).

**Smallest step.** σ' jumps at h = 0. Where both sides push towards the jump a neuron slides along it, and error
control alone would cut the step for ever. A smooth field of stiffness ρ has a local error near (ρh)^p, so
h = rtol^{1/p}/ρ already meets the tolerance: if the error is larger there, a jump lies inside the step. Such a step
is accepted, counted as forced, and the run says that it chattered: it then follows the sliding motion
to O(h), as gradient descent does.
"""

import itertools
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from biasfree.dynamics._field import Kind, Problem, Weights, log_loss, squared_norm, stiffness, velocity

SOLVERS: dict[str, Any] = {
    "bosh3": diffrax.Bosh3(),
    "dopri5": diffrax.Dopri5(),
    "tsit5": diffrax.Tsit5(),
    "dopri8": diffrax.Dopri8(),
}

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 8.0
_NEAR, _GROW_NEAR_FLOOR = 10.0, 1.5


class Control(NamedTuple):
    """The numbers that steer the steps; all traced."""

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    smallest_step: Float[Array, ""]  # 0: from the stiffness
    initial_log_loss: Float[Array, ""]
    stop_log_loss: Float[Array, ""]  # −inf: no level asked for


class State(NamedTuple):
    """Where an integration stands."""

    time: Float[Array, ""]
    step: Float[Array, ""]  # the next one to try
    weights: Weights
    energy: Float[Array, ""]  # ∫‖Ẇ‖² so far
    memory: Any  # the solver's own
    squared_speed: Float[Array, ""]  # mean of ‖Ẇ‖² over the last accepted step
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    forced: Int[Array, ""]
    smallest: Float[Array, ""]  # smallest accepted step
    level_reached: Any
    failed: Any


def evaluations(method: str, attempts: int) -> int:
    """How many velocities ``attempts`` steps cost."""
    tableau = SOLVERS[method].tableau
    return attempts * (tableau.num_stages - bool(tableau.fsal)) + bool(tableau.fsal)


def order(method: str) -> int:
    """Order of the method."""
    return int(SOLVERS[method].order(None))


@partial(jax.jit, static_argnames=("kind", "method"))
def start(weights: Weights, problem: Problem, control: Control, time: Any, *, kind: Kind, method: str) -> State:
    """The state at the beginning; the first step is one that is safe for a smooth field."""
    zero, none = jnp.asarray(0.0), jnp.asarray(0)
    step = _floor(weights, problem, control, kind, method)
    memory = SOLVERS[method].init(_term(kind), time, time + step, (weights, zero), problem)
    flag = jnp.asarray(False)
    return State(
        jnp.asarray(time, dtype=float), step, weights, zero, memory, jnp.asarray(jnp.inf),
        none, none, none, jnp.asarray(jnp.inf), flag, flag,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("kind", "method"))
def advance(
    state: State,
    problem: Problem,
    control: Control,
    until: Any,
    accepted: Any,
    attempts: Any,
    *,
    kind: Kind,
    method: str,
) -> State:
    """Step until time ``until`` (met exactly), ``accepted`` more steps, ``attempts`` tries, or a stop."""
    solver, term = SOLVERS[method], _term(kind)
    last_accepted = state.accepted + accepted
    last_attempt = state.accepted + state.rejected + attempts

    def unfinished(state: State) -> Any:
        going = (state.time < until) & ~state.level_reached & ~state.failed
        return going & (state.accepted < last_accepted) & (state.accepted + state.rejected < last_attempt)

    def attempt(state: State) -> State:
        floor = _floor(state.weights, problem, control, kind, method)
        rest = until - state.time
        lands = state.step >= rest * (1 - 1e-10)
        step = jnp.where(lands, rest, state.step)
        end = jnp.where(lands, until, state.time + step)

        here = (state.weights, state.energy)
        there, error, _, memory, _ = solver.step(term, state.time, end, here, problem, state.memory, False)
        new, energy = there
        ratio = _error(error[0], state.weights, new, control.atol, _relative(control, state.energy, kind))
        finite = jnp.isfinite(ratio) & jnp.isfinite(energy)
        forced = finite & (ratio > 1) & (step <= floor * (1 + 1e-10))
        ok = finite & ((ratio <= 1) | forced)

        factor = _SAFETY * jnp.where(finite, ratio, jnp.inf) ** (-1.0 / order(method))
        # Near the smallest step it is jumps that limit it: grow carefully, and do not feel the way down again.
        near_floor = step < _NEAR * floor
        factor = jnp.clip(factor, _SHRINK, jnp.where(near_floor, _GROW_NEAR_FLOOR, _GROW))
        wanted = jnp.where(near_floor & ~ok, floor, jnp.maximum(step * factor, floor))
        wanted = jnp.where(finite, wanted, 0.1 * step)
        # A step cut short to land on `until` says nothing against the one that was planned.
        wanted = jnp.where(ok & lands, jnp.maximum(wanted, state.step), wanted)

        def choose(new: Any, old: Any) -> Any:
            return jax.tree.map(partial(jnp.where, ok), new, old)

        if_level = jnp.isfinite(control.stop_log_loss) & ok
        reached = jax.lax.cond(
            if_level,
            lambda: log_loss(new, problem, kind) <= control.stop_log_loss,
            lambda: jnp.asarray(False),
        )
        return State(
            time=choose(end, state.time),
            step=wanted,
            weights=choose(new, state.weights),
            energy=choose(energy, state.energy),
            memory=choose(memory, state.memory),
            squared_speed=choose(jnp.abs(energy - state.energy) / step, state.squared_speed),
            accepted=state.accepted + ok,
            rejected=state.rejected + ~ok,
            forced=state.forced + forced,
            smallest=choose(jnp.where(lands, state.smallest, jnp.minimum(state.smallest, step)), state.smallest),
            level_reached=reached,
            failed=~ok & (state.time + wanted <= state.time),
        )

    return jax.lax.while_loop(unfinished, attempt, state)


def _term(kind: Kind) -> diffrax.ODETerm:
    def vector_field(t: Any, y: Any, problem: Problem) -> Any:
        moving = velocity(y[0], problem, kind)
        return moving, squared_norm(moving)

    return diffrax.ODETerm(vector_field)


def _floor(weights: Weights, problem: Problem, control: Control, kind: Kind, method: str) -> Any:
    smooth = control.rtol ** (1.0 / order(method)) / stiffness(weights, problem, kind, control.initial_log_loss)
    return jnp.where(control.smallest_step > 0, control.smallest_step, smooth)


def _relative(control: Control, energy: Any, kind: Kind) -> Any:
    """The relative tolerance; on the loss clock it shrinks like 1/ln(1/L).

    There a relative error δ of the weights shifts margins, which are about ln(1/L), by δ ln(1/L), and the residuals
    are exponentials of these. ln L itself is its start minus the energy so far. The steps are then bounded by
    stability anyway, so that this costs next to nothing.
    """
    if kind.clock == "time":
        return control.rtol
    return control.rtol / jnp.maximum(1.0, energy - control.initial_log_loss)


def _error(error: Weights, before: Weights, after: Weights, atol: Any, rtol: Any) -> Any:
    """Root mean square of error/(atol + rtol · size), size as in the module's text."""
    total = jnp.asarray(0.0)
    for wrong, old, new, size in zip(error, before, after, _neuron_sizes(before), strict=True):
        scale = jnp.maximum(jnp.maximum(jnp.abs(old), jnp.abs(new)), size)
        total += jnp.sum((wrong / (atol + rtol * scale)) ** 2)
    return jnp.sqrt(total / sum(w.size for w in before))


def _neuron_sizes(weights: Weights) -> list[Any]:
    """For each entry of each layer, the smaller of the sizes of the two neurons it joins."""
    if len(weights) == 1:
        return [jnp.sqrt(jnp.mean(weights[0] ** 2))]
    hidden = [
        jnp.sqrt(jnp.mean(before**2, axis=1) + jnp.mean(after**2, axis=0))
        for before, after in itertools.pairwise(weights)
    ]
    middle = [jnp.minimum(out[:, None], into) for into, out in itertools.pairwise(hidden)]
    return [hidden[0][:, None], *middle, hidden[-1]]
