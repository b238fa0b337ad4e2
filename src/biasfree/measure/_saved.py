"""What a measure looks at: the weights of one network, or of a run stacked over its saved times.

Every measure is written for weights of shape (*saved, out, in): no leading axis for a network, one for a trajectory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.networks import Network


class Run(Protocol):
    """The part of a ``Trajectory`` that measures read."""

    @property
    def times(self) -> Float[np.ndarray, "saved"]:
        """Saved times."""

    @property
    def weights(self) -> tuple[Float[np.ndarray, "saved out in"], ...]:
        """Per layer, the saved weights."""

    @property
    def template(self) -> Network:
        """The start, which gives slope and architecture."""

    @property
    def dataset(self) -> Dataset:
        """What it was trained on."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Clock, weight decay, …."""


@dataclass(frozen=True)
class Saved:
    """Weights with the architecture they belong to.

    Attributes:
        template: gives slope and architecture.
        weights: W_l, shape (*saved, out, in).
        times: saved times, or None for a single network.
    """

    template: Network
    weights: tuple[Float[np.ndarray, "*saved out in"], ...]
    times: Float[np.ndarray, "saved"] | None

    def acting(self, layer: int) -> Float[np.ndarray, "*saved out in"]:
        """The matrix that layer (1 is the first) applies: I + W with an identity skip around it alone, else W."""
        weight = self.weights[layer - 1]
        return weight + np.eye(weight.shape[-1]) if self.template.skips[layer - 1] == 1 else weight

    def acting_name(self, layer: int) -> str:
        """What formulas call that matrix: W2, or M2 = I + W2."""
        return f"{'M' if self.template.skips[layer - 1] == 1 else 'W'}{layer}"

    def since(self, time: float | None) -> "Saved":
        """Only what was saved at ``time`` or later; all with None.

        Raises:
            ValueError: a single network, or a time after the last saved one.
        """
        if time is None:
            return self
        if self.times is None:
            raise ValueError("since names a time of a trajectory; a single network has none. Leave it out.")
        kept = self.times >= time
        if not kept.any():
            raise ValueError(f"since must not lie after the last saved time, {self.times[-1]:g}, got {time!r}.")
        return replace(self, weights=tuple(w[kept] for w in self.weights), times=self.times[kept])


def saved(subject: Network | Run) -> Saved:
    """The weights of a network or a trajectory, as float64 arrays.

    Raises:
        ValueError: anything else.

    >>> saved(Network([np.eye(2), np.ones((1, 2))], slope=0.0)).weights[1]
    array([[1., 1.]])
    """
    if isinstance(subject, Network):
        return Saved(subject, tuple(checks.numeric(w, "weights") for w in subject.weights), None)
    if isinstance(getattr(subject, "template", None), Network):
        return Saved(subject.template, tuple(np.asarray(w) for w in subject.weights), np.asarray(subject.times))
    raise ValueError(f"measures take a biasfree.Network or a Trajectory, got {type(subject).__name__}.")


def hidden(template: Network, layer: int) -> int:
    """Return ``layer``, or raise ValueError unless it names a hidden layer, 1 being the first."""
    number = checks.count(layer, "layer")
    if number >= template.depth:
        raise ValueError(
            f"layer must name a hidden layer, 1 to {template.depth - 1}, got {layer!r}."
            if template.depth > 1
            else "a network of one layer has no hidden neurons, so this question does not arise."
        )
    return number
