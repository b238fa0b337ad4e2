"""The network as the exact flow carries it: few rows, the pattern they move by, and all neurons back from them."""

import math
from ctypes import byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics.exact import _merging, _parallel
from biasfree.dynamics.exact._alone import Joined
from biasfree.dynamics.exact._arrays import Form, Pattern, owned
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import Pulls, after_crossing, form_of, pulls_of
from biasfree.dynamics.exact._groups import Formed, Known, several, singles
from biasfree.dynamics.exact._kernels import engine, line_forces
from biasfree.dynamics.exact._lengths import lengths, units
from biasfree.dynamics.exact._parting import on_own_sides, strains
from biasfree.dynamics.exact._pattern_keys import keys_of_neurons, keys_of_rows
from biasfree.dynamics.exact._riders import LIGHT, closest, felt_lines, may_ride, outputs_of
from biasfree.dynamics.exact._sliding import ON_A_LINE, begin_on, decide, flipped, nobody_slides, with_more
from biasfree.dynamics.exact._still import still
from biasfree.dynamics.exact._ways import Happening
from biasfree.native import address

_MANY_SIDES = 20_000  # lines × neurons from which riders are worth having; chosen
_UNMOVED = 0.1  # part of rtol by which a group's event may move a rider; chosen, small beside rtol
_PARALLEL = 0.1  # part of rtol that merging may cost: neurons √(rtol/10) apart change their part of the output by that
_APART = 0.4  # part of rtol at which the squared differences within a group have outgrown it: twice the angle above
_BEARS = 0.1  # part of a group's largest angle that lines may drive its neurons apart; chosen, small beside it
# Part of a group's largest neuron that another one must have, with several outputs: its own difference, of which may
# hang what grows on a plateau, must be no rounding of the largest. Chosen: of an angle of 3e-4 six digits are left.
_LIGHTEST = 1e-6
_HOPE = 1.0  # times that angle, how far rows may be apart of which neurons may merge; chosen
_PARTS = 8  # groups that one is parted into; chosen: what is too large still is parted again
_VANISHES = 1e-280  # bound: products of two such are no numbers any more; as VANISHED in native/light.c
_NOBODY = np.zeros(0, dtype=np.int64)
_DEAD = 3e-4  # part of rtol at which an even part is gone; chosen: a thousand such steps change less than rtol


class Noted(NamedTuple):
    """Something that happened to a group: which neurons, at which line, what."""

    neurons: Int[np.ndarray, "members"]
    line: int
    kind: str


class Carried:
    """Rows, pattern and groups of one moment.

    Attributes:
        data: the samples, by line or by their moments.
        z: rows (w, v), active before passive.
        pattern: sides and slides of the active rows.
        groups: how neurons are made of rows.
        linear: no line matters.
        strain: how far lines have driven each group apart, see ``split``.
        riders: neurons that ride along, see ``_riders``.
        still: neurons that no sample sees and that never move, but for weight decay.
        begun: what neurons did that began on a line, or at w = 0.
    """

    def __init__(
        self, neurons: Float[np.ndarray, "width columns"], data: Data, rtol: float, known: Known | None = None
    ) -> None:
        """Merge what is parallel at the start, and decide for neurons that lie on a line."""
        self.rtol, self.tolerance = rtol, float(np.sqrt(_PARALLEL * rtol))
        self.outgrown = _APART * rtol  # squared differences within a group, in units of its row, that part it
        self.begun = self.begin(neurons, data, known)

    def begin(self, neurons: Float[np.ndarray, "width columns"], data: Data, known: Known | None = None) -> list[Noted]:
        """Start afresh from these neurons, of which more may be ``known``; returns what those on a line do."""
        self.data, self.linear, self.dim = data, data.b == 0, data.directions.shape[1]
        self._form: Form | None = None
        self._pulls: tuple[np.ndarray, np.ndarray, Pulls] | None = None
        self.riders = np.zeros(0, dtype=np.int64)
        self.still = still(neurons, data)
        self.still_neurons = neurons[self.still].copy()
        self.groups = _merging.reduced(neurons, known) if self.linear else self._grouped(neurons, known)
        self.z, owner = np.ascontiguousarray(self.groups.rows), self.groups.owner
        active = len(self.z) - len(owner)
        self.strain = np.zeros(active)
        products = self.z[:active, : self.dim] @ data.transposed
        side = np.where(products < 0, -1.0, 1.0)
        self.pattern = nobody_slides(side, np.concatenate([np.arange(active), owner]), self.dim)
        noted: list[Noted] = []
        if not self.linear:
            near = np.abs(products) <= ON_A_LINE * np.abs(self.z[:active, : self.dim]).max(axis=1, initial=0)[:, None]
            begin = np.flatnonzero(near.any(axis=1)).tolist()
            for h, neuron in [(h, self.groups.groups[h].members[0]) for h in begin]:
                noted += self._begin_on(int(self.groups.row_of[neuron]), np.flatnonzero(near[h]))
        return noted

    def _begin_on(self, h: int, lines: np.ndarray) -> list[Noted]:
        """A row that starts on lines, or at w = 0: what it does there, if not simply go."""
        riders = self.riders[self.groups.row_of[self.riders] == h]
        if riders.size:
            neuron = self.groups.groups[h].members[0]
            self._let_off(riders)
            h = int(self.groups.row_of[neuron])
        z, self._form = self.z.copy(), None
        begun = begin_on(z, self.pattern, self.data, h, lines)
        self.z, self.pattern = z, begun.pattern
        return [Noted(self.groups.groups[h].members, line, kind) for line, kind in begun.events]

    def _grouped(self, neurons: np.ndarray, known: Known | None) -> _merging.Merged:
        data, lines = self.data, len(self.data.directions)
        moves = np.ones(len(neurons), dtype=bool)
        moves[self.still] = False
        moving = np.flatnonzero(moves)
        if len(moving) * lines > _MANY_SIDES:
            heavy, left = _parallel.heaviest(neurons, moving, self.tolerance, LIGHT)
            # Each group's direction is that of its largest neuron; its square is the sum.
            leaders = _parallel.sizes(neurons, heavy)[:, None] * units(neurons[[some[0] for some in heavy]])
            p, q = line_forces(*outputs_of(leaders, data), data)
            if not felt_lines(p, q, data, self.rtol).size:
                owner = closest(neurons[left], leaders)
                side = np.where(leaders[:, : self.dim] @ data.transposed < 0, -1.0, 1.0)
                ride, _ = may_ride(neurons[left], side, owner, p, q, data, self.rtol)
                self.riders = left[ride]
                taken = [np.concatenate([m, left[ride & (owner == g)]]) for g, m in enumerate(heavy)]
                rest = _parallel.alike(neurons, left[~ride], np.zeros(len(neurons)), self.tolerance)
                return _merging.of_members(neurons, taken + rest)
        members = _parallel.alike(neurons, moving, keys_of_neurons(neurons, data, self.rtol), *self._near)
        return _merging.of_members(neurons, members, known)

    @property
    def active(self) -> int:
        """Number of rows that the output sees."""
        return len(self.pattern.side)

    def pulls(self) -> Pulls:
        """Of the rows as they are; found once for each set of rows."""
        if self._pulls is None or self._pulls[0] is not self.z or self._pulls[1] is not self.pattern.side:
            self._pulls = (self.z, self.pattern.side, pulls_of(self.z, self.data, self.pattern.side))
        return self._pulls[2]

    def form(self) -> Form:
        """Of the present pattern."""
        if self._form is None:
            self._form = form_of(self.data, self.pattern.side)
        return self._form

    # Events

    def travelled(self, z: Float[np.ndarray, "rows columns"], pattern: Pattern) -> None:
        """Rows and pattern are others, the groups are not."""
        if pattern is not self.pattern:
            self._form = None
        self.z, self.pattern = z, pattern

    def decide(self, h: int, met: np.ndarray) -> list[Noted]:
        """What row ``h`` does on the lines it has ``met``, or, with none, where a slide of it ends."""
        riders = self.riders[self.groups.row_of[self.riders] == h]
        z = self.z.copy()
        happened = decide(z, self.pattern, self.data, h, met)
        crossed = all(kind == "cross" for _, kind in happened.events)
        if riders.size:
            # Riders are not on the line their group slides on, nor near it when the group crosses it slowly.
            before, after = self.groups.some(riders, self.z), self.groups.some(riders, z)
            moved = lengths(after - before) / lengths(before)
            leaving = riders[moved > _UNMOVED * self.rtol] if crossed else riders
            if leaving.size:
                neuron = self.groups.groups[h].members[0]
                self._let_off(leaving)
                return self.decide(int(self.groups.row_of[neuron]), met)
        self.z, self.pattern = z, happened.pattern
        if crossed and self._form is not None:
            for line, _ in happened.events:
                after_crossing(self._form, self.data, self.pattern, h, line)
        else:
            self._form = None
        return [Noted(self.groups.groups[h].members, line, kind) for line, kind in happened.events]

    def joined(self, step: Joined) -> list[tuple[float, Noted]]:
        """Rows that crossed lines unfelt or went alone are as at the step's end; what happened, and at which x."""
        times, pairs = step.unfelt.times.tolist(), step.unfelt.pairs.tolist()
        happened = [Happening(x, h, line, "cross") for x, (h, line) in zip(times, pairs, strict=True)]
        if step.ways is not None:
            happened += [event for event in step.ways.events if event.x < step.end]
        if step.kicks is not None:
            self.pattern, self._form = self.pattern._replace(side=step.kicks.side), step.kicks.form
        else:
            self._turned(happened)
            if step.ways is not None:
                self.pattern = step.ways.pattern_at(step.end, self.pattern)
            self.pattern = flipped(self.pattern, pairs)
        return [(x, Noted(self.groups.groups[h].members, line, kind)) for x, h, line, kind in happened]

    def _turned(self, happened: list[Happening]) -> None:
        """The form after some crossings; found afresh where it was not crossings alone."""
        if any(kind != "cross" for *_, kind in happened):
            self._form = None
        if self._form is None:
            return
        pattern = self.pattern._replace(side=self.pattern.side.copy())
        for _, h, line, _ in happened:  # one after the other: others may cross the same line
            pattern.side[h, line] *= -1
            after_crossing(self._form, self.data, pattern, h, line)

    # Groups

    def vanish(self) -> bool:
        """Rows that decay has made too small for float64's squares and errors are zero from now on; whether any is."""
        small = (np.abs(self.z).max(axis=1) < _VANISHES) & self.z.any(axis=1)
        if not small.any():
            return False
        self.z = np.where(small[:, None], 0.0, self.z)
        return True

    def parted(self) -> bool:
        """Whether the differences within a group have outgrown it."""
        return bool(self._torn().size)

    def _torn(self) -> Int[np.ndarray, "some"]:
        """Groups that their differences have outgrown."""
        squares = np.zeros(self.active)
        engine().biasfree_parted(
            address(self.z), byref(self.pattern.c), self.z.shape[1], self.outgrown, address(squares)
        )
        return np.flatnonzero(squares > self.outgrown)

    def straighten(self) -> bool:
        """Have differences within groups lie across their rows again if some hardly do; whether any was.

        As a group grows along one direction its differences turn there too. What is left of them across it, of which
        all hangs that may grow later, would keep fewer and fewer of their digits. With one output a group has to fade
        before differences can grow within it (``_balance``); with several it may stay as it is. Where no line matters
        the same is true of all rows: of a start of 1e-50 the second mode is a part of 1e-17 when the first is learned.
        """
        if not engine().biasfree_leans(address(self.z), byref(self.data.c), byref(self.pattern.c)):
            return False
        self.groups, self.z = self.groups.straightened(self.z)
        return True

    def apart(self) -> Float[np.ndarray, "2 passive"]:
        """How far apart the neurons of groups are, see ``Merged``; there are no passive rows where no line matters."""
        return self.groups.apart(self.riders)

    def radius(self) -> Float[np.ndarray, "active"]:
        """How far, at most, a group's neurons are from its row, scaled to it; 0 for a neuron by itself."""
        active = self.active
        apart = self.apart()[0] * lengths(self.z[active:, : self.dim])
        return np.bincount(self.pattern.owner[active:], apart, minlength=active)

    def split(self, near: Float[np.ndarray, "some 3"], radius: Float[np.ndarray, "active"], pace: float) -> bool:
        """Part groups that may lie on both sides of a line for long, before a step past it; whether any was parted.

        Where neurons of a group cross a line that they are ``near`` one after the other and soon, ``_sliding`` follows
        that to first order; where not, it strains the group (``_parting``). A group bears a small part of the angle
        that merged neurons may have; then it is parted by how far its neurons are from that line.
        """
        near = near[radius[near[:, 0].astype(np.int64)] > 0]
        if not len(near):
            return False
        rows, lines = near[:, :2].astype(np.int64).T
        spread, pulls = self.apart()[0], self.pulls()
        strained = strains(self.z, self.pattern, self.data, pulls, near, radius, spread, pace, self.rtol)
        self.strain += np.bincount(rows, strained, minlength=self.active)
        torn = (strained > 0) & (self.strain[rows] > _BEARS * self.tolerance)
        if not torn.any():
            return False
        self._part(dict(zip(rows[torn].tolist(), lines[torn].tolist(), strict=True)), pace)
        return True

    def _part(self, torn: dict[int, int], pace: float) -> None:
        """Part each of these groups by its neurons' distances from a line, at the largest gaps between them."""
        parts, leaders = list[Formed](), list[int]()
        for row, line in torn.items():
            neurons, members = self.groups.neurons_of(row, self.z), self.groups.groups[row].members
            distance = neurons[:, : self.dim] @ self.data.directions[line] / lengths(neurons)
            order = np.argsort(distance, kind="stable")
            if len(order) <= _PARTS:
                pieces = singles(members[order], neurons[order])
            else:
                gaps = np.argsort(-np.diff(distance[order]), kind="stable")[: _PARTS - 1]
                parted = several(np.split(order, np.sort(gaps) + 1), neurons)
                pieces = [each.renamed(members) for each in parted]
            parts += pieces
            leaders += [row] * len(pieces)
        self._replace(list(torn), parts, leaders, pace)

    def dissolve(self, rows: list[int], pace: float) -> bool:
        """Let every neuron of these groups go by itself, but where others ride along; whether there are any."""
        rows = np.setdiff1d(rows, self.groups.row_of[self.riders]).tolist()
        parts, leaders = list[Formed](), list[int]()
        for row in rows:
            neurons, members = self.groups.neurons_of(row, self.z), self.groups.groups[row].members
            parts += singles(members, neurons)
            leaders += [row] * len(members)
        self._replace(rows, parts, leaders, pace)
        return bool(rows)

    def _replace(self, rows: list[int], parts: list[Formed], leaders: list[int], pace: float) -> None:
        """Other groups instead of some, each on the sides of its leader but where it is clearly beyond a line."""
        kept = np.setdiff1d(np.arange(self.active), rows)
        self._take(self.groups.with_more(kept, parts, self.z), self.pattern, np.concatenate([kept, leaders]))
        own = np.arange(len(kept), self.active)
        self._own_sides(own, pace)

    def merge(self, part: float, pace: float) -> bool:
        """Group afresh if that saves this part of the groups or some riders must leave; whether there are fewer."""
        self._let_off(self._leaving())
        count = len(self.groups.groups)
        most = count - max(1, math.ceil(part * count))
        if most > 0 and not self.linear and self._fewest() <= most:
            self.regroup(pace, most)
        return len(self.groups.groups) < count

    def _fewest(self) -> int:
        """How many groups, at least, the active rows might make."""
        tolerance, lightest = self._near
        return _parallel.count_alike(self.z[: self.active], keys_of_rows(self.pattern), _HOPE * tolerance, lightest)

    @property
    def _near(self) -> tuple[float, float]:
        """The angle within which neurons are merged, and how light one may be beside the largest of its group."""
        return self.tolerance, _LIGHTEST if self.data.outputs > 1 else 0.0

    def _leaving(self) -> np.ndarray:
        """Riders that must leave; those that have become ordinary members are riders no more."""
        if not self.riders.size:
            return self.riders
        owner, neurons = self.groups.row_of[self.riders], self.groups.some(self.riders, self.z)
        pulls = self.pulls()
        ride, same = may_ride(neurons, self.pattern.side, owner, pulls.p, pulls.q, self.data, self.rtol)
        apart = np.linalg.norm(units(neurons) - units(self.z[: self.active])[owner], axis=1) > self.tolerance
        leaving, self.riders = self.riders[~ride], self.riders[ride & (apart | ~same)]
        return leaving

    def _let_off(self, leaving: np.ndarray) -> None:
        """Riders that leave have their own sides from now on."""
        if not leaving.size:
            return
        self.riders = np.setdiff1d(self.riders, leaving)
        groups, leaders = self.groups.without(leaving, self.z)
        alone = np.arange(self.active, len(groups.groups))
        own = groups.rows[alone, : self.dim] @ self.data.transposed
        self._take(groups, with_more(self.pattern, np.where(own < 0, -1.0, 1.0)), np.concatenate([leaders, alone]))

    def regroup(self, pace: float, most: int | None = None) -> None:
        """Group afresh, since some group has come apart, or if that makes at most so many groups."""
        neurons, row_of = self.groups.restored(self.z), self.groups.row_of
        ordinary = np.ones(len(neurons), dtype=bool)
        ordinary[self.still] = ordinary[self.riders] = False
        members = _parallel.alike(neurons, np.flatnonzero(ordinary), keys_of_rows(self.pattern)[row_of], *self._near)
        if most is not None and len(members) > most:
            return
        if self.riders.size:
            # Each with the group that its old group's largest neuron is in.
            home = np.zeros(self.groups.width, dtype=int)
            for index, some in enumerate(members):
                home[some] = index
            home = home[[group.members[0] for group in self.groups.groups]][row_of[self.riders]]
            members = [np.concatenate([some, self.riders[home == index]]) for index, some in enumerate(members)]
        torn = self._torn() if most is None else _NOBODY
        groups, leaders = self.groups.changed(neurons, members, self.z, torn)
        new = [n for n, group in enumerate(groups.groups) if group is not self.groups.groups[leaders[n]]]
        self._take(groups, self.pattern, leaders)
        if most is None:
            self._own_sides(np.array(new, dtype=int), pace)

    def _own_sides(self, rows: np.ndarray, pace: float) -> None:
        """Rows that were parted go to their own sides."""
        self.z, self.pattern = on_own_sides(self.z, self.pattern, self.data, rows, pace, self.rtol)

    def _take(self, groups: _merging.Merged, pattern: Pattern, leaders: np.ndarray) -> None:
        """Go on with these groups, whose sides and slides are those of rows ``leaders`` of ``pattern``."""
        self.groups, self._form = groups, None
        self.strain = np.zeros(len(leaders))
        self.z, active = np.ascontiguousarray(groups.rows), len(leaders)
        # Every new row has all slides of its leader.
        old, rows = owned(leaders, pattern.slides[:, 0])
        by_row = np.argsort(rows, kind="stable")
        old, rows = old[by_row], rows[by_row]
        self.pattern = Pattern(
            np.ascontiguousarray(pattern.side[leaders]), np.concatenate([np.arange(active), groups.owner]),
            np.ascontiguousarray(pattern.basis[leaders]), pattern.span[leaders],
            np.column_stack([rows, pattern.slides[old, 1]]).astype(np.int64), pattern.dual[old],
        )  # fmt: skip

    def even_part_is_gone(self) -> bool:
        """Whether the even part of the outputs is below the tolerance."""
        products = self.z[: self.active, : self.dim] @ self.data.transposed
        second = self.z[: self.active, self.dim :]
        lin = self.data.a * (second.T @ products)
        even = self.data.b * (second.T @ (self.pattern.side * products))
        return bool(np.abs(even).max(initial=0.0) <= _DEAD * self.rtol * np.abs(lin).max(initial=0.0))
