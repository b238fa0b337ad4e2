"""Why the verdict is what it is, in words, with the number each reason rests on; and what one can do about it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._baselines import Baselines
from biasfree.diagnosis._course import BELOW, LINEAR, Levels
from biasfree.diagnosis._gain import Gain
from biasfree.diagnosis._sampling import standard_error
from biasfree.networks import Network

# Inputs lie in one half-space if this share of them is on the side of their mean.
ONE_SIDED = 0.99
# A neuron switches if it is active on more than this share of the samples, and inactive on as many.
_SWITCHES = 0.01
# Inputs in one half-space explain nothing where more than this share of the neurons switches nonetheless.
_FEW = 0.5
# A missing intercept explains a gain if an intercept alone makes this share of it.
_MOSTLY = 0.8


@dataclass(frozen=True)
class Reason:
    """One reason.

    Attributes:
        name: "even data", "one half-space", "a linear map suffices", "target mean" or "asymmetry".
        amount: the number it rests on.
        sentence: in words, with that number.
    """

    name: str
    amount: float
    sentence: str


@dataclass(frozen=True)
class Facts:
    """What reasons are found in.

    Attributes:
        data, loss, levels: what is learned.
        symmetry, asymmetry: of the data; the latter None where it was looked at on draws only.
        typical: root mean square of ‖B(r)‖/‖β‖, on each draw.
        baselines: linear regression.
        network: at the end of a course; None where only its function is known.
        verdict, nonlinearity, departure_time: what was found.
        over_linear: what the network gains over linear regression without intercept.
    """

    data: Dataset
    loss: str
    levels: Levels
    symmetry: theory.Symmetry
    asymmetry: theory.Asymmetry | None
    typical: list[float]
    baselines: Baselines
    network: Network | None
    verdict: str
    nonlinearity: float
    departure_time: float | None
    over_linear: float = 0.0


def reasons(facts: Facts) -> tuple[Reason, ...]:
    """All that apply, the one that explains most first."""
    if facts.verdict in ("linear", "linear until"):
        candidates = [
            _even(facts),
            _half_space(facts),
            _suffices(facts),
            _asymmetry(facts, True),
            _target_mean(facts, True),
        ]
    else:
        candidates = [_target_mean(facts, False), _asymmetry(facts, False)]
        # What the network gains beyond an intercept is not due to the missing one.
        if facts.baselines.gap < _MOSTLY * facts.over_linear:
            candidates.reverse()
    return tuple(reason for reason in candidates if reason is not None)


def one_sided(inputs: Float[np.ndarray, "samples dim"]) -> float:
    """The share of samples x with xᵀm > 0, m the mean of x/‖x‖: near 1 where inputs lie in one half-space."""
    length = np.linalg.norm(inputs, axis=1)
    units = inputs[length > 0] / length[length > 0, None]
    return float(np.mean(units @ units.mean(axis=0) > 0)) if len(units) else 0.0


def switching(network: Network, inputs: Float[np.ndarray, "samples dim"]) -> float:
    """The share of neurons, by |w₂|‖w‖, that are active on some samples and inactive on others."""
    first, second = (np.asarray(layer) for layer in network.weights)
    share = np.linalg.norm(second, axis=0) * np.linalg.norm(first, axis=1)
    active = np.mean(inputs @ first.T > 0, axis=0)
    total = share.sum()
    return float(share[(active > _SWITCHES) & (active < 1 - _SWITCHES)].sum() / total) if total else 0.0


def _even(facts: Facts) -> Reason | None:
    if not facts.symmetry.holds:
        return None
    return Reason(
        "even data",
        1.0,
        "even data: every sample has its mirror image −x with the opposite target (Condition 3), and on such data a "
        "two-layer network without biases learns as a linear one",
    )


def _half_space(facts: Facts) -> Reason | None:
    share = one_sided(facts.data.inputs)
    if share < ONE_SIDED:
        return None
    sentence = f"the inputs lie in one half-space ({share:.1%} of them on one side of a plane through the origin)"
    if facts.network is not None and facts.network.depth == 2:
        switches = switching(facts.network, facts.data.inputs)
        if switches > _FEW:
            return None
        sentence += (
            ", so that neurons are active on all samples or on none and never switch"
            if switches < 0.01
            else f", so that few neurons switch between samples: {switches:.0%}, by their size"
        )
    return Reason("one half-space", share, sentence)


def _target_mean(facts: Facts, linear: bool) -> Reason | None:
    gap = facts.baselines.gap
    if gap <= BELOW * facts.levels.first:
        return None
    means = ", ".join(f"{mean:.4g}" for mean in np.atleast_1d(facts.data.targets.mean(axis=0)))
    what = f"the target has a mean ({means})" if _numbers(facts) else "the classes are not centred"
    bends = (
        "; the network does not get there either"
        if linear
        else ", and the network bends to make up for the missing bias"
    )
    return Reason(
        "target mean",
        gap / facts.levels.first,
        f"{what} that no linear map without intercept can fit: an intercept lowers linear regression's loss from "
        f"{facts.baselines.plain.loss:.4g} to {facts.baselines.intercept.loss:.4g}{bends}",
    )


def _numbers(facts: Facts) -> bool:
    """Whether numbers are predicted, not classes."""
    return facts.loss == "square" and not facts.data.classes


def _suffices(facts: Facts) -> Reason | None:
    left = facts.baselines.plain.loss / facts.levels.first if facts.levels.first else 0.0
    if left > BELOW:
        return None
    loss = "all of the loss" if left < 1e-6 else f"all but {100 * left:.2g}% of the loss"
    explained = "every label" if facts.baselines.plain.separates else loss
    return Reason(
        "a linear map suffices",
        left,
        f"a linear map suffices: it explains {explained}, so that there is nothing to bend for",
    )


def _asymmetry(facts: Facts, linear: bool) -> Reason | None:
    if not facts.typical or facts.symmetry.holds:
        return None
    amount = float(np.mean(facts.typical))
    if not np.isfinite(amount):
        return Reason(
            "asymmetry",
            float("inf"),
            "inputs and target are uncorrelated, so that all that is learned comes from the asymmetry of the data",
        )
    error = standard_error(facts.typical)
    about = "" if error is None else f" ± {error:.1g}"
    sentence = (
        f"an asymmetry of {amount:.2g}{about}: the pull on a neuron changes by this share (root mean square over its "
        "directions) with the half of the samples that it sees"
    )
    if linear:
        bends = "rounding" if facts.nonlinearity < 1e-9 else f"{100 * facts.nonlinearity:.2g}%"
        sentence += f", which bends the outputs by no more than {bends}; up to {LINEAR:.0%} count as linear"
    return Reason("asymmetry", amount, sentence)


def advice(facts: Facts, why: tuple[Reason, ...], gained: Gain | None, init_scale: float) -> tuple[str, ...]:
    """What one can do, the most useful first."""
    names = [reason.name for reason in why]
    sentences = []
    if "target mean" in names and _numbers(facts):
        means = ", ".join(f"{mean:.5g}" for mean in np.atleast_1d(facts.data.targets.mean(axis=0)))
        sentences.append(
            f"Centre the target (subtract {means}, and add it to predictions), or add "
            "a bias to the last layer: what an intercept gains is then had without bending. A column of ones "
            "(`with_ones`) helps too, though it is not the same as a bias."
        )
    elif "target mean" in names:
        sentences.append(
            "Add a bias, or a column of ones (`with_ones`, which is not quite the same): no hyperplane through the "
            "origin separates the classes as well as one with an intercept."
        )
    if facts.verdict == "linear":
        sentences.append(
            f"Use a linear model ({facts.baselines.plain.kind}): from a small start the network learns no more on "
            "these samples. For more than a linear map, add biases, or features such as |x| or x²."
        )
        if "one half-space" in names:
            sentences.append(
                "The network is linear because hardly a neuron switches between your samples: centring the inputs "
                "(--standardise) lets neurons switch, and changes this answer."
            )
    elif facts.verdict == "linear until":
        steps = None if gained is None else gained.steps(facts.departure_time)
        when = "" if steps is None else f" ({steps:,} steps at rate {gained.rate:g})" if gained else ""
        sentences.append(
            f"To stop at the linear solution, stop before t ≈ {facts.departure_time:.3g}{when}; to go beyond it, train "
            f"longer, or start larger than {init_scale:g}: waiting times grow with the logarithm of 1/scale."
        )
    elif facts.data.classes:
        sentences.append(
            f"A linear model ({facts.baselines.plain.kind}) is another classifier than this network; to keep the "
            "network linear, stop it before it bends, or take linear neurons (slope 1)."
        )
    else:
        sentences.append(
            "To keep the network linear, symmetrise the data (`Dataset.symmetrised()` adds −x with −y for every "
            "sample); do not if what is not odd in the target matters to you, for that is what it takes away."
        )
    return tuple(sentences)
