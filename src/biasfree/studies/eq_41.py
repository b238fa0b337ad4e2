"""Eq. 41: a deep ReLU network of Eq. 40's form computes half of its weights' product."""

import itertools

import numpy as np

from biasfree import Network, theory
from biasfree.studies._shared import DIM, WIDTH, small_set
from biasfree.studies._study import Result, Study, at_least, at_most, near

NORM, RATIO = 1.2, 1.1


def uneven(network: Network, ratio: float) -> Network:
    """Every layer of the positive path ``ratio`` times as large: Eq. 40 without ‖r_l⁺‖ = ‖r_l⁻‖."""
    first, *middle, last = (np.asarray(w) for w in network.weights)
    signs = [last[0] > 0]
    for weight in reversed(middle):
        signs.insert(0, signs[0] @ weight > 0)
    grown = [np.where(np.outer(after, before), ratio, 1) for before, after in itertools.pairwise(signs)]
    factors = [np.where(signs[0], ratio, 1)[:, None], *grown, np.where(signs[-1], ratio, 1)]
    return network.with_weights([w * factor for w, factor in zip((first, *middle, last), factors, strict=True)])


def outputs_apart(network: Network, inputs: np.ndarray, effective: np.ndarray) -> float:
    """‖f − wᵀx‖/‖f‖."""
    outputs = network(inputs)
    return float(np.linalg.norm(outputs - inputs @ effective) / np.linalg.norm(outputs))


def run(seed: int, quick: bool, protocol: str) -> Result:
    """The claim on exact networks of several depths, on paths of unequal norm, and on random weights."""
    data = small_set(seed)
    inputs, moments = data.inputs, (data.covariance, data.correlation)
    r = np.random.default_rng(seed).normal(size=DIM)
    exact, powers, ratios, random = [], [], [], []
    depths = (3, 5) if quick else (3, 4, 5, 6)
    for depth in depths:
        widths = [DIM, *[WIDTH] * (depth - 1), 1]
        network = Network.aligned_relu(widths, NORM, seed, r)
        exact.append(outputs_apart(network, inputs, theory.effective_map(network).map))
        powers.append(outputs_apart(network, inputs, theory.deep_reduced_flow(0.0, *moments, r, NORM, depth).maps))
        # f = p₊ᴸ rᵀx on one side and p₋ᴸ rᵀx on the other, and half of the product is their mean times rᵀx.
        up = RATIO**depth
        predicted = (up - 1) / np.sqrt(2 * (up**2 + 1))
        kinked, chance = uneven(network, RATIO), Network.init(widths, 0.0, 1.0, seed)
        ratios.append(outputs_apart(kinked, inputs, theory.effective_map(kinked).map) / predicted)
        random.append(outputs_apart(chance, inputs, theory.effective_map(chance).map))
    return Result(
        {
            "Eq. 40 beside ½ W_L⋯W₁x, largest relative error": max(exact),
            "Eq. 40 beside (u/√2)ᴸ rᵀx, largest relative error": max(powers),
            "unequal paths, error ÷ (p₊ᴸ−p₋ᴸ)/√(2(p₊²ᴸ+p₋²ᴸ)), farthest off": max(
                ratios, key=lambda ratio: abs(ratio - 1)
            ),
            "random weights, smallest relative error": min(random),
        },
        {
            "Eq. 40 beside ½ W_L⋯W₁x, largest relative error": at_most(1e-13),
            "Eq. 40 beside (u/√2)ᴸ rᵀx, largest relative error": at_most(1e-13),
            "unequal paths, error ÷ (p₊ᴸ−p₋ᴸ)/√(2(p₊²ᴸ+p₋²ᴸ)), farthest off": near(1.0, relative=1e-9),
            "random weights, smallest relative error": at_least(0.1),
        },
        why="Signals stay on the path they took in the first layer, so later activations do nothing and each half of "
        "the inputs meets half of the weights. It takes both paths to be equally strong: with one of them "
        f"{RATIO:g} times as large in every layer the function has a kink of just the size that its two slopes give.",
        settings={
            "dim": DIM,
            "samples": len(inputs),
            "width": WIDTH,
            "depths": depths,
            "norm": NORM,
            "path ratio": RATIO,
        },
    )


STUDY = Study(
    id="eq-41",
    title="Deep ReLU networks that are linear",
    reference="Zhang et al., Appendix F, Eq. 41",
    statement="A bias-free ReLU network of any depth whose weights have the form of Eq. 40, with paths of equal norm, "
    "computes a linear function: half of what the linear network with its weights computes.",
    formula="f(x) = ½ W_L⋯W₁x = (u/√2)ᴸ rᵀx",
    run=run,
)
