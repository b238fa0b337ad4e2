"""Eq. 34: under symmetry an aligned and balanced network obeys a linear network's equations of motion."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import DIM, TIMES, WIDTH, small_set, tight_flow
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._velocity import apart, velocity

SLOPES = (0.0, 0.2, 0.5)
NORM = 0.1


def right_side(network: bf.Network, data: bf.Dataset) -> list[np.ndarray]:
    """Eq. 34, with a = (α+1)/2."""
    first, second = (np.asarray(layer) for layer in network.weights)
    a = (network.slope + 1) / 2
    pull = a * data.correlation[None] - a**2 * second @ first @ data.covariance
    return [second.T @ pull, pull @ first.T]


def run(seed: int, quick: bool, protocol: str) -> Result:
    """The velocity at aligned weights of several sizes, and whole flows, on inputs that are not white."""
    data = small_set(seed)
    moving, gaps, curves = [], [], {}
    for slope in SLOPES[:1] if quick else SLOPES:
        for norm in (NORM, 1.0, 3.0):
            network = bf.Network.rank_one(DIM, WIDTH, slope, norm, seed)
            moving.append(apart(velocity(network, data), right_side(network, data)))
        start = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
        direction = np.asarray(start.weights[1][0] @ start.weights[0])
        flow = tight_flow(start, data)
        w = theory.reduced_flow(TIMES, data.covariance, data.correlation, direction, NORM, slope)
        gaps.append(np.abs(theory.linear_loss(w, data) - flow.losses).max())
        curves[f"{slope:g}"] = np.array([flow.losses, theory.linear_loss(w, data)])
    random = bf.Network.init([DIM, WIDTH, 1], 0.0, 1.0, seed)
    # One of each pair, twice, so that the shape is the same.
    kept = np.tile(np.arange(data.samples // 2), 2)
    half = bf.Dataset(data.inputs[kept], data.targets[kept])
    aligned = bf.Network.rank_one(DIM, WIDTH, 0.0, 1.0, seed)
    measured = {
        "velocity, largest relative difference": max(moving),
        "loss of the reduced flow, largest difference": float(max(gaps)),
        "velocity without Assumption 4": apart(velocity(random, data), right_side(random, data)),
        "velocity without Condition 3": apart(velocity(aligned, half), right_side(aligned, half)),
    }
    return Result(
        measured,
        {
            "velocity, largest relative difference": at_most(1e-12),
            "loss of the reduced flow, largest difference": at_most(1e-8),
            "velocity without Assumption 4": at_least(0.01),
            "velocity without Condition 3": at_least(0.01),
        },
        why="Each half of the inputs, rᵀx > 0 and rᵀx < 0, switches on one sign of neurons and carries half of Σ and "
        "β, so that only the factor (α+1)/2 is left of the activation. Integrated from dim + 1 numbers it is the flow "
        "of the whole network. Leave out either condition and the equation fails.",
        data={"times": TIMES, "curves": curves},
        settings={"dim": DIM, "samples": data.samples, "width": WIDTH, "initial norm": NORM},
    )


STUDY = Study(
    id="eq-34",
    title="Reduced equations of motion",
    reference="Zhang et al., Eq. 34",
    statement="Under Condition 3 and Assumption 4 the weights of a two-layer (leaky) ReLU network move like those of a "
    "linear network, up to factors (α+1)/2, whatever the input covariance.",
    formula="Ẇ₁ = aW₂ᵀβᵀ − a²W₂ᵀW₂W₁Σ,  Ẇ₂ = aβᵀW₁ᵀ − a²W₂W₁ΣW₁ᵀ,  a = (α+1)/2",
    run=run,
)
