"""What every neuron keeps, and how much of it rounding may have taken (``native/balance.c``).

The flow keeps ‖w‖² − ‖v‖² of every neuron, but for weight decay, which makes it fade by e^{−2λt}. A neuron that has
grown and is then pulled the other way fades by a factor F, with ‖w‖ = ‖v‖ to all digits that float64 has, until what
its start left in the difference turns it round. That is 1/F² of its square: of F = 10⁸ nothing is left, and where the
neuron would grow again later is an accident. Neurons of a leaky network that starts tiny do that on every plateau.

So a row that stands for a single neuron, or for several that are exactly parallel, is put back on the balance of its
start after every step, while it is small beside the largest one. What is lost then is of the order of F·ε only, from
the directions that no sample pulls; of rows that stand for several neurons it stays F²·ε. Both are kept for every
neuron as its ``doubt``, with the square of every correction, and count in as far as the neuron grows again.
"""

import math
from collections.abc import Iterable
from ctypes import Structure, byref
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._plan import Plan
from biasfree.dynamics.exact._carried import Carried
from biasfree.dynamics.exact._kernels import engine
from biasfree.dynamics.exact._merging import Merged
from biasfree.native import address, structure

_OWN = structure("Own", "p root size faded unkept lost doubt d most decay made began seen")
_ROUNDS = 5e-16  # as in C: what steps do to a row
_BEARS = 10.0  # times rtol, what a row may lose before its neurons go by themselves; chosen, below the guard's
_UNKEPT = 3  # row of a table
_SAME = 1e-6  # relative difference between the balances of neurons that are one; chosen, far above rounding


class Own(NamedTuple):
    """What is known of the active rows.

    Attributes:
        c: what follows, for C.
        table: one row of numbers for each of these. ``root``: ±√|‖w‖² − ‖v‖²| when the rows were made. ``size``: the
            row's largest entry when it was last seen. ``faded``: how much larger it has been; weight decay is taken
            out. ``unkept``: how much of that it faded while it stood for several neurons; 0 where its balance is
            theirs. ``lost``: by which part of itself rounding may have changed it thereby, as long as its neurons are
            one. ``doubt``: and otherwise.
    """

    c: Structure
    table: Float[np.ndarray, "6 active"]

    @classmethod
    def of(cls, table: Float[np.ndarray, "6 active"], numbers: "_Numbers") -> "Own":
        """With the same for C."""
        begin = address(table)
        return cls(_OWN(*(begin + row * table.strides[0] for row in range(len(table))), *numbers), table)

    def copy(self) -> "Own":
        """Another one."""
        c: Any = self.c
        return Own.of(self.table.copy(), _Numbers(c.most, c.decay, c.made, c.began, c.seen))

    @property
    def unkept(self) -> Float[np.ndarray, "active"]:
        """How much rows faded while they stood for several neurons."""
        return self.table[_UNKEPT]


class _Numbers(NamedTuple):
    most: float  # of ``unkept``
    decay: float
    made: float  # times since the run's start
    began: float
    seen: float


class Balance:
    """Keeps the balance of a run's neurons.

    Attributes:
        lost: the largest change, relative to the largest weight, that rounding may have made so far.
    """

    def __init__(self, plan: Plan) -> None:
        """At the start nothing is lost."""
        first, second = (np.asarray(layer, dtype=float) for layer in plan.network.weights)
        self._began, self._decay = plan.start, plan.weight_decay
        self._root, self._most = _root(first, second.T), math.sqrt(_BEARS * plan.rtol / _ROUNDS)
        # How balances fade there depends on L all the way: of rows it is only told what may be lost.
        self._unknown = plan.weight_decay > 0 and plan.clock == "loss"
        if self._unknown:
            self._most = math.inf
        self._neurons = np.array([[1.0], [0.0], [0.0], [0.0]]).repeat(len(first), axis=1)  # as of rows
        self._groups: Merged | None = None
        self._own: Own | None = None
        self.lost = 0.0

    def of(self, now: Carried, time: float) -> Own | None:
        """Of the rows as they are, for what begins at a time; None where they are no neurons."""
        if now.linear or not now.active:
            return None
        if self._own is None or now.groups is not self._groups:
            self._own = self._regrouped(now, time)
        c: Any = self._own.c
        c.began = time - self._began
        if self._unknown:
            c.decay = self._decay_now(now)
        return self._own

    def _decay_now(self, now: Carried) -> float:
        """λ, divided by L on the loss clock."""
        return float(now.pulls().decay) if self._unknown else self._decay

    def copied(self, now: Carried, time: float) -> Own | None:
        """The same for steps that may not be taken."""
        own = self.of(now, time)
        return None if own is None else own.copy()

    def follow(self, now: Carried, ways: Iterable[tuple[float, Float[np.ndarray, "rows columns"]]]) -> None:
        """A step with a copy was taken: what its rows were at some times, before the end of it."""
        if self._own is not None and now.groups is self._groups:
            for time, z in ways:
                self._keep(self._own, now, time, z.copy())

    def keep(self, now: Carried, time: float) -> None:
        """Put rows back on their balance, where a piece ends."""
        own = self.of(now, time)
        if own is not None:
            self.lost = max(self.lost, self._keep(own, now, time, now.z))

    def _keep(self, own: Own, now: Carried, time: float, z: np.ndarray) -> float:
        """Put rows back; the largest part that may be lost of one, in units of the largest row."""
        c: Any = own.c
        c.began = time - self._began
        return engine().biasfree_keep_balance(byref(own.c), byref(now.data.c), byref(now.pattern.c), address(z))

    def part(self, now: Carried, pace: float) -> bool:
        """Let neurons go by themselves whose row has faded too far; whether there are any."""
        if self._own is None or now.groups is not self._groups:
            return False
        rows = np.flatnonzero(self._own.unkept > self._most).tolist()
        return bool(rows) and now.dissolve(rows, pace)

    def _regrouped(self, now: Carried, time: float) -> Own:
        """Of rows that are others than before."""
        elapsed = time - self._began
        if self._groups is not None and self._own is not None:
            self._neurons = self._own.table[2:, self._groups.row_of]
        self._groups = now.groups
        z, table = now.z[: now.active], np.zeros((6, now.active))
        root, size, _, unkept, lost, doubt = table
        for of_rows, of_neurons in zip(table[2:], self._neurons, strict=True):
            np.maximum.at(of_rows, now.groups.row_of, of_neurons)
        np.maximum(unkept, 1.0, out=unkept)
        size[:] = np.abs(z).max(axis=1, initial=0.0)
        numbers = _Numbers(self._most, self._decay_now(now), elapsed, elapsed, elapsed)
        if self._unknown:
            root[:] = math.nan
            return Own.of(table, numbers)
        some = z[~now.groups.shapes.single]
        root[~now.groups.shapes.single] = _root(some[:, : now.dim], some[:, now.dim :])
        rows, neurons = now.groups.alone
        fade = math.exp(-self._decay * elapsed)
        root[rows], unkept[rows] = fade * self._root[neurons], 0.0
        for row, group in now.groups.parallel:
            own = self._root[group.members] / group.parts[:, 0]
            if np.ptp(own) <= _SAME * np.abs(own).max():
                root[row], unkept[row] = fade * own[0], 0.0
        # What rounding has made of the growing part of neurons that were one is mended, but for its square.
        mended = unkept == 0
        doubt[mended] = np.maximum(doubt, lost**2)[mended]
        lost[mended] = 0.0
        return Own.of(table, numbers)


def _root(first: Float[np.ndarray, "width dim"], second: Float[np.ndarray, "width outputs"]) -> np.ndarray:
    """±√|‖w‖² − ‖v‖²|; with more digits where there are some, as it may be a small difference."""
    size = np.maximum(np.abs(first).max(axis=1, initial=0.0), np.abs(second).max(axis=1, initial=0.0))
    unit = np.where(size > 0, size, 1.0).astype(np.longdouble)[:, None]
    squares = ((first / unit) ** 2).sum(axis=1) - ((second / unit) ** 2).sum(axis=1)
    return np.asarray(np.copysign(np.sqrt(np.abs(squares)), squares) * size, dtype=float)
