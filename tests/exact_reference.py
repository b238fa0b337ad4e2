"""The exact gradient flow of a two-layer bias-free network, slowly and simply, for tests to compare with.

The velocity of neuron h is ẇ = w₂c − λw, ẇ₂ = cᵀw − λw₂ with c = Σ_l d_l[a(E⁺ + E⁻) + bς(E⁺ − E⁻)]: one side ς_l = ±1
for each line d_l of samples x_i = t_i d_l, E± = Σ e_i t_i/P over the samples on either side, e = −∂ℓ/∂f. Between events
the sides are constant and the field is smooth; each piece goes to DOP853. An event is the first of

- a neuron arrives at a line (dᵀw = 0). Of the lines it then lies on, those with w₂(E⁺ − E⁻) < 0 attract and their sides
  are those in [−1, 1] with the least |c|; the others are crossed. What has no velocity across a line slides on it.
- the sides that hold a sliding neuron reach ±1: it leaves in the direction in which |c| cannot be made zero.
- w₂ of a sliding neuron changes sign: the surface repels, either side is a solution, and the side of the last ς is
  taken (the positive one at ς = 0). Logged as "branch".
- w reaches zero. If it is pulled on it goes straight through, else rests if sides can hold it there, else goes where it
  must. Logged as "branch".

While a neuron slides its c is projected off the lines it lies on, which needs no sides; they are computed only to see
whether they still lie in [−1, 1]. Neurons are looked at one at a time and nothing is merged or approximated.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import DOP853, solve_ivp
from scipy.optimize import brentq, lsq_linear
from scipy.special import logsumexp

_PARALLEL = 1e-10  # directions closer than this count as one, and as lying in a span
_ON = 1e-12  # a neuron nearer to a line than this, relative to its size, lies on it
_FRESH = 1e-11  # how far a neuron that has just left a line may fall back before it counts as a return
_STILL = 1e-10  # a velocity across a line below this, relative to all pulls, is none
_REST = 1e-13  # pulls on all neurons below this, relative to what they are sums of: the end
_LOOKS = 10  # inspections for events within a step


class Event(NamedTuple):
    time: float
    neuron: int
    line: int
    kind: str


@dataclass(frozen=True)
class Reference:
    """``energies`` is ∫‖Ẇ‖²; ``directions`` has the lines that events count; ``rested`` is when all motion ended."""

    times: np.ndarray
    losses: np.ndarray
    log_losses: np.ndarray
    first: np.ndarray
    second: np.ndarray
    energies: np.ndarray
    events: list[Event]
    directions: np.ndarray
    rested: float | None
    steps: int

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events)


def reference_flow(
    inputs: Any, targets: Any, first: Any, second: Any, *, slope: float, loss: str = "square", until: float, save: Any,
    weight_decay: float = 0.0, clock: str = "time", rtol: float = 1e-11, escape: bool = False, max_events: int = 5000,
) -> Reference:  # fmt: skip
    """Integrate from weights ``first`` (width, dim) and ``second`` (width,) to ``until``.

    ``save`` holds times in ascending order, or is a number of evenly spaced intervals. With ``escape`` a neuron that
    rests at w = 0 leaves as soon as anything pulls it away in any direction, as descent does; without it stays as long
    as sides in [−1, 1] can hold it there. RuntimeError after ``max_events`` events: the run would not end.
    """
    problem = _Problem(inputs, targets, slope, loss, weight_decay, clock)
    times = np.linspace(0, until, save + 1) if np.ndim(save) == 0 else np.asarray(save, float)
    second = np.asarray(second, float).ravel()
    start = np.concatenate([np.asarray(first, float).reshape(len(second), -1).ravel(), second, [0.0]])
    flow = _Flow(problem, start, len(second), rtol, escape)
    saved: list[np.ndarray] = []
    rested, steps = None, 0
    while len(saved) < len(times):
        solver = DOP853(flow.velocity, flow.time, flow.state, until, rtol=rtol, atol=flow.atol(flow.state))
        happened = None
        while happened is None and solver.status == "running" and rested is None:
            solver.atol = flow.atol(solver.y)
            begin, before = solver.t, solver.y
            message = solver.step()
            if solver.status == "failed":
                raise RuntimeError(f"integration failed at t = {begin}: {message}")
            steps += 1
            happened = flow.first_event(begin, before, solver)
            flow.time, flow.state = (solver.t, solver.y) if happened is None else happened[:2]
            while len(saved) < len(times) and times[len(saved)] <= flow.time:
                saved.append(flow.advance(begin, before, times[len(saved)]))
            if happened is None and flow.at_rest():
                rested = flow.time
        if happened is not None:
            flow.handle(happened[2])
            if len(flow.events) > max_events:
                raise RuntimeError(f"more than {max_events} events by t = {flow.time}")
        else:
            saved += [flow.state] * (len(times) - len(saved))
    parts = [problem.split(state, flow.width) for state in saved]
    logs = np.array([problem.log_loss(w, w2) for w, w2 in parts])
    return Reference(
        times, np.exp(logs), logs, np.array([w for w, _ in parts]), np.array([w2 for _, w2 in parts]),
        np.array([state[-1] for state in saved]), flow.events, problem.directions, rested, steps,
    )  # fmt: skip


class _Problem:
    """Data by line, and what does not depend on the sides."""

    def __init__(self, inputs: Any, targets: Any, slope: float, loss: str, decay: float, clock: str) -> None:
        self.inputs, self.targets = np.asarray(inputs, float), np.asarray(targets, float).ravel()
        self.slope, self.loss, self.decay, self.clock = slope, loss, decay, clock
        self.odd_part, self.even_part = 0.5 * (1 + slope), 0.5 * (1 - slope)
        self.directions, self.line, self.position = group(self.inputs)
        if slope == 1:  # no kink, so no line that matters
            self.directions, self.line = self.directions[:0], np.full_like(self.line, -1)
        # |t_i|/P where sample i lies on line l.
        self.reach = np.abs(self.position) / len(self.targets) * (self.line == np.arange(len(self.directions))[:, None])

    def split(self, state: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        return state[: -width - 1].reshape(width, -1), state[-width - 1 : -1]

    def log_loss(self, first: np.ndarray, second: np.ndarray) -> float:
        before = self.inputs @ first.T
        return self._log_loss(np.where(before > 0, before, self.slope * before) @ second)

    def _log_loss(self, outputs: np.ndarray) -> float:
        if self.loss == "square":
            with np.errstate(divide="ignore"):
                return float(np.log(0.5 * np.mean((outputs - self.targets) ** 2)))
        margins = self.targets * outputs
        # ln ln(1 + e^−m) = −m − e^−m/2 + … once e^−m is small.
        logs = np.where(margins > 30, -margins, np.log(np.logaddexp(0, -np.minimum(margins, 30))))
        return float(logsumexp(-margins if self.loss == "exponential" else logs) - np.log(len(margins)))

    def residual(self, outputs: np.ndarray) -> tuple[np.ndarray, float]:
        """−∂ℓ/∂f and λ, both divided by L on the loss clock."""
        shift = self._log_loss(outputs) if self.clock == "loss" else 0.0
        decay = self.decay * np.exp(-shift) if self.decay else 0.0
        if self.loss == "square":
            return (self.targets - outputs) * np.exp(-shift), decay
        margins = self.targets * outputs
        if self.loss == "exponential":
            return self.targets * np.exp(-margins - shift), decay
        return self.targets * np.exp(-np.logaddexp(0, margins) - shift), decay


class _Flow:
    """Where the flow is: time, weights, and for each neuron and line the side and whether it lies on the line.

    A side is 0 where the neuron slides. A neuron can also lie on a line that does not attract, because others hold it
    where this line passes through as well; such a line keeps a side ±1 and is called held here.
    """

    def __init__(self, problem: _Problem, state: np.ndarray, width: int, rtol: float, escape: bool) -> None:
        self.problem, self.state, self.width, self.rtol, self.escape = problem, state, width, rtol, escape
        self.time = 0.0
        self.events: list[Event] = []
        first, second = problem.split(state, width)
        self.scale = np.exp(problem.log_loss(first, second)) if problem.clock == "time" else 1.0
        self.bases = [np.zeros((first.shape[1], 0))] * width
        self.normals = [np.zeros((0, 0))] * width
        across = self.across(state)
        self.sides = np.where(across > 0, 1.0, -1.0)
        self.on = np.zeros_like(across, dtype=bool)
        self.fresh = np.zeros_like(self.on)
        self.trend = np.sign(second)
        self.gate = np.zeros((width, len(problem.targets)))
        for h in range(width):
            self.set_gate(h)
        for h in range(width):
            lies = self.closure(np.abs(across[h]) <= _ON * np.linalg.norm(first[h]))
            if lies.any():
                self.settle(h, lies, np.ones(len(lies)), "start")

    # The smooth field between events.

    def pull(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """w, w₂, Σ_l d_l(E⁺ + E⁻) = ⟨ex⟩, E⁺ − E⁻ = ⟨e|t|⟩ by line, and λ."""
        problem = self.problem
        first, second = problem.split(state, self.width)
        error, decay = problem.residual(self.parts(first, second).sum(0))
        return first, second, error @ problem.inputs / len(error), problem.reach @ error, decay

    def parts(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """What each neuron adds to each output, the sides taken as they are: smooth in the weights."""
        return second[:, None] * self.gate * (first @ self.problem.inputs.T)

    def set_gate(self, h: int) -> None:
        """σ' on each sample, a + bς sgn t."""
        problem = self.problem
        self.gate[h] = problem.odd_part
        off_origin = problem.line >= 0
        sides = self.sides[h, problem.line[off_origin]] * np.sign(problem.position[off_origin])
        self.gate[h, off_origin] += problem.even_part * sides

    def velocity(self, _: float, state: np.ndarray) -> np.ndarray:
        problem = self.problem
        first, second, linear, even, decay = self.pull(state)
        c = problem.odd_part * linear + problem.even_part * (self.sides * even) @ problem.directions
        for h in np.flatnonzero(self.on.any(1)):
            c[h] -= self.bases[h] @ (self.bases[h].T @ c[h])
        moves = second[:, None] * c - decay * first
        turns = (c * first).sum(1) - decay * second
        return np.concatenate([moves.ravel(), turns, [(moves**2).sum() + (turns**2).sum()]])

    def across(self, state: np.ndarray) -> np.ndarray:
        return self.problem.split(state, self.width)[0] @ self.problem.directions.T

    def size(self, state: np.ndarray) -> np.ndarray:
        first, second = self.problem.split(state, self.width)
        return np.hypot(np.linalg.norm(first, axis=1), second)

    def atol(self, state: np.ndarray) -> np.ndarray:
        """Relative to each neuron, so that small ones are followed as well as large ones."""
        size = 0.1 * self.rtol * np.maximum(self.size(state), 1e-280)
        energy = 0.1 * self.rtol * max(self.scale, 1e-280)
        return np.concatenate([np.repeat(size, self.problem.inputs.shape[1]), size, [energy]])

    def advance(self, begin: float, before: np.ndarray, time: float) -> np.ndarray:
        """The state at ``time`` by a step of its own, which is more accurate than dense output."""
        if time <= begin:
            return before
        return solve_ivp(
            self.velocity, (begin, time), before, "DOP853", (time,), first_step=time - begin,
            rtol=self.rtol, atol=self.atol(before),
        ).y[:, -1]  # fmt: skip

    def made_of(self, state: np.ndarray) -> float:
        """The size of what a pull is the sum of; its uncertainty is this times a tolerance."""
        problem = self.problem
        parts = self.parts(*problem.split(state, self.width))
        terms = np.abs(parts).sum(0)
        if problem.loss == "square":
            terms += np.abs(problem.targets)
        else:
            terms = (1 + terms) * np.abs(problem.residual(parts.sum(0))[0])
        return float(np.mean(terms * np.linalg.norm(problem.inputs, axis=1)))

    def at_rest(self) -> bool:
        speed = self.size(self.velocity(0.0, self.state))
        return bool(np.all(speed <= _REST * self.made_of(self.state) * self.size(self.state)))

    # Events: each has a margin that is positive until it happens.

    def first_event(self, begin: float, before: np.ndarray, solver: DOP853) -> tuple[float, np.ndarray, tuple] | None:
        """The earliest event of the step just made: its time, the state there, and which it is."""
        dense, low = solver.dense_output(), begin
        for high in np.linspace(begin, solver.t, _LOOKS + 1)[1:]:
            # Dense output is less accurate than a step: it only says where to look.
            state = solver.y if high == solver.t else dense(high)
            events = list(self.violated(state))
            if events and high < solver.t:
                state = self.advance(begin, before, high)
                events = list(self.violated(state))
            if events:
                time, which = min((self.root(which, low, high, dense, begin, before), which) for which in events)
                return float(time), self.advance(begin, before, time), which
            self.fresh &= self.across(state) * self.sides <= _FRESH * self.size(state)[:, None]
            low = high
        return None

    def root(
        self, which: tuple[str, int, int], low: float, high: float, dense: Any, begin: float, before: np.ndarray
    ) -> float:
        """When an event happens that has happened at ``high``; ``low`` if it has by then already."""

        def rough(time: float) -> float:
            return self.margin(which, dense(time))

        def margin(time: float) -> float:
            return self.margin(which, self.advance(begin, before, time))

        if margin(low) <= 0:
            return low
        if margin(high) >= 0:  # a matter of the last digit
            return high
        if rough(low) > 0 > rough(high):
            near = brentq(rough, low, high, xtol=1e-13)
            closer = max(low, near - 1e-6), min(high, near + 1e-6)
            if margin(closer[0]) > 0 > margin(closer[1]):
                low, high = closer
        return float(brentq(margin, low, high, xtol=1e-15, rtol=1e-15))

    def violated(self, state: np.ndarray) -> Iterator[tuple[str, int, int]]:
        size = self.size(state)
        slack = np.where(self.fresh, _FRESH * size[:, None], 0.0)
        for h, line in np.argwhere(~self.on & (self.across(state) * self.sides < -slack)):
            yield "arrive", int(h), int(line)
        pull, noise = self.pull(state), 5 * self.rtol * self.made_of(state)
        for h in map(int, np.flatnonzero(self.on.any(1) & (self.trend != 0))):
            if self.hold(h, pull)[0] > noise:
                yield "exit", h, 0
            if not self.resting(h):
                if self.trend[h] * pull[1][h] < -_ON * size[h]:
                    yield "turn", h, 0
                for line in map(int, np.flatnonzero(self.sliding(h) & (self.trend[h] * pull[3] > noise))):
                    yield "repel", h, line

    def margin(self, which: tuple[str, int, int], state: np.ndarray) -> float:
        kind, h, line = which
        if kind == "arrive":
            return self.sides[h, line] * self.across(state)[h, line]
        if kind == "turn":
            return self.trend[h] * self.problem.split(state, self.width)[1][h]
        pull = self.pull(state)
        return -self.trend[h] * pull[3][line] if kind == "repel" else -self.hold(h, pull)[0]

    def handle(self, which: tuple[str, int, int]) -> None:
        kind, h, line = which
        if kind == "arrive":
            near = np.abs(self.across(self.state)[h]) <= _ON * self.size(self.state)[h]
            lies = self.on[h] | (near & ~self.fresh[h])
            lies[line] = True
            lies = self.closure(lies)
            straight = np.where(self.on[h], self.sides[h], -self.sides[h])
            self.settle(h, lies, straight, "zero" if lies.all() and len(lies) > 1 else "arrive", line)
        elif kind == "exit":
            pull = self.pull(self.state)
            _, outward, sides = self.hold(h, pull)
            attracts = self.trend[h] * pull[3] < 0
            if self.resting(h) and not attracts.all() and not self.escape:
                self.settle(h, self.on[h].copy(), np.ones(len(attracts)), "exit")
            else:
                self.place(h, self.on[h].copy(), np.sign(outward), sides, "leave")
        else:
            last = self.last_sides(h)
            if kind == "turn":
                self.state = self.state.copy()
                self.state[-self.width - 1 + h] = 0.0
            self.settle(h, self.on[h].copy(), np.where(last >= 0, 1.0, -1.0), kind)

    # Decisions about one neuron.

    def sliding(self, h: int) -> np.ndarray:
        return self.on[h] & (self.sides[h] == 0)

    def resting(self, h: int) -> bool:
        """At w = 0, or rather at right angles to all samples; a single line is only slid on."""
        return bool(self.on[h].all()) and len(self.on[h]) > 1

    def basis(self, lies: np.ndarray) -> np.ndarray:
        """Orthonormal columns that span these lines."""
        _, values, rows = np.linalg.svd(self.problem.directions[lies], full_matrices=False)
        return rows[values > _PARALLEL].T

    def closure(self, lies: np.ndarray) -> np.ndarray:
        """All the lines that a neuron on these lines lies on: those in their span."""
        if not lies.any():
            return lies
        basis, directions = self.basis(lies), self.problem.directions
        return np.linalg.norm(directions - directions @ basis @ basis.T, axis=1) < _PARALLEL

    def forces(self, pull: tuple) -> tuple[np.ndarray, np.ndarray]:
        """c without any sides, and by line what a side of 1 adds to it."""
        _, _, linear, even, _ = pull
        return self.problem.odd_part * linear, self.problem.even_part * even[:, None] * self.problem.directions

    def hold(self, h: int, pull: tuple) -> tuple[float, np.ndarray, np.ndarray]:
        """By how much the sides fall short of holding the neuron (negative: not at all); where it will go, by line;
        the sides of held lines.

        What sides in [−1, 1] can add to c is a zonotope. It has to contain the rest of c with the sign reversed, and
        each of its facets is spanned by lines.
        """
        lies, basis, directions = self.on[h], self.bases[h], self.problem.directions
        linear, columns = self.forces(pull)
        free, normals = self.sliding(h), self.normals[h]
        if self.resting(h) and self.escape:
            free = self.trend[h] * pull[3] < 0
            normals = facet_normals(basis.T @ directions[free].T)
        held = np.flatnonzero(lies & ~free)
        kept = linear + np.where(lies, 0.0, self.sides[h]) @ columns
        support = np.abs(normals @ basis.T @ columns[free].T).sum(1)
        best = (-float(np.abs(columns).sum()), np.zeros(len(lies)), self.sides[h])
        for pattern in itertools.product((1.0, -1.0), repeat=len(held)):
            sides = self.sides[h].copy()
            sides[held] = pattern
            excess = normals @ basis.T @ -(kept + sides[held] @ columns[held]) - support
            facet = int(excess.argmax())
            outward = -self.trend[h] * directions @ basis @ normals[facet]
            outward[np.abs(outward) < 1e-9] = 0.0
            if excess[facet] > best[0] and np.all(sides[held] * outward[held] >= 0):
                best = (float(excess[facet]), outward, sides)
        return best

    def last_sides(self, h: int) -> np.ndarray:
        """The sides that hold a sliding neuron, the shortest vector of them where several do."""
        sides, free = self.sides[h].copy(), self.sliding(h)
        linear, columns = self.forces(self.pull(self.state))
        kept = linear + sides @ columns
        sides[free] = np.linalg.lstsq(columns[free].T, -self.bases[h] @ (self.bases[h].T @ kept))[0]
        return sides

    def settle(self, h: int, lies: np.ndarray, prefer: np.ndarray, why: str, line: int = -1) -> None:
        """Decide what a neuron on the lines ``lies`` does; ``prefer`` has the sides to try first where they repel."""
        pull, velocity = self.pull(self.state), self.velocity(0.0, self.state)
        first, second, _, even, _ = pull
        heading, turning = (part[h] for part in self.problem.split(velocity, self.width))
        # Where w₂ is zero, the sign it is about to take decides.
        self.trend[h] = np.sign(second[h] if abs(second[h]) > 1e-14 * self.size(self.state)[h] else turning)
        basis = self.basis(lies)
        self.state = self.state.copy()
        self.problem.split(self.state, self.width)[0][h] -= basis @ (basis.T @ first[h])
        forces = self.forces(pull)
        strength = np.linalg.norm(forces[0]) + np.linalg.norm(forces[1], axis=1).sum()
        tiny = max(_STILL * strength, 5 * self.rtol * self.made_of(self.state))
        stay = np.zeros(len(lies))
        if why == "zero":
            self.events.append(Event(self.time, h, line, "branch"))
            way = self.beyond_zero(self.trend[h], heading, forces, tiny)
            if (
                way is None
                and not self.escape
                and not self.drive(self.trend[h], lies, lies, stay, forces, tiny)[0].any()
            ):
                way = stay, stay
            if way is not None:
                return self.place(h, lies, *way, "leave")
        ways = self.ways(self.trend[h], lies, np.where(lies, prefer, self.sides[h]), forces, tiny)
        branch = why in ("turn", "repel") or (why == "start" and len(ways) > 1)
        at_zero = lies.all() and len(lies) > 1
        ways.append((stay, np.where((self.trend[h] * even < 0) | at_zero, 0.0, prefer)))
        return self.place(h, lies, *ways[0], "branch" if branch else "leave", why == "start")

    def drive(
        self, trend: float, lies: np.ndarray, free: np.ndarray, sides: np.ndarray, forces: tuple, tiny: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where a neuron on ``lies`` goes, line by line, when the free sides make |c| least; and the other sides."""
        directions, basis, (linear, columns) = self.problem.directions, self.basis(lies), forces
        matrix, rest = basis.T @ columns[free].T, basis.T @ (linear + (sides * ~free) @ columns)
        least = sides.copy()
        if free.any():
            least[free] = lsq_linear(matrix, -rest, (-1, 1), method="bvls", tol=1e-15).x
        across = trend * directions @ basis @ (rest + matrix @ least[free])
        goes = np.sign(np.where(np.abs(across) > tiny, across, 0.0))
        # A side of ±1 without velocity is the far side of a line where nothing drives back: it has been crossed.
        if np.linalg.matrix_rank(directions[free], _PARALLEL) == free.sum():
            over = free & (goes == 0) & (np.abs(least) > 1 - _STILL)
            goes = np.where(over, np.sign(least), goes)
        return goes, np.where(free, 0.0, sides)

    def ways(
        self, trend: float, lies: np.ndarray, sides: np.ndarray, forces: tuple, tiny: float
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """All ways off some of the lines ``lies``: the given sides first, then others where the lines repel."""
        attracts = lies & (trend * (forces[1] * self.problem.directions).sum(1) < 0)
        repels = np.flatnonzero(lies & ~attracts)
        ways = []
        for flips in sorted(itertools.product((1.0, -1.0), repeat=len(repels)), key=lambda flips: -sum(flips)):
            trial = sides.copy()
            trial[repels] *= flips
            goes, others = self.drive(trend, lies, attracts, trial, forces, tiny)
            if goes[lies].any() and np.all(trial[repels] * goes[repels] >= 0):
                ways.append((goes, others))
        return ways

    def beyond_zero(
        self, trend: float, heading: np.ndarray, forces: tuple, tiny: float
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Where a neuron gets to that has passed w = 0 by an infinitely small step; None if it is drawn back.

        So close to zero nothing but its direction changes, the forces are constant between lines, and it moves straight
        from line to line until none lies ahead.
        """
        directions, (linear, columns) = self.problem.directions, forces
        w = heading / np.linalg.norm(heading)
        sides = np.sign(directions @ w)
        arrived = on = np.abs(directions @ w) < _PARALLEL
        sides[on] = 0.0
        for step in range(20 * len(sides)):
            if (arrived | on).any():
                lies = self.closure(arrived | on)
                ways = self.ways(trend, lies, np.where(lies & (sides == 0), 1.0, sides), forces, tiny)
                goes, sides = ways[0] if ways else (np.zeros(len(sides)), np.where(on, 0.0, sides))
                on = lies & (goes == 0)
                sides = np.where(lies & (goes != 0), goes, np.where(on, 0.0, sides))
            basis = self.basis(on)
            c = linear + sides @ columns
            velocity = trend * (c - basis @ (basis.T @ c))
            if step == 0 and velocity @ w <= tiny:
                return None
            rates = directions @ velocity
            ahead = ~on & (rates * sides < -tiny)
            if not ahead.any():
                return np.where(on, 0.0, sides), np.zeros(len(sides))
            waits = np.where(ahead, -(directions @ w) / np.where(ahead, rates, 1.0), np.inf)
            arrived = waits <= waits.min() * (1 + _PARALLEL)
            w = w + waits.min() * velocity
            if np.linalg.norm(w) < _PARALLEL:
                return None
            w /= np.linalg.norm(w)
            sides[arrived] *= -1
        return None

    def place(
        self, h: int, lies: np.ndarray, goes: np.ndarray, sides: np.ndarray, word: str, start: bool = False
    ) -> None:
        """Put the neuron on the side it goes to, or on the line where it goes to none, and log what changed."""
        for line in map(int, np.flatnonzero(lies)):
            was, now = self.sides[h, line], goes[line] or sides[line]
            self.on[h, line], self.fresh[h, line] = goes[line] == 0, goes[line] != 0
            self.sides[h, line] = now
            if now == 0 and (was != 0 or start):
                kind = "slide"
            elif was == 0 or (start and word == "branch"):
                kind = word if now else ""
            else:
                kind = "cross" if now == -was and not start else ""
            if kind:
                self.events.append(Event(self.time, h, line, kind))
        self.set_gate(h)
        self.bases[h] = self.basis(self.on[h])
        if self.on[h].any():
            self.normals[h] = facet_normals(self.bases[h].T @ self.problem.directions[self.sliding(h)].T)


def facet_normals(columns: np.ndarray) -> np.ndarray:
    """Unit normals, of either sign, of the facets of the zonotopes that are spanned by multiples of these columns."""
    dim, count = columns.shape
    rank = np.linalg.matrix_rank(columns, _PARALLEL)
    if rank < dim:  # flat: what is at right angles to it bounds it as well
        left, _, _ = np.linalg.svd(columns) if count else (np.eye(dim), 0, 0)
        flat = left[:, rank:].T
        inside = facet_normals(left[:, :rank].T @ columns) @ left[:, :rank].T if rank else flat[:0]
        return np.concatenate([flat, -flat, inside])
    normals = []
    for chosen in itertools.combinations(range(count), dim - 1):
        _, values, rows = np.linalg.svd(columns[:, chosen].T)
        if np.all(values > _PARALLEL):
            normals += [rows[-1], -rows[-1]]
    return np.array(normals).reshape(-1, dim)


def group(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit directions of the lines that samples lie on, the line of each sample (−1 at the origin), and its t.

    Lines in the order in which they first appear; the entry of largest size of a direction is positive.
    """
    directions: list[np.ndarray] = []
    line, position = np.full(len(inputs), -1), np.zeros(len(inputs))
    for i, x in enumerate(inputs):
        if not x.any():
            continue
        unit = x / np.linalg.norm(x)
        for known, direction in enumerate(directions):
            if min(np.linalg.norm(unit - direction), np.linalg.norm(unit + direction)) < 1e-12:
                line[i] = known
                break
        else:
            line[i] = len(directions)
            largest = np.argmax(np.abs(unit) > np.abs(unit).max() - 1e-12)
            directions.append(unit * np.sign(unit[largest]))
        position[i] = x @ directions[line[i]]
    return np.array(directions).reshape(-1, inputs.shape[1]), line, position


@dataclass(frozen=True)
class Extrapolated:
    """Descent extrapolated to rate zero: ``levels`` has the weights at each rate, ``error`` the last correction's size.

    ``first`` and ``second`` are the extrapolated weights; ``differences`` are the distances between successive levels,
    which halve from one to the next where descent converges at first order.
    """

    first: np.ndarray
    second: np.ndarray
    levels: np.ndarray
    differences: np.ndarray
    error: float


def extrapolated_descent(
    inputs: Any, targets: Any, first: Any, second: Any, *, slope: float, loss: str = "square", until: float, steps: int,
    levels: int = 5, weight_decay: float = 0.0,
) -> Extrapolated:  # fmt: skip
    """Gradient descent at rates until/steps, half of it, a quarter …, and Richardson extrapolation to zero rate.

    The error of descent has an expansion in powers of the rate only where the field is smooth. A crossing adds a term
    of first order that depends on where in a step the kink falls, and a sliding neuron chatters by one step: there the
    extrapolation is no better than the smallest rate, so that ``error`` falls by two and not by 2^levels.
    """
    inputs, targets = np.asarray(inputs, float), np.asarray(targets, float).ravel()
    problem = _Problem(inputs, targets, slope, loss, weight_decay, "time")
    ends = []
    for level in range(levels):
        count = steps * 2**level
        rate = until / count
        w, w2 = np.array(first, float).reshape(np.size(second), -1), np.array(second, float).ravel()
        for _ in range(count):
            before = inputs @ w.T
            gate = np.where(before > 0, 1.0, slope)
            error, _ = problem.residual((gate * before) @ w2)
            c = (gate * error[:, None]).T @ inputs / len(error)
            w, w2 = (
                (1 - rate * weight_decay) * w + rate * w2[:, None] * c,
                (1 - rate * weight_decay) * w2 + rate * (c * w).sum(1),
            )
        ends.append(np.concatenate([w.ravel(), w2]))
    table = list(ends)
    for order in range(1, levels):
        previous = table
        table = [(2**order * b - a) / (2**order - 1) for a, b in itertools.pairwise(previous)]
    change = float(np.abs(table[0] - previous[-1]).max()) if levels > 1 else np.inf
    w, w2 = table[0][: -np.size(second)].reshape(np.size(second), -1), table[0][-np.size(second) :]
    steps_apart = np.array([np.abs(b - a).max() for a, b in itertools.pairwise(ends)])
    return Extrapolated(w, w2, np.array(ends), steps_apart, change)
