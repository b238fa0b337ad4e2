"""Light neurons that are not parallel to anybody yet ride along with a group.

Of a wide network's neurons a few start almost across the growing direction. When the others have become parallel these
have not, and each would be a group of its own; by the thousand they would make the network as dear as it was before
merging. They are also light, and while the pulls q_l are small it hardly matters on which sides they are. A **rider**
is a member of the group it is closest to: it moves by that group's c, as a combination of its passive rows, and the
output sees it by the group's sides. Two things are neglected by that:

- its own sides: its c is off by up to 2Σ|q_l| over the lines where they differ from the group's;
- in the output Σw₂(|wᵀd_l| − ς_l wᵀd_l) of all riders on line l, which moves q_l by b²⟨t²⟩ times that, the
  curvature of a loss being about 1 at most while outputs are small.

(What the group's singular value decomposition leaves out is of second order, and watched by ``_steps.parted``.) Both
are computed, when riders board and every few steps afterwards: one leaves when its c is off by 3 % of rtol‖c‖, and
all of them when the sum of all pulls is. As the network grows, riders turn towards their groups and become ordinary
members, most of them before any line is felt.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.dynamics.exact._field import Data
from biasfree.dynamics.exact._samples import UNFELT

LIGHT = 1e-2  # share of the squared weights that may ride
_ENTRIES = 2_000_000


def may_ride(
    neurons: Float[np.ndarray, "some dim+1"],
    side: Float[np.ndarray, "groups lines"],
    owner: Int[np.ndarray, "some"],
    p: Float[np.ndarray, "lines"],
    q: Float[np.ndarray, "lines"],
    data: Data,
    rtol: float,
) -> tuple[Bool[np.ndarray, "some"], Bool[np.ndarray, "some"]]:
    """Which neurons may ride with their ``owner``, and which have its sides anyway."""
    limit = UNFELT * rtol * float(np.linalg.norm(p @ data.directions))
    off, same = np.empty(len(neurons)), np.empty(len(neurons), dtype=bool)
    missed = np.zeros(len(q))
    chunk = max(1, _ENTRIES // max(len(q), 1))
    for begin in range(0, len(neurons), chunk):
        part = slice(begin, begin + chunk)
        products = neurons[part, :-1] @ data.transposed
        wrong = products * side[owner[part]] < 0
        off[part], same[part] = 2 * (wrong @ np.abs(q)), ~wrong.any(axis=1)
        missed += np.abs(neurons[part, -1]) @ np.where(wrong, 2 * np.abs(products), 0.0)
    moved = data.b**2 * missed * data.moments[:, 0] / data.samples
    return (off <= limit) & (moved.sum() <= limit), same


def closest(
    neurons: Float[np.ndarray, "some dim+1"], leaders: Float[np.ndarray, "groups dim+1"]
) -> Int[np.ndarray, "some"]:
    """The group each neuron points along most."""
    return np.argmax(neurons @ (leaders / np.linalg.norm(leaders, axis=1, keepdims=True)).T, axis=1)
