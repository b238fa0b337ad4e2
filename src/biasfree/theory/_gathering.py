"""Where neurons gather in the early phase: the extremal directions of G(r) = ⟨yσ(rᵀx)⟩ on the sphere.

A balanced neuron's direction r climbs G if w₂ > 0 and descends it if w₂ < 0; it ends at a maximum or minimum, in the
smooth part of G (r = ±c̄) or on a kink, and grows at the rate |G(r)| there. One pair ±β̄ means one linear network;
several directions mean that the network acts as several linear networks, each learned at a time of its own.

With several outputs a neuron (w, v) gathers at a pair of singular vectors of the matrix M of its cell, and grows at the
singular value (``early_flow_several``).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.lines import up_to_sign
from biasfree.networks import Network
from biasfree.theory._early import escape_time
from biasfree.theory._early_flow import EarlyFlow, early_flow
from biasfree.theory._early_several import SeveralEarlyFlow

# Limits are exact up to rounding; two that differ by more are different.
_SAME = 1e-7


@dataclass(frozen=True)
class Gathering:
    """One gathering direction.

    Attributes:
        direction: r, a unit vector.
        sign: the sign of w₂ of the neurons that gather there; 0 for several outputs.
        output: the direction of their v, a unit vector over the outputs; (sign,) for one.
        rate: at which they grow, |G(r)| (times ½ for the logistic loss).
        basin: the share of all neurons that end here.
        neurons: which ones.
        on_kink: whether they slide on an activation boundary there.
    """

    direction: Float[np.ndarray, "dim"]
    sign: int
    output: Float[np.ndarray, "outputs"]
    rate: float
    basin: float
    neurons: Int[np.ndarray, "members"]
    on_kink: bool

    def escape_time(self, init_scale: float) -> float:
        """ln(1/γ)/rate: about when this group has grown to order one from weights of size γ."""
        return escape_time(init_scale, self.rate)

    def __str__(self) -> str:
        """Direction, rate and basin."""
        kind = "a kink" if self.on_kink else "smooth"
        group = f"w₂ {'>' if self.sign > 0 else '<'} 0" if self.sign else f"w₂ → {shown(self.output)}, w₁"
        return f"{group} → {shown(self.direction)}, rate {self.rate:.4g}, {self.basin:.0%} of neurons, {kind}"


def shown(direction: Float[np.ndarray, "entries"]) -> str:
    """A direction in brackets, its first entries if it has many; what rounding leaves of a zero is one.

    >>> shown(np.array([0.6, -0.8, 1e-17]))
    '(0.6, -0.8, 0)'
    """
    entries = ", ".join(f"{x:.3g}" if abs(x) > 1e-9 else "0" for x in direction[:6])
    return f"({entries}{', …' if len(direction) > 6 else ''})"


def gather(flow: EarlyFlow | SeveralEarlyFlow) -> tuple[Gathering, ...]:
    """The gathering directions of a network's own neurons, the fastest first; neurons that do not grow are left out.

    Args:
        flow: of ``early_flow`` or ``early_flow_several``, without ``until``.

    >>> from biasfree import datasets
    >>> groups = gather(early_flow(Network.init([2, 60, 1], slope=0.0, init_scale=1e-6, seed=0), datasets.xor()))
    >>> [(g.direction.round().astype(int).tolist(), g.sign) for g in groups]
    [([-1, 0], -1), ([0, -1], 1), ([1, 0], -1), ([0, 1], 1)]
    """
    growing = np.flatnonzero(flow.rate > 0)
    line, side, _ = up_to_sign(flow.limit_direction[growing], _SAME)
    across, sign, _ = up_to_sign(flow.limit_output[growing], _SAME)
    keys = np.column_stack([line, side > 0, across, sign > 0])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    directions = []
    for which in range(group.max(initial=-1) + 1):
        members = growing[group.ravel() == which]
        first = members[0]
        output = flow.limit_output[first]
        directions.append(
            Gathering(
                flow.limit_direction[first],
                int(output[0]) if len(output) == 1 else 0,
                output,
                float(flow.rate[first]),
                len(members) / len(flow.rate),
                members,
                bool(flow.sliding[first].any()),
            )
        )
    return tuple(sorted(directions, key=lambda g: (-g.rate, -g.basin)))


def gathering_directions(
    dataset: Dataset, slope: float = 0.0, loss: str = "square", samples: int = 1000, seed: int = 0
) -> tuple[Gathering, ...]:
    """The extremal directions of G(r) = ⟨yσ(rᵀx)⟩ that random neurons find, with growth rates and basins.

    Neurons are drawn as in Appendix G and followed exactly to their limits; basins are shares of these draws.

    Args:
        dataset: scalar targets.
        slope: α in [0, 1].
        loss: "square", "logistic" or "exponential"; the logistic loss halves the rates.
        samples: number of random neurons; a direction with a basin smaller than a few of them may be missed.
        seed: whole number.

    Returns:
        The directions, the fastest first.

    Raises:
        ValueError: several outputs, a slope outside [0, 1].

    >>> from biasfree import datasets
    >>> for g in gathering_directions(datasets.orthogonal_pair(), samples=200):
    ...     print(g.direction.round(4), g.sign, round(g.rate, 4))
    [0.8944 0.4472] 1 1.118
    [-0.4472  0.8944] -1 0.559
    """
    width = checks.count(samples, "samples")
    network = Network.init([dataset.dim, width, 1], slope, init_scale=1.0, seed=checks.count(seed, "seed", least=0))
    return gather(early_flow(network, dataset, loss))
