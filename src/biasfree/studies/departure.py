"""How long almost symmetric data look linear: the law of departure, with and without weight decay.

New here: the papers stop at the observation that the plateau is long.
"""

import functools

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._study import Result, Study, at_least, at_most, near

WIDTH = 100
OFFSETS, QUICK_OFFSETS = (0.01, 0.03, 0.08), (0.02, 0.04)
SCALES, QUICK_SCALES = (1e-3, 1e-6, 1e-12, 1e-24), (1e-3, 1e-6)
DECAYS, QUICK_DECAYS = (0.0, 0.001, 0.002, 0.003), (0.0, 0.002)
DRAWS, QUICK_DRAWS, DECAY_OFFSET = 5, 3, 0.04
# Below the linear solution by this share of the first loss it has been left.
BELOW = 0.03


@functools.cache
def departures(offset: float, scale: float, seed: int, draws: int, decay: float, until: float) -> tuple[float, ...]:
    """When each of several draws leaves the linear solution; infinite for those that do not within ``until``."""
    data = bf.datasets.six_points(offset)
    level = float(theory.linear_loss(theory.least_squares(data), data)) - BELOW * 0.5
    times = []
    for k in range(draws):
        start = bf.Network.init([2, WIDTH, 1], 0.0, scale, seed + k)
        run = bf.gradient_flow(start, data, until=until, stop=level, weight_decay=decay, save=1)
        times.append(float(run.times[-1]) if run.status.name == "loss level" else np.inf)
    return tuple(times)


def _slope(one: tuple[float, ...], other: tuple[float, ...], folds: float) -> float:
    """Time per e-fold of the scale: of the draws that leave at both scales, in the middle."""
    differences = [b - a for a, b in zip(one, other, strict=True) if np.isfinite(a) and np.isfinite(b)]
    return float(np.median(differences)) / folds if differences else np.nan


def law(seed: int, quick: bool, protocol: str) -> Result:
    """Departure times over offset and scale beside the law; how many draws stay."""
    offsets, scales = (QUICK_OFFSETS, QUICK_SCALES) if quick else (OFFSETS, SCALES)
    draws = QUICK_DRAWS if quick else DRAWS
    sets = {x: bf.datasets.six_points(x) for x in offsets}  # one each: what does not depend on the scale is shared
    laws = {(x, s): theory.departure(sets[x], init_scale=s) for x in offsets for s in scales}
    times_left = {
        key: departures(key[0], key[1], seed, draws, 0.0, 2 * (np.log(1 / key[1]) + 10) * 9.5 / key[0]) for key in laws
    }
    middle = {
        key: float(np.median([t for t in times if np.isfinite(t)] or [np.nan])) for key, times in times_left.items()
    }
    ratios = [middle[key] / laws[key].time for key in laws if np.isfinite(middle[key]) and np.isfinite(laws[key].time)]
    folds = np.log(scales[0] / scales[1])
    slopes = [
        _slope(times_left[x, scales[0]], times_left[x, scales[1]], folds) / laws[x, scales[1]].per_e_fold
        for x in offsets
    ]
    products = [middle[x, scales[0]] * x for x in offsets]
    stay = {key: float(np.mean(np.isinf(times))) for key, times in times_left.items()}
    expected_stay = {key: laws[key].stays(WIDTH) for key in laws}
    symmetric = theory.departure(bf.datasets.six_points(0.0))
    measured = {
        "departure time ÷ law, smallest": float(min(ratios)),
        "departure time ÷ law, largest": float(max(ratios)),
        "time per e-fold of the scale ÷ law, smallest": float(np.nanmin(slopes)),
        "time per e-fold of the scale ÷ law, largest": float(np.nanmax(slopes)),
        "t·δ, largest ÷ smallest over the offsets": float(max(products) / min(products)),
        "ρ/δ at the smallest offset": laws[offsets[0], scales[0]].rate.lower / offsets[0],
        "ρ without asymmetry": symmetric.rate.lower,
        "draws that stay, all settings": float(sum(stay.values()) * draws),
        "draws that stay, by the law": float(sum(expected_stay.values()) * draws),
    }
    spread = np.sqrt(sum(draws * p * (1 - p) for p in expected_stay.values()))
    return Result(
        measured,
        {
            "departure time ÷ law, smallest": at_least(0.95, loosely=0.9),
            "departure time ÷ law, largest": at_most(1.05, loosely=1.1),
            # The middle of a few draws is off by a few per cent; of twenty, by less than two.
            "time per e-fold of the scale ÷ law, smallest": at_least(0.95, loosely=0.9),
            "time per e-fold of the scale ÷ law, largest": at_most(1.05, loosely=1.1),
            "t·δ, largest ÷ smallest over the offsets": at_most(1.05, loosely=1.1),
            "ρ without asymmetry": at_most(1e-12),
            "draws that stay, all settings": near(
                measured["draws that stay, by the law"], absolute=float(3 * spread) + 1.0
            ),
        },
        why="On the plateau a sleeping neuron sees only the residuals of the linear solution, whose pull is of first "
        "order in the asymmetry. Two kinds of sleepers are needed, of opposite signs on the two edges of the narrow "
        "wedge between the moved point and its former mirror image. One of them shrinks during the early phase and is "
        "lost once w = 0: smaller starts and larger asymmetries leave fewer of them, and without them nobody leaves.",
        data={
            "offsets": np.array(offsets),
            "scales": np.array(scales),
            "times": np.array([[middle[x, s] for x in offsets] for s in scales]),
            "law": np.array([[laws[x, s].time for x in offsets] for s in scales]),
        },
        settings={"width": WIDTH, "draws": draws, "slope": 0.0, "left": "3 % of the first loss below least squares"},
    )


def decay(seed: int, quick: bool, protocol: str) -> Result:
    """Time per e-fold under weight decay beside ρ − λ, and the decay at which nothing grows."""
    data, decays = bf.datasets.six_points(DECAY_OFFSET), QUICK_DECAYS if quick else DECAYS
    draws, scales = (QUICK_DRAWS if quick else DRAWS), (1e-3, 1e-6)
    ratios, rates, laws = [], [], []
    for strength in decays:
        predicted = theory.departure(data, init_scale=scales[1], weight_decay=strength)
        until = 3 * predicted.time
        one, other = (departures(DECAY_OFFSET, scale, seed, draws, strength, until) for scale in scales)
        slope = _slope(one, other, float(np.log(1e3)))
        ratios.append(slope / predicted.per_e_fold)
        rates.append(1 / slope)
        laws.append(1 / predicted.per_e_fold)
    threshold = theory.departure_threshold(data)
    beyond = 1.1 * threshold
    stays = departures(DECAY_OFFSET, 1e-3, seed, draws, beyond, 20 / threshold)
    fall = float(np.polyfit(decays, rates, 1)[0])
    plain = theory.departure(data).rate.lower
    return Result(
        {
            "time per e-fold ÷ law, smallest": float(min(ratios)),
            "time per e-fold ÷ law, largest": float(max(ratios)),
            "fall of the rate per unit of λ": -fall,
            "threshold of λ": threshold,
            "threshold of λ ÷ ρ without decay": threshold / plain,
            "share that leaves at 1.1 thresholds": float(np.mean(np.isfinite(stays))),
            "largest rate at 1.1 thresholds": theory.departure(data, weight_decay=beyond).rate.lower,
        },
        {
            "time per e-fold ÷ law, smallest": at_least(0.95, loosely=0.9),
            "time per e-fold ÷ law, largest": at_most(1.05, loosely=1.1),
            "fall of the rate per unit of λ": near(1.0, relative=0.05),
            "share that leaves at 1.1 thresholds": at_most(0.0),
            "largest rate at 1.1 thresholds": at_most(0.0),
        },
        why="Every rate of growth falls by λ. The residuals are those of the regularised plateau: they pull a little "
        "more, ⟨r x⟩ is no longer zero, so that the threshold is not ρ(0) but the root of ρ(λ) = λ, a few per cent "
        "above it.",
        data={"decays": np.array(decays), "rates": np.array(rates), "law": np.array(laws), "threshold": threshold},
        settings={"width": WIDTH, "offset": DECAY_OFFSET, "draws": draws, "scales": scales},
    )


STUDIES = (
    Study(
        id="departure-law",
        title="How long almost symmetric data look linear",
        reference="new; after Zhang et al., Appendix B and Figure 2 (journal Figure 6)",
        statement="The plateau at the linear solution ends at a time proportional to ln(1/γ) and inversely "
        "proportional to the asymmetry δ; whether it ends at all depends on which sleepers the early phase has left.",
        formula="t ≈ t₀ + (ln(1/γ) − k t₀)/ρ,  ρ = max_u |⟨r σ(uᵀx)⟩| ∝ δ",
        run=law,
    ),
    Study(
        id="departure-decay",
        title="Departure under weight decay",
        reference="new",
        statement="Weight decay λ lowers the rate of departure by λ; beyond a threshold the linear solution is never "
        "left.",
        formula="rate = ρ(λ) − λ;  never for λ ≥ λ*, ρ(λ*) = λ*",
        run=decay,
    ),
)
