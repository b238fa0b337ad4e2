"""When exponential steps are taken, and how the flow comes to rest."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from biasfree.dynamics import _status, _stops
from biasfree.dynamics._pieces import How, Piece, Point
from biasfree.dynamics.exact import _cells as cells
from biasfree.dynamics.exact._chain import Wanted, chained, may_chain
from biasfree.dynamics.exact._events import Arcs, polished, search
from biasfree.dynamics.exact._late import GROWTH, ORDER, LateStep, are_heavy
from biasfree.dynamics.exact._modes import LARGEST, Frame
from biasfree.dynamics.exact._narrow import narrow_columns
from biasfree.dynamics.exact._state import State, View

# Steps held by stability after which exponential steps are tried. Chosen: few beside the 25 that one costs; costs
# depend on it, results only within rtol.
_STIFF = 12
_WORTH, _COSTLY = 25.0, 150.0  # explicit steps that an exponential one costs, and unknowns that double it (measured)
# Unknowns with which Newton's method doubles the cost of an exponential step (25 times as dear with 100, measured on
# the six points), and with which it is given up: it solves systems of seven times as many.
_SOLVED, _MOST_SOLVED = 20.0, 100
_LOOK = 8  # steps between looks whether the network is slow
# Explicit steps and events after exponential ones were not worth it. Bound on cost: a try costs some 25 explicit steps
# (_WORTH), so that tries in vain take an eighth of the whole.
_LATER = 200
# Part of rtol for exponential steps, which are few and long. Chosen: a tenth of what an explicit step may spend
# (``_state.SAFETY``), which at order 8 makes steps a quarter shorter. With as much as that wide problem 3087, of very
# long steps, has an energy gap of 3e-2 at rtol 1e-6 where it is 2e-4, and 2976 a balance drift ten times as large.
_ERROR = 0.03
# Part of rtol of the squared weights below which a row is a light one. Bound: outputs are quadratic in a row, so that
# one which J leaves out changes them by rtol/1000 of their largest part.
_LIGHT = 1e-3
_TRIES = 8  # lengths tried before the step is given up; chosen: _SHRINK⁸ is 7e-5
# Most that a step which failed is shortened by, as a factor, and the part taken of the length that the error allows.
# Chosen, as usual for steps of any method: costs depend on them, errors are checked anyway.
_SHRINK, _CAREFUL = 0.3, 0.9
# Most that a step may be longer than the one before; chosen likewise. The error below which it holds is
# (0.9/5)^8 = 1e-6, so that the least one, there against 0 to a negative power, changes nothing.
_LONGER, _LEAST_ERROR = 5.0, 1e-9
# Of its size, what the network moves in a step where rest is looked for. Chosen: whether it rests is decided by
# ``LateStep.rests``; this says when it is worth asking. As SLOW in native/travel.c.
_SLOW = 2e-4
# Events in a row of which nothing follows, each at the cost of a step that led nowhere. Chosen: costs depend on it,
# results only within rtol.
_SEEMING = 20
# Explicit steps that a linearisation may go where J is not known as a whole. Chosen: Lanczos' method needs some √(‖H‖T)
# directions for a time T, 30 for so many steps at ‖H‖h = 3.
_REACH = 300.0
# Steps until rest is looked for again where it was not found: so many, and one for so many so far. Bound on cost: looks
# are at most a tenth of all steps, and a geometric series of them.
_LOOK_AGAIN, _LOOK_PART = 5, 10
# Most that steps which may be longer and longer are thought to grow by once more; chosen: errors are checked.
_TREND = 2.0
_ENDLESS = 10  # chosen: times the time so far, what a run without an end must rest for
_FIRST_LENGTH = 2  # chosen: times the least length that is worth it, the first that is tried; the error decides
_AT_ONCE = 64  # times for which a way is computed together
# Multiplications, for each entry of a light row and each output, that an arc takes: the M of each has its own singular
# values (measured).
_PROPAGATED = 2000.0
_RESTED = 1e-3  # part of rtol by which a network at rest still moves


class _Way(NamedTuple):
    """What a piece serves: the points of a linearised flow, from the energy at its beginning.

    Attributes:
        view, energy: at its beginning.
        elapsed: times → what has passed of it.
        rows: of what has passed; and their energies.
    """

    view: View
    energy: float
    elapsed: Callable[[np.ndarray], np.ndarray]
    rows: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

    def several(self, times: Sequence[float]) -> list[Point]:
        """At several times, some at once: of many neurons all would need too much room."""
        points = list[Point]()
        for first in range(0, len(times), _AT_ONCE):
            some = np.array(times[first : first + _AT_ONCE])
            rows, energies = self.rows(self.elapsed(some))
            points += self.view.points(rows, self.energy + energies, some)
        return points

    def at(self, time: float) -> Point:
        """At one time."""
        return self.several([time])[0]


class Late:
    """Takes exponential steps on a state."""

    def __init__(self, state: State, atol: float) -> None:
        """Nothing is stiff yet."""
        self.state, self._atol = state, atol
        self._going, self._length, self._allowed, self._next_look = False, 0.0, 0.0, 1
        self._seemed, self._not_chained = 0, False  # what comes next is not for a chain
        self._folded: tuple[object, int] = None, 0  # rows that J is of, for a pattern
        self._frame: Frame | None = None  # of the last step
        self._at_hand: LateStep | None = None  # linearised already, to ask whether it rests
        self.stood = False  # from the start

    def advance(self, until: float) -> Piece | None:
        """A piece at rest, or by an exponential step; None where explicit steps are worth more."""
        state, pace = self.state, self.state.pace
        if state.speed == 0:
            return self._standing(until)
        # On the loss clock with decay J is symmetric at rest only; what is missed before that, the step's error sees.
        # A long exponential step must not jump over the rest that is waited for.
        waits = self._going and state.plan.stop.converged
        due = (waits or pace.accepted >= self._next_look) and self._slow()
        steps = self._going or (
            pace.stiff >= _STIFF and state.spent >= state.next_exponential and self._pays(until - state.time)
        )  # fmt: skip
        if not (due or steps):
            return None
        rested = self._rested(until) if due else None
        if rested is not None:
            return rested
        return self._step(until) if steps else None

    def _slow(self) -> bool:
        """Whether the network moves so little that it may be at rest; if not, it is asked again some steps later."""
        state = self.state
        slow = state.pace.long * state.speed <= _SLOW * state.size
        self._next_look = max(self._next_look, state.pace.accepted + (0 if slow else _LOOK))
        return slow

    def _standing(self, until: float) -> Piece:
        """Nothing moves at all: a stationary point, held for good."""
        state, plan = self.state, self.state.plan
        view, z, energy, began = state.view(), state.carried.z, state.energy, state.time
        ended = _stops.stationary(plan, began)
        self.stood = began == plan.start
        if ended is None:
            state.time = until
        return Piece(began, state.time, lambda time: view.point(z, energy, time), How.AT_REST, 0, ended=ended)

    def _rested(self, until: float) -> Piece | None:
        """The rest of the run, by the linearised flow, if the network hardly moves any more and nothing grows."""
        state, plan = self.state, self.state.plan
        began, energy = state.time, state.energy
        self._next_look = state.pace.accepted + _LOOK_AGAIN + state.pace.accepted // _LOOK_PART
        left = until - began
        horizon = left if math.isfinite(left) else _ENDLESS * max(began, 1.0)
        # A loss level must be seen when it is passed, not jumped over.
        waits = plan.stop.level > -math.inf and not plan.stop.converged
        if waits and math.isfinite(self._worth()):
            return None  # what could be calmed is for exponential steps
        step = self._linearised()
        state.pace.evaluations += step.modes.evaluations
        state.pace.algebra += step.modes.algebra
        if waits or not step.rests(horizon, _RESTED * plan.rtol):
            if not step.modes.whole:
                return self._calmed(step, min(left, _REACH * state.pace.long), until)
            self._at_hand = step
            return None
        view = state.view()

        def elapsed(times: np.ndarray) -> np.ndarray:
            # Of a run that stops at rest the last state is where it would have come to.
            return np.where(plan.stop.converged & (times > began), horizon, times - began)

        way = _Way(view, energy, elapsed, step.at_rest)
        state.time = math.nextafter(began, math.inf) if plan.stop.converged else until
        ended = _status.converged(began) if plan.stop.converged else None
        return Piece(began, state.time, way.at, How.COMING_TO_REST, 0, ended=ended, several=way.several)

    def _calmed(self, step: LateStep, length: float, until: float) -> Piece | None:
        """Too many rows for exponential steps: where all is nearly linear, what Lanczos' method sees of it goes on.

        Explicit steps at the edge of stability never let fast directions come to rest by more than the tolerance.
        """
        state, plan = self.state, self.state.plan
        now, began, energy = state.carried, state.time, state.energy
        # The square of what moves is the error of a linearisation.
        if not step.rests(length, math.sqrt(_RESTED * plan.rtol)):
            return None
        arcs = self._drawn(step)
        if (
            not arcs
            or search(arcs, now.data, now.pattern, plan.stop.level, now.radius(), state.limits.rtol).event is not None
        ):
            return None
        view, arrival, before = state.view(), step.reaches, state.speed
        now.z, state.energy = step.at(arrival), energy + step.energy(arrival)
        state.time = until if arrival >= until - began else began + arrival
        state.moved()
        if not state.speed <= before:
            state.carried.z, state.energy, state.time = step.z, energy, began
            state.moved()
            return None

        state.balance.follow(now, step.passed(began, arrival))
        self._next_look = 0  # before explicit steps stir it up again
        way = _Way(view, energy, lambda times: np.clip(times - began, 0.0, arrival), step.several)
        return Piece(began, state.time, way.at, How.LANCZOS, 0, several=way.several)

    def _step(self, until: float) -> Piece | None:
        state, plan = self.state, self.state.plan
        now, pace, began, energy = state.carried, state.pace, state.time, state.energy
        left, explicit, worth = until - began, self._explicit(), self._worth()
        if not math.isfinite(worth):
            self._give_up()
            return None
        least = min(worth * explicit, left)
        step = self._linearised()
        rested = None if step.modes.force.any() else self._rested(until)  # nothing heavy moves by more than rounding
        if rested is not None:
            return rested
        if self._may_chain(step):
            piece = self._chain(step, least, until)
            if piece is not None:
                return piece
            step = self._linearised()  # it is used up
        self._not_chained = False
        error = self._fitted(step, least, left) if step.longest() >= least else math.inf
        arcs = self._drawn(step) if error <= 1 else None
        if arcs is None or step.reaches < least:
            self._give_up()
            return None
        radius = now.radius()
        event, beyond, near = search(arcs, now.data, now.pattern, plan.stop.level, radius, state.limits.rtol)
        if now.split(near, radius, pace.long):
            state.moved()
            self._give_up()
            return None
        self._going, self._length = True, self._next_length(step, error)
        state.inadmissible = max(state.inadmissible, beyond)
        view, arrival = state.view(), step.reaches if event is None else event.time
        if event is not None and event.kind == "level":
            arrival = polished(step.at, arrival, step.reaches, now.data, now.active, plan.stop.level)
        now.z, state.energy = step.at(arrival), energy + step.energy(arrival)
        state.time = until if arrival >= left else began + arrival
        state.balance.follow(now, step.passed(began, arrival))
        pace.accepted += 1
        before = len(state.noted)
        ended = state.after(event, began)
        self._seemed = self._seemed + 1 if arrival < least and len(state.noted) == before else 0
        if self._seemed > _SEEMING:
            self._give_up()  # what only seems to happen will seem so again: explicit steps tell
        self._regrouped()
        if not math.isfinite(state.size):
            ended = _status.not_finite(plan.axis, began)
        way = _Way(view, energy, lambda times: np.clip(times - began, 0.0, arrival), step.several)
        return Piece(began, state.time, way.at, How.EXPONENTIAL, ended=ended, several=way.several)

    def _regrouped(self) -> None:
        """After a step: let go what has come apart or faded, and find the velocity afresh."""
        state, now = self.state, self.state.carried
        if now.parted():
            now.regroup(state.pace.long)
        now.straighten()
        state.balance.part(now, state.pace.long)
        state.moved()

    def _may_chain(self, step: LateStep) -> bool:
        """Whether C may take this step and those that follow: not where each must be looked at in between."""
        state = self.state
        return state.is_small and not (self._not_chained or state.plan.stop.converged) and may_chain(step)

    def _chain(self, step: LateStep, least: float, until: float) -> Piece | None:
        """Steps as long as nothing happens; None where that is at once."""
        state, now, pace, plan = self.state, self.state.carried, self.state.pace, self.state.plan
        began, view, going = state.time, state.view(), self._going
        look = max(0, self._next_look - pace.accepted)
        wanted = Wanted(
            _ERROR * plan.rtol, self._atol, plan.stop.level, least, until - began, self._solved_from(step) * pace.long,
            GROWTH, _SHRINK, _CAREFUL, _LONGER, _TREND, _LEAST_ERROR, _SLOW, pace.long,
            plan.max_steps - pace.accepted - pace.rejected, _TRIES, look, state.energy,
            self._length if going else _FIRST_LENGTH * least, self._allowed if going else 0.0,
        )  # fmt: skip
        course = chained(step, state.kept(), now.apart(), wanted)
        self._not_chained = course is None or course.left
        if course is None:
            return None
        steps, stops = course.steps, course.stops
        self._going, self._length, self._allowed, self._seemed = True, course.length, course.allowed, 0
        state.inadmissible = max(state.inadmissible, course.beyond)
        pace.accepted, pace.rejected = pace.accepted + len(stops), pace.rejected + course.rejected
        pace.evaluations += course.evaluations
        pace.algebra += step.modes.algebra * len(stops)
        pace.arcs += len(steps.curves)
        now.z, state.energy = course.z, course.energy
        state.time = until if stops[-1] >= until - began else began + stops[-1]
        state.after(None, began)
        self._regrouped()

        def several(times: Sequence[float]) -> list[Point]:
            return view.points(*steps.several(np.array(times) - began), np.array(times))

        ends = [*(began + stop for stop in stops[:-1]), state.time]
        return Piece(
            began, state.time, lambda time: several([time])[0], How.EXPONENTIAL, len(ends), ends=ends, several=several
        )

    def _drawn(self, step: LateStep) -> Arcs:
        """The way of a step, which is counted."""
        arcs = step.arcs()
        pace, outputs = self.state.pace, step.data.outputs
        pace.arcs += step.drawn
        if outputs > 1:
            pace.algebra += _PROPAGATED * step.drawn * len(step.riding) * step.z.shape[1] * outputs
        return arcs

    def _linearised(self) -> LateStep:
        """The flow from here; what depends on the pattern alone is kept."""
        state, now = self.state, self.state.carried
        step, self._at_hand = self._at_hand, None
        if step is not None and step.z is now.z and step.pattern is now.pattern:
            return step
        own = state.balance.copied(now, state.time)
        step = LateStep(now.z, now.data, now.pattern, _LIGHT * state.plan.rtol, now.outgrown, own, self._frame)
        self._frame = step.modes.frame
        return step

    def _pays(self, left: float) -> bool:
        """Whether there is time left for an exponential step to be worth it."""
        explicit = self._explicit()
        return left > _WORTH * explicit and left > self._worth() * explicit

    def _explicit(self) -> float:
        """How far an explicit step comes: to the next event, where that is nearer.

        Fast directions at the edge of stability are stirred up by steps that events cut, and slides may end and begin
        for nothing but that, many times in what would be one step (wide seed 1267).
        """
        return min(self.state.pace.long, self.state.pace.gap)

    def _worth(self) -> float:
        """Explicit steps that an exponential one must be worth; inf where J is too large."""
        now, columns = self.state.carried, narrow_columns(self.state.carried.data)
        heavy = np.flatnonzero(are_heavy(now.z[: now.active], _LIGHT * self.state.plan.rtol))
        size = len(heavy) * columns
        if size > _COSTLY:
            if self._folded[0] is not now.pattern:  # as many as there were when the pattern was new
                self._folded = now.pattern, cells.count(now.pattern, heavy, now.data.b != 0, columns)
            size = min(len(heavy), self._folded[1]) * columns
        return _WORTH * (1 + (size / _COSTLY) ** 2) if size <= LARGEST else math.inf

    def _solved_from(self, step: LateStep) -> float:
        """Explicit steps that an exponential one by Newton's method must be worth."""
        size = step.modes.force.size
        return _WORTH * (1 + (size / _SOLVED) ** 2) if size <= _MOST_SOLVED else math.inf

    def _fitted(self, step: LateStep, least: float, left: float) -> float:
        """Set the step's length, between ``least`` and ``left``; its error."""
        pace, rtol = self.state.pace, _ERROR * self.state.plan.rtol
        length, error = self._length if self._going else _FIRST_LENGTH * least, math.inf
        for _ in range(_TRIES):
            length = min(length, step.longest(), left)
            error = step.try_length(length, rtol, self._atol, solve=length >= self._solved_from(step) * pace.long)
            if error <= 1 or length <= least:
                break
            pace.rejected += 1
            length = max(least, length * max(_SHRINK, _CAREFUL * error ** (-1 / ORDER)))
        pace.evaluations += step.modes.evaluations
        pace.algebra += step.modes.algebra
        return error

    def _next_length(self, step: LateStep, error: float) -> float:
        """How long the next step may be: as this one, and more if this one might already be longer than the one before.

        One that is too long costs a tenth of one that is taken, as J is known; not so by Newton's method.
        """
        allowed = step.length * max(error, _LEAST_ERROR) ** (-1 / ORDER)
        trend = allowed / self._allowed if self._going and not step.solved else 0.0
        self._allowed = allowed
        return min(_LONGER * step.length, allowed * min(max(trend, _CAREFUL), _TREND))

    def _give_up(self) -> None:
        """Back to explicit steps for a while."""
        state = self.state
        self._going, state.next_exponential, state.pace.stiff = False, state.spent + _LATER, 0
