"""Adaptive Runge–Kutta steps.

**Smallest step.** σ' jumps at h = 0. A neuron that crosses the jump is caught by error control: a smallest step of
rtol/ρ, ρ the stiffness, makes an error there of the order of rtol. Where both sides push towards the jump a neuron
slides along it instead, and steps would stay that small for ever. Now a smooth field meets the tolerance at
rtol^{1/p}/ρ for sure, so that a larger error there means a jump inside the step. The smallest step rises with each
such jump and falls back slowly, between rtol/ρ and rtol^{1/p}/ρ. A sliding neuron is then crossed back and forth at
small steps, as by gradient descent, which follows its motion to O(h): the run counts the steps of about that size in
which an activation changes straight back, and says that it chattered.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._chebyshev import Chebyshev
from biasfree.dynamics._error_norm import Sizes, error_ratio, sizes_of
from biasfree.dynamics._field import Kind, Problem, Steepness, Weights, margin_power
from biasfree.dynamics._float64 import LARGEST_EXPONENT, SMALLEST
from biasfree.dynamics._level import End, energy_until, meeting, way_to_level
from biasfree.dynamics._one_step import Steps
from biasfree.dynamics._shared_pull import shared_or_plain
from biasfree.dynamics._vector_field import Active, ByLine, Layers, VectorField

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 8.0  # of a step's change; the usual factors (Hairer, Nørsett, Wanner, II.4)
_TRY_AGAIN = 0.1  # of a step whose end is not finite
_NEAR, _GROW_NEAR_FLOOR = 10.0, 1.5  # so near to the smallest step jumps limit it, and growing fast would only fail
# Of the smallest step at a jump and without one: up within ten jumps, down within fifty steps.
_RISE, _FALL = 1.25, 0.95
# On the loss clock a step moves margins, of the size of ln 1/L, by 0.5 % (a fraction 0.02 of 1/ρ, as ρ's bound has a
# factor 4) and at most by 0.4, where explicit steps are still stable.
_MARGIN_FRACTION, _LARGEST_FRACTION = 0.02, 1.6
_REFRESH = 8  # accepted steps between evaluations of the margins' gradient: it costs one and changes by a few percent
_SHORTEST = SMALLEST  # where the stiffness is infinite or no number: error control decides
_FAR, _UNSURE = 2.0, 1.15  # times a loss level, and times the energy that is known: from then on the loss is looked at
_STRETCH = 1.1  # of a step that lands: its error grows by less than what _SAFETY leaves
_ROUNDING = 1e-10  # a step so near, relatively, to another length is that length


Flat = Float[np.ndarray, "size"]


class Control(NamedTuple):
    """The numbers that steer the steps."""

    rtol: float
    atol: float
    smallest_step: float  # 0: from the stiffness
    initial_log_loss: float
    stop_log_loss: float  # −inf: no level asked for


class State(NamedTuple):
    """Where an integration stands."""

    time: float
    step: float  # the next one to try
    flat: Flat  # all weights
    velocity: Flat  # there
    energy: float  # ∫‖Ẇ‖² so far
    squared_speed: float  # mean of ‖Ẇ‖² over the last accepted step
    roughness: float  # error/tolerance of that step, divided by the power of its length that it goes with; 0: none yet
    power: float  # the margins' mean squared gradient, on the loss clock
    caution: float  # the smallest step allowed now, as part of the one that is safe for a smooth field
    active: Active
    flipped: Active  # which of these changed in the last accepted step
    accepted: int = 0
    rejected: int = 0
    smallest: float = math.inf  # smallest accepted step
    chattered: int = 0  # accepted steps in which an activation changed straight back
    chatter_step: float = math.inf  # smallest of these
    local_errors: float = 0.0  # of accepted steps, in parts of the weights, added up
    log_loss: float = math.nan  # near a level that is asked for, or where it costs nothing
    before: End | None = None  # where the last accepted step began
    level_reached: bool = False
    retried: bool = False  # the last attempt from here was rejected
    failed: bool = False  # no smaller step would change the time
    overflowed: bool = False  # the last attempt's end was not finite


class _Trial(NamedTuple):
    """One step, taken or not."""

    step: float
    end: float
    lands: bool  # cut short to end at a time asked for
    there: Flat
    velocity: Flat  # there
    energy: float  # ∫‖Ẇ‖² along it
    power: float
    smooth: float  # the step that is safe for a smooth field
    floor: float  # the smallest step allowed
    ratio: float  # error/tolerance
    finite: bool
    tame: bool  # the error can be a jump of a slope
    at_floor: bool  # accepted in spite of its error, which a jump explains

    @property
    def ok(self) -> bool:
        return self.finite and (self.ratio <= 1 or self.at_floor)


def _end(state: State) -> End:
    return End(state.flat, state.velocity, state.log_loss)


def steps_by(method: str, field: VectorField) -> Steps:
    """The steps of a method."""
    return Chebyshev() if method == "rkc" else shared_or_plain(method, field)


class Stepper:
    """Takes adaptive steps of one problem by one method."""

    def __init__(
        self, field: VectorField, layers: Layers, problem: Problem, kind: Kind, method: str, control: Control
    ) -> None:
        """The field is the problem's, of weights in these layers."""
        self._problem, self._kind, self._control = problem, kind, control
        self._layers, self._field = layers, field
        self.by_line = isinstance(field, ByLine)
        self._steps = steps_by(method, field)
        self.evaluations = 0  # velocities so far
        self._steepness = Steepness(problem, kind, control.initial_log_loss)
        self._sizes: tuple[Flat | None, Sizes] = None, Sizes(np.zeros(0), np.zeros(0))  # and where that was so

    def weights(self, flat: Flat) -> Weights:
        """All layers."""
        return self._layers.of(flat)

    def log_loss_at(self, weights: Weights) -> float:
        """Ln L, or NaN where it is as well found later."""
        return self._field.log_loss_at(weights)

    def start(self, weights: Weights, time: float) -> State:
        """The state at the beginning; the first step is one that is safe for a smooth field, or that a method knows."""
        flat = np.concatenate([np.asarray(w, dtype=float).ravel() for w in weights])
        fraction = self._fraction(0.0)
        power = self._margin_power(flat) if self._kind.clock == "loss" else 0.0
        moving = self._field.velocity(flat)
        active = self._field.active()
        first, looked = self._steps.first(self._field, flat, moving, self._control.rtol)
        self.evaluations += 1 + looked
        begins = self._smooth_step(flat, power, fraction)
        begins = begins if self._control.smallest_step > 0 else max(begins, first)
        return State(
            time, begins, flat, moving, 0.0, math.inf, 0.0, power, self._least_caution(fraction), active,
            tuple(np.zeros_like(layer) for layer in active),
        )  # fmt: skip

    def advance(self, state: State, until: float, pause: float, accepted: int, attempts: int) -> State:
        """Step until ``until`` (met exactly), past ``pause``, ``accepted`` steps or ``attempts`` more, or a stop."""
        last_accepted, last_attempt = state.accepted + accepted, state.accepted + state.rejected + attempts
        while (
            state.time < until and state.time < pause and not state.level_reached and not state.failed
            and state.accepted < last_accepted and state.accepted + state.rejected < last_attempt
        ):  # fmt: skip
            state = self._after(state, self._try(state, until))
        return state

    def _try(self, state: State, until: float) -> _Trial:
        """The step that is planned, and whether it may be accepted."""
        control, power = self._control, state.power
        if self._kind.clock == "loss" and state.accepted % _REFRESH == 0:
            power = self._margin_power(state.flat)
        smooth = self._smooth_step(state.flat, power, self._fraction(state.energy))
        floor = state.caution * smooth
        planned, rest = min(state.step, max(self._steps.longest, floor)), until - state.time
        # A little longer than planned rather than one more step; not where jumps limit steps.
        most = planned * (_STRETCH if planned > _NEAR * floor else 1.0)
        aimed = max(way_to_level(_end(state), state.before, control.stop_log_loss, self._kind.clock), floor)
        if aimed < min(most, rest):
            step, end, lands = aimed, state.time + aimed, True
        elif most >= rest * (1 - _ROUNDING):
            step, end, lands = rest, until, True
        else:
            step, end, lands = planned, state.time + planned, False
        # The length that float64 makes of it: times are sums.
        length = end - state.time
        taken = self._steps.take(self._field, state.flat, state.velocity, length)
        self.evaluations += taken.evaluations
        relative, sizes, energy = self._relative(state.energy), self._sizes_at(state.flat).weights, taken.energy
        ratio = length * error_ratio(taken.parts, taken.rule, state.flat, taken.there, sizes, control.atol, relative)
        finite = math.isfinite(ratio) and math.isfinite(energy)
        # An error that large is no jump of a slope: a sample that had no part in the motion has come into it.
        tame = ratio * relative <= control.rtol ** (1.0 / self._steps.order) or control.smallest_step > 0
        at_floor = finite and tame and ratio > 1 and step <= floor * (1 + _ROUNDING)
        moved = taken.there, taken.velocity, length * energy
        return _Trial(step, end, lands, *moved, power, smooth, floor, ratio, finite, tame, at_floor)

    def _after(self, state: State, trial: _Trial) -> State:
        """The state after a trial: moved if it was accepted, and with the next step to try."""
        wanted = self._next_step(state, trial)
        active, flipped, back = self._seen_crossings(state, trial)
        caution = self._next_caution(state, trial, back)
        if not trial.ok:
            return state._replace(
                step=wanted, power=trial.power, rejected=state.rejected + 1, caution=caution, retried=True,
                failed=state.time + wanted <= state.time, overflowed=not trial.finite,
            )  # fmt: skip
        log_loss = self._field.log_loss() if self._near_level(state, trial) else self._field.known_log_loss()
        if log_loss <= self._control.stop_log_loss:
            trial, log_loss = self._at_level(state, trial, log_loss)
        return state._replace(
            time=trial.end, step=wanted, flat=trial.there, velocity=trial.velocity,
            energy=state.energy + trial.energy, power=trial.power, accepted=state.accepted + 1,
            squared_speed=abs(trial.energy) / trial.step, roughness=self._roughness(trial),
            smallest=state.smallest if trial.lands else min(state.smallest, trial.step),
            caution=caution, active=active, flipped=flipped, chattered=state.chattered + back,
            chatter_step=min(state.chatter_step, trial.step) if back else state.chatter_step,
            local_errors=state.local_errors + trial.ratio * self._relative(state.energy),
            retried=False, log_loss=log_loss, before=_end(state),
            level_reached=log_loss <= self._control.stop_log_loss, failed=False, overflowed=False,
        )  # fmt: skip

    def _at_level(self, state: State, trial: _Trial, log_loss: float) -> tuple[_Trial, float]:
        """A trial that ends beyond the loss level, up to where it meets it."""
        length, last = trial.end - state.time, End(trial.there, trial.velocity, log_loss)

        def look(flat: Flat) -> End:
            self.evaluations += 1
            return End(flat, self._field.velocity(flat), self._field.log_loss())

        met = meeting(_end(state), last, length, self._control.stop_log_loss, self._kind.clock, look)
        if met is None:
            return trial, log_loss
        part, there = met
        first, last_power = (float(velocity @ velocity) for velocity in (state.velocity, trial.velocity))
        energy = length * energy_until(part, first, last_power, trial.energy / length)
        moved = trial._replace(
            step=part * trial.step, end=state.time + part * length, lands=True, there=there.flat,
            velocity=there.velocity, energy=energy,
        )  # fmt: skip
        return moved, there.log_loss

    def _near_level(self, state: State, trial: _Trial) -> bool:
        """Whether to look at the loss: L is its start less the energy, and that tells whether it is far off."""
        control = self._control
        if not math.isfinite(control.stop_log_loss) or self._kind.clock == "loss" or self._problem.weight_decay > 0:
            return math.isfinite(control.stop_log_loss)
        left = math.exp(min(control.initial_log_loss, LARGEST_EXPONENT)) - _UNSURE * (state.energy + trial.energy)
        level = math.exp(min(control.stop_log_loss, LARGEST_EXPONENT))
        return not left > _FAR * level or state.accepted % _REFRESH == 0

    def _seen_crossings(self, state: State, trial: _Trial) -> tuple[Active, Active, bool]:
        """The activations, which of them changed, and whether any changed straight back; not after large steps."""
        if not (trial.ok and self._problem.slope < 1 and trial.step <= _NEAR * trial.smooth):
            return state.active, tuple(map(np.zeros_like, state.flipped)), False
        active = self._field.active()
        flipped = tuple(now != then for now, then in zip(active, state.active, strict=True))
        back = any(bool((now & then).any()) for now, then in zip(flipped, state.flipped, strict=True))
        return active, flipped, back

    def _next_caution(self, state: State, trial: _Trial, back: bool) -> float:
        """The smallest step rises with each jump and falls back slowly."""
        jumped = trial.at_floor or back or (not trial.ok and trial.step < trial.smooth)
        fallen = _FALL * state.caution if trial.ok else state.caution
        least = self._least_caution(self._fraction(state.energy))
        return min(max(_RISE * state.caution if jumped else fallen, least), 1.0)

    def _roughness(self, trial: _Trial) -> float:
        power = trial.step**self._steps.order
        return trial.ratio / power if power > 0 else 0.0

    def _worse(self, state: State, trial: _Trial) -> float:
        """By what factor the next step's error will be larger than this one's: what is known, if it has shown."""
        if not (trial.ok and state.roughness > 0):
            return 1.0
        return min(self._steps.worse(self._field, trial.step), max(1.0, self._roughness(trial) / state.roughness))

    def _next_step(self, state: State, trial: _Trial) -> float:
        if not trial.finite:
            return _TRY_AGAIN * trial.step
        worse = self._worse(state, trial) ** (1.0 / self._steps.order)
        factor = _SAFETY / worse * trial.ratio ** (-1.0 / self._steps.order) if trial.ratio > 0 else math.inf
        # Near the smallest step it is jumps that limit it: grow carefully, and do not feel the way down again.
        near_floor = trial.step < _NEAR * trial.floor
        most = _GROW_NEAR_FLOOR if near_floor else 1.0 if state.retried else _GROW
        factor = min(max(factor, _SHRINK), most)
        wanted = trial.floor if near_floor and not trial.ok else max(trial.step * factor, trial.floor)
        if not trial.tame and trial.step <= trial.floor:
            wanted = trial.step * factor
        # A step cut short to land on a time says nothing against the one that was planned.
        return max(wanted, state.step / worse) if trial.ok and trial.lands else wanted

    # What the weights are asked for

    def _margin_power(self, flat: Flat) -> float:
        return margin_power(self.weights(flat), self._problem, self._kind)

    def _sizes_at(self, flat: Flat) -> Sizes:
        """What an error of each entry is judged against, found once for each state."""
        if self._sizes[0] is not flat:
            self._sizes = flat, sizes_of(flat, self._layers.shapes)
        return self._sizes[1]

    # Sizes of steps

    def _smooth_step(self, flat: Flat, power: float, fraction: float) -> float:
        """The largest smallest step: one that was asked for, or the part ``fraction`` of 1/ρ.

        On the loss clock ρ's bound is far too large: there the larger part of the Hessian is at most the margins' mean
        squared gradient g², and the other part is about depth · g/‖W‖.
        """
        if self._control.smallest_step > 0:
            return self._control.smallest_step
        steepness = self._steepness.at(self._sizes_at(flat).layers)
        if self._kind.clock == "loss":
            bend = len(self._layers.shapes) * math.sqrt(power / max(float(flat @ flat), SMALLEST))
            steepness = min(steepness, 4 * power + bend)
        if steepness == 0:
            return math.inf
        return (
            max(_SHORTEST, fraction / steepness) if steepness > 0 else _SHORTEST
        )  # of weights beyond float64's squares too

    def _fraction(self, energy: float) -> float:
        """rtol^{1/p}; on the loss clock what moves margins by a stated part."""
        if self._kind.clock == "time":
            return self._control.rtol ** (1.0 / self._steps.order)
        return min(_MARGIN_FRACTION * self._log_inverse_loss(energy), _LARGEST_FRACTION)

    def _least_caution(self, fraction: float) -> float:
        """What makes the smallest step rtol/ρ; a smallest step that was asked for is kept to from the start."""
        return 1.0 if self._control.smallest_step > 0 else self._control.rtol / fraction

    def _relative(self, energy: float) -> float:
        """The relative tolerance; on the loss clock it shrinks like 1/ln(1/L).

        There a relative error δ of the weights shifts margins, which are about ln(1/L), by δ ln(1/L), and the residuals
        are exponentials of these. The steps are then bounded by stability anyway, so that this costs next to nothing.
        """
        rtol = self._control.rtol
        return rtol if self._kind.clock == "time" else rtol / self._log_inverse_loss(energy)

    def _log_inverse_loss(self, energy: float) -> float:
        """Ln 1/L on the loss clock, where ln L is its start minus the energy so far; 1 at least."""
        return max(1.0, energy - self._control.initial_log_loss)
