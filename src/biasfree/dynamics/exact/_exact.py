"""The exact flow of a two-layer network: an integrator that goes from event to event, merging neurons as it goes."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree import losses
from biasfree.dynamics import _status
from biasfree.dynamics._pieces import Budget, Counts, How, Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._status import Status
from biasfree.dynamics.exact._data import by_line, by_moments
from biasfree.dynamics.exact._early import Early, early_phase, spectral_norm
from biasfree.dynamics.exact._explicit import Explicit
from biasfree.dynamics.exact._field import pulls_of
from biasfree.dynamics.exact._methods import NODES
from biasfree.dynamics.exact._rest import Late
from biasfree.dynamics.exact._state import State
from biasfree.lines import Lines, lines
from biasfree.switching import WORK, Switches

_UNRESOLVED = -1e9  # bound: beyond this ln L margins are known to 1e-7 at best, and e^margin to no digit
# What pieces, events and multiplications cost, in units of ``dynamics._work``: fitted to 44 runs of wide problems.
_PIECE, _PIECES = 2000.0, {How.BETWEEN_EVENTS: 800.0, How.EXPONENTIAL: 5000.0, How.LANCZOS: 5000.0}
_EVENT, _DECIDED, _PRODUCT, _ALGEBRA = 400.0, 1000.0, 0.006, 3e-5
_LOOKED = 60.0  # arcs in which a negligible neuron of several outputs is looked for its next line (measured)
_ARC = 40.0  # of an exponential step, besides its velocities: light rows take up to 300 (measured)
_SOLVED = 80.0  # systems of equations: by them neurons at rest at w = 0 are asked after every step (wide seed 9800)
_SMALL = 500  # lines × neurons up to which explicit steps go through the early phase too: few enough to take one by one


_PROBES = 4  # chosen: one finds a start that is not odd, as good as surely
_ROUNDING = (
    1e-13  # bound: 450 ε, what sums of ten thousand neurons that cancel leave; more of them are not seen to be odd
)


class Exact:
    """Integrates one run; see ``Integrator``."""

    dense = True

    def __init__(self, plan: Plan) -> None:
        """Nothing is done before the first piece."""
        self.plan = plan
        self._state: State | None = None
        self._early_events = Switches.of([])
        self._ordered = -1, self._early_events
        self._work = 0.0

    def advance(self, budget: Budget) -> Piece:
        """Go on by one step, or through one phase."""
        if self._state is None:
            return self._begin()
        before = _done(self._state)
        piece = self._late.advance(self.plan.until) or self._explicit.advance(self.plan.until)
        self._state.balance.keep(self._state.carried, self._state.time)
        self._work += _worked(piece, self._state, before)
        if piece.ended is None and self.plan.clock == "loss" and self._state.level < _UNRESOLVED:
            return _ended(piece, _status.unresolved(self.plan.axis, piece.end, self._state.level))
        return piece

    def counts(self) -> Counts:
        """What it has cost so far."""
        if self._state is None:
            return Counts(0, 0, work=self._work)
        pace = self._state.pace
        return Counts(
            pace.evaluations, pace.accepted, pace.rejected, smallest_step=pace.smallest,
            regrowth_error=self._state.balance.lost, work=self._work,
        )  # fmt: skip

    def events(self) -> Switches:
        """What every neuron did at which line and when; put in order once for as many as there are."""
        if self._state is None:
            return self._early_events
        count, table = self._ordered
        if count != len(self._state.noted):
            count, table = len(self._state.noted), self._early_events.followed_by(self._state.events())
            self._ordered = count, table
        return table

    def admissibility(self) -> float:
        """The largest inadmissible slide so far."""
        return 0.0 if self._state is None else self._state.inadmissible

    def remark(self) -> str:
        """A word on the events."""
        table = self.events()
        said = [_status.happened(str(table))] if len(table) else []
        if self._state is not None and self._late.stood and not self.plan.stop.converged:
            said.append(_status.NOTHING_INTEGRATED)
        if self._state is not None and not self._state.names_all:
            said.append(_status.ONE_FOR_ALL)
        if (table.kinds == "branch").any():
            said.append(_status.BRANCHED)
        return " ".join(said)

    def _begin(self) -> Piece:
        """The first piece: the early phase in closed form, or none of any length."""
        plan = self.plan
        first, second = (np.asarray(layer, dtype=float) for layer in plan.network.weights)
        neurons, began, dim = np.column_stack([first, second.T]), plan.start, first.shape[1]
        slope = 1.0 if plan.network.is_linear else float(plan.network.slope)
        grouped = lines(plan.dataset.inputs)
        data = by_line(grouped, plan.dataset, slope, plan.loss, plan.clock, plan.weight_decay)
        zero = math.exp(float(pulls_of(np.zeros((0, neurons.shape[1])), data, np.zeros((0, len(grouped)))).level))
        scale = zero if plan.clock == "loss" else 1.0
        looked = WORK.arcs
        early = self._early(neurons, grouped, slope, scale)
        self._work += _LOOKED * (WORK.arcs - looked)
        if early is not None:
            self._early_events = early.events.shifted(began)
            neurons, energy, time = early.at(early.time), early.energy(early.time), min(began + early.time, plan.until)
        else:
            energy, time = 0.0, began
        symmetric = plan.loss == "square" and grouped.pairs_up(np.asarray(plan.dataset.targets))
        if data.b == 0 and plan.loss == "square":
            data = by_moments(plan.dataset, plan.weight_decay, 1.0)
        elif symmetric and data.outputs > 1 and _is_odd(np.column_stack([first, second.T])):
            data = by_moments(plan.dataset, plan.weight_decay, data.a)  # and so it stays: no line ever matters
        if not np.isfinite(neurons).all() or not math.isfinite(zero):
            start = Point((first, second), 0.0)
            return Piece(began, began, lambda _: start, How.START, 0, ended=_status.not_finite(plan.axis, began))
        self._state = State(plan, neurons, data, time, energy, None if early is None else early.group)
        self._explicit = Explicit(self._state, symmetric)
        self._late = Late(self._state, self._state.limits.atol)
        ended = self._level_met(began)
        if early is None:  # else they are among its events
            self._state.note(began, self._state.carried.begun)
            view, z = self._state.view(), self._state.carried.z
            return Piece(began, began, lambda t: view.point(z, 0.0, t), How.START, 0, ended=ended)

        def at(t: float) -> Point:
            now, height = early.at(t - began), zero - scale * early.gain(t - began)
            return Point((now[:, :dim], now[:, dim:].T), early.energy(t - began), math.log(height))

        return Piece(began, time, at, How.EARLY, 0, ended=ended)

    def _level_met(self, began: float) -> Status | None:
        """The loss hardly moves in the early phase: its end is as good as any other time of it."""
        assert self._state is not None
        met = began < self._state.time and self._state.level <= self.plan.stop.level
        return _status.at_level(self.plan.axis, self._state.time) if met else None

    def _early(self, neurons: np.ndarray, grouped: Lines, slope: float, scale: float) -> Early | None:
        """The early phase, where its closed form is the cheaper way: not for few neurons that feel few lines."""
        plan, targets = self.plan, np.asarray(self.plan.dataset.targets, dtype=float)
        if not len(grouped) or not np.isfinite(neurons).all() or not 0 < scale < math.inf:
            return None
        felt = slope < 1 and grouped.pulls(losses.get(plan.loss).initial_residual(targets))[2].size > 0
        if felt and len(grouped) * len(neurons) <= _SMALL:
            return None
        return early_phase(
            neurons, grouped, targets, spectral_norm(np.asarray(plan.dataset.inputs)), slope=slope, loss=plan.loss,
            decay=plan.weight_decay / scale, scale=scale, rtol=plan.rtol, until=plan.until - plan.start,
        )  # fmt: skip


def _is_odd(neurons: Float[np.ndarray, "width columns"]) -> bool:
    """Whether for every neuron (w, v) there is one (−w, −v), or what comes to the same for all functions of z = (w, v).

    Σ_h (a·z_h)|a·z_h| is 0 for every a then, and for random ones in no other case.
    """
    probes = np.random.default_rng(0).standard_normal((neurons.shape[1], _PROBES))
    sums = neurons / (np.abs(neurons).max() or 1.0) @ probes
    return bool((np.abs((sums * np.abs(sums)).sum(axis=0)) <= _ROUNDING * (sums**2).sum(axis=0)).all())


class _Done(NamedTuple):
    """What has been done so far.

    Events that were not plain were ``decided``, systems of equations ``solved``, and exponential steps are ``arcs``.
    """

    evaluations: float
    multiplications: float
    events: float
    decided: float
    solved: float
    arcs: float


def _done(state: State) -> _Done:
    pace = state.pace
    return _Done(pace.evaluations, pace.algebra, len(state.noted), pace.decided, WORK.solved, pace.arcs)


def _worked(piece: Piece, state: State, before: _Done) -> float:
    """What a piece has cost, in units of ``dynamics._work``."""
    done = _Done(*(new - old for new, old in zip(_done(state), before, strict=True)))
    return (
        _PIECES.get(How(piece.how), _PIECE)
        + _PRODUCT * state.products * (done.evaluations + len(NODES) * done.arcs)
        + _ALGEBRA * done.multiplications + _EVENT * done.events + _DECIDED * done.decided
        + _SOLVED * done.solved + _ARC * done.arcs
    )  # fmt: skip


def _ended(piece: Piece, status: Status) -> Piece:
    return replace(piece, ended=status)
