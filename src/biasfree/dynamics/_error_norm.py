"""The size of a step's error.

An error is judged against the size of the neurons it touches, not against each number alone (some are always near
zero) nor against the largest layer (a group of neurons may still be 10⁶ times smaller than another and must be right in
proportion, for it grows later).
"""

import itertools
from typing import Any

import jax.numpy as jnp

from biasfree.dynamics._field import Weights


def error_ratio(error: Weights, before: Weights, after: Weights, atol: Any, rtol: Any) -> Any:
    """Root mean square of error/(atol + rtol · size), size as in the module's text; above 1 is too much."""
    total = jnp.asarray(0.0)
    for wrong, old, new, size in zip(error, before, after, _neuron_sizes(before), strict=True):
        scale = jnp.maximum(jnp.maximum(jnp.abs(old), jnp.abs(new)), size)
        total += jnp.sum((wrong / (atol + rtol * scale)) ** 2)
    return jnp.sqrt(total / sum(w.size for w in before))


def _neuron_sizes(weights: Weights) -> list[Any]:
    """For each entry of each layer, the smaller of the sizes of the two neurons it joins."""
    if len(weights) == 1:
        return [jnp.sqrt(jnp.mean(weights[0] ** 2))]
    hidden = [
        jnp.sqrt(jnp.mean(before**2, axis=1) + jnp.mean(after**2, axis=0))
        for before, after in itertools.pairwise(weights)
    ]
    middle = [jnp.minimum(out[:, None], into) for into, out in itertools.pairwise(hidden)]
    return [hidden[0][:, None], *middle, hidden[-1]]
