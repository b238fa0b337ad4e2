"""The late phase: stiff, but with a real spectrum; integrated by exponentials of the Hessian.

Where the flow approaches a minimum its fast directions are long at rest while slow ones still move, and an explicit
method is held to steps of a few inverse fastest rates. The Jacobian J of a gradient flow is minus a Hessian: symmetric,
so J = QΛQᵀ with real Λ, and after merging it is small. An exponential Rosenbrock method of order 4 (Hochbruck and
Ostermann's exprb43, with one of order 3 inside for the error) solves the linearised flow exactly, at any step. With
N(u) = F(u) − Ju, whose derivative vanishes at x,

    U₂ = x + (h/2)φ₁(hJ/2)F(x),           D₂ = N(U₂) − N(x),
    U₃ = x + hφ₁(hJ)(F(x) + D₂),          D₃ = N(U₃) − N(x),

and N(u(τ)) − N(x) ≈ (τ/h)²A + (τ/h)³B with A = 8D₂ − D₃, B = 2D₃ − 8D₂ gives the flow at every τ, at h the method's
own:

    x(τ) = x + τφ₁(τJ)F + 2τ(τ/h)²φ₃(τJ)A + 6τ(τ/h)³φ₄(τJ)B,    φ_k(z) = Σ_j z^j/(j + k)!.

The last term at τ = h is the error's estimate. Directions of growth are treated like the others, so nothing is
mistaken for rest at a saddle. Neurons that slide move within their surfaces: J is projected on them. Rows too small to
matter (and passive ones) only ride along: they obey ż = [[−λ, c], [cᵀ, −λ]]z with the c of the others' way, and stay
exact in proportion however small they are. The energy of a step is ∫‖e^{τJ}F‖²dτ = Σ_k hφ₁(2hλ_k)F_k² and, by
quadrature, what A and B add.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from biasfree.dynamics.exact._field import (
    Data,
    Pattern,
    beyond,
    log_loss,
    project,
    raw_pull,
    rows_of,
    split,
    velocity,
)

LARGEST = 300  # unknowns up to which J is formed
_NUDGE = 1e-7
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_STRETCHES = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0)  # fast changes come first
_GROWTH = 3.0  # largest hλ of a growing direction


@njit(cache=True)
def _jacobian(state, data, pattern, base, nudge, index):
    """Differences of the velocity with respect to some entries of the state, one by one."""
    lines, count = data.directions.shape[0], index.shape[0]
    p, q = np.empty(lines), np.empty(lines)
    found = np.empty((count, count))
    out, moved = np.empty_like(state), state.copy()
    for k in range(count):
        moved[index[k]] = state[index[k]] + nudge
        velocity(moved, data, pattern, out, p, q)
        moved[index[k]] = state[index[k]]
        for j in range(count):
            found[j, k] = (out[index[j]] - base[index[j]]) / nudge
    return found


@njit(cache=True)
def phis(z):
    """φ₁, φ₃ and φ₄ of each entry, by their series where the formulas cancel."""
    found = np.empty((3, z.shape[0]))
    for i in range(z.shape[0]):
        x = z[i]
        if abs(x) < 1.0:
            term, third, fourth = 1.0 / 24, 0.0, 0.0
            for k in range(20):
                fourth += term
                term *= x / (k + 5)
            third = 1.0 / 6 + x * fourth
            found[0, i], found[1, i], found[2, i] = 1.0 + x * (0.5 + x * third), third, fourth
        else:
            first = math.expm1(x) / x
            third = ((first - 1.0) / x - 0.5) / x
            found[0, i], found[1, i], found[2, i] = first, third, (third - 1.0 / 6) / x
    return found


@njit(cache=True)
def _heavy_at(state, index, rates, modes, course, length, time):
    """The state with its heavy rows moved on."""
    found, functions = state.copy(), phis(time * rates)
    x = time / length if length > 0 else 0.0
    change = np.empty(rates.shape[0])
    for k in range(rates.shape[0]):
        change[k] = time * functions[0, k] * course[0, k]
        change[k] += time * x**2 * (2 * functions[1, k] * course[1, k] + 6 * x * functions[2, k] * course[2, k])
    moved = np.dot(modes, change)
    for k in range(rates.shape[0]):
        found[index[k]] += moved[k]
    return found


@njit(cache=True)
def _pull(state, data, pattern):
    """c of every active row, across what it slides on."""
    dim, lines = data.directions.shape[1], data.directions.shape[0]
    first, second = split(state, rows_of(state, dim), dim)
    pull, _ = raw_pull(first, second, data, pattern, np.empty(lines), np.empty(lines))
    project(pull, pattern)
    return pull


@njit(cache=True)
def _at(state, index, rates, modes, course, length, time, data, pattern, riding):
    """Heavy rows by the method; the others by e^{ΔA}, A = [[−λ, c], [cᵀ, −λ]] with c's mean over some stretches."""
    found = _heavy_at(state, index, rates, modes, course, length, time)
    if not riding.any():
        return found
    dim, active = data.directions.shape[1], pattern.side.shape[0]
    rows = rows_of(state, dim)
    first, second = split(found, rows, dim)
    before, begin = 0.0, _pull(state, data, pattern)
    for part in _STRETCHES:
        now = part * time
        half = _pull(_heavy_at(state, index, rates, modes, course, length, 0.5 * (before + now)), data, pattern)
        end = _pull(_heavy_at(state, index, rates, modes, course, length, now), data, pattern)
        for row in range(rows):
            if not riding[row]:
                continue
            h = row if row < active else pattern.owner[row - active]
            size, along = 0.0, 0.0
            for j in range(dim):
                c = (begin[h, j] + 4 * half[h, j] + end[h, j]) / 6
                size += c * c
                along += c * first[row, j]
            size = math.sqrt(size)
            if size == 0:
                continue
            along /= size
            phase = min(size * (now - before), 300.0)
            ahead = along * (math.cosh(phase) - 1) + second[row] * math.sinh(phase)
            for j in range(dim):
                first[row, j] += ahead * (begin[h, j] + 4 * half[h, j] + end[h, j]) / (6 * size)
            second[row] = along * math.sinh(phase) + second[row] * math.cosh(phase)
        before, begin = now, end
    fade = math.exp(-data.decay * time)
    for row in range(rows):
        if riding[row]:
            for j in range(dim):
                first[row, j] *= fade
            second[row] *= fade
    return found


@dataclass
class Step:
    """A linearised stretch from ``state``: the flow to any time within it."""

    state: np.ndarray
    data: Data
    pattern: Pattern
    heavy: np.ndarray  # the rows J is formed of
    index: np.ndarray  # their entries in the state
    rates: np.ndarray  # Λ
    modes: np.ndarray  # Q
    force: np.ndarray  # QᵀF
    light: float
    length: float = 0.0
    bend: tuple[np.ndarray, np.ndarray] | None = None  # QᵀA and QᵀB

    @classmethod
    def of(cls, state: np.ndarray, data: Data, pattern: Pattern, light: float) -> "Step":
        """Linearise at ``state``; rows of a squared size below ``light`` of the whole only ride along."""
        base = _velocity(state, data, pattern)
        dim, active = data.directions.shape[1], len(pattern.side)
        rows = rows_of(state, dim)
        first, second = split(state, rows, dim)
        squares = np.sum(first[:active] ** 2, axis=1) + second[:active] ** 2
        heavy = np.flatnonzero(squares > light * squares.sum())
        index = np.concatenate([(heavy[:, None] * dim + np.arange(dim)).ravel(), rows * dim + heavy])
        nudge = _NUDGE * max(float(np.abs(state[:-1]).max()), 1e-300)
        jacobian = _jacobian(state, data, pattern, base, nudge, index)
        for place, h in enumerate(heavy.tolist()):
            if pattern.span[h]:
                basis = pattern.basis[h, : pattern.span[h]]
                across = np.eye(dim) - basis.T @ basis
                own = slice(place * dim, (place + 1) * dim)
                jacobian[own] = across @ jacobian[own]
                jacobian[:, own] = jacobian[:, own] @ across
        rates, modes = np.linalg.eigh(0.5 * (jacobian + jacobian.T))
        return cls(state, data, pattern, heavy, index, rates, modes, modes.T @ base[index], light)

    def try_length(self, length: float, rtol: float, atol: float) -> float:
        """Set the step's length; returns the largest error of a neuron in units of its tolerance."""
        self.length = length
        middle = self._bent(0.5 * length * phis(0.5 * length * self.rates)[0] * self.force)
        one, _, four = phis(length * self.rates)
        end = self._bent(length * one * (self.force + middle))
        self.bend = (8 * middle - end, 2 * end - 8 * middle)
        error = self._sizes(self.modes @ (6 * length * four * self.bend[1]))
        size = self._sizes(self._heavy_at(length)[self.index])
        worst = float(np.max(error / (atol + rtol * size), initial=0.0))
        return worst if np.isfinite(worst) else np.inf

    def _sizes(self, entries: np.ndarray) -> np.ndarray:
        """Norm of each heavy row."""
        count = len(self.heavy)
        first = entries[:-count].reshape(count, -1) if count else entries.reshape(0, 1)
        return np.sqrt(np.sum(first**2, axis=1) + entries[len(entries) - count :] ** 2)

    def _bent(self, change: np.ndarray) -> np.ndarray:
        """QᵀN(x + Q·change) − QᵀN(x)."""
        there = _velocity(self._moved(change), self.data, self.pattern)[self.index]
        return self.modes.T @ there - self.force - self.rates * change

    def _moved(self, change: np.ndarray) -> np.ndarray:
        found = self.state.copy()
        found[self.index] += self.modes @ change
        return found

    def _heavy_at(self, time: float) -> np.ndarray:
        return _heavy_at(self.state, self.index, self.rates, self.modes, self._course, self.length, time)

    @property
    def _course(self) -> np.ndarray:
        """QᵀF, QᵀA and QᵀB."""
        nothing = np.zeros_like(self.force)
        return np.stack([self.force, *(self.bend if self.bend is not None else (nothing, nothing))])

    def at(self, time: float) -> np.ndarray:
        """The state a time after the step's beginning; the energy as it was."""
        course, riding = self._course, np.ones(rows_of(self.state, self.data.directions.shape[1]), dtype=np.bool_)
        riding[self.heavy] = False
        return _at(
            self.state, self.index, self.rates, self.modes, course, self.length, time, self.data, self.pattern, riding
        )

    def whole(self, time: float) -> np.ndarray:
        """The state then, energy included."""
        found = self.at(time)
        found[-1] += time * float(np.sum(phis(2 * time * self.rates)[0] * self.force**2))
        if self.bend is not None:
            for node, weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
                t = 0.5 * time * (1 + node)
                z, x = t * self.rates, t / self.length
                _, three, four = phis(z)
                # The velocity that A and B add is λ times the place they add, and themselves.
                added = x**2 * ((2 * z * three + 1) * self.bend[0] + x * (6 * z * four + 1) * self.bend[1])
                found[-1] += 0.5 * time * weight * float(added @ (2 * np.exp(z) * self.force + added))
        return found

    def outgrown(self, length: float) -> bool:
        """Whether light rows would have become heavy ones by then."""
        end, dim, active = self.at(length), self.data.directions.shape[1], len(self.pattern.side)
        first, second = split(end, rows_of(end, dim), dim)
        squares = np.sum(first[:active] ** 2, axis=1) + second[:active] ** 2
        riding = np.ones(active, dtype=bool)
        riding[self.heavy] = False
        return bool((squares[riding] > 10 * self.light * squares.sum()).any())

    def longest(self) -> float:
        """A length at which nothing grows beyond what a linearisation can follow."""
        top = float(self.rates.max(initial=0.0))
        return _GROWTH / top if top > 0 else np.inf

    def displacement(self, horizon: float) -> float:
        """How far the linearised flow moves until then."""
        with np.errstate(over="ignore"):
            moved = horizon * phis(np.minimum(horizon * self.rates, 700.0))[0] * self.force
        return float(np.linalg.norm(moved))


def _velocity(state: np.ndarray, data: Data, pattern: Pattern) -> np.ndarray:
    out, lines = np.empty_like(state), len(data.directions)
    velocity(state, data, pattern, out, np.empty(lines), np.empty(lines))
    return out


@dataclass(frozen=True)
class Event:
    """What ends an exponential step."""

    time: float
    kind: str  # "met", "full", "turned" or "level"
    neuron: int = -1
    line: int = -1

    @property
    def turned(self) -> bool:
        """Whether w₂ is zero."""
        return self.kind == "turned"


def first_event(step: Step, length: float, level: float) -> Event | None:
    """The first event of a step, by bisection; None if there is none."""
    low, found = 0.0, None
    for part in (0.5, 1.0):
        high = part * length
        found = _happened(step, high, level)
        if found is not None:
            break
        low = high
    if found is None:
        return None
    for _ in range(60):
        middle = 0.5 * (low + high)
        earlier = _happened(step, middle, level)
        if earlier is not None:
            high, found = middle, earlier
        else:
            low = middle
        if high - low <= 1e-15 * high:
            break
    return found


def _happened(step: Step, time: float, level: float) -> Event | None:
    """Something that must have happened by then."""
    data, pattern, state = step.data, step.pattern, step.at(time)
    active, dim = len(pattern.side), data.directions.shape[1]
    if level > -np.inf and log_loss(state, data, active) <= level:
        return Event(time, "level")
    if data.b == 0:
        return None
    first, second = split(state, rows_of(state, dim), dim)
    products = pattern.side * (first[:active] @ data.transposed)
    depth = products + max(1e-13, 1e-2 * data.rtol) * np.linalg.norm(first[:active], axis=1)[:, None]
    if depth.min(initial=0.0) < 0:
        h, line = np.unravel_index(np.argmin(depth), depth.shape)
        return Event(time, "met", int(h), int(line))
    sliding = np.flatnonzero(pattern.rank)
    if sliding.size:
        lines = len(data.directions)
        p, q = np.empty((2, lines))
        pull, _ = raw_pull(first, second, data, pattern, p, q)
        _, before = split(step.state, rows_of(state, dim), dim)
        for h in sliding:
            if second[h] * before[h] < 0:
                return Event(time, "turned", int(h))
            if not beyond(h, pull, p, q, data, pattern) <= 0:
                return Event(time, "full", int(h))
    return None
