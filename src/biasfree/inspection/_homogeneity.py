"""Is f(cx) = c f(x) for c > 0, and how large is what a network adds to A_x x, its net bias?

For a network without biases both are zero: f(x) = A_x x with A_x = ∂f/∂x (Euler). With biases f(x) = A_x x + b_x.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from biasfree.inspection._function import Function
from biasfree.inspection._points import Points

FACTORS = np.logspace(-3, 3, 13)
_SAMPLES = 200


@dataclass(frozen=True)
class Homogeneity:
    """How far from homogeneous, over samples and over c from 1e-3 to 1e3.

    Attributes:
        error: the largest over c of ‖f(cx) − c f(x)‖/‖c f(x)‖, root mean squares over the samples.
        at_factor: the c where it is largest.
        net_bias: root mean square of f(x) − A_x x relative to that of f(x).
        largest_net_bias: the largest ‖f(x) − A_x x‖/‖f(x)‖ of a sample.
        samples: how many were looked at.
        jointly: whether extra inputs were scaled too.
        by_differences: whether A_x x was measured by differences of values.
    """

    error: float
    at_factor: float
    net_bias: float
    largest_net_bias: float
    samples: int
    jointly: bool
    by_differences: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def measured(function: Function, points: Points, jointly: bool) -> Homogeneity:
    """Both, on at most 200 samples.

    Args:
        function: what is measured.
        points: where.
        jointly: scale extra inputs (noise maps) with x.
    """
    some = points.spread(_SAMPLES)
    plain = function(some)
    size = float(np.linalg.norm(plain)) or 1.0
    errors = [
        float(np.linalg.norm(function(some.scaled(float(c), jointly)) / c - plain)) / size for c in FACTORS if c != 1
    ]
    factors = [float(c) for c in FACTORS if c != 1]
    worst = int(np.argmax(errors))
    first, *rest = some.values
    tangents = (first, *(v if jointly else np.zeros_like(v) for v in rest))
    net = plain - function.along(some, tangents)
    each = np.linalg.norm(net, axis=1)
    whole = np.linalg.norm(plain, axis=1)
    return Homogeneity(
        errors[worst], factors[worst], float(np.linalg.norm(net)) / size,
        float((each / np.where(whole > 0, whole, size)).max()), len(some), jointly, not function.exact,
    )  # fmt: skip
