"""The linearised flow of some rows: rates and modes of J, and what J leaves of the velocity along them.

N(u) = F(u) − Ju at places along the modes, and the equations of exponential collocation (``_late``), whose inner loops
are C (``native/late.c``). Rows are taken within what the lines span (``_narrow``), and neurons of one activation cell
are folded (``_cells``), so that J is small.
"""

import functools
import math
from ctypes import byref
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import lapack

from biasfree.dynamics._lanczos import lanczos
from biasfree.dynamics.exact._arrays import Desk, Pattern
from biasfree.dynamics.exact._cells import folds
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import Moving, matrices_of
from biasfree.dynamics.exact._jacobian import Rows, bends, dense, times
from biasfree.dynamics.exact._kernels import engine
from biasfree.dynamics.exact._methods import NODES
from biasfree.dynamics.exact._narrow import Narrow, narrowed
from biasfree.native import address, room, structure

LARGEST = 1000  # unknowns up to which J is formed; chosen: its eigenvectors take a second there
SETTLED = 0.1  # part of the tolerance that further turns may change; chosen, small beside it
_FLAT = 1e-12  # bound: rates below this part of the largest are what rounding makes of zero, in matrices of thousands
_EPSILON = 1e-15  # what rounding makes of a force, as part of the pulls that it is a difference of
_EIGEN = 9.0  # times its size cubed, the multiplications that all eigenvectors of a symmetric matrix take
_TURNS = 6  # of the iteration at most; chosen: one that needs more is cheaper as a shorter step
# Of a polynomial's leading coefficient, what its highest Chebyshev polynomial on [0, 1] has (2⁻¹³), eightfold: what
# lies beyond degree 7 is less. Monomials themselves would take rounding, or a fast direction not quite at rest, for
# an error.
TOP = 2.0**-10
POWERS = np.arange(1, len(NODES))
FIT = np.linalg.inv(NODES[1:, None] ** POWERS)  # N at the points → B
_NONE = np.empty(0)  # tolerances, where nothing is judged
_MODES = structure("Modes", "p modes by_mode shown tolerances rates force start d noise i count entries seen")
_RULES = structure("Rules", "p fit d top settled i turns")
_TURNED = structure(
    "Turned",
    "p by_mode velocity turn basis beside modes shown rates force d flat noise i count leads fades columns heavy dim "
    "outputs",
)
_SOLVED = structure("Solved", "p bend places weights bent change moved shown stage d left error i evaluations")


class Collocated(NamedTuple):
    """What iteration has found: B, and what further turns would change, infinite where it does not converge."""

    bend: Float[np.ndarray, "7 modes"]
    left: float
    error: float  # of what was found


class Frame:
    """What J is of, as long as the pattern stays: rows that stand for others, and room for their velocity.

    Attributes:
        folds: of the heavy rows.
        pattern: sides and slides of those that stand for them, of w⊥, and of the light rows.
        desk: for all of these.
    """

    def __init__(
        self, narrow: Narrow, pattern: Pattern, heavy: Int[np.ndarray, "heavy"], light: Int[np.ndarray, "light"]
    ) -> None:
        """For the ``heavy`` active rows; those that are ``light`` are seen too."""
        (dim, lines), outputs = narrow.data.transposed.shape, narrow.data.outputs
        self._whole = pattern
        self.folds = folds(pattern, heavy, narrow.data.b != 0, dim + outputs)
        self.pattern = narrow.pattern(pattern, self.folds.of, light)
        rows = len(self.pattern.side)
        self.desk = Desk.room(rows, dim + outputs, rows, dim, lines)
        self._turn: Float[np.ndarray, "heavy leads"] | None = None

    def serves(self, narrow: Narrow, pattern: Pattern, heavy: Int[np.ndarray, "heavy"]) -> bool:
        """Whether it is that of other rows too."""
        return pattern is self._whole and narrow.basis is None and np.array_equal(heavy, self.folds.whole)

    def turn(self, z: Float[np.ndarray, "all columns"], spared: float) -> Float[np.ndarray, "heavy leads"] | None:
        """Q of the heavy rows; None where every row stands for itself.

        The flow keeps it, but for what is done to light rows (``_balance``): where no more than the part ``spared`` of
        a row has left its cell's span, it is used again.
        """
        if self.folds.cells and self._turn is not None:
            own = z[self.folds.whole]
            left = np.abs(own - self._turn @ (self._turn.T @ own)).max(axis=1)
            if (left <= spared * np.abs(own).max(axis=1)).all():
                return self._turn
        self._turn = self.folds.turn(z)
        return self._turn


class Modes:
    """J of some rows at a state, in its own coordinates.

    Attributes:
        frame: what it is of.
        rates, force: λ of every mode, and the velocity along it.
        by_mode: what each mode moves of the rows themselves.
        evaluations, algebra: what it has cost, of velocities and of multiplications in linear algebra.
    """

    def __init__(
        self, z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, heavy: Int[np.ndarray, "heavy"],
        light: Int[np.ndarray, "light"], spared: float = 0.0, frame: Frame | None = None,
    ) -> None:  # fmt: skip
        """Linearise the flow of the ``heavy`` active rows; those that are ``light`` stay where they are.

        The ``frame`` of the step before is used again if it serves, even if a part ``spared`` of rows is left out.
        """
        self._whole_data, self._moved = data, (len(heavy), z.shape[1])
        self._narrow = narrowed(z[heavy], data)
        rows, self.data = self._narrow.rows(z), self._narrow.data
        if frame is None or not frame.serves(self._narrow, pattern, heavy):
            frame = Frame(self._narrow, pattern, heavy, light)
        self.frame, self._pattern = frame, frame.pattern
        self._turn, self._columns = frame.turn(rows, spared), rows.shape[1]
        leads = rows[heavy] if self._turn is None else self._turn.T @ rows[heavy]
        self._start = np.concatenate([leads, self._narrow.fading(), rows[light]])
        self._leads = len(self._start) - len(light)
        self.pulls = self._moving(self._start)
        self.evaluations, self.algebra = 1, 0.0
        self._linearise()

    def _linearise(self) -> None:
        """Rates, modes and the force along them: all of J, or what Lanczos' method sees of it."""
        self.rows = self._rows_at(self._start, self.pulls)
        velocity = self.rows.force
        if not velocity.size:
            self.rates, by_mode = np.zeros(0), np.zeros((0, 0))
        elif self.whole:
            self.rates, by_mode = _eigenvectors(dense(self.rows, self.data))
            self.evaluations += velocity.size
            self.algebra += _EIGEN * float(velocity.size) ** 3
        else:
            seen = lanczos(velocity, lambda vector: -times(vector, self.rows, self.data))
            self.rates, by_mode = -seen.rates, np.ascontiguousarray(seen.modes.T)
            self.evaluations += seen.products
        self._noise = (
            _EPSILON * (self.pulls.whole + self.data.mass) * float(np.abs(self.rows.parts[1]).max(initial=0.0))
        )
        self._turned(by_mode)

    def _turned(self, by_mode: Float[np.ndarray, "modes entries"]) -> None:
        """Modes and force from eigenvectors."""
        (count, entries), (heavy, wide), narrow = by_mode.shape, self._moved, self._narrow
        self._modes, self.force = np.empty((entries, count)), np.empty(count)
        self._by_mode, self.by_mode = by_mode, np.empty((count, heavy * wide))
        basis = None if narrow.basis is None else np.ascontiguousarray(narrow.basis)
        beside = np.ascontiguousarray(np.broadcast_to(narrow.beside, (heavy, wide - self.data.outputs)))
        turned = _TURNED(
            address(by_mode), address(self.rows.force), None if self._turn is None else address(self._turn),
            None if basis is None else address(basis), address(beside), address(self._modes), address(self.by_mode),
            address(self.rates), address(self.force), _FLAT, self._noise, count, self._leads - narrow.fades,
            narrow.fades, self._columns, heavy, wide - self.data.outputs, self.data.outputs,
        )  # fmt: skip
        row = np.empty(self._columns)
        engine().biasfree_modes(byref(turned), address(row))

    @property
    def whole(self) -> bool:
        """Whether all of J is known, as steps need it; for rest a part of it will do."""
        return self._leads * self._columns <= LARGEST

    @property
    def decay(self) -> float:
        """λ of the weights, here."""
        return self.pulls.decay

    def seen_growth(self) -> float:
        """The largest rate that a random direction sees: growth that the force happens to miss."""
        if self.whole:
            return float(self.rates.max(initial=0.0))
        some = np.random.default_rng(0).normal(size=self.rows.force.size)
        return -float(lanczos(some, lambda vector: -times(vector, self.rows, self.data)).rates[0])

    def shown(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n heavy columns"]:
        """How far the rows themselves have moved at some places."""
        return (places @ self.by_mode).reshape(len(places), *self._moved)

    def pulls_on(self, side: Float[np.ndarray, "rows lines"]) -> Float[np.ndarray, "rows dim outputs"]:
        """M of rows of some sides, here."""
        return matrices_of(self.pulls.p, self.pulls.q, self._whole_data, side)

    def _moving(self, state: Float[np.ndarray, "rows columns"]) -> Moving:
        """How J's rows move at a state, and those that it leaves where they are."""
        return Moving.of(state, self.data, self._pattern, self.frame.desk)

    def _rows_at(self, state: Float[np.ndarray, "rows columns"], moving: Moving) -> Rows:
        """The rows at a state, as J needs them."""
        leads, across = self._leads, self._pattern.across
        bent = bends(state, self.data, self._pattern.side, moving.level)
        return Rows(
            state[:leads], self._pattern.side[:leads], None if across is None else across[:leads],
            moving.matrices[:leads], moving.decay, bent, moving.velocity[:leads].ravel(),
        )  # fmt: skip

    # N at places

    @functools.cached_property
    def c(self) -> Any:
        """For C, with nothing to judge by before a length is tried."""
        arrays = (self._modes, self._by_mode, self.by_mode, _NONE, self.rates, self.force, self._start)
        return _MODES(*map(address, arrays), self._noise, len(self.rates), len(self._modes), 0)

    def places(
        self, times: Float[np.ndarray, "n"], length: float, bend: Float[np.ndarray, "7 modes"]
    ) -> Float[np.ndarray, "n modes"]:
        """How far every mode has moved until some times of a step of some length, with these B."""
        count, found = len(self.rates), np.empty((len(times), len(self.rates)))
        weights = np.empty(len(NODES) * count)
        engine().biasfree_places(
            len(times), address(times), length, byref(self.c), address(bend), address(weights),
            address(found),
        )  # fmt: skip
        return found

    def bent(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n modes"]:
        """QᵀN(x + Q·place) − QᵀN(x) at several places, but nothing where all of it may be rounding alone."""
        places, found = np.ascontiguousarray(places), np.empty(places.shape)
        room = np.empty(len(self._modes)), np.empty(self._start.shape)
        self.evaluations += len(places)
        engine().biasfree_bend(
            len(places), address(places), byref(self.c), byref(self.data.c), byref(self._pattern.c),
            byref(self.frame.desk.c), address(found), *map(address, room),
        )  # fmt: skip
        return found

    def slopes(self, places: Float[np.ndarray, "n modes"]) -> Float[np.ndarray, "n modes modes"]:
        """The derivative of ``bent`` at several places."""
        states = np.repeat(self._start[None], len(places), axis=0)
        states[:, : self._leads] += (places @ self._modes.T).reshape(len(places), self._leads, self._columns)
        self.evaluations += places.size
        self.algebra += float(places.size) ** 3 / 3
        rows = [self._rows_at(state, self._moving(state)) for state in states]
        return np.stack([self._modes.T @ dense(each, self.data) @ self._modes for each in rows]) - np.diag(self.rates)

    def collocated(self, length: float, tolerances: Float[np.ndarray, "heavy"]) -> Collocated:
        """The equations of a step of some length, by iteration; changes of rows are judged by their tolerances."""
        count, points, entries = len(self.rates), len(POWERS), len(self._modes)
        bend, each = np.empty((points, count)), np.repeat(tolerances, self._moved[1])
        sizes = points * count, points * len(NODES) * count, points * count, count, entries, each.size, self._start.size
        _room, begins = room(*sizes)
        solved = _SOLVED(address(bend), *begins, math.inf, math.inf, 0)
        modes = self.c
        modes.tolerances, modes.seen = address(each), each.size
        self._judged_by = each  # it must live: C reads it
        engine().biasfree_collocate(
            length, byref(modes), byref(_ITERATION), byref(self.data.c), byref(self._pattern.c),
            byref(self.frame.desk.c), byref(solved),
        )  # fmt: skip
        self.evaluations += solved.evaluations
        return Collocated(bend, solved.left, solved.error)


def _eigenvectors(matrix: Float[np.ndarray, "n n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n n"]]:
    """Eigenvalues of a symmetric matrix, and its eigenvectors in rows; NumPy's eigh takes longer to call it."""
    values, vectors, failed = lapack.dsyevd(matrix)
    if failed:
        raise np.linalg.LinAlgError("the eigenvalues of the flow's Jacobian were not found.")
    return values, np.ascontiguousarray(vectors.T)


_ITERATION = _RULES(address(FIT), TOP, SETTLED, _TURNS)
