"""One compiled loop of adaptive Runge–Kutta steps, by diffrax's solvers.

**Smallest step.** σ' jumps at h = 0. A neuron that crosses the jump is caught by error control: a smallest step of
rtol/ρ, ρ the stiffness, makes an error there of the order of rtol. Where both sides push towards the jump a neuron
slides along it instead, and steps would stay that small for ever. Now a smooth field meets the tolerance at
rtol^{1/p}/ρ for sure, so that a larger error there means a jump inside the step. The smallest step rises with each
such jump and falls back slowly, between rtol/ρ and rtol^{1/p}/ρ. A sliding neuron is then crossed back and forth at
small steps, as by gradient descent, which follows its motion to O(h): the run counts the steps of about that size in
which an activation changes straight back, and says that it chattered.
"""

from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from biasfree.dynamics._error_norm import error_ratio
from biasfree.dynamics._field import Kind, Problem, Weights, log_loss, margin_power, squared_norm, stiffness, velocity
from biasfree.networks import hidden_layers

SOLVERS: dict[str, Any] = {
    "bosh3": diffrax.Bosh3(),
    "dopri5": diffrax.Dopri5(),
    "tsit5": diffrax.Tsit5(),
    "dopri8": diffrax.Dopri8(),
}

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 8.0  # of a step's change; the usual factors (Hairer, Nørsett, Wanner, II.4)
_TRY_AGAIN = 0.1  # of a step whose end is not finite
_NEAR, _GROW_NEAR_FLOOR = 10.0, 1.5  # so near to the smallest step jumps limit it, and growing fast would only fail
_RISE, _FALL = (
    1.25,
    0.95,
)  # of the smallest step at a jump and without one: up within ten jumps, down within fifty steps
# On the loss clock a step moves margins, of the size of ln 1/L, by 0.5 % (a fraction 0.02 of 1/ρ, as ρ's bound has a
# factor 4) and at most by 0.4, where explicit steps are still stable.
_MARGIN_FRACTION, _LARGEST_FRACTION = 0.02, 1.6
_REFRESH = 8  # accepted steps between evaluations of the margins' gradient: it costs one and changes by a few percent
_ROUNDING = 1e-10  # a step so near, relatively, to another length is that length


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
    failed: Any  # no smaller step would change the time
    overflowed: Any  # the last attempt's end was not finite


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
        none, infinite, flag, flag, flag,
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
    last_accepted = state.accepted + accepted
    last_attempt = state.accepted + state.rejected + attempts

    def unfinished(state: State) -> Any:
        going = (state.time < until) & (state.time < pause) & ~state.level_reached & ~state.failed
        return going & (state.accepted < last_accepted) & (state.accepted + state.rejected < last_attempt)

    def attempt(state: State) -> State:
        trial = _try(state, until, problem, control, kind, method)
        return _after(state, trial, problem, control, kind, method)

    return jax.lax.while_loop(unfinished, attempt, state)


class _Trial(NamedTuple):
    """One step, taken or not."""

    step: Any
    end: Any
    lands: Any  # cut short to end at a time asked for
    weights: Any
    energy: Any
    memory: Any
    power: Any
    smooth: Any  # the step that is safe for a smooth field
    floor: Any  # the smallest step allowed
    ratio: Any  # error/tolerance
    finite: Any
    tame: Any  # the error can be a jump of a slope
    at_floor: Any  # accepted in spite of its error, which a jump explains
    ok: Any


def _try(state: State, until: Any, problem: Problem, control: Control, kind: Kind, method: str) -> _Trial:
    """The step that is planned, and whether it may be accepted."""
    power = state.power
    if kind.clock == "loss":
        power = jax.lax.cond(
            state.accepted % _REFRESH == 0, lambda: margin_power(state.weights, problem, kind), lambda: state.power
        )
    smooth = _smooth_step(state.weights, power, _fraction(control, state.energy, kind, method), problem, control, kind)
    floor = state.caution * smooth
    rest = until - state.time
    lands = state.step >= rest * (1 - _ROUNDING)
    step = jnp.where(lands, rest, state.step)
    end = jnp.where(lands, until, state.time + step)

    here = (state.weights, state.energy)
    there, error, _, memory, _ = SOLVERS[method].step(_term(kind), state.time, end, here, problem, state.memory, False)
    relative = _relative(control, state.energy, kind)
    ratio = error_ratio(error[0], state.weights, there[0], control.atol, relative)
    finite = jnp.isfinite(ratio) & jnp.isfinite(there[1])
    # An error that large is no jump of a slope: a sample that had no part in the motion has come into it.
    tame = (ratio * relative <= control.rtol ** (1.0 / order(method))) | (control.smallest_step > 0)
    at_floor = finite & tame & (ratio > 1) & (step <= floor * (1 + _ROUNDING))
    ok = finite & ((ratio <= 1) | at_floor)
    new, energy = there
    return _Trial(step, end, lands, new, energy, memory, power, smooth, floor, ratio, finite, tame, at_floor, ok)


def _after(state: State, trial: _Trial, problem: Problem, control: Control, kind: Kind, method: str) -> State:
    """The state after a trial: moved if it was accepted, and with the next step to try."""
    ok = trial.ok
    active, flipped, back = _seen_crossings(state, trial, problem, kind)
    wanted = _next_step(state, trial, method)

    def choose(new: Any, old: Any) -> Any:
        return jax.tree.map(partial(jnp.where, ok), new, old)

    reached = jax.lax.cond(
        jnp.isfinite(control.stop_log_loss) & ok,
        lambda: log_loss(trial.weights, problem, kind) <= control.stop_log_loss,
        lambda: jnp.asarray(False),
    )
    smallest = jnp.where(trial.lands, state.smallest, jnp.minimum(state.smallest, trial.step))
    return State(
        time=choose(trial.end, state.time),
        step=wanted,
        weights=choose(trial.weights, state.weights),
        energy=choose(trial.energy, state.energy),
        memory=choose(trial.memory, state.memory),
        power=trial.power,
        squared_speed=choose(jnp.abs(trial.energy - state.energy) / trial.step, state.squared_speed),
        accepted=state.accepted + ok,
        rejected=state.rejected + ~ok,
        smallest=choose(smallest, state.smallest),
        caution=_next_caution(state, trial, back, control, kind, method),
        active=active,
        flipped=choose(flipped, state.flipped),
        chattered=state.chattered + back,
        chatter_step=jnp.where(back, jnp.minimum(state.chatter_step, trial.step), state.chatter_step),
        level_reached=reached,
        failed=~ok & (state.time + wanted <= state.time),
        overflowed=~trial.finite,
    )


def _seen_crossings(state: State, trial: _Trial, problem: Problem, kind: Kind) -> tuple[Any, Any, Any]:
    """Looking at every activation costs as much as a gradient; large steps need not be looked at."""
    small = trial.ok & (problem.slope < 1) & (trial.step <= _NEAR * trial.smooth)
    return jax.lax.cond(
        small,
        lambda: _crossings(_active(trial.weights, problem, kind), state.active, state.flipped),
        lambda: (state.active, tuple(map(jnp.zeros_like, state.flipped)), jnp.asarray(False)),
    )


def _next_caution(state: State, trial: _Trial, back: Any, control: Control, kind: Kind, method: str) -> Any:
    """The smallest step rises with each jump and falls back slowly."""
    jumped = trial.at_floor | back | (~trial.ok & (trial.step < trial.smooth))
    fallen = jnp.where(trial.ok, _FALL * state.caution, state.caution)
    least = _least_caution(control, _fraction(control, state.energy, kind, method))
    return jnp.clip(jnp.where(jumped, _RISE * state.caution, fallen), least, 1.0)


def _next_step(state: State, trial: _Trial, method: str) -> Any:
    factor = _SAFETY * jnp.where(trial.finite, trial.ratio, jnp.inf) ** (-1.0 / order(method))
    # Near the smallest step it is jumps that limit it: grow carefully, and do not feel the way down again.
    near_floor = trial.step < _NEAR * trial.floor
    factor = jnp.clip(factor, _SHRINK, jnp.where(near_floor, _GROW_NEAR_FLOOR, _GROW))
    wanted = jnp.where(near_floor & ~trial.ok, trial.floor, jnp.maximum(trial.step * factor, trial.floor))
    wanted = jnp.where(trial.tame | (trial.step > trial.floor), wanted, trial.step * factor)
    wanted = jnp.where(trial.finite, wanted, _TRY_AGAIN * trial.step)
    # A step cut short to land on a time says nothing against the one that was planned.
    return jnp.where(trial.ok & trial.lands, jnp.maximum(wanted, state.step), wanted)


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
    """rtol^{1/p}; on the loss clock what moves margins by a stated part."""
    if kind.clock == "time":
        return control.rtol ** (1.0 / order(method))
    return jnp.minimum(_MARGIN_FRACTION * _log_inverse_loss(control, energy), _LARGEST_FRACTION)


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
