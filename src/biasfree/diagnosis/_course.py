"""Reading a course: is the network linear, until when, or several linear networks? The same for a forecast's small
network and for a simulation.

With L₀ the loss at f = 0 and L* the least of any linear map,

- it has **escaped** when half of L₀ − L* is gained (or 3 % of L₀, where linear maps gain less than twice that);
- it is **linear** while its outputs are, up to 10 %, and its loss is not below L* by more than 3 % of L₀;
- it **sits at the linear solution** if it is linear at 1.5 escape times. What it does in passing before that is told
  and does not count: neurons of w₂ > 0 and of w₂ < 0 escape for themselves, hardly ever at exactly the same time.

Sitting for ever is "linear"; sitting first and leaving later is "linear until". A network that does not sit is
"several linear networks" if from 1.5 escape times on its neurons form groups that respond to other samples than each
other, overlapping by less than 5 %, and "nonlinear" else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.networks import Network

VERDICTS = ("linear", "linear until", "several linear networks", "nonlinear")
# What may be nonlinear in the outputs of a network that counts as linear, relative to their size or the targets'.
LINEAR = 0.1
# How far below every linear map's loss it may be, as part of the first loss.
BELOW = 0.03
# When it must be linear to sit at the linear solution, in escape times.
SITS = 1.5
# Overlap of the responses of groups of neurons that are networks by themselves.
APART = 0.05
# Neurons of less than this share of all |w₂|‖w‖ belong to no group.
_SHARE, _LOOKED_AT = 0.01, 2000


@dataclass(frozen=True)
class Levels:
    """Losses to read a course by.

    Attributes:
        first: at f = 0.
        linear: the least of a linear map.
    """

    first: float
    linear: float

    @property
    def gained(self) -> float:
        """Half of the linear solution's gain is made."""
        return self.first - max(0.5 * (self.first - self.linear), BELOW * self.first)

    @property
    def left(self) -> float:
        """No linear map is that good."""
        return self.linear - BELOW * self.first


@dataclass(frozen=True)
class Reading:
    """What a course amounts to.

    Attributes:
        escape_time: infinite if not within the course.
        departure_time: when it stops being linear; None if not within the course.
        nonlinearity: of the outputs, at its largest while the linear solution is sat at; of the whole course if it is
            not.
        passing: the same before 1.5 escape times.
        count: of linear networks, None where groups overlap.
        verdict: one of VERDICTS.
    """

    escape_time: float
    departure_time: float | None
    nonlinearity: float
    passing: float
    count: int | None
    verdict: str


@dataclass(frozen=True)
class Course:
    """A network over time.

    Attributes:
        times, losses: of each saved network.
        networks: with one output.
    """

    times: Float[np.ndarray, "times"]
    losses: Float[np.ndarray, "times"]
    networks: Sequence[Network]


def read_course(course: Course, dataset: Dataset, levels: Levels) -> Reading:
    """Read a course by the rules above; several linear networks are looked for in two layers only."""
    few, networks = _few(dataset), course.networks
    mirrored = np.concatenate([few.inputs, -few.inputs])
    outputs = np.array([np.asarray(network(mirrored)) for network in networks])
    bent = nonlinearity(outputs, few)
    times, losses = course.times, course.losses
    escaped = passing(times, -losses, -levels.gained)
    escape = np.inf if escaped is None else escaped
    sits = int(np.searchsorted(times, SITS * escape))
    before, after = slice(0, max(sits, 1)), slice(min(sits, len(times) - 1), None)
    gone = [passing(times[after], *measure) for measure in ((bent[after], LINEAR), (-losses[after], -levels.left))]
    left = min((t for t in gone if t is not None), default=None)
    in_passing = float(bent[before].max())
    if left is None:
        return Reading(escape, None, float(bent[after].max()), in_passing, 1, "linear")
    if left > times[after][0]:
        sat = bent[after][times[after] < left]
        return Reading(escape, left, float(sat.max()), in_passing, 1, "linear until")
    first = [passing(times, *measure) for measure in ((bent, LINEAR), (-losses, -levels.left))]
    count = linear_networks(networks[min(sits, len(times) - 1) :], few) if networks[0].depth == 2 else None
    verdict = "several linear networks" if count is not None and count > 1 else "nonlinear"
    departure = min(t for t in first if t is not None)
    return Reading(escape, departure, float(bent.max()), in_passing, count, verdict)


def nonlinearity(outputs: Float[np.ndarray, "times mirrored"], dataset: Dataset) -> Float[np.ndarray, "times"]:
    """How far from linear: what is left of the outputs when the best linear map is taken off.

    Args:
        outputs: at the samples and, after them, at their mirror images −x, without which few samples in many
            dimensions would look linear whatever the function.
        dataset: the samples.

    Returns:
        Root mean square, relative to the larger of the outputs' own and of the targets'.
    """
    basis, sizes, _ = np.linalg.svd(dataset.inputs, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]]
    here, mirrored = outputs[:, : dataset.samples], outputs[:, dataset.samples :]
    odd, even = 0.5 * (here - mirrored), 0.5 * (here + mirrored)
    left = np.mean((odd - odd @ basis @ basis.T) ** 2, axis=-1) + np.mean(even**2, axis=-1)
    size = np.maximum(np.mean(outputs**2, axis=-1), np.mean(dataset.targets**2))
    return np.sqrt(left / size)


def looks(closely: float, until: float, count: int = 300) -> Float[np.ndarray, "times"]:
    """When to look: evenly while things happen, then ever more widely."""
    half = count // 2
    times = np.concatenate([np.linspace(0, closely, half, endpoint=False), np.geomspace(closely, until, half)])
    times[-1] = until
    return times


def _few(dataset: Dataset) -> Dataset:
    """Enough samples to tell how far from linear a function is."""
    most = max(_LOOKED_AT, 20 * dataset.dim)
    if dataset.samples <= most:
        return dataset
    drawn = np.random.default_rng(0).permutation(dataset.samples)[:most]
    return Dataset(dataset.inputs[drawn], dataset.targets[drawn], dataset.name, dataset.origin)


def passing(times: np.ndarray, values: np.ndarray, level: float) -> float | None:
    """When ``values`` first exceed ``level``, between saved times by a straight line; None if never."""
    above = values > level
    if not above.any():
        return None
    k = int(np.argmax(above))
    if k == 0:
        return float(times[0])
    part = (level - values[k - 1]) / (values[k] - values[k - 1])
    return float(times[k - 1] + part * (times[k] - times[k - 1]))


def linear_networks(networks: Sequence[Network], dataset: Dataset) -> int | None:
    """How many linear networks the neurons form.

    They form some if at the end every two of them respond alike to the samples, or apart (cosine above 95 % or below
    5 %) and have done so all along. Neurons of one sign of w₂ that respond alike are a group; a group and its mirror
    image, of the other sign and the same size, are a single linear network.

    Args:
        networks: two layers, one output, over time.
        dataset: the samples.

    Returns:
        The number; None if there are neurons between alike and apart.
    """
    first, second = np.asarray(networks[-1].weights[0]), np.asarray(networks[-1].weights[1])[0]
    share = np.abs(second) * np.linalg.norm(first, axis=1)
    large = np.flatnonzero(share > _SHARE * share.sum())
    signs = np.sign(second[large])
    overlap = _overlaps(networks[-1], large, dataset)
    alike = (overlap > 1 - APART) & (signs[:, None] == signs)
    for network in networks:
        if (_overlaps(network, large, dataset) > APART)[~alike].any():
            return None
    groups = [np.flatnonzero(row) for row in np.unique(alike, axis=0)]
    if sum(map(len, groups)) > len(large):
        return None
    maps = np.stack([np.abs(second[large[group]]) @ first[large[group]] for group in groups])
    sizes = np.linalg.norm(maps, axis=1)
    opposite = np.linalg.norm(maps[:, None] + maps, axis=-1) < APART * np.maximum(sizes[:, None], sizes)
    sign = np.array([signs[group[0]] for group in groups])
    return len(groups) - int(np.triu(opposite & (np.outer(sign, sign) < 0)).sum())


def _overlaps(network: Network, neurons: np.ndarray, dataset: Dataset) -> Float[np.ndarray, "neurons neurons"]:
    """Cosines between the neurons' responses to the samples."""
    reached = np.asarray(network.weights[0])[neurons] @ dataset.inputs.T
    response = np.maximum(reached, network.slope * reached)
    response /= np.maximum(np.linalg.norm(response, axis=1, keepdims=True), 1e-300)
    return np.abs(response @ response.T)
