"""Deep networks in their aligned form (Appendix F): the map they compute, Eq. 41, and how it moves, Eqs. 12 and 42.

A deep linear network from small weights becomes rank one with aligned neighbours (Eq. 39): W₁ = u r₁rᵀ,
W_l = u r_l r_{l−1}ᵀ, W_L = u r_{L−1}ᵀ. A deep ReLU network on even inputs with a linear target keeps of each middle
layer √2 times the two blocks in which r_l and r_{l−1} have the same sign (Eq. 40). Its neurons then fall into a
positive path, active where rᵀx > 0, and a negative one; if the two have equal norms the network computes f = ½W_L⋯W₁x
(Eq. 41) and moves, with τ = 1, by

    Ẇ_l = B_l ⊙ (W_L⋯W_{l+1})ᵀ (½βᵀ − ¼W_L⋯W₁Σ) (W_{l−1}⋯W₁)ᵀ,     B_l = [r_l r_{l−1}ᵀ > 0] for 1 < l < L, else 1.

This is Eq. 42 corrected twice: the last product of the printed one runs over l' = l−1 … L, where only l' = 1 … l−1 has
the right shape, and without B_l its right side is the full r_l r_{l−1}ᵀ, which fills the blocks that Eq. 40 leaves
empty: half of its squared norm, so that the velocity of a middle layer is off by 100 %.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.networks import Network

# What counts as Eq. 39's or Eq. 40's form: far above rounding, far below any misalignment that training leaves.
FORM_TOLERANCE = 1e-8


@dataclass(frozen=True)
class EffectiveMap:
    """The linear map that Eq. 41 says a network computes.

    Attributes:
        map: w of f(x) = wᵀx, shape (dim,), or (outputs, dim) for several outputs.
        factor: what the product of the weights is multiplied by; ½ for a ReLU network.
        error: ‖f − wᵀx‖/‖f‖ over the inputs given, None without inputs.
    """

    map: Float[np.ndarray, "dim"] | Float[np.ndarray, "outputs dim"]
    factor: float
    error: float | None

    def __str__(self) -> str:
        """Size and error in a line."""
        tail = "" if self.error is None else f"; on the inputs given the network differs from it by {self.error:.2g}"
        return f"f(x) = {self.factor:g} W_L⋯W₁x, a map of norm {np.linalg.norm(self.map):.4g}{tail}"


def effective_map(network: Network, inputs: Float[Any, "samples dim"] | None = None) -> EffectiveMap:
    """Eq. 41: f = ½W_L⋯W₁x for a ReLU network of Eq. 40's form with paths of equal norm.

    With slope α the path that is not active still lets α^k through, k the number of rectified layers, so the factor is
    (1 + α^k)/2: ½ for ReLU, (1+α)/2 for two layers, 1 for a linear network, of which the claim always holds.

    Args:
        network: any network without skips; whether the claim is true of it, ``error`` says.
        inputs: shape (samples, dim), where to compare the claim with the network.

    Raises:
        ValueError: a network with skips, inputs of another dimension.

    >>> exact = effective_map(Network.aligned_relu([3, 6, 6, 1], init_scale=1.0, seed=0), np.eye(3))
    >>> exact.factor, bool(exact.error < 1e-14)
    (0.5, True)
    >>> bool(effective_map(Network.init([3, 6, 6, 1], 0.0, 1.0, seed=0), np.eye(3)).error > 0.1)
    True
    """
    weights = layers(network)
    factor = 0.5 * (1 + network.slope ** sum(network.rectified))
    product = factor * functools.reduce(lambda before, weight: weight @ before, weights)
    error = None
    if inputs is not None:
        outputs = np.asarray(network(inputs)).reshape(-1, len(product))
        apart = outputs - checks.numeric(inputs, "inputs").reshape(-1, product.shape[1]) @ product.T
        size = np.linalg.norm(outputs)
        error = float(np.linalg.norm(apart) / size) if size else float(np.linalg.norm(apart) > 0)
    return EffectiveMap(product[0] if len(product) == 1 else product, factor, error)


def eq_12_velocity(
    network: Network,
    covariance: Float[Any, "dim dim"],
    correlation: Float[Any, "dim"] | Float[Any, "outputs dim"],
) -> tuple[Float[np.ndarray, "out in"], ...]:
    """Eq. 12: Ẇ_l = (W_L⋯W_{l+1})ᵀ (βᵀ − W_L⋯W₁Σ) (W_{l−1}⋯W₁)ᵀ, the flow of a deep linear network, square loss.

    Args:
        network: linear, without skips; any weights.
        covariance: Σ = ⟨x xᵀ⟩.
        correlation: β = ⟨y x⟩.

    Returns:
        dW_l/dt, one array per layer.

    Raises:
        ValueError: a network that is not linear, shapes that do not match.

    >>> network = Network([[[2.0]], [[3.0]]], slope=1.0)
    >>> eq_12_velocity(network, [[1.0]], [7.0])
    (array([[3.]]), array([[2.]]))
    """
    if not network.is_linear:
        raise ValueError(f"Eq. 12 is for linear networks, got a {network}. For ReLU see eq_42_velocity.")
    return _product_flow(layers(network), covariance, correlation, 1.0)


def eq_42_velocity(
    network: Network, covariance: Float[Any, "dim dim"], correlation: Float[Any, "dim"], printed: bool = False
) -> tuple[Float[np.ndarray, "out in"], ...]:
    """Eq. 42, corrected: the flow of a deep ReLU network of Eq. 40's form, square loss, in terms of Σ and β alone.

    Exact for even inputs and an odd target when the two paths have equal norms. The signs of r_l, which say what
    belongs to the blocks, are read off W_L⋯W_{l+1} ∝ r_lᵀ.

    Args:
        network: ReLU throughout (slope 0), one output, without skips, weights of Eq. 40's form.
        covariance: Σ = ⟨x xᵀ⟩, shape (dim, dim).
        correlation: β = ⟨y x⟩, shape (dim,).
        printed: forget the blocks, as the paper prints it: a counter-example, middle layers are off by 100 %.

    Returns:
        dW_l/dt, one array per layer.

    Raises:
        ValueError: another slope, linear hidden layers, several outputs, shapes that do not match.

    >>> network = Network.aligned_relu([2, 4, 4, 1], init_scale=1.0, seed=0)
    >>> corrected, printed = (eq_42_velocity(network, np.eye(2), [1.0, 0.0], printed=p) for p in (False, True))
    >>> round(float(np.linalg.norm(printed[1] - corrected[1]) / np.linalg.norm(corrected[1])), 12)
    1.0
    """
    if network.slope != 0 or not all(network.rectified) or network.widths[-1] != 1:
        raise ValueError(
            f"Eq. 42 is for ReLU networks (slope 0) with one output, got a {network}. "
            "With another slope the blocks of Eq. 40 do not stay empty."
        )
    weights = layers(network)
    velocities = list(_product_flow(weights, covariance, correlation, 0.5))
    if not printed:
        readout = weights[-1][0]
        for layer in range(len(weights) - 2, 0, -1):
            below = readout @ weights[layer]
            velocities[layer] *= np.outer(np.sign(readout), np.sign(below)) > 0
            readout = below
    return tuple(velocities)


def layers(network: Network) -> list[Float[np.ndarray, "out in"]]:
    """The weights as NumPy arrays, or ValueError when skips add to their product."""
    if any(network.skips):
        raise ValueError(f"Appendix F is about networks without skips, got a {network}.")
    return [np.asarray(weight) for weight in network.weights]


def _product_flow(
    weights: list[np.ndarray], covariance: Any, correlation: Any, factor: float
) -> tuple[np.ndarray, ...]:
    """(W_L⋯W_{l+1})ᵀ (cβᵀ − c²W_L⋯W₁Σ) (W_{l−1}⋯W₁)ᵀ for every l; c = 1 linear, ½ ReLU."""
    matrix, beta = checks.numeric(covariance, "covariance"), np.atleast_2d(checks.numeric(correlation, "correlation"))
    dim, outputs = weights[0].shape[1], weights[-1].shape[0]
    if matrix.shape != (dim, dim) or beta.shape != (outputs, dim):
        raise ValueError(
            f"a network from {dim} inputs to {outputs} outputs needs a covariance of shape ({dim}, {dim}) and a "
            f"correlation of shape ({outputs}, {dim}), got {matrix.shape} and {beta.shape}."
        )
    below = [np.eye(dim)]
    for weight in weights:
        below.append(weight @ below[-1])
    error = factor * beta - factor**2 * below[-1] @ matrix
    above, velocities = np.eye(outputs), []
    for weight, entering in zip(reversed(weights), reversed(below[:-1]), strict=True):
        velocities.append(above.T @ error @ entering.T)
        above = above @ weight
    return tuple(reversed(velocities))
