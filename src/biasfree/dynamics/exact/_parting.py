"""Groups near a line: which ones it tears, and where their neurons really are once they go by themselves.

The neurons of a group meet a line one after the other. Where that is over soon, all take the group's side at once, when
its row crosses: a neuron whose w is δ off the row's will cross, or has crossed, a time τ = d·δ/(d·ẇ) away, and
δ → δ + (ẇ' − ẇ)τ, with ẇ' the velocity beyond, puts it where it would be now had it been moved by ẇ' ever since
(``_sliding``). So until the last one has crossed, some are carried behind the line, on a side where they are not yet:
all is right to first order, as long as they stay together. Two things follow.

- A group that has just crossed and moves on, all of it, is not torn by that line: its neurons cross it one by one, but
  all that this does to them has been added already. To part them now would add it twice.
- Where neurons of such a group part for another reason, each is put where it really is: back by the velocity that it
  was carried with, to the moment when it meets the line, and from there by that of the other side. That is the same
  formula again, with the two sides exchanged. It holds too for neurons that are ahead of a group which has not crossed.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Pattern, owned
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import Pulls, pulls_of, velocity
from biasfree.dynamics.exact._sliding import ON_A_LINE, moving

_SOON = 0.05  # part of a step that a group may take to cross a line; chosen: else its neurons cross one by one


def strains(
    z: Float[np.ndarray, "rows columns"],
    pattern: Pattern,
    data: Data,
    pulls: Pulls,
    near: Float[np.ndarray, "some 3"],
    radius: Float[np.ndarray, "active"],
    spread: Float[np.ndarray, "passive"],
    pace: float,
    rtol: float,
) -> Float[np.ndarray, "some"]:
    """By how much lines drive the neurons of groups apart that come near them in a step, in units of the row.

    ``near`` holds row and line, and when they meet, above 1 if they only come near. Groups cross one after the other
    within the time 2·radius/|dᵀẇ|. Where that is long beside the usual step ``pace``, some may cross and others never,
    and the line drives them apart by up to its kick.
    """
    dim = data.directions.shape[1]
    rows, lines = near[:, :2].astype(np.int64).T
    d, w, every = data.directions[lines], z[rows, :dim], velocity(z, pulls, pattern)[:, :dim]
    ways, active = every[rows], len(pattern.side)
    across, size = np.sum(ways * d, axis=1), np.abs(w).max(axis=1)
    kick = 2 * np.abs(np.einsum("nk,kn->n", z[rows, dim:], pulls.q[:, lines]))
    with np.errstate(divide="ignore"):
        lasts = 2 * radius[rows] / np.abs(across)
    soon = is_soon(lasts, kick, size, pace, rtol)
    # Dead neurons stay on the line they have crossed last.
    unharmed = soon | (np.abs(ways).max(axis=1) * pace <= ON_A_LINE * size)
    # What is within reach of a line, moves away from it with all its neurons and does not come back in the step has
    # just crossed it. A light neuron may turn back though its group does not.
    side = pattern.side[rows, lines]
    passed = (side * np.sum(w * d, axis=1) <= radius[rows]) & (near[:, 2] > 1)
    asked = np.flatnonzero(passed & ~unharmed)
    which, passive = owned(pattern.owner[active:], rows[asked])
    apart = spread[passive] * np.abs(np.sum(every[active + passive] * d[asked[which]], axis=1))
    passed[asked] = (side * across)[asked] > np.bincount(which, apart, minlength=len(asked))
    return np.where(unharmed | passed, 0.0, kick * pace / size)


def is_soon(lasts: Any, kick: Any, size: Any, pace: float, rtol: float) -> Any:
    """Whether what a line's kick does in a time is right to first order, beside the usual step ``pace``."""
    return (lasts <= _SOON * pace) & (kick * lasts * lasts <= _SOON * rtol * size * pace)


def on_own_sides(
    z: Float[np.ndarray, "rows columns"], pattern: Pattern, data: Data, rows: Int[np.ndarray, "own"], pace: float,
    rtol: float,
) -> tuple[Float[np.ndarray, "rows columns"], Pattern]:  # fmt: skip
    """Rows that were just parted and are clearly beyond a line: on their own side, and where they are there.

    That is known where they crossed it a moment ago, beside the usual step ``pace``. Of others only the side changes.
    """
    dim = data.directions.shape[1]
    size = np.abs(z[rows, :dim]).max(axis=1, keepdims=True)
    beyond = (z[rows, :dim] @ data.transposed) * pattern.side[rows] < -ON_A_LINE * size
    if not beyond.any():
        return z, pattern
    z, side, pulls = z.copy(), pattern.side.copy(), pulls_of(z, data, pattern.side)
    for number, line in np.argwhere(beyond).tolist():
        h = int(rows[number])
        before = pattern._replace(side=side.copy())
        side[h, line] *= -1
        _exchange(z, before, pattern._replace(side=side), data, pulls, h, line, pace, rtol)
    return z, pattern._replace(side=side)


def _exchange(
    z: np.ndarray,
    before: Pattern,
    after: Pattern,
    data: Data,
    pulls: Pulls,
    h: int,
    line: int,
    pace: float,
    rtol: float,
) -> None:
    """Move row h and its passive ones, in place, as if it had been on the other side since, or until, it met a line."""
    active, dim, d = len(after.side), data.directions.shape[1], data.directions[line]
    was, now = (moving(z, pattern, data, pulls, h) for pattern in (before, after))
    if (was @ d) * (now @ d) <= 0:  # it is not crossed
        return
    own = np.append(h, active + np.flatnonzero(after.owner[active:] == h))
    away, size = z[own, :dim] @ d / (was @ d), np.abs(z[h, :dim]).max()
    if is_soon(abs(away[0]), float(np.abs(now - was).max()), size, pace, rtol):
        z[own, :dim] += np.outer(away, now - was)
