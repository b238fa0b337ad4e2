"""Appendix B: a constant 1 stacked on the input is no bias; its max-margin line is another one."""

import numpy as np

from biasfree import Dataset, theory
from biasfree.studies._study import Result, Study, at_least, near

INPUTS, LABELS = ((3, 2), (3, 3), (4, 0), (4, 2)), (1, 1, -1, -1)
CONSTANTS = (1.0, 3.0, 10.0, 100.0)
SETS, SAMPLES, DIMS = 40, 20, (2, 10)


def _degrees(first: np.ndarray, second: np.ndarray) -> float:
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def _share_that_differs(dim: int, sets: int, seed: int) -> float:
    """Of random separable sets, the share whose two directions are more than 1° apart."""
    rng, apart = np.random.default_rng([seed, dim]), []
    for _ in range(sets):
        normal = rng.normal(size=dim)
        normal /= np.linalg.norm(normal)
        inputs = rng.normal(size=(SAMPLES, dim))
        threshold = np.quantile(inputs @ normal, rng.uniform(0.2, 0.8))
        labels = np.where(inputs @ normal > threshold, 1.0, -1.0)
        data = Dataset(inputs + 0.1 * np.outer(labels, normal), labels)
        apart.append(
            _degrees(theory.max_margin_with_bias(data).weights, theory.max_margin(data.with_ones()).weights[:-1])
        )
    return float(np.mean(np.array(apart) > 1))


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Both max-margin lines of four points, for the constant 1 and larger ones, and of random sets."""
    data = Dataset(INPUTS, LABELS, "four points")
    free = theory.max_margin_with_bias(data)
    stacked = theory.max_margin(data.with_ones())
    angles = []
    for constant in CONSTANTS:
        column = np.full((data.samples, 1), constant)
        solution = theory.max_margin(Dataset(np.hstack([data.inputs, column]), data.targets))
        angles.append(_degrees(solution.weights[:-1], free.weights))
    # On the support (3, 2), (4, 2), the least norm is w = (−2, 14/(4+c²)), bias 7c²/(4+c²), for a constant c.
    by_hand = np.degrees(np.arctan(7 / (4 + np.array(CONSTANTS) ** 2)))
    shares = {dim: _share_that_differs(dim, SETS // 4 if quick else SETS, seed) for dim in DIMS}
    return Result(
        measured={
            "margin with a bias": free.margin,
            "bias": free.bias,
            "distance of the nearest point to the stacked line": 1 / float(np.linalg.norm(stacked.weights[:-1])),
            "bias of the stacked line": float(stacked.weights[-1]),
            "angle between the two lines, degrees": angles[0],
            "angle for a constant 10, degrees": angles[2],
            "angle for a constant 100, degrees": angles[3],
            **{f"share of random sets in {dim} dimensions that differ by over 1°": shares[dim] for dim in DIMS},
        },
        expected={
            "margin with a bias": near(0.5, absolute=1e-9),
            "bias": near(7.0, absolute=1e-9),
            "distance of the nearest point to the stacked line": near(1 / np.sqrt(4 + 2.8**2), relative=1e-9),
            "bias of the stacked line": near(1.4, relative=1e-9),
            "angle between the two lines, degrees": near(by_hand[0], absolute=1e-6),
            "angle for a constant 10, degrees": near(by_hand[2], absolute=1e-6),
            "angle for a constant 100, degrees": near(by_hand[3], absolute=1e-6),
            f"share of random sets in {DIMS[1]} dimensions that differ by over 1°": at_least(0.5),
        },
        why="Stacking charges the bias like any other weight, ‖w‖² + b² instead of ‖w‖², and pulls the line towards "
        "the origin. A larger constant makes it cheaper: the angle falls like 1/c². Where as many support vectors as "
        "there are unknowns fix the line, as in most sets in the plane, there is nothing left "
        "to charge and the two agree.",
        data={
            "inputs": data.inputs,
            "labels": data.targets,
            "with a bias": np.append(free.weights, free.bias),
            "stacked": stacked.weights,
            "constants": np.array(CONSTANTS),
            "angles": np.array(angles),
        },
        settings={"points": INPUTS, "labels": LABELS, "constants": CONSTANTS, "random sets": SETS, "samples": SAMPLES},
    )


STUDY = Study(
    id="stacked-ones",
    title="Stacking a one is not a bias",
    reference="Zhang et al., Appendix B",
    statement="Results on max margin for networks without biases still hold for inputs [x, 1], but the max-margin "
    "solution of the stacked inputs is in general not that of the original problem with a bias.",
    formula="min ‖w‖² + b²  ≠  min ‖w‖²,  both subject to y(wᵀx + b) ≥ 1",
    run=run,
)
