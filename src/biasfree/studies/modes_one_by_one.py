"""Several outputs from small weights: the singular modes of β are learned one after the other, at predicted times."""

import functools
from typing import NamedTuple

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._study import Result, Study, at_least, at_most, near

DIM, SCALE = 5, 1e-8
STRENGTHS = (1.0, 0.8, 0.6)


class Course(NamedTuple):
    """A run, and its outputs at the saved times."""

    start: bf.Network
    data: bf.Dataset
    run: bf.Trajectory
    outputs: np.ndarray


def sizes(quick: bool) -> tuple[int, int]:
    """Width and pairs."""
    return (100, 200) if quick else (200, 500)


def linear_set(seed: int, pairs: int) -> bf.Dataset:
    """White symmetric Gaussian inputs, y = Bx in R³ of rank 3 with the singular values above."""
    base = bf.datasets.symmetric_gaussian(DIM, pairs, whiten=True, seed=seed)
    rng = np.random.default_rng([seed, 77])
    left, right = (np.linalg.qr(rng.normal(size=(size, len(STRENGTHS))))[0] for size in (len(STRENGTHS), DIM))
    targets = base.inputs @ right @ np.diag(STRENGTHS) @ left.T
    return bf.Dataset(base.inputs, targets, "symmetric Gaussian, rank 3", base.origin)


@functools.cache
def course(seed: int, quick: bool) -> Course:
    """A ReLU network from random weights of size 1e-8, well beyond its last mode."""
    width, pairs = sizes(quick)
    data = linear_set(seed, pairs)
    start = bf.Network.init([DIM, width, len(STRENGTHS)], 0.0, SCALE, seed)
    until = 3.2 * float(np.log(1 / SCALE)) / (0.5 * STRENGTHS[-1]) / 2
    run = bf.gradient_flow(start, data, until=until, save=np.linspace(0, until, 241), method="tsit5")
    return Course(start, data, run, np.array([np.asarray(network(data.inputs)) for network in run.networks]))


def run(seed: int, quick: bool, protocol: str) -> Result:
    """Mode times, plateaus, the loss curve, the two halves of each mode, and what finite width leaves."""
    start, data, flow, outputs = course(seed, quick)
    stairs = theory.mode_staircase(start, data)
    modes, times, pairs = stairs.modes, np.asarray(flow.times), data.samples // 2
    maps = np.einsum("tpk,pd->tkd", outputs, data.inputs) / data.samples
    strengths = np.einsum("mk,tkd,md->tm", modes.outputs, maps, modes.inputs)
    reached = [float(np.interp(0.5 * s, strengths[:, i], times)) for i, s in enumerate(modes.strengths)]
    late = np.abs(np.array(reached) / stairs.times - 1)
    plateau = int(np.argmin(np.abs(times - 0.5 * (stairs.times[0] + stairs.times[1]))))
    first, second = stairs.twin_weights(times[[plateau, -1]])
    twin = [np.concatenate([w.ravel() for w in pair]) for pair in zip(first, second, strict=True)]
    own = [np.concatenate([w[k].ravel() for w in flow.weights]) / theory.weight_factor(0.0) for k in (plateau, -1)]
    apart = [float(np.linalg.norm(w - v) / np.linalg.norm(v)) for w, v in zip(own, twin, strict=True)]
    even = 0.5 * (outputs[-1, :pairs] + outputs[-1, pairs:])
    left = float(np.sqrt(np.mean(np.sum(even**2, axis=1)) / np.mean(np.sum(data.targets**2, axis=1))))
    foreseen = [theory.finite_width_response(float(times[k]), start, data) for k in (plateau, -1)]
    measured = {
        **{f"time of mode {i + 1}": t for i, t in enumerate(reached)},
        "mode times, largest relative error": float(late.max()),
        "loss beside the staircase, largest difference": float(np.abs(stairs.losses(times) - flow.losses).max()),
        "weight error after mode 1, over its prediction": apart[0] / foreseen[0].weights,
        "even part in the end, over its prediction": left / foreseen[1].function,
        "weight error in the end": apart[1],
        "weight error in the end, over its prediction": apart[1] / foreseen[1].weights,
        "least share of a half in its mode": float((modes.halves**2 / modes.norms[:, None] ** 2).min()),
    }
    return Result(
        measured,
        {
            "mode times, largest relative error": at_most(0.02, loosely=0.05),
            "loss beside the staircase, largest difference": at_most(0.03, loosely=0.1),
            "weight error after mode 1, over its prediction": near(1.0, absolute=0.05, loosely=3),
            "even part in the end, over its prediction": near(1.0, absolute=0.4, loosely=2),
            "least share of a half in its mode": at_least(0.2),
        },
        why=f"At {SCALE:g} the linear twin learns the modes of β one by one (Saxe et al.), each by the neurons that "
        "share its direction with either sign: the positive half answers where zᵀx > 0, the negative half where "
        "zᵀx < 0. The first mode makes neurons parallel. The later ones turn each neuron its own way; the even "
        "part they leave is of order 1/√width, and is unlearned as its kernel predicts. While it lasts it also kicks"
        " the modes that are still asleep, by about 1/√(width · samples). That changes their readouts, which is "
        "what the weight error in the end has beyond its prediction; with strengths far apart it brings the last "
        "mode forward (by 10 % with strengths 1.5, 1 and 0.6, width 50 and 200 pairs).",
        data={
            "times": times, "losses": flow.losses, "strengths": strengths, "predicted_losses": stairs.losses(times),
            "predicted_strengths": stairs.strengths(times), "predicted_times": stairs.times, "levels": stairs.levels,
        },
        settings={
            "dim": DIM, "samples": data.samples, "width": start.widths[1], "scale": SCALE, "strengths": STRENGTHS,
            "integrator": "tsit5",
        },
    )  # fmt: skip


STUDY = Study(
    id="modes-one-by-one",
    title="Several outputs are learned mode by mode",
    reference="new: Saxe et al. 2014 for ReLU networks on symmetric data",
    statement="From small weights a ReLU network with several outputs on symmetric data learns the singular modes of β "
    "one after the other, at the times of its linear twin, each by a positive and a negative half.",
    formula="F(t) = U e^{St̃}[G⁻¹ + S⁻¹(e^{2St̃} − I)]⁻¹e^{St̃} Zᵀ,  t̃ = at,  G_ij = a r_iᵀr_j",
    run=run,
)
