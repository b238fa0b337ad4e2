"""Neurons of one activation cell: as many as there are columns stand for all of them, exactly.

Rows on the same side of every line, or that slide on the same ones, obey one and the same linear equation ż = A(t)z,
and put out what depends on their ZᵀZ alone. With Z = QR, the columns of Q orthonormal, the rows of R obey that equation
too and have the same RᵀR: they are a gradient flow of their own, of at most D + K rows, and Z(t) = QR(t) for as long as
no side changes. Without kinks (a = 1, b = 0) all neurons are in one cell.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import lapack

from biasfree.dynamics.exact._arrays import Pattern


class Folds(NamedTuple):
    """Which rows stand for some active rows of a pattern.

    Attributes:
        whole: the active rows.
        cells: those of them that share a cell, as places among them; empty where every row stands for itself.
        of: for each row that stands for others an active one whose sides and slides it shares.
    """

    whole: Int[np.ndarray, "rows"]
    cells: list[list[int]]
    of: Int[np.ndarray, "leads"]

    def turn(self, z: Float[np.ndarray, "all columns"]) -> Float[np.ndarray, "rows leads"] | None:
        """Q; None where every row stands for itself. Rows that stand for others are then Qᵀz."""
        if not self.cells:
            return None
        turn, first = np.zeros((len(self.whole), len(self.of))), 0
        for cell in self.cells:
            own, last = z[self.whole[cell]], first + min(len(cell), z.shape[1])
            turn[cell, first:last] = np.eye(len(cell)) if len(cell) <= z.shape[1] else _orthonormal(own)
            first = last
        return turn


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


def folds(pattern: Pattern, rows: Int[np.ndarray, "heavy"], has_kinks: bool, columns: int) -> Folds:
    """Fold the cells of some active rows that have more than their columns."""
    together = cells(pattern, rows, has_kinks) if len(rows) > columns else []
    if max(map(len, together), default=0) <= columns:
        return Folds(rows, [], rows)
    return Folds(rows, together, np.concatenate([rows[cell[:columns]] for cell in together]))


def _orthonormal(rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Q of more rows than columns: NumPy's qr, without what it takes to call it."""
    turned, scales, _, _ = lapack.dgeqrf(rows)
    return np.asarray(lapack.dorgqr(turned, scales)[0])
