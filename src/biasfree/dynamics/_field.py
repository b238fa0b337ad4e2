"""The gradient of the loss, written out (Eqs. 6, 7 and 11), and the velocity of the weights on either clock.

Time clock:  Ẇ = −∇L − λW.     Loss clock:  dW/ds = (−∇L − λW)/L, from log-domain arithmetic.

NumPy arrays are taken by NumPy, which compiles nothing: adaptive steps and losses. Descent's many equal steps are worth
compiling; there JAX traces the same functions.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from biasfree import losses
from biasfree.datasets import Dataset
from biasfree.dynamics._float64 import SMALLEST
from biasfree.dynamics._moments import Moments
from biasfree.networks import Architecture, Network, forward, hidden_layers

Weights = tuple[Any, ...]  # of shape (out, in) each, NumPy's or JAX's


_LEAST = 1e-70  # of a layer's norm, so that products of several and their squares are numbers
_quiet = np.errstate(
    over="ignore", under="ignore", invalid="ignore", divide="ignore"
)  # whoever asks looks at the result


class Kind(NamedTuple):
    """What a compiled function is specialised to; hashable."""

    loss: str
    architecture: Architecture
    clock: str = "time"


class Problem(NamedTuple):
    """The numbers of a problem. Where JAX traces them, another slope or data set of the same shape is free."""

    inputs: Any  # (samples, dim)
    targets: Any  # (outputs, samples)
    slope: Any
    weight_decay: Any


def problem(network: Network, dataset: Dataset, loss: str, weight_decay: float) -> Problem:
    """Bring a network and a data set together, or raise ValueError when they do not fit."""
    if not isinstance(network, Network):
        raise ValueError(f"network must be a biasfree.Network, got {type(network).__name__}. Try Network.init(…).")
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"dataset must be a biasfree.Dataset, got {type(dataset).__name__}. Try Dataset(inputs, targets)."
        )
    if network.widths[0] != dataset.dim:
        raise ValueError(
            f"the network takes inputs of dimension {network.widths[0]} but the data has {dataset.dim}. "
            f"Start it with widths [{dataset.dim}, …]."
        )
    dataset = encoded(dataset, loss)
    if network.widths[-1] != dataset.outputs:
        raise ValueError(
            f"the network has {network.widths[-1]} outputs but the data has {dataset.outputs}. "
            f"Start it with widths […, {dataset.outputs}]."
        )
    return Problem(
        np.asarray(dataset.inputs),
        np.atleast_2d(dataset.targets.T),
        np.asarray(network.slope, dtype=float),
        np.asarray(weight_decay, dtype=float),
    )


def encoded(dataset: Dataset, loss: str) -> Dataset:
    """The data with targets as a loss takes them: classes that are whole numbers become rows with a single one."""
    targets = losses.get(loss).encoded(dataset.targets)
    if targets is dataset.targets:
        return dataset
    names = [str(k) for k in range(targets.shape[1])]
    return Dataset(dataset.inputs, targets, dataset.name, dataset.origin, names)


def by_moments(whole: Problem, network: Network, loss: str) -> Problem:
    """What a linear network under square loss needs of a problem: its moments, in place of more samples than that."""
    samples, dim = whole.inputs.shape
    if not network.is_linear or loss != "square" or samples <= dim + 1:
        return whole
    inputs, targets = Moments.of(whole.inputs, whole.targets.T).samples()
    return whole._replace(inputs=inputs, targets=targets.T)


def _alike(weights: Weights, problem: Problem) -> Weights:
    """Weights as NumPy arrays where the problem's are."""
    return tuple(map(np.asarray, weights)) if isinstance(problem.inputs, np.ndarray) else weights


@_quiet
def log_loss(weights: Weights, problem: Problem, kind: Kind) -> Any:
    """Ln L at these weights."""
    weights = _alike(weights, problem)
    outputs = forward(weights, problem.inputs, problem.slope, kind.architecture)
    return losses.get(kind.loss).log_value(outputs, problem.targets)


@_quiet
def velocity(weights: Weights, problem: Problem, kind: Kind) -> Weights:
    """DW/dt, or dW/ds on the loss clock."""
    weights = _alike(weights, problem)
    return velocity_from(
        weights, hidden_layers(weights, problem.inputs, problem.slope, kind.architecture), problem, kind
    )


@_quiet
def velocity_from(
    weights: Weights, signals: list[Float[Array, "width samples"]], problem: Problem, kind: Kind
) -> Weights:
    """``velocity`` from what the layers put out."""
    error, decay = pull_of(signals[-1], problem, kind)
    ascent = _ascent(weights, signals, error, problem.slope, kind.architecture)
    return with_decay(ascent, weights, decay)


def with_decay(ascent: Iterable[Any], weights: Weights, decay: Any) -> Weights:
    """−∇L − λW; without decay NumPy is spared the work."""
    if isinstance(decay, (np.ndarray, np.generic)) and decay == 0:
        return tuple(ascent)
    return tuple(a - decay * w for a, w in zip(ascent, weights, strict=True))


def pull_of(outputs: Any, problem: Problem, kind: Kind) -> tuple[Any, Any]:
    """What drives a flow: residual/P of every output and sample, and the rate at which weights decay."""
    loss, xp = losses.get(kind.loss), losses.module_of(problem.inputs)
    samples = problem.inputs.shape[0]
    if kind.clock == "time":
        return loss.residual(outputs, problem.targets) / samples, problem.weight_decay
    # λ/L overflows where L underflows, and 0/0 must stay 0.
    scale = xp.exp(-loss.log_value(outputs, problem.targets))
    decay = xp.where(problem.weight_decay > 0, problem.weight_decay * scale, 0.0)
    return loss.normalised_residual(outputs, problem.targets) / samples, decay


def _ascent(
    weights: Weights,
    signals: list[Float[Array, "width samples"]],
    error: Float[Array, "outputs samples"],
    slope: Any,
    architecture: Architecture,
) -> Weights:
    """−∇L by backpropagation of ``error`` = residual/P through the layers.

    With one output the last two layers need a single product. A = ⟨e σ'(h) zᵀ⟩, one row per last hidden neuron,
    gives both −∂L/∂W_{L−1} = W_Lᵀ ⊙ A and, as σ(h) = σ'(h) h with h = W_{L−1}z, −∂L/∂W_L = the row sums of
    W_{L−1} ⊙ A.
    """
    depth = len(weights)
    gradients: list[Any] = [None] * depth
    arriving: list[Any] = [0.0] * depth + [error]  # −P ∂L/∂(what enters layer l), summed over its uses
    last = depth - 1
    if depth > 1 and weights[-1].shape[0] == 1 and not any(architecture.skips[last - 1 :]):
        mask = derivative(signals[last], slope, architecture.rectified[last - 1])
        weighted = error if mask is None else mask * error
        product = weighted @ signals[last - 1].T  # one row in all if the layer is linear: every neuron's is the same
        gradients[last] = (weights[last - 1] * product).sum(axis=1)[None]
        gradients[last - 1] = weights[last].T * product
        if last > 1:
            arriving[last - 1] = weights[last - 1].T @ (weights[last].T * weighted)
        last -= 2
    for layer, back in errors_by_layer(weights, signals, arriving, last, slope, architecture):
        gradients[layer] = back @ signals[layer].T
    return tuple(gradients)


def errors_by_layer(
    weights: Weights, signals: list[Any], arriving: list[Any], last: int, slope: Any, architecture: Architecture
) -> Iterator[tuple[int, Any]]:
    """For each layer from ``last`` down to the first, what reaches its output, past its activation."""
    for layer in range(last, -1, -1):
        back = arriving[layer + 1]
        if layer < len(weights) - 1:
            mask = derivative(signals[layer + 1], slope, architecture.rectified[layer])
            back = back if mask is None else mask * back
        yield layer, back
        span = architecture.skips[layer]
        if layer:
            arriving[layer] = arriving[layer] + weights[layer].T @ back
        if span and layer + 1 - span:
            arriving[layer + 1 - span] = arriving[layer + 1 - span] + back


def derivative(signal: Any, slope: Any, rectified: bool) -> Any:
    """σ' from σ's own output, which has the sign of its input; None where it is 1 throughout.

    A slope of 0 turns negative inputs into zeros, and σ'(0) = α, so ``> 0`` decides in every case.
    """
    if not rectified:
        return None
    if isinstance(signal, np.ndarray) and slope == 0:
        return signal > 0  # as good as ones and zeros, and an eighth of their size
    return losses.module_of(signal).where(signal > 0, 1.0, slope)


def squared_norm(weights: Weights) -> Any:
    """Sum of squares of all entries."""
    return sum((w * w).sum() for w in weights)


@_quiet
def margin_power(weights: Weights, problem: Problem, kind: Kind) -> float:
    """Σᵢ qᵢ‖∇mᵢ‖² on the loss clock: the squared gradient of a margin, averaged with its part qᵢ in dW/ds = Σᵢ qᵢ∇mᵢ.

    It is the trace of ⟨∇m ∇mᵀ⟩ and so bounds the larger part of the Hessian of ln L, also where the gradients of two
    classes cancel and ‖dW/ds‖² says nothing.
    """
    weights = _alike(weights, problem)
    signals = hidden_layers(weights, problem.inputs, problem.slope, kind.architecture)
    residual = losses.get(kind.loss).normalised_residual(signals[-1], problem.targets) / problem.inputs.shape[0]
    part = np.sqrt(np.sum(residual**2, axis=0))
    depth = len(weights)
    arriving = [0.0] * depth + [residual / np.maximum(part, SMALLEST)]
    total = 0.0
    for layer, back in errors_by_layer(weights, signals, arriving, depth - 1, problem.slope, kind.architecture):
        total += float(np.sum(part * np.sum(back**2, axis=0) * np.sum(signals[layer] ** 2, axis=0)))
    return total


class Steepness:
    """An upper bound ρ on how fast the velocity can vary where it is smooth (the Hessian's norm).

    With n_l = ‖W_l‖ (plus 1 where a skip adds the identity) and Π their product, the output's first derivatives
    are at most Π/n_l ‖x‖ and its second ones Π/(n_l n_k) ‖x‖, so ρ = C Σ_l (Π/n_l)² + R Σ_{l≠k} Π/(n_l n_k), where
    C bounds ⟨ℓ''‖x‖²⟩ and R bounds ⟨|ℓ'|‖x‖⟩ for all times, the loss never rising above its start. On the loss clock
    ℓ' and ℓ'' are divided by L, which makes them at most 1 on average, and the square of the gradient joins in.
    """

    def __init__(self, problem: Problem, kind: Kind, initial_log_loss: float) -> None:
        """What the data and the start make of it."""
        with np.errstate(all="ignore"):
            power = np.einsum("ij,ij->i", problem.inputs, problem.inputs)
            mean, largest, begin = float(np.mean(power)), float(np.max(power)), float(np.exp(initial_log_loss))
            if kind.clock == "loss":
                self._first, self._second = math.sqrt(largest), 2 * largest
            else:
                self._first, self._second = {
                    "square": (math.sqrt(2 * begin * mean), mean),
                    "logistic": (math.sqrt(mean), mean / 4),
                    "exponential": (begin * math.sqrt(largest), begin * largest),
                    "cross-entropy": (math.sqrt(2 * mean), mean / 2),
                }[kind.loss]
        self._decay = float(problem.weight_decay)
        self._skips = [1.0 if skip else 0.0 for skip in kind.architecture.skips]

    def at(self, squares: Float[np.ndarray, "layers"]) -> float:
        """ρ at weights of these ‖W_l‖²."""
        norms = [max(math.sqrt(n) + skip, _LEAST) for n, skip in zip(squares.tolist(), self._skips, strict=True)]
        product = math.prod(norms)
        inverse = sum(1 / n for n in norms)
        twice = sum((1 / n) * (1 / n) for n in norms)
        # Products, not powers: Python's powers raise an error where they overflow.
        once, both = product * product * twice, product * (inverse * inverse - twice)
        return self._second * once + self._first * both + self._decay
