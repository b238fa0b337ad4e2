"""The losses at single samples in NumPy, for the theory's own small solvers; ``biasfree.losses`` is the flow's.

Cross-entropy takes outputs and targets whose last axis but one is the classes, and shares a sample's loss out among
them.
"""

from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax


def value(loss: str, outputs: Any, targets: Any) -> Any:
    """ℓ(f, y) at each sample; margins of ±inf are allowed."""
    if loss == "square":
        return 0.5 * (targets - outputs) ** 2
    if loss == "cross-entropy":
        margins = logsumexp(outputs, axis=-2, keepdims=True) - outputs
        return targets * np.where(targets > 0, margins, 0.0)
    with np.errstate(over="ignore"):
        return np.logaddexp(0.0, -targets * outputs) if loss == "logistic" else np.exp(-targets * outputs)


def residual(loss: str, outputs: Any, targets: Any) -> Any:
    """−∂ℓ/∂f at each sample."""
    if loss == "square":
        return targets - outputs
    if loss == "cross-entropy":
        return targets - softmax(outputs, axis=-2)
    with np.errstate(over="ignore"):
        return targets * (expit(-targets * outputs) if loss == "logistic" else np.exp(-targets * outputs))


def curvature(loss: str, outputs: Any, targets: Any) -> Any:
    """∂²ℓ/∂f² at each sample, for labels ±1."""
    if loss == "square":
        return np.ones_like(outputs)
    size = np.abs(residual(loss, outputs, targets))
    return size * expit(targets * outputs) if loss == "logistic" else size
