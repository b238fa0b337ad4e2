"""When a plateau ends: the early flow of its sleeping neurons on its residuals.

A neuron whose output is negligible does not disturb the others, so that on a plateau, with residuals r that do not
move, it obeys the equations of the early phase with r in the place of y: ẇ = v c(w), v̇ = c(w)ᵀw. It gathers at an
extremum of G(u) = ⟨r σ(uᵀx)⟩ and grows there at the rate |G(u)|, less by λ with weight decay. A sleeper in the cell of
an awake neuron at rest feels nothing: ⟨r σ' x⟩ is what the awake neuron has brought to zero.

**The predicted end.** Let s(t) be the output of the sleepers that grow. Along it the loss falls by
⟨r s⟩ − ½⟨h s²⟩ with h the loss's curvature, at most by ⟨r s⟩²/2⟨h s²⟩. A tenth of that, the share of a transition that
belongs to the plateau before it, is made when ⟨h s²⟩/⟨r s⟩ = 1 − √0.9.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree.datasets import Dataset
from biasfree.measure._cutting import SHOULDER
from biasfree.networks import Network
from biasfree.theory import EarlyFlow, Gathering, early_flow, gather

_GROWN = 1 - np.sqrt(1 - SHOULDER)


@dataclass(frozen=True, eq=False)
class Waking:
    """What the sleepers of a plateau will do.

    Attributes:
        growth: where the residuals make sleepers gather, the fastest first; ``neurons`` are rows of the whole network.
        end: the predicted end; infinite if no sleeper grows.
        resting: sleepers that feel no pull where they end: in an awake neuron's cell, or at a boundary.
        inactive: sleepers that are active on no sample (slope 0).
    """

    growth: tuple[Gathering, ...]
    end: float
    resting: Int[np.ndarray, "resting"]
    inactive: Int[np.ndarray, "inactive"]


def waking(
    network: Network,
    sleeping: Int[np.ndarray, "sleepers"],
    dataset: Dataset,
    residuals: Float[np.ndarray, "samples"],
    curvature: Float[np.ndarray, "samples"],
    begin: float,
    least: float,
    decay: float = 0.0,
    learning_rate: float = 0.0,
) -> Waking:
    """Follow the sleepers of a two-layer network on fixed residuals.

    Args:
        network: at ``begin``; one output.
        sleeping: rows of the neurons that sleep.
        dataset: the samples.
        residuals: r, −∂ℓ/∂f of each sample while the plateau lasts.
        curvature: ∂²ℓ/∂f².
        begin: the plateau's first moment.
        least: the smallest fall of the loss that is visible.
        decay: λ.
        learning_rate: η of descent, whose clock runs slow by ηρ/ln(1 + ηρ); 0 for a flow.
    """
    none = np.zeros(0, dtype=int)
    if not sleeping.size:
        return Waking((), np.inf, none, none)
    rows = [np.asarray(network.weights[0])[sleeping], np.asarray(network.weights[1])[:, sleeping]]
    sleepers = Network(rows, network.slope)
    pulling = Dataset(dataset.inputs, residuals)
    flow = early_flow(sleepers, pulling)
    growing = _visible(flow, curvature, pulling, least, decay)
    inactive = none
    if network.slope == 0 and not network.is_linear:
        seen = (rows[0] @ dataset.inputs.T > 0).any(axis=1)
        inactive = sleeping[~seen & ~growing]
    resting = np.setdiff1d(sleeping[~growing], inactive)
    groups = tuple(_renamed(group, sleeping, decay) for group in gather(flow) if growing[group.neurons[0]])
    end = begin + _grown(flow, growing, pulling, curvature, decay)
    if learning_rate and groups and np.isfinite(end):
        gain = learning_rate * groups[0].rate
        end = begin + (end - begin) * gain / np.log1p(gain)
    return Waking(groups, float(end), resting, inactive)


def _renamed(group: Gathering, sleeping: np.ndarray, decay: float) -> Gathering:
    return Gathering(
        group.direction, group.sign, group.rate - decay, group.basin, sleeping[group.neurons], group.on_kink
    )


def _visible(flow: EarlyFlow, curvature: np.ndarray, pulling: Dataset, least: float, decay: float) -> np.ndarray:
    """The sleepers that grow to something: along its limit each could make the loss fall by (ρ − λ)²/2⟨hσ²⟩."""
    reach = flow.limit_direction @ pulling.inputs.T
    weight = np.mean(curvature * np.maximum(reach, flow.network.slope * reach) ** 2, axis=1)
    rate = flow.rate - decay
    return (rate > 0) & (rate**2 > 2 * least * weight)


def _grown(flow: EarlyFlow, growing: np.ndarray, pulling: Dataset, curvature: np.ndarray, decay: float) -> float:
    """How long until the growing sleepers have made a tenth of what they can."""
    if not growing.any():
        return np.inf

    def share(time: float) -> float:
        network = flow.at(time)
        first, second = (np.asarray(layer) for layer in network.weights)
        reach = first[growing] @ pulling.inputs.T
        output = second[0, growing] @ np.maximum(reach, network.slope * reach) * np.exp(-2 * decay * time)
        gain = float(np.mean(pulling.targets * output))
        return float(np.mean(curvature * output**2)) / gain if gain > 0 else 0.0

    # When the first of them alone, grown at its last rate, would have made all it can.
    limit = flow.limit_direction[growing] @ pulling.inputs.T
    response = np.maximum(limit, flow.network.slope * limit)
    rate = flow.rate[growing]
    weight = np.mean(curvature * response**2, axis=1)
    with np.errstate(divide="ignore"):
        times = (0.5 * np.log(rate / weight) - flow.log_amplitude[growing]) / (rate - decay)
    high = max(float(np.min(times)), 0.0) + 1e-9
    if share(0.0) >= _GROWN:
        return 0.0
    low = 0.0
    while share(high) < _GROWN:
        low, high = high, high + 1.0 / float(rate.max())
        if not np.isfinite(high) or low > 1e3 * (1 + float(np.max(times))):
            return np.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if share(middle) >= _GROWN else (middle, high)
    return high
