"""Which neurons are dead, always active or switching on the data, and since when.

A neuron is active on a sample when its input h is above 0; h = 0 belongs to the inactive side, as in the flow. Layers
without σ have no activation pattern: all their neurons count as always active. Along a trajectory everything is seen at
the saved times only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree import checks
from biasfree.measure._saved import Run, Saved, saved
from biasfree.networks import Network, hidden_layers

# Entries of a layer's activations held at once; saved times are taken in groups so as to stay below it.
_AT_ONCE = 20_000_000


@dataclass(frozen=True, eq=False)
class LayerNeurons:
    """The neurons of one hidden layer.

    Attributes:
        layer: its number, 1 is the first.
        active_share: share of the samples on which each neuron is active, shape (*saved, width).
        groups: a number for each neuron, shape (width,): neurons of one number are active on the same samples, at
            every saved time.
        state_since: earliest saved time from which on each neuron stays dead, always active or switching, as it is at
            the end; None for a single network.
        pattern_since: earliest saved time from which on the samples each neuron is active on stay the same, or None.
    """

    layer: int
    active_share: Float[np.ndarray, "*saved width"]
    groups: Int[np.ndarray, "width"]
    state_since: Float[np.ndarray, "width"] | None
    pattern_since: Float[np.ndarray, "width"] | None

    @property
    def dead(self) -> Bool[np.ndarray, "*saved width"]:
        """Active on no sample."""
        return self.active_share == 0

    @property
    def always_active(self) -> Bool[np.ndarray, "*saved width"]:
        """Active on every sample."""
        return self.active_share == 1

    @property
    def switching(self) -> Bool[np.ndarray, "*saved width"]:
        """Active on some samples and not on others."""
        return ~(self.dead | self.always_active)

    @property
    def stably_active(self) -> Bool[np.ndarray, "width"]:
        """Active on every sample at every saved time: the neurons of Le & Jegelka's invariance."""
        return np.all(self.always_active.reshape(-1, self.active_share.shape[-1]), axis=0)

    def __str__(self) -> str:
        """One line, at the last saved time."""
        last = () if self.state_since is None else (-1,)
        kinds = (("dead", self.dead), ("always active", self.always_active), ("switching", self.switching))
        text = f"layer {self.layer}: " + ", ".join(f"{int(mask[last].sum())} {name}" for name, mask in kinds)
        if self.state_since is None or self.pattern_since is None:
            return text
        return (
            f"{text}; states constant since t = {self.state_since.max():g}, "
            f"patterns since t = {self.pattern_since.max():g}"
        )

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Neurons:
    """The neurons of every hidden layer.

    Attributes:
        layers: one entry per hidden layer.
        times: saved times, or None for a single network.
    """

    layers: tuple[LayerNeurons, ...]
    times: Float[np.ndarray, "saved"] | None

    def __str__(self) -> str:
        """One line per hidden layer, at the last saved time."""
        rows = ["Neurons" if self.times is None else f"Neurons at t = {self.times[-1]:g}"]
        rows += [f"  {each}" for each in self.layers]
        return "\n".join(rows)

    __repr__ = __str__


def neurons(
    subject: Network | Run, inputs: Float[Any, "samples dim"] | None = None, *, since: float | None = None
) -> Neurons:
    """Dead, always active and switching neurons of every hidden layer, and since when they are so (Le & Jegelka).

    Args:
        subject: a network, or a trajectory.
        inputs: samples, shape (samples, dim); those a trajectory was trained on by default.
        since: look only at what a trajectory saved at this time or later.

    Raises:
        ValueError: a network without inputs or without hidden layers, inputs of another dimension, a ``since`` after
            the end.

    >>> network = Network([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0, 1.0]]], slope=0.0)
    >>> print(neurons(network, [[1.0, 1.0], [2.0, -1.0]]))
    Neurons
      layer 1: 1 dead, 1 always active, 1 switching
    """
    stack = saved(subject).since(since)
    if stack.template.depth == 1:
        raise ValueError("a network of one layer has no hidden neurons.")
    if inputs is None:
        if isinstance(subject, Network):
            raise ValueError("whether neurons of a network are active depends on the data: pass inputs.")
        inputs = subject.dataset.inputs
    samples = checks.finite(checks.numeric(inputs, "inputs"), "inputs")
    dim = stack.template.widths[0]
    if samples.ndim != 2 or samples.shape[1] != dim or not len(samples):
        raise ValueError(f"inputs must have shape (samples, {dim}), got shape {samples.shape}.")
    return _observed(stack, samples)


def _observed(stack: Saved, samples: Float[np.ndarray, "samples dim"]) -> Neurons:
    """Go through the saved times in groups, and keep of the patterns only what is reported."""
    network, times = stack.template, stack.times
    weights = stack.weights if times is not None else tuple(w[None] for w in stack.weights)
    saves, widths = len(weights[0]), network.widths[1:-1]
    at_once = max(1, _AT_ONCE // (max(network.widths) * len(samples)))
    shares = [np.empty((saves, width)) for width in widths]
    changed = [np.empty((saves, width), dtype=bool) for width in widths]
    groups = [np.zeros(width, dtype=int) for width in widths]
    latest: list[np.ndarray | None] = [None] * len(widths)
    for first in range(0, saves, at_once):
        here = slice(first, first + at_once)
        signals = hidden_layers([w[here] for w in weights], samples, network.slope, network.architecture)
        for k, signal in enumerate(signals[1:-1]):
            has_pattern = network.rectified[k] and network.slope < 1
            # σ keeps the sign, so what leaves a neuron shows the sign of what it received.
            active = np.asarray(signal) > 0 if has_pattern else np.ones(signal.shape, dtype=bool)
            before = active[:1] if latest[k] is None else latest[k]
            shares[k][here] = active.mean(axis=-1)
            changed[k][here] = (np.concatenate([before, active[:-1]]) != active).any(axis=-1)
            groups[k] = _refined(groups[k], active)
            latest[k] = active[-1:]
    if times is None:
        layers = [LayerNeurons(k, s[0], g, None, None) for k, (s, g) in enumerate(zip(shares, groups, strict=True), 1)]
        return Neurons(tuple(layers), None)
    layers = []
    for k, (share, change, group) in enumerate(zip(shares, changed, groups, strict=True), 1):
        state = np.sign(share) + (share == 1)
        turned = np.diff(state, axis=0, prepend=state[:1]) != 0
        layers.append(LayerNeurons(k, share, group, _since(times, turned), _since(times, change)))
    return Neurons(tuple(layers), times)


def _refined(
    groups: Int[np.ndarray, "width"], active: Bool[np.ndarray, "saved width samples"]
) -> Int[np.ndarray, "width"]:
    """Split groups of neurons further, by their patterns at these times."""
    packed = np.packbits(np.moveaxis(active, 1, 0).reshape(len(groups), -1), axis=1)
    _, patterns = np.unique(packed, axis=0, return_inverse=True)
    _, refined = np.unique(np.stack([groups, patterns.ravel()]), axis=1, return_inverse=True)
    return refined.ravel()


def _since(times: Float[np.ndarray, "saved"], changed: Bool[np.ndarray, "saved width"]) -> Float[np.ndarray, "width"]:
    """The time of each neuron's last change, the first saved time if there was none."""
    from_end = np.argmax(changed[::-1], axis=0)
    return times[np.where(changed.any(axis=0), len(times) - 1 - from_end, 0)]
