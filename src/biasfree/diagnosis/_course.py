"""Reading a course: is the network linear, until when, or several linear networks? The same for the small network of a
prediction and for a simulation.

Two questions are kept apart. **On the samples**: what is left of the outputs at the samples when the best linear map is
taken off. **As a function**: the same at the samples and their mirror images −x, which data need not contain; this is
the papers' sense. The first decides the verdict. Only where a linear map fits any outputs at the samples, because they
are no more than their dimensions, the second does.

With L₀ the loss at f = 0 and L* the least of any linear map,

- it has **escaped** when half of L₀ − L* is gained (or 3 % of L₀, where linear maps gain less than twice that);
- it is **linear** while its outputs are, up to 10 %, and its loss is not below L* by more than 3 % of L₀;
- it **sits at the linear solution** if it is linear at 1.5 escape times. What it does in passing before that is
  reported and does not count: neurons of w₂ > 0 and of w₂ < 0 escape for themselves, hardly ever at exactly the same
  time.

Sitting for ever is "linear". So is a bend that goes away again: outputs that are linear at the end of the course, with
a loss that was never below L* by more than 3 % of L₀; it is reported too, with the time at which it was over. Sitting
first and leaving later is "linear until". A network that does not sit is
"several linear networks" if from 1.5 escape times on its neurons form groups that respond to other samples than each
other, overlapping by less than 5 %, and "nonlinear" else.

A bend may go away and come back, so a verdict also depends on where a course ends. ``Bend.decided_time`` says from when
on it does not: whoever is to be compared with a course must be followed for longer. And it depends on thresholds:
``Bend.otherwise`` is the verdict by thresholds a tenth lower or higher, where that is another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.networks import Network
from biasfree.theory import _point_losses

VERDICTS = ("linear", "linear until", "several linear networks", "nonlinear")
# What there is to say when nothing was finished.
UNDECIDED = "undecided"
# What may be nonlinear in the outputs of a network that counts as linear, relative to their size or the targets'.
LINEAR = 0.1
# How far below every linear map's loss it may be, as part of the first loss.
BELOW = 0.03
# When it must be linear to sit at the linear solution, in escape times.
SITS = 1.5
# Thresholds moved by this share must not change a verdict that is called clear.
CLEAR = 0.1
# Overlap of the responses of groups of neurons that are networks by themselves.
APART = 0.05
# Neurons of less than this share of all |w₂|‖w‖ belong to no group.
_SHARE, _LOOKED_AT = 0.01, 2000
# Outputs that are held at once.
_AT_ONCE = 5e6
# By how much of the first loss the loss on unseen samples may rise again.
_OVERFITTED = 0.005


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
class Bend:
    """One of the two questions, answered.

    Attributes:
        verdict: one of VERDICTS.
        departure_time: when it stops being linear; None if not within the course.
        nonlinearity: of the outputs, at its largest while the linear solution is sat at; of the whole course if it is
            not; at the end of the course if it went away again, for at its largest it is then the threshold itself.
        passing: the largest before that.
        last: at the end of the course.
        settled_time: when a bend above 10 % that went away again was over; None if there was none.
        decided_time: a course that ends at this time or later has this verdict; some that end before do not.
        otherwise: the verdict by thresholds a tenth lower or higher; None if it is the same, that is if it is clear.
    """

    verdict: str
    departure_time: float | None
    nonlinearity: float
    passing: float
    last: float
    settled_time: float | None = None
    decided_time: float = 0.0
    otherwise: str | None = None


STRAIGHT = Bend("linear", None, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Reading:
    """What a course amounts to.

    Attributes:
        escape_time: infinite if not within the course.
        on_samples, as_function: the two questions.
        void: whether any function is linear on the samples, so that the function decides.
        count: of linear networks, None where groups overlap.
        bends: nonlinearity on the samples and as a function at each saved time; shape (2, times).
        losses: at each saved time, on the data it was read on.

    A course that is judged on samples it was not trained on ends where it does best there: what a few thousand rows
    are overfitted to later says nothing of all rows. ``bends`` and ``losses`` are then the shorter ones.
    """

    escape_time: float
    on_samples: Bend
    as_function: Bend
    void: bool
    count: int | None
    bends: Float[np.ndarray, "2 times"]
    losses: Float[np.ndarray, "times"]

    @property
    def decides(self) -> Bend:
        """The one that is the verdict."""
        return self.as_function if self.void else self.on_samples


@dataclass(frozen=True)
class Course:
    """A network over time.

    Attributes:
        times, losses: of each saved network.
        networks: with any number of outputs.
    """

    times: Float[np.ndarray, "times"]
    losses: Float[np.ndarray, "times"]
    networks: Sequence[Network]


def read_course(course: Course, dataset: Dataset, levels: Levels, loss: str | None = None) -> Reading:
    """Read a course by the rules above; several linear networks are looked for in two layers only.

    Args:
        course: of networks trained on ``dataset``, or, with ``loss``, on other samples of the same kind.
        dataset: where outputs are looked at.
        levels: of the loss on ``dataset``.
        loss: its name, to have it computed on ``dataset`` anew instead of taken from the course.
    """
    few, networks, times = _few(dataset), course.networks, course.times
    bends, losses = _bends(networks, few, loss)
    if loss is None:
        losses = course.losses
    else:
        best = int(np.argmin(losses)) + 1
        if losses[-1] > losses[best - 1] + _OVERFITTED * levels.first:
            times, networks, losses, bends = times[:best], networks[:best], losses[:best], bends[:, :best]
    escaped = passing(times, -losses, -levels.gained)
    escape = np.inf if escaped is None else escaped
    sits = int(np.searchsorted(times, SITS * escape))
    read = [_read(times, losses, bent, sits, levels) for bent in bends]
    count: int | None = 1
    if any(bend.verdict == "nonlinear" for bend in read):
        linear_count = linear_networks(networks[min(sits, len(times) - 1) :], few) if networks[0].depth == 2 else None
        if linear_count is not None and linear_count > 1:
            read = [_renamed(bend) if bend.verdict == "nonlinear" else bend for bend in read]
        count = linear_count
    void = bool(np.linalg.matrix_rank(few.inputs, tol=1e-10 * np.linalg.norm(few.inputs, 2)) >= few.samples)
    return Reading(escape, read[0], read[1], void, count, bends, losses)


def _bends(networks: Sequence[Network], few: Dataset, loss: str | None) -> tuple[np.ndarray, np.ndarray]:
    """How far each network is from linear, and its loss if one is named; outputs of some networks at a time."""
    mirrored = np.concatenate([few.inputs, -few.inputs])
    some = max(1, int(_AT_ONCE / (len(mirrored) * few.outputs)))
    bends, losses = [], []
    for begin in range(0, len(networks), some):
        outputs = np.array([np.asarray(network(mirrored)) for network in networks[begin : begin + some]])
        bends.append(np.array(nonlinearity(outputs, few)))
        losses += [] if loss is None else [mean_loss(loss, f, few.targets) for f in outputs[:, : few.samples]]
    return np.concatenate(bends, axis=1), np.array(losses)


def _read(times: np.ndarray, losses: np.ndarray, bent: np.ndarray, sits: int, levels: Levels) -> Bend:
    """One question, answered, with when and how clearly."""
    bend = _judged(times, losses, bent, sits, levels)
    decided = sits
    for end in range(len(times) - 1, sits, -1):
        if _judged(times[:end], losses[:end], bent[:end], sits, levels).verdict != bend.verdict:
            decided = end
            break
    moved = (_judged(times, losses, bent, sits, levels, share).verdict for share in (1 - CLEAR, 1 + CLEAR))
    otherwise = next((verdict for verdict in moved if verdict != bend.verdict), None)
    return replace(bend, decided_time=float(times[min(decided, len(times) - 1)]), otherwise=otherwise)


def _judged(
    times: np.ndarray, losses: np.ndarray, bent: np.ndarray, sits: int, levels: Levels, moved: float = 1.0
) -> Bend:
    """The verdict of a course as far as it goes, by thresholds ``moved`` times as large."""
    linear, lower = moved * LINEAR, levels.linear - moved * (levels.linear - levels.left)
    before, after = slice(0, max(sits, 1)), slice(min(sits, len(times) - 1), None)
    gone = [passing(times[after], *measure) for measure in ((bent[after], linear), (-losses[after], -lower))]
    left = min((t for t in gone if t is not None), default=None)
    in_passing, last = float(bent[before].max()), float(bent[-1])
    if left is None:
        return Bend("linear", None, float(bent[after].max()), in_passing, last)
    if last <= linear and not (losses < lower).any():
        over = int(np.flatnonzero(bent > linear)[-1]) + 1
        return Bend("linear", None, last, float(bent[:over].max()), last, float(times[over]))
    if left > times[after][0]:
        sat = bent[after][times[after] < left]
        return Bend("linear until", left, float(sat.max()), in_passing, last)
    first = [passing(times, *measure) for measure in ((bent, linear), (-losses, -lower))]
    return Bend("nonlinear", min(t for t in first if t is not None), float(bent.max()), in_passing, last)


def _renamed(bend: Bend) -> Bend:
    return replace(bend, verdict="several linear networks")


def nonlinearity(
    outputs: Float[np.ndarray, "times mirrored ..."], dataset: Dataset
) -> tuple[Float[np.ndarray, "times"], Float[np.ndarray, "times"]]:
    """How far from linear: what is left of the outputs when the best linear map is taken off.

    Args:
        outputs: at the samples and, after them, at their mirror images −x; shape (times, mirrored), or with one more
            axis for several outputs, which are judged as one vector.
        dataset: the samples.

    Returns:
        On the samples alone, and on both: root mean squares, relative to the larger of the outputs' own and of the
        targets'.
    """
    basis, sizes, _ = np.linalg.svd(dataset.inputs, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]]
    # Each output in a row of its own; means over all entries are those of vectors, over the number of outputs.
    outputs = np.moveaxis(outputs.reshape(*outputs.shape[:2], -1), 2, 1)
    here, mirrored = outputs[..., : dataset.samples], outputs[..., dataset.samples :]
    wanted = np.mean(dataset.targets**2)

    def size(values: np.ndarray) -> np.ndarray:
        return np.mean(values**2, axis=(1, 2))

    def left(values: np.ndarray) -> np.ndarray:
        return size(values - values @ basis @ basis.T)

    odd, even = 0.5 * (here - mirrored), 0.5 * (here + mirrored)
    on_samples = np.sqrt(left(here) / np.maximum(size(here), wanted))
    return on_samples, np.sqrt((left(odd) + size(even)) / np.maximum(size(outputs), wanted))


def mean_loss(loss: str, outputs: np.ndarray, targets: np.ndarray) -> float:
    """The loss of these outputs, (samples,) or (samples, outputs)."""
    each = _point_losses.value(loss, outputs.T, targets.T)
    return float(np.mean(each if each.ndim == 1 else each.sum(axis=0)))


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
    return Dataset(dataset.inputs[drawn], dataset.targets[drawn], dataset.name, dataset.origin, dataset.classes)


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
    5 %) and have done so all along. Neurons of one sign of w₂ (of several outputs: v·v' > 0) that respond alike are a
    group; a group and its mirror image, of the other sign and the same size, are a single linear network.

    Args:
        networks: two layers, over time.
        dataset: the samples.

    Returns:
        The number; None if there are neurons between alike and apart.
    """
    first, second = np.asarray(networks[-1].weights[0]), np.asarray(networks[-1].weights[1]).T
    share = np.linalg.norm(second, axis=1) * np.linalg.norm(first, axis=1)
    large = np.flatnonzero(share > _SHARE * share.sum())
    same = second[large] @ second[large].T > 0
    overlap = _overlaps(networks[-1], large, dataset)
    alike = (overlap > 1 - APART) & same
    for network in networks:
        if (_overlaps(network, large, dataset) > APART)[~alike].any():
            return None
    groups = [np.flatnonzero(row) for row in np.unique(alike, axis=0)]
    if sum(map(len, groups)) > len(large):
        return None
    maps = np.stack([(second[large[group]].T @ first[large[group]]).ravel() for group in groups])
    sizes = np.linalg.norm(maps, axis=1)
    # v wᵀ of (w, v) and of its mirror image (−w, −v) are the same.
    equal = np.linalg.norm(maps[:, None] - maps, axis=-1) < APART * np.maximum(sizes[:, None], sizes)
    lead = np.array([group[0] for group in groups])
    return len(groups) - int(np.triu(equal & ~same[np.ix_(lead, lead)]).sum())


def _overlaps(network: Network, neurons: np.ndarray, dataset: Dataset) -> Float[np.ndarray, "neurons neurons"]:
    """Cosines between the neurons' responses to the samples."""
    reached = np.asarray(network.weights[0])[neurons] @ dataset.inputs.T
    response = np.maximum(reached, network.slope * reached)
    response /= np.maximum(np.linalg.norm(response, axis=1, keepdims=True), 1e-300)
    return np.abs(response @ response.T)
