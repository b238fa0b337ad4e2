"""Corollary 2: the only odd functions of two layers are the linear ones."""

import numpy as np

from biasfree import Network, datasets, measure, theory
from biasfree.studies._study import Result, Study, at_least, at_most, near

DIM, WIDTH, PAIRS, NETWORKS = 2, 30, 100, 20


def _odd(network: Network) -> Network:
    """The network's odd half (f(x) − f(−x))/2, as a two-layer network of twice the width."""
    first, second = (np.asarray(w) for w in network.weights)
    return network.with_weights([np.concatenate([first, -first]), 0.5 * np.concatenate([second, -second], axis=1)])


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Random networks made odd, random networks as they are, and the best fit to an odd function by any width."""
    inputs = datasets.depth_separation(PAIRS, seed=seed).inputs
    odd_and_linear, ratios = 0, []
    count = NETWORKS // 4 if quick else NETWORKS
    for k in range(count):
        slope = (0.0, 0.3)[k % 2]
        network = Network.init([DIM, WIDTH, 1], slope, init_scale=3.0, seed=1000 * seed + k)
        odd_and_linear += theory.parity_form(_odd(network)).is_linear and not theory.parity_form(network).is_linear
        outputs = np.asarray(network(inputs))
        # On pairs ±x even functions are orthogonal to linear ones: what is not odd is all that is not linear.
        evenness = np.linalg.norm(0.5 * (outputs + np.asarray(network(-inputs)))) / np.linalg.norm(outputs)
        ratios.append(measure.linearity(network, inputs).error / evenness)
    target = datasets.depth_separation(PAIRS, seed=seed)
    best, least_squares = theory.best_possible_loss(target), theory.linear_loss(theory.least_squares(target), target)
    g = theory.depth_separation_network()
    return Result(
        measured={
            "share of networks whose odd half is exactly linear": odd_and_linear / count,
            "distance from linear ÷ distance from odd, least": float(min(ratios)),
            "distance from linear ÷ distance from odd, largest": float(max(ratios)),
            "best two-layer loss on an odd target ÷ that of least squares": best.loss / float(least_squares),
            "three layers: failure of Eq. 3's g to be odd": float(np.abs(np.asarray(g(inputs) + g(-inputs))).max()),
            "three layers: distance of g from linear": measure.linearity(g, inputs).error,
        },
        expected={
            "share of networks whose odd half is exactly linear": near(1.0),
            "distance from linear ÷ distance from odd, least": near(1.0, absolute=1e-9),
            "distance from linear ÷ distance from odd, largest": near(1.0, absolute=1e-9),
            "best two-layer loss on an odd target ÷ that of least squares": near(1.0, absolute=1e-9),
            "three layers: failure of Eq. 3's g to be odd": at_most(0.0),
            "three layers: distance of g from linear": at_least(0.1),
        },
        why="The even part is all that is not linear. An odd network has none, so it is linear; any other is as far "
        "from linear as from odd. No width helps to fit an odd target, while three layers hold an odd function, g of "
        "Eq. 3, that is far from linear.",
        settings={"dim": DIM, "width": WIDTH, "networks": count, "slopes": (0.0, 0.3), "pairs": PAIRS},
    )


STUDY = Study(
    id="corollary-2",
    title="Odd means linear",
    reference="Zhang et al., Corollary 2",
    statement="The only odd functions that two-layer (leaky) ReLU networks without biases can express are linear "
    "functions.",
    formula="f(−x) = −f(x) for all x  ⇒  f(x) = (α+1)/2 W₂W₁x",
    run=run,
)
