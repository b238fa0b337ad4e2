"""Gradient flow: exactly from event to event where that is possible, by adaptive steps where not.

The way of a call: a ``Plan`` (what is asked), a method for it (``_choice``), one loop that runs the method's integrator
(``_loop``), and a judge of what comes out (``_guard``).
"""

import dataclasses
import math
import time as clock_time
from collections.abc import Iterable
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _field, _guard, _loop, _work
from biasfree.dynamics._choice import METHODS, adaptive, choose
from biasfree.dynamics._loop import Outcome
from biasfree.dynamics._pieces import Integrator
from biasfree.dynamics._plan import Plan, Stop
from biasfree.dynamics._progress import ProgressCallback, check_callback
from biasfree.dynamics._recorder import Recorder, save_points
from biasfree.dynamics._standing import Standing, Unbegun, stands_still
from biasfree.dynamics._trajectory import Trajectory
from biasfree.networks import Network

__all__ = ["METHODS", "gradient_flow", "resume"]

_TIGHTEST, _LOOSEST = 1e-13, 0.1  # rtol: below is rounding, above a step says nothing
_TIGHTER = 0.01  # of rtol, where a result was refused
_MOST_STEPS = 2_000_000  # of which only the smallest networks can take so many within the work of a run
_BELOW_START = 1e-6  # of rtol times the start's size: the absolute tolerance, far below weights that matter


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
    max_steps: int | None = None,
) -> Trajectory:
    """Train by gradient flow: Ẇ = −∇L(W) − λW, from t = 0 to ``until``.

    The exact flow of a two-layer network goes from one activation boundary to the next, and along those on which
    neurons slide; ``events`` of the result says when. Where adaptive steps are used instead and a neuron slides, they
    chatter across the boundary at a smallest step, and ``status`` says so. Adaptive steps end where the flow comes to
    rest: what is left of the way is then in closed form, and ``stretches`` of the result says from when on.

    Every result is judged before it is handed out: weights and losses must be numbers, the objective may not rise, and
    the gauges must lie within a stated multiple of ``rtol``. Else ``status`` is "inaccurate" or "not finite", and says
    by which gauge.

    Args:
        network: the start.
        dataset: full batch.
        loss: ``"square"``, ``"logistic"``, ``"exponential"`` or ``"cross-entropy"``; the second and third take targets
            ±1, the last one classes or their probabilities (softmax over the outputs).
        until: flow time to reach (k descent steps at rate η are t = ηk); may be infinite with a ``stop``.
        method: ``"exact"`` for two-layer networks; adaptive steps by ``"bosh3"``, ``"dopri5"``,
            ``"tsit5"`` or ``"dopri8"``, or by ``"rkc"``, whose steps stay stable however long they are. ``"auto"``
            takes the exact flow where it is the better one: on symmetric data with one output, for linear networks, and
            while there are not too many lines and neurons for all their crossings to be met one by one. Else it takes
            Tsit5 for linear networks and for symmetric data with several outputs, RKC for two layers from rtol 1e-4 on,
            and Bosh3 for all others and on the loss clock, where kinks make a low order cheaper; there, on generic data
            of hundreds of samples and neurons, steps chatter and are no better than descent at a small rate. If the
            exact flow gets stuck, adaptive steps go on from where it stands; if its result is not to be trusted, they
            begin again. ``settings["because"]`` says why.
        rtol: relative tolerance of a step, neuron by neuron.
        atol: absolute tolerance of adaptive steps; far below the initial weights by default. The exact flow does not
            use it: every neuron is judged by its own size.
        weight_decay: λ.
        clock: ``"time"``, or ``"loss"`` for dW/ds = −∇L/L, which takes all but square losses below 1e-300
            (``losses`` then underflow to 0, ``log_losses`` do not). ``until`` and ``save`` are then values of s.
        save: times to keep networks at; a number for so many evenly spaced intervals; by default the solver's own
            steps, thinned to a few hundred.
        stop: a loss level, ``"converged"``, or a ``Stop`` for both or for a log-loss level.
        progress: called a few times a second with a ``Progress``.
        smallest_step: the step to chatter at; by default one at which a smooth field would meet ``rtol``. Asks for
            adaptive steps.
        max_steps: accepted and rejected steps allowed. By default a run by ``"auto"`` ends, with the status "step
            limit", after work that takes some ten seconds for a small problem and more in proportion for a large one;
            hardly any needs so much. Work is counted and never timed, so that a run ends at the same step on any
            machine. Runs by a method that was asked for may go on for two million steps.

    Raises:
        ValueError: arguments out of range, a network that does not fit the data, labels other than ±1.

    >>> from biasfree import Network, datasets
    >>> data = datasets.xor()
    >>> flow = gradient_flow(Network.init([2, 20, 1], 0.0, 1e-3, seed=0), data, until=1.0)
    >>> flow.status.name, float(flow.times[-1])
    ('reached', 1.0)
    """
    plan = _planned(
        network, dataset, loss=loss, until=until, rtol=rtol, atol=atol, weight_decay=weight_decay, clock=clock,
        stop=Stop.of(stop), smallest_step=smallest_step, max_steps=max_steps, asked=method != "auto",
    )  # fmt: skip
    check_callback(progress)
    chosen, because = choose(method, plan)
    points = save_points(save, plan.until, "times")

    began = clock_time.perf_counter()

    def finished(outcome: Outcome, method: str, because: str, plan: Plan = plan, **more: Any) -> Trajectory:
        settings = plan.settings(method, because) | more
        return _guard.judged(Trajectory.assemble(outcome, plan, settings, clock_time.perf_counter() - began))

    outcome = _integrate(plan, chosen, _recorder(plan, points), progress)
    result = finished(outcome, chosen, because)
    if chosen != "exact" or method != "auto":
        return result
    other = adaptive(network, clock)
    if outcome.status.name == "stuck":
        time = outcome.last[0]
        because = f"the exact flow was stuck at {plan.axis} = {time:.6g}; {other} went on from there"
        return finished(_taken_up(plan, outcome, other, progress), other, because, exact_until=time)
    if outcome.status.complete and not result.status.complete:
        refused = result.status.message.split(". ")[0]
        left = plan.max_work - outcome.counts.work
        if plan.rtol * _TIGHTER >= _TIGHTEST:  # mostly one decision that was too close at this tolerance
            tighter = dataclasses.replace(plan, rtol=_TIGHTER * plan.rtol, max_work=left)
            told = f"{because}; the result at rtol {plan.rtol:g} was {refused}"
            again = finished(_integrate(tighter, chosen, _recorder(plan, points), progress), chosen, told, tighter)
            if again.status.complete or again.status.name == "interrupted":
                return again
            left -= again.counts.work
        # What was refused says by how much, and came to the end; adaptive steps would lose as much and not say so.
        if left <= 0 or _guard.is_lost_to_rounding(result):
            return result
        because = f"the exact flow's result was {refused}"
        steps = dataclasses.replace(plan, max_work=left)
        other_result = finished(_integrate(steps, other, _recorder(plan, points), progress), other, because, plan)
        return result if other_result.status.name == "step limit" else other_result
    return result


def resume(trajectory: Trajectory, weights: Any, start: float, time: float) -> Any:
    """Integrate from saved ``weights`` at ``start`` to ``time`` with a trajectory's own settings."""
    settings = trajectory.settings
    plan = Plan(
        trajectory.template.with_weights(weights), trajectory.dataset, settings["loss"], time, settings["rtol"],
        settings["atol"], settings["weight_decay"], settings["clock"], max_steps=settings["max_steps"] or _MOST_STEPS,
        smallest_step=settings["smallest_step"], start=start,
    )  # fmt: skip
    method = "exact" if start < settings.get("exact_until", -math.inf) else settings["method"]
    outcome = _integrate(plan, method, _recorder(plan, np.array([time])), None)
    if not outcome.status.complete:
        raise RuntimeError(f"could not integrate to {time:g}: {outcome.status.message}")
    return outcome.last[1].weights


def _integrate(plan: Plan, method: str, recorder: Recorder, progress: ProgressCallback | None) -> Outcome:
    """Run one method; a start that nothing moves needs none."""
    from biasfree.dynamics.exact import one_thread

    # A matrix library's threads look for more work long after a product, on the processors that steps by line want.
    with one_thread():
        try:
            integrator, by_one = _integrator(plan, method)
        except KeyboardInterrupt:
            integrator, by_one = Unbegun(), True
        if by_one:
            return _loop.run(integrator, plan, recorder, progress)
    return _loop.run(integrator, plan, recorder, progress)


def _integrator(plan: Plan, method: str) -> tuple[Integrator, bool]:
    """Who takes the steps, and whether with one thread; adaptive ones begin with the velocity at the start."""
    if method == "exact":
        from biasfree.dynamics.exact import Exact

        return Exact(plan), True
    from biasfree.dynamics._adaptive import Adaptive  # and SciPy's integrators

    steps = Adaptive(plan, method)
    return Standing(plan) if not steps.moves and stands_still(plan) else steps, steps.by_line


def _taken_up(plan: Plan, outcome: Outcome, method: str, progress: ProgressCallback | None) -> Outcome:
    """Go on by ``method`` from where a run ended; what it saved stays, and its energy is carried on."""
    time, point = outcome.last
    steps = max(1, plan.max_steps - outcome.counts.accepted - outcome.counts.rejected)
    network = plan.network.with_weights(point.weights)
    left = plan.max_work - outcome.counts.work
    rest = dataclasses.replace(plan, network=network, start=time, max_steps=steps, max_work=left)
    outcome.recorder.carried = point.energy
    return outcome.followed_by(_integrate(rest, method, outcome.recorder, progress))


def _recorder(plan: Plan, points: np.ndarray | None) -> Recorder:
    return Recorder(plan.network.weights, points, plan.until - plan.start)


def _planned(
    network: Network,
    dataset: Dataset,
    *,
    until: float,
    rtol: float,
    atol: float | None,
    weight_decay: float,
    loss: str,
    clock: str,
    stop: Stop,
    smallest_step: float | None,
    max_steps: int | None,
    asked: bool,
) -> Plan:
    """What is asked, checked; ``asked`` says that a method was."""
    end = math.inf if until == math.inf else checks.positive(until, "until", remedy="It is the flow time to reach.")
    relative = checks.positive(rtol, "rtol")
    if not _TIGHTEST <= relative <= _LOOSEST:
        raise ValueError(f"rtol must lie between {_TIGHTEST:g} and {_LOOSEST:g}, got {rtol!r}.")
    if math.isinf(end) and stop == Stop():
        raise ValueError("until=inf needs a stop rule: a loss level or 'converged'.")
    decay = checks.non_negative(weight_decay, "weight_decay")
    _field.problem(network, dataset, loss, decay)
    dataset = _field.encoded(dataset, loss)
    if checks.one_of(clock, ("time", "loss"), "clock") == "loss" and loss == "square":
        raise ValueError(
            "clock='loss' is for losses without a minimum, logistic, exponential and cross-entropy; got 'square'."
        )
    return Plan(
        network,
        dataset,
        loss,
        end,
        relative,
        _default_atol(network, relative) if atol is None else checks.non_negative(atol, "atol"),
        decay,
        clock,
        stop,
        _MOST_STEPS if max_steps is None else checks.count(max_steps, "max_steps"),
        0.0 if smallest_step is None else checks.positive(smallest_step, "smallest_step"),
        max_work=math.inf if asked or max_steps is not None else _work.allowed(network, dataset),
    )


def _default_atol(network: Network, rtol: float) -> float:
    """Far below the weights: they may be 1e-8 small and must still be right in proportion."""
    flat = np.concatenate([np.ravel(np.asarray(layer)) for layer in network.weights])
    largest = float(np.abs(flat).max())  # taken out first: squares of 1e-200 are zero
    size = largest * float(np.sqrt(np.mean((flat / largest) ** 2))) if largest else 0.0
    return max(_BELOW_START * rtol * size, 1e-300)
