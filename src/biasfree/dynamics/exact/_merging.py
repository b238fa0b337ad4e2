"""Neurons that have become parallel act as one.

(w_h, w₂h) = z_h obeys the linear equation ż = [[0, c_h], [c_hᵀ, 0]]z, and c_h depends on the neuron through its sides
alone. Neurons on the same sides of all lines therefore share one propagator, z_h(t) = Φ(t)z_h(0), and parallel ones
stay parallel: a group z_h = α_h u acts as the one neuron u if Σα_h² = 1.

For neurons that are parallel up to a small angle, let Z = USVᵀ be the group's singular value decomposition (one row
per neuron). The leading row s₁v₁ᵀ is kept as one **active** neuron; the others, s_kv_kᵀ, are **passive**: the output
does not see them, which leaves out Σ_{k>1} s_k², of second order in the angle. They obey the same linear equation and
are carried along, so that z_h = Σ_k U_hk s_kv_k gives every neuron back to first order, not just its group. A neuron
that is ``tolerance`` = √(rtol/10) or less away from its group changes the output by rtol/10 of its own part.

Without kinks (b = 0) all neurons share one propagator however they point; then every row is active and the
reduction to at most D + 1 rows is exact.
"""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

_MANY, _FEW = 5000, 300
_DUST = 1e-15


@dataclass(frozen=True)
class Group:
    """Neurons that are one.

    Attributes:
        members: their numbers.
        parts: U: each member as a combination of the rows, shape (members, rows).
        rows: s_kv_kᵀ, the leading one first.
    """

    members: Int[np.ndarray, "members"]
    parts: Float[np.ndarray, "members rows"]
    rows: Float[np.ndarray, "rows dim+1"]


@dataclass(frozen=True)
class Merged:
    """All neurons as combinations of few rows, the active ones first.

    Attributes:
        groups: one for each active row, or a single one if all its rows are active.
        linear: all rows are active.
        width: number of neurons.
        columns: entries of a neuron, D + 1.
    """

    groups: list[Group]
    linear: bool
    width: int
    columns: int

    def rows(self) -> tuple[Float[np.ndarray, "rows dim+1"], Int[np.ndarray, "passive"]]:
        """The rows, active before passive, and the owner of each passive one."""
        if self.linear:
            return self.groups[0].rows, np.zeros(0, dtype=np.int64)
        if not self.groups:
            return np.zeros((0, self.columns)), np.zeros(0, dtype=np.int64)
        active = [group.rows[:1] for group in self.groups]
        passive = [group.rows[1:] for group in self.groups]
        owner = np.repeat(np.arange(len(self.groups)), [len(rows) for rows in passive])
        return np.concatenate(active + passive), owner.astype(np.int64)

    @functools.cached_property
    def _parts(self) -> csr_array:
        """Every neuron's part in every row, (width, rows)."""
        following = len(self.groups)
        neuron, row, part = [], [], []
        for index, group in enumerate(self.groups):
            count = group.parts.shape[1]
            own = np.arange(count) if self.linear else np.r_[index, following : following + count - 1]
            following += count - 1
            neuron.append(np.repeat(group.members, count))
            row.append(np.tile(own, len(group.members)))
            part.append(group.parts.ravel())
        entries = (np.concatenate(part), (np.concatenate(neuron), np.concatenate(row))) if part else ([], ([], []))
        return csr_array(entries, shape=(self.width, self.groups[0].parts.shape[1] if self.linear else following))

    def restored(self, rows: Float[np.ndarray, "rows dim+1"]) -> Float[np.ndarray, "width dim+1"]:
        """Every neuron from the rows of now."""
        return self._parts @ rows

    def representative(self, row: int) -> tuple[int, int]:
        """The largest neuron of an active row, and how many it stands for."""
        group = self.groups[0] if self.linear else self.groups[row]
        return int(group.members[np.argmax(np.abs(group.parts[:, 0]))]), len(group.members)


def reduced(neurons: Float[np.ndarray, "width dim+1"]) -> Merged:
    """All neurons as at most D + 1 rows: exact without kinks."""
    return Merged([_group(neurons, _moving(neurons))], True, *neurons.shape)


def merged(neurons: Float[np.ndarray, "width dim+1"], key: Int[np.ndarray, "width"], tolerance: float) -> Merged:
    """Group neurons of one ``key`` (sides and slides) that are parallel within ``tolerance``."""
    size = np.linalg.norm(neurons, axis=1)
    units = neurons / np.where(size > 0, size, 1.0)[:, None]
    groups: list[Group] = []
    moving = _moving(neurons)
    for pattern in np.unique(key[moving]):
        left = moving[key[moving] == pattern]
        left = left[np.argsort(-size[left], kind="stable")]
        found = 0
        while left.size:
            if left.size > _MANY and found > _FEW:
                groups += [Group(left[i : i + 1], np.ones((1, 1)), neurons[left[i : i + 1]]) for i in range(len(left))]
                break
            close = np.linalg.norm(units[left] - units[left[0]], axis=1) <= tolerance
            close[0] = True
            groups.append(_group(neurons, left[close]))
            left = left[~close]
            found += 1
    return Merged(groups, False, *neurons.shape)


def _moving(neurons: np.ndarray) -> np.ndarray:
    return np.flatnonzero(neurons.any(axis=1))


def _group(neurons: np.ndarray, members: np.ndarray) -> Group:
    own = neurons[members]
    if len(members) <= 1:
        return Group(members, np.ones((len(members), len(members))), own)
    largest = np.abs(own).max()
    parts, sizes, rows = np.linalg.svd(own / largest, full_matrices=False)
    kept = sizes > _DUST * sizes[0]
    parts, rows = parts[:, kept], (largest * sizes[kept])[:, None] * rows[kept]
    if parts[:, 0].sum() < 0:
        parts[:, 0], rows[0] = -parts[:, 0], -rows[0]
    return Group(members, parts, rows)
