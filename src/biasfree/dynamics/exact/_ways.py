"""The ways of rows that go alone after an event within a step, all of them side by side."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics._float64 import SMALLEST
from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._methods import basis, on_curve


class Arc(NamedTuple):
    """Part of the way of a row and of the passive ones it owns.

    Attributes:
        way: whose it is, by number.
        begin, end: x.
        reach: how far the curve would go on.
        met: the one line that was met at its beginning, -1 if none was, or more.
        curve, energies: along it, the active row first; energies since the first event.
        pattern: of these rows.
    """

    way: int
    begin: float
    end: float
    reach: float
    met: int
    curve: Float[np.ndarray, "8 own columns"]
    energies: Float[np.ndarray, "8"]
    pattern: Pattern


class Happening(NamedTuple):
    """An event of a row on its way."""

    x: float
    row: int
    line: int
    kind: str


class Ways(NamedTuple):
    """The ways of some rows, and of passive ones that they own.

    Attributes:
        rows: their numbers.
        way: which of them an arc belongs to, in order; this and what follows has an entry for each arc.
        begin, end, reach: x of each arc, and how far its curve would go on.
        met: the one line that was met at its beginning, -1 if none was, or more.
        curves, energies: rows along it, and energies since the first event.
        side, basis, span: sides, and what it slides on; the basis is zero beyond the span.
        slides: arc and line of every slide.
        dual: of every slide, as in ``Pattern``.
        passive: numbers and curves of passive rows, by arc.
        events: what happened on the ways.
    """

    rows: Int[np.ndarray, "ways"]
    way: Int[np.ndarray, "arcs"]
    begin: Float[np.ndarray, "arcs"]
    end: Float[np.ndarray, "arcs"]
    reach: Float[np.ndarray, "arcs"]
    met: Int[np.ndarray, "arcs"]
    curves: Float[np.ndarray, "arcs 8 columns"]
    energies: Float[np.ndarray, "arcs 8"]
    side: Float[np.ndarray, "arcs lines"]
    basis: Float[np.ndarray, "arcs room dim"]
    span: Int[np.ndarray, "arcs"]
    slides: Int[np.ndarray, "slides 2"]
    dual: Float[np.ndarray, "slides dim"]
    passive: dict[int, tuple[np.ndarray, np.ndarray]]
    events: list[Happening]

    @property
    def begins(self) -> Float[np.ndarray, "ways"]:
        """x at which each way begins."""
        return self.begin[self._first]

    @property
    def _first(self) -> Int[np.ndarray, "ways"]:
        return np.searchsorted(self.way, np.arange(len(self.rows)))

    def arcs_at(self, x: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n ways"]:
        """The arc that each way is on at several x."""
        first = self._first
        ended = np.add.reduceat((self.end < x[:, None]).astype(np.int64), first, axis=1)
        return first + np.minimum(ended, np.diff(first, append=len(self.way)) - 1)

    def last_met(self, end: float) -> Int[np.ndarray, "ways"]:
        """The arc that begins where each way has met its last line before an x; -1 if it has met none."""
        numbers = np.where(self.met >= 0, np.arange(len(self.met)), -1)
        last = np.maximum.accumulate(numbers)[self.arcs_at(np.array([end]))[0]]
        return np.where(last >= self._first, last, -1)

    def at(
        self, x: Float[np.ndarray, "n"], arcs: Int[np.ndarray, "n ways"]
    ) -> tuple[Float[np.ndarray, "n ways columns"], Float[np.ndarray, "n ways"]]:
        """Active rows, and energies since their first events, at several x."""
        weights = basis(self._part(x[:, None], arcs))
        return np.einsum("nwb,nwbc->nwc", weights, self.curves[arcs]), np.sum(weights * self.energies[arcs], axis=-1)

    def passive_at(self, x: float, arc: int) -> tuple[Int[np.ndarray, "own"], Float[np.ndarray, "own columns"]]:
        """Numbers and values of the passive rows on an arc; most have none."""
        rows, curve = self.passive[arc]
        return rows, on_curve(basis(self._part(np.array(x), np.array(arc))), curve)

    def _part(self, x: np.ndarray, arcs: np.ndarray) -> np.ndarray:
        """How much of an arc's curve is gone at x; arcs may be so short that rounding leaves nothing of them."""
        return np.clip((x - self.begin[arcs]) / np.maximum(self.reach[arcs] - self.begin[arcs], SMALLEST), 0.0, 1.0)

    def before(self, end: float) -> "Ways":
        """Those that begin before an x."""
        begun = self.begins < end
        if begun.all():
            return self
        kept = np.flatnonzero(begun[self.way])
        number = np.full(len(self.way), -1)
        number[kept] = np.arange(len(kept))
        slide = number[self.slides[:, 0]] >= 0
        passive = {int(number[arc]): own for arc, own in self.passive.items() if number[arc] >= 0}
        return self._replace(
            rows=self.rows[begun], way=(np.cumsum(begun) - 1)[self.way[kept]],
            **{name: getattr(self, name)[kept] for name in _OF_ARCS},
            slides=np.column_stack([number[self.slides[slide, 0]], self.slides[slide, 1]]), dual=self.dual[slide],
            passive=passive, events=[event for event in self.events if event.x < end],
        )  # fmt: skip

    def pattern_at(self, end: float, pattern: Pattern) -> Pattern:
        """A pattern in which the rows are as they are at x = ``end``."""
        arcs, rows = self.arcs_at(np.array([end]))[0], self.rows
        room = max(self.basis.shape[1], pattern.basis.shape[1])
        held = np.pad(pattern.basis, ((0, 0), (0, room - pattern.basis.shape[1]), (0, 0)))
        held[rows] = 0.0
        held[rows, : self.basis.shape[1]] = self.basis[arcs]
        side, span = pattern.side.copy(), pattern.span.copy()
        side[rows], span[rows] = self.side[arcs], self.span[arcs]
        others = ~np.isin(pattern.slides[:, 0], rows)
        row_of = np.full(len(self.way), -1)
        row_of[arcs] = rows
        own = row_of[self.slides[:, 0]] >= 0
        slides = np.column_stack([row_of[self.slides[own, 0]], self.slides[own, 1]])
        return Pattern(
            side, pattern.owner, held, span, np.concatenate([pattern.slides[others], slides]).astype(np.int64),
            np.concatenate([pattern.dual[others], self.dual[own]]),
        )  # fmt: skip


_OF_ARCS = ("begin", "end", "reach", "met", "curves", "energies", "side", "basis", "span")


def of_arcs(
    rows: Int[np.ndarray, "ways"], arcs: list[Arc], passive: dict[int, np.ndarray], events: list[Happening]
) -> Ways:
    """Ways of rows from their arcs, in order; ``passive`` has the numbers of passive rows, by way."""
    lines, dim = arcs[0].pattern.side.shape[1], arcs[0].pattern.basis.shape[2]
    room = max(arc.pattern.basis.shape[1] for arc in arcs)
    held, span = np.zeros((len(arcs), room, dim)), np.array([arc.pattern.span[0] for arc in arcs])
    for own, arc in zip(held, arcs, strict=True):
        own[: arc.pattern.span[0]] = arc.pattern.basis[0, : arc.pattern.span[0]]
    slides = [(n, line) for n, arc in enumerate(arcs) for line in arc.pattern.slides[:, 1]]
    way, begin, end, reach, met = (np.array([arc[n] for arc in arcs]) for n in range(5))
    return Ways(
        rows, way, begin, end, reach, met, np.stack([arc.curve[:, 0] for arc in arcs]),
        np.stack([arc.energies for arc in arcs]),
        np.concatenate([arc.pattern.side for arc in arcs]).reshape(-1, lines), held, span,
        np.array(slides, dtype=np.int64).reshape(-1, 2), np.concatenate([arc.pattern.dual for arc in arcs]),
        {n: (passive[arc.way], arc.curve[:, 1:]) for n, arc in enumerate(arcs) if arc.way in passive}, events,
    )  # fmt: skip


def together(one: Ways, other: Ways) -> Ways:
    """Ways of the same rows, of which each knows some."""
    count = len(one.way)
    order = np.argsort(np.concatenate([one.way, other.way]), kind="stable")
    place = np.argsort(order)
    room = max(one.basis.shape[1], other.basis.shape[1])
    arrays = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])[order] for name in _OF_ARCS if name != "basis"
    }
    held = [np.pad(each.basis, ((0, 0), (0, room - each.basis.shape[1]), (0, 0))) for each in (one, other)]
    slides = np.concatenate([one.slides, other.slides + np.array([count, 0])])
    passive = {int(place[arc]): own for arc, own in one.passive.items()}
    passive |= {int(place[arc + count]): own for arc, own in other.passive.items()}
    return Ways(
        one.rows, np.concatenate([one.way, other.way])[order], **arrays, basis=np.concatenate(held)[order],
        slides=np.column_stack([place[slides[:, 0]], slides[:, 1]]), dual=np.concatenate([one.dual, other.dual]),
        passive=passive, events=one.events + other.events,
    )  # fmt: skip
