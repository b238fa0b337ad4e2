"""Theorem 5 at the papers' own size: Figure 3 of the journal paper (Figure 1 of the workshop), and Assumption 4.

Six slopes on 20-dimensional even inputs with an odd target, width 500, random weights of scale 1e-8.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

import biasfree as bf
from biasfree import theory
from biasfree.measure import assumption_4
from biasfree.studies import _shared
from biasfree.studies._study import Expectation, Result, Study, at_most, near
from biasfree.studies._twins import function_errors, tight_twins, weight_errors

SLOPES = (0.0, 0.2, 0.4, 0.6, 0.8)
DIM, PAIRS, WIDTH, SCALE = 20, 1000, 500, 1e-8
# Saved times in units of the escape time ln(1/‖r₁‖)/s of the linear network: dense where the loss drops, and long
# enough for the even part of the ReLU network to vanish; that of slope 0.8 takes eighty times as long to.
SAVED = np.concatenate([[0, 0.25, 0.5, 0.7], np.linspace(0.8, 1.2, 13), [1.3, 1.5, 1.75, 2, 2.5, 3]])
PARTS = np.linspace(0, 1, SAVED.size)
# The papers' descent: rate, and how often it is saved. 252 steps of the linear network are a whole number of steps of
# every other at the same t̃ = (α+1)t/2.
RATE, STRIDE, DESCENT_END = 0.004, 252, 2.5
# The flow's tolerance, and what it leaves of a loss.
RTOL, ACCURACY = 1e-5, 1e-4
EXACT, NORM = 1e-8, 0.1


@dataclass(frozen=True)
class Runs:
    """All runs of the figure.

    Attributes:
        times: t̃ = (α+1)t/2, the linear network's time, at which every run was saved.
        linear: the run of the linear network.
        others: slope → the run of its twin of this slope.
        imbalance: ε of the draw.
        escape: ln(1/‖r₁‖)/s, the linear network's escape time.
        lag: slope → how much later than the flow descent is; 1 for the flow.
    """

    times: np.ndarray
    linear: bf.Trajectory
    others: Mapping[float, bf.Trajectory]
    imbalance: float
    escape: float
    lag: Mapping[float, float]

    @property
    def data(self) -> bf.Dataset:
        """What all were trained on."""
        return self.linear.dataset

    @property
    def all(self) -> dict[float, bf.Trajectory]:
        """Slope → run, the linear one last."""
        return {**self.others, 1.0: self.linear}

    @functools.cached_property
    def learnable(self) -> float:
        """What there is to learn: the first loss less that of least squares."""
        return float(self.linear.losses[0] - theory.linear_loss(theory.least_squares(self.data), self.data))


@functools.cache
def runs(seed: int, quick: bool, protocol: str) -> Runs:
    """Draw data and weights from one generator, in the order inputs, teacher, W₁, W₂, and train all slopes."""
    rng = np.random.default_rng(seed)
    dim, pairs, width = (_shared.DIM, _shared.PAIRS, _shared.WIDTH) if quick else (DIM, PAIRS, WIDTH)
    data = bf.datasets.symmetric_gaussian(dim, pairs, "linear_plus_sine", seed=rng)
    network = bf.Network.init([dim, width, 1], 1.0, SCALE, rng)
    slopes = SLOPES[::3] if quick else SLOPES
    start = theory.aligned_start(network, data)
    escape = theory.escape_time(start.norm, start.rate)
    twins = {slope: theory.relu_twin(network, slope) for slope in slopes}
    starts = {**twins, 1.0: network}
    if protocol == "paper":
        counts = STRIDE * np.arange(int(np.ceil(DESCENT_END * escape / (RATE * STRIDE))) + 1)
        times = RATE * counts
        steps = {slope: np.round(counts / theory.linear_time(1.0, slope)).astype(int) for slope in starts}
        by_slope = {
            slope: bf.gradient_descent(net, data, learning_rate=RATE, steps=int(steps[slope][-1]), save=steps[slope])
            for slope, net in starts.items()
        }
        lag = {slope: theory.descent_lag(net, data, RATE) for slope, net in starts.items()}
    else:
        # The small shape is saved as often as everywhere else, so that it is compiled once.
        times = escape * (np.interp(np.linspace(0, 1, _shared.TIMES.size), PARTS, SAVED) if quick else SAVED)
        own = {slope: times / theory.linear_time(1.0, slope) for slope in starts}
        # A loss that is never reached: at this width looking for rest costs more than going on to the end.
        by_slope = {
            slope: bf.gradient_flow(net, data, until=float(own[slope][-1]), save=own[slope], rtol=RTOL, stop=1e-300)
            for slope, net in starts.items()
        }
        lag = dict.fromkeys(starts, 1.0)
    linear = by_slope.pop(1.0)
    return Runs(times, linear, by_slope, start.imbalance, escape, lag)


def predicted_maps(these: Runs, slope: float, times: np.ndarray) -> np.ndarray:
    """Eq. 34's reduced flow from Theorem 13's aligned start, at the network's own times; the data are not white."""
    data, start = these.data, theory.aligned_start(these.all[slope].template, these.data)
    return theory.reduced_flow(
        times / these.lag[slope], data.covariance, data.correlation, start.direction, start.norm, slope
    )


def predicted_errors(these: Runs, slopes: Sequence[float], times: np.ndarray) -> dict[float, np.ndarray]:
    """The weights' errors at times t̃, once both networks are rank one, to lowest order in the imbalance ε, by slope.

    Neurons with w₂ > 0 and with w₂ < 0, shares C± = (1 ± ε)/2 of ‖r₁‖², are then W₁ = c p±ᵀ and W₂ = c q±, each as its
    own c. Under Condition 3, with κ = ((1−α)/(1+α))² and weights as large as the linear twin's,

        dp±/dt̃ = q± e±,  dq±/dt̃ = p±ᵀe±,  e± = β − ΣM ∓ κΣD,  M = C₊q₊p₊ + C₋q₋p₋,  D = C₊q₊p₊ − C₋q₋p₋:

    D, the even part, must vanish in the end, while the linear network (κ = 0) keeps it.
    """
    data, start = these.data, theory.aligned_start(these.linear.template, these.data)
    shares = 0.5 * (1 + these.imbalance * np.array([1.0, -1.0]))

    def velocity(_: float, state: np.ndarray, bend: float) -> np.ndarray:
        p, q = state.reshape(2, -1)[:, :-1], state.reshape(2, -1)[:, -1:]
        each = shares[:, None] * q * p
        pull = data.correlation - (each.sum(axis=0) + bend * np.outer([1, -1], each[0] - each[1])) @ data.covariance
        return np.hstack([q * pull, np.sum(p * pull, axis=1, keepdims=True)]).ravel()

    def weights(slope: float) -> np.ndarray:
        bend, begin = ((1 - slope) / (1 + slope)) ** 2, np.tile(start.norm * np.append(start.direction, 1.0), 2)
        return solve_ivp(velocity, (0, times[-1]), begin, "DOP853", times, args=(bend,), rtol=1e-9, atol=1e-16).y

    linear, share = weights(1.0), np.repeat(shares, data.dim + 1)
    return {slope: np.sqrt(share @ (weights(slope) - linear) ** 2 / (share @ linear**2)) for slope in slopes}


def settings(these: Runs, protocol: str) -> dict[str, object]:
    """What was run."""
    data, network = these.data, these.linear.template
    return {
        "dim": data.dim,
        "samples": data.samples,
        "width": network.widths[1],
        "init scale": SCALE,
        "slopes": tuple(these.all),
        "method": f"descent at rate {RATE}" if protocol == "paper" else f"flow at rtol {RTOL:g}",
    }


def theorem_5(seed: int, quick: bool, protocol: str) -> Result:
    """Eqs. 4 and 5 from exact starts, by tight flows; and what they become from the random start of the figure."""
    data = _shared.small_set(seed)
    function, weights, defects = [], [], []
    for slope in (0.0,) if quick else (0.0, 0.2, 0.5, 0.8):
        start = bf.Network.rank_one(_shared.DIM, _shared.WIDTH, slope, NORM, seed)
        run, twin = tight_twins(start, data)
        function.append(function_errors(run, twin).max())
        weights.append(weight_errors(run, twin).max())
        last = assumption_4(run.final)
        defects.append(max(last.distance, abs(last.imbalance)))
    these = runs(seed, quick, protocol)
    random = max(float(function_errors(run, these.linear).max()) for run in these.others.values())
    measured = {
        "Eq. 4, largest difference": float(max(function)),
        "Eq. 5, largest difference": float(max(weights)),
        "defect of Assumption 4 in the end": float(max(defects)),
        "Eq. 4 from a random start, largest difference": random,
        "|ε| of that start": abs(these.imbalance),
    }
    expected: dict[str, Expectation] = {name: at_most(EXACT) for name in list(measured)[:3]}
    if protocol == "flow":
        # The even part is at most (1−α)/(1+α) ≤ 1 times ε of the linear one.
        expected["Eq. 4 from a random start, largest difference"] = at_most(abs(these.imbalance))
    return Result(
        measured,
        expected,
        why="From exactly aligned and balanced weights the two networks are one function at matching times, to the "
        "accuracy of the integration. A random small start lacks balance by ε, so that an even part of at most |ε| of "
        "the output appears on the way and vanishes again.",
        settings={
            "exact start": {"dim": _shared.DIM, "samples": data.samples, "width": _shared.WIDTH, "norm": NORM},
            "random start": settings(these, protocol),
        },
    )


def figure(seed: int, quick: bool, protocol: str) -> Result:
    """Loss over time and over rescaled time, and the weights' error, beside their predictions."""
    these = runs(seed, quick, protocol)
    epsilon, width = abs(these.imbalance), these.linear.template.widths[1]
    predicted = theory.finite_width_error(these.linear.template, these.data)
    early = int(np.searchsorted(these.times, 0.7 * these.escape))
    fine = np.linspace(0, 1.5 * these.escape, 300)
    grid = np.union1d(these.times, np.geomspace(0.7 * these.escape, these.times[-1], 60))
    own = {slope: fine / theory.linear_time(1.0, slope) for slope in these.all}
    maps = [predicted_maps(these, slope, np.append(run.times, own[slope])) for slope, run in these.all.items()]
    curves, gaps, collapse, errors = {}, [], [], {}
    foreseen = {f"{slope:g}": curve for slope, curve in predicted_errors(these, list(these.others), grid).items()}
    for (slope, run), losses in zip(these.all.items(), theory.linear_loss(np.array(maps), these.data), strict=True):
        at_saves, between = np.split(losses, [run.times.size])
        gaps.append(np.abs(run.losses - at_saves).max())
        collapse.append(np.abs(run.losses - these.linear.losses).max())
        curves[f"{slope:g}"] = {"times": run.times, "losses": run.losses, "theory": np.array([own[slope], between])}
        if slope in these.others:
            errors[f"{slope:g}"] = weight_errors(run, these.linear)
    # An imbalance ε costs at most ε² of what there is to learn; descent adds its own discretisation and its lags, by
    # which curves shift, and no part of a curve is steeper than s times its height.
    strength = float(np.linalg.norm(these.data.correlation))
    spread = max(these.lag.values()) - min(these.lag.values())
    step = strength * RATE if protocol == "paper" else 0.0
    tolerance = these.learnable * (epsilon**2 + step) + ACCURACY
    shift = these.learnable * strength * 1.25 * these.escape * spread
    saved = np.searchsorted(grid, these.times)
    off_curve = max(float(np.abs(errors[slope] - curve[saved])[early:].max()) for slope, curve in foreseen.items())
    rest = these.all[0.0].losses[-1] - (these.linear.losses[0] - these.learnable)
    # Relative corrections to |ε|/2 are 5ε²/32.
    expected: dict[str, Expectation]
    expected = {
        "loss beside Eq. 34, largest difference": at_most(tolerance),
        "loss over rescaled time, largest spread": at_most(tolerance + shift),
        "weight error of α = 0 in the end ÷ |ε|/2": near(1.0, relative=0.01 + epsilon**2 / 4),
        "loss above least squares in the end": at_most(ACCURACY),
    }
    if protocol == "flow":
        # Descent at one rate for all slopes has errors of its own.
        name = "weight error beside its curve from two signs, largest difference ÷ |ε|/2"
        expected[name] = at_most(0.01 + RTOL / predicted)
    measured = {
        "loss beside Eq. 34, largest difference": float(max(gaps)),
        "loss over rescaled time, largest spread": float(max(collapse)),
        "weight error of α = 0 in the end ÷ |ε|/2": float(errors["0"][-1]) / predicted,
        "loss above least squares in the end": float(rest),
        "weight error beside its curve from two signs, largest difference ÷ |ε|/2": off_curve / predicted,
        "largest weight error, %": 100 * float(max(error.max() for error in errors.values())),
        "predicted weight error |ε|/2, %": 100 * predicted,
        # Of theory.finite_width_error_distribution; SciPy's own would be loaded for this number alone.
        "share of draws below 1 %": math.erf(0.01 * math.sqrt(2 * width / 3)),
    }
    return Result(
        measured,
        expected,
        why="Learning is (α+1)/2 times slower and the loss curves fall on one another in rescaled time. The weights "
        "do not end exactly at the linear network's: the draw's positive and negative neurons differ by ε and must "
        "become equal, which costs |ε|/2, at a pace of ((1−α)/(1+α))²: two reduced flows, one for each sign of w₂, "
        "give the whole curve. The papers' “less than 1 %” (0.3 % in the journal) is therefore a matter of the draw, "
        f"not of the theorem: at width {width}, {measured['share of draws below 1 %']:.0%} of draws are below 1 %.",
        data={
            "rescaled": these.times,
            "curves": curves,
            "errors": errors,
            "foreseen": {"times": grid, **foreseen},
            "predicted": predicted,
            "escape": these.escape,
            "least_squares": float(these.linear.losses[0] - these.learnable),
        },
        settings=settings(these, protocol),
    )


def formed(seed: int, quick: bool, protocol: str) -> Result:
    """The defect of Assumption 4 along the run of slope 0, beside Theorem 13 and Eq. 23."""
    these = runs(seed, quick, protocol)
    run = these.others[0.0]
    states = [assumption_4(network) for network in run.networks]
    # Before the output counts, Eq. 23 says how far from rank one the weights still are.
    early = int(np.searchsorted(these.times, 0.5 * these.escape * (1 - 1e-9)))
    growing = np.linspace(0, run.times[early], 40)
    foreseen = [
        assumption_4(run.template.with_weights(theory.early_solution(t, run.template, these.data))).distance
        for t in growing / these.lag[0.0]
    ]
    measured = {
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ at the start": states[0].distance,
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ in the early phase ÷ Eq. 23": states[early].distance / foreseen[-1],
        "imbalance of signs in the early phase − ε of r₁": states[early].imbalance - these.imbalance,
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ from then on, largest": max(state.distance for state in states[early:]),
        "ε of r₁": these.imbalance,
        "imbalance of signs in the end": states[-1].imbalance,
    }
    return Result(
        measured,
        {
            "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ in the early phase ÷ Eq. 23": near(1.0, relative=0.05),
            "imbalance of signs in the early phase − ε of r₁": near(0.0, absolute=1e-4),
            "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ from then on, largest": at_most(abs(these.imbalance)),
        },
        why="A random start is nothing like rank one; by the time its output counts it is, to the accuracy that Eq. 23 "
        "gives. The other half of the assumption, equal positive and negative parts, is never formed by the early "
        "phase: it stays as far off as the draw of r₁, ε ~ N(0, 3/width), until the end of training makes the parts "
        "equal.",
        data={
            "times": run.times,
            "distance": np.array([state.distance for state in states]),
            "imbalance": np.array([state.imbalance for state in states]),
            "foreseen": np.array([growing, foreseen]),
            "start": these.imbalance,
        },
        settings={**settings(these, protocol), "slope": 0.0},
    )


STUDIES = (
    Study(
        id="assumption-4",
        title="Rank-one, sign-balanced weights",
        reference="Zhang et al., Assumption 4 (journal Assumption 7)",
        statement="Small random weights become rank one and aligned with the readout, W₁ = W₂ᵀrᵀ, early in training; "
        "their positive and negative parts have equal norm as the width goes to infinity.",
        formula="W₁ = W₂ᵀrᵀ, ‖W₂⁺‖ = ‖W₂⁻‖;  ε = (‖r₁⁺‖² − ‖r₁⁻‖²)/‖r₁‖²",
        run=formed,
    ),
    Study(
        id="theorem-5-square",
        title="Equivalence to a linear network, square loss",
        reference="Zhang et al., Theorem 5, Eqs. 4–5 (journal Theorem 8)",
        statement="On even inputs with an odd target a two-layer (leaky) ReLU network that starts aligned and balanced "
        "computes at time t what its linear twin computes at (α+1)t/2, with weights √(2/(α+1)) times as large.",
        formula="f(x; W(t)) = f_lin(x; W_lin(½(α+1)t)),  W(t) = √(2/(α+1)) W_lin(½(α+1)t)",
        run=theorem_5,
    ),
    Study(
        id="tmlr-figure-3",
        title="Loss curves of six slopes collapse in rescaled time",
        reference="Zhang et al., journal Figure 3 (workshop Figure 1)",
        statement="From small random weights the loss of networks of six slopes follows theory, the curves collapse "
        "when time is rescaled by (α+1)/2, and rescaled weights differ from the linear network's by less than 1 %.",
        formula="‖√((α+1)/2) W(2t/(α+1)) − W_lin(t)‖ / ‖W_lin(t)‖ → |ε|/2",
        run=figure,
        aliases=("workshop-figure-1",),
    ),
)
