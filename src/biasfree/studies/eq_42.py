"""Eq. 42: how a deep ReLU network of Eq. 40's form moves; as printed it fills the blocks that must stay empty."""

import numpy as np

from biasfree import Network, theory
from biasfree.studies._shared import DIM, WIDTH, small_set
from biasfree.studies._study import Result, Study, at_most, near
from biasfree.studies._velocity import velocity


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Corrected and printed right sides beside the gradient, layer by layer, at several depths."""
    data = small_set(seed)
    corrected, outer, middle, linear = [], [], [], []

    def errors(predicted: tuple[np.ndarray, ...], gradient: list[np.ndarray]) -> list[float]:
        return [float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in zip(predicted, gradient, strict=True)]

    depths = (3,) if quick else (3, 4, 5)
    for depth in depths:
        network = Network.aligned_relu([DIM, *[WIDTH] * (depth - 1), 1], 0.8, seed)
        gradient, moments = velocity(network, data), (data.covariance, data.correlation)
        corrected += errors(theory.eq_42_velocity(network, *moments), gradient)
        first, *between, last = errors(theory.eq_42_velocity(network, *moments, printed=True), gradient)
        outer += [first, last]
        middle += between
        twin = Network.init(network.widths, 1.0, 1.0, seed)
        linear += errors(theory.eq_12_velocity(twin, *moments), velocity(twin, data))
    return Result(
        {
            "corrected, largest relative error": max(corrected),
            "printed, first and last layers": max(outer),
            "printed, middle layers": min(middle),
            "Eq. 12, linear networks": max(linear),
        },
        {
            "corrected, largest relative error": at_most(1e-12),
            "printed, first and last layers": at_most(1e-12),
            # The full r_l r_{l−1}ᵀ has twice the squared norm of its two blocks of one sign.
            "printed, middle layers": near(1.0, relative=1e-9),
            "Eq. 12, linear networks": at_most(1e-12),
        },
        why="Masked to the two blocks where r_l and r_{l−1} have one sign, the formula is the gradient. Without the "
        "mask, as printed, middle layers are off by 100 %: by as much again in the blocks that Eq. 40 has empty. (The "
        "printed last product, l' = l−1 … L, is taken as l' = 1 … l−1; other shapes do not fit.) Only Σ and β "
        "enter, so that any odd target will do.",
        settings={"dim": DIM, "samples": data.samples, "width": WIDTH, "depths": depths, "norm": 0.8},
    )


STUDY = Study(
    id="eq-42",
    title="The flow of deep ReLU networks",
    reference="Zhang et al., Appendix F, Eqs. 12 and 42",
    statement="On even inputs a deep ReLU network of Eq. 40's form moves like a deep linear network but for constant "
    "coefficients; in middle layers within the two blocks of Eq. 40 only.",
    formula="Ẇ_l = [r_l r_{l−1}ᵀ > 0] ⊙ (W_L⋯W_{l+1})ᵀ (½βᵀ − ¼W_L⋯W₁Σ) (W_{l−1}⋯W₁)ᵀ",
    run=run,
)
