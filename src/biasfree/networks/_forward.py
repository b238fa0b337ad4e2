"""What a network computes: h₁ = W₁x, h_l = W_l φ_l(h_{l−1}) (plus skips), f = h_L."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float


class Architecture(NamedTuple):
    """What is fixed about a network besides its sizes; hashable, so that one compiled function serves each.

    Attributes:
        rectified: for each of the L − 1 hidden layers, whether σ follows it (True) or nothing does (False).
        skips: for each of the L layers, how many layers an identity skip that ends there spans; 0 is no skip.
            1 makes the layer I + W; 2 on layer l makes layers l − 1 and l a residual branch.
    """

    rectified: tuple[bool, ...]
    skips: tuple[int, ...]


def forward(
    weights: Sequence[Float[Any, "out in"]],
    inputs: Float[Any, "samples dim"],
    slope: Any,
    architecture: Architecture,
) -> Float[Any, "outputs samples"]:
    """Outputs of the network with these weights, one column per sample."""
    *_, last = hidden_layers(weights, inputs, slope, architecture)
    return last


def hidden_layers(
    weights: Sequence[Float[Any, "out in"]],
    inputs: Float[Any, "samples dim"],
    slope: Any,
    architecture: Architecture,
) -> list[Float[Any, "width samples"]]:
    """What enters each layer, z₀ = x, z₁ = φ(h₁), …, and last the output h_L; one column per sample.

    σ'(0) = α: ``where`` makes the kink belong to the inactive side, as Appendix F.2 needs, unlike
    ``jnp.maximum``, whose derivative at 0 is ½. NumPy arrays are taken through by NumPy, which compiles nothing.
    """
    signals = [inputs.T]
    for layer, weight in enumerate(weights):
        h = weight @ signals[-1]
        if architecture.skips[layer]:
            h = h + signals[layer + 1 - architecture.skips[layer]]
        if layer < len(weights) - 1 and architecture.rectified[layer]:
            if isinstance(h, np.ndarray):  # max(h, αh), as α ≤ 1, in place: fewer passes than by ``where``, and no room
                np.maximum(h, slope * h if slope else 0.0, out=h)
            else:
                h = jnp.where(h > 0, h, slope * h)
        signals.append(h)
    return signals
