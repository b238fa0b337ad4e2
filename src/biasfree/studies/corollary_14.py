"""Corollary 14: the closed form of the time course on white input, and the slip in its printed initial norm."""

import numpy as np

from biasfree import Network, theory
from biasfree.studies._shared import DIM, TIMES, WIDTH, small_set, tight_flow
from biasfree.studies._study import Result, Study, at_least, at_most

SLOPES = (0.0, 0.2, 0.5, 1.0)
NORM = 0.1


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Eq. 38 beside a tight flow from an Assumption 4 start, for several slopes."""
    data = small_set(seed, white=True)
    slopes = SLOPES[::3] if quick else SLOPES
    gaps, printed_gaps, curves = [], [], {}
    for slope in slopes:
        start = Network.rank_one(DIM, WIDTH, slope, NORM, seed)
        direction = np.asarray(start.weights[1][0] @ start.weights[0])
        flow = tight_flow(start, data)

        def predicted(norm: float, direction: np.ndarray = direction, slope: float = slope) -> np.ndarray:
            return theory.linear_loss(theory.closed_form(TIMES, data.correlation, direction, norm, slope), data)

        # ``closed_form`` scales the network's own norm to its linear twin's; the printed text leaves that out.
        corrected, printed = predicted(NORM), predicted(NORM * theory.weight_factor(slope))
        gaps.append(np.abs(corrected - flow.losses).max())
        printed_gaps.append(np.abs(printed - flow.losses).max())
        curves[f"{slope:g}"] = np.array([flow.losses, corrected, printed])
    return Result(
        measured={
            "largest difference of loss": float(max(gaps)),
            "largest difference with the printed u₀": float(max(printed_gaps)),
        },
        expected={
            "largest difference of loss": at_most(1e-8),
            "largest difference with the printed u₀": at_least(1e-3),
        },
        why="With u₀ = √((α+1)/2)‖W₁(0)‖, the linear twin's norm, the formula is the flow; with the printed "
        "u₀ = ‖W₁(0)‖ it runs ahead of the flow at every slope below 1.",
        data={"times": TIMES, "curves": curves},
        settings={"dim": DIM, "samples": data.samples, "width": WIDTH, "initial norm": NORM, "slopes": slopes},
    )


STUDY = Study(
    id="corollary-14",
    title="Closed-form time course",
    reference="Zhang et al., Corollary 14, Eq. 38",
    statement="On white input with an odd target, a two-layer network that starts aligned and balanced follows an "
    "explicit formula at all times: f(x; W(t)) = w(t)ᵀx.",
    formula="w(t) = (q₂+q₁E²)[β̄(q₂−q₁E²)+2r⊥E] / {4[u₀⁻²+q₁q₂t̃]E² + (q₂²+q₁²E²)(1−E²)/s},  E = e^(−st̃), t̃ = (α+1)t/2",
    run=run,
)
