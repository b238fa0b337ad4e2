"""How nearly a network is a linear map on given inputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.networks import Network


@dataclass(frozen=True)
class Linearity:
    """The linear map nearest to a network on given inputs, and how far the network is from it.

    Attributes:
        error: root mean square of f(x) − Mx over the inputs, relative to that of f; 0 for a function that is linear
            there.
        linear_map: M by least squares, shape (dim,) or (outputs, dim).
    """

    error: float
    linear_map: Float[np.ndarray, "... dim"]

    def __str__(self) -> str:
        """The error in words."""
        return f"linear up to {self.error:.3g} of its output"


def linearity(network: Network, inputs: Float[Any, "samples dim"]) -> Linearity:
    """Distance of a network from the nearest linear map on the inputs, by least squares.

    Args:
        network: any depth.
        inputs: shape (samples, dim). With fewer independent samples than dimensions everything looks linear.

    Raises:
        ValueError: inputs of another dimension.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> linearity(Network.rank_one(3, 8, slope=0.0, init_scale=0.1, seed=0), x).error < 1e-12
    True
    >>> linearity(Network.init([3, 8, 1], slope=0.0, init_scale=0.1, seed=0), x).error > 0.1
    True
    """
    inputs = checks.numeric(inputs, "inputs")
    outputs = np.asarray(network(inputs))
    # Relative to the output's own size, so that 1e-200 is judged like 1.
    size = np.abs(outputs).max(initial=0.0) or 1.0
    fitted, *_ = np.linalg.lstsq(inputs, outputs / size, rcond=None)
    rest = outputs / size - inputs @ fitted
    norm = float(np.linalg.norm(outputs / size))
    return Linearity(float(np.linalg.norm(rest)) / norm if norm else 0.0, size * fitted.T)
