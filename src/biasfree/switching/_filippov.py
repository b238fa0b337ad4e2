"""Which side a neuron takes of a surface it lies on: Filippov's rule, and the table of what happened.

A neuron (w, w₂) obeys ẇ = w₂c, ẇ₂ = cᵀw with c = u + Σ_l ς_l q_l d_l, where ς_l = sgn(wᵀd_l). On line l's surface,
wᵀd_l = 0, ς_l may be anything in [−1, 1].

**Attracting surfaces** are those with w₂q_l < 0: both sides may push towards them. For these lines alone −w₂c is the
gradient of the convex function −w₂(uᵀw) + Σ_l |w₂q_l| |wᵀd_l|, whose flow is unique and follows its subgradient of
least norm: ς is the point of the box [−1, 1]^m that makes ‖c‖ least. Lines with ς inside the box are slid on, and
there d_lᵀc = 0. Where the d_l are linearly dependent ς is not unique (c is): then it is moved to a corner of the
solutions, so that the lines slid on are independent.

**Repelling surfaces**, w₂q_l ≥ 0, are crossed when met from one side. A neuron that slides when w₂ changes sign finds
itself on one: either side is a solution. That is a *branch* point; it leaves to the side of its last ς, to the positive
one if ς = 0.

**Where lines that depend on each other meet**, as those of a plane, a neuron that slides on one of them meets all at
once: see ``settle``.

**At w = 0** all lines are met at once, and there may be many solutions, resting among them; which one plain descent
follows may depend on its rate. The rule here is one of them and does not depend on any tolerance: repelling lines are
taken as passed straight on, the attracting ones as above, and where that leads to another side of a repelling line
than was assumed, that side is taken and the rule applied again. If nothing pulls in the end, the same is tried along
the drift and the repelling lines, those of the fastest growth first, and the strongest pull is followed; if there
is none either, the neuron rests, and leaves as soon as there is one. Where straight on no sample is seen at all, it
stays there for good.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.switching._box import ROUNDING, in_the_box, least_pull, norm

_WAYS = 4  # directions in which a way out of w = 0 is sought, those of the fastest growth
_FEW_LINES = 16
_SIDES_TRIED = 4  # lines slid on whose sides are tried one by one at w = 0


@dataclass(frozen=True)
class Switches:
    """What happened when, in order of time: ``kind`` is "cross", "slide" (begun), "leave" (a slide ended) or "branch".

    Attributes:
        times: flow times, shape (events,).
        neurons, lines: which neuron met which line (rows of the grouped data's ``directions``), shape (events,).
        kinds: shape (events,).
    """

    times: Float[np.ndarray, "events"]
    neurons: Int[np.ndarray, "events"]
    lines: Int[np.ndarray, "events"]
    kinds: np.ndarray

    @classmethod
    def of(
        cls,
        events: list[tuple[float, int, int, str]],
        crossings: Sequence[tuple[Float[np.ndarray, "some"], Int[np.ndarray, "some 2"]]] = (),
    ) -> "Switches":
        """Events (time, neuron, line, kind), and many crossings (times; neurons and lines), in order of time."""
        times, neurons, met, kinds = zip(*events, strict=True) if events else ((), (), (), ())
        time = np.concatenate([np.array(times, dtype=float), *(when for when, _ in crossings)])
        neuron = np.concatenate([np.array(neurons, dtype=int), *(crossed[:, 0] for _, crossed in crossings)])
        line = np.concatenate([np.array(met, dtype=int), *(crossed[:, 1] for _, crossed in crossings)])
        kind = np.concatenate([np.array(kinds, dtype=str), np.full(len(time) - len(events), "cross")])
        return cls.table(time, neuron, line, kind)

    @classmethod
    def table(cls, times: np.ndarray, neurons: np.ndarray, lines: np.ndarray, kinds: np.ndarray) -> "Switches":
        """Columns in any order, sorted by time."""
        order = np.lexsort((kinds, lines, neurons, times))
        return cls(times[order], neurons[order], lines[order], kinds[order])

    def followed_by(self, other: "Switches") -> "Switches":
        """These and others, in order of time."""
        parts = ((getattr(self, name), getattr(other, name)) for name in ("times", "neurons", "lines", "kinds"))
        return Switches.table(*(np.concatenate(both) for both in parts))

    def shifted(self, time: float) -> "Switches":
        """The same, later by ``time``."""
        return Switches(self.times + time, self.neurons, self.lines, self.kinds)

    def __len__(self) -> int:
        """Number of events."""
        return len(self.times)

    def __str__(self) -> str:
        """How many of each kind."""
        kinds, counts = np.unique(self.kinds, return_counts=True)
        return ", ".join(f"{count} {kind}" for kind, count in zip(kinds, counts, strict=True)) or "no switches"


@dataclass(frozen=True)
class Settled:
    """What a neuron does on the surfaces it lies on.

    Attributes:
        side: ς on every line.
        sliding: the lines it slides on.
        events: pairs of line and kind.
        rests: at w = 0 nothing pulls.
    """

    side: Float[np.ndarray, "lines"]
    sliding: Bool[np.ndarray, "lines"]
    events: list[tuple[int, str]]
    rests: bool = False


def settle(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    sign: float,
    side: Float[np.ndarray, "lines"],
    sliding: Bool[np.ndarray, "lines"],
    met: Int[np.ndarray, "met"],
    *,
    together: bool = False,
) -> Settled:
    """Choose ς on the lines a neuron slides on or has just met.

    Args:
        directions: d_l.
        strength: q_l.
        drift: u.
        sign: of w₂; where w₂ passes zero, of what it becomes.
        side: ς before.
        sliding: lines it has slid on.
        met: lines it has just met.
        together: these and the ones slid on depend on each other, as those of a plane: met at once, they are as all
            lines are at w = 0. Repelling ones are passed straight on; where the velocity then leads back to one of the
            lines, its other side is taken. A repelling line among them opens more than one way: a branch.
    """
    strength, drift = _of_size_one(strength, drift)
    before, side = side, side.copy()
    concerned = sliding.copy()
    concerned[met] = True
    attracting = concerned & (sign * strength < 0)
    events: list[tuple[int, str]] = []
    for line in np.flatnonzero(concerned & ~attracting).tolist():
        if sliding[line]:
            side[line] = 1.0 if before[line] >= 0 else -1.0
            events.append((line, "branch"))
        else:
            side[line] = -before[line]
            events.append((line, "cross"))
    held = np.flatnonzero(attracting)
    if held.size:
        others = side * strength
        others[held] = 0.0
        side[held] = least_pull(directions[held], strength[held], drift + others @ directions)
    inside = attracting & (np.abs(side) < 1)
    if not together:
        settled = Settled(side, inside, [])
        return replace(settled, events=events + _changes(held, before, sliding, settled))
    here = np.union1d(np.flatnonzero(sliding), met)
    settled = where_many_meet(directions, strength, drift, sign, side, inside, here)
    repelling = here[sign * strength[here] >= 0].tolist()
    events = [each for each in _changes(here, before, sliding, settled) if each[0] not in repelling]
    return replace(settled, events=events + [(line, "branch") for line in repelling])


class Start(NamedTuple):
    """What a neuron does that starts on lines.

    Attributes:
        settled: ς, and the lines it slides on, which are its events.
        either: of the lines, those that it may leave to either side, or stay on: branches.
    """

    settled: Settled
    either: list[int]


def start_on(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    at_kink: Float[np.ndarray, "lines"],
    side: Float[np.ndarray, "lines"],
    lies: Int[np.ndarray, "some"],
    noise: float,
) -> Start:
    """Where a neuron goes from lines that it starts on: where descent goes, whose σ'(0) is the slope.

    Args:
        directions: d_l.
        strength: q_l times v.
        drift: u, likewise.
        at_kink: what stands for ς q on a line that w lies on, likewise: −(b/a)p, since σ' is a − b for all samples.
        side: ς; those of lines that it lies on do not count.
        lies: lines that it lies on.
        noise: a velocity that is nothing.
    """
    on, side = directions[lies], side.copy()
    side[lies] = 0.0
    rest = drift + (side * strength) @ directions
    ahead = on @ (rest + at_kink[lies] @ on)
    side[lies] = np.where(np.abs(ahead) > noise, np.sign(ahead), 0.0)
    # Descent would stay. So does one that goes to the side on which nothing, or less, pulls it across.
    undecided = lies[side[lies] == 0]
    across, own = directions[undecided] @ (drift + (side * strength) @ directions), strength[undecided]
    side[undecided] = np.where(np.abs(across - own) <= np.abs(across + own), -1.0, 1.0)
    settled = where_many_meet(directions, strength, drift, 1.0, side, np.zeros(len(side), dtype=bool), lies)
    pushed = settled.side[lies] * (on @ (drift + (settled.side * strength) @ directions))
    other = 2 * strength[lies] - pushed  # beyond the line, on the other side
    either = lies[~settled.sliding[lies] & (strength[lies] > noise) & (other >= -noise)]
    events = [(line, "slide") for line in lies[settled.sliding[lies]].tolist()]
    return Start(replace(settled, events=events), either.tolist())


def where_many_meet(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    sign: float,
    side: Float[np.ndarray, "lines"],
    sliding: Bool[np.ndarray, "lines"],
    met: Int[np.ndarray, "met"],
) -> Settled:
    """Choose ς on all of several lines that a neuron lies on: each may be left to either side.

    The arguments are those of ``settle``; ``met`` are all lines it lies on, whether it slides on them or not. Sides
    that lead away from their lines stay as they are.
    """
    strength, drift = _of_size_one(sign * strength, sign * drift)
    ahead = directions[met] @ (drift + (side * strength) @ directions)
    noise = ROUNDING * (norm(drift) + np.abs(strength).sum())
    if (sliding[met] | (side[met] * ahead >= -noise)).all():
        return Settled(side, sliding, [])
    others = side * strength
    others[met] = 0.0
    new, inside = side.copy(), np.zeros_like(sliding)
    new[met] = _climbed(directions[met], strength[met], drift + others @ directions, side[met]).side
    inside[met] = (strength[met] < 0) & (np.abs(new[met]) < 1)
    settled = Settled(new, inside, [])
    return replace(settled, events=_changes(met, side, sliding, settled))


def _changes(
    lines: Int[np.ndarray, "some"], side: np.ndarray, sliding: np.ndarray, settled: Settled
) -> list[tuple[int, str]]:
    """What has changed on some lines."""
    events: list[tuple[int, str]] = []
    for line in lines.tolist():
        if settled.sliding[line] != sliding[line]:
            events.append((line, "slide" if settled.sliding[line] else "leave"))
        elif not sliding[line] and settled.side[line] != side[line]:
            events.append((line, "cross"))
    return events


def from_zero(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    side: Float[np.ndarray, "lines"],
    sliding: Bool[np.ndarray, "lines"],
    *,
    rests: bool = False,
) -> Settled:
    """Where a neuron goes from w = 0.

    Args:
        directions: d_l.
        strength: q_l times the sign of w₂.
        drift: u, likewise.
        side: ς on the way to zero, or while it rested there.
        sliding: lines it slid on.
        rests: it was at rest at w = 0; nothing is passed straight on then.
    """
    strength, drift = _of_size_one(strength, drift)
    onward = side.copy() if rests else np.where(sliding, side, -side)
    dead = None if rests else _dead(directions, strength, drift, onward, np.flatnonzero(sliding))
    if dead is not None:
        return dead
    climbed = _climbed(directions, strength, drift, onward)
    return climbed if not climbed.rests else _other_ways(directions, strength, drift, onward, climbed)


def still_rests(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    side: Float[np.ndarray, "lines"],
) -> bool:
    """Whether a neuron at rest at w = 0 stays there: what ``from_zero`` says, which is asked after every step.

    The ς that held it a moment ago hold it still, or nearly: the search for them begins there, not with all lines free.
    """
    strength, drift = _of_size_one(strength, drift)
    climbed = _climbed(directions, strength, drift, side, near=True)
    return climbed.rests and _other_ways(directions, strength, drift, side, climbed, near=True).rests


def _other_ways(
    directions: np.ndarray,
    strength: np.ndarray,
    drift: np.ndarray,
    onward: np.ndarray,
    climbed: Settled,
    near: bool = False,
) -> Settled:
    """The strongest pull out of w = 0 where there is none straight on; ``climbed`` if there is none at all."""
    # Not straight on: are there other ways out? Where lines repel they begin along these, or along what pulls.
    along = np.concatenate([[drift], directions[strength > 0], -directions[strength > 0]])
    growth = along @ drift + np.abs(along @ directions.T) @ strength  # of ‖w‖, along each
    fastest = np.argsort(-growth, kind="stable")[:_WAYS]
    # With many lines each way costs milliseconds: then only those along which w would grow at once.
    ways = along[fastest if len(directions) <= _FEW_LINES else fastest[growth[fastest] > 0]]
    # Only the sides of repelling lines count, and few of them differ.
    starts = {side[strength >= 0].tobytes(): side for side in np.where(ways @ directions.T < 0, -1.0, 1.0)}
    starts.pop(onward[strength >= 0].tobytes(), None)
    if near:
        starts = {key: np.where(strength < 0, climbed.side, side) for key, side in starts.items()}
    others = [_climbed(directions, strength, drift, side, near) for side in starts.values()]
    pulls = [0.0 if o.rests else float(norm(drift + (o.side * strength) @ directions)) for o in others]
    return others[pulls.index(max(pulls))] if max(pulls, default=0.0) > 0 else climbed


def _of_size_one(strength: np.ndarray, drift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is decided does not depend on their size; but of pulls of 1e-190 squares are no numbers."""
    largest = max(np.abs(strength).max(initial=0.0), np.abs(drift).max(initial=0.0))
    return (strength / largest, drift / largest) if largest > 0 else (strength, drift)


def _dead(
    directions: np.ndarray, strength: np.ndarray, drift: np.ndarray, onward: np.ndarray, held: np.ndarray
) -> Settled | None:
    """Sides straight on where nothing pulls, since no sample is seen: there a neuron stays for good."""
    scale = norm(drift) + np.abs(strength).sum()
    for number in range(2 ** min(len(held), _SIDES_TRIED)):
        side = onward.copy()
        side[held] = 1.0 - 2.0 * ((number >> np.arange(len(held))) & 1)
        if norm(drift + (side * strength) @ directions) <= ROUNDING * scale:
            return Settled(side, np.zeros(len(side), dtype=bool), [])
    return None


def _climbed(
    directions: np.ndarray, strength: np.ndarray, drift: np.ndarray, side: np.ndarray, near: bool = False
) -> Settled:
    """Where a neuron at w = 0 is pulled to if it passes the repelling lines on these sides to begin with.

    Of a neuron that rests only ``rests`` is asked: with ``near`` the ς of attracting lines are sought from these on.
    """
    side, attracting = side.copy(), strength < 0
    scale = norm(drift) + np.abs(strength).sum()
    held = np.flatnonzero(attracting)
    for _ in range(len(side) + 2):  # each round flips a repelling line for good, but for ties
        others = drift + np.where(attracting, 0.0, side * strength) @ directions
        if held.size and near:
            side[held] = in_the_box(directions[held], strength[held], others, side[held])
        elif held.size:
            side[held] = least_pull(directions[held], strength[held], others)
        pull = others + (side * strength)[held] @ directions[held]
        if norm(pull) <= ROUNDING * scale:
            return Settled(side, np.zeros(len(side), dtype=bool), [], rests=True)
        ahead = directions @ pull
        wrong = ~attracting & (side * ahead < -ROUNDING * scale)
        if not wrong.any():
            break
        side[wrong] *= -1.0
    inside = attracting & (np.abs(side) < 1)
    return Settled(np.where(inside | (np.abs(ahead) <= ROUNDING * scale), side, np.sign(ahead)), inside, [])
