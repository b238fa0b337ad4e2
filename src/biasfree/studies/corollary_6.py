"""Corollary 6: where training ends under symmetry, for the square and for the logistic loss."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

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
# log₁₀ of the losses that the direction is reported at; the power law is read from a fifth of the last on.
LEVELS, QUICK_LEVELS = (-2, -10, -50, -1000), (-2, -10, -50, -290)
# Times of the reduced flow, far enough for the last of the quick levels.
AGES = np.concatenate([TIMES, np.geomspace(100, 1e290, 60)])


def regression(seed: int, quick: bool, protocol: str) -> Result:
    """Square loss: exact and random starts of several slopes, to the end."""
    data = small_set(seed)
    best = theory.least_squares(data)
    lowest = float(theory.linear_loss(best, data))
    maps, rests, nonlinear = [], [], []
    for slope in SLOPES[:1] if quick else SLOPES:
        exact = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
        random = bf.Network.init([DIM, WIDTH, 1], slope, 1e-6, seed)
        for start in (exact, random):
            end = tight_flow(start, data, LONG)
            fit = linearity(end.final, data.inputs)
            maps.append(np.linalg.norm(fit.linear_map - best) / np.linalg.norm(best))
            rests.append(abs(end.losses[-1] - lowest))
            nonlinear.append(fit.error)
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
    solution = theory.max_margin(data)
    rows = data.targets[solution.support, None] * data.inputs[solution.support]
    rest = np.linalg.lstsq(rows, -np.log(solution.multipliers), rcond=None)[0]
    across = rest - (rest @ solution.direction) * solution.direction
    return float(np.linalg.norm(across) * solution.margin)


class Course(NamedTuple):
    """A network's linear map over −log₁₀ of its loss, how far it is from that map, and which network it is."""

    name: str
    decades: np.ndarray
    maps: np.ndarray
    error: float


def by_loss_clock(data: bf.Dataset, slope: float, seed: int) -> Course:
    """A network from random weights, followed far below the smallest float."""
    start = bf.Network.init([DIM, WIDTH, 1], slope, 0.1, seed)
    stop = Stop(log_loss=LEVELS[-1] * math.log(10))
    run = bf.gradient_flow(start, data, loss="logistic", clock="loss", until=math.inf, stop=stop)
    fits = [linearity(network, data.inputs) for network in run.networks]
    name = "linear" if slope == 1 else "ReLU"
    return Course(name, -run.log_losses / math.log(10), np.array([each.linear_map for each in fits]), fits[-1].error)


def by_reduced_flow(data: bf.Dataset, slope: float, seed: int) -> tuple[Course, float]:
    """A network from aligned weights for a while, how far it is from its reduced flow, and this for all time."""
    start = bf.Network.rank_one(DIM, WIDTH, slope, NORM, seed)
    run = tight_flow(start, data, loss="logistic")
    maps = theory.reduced_flow_logistic(AGES, data, start.weights[1][0] @ start.weights[0], NORM, slope)
    reached = np.array([network(data.inputs) for network in run.networks])
    apart = float(np.abs(reached - maps[: TIMES.size] @ data.inputs.T).max())
    margins = data.targets * (maps @ data.inputs.T)
    decades = -(logsumexp(-margins, axis=1) - math.log(data.samples)) / math.log(10)
    late = slice(TIMES.size, None)
    return Course("ReLU", decades[late], maps[late], linearity(run.final, data.inputs).error), apart


def classification(seed: int, quick: bool, protocol: str) -> Result:
    """Logistic loss on separable labels: how a linear and a ReLU network turn to the max-margin direction."""
    data = bf.datasets.separable(DIM, PAIRS, MARGIN, symmetric=True, seed=seed)
    best = theory.max_margin(data)
    spans = bool(np.linalg.matrix_rank(data.inputs[best.support]) == DIM)
    levels = QUICK_LEVELS if quick else LEVELS
    measured: dict[str, float] = {}
    expected: dict[str, Expectation] = {}
    curves = {}
    if quick:
        course, apart = by_reduced_flow(data, 0.0, seed)
        courses = [course]
        measured["f beside the reduced flow until t = 40, largest difference"] = apart
        expected["f beside the reduced flow until t = 40, largest difference"] = at_most(1e-8)
    else:
        courses = [by_loss_clock(data, slope, seed) for slope in (1.0, 0.0)]
    for name, decades, maps, _ in courses:
        directions = maps / np.linalg.norm(maps, axis=1, keepdims=True)
        # 1 − cos of two unit vectors, without cancellation.
        gap = 0.5 * np.sum((directions - best.direction) ** 2, axis=1)

        def at(level: float, gap: np.ndarray = gap, decades: np.ndarray = decades) -> float:
            return float(np.exp(np.interp(np.log(-level), np.log(decades), np.log(gap))))

        for level in levels:
            measured[f"1 − cos at L = 1e{level}, {name}"] = at(level)
        exponent = f"power of 1/ln(1/L) that 1 − cos falls by, {name}"
        measured[exponent] = math.log(at(levels[-1] / 5) / at(levels[-1])) / math.log(5)
        # Two parts at right angles: one falls like 1/ln², the other, of vectors that do not span, like 1/ln.
        expected[exponent] = near(2.0, absolute=0.25) if spans else near(1.5, absolute=0.55)
        expected[f"1 − cos at L = 1e{levels[-1]}, {name}"] = at_most(1e-4)
        if spans:
            limit = f"ln(1/L) × angle at L = 1e{levels[-1]}, {name}"
            measured[limit] = math.sqrt(2 * at(levels[-1])) * -levels[-1] * math.log(10)
            expected[limit] = near(limit_of_angle(data), relative=0.05)
        curves[name] = np.array([decades, gap])
    measured["part of the output that is not linear in the end"] = courses[-1].error
    expected["part of the output that is not linear in the end"] = at_most(1e-5, loosely=1e-3)
    measured["support vectors"] = float(len(best.support))
    return Result(
        measured,
        expected,
        why="Both networks turn to the hard-margin direction, and slowly, since the angle counts in ln(1/L). How "
        "slowly depends on the draw: where the support vectors span the space the angle falls like 1/ln(1/L), with a "
        "constant that their multipliers give; where they do not, what the first layer learned across them early on "
        "stays while the rest grows like the root of ln(1/L), and 1 − cos falls in the end only like 1/ln(1/L). "
        + (
            "Here they span it."
            if spans
            else f"Here {len(best.support)} vectors leave {DIM - len(best.support)} of {DIM} dimensions free."
        ),
        data={"curves": curves, "limit": limit_of_angle(data) if spans else math.nan},
        settings={
            "dim": DIM, "samples": data.samples, "width": WIDTH, "margin": best.margin,
            "start": f"aligned, norm {NORM}" if quick else "random, scale 0.1",
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
