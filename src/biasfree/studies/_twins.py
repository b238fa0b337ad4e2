"""A network and the linear network that Theorem 5 sets beside it: matching runs, and how far apart they are."""

from typing import Any

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import TIMES, tight_flow


def tight_twins(
    start: bf.Network, data: bf.Dataset, times: np.ndarray = TIMES, weight_decay: float = 0.0, **options: Any
) -> tuple[bf.Trajectory, bf.Trajectory]:
    """The flow of ``start`` at ``times`` and its twin's at the times that Eq. 4 names, each to about 1e-10."""
    slope = start.slope
    run = tight_flow(start, data, times, weight_decay=weight_decay, **options)
    decay = theory.linear_weight_decay(weight_decay, slope)
    twin = tight_flow(theory.linear_twin(start), data, theory.linear_time(times, slope), weight_decay=decay, **options)
    return run, twin


def function_errors(run: bf.Trajectory, twin: bf.Trajectory) -> np.ndarray:
    """Eq. 4, save by save: root mean square of f − f_lin on (up to 500 of) the inputs, relative to the targets'."""
    every = -(-run.dataset.samples // 500)
    inputs, targets = run.dataset.inputs[::every], run.dataset.targets
    linear = inputs @ (twin.weights[1] @ twin.weights[0]).mT
    apart = np.array([np.reshape(network(inputs), linear.shape[1:]) for network in run.networks]) - linear
    return np.sqrt(np.mean(apart**2, axis=(1, 2)) / np.mean(targets**2))


def weight_errors(run: bf.Trajectory, twin: bf.Trajectory) -> np.ndarray:
    """Eq. 5, save by save: ‖√((α+1)/2) W − W_lin‖/‖W_lin‖, both layers together."""
    factor = theory.weight_factor(run.template.slope)
    apart = sum(np.sum((w / factor - v) ** 2, axis=(1, 2)) for w, v in zip(run.weights, twin.weights, strict=True))
    return np.sqrt(apart / sum(np.sum(v**2, axis=(1, 2)) for v in twin.weights))
