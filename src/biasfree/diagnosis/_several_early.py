"""The early phase of several outputs: what ``_reduction`` is for one.

While the output is negligible a neuron (w, v) obeys ẇ = Mv, v̇ = Mᵀw with M = a⟨x r₀ᵀ⟩ + b⟨sgn(wᵀx) x r₀ᵀ⟩ and r₀ the
residual at f = 0. With few lines the phase is followed in closed form, switch by switch; with many, by steps of
constant M, each exact for the M half way along it. Neurons need not gather: of several outputs each keeps a part of
every mode. So parallel ones are joined only where that leaves the outputs as they are.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from biasfree import losses, theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._reduction import EARLY, FEW_LINES, GROWTH, MOST_STEPS, TURN, Reduced, few_enough
from biasfree.lines import lines
from biasfree.networks import Network


def reduced_several(
    start: Network, dataset: Dataset, loss: str, watch: Callable[[], None] | None = None
) -> Reduced | None:
    """The start after its early phase; None if no neuron grows.

    Args:
        start: two layers, several outputs.
        dataset: as many outputs.
        loss: "square" or "cross-entropy".
        watch: called at every step; it ends the work by raising KeyboardInterrupt.
    """
    size = float(np.sqrt(np.mean(np.sum(dataset.targets**2, axis=1))))
    target = EARLY * size
    switched = None
    if len(lines(dataset.inputs)) <= FEW_LINES:
        switched = _switched(start, dataset, loss, target)
    grown, time, rate = switched or _stepped(start, dataset, loss, target, watch)
    if rate == 0:
        return None
    few, joined = few_enough(grown, dataset.inputs)
    if few.widths[1] < grown.widths[1]:
        return Reduced(few, time, rate, (), joined)
    return Reduced(grown, time, rate, ())


def pulled(dataset: Dataset, loss: str) -> Dataset:
    """The data with −∂ℓ/∂f at f = 0 as targets: what neurons see in the early phase; of numbers it is the data."""
    if loss != "cross-entropy":
        return dataset
    residuals = losses.get(loss).initial_residual(dataset.targets)
    return Dataset(dataset.inputs, residuals, dataset.name, dataset.origin)


def _switched(start: Network, dataset: Dataset, loss: str, target: float) -> tuple[Network, float, float] | None:
    """By the closed form; None where a neuron's way could not be decided."""
    try:
        early = theory.early_flow_several(start, dataset, loss)
    except ArithmeticError:
        return None
    rate = float(early.rate.max(initial=0.0))
    if rate == 0:
        return start, 0.0, 0.0

    def negligible(time: float) -> bool:
        return _size(early.at(time), dataset.inputs) < target

    low, high = 0.0, 1 / rate
    while negligible(high):
        low, high = high, 2 * high
    for _ in range(30):
        between = 0.5 * (low + high)
        low, high = (between, high) if negligible(between) else (low, between)
    return early.at(low), low, rate


def _size(network: Network, inputs: np.ndarray) -> float:
    """The largest output at any sample."""
    return float(np.linalg.norm(np.asarray(network(inputs)), axis=-1).max())


def _stepped(
    start: Network, dataset: Dataset, loss: str, target: float, watch: Callable[[], None] | None
) -> tuple[Network, float, float]:
    """The start when its output reaches ``target``, when that is, and the rate of the fastest neuron."""
    inputs, pulling = dataset.inputs, pulled(dataset, loss).targets / dataset.samples
    first, second = np.asarray(start.weights[0]), np.asarray(start.weights[1]).T
    a = 0.5 * (1 + start.slope)
    drift = a * inputs.T @ pulling

    def pull(w: np.ndarray) -> np.ndarray:
        sides = np.sign(w @ inputs.T)
        turned = [sides @ (inputs * each[:, None]) for each in pulling.T]  # output by output: samples × dim at once
        return drift + (1 - a) * np.stack(turned, axis=-1)

    time, rate = 0.0, 0.0
    for _ in range(MOST_STEPS):
        if watch is not None:
            watch()
        matrices = np.linalg.svd(pull(first), full_matrices=False)
        rate = float(matrices[1].max())
        if rate == 0:
            break
        step = min(GROWTH / rate, TURN / max(_turning(first, second, matrices), 1e-300))
        middle, _ = _moved(first, second, matrices, 0.5 * step)
        new = _moved(first, second, np.linalg.svd(pull(middle), full_matrices=False), step)
        if _size(start.with_weights([new[0], new[1].T]), inputs) >= target:
            break
        (first, second), time = new, time + step
    return start.with_weights([first, second.T]), time, rate


def _turning(first: np.ndarray, second: np.ndarray, matrices: tuple[np.ndarray, ...]) -> float:
    """How fast w turns, of neurons that matter: those that have stayed small turn as fast as they like."""
    left, values, right = matrices
    moving = np.einsum("hds,hs,hsk,hk->hd", left, values, right, second, optimize=True)
    length = np.maximum(np.linalg.norm(first, axis=1), 1e-300)
    across = moving - np.sum(moving * first, axis=1, keepdims=True) / length[:, None] ** 2 * first
    return float((np.linalg.norm(across, axis=1) / length)[length > 0.01 * length.max()].max())


def _moved(
    first: Float[np.ndarray, "width dim"],
    second: Float[np.ndarray, "width outputs"],
    matrices: tuple[np.ndarray, ...],
    step: float,
) -> tuple[np.ndarray, np.ndarray]:
    """ẇ = Mv, v̇ = Mᵀw for a while, M by its singular vectors."""
    left, values, right = matrices
    along = np.einsum("hds,hd->hs", left, first)
    across = np.einsum("hsk,hk->hs", right, second)
    more, sinh = np.cosh(values * step) - 1, np.sinh(values * step)
    return (
        first + np.einsum("hds,hs->hd", left, along * more + across * sinh),
        second + np.einsum("hsk,hs->hk", right, across * more + along * sinh),
    )
