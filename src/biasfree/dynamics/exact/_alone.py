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

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._arrays import Form, Limits, Pattern, Trial
from biasfree.dynamics.exact._data import SQUARE, Data
from biasfree.dynamics.exact._events import Event, happenings, real, room_for
from biasfree.dynamics.exact._field import Pulls, line_outputs, matrices_of, pulls_of, velocity
from biasfree.dynamics.exact._kernels import line_forces
from biasfree.dynamics.exact._kicks import Crossings, Kicks, Step, passing
from biasfree.dynamics.exact._march import Going, Marched, march
from biasfree.dynamics.exact._methods import AT_NODES, FROM_NODES, ORDER_8, basis, on_curve
from biasfree.dynamics.exact._sliding import decide, held_by

_UNFELT = 0.01  # part of its tolerance that crossings may move a row by in a step and not be felt
_FELT = 0.3  # part of a step's tolerance that the first-order change of other rows may have
_WORTH = 0.25  # part of what is left of a step that must be gained
_TRIES = 3  # ends of the step that are tried
_SHORTEST = 0.2  # part of what lies beyond the first event that a second try keeps at least
_MOST = 40  # parts of a row's way in a step: one for each event
_STEPS = 8  # of a row alone, in one call
_APART = np.array([[0.0], [1.0]])  # spread and share of its passive rows: who is near is known from the step of all
_NO_MATRIX = np.zeros((0, 0))
_GAUSS, _GAUSS_WEIGHTS = 0.5 * np.array(np.polynomial.legendre.leggauss(5)) + np.array([[0.5], [0.0]])  # on [0, 1]
_NOT_GIVEN = np.zeros((0, 0, 0))


class Part(NamedTuple):
    """Part of a row's own way: from x = ``begin`` to ``end`` on a curve that would go on to ``reach``."""

    begin: float
    end: float
    reach: float
    curve: Float[np.ndarray, "8 own columns"]
    energies: Float[np.ndarray, "8"]
    pattern: Pattern


class Way(NamedTuple):
    """The way of one row, and the passive ones it owns, after its first event.

    Attributes:
        rows: their numbers, the active one first.
        arcs: where they go.
        events: x, line and kind.
        stopped: the one x at which it must end, 2 if it need not.
    """

    rows: Int[np.ndarray, "own"]
    arcs: list[Part]
    events: list[tuple[float, int, str]]
    stopped: list[float]

    def at(self, x: float) -> tuple[Float[np.ndarray, "own columns"], float, Pattern]:
        """Rows, energy since the first event, and pattern at x."""
        arc = next((arc for arc in self.arcs if x <= arc.end), self.arcs[-1])
        weights = basis((x - arc.begin) / (arc.reach - arc.begin))
        return on_curve(weights, arc.curve), float(weights @ arc.energies), arc.pattern

    def put(self, x: Float[np.ndarray, "n"], row: Float[np.ndarray, "n columns"]) -> None:
        """Put the active row at several x, as far as they are on this way."""
        for arc in self.arcs:
            here = (x > arc.begin) & (x <= arc.end)
            if here.any():
                row[here] = on_curve(basis((x[here] - arc.begin) / (arc.reach - arc.begin)), arc.curve[:, 0])


class Joined(NamedTuple):
    """A step in which some rows went alone.

    Attributes:
        begin, end: x of the first event, and where the step ends.
        event: what ends it there, if something does.
        ways: of rows that went alone.
        unfelt: rows and lines they crossed unfelt, and x.
        added: to all rows at the end, by what these did to the others.
        energy: likewise, to the energy.
        step: as if nothing happened in it.
        given: p and q along it, as a curve; empty where no row went alone.
        kicks: what crossings that just pass have added, if that is all that happened.
    """

    begin: float
    end: float
    event: Event | None
    ways: list[Way]
    unfelt: Crossings
    added: Float[np.ndarray, "rows columns"]
    energy: float
    step: Step
    given: Float[np.ndarray, "8 2*outputs lines"]
    kicks: Kicks | None = None

    def change(self, x: float, z: Float[np.ndarray, "rows columns"]) -> float:
        """Put the rows of ``z`` at x where they are; what is added to the energy."""
        if self.kicks is not None:
            return self.kicks.add(x, z)
        if x <= self.begin or not self.ways:
            return 0.0
        part = ((x - self.begin) / (self.end - self.begin)) ** 2
        z += part * self.added
        energy = part * self.energy
        for way in self.ways:
            if x > way.arcs[0].begin:
                own, gained, pattern = way.at(x)
                energy += gained - _spent(self.step, self.given, int(way.rows[0]), way.arcs[0].begin, x)
                z[way.rows] = own + _across(part * self.added[way.rows], pattern)
        return energy


def _spent(step: Step, given: np.ndarray, row: int, begin: float, end: float) -> float:
    """Energy of a row from x = begin to end, on the way that all rows saw, by the pulls that they had there."""
    weights = basis(begin + (end - begin) * _GAUSS)
    both, half = on_curve(weights, given), step.data.outputs
    pulls = _pulls(both[:, :half], both[:, half:], step.data, step.pattern.side[row : row + 1])
    speed = velocity(on_curve(weights, step.curve[:, row : row + 1]), pulls, _only(step.pattern, row, 0))
    return float(step.length * (end - begin) * (_GAUSS_WEIGHTS @ np.sum(speed**2, axis=(1, 2))))


def _pulls(p: np.ndarray, q: np.ndarray, data: Data, side: np.ndarray) -> Pulls:
    """Pulls of several states of rows with these sides, whose loss nobody asks for."""
    return Pulls(np.zeros(len(p)), np.full(len(p), data.decay), p, q, matrices_of(p, q, data, side))


def join(
    step: Step,
    events: list[Event],
    crossings: Crossings,
    limits: Limits,
    pulls: Pulls,
    heavy: Bool[np.ndarray, "active"],
) -> Joined:
    """Take rows through their events where that is exact enough.

    Args:
        step: as if nothing happened.
        events: the first of each row, in order.
        crossings: all of them.
        limits: what it may be off by.
        pulls: pulls at its beginning.
        heavy: rows that must not go alone.
    """
    unfelt = _unfelt(step, events, crossings, limits, pulls)
    felt = [event for event in events if event.kind == "level" or not unfelt[event.row]]
    if felt and all(event.kind == "met" for event in felt):
        crossed = crossings.take(crossings.times <= 1)
        kicks = passing(step, crossed, limits, pulls)
        if kicks is not None:
            return Joined(0.0, 1.0, None, [], kicks.crossed, np.zeros(0), 0.0, step, _NOT_GIVEN, kicks)
    stop, end, light = _sorted(step, felt, limits, pulls, heavy)
    ways, added, energy, given = list[Way](), np.zeros(step.curve.shape[1:]), 0.0, _NOT_GIVEN
    if light:
        ways, end, added, energy, given = _gone(step, light, limits, end)
        if not ways:
            stop, end = felt[0], felt[0].time
    ending = stop if stop is not None and stop.time <= end else None
    begin = light[0].time if ways else end
    return Joined(begin, end, ending, ways, _passed(step, crossings, unfelt, end), added, energy, step, given)


def _passed(step: Step, crossings: Crossings, unfelt: np.ndarray, end: float) -> Crossings:
    """Crossings of some rows, as far as these are beyond the line at x = end."""
    rows, lines = crossings.pairs.T
    w = on_curve(basis(end), step.curve)[rows, : step.data.transposed.shape[0]]
    beyond = step.pattern.side[rows, lines] * np.sum(w * step.data.directions[lines], axis=1) < 0
    return crossings.take(unfelt[rows] & beyond & (crossings.times <= end))


def _gone(
    step: Step, light: list[Event], limits: Limits, end: float
) -> tuple[list[Way], float, Float[np.ndarray, "rows columns"], float, np.ndarray]:
    """Ways of rows alone, or none, where the step ends, what is added to rows and energy, and the pulls along it."""
    lin, even = line_outputs(on_curve(AT_NODES, step.curve), step.data, step.pattern.side)
    p, q = line_forces(lin, even, step.data)
    given = on_curve(FROM_NODES, np.concatenate([p, q], axis=1))
    ways, begin = [], light[0].time
    for event in light:
        if event.time < end:
            ways.append(_alone(step, event, given, limits, end))
            end = min(end, ways[-1].stopped[0])
    for _ in range(_TRIES):
        ways = [way for way in ways if way.arcs and way.arcs[0].begin < end]
        if not ways:
            break
        ratio, added, energy = _felt(step, ways, begin, end, (lin, even), limits)
        if ratio <= 1:
            return ways, end, added, energy, given
        end = begin + (end - begin) * max(_SHORTEST, 0.9 * ratio ** (-1 / 3))
    return [], end, step.curve[0], 0.0, given


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
    end, light = 1.0, list[Event]()
    for event in events:
        if event.time >= end:
            break
        reach = 0.0
        if event.kind != "level" and not heavy[event.row] and pattern.span[event.row] < dim:
            second = step.curve[0, event.row, dim:]
            lines = event.lines if event.kind == "met" else held_by(pattern, event.row)
            kick = 2 * float(np.abs(second @ pulls.q[:, lines]).sum())
            weight = curved * float(np.linalg.norm(second)) * kick
            reach = np.inf if weight == 0 else (6 * _FELT * limits.rtol / weight) ** (1 / 3) / step.length
        if reach < _WORTH * (1 - event.time):
            return event, event.time, light
        end = min(end, event.time + reach)
        light.append(event)
    return None, end, light


def _alone(step: Step, event: Event, given: np.ndarray, limits: Limits, end: float) -> Way:
    """The way of a row after its first event."""
    active, dim = len(step.pattern.side), step.data.transposed.shape[0]
    passive = active + np.flatnonzero(step.pattern.owner[active:] == event.row)
    way = Way(np.concatenate([[event.row], passive]), [], [], [2.0])
    x, energy, events, wanted = event.time, 0.0, [event], np.inf
    pattern, z = _only(step.pattern, event.row, len(passive)), on_curve(basis(x), step.curve[:, way.rows])
    trial = Trial.room(_STEPS, *z.shape)
    while x < end:
        data, left = step.data._replace(given=given, given_at=x, given_rate=1 / step.length), (end - x) * step.length
        if events:
            pattern, happened = decide(z, pattern, data, 0, events[0].lines)
            way.events.extend((x, line, kind) for line, kind in happened)
        going = Going(left, 1e-15 * left, np.inf, min(wanted, left), 0.0, 0, _STEPS, energy, -np.inf)
        marched, events = _marched(z, going, data, pattern, limits, trial)
        if marched.steps == 0 or pattern.span[0] == dim or len(way.arcs) > _MOST:
            way.stopped[0] = x
            break
        for n in range(marched.steps):
            reach = x + float(trial.lengths[n]) / step.length
            part = events[0].time if events and n == marched.steps - 1 else 1.0
            arc = Part(x, x + part * (reach - x), reach, trial.curves[n].copy(), trial.energies[n].copy(), pattern)
            way.arcs.append(arc)
            x = arc.end
        z, energy, _ = way.at(x)
        wanted = marched.step
        if events and len(passive):  # its neurons would meet it one after the other: that is for ``Carried.split``
            way.stopped[0] = x
            break
    return way


def _marched(
    z: np.ndarray, going: Going, data: Data, pattern: Pattern, limits: Limits, trial: Trial
) -> tuple[Marched, list[Event]]:
    """Steps of a row alone, and what happens in the last of them."""
    desk, sought = room_for(z.shape, data, pattern)
    apart = np.ones((2, len(z) - 1)) * _APART
    half = data.outputs
    pulled = matrices_of(data.given[:, :half], data.given[:, half:], data, pattern.side)
    form = Form(np.ascontiguousarray(pulled).reshape(-1, half), _NO_MATRIX)
    marched = march(z, going, data, pattern, form, limits, ORDER_8, apart, trial, desk, sought)
    if marched.steps == 0 or marched.crossings < 0:
        return marched, []
    curve, length = trial.curves[marched.steps - 1], float(trial.lengths[marched.steps - 1])
    before = data._replace(given_at=data.given_at + data.given_rate * float(trial.lengths[: marched.steps - 1].sum()))
    count = real(curve, length, marched.crossings, sought, before, pattern, limits.rtol)
    return marched, happenings(curve, count, sought, before, pattern)


def _only(pattern: Pattern, h: int, passive: int) -> Pattern:
    """The pattern of one row and the passive ones it owns."""
    own = pattern.slides[:, 0] == h
    return Pattern(
        pattern.side[h : h + 1].copy(), np.zeros(1 + passive, dtype=np.int64), pattern.basis[h : h + 1].copy(),
        pattern.span[h : h + 1].copy(), pattern.slides[own] * np.array([0, 1]), pattern.dual[own],
    )  # fmt: skip


def _felt(
    step: Step, ways: list[Way], begin: float, end: float, outputs: tuple[np.ndarray, np.ndarray], limits: Limits
) -> tuple[float, np.ndarray, float]:
    """What rows that went alone do to all rows: in units of what it may be, to the rows, and to the energy."""
    data, pattern, (lin, even) = step.data, step.pattern, outputs
    active, dim = len(pattern.side), data.transposed.shape[0]
    x = begin + (end - begin) * _GAUSS
    states = on_curve(basis(x), step.curve)
    odd, bent = np.zeros((2, len(x), data.outputs, len(data.directions)))
    rows = np.array([way.rows[0] for way in ways])
    old, new = states[:, rows], states[:, rows]
    for n, way in enumerate(ways):
        way.put(x, new[:, n])
    for sign, each, side in ((-1, old, pattern.side[rows]), (1, new, None)):
        along, second = each[..., :dim] @ data.transposed, np.swapaxes(each[..., dim:], 1, 2)
        odd += sign * data.a * (second @ along)
        bent += sign * data.b * (second @ (np.abs(along) if side is None else side * along))
    lin, even = (np.tensordot(basis(x) @ FROM_NODES, part, 1) for part in (lin, even))
    p, q = line_forces(lin, even, data)
    other_p, other_q = line_forces(lin + odd, even + bent, data)
    speeds = velocity(states, _pulls(p, q, data, pattern.side), pattern)
    rates = velocity(states, _pulls(other_p, other_q, data, pattern.side), pattern) - speeds
    for n, way in enumerate(ways):
        rates[:, rows[n]] = _own_rates(way, x, new[:, n], other_p - p, other_q - q, data, rates[:, rows[n]])
    span = step.length * (end - begin)
    added = span * np.tensordot(_GAUSS_WEIGHTS, rates, 1)
    energy = 2 * span * float(_GAUSS_WEIGHTS @ np.sum((speeds * rates)[:, :active], axis=(1, 2)))
    room = _FELT * (limits.atol + limits.rtol * np.abs(states[-1, :active]).max(axis=1))
    return float(np.max(np.abs(added[:active]).max(axis=1) / room)), added, energy


def _own_rates(
    way: Way, x: np.ndarray, row: Float[np.ndarray, "n columns"], p: np.ndarray, q: np.ndarray, data: Data,
    before: Float[np.ndarray, "n columns"],
) -> Float[np.ndarray, "n columns"]:  # fmt: skip
    """What changes p and q of the pulls make of the row that went alone: by the sides that it has on its way."""
    rates = before.copy()
    for arc in way.arcs:
        here = (x > arc.begin) & (x <= arc.end)
        if here.any():
            change = _pulls(p[here], q[here], data, arc.pattern.side)._replace(decay=np.zeros(int(here.sum())))
            rates[here] = velocity(row[here][:, None], change, arc.pattern._replace(owner=arc.pattern.owner[:1]))[:, 0]
    return rates


def _across(change: Float[np.ndarray, "own columns"], pattern: Pattern) -> Float[np.ndarray, "own columns"]:
    """A change of a row and its passive ones that leaves the row on the lines it slides on."""
    basis = pattern.basis[0, : pattern.span[0]]
    dim = basis.shape[1]
    return np.column_stack([change[:, :dim] - (change[:, :dim] @ basis.T) @ basis, change[:, dim:]])
