"""Light neurons that are not parallel to anybody yet ride along with a group.

Of a wide network's neurons a few start almost across the growing direction. When the others have become parallel these
have not, and each would be a group of its own; by the thousand they would make the network as dear as it was before
merging. They are also light, and while the pulls q_l are small it hardly matters on which sides they are. A **rider**
is a member of the group it is closest to: it moves by that group's c, as a combination of its passive rows, and the
output sees it by the group's sides. Two things are neglected by that:

- its own sides: its c is off by up to 2Σ|q_l| over the lines where they differ from the group's;
- in the output Σw₂(|wᵀd_l| − ς_l wᵀd_l) of all riders on line l, which moves q_l by b²⟨t²⟩ times that, the
  curvature of a loss being about 1 at most while outputs are small.

(What the group's singular value decomposition leaves out is of second order, and watched by ``Carried.parted``.) Both
are computed, when riders board and every few steps afterwards: one leaves when its c is off by 3 % of rtol‖c‖, and
all of them when the sum of all pulls is. As the network grows, riders turn towards their groups and become ordinary
members, most of them before any line is felt.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._lengths import lengths

LIGHT = 1e-2  # share of the squared weights that may ride; chosen: cost depends on it, who may ride is asked of each
UNFELT = 0.03  # part of rtol‖c‖ that a pull may be and not be felt: a thirtieth of what a step may be off by
_ENTRIES = 2_000_000  # lines × neurons looked at together, 16 MB; chosen: memory


def felt_lines(
    p: Float[np.ndarray, "outputs lines"], q: Float[np.ndarray, "outputs lines"], data: Data, rtol: float
) -> Int[np.ndarray, "felt"]:
    """The lines whose crossing matters: where q_l is more than a small part of what the tolerance lets pass."""
    size, whole = np.abs(q).max(axis=0), float(np.linalg.norm(p @ data.directions))
    return np.flatnonzero(size > UNFELT * rtol * whole / max(size.size, 1))


def outputs_of(
    neurons: Float[np.ndarray, "width columns"], data: Data
) -> tuple[Float[np.ndarray, "outputs lines"], Float[np.ndarray, "outputs lines"]]:
    """lin_l and even_l of neurons that do not slide, some thousand of them at a time."""
    dim, lines = data.transposed.shape
    lin, even = np.zeros((2, neurons.shape[1] - dim, lines))
    for part in chunks(neurons, lines):
        products = part[:, :dim] @ data.transposed
        lin += data.a * (part[:, dim:].T @ products)
        even += data.b * (part[:, dim:].T @ np.abs(products))
    return lin, even


def chunks(neurons: Float[np.ndarray, "width columns"], lines: int) -> list[Float[np.ndarray, "some columns"]]:
    """Neurons in parts small enough to hold their products with all lines."""
    return np.array_split(neurons, max(1, neurons.shape[0] * lines // _ENTRIES))


def may_ride(
    neurons: Float[np.ndarray, "some columns"],
    side: Float[np.ndarray, "groups lines"],
    owner: Int[np.ndarray, "some"],
    p: Float[np.ndarray, "outputs lines"],
    q: Float[np.ndarray, "outputs lines"],
    data: Data,
    rtol: float,
) -> tuple[Bool[np.ndarray, "some"], Bool[np.ndarray, "some"]]:
    """Which neurons may ride with their ``owner``, and which have its sides anyway."""
    dim, lines = data.transposed.shape
    limit = UNFELT * rtol * float(np.linalg.norm(p @ data.directions))
    strength = np.linalg.norm(q, axis=0)
    off, same = np.empty(len(neurons)), np.empty(len(neurons), dtype=bool)
    missed, begin = np.zeros(lines), 0
    for part in chunks(neurons, lines):
        end = begin + len(part)
        products = part[:, :dim] @ data.transposed
        wrong = products * side[owner[begin:end]] < 0
        off[begin:end], same[begin:end] = 2 * (wrong @ strength), ~wrong.any(axis=1)
        missed += np.linalg.norm(part[:, dim:], axis=1) @ np.where(wrong, 2 * np.abs(products), 0.0)
        begin = end
    moved = data.b**2 * missed * data.powers[0] / data.samples
    return (off <= limit) & (moved.sum() <= limit), same


def closest(
    neurons: Float[np.ndarray, "some columns"], leaders: Float[np.ndarray, "groups columns"]
) -> Int[np.ndarray, "some"]:
    """The group each neuron points along most."""
    return np.argmax(neurons @ (leaders / lengths(leaders)[:, None]).T, axis=1)
