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
from biasfree.dynamics import _loop, _rerun, _status, _work
from biasfree.dynamics._choice import Choice, choose
from biasfree.dynamics._guard import Verdict, judge
from biasfree.dynamics._loop import Outcome
from biasfree.dynamics._plan import MOST_STEPS, TIGHTEST, Plan, Stop, planned
from biasfree.dynamics._progress import ProgressCallback
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._rerun import Rerun
from biasfree.dynamics._standing import Unbegun
from biasfree.dynamics._trajectory import Trajectory
from biasfree.dynamics.methods import BY_NAME, METHODS, Begun
from biasfree.networks import Network

__all__ = ["METHODS", "gradient_flow", "resume"]

_TIGHTER = 0.01  # of rtol, where a result was refused


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
            exact flow gets stuck, adaptive steps go on from where it stands; if its result is not to be trusted, it
            is found once more at a hundredth of rtol, and if need be by adaptive steps. ``settings["because"]`` tells.
            With several outputs the exact flow is run twice, the second time in turned axes and at a tenth of rtol:
            how far both are apart is ``counts.rerun_gap``.
        rtol: relative tolerance of a step, neuron by neuron.
        atol: absolute tolerance of adaptive steps; far below the initial weights by default. The exact flow does not
            use it: every neuron is judged by its own size.
        weight_decay: λ.
        clock: ``"time"``, or ``"loss"`` for dW/ds = −∇L/L, which takes all but square losses below 1e-300
            (``losses`` then underflow to 0, ``log_losses`` do not). ``until`` and ``save`` are then values of s.
        save: times to keep networks at; a number for so many evenly spaced intervals; by default the solver's own
            steps, thinned to a few hundred.
        stop: a loss level, ``"converged"``, or a ``Stop`` for both or for a log-loss level.
        progress: called a few times a second with a ``Progress``; of both runs where there are two.
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
    plan = planned(
        network, dataset, loss=loss, until=until, rtol=rtol, atol=atol, weight_decay=weight_decay, clock=clock,
        save=save, stop=stop, smallest_step=smallest_step, max_steps=max_steps, asked=method != "auto",
    )  # fmt: skip
    checks.callback(progress)
    choice = choose(method, plan)
    runs = _Runs(progress, clock_time.perf_counter())
    outcome, verdict = runs.new(plan, choice.method, choice.because)
    if choice.fallback is None:
        return verdict.trajectory
    if outcome.status.name == "stuck":
        return runs.taken_up(outcome, plan, choice.fallback)
    if outcome.status.complete and verdict.refusal is not None:
        return _mended(runs, plan, choice, choice.fallback, verdict, verdict.refusal)
    return verdict.trajectory


def resume(trajectory: Trajectory, weights: Any, start: float, time: float) -> Any:
    """Integrate from saved ``weights`` at ``start`` to ``time`` with a trajectory's own settings."""
    settings = trajectory.settings
    network, data = trajectory.template.with_weights(weights), trajectory.dataset
    plan = Plan(
        network, data, settings["loss"], time, settings["rtol"], settings["atol"], settings["weight_decay"],
        settings["clock"], max_steps=settings["max_steps"] or MOST_STEPS,
        max_work=math.inf if settings["max_steps"] else _work.allowed(network, data),
        smallest_step=settings["smallest_step"], start=start, save=np.array([time]),
    )  # fmt: skip
    method = "exact" if start < settings.get("exact_until", -math.inf) else settings["method"]
    outcome = _integrate(plan, method, Recorder.of(plan), None)
    if not outcome.status.complete:
        raise RuntimeError(f"could not integrate to {time:g}: {outcome.status.message}")
    return outcome.last[1].weights


@dataclasses.dataclass(frozen=True)
class _Runs:
    """The runs of one call, mostly one: they share a callback, and when the first of them began."""

    progress: ProgressCallback | None
    began: float

    def new(self, plan: Plan, method: str, because: str) -> tuple[Outcome, Verdict]:
        """From the start."""
        outcome = _integrate(plan, method, Recorder.of(plan), self.progress)
        if plan.network.weights[-1].shape[0] > 1 and _rerun.is_due(outcome, plan, method):
            outcome = self._looked_at_again(outcome, plan, method)
        return outcome, self._judged(outcome, plan, method, because)

    def _looked_at_again(self, outcome: Outcome, plan: Plan, method: str) -> Outcome:
        """With what it is off by, as a second run tells; there is none of one that did not come to its end."""
        if not outcome.status.complete:
            return dataclasses.replace(outcome, status=outcome.status.saying(_status.NOT_RUN_AGAIN))
        rerun = Rerun.of(outcome, plan)
        other = _integrate(rerun.plan, method, Recorder.of(rerun.plan), self.progress)
        if not other.status.complete:
            outcome = dataclasses.replace(outcome, status=outcome.status.saying(_status.ONLY_TO.format(other.last[0])))
        evaluations = outcome.counts.evaluations + other.counts.evaluations
        gap = rerun.gap(outcome.recorder, other.recorder)
        return dataclasses.replace(
            outcome, counts=dataclasses.replace(outcome.counts, evaluations=evaluations, rerun_gap=gap)
        )

    def taken_up(self, outcome: Outcome, plan: Plan, method: str) -> Trajectory:
        """Go on by ``method`` from where a run was stuck; what it saved stays, and its energy is carried on."""
        time, point = outcome.last
        steps = max(1, plan.max_steps - outcome.counts.accepted - outcome.counts.rejected)
        network = plan.network.with_weights(point.weights)
        left = plan.max_work - outcome.counts.work
        rest = dataclasses.replace(plan, network=network, start=time, max_steps=steps, max_work=left)
        outcome.recorder.carried = point.energy
        whole = outcome.followed_by(_integrate(rest, method, outcome.recorder, self.progress))
        because = _status.because_stuck(plan.axis, time, method)
        result = self._judged(whole, plan, method, because).trajectory
        return dataclasses.replace(result, settings={**result.settings, "exact_until": time})

    def _judged(self, outcome: Outcome, plan: Plan, method: str, because: str) -> Verdict:
        return judge(Trajectory.of_flow(outcome, plan, method, because, clock_time.perf_counter() - self.began))


def _mended(
    runs: _Runs, plan: Plan, choice: Choice, fallback: str, verdict: Verdict, refusal: _status.Refusal
) -> Trajectory:
    """In place of a result that was refused, one at a hundredth of the tolerance; if that is too, one by ``fallback``.

    What was refused is handed out itself where neither is any better, or no work is left for them.
    """
    result = verdict.trajectory
    left = plan.max_work - result.counts.work
    if plan.rtol * _TIGHTER >= TIGHTEST:  # mostly one decision that was too close at this tolerance
        tighter = dataclasses.replace(plan, rtol=_TIGHTER * plan.rtol, max_work=left)
        told = _status.because_refused_at(choice.because, plan.rtol, refusal)
        again = runs.new(tighter, choice.method, told)[1].trajectory
        if again.status.complete or again.status.name == "interrupted":
            return again
        left -= again.counts.work
    # What was refused says by how much, and came to the end; adaptive steps would lose as much and not say so.
    if left <= 0 or verdict.lost_to_rounding:
        return result
    steps = dataclasses.replace(plan, max_work=left)
    other = runs.new(steps, fallback, _status.because_refused(refusal))[1].trajectory
    return result if other.status.name == "step limit" else other


def _integrate(plan: Plan, method: str, recorder: Recorder, progress: ProgressCallback | None) -> Outcome:
    """Run one method."""
    from biasfree.dynamics.exact import one_thread

    # A matrix library's threads look for more work long after a product, on the processors that steps by line want.
    with one_thread():
        try:
            begun = BY_NAME[method].begin(plan)
        except KeyboardInterrupt:
            begun = Begun(Unbegun(), one_thread=True)
        if begun.one_thread:
            return _loop.run(begun.integrator, plan, recorder, progress)
    return _loop.run(begun.integrator, plan, recorder, progress)
