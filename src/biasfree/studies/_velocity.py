"""The gradient flow's velocity by automatic differentiation, to hold the printed equations of motion against."""

import jax
import jax.numpy as jnp
import numpy as np

import biasfree as bf
from biasfree import losses


def velocity(network: bf.Network, data: bf.Dataset, loss: str = "square") -> list[np.ndarray]:
    """Ẇ = −∂L/∂W, layer by layer."""
    value = losses.get(loss).value
    gradient = jax.grad(lambda n: value(n(data.inputs)[None], jnp.asarray(data.targets)[None]))(network)
    return [-np.asarray(layer) for layer in gradient.weights]


def apart(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """‖found − expected‖/‖found‖, all layers together."""
    gap = sum(float(np.sum((a - b) ** 2)) for a, b in zip(found, expected, strict=True))
    return float(np.sqrt(gap / sum(float(np.sum(a**2)) for a in found)))
