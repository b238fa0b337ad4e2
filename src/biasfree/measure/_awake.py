"""Which neurons of a two-layer network are awake, and what they compute together.

Neurons of one sign of v that are active on the same samples act as one: with σ' = φ_i on sample i they add φ_i Mᵀx_i to
the output, M = Σ v w. Each such **group** is a linear network by itself, and groups of equal M are one linear network.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.datasets import Dataset
from biasfree.lines import Lines, lines
from biasfree.networks import Network

# The sleeping neurons together have at most this share of the targets' size in the output.
_NEGLIGIBLE = 0.03
# Neurons at less than this angle are parallel.
_PARALLEL = 0.02
# An input below this share of ‖w‖‖x‖ means that the neuron slides along the sample's boundary.
_ON_BOUNDARY = 1e-7
# A group answers for a sample if it gives more than this share of the targets' size there.
_FELT = 1e-3
# Maps that differ by less than this share are one linear network.
_SAME_MAP = 0.1


@dataclass(frozen=True, eq=False)
class ActiveDirection:
    """Awake neurons that act as one.

    Attributes:
        direction: of their joint w, a unit vector.
        sign: of v.
        size: ‖Σ v w‖.
        neurons: which ones.
        samples: those they are active on, wᵀx > 0, and answer to noticeably.
        sliding: whether they slide along the boundary of some sample.
    """

    direction: Float[np.ndarray, "dim"]
    sign: int
    size: float
    neurons: Int[np.ndarray, "members"]
    samples: Int[np.ndarray, "active"]
    sliding: bool

    @property
    def map(self) -> Float[np.ndarray, "dim"]:
        """M = Σ v w."""
        return self.sign * self.size * self.direction

    def __str__(self) -> str:
        """Direction, size and number of neurons."""
        shown = ", ".join(f"{x:.3g}" if abs(x) > 1e-9 else "0" for x in self.direction[:6])
        tail = ", …" if len(self.direction) > 6 else ""
        many = f"{len(self.neurons)} neuron" + "s" * (len(self.neurons) != 1)
        return f"({shown}{tail}) with v {'>' if self.sign > 0 else '<'} 0, size {self.size:.3g} ({many})"


def asleep(network: Network, dataset: Dataset) -> Bool[np.ndarray, "width"]:
    """The smallest neurons, as many as together have a negligible output, unless they are parallel to a larger one.

    Parallel neurons stay parallel: a small one beside a large one is awake with it, and goes where it goes.
    """
    first, second = (np.asarray(layer) for layer in network.weights)
    reach = float(np.sqrt(np.mean(np.sum(dataset.inputs**2, axis=1))))
    shares = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=0) * reach
    order = np.argsort(shares)
    targets = float(np.sqrt(np.mean(np.asarray(dataset.targets).reshape(dataset.samples, -1) ** 2))) or 1.0
    sleeping = np.zeros(len(shares), dtype=bool)
    sleeping[order[np.cumsum(shares[order]) <= _NEGLIGIBLE * targets]] = True
    rows = np.concatenate([_units(first), _units(second.T)], axis=1)
    # Half the sum of the two cosines, of w and of v.
    alike = 0.5 * rows @ rows[~sleeping].T
    return sleeping & (alike < 1 - _PARALLEL**2 / 4).all(axis=1)


def _units(rows: np.ndarray) -> np.ndarray:
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1.0))


def _sides(first: Float[np.ndarray, "rows dim"], grouped: Lines) -> Float[np.ndarray, "rows lines"]:
    """The side of every line that rows are on: −1, 0 on it, 1."""
    reach = first @ grouped.directions.T
    size = np.linalg.norm(first, axis=1, keepdims=True)
    return np.where(np.abs(reach) <= _ON_BOUNDARY * size, 0.0, np.sign(reach))


def active_directions(
    network: Network, awake: Bool[np.ndarray, "width"], dataset: Dataset
) -> tuple[ActiveDirection, ...]:
    """The groups of awake neurons, the largest first. One output."""
    first, second = np.asarray(network.weights[0]), np.asarray(network.weights[1])[0]
    members = np.flatnonzero(awake & (second != 0))
    if not members.size:
        return ()
    targets = float(np.sqrt(np.mean(dataset.targets**2))) or 1.0
    side = _sides(first[members], lines(dataset.inputs))
    keys = np.column_stack([side, np.sign(second[members])])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    found = []
    for which in range(group.max() + 1):
        here = members[group.ravel() == which]
        joint = np.abs(second[here]) @ first[here]
        size = float(np.linalg.norm(joint))
        if size == 0:
            continue
        active = np.flatnonzero(dataset.inputs @ joint > _FELT * targets)
        sliding = bool((side[group.ravel() == which][0] == 0).any())
        found.append(ActiveDirection(joint / size, int(np.sign(second[here[0]])), size, here, active, sliding))
    return tuple(sorted(found, key=lambda each: -each.size))


def linear_networks(groups: tuple[ActiveDirection, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The samples of every linear network that the groups make up; None if two of them meet one sample.

    Groups of (nearly) equal maps are one linear network, such as the two halves of a network that is linear everywhere.
    """
    largest = max((group.size for group in groups), default=0.0)
    found: list[tuple[np.ndarray, set[int]]] = []
    for group in groups:
        if group.size < _SAME_MAP * _SAME_MAP * largest:
            continue
        samples = set(group.samples.tolist())
        for map_, members in found:
            if np.linalg.norm(map_ - group.map) <= _SAME_MAP * np.linalg.norm(map_) and not members & samples:
                members |= samples
                break
        else:
            found.append((group.map, samples))
    met = [sample for _, members in found for sample in members]
    return tuple(tuple(sorted(members)) for _, members in found) if len(met) == len(set(met)) else None
