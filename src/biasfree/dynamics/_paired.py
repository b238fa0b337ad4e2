"""Velocities of deep networks on inputs that come in pairs x and −x, as symmetric data do: half of the products.

The first layer answers h to x and −h to −x, and σ(h) − σ(−h) = (1 + α)h. What the second layer makes of −x therefore
follows from what it makes of x and from W₂W₁x, which is cheap: inputs have fewer dimensions than layers have neurons.
The same holds on the way back, since σ'(h) + σ'(−h) = 1 + α unless h = 0. Targets need no symmetry. From the second
hidden layer on x and −x are two samples as any others.

Rounding stays that of a neuron's own weights: each difference is of terms that are proportional to them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics._field import (
    Kind,
    Problem,
    Weights,
    derivative,
    errors_by_layer,
    pull_of,
    velocity_from,
    with_decay,
)
from biasfree.networks import hidden_layers


class Pairs(NamedTuple):
    """Which samples are x and which are −x, in the same order."""

    plus: Int[np.ndarray, "pairs"]
    minus: Int[np.ndarray, "pairs"]


def pairs_of(inputs: Float[np.ndarray, "samples dim"]) -> Pairs | None:
    """The pairs of a set of inputs, or None if one has no partner or is zero.

    >>> pairs_of(np.array([[1.0, 2.0], [-3.0, 1.0], [-1.0, -2.0], [3.0, -1.0]]))
    Pairs(plus=array([3, 0]), minus=array([1, 2]))
    >>> pairs_of(np.array([[1.0, 2.0], [3.0, 1.0]]))
    """
    there = inputs != 0
    leading = np.take_along_axis(inputs, there.argmax(axis=1)[:, None], axis=1)[:, 0]
    plus, minus = np.flatnonzero(leading > 0), np.flatnonzero(leading < 0)
    if not len(plus) == len(minus) == len(inputs) / 2:
        return None
    plus, minus = plus[np.lexsort(inputs[plus].T)], minus[np.lexsort(-inputs[minus].T)]
    return Pairs(plus, minus) if np.array_equal(inputs[plus], -inputs[minus]) else None


class PairedSamples:
    """Velocities of at least three layers without skips, whose first one is rectified, on pairs of inputs."""

    def __init__(self, pairs: Pairs, problem: Problem, kind: Kind) -> None:
        """Put the samples in order: all x, then all −x."""
        order = np.concatenate(pairs)
        self._problem = problem._replace(inputs=problem.inputs[order], targets=problem.targets[:, order])
        self._kind, self._half = kind, np.ascontiguousarray(problem.inputs[pairs.plus].T)
        self._first: Any = None  # what the first layer answers to x where the last velocity was taken
        self._later: list[Any] = []  # what later layers put out there, for x and for −x

    def velocity(self, weights: Weights) -> Weights:
        """Of all layers."""
        problem, half = self._problem, self._half
        both = 1.0 + float(problem.slope)
        before = weights[0] @ half
        self._first = before > 0
        if np.count_nonzero(before) < before.size:  # at h = 0 both σ' are α
            signals = hidden_layers(weights, problem.inputs, problem.slope, self._kind.architecture)
            self._later = signals[2:]
            return velocity_from(weights, signals, problem, self._kind)
        signal = np.maximum(before, problem.slope * before if problem.slope else 0.0, out=before)
        pairs = half.shape[1]
        joined = np.empty((len(weights[1]), 2 * pairs))
        plus, minus = joined[:, :pairs], joined[:, pairs:]
        np.matmul(weights[1], signal, out=plus)
        np.subtract(plus, both * (weights[1] @ weights[0]) @ half, out=minus)
        self._later = self._onwards(weights, joined)
        error, decay = pull_of(self._later[-1], problem, self._kind)
        gradients, factor, back = self._backwards(weights, error)
        # What arrives at the second layer for x and −x together, and ⟨what arrives for −x, xᵀ⟩.
        together, across = back[:, :pairs] + back[:, pairs:], back[:, pairs:] @ half.T
        product = together @ signal.T - both * (across @ weights[0].T)
        scaled = weights[1] if factor is None else factor * weights[1]
        arrived = scaled.T @ together
        arrived *= self._first if problem.slope == 0 else derivative(signal, problem.slope, True)
        gradients[0] = arrived @ half.T - both * (scaled.T @ across)
        gradients[1] = product if factor is None else factor * product
        if factor is not None:
            gradients[2] = np.einsum("ij,ij->i", weights[1], product)[None]
        return with_decay(gradients, weights, decay)

    def _onwards(self, weights: Weights, joined: Float[np.ndarray, "width samples"]) -> list[Any]:
        """What the second layer and later ones put out."""
        slope, rectified = self._problem.slope, (*self._kind.architecture.rectified, False)
        signals: list[Any] = []
        for layer, weight in enumerate(weights[1:], start=1):
            joined = weight @ signals[-1] if signals else joined
            if rectified[layer]:
                np.maximum(joined, slope * joined if slope else 0.0, out=joined)
            signals.append(joined)
        return signals

    def _backwards(
        self, weights: Weights, error: Float[np.ndarray, "outputs samples"]
    ) -> tuple[list[Any], Any, Float[np.ndarray, "width samples"]]:
        """−∂L/∂W of the layers after the second, and what reaches the output of that one, up to a factor per neuron.

        With one output after it that factor is the output's weights, and what they feel follows from the second
        layer's own gradient (see ``_field._ascent``); otherwise there is none.
        """
        slope, architecture = self._problem.slope, self._kind.architecture
        gradients: list[Any] = [None] * len(weights)
        if len(weights) == 3 and len(error) == 1 and architecture.rectified[1]:
            return gradients, weights[2].T, derivative(self._later[0], slope, True) * error
        signals, arriving = [None, None, *self._later], [0.0] * len(weights) + [error]
        for layer, back in errors_by_layer(weights, signals, arriving, len(weights) - 1, slope, architecture):
            if layer == 1:
                break
            gradients[layer] = back @ signals[layer].T
        return gradients, None, back

    def active(self) -> tuple[Bool[np.ndarray, "width samples"], ...]:
        """Per rectified layer, which neurons were active on which samples; in the first on those of one half."""
        later = zip(self._later, self._kind.architecture.rectified[1:], strict=False)
        return (self._first, *(signal > 0 for signal, bent in later if bent))

    def outputs(self) -> tuple[Any, Any]:
        """What the network put out, and its targets, in the same order: (outputs, samples) each."""
        return self._later[-1], self._problem.targets
