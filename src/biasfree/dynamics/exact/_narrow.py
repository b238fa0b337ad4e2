"""Rows within what the lines span: nothing sees the rest of w, and nothing but decay moves it.

With fewer lines than dimensions, or lines in one plane, w = Bu + w⊥, where B is a basis of what the directions span.
Outputs and pulls are those of u, and ẇ⊥ = −λw⊥ for every row alike: J has one direction for all of it. Under decay one
row more stands for that, as long as all w⊥ together, in a dimension of its own that no line sees.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._data import Data


class Narrow(NamedTuple):
    """Coordinates of rows within what the lines span.

    Attributes:
        data: the lines in these coordinates.
        basis: B, with a column of zeros for the dimension that no line sees; None where the coordinates are w's own.
        beside: w⊥ of the rows to be moved, as a unit vector; nothing where it does not move.
        size: its length.
    """

    data: Data
    basis: Float[np.ndarray, "dim narrow"] | None
    beside: Float[np.ndarray, "#rows dim"]
    size: float

    @property
    def fades(self) -> int:
        """Rows that stand for w⊥: one, or none."""
        return int(self.size > 0)

    def rows(self, z: Float[np.ndarray, "some columns"]) -> Float[np.ndarray, "some narrow+outputs"]:
        """Rows in these coordinates, without their w⊥."""
        if self.basis is None:
            return z
        dim = len(self.basis)
        return np.concatenate([z[:, :dim] @ self.basis, z[:, dim:]], axis=1)

    def fading(self) -> Float[np.ndarray, "fades narrow+outputs"]:
        """The row that stands for w⊥."""
        dim = len(self.data.transposed)
        row = np.zeros((self.fades, dim + self.data.outputs))
        row[:, dim - 1] = self.size
        return row

    def pattern(self, pattern: Pattern, moved: Int[np.ndarray, "moved"], kept: Int[np.ndarray, "kept"]) -> Pattern:
        """Sides and slides of some active rows, of what stands for w⊥, which is pulled by nothing, and of others."""
        dim, none = len(self.data.transposed), np.zeros((0, 2), dtype=np.int64)
        own = np.concatenate([moved, kept])
        side, basis, span = pattern.side[own], pattern.basis[own], pattern.span[own]
        if self.basis is not None:
            room, rests = max(basis.shape[1], dim), span == len(self.basis)
            basis = np.pad(basis @ self.basis, ((0, 0), (0, room - basis.shape[1]), (0, 0)))
            basis[rests], span = np.eye(room, dim), np.where(rests, dim, span)
            place = np.full(self.fades, len(moved))
            side, basis = np.insert(side, place, 1.0, axis=0), np.insert(basis, place, np.eye(room, dim), axis=0)
            span = np.insert(span, place, dim - 1)
        return Pattern(side, np.arange(len(side)), basis, span, none, np.zeros((0, dim)))


def narrow_columns(data: Data) -> int:
    """Columns of rows in these coordinates."""
    dim, rank = data.span.shape
    return min(dim, rank + (data.decay > 0)) + data.outputs


def narrowed(z: Float[np.ndarray, "rows columns"], data: Data) -> Narrow:
    """Coordinates for rows that are to be moved, all of them but the light ones."""
    dim, rank = data.span.shape
    narrow = narrow_columns(data) - data.outputs
    if narrow == dim:
        return Narrow(data, None, np.zeros((1, dim)), 0.0)
    basis = np.pad(data.span, ((0, 0), (0, narrow - rank)))
    beside = z[:, :dim] - (z[:, :dim] @ basis) @ basis.T
    size = float(np.linalg.norm(beside)) if narrow > rank else 0.0
    lines = data._replace(transposed=np.ascontiguousarray(basis.T @ data.transposed))
    return Narrow(lines, basis, beside / size if size > 0 else np.zeros((1, dim)), size)
