"""Who is missing on a plateau that never ends: the width or the scale at which somebody would sleep in a growing basin.

Where a neuron is when a plateau begins does not depend on its own size, which only scales its flow. So random neurons,
too small to matter, are followed along the residuals of all plateaus before, one after the other; the share p of them
that grows on this one asks for a width of about 1/p. Plateaus last in proportion to ln(1/γ), so that a start of size
γ^s is the same way with all durations s times as long.
"""

import math

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.measure._samples import pull
from biasfree.measure._waking import followed
from biasfree.networks import Network

_FOLLOWED = 1000
_SHORTER = (1.0, 0.5, 0.25, 0.1)
# Rates below this share of what the residuals could pull with are not distinguished from zero here.
_NO_RATE = 1e-3
_LARGE = 1e10


def missing(
    dataset: Dataset,
    slope: float,
    way: list[tuple[Float[np.ndarray, "samples *outputs"], float]],
    residuals: Float[np.ndarray, "samples *outputs"],
    init_scale: float,
    decay: float,
) -> str:
    """The sentence about width and scale.

    Args:
        dataset: the samples.
        slope: α.
        way: residuals of the plateaus before, and how long each lasted with the transition after it.
        residuals: of the plateau that never ends.
        init_scale: γ.
        decay: λ.
    """
    many = _followed(residuals)
    for shorter in _SHORTER:
        share = _growing(dataset, slope, [(r, shorter * time) for r, time in way], residuals, decay)
        if share and shorter == 1:
            return f"About one neuron in {math.ceil(1 / share)} would be, so that a larger width would leave."
        if share:
            return (
                f"Of {many} random neurons none would be, at no width of that order; from an init scale of about "
                f"{init_scale**shorter:.1g} one in {math.ceil(1 / share)} would."
            )
    return f"Of {many} random neurons none would be, from no init scale up to {init_scale ** _SHORTER[-1]:.1g}."


def _growing(
    dataset: Dataset,
    slope: float,
    way: list[tuple[Float[np.ndarray, "samples *outputs"], float]],
    residuals: Float[np.ndarray, "samples *outputs"],
    decay: float,
) -> float:
    outputs = 1 if residuals.ndim == 1 else residuals.shape[1]
    neurons = Network.init([dataset.dim, _followed(residuals), outputs], slope, 1e-6, seed=0)
    for before, time in way:
        grown = followed(neurons, dataset.inputs, before, until=time).at(time, _LARGE)
        # Only directions and the balance of w and v matter.
        sizes = np.maximum(np.abs(grown.weights[0]).max(axis=1), np.abs(grown.weights[1]).max(axis=0))
        sizes = np.where(sizes > 0, np.asarray(sizes), 1.0)
        layers = [np.asarray(layer) for layer in grown.weights]
        neurons = neurons.with_weights([layers[0] / sizes[:, None], layers[1] / sizes])
    rates = followed(neurons, dataset.inputs, residuals).rate - decay
    return float(np.mean(rates > _NO_RATE * pull(dataset.inputs, residuals)))


def _followed(residuals: np.ndarray) -> int:
    """Neurons of several outputs are followed one by one, which takes longer."""
    return _FOLLOWED if residuals.ndim == 1 else _FOLLOWED // 10
