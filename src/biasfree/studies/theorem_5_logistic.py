"""Theorem 5 for the logistic loss, and the slips in its printed loss and equations of motion."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import DIM, TIMES, WIDTH, small_set
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._twins import function_errors, tight_twins, weight_errors
from biasfree.studies._velocity import apart, velocity

SLOPES = (0.0, 0.2, 0.5)
NORM = 0.1


def equations_of_motion(network: bf.Network, data: bf.Dataset, printed: bool) -> list[np.ndarray]:
    """Eq. 7; as printed, the network's output stands where the label belongs."""
    first, second = (np.asarray(layer) for layer in network.weights)
    signals = first @ data.inputs.T
    active = np.where(signals > 0, 1.0, network.slope)
    outputs = second @ (active * signals)
    pull = (outputs if printed else data.targets) / (1 + np.exp(data.targets * outputs)) / data.samples
    return [(active * second.T * pull) @ data.inputs, pull @ (active * signals).T]


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Eqs. 4 and 5 from exact starts on labels, with the reduced flow on top."""
    data = small_set(seed, labels=True)
    slopes = SLOPES[:1] if quick else SLOPES
    function, weights, gaps, rises, curves = [], [], [], [], {}
    for slope in slopes:
        start = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
        direction = np.asarray(start.weights[1][0] @ start.weights[0])
        flow, twin = tight_twins(start, data, loss="logistic")
        reduced = theory.linear_loss(
            theory.reduced_flow_logistic(TIMES, data, direction, NORM, slope), data, loss="logistic"
        )
        function.append(function_errors(flow, twin).max())
        weights.append(weight_errors(flow, twin).max())
        gaps.append(np.abs(reduced - flow.losses).max())
        begun, ended = (np.logaddexp(0, data.targets * n(data.inputs)).mean() for n in flow.networks[::80])
        rises.append(ended - begun)
        curves[f"{slope:g}"] = np.array([flow.losses, reduced])
        if slope == 0:
            linear = np.array([twin.times, twin.losses])
    network = bf.Network.init([DIM, WIDTH, 1], 0.0, 1.0, seed)
    moving = velocity(network, data, "logistic")
    measured = {
        "Eq. 4, largest difference": float(max(function)),
        "Eq. 5, largest difference": float(max(weights)),
        "loss beside the reduced flow, largest difference": float(max(gaps)),
        "Eq. 7 with the label in its place, relative error": apart(moving, equations_of_motion(network, data, False)),
        "Eq. 7 as printed, relative error": apart(moving, equations_of_motion(network, data, True)),
        "printed loss ⟨ln(1+e^{yf})⟩, end less start": float(min(rises)),
    }
    return Result(
        measured,
        {
            "Eq. 4, largest difference": at_most(1e-8),
            "Eq. 5, largest difference": at_most(1e-8),
            "loss beside the reduced flow, largest difference": at_most(1e-8),
            "Eq. 7 with the label in its place, relative error": at_most(1e-12),
            "Eq. 7 as printed, relative error": at_least(0.1),
            "printed loss ⟨ln(1+e^{yf})⟩, end less start": at_least(0.1),
        },
        why="The logistic loss changes only how hard each sample pulls, and x and −x still pull alike, so that the "
        "equivalence is as exact as for the square loss. The printed loss lacks a minus sign, and rises in training; "
        "in the printed Eq. 7 (and 10, 37) the output stands where the label belongs, which is another flow.",
        data={"times": TIMES, "curves": curves, "linear": linear},
        settings={"dim": DIM, "samples": data.samples, "width": WIDTH, "initial norm": NORM, "slopes": slopes},
    )


STUDY = Study(
    id="theorem-5-logistic",
    title="Equivalence to a linear network, logistic loss",
    reference="Zhang et al., Theorem 5, Eqs. 4–5, logistic loss (journal Theorem 8)",
    statement="With labels instead of targets and the logistic loss, the network is at time t again the function its "
    "linear twin is at (α+1)t/2, with weights √(2/(α+1)) times as large.",
    formula="Ẇ₁ = ⟨σ'(W₁x) ⊙ W₂ᵀ y xᵀ/(1+e^{yf})⟩,  Ẇ₂ = ⟨y σ(W₁x)ᵀ/(1+e^{yf})⟩ ⇒ W(t) = √(2/(α+1)) W_lin(½(α+1)t)",
    run=run,
)
