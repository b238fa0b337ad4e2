"""Corollary 6: where training ends under symmetry, for the square and for the logistic loss."""

import math

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.dynamics import Stop
from biasfree.measure import linearity
from biasfree.studies._shared import DIM, PAIRS, TIMES, WIDTH, small_set, tight_flow
from biasfree.studies._study import Expectation, Result, Study, at_most, near

SLOPES = (0.0, 0.5, 1.0)
NORM = 0.1
LONG = 10 * TIMES
MARGIN = 0.5
# log₁₀ of the losses that the direction is reported at.
LEVELS = (-2, -10, -50, -1000)
# The range the power law is read from.
TAIL = (-200, -1000)


def regression(seed: int, quick: bool, protocol: str) -> Result:
    """Square loss: exact and random starts of several slopes, to the end."""
    data = small_set(seed)
    best = theory.least_squares(data)
    lowest = float(theory.linear_loss(best, data))
    maps, rests, nonlinear = [], [], []
    for slope in SLOPES[::2] if quick else SLOPES:
        exact = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
        random = bf.Network.init([DIM, WIDTH, 1], slope, 1e-6, seed)
        for start in (exact, random):
            end = tight_flow(start, data, LONG)
            found = linearity(end.final, data.inputs)
            maps.append(np.linalg.norm(found.linear_map - best) / np.linalg.norm(best))
            rests.append(abs(end.losses[-1] - lowest))
            nonlinear.append(found.error)
    measured = {
        "w in the end beside Σ⁻¹β, relative difference": float(max(maps)),
        "loss above least squares in the end": float(max(rests)),
        "part of the output that is not linear": float(max(nonlinear)),
        "least-squares loss": lowest,
    }
    return Result(
        measured,
        {
            "w in the end beside Σ⁻¹β, relative difference": at_most(1e-6, loosely=1e-3),
            "loss above least squares in the end": at_most(1e-8, loosely=1e-5),
            "part of the output that is not linear": at_most(1e-5, loosely=1e-2),
        },
        why="The twin is a linear network and ends at ordinary least squares; so does the network, from exact and from "
        "small random weights, with a loss above zero because the target is not linear.",
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "slopes": SLOPES, "until": float(LONG[-1]),
            "exact start": f"norm {NORM}", "random start": "scale 1e-6",
        },
    )  # fmt: skip


def limit_of_angle(data: bf.Dataset) -> float:
    """The limit of ln(1/L) times the angle to the max-margin direction, where the support vectors span the space.

    Margins grow together while those of the support keep the differences that make Σ e^{−m_i} y_i x_i parallel to w:
    w → ln(1/L) ŵ + w̃ with y_i x_iᵀw̃ = −ln α_i, α the multipliers of ŵ.
    """
    found = theory.max_margin(data)
    rows = data.targets[found.support, None] * data.inputs[found.support]
    rest = np.linalg.lstsq(rows, -np.log(found.multipliers), rcond=None)[0]
    across = rest - (rest @ found.direction) * found.direction
    return float(np.linalg.norm(across) * found.margin)


def classification(seed: int, quick: bool, protocol: str) -> Result:
    """Logistic loss: a linear and a ReLU network on separable labels, by the loss clock down to a loss of 1e-1000."""
    data = bf.datasets.separable(DIM, PAIRS, MARGIN, symmetric=True, seed=seed)
    best = theory.max_margin(data)
    spans = bool(np.linalg.matrix_rank(data.inputs[best.support]) == DIM)
    power = 2.0 if spans else 1.0
    measured: dict[str, float] = {}
    expected: dict[str, Expectation] = {}
    curves = {}
    for name, slope in (("linear", 1.0), ("ReLU", 0.0)):
        start = bf.Network.init([DIM, WIDTH, 1], slope, 0.1, seed)
        run = bf.gradient_flow(
            start, data, loss="logistic", clock="loss", until=math.inf, stop=Stop(log_loss=LEVELS[-1] * math.log(10))
        )
        maps = [linearity(network, data.inputs) for network in run.networks]
        directions = np.array([found.linear_map / np.linalg.norm(found.linear_map) for found in maps])
        # 1 − cos of two unit vectors, without cancellation.
        gap = 0.5 * np.sum((directions - best.direction) ** 2, axis=1)
        decades = -run.log_losses / math.log(10)

        def at(level: float, gap: np.ndarray = gap, decades: np.ndarray = decades) -> float:
            return float(np.exp(np.interp(np.log(-level), np.log(decades), np.log(gap))))

        for level in LEVELS:
            measured[f"1 − cos at L = 1e{level}, {name}"] = at(level)
        exponent = f"power of 1/ln(1/L) that 1 − cos falls by, {name}"
        measured[exponent] = math.log(at(TAIL[0]) / at(TAIL[1])) / math.log(TAIL[1] / TAIL[0])
        expected[exponent] = near(power, absolute=0.25)
        expected[f"1 − cos at L = 1e{LEVELS[-1]}, {name}"] = at_most(1e-4)
        if spans:
            limit = f"ln(1/L) × angle at L = 1e{LEVELS[-1]}, {name}"
            measured[limit] = math.sqrt(2 * at(LEVELS[-1])) * -LEVELS[-1] * math.log(10)
            expected[limit] = near(limit_of_angle(data), relative=0.05)
        curves[name] = np.array([decades, gap])
    measured["part of the output that is not linear in the end"] = maps[-1].error
    expected["part of the output that is not linear in the end"] = at_most(1e-5, loosely=1e-3)
    measured["support vectors"] = float(len(best.support))
    return Result(
        measured,
        expected,
        why="Both networks turn to the hard-margin direction, and slowly, since the angle counts in ln(1/L). How "
        "slowly depends on the draw: where the support vectors span the space the angle falls like 1/ln(1/L), with a "
        "constant that their multipliers give; where they do not, what the first layer learned across them early on "
        "stays while the rest grows like the root of ln(1/L), and 1 − cos falls only like 1/ln(1/L). "
        + (
            "Here they span it."
            if spans
            else f"Here {len(best.support)} vectors leave {DIM - len(best.support)} of {DIM} dimensions free."
        ),
        data={"curves": curves, "power": power, "limit": limit_of_angle(data) if spans else math.nan},
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "init scale": 0.1, "margin": best.margin,
            "support vectors span the space": spans,
        },
    )  # fmt: skip


STUDIES = (
    Study(
        id="corollary-6-least-squares",
        title="The end of regression",
        reference="Zhang et al., Corollary 6, square loss",
        statement="With the square loss the network ends at the ordinary least-squares map, whatever its slope.",
        formula="f(x; W(∞)) = (Σ⁻¹β)ᵀx",
        run=regression,
    ),
    Study(
        id="corollary-6-max-margin",
        title="The end of classification",
        reference="Zhang et al., Corollary 6, logistic loss",
        statement="With the logistic loss on separable labels the direction of the network's linear map tends to that "
        "of the hard-margin support vector machine through the origin.",
        formula="w/‖w‖ → ŵ/‖ŵ‖,  ŵ = argmin ‖w‖ s.t. y wᵀx ≥ 1",
        run=classification,
    ),
)
