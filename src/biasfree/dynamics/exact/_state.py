"""Where an exact run stands: the rows that are carried, their velocity, and what has happened so far."""

import functools
import math
from ctypes import Structure
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree.dynamics import _status
from biasfree.dynamics._float64 import LARGEST_EXPONENT
from biasfree.dynamics._pieces import Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._status import Status
from biasfree.dynamics.exact._arrays import START, Desk, Limits, Sought, Trial
from biasfree.dynamics.exact._balance import Balance
from biasfree.dynamics.exact._carried import Carried, Noted
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._events import Event, room_for
from biasfree.dynamics.exact._groups import Known
from biasfree.dynamics.exact._kernels import attempt, log_levels
from biasfree.dynamics.exact._march import Going, Marched, march
from biasfree.dynamics.exact._merging import Merged
from biasfree.dynamics.exact._methods import ORDER_8, Method
from biasfree.dynamics.exact._pace import Pace
from biasfree.dynamics.exact._sliding import leaving_zero, resting
from biasfree.dynamics.exact._travel import Travelled
from biasfree.switching import Switches

# Part of rtol that a step may spend. Chosen: a run's error is that of all its steps; a smaller part costs steps, and
# docs/exact.md says what runs are off by with this one.
SAFETY = 0.3
_ABSOLUTE = 1e-290  # every row is judged by its own size: one that is negligible now may be the one that grows
_OVERHEAD = 12_000  # multiplications that cost as much as a step's bookkeeping (measured)
_STEPS = 8  # taken together at most; chosen: results do not depend on it, calls and room do
_ENTRIES, _PRODUCTS = 200_000, 5_000_000  # kept of them, and multiplied in one evaluation of all, at most: Ctrl-C waits
_DIRECT = 1_500  # multiplications in the velocity of all rows up to which every event may cut a step of all of them
# Events without a step of time among them after which the flow is stuck: so many, and so many for each active row.
# Chosen: rows may all meet a few lines at one moment, and a flow that is stuck must say so within seconds.
_FLOOD, _FLOOD_EACH = 1000, 4
_NO_TIME = 1e-14  # bound: 45 ε of the time; a step so short is as good as none
_MOST_EVENTS = 1_000_000  # rows of the table of events up to which every neuron of a group is named


@dataclass(frozen=True)
class View:
    """How to read rows of one grouping: what a piece needs to give networks."""

    groups: Merged
    still: Int[np.ndarray, "still"]
    still_neurons: Float[np.ndarray, "still columns"]
    data: Data
    active: int
    decay: float  # of the still neurons
    since: float  # when they were as above

    def point(self, z: Float[np.ndarray, "rows columns"], energy: float, time: float) -> Point:
        """All neurons from rows."""
        return self.points(z[None], np.array([energy]), np.array([time]))[0]

    def points(
        self, states: Float[np.ndarray, "n rows columns"], energies: Float[np.ndarray, "n"],
        times: Float[np.ndarray, "n"],
    ) -> list[Point]:  # fmt: skip
        """All neurons from rows, at several times; the energy of still neurons that fade is added."""
        dim, neurons = self.data.directions.shape[1], self.groups.restored(states)
        if self.still.size:
            fade = np.exp(-self.decay * (times - self.since))
            neurons[:, self.still] = fade[:, None, None] * self.still_neurons
            energies = energies + 0.5 * self.decay * float(np.sum(self.still_neurons**2)) * (1 - fade**2)
        levels = log_levels(states, self.active, self.data).tolist()
        return [
            # −∞ is that of the rows: what merging leaves out may be all that is left of the neurons' loss.
            Point(
                (each[:, :dim].copy(), np.ascontiguousarray(each[:, dim:].T)),
                energy,
                math.nan if level == -math.inf else level,
            )
            for each, energy, level in zip(neurons, energies.tolist(), levels, strict=True)
        ]


class State:
    """What explicit and exponential steps move on.

    Attributes:
        plan: what is asked.
        time, energy: where it stands.
        carried: rows, pattern and groups.
        balance: what its neurons keep.
        trial: room for steps; its first stage is the velocity here.
        limits: what a step may be off by.
        pace: how long steps are, and what they cost.
        inadmissible: the third gauge, see ``Trajectory.admissibility``.
        last_event: when a step was ended by one.
        next_exponential: steps and events so far from which exponential steps are thought of.
    """

    def __init__(
        self, plan: Plan, neurons: Float[np.ndarray, "width columns"], data: Data, time: float, energy: float,
        known: Known | None = None,
    ) -> None:  # fmt: skip
        """Merge what can be merged, by what is ``known`` of groups."""
        self.plan, self.time, self.energy = plan, time, energy
        self.pace = Pace(1.0)
        self.carried, self.balance = Carried(neurons, data, plan.rtol, known), Balance(plan)
        self._still_since, self._shape = time, (0, 0, 0)
        self.limits = Limits(SAFETY * plan.rtol, _ABSOLUTE, 1.0)
        self.inadmissible, self.last_event, self._flood, self.next_exponential = 0.0, time, 0, 0
        self.noted: list[tuple[float, Noted]] = []
        self._named = 0  # neurons of all that was noted
        # Errors of the energy are judged against the first loss; on the loss clock it is ln L that falls by it.
        if plan.clock == "time":
            self.limits = self.limits._replace(energy=math.exp(min(self.level, LARGEST_EXPONENT)))
        self.moved()

    def restart(self, data: Data) -> None:
        """Go on with other data; with several outputs neurons keep the digits that they differ by."""
        now, here = self.carried, self.view().point(self.carried.z, 0.0, self.time)
        self.energy += here.energy
        apart = now.data.outputs > 1 and not now.still_neurons.any()
        known = functools.partial(now.groups.as_one, rows=now.z) if apart else None
        now.begin(np.column_stack([here.weights[0], here.weights[1].T]), data, known)
        self._still_since = self.time
        self.moved()

    def view(self) -> View:
        """How to read the rows as they are grouped now."""
        now, plan = self.carried, self.plan
        decay = plan.weight_decay if plan.clock == "time" else 0.0
        return View(now.groups, now.still, now.still_neurons, now.data, now.active, decay, self._still_since)

    def moved(self) -> None:
        """The rows or their pattern are others than a step left them: find their velocity afresh."""
        now = self.carried
        (rows, columns), products = now.z.shape, max(1, self.products)
        entries = rows * columns
        self.steps = int(min(_STEPS, max(1, _ENTRIES // (8 * max(entries, 1))), max(1, _PRODUCTS // products)))
        shape = (self.steps, rows, columns)
        if shape != self._shape:
            self.trial, self._shape = Trial.room(*shape), shape
        self.pace.overhead = _OVERHEAD / products
        desk, _ = room_for(now.z.shape, now.data, now.pattern)
        desk.rows[START], share, rests = now.z, now.apart()[1], (0, 0, 0.0, 0.0, 0.0)
        attempt(*rests, now.data, now.pattern, now.form(), self.limits, ORDER_8, share, self.trial, desk)

    def march(self, method: Method, limits: Limits, going: Going) -> tuple[Marched, Desk, Sought]:
        """Steps from here until something happens; the state stays where it is."""
        now = self.carried
        desk, sought = room_for(now.z.shape, now.data, now.pattern)
        marched = march(
            now.z, going, now.data, now.pattern, now.form(), limits, method, now.apart(), self.kept(), self.trial, desk,
            sought,
        )  # fmt: skip
        return marched, desk, sought

    def kept(self) -> Structure | None:
        """What the rows keep over the steps that begin here, for C."""
        own = self.balance.of(self.carried, self.time)
        return None if own is None else own.c

    def arrived(self, began: float, course: Travelled) -> None:
        """At the end of a course through events (``_travel``)."""
        self.energy, self.last_event = course.energy, began + course.last_event
        self.inadmissible = max(self.inadmissible, course.beyond)
        self.trial.stages[0], self.trial.powers[0] = course.trial.stages[0], course.trial.powers[0]
        members = self.carried.groups.groups
        happened = zip(
            course.when.tolist(), course.rows.tolist(), course.lines.tolist(), course.kinds.tolist(), strict=True
        )
        for time, row, line, kind in happened:
            self.note(began + time, [Noted(members[row].members, line, kind)])

    @property
    def is_finite(self) -> bool:
        """Whether rows and energy are numbers."""
        return math.isfinite(self.energy) and math.isfinite(self.size)

    @property
    def is_small(self) -> bool:
        """Whether a step of all rows costs so little that every event may cut it (``_travel``)."""
        now = self.carried
        return (
            0 < self.products <= _DIRECT
            and now.dim > 1 and not now.riders.size and not (now.pattern.span == now.dim).any()
        )  # fmt: skip

    @property
    def products(self) -> int:
        """Multiplications in the velocity of the active rows."""
        now = self.carried
        return now.active * now.pattern.side.shape[1] * now.z.shape[1]

    @property
    def level(self) -> float:
        """ln L."""
        return float(self.carried.pulls().level)

    @property
    def spent(self) -> int:
        """Explicit steps so far, and events: one of these costs about as much (wide seed 8122 has 159 in a step)."""
        return self.pace.accepted + len(self.noted)

    def until_exponential(self, least: int) -> int:
        """Steps until exponential ones are thought of again; ``least`` where they are thought of now."""
        left = self.next_exponential - self.spent
        return left if left > 0 else least

    @property
    def speed(self) -> float:
        """The largest entry of the velocity."""
        return float(np.abs(self.trial.stages[0]).max(initial=0.0))

    @property
    def size(self) -> float:
        """The largest entry of the rows."""
        return float(np.abs(self.carried.z).max(initial=0.0))

    def note(self, time: float, noted: list[Noted]) -> None:
        """Something happened."""
        for each in noted:
            self.noted.append((time, each))
            self._named += len(each.neurons)

    def after(self, event: Event | None, began: float) -> Status | None:
        """What follows from the event that ended a step, if one did; how the run ended, if it did."""
        if event is None:
            self._flood = 0
            return None
        if event.kind == "level":
            return _status.at_level(self.plan.axis, self.time)
        now = self.carried
        rested = event.kind == "slide" and event.row in resting(now.pattern, now.dim)
        self.note(self.time, now.decide(event.row, event.lines))
        if rested:  # others may be drawn away at the same moment
            for h in leaving_zero(now.z, now.pattern, now.data, resting(now.pattern, now.dim)).tolist():
                self.note(self.time, now.decide(h, event.lines))
        self._flood = self._flood + 1 if self.time <= began * (1 + _NO_TIME) else 0
        self.pace.met_event(self.time - self.last_event)
        self.last_event = self.time
        if self._flood > _FLOOD + _FLOOD_EACH * self.carried.active:
            return _status.flooded(self.plan.axis, self.time)
        return None

    @property
    def names_all(self) -> bool:
        """Whether the table of events has room for every neuron; if not, one stands for its group."""
        return self._named <= _MOST_EVENTS

    def events(self) -> Switches:
        """All that was noted."""
        every = self.names_all
        named = [noted.neurons if every else noted.neurons[:1] for _, noted in self.noted]
        count = [len(neurons) for neurons in named]
        return Switches.table(
            np.repeat([time for time, _ in self.noted], count),
            np.concatenate(named) if named else np.zeros(0, dtype=int),
            np.repeat(np.array([noted.line for _, noted in self.noted], dtype=int), count),
            np.repeat(np.array([noted.kind for _, noted in self.noted], dtype=str), count),
        )
