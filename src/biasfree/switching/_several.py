"""Neurons of negligible output with several outputs, each moved from switch to switch by itself.

A neuron (w, v), v ∈ R^K, obeys ẇ = Mv, v̇ = Mᵀw with M = U + Σ_l ς_l d_l q_lᵀ constant between switches. With the
singular value decomposition M = Σ_i s_i a_i b_iᵀ

    w = w⊥ + Σ_i a_i (A_i E_i + B_i/E_i),    v = v⊥ + Σ_i b_i (A_i E_i − B_i/E_i),    E_i = e^{s_i t}.

**Sliding** on some lines, w stays across them and M is projected there: their own ς does not enter, since wᵀd_l = 0.
It is ς_l(vᵀq_l) = −B_lᵀMv, with B_l the dual of d_l among the lines slid on, and the slide lasts while |ς_l| ≤ 1 and
vᵀq_l < 0.

**Switching times.** wᵀd_l and both margins of a slide, −vᵀq_l ± B_lᵀMv, are linear in (w, v): sums Σ_j c_j e^{r_j t}
with r = ±s_i, 0, whose first zeros ``_sums`` finds.
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int

from biasfree.switching._filippov import Switches, from_zero, settle, start_on
from biasfree.switching._neurons import FLOOD, NO_SECOND, ROUNDING, Segments
from biasfree.switching._sums import first_zero

_BEGUN = 1e-12  # part of a neuron's size that a line just left may be off by


@dataclass(frozen=True)
class SeveralModes:
    """Neurons under constant M, as above; modes whose rate is rounding are no modes."""

    rate: Float[np.ndarray, "neurons modes"]
    first: Float[np.ndarray, "neurons dim modes"]  # a_i
    second: Float[np.ndarray, "neurons outputs modes"]  # b_i
    up: Float[np.ndarray, "neurons modes"]  # A_i
    down: Float[np.ndarray, "neurons modes"]  # B_i
    across: Float[np.ndarray, "neurons dim"]  # w⊥
    still: Float[np.ndarray, "neurons outputs"]  # v⊥

    @classmethod
    def of(
        cls,
        w: Float[np.ndarray, "neurons dim"],
        v: Float[np.ndarray, "neurons outputs"],
        pull: np.ndarray,
        floor: float,
    ) -> "SeveralModes":
        """Neurons and the M each is under, shape (neurons or 1, dim, outputs); rates up to ``floor`` are none."""
        first, rate, second = np.linalg.svd(pull, full_matrices=False)
        rate = np.where(rate <= floor, 0.0, rate)
        moves = rate > 0
        first, second = first * moves[:, None, :], np.swapaxes(second, 1, 2) * moves[:, None, :]
        along, out = np.einsum("ndm,nd->nm", first, w), np.einsum("nkm,nk->nm", second, v)
        up, down = 0.5 * (along + out), 0.5 * (along - out)
        least = ROUNDING * np.abs(np.column_stack([w, v])).max(axis=1, initial=0.0)[:, None]
        up, down = np.where(np.abs(up) <= least, 0.0, up), np.where(np.abs(down) <= least, 0.0, down)
        width, count = len(w), rate.shape[1]
        return cls(
            np.broadcast_to(rate, (width, count)), np.broadcast_to(first, (width, *first.shape[1:])),
            np.broadcast_to(second, (width, *second.shape[1:])), up, down,
            w - np.einsum("ndm,nm->nd", first, along), v - np.einsum("nkm,nm->nk", second, out),
        )  # fmt: skip

    def take(self, index: Int[np.ndarray, "some"]) -> "SeveralModes":
        """Those of some neurons."""
        return SeveralModes(*(getattr(self, part.name)[index] for part in fields(self)))

    def at(self, elapsed: Float[np.ndarray, "neurons"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w, v) after a stretch of time, scaled to size one, and the logarithm of their size."""
        phase = self.rate * elapsed[:, None]
        lift = np.where(self.up != 0, phase, 0.0).max(axis=1, initial=0.0)  # everything times e^{−lift}
        grown = self.up * np.exp(np.where(self.up != 0, phase, 0.0) - lift[:, None])
        shrunk = self.down * np.exp(-phase - lift[:, None])
        stays = np.exp(-lift)[:, None]
        w = stays * self.across + np.einsum("ndm,nm->nd", self.first, grown + shrunk)
        v = stays * self.still + np.einsum("nkm,nm->nk", self.second, grown - shrunk)
        size = np.abs(np.column_stack([w, v])).max(axis=1)
        size = np.where(size > 0, size, 1.0)
        return w / size[:, None], v / size[:, None], lift + np.log(size)

    def powers(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Rate and squared size of what grows, what shrinks and what stays."""
        stays = np.sum(self.across**2, axis=1) + np.sum(self.still**2, axis=1)
        moving = [
            pair
            for i in range(self.rate.shape[1])
            for pair in (
                (self.rate[:, i], 2 * self.up[:, i] ** 2), (-self.rate[:, i], 2 * self.down[:, i] ** 2),
            )
        ]  # fmt: skip
        return (*moving, (np.zeros(len(stays)), stays))

    def terms(
        self, n: int, on_first: Float[np.ndarray, "some dim"], on_second: Float[np.ndarray, "some outputs"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rates, falling, and coefficients of on_first·w + on_second·v of neuron n: (terms,) and (some, terms)."""
        one, other = on_first @ self.first[n], on_second @ self.second[n]
        # What a cancellation leaves of a direction that lies on a line would cross it again and again. Neurons have
        # size one.
        least = ROUNDING * (np.abs(on_first).sum(axis=1) + np.abs(on_second).sum(axis=1))[:, None]
        up, down = (np.where(np.abs(part) <= least, 0.0, part) for part in (one + other, one - other))
        constant = (on_first @ self.across[n] + on_second @ self.still[n])[:, None]
        constant = np.where(np.abs(constant) <= least, 0.0, constant)
        rates = np.concatenate([self.rate[n], -self.rate[n], [0.0]])
        parts = np.column_stack([up * self.up[n], down * self.down[n], constant])
        order = np.argsort(-rates, kind="stable")
        return rates[order], parts[:, order]


class SeveralRunner:
    """All neurons, each at its own time; the counterpart of ``Runner`` for several outputs.

    ``stuck``: one of them met lines again and again without moving, and nothing here is to be used.
    """

    def __init__(
        self,
        directions: Float[np.ndarray, "lines dim"],
        strength: Float[np.ndarray, "lines outputs"],
        drift: Float[np.ndarray, "outputs dim"],
        at_kink: Float[np.ndarray, "lines outputs"],
        first: Float[np.ndarray, "width dim"],
        second: Float[np.ndarray, "width outputs"],
    ) -> None:
        """Lines d_l with q_l, Uᵀ, what stands for ς q_l where w lies on a line (``start_on``), and the weights."""
        self.directions, self.strength, self.drift, self._at_kink = directions, strength, drift, at_kink
        self._floor = ROUNDING * float(np.linalg.norm(drift) + np.linalg.norm(strength, axis=1).sum())
        size = np.abs(np.column_stack([first, second])).max(axis=1)
        size = np.where(size > 0, size, 1.0)
        self.first, self.second, self.log_size = first / size[:, None], second / size[:, None], np.log(size)
        self.time = np.zeros(len(first))
        products = self.first @ directions.T
        self.side = np.where(products < 0, -1.0, 1.0)
        self.sliding = np.zeros(products.shape, dtype=bool)
        self._done = np.zeros(len(first), dtype=bool)
        self.stuck = False
        self._resting = np.zeros(len(first), dtype=bool)
        self._events: list[tuple[float, int, int, str]] = []
        self._pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray, SeveralModes]] = []
        near = np.abs(products) <= _BEGUN * np.abs(self.first).max(axis=1, initial=0.0)[:, None]
        for h in np.flatnonzero(near.any(axis=1)).tolist():
            if not self.first[h].any():
                ahead = self.directions @ (self.second[h] @ self.drift)
                self.side[h] = np.where(ahead < 0, 1.0, -1.0)
            self._met(h, np.flatnonzero(near[h]), begins=True)
        # Without lines all neurons are under one M.
        self.modes = self._stretch(np.arange(len(first))) if len(directions) else self._together()

    def _together(self) -> SeveralModes:
        modes = SeveralModes.of(self.first, self.second, self.drift.T[None], self._floor)
        self._pieces.append((np.arange(len(self.first)), self.time.copy(), self.log_size.copy(), modes))
        self._done[:] = True
        return modes

    def advance_all(self, until: float) -> None:
        """Take every neuron through all its switches before ``until``; may be called again with a later time."""
        if self._done.all():
            return
        rows = [self._advance(h, self.modes.take(np.array([h])), until) for h in range(len(self.first))]
        parts = ([getattr(row, part.name) for row in rows] for part in fields(SeveralModes))
        self.modes = SeveralModes(*(np.concatenate(part) for part in parts))

    def _advance(self, h: int, modes: SeveralModes, until: float) -> SeveralModes:
        """Take one neuron through its switches; its modes at the end."""
        flood = 0
        while not self._done[h]:
            wait, which = self._next(h, modes, until - self.time[h])
            if which < 0:
                self._done[h] = wait == np.inf
                break
            w, v, grown = modes.at(np.array([wait]))
            self.first[h], self.second[h] = w[0], v[0]
            self.log_size[h] += grown[0]
            flood = 0 if self.time[h] + wait > self.time[h] else flood + 1
            self.time[h] += wait
            if flood > FLOOD:
                self.stuck = True
                break
            self._met(h, np.array([which]) if which < len(self.directions) else np.zeros(0, dtype=int))
            modes = self._stretch(np.array([h]))
        return modes

    def _next(self, h: int, modes: SeveralModes, room: float) -> tuple[float, int]:
        """Time to the next switch, and its line, or more than any line where a slide ends; −1: none within ``room``."""
        dim, outputs = self.first.shape[1], self.second.shape[1]
        free = np.flatnonzero(~self.sliding[h])
        on_first = [self.side[h, free, None] * self.directions[free]]
        on_second = [np.zeros((len(free), outputs))]
        held = np.flatnonzero(self.sliding[h])
        if held.size:
            pull, dual = self._free_pull(h), np.linalg.pinv(self.directions[held]).T
            for sign in (-1.0, 1.0):
                on_second.append(-self.strength[held] + sign * dual @ pull)
                on_first.append(np.zeros((len(held), dim)))
        names = np.concatenate([free, np.full(2 * len(held), len(self.directions))])
        rates, parts = modes.terms(0, np.concatenate(on_first), np.concatenate(on_second))
        wait, which = first_zero(rates, parts, room)
        return wait, -1 if which < 0 else int(names[which])

    def _free_pull(self, h: int) -> Float[np.ndarray, "dim outputs"]:
        """M without the lines slid on."""
        return self.drift.T + self.directions.T @ (
            np.where(self.sliding[h], 0.0, self.side[h])[:, None] * self.strength
        )

    def _stretch(self, neurons: np.ndarray) -> SeveralModes:
        """A new stretch for each of these neurons."""
        pulls = np.empty((len(neurons), self.first.shape[1], self.second.shape[1]))
        for n, h in enumerate(neurons.tolist()):
            pulls[n] = 0.0 if self._resting[h] else self._free_pull(h)
            held = self.directions[self.sliding[h]]
            if len(held) and not self._resting[h]:
                basis = np.linalg.qr(held.T)[0]
                pulls[n] -= basis @ (basis.T @ pulls[n])
        modes = SeveralModes.of(self.first[neurons], self.second[neurons], pulls, self._floor)
        self._pieces.append((neurons, self.time[neurons], self.log_size[neurons], modes))
        return modes

    def _met(self, h: int, met: np.ndarray, begins: bool = False) -> None:
        """Decide what a neuron does on the lines it has met or ``begins`` on, or on those it slides on."""
        v, dim = self.second[h], self.first.shape[1]
        pull = self._free_pull(h)
        becomes = self.first[h] @ pull  # to that the lines it lies on add nothing
        if becomes.any() and np.abs(v).max() * np.abs(pull).max() <= NO_SECOND * np.abs(becomes).max():
            v = becomes
        held = np.flatnonzero(self.sliding[h])
        strength, drift = self.strength @ v, v @ self.drift
        side = self.side[h].copy()
        if held.size:
            balance = -(np.linalg.pinv(self.directions[held]).T @ (self._free_pull(h) @ v))
            ratio = np.divide(balance, strength[held], out=np.sign(balance), where=strength[held] != 0)
            side[held] = np.clip(ratio, -1.0, 1.0)
        if dim > 1 and (not self.first[h].any() or (len(held) >= dim - 1 and met.size > 0)):
            self._leave_zero(h, strength, drift, side)
            return
        if met.size:
            basis = np.linalg.qr(self.directions[np.concatenate([held, met])].T)[0]
            self.first[h] -= basis @ (basis.T @ self.first[h])
        if begins:
            noise = self._floor * float(np.linalg.norm(v))
            settled, either = start_on(self.directions, strength, drift, self._at_kink @ v, side, met, noise)
            self._events += [(0.0, h, line, "branch") for line in either]
        else:
            settled = settle(self.directions, strength, drift, 1.0, side, self.sliding[h], met)
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        self._events += [(float(self.time[h]), h, line, kind) for line, kind in settled.events]

    def _leave_zero(self, h: int, strength: np.ndarray, drift: np.ndarray, side: np.ndarray) -> None:
        """All lines are met at once."""
        self.first[h] = 0.0
        settled = from_zero(self.directions, strength, drift, side, self.sliding[h])
        self.side[h], self.sliding[h] = settled.side, settled.sliding
        self._events += [(float(self.time[h]), h, line, "branch") for line in np.flatnonzero(~settled.sliding).tolist()]
        if settled.rests:
            self._resting[h] = self._done[h] = True

    def switches(self) -> Switches:
        """The events in order of time; at the start nothing is passed."""
        return Switches.of([event for event in self._events if event[0] > 0 or event[3] != "cross"])

    def segments(self) -> Segments:
        """All stretches, by neuron and time."""
        neurons, begins, log_sizes, modes = zip(*self._pieces, strict=True)
        neuron, begin = np.concatenate(neurons), np.concatenate(begins)
        order = np.lexsort((begin, neuron))  # stable: of stretches that begin together the last one counts
        parts = (np.concatenate([getattr(piece, part.name) for piece in modes])[order] for part in fields(SeveralModes))
        return Segments(neuron[order], begin[order], np.concatenate(log_sizes)[order], SeveralModes(*parts))
