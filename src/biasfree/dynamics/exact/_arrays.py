"""The arrays that compiled functions read and write, by name.

Each is a tuple for Python and, by ``c``, a structure of ``native/engine.h`` with pointers to the same arrays.
"""

import ctypes
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from biasfree.native import WHOLE, address, structure

START = 0  # of a desk's rows
_STACK = (52, 10)  # of the search for roots: halvings until float64 ends, and a polynomial each

_PATTERN = structure("Pattern", "p side owner basis span slides dual i active rows room count")
_FORM = structure("Form", "p constant matrix i used")
_LIMITS = structure("Limits", "d rtol atol energy")
_TRIAL = structure("Trial", "p stages powers curves energies lengths")
_DESK = structure("Desk", "p rows pull work radius stack")
_SOUGHT = structure("Sought", "p met ended beyond values i room")


class _Pattern(NamedTuple):
    """Which side of each line each active row is on, and what it slides on.

    Attributes:
        side: ς, 0 where it slides; (active, lines).
        owner: the active row whose sides a row shares, itself for active ones; (rows,).
        basis, span: an orthonormal basis of the lines a row slides on, (active, room, dim), and its dimension; a row
            at rest at w = 0 has all of R^D.
        slides: row and line of every slide, (slides, 2).
        dual: for each slide the vector B with ς·s = −B·ẇ_free, the dual of its direction among those its row
            slides on; (slides, dim).
    """

    side: np.ndarray
    owner: np.ndarray
    basis: np.ndarray
    span: np.ndarray
    slides: np.ndarray
    dual: np.ndarray


class Pattern(_Pattern):
    """``_Pattern``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _PATTERN(
            address(self.side), address(self.owner, WHOLE), address(self.basis), address(self.span, WHOLE),
            address(self.slides, WHOLE), address(self.dual), len(self.side), len(self.owner), self.basis.shape[1],
            len(self.slides),
        )  # fmt: skip

    @functools.cached_property
    def across(self) -> np.ndarray | None:
        """The projection of each active row across what it slides on, (active, dim, dim); None where none slides."""
        if not self.span.any():
            return None
        _, room, dim = self.basis.shape
        used = np.where(np.arange(room)[None, :] < self.span[:, None], 1.0, 0.0)
        basis = self.basis * used[:, :, None]
        return np.eye(dim) - np.swapaxes(basis, 1, 2) @ basis


class _Form(NamedTuple):
    """Square loss, few rows on many lines: M_h = constant_h − Σ_k matrix_hk w_k v_kᵀ; empty where it is not used.

    Of a row alone, by given pulls, ``constant`` holds M's eight coefficients as a curve.
    """

    constant: np.ndarray  # (active·dim, outputs); (8·dim, outputs) of a row alone
    matrix: np.ndarray  # (active·dim, active·dim)


class Form(_Form):
    """``_Form``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _FORM(address(self.constant), address(self.matrix), len(self.constant) > 0)


class _Limits(NamedTuple):
    """What a step may be off by."""

    rtol: float
    atol: float
    energy: float  # the size that errors of the energy are judged against


class Limits(_Limits):
    """``_Limits``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _LIMITS(*self)


class _Trial(NamedTuple):
    """Room for steps, and what they leave there."""

    stages: np.ndarray  # (16, rows, columns); the first holds the velocity where the next step begins
    powers: np.ndarray  # squared speeds, (16,)
    curves: np.ndarray  # of each step, (steps, 8, rows, columns)
    energies: np.ndarray  # curve of the energy of each step, (steps, 8)
    lengths: np.ndarray  # of each step, (steps,)


class Trial(_Trial):
    """``_Trial``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _TRIAL(*map(address, self))

    @classmethod
    def room(cls, steps: int, rows: int, columns: int) -> "Trial":
        """Empty room."""
        shape = (rows, columns)
        return cls(
            np.empty((16, *shape)), np.empty(16), np.empty((steps, 8, *shape)), np.empty((steps, 8)), np.empty(steps)
        )


class _Desk(NamedTuple):
    """Room to work in; nothing of it is kept, but for ``radius``."""

    rows: np.ndarray  # where a step begins, a stage's place, the one before, and two errors: (5, rows, columns)
    pull: np.ndarray  # M_h, (active, dim, outputs)
    work: np.ndarray  # p, q, a row of products, and room for sums: (4·outputs + 1, lines)
    radius: np.ndarray  # how far a group's neurons are from its row, (active,)
    stack: np.ndarray  # of the search for roots, (52, 10)


class Desk(_Desk):
    """``_Desk``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _DESK(*map(address, self))

    @classmethod
    def room(cls, rows: int, columns: int, active: int, dim: int, lines: int) -> "Desk":
        """Empty room."""
        outputs = columns - dim
        return cls(
            np.empty((5, rows, columns)), np.empty((active, dim, outputs)), np.empty((4 * outputs + 1, lines)),
            np.zeros(active), np.empty(_STACK),
        )  # fmt: skip


class _Sought(NamedTuple):
    """Room for what is found along a curve; times are x ∈ [0, 1], and 2 for what does not happen."""

    # Row, line and time of those that meet, and how far beyond at most, as part of the row's size; (room, 4).
    # Time NEAR_BY (native/engine.h): they only come within the row's radius.
    met: np.ndarray
    ended: np.ndarray  # when each slide ends, and when the loss is at the level; (slides + 1,)
    beyond: np.ndarray  # at each node, how far each slide is beyond its end, as part of all pulls; (8, slides)
    values: np.ndarray  # both margins of every slide and its v·v_begin at the nodes, and the loss; (8, 3·slides + 1)


class Sought(_Sought):
    """``_Sought``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C."""
        return _SOUGHT(*map(address, self), len(self.met))

    @classmethod
    def room(cls, crossings: int, slides: int) -> "Sought":
        """Empty room."""
        return cls(np.empty((crossings, 4)), np.empty(slides + 1), np.zeros((8, slides)), np.empty((8, 3 * slides + 1)))


def owned(
    owners: Int[np.ndarray, "all"], wanted: Int[np.ndarray, "some"]
) -> tuple[Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"]]:
    """All places whose owner is wanted: of each pair, which of the wanted ones, and the place; by the first of these.

    >>> owned(np.array([7, 5, 7]), np.array([5, 6, 7]))
    (array([0, 2, 2]), array([1, 0, 2]))
    """
    order = np.argsort(owners, kind="stable")
    first, last = (np.searchsorted(owners[order], wanted, side) for side in ("left", "right"))
    counts = last - first
    which = np.repeat(np.arange(len(wanted)), counts)
    return which, order[np.arange(len(which)) + np.repeat(first - np.cumsum(counts) + counts, counts)]
