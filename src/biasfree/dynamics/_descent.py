"""Gradient descent: the papers' protocol, one compiled loop."""

import math
import sys
import time as clock_time
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _field, _guard, _loop, _status
from biasfree.dynamics._pieces import Budget, Counts, Piece, Point
from biasfree.dynamics._plan import Plan, save_points
from biasfree.dynamics._progress import ProgressCallback
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._trajectory import Trajectory
from biasfree.native import announced
from biasfree.networks import Network
from biasfree.switching import Switches

_DEFAULT_SAVES = 200
_WHOLE = 1e-12  # relative rounding of a flow time that is a whole number of steps


def gradient_descent(
    network: Network,
    dataset: Dataset,
    *,
    loss: str = "square",
    learning_rate: float,
    steps: int,
    weight_decay: float = 0.0,
    save: int | Iterable[int] | None = None,
    progress: ProgressCallback | None = None,
) -> Trajectory:
    """Train by full-batch gradient descent: W ← W − η(∇L(W) + λW), ``steps`` times.

    Args:
        network: the start.
        dataset: full batch.
        loss: ``"square"``, ``"logistic"``, ``"exponential"`` or ``"cross-entropy"``.
        learning_rate: η; step k is flow time t = ηk, and ``times`` are in these units.
        steps: number of steps.
        weight_decay: λ.
        save: steps to keep networks at; a number for so many evenly spaced intervals; 200 by default.
        progress: called a few times a second with a ``Progress``.

    Raises:
        ValueError: arguments out of range, a network that does not fit the data, labels other than ±1.

    >>> from biasfree import Network, datasets
    >>> start = Network.init([2, 20, 1], 0.0, 1e-3, seed=0)
    >>> run = gradient_descent(start, datasets.xor(), learning_rate=0.01, steps=100, save=[0, 50, 100])
    >>> run.times
    array([0. , 0.5, 1. ])
    """
    rate, total = checks.positive(learning_rate, "learning_rate"), checks.count(steps, "steps")
    decay = checks.non_negative(weight_decay, "weight_decay")
    _field.problem(network, dataset, loss, decay)
    dataset = _field.encoded(dataset, loss)
    checks.callback(progress)
    points = save_points(min(_DEFAULT_SAVES, total) if save is None else save, total, "steps")
    assert points is not None
    if isinstance(save, Iterable) and (points != np.round(points)).any():
        raise ValueError("save must be whole steps for descent; a flow time t is step t/learning_rate.")
    plan = Plan(network, dataset, loss, rate * total, rtol=0.0, atol=0.0, weight_decay=decay, max_steps=sys.maxsize)
    settings = {
        "method": "descent", "loss": loss, "clock": "time", "until": rate * total, "steps": total,
        "learning_rate": rate, "weight_decay": decay,
    }  # fmt: skip

    began = clock_time.perf_counter()
    recorder = Recorder(network.weights, np.unique(np.round(points)) * rate, plan.until)
    outcome = _loop.run(Descent(plan, rate, total), plan, recorder, progress)
    return _guard.judged(Trajectory.assemble(outcome, plan, settings, clock_time.perf_counter() - began))


def resume(trajectory: Trajectory, weights: Any, start: float, time: float) -> Any:
    """Descend from saved ``weights`` at ``start`` to the last whole step before ``time``."""
    settings = trajectory.settings
    rate = settings["learning_rate"]
    problem = _field.problem(trajectory.template, trajectory.dataset, settings["loss"], settings["weight_decay"])
    kind = _field.Kind(settings["loss"], trajectory.template.architecture)
    steps = int(np.floor(time / rate * (1 + _WHOLE))) - round(start / rate)
    after, _ = _steps(tuple(map(jnp.asarray, weights)), 0.0, problem, rate, steps, kind=kind)
    return after


class Descent:
    """Descent as an integrator: a piece is so many steps of one size, and time is their number times the rate."""

    dense = False

    def __init__(self, plan: Plan, learning_rate: float, steps: int) -> None:
        """From the plan's network, ``steps`` of them."""
        self._rate, self._total, self._done = learning_rate, steps, 0
        self._problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
        self._kind = _field.Kind(plan.loss, plan.network.architecture)
        # Of full type, like what the loop makes of it: it is compiled once.
        self._weights = tuple(map(jnp.asarray, plan.network.weights))
        self._energy = jnp.asarray(0.0, float)

    def advance(self, budget: Budget) -> Piece:
        """Go on, within the budget."""
        done, rate = self._done, self._rate
        count = min(budget.attempts, budget.steps, min(round(budget.until / rate), self._total) - done)
        with announced("descent"):
            after = _steps(self._weights, self._energy, self._problem, rate, count, kind=self._kind)
            weights, energy = jax.block_until_ready(after)
        if not bool(jnp.isfinite(_field.squared_norm(weights))):
            return self._piece(done, ended=_status.diverged(done, done + count, rate))
        self._weights, self._energy, self._done = weights, energy, done + count
        return self._piece(done, ended=_status.descended(done + count, rate) if self._done >= self._total else None)

    def _piece(self, begun: int, ended: _status.Status | None) -> Piece:
        weights, energy, rate = self._weights, self._energy, self._rate

        def at(_: float) -> Point:
            return Point(tuple(np.asarray(w) for w in weights), float(energy))

        return Piece(begun * rate, self._done * rate, at, "descent", self._done - begun, dense=False, ended=ended)

    def counts(self) -> Counts:
        """What it has cost so far."""
        return Counts(evaluations=self._done, accepted=self._done, smallest_step=self._rate)

    def remark(self) -> str:
        """Nothing to say."""
        return ""

    def events(self) -> Switches | None:
        """Not known."""
        return None

    def admissibility(self) -> float:
        """Does not apply."""
        return math.nan


@partial(jax.jit, static_argnames="kind")
def _steps(
    weights: _field.Weights, energy: Any, problem: _field.Problem, rate: Any, count: Any, kind: _field.Kind
) -> Any:
    """``count`` steps of descent; also sums η‖Ẇ‖², descent's counterpart of the energy integral."""

    def one(_: Any, carry: Any) -> Any:
        weights, energy = carry
        moving = _field.velocity(weights, problem, kind)
        after = tuple(w + rate * v for w, v in zip(weights, moving, strict=True))
        return after, energy + rate * _field.squared_norm(moving)

    return jax.lax.fori_loop(0, count, one, (weights, jnp.asarray(energy)))
