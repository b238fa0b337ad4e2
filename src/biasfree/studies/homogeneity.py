"""Positive homogeneity: what every network without biases has in common, whatever its depth."""

import numpy as np

from biasfree import Network, theory
from biasfree.studies._study import Result, Study, at_least, at_most

DIM, WIDTH, INPUTS = 4, 30, 200
DEPTHS, SLOPES, FACTORS = (2, 3, 5), (0.0, 0.2), (1e-6, 1e-3, 0.5, 2.0, 1e3, 1e6)


def run(seed: int, quick: bool, protocol: str) -> Result:
    """F(cx) against c f(x), and f with all weights times c against f, for random networks of several depths."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(INPUTS, DIM))
    errors, degrees = [], []
    for depth in DEPTHS[:2] if quick else DEPTHS:
        for slope in SLOPES:
            widths = [DIM, *[WIDTH] * (depth - 1), 1]
            network = Network.init(widths, slope, init_scale=3.0, seed=seed)
            errors.append(theory.homogeneity_error(network, inputs, FACTORS))
            sizes = [np.abs(np.asarray(each(inputs))).max() for each in (network, network.rescaled(3.0))]
            degrees.append(abs(np.log(sizes[1] / sizes[0]) / np.log(3.0) - depth))
    stacked = Network.init([DIM + 1, WIDTH, 1], 0.0, init_scale=3.0, seed=seed)
    # The same kind of network on [x, 1] has biases: its hidden neurons' weights to the constant.
    with_bias = theory.homogeneity_error(lambda x: stacked(np.column_stack([x, np.ones(len(x))])), inputs, FACTORS)
    return Result(
        measured={
            "largest error of f(cx) = c f(x)": float(max(errors)),
            "largest error of the degree L in the weights": float(max(degrees)),
            "the same error with biases": with_bias,
        },
        expected={
            "largest error of f(cx) = c f(x)": at_most(1e-12),
            "largest error of the degree L in the weights": at_most(1e-12),
            "the same error with biases": at_least(0.1),
        },
        why="σ(cz) = cσ(z) for c > 0 passes a factor through every layer: c from the input, c^L when it multiplies the "
        "weights of all L layers. A bias, here a constant 1 beside the input, ends it.",
        settings={"dim": DIM, "width": WIDTH, "depths": DEPTHS, "slopes": SLOPES, "inputs": INPUTS, "factors": FACTORS},
    )


STUDY = Study(
    id="homogeneity",
    title="Bias-free networks are positively homogeneous",
    reference="Zhang et al., Section 3",
    statement="A (leaky) ReLU network without biases, of any depth, can only express functions that scale with their "
    "input: whatever it does on the unit sphere, it repeats on every other sphere.",
    formula="f(cx) = c f(x) for all c > 0",
    run=run,
)
