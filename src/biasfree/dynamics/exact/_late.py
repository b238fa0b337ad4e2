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
mistaken for rest at a saddle. Rows that slide move within their surfaces: J is projected on them.

**Light rows**, too small for the output to notice, and passive ones are no part of J, where they would drown in
rounding. They obey ż = [[−λ, M], [Mᵀ, −λ]]z with the M of the others' way, taken as constant over arcs so short
that nothing grows by more than e² in one; a step ends before one of them ceases to be light. The energy of a step is
∫‖e^{τJ}F‖²dτ = Σ_k hφ₁(2hλ_k)F_k² and, by quadrature, what A and B add.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh_tridiagonal

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Arc
from biasfree.dynamics.exact._field import across, pulls_of, velocity
from biasfree.dynamics.exact._kernels import Pattern
from biasfree.dynamics.exact._methods import FROM_NODES, NODES, basis

LARGEST = 300  # unknowns up to which J is formed
_NUDGE = 1e-5  # of central differences: rounding 1e-11, truncation 1e-10 of the largest rate
_FLAT = 1e-9  # rates below this part of the largest are what differences make of zero
_GROWTH = 3.0  # largest hλ of a growing direction that a linearisation may follow
_LIGHT_GROWTH = 2.0  # largest growth of a light row over an arc, so that eight points follow it
_STRETCHES = 300  # of one step at most
_GROWS = 0.1  # growth, in e-folds until the end, that still counts as none
_DIRECTIONS = 40  # of Lanczos' method, where there are too many unknowns to form J
_OUTGROWN = 10.0  # times ``light``, the square at which a row is no longer a light one
_QUADRATURE, _QUADRATURE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_MEAN = FROM_NODES.mean(axis=0)  # the mean of a polynomial is that of its Bernstein coefficients


def phis(z: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ₁, φ₃ and φ₄ of each entry, by their series where the formulas cancel.

    >>> one, three, four = phis(np.array([0.0, -1e9]))
    >>> bool(np.allclose(one, [1, 1e-9])), bool(np.allclose(three * 6, [1, 3e-9]))
    (True, True)
    """
    small = np.abs(z) < 1.0
    x = np.where(small, z, 0.0)
    fourth = np.zeros_like(x)
    for k in range(16, -1, -1):
        fourth = 1 / math.factorial(k + 4) + x * fourth
    third = 1 / 6 + x * fourth
    series = (1 + x * (0.5 + x * third), third, fourth)
    y = np.where(small, 1.0, np.minimum(z, 700.0))
    first = np.expm1(y) / y
    third = ((first - 1) / y - 0.5) / y
    direct = (first, third, (third - 1 / 6) / y)
    return tuple(np.where(small, a, b) for a, b in zip(series, direct, strict=True))  # type: ignore[return-value]


class LateStep:
    """A linearised way from rows ``z``: the flow to any time within it."""

    def __init__(self, z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, light: float) -> None:
        """Linearise; rows of a squared size below ``light`` of the whole are light ones."""
        self.z, self.data, self.pattern, self.light = z, data, pattern, light
        active = len(pattern.side)
        squares = np.einsum("hd,hd->h", z[:active], z[:active])
        self.heavy = np.flatnonzero(squares > light * squares.sum())
        self.riding = np.setdiff1d(np.arange(len(z)), self.heavy)
        self.shape = (len(self.heavy), z.shape[1])
        self.evaluations = 1
        self._linearise()
        self.length = 0.0
        self.bend = (np.zeros_like(self.force), np.zeros_like(self.force))
        self.reaches, self._ways = 0.0, list[Arc]()

    def _linearise(self) -> None:
        """Rates, modes and the force along them: all of J, or what Lanczos' method sees of it."""
        size = self.heavy.size * self.z.shape[1]
        self.force_flat = self._within(self._velocity(self.z[None]))[0]
        self.rates, self.modes = (np.zeros(0), np.zeros((size, 0)))
        if size == 0:
            self.force = np.zeros(0)
            return
        if size <= LARGEST:
            jacobian = self._times(np.eye(size))
            rates, self.modes = np.linalg.eigh(0.5 * (jacobian + jacobian.T))
        else:
            rates, self.modes = self._lanczos(self.force_flat)
        self.rates = np.where(np.abs(rates) <= _FLAT * np.abs(rates).max(initial=0.0), 0.0, rates)
        self.force = self.modes.T @ self.force_flat

    def _times(self, vectors: Float[np.ndarray, "n entries"]) -> Float[np.ndarray, "n entries"]:
        """J times vectors of size one, within the surfaces that rows slide on, by central differences."""
        nudge = _NUDGE * max(float(np.abs(self.z[self.heavy]).max(initial=0.0)), 1e-300)
        changes = self._within(vectors).reshape(len(vectors), *self.shape)
        states = np.repeat(self.z[None], 2 * len(vectors), axis=0)
        states[: len(vectors), self.heavy] += nudge * changes
        states[len(vectors) :, self.heavy] -= nudge * changes
        moved = self._velocity(states)
        self.evaluations += 2 * len(vectors)
        return self._within((moved[: len(vectors)] - moved[len(vectors) :]) / (2 * nudge))

    def _within(self, vectors: Float[np.ndarray, "n entries"]) -> Float[np.ndarray, "n entries"]:
        """The part of vectors within the surfaces that rows slide on."""
        dim = self.data.directions.shape[1]
        parts = vectors.reshape(len(vectors), *self.shape).copy()
        parts[..., :dim] = np.einsum("hij,nhj->nhi", across(self.pattern)[self.heavy], parts[..., :dim])
        return parts.reshape(len(vectors), -1)

    def _lanczos(self, begin: Float[np.ndarray, "entries"]) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of J on the Krylov space of a vector."""
        basis = [begin / max(float(np.linalg.norm(begin)), 1e-300)]
        diagonal: list[float] = []
        beside: list[float] = []
        while True:
            image = self._times(basis[-1][None])[0]
            diagonal.append(float(basis[-1] @ image))
            known = np.stack(basis)
            for _ in range(2):
                image = image - known.T @ (known @ image)
            length = float(np.linalg.norm(image))
            if len(basis) >= _DIRECTIONS or length <= 1e-10 * np.max(np.abs(diagonal)):
                rates, vectors = eigh_tridiagonal(diagonal, beside)
                return rates, known.T @ vectors
            beside.append(length)
            basis.append(image / length)

    @property
    def whole(self) -> bool:
        """Whether all of J is known, as steps need it; for rest a part of it will do."""
        return self.heavy.size * self.z.shape[1] <= LARGEST

    def seen_growth(self) -> float:
        """The largest rate that a random direction sees: growth that the force happens to miss."""
        if self.whole:
            return float(self.rates.max(initial=0.0))
        return float(self._lanczos(np.random.default_rng(0).normal(size=self.force_flat.size))[0].max())

    def _velocity(self, states: Float[np.ndarray, "n rows columns"]) -> Float[np.ndarray, "n entries"]:
        """Of the heavy rows."""
        found = pulls_of(states, self.data, self.pattern.side)
        return velocity(states, found, self.pattern)[:, self.heavy].reshape(len(states), -1)

    def try_length(self, length: float, rtol: float, atol: float) -> float:
        """Set the step's length; returns the largest error of a row in units of its tolerance."""
        self.length = length
        middle = self._bent(0.5 * length * phis(0.5 * length * self.rates)[0] * self.force)
        one, _, four = phis(length * self.rates)
        end = self._bent(length * one * (self.force + middle))
        self.bend = (8 * middle - end, 2 * end - 8 * middle)
        error = np.abs((self.modes @ (6 * length * four * self.bend[1])).reshape(self.shape)).max(axis=1, initial=0.0)
        size = np.abs(self._heavy_at(np.array([length]))[0]).max(axis=1, initial=0.0)
        worst = float(np.max(error / (atol + rtol * size), initial=0.0))
        self.evaluations += 2
        return worst if np.isfinite(worst) else np.inf

    def _bent(self, change: Float[np.ndarray, "modes"]) -> Float[np.ndarray, "modes"]:
        """QᵀN(x + Q·change) − QᵀN(x)."""
        there = self.z.copy()
        there[self.heavy] += (self.modes @ change).reshape(self.shape)
        return self.modes.T @ self._within(self._velocity(there[None]))[0] - self.force - self.rates * change

    def _heavy_at(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n heavy columns"]:
        one, three, four = phis(times[:, None] * self.rates)
        x = (times / self.length if self.length > 0 else 0 * times)[:, None]
        change = times[:, None] * (one * self.force + x**2 * (2 * three * self.bend[0] + 6 * x * four * self.bend[1]))
        return self.z[self.heavy] + (change @ self.modes.T).reshape(len(times), *self.shape)

    def longest(self) -> float:
        """A length at which nothing grows beyond what a linearisation can follow."""
        top = float(self.rates.max(initial=0.0))
        return _GROWTH / top if top > 0 else np.inf

    def rests(self, horizon: float, rtol: float) -> bool:
        """Whether nothing would move or grow by more than rtol until then; light rows may fade."""
        if float(self.rates.max(initial=0.0)) * horizon > _GROWS:
            return False
        moved = horizon * phis(horizon * self.rates)[0] * self.force
        if not np.linalg.norm(moved) <= rtol * np.linalg.norm(self.z):
            return False
        matrices, decay = self._light_pulls()
        growth = np.linalg.norm(matrices, axis=(1, 2)) - decay
        self.length = horizon
        return bool(max(growth.max(initial=0.0), self.seen_growth()) * horizon <= _GROWS)

    def _light_pulls(self) -> tuple[Float[np.ndarray, "riding dim outputs"], float]:
        """M of the rows that are no part of J, here, and λ."""
        found = pulls_of(self.z, self.data, self.pattern.side)
        matrices = np.einsum("hij,hjk->hik", across(self.pattern), found.matrices)
        return matrices[self.pattern.owner[self.riding]], float(found.decay)

    def at_rest(self, time: float) -> Float[np.ndarray, "rows columns"]:
        """The rows a time later, once nothing heavy moves: light rows are pulled as they are now."""
        z = self.z.copy()
        z[self.heavy] = self._heavy_at(np.array([time]))[0]
        if self.riding.size:
            z[self.riding] = _propagated(z[self.riding], *self._light_pulls(), np.array([time]))[0]
        return z

    # The way of all rows, in arcs

    def arcs(self) -> list[Arc]:
        """The way of all rows over the step's length; shorter if a light row would cease to be one."""
        ends = self._grid()
        begins = np.concatenate([[0.0], ends[:-1]])
        times = begins[:, None] + (ends - begins)[:, None] * NODES
        states = np.repeat(self.z[None], times.size, axis=0).reshape(*times.shape, *self.z.shape)
        states[:, :, self.heavy] = self._heavy_at(times.ravel()).reshape(*times.shape, *self.shape)
        kept = len(ends)
        if self.riding.size:
            kept = self._ride(states, ends - begins)
        curves = np.einsum("kx,nx...->nk...", FROM_NODES, states[:kept])
        self._ways = [Arc(*each) for each in zip(begins.tolist(), ends.tolist(), curves, strict=False)]
        self.reaches = float(ends[kept - 1]) if kept else 0.0
        return self._ways

    def _grid(self) -> Float[np.ndarray, "arcs"]:
        """Ends of arcs: short ones first, where fast directions still move, and none too long for light rows."""
        fastest = float(np.abs(self.rates).max(initial=0.0))
        first = min(self.length, 1.0 / fastest if fastest > 0 else np.inf)
        doublings = max(0, math.ceil(math.log2(self.length / first))) if first > 0 else 0
        ends = np.minimum(first * 2.0 ** np.arange(doublings + 1), self.length)
        if not self.riding.size:
            return ends
        found = pulls_of(self.z, self.data, self.pattern.side)
        rate = float(np.linalg.norm(found.matrices[self.pattern.owner[self.riding]], axis=(1, 2)).max())
        longest = _LIGHT_GROWTH / rate if rate > 0 else np.inf
        grid: list[float] = []
        last = 0.0
        for end in ends.tolist():
            parts = max(1, math.ceil(min((end - last) / longest, _STRETCHES)))
            grid += (last + (end - last) * np.arange(1, parts + 1) / parts).tolist()
            last = end
        grid = grid[:_STRETCHES]
        return np.array(grid)

    def _ride(self, states: Float[np.ndarray, "arcs nodes rows columns"], spans: np.ndarray) -> int:
        """Fill in the light and passive rows; how many arcs there are before one of them is light no more."""
        count, nodes = states.shape[:2]
        active = len(self.pattern.side)
        found = pulls_of(states.reshape(-1, *states.shape[2:]), self.data, self.pattern.side)
        matrices = np.einsum("hij,nhjk->nhik", across(self.pattern), found.matrices)
        matrices = np.einsum("x,nxhik->nhik", _MEAN, matrices.reshape(count, nodes, *matrices.shape[1:]))
        decay = found.decay.reshape(count, nodes) @ _MEAN
        light_rows = self.riding < active
        owner = self.pattern.owner[self.riding]
        now = self.z[self.riding]
        for n in range(count):
            elapsed = spans[n] * NODES
            way = _propagated(now, matrices[n][owner], float(decay[n]), elapsed)
            states[n][:, self.riding] = way
            now = way[-1]
            squares = np.einsum("hd,hd->h", now, now)[light_rows]
            whole = float(np.sum(states[n, -1][self.heavy] ** 2))
            if not (squares <= _OUTGROWN * self.light * whole).all():
                return n
        return count

    def at(self, time: float) -> Float[np.ndarray, "rows columns"]:
        """The rows a time after the step's beginning."""
        z = self.z.copy()
        z[self.heavy] = self._heavy_at(np.array([time]))[0]
        if self.riding.size and self._ways:
            number = min(int(np.searchsorted([way.end for way in self._ways], time)), len(self._ways) - 1)
            way = self._ways[number]
            x = (time - way.begin) / (way.end - way.begin)
            z[self.riding] = np.einsum("k,k...->...", basis(x), way.curve[:, self.riding])
        return z

    def energy(self, time: float) -> float:
        """∫‖Ẇ‖² over a time from the step's beginning."""
        total = time * float(np.sum(phis(2 * time * self.rates)[0] * self.force**2))
        t = 0.5 * time * (1 + _QUADRATURE)[:, None]
        z, x = t * self.rates, t / self.length
        _, three, four = phis(z)
        # The velocity that A and B add is λ times the place they add, and themselves.
        added = x**2 * ((2 * z * three + 1) * self.bend[0] + x * (6 * z * four + 1) * self.bend[1])
        power = np.sum(added * (2 * np.exp(np.minimum(z, 700.0)) * self.force + added), axis=1)
        return total + 0.5 * time * float(_QUADRATURE_WEIGHTS @ power)


def _propagated(
    rows: Float[np.ndarray, "rows columns"],
    matrices: Float[np.ndarray, "rows dim outputs"],
    decay: float,
    times: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "n rows columns"]:
    """e^{tA}z with A = [[−λ, M], [Mᵀ, −λ]]: along M's singular vectors a hyperbolic rotation, elsewhere only decay."""
    dim = matrices.shape[1]
    if matrices.shape[2] == 1:
        size = np.linalg.norm(matrices, axis=1)  # (rows, 1)
        left = matrices / np.where(size > 0, size, 1.0)[:, None]
        right = np.ones((len(rows), 1, 1))
    else:
        left, size, right = np.linalg.svd(matrices, full_matrices=False)
    one = np.einsum("hdr,hd->hr", left, rows[:, :dim])
    other = np.einsum("hrk,hk->hr", right, rows[:, dim:])
    t = times[:, None, None]
    # cosh and sinh times the decay, each exponential by itself: neither overflows unless the row does.
    rises, falls, fades = np.exp(t * (size - decay)), np.exp(-t * (size + decay)), np.exp(-decay * t)
    grown, turned = 0.5 * (rises + falls) - fades, 0.5 * (rises - falls)
    first = fades * rows[:, :dim] + np.einsum("hdr,nhr->nhd", left, grown * one + turned * other)
    second = fades * rows[:, dim:] + np.einsum("hrk,nhr->nhk", right, turned * one + grown * other)
    return np.concatenate([first, second], axis=2)
