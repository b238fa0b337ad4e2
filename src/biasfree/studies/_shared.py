"""Runs that several studies share. One shape of data and network for all small ones, so that it is compiled once."""

from typing import Any

import numpy as np

import biasfree as bf

DIM, PAIRS, WIDTH = 5, 50, 20
TIMES = np.linspace(0, 40, 81)


def small_set(seed: int, *, white: bool = False, labels: bool = False) -> bf.Dataset:
    """Even inputs with an odd target: 50 pairs in five dimensions, y = wᵀx + sin 4wᵀx or its sign."""
    data = bf.datasets.symmetric_gaussian(DIM, PAIRS, "linear_plus_sine", white, seed=seed)
    return bf.Dataset(data.inputs, np.sign(data.targets), data.name, data.origin) if labels else data


def tight_flow(
    network: bf.Network, data: bf.Dataset, times: np.ndarray = TIMES, method: str = "tsit5", **options: Any
) -> bf.Trajectory:
    """A flow accurate to about 1e-10, saved at 81 times."""
    return bf.gradient_flow(network, data, until=float(times[-1]), save=times, rtol=1e-10, method=method, **options)
