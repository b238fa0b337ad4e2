"""Neurons that never move, but for weight decay: no sample sees them."""

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._riders import chunks
from biasfree.dynamics.exact._sliding import ON_A_LINE

_FEW_SAMPLES = 64  # by which it is first looked whether a neuron is active on any; chosen: cost alone


def still(neurons: Float[np.ndarray, "width columns"], data: Data) -> Int[np.ndarray, "still"]:
    """Neurons of slope 0 inactive on every sample; and those that are zero."""
    zero, dim = ~neurons.any(axis=1), data.directions.shape[1]
    if data.a != data.b or (data.by_loss and data.decay > 0):
        return np.flatnonzero(zero)
    inputs = data.position[:, None] * np.repeat(data.directions, np.diff(data.begin), axis=0)
    # A few samples see nearly every neuron: only what they do not see is held against all.
    unseen = np.flatnonzero(~_seen(neurons[:, :dim], inputs[:: max(1, len(inputs) // _FEW_SAMPLES)]))
    unseen = unseen[~_seen(neurons[unseen, :dim], inputs)]
    return np.union1d(unseen, np.flatnonzero(zero))


def _seen(
    first: Float[np.ndarray, "neurons dim"], inputs: Float[np.ndarray, "samples dim"]
) -> Bool[np.ndarray, "neurons"]:
    """Which neurons are active on one of the samples, or at its edge."""
    size, reach = np.abs(first).max(axis=1, initial=0.0), np.abs(inputs).max(axis=1, initial=0.0)
    parts = zip(chunks(first, len(inputs)), chunks(size[:, None], len(inputs)), strict=True)
    return np.concatenate([(part @ inputs.T >= -ON_A_LINE * large * reach).any(axis=1) for part, large in parts])
