"""When a plateau ends: the early flow of its sleeping neurons on its residuals.

A neuron whose output is negligible does not disturb the others, so that on a plateau, with residuals r that do not
move, it obeys the equations of the early phase with r in the place of y: ẇ = v c(w), v̇ = c(w)ᵀw. It gathers at an
extremum of G(u) = ⟨r σ(uᵀx)⟩ and grows there at the rate |G(u)|, less by λ with weight decay. A sleeper in the cell of
an awake neuron at rest feels nothing: ⟨r σ' x⟩ is what the awake neuron has brought to zero. While awake neurons still
come to rest, their residuals are taken for constant over short stretches, one after the other.

**The predicted end.** Let s(t) be the output of the sleepers that grow. Along it the loss falls by
⟨r s⟩ − ½⟨h s²⟩ with h the loss's curvature, at most by ⟨r s⟩²/2⟨h s²⟩. A tenth of that, the share of a transition that
belongs to the plateau before it, is made when ⟨h s²⟩/⟨r s⟩ = 1 − √0.9. The first gathering group to reach this ends it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from biasfree.datasets import Dataset
from biasfree.measure._alone import Alone, Stretch
from biasfree.measure._cutting import SHOULDER
from biasfree.networks import Network
from biasfree.theory import EarlyFlow, Gathering, early_flow, gather

_GROWN = 1 - np.sqrt(1 - SHOULDER)
# A sample whose input is below this share of ‖w‖‖x‖ is not seen.
_SEEN = 1e-12
# Rates below this share of what the residuals could pull with are zero.
_NO_RATE = 1e-6
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
    """

    growth: tuple[Gathering, ...]
    end: float
    first: Int[np.ndarray, "first"]
    fall: float
    resting: Int[np.ndarray, "resting"]
    inactive: Int[np.ndarray, "inactive"]

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
        network: at the plateau's first moment; one output.
        sleeping: rows of the neurons that sleep.
        dataset: the samples.
        awake: the awake neurons alone.
        decay: λ.
        learning_rate: η of descent, whose clock runs slow by ηρ/ln(1 + ηρ); 0 for a flow.
    """
    none = np.zeros(0, dtype=int)
    begin = awake.stretches[0].begin
    rows = np.asarray(network.weights[0])[sleeping]
    seen = np.ones(len(sleeping), dtype=bool)
    if network.slope == 0 and not network.is_linear:
        # A neuron that was left at the edge of the cell in which it sees nothing stays there.
        sizes = np.linalg.norm(dataset.inputs, axis=1) * np.linalg.norm(rows, axis=1, keepdims=True)
        seen = (rows @ dataset.inputs.T > _SEEN * sizes).any(axis=1)
    inactive, sleeping, rows = sleeping[~seen], sleeping[seen], rows[seen]
    if not sleeping.size:
        return Waking.nobody(inactive)
    sleepers = Network([rows, np.asarray(network.weights[1])[:, sleeping]], network.slope)
    flows = _followed(sleepers, dataset, awake.stretches, decay)
    flow, last = flows[-1], awake.stretches[-1]
    # Who sleeps in an awake neuron's cell grows while that one comes to rest, and no longer: the last stretch decides.
    reach = float(np.mean(np.abs(last.residuals) * np.linalg.norm(dataset.inputs, axis=1)))
    growing = flow.rate - decay > max(_NO_RATE * reach, 2 * awake.still)
    end, first = np.inf, none
    for each, now, after in zip(flows, awake.stretches, (*awake.stretches[1:], None), strict=True):
        grown, members = _grown(each, growing, dataset.inputs, now, decay)
        if after is None or now.begin + grown <= after.begin:
            end, first = now.begin + max(grown, 0.0), members
            break
    resting = sleeping[~growing]
    groups = tuple(_renamed(group, sleeping, decay) for group in gather(flow) if growing[group.neurons[0]])
    if learning_rate and groups and np.isfinite(end):
        gain = learning_rate * groups[0].rate
        end = begin + (end - begin) * gain / np.log1p(gain)
    fall = 0.0
    if first.size:
        fall = float((flow.rate[first[0]] - decay) ** 2 / (2 * _weights(flow, dataset.inputs, last)[first[0]]))
    return Waking(groups, float(end), sleeping[first], fall, resting, inactive)


def _followed(sleepers: Network, dataset: Dataset, stretches: tuple[Stretch, ...], decay: float) -> list[EarlyFlow]:
    """The sleepers' flow on each stretch, from where the one before has brought them."""
    flows: list[EarlyFlow] = []
    for k, now in enumerate(stretches):
        if k:
            length = now.begin - stretches[k - 1].begin
            fading = np.exp(-decay * length)
            sleepers = Network(
                [fading * np.asarray(layer) for layer in flows[-1].at(length, _LARGE).weights], sleepers.slope
            )
        flows.append(early_flow(sleepers, Dataset(dataset.inputs, now.residuals)))
    return flows


def _renamed(group: Gathering, sleeping: np.ndarray, decay: float) -> Gathering:
    return Gathering(
        group.direction, group.sign, group.rate - decay, group.basin, sleeping[group.neurons], group.on_kink
    )


def _weights(flow: EarlyFlow, inputs: np.ndarray, now: Stretch) -> np.ndarray:
    """⟨hσ²⟩ at the limits."""
    reach = flow.limit_direction @ inputs.T
    return np.asarray(np.mean(now.curvature * np.maximum(reach, flow.network.slope * reach) ** 2, axis=1))


def _grown(
    flow: EarlyFlow, growing: np.ndarray, inputs: np.ndarray, now: Stretch, decay: float
) -> tuple[float, Int[np.ndarray, "members"]]:
    """When the first group of growing sleepers has made a tenth of what it can, counted from the stretch's begin.

    A group of rate ρ has an output u²σ(rᵀx), u² = Σ|v|‖w‖ = Σe^{2(ln amplitude + ρt)}, and can make all of its fall
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
                enough = np.log(_GROWN * rate[members[0]] / weights[members[0]])
            time = float(enough - size) / (2 * rate[members[0]])
            first, who = (time, members) if time < first else (first, who)
    return first, who
