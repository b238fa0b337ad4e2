"""The early phase under Condition 3: Lemma 12, Theorem 13 and Eq. 23.

While the output is negligible the flow is linear, Ẇ₁ = κaW₂ᵀβᵀ, Ẇ₂ = κaβᵀW₁ᵀ with a = (1+α)/2, and κ the residual's
size at f = 0 per
unit of y: 1 for the square and the exponential loss, ½ for the logistic one. Its growing mode is e^{κast} r₁[β̄ᵀ, 1]
with r₁ = (W₁(0)β̄ + W₂(0)ᵀ)/2: rank one and balanced, which is what Assumption 4 takes for granted, except that the
positive and negative parts of r₁ differ by the draw.

Without Condition 3 see ``early_flow``; a linear network (α = 1) obeys these equations on any data.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.deprecated import times_first
from biasfree.networks import Network

# A singular value below this part of the largest it could be is rounding's, and no mode.
_NO_MODE = 1e-12


@dataclass(frozen=True)
class GrowthBound:
    """Lemma 12: max(‖W₁‖, ‖W₂‖) ≤ u(0)e^{(s + Tr Σ)t} for t < window.

    Attributes:
        initial: u(0), the larger of the two layers' norms.
        rate: s + Tr Σ.
        window: ln(1/u(0))/(s + Tr Σ), 0 when u(0) ≥ 1: the lemma then says nothing.
    """

    initial: float
    rate: float
    window: float

    def __call__(self, times: Float[Any, "*times"]) -> Float[np.ndarray, "*times"]:
        """The bound on the larger norm at each time; infinite outside the window, where nothing is claimed."""
        t = checks.numeric(times, "times")
        inside = t < self.window
        return np.where(inside, self.initial * np.exp(self.rate * np.where(inside, t, 0.0)), np.inf)

    def __str__(self) -> str:
        """The bound and its window."""
        return f"max(‖W₁‖, ‖W₂‖) ≤ {self.initial:.3g}·e^({self.rate:.4g} t) for t < {self.window:.4g}"


def lemma_12(network: Network, dataset: Dataset) -> GrowthBound:
    """Lemma 12's bound on the growth of the weights, and the window it holds in (square loss, Condition 3).

    The window is conservative: the early phase really lasts until about ln(1/γ)/(as), see ``escape_time``.

    With several outputs s is the largest singular value of β.

    Args:
        network: two layers.
        dataset: as many outputs as the network has.

    Raises:
        ValueError: another depth, shapes that do not fit.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> print(lemma_12(Network.init([3, 10, 1], slope=0.0, init_scale=1e-4, seed=0), data))
    max(‖W₁‖, ‖W₂‖) ≤ 8.18e-05·e^(3.599 t) for t < 2.615
    """
    layers_and_pace(network, dataset)
    initial = max(float(np.linalg.norm(w)) for w in network.weights)
    strength = np.linalg.norm(np.atleast_2d(dataset.correlation), 2)
    rate = float(strength + np.trace(dataset.covariance))
    return GrowthBound(initial, rate, max(0.0, -np.log(initial)) / rate)


@dataclass(frozen=True)
class AlignedStart:
    """The growing mode of a random start (Theorem 13): from it, the network behaves as if it had begun aligned.

    Attributes:
        direction: β̄, the direction every neuron turns to.
        norm: ‖r₁‖, the norm of either layer that an exactly aligned network would have had at t = 0.
        readout: r₁ = (W₁(0)β̄ + W₂(0)ᵀ)/2, one entry per neuron.
        rate: κas, the rate of growth.
    """

    direction: Float[np.ndarray, "dim"]
    norm: float
    readout: Float[np.ndarray, "width"]
    rate: float

    @property
    def imbalance(self) -> float:
        """ε = (‖r₁⁺‖² − ‖r₁⁻‖²)/‖r₁‖²: what the draw lacks of Assumption 4; about N(0, 3/width)."""
        # Divided by the norm first: squares of 1e-200 are none.
        unit = self.readout / self.norm
        return float(np.sum(unit * np.abs(unit)))


def aligned_start(network: Network, dataset: Dataset, loss: str = "square") -> AlignedStart:
    """Theorem 13's r₁ and rate: where a small random start goes, and the aligned start it is equivalent to.

    Feed ``direction`` and ``norm`` to ``closed_form`` or ``reduced_flow`` to predict the time course of a random start.

    Args:
        network: two layers, one output.
        dataset: scalar targets, β ≠ 0.
        loss: "square", "logistic" or "exponential".

    Raises:
        ValueError: another depth, several outputs, β = 0.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> start = aligned_start(Network.init([3, 10, 1], slope=0.0, init_scale=1e-8, seed=0), data)
    >>> bool(1e-9 < start.norm < 1e-8), start.readout.shape
    (True, (10,))
    """
    first, second, a = two_layers(network, dataset)
    strength = float(np.linalg.norm(dataset.correlation))
    if not strength:
        raise ValueError("the data have no input-output correlation (β = 0): nothing grows at a rate of its own.")
    unit = np.asarray(dataset.correlation) / strength
    readout = 0.5 * (first @ unit + second)
    size = np.abs(readout).max() or 1.0
    norm = float(size * np.linalg.norm(readout / size))
    return AlignedStart(unit, norm, readout, losses.get(loss).initial_pull * a * strength)


@times_first("times")
def theorem_13(
    times: Float[Any, "*times"], network: Network, dataset: Dataset, loss: str = "square"
) -> tuple[Float[np.ndarray, "*times width dim"], Float[np.ndarray, "*times 1 width"]]:
    """Theorem 13: W₁ ≈ e^{ast} r₁β̄ᵀ, W₂ ≈ e^{ast} r₁ᵀ, the growing mode alone.

    Args:
        times: flow times, of any shape.
        network: two layers, one output.
        dataset: Condition 3 is assumed, not checked.
        loss: "square", "logistic" or "exponential".

    Returns:
        W₁ and W₂ at each time.

    Raises:
        ValueError: as ``aligned_start``.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> w1, w2 = theorem_13([0.0, 1.0], Network.init([3, 10, 1], slope=0.0, init_scale=1e-8, seed=0), data)
    >>> w1.shape, w2.shape
    ((2, 10, 3), (2, 1, 10))
    """
    start = aligned_start(network, dataset, loss)
    grown = np.exp(start.rate * checks.numeric(times, "times"))[..., None, None]
    return grown * np.outer(start.readout, start.direction), grown * start.readout[None]


@times_first("times")
def early_solution(
    times: Float[Any, "*times"], network: Network, dataset: Dataset, loss: str = "square"
) -> tuple[Float[np.ndarray, "*times width dim"], Float[np.ndarray, "*times outputs width"]]:
    """Eq. 23: the whole solution of the early phase's linear flow, with its growing, decaying and resting parts.

    With several outputs there is a growing and a decaying part for each pair u_i, z_i of singular vectors of β.

    Args:
        times: flow times, of any shape.
        network: two layers.
        dataset: as many outputs as the network has. Condition 3 is assumed, not checked; a linear network needs none.
        loss: its name.

    Returns:
        W₁ and W₂ at each time.

    Raises:
        ValueError: another depth, shapes that do not fit, β = 0.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> network = Network.init([3, 10, 1], slope=0.0, init_scale=1e-8, seed=0)
    >>> bool(np.allclose(early_solution(0.0, network, data)[0], network.weights[0], rtol=1e-14))
    True
    """
    first, second, a = layers_and_pace(network, dataset)
    outputs, strengths, inputs = singular_modes(dataset, loss)
    along, out = inputs @ first.T, outputs @ second
    phase = (a * strengths) * checks.numeric(times, "times")[..., None]
    grown = np.exp(phase)[..., None] * (0.5 * (along + out))
    shrunk = np.exp(-phase)[..., None] * (0.5 * (along - out))
    rows, columns = np.swapaxes(grown + shrunk, -1, -2) @ inputs, outputs.T @ (grown - shrunk)
    return rows + (first - along.T @ inputs), columns + (second - outputs.T @ out)


def escape_time(init_scale: float, rate: float) -> float:
    """When weights of size γ that grow at a rate have become of order one: ln(1/γ)/rate.

    Args:
        init_scale: γ, or the norm a group of neurons starts from.
        rate: of growth, e.g. as under Condition 3 or |G| of a gathering direction.

    Raises:
        ValueError: a scale or rate that is not above zero.

    >>> round(escape_time(1e-6, 0.25), 1)
    55.3
    """
    return max(0.0, -float(np.log(checks.positive(init_scale, "init_scale")))) / checks.positive(rate, "rate")


def singular_modes(
    dataset: Dataset, loss: str
) -> tuple[Float[np.ndarray, "modes outputs"], Float[np.ndarray, "modes"], Float[np.ndarray, "modes dim"]]:
    """u_i, s_i > 0 and z_i of ⟨r₀xᵀ⟩ = Σ_i s_i u_i z_iᵀ, r₀ the residual at f = 0, strongest first; β for square loss.

    Raises:
        ValueError: there is none.
    """
    measure = losses.get(loss)
    residual = measure.initial_residual(measure.encoded(dataset.targets)).reshape(dataset.samples, -1)
    left, strengths, right = np.linalg.svd(residual.T @ dataset.inputs / dataset.samples, full_matrices=False)
    kept = strengths > _NO_MODE * np.abs(residual).max(initial=0.0) * np.abs(dataset.inputs).max()
    if not kept.any():
        raise ValueError("the data have no input-output correlation (β = 0): nothing grows at a rate of its own.")
    left, strengths, right = left.T[kept], strengths[kept], right[kept]
    # The sign of a pair of singular vectors is free; the largest entry of u is taken positive.
    signs = np.sign(np.take_along_axis(left, np.abs(left).argmax(axis=1)[:, None], axis=1))
    return left * signs, strengths, right * signs


def layers_and_pace(
    network: Network, dataset: Dataset
) -> tuple[Float[np.ndarray, "width dim"], Float[np.ndarray, "outputs width"], float]:
    """W₁, W₂ and a = (1+α)/2 of a two-layer network with as many outputs as the data; refuses all others."""
    if network.depth != 2 or any(network.skips):
        raise ValueError(f"this is theory of two-layer networks, got a {network}.")
    if (dataset.dim, dataset.outputs) != (network.widths[0], network.widths[-1]):
        raise ValueError(
            f"the network takes {network.widths[0]} inputs to {network.widths[-1]} outputs, "
            f"but the data have dimension {dataset.dim} and {dataset.outputs} outputs."
        )
    slope = 1.0 if network.is_linear else network.slope
    return np.asarray(network.weights[0]), np.asarray(network.weights[1]), 0.5 * (1 + slope)


def two_layers(network: Network, dataset: Dataset) -> tuple[np.ndarray, np.ndarray, float]:
    """W₁ (width, dim), W₂ (width,) and a = (1+α)/2; refuses what the two-layer theory is not about."""
    if network.depth != 2 or any(network.skips) or network.widths[-1] != 1:
        raise ValueError(
            f"this is theory of two-layer networks with one output, got a {network}. "
            "For several outputs see growing_modes, mode_staircase and early_flow_several."
        )
    if dataset.outputs != 1 or dataset.dim != network.widths[0]:
        raise ValueError(
            f"the network takes {network.widths[0]} inputs to one output, "
            f"but the data have dimension {dataset.dim} and {dataset.outputs} outputs."
        )
    slope = 1.0 if network.is_linear else network.slope
    return np.asarray(network.weights[0]), np.asarray(network.weights[1])[0], 0.5 * (1 + slope)
