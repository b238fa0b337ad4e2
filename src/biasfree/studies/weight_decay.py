"""Theorem 5 with weight decay: the linear twin must decay 2/(α+1) times as fast (journal Appendix C.4)."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.measure import linearity
from biasfree.studies._shared import DIM, WIDTH, small_set, tight_flow
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._twins import function_errors, tight_twins, weight_errors

SLOPES = (0.0, 0.3)
DECAY, NORM = 0.1, 0.1
# Dense while the loss drops, then to the end.
TIMES = np.concatenate([np.linspace(0, 60, 61), np.geomspace(65, 400, 20)])


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Matching decays and equal decays, both losses, and where the runs end."""
    function, weights, same, ends, curves = [], [], [], [], {}
    for loss in ("square",) if quick else ("square", "logistic"):
        data = small_set(seed, labels=loss == "logistic")
        for slope in SLOPES[:1] if quick else SLOPES:
            start = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
            flow, twin = tight_twins(start, data, TIMES, DECAY, loss=loss)
            equal = tight_flow(
                theory.linear_twin(start), data, theory.linear_time(TIMES, slope), weight_decay=DECAY, loss=loss
            )
            function.append(function_errors(flow, twin).max())
            weights.append(weight_errors(flow, twin).max())
            same.append(weight_errors(flow, equal).max())
            limit = theory.regularised_limit(data, DECAY, slope, loss)
            learned = linearity(flow.final, data.inputs).linear_map
            ends.append(np.linalg.norm(learned - limit) / np.linalg.norm(limit))
            if loss == "square" and slope == 0:
                levels = {
                    "least squares": float(theory.linear_loss(theory.least_squares(data), data)),
                    "limit": float(theory.linear_loss(limit, data)),
                }
                curves = {"network": flow.losses, "matching": twin.losses, "equal": equal.losses}
    measured = {
        "Eq. 4 with λ_lin = 2λ/(α+1), largest difference": float(max(function)),
        "Eq. 5 with λ_lin = 2λ/(α+1), largest difference": float(max(weights)),
        "w in the end beside argmin L + λ_lin‖w‖, relative difference": float(max(ends)),
        "Eq. 5 with the same λ, largest difference": float(max(same)),
        "Eq. 5 with the same λ, smallest of the cases": float(min(same)),
    }
    return Result(
        measured,
        {
            "Eq. 4 with λ_lin = 2λ/(α+1), largest difference": at_most(1e-8),
            "Eq. 5 with λ_lin = 2λ/(α+1), largest difference": at_most(1e-8),
            "w in the end beside argmin L + λ_lin‖w‖, relative difference": at_most(1e-6),
            "Eq. 5 with the same λ, smallest of the cases": at_least(0.01),
        },
        why="The twin's clock runs (α+1)/2 times as fast, so that its decay per unit of its own time must be larger by "
        "the inverse. Both end at the minimum of the loss plus λ_lin‖w‖, the norm and not its square, since a balanced "
        "network of two layers that computes w has (‖W₁‖² + ‖W₂‖²)/2 = ‖w‖.",
        data={"times": TIMES, "curves": curves, "levels": levels},
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "initial norm": NORM, "λ": DECAY, "slopes": SLOPES,
        },
    )  # fmt: skip


STUDY = Study(
    id="weight-decay",
    title="Weight decay",
    reference="Zhang et al., journal Appendix C.4",
    statement="The equivalence holds with L2 regularisation, if the linear twin's is 2/(α+1) times as strong.",
    formula="Ẇ = −∇L − λW,  λ_lin = 2λ/(α+1)",
    run=run,
)
