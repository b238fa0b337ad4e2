"""From saddle to saddle: every plateau is an early phase of its own. New here."""

import functools

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._study import Result, Study, at_least, at_most

WIDTH, SCALE = 60, 1e-12
SETS, QUICK_SETS = 8, 2


def small_set(number: int) -> bf.Dataset:
    """Six Gaussian samples in the plane with Gaussian targets."""
    rng = np.random.default_rng([9, number])
    return bf.Dataset(rng.normal(size=(6, 2)), rng.normal(size=6), f"six random points, number {number}")


@functools.cache
def explained(number: int, seed: int) -> bf.measure.Plateaus:
    """A run with its plateaus; numbers 0 and 1 are XOR and the orthogonal pair."""
    data = (bf.datasets.xor(), bf.datasets.orthogonal_pair())[number] if number < 2 else small_set(number)
    start = bf.Network.init([2, WIDTH, 1], 0.0, SCALE, seed + number)
    return bf.gradient_flow(start, data, until=200.0 if number < 2 else 3000.0).plateaus()


def saddles(seed: int, quick: bool, protocol: str) -> Result:
    """Predicted beside measured ends of all plateaus of several runs."""
    explanations = [explained(number, seed) for number in range(QUICK_SETS if quick else SETS)]
    every = [(each, run) for run in explanations for each in run]
    errors = [abs(each.predicted_end - each.end) / each.end for each, _ in every if each.ends]
    stay = [each for each, _ in every if not each.ends]
    early = [each.predicted_by == "early flow" for each, _ in every if each.ends]
    rates = theory.gathering_directions(bf.datasets.xor(), samples=200, seed=seed)
    # Plateau k of XOR is left at the k-th rate of the early phase: the groups do not see each other.
    growing = [each.growth[0].rate if each.growth else np.nan for each in explanations[0]][: len(rates)]
    apart = [abs(rate - group.rate) for rate, group in zip(growing, rates, strict=False)]
    return Result(
        {
            "ends predicted within 10 %, share": float(np.mean(np.array(errors) <= 0.1)),
            "median error of an end": float(np.median(errors)),
            "XOR: largest error of an end": float(
                max(abs(each.predicted_end - each.end) / each.end for each in explanations[0] if each.ends)
            ),
            "XOR: largest difference of a growth rate from that of the early phase": float(max(apart)),
            "last plateaus predicted to stay, share": float(np.mean([np.isinf(each.predicted_end) for each in stay])),
            "plateaus": float(len(every)),
            "ends predicted by the early flow alone, share": float(np.mean(early)),
        },
        {
            "ends predicted within 10 %, share": at_least(0.9, loosely=0.8),
            "XOR: largest error of an end": at_most(0.01),
            "XOR: largest difference of a growth rate from that of the early phase": at_most(1e-3),
            "last plateaus predicted to stay, share": at_least(0.8, loosely=0.6),
        },
        why="On a plateau the residuals do not move, so that sleepers follow the equations of the early phase with "
        "residuals in the place of targets. They gather at the extrema of ⟨r σ(uᵀx)⟩ and end the plateau when they "
        "have grown. Where awake neurons still turn, the plateau ends by them.",
        data={
            "times": explanations[0].trajectory.times,
            "losses": explanations[0].trajectory.losses,
            "ends": explanations[0].ends,
            "predicted": explanations[0].predicted_ends,
            "pairs": np.array([(each.end, each.predicted_end) for each, _ in every if each.ends]),
        },
        settings={"width": WIDTH, "initial scale": SCALE, "sets": len(explanations)},
    )


def limit(seed: int, quick: bool, protocol: str) -> Result:
    """The staircase in units of ln(1/γ) beside the rates of the early phase."""
    data = bf.datasets.orthogonal_pair() if quick else bf.datasets.xor()
    staircase = bf.skeleton(data, width=20, seed=seed)
    groups = theory.gathering_directions(data, samples=200, seed=seed)
    predicted = np.array([1 / group.rate for group in groups])
    size = min(len(predicted), len(staircase.taus))
    apart = np.abs(staircase.taus[:size] / predicted[:size] - 1)
    finite = [abs(drop.taus[0] - drop.tau) / drop.tau for drop in staircase.drops]
    return Result(
        {
            "drops": float(len(staircase.drops)),
            "drops less gathering directions": float(len(staircase.drops) - len(groups)),
            "τ of a drop times its rate, largest difference from 1": float(apart.max()),
            "estimated error of τ, largest": float(max(drop.error / drop.tau for drop in staircase.drops)),
            "τ at 1e-20, largest distance from the limit": float(max(finite)),
            "loss in the end ÷ first loss": float(staircase.levels[-1] / staircase.levels[0]),
        },
        {
            "drops less gathering directions": at_most(0.0),
            "τ of a drop times its rate, largest difference from 1": at_most(0.01),
            "estimated error of τ, largest": at_most(0.02),
            "loss in the end ÷ first loss": at_most(1e-3),
        },
        why="A group that grows at rate ρ from γ is there after ln(1/γ)/ρ. What transitions take does not grow with "
        "ln(1/γ), so that in τ = t/ln(1/γ) the loss is a staircase in the limit; on data whose groups do not see each "
        "other its drops are at τ = 1/ρ.",
        data={
            "scales": np.array(staircase.scales),
            "taus": np.array([drop.taus for drop in staircase.drops]),
            "limit": staircase.taus,
            "levels": staircase.levels,
        },
        settings={"data": data.name, "width": 20, "scales": staircase.scales},
    )


STUDIES = (
    Study(
        id="saddle-to-saddle",
        title="Every plateau explained, its end predicted",
        reference="new; after Zhang et al., journal Figures 4 and 6",
        statement="Each plateau of the loss is an early phase of its own, on the residuals of that plateau; its end "
        "follows from the sleeping neurons at its first moment.",
        formula="ẇ = v c(w), v̇ = c(w)ᵀw,  c(w) = ⟨r σ'(wᵀx) x⟩",
        run=saddles,
    ),
    Study(
        id="plateau-skeleton",
        title="The staircase of vanishing starts",
        reference="new",
        statement="In τ = t/ln(1/γ) the loss curve tends to a staircase that does not depend on γ.",
        formula="τ_k = 1/ρ_k for groups that do not see each other",
        run=limit,
    ),
)
