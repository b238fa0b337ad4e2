"""Lemmas 8 to 11 of the paper as statements to check on a network and a data set, with both sides as numbers.

Lemmas 8 and 9 hold for every network and every data set: σ'(z) ≤ 1 and |σ(z)| ≤ |z|. Norms on the left are Frobenius
norms, those of weights on the right spectral norms: the strongest form the proofs give, and it implies all others.

Lemmas 10 and 11 hold under Condition 3. A sample on a hyperplane rᵀx = 0 counts half in either half space, so that each
has mass ½; in Eq. 16a this is σ'(0) = (1+α)/2. With σ'(0) = α, the simulator's choice, samples on a neuron's hyperplane
break Eq. 16a by (1−α)/2 times what they add to W₂ᵀβᵀ. Lemma 9 is true for any σ'(0) between 0 and 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.networks import Network

# What rounding leaves of rᵀx = 0, relative to ‖r‖ ‖x‖, and of an equation, relative to the terms it sums.
_ON_SURFACE, _ROUNDING = 1e-14, 1e-12


@dataclass(frozen=True)
class Inequality:
    """left ≤ right."""

    left: float
    right: float

    @property
    def slack(self) -> float:
        """right − left."""
        return self.right - self.left

    @property
    def holds(self) -> bool:
        """Whether it is true, to rounding."""
        return self.left <= self.right * (1 + _ROUNDING)

    def __str__(self) -> str:
        """Both sides and the verdict."""
        return f"{self.left:.4g} ≤ {self.right:.4g}: {'holds' if self.holds else 'fails'}"


@dataclass(frozen=True, eq=False)
class Identity:
    """left = right.

    Attributes:
        left, right: the two sides, of one shape.
        scale: size of the terms the left side sums, before they cancel.
    """

    left: Float[np.ndarray, "..."]
    right: Float[np.ndarray, "..."]
    scale: float

    @property
    def error(self) -> float:
        """‖left − right‖/‖right‖; with a right side of 0 (to rounding) 0 if the left side is too, else infinite."""
        size, apart = np.linalg.norm(self.right), np.linalg.norm(self.left - self.right)
        if size > _ROUNDING * self.scale:
            return float(apart / size)
        return 0.0 if apart <= _ROUNDING * self.scale else np.inf

    @property
    def holds(self) -> bool:
        """Whether it is true, to rounding."""
        return bool(np.linalg.norm(self.left - self.right) <= _ROUNDING * self.scale)

    def __str__(self) -> str:
        """The verdict and the relative error."""
        return f"{'holds' if self.holds else 'fails'}, relative error {self.error:.2g}"


@dataclass(frozen=True)
class HalfSpaceAverages:
    """Lemma 10 for one half space: its averages are those of the whole.

    Attributes:
        covariance: ⟨x xᵀ⟩ over the half space against Σ (Eq. 14).
        correlation: ⟨x y⟩ over the half space against β (Eq. 15).
    """

    covariance: Identity
    correlation: Identity

    def __str__(self) -> str:
        """One line for each equation."""
        return f"Eq. 14 (Σ): {self.covariance}\nEq. 15 (β): {self.correlation}"


@dataclass(frozen=True)
class FirstTerms:
    """Lemma 11: the first terms of the flow, Eq. 6, are those of a linear network times (α+1)/2.

    Attributes:
        first_layer: ⟨σ'(W₁x) ⊙ W₂ᵀy xᵀ⟩ against (α+1)/2 W₂ᵀβᵀ (Eq. 16a).
        second_layer: ⟨yσ(W₁x)ᵀ⟩ against (α+1)/2 βᵀW₁ᵀ (Eq. 16b).
    """

    first_layer: Identity
    second_layer: Identity

    def __str__(self) -> str:
        """One line for each equation."""
        return f"Eq. 16a (W₁): {self.first_layer}\nEq. 16b (W₂): {self.second_layer}"


def lemma_8(network: Network, dataset: Dataset) -> Inequality:
    """Lemma 8: ‖⟨σ(W₁x) σ(W₁x)ᵀ⟩‖ ≤ ‖W₁‖² Tr Σ; true for every data set.

    Args:
        network: two layers, any slope.
        dataset: inputs of the network's dimension; targets are not used.

    Raises:
        ValueError: another depth than two, skips, or inputs of another dimension.

    >>> print(lemma_8(Network([[[2.0]], [[1.0]]], slope=0.0), Dataset([[3.0]], [0.0])))
    36 ≤ 36: holds
    """
    layers = _TwoLayers(network, dataset)
    outer = layers.hidden.T @ layers.hidden / dataset.samples
    return Inequality(_norm(outer), layers.first_norm**2 * np.trace(dataset.covariance))


def lemma_9(network: Network, dataset: Dataset) -> Inequality:
    """Lemma 9, corrected: ‖⟨[σ'(W₁x) ⊙ σ(W₁x)] xᵀ⟩‖ ≤ ‖W₁‖ Tr Σ; true for every data set.

    The factor xᵀ is missing in print. Eq. 24a needs a little more than this: see ``equation_24a``.

    Args:
        network: two layers, any slope.
        dataset: inputs of the network's dimension; targets are not used.

    Raises:
        ValueError: another depth than two, skips, or inputs of another dimension.

    >>> print(lemma_9(Network([[[2.0]], [[1.0]]], slope=0.0), Dataset([[3.0], [-3.0]], [0.0, 0.0])))
    9 ≤ 18: holds
    """
    layers = _TwoLayers(network, dataset)
    term = (layers.derivative * layers.hidden).T @ dataset.inputs / dataset.samples
    return Inequality(_norm(term), layers.first_norm * np.trace(dataset.covariance))


def equation_24a(network: Network, dataset: Dataset) -> Inequality:
    """The bound Theorem 13 takes from Lemma 9: ‖⟨[σ'(W₁x) ⊙ W₂ᵀW₂σ(W₁x)] xᵀ⟩‖ ≤ ‖W₂‖² ‖W₁‖ Tr Σ.

    The left side is the second term of the first layer's flow, Eq. 6. Print has W₂ᵀW₂ in front of Lemma 9's average; it
    stands inside, as σ' of one neuron multiplies σ of all. The bound is the same.

    Args:
        network: two layers, any slope.
        dataset: inputs of the network's dimension; targets are not used.

    Raises:
        ValueError: another depth than two, skips, or inputs of another dimension.

    >>> print(equation_24a(Network([[[2.0]], [[-1.0]]], slope=1.0), Dataset([[3.0], [-3.0]], [0.0, 0.0])))
    18 ≤ 18: holds
    """
    layers = _TwoLayers(network, dataset)
    back = layers.hidden @ layers.second.T @ layers.second
    term = (layers.derivative * back).T @ dataset.inputs / dataset.samples
    bound = np.linalg.norm(layers.second, 2) ** 2 * layers.first_norm * np.trace(dataset.covariance)
    return Inequality(_norm(term), float(bound))


def lemma_10(dataset: Dataset, direction: Float[Any, "dim"]) -> HalfSpaceAverages:
    """Lemma 10: averages over the half space rᵀx > 0 equal those over the whole space, under Condition 3.

    The average is 2⟨·⟩ over the half space, which has mass ½ under Condition 3, samples on its boundary counting half:
    ⟨(1 + sgn(rᵀx)) ·⟩. The errors are therefore ‖Q(r)‖/‖Σ‖ and ‖B(r)‖/‖β‖, whose maxima over r ``asymmetry`` encloses.

    Args:
        dataset: inputs of shape (samples, dim), targets (samples,) or (samples, outputs).
        direction: r, shape (dim,); its length does not matter.

    Raises:
        ValueError: a direction of another shape, not finite, or zero.

    >>> data = Dataset([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0])
    >>> print(lemma_10(data, [1.0, 2.0]))
    Eq. 14 (Σ): holds, relative error 0
    Eq. 15 (β): holds, relative error 0
    """
    r = checks.finite(checks.numeric(direction, "direction"), "direction")
    if r.shape != (dataset.dim,) or not r.any():
        raise ValueError(f"direction must be {dataset.dim} numbers, not all 0, got shape {r.shape}.")
    share = 1 + _signs(dataset.inputs, r[None] / np.abs(r).max())
    weighted = share * dataset.inputs / dataset.samples
    size, pull = _sizes(dataset)
    return HalfSpaceAverages(
        Identity(weighted.T @ dataset.inputs, dataset.covariance, size),
        Identity(dataset.targets.T @ weighted, dataset.correlation, pull),
    )


def lemma_11(network: Network, dataset: Dataset) -> FirstTerms:
    """Lemma 11: under Condition 3 targets move both layers (α+1)/2 times as fast as they move a linear network's.

    Args:
        network: two layers, any slope and number of outputs.
        dataset: of the network's dimension and number of outputs.

    Raises:
        ValueError: another depth than two, skips, or inputs or targets of another dimension.

    >>> network = Network.init([2, 5, 1], slope=0.0, init_scale=1.0, seed=0)
    >>> data = Dataset([[1.0, 3.0], [2.0, -1.0]], [1.0, 2.0])
    >>> lemma_11(network, data.symmetrised()).first_layer.holds, lemma_11(network, data).first_layer.holds
    (True, False)
    """
    layers = _TwoLayers(network, dataset)
    if len(layers.second) != dataset.outputs:
        raise ValueError(f"the network has {len(layers.second)} outputs but the data set has {dataset.outputs}.")
    targets = dataset.targets.reshape(dataset.samples, -1)
    correlation = np.atleast_2d(dataset.correlation)
    a = 0.5 * (1 + layers.slope)
    term = (layers.derivative * (targets @ layers.second)).T @ dataset.inputs / dataset.samples
    _, pull = _sizes(dataset)
    return FirstTerms(
        Identity(term, a * layers.second.T @ correlation, _norm(layers.second) * pull),
        Identity(
            targets.T @ layers.hidden / dataset.samples, a * correlation @ layers.first.T, _norm(layers.first) * pull
        ),
    )


class _TwoLayers:
    """Weights of a two-layer network and what its neurons do on a data set."""

    def __init__(self, network: Network, dataset: Dataset) -> None:
        if network.depth != 2 or any(network.skips):
            kind = f"{network.depth} layers" + (" and skips" if any(network.skips) else "")
            raise ValueError(f"the lemmas are about networks of two layers without skips, got one with {kind}.")
        if network.widths[0] != dataset.dim:
            raise ValueError(f"the network takes {network.widths[0]} inputs but the data set has {dataset.dim}.")
        self.first, self.second = (np.asarray(w, dtype=np.float64) for w in network.weights)
        self.slope = 1.0 if network.is_linear else float(network.slope)
        before = dataset.inputs @ self.first.T
        # σ(W₁x) and σ'(W₁x), with the mean of both sides for σ'(0); shape (samples, width).
        self.hidden = np.maximum(before, self.slope * before)
        self.derivative = 0.5 * (1 + self.slope) + 0.5 * (1 - self.slope) * _signs(dataset.inputs, self.first)
        self.first_norm = float(np.linalg.norm(self.first, 2))


def _signs(
    inputs: Float[np.ndarray, "samples dim"], directions: Float[np.ndarray, "width dim"]
) -> Float[np.ndarray, "samples width"]:
    """sgn(rᵀx), 0 where rᵀx vanishes to rounding."""
    products = inputs @ directions.T
    sizes = np.linalg.norm(inputs, axis=1)[:, None] * np.linalg.norm(directions, axis=1)
    return np.where(np.abs(products) <= _ON_SURFACE * sizes, 0.0, np.sign(products))


def _sizes(dataset: Dataset) -> tuple[float, float]:
    """⟨‖x‖²⟩ and ⟨‖y‖ ‖x‖⟩."""
    lengths = np.linalg.norm(dataset.inputs, axis=1)
    heights = np.linalg.norm(dataset.targets.reshape(dataset.samples, -1), axis=1)
    return float(np.mean(lengths**2)), float(np.mean(heights * lengths))


def _norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array))
