"""What an integrator and the loop that runs it say to each other.

The loop (``_loop.run``) asks for one ``Piece`` of the run after the other, with a ``Budget``; the recorder takes from
each piece what is due, and the loop looks whether the run has ended. An integrator is a class with ``advance``; all
else (saving, stop rules, sentences, progress, interruption) is the loop's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from biasfree.dynamics._status import Status
from biasfree.switching import Switches


class Point(NamedTuple):
    """Where a run is at one time."""

    weights: tuple[np.ndarray, ...]  # one array per layer, (out, in)
    energy: float  # ∫‖Ẇ‖² so far
    log_loss: float = float("nan")  # ln L; NaN where the integrator does not know it


class Budget(NamedTuple):
    """How far the next piece may go."""

    until: float  # no piece passes it that is not dense; integrators without dense output are given times to be saved
    steps: int  # accepted steps at most
    attempts: int  # accepted and rejected steps at most, so that a call stays short; dense integrators may ignore it
    pause: float = math.inf  # a piece that is not dense ends with the first step that ends at or beyond it


class How(StrEnum):
    """By what a piece was integrated; adaptive steps have their method's name."""

    START = "start"
    EARLY = "early phase, in closed form"
    BETWEEN_EVENTS = "steps between events"  # of order 8, or of order 5 where events are dense
    ORDER_8 = "explicit steps of order 8"
    ORDER_5 = "explicit steps of order 5"
    EXPONENTIAL = "exponential steps"
    LANCZOS = "linearised flow, by Lanczos' method"
    COMING_TO_REST = "coming to rest"  # the linearised flow to the end
    AT_REST = "at rest"  # nothing moves


@dataclass(frozen=True)
class Piece:
    """A stretch of the run.

    Attributes:
        begin, end: its times.
        at: the point at a time within it; only at ``end`` where ``dense`` is false.
        how: by what it was integrated, in a few words: a ``How``, or the name of a method ("bosh3").
        accepted: steps in it.
        dense: whether ``at`` serves all its times.
        ended: how the run ended here, if it did: a loss level, convergence, or a failure.
        ends: when each of several steps ended, the last one at ``end``; empty if nobody needs to know.
        several: ``at`` for several times, where that is quicker.
        log_loss: ln L at ``begin`` of one that is not dense; NaN where the integrator does not know it.
    """

    begin: float
    end: float
    at: Callable[[float], Point]
    how: str
    accepted: int = 1
    dense: bool = True
    ended: Status | None = None
    ends: Sequence[float] = ()
    several: Callable[[Sequence[float]], list[Point]] | None = None
    log_loss: float = math.nan

    def points(self, times: Sequence[float]) -> list[Point]:
        """At several times."""
        if self.several is None or not times:
            return [self.at(time) for time in times]
        return self.several(times)


class Stretch(NamedTuple):
    """From when to when a run was integrated by what, in how many steps."""

    begin: float
    end: float
    how: str
    steps: int

    @classmethod
    def of(cls, piece: Piece) -> "Stretch":
        """A piece without what is only needed while it is taken."""
        return cls(piece.begin, piece.end, piece.how, piece.accepted)


@dataclass(frozen=True)
class Counts:
    """What a run cost.

    Attributes:
        evaluations: of the gradient; a product with the Hessian counts as two.
        accepted, rejected: steps.
        chattered: of the accepted ones, those in which an activation changed straight back.
        smallest_step: smallest accepted step; infinite if every step landed on a time asked for.
        chatter_step: smallest of the chattering steps, 0 if none.
        local_errors: of all adaptive steps, as they were estimated, in parts of the weights, added up; where the flow
            makes differences neither grow nor shrink, that is how far off the weights may be.
        regrowth_error: by which part of the largest weight rounding may have changed neurons that faded and grew again,
            in the exact flow.
        rerun_gap: how far the weights are from those of a second run, in turned axes and at a tenth of the tolerance,
            relative to the largest: of the exact flow with several outputs; 0 where there was none.
        work: in units of ``_work``, by which a run ends that goes on and on.
    """

    evaluations: int
    accepted: int
    rejected: int = 0
    chattered: int = 0
    smallest_step: float = 0.0
    chatter_step: float = 0.0
    local_errors: float = 0.0
    regrowth_error: float = 0.0
    rerun_gap: float = 0.0
    work: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        """Of a run that another method took up; ``smallest_step`` is 0 where a method does not report its own."""
        steps = [each.smallest_step for each in (self, other) if each.smallest_step]
        chatter = [each.chatter_step for each in (self, other) if each.chatter_step]
        return Counts(
            self.evaluations + other.evaluations,
            self.accepted + other.accepted,
            self.rejected + other.rejected,
            self.chattered + other.chattered,
            min(steps, default=0.0),
            min(chatter, default=0.0),
            self.local_errors + other.local_errors,
            max(self.regrowth_error, other.regrowth_error),
            max(self.rerun_gap, other.rerun_gap),
            self.work + other.work,
        )


class Integrator(Protocol):
    """One way to move the weights."""

    dense: bool  # pieces give every time within them

    def advance(self, budget: Budget) -> Piece:
        """Go on, within the budget."""

    def counts(self) -> Counts:
        """What it has cost so far."""

    def remark(self) -> str:
        """Sentences for the status: events, chatter; empty if there is nothing to say."""

    def events(self) -> Switches | None:
        """What neurons did at which line and when, if it knows."""

    def admissibility(self) -> float:
        """The largest inadmissible slide so far, see ``Trajectory.admissibility``; NaN if it does not know."""
