"""One compiled loop of adaptive Runge–Kutta steps, by diffrax's solvers.

**Error norm.** An error is judged against the size of the neurons it touches, not against each number alone (some
are always near zero) nor against the largest layer (a group of neurons may still be 10⁶ times smaller than
another and must be right in proportion, for it grows later).

**Smallest step.** σ' jumps at h = 0. A neuron that crosses the jump is caught by error control: a smallest step of
rtol/ρ, ρ the stiffness, makes an error there of the order of rtol. Where both sides push towards the jump a neuron
slides along it instead, and steps would stay that small for ever. Now a smooth field meets the tolerance at
rtol^{1/p}/ρ for sure, so that a larger error there means a jump inside the step. The smallest step rises with each
such jump and falls back slowly, between rtol/ρ and rtol^{1/p}/ρ. A sliding neuron is then crossed back and forth at
small steps, as by gradient descent, which follows its motion to O(h): the run counts the steps of about that size in
which an activation changes straight back, and says that it chattered.
"""

import itertools
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from biasfree.dynamics._field import Kind, Problem, Weights, log_loss, margin_power, squared_norm, stiffness, velocity
from biasfree.networks import hidden_layers

SOLVERS: dict[str, Any] = {
    "bosh3": diffrax.Bosh3(),
    "dopri5": diffrax.Dopri5(),
    "tsit5": diffrax.Tsit5(),
    "dopri8": diffrax.Dopri8(),
}

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 8.0
_NEAR, _GROW_NEAR_FLOOR = 10.0, 1.5
_RISE, _FALL = 1.25, 0.95
_LARGEST_FRACTION, _REFRESH = 1.6, 8


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
    power: Float[Array, ""]  # the margins' mean squared gradient, on the loss clock
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    smallest: Float[Array, ""]  # smallest accepted step
    caution: Float[Array, ""]  # the smallest step allowed now, as part of the one that is safe for a smooth field
    active: Any  # per rectified layer, which neurons are active on which samples
    flipped: Any  # which of these changed in the last accepted step
    chattered: Int[Array, ""]  # accepted steps in which one changed straight back
    chatter_step: Float[Array, ""]  # smallest of these
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
    # Of full type: a weak one would have the loop compiled a second time, for what it makes of them.
    zero, infinite, none = jnp.asarray(0.0, float), jnp.asarray(jnp.inf, float), jnp.asarray(0)
    fraction = _fraction(control, zero, kind, method)
    power = margin_power(weights, problem, kind) if kind.clock == "loss" else zero
    step = _smooth_step(weights, power, fraction, problem, control, kind)
    memory = SOLVERS[method].init(_term(kind), time, time + step, (weights, zero), problem)
    flag, active = jnp.asarray(False), _active(weights, problem, kind)
    return State(
        jnp.asarray(time, dtype=float), step, weights, zero, memory, infinite, power, none, none, infinite,
        _least_caution(control, fraction), active, tuple(jnp.zeros_like(layer) for layer in active),
        none, infinite, flag, flag,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("kind", "method"))
def advance(
    state: State,
    problem: Problem,
    control: Control,
    until: Any,
    pause: Any,
    accepted: Any,
    attempts: Any,
    *,
    kind: Kind,
    method: str,
) -> State:
    """Step until ``until`` (met exactly), past ``pause``, for ``accepted`` more steps or ``attempts``, or to a stop."""
    solver, term = SOLVERS[method], _term(kind)
    last_accepted = state.accepted + accepted
    last_attempt = state.accepted + state.rejected + attempts

    def unfinished(state: State) -> Any:
        going = (state.time < until) & (state.time < pause) & ~state.level_reached & ~state.failed
        return going & (state.accepted < last_accepted) & (state.accepted + state.rejected < last_attempt)

    def attempt(state: State) -> State:
        fraction = _fraction(control, state.energy, kind, method)
        power = state.power
        if kind.clock == "loss":
            # It costs as much as a gradient and changes slowly.
            power = jax.lax.cond(
                state.accepted % _REFRESH == 0, lambda: margin_power(state.weights, problem, kind), lambda: state.power
            )
        smooth = _smooth_step(state.weights, power, fraction, problem, control, kind)
        floor = state.caution * smooth
        rest = until - state.time
        lands = state.step >= rest * (1 - 1e-10)
        step = jnp.where(lands, rest, state.step)
        end = jnp.where(lands, until, state.time + step)

        here = (state.weights, state.energy)
        there, error, _, memory, _ = solver.step(term, state.time, end, here, problem, state.memory, False)
        new, energy = there
        relative = _relative(control, state.energy, kind)
        ratio = _error(error[0], state.weights, new, control.atol, relative)
        finite = jnp.isfinite(ratio) & jnp.isfinite(energy)
        # An error that large is no jump of a slope: a sample that had no part in the motion has come into it.
        tame = (ratio * relative <= control.rtol ** (1.0 / order(method))) | (control.smallest_step > 0)
        at_floor = finite & tame & (ratio > 1) & (step <= floor * (1 + 1e-10))
        ok = finite & ((ratio <= 1) | at_floor)
        # Looking at every activation costs as much as a gradient; large steps need not be looked at.
        small = ok & (problem.slope < 1) & (step <= _NEAR * smooth)
        active, flipped, back = jax.lax.cond(
            small,
            lambda: _crossings(_active(new, problem, kind), state.active, state.flipped),
            lambda: (state.active, tuple(map(jnp.zeros_like, state.flipped)), jnp.asarray(False)),
        )

        jumped = at_floor | back | (~ok & (step < smooth))
        caution = jnp.where(jumped, _RISE * state.caution, jnp.where(ok, _FALL * state.caution, state.caution))
        caution = jnp.clip(caution, _least_caution(control, fraction), 1.0)

        factor = _SAFETY * jnp.where(finite, ratio, jnp.inf) ** (-1.0 / order(method))
        # Near the smallest step it is jumps that limit it: grow carefully, and do not feel the way down again.
        near_floor = step < _NEAR * floor
        factor = jnp.clip(factor, _SHRINK, jnp.where(near_floor, _GROW_NEAR_FLOOR, _GROW))
        wanted = jnp.where(near_floor & ~ok, floor, jnp.maximum(step * factor, floor))
        wanted = jnp.where(tame | (step > floor), wanted, step * factor)
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
            power=power,
            squared_speed=choose(jnp.abs(energy - state.energy) / step, state.squared_speed),
            accepted=state.accepted + ok,
            rejected=state.rejected + ~ok,
            smallest=choose(jnp.where(lands, state.smallest, jnp.minimum(state.smallest, step)), state.smallest),
            caution=caution,
            active=active,
            flipped=choose(flipped, state.flipped),
            chattered=state.chattered + back,
            chatter_step=jnp.where(back, jnp.minimum(state.chatter_step, step), state.chatter_step),
            level_reached=reached,
            failed=~ok & (state.time + wanted <= state.time),
        )

    return jax.lax.while_loop(unfinished, attempt, state)


def _term(kind: Kind) -> diffrax.ODETerm:
    def vector_field(t: Any, y: Any, problem: Problem) -> Any:
        moving = velocity(y[0], problem, kind)
        return moving, squared_norm(moving)

    return diffrax.ODETerm(vector_field)


def _active(weights: Weights, problem: Problem, kind: Kind) -> tuple[Any, ...]:
    signals = hidden_layers(weights, problem.inputs, problem.slope, kind.architecture)[1:-1]
    return tuple(z > 0 for z, rectified in zip(signals, kind.architecture.rectified, strict=True) if rectified)


def _crossings(active: Any, before: Any, flipped_before: Any) -> tuple[Any, Any, Any]:
    """The new activations, which of them changed, and whether any of these had changed in the step before."""
    flipped = tuple(now != then for now, then in zip(active, before, strict=True))
    returned = [jnp.any(now & then) for now, then in zip(flipped, flipped_before, strict=True)]
    return active, flipped, jnp.any(jnp.stack([jnp.asarray(False), *returned]))


def _smooth_step(weights: Weights, power: Any, fraction: Any, problem: Problem, control: Control, kind: Kind) -> Any:
    """The largest smallest step: one that was asked for, or the part ``fraction`` of 1/ρ.

    On the loss clock ρ's bound is far too large: there the larger part of the Hessian is at most the margins' mean
    squared gradient g², and the other part is about depth · g/‖W‖.
    """
    steepness = stiffness(weights, problem, kind, control.initial_log_loss)
    if kind.clock == "loss":
        bend = len(weights) * jnp.sqrt(power / squared_norm(weights))
        steepness = jnp.minimum(steepness, 4 * power + bend)
    return jnp.where(control.smallest_step > 0, control.smallest_step, fraction / steepness)


def _fraction(control: Control, energy: Any, kind: Kind, method: str) -> Any:
    """rtol^{1/p}; on the loss clock a step may move margins, of the size of ln 1/L, by 0.5 % and at most by 0.4."""
    if kind.clock == "time":
        return control.rtol ** (1.0 / order(method))
    return jnp.minimum(0.02 * _log_inverse_loss(control, energy), _LARGEST_FRACTION)


def _least_caution(control: Control, fraction: Any) -> Any:
    """What makes the smallest step rtol/ρ; a smallest step that was asked for is kept to from the start."""
    return jnp.where(control.smallest_step > 0, 1.0, control.rtol / fraction)


def _relative(control: Control, energy: Any, kind: Kind) -> Any:
    """The relative tolerance; on the loss clock it shrinks like 1/ln(1/L).

    There a relative error δ of the weights shifts margins, which are about ln(1/L), by δ ln(1/L), and the residuals
    are exponentials of these. The steps are then bounded by stability anyway, so that this costs next to nothing.
    """
    return control.rtol if kind.clock == "time" else control.rtol / _log_inverse_loss(control, energy)


def _log_inverse_loss(control: Control, energy: Any) -> Any:
    """Ln 1/L on the loss clock, where ln L is its start minus the energy so far; 1 at least."""
    return jnp.maximum(1.0, energy - control.initial_log_loss)


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
