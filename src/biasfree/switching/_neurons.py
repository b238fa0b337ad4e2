"""Neurons of negligible output, each moved from switch to switch by itself: the machinery of the early phase.

With c constant between switches (see ``theory.early_flow``), **switching times** are the roots E > 1 of a quadratic:
d_lᵀw = 0 reads (d_lᵀc̄)A E² + (d_lᵀw⊥)E + (d_lᵀc̄)B = 0; a neuron that starts on line l has the roots 1 and B/A.

**Sliding** follows ``settle``. ς is constant between switches, so sliding ends only at another switch or when w₂
changes sign. A neuron that slides on a single ray may reach w = 0, where every direction is open to it:
``from_zero`` says where it goes on; a branch too.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.switching._compiled import DONE, MET, follow
from biasfree.switching._filippov import Switches, from_zero, settle, start_on, where_many_meet

# Coefficients below this share of what they are summed from, and growth A below it of the neuron's size, are rounding.
ROUNDING = 1e-13
# |w₂| that is nothing beside wᵀc̄: a neuron that starts on a line and turns back is on it again at E = B/A = 1 + twice
# their quotient, which must differ from 1. Bound: 4 ε.
NO_SECOND = 1e-15
_INSIDE = 1 - 1e-11  # |ς| of a neuron that slides: beyond it rounding decides
_TOGETHER = 1e-12  # of a neuron's size: what rounding makes of wᵀd = 0, at the start or after a few switches
_GRAM = 2500  # lines whose products are kept
_CROSSINGS = 20_000  # from one look at progress to the next
FLOOD = 100  # switches of one neuron without a step of time among them: nothing is decided
UNDECIDED = "the early phase of a neuron could not be decided: it met lines again and again."


@dataclass(frozen=True)
class Modes:
    """Neurons under a constant c: w = w⊥ + c̄(AE + B/E), w₂ = AE − B/E with E = e^{ρt}.

    A or B within rounding of zero is zero. Under c = 0 all of w lies across, and w₂ is ``still``.
    """

    rate: Float[np.ndarray, "neurons"]  # ρ = ‖c‖
    unit: Float[np.ndarray, "neurons dim"]  # c̄
    up: Float[np.ndarray, "neurons"]  # A
    down: Float[np.ndarray, "neurons"]  # B
    across: Float[np.ndarray, "neurons dim"]  # w⊥
    still: Float[np.ndarray, "neurons"]

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, pull: np.ndarray) -> "Modes":
        """Neurons (w, w₂) and the c each is under, or the one c of all."""
        if pull.ndim == 1:
            rate = np.full(len(first), np.linalg.norm(pull))
            one = pull / (rate[:1] if rate.any() else 1.0)
            unit, along = np.broadcast_to(one, first.shape), first @ one
        else:
            rate = _lengths(pull)
            unit = pull / np.where(rate > 0, rate, 1.0)[:, None]
            along = np.einsum("hd,hd->h", unit, first)
        up, down = 0.5 * (along + second), 0.5 * (along - second)
        floor = np.where(rate > 0, ROUNDING * (np.abs(second) + _lengths(first)), np.inf)
        up, down = np.where(np.abs(up) <= floor, 0.0, up), np.where(np.abs(down) <= floor, 0.0, down)
        across = along[:, None] * unit
        return cls(rate, unit, up, down, np.subtract(first, across, out=across), np.where(rate > 0, 0.0, second))

    def take(self, index: Int[np.ndarray, "some"]) -> "Modes":
        """Those of some neurons; all of them in order are not copied."""
        if len(index) == len(self.rate) and (np.diff(index) == 1).all():
            return self
        return Modes(*(getattr(self, name)[index] for name in _PARTS))

    def put(self, index: Int[np.ndarray, "some"], new: "Modes") -> None:
        """Replace those of some neurons."""
        for name in _PARTS:
            getattr(self, name)[index] = getattr(new, name)

    def at(self, elapsed: Float[np.ndarray, "neurons"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w, w₂) after a stretch of time, scaled to size one, and the logarithm of their size."""
        phase = self.rate * elapsed
        # Everything times e^{−phase} where something grows.
        lift = np.where(self.up != 0, phase, 0.0)
        grown, shrunk = self.up, self.down * np.exp(-phase - lift)
        first = self.across * np.exp(-lift)[:, None]
        first += (grown + shrunk)[:, None] * self.unit
        return _of_size_one(first, np.where(self.rate > 0, grown - shrunk, self.still), lift)

    def powers(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Rate and squared size of what grows, what shrinks and what stays."""
        stays = np.einsum("hd,hd->h", self.across, self.across) + self.still**2
        return (self.rate, 2 * self.up**2), (-self.rate, 2 * self.down**2), (np.zeros_like(self.rate), stays)


_PARTS = tuple(part.name for part in fields(Modes))


@dataclass(frozen=True)
class Segments:
    """Stretches of constant c, sorted by neuron and time; at their beginning the modes, of one or several outputs, and
    ln of the size.
    """

    neuron: Int[np.ndarray, "segments"]
    begin: Float[np.ndarray, "segments"]
    log_size: Float[np.ndarray, "segments"]
    modes: Any

    def last_before(self, time: float, neurons: int) -> Int[np.ndarray, "neurons"]:
        """The stretch that each neuron is in."""
        count = np.bincount(self.neuron[self.begin <= time], minlength=neurons)
        return np.searchsorted(self.neuron, np.arange(neurons)) + np.maximum(count - 1, 0)

    def at(self, time: float, neurons: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, w₂ scaled to size one and ln of the size, of every neuron."""
        here = self.last_before(time, neurons)
        first, second, log_size = self.modes.take(here).at(time - self.begin[here])
        return first, second, self.log_size[here] + log_size


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.einsum("hd,hd->h", rows, rows)))


def _of_size_one(
    first: np.ndarray, second: np.ndarray, log_size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = np.maximum(np.abs(second), np.maximum(first.max(axis=1), -first.min(axis=1)))
    size = np.where(size > 0, size, 1.0)
    return first / size[:, None], second / size, log_size + np.log(size)


class Runner:
    """All neurons, each at its own time.

    ``side`` holds ς: ±1, or between them on the lines a neuron is ``sliding`` on. ``touching`` marks the lines it
    has just left. ``stuck``: one of them met lines again and again without moving, and nothing here is to be used.
    """

    def __init__(
        self,
        directions: Float[np.ndarray, "lines dim"],
        strength: Float[np.ndarray, "lines"],
        drift: Float[np.ndarray, "dim"],
        at_kink: Float[np.ndarray, "lines"],
        first: Float[np.ndarray, "width dim"],
        second: Float[np.ndarray, "width"],
    ) -> None:
        """Lines d_l with b k_l, κaβ, what stands for ς b k_l where w lies on a line (``start_on``), and the weights."""
        self.directions, self.strength, self.drift = map(np.ascontiguousarray, (directions, strength, drift))
        self._at_kink = at_kink
        self._transposed = np.ascontiguousarray(self.directions.T)
        self._gram = self.directions[: _GRAM if len(directions) <= _GRAM else 0] @ self.directions.T
        width = len(first)
        self.first, self.second, self.log_size = _of_size_one(first, second, np.zeros(width))
        self.time = np.zeros(width)
        projection = self.first @ directions.T
        self.touching = np.abs(projection) <= _TOGETHER * np.abs(self.first).max(axis=1, initial=0.0)[:, None]
        self.side = np.where((projection < 0) & ~self.touching, -1.0, 1.0)
        self.sliding = np.zeros_like(self.touching)
        self.open = np.ones(width, dtype=bool)
        self.resting = np.zeros(width, dtype=bool)
        self.stuck = False
        self._turned = np.zeros(width, dtype=int)  # how often it was turned back since it last moved
        self._turned_at = np.full(width, np.nan)
        self._events: list[tuple[float, int, int, str]] = []
        self._crossings: list[tuple[np.ndarray, np.ndarray]] = []  # times; neurons and lines
        self._pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray, Modes]] = []
        for h in np.flatnonzero(self.touching.any(axis=1)).tolist():
            if self.first.shape[1] > 1 and self.second[h] and not self.first[h].any():
                # All lines are met at once, and none was passed: it comes from where it is pulled to.
                ahead = self.directions @ (self.second[h] * self.drift)
                self.side[h] = np.where(ahead < 0, 1.0, -1.0)
                self._pass_origin(h)
            else:
                self._begin_on(h, np.flatnonzero(self.touching[h]))
        self.modes = self._stretch(np.arange(width))
        if len(directions):  # the first stretch stays as it is
            self.modes = replace(self.modes, **{name: getattr(self.modes, name).copy() for name in _PARTS})

    def advance_all(self, until: float) -> None:
        """Take every neuron through all its switches before ``until``; may be called again with a later time."""
        self.open = ~self.resting
        while self.advance(until):
            pass

    def advance(self, until: float) -> bool:
        """Move every open neuron through some of its switches before ``until``; whether any may have more."""
        neurons = np.flatnonzero(self.open)
        if self.stuck or not (neurons.size and len(self.directions)):
            self.open[neurons] = False
            return False
        state = (self.first, self.second, self.log_size, self.time, self.side, self.sliding, self.touching)
        size = np.linalg.norm(self.drift) + np.abs(self.strength).sum()
        dim, room = len(self.drift), _CROSSINGS
        crossed, when = np.empty((room, 2), dtype=np.int64), np.empty(room)
        stretches = np.empty((room, 5 + 2 * dim))
        why, met, count = follow(
            neurons, until, (self.directions, self._transposed, self.strength, self.drift, self._gram), state,
            tuple(getattr(self.modes, name) for name in _PARTS),
            (ROUNDING, 1 - _INSIDE, _INSIDE, ROUNDING * size, (1 - _INSIDE) * size, _TOGETHER),
            (crossed, when, stretches),
        )  # fmt: skip
        if count:
            # Copies: the rest of the room is given back.
            crossed, when, stretches = crossed[:count].copy(), when[:count].copy(), stretches[:count].copy()
            self._crossings.append((when, crossed))
            log_size, rate, up, down, still = stretches[:, :5].T
            unit, across = stretches[:, 5 : 5 + dim], stretches[:, 5 + dim :]
            self._pieces.append((crossed[:, 0], when, log_size, Modes(rate, unit, up, down, across, still)))
        self.open[neurons[why == DONE]] = False
        stopped = why == MET
        again = stopped & (met >= 0) & self.touching[neurons, np.maximum(met, 0)]
        for h in neurons[again].tolist():
            self._settle_all(h)
        left = self._held_by_one(neurons[stopped & ~again], met[stopped & ~again])
        for h, line in zip(*(each[stopped & ~again][left].tolist() for each in (neurons, met)), strict=True):
            if np.linalg.norm(self.first[h]) <= 1e3 * ROUNDING * abs(self.second[h]):
                self._pass_origin(h)
            elif line < 0:
                self.second[h] = 0.0
                self._settle(h, np.zeros(0, dtype=int))
            else:
                self._settle(h, self._met_with(h, line))
        if stopped.any():
            self.modes.put(neurons[stopped], self._stretch(neurons[stopped]))
        return True

    def _held_by_one(self, neurons: np.ndarray, met: np.ndarray) -> Bool[np.ndarray, "neurons"]:
        """Neurons that slid on nothing and slide on the one line they have met: all at once; which are left.

        ``settle`` would say the same of each: the line attracts, and ς = −d·(c without it)/s lies within the interval.
        """
        line, sign = np.maximum(met, 0), np.sign(self.second[neurons])
        strength, d = self.strength[line], self.directions[line]
        pull = self._pull_of(self.side[neurons]) - (self.side[neurons, line] * strength)[:, None] * d
        with np.errstate(divide="ignore", invalid="ignore"):
            between = -np.sum(d * pull, axis=1) / strength
        plain = (met >= 0) & ~self.sliding[neurons].any(axis=1) & (sign * strength < 0) & (np.abs(between) < _INSIDE)
        plain &= _lengths(self.first[neurons]) > 1e3 * ROUNDING * np.abs(self.second[neurons])
        held, on = neurons[plain], line[plain]
        self.touching[held, on] = False
        self.side[held, on], self.sliding[held, on] = between[plain], True
        for h, k in zip(held.tolist(), on.tolist(), strict=True):
            self._log(h, k, "slide")
        return ~plain

    def _met_with(self, h: int, line: int) -> Int[np.ndarray, "met"]:
        """The line that was met, and those that depend on it and on lines slid on: they are met at the same time."""
        near = np.abs(self.directions @ self.first[h]) <= _TOGETHER * np.linalg.norm(self.first[h])
        near &= ~self.touching[h] & ~self.sliding[h] & self.sliding[h].any()
        near[line] = True
        return np.flatnonzero(near)

    def _heading(self, h: int) -> float:
        """The sign of w₂; where that is nothing, of what it becomes: wᵀc, to which lines it lies on add nothing.

        0 of a neuron that nothing moves.
        """
        pull = self._pull_of(self.side[h])
        becomes, size = self.first[h] @ pull, np.abs(pull).max(initial=0.0)
        heading = becomes if abs(self.second[h]) * size <= NO_SECOND * abs(becomes) else 0.0
        return float(np.sign(heading) or np.sign(self.second[h]))

    def _begin_on(self, h: int, lines: np.ndarray) -> None:
        """Choose ς on the lines that the neuron starts on; where it may leave to either side is a branch."""
        heading = self._heading(h)
        noise = ROUNDING * (np.linalg.norm(self.drift) + np.abs(self.strength).sum())
        pulls = heading * self.strength, heading * self.drift, heading * self._at_kink
        settled, either = start_on(self.directions, *pulls, self.side[h], lines, noise)
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        self.touching[h] &= ~settled.sliding
        for line, kind in [*settled.events, *((line, "branch") for line in either)]:
            self._log(h, line, kind)

    def _settle(self, h: int, met: np.ndarray) -> None:
        """Choose ς on the lines the neuron slides on or has just met, by Filippov's rule."""
        settled = settle(
            self.directions, self.strength, self.drift, self._heading(h) or 1.0, self.side[h], self.sliding[h], met,
            together=len(met) > 1 and self.sliding[h].any(),
        )  # fmt: skip
        self.touching[h] |= self.sliding[h]
        self.touching[h, met] = True
        self.touching[h] &= ~settled.sliding
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        for line, kind in settled.events:
            self._log(h, line, kind)

    def _settle_all(self, h: int) -> None:
        """Choose ς anew on all lines the neuron lies on: after a decision on one of them it is turned back to another.

        Where lines depend on each other, as those within a plane do, a neuron that slides on one meets all at once.
        """
        self._turned[h] = self._turned[h] + 1 if self._turned_at[h] == self.time[h] else 1
        self._turned_at[h], self.stuck = self.time[h], self.stuck or self._turned[h] > FLOOD
        met = np.flatnonzero(self.touching[h] | self.sliding[h])
        settled = where_many_meet(
            self.directions, self.strength, self.drift, self._heading(h), self.side[h], self.sliding[h], met
        )
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        self.touching[h, met] = ~settled.sliding[met]
        for line, kind in settled.events:
            self._log(h, line, kind)

    def _pass_origin(self, h: int) -> None:
        """A neuron that slides on its last ray reaches w = 0, where every line is met at once."""
        self.first[h] = 0.0
        sign = np.sign(self.second[h])
        settled = from_zero(self.directions, sign * self.strength, sign * self.drift, self.side[h], self.sliding[h])
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        self.touching[h] = ~settled.sliding
        for line in np.flatnonzero(self.touching[h]).tolist():
            self._log(h, line, "branch")
        if settled.rests:
            self.open[h], self.resting[h] = False, True
            self.sliding[h] = True

    def _pull_of(self, side: np.ndarray) -> np.ndarray:
        return self.drift + (side * self.strength) @ self.directions

    def _stretch(self, neurons: np.ndarray) -> Modes:
        """A new stretch for each of these neurons, under the c of its sides."""
        pull = self.drift
        if len(self.directions):
            pull = self._pull_of(self.side[neurons])
            # A neuron that rests at w = 0 is held there.
            pull[self.resting[neurons]] = 0.0
            # Of a c that sliding cancels only rounding is left.
            size = np.linalg.norm(self.drift) + np.abs(self.strength).sum()
            pull[_lengths(pull) <= ROUNDING * size] = 0.0
        modes = Modes.of(self.first[neurons], self.second[neurons], pull)
        self._pieces.append((neurons, self.time[neurons], self.log_size[neurons], modes))
        return modes

    def _log(self, neuron: int, line: int, kind: str) -> None:
        self._events.append((float(self.time[neuron]), neuron, line, kind))

    def switches(self) -> Switches:
        """The events in order of time; at the start nothing is passed."""
        return Switches.of([event for event in self._events if event[0] > 0 or event[3] != "cross"], self._crossings)

    def segments(self) -> Segments:
        """All stretches, by neuron and time."""
        if len(self._pieces) == 1:
            return Segments(*self._pieces[0])
        neurons, begins, log_sizes, modes = zip(*self._pieces, strict=True)
        neuron, begin = np.concatenate(neurons), np.concatenate(begins)
        # Stable: of stretches that begin together the last one counts.
        order = np.lexsort((begin, neuron))
        parts = (np.concatenate([getattr(piece, name) for piece in modes])[order] for name in _PARTS)
        return Segments(neuron[order], begin[order], np.concatenate(log_sizes)[order], Modes(*parts))
