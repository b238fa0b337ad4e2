"""What a two-layer network computes, in canonical form: Theorem 1, Corollary 2 and an exact test of linearity.

With σ(z) = az + b|z|, a = (1+α)/2, b = (1−α)/2, a two-layer network is

    f(x) = a W₂W₁x + b W₂|W₁x| = Mx + Σ_l c_l |v_lᵀx|,

where the v_l are unit vectors on distinct lines and c_l sums b w₂ₕ‖w₁ₕ‖ over the neurons h whose incoming weights
lie on line l. Each |vᵀx| has its kink on a hyperplane of its own, so no combination of them and a linear map
vanishes unless every
coefficient does: the form is unique. Hence f is linear iff every c_l vanishes, odd iff linear (Corollary 2), even
iff M = 0, and two networks are the same function iff their forms agree.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.lines import TOLERANCE, Lines, lines
from biasfree.networks import Network

# A sum is taken for zero when it is this much smaller than the sum of its terms' sizes: what rounding leaves of a
# cancellation.
CANCELLATION = 1e-11


@dataclass(frozen=True)
class ParityForm:
    """f(x) = Mx + Σ_l c_l |v_lᵀx|: the linear map and the canonical even part of a two-layer network (Theorem 1).

    Attributes:
        linear_map: M, shape (outputs, dim).
        directions: unit vectors v_l on distinct lines, shape (lines, dim).
        coefficients: c_l, none of them zero, shape (outputs, lines).
        neurons: how many hidden neurons the network had.
    """

    linear_map: Float[np.ndarray, "outputs dim"]
    directions: Float[np.ndarray, "lines dim"]
    coefficients: Float[np.ndarray, "outputs lines"]
    neurons: int

    @property
    def is_linear(self) -> bool:
        """Whether the function is linear. By Corollary 2 this is also the test for an odd function."""
        return not len(self.directions)

    is_odd = is_linear

    @property
    def is_even(self) -> bool:
        """Whether the linear map vanishes."""
        return not self.linear_map.any()

    def __call__(self, inputs: Float[Any, "*batch dim"]) -> Float[np.ndarray, "..."]:
        """The function: shape ``inputs.shape[:-1]``, with a last axis of outputs if there are several."""
        outputs = self.linear_part(inputs) + self.even_part(inputs)
        return outputs

    def linear_part(self, inputs: Float[Any, "*batch dim"]) -> Float[np.ndarray, "..."]:
        """Mx."""
        return self._shaped(checks.numeric(inputs, "inputs") @ self.linear_map.T)

    def even_part(self, inputs: Float[Any, "*batch dim"]) -> Float[np.ndarray, "..."]:
        """Σ_l c_l |v_lᵀx|."""
        return self._shaped(np.abs(checks.numeric(inputs, "inputs") @ self.directions.T) @ self.coefficients.T)

    def _shaped(self, outputs: np.ndarray) -> np.ndarray:
        return outputs[..., 0] if len(self.linear_map) == 1 else outputs

    def network(self, slope: float = 0.0) -> Network:
        """A small two-layer network of this slope that computes the function.

        One neuron (c_l/b)σ(±v_lᵀx) per line, which adds ±(a/b)c_l v_lᵀx of its own, and a pair of neurons
        (σ(vᵀx) − σ(−vᵀx))/(2a) = vᵀx for each singular direction of what is then left of the linear map. The sign of
        each v_l is chosen so as to leave little.

        Raises:
            ValueError: slope 1 for a function that is not linear.
        """
        slope = checks.slope(slope)
        a, b = 0.5 * (1 + slope), 0.5 * (1 - slope)
        if not self.is_linear and slope == 1:
            raise ValueError("a network of slope 1 is linear, and this function is not: choose a slope below 1.")
        signs = self._signs(a / b) if b else np.ones(0)
        directions = signs[:, None] * self.directions
        rest = self.linear_map - (a / b if b else 0.0) * self.coefficients @ directions
        left, sizes, right = np.linalg.svd(rest, full_matrices=False)
        mass = np.abs(self.linear_map).max() + (a / b if b else 0.0) * np.abs(self.coefficients).sum()
        keep = sizes > CANCELLATION * mass
        # A linear neuron computes vᵀx by itself; otherwise it takes the two halves.
        copies = (1.0,) if slope == 1 else (1.0, -1.0)
        incoming, outgoing = [directions], [self.coefficients / b if b else self.coefficients]
        for sign in copies:
            incoming.append(sign * right[keep])
            outgoing.append(sign * left[:, keep] * sizes[keep] / (2 * a if len(copies) == 2 else 1.0))
        first, second = np.concatenate(incoming), np.concatenate(outgoing, axis=1)
        if not len(first):
            first, second = np.zeros((1, self.linear_map.shape[1])), np.zeros((len(self.linear_map), 1))
        # Balanced neurons: the same size on both sides.
        size = np.sqrt(np.linalg.norm(second, axis=0))
        size[size == 0] = 1.0
        return Network([size[:, None] * first, second / size], slope)

    def _signs(self, ratio: float) -> np.ndarray:
        """Signs s_l that bring ratio·Σ s_l c_l v_lᵀ near M, one line after the other, the largest first."""
        pieces = ratio * self.coefficients.T[:, :, None] * self.directions[:, None, :]
        signs, rest = np.ones(len(pieces)), self.linear_map.copy()
        for line in np.argsort(-np.abs(pieces).max(axis=(1, 2), initial=0.0), kind="stable"):
            signs[line] = 1.0 if np.sum(rest * pieces[line]) >= 0 else -1.0
            rest = rest - signs[line] * pieces[line]
        return signs

    def __str__(self) -> str:
        """What it is, and of how many terms."""
        neurons = f"{self.neurons} hidden neuron{'s' * (self.neurons != 1)}"
        if self.is_linear:
            return f"exactly linear, from {neurons}"
        kind = "even" if self.is_even else "linear plus even"
        return f"{kind}: {len(self.directions)} term{'s' * (len(self.directions) != 1)} |vᵀx|, from {neurons}"


def parity_form(network: Network, tolerance: float = TOLERANCE) -> ParityForm:
    """The linear map and canonical even part of a two-layer network (Theorem 1), exact up to rounding.

    Args:
        network: two layers, any slope and number of outputs, weights of any scale.
        tolerance: rows of W₁ whose unit vectors differ by less, up to sign, lie on one line.

    Raises:
        ValueError: another depth than two.

    >>> twice = Network([[[1.0, 0.0], [-2.0, 0.0]], [[2.0, -1.0]]], slope=0.0)
    >>> print(parity_form(twice))
    exactly linear, from 2 hidden neurons
    >>> parity_form(twice).linear_map
    array([[2., 0.]])
    """
    first, second, b, linear_map = _two_layers(network)
    grouped = lines(first, tolerance)
    # c_l with the sizes of the terms it is summed from: their ratio separates it from rounding.
    terms = b * second * np.abs(grouped.position)
    coefficients, mass = _summed(grouped, terms)
    kept = np.flatnonzero((np.abs(coefficients) > CANCELLATION * mass).any(axis=0))
    order = kept[np.lexsort(np.round(grouped.directions[kept], 9).T[::-1])]
    return ParityForm(linear_map, grouped.directions[order], coefficients[:, order], network.widths[1])


def same_function(first: Network, second: Network, tolerance: float = 1e-9) -> bool:
    """Whether two two-layer networks, of whatever widths and slopes, are one function: their canonical forms agree.

    Args:
        first, second: two-layer networks.
        tolerance: how far coefficients may differ, relative to the sizes of what they are summed from.

    Raises:
        ValueError: another depth than two.

    >>> network = Network.init([3, 5, 1], slope=0.0, init_scale=1.0, seed=0)
    >>> same_function(network, parity_form(network).network(slope=0.3))
    True
    >>> same_function(network, network.with_slope(0.3))
    False
    """
    parts = [_two_layers(network) for network in (first, second)]
    if first.widths[0] != second.widths[0] or first.widths[-1] != second.widths[-1]:
        return False
    # Scaled by a common factor, so that the comparison is as exact at 1e-150 as at 1.
    grouped = lines(np.concatenate([incoming for incoming, *_ in parts]), max(tolerance, TOLERANCE))
    sign = np.repeat([1.0, -1.0], [first.widths[1], second.widths[1]])
    outgoing = np.concatenate([b * w2 for _, w2, b, _ in parts], axis=1)
    difference, mass = _summed(grouped, sign * outgoing * np.abs(grouped.position))
    gap = np.abs(parts[0][3] - parts[1][3])
    # The linear maps are sums of signed terms too: judged beside the sum of their terms' sizes.
    linear_mass = sum(np.abs(w2) @ np.abs(w1) for w1, w2, *_ in parts)
    return bool((np.abs(difference) <= tolerance * mass).all() and (gap <= tolerance * linear_mass).all())


def homogeneity_error(
    function: Any, inputs: Float[Any, "samples dim"], factors: Float[Any, "factors"] = (1e-3, 0.5, 2.0, 1e3)
) -> float:
    """The largest |f(cx) − c f(x)| relative to c·max|f|, over inputs and c > 0: zero for every network without biases.

    Args:
        function: a network, or any function of inputs (samples, dim).
        inputs: where to try it, shape (samples, dim).
        factors: the c > 0 to try.

    Raises:
        ValueError: a factor that is not above zero.

    >>> deep = Network.init([3, 8, 8, 1], slope=0.1, init_scale=2.0, seed=0)
    >>> homogeneity_error(deep, np.eye(3)) < 1e-14
    True
    >>> homogeneity_error(lambda x: x[:, 0] + 1.0, np.eye(3)) > 0.1
    True
    """
    inputs, factors = checks.numeric(inputs, "inputs"), checks.numeric(factors, "factors")
    if not (factors > 0).all():
        raise ValueError(f"positive homogeneity is about factors above 0, got {factors.min():g}.")
    plain = np.asarray(function(inputs))
    size = np.abs(plain).max() or 1.0
    return max(float(np.abs(np.asarray(function(c * inputs)) / c - plain).max() / size) for c in factors)


def depth_separation_network() -> Network:
    """Eq. 3's g(x) = σ(σ(x₁) − σ(x₂)) − σ(σ(−x₁) − σ(−x₂)) as a three-layer ReLU network: odd and not linear.

    By Corollary 2 no two-layer network without biases computes it.

    >>> g = depth_separation_network()
    >>> float(g([2.0, 0.5])), float(g([-2.0, -0.5])), float(g([0.5, 2.0]))
    (1.5, -1.5, 0.0)
    """
    return Network(
        [[[1, 0], [0, 1], [-1, 0], [0, -1]], [[1, -1, 0, 0], [0, 0, 1, -1]], [[1, -1]]],
        slope=0.0,
        origin={"start": "Eq. 3"},
    )


def _two_layers(network: Network) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """W₁, W₂, the even share b of the activation, and the linear map aW₂W₁; refuses other depths."""
    if network.depth != 2 or any(network.skips):
        raise ValueError(
            f"the canonical form exists for two layers without skips, got a {network}. "
            "Theorem 1 fails for deeper networks: depth_separation_network() is odd and not linear."
        )
    first, second = (np.asarray(w) for w in network.weights)
    slope = 1.0 if network.is_linear else network.slope
    linear_map = 0.5 * (1 + slope) * second @ first
    # What rounding leaves of a linear map that cancels is none.
    linear_map[np.abs(linear_map) <= CANCELLATION * (np.abs(second) @ np.abs(first))] = 0.0
    return first, second, 0.5 * (1 - slope), linear_map


def _summed(grouped: Lines, terms: Float[np.ndarray, "outputs neurons"]) -> tuple[np.ndarray, np.ndarray]:
    """Sums over each line, and the sums of the terms' sizes; both (outputs, lines)."""
    return grouped.total(terms.T).T, grouped.total(np.abs(terms).T).T
