"""Gradient descent: the papers' protocol, one compiled loop."""

import time as clock_time
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _field
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._settings import Progress, ProgressCallback, Status, check_callback, next_quota, save_points
from biasfree.dynamics._trajectory import Counts, Trajectory
from biasfree.networks import Network

_DEFAULT_SAVES = 200


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
        loss: ``"square"``, ``"logistic"`` or ``"exponential"``.
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
    problem = _field.problem(network, dataset, loss, decay)
    kind = _field.Kind(loss, network.architecture)
    check_callback(progress)
    points = save_points(min(_DEFAULT_SAVES, total) if save is None else save, total, "steps")
    assert points is not None
    if isinstance(save, Iterable) and (points != np.round(points)).any():
        raise ValueError("save must be whole steps for descent; a flow time t is step t/learning_rate.")
    settings = {
        "method": "descent", "loss": loss, "clock": "time", "until": rate * total, "steps": total,
        "learning_rate": rate, "weight_decay": decay,
    }  # fmt: skip

    began = clock_time.perf_counter()
    recorder, done, status = _descend(
        network.weights, problem, kind, rate, np.unique(np.round(points)), total, progress
    )
    return Trajectory.assemble(
        recorder,
        network=network,
        dataset=dataset,
        problem=problem,
        kind=kind,
        settings=settings,
        status=status,
        counts=Counts(evaluations=done, accepted=done, smallest_step=rate),
        seconds=clock_time.perf_counter() - began,
    )


def resume(trajectory: Trajectory, weights: Any, start: float, time: float) -> Any:
    """Descend from saved ``weights`` at ``start`` to the last whole step before ``time``."""
    settings = trajectory.settings
    rate = settings["learning_rate"]
    problem = _field.problem(trajectory.template, trajectory.dataset, settings["loss"], settings["weight_decay"])
    kind = _field.Kind(settings["loss"], trajectory.template.architecture)
    steps = int(np.floor(time / rate * (1 + 1e-12))) - round(start / rate)
    after, _ = _steps(tuple(map(jnp.asarray, weights)), 0.0, problem, rate, steps, kind=kind)
    return after


def _descend(
    weights: _field.Weights,
    problem: _field.Problem,
    kind: _field.Kind,
    rate: float,
    points: np.ndarray,
    total: int,
    progress: ProgressCallback | None,
) -> tuple[Recorder, int, Status]:
    """Run the compiled loop in short calls; the recorder counts steps, which become times at the end."""
    recorder = Recorder(weights, points * rate, rate * total)
    recorder.offer(0.0, weights, 0.0)
    # Of full type, like what the loop makes of it: it is compiled once.
    step, quota, energy = 0, 4, jnp.asarray(0.0, float)
    status = Status("reached", f"took {total} steps of {rate:g}, flow time {rate * total:g}.")
    upcoming = iter([*points[points > 0], total])
    target = int(next(upcoming))
    try:
        while step < total:
            began = clock_time.perf_counter()
            count = min(quota, target - step)
            new, new_energy = jax.block_until_ready(_steps(weights, energy, problem, rate, count, kind=kind))
            if not bool(jnp.isfinite(_field.squared_norm(new))):
                status = Status(
                    "not finite",
                    f"diverged between steps {step} and {step + count}; what is kept ends at step {step}. "
                    f"Try a learning rate below {rate:g}.",
                )
                recorder.offer(step * rate, weights, float(energy), keep=True)
                break
            weights, energy, step = new, new_energy, step + count
            recorder.offer(step * rate, weights, float(energy))
            if step == target:
                target = int(next(upcoming, total))
            if progress is not None:
                loss = float(jnp.exp(_field.compiled_log_loss(weights, problem, kind=kind)))
                progress(Progress(step * rate, total * rate, step, loss))
            spent = clock_time.perf_counter() - began
            quota = next_quota(quota, spent)
    except KeyboardInterrupt:
        recorder.offer(step * rate, weights, float(energy), keep=True)
        status = Status("interrupted", f"interrupted after {step} of {total} steps; all until then is kept.")
    return recorder, step, status


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
