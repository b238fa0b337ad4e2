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
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import null_space
from scipy.optimize import lsq_linear

_ROUNDING, _AT_THE_END = 1e-11, 1e-9  # the solver stays a little inside its bounds


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
    def of(cls, events: list[tuple[float, int, int, str]]) -> "Switches":
        """The events (time, neuron, line, kind) in order of time."""
        times, neurons, met, kinds = zip(*sorted(events), strict=True) if events else ((), (), (), ())
        return cls(
            np.array(times, dtype=float),
            np.array(neurons, dtype=int),
            np.array(met, dtype=int),
            np.array(kinds, dtype=str),
        )

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
    """

    side: Float[np.ndarray, "lines"]
    sliding: Bool[np.ndarray, "lines"]
    events: list[tuple[int, str]]


def settle(
    directions: Float[np.ndarray, "lines dim"],
    strength: Float[np.ndarray, "lines"],
    drift: Float[np.ndarray, "dim"],
    sign: float,
    side: Float[np.ndarray, "lines"],
    sliding: Bool[np.ndarray, "lines"],
    met: Int[np.ndarray, "met"],
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
    """
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
        side[held] = _least_pull(directions[held], strength[held], drift + others @ directions)
    inside = attracting & (np.abs(side) < 1)
    for line in held.tolist():
        if inside[line] and not sliding[line]:
            events.append((line, "slide"))
        elif sliding[line] and not inside[line]:
            events.append((line, "leave"))
        elif not sliding[line] and side[line] != before[line]:
            events.append((line, "cross"))
    return Settled(side, inside, events)


def _least_pull(
    directions: Float[np.ndarray, "held dim"], strength: Float[np.ndarray, "held"], rest: Float[np.ndarray, "dim"]
) -> Float[np.ndarray, "held"]:
    """ς in [−1, 1] that make ‖rest + Σ ς q d‖ least; ends of the interval exactly."""
    if len(directions) == 1:
        value = -(directions @ rest) / strength
        return np.where(np.abs(value) >= 1 - _ROUNDING, np.sign(value), value)
    columns = (strength[:, None] * directions).T
    values = lsq_linear(columns, -rest, bounds=(-1, 1), tol=1e-14).x
    values = np.where(np.abs(values) >= 1 - _AT_THE_END, np.sign(values), values)
    while (free := np.flatnonzero(np.abs(values) < 1)).size > 1:
        idle = null_space(columns[:, free])
        if not idle.size:
            # The bounded solver is right to its tolerance; the equations of the free ones are solved exactly.
            fixed = np.where(np.abs(values) < 1, 0.0, values)
            exact = np.linalg.lstsq(columns[:, free], -rest - columns @ fixed, rcond=None)[0]
            values[free] = np.where(np.abs(exact) >= 1 - _ROUNDING, np.sign(exact), exact)
            break
        # Along a direction that changes nothing, up to the first bound.
        way = idle[:, 0]
        room = np.where(way != 0, (np.sign(way) - values[free]) / np.where(way != 0, way, 1.0), np.inf)
        first = int(np.argmin(room))
        values[free] += room[first] * way
        values[free[first]] = np.sign(way[first])
    return np.clip(values, -1.0, 1.0)
