"""A few neurons whose flow is that of many: what a forecast is made from.

While the output is negligible every neuron moves for itself, ẇ = w₂c(r), ẇ₂ = c(r)ᵀw with c(r) = κ(aβ + bB(r)). By the
end of that phase the neurons have gathered in a few directions. Parallel neurons stay parallel and act as one whose
square is the sum of theirs, so that the small network made of these goes on as the large one would.

With few lines the phase is followed in closed form, switch by switch. With many, one line more or less moves c(r) by
little, and steps of constant c do: each is exact for the c half way along it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.networks import Network

# The output's size, as part of the targets', up to which neurons count as not seeing each other.
EARLY = 3e-3
FEW_LINES = 64
# Angles within which neurons count as parallel, the first that leaves few enough of them; how far outputs may
# change by it.
_PARALLEL = (0.01, 0.03, 0.1, 0.2, 0.4)
_MOST_NEURONS, _CHANGED = 32, 0.05
# The longest turn of a neuron in a step, and its longest growth.
TURN, GROWTH, MOST_STEPS = 0.1, 0.5, 3000


@dataclass(frozen=True)
class Reduced:
    """A network at the end of the early phase, with few neurons.

    Attributes:
        network: one neuron for each direction.
        time: the flow time it stands at.
        rate: of the fastest growth.
        groups: where neurons gather; empty where lines are many.
        joined: neurons within this angle, in radians, were joined; 0 if none were.
    """

    network: Network
    time: float
    rate: float
    groups: tuple[theory.Gathering, ...]
    joined: float = 0.0


def reduced(start: Network, dataset: Dataset, loss: str, watch: Callable[[], None] | None = None) -> Reduced | None:
    """The start after its early phase, neurons of one direction joined; None if none grows.

    Args:
        start: two layers, one output.
        dataset: scalar targets.
        loss: "square" or "logistic".
        watch: called at every step.
    """
    target = EARLY * float(np.sqrt(np.mean(dataset.targets**2)))
    if len(lines(dataset.inputs)) > FEW_LINES:
        grown, time, rate = _stepped(start, dataset, loss, target, watch)
        if rate == 0:
            return None
        few, joined = few_enough(grown, dataset.inputs)
        return Reduced(few, time, rate, (), joined)
    early = theory.early_flow(start, dataset, loss)
    groups = theory.gather(early)
    if not groups:
        return None

    def negligible(time: float) -> bool:
        return bool(np.abs(np.asarray(early.at(time)(dataset.inputs))).max() < target)

    low, high = 0.0, 1 / groups[0].rate
    while negligible(high):
        low, high = high, 2 * high
    for _ in range(30):
        between = 0.5 * (low + high)
        low, high = (between, high) if negligible(between) else (low, between)
    few, joined = few_enough(early.at(low), dataset.inputs)
    return Reduced(few, low, groups[0].rate, groups, joined)


def merged_for_flow(network: Network, tolerance: float) -> Network:
    """One neuron for all whose (w, v) are parallel within an angle: its square is the sum of theirs.

    This keeps the flow, and with it the function, as far as they are parallel; ``_merging.merged_for_function`` keeps
    the function alone, and does so exactly. Neurons of no size fill up to a power of two, so that few shapes are
    compiled.

    Args:
        network: two layers.
        tolerance: the angle to the largest neuron of a group, in radians.
    """
    first, second = (np.asarray(w) for w in network.weights)
    joined = np.column_stack([first, second.T])
    size = np.linalg.norm(joined, axis=1)
    order = np.argsort(-size)
    units = joined / np.maximum(size, 1e-300)[:, None]
    merged: list[np.ndarray] = []
    left = order[size[order] > 0]
    while left.size:
        alike = left[units[left] @ units[left[0]] > 1 - 0.5 * tolerance**2]
        mean = (size[alike] ** 2) @ units[alike]
        merged.append(mean / np.linalg.norm(mean) * np.linalg.norm(size[alike]))
        left = np.setdiff1d(left, alike, assume_unique=True)
        left = left[np.argsort(-size[left])]
    rows = np.zeros((max(8, 1 << (len(merged) - 1).bit_length()), joined.shape[1]))
    rows[: len(merged)] = merged
    return Network([rows[:, : first.shape[1]], rows[:, first.shape[1] :].T], network.slope)


def few_enough(network: Network, inputs: np.ndarray) -> tuple[Network, float]:
    """The first merging that leaves few neurons, if it leaves the outputs too, with its angle; else the network."""
    outputs = np.asarray(network(inputs))
    for tolerance in _PARALLEL:
        few = merged_for_flow(network, tolerance)
        if few.widths[1] <= _MOST_NEURONS:
            changed = np.linalg.norm(np.asarray(few(inputs)) - outputs)
            return (few, tolerance) if changed <= _CHANGED * np.linalg.norm(outputs) else (network, 0.0)
    return network, 0.0


def _stepped(
    start: Network, dataset: Dataset, loss: str, target: float, watch: Callable[[], None] | None = None
) -> tuple[Network, float, float]:
    """The start when its output reaches ``target``, when that is, and the rate of the fastest neuron."""
    inputs = dataset.inputs
    first, second = np.asarray(start.weights[0]), np.asarray(start.weights[1])[0]
    a = 0.5 * (1 + start.slope)
    weighted = (1.0 if loss == "square" else 0.5) * dataset.targets[:, None] * inputs / dataset.samples
    drift = a * weighted.sum(axis=0)

    def pull(w: np.ndarray) -> np.ndarray:
        return drift + (1 - a) * np.sign(w @ inputs.T) @ weighted

    time, rate = 0.0, 0.0
    for _ in range(MOST_STEPS):
        if watch is not None:
            watch()
        c = pull(first)
        sizes, length = np.linalg.norm(c, axis=1), np.maximum(np.linalg.norm(first, axis=1), 1e-300)
        rate = float(sizes.max())
        if rate == 0:
            break
        across = c - np.sum(c * first, axis=1, keepdims=True) / length[:, None] ** 2 * first
        turning = np.abs(second) / length * np.linalg.norm(across, axis=1)
        # Neurons that matter set the pace; those that have stayed small turn as fast as they like.
        weight = length > 0.01 * length.max()
        step = min(GROWTH / rate, TURN / max(float(turning[weight].max()), 1e-300))
        middle, _ = _moved(first, second, c, 0.5 * step)
        new = _moved(first, second, pull(middle), step)
        output = new[1] @ np.maximum(new[0] @ inputs.T, start.slope * (new[0] @ inputs.T))
        if np.abs(output).max() >= target:
            break
        (first, second), time = new, time + step
    return start.with_weights([first, second[None]]), time, rate


def _moved(
    first: Float[np.ndarray, "width dim"], second: Float[np.ndarray, "width"], c: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """ẇ = w₂c, ẇ₂ = cᵀw for a while."""
    rate = np.maximum(np.linalg.norm(c, axis=1), 1e-300)
    unit = c / rate[:, None]
    along = np.sum(unit * first, axis=1)
    cosh, sinh = np.cosh(rate * step), np.sinh(rate * step)
    return first + (along * (cosh - 1) + second * sinh)[:, None] * unit, second * cosh + along * sinh
