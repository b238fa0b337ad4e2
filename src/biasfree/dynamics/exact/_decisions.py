"""What a neuron does where it meets a line, where its ς leaves [−1, 1], and where its w₂ changes sign.

The rule is Filippov's (``switching.settle``). Small differences between merged neurons pass an event by its saltation
matrix: neighbours meet the surface at other times, by (d_lᵀδ)/(d_lᵀẇ), and what the velocity changes by there in
between is added: δ → δ + Δẇ(d_lᵀδ)/(d_lᵀẇ). Where sliding begins this removes the part of δ across the surface.

A neuron that slides on as many lines as leave it a single ray may reach w = 0, where it meets all lines at once. It
goes on as the limit of an infinitely small step past zero does; if that leads back to zero it rests there as long as ς
can make c vanish, and moves along the least c otherwise.
"""

from dataclasses import dataclass

import numpy as np

from biasfree.dynamics.exact._field import Data, Pattern, noise_of, raw_pull, rows_of, sliding_sides, split
from biasfree.switching import Settled, settle

ON_A_LINE, AT_THE_ORIGIN = 1e-12, 1e-10
_GRAZING, _PIECES = 1e3, 200


def empty_pattern(side: np.ndarray, owner: np.ndarray, dim: int) -> Pattern:
    """A pattern in which nobody slides."""
    active, room = len(side), min(2, dim)
    return Pattern(
        side,
        np.zeros((active, room), dtype=np.int64),
        np.zeros(active, dtype=np.int64),
        np.zeros((active, room, dim)),
        np.zeros(active, dtype=np.int64),
        owner,
    )


@dataclass
class Judge:
    """Applies the rule to one state after the other; ``pattern`` is what it has decided so far."""

    data: Data
    pattern: Pattern

    def at_origin(self, state: np.ndarray, h: int) -> bool:
        """Whether w is zero."""
        first, second = self._split(state)
        return bool(np.linalg.norm(first[h]) <= AT_THE_ORIGIN * abs(second[h]))

    def meets(self, state: np.ndarray, h: int, lines: np.ndarray, rest: bool = False) -> list[tuple[int, str]]:
        """Neuron ``h`` meets ``lines``: put it exactly there, and decide; at w = 0 it may be told to ``rest``."""
        first, _ = self._split(state)
        p, q, _ = self._pulls(state)
        if all(abs(q[line]) <= noise_of(line, p, q, self.data) for line in lines):
            self.pattern.side[h, lines] *= -1
            return [(int(line), "cross") for line in lines]
        if self.at_origin(state, h):
            return self._passes_origin(state, h, rest)
        for line in lines.tolist():
            d = self.data.directions[line]
            first[h] -= (first[h] @ d) * d
        size = np.linalg.norm(first[h])
        events = self._settles(state, h, lines)
        if not events:
            # Pushed back after all, to rounding: a hair off the surface it stays clear of it.
            for line in lines.tolist():
                first[h] += self.pattern.side[h, line] * ON_A_LINE * size * self.data.directions[line]
        return events

    def turns(self, state: np.ndarray, h: int) -> list[tuple[int, str]]:
        """A sliding neuron's w₂ is zero, or its ς has reached ±1."""
        return self._settles(state, h, np.zeros(0, dtype=np.int64))

    def _settles(self, state: np.ndarray, h: int, met: np.ndarray) -> list[tuple[int, str]]:
        first, second = self._split(state)
        p, q, pull = self._pulls(state)
        drift = p @ self.data.directions
        side, sliding = self._sides(h, pull, q)
        across = self._projected(pull[h], h)
        sign = np.sign(second[h]) or np.sign(first[h] @ across) or 1.0
        settled = settle(self.data.directions, q, drift, sign, side, sliding, met)
        if met.size == 1 and not settled.events:
            settled = self._held_by_noise(settled, int(met[0]), sign, drift, p, q)
        self.write(h, settled)
        if met.size:
            after = self._projected(drift + (self.pattern.side[h] * q) @ self.data.directions, h)
            self._carry_over(state, h, met, second[h] * across, second[h] * after)
        return settled.events

    def _held_by_noise(
        self, settled: Settled, line: int, sign: float, drift: np.ndarray, p: np.ndarray, q: np.ndarray
    ) -> Settled:
        """A neuron that came to an attracting line with no more than noise behind it stays on it."""
        across = self.data.directions[line] @ (drift + (settled.side * q) @ self.data.directions)
        if sign * q[line] >= 0 or abs(across) > noise_of(line, p, q, self.data):
            return settled
        held = settled.sliding.copy()
        held[line] = True
        if np.linalg.matrix_rank(self.data.directions[held]) < held.sum():
            return settled
        return Settled(settled.side, held, [(line, "slide")])

    def _carry_over(self, state: np.ndarray, h: int, met: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        first, _ = self._split(state)
        active = len(self.pattern.side)
        own = active + np.flatnonzero(self.pattern.owner == h)
        if not own.size:
            return
        for line in met.tolist():
            d = self.data.directions[line]
            speed, change = before @ d, after - before
            if speed != 0 and np.linalg.norm(change) <= _GRAZING * abs(speed):
                first[own] += np.outer(first[own] @ d, change) / speed
        for vector in self.pattern.basis[h, : self.pattern.span[h]]:
            first[own] -= np.outer(first[own] @ vector, vector)

    def _passes_origin(self, state: np.ndarray, h: int, rest_there: bool) -> list[tuple[int, str]]:
        first, second = self._split(state)
        first[h] = 0.0
        p, q, pull = self._pulls(state)
        directions, drift = self.data.directions, p @ self.data.directions
        side, sliding = self._sides(h, pull, q)
        sign = np.sign(second[h]) or 1.0
        met = np.flatnonzero(~sliding)
        onward = self._onward(sign * self._projected(pull[h], h), drift, q, sign, side, sliding)
        if onward is not None and not rest_there:
            self.write(h, onward)
            return [(int(line), "branch") for line in met]
        rest = settle(directions, q, drift, sign, side, sliding, np.flatnonzero(sign * q < 0))
        left = drift + (rest.side * q) @ directions
        pulled = np.linalg.norm(left) > 1e-9 * (np.linalg.norm(drift) + np.abs(q).sum())
        if pulled and not rest_there:
            sides = np.where(rest.sliding, rest.side, np.where(sign * (directions @ left) < 0, -1.0, 1.0))
            self.write(h, Settled(sides, rest.sliding, []))
        else:
            self.write(h, rest, everything=True)
        return [(int(line), "branch") for line in met]

    def _onward(
        self, way: np.ndarray, drift: np.ndarray, q: np.ndarray, sign: float, side: np.ndarray, sliding: np.ndarray
    ) -> Settled | None:
        """Where a neuron goes that passes w = 0 in direction ``way``: the limit of a small step past it.

        So close to zero w₂ and all pulls are constant, and w moves on straight pieces from line to line. None if it
        comes back to zero, or stops.
        """
        directions = self.data.directions
        length = np.linalg.norm(way)
        if length == 0:
            return None
        w = way / length
        sides = np.where(sliding, side, np.where(directions @ w < 0, -1.0, 1.0))
        now = settle(directions, q, drift, sign, sides, sliding, np.zeros(0, dtype=np.int64))
        for _ in range(_PIECES):
            move = sign * (drift + (now.side * q) @ directions)
            held = directions[now.sliding]
            if len(held):
                basis = np.linalg.qr(held.T)[0]
                move = move - basis @ (basis.T @ move)
            g, speed = directions @ w, directions @ move
            size, scale = np.linalg.norm(w), np.linalg.norm(drift) + np.abs(q).sum()
            if np.linalg.norm(move) <= ON_A_LINE * scale:
                return None
            coming = ~now.sliding & (now.side * speed < -ON_A_LINE * scale)
            if not coming.any():
                return now
            wait = np.where(coming, np.maximum(-g / np.where(coming, speed, 1.0), 0.0), np.inf)
            line = int(np.argmin(wait))
            w = w + wait[line] * move
            w = w - (w @ directions[line]) * directions[line]
            if np.linalg.norm(w) <= AT_THE_ORIGIN * size:
                return None
            now = settle(directions, q, drift, sign, now.side, now.sliding, np.array([line]))
        return None

    def write(self, h: int, settled: Settled, everything: bool = False) -> None:
        """Enter a decision; ``everything`` holds the neuron where it is."""
        held = np.flatnonzero(settled.sliding)
        dim = self.data.directions.shape[1]
        needed = dim if everything else len(held)
        room = self.pattern.held.shape[1]
        if max(needed, len(held)) > room:
            more = max(needed, len(held), min(dim, 2 * room))
            self.pattern = self.pattern._replace(
                held=np.pad(self.pattern.held, ((0, 0), (0, more - room))),
                basis=np.pad(self.pattern.basis, ((0, 0), (0, more - room), (0, 0))),
            )
        pattern = self.pattern
        pattern.side[h] = np.where(settled.sliding, 0.0, settled.side)
        pattern.rank[h], pattern.span[h] = len(held), needed
        pattern.held[h, : len(held)] = held
        if everything:
            pattern.basis[h, :dim] = np.eye(dim)
        elif len(held):
            pattern.basis[h, : len(held)] = np.linalg.qr(self.data.directions[held].T)[0].T

    def _split(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dim = self.data.directions.shape[1]
        return split(state, rows_of(state, dim), dim)

    def _pulls(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lines = len(self.data.directions)
        p, q = np.empty(lines), np.empty(lines)
        first, second = self._split(state)
        pull, _ = raw_pull(first, second, self.data, self.pattern, p, q)
        return p, q, pull

    def _sides(self, h: int, pull: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        side = self.pattern.side[h].copy()
        sliding = np.zeros(len(side), dtype=bool)
        count = self.pattern.rank[h]
        if count:
            held = self.pattern.held[h, :count]
            sliding[held] = True
            side[held] = sliding_sides(h, pull, q, self.data, self.pattern)
        return side, sliding

    def _projected(self, pull: np.ndarray, h: int) -> np.ndarray:
        basis = self.pattern.basis[h, : self.pattern.span[h]]
        return pull - (basis @ pull) @ basis
