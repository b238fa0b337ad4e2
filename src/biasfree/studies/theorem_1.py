"""Theorem 1: a two-layer network is a linear map plus a positively homogeneous even function."""

import numpy as np

from biasfree import Network, theory
from biasfree.studies._study import Result, Study, at_least, at_most

DIM, WIDTH, OUTPUTS, INPUTS = 4, 30, 2, 200
SLOPES = (0.0, 0.1, 0.5, 1.0)


def run(seed: int, quick: bool, protocol: str) -> Result:
    """The odd and even halves of random networks beside the two terms of the theorem."""
    inputs = np.random.default_rng(seed).normal(size=(INPUTS, DIM))
    gaps: dict[str, list[float]] = {"odd": [], "even": [], "map": []}
    for slope in SLOPES[::3] if quick else SLOPES:
        network = Network.init([DIM, WIDTH, OUTPUTS], slope, init_scale=3.0, seed=seed)
        here, there = (np.asarray(network(sign * inputs)) for sign in (1, -1))
        form, size = theory.parity_form(network), np.abs(here).max()
        first, second = network.weights
        # From the function alone: its odd half must be linear, and its even half what |W₁x| gives.
        gaps["odd"].append(np.abs(0.5 * (here - there) - form.linear_part(inputs)).max() / size)
        gaps["even"].append(np.abs(0.5 * (here + there) - form.even_part(inputs)).max() / size)
        predicted = inputs @ (0.5 * (1 + slope) * np.asarray(second @ first)).T
        gaps["map"].append(np.abs(0.5 * (here - there) - predicted).max() / size)
    deep = Network.init([DIM, WIDTH, WIDTH, 1], 0.0, init_scale=3.0, seed=seed)
    odd_half = 0.5 * np.asarray(deep(inputs) - deep(-inputs))
    rest = odd_half - inputs @ np.linalg.lstsq(inputs, odd_half, rcond=None)[0]
    return Result(
        measured={
            "odd half against the canonical Mx": float(max(gaps["odd"])),
            "even half against Σ c|vᵀx|": float(max(gaps["even"])),
            "odd half against (α+1)/2 W₂W₁x": float(max(gaps["map"])),
            "nonlinearity of a three-layer network's odd half": float(np.linalg.norm(rest) / np.linalg.norm(odd_half)),
        },
        expected={
            "odd half against the canonical Mx": at_most(1e-12),
            "even half against Σ c|vᵀx|": at_most(1e-12),
            "odd half against (α+1)/2 W₂W₁x": at_most(1e-12),
            "nonlinearity of a three-layer network's odd half": at_least(0.01),
        },
        why="σ(z) = (1+α)/2 z + (1−α)/2 |z|: the first term of every neuron is linear, the second even, and a sum over "
        "neurons keeps them apart. A second hidden layer mixes them: there the odd half is not linear.",
        settings={"dim": DIM, "width": WIDTH, "outputs": OUTPUTS, "slopes": SLOPES, "inputs": INPUTS},
    )


STUDY = Study(
    id="theorem-1",
    title="Linear plus even",
    reference="Zhang et al., Theorem 1, Eq. 2",
    statement="Every two-layer (leaky) ReLU network without biases is a linear function plus a positively homogeneous "
    "even function, and nothing else can be expressed.",
    formula="f(x) = (α+1)/2 W₂W₁x + (1−α)/2 W₂|W₁x|",
    run=run,
)
