"""A row goes on alone after its first event in a step, by the pulls that the step of all rows has seen.

Plain events are followed in C (``native/alone.c``), all rows in one call. A row that meets anything else, or that
stands for several neurons, is followed here.
"""

from ctypes import byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics._float64 import TIME_RESOLUTION
from biasfree.dynamics.exact._arrays import Form, Limits, Pattern, Trial
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Event, happenings, room_for
from biasfree.dynamics.exact._field import matrices_of
from biasfree.dynamics.exact._kernels import METHODS, engine, real
from biasfree.dynamics.exact._kicks import Step
from biasfree.dynamics.exact._march import Going, Marched, march
from biasfree.dynamics.exact._methods import ORDER_8, basis, on_curve
from biasfree.dynamics.exact._sliding import decide
from biasfree.dynamics.exact._travel import KINDS
from biasfree.dynamics.exact._ways import Arc, Happening, Ways, of_arcs, together
from biasfree.native import address, structure

_MOST = 40  # arcs of a row in a step; chosen: cost alone
_STEPS = 8  # of a row alone, in one call; chosen: cost alone
_ROOM, _ROOM_EACH = 64, 4  # for arcs, in one call: for all, and for each row; chosen: it grows if it is full
_APART = np.array([[0.0], [1.0]])  # spread and share of its passive rows: who is near is known from the step of all
_NO_MATRIX = np.zeros((0, 0))
_SEVERAL = -2  # lines met at once
_LIGHT = structure("Light", "p curve when rows lines d length end i count")
_ARCS = structure("Arcs", "p way begin end reach curves energies side held line kind i room count")


class Gone(NamedTuple):
    """Rows that went alone.

    Attributes:
        ways: theirs, if there are any.
        end: the x at which the step must end for one of them.
        decided: events of theirs that were not plain, kept or not: a millisecond each.
    """

    ways: Ways | None
    end: float
    decided: int


def follow(step: Step, light: list[Event], given: np.ndarray, mass: float, limits: Limits, end: float) -> Gone:
    """The ways of rows after their first events, until x = ``end`` or until one must stop.

    p and q are ``given``, and the size that they are differences of is ``mass``.
    """
    data = step.data._replace(given=given, given_at=0.0, given_rate=1 / step.length, mass=mass)
    rows, met = np.array([event.row for event in light]), np.array([_line(event) for event in light])
    owned = np.isin(rows, step.pattern.owner[len(step.pattern.side) :])
    tried = np.flatnonzero(~owned & (met > _SEVERAL)) if len(data.transposed) > 1 else rows[:0]
    first = _First(np.array([event.time for event in light])[tried], rows[tried], met[tried])
    plain = _plain(step, first, data, limits, end)
    ways = plain._replace(rows=rows, way=tried[plain.way])
    arcs, passive, events = list[Arc](), dict[int, np.ndarray](), list[Happening]()
    for number in np.setdiff1d(np.arange(len(light)), ways.way).tolist():
        event = light[number]
        if event.time < end:
            own, happened, end = _alone(step, event, number, data, limits, end)
            arcs += own
            events += happened
            if owned[number]:
                passive[number] = _passive(step.pattern, event.row)
    if arcs:
        ways = together(ways, of_arcs(rows, arcs, passive, events))
    gone, way = np.unique(ways.way, return_inverse=True)
    return Gone(ways._replace(rows=rows[gone], way=way) if gone.size else None, end, len(arcs))


def _line(event: Event) -> int:
    """The one line that a row has met, -1 if a slide of it ends; and what cannot be plain."""
    if event.kind == "slide":
        return -1
    return int(event.lines[0]) if len(event.lines) == 1 else _SEVERAL


def _passive(pattern: Pattern, h: int) -> np.ndarray:
    """The passive rows that a row owns."""
    return len(pattern.side) + np.flatnonzero(pattern.owner[len(pattern.side) :] == h)


class _First(NamedTuple):
    """First events of rows: x, whose, and the line met, or -1."""

    when: Float[np.ndarray, "light"]
    rows: Int[np.ndarray, "light"]
    lines: Int[np.ndarray, "light"]


class _Arcs(NamedTuple):
    """Room for arcs of single rows, which slide on one line at most (``native/alone.c``)."""

    way: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    reach: np.ndarray
    curves: np.ndarray
    energies: np.ndarray
    side: np.ndarray
    held: np.ndarray
    line: np.ndarray
    kind: np.ndarray

    @classmethod
    def room(cls, count: int, columns: int, lines: int) -> "_Arcs":
        """Empty room."""
        way, held, line, kind = np.empty((4, count), dtype=np.int64)
        begin, end, reach = np.empty((3, count))
        curves, energies, side = np.empty((count, 8, columns)), np.empty((count, 8)), np.empty((count, lines))
        return cls(way, begin, end, reach, curves, energies, side, held, line, kind)


def _plain(step: Step, first: _First, data: Data, limits: Limits, end: float) -> Ways:
    """The ways of those rows that meet plain events only."""
    dim, lines = data.transposed.shape
    own = Pattern(
        np.empty((1, lines)), np.zeros(1, np.int64), np.empty((1, 1, dim)), np.zeros(1, np.int64),
        np.zeros((1, 2), np.int64), np.empty((1, dim)),
    )  # fmt: skip
    form, columns = Form(np.empty((8 * dim, data.outputs)), _NO_MATRIX), dim + data.outputs
    desk, sought = room_for((1, columns), data, own)
    trial, scratch = Trial.room(_STEPS, 1, columns), np.empty(1 + columns)
    arcs = _Arcs.room(_ROOM + _ROOM_EACH * len(first.rows), columns, lines)
    places = [address(each, each.dtype) for each in arcs]
    there = _ARCS(*places, len(arcs.way), 0)
    rows, met = (address(each, np.int64) for each in first[1:])
    light = _LIGHT(address(step.curve), address(first.when), rows, met, step.length, end, len(first.rows))
    engine().biasfree_alone(
        byref(light), byref(data.c), byref(step.pattern.c), byref(limits.c), byref(METHODS[ORDER_8.number]),
        byref(own.c), byref(form.c), byref(trial.c), byref(desk.c), byref(sought.c), address(scratch), byref(there),
    )  # fmt: skip
    return _ways_of(_Arcs(*(each[: there.count] for each in arcs)), first, data)


def _ways_of(arcs: _Arcs, first: _First, data: Data) -> Ways:
    """What C has left."""
    some = np.flatnonzero(arcs.kind >= 0)
    each = arcs.begin[some], first.rows[arcs.way[some]], arcs.line[some], KINDS[arcs.kind[some]]
    events = [Happening(*one) for one in zip(*(part.tolist() for part in each), strict=True)]
    slid = np.flatnonzero(arcs.held >= 0)
    directions = data.directions[arcs.held[slid]]
    held = np.zeros((len(arcs.way), 1, data.directions.shape[1]))
    held[slid, 0] = directions
    met = np.where((arcs.kind >= 0) & (KINDS[arcs.kind] != "leave"), arcs.line, -1)
    return Ways(
        first.rows, *arcs[:4], met, *arcs[4:7], held, (arcs.held >= 0).astype(np.int64),
        np.column_stack([slid, arcs.held[slid]]), directions, {}, events,
    )  # fmt: skip


def _alone(
    step: Step, event: Event, number: int, data: Data, limits: Limits, end: float
) -> tuple[list[Arc], list[Happening], float]:
    """The way of a row, and of passive ones that it owns, after its first event; and where the step must end."""
    h, dim, passive = event.row, len(data.transposed), _passive(step.pattern, event.row)
    x, energy, events, wanted = event.time, 0.0, [event], np.inf
    pattern, z = _only(step.pattern, h, len(passive)), on_curve(basis(x), step.curve[:, [h, *passive]])
    trial, arcs, happenings_so_far = Trial.room(_STEPS, *z.shape), list[Arc](), list[Happening]()
    while x < end:
        here, left = data._replace(given_at=x), (end - x) * step.length
        met = max(-1, _line(events[0])) if events else -1
        if events:
            pattern, happened = decide(z, pattern, here, 0, events[0].lines)
            happenings_so_far += [Happening(x, h, line, kind) for line, kind in happened]
        steps = 1 if pattern.span[0] == dim else _STEPS  # whether it rests at w = 0 is asked after every step
        going = Going(left, TIME_RESOLUTION * left, np.inf, min(wanted, left), 0.0, 0, steps, energy, -np.inf)
        marched, events = _marched(z, going, here, pattern, limits, trial)
        if marched.steps == 0 or len(arcs) > _MOST:
            return arcs, happenings_so_far, x
        for n in range(marched.steps):
            reach = x + float(trial.lengths[n]) / step.length
            part = events[0].time if events and n == marched.steps - 1 else 1.0
            arcs.append(Arc(
                number, x, x + part * (reach - x), reach, met if n == 0 else -1, trial.curves[n].copy(),
                trial.energies[n].copy(), pattern,
            ))  # fmt: skip
            x = arcs[-1].end
        weights = basis((x - arcs[-1].begin) / (arcs[-1].reach - arcs[-1].begin))
        z, energy = on_curve(weights, arcs[-1].curve), float(weights @ arcs[-1].energies)
        wanted = marched.step
        if events and len(passive):  # its neurons would meet it one after the other: that is for ``Carried.split``
            return arcs, happenings_so_far, x
    return arcs, happenings_so_far, end


def _marched(
    z: Float[np.ndarray, "own columns"], going: Going, data: Data, pattern: Pattern, limits: Limits, trial: Trial
) -> tuple[Marched, list[Event]]:
    """Steps of a row alone, and what happens in the last of them."""
    desk, sought = room_for(z.shape, data, pattern)
    apart = np.ones((2, len(z) - 1)) * _APART
    half = data.outputs
    pulled = matrices_of(data.given[:, :half], data.given[:, half:], data, pattern.side)
    form = Form(np.ascontiguousarray(pulled).reshape(-1, half), _NO_MATRIX)
    marched = march(z, going, data, pattern, form, limits, ORDER_8, apart, None, trial, desk, sought)
    rests = bool(pattern.span[0] == data.directions.shape[1])
    if marched.steps == 0 or (marched.crossings < 0 and not rests):
        return marched, []
    curve, length = trial.curves[marched.steps - 1], float(trial.lengths[marched.steps - 1])
    before = data._replace(given_at=data.given_at + data.given_rate * float(trial.lengths[: marched.steps - 1].sum()))
    count = real(curve, length, max(0, marched.crossings), before, pattern, desk, sought, limits.rtol)
    return marched, happenings(curve, count, sought, before, pattern, length)


def _only(pattern: Pattern, h: int, passive: int) -> Pattern:
    """The pattern of one row and the passive ones it owns."""
    own = pattern.slides[:, 0] == h
    return Pattern(
        pattern.side[h : h + 1].copy(), np.zeros(1 + passive, dtype=np.int64), pattern.basis[h : h + 1].copy(),
        pattern.span[h : h + 1].copy(), pattern.slides[own] * np.array([0, 1]), pattern.dual[own],
    )  # fmt: skip
