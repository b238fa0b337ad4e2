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

**Arcs.** Events are searched on curves of degree 7, of which a step has as many as it takes to follow what can be seen
of e^{λτ}: eight points of an arc of length s leave 2(λs/4)⁸/8! of it (``native/arcs.c``).

**Light rows**, too small for the output to notice, and passive ones are no part of J, where they would drown in
rounding. They obey ż = [[−λ, M], [Mᵀ, −λ]]z with the M of the others' way, of which the mean up to each time is taken
(Magnus' first term), over arcs so short that nothing grows by more than e² in one, and less where rtol asks for it. A
step ends before one of them ceases to be light.
"""

import functools
from collections.abc import Iterator
from ctypes import addressof, byref
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._balance import Own
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Arcs, room_for
from biasfree.dynamics.exact._kernels import along, engine
from biasfree.dynamics.exact._light import propagated
from biasfree.dynamics.exact._methods import FROM_NODES, NODES, basis
from biasfree.dynamics.exact._modes import FIT, POWERS, SETTLED, TOP, Frame, Modes
from biasfree.dynamics.exact._newton import slope_of, solved
from biasfree.dynamics.exact._phis import FACTORIALS, phis
from biasfree.native import WHOLE, address, room, structure

ORDER = 8  # of a step: its error's estimate is a term in h^8
GROWTH = 3.0  # largest hλ of a growing direction that a linearisation may follow; chosen: errors grow by e³ = 20
# Growth of a light row over an arc that eight points follow, in e-folds, and how far they are off then (by its eighth
# power).
_LIGHT_GROWTH, _LIGHT_OFF = 2.0, 5e-7
_STRETCHES = 300  # of one step at most; chosen: cost alone
ROOM = 1 + 2 * len(NODES)  # numbers for each mode that drawing arcs works with
_GROWS = 0.1  # growth, in e-folds until the end, that still counts as none; chosen
_OUTGROWN = 10.0  # times ``light``, the square at which a row is no longer a light one; chosen: no to and fro
_NEWTON_TURNS = 12  # of Newton's method: from far away it comes near slowly, and then in two or three
_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(4)  # exact to degree 7
# Values at the nodes → means up to each of them.
_MEANS = np.stack([0.5 * _WEIGHTS @ basis(0.5 * x * (1 + _GAUSS)) for x in NODES]) @ FROM_NODES
_BEGIN, _NONE = np.zeros(1), np.zeros(0)
_POWER_FACTORIALS = FACTORIALS[POWERS][:, None]
_RIDE = structure("Ride", "p riding heavy means pulls mean room squares own d outgrown parted i count heavies")
_WAY = structure("Way", "p bend curve slope d length growth")
DRAWN = structure("Drawn", "p ends states curves energies room i count")


def are_heavy(z: Float[np.ndarray, "active columns"], light: float) -> Bool[np.ndarray, "active"]:
    """Which rows are a part of J: not those of a squared size below ``light`` of the whole."""
    squares = np.einsum("hd,hd->h", z, z)
    return np.asarray(squares > light * squares.sum())


def _strongest(matrices: Float[np.ndarray, "n dim outputs"]) -> Float[np.ndarray, "n"]:
    """The largest singular value of each: no row that M pulls grows faster."""
    if matrices.shape[2] > 1:
        return np.asarray(np.linalg.svd(matrices, compute_uv=False)[:, 0])
    return np.sqrt(np.einsum("nij,nij->n", matrices, matrices))


class LateStep:
    """A linearised way from rows ``z``: the flow to any time within it."""

    def __init__(
        self, z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, light: float, parted: float = np.inf,
        own: Own | None = None, frame: Frame | None = None,
    ) -> None:  # fmt: skip
        """Linearise; rows of a squared size below ``light`` of the whole are light ones.

        ``parted``: squared differences within a group, in units of its row, that part it. ``own`` is used up;
        ``frame``: see ``Modes``.
        """
        self.own, self.parted = own, parted
        self.z, self.data, self.pattern, self.light = z, data, pattern, light
        active = len(pattern.side)
        is_heavy = are_heavy(z[:active], light)
        self.heavy, lighter = np.flatnonzero(is_heavy), np.flatnonzero(~is_heavy)
        self.riding = np.concatenate([lighter, np.arange(active, len(z))])
        self.modes = Modes(z, data, pattern, self.heavy, lighter, light, frame)
        self.length, self.reaches, self._ways = 0.0, 0.0, Arcs(_NONE, _NONE, np.zeros((0, len(NODES), *z.shape)))
        self.drawn = 0  # arcs of the last way, taken or not
        self._end, self._energies = z, np.zeros((0, len(NODES)))
        self.bend, self._tolerances = np.zeros((len(POWERS), len(self.modes.rates))), np.zeros(len(self.heavy))
        self._growth = _LIGHT_GROWTH
        self._curve: Float[np.ndarray, "8 modes"] | None = None  # the modes' way, where Newton's method found it

    def try_length(self, length: float, rtol: float, atol: float, solve: bool = True) -> float:
        """Set the step's length; returns the largest error of a row in units of its tolerance.

        Where the iteration diverges that is infinite, unless Newton's method is to ``solve`` it.
        """
        self.length, self._curve = length, None
        self.follow_light(rtol)
        self._tolerances = atol + rtol * np.abs(self.z[self.heavy]).max(axis=1, initial=0.0)
        self.bend, left, error = self.modes.collocated(length, self._tolerances)
        if left < np.inf or not solve:
            return max(left, error)
        weights = self._weights(length * NODES[1:])
        kernel = np.einsum("jnm,ji->nim", weights[1:], FIT)
        places, left = solved(
            weights[0] * self.modes.force, kernel, self.modes.bent, self.modes.slopes, self._judged, _NEWTON_TURNS,
            SETTLED,
        )  # fmt: skip
        self._curve = FROM_NODES[:, 1:] @ places
        return max(left, self._judged(TOP * (FIT @ places)[-1:]))

    def follow_light(self, rtol: float) -> None:
        """Bound what light rows may grow by over an arc."""
        self._growth = _LIGHT_GROWTH * min(1.0, (rtol / _LIGHT_OFF) ** 0.125)

    @property
    def solved(self) -> bool:
        """Whether its length took Newton's method."""
        return self._curve is not None

    def _judged(self, changes: Float[np.ndarray, "n modes"]) -> float:
        """The largest change of a row, in units of its tolerance."""
        worst = (np.abs(self.modes.shown(changes)) / self._tolerances[:, None]).max(initial=0.0)
        return float(worst) if np.isfinite(worst) else np.inf

    def _weights(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "8 n modes"]:
        """What the force, and each B_j, move every mode by until some times."""
        weights = phis(times[:, None] * self.modes.rates, 1 + len(POWERS))
        weights[0] *= times[:, None]
        part = (times / self.length if self.length > 0 else 0 * times) ** POWERS[:, None]
        weights[1:] *= (_POWER_FACTORIALS * part * times)[..., None]
        return weights

    def _places_at(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n modes"]:
        """How far every mode has moved until some times."""
        if self._curve is None:
            return self.modes.places(times, self.length, self.bend)
        return np.asarray(basis(times / self.length) @ self._curve)

    def longest(self) -> float:
        """A length at which nothing grows beyond what a linearisation can follow."""
        top = float(self.modes.rates.max(initial=0.0))
        return GROWTH / top if top > 0 else np.inf

    def rests(self, horizon: float, rtol: float) -> bool:
        """Whether nothing would move or grow by more than rtol until then; light rows may fade."""
        if float(self.modes.rates.max(initial=0.0)) * horizon > _GROWS:
            return False
        moved = horizon * phis(horizon * self.modes.rates, 1)[0] * self.modes.force
        if not np.linalg.norm(moved) <= rtol * np.linalg.norm(self.z):
            return False
        growth = _strongest(self._light_pulls()) - self.modes.decay
        self.length = horizon
        return bool(max(growth.max(initial=0.0), self.modes.seen_growth()) * horizon <= _GROWS)

    def _light_pulls(self) -> Float[np.ndarray, "riding dim outputs"]:
        """M of the rows that are no part of J, here; nothing pulls a row that is zero."""
        moves, owners = self.z[self.riding].any(axis=1), self.pattern.owner[self.riding]
        matrices = self.modes.pulls_on(self.pattern.side[owners]) * moves[:, None, None]
        return matrices if self.pattern.across is None else self.pattern.across[owners] @ matrices

    def at_rest(
        self, times: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n rows columns"], Float[np.ndarray, "n"]]:
        """Rows and ∫‖e^{τJ}F‖² some times later, once nothing heavy moves: light rows are pulled as they are now."""
        states = self._moved(times)
        if self.riding.size:
            states[:, self.riding] = propagated(self.z[self.riding], self._light_pulls(), self.modes.decay, times)
        return states, times * (phis(2 * times[:, None] * self.modes.rates, 1)[0] @ self.modes.force**2)

    def _moved(self, times: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n rows columns"]:
        """The rows some times later, light ones as they are now."""
        states = np.repeat(self.z[None], len(times), axis=0)
        states[:, self.heavy] += self.modes.shown(self._places_at(times))
        return states

    # The way of all rows, in arcs

    def arcs(self) -> Arcs:
        """The way of all rows over the step's length; shorter if a light row would cease to be one.

        It ends too before a group comes apart, or a heavy row has faded so far that it is made of what rounding leaves.
        """
        grid, modes, riders = np.empty(_STRETCHES), self.modes, self.riders[0]
        way, here, count = self.way, self.here, len(modes.rates)
        room = np.empty(ROOM * count + len(self.heavy) * self.z.shape[1])
        arcs = engine().biasfree_grid(
            byref(way), byref(modes.c), byref(riders), address(self.z), *here, address(room), _STRETCHES, address(grid)
        )
        ends, states = grid[:arcs].copy(), np.repeat(self.z[None], arcs * len(NODES), axis=0)
        curves, energies = np.empty((arcs, len(NODES), *self.z.shape)), np.empty((arcs, len(NODES)))
        drawn = DRAWN(*map(address, (ends, states, curves, energies, room)), arcs)
        kept = engine().biasfree_arcs(byref(way), byref(modes.c), byref(riders), byref(drawn), *here)
        begins = np.concatenate([_BEGIN, ends[:-1]])
        self._ways = Arcs(begins[:kept], ends[:kept], curves[:kept])
        self.reaches, self.drawn = float(ends[kept - 1]) if kept else 0.0, arcs
        self._end, self._energies = states[kept * len(NODES) - 1], energies[:kept]
        return self._ways

    @property
    def way(self) -> Any:
        """The step along the modes, for C."""
        curve = slope = None
        if self._curve is not None:
            self._slope = slope_of(self._curve)  # it must live: C reads it
            curve, slope = address(self._curve), address(self._slope)
        return _WAY(address(self.bend), curve, slope, self.length, self._growth)

    @functools.cached_property
    def riders(self) -> tuple[Any, np.ndarray]:
        """Light, passive and heavy rows for C, and its room, which must live."""
        dim, outputs = self.data.transposed.shape[0], self.data.outputs
        each, own = len(self.riding) * dim * outputs, None if self.own is None else addressof(self.own.c)
        whole, begins = room(len(NODES) * each, each, (dim + outputs) * outputs, len(self.pattern.side))
        ride = _RIDE(
            address(self.riding, WHOLE), address(self.heavy, WHOLE), address(_MEANS), *begins, own,
            _OUTGROWN * self.light, self.parted, len(self.riding), len(self.heavy),
        )  # fmt: skip
        return ride, whole

    @property
    def here(self) -> tuple[Any, Any, Any]:
        """Data, pattern and room of all rows, for C."""
        desk, _ = room_for(self.z.shape, self.data, self.pattern)
        return byref(self.data.c), byref(self.pattern.c), byref(desk.c)

    def at(self, time: float) -> Float[np.ndarray, "rows columns"]:
        """The rows a time after the step's beginning."""
        return self._end.copy() if time == self.reaches else self.several(np.array([time]))[0][0]

    def passed(self, began: float, arrival: float) -> Iterator[tuple[float, Float[np.ndarray, "rows columns"]]]:
        """Ends of arcs within a time of the step, and the rows there; none where no row is light."""
        if self.riding.size:
            for end, curve in zip(self._ways.ends.tolist(), self._ways.curves, strict=True):
                if end < arrival:
                    yield began + end, curve[-1]

    def energy(self, time: float) -> float:
        """∫‖Ẇ‖² over a time from the step's beginning."""
        return float(self._energies[-1, -1] if time == self.reaches else self.several(np.array([time]))[1][0])

    def several(
        self, times: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n rows columns"], Float[np.ndarray, "n"]]:
        """Rows and ∫‖Ẇ‖² some times after the step's beginning."""
        states = self._moved(times)
        energies = along(*self._ways.at(times), self._ways.curves, self._energies, states, self.riding)
        states[times == self.reaches] = self._end
        return states, energies
