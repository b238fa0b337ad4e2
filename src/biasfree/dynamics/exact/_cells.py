"""Neurons of one activation cell: as many as there are columns stand for all of them, exactly.

Rows on the same side of every line, or that slide on the same ones, obey one and the same linear equation ż = A(t)z,
and put out what depends on their ZᵀZ alone. With Z = QR, the columns of Q orthonormal, the rows of R obey that equation
too and have the same RᵀR: they are a gradient flow of their own, of at most D + K rows, and Z(t) = QR(t) for as long as
no side changes. Without kinks (a = 1, b = 0) all neurons are in one cell.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Pattern


class Folded(NamedTuple):
    """Rows that stand for others.

    Attributes:
        rows: these.
        of: for each an active row whose sides and slides it shares.
        turn: Q; None where every row stands for itself.
    """

    rows: Float[np.ndarray, "leads columns"]
    of: Int[np.ndarray, "leads"]
    turn: Float[np.ndarray, "rows leads"] | None


def cells(pattern: Pattern, rows: Int[np.ndarray, "rows"], has_kinks: bool) -> list[list[int]]:
    """Those of some active rows that share a cell, as places among them; ς = 0 tells what a row slides on."""
    if not has_kinks:
        return [list(range(len(rows)))] if len(rows) else []
    some: dict[bytes, list[int]] = {}
    keys = np.column_stack([pattern.side[rows], pattern.span[rows]]).astype(np.int64)
    for place, key in enumerate(keys):
        some.setdefault(key.tobytes(), []).append(place)
    return list(some.values())


def count(pattern: Pattern, rows: Int[np.ndarray, "rows"], has_kinks: bool, columns: int) -> int:
    """How many rows stand for some active rows."""
    return sum(min(len(cell), columns) for cell in cells(pattern, rows, has_kinks))


def folded(
    z: Float[np.ndarray, "rows columns"], pattern: Pattern, rows: Int[np.ndarray, "heavy"], has_kinks: bool
) -> Folded:
    """Fold the cells of some active rows that have more than their columns."""
    columns = z.shape[1]
    together = cells(pattern, rows, has_kinks) if len(rows) > columns else []
    if max(map(len, together), default=0) <= columns:
        return Folded(z[rows], rows, None)
    leads = sum(min(len(cell), columns) for cell in together)
    turn, kept, of = np.zeros((len(rows), leads)), np.empty((leads, columns)), np.empty(leads, dtype=np.int64)
    first = 0
    for cell in together:
        last = first + min(len(cell), columns)
        of[first:last] = rows[cell[: last - first]]
        if len(cell) > columns:
            turn[cell, first:last], kept[first:last] = np.linalg.qr(z[rows[cell]])
        else:
            turn[cell, range(first, last)], kept[first:last] = 1.0, z[rows[cell]]
        first = last
    return Folded(kept, of, turn)
