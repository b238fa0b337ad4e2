"""Cross-entropy: the linear twin is exact for two classes, and only for them."""

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._shared import tight_flow
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._twins import function_errors, tight_twins, weight_errors

DIM, PAIRS, HALF, SCALE = 4, 30, 8, 0.3
TIMES = np.linspace(0, 60, 61)
SLOPES = (0.0, 0.3)
SMALL = 0.1


def mirrored_set(seed: int, classes: int) -> bf.Dataset:
    """Even inputs with probabilities y(−x) = 2/K − y(x); for two classes certain ones, (1, 0) against (0, 1)."""
    rng = np.random.default_rng([seed, classes])
    half = rng.normal(size=(PAIRS, DIM))
    signal = half @ rng.normal(size=(DIM, classes))
    if classes == 2:
        above = np.eye(2)[(signal[:, 0] > signal[:, 1]).astype(int)]
    else:
        # Certain classes cannot be mirrored about 1/K for K > 2: 2/K − 1 is negative.
        tilt = np.tanh(signal)
        tilt -= tilt.mean(axis=1, keepdims=True)
        above = 1 / classes + tilt / (1.01 * classes * np.abs(tilt).max())
    inputs = np.concatenate([half, -half])
    return bf.Dataset(
        inputs, np.concatenate([above, 2 / classes - above]), f"{classes} classes", classes=range(classes)
    )


def flow_of_the_difference(seed: int) -> np.ndarray:
    """Logistic losses of the network that f₂ − f₁ is.

    Cross-entropy moves v₁ and v₂ oppositely. With g = (v₂ − v₁)/√2, ẇ = √2⟨ρσ'gx⟩ and ġ = √2⟨ρσ⟩, ρ the logistic
    residual of f₂ − f₁ = √2gσ(wᵀx): a logistic flow of the weights 2^{1/4}(w, g), √2 times as fast.
    """
    data = mirrored_set(seed, 2)
    first, second = (np.asarray(w) for w in theory.mirrored(bf.Network.init([DIM, HALF, 2], 0.0, SCALE, seed)).weights)
    network = bf.Network([2**0.25 * first, 2**0.25 * (second[1:] - second[:1]) / np.sqrt(2)], 0.0)
    labels = bf.Dataset(data.inputs, 2.0 * data.labels - 1)
    return tight_flow(network, labels, np.sqrt(2) * TIMES, loss="logistic", method="exact").losses


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Mirrored starts beside their twins for two and three classes, and two classes beside the logistic loss."""
    function, weights, curves = {}, {}, {}
    before = 0.0
    for classes in (2, 3):
        data = mirrored_set(seed, classes)
        for slope in SLOPES[:1] if quick else SLOPES:
            start = theory.mirrored(bf.Network.init([DIM, HALF, classes], slope, SCALE, seed))
            flow, twin = tight_twins(start, data, TIMES, loss="cross-entropy", method="exact")
            errors = weight_errors(flow, twin)
            function[classes, slope] = function_errors(flow, twin).max()
            weights[classes, slope] = errors.max()
            if slope == 0:
                curves[str(classes)] = np.array([flow.losses, twin.losses, errors])
                largest = np.array([np.abs(np.asarray(network(data.inputs))).max() for network in flow.networks])
                if classes == 3:
                    before = float(errors[largest <= SMALL].max(initial=0.0))
    as_logistic = np.abs(flow_of_the_difference(seed) - curves["2"][0]).max()
    soft = np.exp([[1.0, 0.5, -1.5], [-1.0, -0.5, 1.5]])
    soft /= soft.sum(axis=1, keepdims=True)
    measured = {
        "two classes: Eq. 4, largest difference": float(max(v for (k, _), v in function.items() if k == 2)),
        "two classes: Eq. 5, largest difference": float(max(v for (k, _), v in weights.items() if k == 2)),
        "two classes: loss beside the logistic loss of f₂ − f₁, largest difference": float(as_logistic),
        "three classes: Eq. 5, smallest of the cases": float(min(v for (k, _), v in weights.items() if k == 3)),
        f"three classes: Eq. 5 while |f| ≤ {SMALL:g}": before,
        "three classes: softmax(f) + softmax(−f) − 2/3, an example": float(np.abs(soft.sum(axis=0) - 2 / 3).max()),
    }
    return Result(
        measured,
        {
            "two classes: Eq. 4, largest difference": at_most(1e-7),
            "two classes: Eq. 5, largest difference": at_most(1e-7),
            "two classes: loss beside the logistic loss of f₂ − f₁, largest difference": at_most(1e-7),
            "three classes: Eq. 5, smallest of the cases": at_least(1e-3),
            f"three classes: Eq. 5 while |f| ≤ {SMALL:g}": at_most(1e-3),
        },
        why="The twin needs a residual y − softmax(f) that is odd. For two classes softmax(f) + softmax(−f) = 1, as "
        "for the logistic loss of f₂ − f₁. For three and more it is 2/K + O(f²): the residual has an even part, "
        "mirror images see it with the same sign, and they part. So the twin is good while outputs are small and "
        "fails later; the early phase and its modes hold for any number of classes. With certain classes the "
        "condition cannot even be met for K > 2.",
        data={"times": TIMES, "curves": curves},
        settings={"dim": DIM, "samples": 2 * PAIRS, "width": 2 * HALF, "scale": SCALE, "slopes": SLOPES},
    )


STUDY = Study(
    id="cross-entropy-twin",
    title="Equivalence to a linear network, cross-entropy",
    reference="new: Zhang et al.'s Theorem 5 with cross-entropy",
    statement="With cross-entropy on symmetric data, y(−x) = 2/K − y(x), the network is its linear twin for two "
    "classes and departs from it for three and more.",
    formula="softmax(f) + softmax(−f) = 2/K for all f  ⇔  K = 2",
    run=run,
)
