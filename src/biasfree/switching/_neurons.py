"""Neurons of negligible output, each moved from switch to switch by itself: the machinery of the early phase.

With c constant between switches (see ``theory.early_flow``), **switching times** are the roots E > 1 of a quadratic:
d_lᵀw = 0 reads (d_lᵀc̄)A E² + (d_lᵀw⊥)E + (d_lᵀc̄)B = 0; a neuron that starts on line l has the roots 1 and B/A.

**Sliding** follows ``settle``. ς is constant between switches, so sliding ends only at another switch or when w₂
changes sign. A neuron that slides on a single ray may reach w = 0, where every direction is open to it: it goes
straight on to the opposite ray if it is pulled that way, and rests if not; a branch too.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree.switching._filippov import Switches, settle

# Coefficients below this share of what they are summed from, and growth A below it of the neuron's size, are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Segments:
    """Stretches of constant c, sorted by neuron and time; states at their beginning, sizes as logarithms."""

    neuron: Int[np.ndarray, "segments"]
    begin: Float[np.ndarray, "segments"]
    first: Float[np.ndarray, "segments dim"]
    second: Float[np.ndarray, "segments"]
    log_size: Float[np.ndarray, "segments"]
    pull: Float[np.ndarray, "segments dim"]

    def last_before(self, time: float, neurons: int) -> Int[np.ndarray, "neurons"]:
        count = np.bincount(self.neuron[self.begin <= time], minlength=neurons)
        return np.searchsorted(self.neuron, np.arange(neurons)) + np.maximum(count - 1, 0)


def modes(first: np.ndarray, second: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, ...]:
    """ρ, c̄, A, B and w⊥ of each neuron; A or B within rounding of zero is zero, and all of w lies across c = 0."""
    rate = np.linalg.norm(pull, axis=1)
    unit = pull / np.where(rate > 0, rate, 1.0)[:, None]
    along = np.sum(unit * first, axis=1)
    up, down = 0.5 * (along + second), 0.5 * (along - second)
    floor = np.where(rate > 0, ROUNDING * (np.abs(second) + np.linalg.norm(first, axis=1)), np.inf)
    up, down = np.where(np.abs(up) <= floor, 0.0, up), np.where(np.abs(down) <= floor, 0.0, down)
    return rate, unit, up, down, first - along[:, None] * unit


def advanced(
    first: np.ndarray, second: np.ndarray, pull: np.ndarray, elapsed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States after a stretch of constant c, scaled to size one, and the logarithm of their size."""
    rate, unit, up, down, across = modes(first, second, pull)
    phase = rate * elapsed
    # Everything times e^{−phase} where something grows.
    lift = np.where(up != 0, phase, 0.0)
    grown, shrunk = up * np.exp(phase - lift), down * np.exp(-phase - lift)
    new_first = across * np.exp(-lift)[:, None] + (grown + shrunk)[:, None] * unit
    return _of_size_one(new_first, np.where(rate > 0, grown - shrunk, second), lift)


def _of_size_one(
    first: np.ndarray, second: np.ndarray, log_size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = np.maximum(np.abs(second), np.abs(first).max(axis=1))
    size = np.where(size > 0, size, 1.0)
    return first / size[:, None], second / size, log_size + np.log(size)


class Runner:
    """All neurons, each at its own time.

    ``side`` holds ς: ±1, or between them on the lines a neuron is ``sliding`` on. ``touching`` marks the lines it
    has just left.
    """

    def __init__(
        self,
        directions: Float[np.ndarray, "lines dim"],
        strength: Float[np.ndarray, "lines"],
        drift: Float[np.ndarray, "dim"],
        first: Float[np.ndarray, "width dim"],
        second: Float[np.ndarray, "width"],
    ) -> None:
        """Lines d_l with b k_l, κaβ, and the neurons' weights."""
        self.directions, self.strength, self.drift = directions, strength, drift
        width = len(first)
        self.first, self.second, self.log_size = _of_size_one(first, second, np.zeros(width))
        self.time = np.zeros(width)
        projection = self.first @ directions.T
        self.side = np.where(projection < 0, -1.0, 1.0)
        self.touching = projection == 0
        self.sliding = np.zeros_like(self.touching)
        self.open = np.ones(width, dtype=bool)
        self.resting = np.zeros(width, dtype=bool)
        self.pull = np.zeros_like(self.first)
        self._events: list[tuple[float, int, int, str]] = []
        self._pieces: list[tuple[np.ndarray, ...]] = []
        for h in np.flatnonzero(self.touching.any(axis=1)):
            self._settle(int(h), np.flatnonzero(self.touching[h]))
        self._events.clear()
        self._refresh(np.arange(width))

    def advance_all(self, until: float) -> None:
        """Take every neuron through all its switches before ``until``; may be called again with a later time."""
        self.open = ~self.resting
        while self.advance(until):
            pass

    def advance(self, until: float) -> bool:
        """Move every open neuron to its next switch before ``until``; whether any had one."""
        neurons = np.flatnonzero(self.open)
        wait, line = self._next(neurons)
        moving = np.isfinite(wait) & (self.time[neurons] + wait <= until)
        self.open[neurons[~moving]] = False
        neurons, wait, line = neurons[moving], wait[moving], line[moving]
        if not neurons.size:
            return False
        self.first[neurons], self.second[neurons], log_size = advanced(
            self.first[neurons], self.second[neurons], self.pull[neurons], wait
        )
        self.log_size[neurons] += log_size
        self.time[neurons] += wait
        self.touching[neurons] &= (wait <= 0)[:, None]
        for h, met in zip(neurons.tolist(), line.tolist(), strict=True):
            if np.linalg.norm(self.first[h]) <= 1e3 * ROUNDING * abs(self.second[h]):
                self._pass_origin(h)
            elif met < 0:
                self.second[h] = 0.0
                self._settle(h, np.zeros(0, dtype=int))
            else:
                # Exactly on the surface, so that its root at E = 1 is known to be one.
                self.first[h] -= (self.first[h] @ self.directions[met]) * self.directions[met]
                self._settle(h, np.array([met]))
        self._refresh(neurons)
        return True

    def _next(self, neurons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Time to each neuron's next switch and its line; line −1 is w₂ = 0 while sliding, time inf is none."""
        first, second = self.first[neurons], self.second[neurons]
        rate, unit, up, down, across = modes(first, second, self.pull[neurons])
        along = unit @ self.directions.T
        side, free = self.side[neurons], ~self.sliding[neurons]
        touching = self.touching[neurons]
        wait = np.full(along.shape, np.inf)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quadratic, linear, constant = along * up[:, None], across @ self.directions.T, along * down[:, None]
            root = np.sqrt(linear**2 - 4 * quadratic * constant)
            # The pair of roots without cancellation.
            half = -0.5 * (linear + np.where(linear >= 0, 1.0, -1.0) * root)
            other = (down / up)[:, None]
            for growth in (np.where(touching, other, half / quadratic), np.where(touching, np.nan, constant / half)):
                # It must be moving out of its side there; else it only touches the surface.
                leaving = side * along * (up[:, None] * growth - down[:, None] / growth) < 0
                sound = free & leaving & np.isfinite(growth) & (growth > 1)
                wait = np.minimum(wait, np.where(sound, np.log(growth) / rate[:, None], np.inf))
            # On the surface to rounding and pushed through it: a switch that coincides with the last one.
            pressed = np.abs(first @ self.directions.T) <= ROUNDING * np.linalg.norm(first, axis=1)[:, None]
            pressed &= free & ~touching & (side * along * second[:, None] < 0)
            wait[pressed] = 0.0
            # w₂ = 0 at E² = B/A; only a sliding neuron is concerned.
            turn = np.where(self.sliding[neurons].any(axis=1) & (down / up > 1), 0.5 * np.log(down / up) / rate, np.inf)
        line = wait.argmin(axis=1) if wait.shape[1] else np.zeros(len(neurons), dtype=int)
        soonest = wait.min(axis=1, initial=np.inf)
        return np.minimum(soonest, turn), np.where(turn < soonest, -1, line)

    def _settle(self, h: int, met: np.ndarray) -> None:
        """Choose ς on the lines the neuron slides on or has just met, by Filippov's rule."""
        # Where w₂ passes zero, what counts is where it goes.
        sign = np.sign(self.second[h]) or np.sign(self.first[h] @ self.pull[h]) or 1.0
        settled = settle(self.directions, self.strength, self.drift, sign, self.side[h], self.sliding[h], met)
        self.touching[h] |= self.sliding[h]
        self.touching[h, met] = True
        self.touching[h] &= ~settled.sliding
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        for line, kind in settled.events:
            self._log(h, line, kind)

    def _pass_origin(self, h: int) -> None:
        """A neuron that slides on its last ray reaches w = 0, where every line is met at once."""
        self.first[h] = 0.0
        self.side[h] = np.where(self.sliding[h], self.side[h], -self.side[h])
        self._settle(h, np.zeros(0, dtype=int))
        self.touching[h] = ~self.sliding[h]
        ahead = self.second[h] * (self.directions @ self._pull_of(self.side[h]))
        lines = np.flatnonzero(self.touching[h])
        if (self.side[h, lines] * ahead[lines] < 0).any():
            # Pushed back on the other ray as well: it rests, with ς such that nothing pulls.
            self.open[h], self.resting[h] = False, True
            self.sliding[h] = True
        for line in lines.tolist():
            self._log(h, line, "branch")

    def _pull_of(self, side: np.ndarray) -> np.ndarray:
        return self.drift + (side * self.strength) @ self.directions

    def _refresh(self, neurons: np.ndarray) -> None:
        """c of these neurons, and a new stretch for each."""
        pull = self._pull_of(self.side[neurons])
        # A neuron that rests at w = 0 is held there.
        pull[self.resting[neurons]] = 0.0
        # Of a c that sliding cancels only rounding is left.
        size = np.linalg.norm(self.drift) + np.abs(self.strength).sum()
        pull[np.linalg.norm(pull, axis=1) <= ROUNDING * size] = 0.0
        self.pull[neurons] = pull
        self._pieces.append(
            (neurons, self.time[neurons], self.first[neurons], self.second[neurons], self.log_size[neurons], pull)
        )

    def _log(self, neuron: int, line: int, kind: str) -> None:
        self._events.append((float(self.time[neuron]), neuron, line, kind))

    def switches(self) -> Switches:
        """The events in order of time."""
        return Switches.of(self._events)

    def segments(self) -> Segments:
        """All stretches, by neuron and time."""
        columns = [np.concatenate(column) for column in zip(*self._pieces, strict=True)]
        # Stable: of stretches that begin together the last one counts.
        order = np.lexsort((columns[1], columns[0]))
        return Segments(*(column[order] for column in columns))
