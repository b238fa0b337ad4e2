"""Theorem 5 at the papers' own size: Figure 3 of the journal paper (Figure 1 of the workshop), and Assumption 4.

Six slopes on 20-dimensional even inputs with an odd target, width 500, random weights of scale 1e-8.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.measure import assumption_4
from biasfree.studies import _shared
from biasfree.studies._study import Expectation, Result, Study, at_most, near
from biasfree.studies._twins import function_errors, tight_twins, weight_errors

SLOPES = (0.0, 0.2, 0.4, 0.6, 0.8)
DIM, PAIRS, WIDTH, SCALE = 20, 1000, 500, 1e-8
# Saved times in units of the escape time ln(1/‖r₁‖)/s of the linear network: dense where the loss drops, and long
# enough for the even part of the network of slope 0.8 to vanish.
SAVED = np.concatenate([[0, 0.25, 0.5, 0.7], np.linspace(0.8, 1.2, 15), [1.3, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 14]])
# The papers' descent: rate, and how often it is saved. 252 steps of the linear network are a whole number of steps of
# every other at the same t̃ = (α+1)t/2.
RATE, STRIDE, DESCENT_END = 0.004, 252, 2.5
# What the flow's tolerance of 1e-5 leaves of a loss.
ACCURACY = 1e-4
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

    @property
    def learnable(self) -> float:
        """What there is to learn: the first loss less that of least squares."""
        return float(self.linear.losses[0] - theory.linear_loss(theory.least_squares(self.data), self.data))

    def left(self, slope: float) -> float:
        """The part of the draw's even function that is still there at the end.

        With ‖W₂⁺‖² − ‖W₂⁻‖² = δ it is bδ|rᵀx|; near the end δ decays at the rate 2((1−α)/(1+α))² wᵀΣw/‖w‖ in t̃.
        """
        w = theory.least_squares(self.data)
        rate = 2 * ((1 - slope) / (1 + slope)) ** 2 * (w @ self.data.covariance @ w) / np.linalg.norm(w)
        return float(np.exp(-rate * (self.times[-1] - 1.25 * self.escape)))


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
        found = {
            slope: bf.gradient_descent(net, data, learning_rate=RATE, steps=int(steps[slope][-1]), save=steps[slope])
            for slope, net in starts.items()
        }
        lag = {slope: theory.descent_lag(net, data, RATE) for slope, net in starts.items()}
    else:
        times = escape * SAVED
        ends = {slope: times / theory.linear_time(1.0, slope) for slope in starts}
        found = {
            slope: bf.gradient_flow(net, data, until=float(ends[slope][-1]), save=ends[slope], rtol=1e-5)
            for slope, net in starts.items()
        }
        lag = dict.fromkeys(starts, 1.0)
    linear = found.pop(1.0)
    return Runs(times, linear, found, start.imbalance, escape, lag)


def predicted_losses(these: Runs, slope: float, times: np.ndarray) -> np.ndarray:
    """Eq. 34's reduced flow from Theorem 13's aligned start, at the network's own times; the data are not white."""
    data, start = these.data, theory.aligned_start(these.all[slope].template, these.data)
    w = theory.reduced_flow(
        times / these.lag[slope], data.covariance, data.correlation, start.direction, start.norm, slope
    )
    return theory.linear_loss(w, data)


def settings(these: Runs, protocol: str) -> dict[str, object]:
    """What was run."""
    data, network = these.data, these.linear.template
    return {
        "dim": data.dim,
        "samples": data.samples,
        "width": network.widths[1],
        "init scale": SCALE,
        "slopes": tuple(these.all),
        "method": f"descent at rate {RATE}" if protocol == "paper" else "flow at rtol 1e-5",
    }


def theorem_5(seed: int, quick: bool, protocol: str) -> Result:
    """Eqs. 4 and 5 from exact starts, by tight flows; and what they become from the random start of the figure."""
    data = _shared.small_set(seed)
    function, weights, defects = [], [], []
    for slope in (0.0, 0.5) if quick else (0.0, 0.2, 0.5, 0.8):
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
    slopes, epsilon = list(these.others), abs(these.imbalance)
    predicted = theory.finite_width_error(these.linear.template, these.data)
    fine = np.linspace(0, 1.5 * these.escape, 300)
    curves, gaps, collapse, errors = {}, [], [], {}
    for slope, run in these.all.items():
        gaps.append(np.abs(run.losses - predicted_losses(these, slope, run.times)).max())
        collapse.append(np.abs(run.losses - these.linear.losses).max())
        own = fine / theory.linear_time(1.0, slope)
        curves[f"{slope:g}"] = {
            "times": run.times, "losses": run.losses, "theory": np.array([own, predicted_losses(these, slope, own)]),
        }  # fmt: skip
        if slope in these.others:
            errors[f"{slope:g}"] = weight_errors(run, these.linear)
    # An imbalance ε costs at most ε² of what there is to learn; descent adds its own discretisation and its lags, by
    # which curves shift, and no part of a curve is steeper than s times its height.
    strength = float(np.linalg.norm(these.data.correlation))
    spread = max(these.lag.values()) - min(these.lag.values())
    step = strength * RATE if protocol == "paper" else 0.0
    tolerance = these.learnable * (epsilon**2 + step) + ACCURACY
    shift = these.learnable * strength * 1.25 * these.escape * spread
    ended = [slope for slope in slopes if these.left(slope) < 0.005]
    ratios = [errors[f"{slope:g}"][-1] / predicted for slope in ended]
    off = max(ratios, key=lambda ratio: abs(ratio - 1))
    rest = these.all[0.0].losses[-1] - (these.linear.losses[0] - these.learnable)
    # Relative corrections to |ε|/2 are 5ε²/32.
    expected = {
        "loss beside Eq. 34, largest difference": at_most(tolerance),
        "loss over rescaled time, largest spread": at_most(tolerance + shift),
        "weight error in the end ÷ |ε|/2, the slope farthest off": near(1.0, relative=0.01 + epsilon**2 / 4),
        "loss above least squares in the end": at_most(ACCURACY),
    }
    measured = {
        "loss beside Eq. 34, largest difference": float(max(gaps)),
        "loss over rescaled time, largest spread": float(max(collapse)),
        "weight error in the end ÷ |ε|/2, the slope farthest off": float(off),
        "loss above least squares in the end": float(rest),
        "largest weight error, %": 100 * float(max(error.max() for error in errors.values())),
        "predicted weight error |ε|/2, %": 100 * predicted,
        "share of draws below 1 %": float(
            theory.finite_width_error_distribution(these.linear.template.widths[1]).cdf(0.01)
        ),
    }
    return Result(
        measured,
        expected,
        why="Learning is (α+1)/2 times slower and the loss curves fall on one another in rescaled time. The weights "
        "do not end exactly at the linear network's: the draw's positive and negative neurons differ by ε and must "
        "become equal, which costs |ε|/2. The papers' “less than 1 %” (0.3 % in the journal) is therefore a "
        "matter of the draw, not of the theorem: at width 500 one draw in five is below 1 %.",
        data={
            "rescaled": these.times,
            "curves": curves,
            "errors": errors,
            "predicted": predicted,
            "escape": these.escape,
            "least_squares": float(these.linear.losses[0] - these.learnable),
        },
        settings={**settings(these, protocol), "slopes whose even part has vanished": tuple(ended)},
    )


def formed(seed: int, quick: bool, protocol: str) -> Result:
    """The defect of Assumption 4 along the run of slope 0, beside Theorem 13 and Eq. 23."""
    these = runs(seed, quick, protocol)
    run = these.others[0.0]
    found = [assumption_4(network) for network in run.networks]
    # Before the output counts, Eq. 23 says how far from rank one the weights still are.
    early = int(np.searchsorted(these.times, 0.5 * these.escape * (1 - 1e-9)))
    grown = theory.early_solution(run.template, these.data, run.times[early] / these.lag[0.0])
    foreseen = assumption_4(run.template.with_weights(grown))
    measured = {
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ at the start": found[0].distance,
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ in the early phase ÷ Eq. 23": found[early].distance / foreseen.distance,
        "imbalance of signs in the early phase − ε of r₁": found[early].imbalance - these.imbalance,
        "‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ from then on, largest": max(state.distance for state in found[early:]),
        "ε of r₁": these.imbalance,
        "imbalance of signs in the end": found[-1].imbalance,
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
            "distance": np.array([state.distance for state in found]),
            "imbalance": np.array([state.imbalance for state in found]),
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
