"""The gradient of the loss, written out (Eqs. 6, 7 and 11), and the velocity of the weights on either clock.

Time clock:  Ẇ = −∇L − λW.     Loss clock:  dW/ds = (−∇L − λW)/L, from log-domain arithmetic.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from biasfree import losses
from biasfree.datasets import Dataset
from biasfree.dynamics._moments import Moments
from biasfree.networks import Architecture, Network, forward, hidden_layers

Weights = tuple[Float[Array, "out in"], ...]


class Kind(NamedTuple):
    """What a compiled function is specialised to; hashable."""

    loss: str
    architecture: Architecture
    clock: str = "time"


class Problem(NamedTuple):
    """The numbers of a problem: all traced, so that another slope or data set of the same shape is free."""

    inputs: Float[Array, "samples dim"]
    targets: Float[Array, "outputs samples"]
    slope: Float[Array, ""]
    weight_decay: Float[Array, ""]


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
        jnp.asarray(dataset.inputs),
        jnp.asarray(np.atleast_2d(dataset.targets.T)),
        jnp.asarray(network.slope, dtype=float),
        jnp.asarray(weight_decay, dtype=float),
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
    inputs, targets = Moments.of(np.asarray(whole.inputs), np.asarray(whole.targets).T).samples()
    return whole._replace(inputs=jnp.asarray(inputs), targets=jnp.asarray(targets.T))


def log_loss(weights: Weights, problem: Problem, kind: Kind) -> Float[Array, ""]:
    """Ln L at these weights."""
    outputs = forward(weights, problem.inputs, problem.slope, kind.architecture)
    return losses.get(kind.loss).log_value(outputs, problem.targets)


def velocity(weights: Weights, problem: Problem, kind: Kind) -> Weights:
    """DW/dt, or dW/ds on the loss clock."""
    loss = losses.get(kind.loss)
    signals = hidden_layers(weights, problem.inputs, problem.slope, kind.architecture)
    if kind.clock == "loss":
        residual = loss.normalised_residual(signals[-1], problem.targets)
        # λ/L overflows where L underflows, and 0/0 must stay 0.
        scale = jnp.exp(-loss.log_value(signals[-1], problem.targets))
        decay = jnp.where(problem.weight_decay > 0, problem.weight_decay * scale, 0.0)
    else:
        residual = loss.residual(signals[-1], problem.targets)
        decay = problem.weight_decay
    ascent = _ascent(weights, signals, residual / problem.inputs.shape[0], problem.slope, kind.architecture)
    return tuple(a - decay * w for a, w in zip(ascent, weights, strict=True))


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
        mask = _derivative(signals[last], slope, architecture.rectified[last - 1])
        weighted = error if mask is None else mask * error
        product = weighted @ signals[last - 1].T  # one row in all if the layer is linear: every neuron's is the same
        gradients[last] = jnp.sum(weights[last - 1] * product, axis=1)[None]
        gradients[last - 1] = weights[last].T * product
        if last > 1:
            arriving[last - 1] = weights[last - 1].T @ (weights[last].T * weighted)
        last -= 2
    for layer, back in _errors(weights, signals, arriving, last, slope, architecture):
        gradients[layer] = back @ signals[layer].T
    return tuple(gradients)


def _errors(
    weights: Weights, signals: list[Any], arriving: list[Any], last: int, slope: Any, architecture: Architecture
) -> Iterator[tuple[int, Any]]:
    """For each layer from ``last`` down to the first, what reaches its output, past its activation."""
    for layer in range(last, -1, -1):
        back = arriving[layer + 1]
        if layer < len(weights) - 1:
            mask = _derivative(signals[layer + 1], slope, architecture.rectified[layer])
            back = back if mask is None else mask * back
        yield layer, back
        span = architecture.skips[layer]
        if layer:
            arriving[layer] = arriving[layer] + weights[layer].T @ back
        if span and layer + 1 - span:
            arriving[layer + 1 - span] = arriving[layer + 1 - span] + back


def _derivative(signal: Any, slope: Any, rectified: bool) -> Any:
    """σ' from σ's own output, which has the sign of its input; None where it is 1 throughout.

    A slope of 0 turns negative inputs into zeros, and σ'(0) = α, so ``> 0`` decides in every case.
    """
    return jnp.where(signal > 0, 1.0, slope) if rectified else None


def squared_norm(weights: Weights) -> Float[Array, ""]:
    """Sum of squares of all entries."""
    return sum((jnp.sum(w * w) for w in weights), start=jnp.asarray(0.0))


def margin_power(weights: Weights, problem: Problem, kind: Kind) -> Float[Array, ""]:
    """Σᵢ qᵢ‖∇mᵢ‖² on the loss clock: the squared gradient of a margin, averaged with its part qᵢ in dW/ds = Σᵢ qᵢ∇mᵢ.

    It is the trace of ⟨∇m ∇mᵀ⟩ and so bounds the larger part of the Hessian of ln L, also where the gradients of two
    classes cancel and ‖dW/ds‖² says nothing.
    """
    signals = hidden_layers(weights, problem.inputs, problem.slope, kind.architecture)
    residual = losses.get(kind.loss).normalised_residual(signals[-1], problem.targets) / problem.inputs.shape[0]
    part = jnp.sqrt(jnp.sum(residual**2, axis=0))
    depth = len(weights)
    arriving = [0.0] * depth + [residual / jnp.maximum(part, 1e-300)]
    total = jnp.asarray(0.0)
    for layer, back in _errors(weights, signals, arriving, depth - 1, problem.slope, kind.architecture):
        total += jnp.sum(part * jnp.sum(back**2, axis=0) * jnp.sum(signals[layer] ** 2, axis=0))
    return total


def stiffness(weights: Weights, problem: Problem, kind: Kind, initial_log_loss: Any) -> Float[Array, ""]:
    """An upper bound ρ on how fast the velocity can vary where it is smooth (the Hessian's norm).

    With n_l = ‖W_l‖ (plus 1 where a skip adds the identity) and Π their product, the output's first derivatives
    are at most Π/n_l ‖x‖ and its second ones Π/(n_l n_k) ‖x‖, so ρ = C Σ_l (Π/n_l)² + R Σ_{l≠k} Π/(n_l n_k), where
    C bounds ⟨ℓ''‖x‖²⟩ and R bounds ⟨|ℓ'|‖x‖⟩ for all times, the loss never rising above its start. On the loss clock
    ℓ' and ℓ'' are divided by L, which makes them at most 1 on average, and the square of the gradient joins in.
    """
    power = jnp.sum(problem.inputs**2, axis=1)
    mean, largest, begin = jnp.mean(power), jnp.max(power), jnp.exp(initial_log_loss)
    if kind.clock == "loss":
        first, second = jnp.sqrt(largest), 2 * largest
    else:
        first, second = {
            "square": (jnp.sqrt(2 * begin * mean), mean),
            "logistic": (jnp.sqrt(mean), mean / 4),
            "exponential": (begin * jnp.sqrt(largest), begin * largest),
            "cross-entropy": (jnp.sqrt(2 * mean), mean / 2),
        }[kind.loss]
    norms = jnp.stack([jnp.sqrt(jnp.sum(w * w)) for w in weights])
    norms = norms + jnp.array([1.0 if s else 0.0 for s in kind.architecture.skips])
    norms = jnp.maximum(norms, 1e-150)
    product = jnp.prod(norms)
    once = product / norms
    twice = product / jnp.outer(norms, norms)
    return second * jnp.sum(once**2) + first * (jnp.sum(twice) - jnp.trace(twice)) + problem.weight_decay


compiled_velocity = jax.jit(velocity, static_argnames="kind")
compiled_log_loss = jax.jit(log_loss, static_argnames="kind")
