"""Theorem 5 for several outputs: mirror images keep f linear, and every neuron moves as in a linear network."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import DIM, PAIRS
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._twins import function_errors, tight_twins, weight_errors
from biasfree.studies._velocity import apart, velocity

SLOPES = (0.0, 0.2, 0.5)
OUTPUTS, HALF, SCALE = 3, 10, 0.3
TIMES = np.linspace(0, 30, 61)


def odd_set(seed: int) -> bf.Dataset:
    """Even inputs, three odd targets: y = Bx + sin 2Bx."""
    rng = np.random.default_rng([seed, 15])
    base = bf.datasets.symmetric_gaussian(DIM, PAIRS, seed=seed)
    seen = base.inputs @ rng.uniform(-0.5, 0.5, size=(DIM, OUTPUTS))
    return bf.Dataset(base.inputs, seen + np.sin(2 * seen), "symmetric Gaussian, three outputs", base.origin)


def right_side(network: bf.Network, data: bf.Dataset) -> list[np.ndarray]:
    """Ẇ₁ = aW₂ᵀR and Ẇ₂ = aRW₁ᵀ, R = β − aW₂W₁Σ."""
    first, second = (np.asarray(layer) for layer in network.weights)
    a = (network.slope + 1) / 2
    rest = data.correlation - a * second @ first @ data.covariance
    return [a * second.T @ rest, a * rest @ first.T]


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Mirrored starts of several slopes beside their twins; and what fails without mirror images or symmetry."""
    data = odd_set(seed)
    function, weights, moving, even, curves = [], [], [], [], {}
    for slope in SLOPES[:1] if quick else SLOPES:
        start = theory.mirrored(bf.Network.init([DIM, HALF, OUTPUTS], slope, SCALE, seed))
        moving.append(apart(velocity(start, data), right_side(start, data)))
        flow, twin = tight_twins(start, data, TIMES, method="exact")
        function.append(function_errors(flow, twin).max())
        weights.append(weight_errors(flow, twin).max())
        outputs = np.asarray(flow.final(data.inputs))
        even.append(np.abs(outputs[:PAIRS] + outputs[PAIRS:]).max())
        curves[f"{slope:g}"] = np.array([flow.losses, twin.losses])
    random = bf.Network.init([DIM, 2 * HALF, OUTPUTS], 0.0, 3.0, seed)
    kept = np.tile(np.arange(PAIRS), 2)
    half = bf.Dataset(data.inputs[kept], data.targets[kept])
    start = theory.mirrored(bf.Network.init([DIM, HALF, OUTPUTS], 0.0, SCALE, seed))
    measured = {
        "Eq. 4, largest difference": float(max(function)),
        "Eq. 5, largest difference": float(max(weights)),
        "velocity, largest relative difference": float(max(moving)),
        "f(x) + f(−x) in the end": float(max(even)),
        "velocity without mirror images": apart(velocity(random, data), right_side(random, data)),
        "velocity without Condition 3": apart(velocity(start, half), right_side(start, half)),
    }
    return Result(
        measured,
        {
            "Eq. 4, largest difference": at_most(1e-7),
            "Eq. 5, largest difference": at_most(1e-7),
            "velocity, largest relative difference": at_most(1e-12),
            "velocity without mirror images": at_least(0.01),
            "velocity without Condition 3": at_least(0.01),
        },
        why="While f is linear the residual is odd, and a neuron (w, v) of any direction sees aR = a(β − FΣ): its "
        "motion is linear in (w, v). A neuron and its mirror image (−w, −v) therefore stay mirror images, their "
        "even parts cancel, and f stays linear. Neither small weights nor rank one are needed.",
        data={"times": TIMES, "curves": curves},
        settings={
            "dim": DIM, "samples": data.samples, "outputs": OUTPUTS, "width": 2 * HALF, "scale": SCALE,
            "slopes": SLOPES,
        },
    )  # fmt: skip


STUDY = Study(
    id="several-outputs-linear-twin",
    title="Equivalence to a linear network, several outputs",
    reference="new: Zhang et al.'s Theorem 5 with K outputs",
    statement="On symmetric data a two-layer (leaky) ReLU network with any number of outputs whose neurons come with "
    "their mirror images is at time t the function its linear twin is at (α+1)t/2, with weights √(2/(α+1)) times as "
    "large.",
    formula="ẇ = aRᵀv,  v̇ = aRw,  R = β − FΣ  ⇒  W(t) = √(2/(α+1)) W_lin(½(α+1)t)",
    run=run,
)
