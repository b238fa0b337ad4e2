"""Rows that meet an event within a step, and go on alone to its end.

An event belongs to one row. If all rows had to stop there, a step of the whole network would be spent on it, and a
network twice as wide would cost four times as much. Instead the step of all rows, as if nothing had happened, gives
the lines' pulls p(t), q(t) along it. A row that met something is moved by these from there on, through all its further
events, at the cost of a row.

What is neglected by that is small: the row's own way differs from the one the others saw, by what a kink does in part
of a step, and the others are pulled otherwise by that. This is added to first order (∫ ΔM z dt, by quadrature), and
must be a small part of the tolerance in itself. Otherwise the step is cut where it is, at last at its first event,
where nothing is neglected.

Crossings whose kick, for the rest of the step, moves the row by a hundredth of its tolerance, and whose new side
changes the pulls of the others by as little, are **unfelt**: the row changes sides and nothing else. On symmetric
data almost all are. Those that just pass are added all together (``_kicks``).
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from biasfree.dynamics.exact._arrays import Limits, Pattern
from biasfree.dynamics.exact._data import SQUARE, Data
from biasfree.dynamics.exact._events import Event, room_for
from biasfree.dynamics.exact._field import Pulls, line_outputs, pulls_of
from biasfree.dynamics.exact._follow import follow
from biasfree.dynamics.exact._kernels import line_forces, speeds
from biasfree.dynamics.exact._kicks import Crossings, Kicks, Step, passing
from biasfree.dynamics.exact._methods import AT_NODES, FROM_NODES, basis, on_curve
from biasfree.dynamics.exact._sliding import ON_A_LINE, held_by
from biasfree.dynamics.exact._ways import Ways

_UNFELT = 0.01  # part of its tolerance that crossings may move a row by in a step and not be felt; chosen, far below 1
_FELT = 0.3  # part of a step's tolerance that the first-order change of other rows may have; as a step's SAFETY
_WORTH = 0.25  # part of what is left of a step that must be gained; chosen: a try costs about a step
_TRIES = 3  # ends of the step that are tried; chosen
_SHORTEST = 0.2  # part of what lies beyond the first event that a second try keeps at least; chosen
_CAREFUL = 0.9  # of the length at which the error would be as large as it may be; chosen, as usual
_GAUSS, _GAUSS_WEIGHTS = 0.5 * np.array(np.polynomial.legendre.leggauss(5)) + np.array([[0.5], [0.0]])  # on [0, 1]
_NOT_GIVEN = np.zeros((0, 0, 0))


class Joined(NamedTuple):
    """A step in which some rows went alone.

    Attributes:
        begin, end: x of the first event, and where the step ends.
        event: what ends it there, if something does.
        ways: of rows that went alone, if any did.
        unfelt: rows and lines they crossed unfelt, and x.
        added: to all rows at the end, by what these did to the others.
        energy: likewise, to the energy.
        step: as if nothing happened in it.
        given: p and q along it, as a curve; empty where no row went alone.
        kicks: what crossings that just pass have added, if that is all that happened.
        decided: as of ``Gone``.
    """

    begin: float
    end: float
    event: Event | None
    ways: Ways | None
    unfelt: Crossings
    added: Float[np.ndarray, "rows columns"]
    energy: float
    step: Step
    given: Float[np.ndarray, "8 2*outputs lines"]
    kicks: Kicks | None = None
    decided: int = 0

    def change(self, x: float, z: Float[np.ndarray, "rows columns"]) -> float:
        """Put the rows of ``z`` at x where they are; what is added to the energy."""
        if self.kicks is not None:
            return self.kicks.add(x, z)
        if x <= self.begin or self.ways is None:
            return 0.0
        part = ((x - self.begin) / (self.end - self.begin)) ** 2
        z += part * self.added
        ways = self.ways.before(x)
        if not ways.rows.size:
            return part * self.energy
        arcs = ways.arcs_at(np.array([x]))[0]
        own, gained = (each[0] for each in ways.at(np.array([x]), arcs[None]))
        z[ways.rows] = own + _on_lines(part * self.added[ways.rows], ways.basis[arcs])
        for arc in ways.passive.keys() & set(arcs.tolist()):
            rows, values = ways.passive_at(x, arc)
            z[rows] = values + _on_lines(part * self.added[rows], ways.basis[arc])
        return part * self.energy + float(np.sum(gained - _spent(self.step, self.given, ways, x)))


def _spent(step: Step, given: np.ndarray, ways: Ways, end: float) -> Float[np.ndarray, "ways"]:
    """Energy of rows from where they went alone to x = end, had they gone on as all saw them, by the same pulls."""
    lasted, rows = end - ways.begins, ways.rows
    weights = basis(ways.begins[:, None] + lasted[:, None] * _GAUSS)
    both, half = on_curve(weights, given), step.data.outputs
    z = np.einsum("wgb,bwc->wgc", weights, step.curve[:, rows])
    side, held = step.pattern.side[rows, None], _held(step.pattern, rows)[:, None]
    speed = _speeds(z, both[..., :half, :], both[..., half:, :], side, held, step.data)
    return step.length * lasted * (np.sum((speed - step.data.decay * z) ** 2, axis=-1) @ _GAUSS_WEIGHTS)


def _held(pattern: Pattern, rows: np.ndarray) -> Float[np.ndarray, "rows room dim"]:
    """What rows slide on, zero beyond their span."""
    return pattern.basis[rows] * (np.arange(pattern.basis.shape[1]) < pattern.span[rows, None])[:, :, None]


def _speeds(
    z: Float[np.ndarray, "*n columns"], p: Float[np.ndarray, "*n outputs lines"],
    q: Float[np.ndarray, "*n outputs lines"], side: Float[np.ndarray, "*n lines"],
    held: Float[np.ndarray, "*n room dim"], data: Data,
) -> Float[np.ndarray, "*n columns"]:  # fmt: skip
    """What pulls p and q make of single rows, with their sides, and a basis of what they slide on; without decay."""
    pulled = _across((p + side[..., None, :] * q) @ data.directions, held[..., None, :, :])  # (…, outputs, dim)
    dim = data.directions.shape[1]
    return np.concatenate(
        [np.einsum("...kd,...k->...d", pulled, z[..., dim:]), np.einsum("...kd,...d->...k", pulled, z[..., :dim])],
        axis=-1,
    )


def _across(vectors: Float[np.ndarray, "*n dim"], held: Float[np.ndarray, "*n room dim"]) -> np.ndarray:
    """Vectors without what lies along lines that are slid on."""
    return vectors - np.einsum("...s,...sd->...d", np.einsum("...d,...sd->...s", vectors, held), held)


def _on_lines(change: Float[np.ndarray, "*n columns"], held: Float[np.ndarray, "*n room dim"]) -> np.ndarray:
    """A change of rows that leaves them on the lines they slide on."""
    dim = held.shape[-1]
    return np.concatenate([_across(change[..., :dim], held), change[..., dim:]], axis=-1)


def join(
    step: Step,
    events: list[Event],
    crossings: Crossings,
    limits: Limits,
    pulls: Pulls,
    heavy: Bool[np.ndarray, "active"],
    together: bool = True,
) -> Joined:
    """Take rows through their events where that is exact enough.

    Args:
        step: as if nothing happened.
        events: the first of each row, in order.
        crossings: all of them.
        limits: what it may be off by.
        pulls: pulls at its beginning.
        heavy: rows that must not go alone.
        together: whether crossings that just pass may be added all together.
    """
    unfelt = _unfelt(step, events, crossings, limits, pulls)
    felt = [event for event in events if event.kind == "level" or not unfelt[event.row]]
    if together and felt and all(event.kind == "met" for event in felt):
        crossed = crossings.take(crossings.times <= 1)
        kicks = passing(step, crossed, limits, pulls)
        if kicks is not None:
            return Joined(0.0, 1.0, None, None, kicks.crossed, np.zeros(0), 0.0, step, _NOT_GIVEN, kicks)
    stop, end, light = _sorted(step, felt, limits, pulls, heavy)
    gone = _Gone(None, end, np.zeros(step.curve.shape[1:]), 0.0, _NOT_GIVEN, 0)
    if light:
        gone = _gone(step, light, limits, end)
        if gone.ways is None:
            stop, gone = felt[0], gone._replace(end=felt[0].time)
    ending = stop if stop is not None and stop.time <= gone.end else None
    begin = light[0].time if gone.ways is not None else gone.end
    passed = _passed(step, crossings, unfelt, gone.end)
    return Joined(
        begin, gone.end, ending, gone.ways, passed, gone.added, gone.energy, step, gone.given, decided=gone.decided
    )  # fmt: skip


def _passed(step: Step, crossings: Crossings, unfelt: np.ndarray, end: float) -> Crossings:
    """Crossings of some rows, as far as these are beyond the line at x = end."""
    rows, lines = crossings.pairs.T
    w = on_curve(basis(end), step.curve)[rows, : step.data.transposed.shape[0]]
    beyond = step.pattern.side[rows, lines] * np.sum(w * step.data.directions[lines], axis=1) < 0
    return crossings.take(unfelt[rows] & beyond & (crossings.times <= end))


class _Gone(NamedTuple):
    """Ways of rows alone, and what comes of them.

    Attributes:
        ways: theirs, or none.
        end: the x at which the step ends.
        added, energy: to all rows and to their energy, to first order.
        given: the pulls along the step.
        decided: events of theirs that were not plain.
    """

    ways: Ways | None
    end: float
    added: Float[np.ndarray, "rows columns"]
    energy: float
    given: np.ndarray
    decided: int


def _gone(step: Step, light: list[Event], limits: Limits, end: float) -> _Gone:
    """Follow rows that go alone."""
    lin, even = line_outputs(on_curve(AT_NODES, step.curve), step.data, step.pattern.side)
    mass = np.empty(len(lin))
    p, q = line_forces(lin, even, step.data, mass=mass)
    given, begin = on_curve(FROM_NODES, np.concatenate([p, q], axis=1)), light[0].time
    ways, end, decided = follow(step, light, given, float(mass.max()), limits, end)
    for _ in range(_TRIES):
        ways = ways.before(end) if ways is not None else None
        if ways is None or not ways.rows.size:
            break
        ratio, added, energy = _felt(step, ways, begin, end, (lin, even), given, limits)
        if ratio <= 1:
            return _Gone(ways, end, added, energy, given, decided)
        end = begin + (end - begin) * max(_SHORTEST, _CAREFUL * ratio ** (-1 / 3))
    return _Gone(None, end, step.curve[0], 0.0, given, decided)


def _unfelt(
    step: Step, events: list[Event], crossings: Crossings, limits: Limits, pulls: Pulls
) -> Bool[np.ndarray, "active"]:
    """Rows that meet nothing but lines whose kicks they do not feel, and whose new sides nobody feels.

    Beyond a line the output there differs from what the step has seen by 2b v|wᵀd|, and the pulls by that times the
    curvature: all rows move by a part of themselves of that order, over what is left of the step.
    """
    data, active, dim = step.data, len(step.pattern.side), step.data.transposed.shape[0]
    unfelt = np.zeros(active, dtype=bool)
    unfelt[[event.row for event in events if event.kind == "met"]] = True
    (rows, lines), end = crossings.pairs.T, step.curve[-1]
    q = np.maximum(np.abs(pulls.q), np.abs(pulls_of(end, data, step.pattern.side).q))
    second, left = np.abs(end[rows, dim:]), np.maximum(0.0, 1 - crossings.times) * step.length
    moved = np.bincount(rows, 2 * np.sum(second * q[:, lines].T, axis=1) * left, minlength=active)
    room = limits.atol + limits.rtol * np.abs(end[:active]).max(axis=1, initial=0.0)
    unfelt &= moved <= _UNFELT * room
    beyond = np.abs(np.sum(end[rows, :dim] * data.directions[lines], axis=1))
    seen = _curvature(data, pulls)[lines] * 2 * data.b * second.max(axis=1, initial=0.0) * beyond
    seen = np.where(unfelt, np.bincount(rows, 0.5 * seen * left, minlength=active), np.inf)
    lightest = np.argsort(seen, kind="stable")
    unfelt[lightest[np.cumsum(seen[lightest]) > _UNFELT * limits.rtol]] = False
    return unfelt


def _curvature(data: Data, pulls: Pulls) -> Float[np.ndarray, "lines"]:
    """How much each line's pull changes with its output; for losses that are not square, at most about that."""
    if data.loss == SQUARE:
        return data.powers[0] / data.samples
    return np.full(data.transposed.shape[1], pulls.whole * float(np.abs(data.position).max(initial=0.0)))


def _sorted(
    step: Step, events: list[Event], limits: Limits, pulls: Pulls, heavy: np.ndarray
) -> tuple[Event | None, float, list[Event]]:
    """The event that must end the step, where it must end, and the events before it whose rows may go alone.

    A kick k of ẇ changes w by kτ within a time τ, the pulls by C|v|kτ, C the curvature, and other rows by a part
    C|v|kτ³/6 of themselves.
    """
    data, pattern = step.data, step.pattern
    dim = data.transposed.shape[0]
    if events and data.by_loss and data.decay > 0:  # pulls are not all that moves a row then
        return events[0], events[0].time, []
    curvature = _curvature(data, pulls)
    curved = float(curvature.sum() if data.loss == SQUARE else curvature.max(initial=0.0))
    rows, first = [event.row for event in events], [event.lines[0] if len(event.lines) else 0 for event in events]
    second = step.curve[0, rows, dim:]
    pulled = np.abs(second @ pulls.q)
    kicks = pulled[np.arange(len(rows)), first].tolist()  # of the one line that most have met
    sizes = (curved * np.sqrt(np.sum(second * second, axis=1))).tolist()
    end, light = 1.0, list[Event]()
    for number, event in enumerate(events):
        if event.time >= end:
            break
        reach = 0.0
        if event.kind != "level" and not heavy[event.row] and pattern.span[event.row] < dim:
            kick = kicks[number]
            if event.kind != "met" or len(event.lines) > 1:
                lines = event.lines if event.kind == "met" else held_by(pattern, event.row)
                kick = float(pulled[number, lines].sum())
            weight = 2 * sizes[number] * kick
            reach = math.inf if weight == 0 else (6 * _FELT * limits.rtol / weight) ** (1 / 3) / step.length
        if reach < _WORTH * (1 - event.time):
            return event, event.time, light
        end = min(end, event.time + reach)
        light.append(event)
    return None, end, light


def _felt(
    step: Step,
    ways: Ways,
    begin: float,
    end: float,
    outputs: tuple[np.ndarray, np.ndarray],
    given: np.ndarray,
    limits: Limits,
) -> tuple[float, np.ndarray, float]:
    """What rows that went alone do to all rows: in units of what it may be, to the rows, and to the energy."""
    data, pattern, (lin, even) = step.data, step.pattern, outputs
    active, dim, rows = len(pattern.side), data.transposed.shape[0], ways.rows
    x = begin + (end - begin) * _GAUSS
    states, arcs = on_curve(basis(x), step.curve), ways.arcs_at(x)
    gone = (x[:, None] > ways.begins)[:, :, None]
    old = states[:, rows]
    new = np.where(gone, ways.at(x, arcs)[0], old)
    odd, bent = np.zeros((2, len(x), data.outputs, len(data.directions)))
    for sign, each, side in ((-1, old, pattern.side[rows]), (1, new, None)):
        along, second = each[..., :dim] @ data.transposed, np.swapaxes(each[..., dim:], 1, 2)
        odd += sign * data.a * (second @ along)
        bent += sign * data.b * (second @ (np.abs(along) if side is None else side * along))
    lin, even = (np.tensordot(basis(x) @ FROM_NODES, part, 1) for part in (lin, even))
    p, q = line_forces(lin, even, data)
    other_p, other_q = line_forces(lin + odd, even + bent, data)
    desk, _ = room_for(states.shape, data, pattern)
    moving = speeds(states, p, q, data, pattern, desk)
    rates = speeds(states, other_p, other_q, data, pattern, desk) - moving
    # Of the rows that went alone: by the sides that they have on their ways.
    change = _speeds(new, (other_p - p)[:, None], (other_q - q)[:, None], ways.side[arcs], ways.basis[arcs], data)
    rates[:, rows] = np.where(gone, change, rates[:, rows])
    span = step.length * (end - begin)
    added = span * np.tensordot(_GAUSS_WEIGHTS, rates, 1)
    _kept_dead(step, ways, given, end, added)
    energy = 2 * span * float(_GAUSS_WEIGHTS @ np.sum((moving * rates)[:, :active], axis=(1, 2)))
    room = _FELT * (limits.atol + limits.rtol * np.abs(states[-1, :active]).max(axis=1))
    return float(np.max(np.abs(added[:active]).max(axis=1) / room)), added, energy


def _kept_dead(step: Step, ways: Ways, given: np.ndarray, end: float, added: Float[np.ndarray, "rows columns"]) -> None:
    """Take out of what is added to dead rows, in place, what leads off the line that they met last: there they stay."""
    data, half, dim = step.data, step.data.outputs, step.data.directions.shape[1]
    last = ways.last_met(end)
    rows, arcs = ways.rows[last >= 0], last[last >= 0]
    both = on_curve(basis(ways.begin[arcs]), given)
    z, d = ways.curves[arcs, 0], data.directions[ways.met[arcs]]
    now = _speeds(z, both[:, :half], both[:, half:], ways.side[arcs], ways.basis[arcs], data)
    dead = np.abs(now).max(axis=1, initial=0.0) * step.length <= ON_A_LINE * np.abs(z).max(axis=1)
    off = np.sum(d * added[rows, :dim], axis=1) * dead
    added[rows, :dim] -= off[:, None] * d
