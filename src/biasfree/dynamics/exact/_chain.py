"""Exponential steps one after the other in a small network, as long as nothing happens (``native/chain.c``).

The numbers of a small network cost less than what it takes to ask for them: so C goes on by itself from a step that was
linearised here, and control comes back where an event, a group or the length of steps is to be decided.
"""

from ctypes import Structure, addressof, byref
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._cells import cells
from biasfree.dynamics.exact._data import SQUARE
from biasfree.dynamics.exact._events import room_for
from biasfree.dynamics.exact._jacobian import in_c
from biasfree.dynamics.exact._kernels import engine
from biasfree.dynamics.exact._late import DRAWN, ROOM, LateStep
from biasfree.dynamics.exact._march import apart_in_c
from biasfree.dynamics.exact._methods import NODES
from biasfree.dynamics.exact._modes import EPSILON, ITERATION, SMALL
from biasfree.dynamics.exact._steps import Steps
from biasfree.native import WHOLE, address, structure

_MOST = 32  # steps of one chain; chosen: cost alone
_ARCS, _AT_ONCE = 48, 16  # of one chain, and of one step, that there is room for; chosen: others take a step with more
_ELSE = 1  # why a chain ended: what comes next is not for it
_CHAIN = structure(
    "Chain",
    "p modes turned rows rules solved ride way drawn data pattern inner desk inner_desk sought apart own copy z light "
    "cell begin turn start velocity vectors slopes tolerances room ends stops "
    "d light_part rtol atol epsilon level least left solved_from growth shrink careful longer trend least_error slow "
    "pace i lights cells arcs at_once most tries look d time energy length allowed beyond "
    "i taken drawn_arcs rejected evaluations why",
)


class Wanted(NamedTuple):
    """How far a chain may go, and by which rules (``_rest``).

    Attributes:
        rtol, atol: of a row in a step.
        level: ln L that ends it.
        least: a step's length that is worth it.
        left: time until the end.
        solved_from: length from which Newton's method is worth it.
        growth: e-folds that a linearisation may follow.
        shrink, careful, longer, trend, least_error: the rule of lengths.
        slow, pace: the network rests where it moves by less than a part of its size in an explicit step.
        steps, tries: that may be taken, and lengths tried before one is given up.
        look: steps from which rest is thought of.
        energy: so far.
        length, allowed: of the first step, and what the one before might have had, or 0.
    """

    rtol: float
    atol: float
    level: float
    least: float
    left: float
    solved_from: float
    growth: float
    shrink: float
    careful: float
    longer: float
    trend: float
    least_error: float
    slow: float
    pace: float
    steps: int
    tries: int
    look: int
    energy: float
    length: float
    allowed: float


class Chained(NamedTuple):
    """Where a chain led.

    Attributes:
        steps: arcs, as steps of their own; their curves.
        stops: when each exponential step ended.
        z: rows at the end.
        energy: likewise.
        beyond: how far a slide was beyond its end.
        rejected, evaluations: what it has cost.
        length, allowed: as of ``Wanted``, for what comes next.
        left: what comes next is not for a chain.
    """

    steps: Steps
    stops: list[float]
    z: Float[np.ndarray, "rows columns"]
    energy: float
    beyond: float
    rejected: int
    evaluations: int
    length: float
    allowed: float
    left: bool


def may_chain(step: LateStep) -> bool:
    """Whether C can go on from a step: the loss bends alike everywhere, and J is small, in coordinates of its own."""
    return step.data.loss == SQUARE and step.modes.is_plain and 0 < len(step.modes.rates) <= SMALL


def chained(
    step: LateStep, own: Structure | None, apart: Float[np.ndarray, "2 passive"], wanted: Wanted
) -> Chained | None:
    """Steps from where one was linearised; None if not even that one can be taken. The step is used up."""
    data, pattern, modes, z = step.data, step.pattern, step.modes, step.z.copy()
    frame, heavy, (_, columns), count = modes.frame, len(step.heavy), z.shape, len(modes.rates)
    together = cells(pattern, step.heavy, data.b != 0) if modes.turn is not None else []
    cell = np.array([place for some in together for place in some], dtype=np.int64)
    begin = np.cumsum([0, *map(len, together)])
    light = step.riding[: len(pattern.side) - heavy].copy()
    tolerances, work = np.empty(heavy * columns), np.empty(4 * count + 2 * columns * (heavy + 1) + z.size)
    slopes = np.empty((2 * data.outputs * data.transposed.shape[1], count))
    step.follow_light(wanted.rtol)
    solving, (rows, _roots) = modes.solving(tolerances), in_c(modes.rows._replace(matrices=frame.desk.pull), data)
    step.bend = solving.bend
    curves, energies = np.empty((_ARCS, len(NODES), *z.shape)), np.empty((_ARCS, len(NODES)))
    states, ends, stops = np.empty((_AT_ONCE, len(NODES), *z.shape)), np.empty(_ARCS), np.empty(_MOST)
    room = np.empty(ROOM * count + tolerances.size)
    drawn = DRAWN(*map(address, (ends, states, curves, energies, room)), 0)
    desk, sought = room_for(z.shape, data, pattern)
    way, spread = step.way, apart_in_c(apart)
    asked = wanted._asdict()
    most = min(asked.pop("steps"), _MOST)
    chain: Any = _CHAIN(
        *map(addressof, (modes.c, modes.turned, rows, ITERATION, solving.solved, step.riders[0], way, drawn)),
        *map(addressof, (data.c, pattern.c, frame.pattern.c, desk.c, frame.desk.c, sought.c, spread)),
        None if own is None else addressof(own), None if step.own is None else addressof(step.own.c),
        address(z), address(light, WHOLE), address(cell, WHOLE), address(begin, WHOLE),
        None if modes.turn is None else address(modes.turn), address(modes.start), address(modes.pulls.velocity),
        *map(address, (modes.vectors, slopes, tolerances, work, ends, stops)),
        light_part=step.light, epsilon=EPSILON, lights=len(light), cells=len(together), arcs=_ARCS, at_once=_AT_ONCE,
        most=most, **asked,
    )  # fmt: skip
    engine().biasfree_chain(byref(chain))
    if not chain.taken:
        return None
    arcs = chain.drawn_arcs
    begins = np.concatenate([[0.0], ends[:arcs]])
    return Chained(
        Steps(begins, np.diff(begins), curves[:arcs], energies[:arcs], chain.time), stops[: chain.taken].tolist(), z,
        chain.energy, chain.beyond, chain.rejected, chain.evaluations + solving.solved.evaluations, chain.length,
        chain.allowed, chain.why == _ELSE,
    )  # fmt: skip
