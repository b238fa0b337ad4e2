"""Which neurons are parallel, and on the same sides: those may act as one (``_merging``)."""

import itertools

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._groups import AT_ONCE
from biasfree.dynamics.exact._kernels import engine
from biasfree.dynamics.exact._lengths import lengths
from biasfree.native import WHOLE, address

_MANY, _FEW = 5000, 300  # neurons left, and groups, from which every other neuron stays by itself; chosen: cost alone
_NO = np.zeros(0, dtype=int)


def alike(
    neurons: Float[np.ndarray, "width columns"],
    which: Int[np.ndarray, "some"],
    key: Float[np.ndarray, "width"],
    tolerance: float,
    lightest: float = 0.0,
) -> list[Int[np.ndarray, "members"]]:
    """Those of ``which`` that have one ``key`` (sides and slides) and are parallel within ``tolerance``, together.

    Groups come in order of their keys, and under one key that of the largest neuron first; so do their members.
    """
    order, leader = _leaders(neurons, which, key, tolerance, lightest)
    follows = leader != np.arange(len(which))
    together = np.lexsort((order, follows, leader))
    members, leader = which[order[together]], leader[together]
    cuts = [0, *(np.flatnonzero(leader[1:] != leader[:-1]) + 1).tolist(), len(members)]
    return [members[begin:end] for begin, end in itertools.pairwise(cuts)] if len(members) else []


def count_alike(
    neurons: Float[np.ndarray, "width columns"],
    key: Float[np.ndarray, "width"],
    tolerance: float,
    lightest: float = 0.0,
) -> int:
    """How many groups of ``alike`` there are among all neurons."""
    _, leader = _leaders(neurons, np.arange(len(neurons)), key, tolerance, lightest)
    return int(np.count_nonzero(leader == np.arange(len(leader))))


def _leaders(
    neurons: Float[np.ndarray, "width columns"],
    which: Int[np.ndarray, "some"],
    key: np.ndarray,
    tolerance: float,
    lightest: float,
) -> tuple[Int[np.ndarray, "some"], Int[np.ndarray, "some"]]:
    """An order of ``which`` by key and size, and in that order which one each of them is alike."""
    squares, largest = _squares(neurons, which)
    order = np.lexsort((-squares, key[which]))
    keys, leader = key[which[order]], np.empty(len(which), dtype=np.int64)
    units = _directions(neurons, which[order], squares[order], largest)
    engine().biasfree_alike(
        address(units),
        address(keys),
        address(squares[order]),
        *units.shape,
        0.5 * tolerance**2,
        lightest**2,
        _MANY,
        _FEW,
        address(leader, WHOLE),
    )
    return order, leader


def _squares(
    neurons: Float[np.ndarray, "width columns"], which: Int[np.ndarray, "some"]
) -> tuple[Float[np.ndarray, "some"], float]:
    """Squared lengths of some neurons as parts of their largest entry's square, and that entry."""
    parts = [which[begin : begin + AT_ONCE] for begin in range(0, len(which), AT_ONCE)]
    largest = max((float(np.abs(neurons[part]).max(initial=0.0)) for part in parts), default=0.0) or 1.0
    scaled = (neurons[part] / largest for part in parts)
    return np.concatenate([np.zeros(0), *(np.einsum("hd,hd->h", own, own) for own in scaled)]), largest


def _directions(
    neurons: Float[np.ndarray, "width columns"], which: Int[np.ndarray, "some"], squares: np.ndarray, largest: float
) -> Float[np.ndarray, "some columns"]:
    """Unit vectors of some neurons, from their ``_squares``."""
    units = neurons[which]
    units /= largest
    units /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
    return units


def heaviest(
    neurons: Float[np.ndarray, "width columns"], left: Int[np.ndarray, "some"], tolerance: float, light: float
) -> tuple[list[Int[np.ndarray, "members"]], Int[np.ndarray, "left"]]:
    """Parallel neurons together, the largest one first; and those left when only ``light`` of the sum of squares is."""
    squares, largest = _squares(neurons, left)
    units = _directions(neurons, left, squares, largest)
    enough, groups = light * squares.sum(), list[np.ndarray]()
    while left.size and squares.sum() > enough:
        if left.size > _MANY and len(groups) > _FEW:
            return groups + [left[i : i + 1] for i in range(len(left))], left[:0]
        leader = int(np.argmax(squares))
        close = 1 - units @ units[leader] <= 0.5 * tolerance**2
        close[leader] = False
        groups.append(np.append(left[leader], left[close]))
        close[leader] = True
        left, units, squares = left[~close], units[~close], squares[~close]
    return groups, left


def sizes(
    neurons: Float[np.ndarray, "width columns"], members: list[Int[np.ndarray, "members"]]
) -> Float[np.ndarray, "groups"]:
    """√Σ of the squares of each group's neurons."""
    begins = np.cumsum([0, *(len(some) for some in members)])[:-1]
    every = lengths(neurons[np.concatenate([_NO, *members])])
    most = float(every.max(initial=0.0)) or 1.0
    return most * np.sqrt(np.add.reduceat((every / most) ** 2, begins)) if len(members) else np.zeros(0)
