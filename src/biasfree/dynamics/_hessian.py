"""The Hessian of the objective, times vectors: by NumPy, since compiling takes longer than the few products needed."""

from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import losses
from biasfree.dynamics._field import Kind, Problem, Weights, derivative, errors_by_layer, pull_of
from biasfree.networks import hidden_layers

Flat = Float[np.ndarray, "size"]


class Hessian:
    """Of L + λ‖W‖²/2 at one place, on the time clock: minus what a push of the weights does to their velocity.

    Activations do not change with a push: the Hessian is that of the piece on which the weights are.
    """

    def __init__(self, weights: Weights, problem: Problem, kind: Kind) -> None:
        """Everything that does not depend on the vector."""
        self._weights, self._problem, self._kind = weights, problem, kind
        slope, architecture, depth = problem.slope, kind.architecture, len(weights)
        with np.errstate(all="ignore"):
            self._signals = hidden_layers(weights, problem.inputs, slope, architecture)
            self._slopes = [
                derivative(signal, slope, bent)
                for signal, bent in zip(self._signals[1:], architecture.rectified, strict=False)
            ]
            error, _ = pull_of(self._signals[-1], problem, kind)
            arriving = [0.0] * depth + [error]
            errors = dict(errors_by_layer(weights, self._signals, arriving, depth - 1, slope, architecture))
            self._errors = [errors[layer] for layer in range(depth)]

    def times(self, push: Weights) -> Flat:
        """The product with these weights' layers, in one row."""
        with np.errstate(all="ignore"):
            changes = self._signal_changes(push)
            gradients = self._gradient_changes(push, changes)
            decay = self._problem.weight_decay
            return np.concatenate([(g + decay * p).ravel() for g, p in zip(gradients, push, strict=True)])

    def _signal_changes(self, push: Weights) -> list[Any]:
        """By how much a push changes what enters each layer, and the output."""
        changes: list[Any] = [0.0]
        for layer, (weight, pushed) in enumerate(zip(self._weights, push, strict=True)):
            change = pushed @ self._signals[layer]
            if layer:
                change += weight @ changes[layer]
            if span := self._kind.architecture.skips[layer]:
                change += changes[layer + 1 - span]
            if layer < len(push) - 1 and self._slopes[layer] is not None:
                change *= self._slopes[layer]
            changes.append(change)
        return changes

    def _gradient_changes(self, push: Weights, changes: list[Any]) -> list[Any]:
        """By how much it changes ∂L/∂W of each layer."""
        weights, problem, depth = self._weights, self._problem, len(push)
        loss, skips = losses.get(self._kind.loss), self._kind.architecture.skips
        curved = loss.residual_change(self._signals[-1], problem.targets, changes[-1])
        arriving: list[Any] = [0.0] * depth + [curved / len(problem.inputs)]
        gradients: list[Any] = [None] * depth
        for layer in range(depth - 1, -1, -1):
            back, error = arriving[layer + 1], self._errors[layer]
            if layer < depth - 1 and self._slopes[layer] is not None:
                back = self._slopes[layer] * back
            gradients[layer] = -back @ self._signals[layer].T
            if layer:
                gradients[layer] -= error @ changes[layer].T
                arriving[layer] = arriving[layer] + push[layer].T @ error + weights[layer].T @ back
            if (span := skips[layer]) and layer + 1 - span:
                arriving[layer + 1 - span] = arriving[layer + 1 - span] + back
        return gradients
