"""Le & Jegelka: the last linear layers of a ReLU network tend to rank one, and align, when separable data are learned
for ever.

On orthogonal inputs no neuron slides along its activation boundary, so that the flow is smooth and can be followed to
losses of 10^−10000.
"""

import functools
import math

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.measure._approach import approach
from biasfree.measure._rank_excess import shortfall
from biasfree.studies._study import Result, Study, at_most, near

DIM = SAMPLES = 8
WIDTH, SCALE = 16, 1.0
# Which hidden layers are rectified.
RECTIFIED = (True, False, False)
DECADES, QUICK_DECADES = 10_000, 1000
# The part of ln 1/L that the law is fitted to.
FITTED = 0.1
RTOL = 1e-5
# What errors of RTOL in every step add up to.
SMOOTH = 10 * RTOL


def orthogonal(seed: int) -> bf.Dataset:
    """Orthogonal inputs of lengths between 0.8 and 1.2, labels in turn."""
    rng = np.random.default_rng([seed, 1])
    directions, _ = np.linalg.qr(rng.normal(size=(DIM, SAMPLES)))
    return bf.Dataset(
        directions.T * rng.uniform(0.8, 1.2, size=(SAMPLES, 1)), np.resize([1.0, -1.0], SAMPLES), "orthogonal"
    )


def trained(start: bf.Network, data: bf.Dataset, decades: float) -> bf.Trajectory:
    """Logistic loss down to 10^−decades, on the loss clock."""
    stop = bf.Stop(log_loss=-decades * math.log(10))
    return bf.gradient_flow(start, data, loss="logistic", clock="loss", until=math.inf, rtol=RTOL, stop=stop)


@functools.cache
def late(seed: int, quick: bool) -> bf.Trajectory:
    """The run that never ends, as far as it goes."""
    start = bf.Network.init((DIM, *[WIDTH] * len(RECTIFIED), 1), 0.0, SCALE, seed, rectified=RECTIFIED)
    return trained(start, orthogonal(seed), QUICK_DECADES if quick else DECADES)


def hidden(run: bf.Trajectory, rectified: bool) -> tuple[int, ...]:
    """Numbers of the hidden layers with or without an activation."""
    return tuple(layer for layer, each in enumerate(run.template.rectified, 1) if each is rectified)


def settings(run: bf.Trajectory) -> dict[str, object]:
    """What was run."""
    return {
        "network": str(run.template),
        "init scale": run.template.origin["scale"],
        "samples": run.dataset.samples,
        "data": run.dataset.name,
        "loss": "logistic",
        "log₁₀ loss at the end": round(float(run.log_losses[-1]) / math.log(10), 1),
        "rtol": run.settings["rtol"],
    }


def law(run: bf.Trajectory, layer: int, part: float = 1.0) -> measure.Approach:
    """How the layer tends to rank one, as seen by the time at which ln 1/L was this part of what it is at the end."""
    seen = run.log_losses >= part * run.log_losses[-1]
    logs, spectra = run.log_losses[seen], measure.spectrum(run.weights[layer - 1][seen])
    fit = approach(spectra, logs, logs <= FITTED * logs[-1], run.template.depth)
    assert fit is not None  # the runs are long enough
    return fit


def rank_one_limit(seed: int, quick: bool, protocol: str) -> Result:
    """‖W‖₂/‖W‖_F of the last linear layers: bound, rate, and a law fitted to the first part that predicts the rest."""
    run = late(seed, quick)
    linear = hidden(run, False)
    spectra = {k: measure.spectrum(run.weights[k - 1]) for k in (*hidden(run, True), *linear)}
    shortfalls = {k: shortfall(spectrum) for k, spectrum in spectra.items()}
    rank, laws = measure.rank_excess(run), {k: law(run, k, FITTED) for k in linear}
    bound = {each.layer: each.excess for each in theory.rank_bound(run.template).layers}
    filled = [float((spectra[k].singular_values[:, 1:] ** 2).sum(axis=1).max() / bound[k]) for k in linear]
    ratios = [float(shortfalls[k][-1] / (1 - laws[k].share(run.log_losses[-1]))) for k in linear]
    exponent, exponents = 2 / run.template.depth, [law(run, k).measured_exponent for k in linear]
    decades = -run.log_losses / math.log(10)
    return Result(
        {
            "(‖W‖_F² − ‖W‖₂²)/D, largest": max(filled),
            "exponent of 1 − ‖W‖₂/‖W‖_F in ln 1/L": farthest(exponents, exponent),
            "1 − ‖W‖₂/‖W‖_F at the end ÷ predicted at a tenth of ln 1/L": farthest(ratios, 1.0),
            "‖W‖₂/‖W‖_F at L = 1e-5, smallest": min(1 - float(np.interp(5, decades, shortfalls[k])) for k in linear),
            "‖W‖₂/‖W‖_F at the end, smallest": min(1 - float(shortfalls[k][-1]) for k in linear),
            "log₁₀ L at the end": -float(decades[-1]),
            "log₁₀ L at which it would be 0.9999": min(law(run, k).log_loss_at(0.9999) for k in linear) / math.log(10),
            "‖W‖₂/‖W‖_F of the ReLU layer at the end": 1 - float(shortfalls[1][-1]),
        },
        {
            "(‖W‖_F² − ‖W‖₂²)/D, largest": at_most(1 + SMOOTH),
            # The law's next order is smaller by ‖W‖⁻², some per cent at a tenth of ln 1/L.
            "exponent of 1 − ‖W‖₂/‖W‖_F in ln 1/L": near(exponent, relative=0.05),
            "1 − ‖W‖₂/‖W‖_F at the end ÷ predicted at a tenth of ln 1/L": near(1.0, relative=0.02),
        },
        why="The limit is real and slow. What a layer has beyond rank one, ‖W‖_F² − ‖W‖₂², never exceeds Ji & "
        "Telgarsky's D, which the start fixes, while its norm grows like (ln 1/L)^(1/depth): 1 − ‖W‖₂/‖W‖_F falls as "
        "(ln 1/L)^(−2/depth). No run reaches 1; the loss at which 0.9999 would be passed stands above. The ReLU layer "
        "as a whole has no such limit.",
        data={
            "distances": decades,
            "shortfalls": {str(k): values for k, values in shortfalls.items()},
            "laws": {str(k): 1 - each.share(run.log_losses) for k, each in laws.items()},
            "fitted": float(FITTED * decades[-1]),
            "exponent": exponent,
            "misalignment": rank.misalignment,
            "misalignment_limit": rank.misalignment_limit,
        },
        settings=settings(run),
    )


def farthest(values: list[float], goal: float) -> float:
    """Of several numbers the one that is worst."""
    return float(max(values, key=lambda each: abs(each - goal)))


def alignment_limit(seed: int, quick: bool, protocol: str) -> Result:
    """|⟨v_{k+1}, u_k⟩| of the last linear layers, beside what the conserved matrices allow."""
    run = late(seed, quick)
    structure, first = measure.structure(run), hidden(run, False)[0]
    bound = theory.rank_bound(run.template)
    norms = np.stack([structure.layers[each.layer - 1].singular_values[:, 0] for each in bound.layers], axis=-1)
    allowed = bound.misalignment(norms)
    missing = 1 - structure.alignment[:, first - 1 :]
    says = allowed < 1
    distance, tail = -run.log_losses, run.log_losses <= FITTED * run.log_losses[-1]
    exponents = [-np.polyfit(np.log(distance[tail]), np.log(column), 1)[0] for column in missing[tail].T]
    exponent = 4 / run.template.depth
    return Result(
        {
            "(1 − alignment) ÷ what is allowed, largest": float((missing[says] / allowed[says]).max()),
            "exponent of 1 − alignment in ln 1/L": farthest(exponents, exponent),
            "1 − alignment at the end, largest": float(missing[-1].max()),
            "1 − alignment at L = 1e-5, largest": float(np.interp(5 * math.log(10), distance, missing.max(axis=1))),
            "log₁₀ L at the end": -distance[-1] / math.log(10),
            "alignment of the ReLU layer with the next at the end": float(structure.alignment[-1, 0]),
        },
        {
            "(1 − alignment) ÷ what is allowed, largest": at_most(1 + SMOOTH),
            "exponent of 1 − alignment in ln 1/L": near(exponent, relative=0.05),
        },
        why="Neighbours align long before they are of rank one: with the conserved W_kW_kᵀ − W_{k+1}ᵀW_{k+1} the angle "
        "between their leading directions is at most of the order of ‖W‖₂⁻², and 1 − cos the square of that, so that "
        "it falls twice as fast, like (ln 1/L)^(−4/depth). The limit itself, 1, is reached by no run.",
        settings=settings(run),
    )


STUDIES = (
    Study(
        id="rank-one-limit",
        title="The last linear layers tend to rank one",
        reference="Le & Jegelka, low-rank limit; Ji & Telgarsky's finite-time bound",
        statement="Trained with logistic loss on separable data, the last linear layers of a ReLU network tend to rank "
        "one as the loss goes to zero.",
        formula="‖W_k‖₂/‖W_k‖_F → 1,   ‖W_k‖_F² − ‖W_k‖₂² ≤ D",
        run=rank_one_limit,
    ),
    Study(
        id="alignment-limit",
        title="The last linear layers align",
        reference="Le & Jegelka, alignment of neighbouring layers",
        statement="In the same limit the leading left direction of each of these layers becomes the leading right "
        "direction of the next.",
        formula="|⟨v_{k+1}, u_k⟩| → 1,   sin θ ≤ (λ_max − λ_min)(B_k)/(‖W_{k+1}‖₂² − D_{k+1})",
        run=alignment_limit,
    ),
)
