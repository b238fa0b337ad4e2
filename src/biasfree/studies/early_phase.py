"""The early phase: Lemma 12's bound, Theorem 13's growing mode, their window, and when a run really departs."""

import functools
from collections.abc import Mapping

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.measure import early_phase
from biasfree.studies._shared import DIM, WIDTH, small_set
from biasfree.studies._study import Result, Study, at_least, at_most, near

SCALES, SLOPES = (1e-4, 1e-8), (0.0, 0.4, 1.0)
# The level of error that counts as departure from Eq. 23.
LEVEL = 0.01
# Saved times, in units of the window and of the escape time.
INSIDE, BEYOND = np.linspace(0, 1, 31), 50


@functools.cache
def runs(seed: int, quick: bool) -> Mapping[tuple[float, float], bf.Trajectory]:
    """(Slope, scale) → a run through the window and past the escape time, saved at 81 times."""
    data, by_case = small_set(seed), {}
    for slope in SLOPES[:1] if quick else SLOPES:
        for scale in SCALES:
            network = bf.Network.init([DIM, WIDTH, 1], slope, scale, seed)
            start = theory.aligned_start(network, data)
            window, end = theory.lemma_12(network, data).window, 1.2 * theory.escape_time(start.norm, start.rate)
            times = np.concatenate([window * INSIDE, np.linspace(window, end, BEYOND + 1)[1:]])
            by_case[slope, scale] = bf.gradient_flow(network, data, until=end, save=times, method="tsit5", rtol=1e-9)
    return by_case


def predicted_departure(run: bf.Trajectory) -> float:
    """When the first correction to the growing mode reaches the level, to lowest order.

    With u = √a e^{ast}‖r₁‖, Eq. 34 leaves out u²Σβ̄ at first, whose integral shifts W₁ by u²/(2s) Σβ̄ per unit of the
    mode and W₂ by its part along β̄.
    """
    start, matrix = theory.aligned_start(run.template, run.dataset), run.dataset.covariance
    shift = matrix @ start.direction
    size = np.sqrt(0.5 * (shift @ shift + (start.direction @ shift) ** 2))
    a = theory.linear_time(1.0, run.template.slope)
    strength = start.rate / a
    return float(0.5 * np.log(2 * strength * LEVEL / size / (a * start.norm**2)) / start.rate)


def lemma_12(seed: int, quick: bool, protocol: str) -> Result:
    """The larger layer's norm beside the bound, inside the window and to the end of it."""
    used, last, rates, lasting = [], [], [], []
    for run in runs(seed, quick).values():
        bound = theory.lemma_12(run.template, run.dataset)
        norms = np.max([np.linalg.norm(layer, axis=(1, 2)) for layer in run.weights], axis=0)
        inside = np.isfinite(bound(run.times))
        part = norms[inside] / bound(run.times[inside])
        used.append(float(part.max()))
        last.append(float(part[-1]))
        rates.append(theory.aligned_start(run.template, run.dataset).rate / bound.rate)
        lasting.append(early_phase(run, LEVEL).departure / bound.window)
    measured = {
        "norm ÷ bound inside the window, largest": max(used),
        "norm ÷ bound where the window closes, largest": max(last),
        "real rate of growth ÷ the bound's, largest": max(rates),
        "real end of the early phase ÷ window, smallest": min(lasting),
        "real end of the early phase ÷ window, largest": max(lasting),
    }
    return Result(
        measured,
        {"norm ÷ bound inside the window, largest": at_most(1 + 1e-9)},
        why="The bound holds, with much room: weights grow at the rate (α+1)s/2, the bound allows s + Tr Σ, and the "
        "window, in which the bound stays below one, closes many times earlier than the early phase.",
        settings={"dim": DIM, "samples": 100, "width": WIDTH, "init scales": SCALES, "slopes": SLOPES},
    )


def theorem_13(seed: int, quick: bool, protocol: str) -> Result:
    """The growing mode alone, Eq. 23 as a whole, and the time of departure beside a prediction."""
    modes, solutions, departures, curves = [], [], [], {}
    phases = {}
    for (slope, scale), run in runs(seed, quick).items():
        data, template = run.dataset, run.template
        phase = phases[slope, scale] = early_phase(run, LEVEL)
        inside = run.times <= phase.window
        size = np.sqrt(sum(float(np.sum(np.asarray(layer) ** 2)) for layer in template.weights))
        mode, full = (
            np.sqrt(
                sum(
                    np.sum((w[inside] - v) ** 2, axis=(1, 2))
                    for w, v in zip(run.weights, formula(run.times[inside], template, data), strict=True)
                )
            )
            / size
            for formula in (theory.theorem_13, theory.early_solution)
        )
        modes.append(float(mode.max()))
        solutions.append(float(full.max()))
        departures.append(phase.departure / predicted_departure(run))
        if slope == 0:
            norms = np.sqrt(sum(np.sum(layer**2, axis=(1, 2)) for layer in run.weights))
            grown = np.sqrt(
                sum(np.sum(layer**2, axis=(1, 2)) for layer in theory.theorem_13(run.times, template, data))
            )
            curves[f"{scale:g}"] = {
                "times": run.times, "norms": norms, "mode": grown, "error": phase.error, "window": phase.window,
                "departure": phase.departure, "predicted": predicted_departure(run), "escape": phase.escape,
            }  # fmt: skip
    share = [phase.departure / phase.escape for phase in phases.values()]
    measured = {
        "error of the growing mode in the window ÷ ‖W(0)‖, largest": max(modes),
        "error of Eq. 23 in the window ÷ ‖W(0)‖, largest": max(solutions),
        "departure ÷ predicted, the farthest off": max(departures, key=lambda ratio: abs(ratio - 1)),
        "departure ÷ window, smallest": min(phase.departure / phase.window for phase in phases.values()),
        "departure ÷ escape time, smallest": min(share),
        "departure ÷ escape time, largest": max(share),
    }
    return Result(
        measured,
        {
            # What the mode leaves out are orthogonal parts of W(0), one of them shrinking.
            "error of the growing mode in the window ÷ ‖W(0)‖, largest": at_most(1 + 1e-3),
            # The proof claims an error of the order of γ².
            "error of Eq. 23 in the window ÷ ‖W(0)‖, largest": at_most(max(SCALES)),
            "departure ÷ predicted, the farthest off": near(1.0, relative=0.03),
            "departure ÷ window, smallest": at_least(1.0),
        },
        why="In its window the theorem holds with an error below the initial norm, as claimed, and far beyond it: a "
        f"run is {LEVEL:.0%} off Eq. 23 only when the left-out terms, which grow like e^(2ast), have caught up. The "
        "window comes from a bound on the growth that is never nearly reached.",
        data={"curves": curves, "level": LEVEL},
        settings={"dim": DIM, "samples": 100, "width": WIDTH, "init scales": SCALES, "slopes": SLOPES, "level": LEVEL},
    )


STUDIES = (
    Study(
        id="lemma-12",
        title="A bound on early growth",
        reference="Zhang et al., Lemma 12, Eq. 17",
        statement="From small weights the larger of the two layers' norms grows at most like e^{(s + Tr Σ)t}, for as "
        "long as this bound stays below one.",
        formula="u(t) ≤ u(0) e^{(s + Tr Σ)t}  for  t < ln(1/u(0))/(s + Tr Σ),  u = max(‖W₁‖, ‖W₂‖)",
        run=lemma_12,
    ),
    Study(
        id="theorem-13",
        title="Early growth along one direction",
        reference="Zhang et al., Theorem 13, Eqs. 20 and 23",
        statement="In the early phase weights of small scale γ grow along one direction, rank one in both layers, with "
        "errors of the order of γ.",
        formula="W₁ ≈ e^{½(α+1)st} r₁β̄ᵀ,  W₂ ≈ e^{½(α+1)st} r₁ᵀ,  r₁ = ½(W₁(0)β̄ + W₂(0)ᵀ)",
        run=theorem_13,
    ),
)
