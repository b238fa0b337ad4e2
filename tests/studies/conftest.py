"""Flows that tests of a file have in common are simulated once.

A wrong formula changes what is predicted. What is simulated does not know of it: dynamics never imports theory.
"""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import biasfree as bf


@pytest.fixture(autouse=True, scope="module")
def flows_are_simulated_once() -> Iterator[None]:
    simulate, known = bf.gradient_flow, dict[Any, bf.Trajectory]()

    def remembered(network: bf.Network, dataset: bf.Dataset, **options: Any) -> bf.Trajectory:
        weights, structure = jax.tree.flatten(network)
        data = (dataset.inputs, dataset.targets, dataset.name)
        given = ((name, plain(options[name])) for name in sorted(options))
        key = repr(structure), *map(plain, (*weights, *data)), *given
        if key not in known:
            known[key] = simulate(network, dataset, **options)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bf, "gradient_flow", remembered)
        yield


def plain(value: Any) -> Any:
    """Equal for equal arguments, whether numbers or arrays."""
    if not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    return array.shape, array.tobytes()
