"""The network as the exact flow carries it: few rows, the pattern they move by, and all neurons back from them."""

from typing import Any

import numpy as np

from biasfree.datasets import Dataset
from biasfree.dynamics.exact import _merging
from biasfree.dynamics.exact._decisions import ON_A_LINE, Judge, empty_pattern
from biasfree.dynamics.exact._field import Data, Pattern, log_loss, outputs_by_line, pulls, rows_of, split, velocity
from biasfree.dynamics.exact._forms import Form, after_crossing, form_of
from biasfree.dynamics.exact._riders import LIGHT, closest, may_ride
from biasfree.dynamics.exact._samples import by_moments, felt_lines, keys_of_sides, outputs

_PASSAGES = 50  # of w = 0 by one neuron, after which it only trembles there
_MANY_SIDES = 20_000  # lines × neurons from which riders are worth having
_UNMOVED = 0.1  # part of rtol by which a group's event may move a rider
_DEAD = 3e-4  # part of rtol at which an even part is gone


class Reduced:
    """Rows, pattern and groups of one moment.

    Attributes:
        data: the samples, by line or by their moments.
        state: [W₁ | w₂ | energy] of the rows, active before passive.
        pattern: sides and slides of the active rows.
        groups: how neurons are made of rows.
        linear: no line matters.
        riders: neurons that ride along, see ``_riders``.
    """

    def __init__(self, neurons: np.ndarray, energy: float, data: Data, rtol: float) -> None:
        """Merge what is parallel at the start, and decide for neurons that lie on a line."""
        self.tolerance, self.rtol = float(np.sqrt(0.1 * rtol)), rtol
        self.dim = neurons.shape[1] - 1
        self._passed: dict[int, int] = {}
        self._begin(neurons, energy, data)

    def _begin(self, neurons: np.ndarray, energy: float, data: Data) -> None:
        self.data, self.linear = data, data.b == 0
        self._form: Form | None = None
        self.riders = np.zeros(0, dtype=np.int64)
        self.groups = _merging.reduced(neurons) if self.linear else self._grouped(neurons)
        rows, owner = self.groups.rows()
        first = rows[: len(rows) - len(owner), :-1]
        products = first @ data.transposed
        self.pattern = empty_pattern(np.where(products < 0, -1.0, 1.0), owner, self.dim)
        self.state = np.concatenate([rows[:, :-1].ravel(), rows[:, -1], [energy]])
        if not self.linear:
            near = np.abs(products) <= ON_A_LINE * np.linalg.norm(first, axis=1)[:, None]
            for h in np.flatnonzero(near.any(axis=1)).tolist():
                self.decide(h, np.flatnonzero(near[h]))

    def _grouped(self, neurons: np.ndarray) -> _merging.Merged:
        data, moving = self.data, _merging.moving(neurons)
        lines = len(data.directions)
        if len(moving) * lines > _MANY_SIDES:
            heavy, left = _merging.parallel(neurons, moving, self.tolerance, LIGHT)
            # Each group's direction is that of its largest neuron; its square is the sum.
            sizes = [np.linalg.norm(neurons[some]) for some in heavy]
            leaders = np.array(sizes)[:, None] * _units(neurons[[some[0] for some in heavy]])
            p, q = np.empty((2, lines))
            pulls(*outputs(leaders, data), data, p, q)
            if not felt_lines(p, q, data, self.rtol).size:
                owner = closest(neurons[left], leaders)
                side = np.where(leaders[:, :-1] @ data.transposed < 0, -1.0, 1.0)
                ride, _ = may_ride(neurons[left], side, owner, p, q, data, self.rtol)
                self.riders = left[ride]
                taken = [np.concatenate([m, left[ride & (owner == g)]]) for g, m in enumerate(heavy)]
                return _merging.of_members(neurons, taken + _merging.parallel(neurons, left[~ride], self.tolerance)[0])
        key = keys_of_sides(neurons, data, self.rtol)
        return _merging.of_members(neurons, _merging.alike(neurons, moving, key, self.tolerance))

    @property
    def active(self) -> int:
        """Number of rows that the output sees."""
        return len(self.pattern.side)

    @property
    def entries(self) -> int:
        """Numbers that the active rows hold."""
        return self.active * (self.dim + 1)

    def neurons(self, state: np.ndarray | None = None) -> np.ndarray:
        """All neurons, rows (w, w₂), at a state of the present grouping."""
        first, second = self._split(self.state if state is None else state)
        return self.groups.restored(np.column_stack([first, second]))

    def log_loss(self, state: np.ndarray | None = None) -> float:
        """ln L at a state of the present grouping."""
        return float(log_loss(self.state if state is None else state, self.data, self.active))

    def velocity(self) -> np.ndarray:
        """Of the state."""
        out, count = np.empty_like(self.state), len(self.data.directions)
        velocity(self.state, self.data, self.pattern, out, np.empty(count), np.empty(count))
        return out

    def form(self) -> Form:
        """Of the present pattern."""
        if self._form is None:
            self._form = form_of(self.data, self.pattern)
        return self._form

    def decide(self, h: int, met: np.ndarray | None, *, turned: bool = False) -> list[tuple[int, int, str]]:
        """What row ``h`` does on the lines it has ``met``, or, sliding, where its ς is full or its w₂ has ``turned``.

        Returns:
            (neuron, line, kind) of the events.
        """
        riders = self.riders[self.groups.row_of[self.riders] == h]
        kept = (self.state.copy(), Pattern(*(part.copy() for part in self.pattern))) if riders.size else None
        judge, neuron = Judge(self.data, self.pattern), self.groups.representatives[h]
        if met is not None:
            rest = judge.at_origin(self.state, h) and self._passages(neuron) > _PASSAGES
            events = judge.meets(self.state, h, met, rest=rest)
        else:
            if turned:
                self._split(self.state)[1][h] = 0.0
            events = judge.turns(self.state, h)
        if kept is not None:
            # Riders are not on the line their group slides on, nor near it when the group crosses it slowly.
            after, (self.state, self.pattern) = self._rows(), kept
            before = self.groups.some(riders, self._rows())
            moved = np.linalg.norm(self.groups.some(riders, after) - before, axis=1) / np.linalg.norm(before, axis=1)
            leaving = riders[moved > _UNMOVED * self.rtol] if all(kind == "cross" for _, kind in events) else riders
            if leaving.size:
                self._let_off(leaving)
                return self.decide(int(self.groups.row_of[neuron]), met, turned=turned)
            self.state = np.concatenate([after[:, :-1].ravel(), after[:, -1], self.state[-1:]])
        self.pattern = judge.pattern
        if all(kind == "cross" for _, kind in events) and self._form is not None:
            for line, _ in events:
                after_crossing(self._form, self.data, self.pattern, h, line)
        else:
            self._form = None
        return [(neuron, line, kind) for line, kind in events]

    def _passages(self, neuron: int) -> int:
        """How often this neuron has passed w = 0 by now."""
        self._passed[neuron] = self._passed.get(neuron, 0) + 1
        return self._passed[neuron]

    def merge(self) -> bool:
        """Group afresh if that makes fewer groups or some riders must leave; whether there are fewer."""
        self._let_off(self._leaving())
        count = len(self.groups.groups)
        if count > 1 and not self.linear and self._some_parallel():
            self.regroup(fewer_than=count)
        return len(self.groups.groups) < count

    def _some_parallel(self) -> bool:
        """Whether two active rows might merge."""
        return (
            len(_merging.alike(self._rows(), np.arange(self.active), _keys(self.pattern), 3 * self.tolerance))
            < self.active
        )

    def _leaving(self) -> np.ndarray:
        """Riders that must leave; those that have become ordinary members are riders no more."""
        if not self.riders.size:
            return self.riders
        owner, neurons = self.groups.row_of[self.riders], self.groups.some(self.riders, self._rows())
        p, q = np.empty((2, len(self.data.directions)))
        pulls(*self._outputs(), self.data, p, q)
        ride, same = may_ride(neurons, self.pattern.side, owner, p, q, self.data, self.rtol)
        apart = np.linalg.norm(_units(neurons) - _units(self._rows()[: self.active])[owner], axis=1) > self.tolerance
        leaving, self.riders = self.riders[~ride], self.riders[ride & (apart | ~same)]
        return leaving

    def _let_off(self, leaving: np.ndarray) -> None:
        """Riders that leave have their own sides from now on."""
        if not leaving.size:
            return
        self.riders = np.setdiff1d(self.riders, leaving)
        groups = self.groups.without(leaving, self._rows())
        own = groups.rows()[0][self.active : len(groups.groups), :-1] @ self.data.transposed
        pattern = _with_sides(self.pattern, np.where(own < 0, -1.0, 1.0))
        self._take(groups, pattern, np.arange(len(groups.groups)))

    def regroup(self, fewer_than: int | None = None) -> None:
        """Group afresh, since some group has come apart, or if that makes fewer groups."""
        neurons, row_of = self.neurons(), self.groups.row_of
        ordinary = np.array(neurons.any(axis=1))
        ordinary[self.riders] = False
        members = _merging.alike(neurons, np.flatnonzero(ordinary), _keys(self.pattern)[row_of], self.tolerance)
        if fewer_than is not None and len(members) >= fewer_than:
            return
        leaders = row_of[[some[0] for some in members]]
        if self.riders.size:
            # Each with the group that its old group's largest neuron is in.
            home = np.zeros(self.groups.width, dtype=int)
            for index, some in enumerate(members):
                home[some] = index
            home = home[[group.members[0] for group in self.groups.groups]][row_of[self.riders]]
            members = [np.concatenate([some, self.riders[home == index]]) for index, some in enumerate(members)]
        self._take(_merging.of_members(neurons, members), self.pattern, leaders)

    def _take(self, groups: _merging.Merged, pattern: Pattern, leaders: np.ndarray) -> None:
        """Go on with these groups, whose sides and slides are those of rows ``leaders`` of ``pattern``."""
        self.groups, self._form = groups, None
        rows, owner = groups.rows()
        chosen = {name: np.ascontiguousarray(getattr(pattern, name)[leaders]) for name in Pattern._fields[:-1]}
        self.pattern = Pattern(**chosen, owner=owner)
        self.state = np.concatenate([rows[:, :-1].ravel(), rows[:, -1], self.state[-1:]])

    def drop_even_part(self, dataset: Dataset, settings: dict[str, Any]) -> bool:
        """On symmetric data, go on with β and Σ alone once the even part of the outputs is below the tolerance."""
        lin, even = self._outputs()
        if np.abs(even).max() > _DEAD * self.rtol * np.abs(lin).max():
            return False
        self._begin(self.neurons(), float(self.state[-1]), by_moments(dataset, settings, self.data.a))
        return True

    def _rows(self) -> np.ndarray:
        """Rows (w, w₂), active before passive."""
        return np.column_stack(self._split(self.state))

    def _outputs(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = self._split(self.state)
        lin, even = np.empty((2, len(self.data.directions)))
        products = first[: self.active] @ self.data.transposed
        outputs_by_line(products, second, self.pattern.side, lin, even, self.data.a, self.data.b)
        return lin, even

    def _split(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return split(state, rows_of(state, self.dim), self.dim)


def _keys(pattern: Pattern) -> np.ndarray:
    """A number for each kind of active row: its sides and its span."""
    numbers: dict[tuple[bytes, int], int] = {}
    kinds = zip(pattern.side, pattern.span, strict=True)
    return np.array([numbers.setdefault((side.tobytes(), int(span)), len(numbers)) for side, span in kinds])


def _with_sides(pattern: Pattern, side: np.ndarray) -> Pattern:
    """More rows, which do not slide."""
    grown = {
        name: np.concatenate([part, np.zeros((len(side), *part.shape[1:]), dtype=part.dtype)])
        for name, part in zip(Pattern._fields[1:-1], pattern[1:-1], strict=True)
    }
    return Pattern(np.concatenate([pattern.side, side]), **grown, owner=pattern.owner)


def _units(rows: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(size > 0, size, 1.0)
