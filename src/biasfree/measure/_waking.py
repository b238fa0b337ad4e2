"""When a plateau ends: the early flow of its sleeping neurons on its residuals.

A neuron whose output is negligible does not disturb the others, so that on a plateau, with residuals r that do not
move, it obeys the equations of the early phase with r in the place of y: ẇ = v c(w), v̇ = c(w)ᵀw. It gathers at an
extremum of G(u) = ⟨r σ(uᵀx)⟩ and grows there at the rate |G(u)|, less by λ with weight decay. A sleeper in the cell of
an awake neuron at rest feels nothing: ⟨r σ' x⟩ is what the awake neuron has brought to zero. While awake neurons still
come to rest, their residuals are taken for constant over short stretches, one after the other.

With several outputs r and v have K entries, ẇ = Mv, v̇ = Mᵀw with M the matrix of the neuron's cell, and a neuron
gathers at a pair of singular vectors of M. In an awake neuron's cell only what that neuron uses of M is zero.

**The predicted end.** Let s(t) be the output of the sleepers that grow. Along it the loss falls by
⟨r s⟩ − ½⟨h s²⟩ with h the loss's curvature, at most by ⟨r s⟩²/2⟨h s²⟩. A tenth of that, the share of a transition that
belongs to the plateau before it, is made when ⟨h s²⟩/⟨r s⟩ = 1 − √0.9. The first gathering group to reach this ends it.
"""

import contextlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.datasets import Dataset
from biasfree.measure._alone import Alone, Stretch
from biasfree.measure._cutting import SHOULDER
from biasfree.measure._samples import pull
from biasfree.networks import Network
from biasfree.theory import EarlyFlow, Gathering, SeveralEarlyFlow, early_flow, early_flow_several, gather

GROWN = 1 - np.sqrt(1 - SHOULDER)
# A sample whose input is below this share of ‖w‖‖x‖ is not seen: an edge is met up to the flow's own accuracy.
_SEEN = 1e-7
Flow = EarlyFlow | SeveralEarlyFlow
# Rates below this share of what the residuals could pull with are zero.
NO_RATE = 1e-6
# So many e-folds at the smallest rate that counts are followed.
_FOLDS = 100.0
# Beyond this size a neuron sleeps no more, whatever the units.
_LARGE = 1e10


@dataclass(frozen=True, eq=False)
class Waking:
    """What the sleepers of a plateau will do.

    Attributes:
        growth: where the residuals make sleepers gather, the fastest first; ``neurons`` are rows of the whole network.
        end: when they end the plateau; infinite if none of them grows.
        first: the neurons that end it.
        fall: how far the loss can fall along their direction alone.
        resting: sleepers that feel no pull where they end: in an awake neuron's cell, or at a boundary.
        inactive: sleepers that are active on no sample (slope 0).
        undecided: how many were left out, as their way could not be decided (several outputs).
    """

    growth: tuple[Gathering, ...]
    end: float
    first: Int[np.ndarray, "first"]
    fall: float
    resting: Int[np.ndarray, "resting"]
    inactive: Int[np.ndarray, "inactive"]
    undecided: int = 0

    @classmethod
    def nobody(cls, inactive: Int[np.ndarray, "inactive"] | None = None) -> "Waking":
        """No sleeper that could do anything."""
        none = np.zeros(0, dtype=int)
        return cls((), np.inf, none, 0.0, none, none if inactive is None else inactive)


def waking(
    network: Network,
    sleeping: Int[np.ndarray, "sleepers"],
    dataset: Dataset,
    awake: Alone,
    decay: float = 0.0,
    learning_rate: float = 0.0,
) -> Waking:
    """Follow the sleepers of a two-layer network on the residuals of the awake neurons.

    Args:
        network: at the plateau's first moment.
        sleeping: rows of the neurons that sleep.
        dataset: the samples.
        awake: the awake neurons alone.
        decay: λ.
        learning_rate: η of descent, whose clock runs slow by ηρ/ln(1 + ηρ); 0 for a flow.

    Raises:
        ArithmeticError: with several outputs, no sleeper's way could be decided.
    """
    none = np.zeros(0, dtype=int)
    begin = awake.stretches[0].begin
    rows = np.asarray(network.weights[0])[sleeping]
    seen = sees(network, dataset.inputs)[sleeping]
    inactive, sleeping, rows = sleeping[~seen], sleeping[seen], rows[seen]
    if not sleeping.size:
        return Waking.nobody(inactive)
    sleepers = Network([rows, np.asarray(network.weights[1])[:, sleeping]], network.slope)
    decided, flows = _decided(sleepers, dataset, awake.stretches, decay)
    undecided, sleeping = len(sleeping) - len(decided), sleeping[decided]
    flow, last = flows[-1], awake.stretches[-1]
    # Who sleeps in an awake neuron's cell grows while that one comes to rest, and no longer: the last stretch decides.
    reach = pull(dataset.inputs, last.residuals)
    growing = flow.rate - decay > max(NO_RATE * reach, 2 * awake.still)
    end, first = np.inf, none
    for each, now, after in zip(flows, awake.stretches, (*awake.stretches[1:], None), strict=True):
        grown, members = _grown(each, growing, dataset.inputs, now, decay)
        if after is None or now.begin + grown <= after.begin:
            end, first = now.begin + max(grown, 0.0), members
            break
    resting = sleeping[~growing]
    groups = tuple(_renamed(group, sleeping, decay) for group in gather(flow) if growing[group.neurons[0]])
    if groups and np.isfinite(end):
        end = begin + (end - begin) * lag(learning_rate * groups[0].rate)
    fall = 0.0
    if first.size:
        fall = float((flow.rate[first[0]] - decay) ** 2 / (2 * _weights(flow, dataset.inputs, last)[first[0]]))
    return Waking(groups, float(end), sleeping[first], fall, resting, inactive, undecided)


def sees(network: Network, inputs: Float[np.ndarray, "samples dim"]) -> Bool[np.ndarray, "width"]:
    """Which neurons are active on some sample; one left at the edge of the cell in which it sees nothing is not."""
    rows = np.asarray(network.weights[0])
    if network.slope > 0 or network.is_linear:
        return np.ones(len(rows), dtype=bool)
    sizes = np.linalg.norm(inputs, axis=1) * np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((rows @ inputs.T > _SEEN * sizes).any(axis=1))


def lag(gain: float) -> float:
    """By what descent's clock runs slow: ηρ/ln(1 + ηρ); 1 for a flow, η = 0."""
    return float(gain / np.log1p(gain)) if gain else 1.0


def _decided(
    sleepers: Network, dataset: Dataset, stretches: tuple[Stretch, ...], decay: float
) -> tuple[Int[np.ndarray, "decided"], list[Flow]]:
    """The sleepers whose way can be decided, and their flows; all but a few, if not all."""
    first, second = (np.asarray(layer) for layer in sleepers.weights)
    try:
        return np.arange(len(first)), _followed(sleepers, dataset, stretches, decay)
    except ArithmeticError:
        kept = []
        for h in range(len(first)):
            with contextlib.suppress(ArithmeticError):
                _followed(Network([first[[h]], second[:, [h]]], sleepers.slope), dataset, stretches, decay)
                kept.append(h)
        if not kept:
            raise
        left = Network([first[kept], second[:, kept]], sleepers.slope)
        return np.array(kept), _followed(left, dataset, stretches, decay)


def _followed(sleepers: Network, dataset: Dataset, stretches: tuple[Stretch, ...], decay: float) -> list[Flow]:
    """The sleepers' flow on each stretch, from where the one before has brought them."""
    flows: list[Flow] = []
    for k, now in enumerate(stretches):
        if k:
            length = now.begin - stretches[k - 1].begin
            fading = np.exp(-decay * length)
            sleepers = Network(
                [fading * np.asarray(layer) for layer in flows[-1].at(length, _LARGE).weights], sleepers.slope
            )
        flows.append(followed(sleepers, dataset.inputs, now.residuals))
    return flows


def followed(
    neurons: Network,
    inputs: Float[np.ndarray, "samples dim"],
    residuals: Float[np.ndarray, "samples *outputs"],
    until: float = np.inf,
) -> Flow:
    """The early flow of neurons on residuals, for one output or several.

    Raises:
        ArithmeticError: with several outputs, a neuron whose way could not be decided.
    """
    if residuals.ndim == 1:
        return early_flow(neurons, Dataset(inputs, residuals), until=until)
    # What is slower than the smallest rate that counts is not followed to its end.
    slowest = NO_RATE * pull(inputs, residuals)
    until = min(until, _FOLDS / slowest) if slowest else until
    return early_flow_several(neurons, Dataset(inputs, residuals), until=until)


def _renamed(group: Gathering, sleeping: np.ndarray, decay: float) -> Gathering:
    return Gathering(
        group.direction,
        group.sign,
        group.output,
        group.rate - decay,
        group.basin,
        sleeping[group.neurons],
        group.on_kink,
    )


def _weights(flow: Flow, inputs: np.ndarray, now: Stretch) -> np.ndarray:
    """⟨hσ²⟩ at the limits, h the curvature along the limit of v."""
    reach = flow.limit_direction @ inputs.T
    curvature = np.einsum("hk,pkl,hl->hp", flow.limit_output, now.curvature, flow.limit_output)
    return np.asarray(np.mean(curvature * np.maximum(reach, flow.network.slope * reach) ** 2, axis=1))


def _grown(
    flow: Flow, growing: np.ndarray, inputs: np.ndarray, now: Stretch, decay: float
) -> tuple[float, Int[np.ndarray, "members"]]:
    """When the first group of growing sleepers has made a tenth of what it can, counted from the stretch's begin.

    A group of rate ρ has an output u²σ(rᵀx), u² = Σ‖v‖‖w‖ = Σe^{2(ln amplitude + ρt)}, and can make all of its fall
    with u² = ρ/⟨hσ²⟩.
    """
    rate = flow.rate - decay
    weights = _weights(flow, inputs, now)
    first, who = np.inf, np.zeros(0, dtype=int)
    for group in gather(flow):
        members = group.neurons[growing[group.neurons] & (rate[group.neurons] > 0)]
        if members.size:
            size = np.logaddexp.reduce(2 * flow.log_amplitude[members])
            with np.errstate(divide="ignore"):  # a sleeper that meets only samples whose loss is flat
                enough = np.log(GROWN * rate[members[0]] / weights[members[0]])
            time = float(enough - size) / (2 * rate[members[0]])
            first, who = (time, members) if time < first else (first, who)
    return first, who
