"""Which neurons of a two-layer network are awake, and what they compute together.

Neurons of one sign of v that are active on the same samples act as one: with σ' = φ_i on sample i they add φ_i Mᵀx_i to
the output, M = Σ v w. Each such **group** is a linear network by itself, and groups of equal M are one linear network.
With several outputs the sign of v does not part them, and M = Σ v wᵀ = Σ_i s_i u_i z_iᵀ may have several singular
pairs; each of them is one active direction.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.lines import Lines, lines
from biasfree.measure._samples import Samples
from biasfree.networks import Network
from biasfree.theory._gathering import shown

# The sleeping neurons together have at most this share of the targets' size in the output.
_NEGLIGIBLE = 0.03
# Neurons at less than this angle are parallel.
_PARALLEL = 0.02
# An input below this share of ‖w‖‖x‖ means that the neuron slides along the sample's boundary.
_ON_BOUNDARY = 1e-7
# A group answers for a sample if it gives more than this share of the targets' size there.
_ANSWERS = 1e-3
# Singular values of a group's map below this share of its largest are no directions of their own.
_NO_PAIR = 0.01
# Maps that differ by less than this share are one linear network.
_SAME_MAP = 0.1


@dataclass(frozen=True, eq=False)
class ActiveDirection:
    """Awake neurons that act as one.

    Attributes:
        direction: of their joint w, a unit vector.
        sign: of v; 0 for several outputs.
        output: the direction of their joint v, a unit vector over the outputs; (sign,) for one.
        size: ‖Σ v w‖, of several outputs the singular value of Σ v wᵀ.
        neurons: which ones.
        samples: those they are active on, wᵀx > 0, and answer to noticeably.
        sliding: whether they slide along the boundary of some sample.
    """

    direction: Float[np.ndarray, "dim"]
    sign: int
    output: Float[np.ndarray, "outputs"]
    size: float
    neurons: Int[np.ndarray, "members"]
    samples: Int[np.ndarray, "active"]
    sliding: bool

    @property
    def map(self) -> Float[np.ndarray, "outputs dim"]:
        """M = Σ v wᵀ, or this direction's part of it."""
        return self.size * np.outer(self.output, self.direction)

    def __str__(self) -> str:
        """Direction, size and number of neurons."""
        many = f"{len(self.neurons)} neuron" + "s" * (len(self.neurons) != 1)
        v = f"v {'>' if self.sign > 0 else '<'} 0" if self.sign else f"v along {shown(self.output)}"
        return f"{shown(self.direction)} with {v}, size {self.size:.3g} ({many})"


def asleep(network: Network, samples: Samples) -> Bool[np.ndarray, "width"]:
    """The smallest neurons, as many as together have a negligible output, unless they are parallel to a larger one.

    Parallel neurons stay parallel: a small one beside a large one is awake with it, and goes where it goes.
    """
    first, second = (np.asarray(layer) for layer in network.weights)
    reach = float(np.sqrt(np.mean(np.sum(samples.inputs**2, axis=1))))
    shares = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=0) * reach
    order = np.argsort(shares)
    sleeping = np.zeros(len(shares), dtype=bool)
    sleeping[order[np.cumsum(shares[order]) <= _NEGLIGIBLE * samples.size]] = True
    rows = np.concatenate([_units(first), _units(second.T)], axis=1)
    # Half the sum of the two cosines, of w and of v.
    alike = 0.5 * rows @ rows[~sleeping].T
    return sleeping & (alike < 1 - _PARALLEL**2 / 4).all(axis=1)


def _units(rows: np.ndarray) -> np.ndarray:
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(length > 0, length, 1.0))


def sides(first: Float[np.ndarray, "rows dim"], grouped: Lines) -> Float[np.ndarray, "rows lines"]:
    """The side of every line that rows are on: −1, 0 on it, 1."""
    reach = first @ grouped.directions.T
    size = np.linalg.norm(first, axis=1, keepdims=True)
    return np.where(np.abs(reach) <= _ON_BOUNDARY * size, 0.0, np.sign(reach))


def active_directions(
    network: Network, awake: Bool[np.ndarray, "width"], samples: Samples
) -> tuple[ActiveDirection, ...]:
    """The groups of awake neurons, the largest first."""
    first, second = np.asarray(network.weights[0]), np.asarray(network.weights[1]).T
    members = np.flatnonzero(awake & second.any(axis=1))
    if not members.size:
        return ()
    side = sides(first[members], lines(samples.inputs))
    several = second.shape[1] > 1
    # With several outputs the sign of v does not matter, and all neurons of a linear network are in one cell.
    keys = side * (not network.is_linear) if several else np.column_stack([side, np.sign(second[members])])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    groups: list[ActiveDirection] = []
    for which in range(group.max() + 1):
        here = group.ravel() == which
        groups += _pairs(members[here], first[members[here]], second[members[here]], side[here], network, samples)
    return tuple(sorted(groups, key=lambda each: -each.size))


def _pairs(
    neurons: np.ndarray, first: np.ndarray, second: np.ndarray, side: np.ndarray, network: Network, samples: Samples
) -> list[ActiveDirection]:
    """The singular pairs of what the neurons of one cell compute together; of one output there is one."""
    outputs, sizes, inputs = np.linalg.svd(second.T @ first, full_matrices=False)
    sliding = bool((side[0] == 0).any())
    # On which samples they are active, and what they answer there.
    active = samples.inputs @ (np.linalg.norm(second, axis=1) @ first) > 0
    answer = np.linalg.norm(samples.inputs @ first.T @ second, axis=1)
    everywhere = network.is_linear and second.shape[1] > 1
    met = np.flatnonzero((active | everywhere) & (answer > _ANSWERS * samples.size))
    pairs = []
    for u, size, z in zip(outputs.T, sizes, inputs, strict=True):
        if size > _NO_PAIR * sizes[0]:
            # w points along z, not against it.
            turn = np.sign(float(np.linalg.norm(second, axis=1) @ (first @ z))) or 1.0
            sign = int(np.sign(turn * u[0])) if len(u) == 1 else 0
            pairs.append(ActiveDirection(turn * z, sign, turn * u, float(size), neurons, met, sliding))
    return pairs


def linear_networks(groups: tuple[ActiveDirection, ...]) -> tuple[tuple[int, ...], ...] | None:
    """The samples of every linear network that the groups make up; None if two of them meet one sample.

    Groups of (nearly) equal maps are one linear network, such as the two halves of a network that is linear everywhere.
    """
    largest = max((group.size for group in groups), default=0.0)
    whole: dict[bytes, tuple[np.ndarray, set[int]]] = {}
    for group in groups:
        before = whole.get(group.neurons.tobytes(), (np.zeros(()), set()))[0]
        whole[group.neurons.tobytes()] = (before + group.map, set(group.samples.tolist()))
    networks: list[tuple[np.ndarray, set[int]]] = []
    for own, samples in whole.values():
        if np.linalg.norm(own) < _SAME_MAP * _SAME_MAP * largest:
            continue
        for map_, members in networks:
            if np.linalg.norm(map_ - own) <= _SAME_MAP * np.linalg.norm(map_) and not members & samples:
                members |= samples
                break
        else:
            networks.append((own, samples))
    met = [sample for _, members in networks for sample in members]
    return tuple(tuple(sorted(members)) for _, members in networks) if len(met) == len(set(met)) else None
