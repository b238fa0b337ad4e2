"""The late phase: stiff, but with a real spectrum; integrated by exponentials of the Hessian.

Where the flow approaches a minimum its fast directions are long at rest while slow ones still move, and an explicit
method is held to steps of a few inverse fastest rates. The Jacobian J of a gradient flow is minus a Hessian: symmetric,
so J = QΛQᵀ with real Λ, and after merging it is small. What J leaves of the velocity, N(u) = F(u) − Ju, is taken for a
polynomial over a step of length h, under which the flow is known at every τ, however stiff J is:

    N(u(τ)) − N(x) = Σ_j (τ/h)^j B_j,    j = 1, …, 7,
    x(τ) = x + τφ₁(τJ)F + Σ_j j! τ(τ/h)^j φ_{j+1}(τJ)B_j,    φ_k(z) = Σ_i z^i/(i + k)!.

The B_j are those for which the first line holds at eight points of the step: exponential collocation, of order 8.
They are found by iteration from B = 0. N has no derivative at x, so that each turn gains two orders, whatever the
fast rates are, and three or four are enough. All points of a turn are computed at once. The error's estimate is the
size of the last term. Along a curved valley fast directions turn within a step, and the iteration diverges while the
way itself is smooth: then the same equations are solved by Newton's method (``_newton``).

(B₁ is there for steps that begin with a fast direction not at rest yet: once it is, N grows with τ, not τ².)
Directions of growth are treated like the others, so nothing is mistaken for rest at a saddle. Rows that slide move
within their surfaces: J is projected on them.

**Light rows**, too small for the output to notice, and passive ones are no part of J, where they would drown in
rounding. They obey ż = [[−λ, M], [Mᵀ, −λ]]z with the M of the others' way, of which the mean up to each time is taken
(Magnus' first term), over arcs so short that nothing grows by more than e² in one. A step ends before one of them
ceases to be light.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics._lanczos import lanczos
from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Arc
from biasfree.dynamics.exact._field import Pulls, across, pulls_of
from biasfree.dynamics.exact._jacobian import Rows, bends, dense, times
from biasfree.dynamics.exact._light import propagated
from biasfree.dynamics.exact._methods import FROM_NODES, NODES, basis
from biasfree.dynamics.exact._newton import slope_of, solved
from biasfree.dynamics.exact._phis import FACTORIALS, phis

LARGEST = 1000  # unknowns up to which J is formed
ORDER = 8  # of a step: its error's estimate is a term in h^8
_FLAT = 1e-12  # rates below this part of the largest are what rounding makes of zero
_GROWTH = 3.0  # largest hλ of a growing direction that a linearisation may follow
_LIGHT_GROWTH = 2.0  # largest growth of a light row over an arc, so that eight points follow it
_STRETCHES = 300  # of one step at most
_GROWS = 0.1  # growth, in e-folds until the end, that still counts as none
_OUTGROWN = 10.0  # times ``light``, the square at which a row is no longer a light one
_EPSILON = 1e-15  # what rounding makes of a force, as part of the pulls that it is a difference of
_EIGEN = 9.0  # times its size cubed, the multiplications that all eigenvectors of a symmetric matrix take
_TURNS = 6  # of the iteration at most
_NEWTON_TURNS = 12  # and of Newton's method: from far away it comes near slowly, and then in two or three
# Of a polynomial's leading coefficient, what its highest Chebyshev polynomial on [0, 1] has (2⁻¹³), eightfold: what
# lies beyond degree 7 is less. Monomials themselves would take rounding, or a fast direction not quite at rest, for
# an error.
_TOP = 2.0**-10
_SETTLED = 0.1  # part of the tolerance that further turns may change
_UNSEEN = 0.1  # part of the tolerance below which a fading direction needs no short arcs
_POWERS = np.arange(1, len(NODES))
_FIT = np.linalg.inv(NODES[1:, None] ** _POWERS)  # N at the points → B
_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(4)  # exact to degree 7
# Values at the nodes → means up to each of them.
_MEANS = np.stack([0.5 * _WEIGHTS @ basis(0.5 * x * (1 + _GAUSS)) for x in NODES]) @ FROM_NODES


class LateStep:
    """A linearised way from rows ``z``: the flow to any time within it."""

    def __init__(self, z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, light: float) -> None:
        """Linearise; rows of a squared size below ``light`` of the whole are light ones."""
        self.z, self.data, self.pattern, self.light = z, data, pattern, light
        active = len(pattern.side)
        squares = np.einsum("hd,hd->h", z[:active], z[:active])
        heavy = squares > light * squares.sum()
        self.heavy = np.flatnonzero(heavy)
        self.riding = np.concatenate([np.flatnonzero(~heavy), np.arange(active, len(z))])
        self.shape = (len(self.heavy), z.shape[1])
        self.evaluations, self.algebra = 1, 0.0
        self._linearise()
        self.length, self.reaches, self._ways = 0.0, 0.0, list[Arc]()
        self._end, self._energies = z, np.zeros((0, len(NODES)))
        self.bend, self._seen = np.zeros((len(_POWERS), self.force.size)), np.full(self.force.size, np.inf)
        self._curve: Float[np.ndarray, "8 modes"] | None = None  # the modes' way, where Newton's method found it

    def _linearise(self) -> None:
        """Rates, modes and the force along them: all of J, or what Lanczos' method sees of it."""
        self._here = pulls_of(self.z, self.data, self.pattern.side)
        self._across = across(self.pattern) if self.pattern.span.any() else None
        self.rows = self._rows_at(self.z, self._here)
        flat = self.rows.force
        if not flat.size:
            rates, self.modes = np.zeros(0), np.zeros((0, 0))
        elif self.whole:
            rates, self.modes = np.linalg.eigh(dense(self.rows, self.data))
            self.evaluations += flat.size
            self.algebra += _EIGEN * float(flat.size) ** 3
        else:
            seen = lanczos(flat, lambda vector: -times(vector, self.rows, self.data))
            rates, self.modes = -seen.rates, seen.modes
            self.evaluations += seen.products
        self.rates = np.where(np.abs(rates) <= _FLAT * np.abs(rates).max(initial=0.0), 0.0, rates)
        size = float(np.abs(self.rows.second).max(initial=0.0))
        self._noise = _EPSILON * (self._here.whole + self.data.mass) * size
        self.force = self._above_noise((self.modes.T @ flat)[None])[0]

    def _rows_at(self, z: Float[np.ndarray, "rows columns"], pulls: Pulls) -> Rows:
        """The heavy rows at a state, as J needs them."""
        dim, active = self.data.directions.shape[1], len(self.pattern.side)
        bent = bends(z[:active], self.data, self.pattern.side, float(pulls.level))
        own = None if self._across is None else self._across[self.heavy]
        return Rows(
            z[self.heavy, :dim], z[self.heavy, dim:], self.pattern.side[self.heavy], own,
            self._pulling(pulls)[self.heavy], float(pulls.decay), bent, self._velocity(z[None, self.heavy], pulls)[0],
        )  # fmt: skip

    def _above_noise(self, forces: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n modes"]:
        """Forces, but nothing along modes where all may be rounding alone: over long times that would add up."""
        return np.where(np.abs(forces).max(axis=0) <= self._noise, 0.0, forces)

    @property
    def whole(self) -> bool:
        """Whether all of J is known, as steps need it; for rest a part of it will do."""
        return self.heavy.size * self.z.shape[1] <= LARGEST

    def seen_growth(self) -> float:
        """The largest rate that a random direction sees: growth that the force happens to miss."""
        if self.whole:
            return float(self.rates.max(initial=0.0))
        some = np.random.default_rng(0).normal(size=self.rows.force.size)
        return -float(lanczos(some, lambda vector: -times(vector, self.rows, self.data)).rates[0])

    def _pulling(self, pulls: Pulls) -> Float[np.ndarray, "*n active dim outputs"]:
        """M of the active rows, without what they slide on; twice, as in ``native/field.c``."""
        return pulls.matrices if self._across is None else self._across @ (self._across @ pulls.matrices)

    def _velocity(self, heavy: Float[np.ndarray, "n heavy columns"], pulls: Pulls) -> Float[np.ndarray, "n entries"]:
        """Of the heavy rows at several states."""
        matrices, dim = self._pulling(pulls)[..., self.heavy, :, :], self.data.directions.shape[1]
        moved = np.empty_like(heavy)
        moved[..., :dim] = (matrices @ heavy[..., dim:, None])[..., 0]
        moved[..., dim:] = (heavy[..., None, :dim] @ matrices)[..., 0, :]
        moved -= np.asarray(pulls.decay)[..., None, None] * heavy
        return moved.reshape(len(heavy), math.prod(self.shape))

    def try_length(self, length: float, rtol: float, atol: float, solve: bool = True) -> float:
        """Set the step's length; returns the largest error of a row in units of its tolerance.

        Where the iteration diverges that is infinite, unless Newton's method is to ``solve`` it.
        """
        self.length, self._curve = length, None
        size = np.abs(self.z[self.heavy]).max(axis=1, initial=0.0)
        units = self.modes / np.repeat(atol + rtol * size, self.shape[1])[:, None]
        self._seen = np.abs(units).max(axis=0, initial=0.0)

        def judged(change: Float[np.ndarray, "*n modes"]) -> float:
            worst = np.abs(change @ units.T).max(initial=0.0)
            return float(worst) if np.isfinite(worst) else np.inf

        weights = self._weights(length * NODES[1:])
        left = self._iterated(weights, judged)
        if left < np.inf:
            return max(left, judged(weights[0, -1] * _TOP * self.bend[-1]))
        if not solve:
            return np.inf
        kernel = np.einsum("jnm,ji->nim", weights[1:], _FIT)
        places, left = solved(
            weights[0] * self.force, kernel, self._bent, self._slopes, judged, _NEWTON_TURNS, _SETTLED
        )
        self._curve = FROM_NODES[:, 1:] @ places
        return max(left, judged(_TOP * (_FIT @ places)[-1]))

    def _iterated(self, weights: Float[np.ndarray, "8 n modes"], judged: Callable[[np.ndarray], float]) -> float:
        """Find the B_j by iteration; what further turns would change, infinite where it does not converge."""
        places, left, turns = weights[0] * self.force, np.inf, [np.inf]
        while left > _SETTLED and len(turns) <= _TURNS:
            self.bend = _FIT @ self._bent(places)
            last, places = places[-1], self._places(weights)
            turns.append(judged(places[-1] - last))
            ratio = turns[-1] / turns[-2]
            if not ratio < 1:
                return np.inf
            # What all further turns will change.
            left = turns[-1] * (ratio / (1 - ratio) if len(turns) > 2 else 1.0)
        return left

    def _weights(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "8 n modes"]:
        """What the force, and each B_j, move every mode by until some times."""
        weights = phis(times[:, None] * self.rates, 1 + len(_POWERS))
        weights[0] *= times[:, None]
        part = (times / self.length if self.length > 0 else 0 * times) ** _POWERS[:, None]
        weights[1:] *= (FACTORIALS[_POWERS][:, None] * part * times)[..., None]
        return weights

    def _places(self, weights: Float[np.ndarray, "8 n modes"]) -> Float[np.ndarray, "n modes"]:
        """How far every mode has moved."""
        return weights[0] * self.force + np.einsum("jnm,jm->nm", weights[1:], self.bend)

    def _places_at(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n modes"]:
        """How far every mode has moved until some times."""
        if self._curve is None:
            return self._places(self._weights(times))
        return np.asarray(basis(times / self.length) @ self._curve)

    def _moving(
        self, times: Float[np.ndarray, "n"], places: Float[np.ndarray, "n modes"]
    ) -> Float[np.ndarray, "n modes"]:
        """How fast every mode moves at some times: F + Jx + Σ(τ/h)^j B_j along x(τ), or the slope of the way itself."""
        if self._curve is None:
            return self.force + self.rates * places + (times[:, None] / self.length) ** _POWERS @ self.bend
        return np.asarray(basis(times / self.length) @ slope_of(self._curve)) / self.length

    def _states(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n active columns"]:
        """The active rows at several places."""
        states = np.repeat(self.z[None, : len(self.pattern.side)], len(places), axis=0)
        states[:, self.heavy] = self._rows(places)
        return states

    def _slopes(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n modes modes"]:
        """The derivative of ``_bent`` at several places."""
        states = self._states(places)
        pulls = pulls_of(states, self.data, self.pattern.side)
        self.evaluations += places.size
        self.algebra += float(places.size) ** 3 / 3
        rows = [self._rows_at(state, pulls.take(n)) for n, state in enumerate(states)]
        return np.stack([self.modes.T @ dense(each, self.data) @ self.modes for each in rows]) - np.diag(self.rates)

    def _bent(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n modes"]:
        """QᵀN(x + Q·place) − QᵀN(x) at several places."""
        states = self._states(places)
        self.evaluations += len(places)
        moved = self._velocity(states[:, self.heavy], pulls_of(states, self.data, self.pattern.side))
        return self._above_noise(moved @ self.modes - self.force - self.rates * places)

    def _rows(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n heavy columns"]:
        return self.z[self.heavy] + (places @ self.modes.T).reshape(len(places), *self.shape)

    def longest(self) -> float:
        """A length at which nothing grows beyond what a linearisation can follow."""
        top = float(self.rates.max(initial=0.0))
        return _GROWTH / top if top > 0 else np.inf

    def rests(self, horizon: float, rtol: float) -> bool:
        """Whether nothing would move or grow by more than rtol until then; light rows may fade."""
        if float(self.rates.max(initial=0.0)) * horizon > _GROWS:
            return False
        moved = horizon * phis(horizon * self.rates, 1)[0] * self.force
        if not np.linalg.norm(moved) <= rtol * np.linalg.norm(self.z):
            return False
        growth = np.linalg.norm(self._light_pulls(), axis=(1, 2)) - self.rows.decay
        self.length = horizon
        return bool(max(growth.max(initial=0.0), self.seen_growth()) * horizon <= _GROWS)

    def _light_pulls(self) -> Float[np.ndarray, "riding dim outputs"]:
        """M of the rows that are no part of J, here; nothing pulls a row that is zero."""
        moves = self.z[self.riding].any(axis=1)
        return self._pulling(self._here)[self.pattern.owner[self.riding]] * moves[:, None, None]

    def at_rest(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n rows columns"]:
        """The rows some times later, once nothing heavy moves: light rows are pulled as they are now."""
        states = self._moved(times)
        if self.riding.size:
            decay, light = np.array([self.rows.decay]), self.z[self.riding]
            states[:, self.riding] = propagated(light, self._light_pulls()[None], decay, times)
        return states

    def energies_at_rest(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """∫‖e^{τJ}F‖² over some times."""
        return np.asarray(times * (phis(2 * times[:, None] * self.rates, 1)[0] @ self.force**2))

    def _moved(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n rows columns"]:
        """The rows some times later, light ones as they are now."""
        states = np.repeat(self.z[None], len(times), axis=0)
        states[:, self.heavy] = self._rows(self._places_at(times))
        return states

    # The way of all rows, in arcs

    def arcs(self) -> list[Arc]:
        """The way of all rows over the step's length; shorter if a light row would cease to be one."""
        ends = self._grid()
        begins = np.concatenate([[0.0], ends[:-1]])
        times = begins[:, None] + (ends - begins)[:, None] * NODES
        places = self._places_at(times.ravel())
        states = np.repeat(self.z[None], times.size, axis=0)
        states[:, self.heavy] = self._rows(places)
        states = states.reshape(*times.shape, *self.z.shape)
        kept = self._ride(states, ends - begins) if self.riding.size else len(ends)
        curves = np.einsum("kx,nx...->nk...", FROM_NODES, states[:kept])
        self._ways = [Arc(*each) for each in zip(begins.tolist(), ends.tolist(), curves, strict=False)]
        self.reaches = float(ends[kept - 1]) if kept else 0.0
        self._end = states[kept - 1, -1]
        self._energies = self._worked(times, places)[:kept]
        return self._ways

    def _worked(
        self, times: Float[np.ndarray, "arcs 8"], places: Float[np.ndarray, "nodes modes"]
    ) -> Float[np.ndarray, "arcs 8"]:
        """∫‖Ẇ‖² from the step's beginning to all nodes, as curves."""
        moving = self._moving(times.ravel(), places)
        power = np.einsum("nm,nm->n", moving, moving).reshape(times.shape)
        inside = (times - times[:, :1]) * (power @ _MEANS.T)
        before = np.concatenate([[0.0], np.cumsum(inside[:-1, -1])])
        return (before[:, None] + inside) @ FROM_NODES.T

    def _grid(self) -> Float[np.ndarray, "arcs"]:
        """Ends of arcs: short ones first, where fast directions still move, and none too long for light rows."""
        fastest = self._fastest()
        first = min(self.length, 1.0 / fastest if fastest > 0 else np.inf)
        doublings = max(0, math.ceil(math.log2(self.length / first))) if first > 0 else 0
        ends = np.minimum(first * 2.0 ** np.arange(doublings + 1), self.length)
        if not self.riding.size:
            return ends
        rate = float(np.linalg.norm(self._light_pulls(), axis=(1, 2)).max())
        grid: list[float] = []
        last = 0.0
        for end in ends.tolist():
            parts = max(1, math.ceil(min((end - last) * rate / _LIGHT_GROWTH, _STRETCHES)))
            grid += (last + (end - last) * np.arange(1, parts + 1) / parts).tolist()
            last = end
        return np.array(grid[:_STRETCHES])

    def _fastest(self) -> float:
        """The largest rate at which something fades that can be seen: in x(τ), what goes with e^{λτ}."""
        if self._curve is not None:
            return 0.0
        quick = np.abs(self.rates) * self.length > 1
        rates = self.rates[quick]
        terms = (FACTORIALS[_POWERS] / self.length**_POWERS)[:, None] * self.bend[:, quick] / rates ** _POWERS[:, None]
        fades = np.abs(self.force[quick] + terms.sum(axis=0)) / np.abs(rates)
        return float(np.abs(rates[fades * self._seen[quick] > _UNSEEN]).max(initial=0.0))

    def _ride(self, states: Float[np.ndarray, "arcs nodes rows columns"], spans: np.ndarray) -> int:
        """Fill in the light and passive rows; how many arcs there are before one of them is light no more."""
        count, nodes = states.shape[:2]
        pulls = pulls_of(states.reshape(-1, *states.shape[2:]), self.data, self.pattern.side)
        matrices = self._pulling(pulls)[:, self.pattern.owner[self.riding]]
        matrices = np.einsum("yx,nx...->ny...", _MEANS, matrices.reshape(count, nodes, *matrices.shape[1:]))
        decay = pulls.decay.reshape(count, nodes) @ _MEANS.T
        light_rows = self.riding < len(self.pattern.side)
        whole = np.sum(states[:, -1][:, self.heavy] ** 2, axis=(1, 2))
        now = self.z[self.riding]
        for n in range(count):
            way = propagated(now, matrices[n], decay[n], spans[n] * NODES)
            states[n][:, self.riding] = way
            now = way[-1]
            squares = np.einsum("hd,hd->h", now, now)[light_rows]
            if not (squares <= _OUTGROWN * self.light * whole[n]).all():
                return n
        return count

    def at(self, time: float) -> Float[np.ndarray, "rows columns"]:
        """The rows a time after the step's beginning."""
        return self.several(np.array([time]))[0]

    def several(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n rows columns"]:
        """The rows some times after the step's beginning."""
        states = self._moved(times)
        if self.riding.size:
            numbers, x = self._within(times)
            curves = np.stack([self._ways[number].curve[:, self.riding] for number in numbers.tolist()])
            states[:, self.riding] = np.einsum("nk,nk...->n...", basis(x), curves)
        states[times == self.reaches] = self._end
        return states

    def energy(self, time: float) -> float:
        """∫‖Ẇ‖² over a time from the step's beginning."""
        return float(self.energies(np.array([time]))[0])

    def energies(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """∫‖Ẇ‖² over some times from the step's beginning."""
        numbers, x = self._within(times)
        return np.asarray(np.einsum("nk,nk->n", basis(x), self._energies[numbers]))

    def _within(self, times: Float[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The arcs that times are in, and x ∈ [0, 1]."""
        bounds = np.array([self._ways[0].begin, *(way.end for way in self._ways)])
        numbers = np.clip(np.searchsorted(bounds, times) - 1, 0, len(self._ways) - 1)
        return numbers, (times - bounds[numbers]) / (bounds[numbers + 1] - bounds[numbers])
