"""What a row does where it meets a line, where a slide ends, where v vanishes, and at w = 0.

With v held, a row obeys ẇ = u + Σ_l ς_l s_l d_l, u = Σ_l (v·p_l) d_l, s_l = v·q_l: Filippov's rule (``switching``) says
which ς it takes on the lines it lies on. Small differences between merged neurons pass an event by its saltation
matrix: neighbours meet the surface at other times, by (d_lᵀδ)/(d_lᵀẇ), and what the velocity changes by there in
between is added: δ → δ + Δẇ(d_lᵀδ)/(d_lᵀẇ). Where sliding begins this removes the part of δ across the surface.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._field import Pulls, pulls_of
from biasfree.dynamics.exact._kernels import ROUNDING
from biasfree.dynamics.exact._lengths import lengths
from biasfree.switching import NO_SECOND, Settled, from_zero, settle, start_on, still_rests

ON_A_LINE = 1e-12  # |wᵀd|/‖w‖ of a row that lies on a line; bound: sums of a thousand terms round to 1e-13
_VANISHED = 1e-9  # ‖v‖/‖w‖ of a sliding row whose v is zero: events are located to 1e-15 of a step
_NO_W = 1e-10  # ‖w‖/‖v‖ of a row whose w is nothing (as in C); bound: a thousand times its rounding
_LAST = 1e-3  # of w, what is left on a line met at w = 0 (as in C); chosen: rounding of the rest of w, beside w itself
_DEPENDENT = 1e-9  # singular value of directions that do not span one more; chosen between rounding and any real angle
BRIEF = 0.05  # of the time in which a row moves by its own size, what a group may take to cross a line as one


class Happened(NamedTuple):
    """What was decided: the pattern from now on, and (line, kind) of each event."""

    pattern: Pattern
    events: list[tuple[int, str]]


def nobody_slides(side: Float[np.ndarray, "active lines"], owner: Int[np.ndarray, "rows"], dim: int) -> Pattern:
    """A pattern without slides."""
    active = len(side)
    return Pattern(
        side, owner, np.zeros((active, 1, dim)), np.zeros(active, dtype=np.int64), np.zeros((0, 2), dtype=np.int64),
        np.zeros((0, dim)),
    )  # fmt: skip


def decide(z: Float[np.ndarray, "rows columns"], pattern: Pattern, data: Data, h: int, met: np.ndarray) -> Happened:
    """Row ``h`` has met lines, or, with none met, a slide of it has ended; rows of ``z`` change in place."""
    dim = data.directions.shape[1]
    held = held_by(pattern, h)
    # Slides on dim − 1 lines leave w a single ray: it meets another line at w = 0 only.
    last_ray = pattern.span[h] >= dim - 1 and (met.size > 0 or pattern.span[h] == dim)
    at_zero, together = dim > 1 and (last_ray or not z[h, :dim].any()), False
    if met.size and not at_zero:
        met, together = _all_met(data.directions, held, met) if held.size else (met, False)
        was = lengths(z[h, :dim])
        _put_on(z[h, :dim], data.directions[np.concatenate([held, met])])
        # A row that lies on lines without sliding may be on its last ray too: then nothing of w is left.
        at_zero = dim > 1 and lengths(z[h, :dim]) <= min(_NO_W * lengths(z[h, dim:]), _LAST * was)
    if at_zero:
        z[h, :dim] = 0.0
        pulls = pulls_of(z, data, pattern.side)
        return _leaves_zero(z, pattern, data, h, pulls)
    pulls = pulls_of(z, data, pattern.side)
    second, way = z[h, dim:], pulls.matrices[h].T @ z[h, :dim]
    vanished = held.size > 0 and lengths(second) <= _VANISHED * lengths(z[h, :dim])
    if vanished:
        second[:] = 0.0
    after = heading(second, way, pulls.matrices[h])
    if met.size == 1 and not held.size and _leads_on(after, pulls, pattern, data, h, int(met[0])):
        new = flipped(pattern, [(h, int(met[0]))])
        _carry_over(z, pattern, new, data, pulls, h, met)
        return Happened(new, [(int(met[0]), "cross")])
    before = -way if vanished else after
    strength, drift = after @ pulls.q, (after @ pulls.p) @ data.directions
    if met.size and (np.abs(strength[met]) <= ROUNDING * lengths(after) * pulls.scale).all():
        return Happened(flipped(pattern, [(h, line) for line in met]), [(int(line), "cross") for line in met])
    side, sliding = sides_of(pattern, data, pulls, h, before)
    settled = settle(data.directions, strength, drift, 1.0, side, sliding, met, together=together)
    new = written(pattern, data, h, settled.side, settled.sliding)
    if met.size:
        _carry_over(z, pattern, new, data, pulls, h, met)
    return Happened(new, settled.events)


def begin_on(z: Float[np.ndarray, "rows columns"], pattern: Pattern, data: Data, h: int, lies: np.ndarray) -> Happened:
    """Row ``h`` starts on lines, with σ'(0) = slope, or at w = 0; rows of ``z`` change in place.

    It passed nothing, so that crossings are not told of. But one that may go to either side has come to a branch.
    """
    dim, active = data.directions.shape[1], len(pattern.side)
    w, was = z[h, :dim], lengths(z[h, :dim])
    if w.any():
        _put_on(w, data.directions[lies])
    pulls = pulls_of(z, data, pattern.side)
    second = heading(z[h, dim:], w @ pulls.matrices[h], pulls.matrices[h])
    drift = (second @ pulls.p) @ data.directions
    if lengths(w) <= _LAST * was:
        # All lines are met at once, and none was passed: it comes from where it is pulled to.
        w[:], side = 0.0, pattern.side.copy()
        side[h] = np.where(data.directions @ drift < 0, 1.0, -1.0)
        return decide(z, pattern._replace(side=side), data, h, lies)
    at_kink, noise = -data.b / data.a * (second @ pulls.p), ROUNDING * float(lengths(second)) * pulls.scale
    settled, either = start_on(data.directions, second @ pulls.q, drift, at_kink, pattern.side[h], lies, noise)
    new = written(pattern, data, h, settled.side, settled.sliding)
    own, basis = active + np.flatnonzero(pattern.owner[active:] == h), new.basis[h, : new.span[h]]
    z[own, :dim] -= (z[own, :dim] @ basis.T) @ basis
    return Happened(new, settled.events + [(line, "branch") for line in either])


def heading(
    second: Float[np.ndarray, "outputs"], way: Float[np.ndarray, "outputs"], matrix: Float[np.ndarray, "dim outputs"]
) -> Float[np.ndarray, "outputs"]:
    """v, or where that is nothing its ``way`` wᵀM: what it becomes, to which lines that w lies on add nothing."""
    nothing = way.any() and lengths(second) * np.abs(matrix).max() <= NO_SECOND * lengths(way)
    return way if nothing else second


def _all_met(
    directions: Float[np.ndarray, "lines dim"], held: Int[np.ndarray, "held"], met: Int[np.ndarray, "met"]
) -> tuple[Int[np.ndarray, "more"], bool]:
    """The lines a row which slides on some has met, with others that depend on these; and whether any depend."""
    basis = _orthonormal(directions[np.concatenate([held, met])])
    apart = lengths(directions - (directions @ basis.T) @ basis)
    here = np.flatnonzero(apart <= _DEPENDENT)
    return np.setdiff1d(here, held), len(here) > len(basis)


def _leads_on(
    second: Float[np.ndarray, "outputs"], pulls: Pulls, pattern: Pattern, data: Data, h: int, line: int
) -> bool:
    """Whether a row that slides on nothing passes the one line it has met: the velocity beyond it leads on."""
    pull = second @ pulls.p + pattern.side[h] * (second @ pulls.q)
    beyond = -pattern.side[h, line]
    d, strength = data.transposed[:, line], float(second @ pulls.q[:, line])
    speed = float((data.transposed @ pull) @ d) + 2 * beyond * strength
    noise = ROUNDING * float(np.linalg.norm(second)) * pulls.scale
    return bool(beyond * speed > noise)


def held_by(pattern: Pattern, h: int) -> Int[np.ndarray, "held"]:
    """The lines a row slides on."""
    return pattern.slides[pattern.slides[:, 0] == h, 1]


def sides_of(
    pattern: Pattern, data: Data, pulls: Pulls, h: int, second: Float[np.ndarray, "outputs"]
) -> tuple[Float[np.ndarray, "lines"], Bool[np.ndarray, "lines"]]:
    """ς on all lines, those slid on included, with ``second`` for v; and which are slid on."""
    side, sliding = pattern.side[h].copy(), np.zeros(pattern.side.shape[1], dtype=bool)
    own = pattern.slides[:, 0] == h
    held = pattern.slides[own, 1]
    if held.size:
        sliding[held] = True
        strength = second @ pulls.q[:, held]
        balance = -pattern.dual[own] @ (pulls.matrices[h] @ second)
        side[held] = np.clip(np.divide(balance, strength, out=np.sign(balance), where=strength != 0), -1.0, 1.0)
    return side, sliding


def written(
    pattern: Pattern, data: Data, h: int, side: np.ndarray, sliding: np.ndarray, everything: bool = False
) -> Pattern:
    """A pattern in which row h has these sides and slides; ``everything`` holds it at w = 0."""
    held, dim = np.flatnonzero(sliding & ~np.bool_(everything)), data.directions.shape[1]
    own = _orthonormal(data.directions[held])
    span = dim if everything else len(own)
    basis = _with_room(pattern.basis, span)
    sides, spans = pattern.side.copy(), pattern.span.copy()
    others = pattern.slides[:, 0] != h
    slides = np.concatenate([pattern.slides[others], np.column_stack([np.full(len(held), h), held])])
    dual = np.zeros((0, dim))
    if held.size and not everything:
        directions = data.directions[held]
        dual = directions if len(held) == 1 else np.ascontiguousarray(np.linalg.pinv(directions).T)
        basis[h, :span] = own
    if everything:
        basis[h] = np.eye(dim, basis.shape[1]).T
    sides[h], spans[h] = np.where(sliding, 0.0, side), span
    return Pattern(sides, pattern.owner, basis, spans, slides, np.concatenate([pattern.dual[others], dual]))


def flipped(pattern: Pattern, pairs: Iterable[tuple[int, int]]) -> Pattern:
    """A pattern in which these rows have changed sides on these lines."""
    side = pattern.side.copy()
    for h, line in pairs:
        side[h, line] *= -1
    return pattern._replace(side=side)


def with_more(pattern: Pattern, side: np.ndarray) -> Pattern:
    """A pattern with more active rows, which have these sides and do not slide; passive rows are the caller's."""
    more = len(side)
    return pattern._replace(
        side=np.concatenate([pattern.side, side]),
        basis=np.concatenate([pattern.basis, np.zeros((more, *pattern.basis.shape[1:]))]),
        span=np.concatenate([pattern.span, np.zeros(more, dtype=np.int64)]),
    )


def _put_on(w: Float[np.ndarray, "dim"], directions: Float[np.ndarray, "some dim"]) -> None:
    """Move w exactly onto some lines."""
    basis = _orthonormal(directions)
    for _ in range(2):
        w -= (basis @ w) @ basis


def _orthonormal(directions: Float[np.ndarray, "some dim"]) -> Float[np.ndarray, "some dim"]:
    """A basis of what some lines span; of lines in one plane, say, no third vector."""
    if len(directions) < 2:
        return directions
    _, sizes, basis = np.linalg.svd(directions, full_matrices=False)
    return basis[sizes > _DEPENDENT]


def _with_room(basis: Float[np.ndarray, "active room dim"], span: int) -> Float[np.ndarray, "active room dim"]:
    """A copy with room for so many vectors of each row."""
    if span <= basis.shape[1]:
        return basis.copy()
    return np.pad(basis, ((0, 0), (0, span - basis.shape[1]), (0, 0)))


def resting(pattern: Pattern, dim: int) -> Int[np.ndarray, "rows"]:
    """Rows at rest at w = 0; in one dimension that is a slide on the only line."""
    slide = np.zeros(len(pattern.span), dtype=bool)
    slide[pattern.slides[:, 0]] = True
    return np.flatnonzero((pattern.span == dim) & ~slide)


def _drawn_from_zero(z: np.ndarray, pattern: Pattern, data: Data, h: int, pulls: Pulls) -> Settled:
    """Where row h goes from w = 0, by ``switching.from_zero``."""
    second, dim = z[h, data.directions.shape[1] :], data.directions.shape[1]
    side, sliding = sides_of(pattern, data, pulls, h, second)
    rests = pattern.span[h] == dim
    return from_zero(
        data.directions, second @ pulls.q, (second @ pulls.p) @ data.directions, side, sliding, rests=bool(rests)
    )


def leaving_zero(z: np.ndarray, pattern: Pattern, data: Data, rows: Int[np.ndarray, "some"]) -> Int[np.ndarray, "left"]:
    """Those of some rows at rest at w = 0 that something draws away at ``z``.

    With one output only the sign of v and the sides of repelling lines count, in which few rows differ.
    """
    dim, pulls = data.directions.shape[1], pulls_of(z, data, pattern.side)
    second = np.sign(z[rows, dim:]) if data.outputs == 1 else z[rows, dim:]
    strength, side = second @ pulls.q, pattern.side[rows]
    kinds = np.column_stack([second, np.where(strength >= 0, side, 0.0)])
    _, some, kind = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    leaves = []
    for n in some.tolist():
        given = data.directions, strength[n], (second[n] @ pulls.p) @ data.directions, side[n]
        # What is asked after every step begins where it rested; what would be done about it has the last word.
        rests = still_rests(*given) or from_zero(*given, np.zeros(len(side[n]), dtype=bool), rests=True).rests
        leaves.append(not rests)
    return rows[np.array(leaves, dtype=bool)[kind.ravel()]]


def _leaves_zero(z: np.ndarray, pattern: Pattern, data: Data, h: int, pulls: Pulls) -> Happened:
    """All lines are met at once."""
    settled, active = _drawn_from_zero(z, pattern, data, h, pulls), len(pattern.side)
    new = written(pattern, data, h, settled.side, settled.sliding, everything=settled.rests)
    z[active:][pattern.owner[active:] == h, : data.directions.shape[1]] = 0.0
    return Happened(new, [(int(line), "branch") for line in np.flatnonzero(~settled.sliding)])


def _carry_over(
    z: np.ndarray, before: Pattern, after: Pattern, data: Data, pulls: Pulls, h: int, met: np.ndarray
) -> None:
    """Take the passive rows of row h through an event."""
    active, dim = len(after.side), data.directions.shape[1]
    own = active + np.flatnonzero(after.owner[active:] == h)
    if not own.size:
        return
    was, now = (moving(z, pattern, data, pulls, h) for pattern in (before, after))
    for line in met.tolist():
        d = data.directions[line]
        apart, speed, change = z[own, :dim] @ d, was @ d, now - was
        # Where they cross one after the other for long, that is for ``Carried.split``.
        brief = np.abs(apart) * lengths(was) <= BRIEF * abs(speed) * lengths(z[h, :dim])
        if speed != 0:
            z[own, :dim] += np.outer(np.where(brief, apart, 0.0), change) / speed
    basis = after.basis[h, : after.span[h]]
    z[own, :dim] -= (z[own, :dim] @ basis.T) @ basis


def moving(z: np.ndarray, pattern: Pattern, data: Data, pulls: Pulls, h: int) -> Float[np.ndarray, "dim"]:
    """ẇ of a row, with its sides and slides; decay, which leads across nothing, is left out."""
    second = z[h, data.directions.shape[1] :]
    free = (second @ pulls.p + pattern.side[h] * (second @ pulls.q)) @ data.directions
    basis = pattern.basis[h, : pattern.span[h]]
    return np.asarray(free - (free @ basis.T) @ basis)
