"""Gradient flow: exactly from event to event where that is possible, by adaptive steps where not."""

import math
import time as clock_time
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _field, _stepper
from biasfree.dynamics._early_jump import EarlyJump, Leap
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._settings import (
    Progress,
    ProgressCallback,
    Status,
    Stop,
    check_callback,
    next_quota,
    save_points,
)
from biasfree.dynamics._settings import axis as symbol
from biasfree.dynamics._steady import Rest, find_rest
from biasfree.dynamics._trajectory import Counts, Trajectory
from biasfree.lines import lines
from biasfree.networks import Network

METHODS = ("auto", "exact", *_stepper.SOLVERS)
_CROSSINGS = 10_000  # lines × neurons up to which every crossing is met
_REACH = 300  # steps that the closed form may stand for at first
_PATIENCE, _HARDLY = 20_000, 1e-8  # attempts after which so small a part of the way is no way at all


def gradient_flow(
    network: Network,
    dataset: Dataset,
    *,
    loss: str = "square",
    until: float,
    method: str = "auto",
    rtol: float = 1e-6,
    atol: float | None = None,
    weight_decay: float = 0.0,
    clock: str = "time",
    save: int | Iterable[float] | None = None,
    stop: Stop | float | str | None = None,
    progress: ProgressCallback | None = None,
    smallest_step: float | None = None,
    max_steps: int = 2_000_000,
) -> Trajectory:
    """Train by gradient flow: Ẇ = −∇L(W) − λW, from t = 0 to ``until``.

    The exact flow of a two-layer network goes from one activation boundary to the next, and along those on which
    neurons slide; ``events`` of the result tells when. Where adaptive steps are used instead and a neuron slides, they
    chatter across the boundary at a smallest step, and ``status`` says so. A flow that has come to rest for good is not
    integrated further; its last state stands for the remaining time.

    Args:
        network: the start.
        dataset: full batch.
        loss: ``"square"``, ``"logistic"`` or ``"exponential"``; the last two take targets ±1.
        until: flow time to reach (k descent steps at rate η are t = ηk); may be infinite with a ``stop``.
        method: ``"exact"`` for two-layer networks with one output; adaptive steps by ``"bosh3"``, ``"dopri5"``,
            ``"tsit5"`` or ``"dopri8"``. ``"auto"`` takes the exact flow where it is the better one: on symmetric data,
            for linear networks, and while there are not too many lines and neurons for all their crossings to be met
            one by one. Else it takes Tsit5 for linear networks, and Bosh3 for all others and on the loss clock, where
            kinks make a low order cheaper. ``settings["because"]`` says why.
        rtol: relative tolerance of a step, neuron by neuron.
        atol: absolute tolerance; far below the initial weights by default.
        weight_decay: λ.
        clock: ``"time"``, or ``"loss"`` for dW/ds = −∇L/L, which takes logistic and exponential losses below 1e-300
            (``losses`` then underflow to 0, ``log_losses`` do not). ``until`` and ``save`` are then values of s.
        save: times to keep networks at; a number for so many evenly spaced intervals; by default the solver's own
            steps, thinned to a few hundred.
        stop: a loss level, ``"converged"``, or a ``Stop`` for both or for a log-loss level.
        progress: called a few times a second with a ``Progress``.
        smallest_step: the step to chatter at; by default one at which a smooth field would meet ``rtol``. Asks for
            adaptive steps.
        max_steps: accepted and rejected steps allowed.

    Raises:
        ValueError: arguments out of range, a network that does not fit the data, labels other than ±1.

    >>> from biasfree import Network, datasets
    >>> data = datasets.xor()
    >>> flow = gradient_flow(Network.init([2, 20, 1], 0.0, 1e-3, seed=0), data, until=1.0)
    >>> flow.status.name, float(flow.times[-1])
    ('reached', 1.0)
    """
    until, rtol, smallest = _checked(until, rtol, smallest_step)
    rule = Stop.of(stop)
    if math.isinf(until) and rule == Stop():
        raise ValueError("until=inf needs a stop rule: a loss level or 'converged'.")
    decay = checks.non_negative(weight_decay, "weight_decay")
    problem = _field.problem(network, dataset, loss, decay)
    check_callback(progress)
    if checks.one_of(clock, ("time", "loss"), "clock") == "loss" and loss == "square":
        raise ValueError("clock='loss' is for losses without a minimum, logistic and exponential; got 'square'.")
    kind = _field.Kind(loss, network.architecture, clock)
    chosen, because = _choose(method, network, dataset, clock, smallest)
    absolute = _default_atol(network, rtol) if atol is None else checks.non_negative(atol, "atol")
    points = save_points(save, until, "times")
    settings = {
        "method": chosen, "loss": loss, "clock": clock, "until": until, "rtol": rtol, "atol": absolute,
        "weight_decay": decay, "smallest_step": smallest, "max_steps": checks.count(max_steps, "max_steps"),
        "stop_log_loss": rule.level, "stop_converged": rule.converged, "because": because,
    }  # fmt: skip

    began = clock_time.perf_counter()
    events = None
    if chosen == "exact":
        from biasfree.dynamics import exact  # Numba is loaded when it is needed

        outcome = exact.integrate(network, network.weights, dataset, settings, points, progress)
        recorder, counts, status, events = outcome.recorder, outcome.counts, outcome.status, outcome.events
        if status.name == "stuck" and method == "auto":
            settings["because"] = f"the exact flow {status.message.split('. ')[0]}"
            chosen = settings["method"] = _adaptive(network, clock)
    if chosen != "exact":
        recorder, counts, status = _integrate(network, network.weights, dataset, settings, points, progress)
        events = None
    return Trajectory.assemble(
        recorder,
        events=events,
        network=network,
        dataset=dataset,
        problem=problem,
        kind=kind,
        settings=settings,
        status=status,
        counts=counts,
        seconds=clock_time.perf_counter() - began,
    )


def resume(trajectory: Trajectory, weights: Any, start: float, time: float) -> Any:
    """Integrate from saved ``weights`` at ``start`` to ``time`` with a trajectory's own settings."""
    settings = {**trajectory.settings, "stop_log_loss": -math.inf, "until": time}
    if settings["method"] == "exact":
        from biasfree.dynamics import exact

        outcome = exact.integrate(trajectory.template, weights, trajectory.dataset, settings, None, None, start)
        recorder, status = outcome.recorder, outcome.status
    else:
        weights = tuple(map(jnp.asarray, weights))
        recorder, _, status = _integrate(trajectory.template, weights, trajectory.dataset, settings, None, None, start)
    if status.name not in ("reached", "converged"):
        raise RuntimeError(f"could not integrate to {time:g}: {status.message}")
    return tuple(layer[-1] for layer in recorder.stacked())


def _integrate(
    network: Network,
    weights: _field.Weights,
    dataset: Dataset,
    settings: dict[str, Any],
    points: np.ndarray | None,
    progress: ProgressCallback | None,
    start: float = 0.0,
) -> tuple[Recorder, Counts, Status]:
    """Run the compiled loop in short calls: between them, save, look for a stop, tell the progress."""
    until, method = settings["until"], settings["method"]
    whole = _field.problem(network, dataset, settings["loss"], settings["weight_decay"])
    problem, jump = _field.by_moments(whole, network, settings["loss"]), EarlyJump(network, dataset, settings)
    kind = _field.Kind(settings["loss"], network.architecture, settings["clock"])
    control = _stepper.Control(
        rtol=jnp.asarray(settings["rtol"], dtype=float),
        atol=jnp.asarray(settings["atol"], dtype=float),
        smallest_step=jnp.asarray(settings["smallest_step"], dtype=float),
        initial_log_loss=_field.compiled_log_loss(weights, problem, kind=kind),
        stop_log_loss=jnp.asarray(settings["stop_log_loss"], dtype=float),
    )
    static: dict[str, Any] = {"kind": kind, "method": method}
    state = _stepper.start(weights, problem, control, start, **static)
    recorder = Recorder(weights, points, until - start)
    recorder.offer(start, weights, 0.0, keep=not recorder.asked)
    attempts_per_call, missing, next_look, looked = 4, recorder.steps_to_next, 1, 0
    since, reach = None, _REACH
    leapt = ""
    # A loss level must be seen when it is passed, not jumped over.
    may_rest = kind.clock == "time" and (settings["stop_converged"] or settings["stop_log_loss"] == -math.inf)
    status = None
    if float(control.initial_log_loss) <= settings["stop_log_loss"] > -math.inf:
        status = Status("loss level", "the loss was at the level asked for from the start.")
        recorder.offer(start, weights, 0.0, keep=True)
    try:
        while status is None:
            began = clock_time.perf_counter()
            before = int(state.accepted)
            if not jump.over and before >= jump.next_look:
                attempts = before + int(state.rejected)
                leap = jump.look(
                    state.weights, float(state.time), before, _stepper.evaluations(method, attempts),
                    float(control.initial_log_loss),
                )  # fmt: skip
                if leap is not None:
                    leapt = _told(leap, float(state.time), kind.clock)
                    state = _jump(recorder, leap, state, leap.duration, problem, control, static)
                    status = _ended(state, settings)
                    continue
            # Rest is looked for after numbers of steps that do not depend on the machine's speed.
            quota = min(missing, next_look - before) if may_rest else missing
            quota = quota if jump.over else min(quota, jump.next_look - before)
            state = _stepper.advance(
                state, problem, control, recorder.next_time(until), recorder.pause, quota, attempts_per_call, **static
            )
            time, done = float(state.time), int(state.accepted) - before
            missing -= done
            status = _ended(state, settings)
            # Its own steps as they come due, and always the end; of asked-for times only those, unless cut short.
            own = not recorder.asked and (missing <= 0 or status is not None)
            early = status is not None and status.name != "reached"
            recorder.offer(time, state.weights, float(state.energy), keep=own or early)
            if missing <= 0:
                missing = recorder.steps_to_next
            due = status is None and may_rest and int(state.accepted) >= next_look
            if due:
                next_look += min(1 + next_look // 10, 100)
            if due and _is_slow(state):
                end = until if math.isfinite(until) else 11 * time
                horizon = end - time
                # Over a long time flat directions are not yet known to be flat; at the end of a shorter one they are.
                duration = min(horizon, reach * float(state.step))
                rest, products = find_rest(state.weights, duration, settings["rtol"], problem, kind)
                looked += products
                if rest is None:
                    since, reach = None, _REACH
                    # Soon at first, then every few hundred steps, so that looking stays a small part of the cost.
                    next_look = int(state.accepted) + min(1 + int(state.accepted) // 3, 300)
                elif duration == horizon:
                    status = _finish(recorder, rest, state, end, since or time, settings["stop_converged"])
                else:
                    state = _jump(recorder, rest, state, duration, problem, control, static)
                    since, reach = since or time, 100 * reach
            if progress is not None:
                loss = float(jnp.exp(_field.compiled_log_loss(state.weights, problem, kind=kind)))
                progress(Progress(time, until, int(state.accepted), loss))
            spent = clock_time.perf_counter() - began
            attempts_per_call = next_quota(attempts_per_call, spent)
    except KeyboardInterrupt:
        recorder.offer(float(state.time), state.weights, float(state.energy), keep=True)
        status = Status(
            "interrupted", f"interrupted at {symbol(kind.clock)} = {float(state.time):.6g}; all until then is kept."
        )
    return recorder, _counts(state, method, looked), _with_chatter(status, leapt, state)


def _ended(state: _stepper.State, settings: dict[str, Any]) -> Status | None:
    axis = symbol(settings["clock"])
    time, until = float(state.time), settings["until"]
    if bool(state.failed):
        return Status(
            "not finite",
            f"the weights stopped being finite beyond {axis} = {time:.6g}; what is kept ends there. "
            "Start smaller, rescale the data, or lower until.",
        )
    if bool(state.level_reached):
        return Status("loss level", f"the loss fell to the level asked for at {axis} = {time:.6g}.")
    if time >= until:
        return Status("reached", f"reached {axis} = {until:g}.")
    attempts = int(state.accepted) + int(state.rejected)
    if attempts >= _PATIENCE and math.isfinite(until) and time < _HARDLY * until:
        return Status(
            "step limit",
            f"stopped at {axis} = {time:.3g}: at this pace {axis} = {until:g} is out of reach. "
            "The problem is too stiff; rescale the data, or ask for a shorter time.",
        )
    if attempts >= settings["max_steps"]:
        return Status(
            "step limit",
            f"stopped at {axis} = {time:.6g} after {settings['max_steps']} steps. "
            "Try increasing max_steps, a larger rtol, or a larger smallest_step.",
        )
    return None


def _is_slow(state: _stepper.State) -> bool:
    """Worth a look for rest: fifty more steps at this speed would hardly move the weights."""
    reach = 50 * float(state.step) * math.sqrt(float(state.squared_speed))
    return reach <= 1e-2 * _norm(state.weights)


def _finish(recorder: Recorder, rest: Rest, state: _stepper.State, until: float, since: float, stop: bool) -> Status:
    """Record the way to rest; a run asked to stop when converged jumps to its end."""
    time = float(state.time)
    if stop:
        energy = float(state.energy) + rest.energy(until - time)
        recorder.offer(time, state.weights, float(state.energy), keep=not recorder.asked)
        recorder.offer(math.nextafter(time, math.inf), rest.weights(until - time), energy, keep=True)
        return Status("converged", f"converged at t = {time:.6g}; the last state is where the flow comes to rest.")
    _record(recorder, rest, state, until)
    return Status("reached", f"reached t = {until:g}; coming to rest, in closed form, from t = {since:.6g} on.")


def _record(recorder: Recorder, rest: Rest | Leap, state: _stepper.State, until: float) -> None:
    """Offer what is to be saved between here and ``until`` on a way known in closed form."""
    time, energy = float(state.time), float(state.energy)
    recorder.offer(time, state.weights, energy, keep=not recorder.asked)
    while (saved := min(recorder.next_time(until), recorder.pause)) < until:
        recorder.offer(saved, rest.weights(saved - time), energy + rest.energy(saved - time))
    recorder.offer(until, rest.weights(until - time), energy + rest.energy(until - time), keep=not recorder.asked)


def _jump(
    recorder: Recorder,
    rest: Rest | Leap,
    state: _stepper.State,
    duration: float,
    problem: _field.Problem,
    control: _stepper.Control,
    static: dict[str, Any],
) -> _stepper.State:
    """The state ``duration`` later, by closed form."""
    end = float(state.time) + duration
    _record(recorder, rest, state, end)
    fresh = _stepper.start(rest.weights(duration), problem, control, end, **static)
    kept = ("step", "accepted", "rejected", "smallest", "caution", "chattered", "chatter_step")
    energy = state.energy + rest.energy(duration)
    return fresh._replace(energy=energy, **{name: getattr(state, name) for name in kept})


def _told(leap: Leap, time: float, clock: str) -> str:
    return (
        f" The early phase from {symbol(clock)} = {time:.6g} to {time + leap.duration:.6g} is in closed form, with "
        f"{leap.switches} switches."
    )


def _with_chatter(status: Status, leapt: str, state: _stepper.State) -> Status:
    chattered = int(state.chattered)
    status = status._replace(message=status.message + leapt)
    if not chattered:
        return status
    return status._replace(
        message=f"{status.message} It chattered: in {chattered} of {int(state.accepted)} steps, the smallest of them "
        f"{float(state.chatter_step):.3g}, neurons crossed an activation boundary straight back; where they slide "
        "along it, they are followed to about such a step only."
    )


def _counts(state: _stepper.State, method: str, products: int) -> Counts:
    """A product of the Hessian with a vector counts as two evaluations of the gradient."""
    accepted, rejected, chattered = int(state.accepted), int(state.rejected), int(state.chattered)
    return Counts(
        evaluations=_stepper.evaluations(method, accepted + rejected) + 2 * products,
        accepted=accepted,
        rejected=rejected,
        chattered=chattered,
        smallest_step=float(state.smallest),
        chatter_step=float(state.chatter_step) if chattered else 0.0,
    )


def _checked(until: float, rtol: float, smallest_step: float | None) -> tuple[float, float, float]:
    end = math.inf if until == math.inf else checks.positive(until, "until", remedy="It is the flow time to reach.")
    relative = checks.positive(rtol, "rtol")
    if not 1e-13 <= relative <= 0.1:
        raise ValueError(f"rtol must lie between 1e-13 and 0.1, got {rtol!r}.")
    smallest = 0.0 if smallest_step is None else checks.positive(smallest_step, "smallest_step")
    return end, relative, smallest


def _choose(method: str, network: Network, dataset: Dataset, clock: str, smallest: float) -> tuple[str, str]:
    """The method, and why."""
    fits = network.depth == 2 and not any(network.skips) and network.widths[-1] == 1
    if checks.one_of(method, METHODS, "method") == "exact" and not fits:
        raise ValueError("method='exact' is for two-layer networks with one output. Use method='auto'.")
    if method != "auto":
        return method, "asked for"
    if not fits:
        return _adaptive(network, clock), "the exact flow is for two layers and one output"
    if smallest:
        return _adaptive(network, clock), "a smallest step was asked for"
    if network.is_linear:
        return "exact", "a linear network"
    found = lines(dataset.inputs)
    work = len(found) * network.widths[1]
    if work <= _CROSSINGS:
        return "exact", f"{len(found)} lines, {network.widths[1]} neurons"
    if found.pairs_up(dataset.targets):
        return "exact", "symmetric data"
    because = f"{len(found)} lines and {network.widths[1]} neurons would cross too often to meet all crossings"
    return _adaptive(network, clock), because


def _adaptive(network: Network, clock: str) -> str:
    """Low order wins on kinks: on large generic data Bosh3 takes half of Tsit5's evaluations, with smaller errors."""
    return "bosh3" if clock == "loss" or not network.is_linear else "tsit5"


def _default_atol(network: Network, rtol: float) -> float:
    """Far below the weights: they may be 1e-8 small and must still be right in proportion."""
    size = _norm(network.weights) / math.sqrt(sum(w.size for w in network.weights))
    return max(1e-6 * rtol * size, 1e-300)


def _norm(weights: Any) -> float:
    return math.sqrt(sum(float(np.vdot(w, w)) for w in map(np.asarray, weights)))
