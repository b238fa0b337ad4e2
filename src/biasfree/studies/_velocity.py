"""The gradient flow's velocity by automatic differentiation, to hold the printed equations of motion against."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import biasfree as bf


def velocity(network: bf.Network, data: bf.Dataset, loss: str = "square") -> list[np.ndarray]:
    """Ẇ = −∂L/∂W, layer by layer."""
    return [-np.asarray(layer) for layer in _gradient(network, data.inputs, data.targets, loss=loss).weights]


# As the papers define them (the logistic one with its sign), and not as the flow computes them.
_LOSSES: dict[str, Any] = {
    "square": lambda f, y: 0.5 * jnp.sum((y - f) ** 2) / len(y),
    "logistic": lambda f, y: jnp.mean(jnp.log1p(jnp.exp(-y * f))),
}


@partial(jax.jit, static_argnames="loss")
def _gradient(network: bf.Network, inputs: Any, targets: Any, *, loss: str) -> bf.Network:
    return jax.grad(lambda each: _LOSSES[loss](each(inputs), targets))(network)


def apart(measured: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """‖measured − expected‖/‖measured‖, all layers together."""
    gap = sum(float(np.sum((a - b) ** 2)) for a, b in zip(measured, expected, strict=True))
    return float(np.sqrt(gap / sum(float(np.sum(a**2)) for a in measured)))
