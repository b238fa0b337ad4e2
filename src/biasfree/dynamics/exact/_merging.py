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
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._groups import (
    AT_ONCE,
    LARGE,
    ONE,
    Formed,
    Group,
    Known,
    grouped,
    of_terms,
    orthonormal,
    several,
    singles,
    straightened,
)  # fmt: skip
from biasfree.dynamics.exact._kernels import engine
from biasfree.native import WHOLE, address

_NO = np.zeros(0, dtype=int)


class Shapes(NamedTuple):
    """Of all groups, in order: how many members and rows they have, whether that is a neuron by itself, and the first.

    Regrouping a few of many thousands must not mean to look at all of them.
    """

    members: Int[np.ndarray, "groups"]
    rows: Int[np.ndarray, "groups"]
    single: Bool[np.ndarray, "groups"]
    first: Int[np.ndarray, "groups"]

    @classmethod
    def of(cls, groups: Sequence[Group]) -> "Shapes":
        """Of these groups."""
        members, rows = np.array([group.parts.shape for group in groups], dtype=int).reshape(-1, 2).T
        single = np.array([group.parts is ONE for group in groups], dtype=bool)
        return cls(members, rows, single, np.array([next(iter(group.members), -1) for group in groups], dtype=int))

    def with_more(self, kept: Int[np.ndarray, "kept"], groups: Sequence[Group]) -> "Shapes":
        """Of some of the groups, in order, and others after them."""
        return Shapes(*(np.concatenate([old[kept], new]) for old, new in zip(self, Shapes.of(groups), strict=True)))


class _Parts(NamedTuple):
    """Parts that neurons have in rows, neuron by neuron: which row and how much; how many each has; and the neurons."""

    row: Int[np.ndarray, "parts"]
    part: Float[np.ndarray, "parts"]
    many: Int[np.ndarray, "neurons"]
    neuron: Int[np.ndarray, "neurons"]


@dataclass(frozen=True)
class Merged:
    """All neurons as combinations of few rows, the active ones first.

    Attributes:
        groups: one for each active row, or a single one if all its rows are active.
        rows: as they were when the groups were formed, active before passive.
        owner: the active row of each passive one, in order.
        linear: all rows are active.
        width: number of neurons.
        row_of: the active row of each neuron; 0 for those that are zero.
        shapes: of the groups.
    """

    groups: list[Group]
    rows: Float[np.ndarray, "rows columns"]
    owner: Int[np.ndarray, "passive"]
    linear: bool
    width: int
    row_of: Int[np.ndarray, "width"]
    shapes: Shapes

    @classmethod
    def of(cls, formed: list[Formed], shape: tuple[int, int]) -> "Merged":
        """Groups of neurons, all of which together have this shape."""
        rows, row_of = np.zeros((0, shape[1])), np.zeros(shape[0], dtype=int)
        nobody = cls([], rows, _NO, False, shape[0], row_of, Shapes.of([]))
        return nobody.with_more(_NO, formed, rows)

    def with_more(
        self, kept: Int[np.ndarray, "kept"], formed: list[Formed], rows: Float[np.ndarray, "rows columns"]
    ) -> "Merged":
        """Some of the groups, in order, with the rows of now, and others after them."""
        number = np.full(len(self.groups), -1)
        number[kept] = np.arange(len(kept))
        stays = number[self.owner] >= 0
        leading, passive = [each.rows[:1] for each in formed], [each.rows[1:] for each in formed]
        owner = np.repeat(len(kept) + np.arange(len(formed)), [len(own) for own in passive])
        others = [each.group for each in formed]
        groups = [*(self.groups[index] for index in kept.tolist()), *others]
        return Merged(
            groups, np.concatenate([rows[kept], *leading, rows[len(self.groups) :][stays], *passive]),
            np.concatenate([number[self.owner[stays]], owner]).astype(np.int64), False, self.width,
            self._numbered(number, formed, len(kept)), self.shapes.with_more(kept, others),
        )  # fmt: skip

    def _numbered(self, number: Int[np.ndarray, "groups"], formed: list[Formed], kept: int) -> Int[np.ndarray, "width"]:
        """``row_of`` after groups have got other numbers, -1 those that are no more, and others were formed."""
        row_of = number[self.row_of] if len(number) else np.zeros(self.width, dtype=int)
        for index, each in enumerate(formed):
            row_of[each.group.members] = kept + index
        return np.maximum(row_of, 0)

    def changed(
        self, neurons: Float[np.ndarray, "width columns"], members: list[Int[np.ndarray, "members"]],
        rows: Float[np.ndarray, "rows columns"], apart: Int[np.ndarray, "some"],
    ) -> tuple["Merged", Int[np.ndarray, "groups"]]:  # fmt: skip
        """Groups of these members, those that are as before first; and the old group of each, its first member's.

        Groups of several neurons that have come ``apart`` are formed anew even if their members are the same. Others
        are not: small differences have more digits than the neurons that they are between.
        """
        leaders = self.row_of[[some[0] for some in members]].tolist()
        kept, others, anew, torn = list[int](), list[int](), list[np.ndarray](), set(apart.tolist())
        for some, leader in zip(members, leaders, strict=True):
            same = len(some) == len(self.groups[leader].members)
            if same and (len(some) == 1 or not (leader in torn or np.any(self.row_of[some] != leader))):
                kept.append(leader)
            else:
                others.append(leader)
                anew.append(some)
        first = np.array(sorted(kept), dtype=int)
        return self.with_more(first, several(anew, neurons), rows), np.concatenate([first, others]).astype(int)

    @functools.cached_property
    def _spreads(self) -> dict[int, Float[np.ndarray, "2 passive"]]:
        """Of ``apart``, by how many are left out."""
        return {}

    @functools.cached_property
    def _passive_ends(self) -> Int[np.ndarray, "groups"]:
        """Where the passive rows of each group end."""
        return len(self.groups) + np.cumsum(self.shapes.rows - 1)

    def _own(self, index: int) -> np.ndarray:
        """The rows of a group."""
        if self.linear:
            return np.arange(self.groups[0].parts.shape[1])
        end = int(self._passive_ends[index])
        return np.array([index, *range(end + 1 - int(self.shapes.rows[index]), end)])

    @functools.cached_property
    def alone(self) -> tuple[Int[np.ndarray, "alone"], Int[np.ndarray, "alone"]]:
        """Rows that are a neuron by itself, and which."""
        rows = np.flatnonzero(self.shapes.single)
        return rows, self.shapes.first[rows]

    @functools.cached_property
    def parallel(self) -> list[tuple[int, Group]]:
        """Rows whose neurons are exactly parallel, where they are several."""
        some = np.flatnonzero(~self.shapes.single & (self.shapes.rows == 1)).tolist()
        return [(index, self.groups[index]) for index in some]

    @functools.cached_property
    def _several(self) -> _Parts:
        """Parts of the neurons of groups of several; large groups are left out."""
        shapes = self.shapes
        some = np.flatnonzero(~shapes.single & (shapes.members * shapes.rows <= LARGE))
        members, rows, groups = shapes.members[some], shapes.rows[some], [self.groups[n] for n in some.tolist()]
        sizes, begin = members * rows, self._passive_ends[some] + 1 - rows
        group = np.repeat(np.arange(len(some)), sizes)
        which = (np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % rows[group]  # of a group's rows
        leading, passive = some[group], begin[group]
        part = np.concatenate([np.zeros(0), *(each.parts.ravel() for each in groups)])
        neuron = np.concatenate([_NO, *(each.members for each in groups)])
        return _Parts(np.where(which == 0, leading, passive + which - 1), part, np.repeat(rows, members), neuron)

    @functools.cached_property
    def _parts(self) -> _Parts:
        """Of all neurons but those of large groups."""
        (alone, single), several = self.alone, self._several
        one = np.ones(len(alone), dtype=int)
        return _Parts(*map(np.concatenate, zip((alone, one, one, single), several, strict=True)))

    @functools.cached_property
    def _begin(self) -> Int[np.ndarray, "neurons+1"]:
        """Where the parts of each neuron begin, and where the last ones end."""
        return np.concatenate([[0], np.cumsum(self._parts.many)])

    def neurons_of(self, index: int, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "members columns"]:
        """The neurons of a group from the rows of now."""
        return self.groups[index].parts @ rows[self._own(index)]

    def restored(self, rows: Float[np.ndarray, "*n rows columns"]) -> Float[np.ndarray, "*n width columns"]:
        """Every neuron from the rows of now, or of several times."""
        neurons, rows = np.zeros((*rows.shape[:-2], self.width, rows.shape[-1])), np.ascontiguousarray(rows)
        parts, begin = self._parts, self._begin
        engine().biasfree_restored(
            math.prod(rows.shape[:-2]), address(rows), *rows.shape[-2:], address(parts.row, WHOLE), address(parts.part),
            address(begin, WHOLE), address(parts.neuron, WHOLE), len(parts.neuron), self.width, address(neurons),
        )  # fmt: skip
        for own, group in self._large:
            for first in range(0, len(group.members), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                neurons[..., group.members[some], :] = group.parts[some] @ rows[..., own, :]
        return neurons

    @functools.cached_property
    def _large(self) -> list[tuple[np.ndarray, Group]]:
        some = np.flatnonzero(self.shapes.members * self.shapes.rows > LARGE).tolist()
        return [(self._own(n), self.groups[n]) for n in some]

    def apart(self, without: Int[np.ndarray, "some"]) -> Float[np.ndarray, "2 passive"]:
        """For each passive row the largest part that a member has in it, in units of its part in the leading row.

        First of members but for some, riders; then of all, infinite where one has no part in the leading row.
        """
        if without.size not in self._spreads:  # riders only ever leave: as many of them are the same ones
            every = self._spread(_NO)
            self._spreads[without.size] = np.stack([self._spread(without) if without.size else every, every])
        return self._spreads[without.size]

    def _spread(self, without: Int[np.ndarray, "some"]) -> Float[np.ndarray, "passive"]:
        spread, active = np.zeros(len(self.owner)), len(self.groups)
        if not spread.size:
            return spread
        row, part, counts, neuron = self._several
        passive, leading = row >= active, np.repeat(part[np.cumsum(counts) - counts], counts)
        if without.size:
            passive &= ~np.repeat(np.isin(neuron, without), counts)
        with np.errstate(divide="ignore"):
            np.maximum.at(spread, row[passive] - active, np.abs(part[passive] / leading[passive]))
        for own, group in self._large:
            spread[own[1:] - active] = (
                group.spread_of(~np.isin(group.members, without)) if without.size else group.spread
            )
        return spread

    def straightened(
        self, rows: Float[np.ndarray, "rows columns"]
    ) -> tuple["Merged", Float[np.ndarray, "rows columns"]]:
        """The same groups by other rows: differences within one lie across its leading row (``_groups``)."""
        if self.linear:
            group, rows = orthonormal(Formed(self.groups[0], rows))
            return replace(self, groups=[group], rows=rows), rows
        groups, rows = list(self.groups), rows.copy()
        for index in np.unique(self.owner).tolist():
            own = self._own(index)
            groups[index], rows[own] = straightened(Formed(groups[index], rows[own]))
        return replace(self, groups=groups, rows=rows), rows

    def as_one(self, members: Int[np.ndarray, "members"], rows: Float[np.ndarray, "rows columns"]) -> Formed:
        """Some neurons as one group, from the rows of now, of which none is lost beside larger ones."""
        return of_terms(members, self.restored(np.eye(len(rows)))[members], rows)

    @functools.cached_property
    def _place(self) -> Int[np.ndarray, "width"]:
        places = np.zeros(self.width, dtype=int)
        for group in self.groups:
            places[group.members] = np.arange(len(group.members))
        return places

    def some(
        self, which: Int[np.ndarray, "some"], rows: Float[np.ndarray, "rows columns"]
    ) -> Float[np.ndarray, "some columns"]:
        """Some neurons from the rows of now."""
        neurons = np.empty((len(which), self.rows.shape[1]))
        for row in np.unique(self.row_of[which]):
            here = self.row_of[which] == row
            neurons[here] = self.groups[row].parts[self._place[which[here]]] @ rows[self._own(row)]
        return neurons

    def without(
        self, leaving: Int[np.ndarray, "some"], rows: Float[np.ndarray, "rows columns"]
    ) -> tuple["Merged", Int[np.ndarray, "groups"]]:
        """Groups as they are now, but for light members, each of which becomes a group of its own, behind the others.

        Returns the groups, and which of the old ones the first of them are.

        The leading row's square shrinks by theirs; that the others' differences no longer cancel is of second order.
        """
        alone, formed = self.some(leaving, rows), list[Formed]()
        left = np.unique(self.row_of[leaving])
        for row in left.tolist():
            group, own = self.groups[row], rows[self._own(row)].copy()
            stays = ~np.isin(group.members, leaving)
            parts = group.parts[stays]
            size = np.linalg.norm(parts[:, 0])
            own[0] *= size
            parts[:, 0] /= size
            formed.append(Formed(Group(group.members[stays], parts), own))
        formed += singles(leaving, alone)
        kept = np.setdiff1d(np.arange(len(self.groups)), left)
        return self.with_more(kept, formed, rows), np.concatenate([kept, left])


def reduced(neurons: Float[np.ndarray, "width columns"], known: Known | None = None) -> Merged:
    """All neurons as at most D + K rows: exact without kinks. More may be ``known`` of them than their values."""
    some = np.flatnonzero(neurons.any(axis=1))  # others never move
    told = known(some) if known is not None and len(some) > 1 else None
    formed = grouped(some, neurons) if told is None else orthonormal(told)
    row_of = np.zeros(len(neurons), dtype=int)
    return Merged([formed.group], formed.rows, _NO, True, len(neurons), row_of, Shapes.of([formed.group]))


def of_members(
    neurons: Float[np.ndarray, "width columns"],
    members: list[Int[np.ndarray, "members"]],
    known: Known | None = None,
) -> Merged:
    """Groups of these neurons; of some that are not alone, more may be ``known`` than their values."""
    given = [known(some) if known is not None and len(some) > 1 else None for some in members]
    rest = iter(several([some for some, own in zip(members, given, strict=True) if own is None], neurons))
    return Merged.of([own or next(rest) for own in given], neurons.shape)
