"""The skeleton of a loss staircase: what is left of it when the initialisation goes to zero.

Every plateau lasts as long as its sleepers need to grow from γ to order one, so that in τ = t/ln(1/γ) the loss becomes
a staircase that no longer depends on γ; transitions take no time at all. At finite γ each drop comes at
t = τ∞ ln(1/γ) + c: two starts give τ∞, a third one says how far off that may be.

The limit need not exist for a draw: as γ falls sleepers have longer to gather, and a basin may empty.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree import checks, dynamics
from biasfree.datasets import Dataset
from biasfree.measure._awake import ActiveDirection
from biasfree.measure._plateaus import Plateaus, plateaus
from biasfree.networks import Network
from biasfree.theory import _point_losses, early_flow, gather

if TYPE_CHECKING:
    from biasfree.measure._plateaus import Plateau

SCALES = (1e-20, 1e-40, 1e-80)
# Levels that differ by less than this share of the first one are the same.
_SAME_LEVEL = 0.01
# Below this share of the first loss the data are fitted.
_FITTED = 1e-6
# How long to look, in τ times the slowest rate of the early phase.
_LONG, _LONGEST = 4.0, 64.0


class Drop(NamedTuple):
    """One drop of the staircase.

    Attributes:
        tau: its time over ln(1/γ) in the limit, half way between the levels.
        error: how far off that may be: the change that the smallest start made to the extrapolation.
        taus: at the scales that were run.
        level: the loss after it.
        born: the awake groups that were not there before it.
    """

    tau: float
    error: float
    taus: tuple[float, ...]
    level: float
    born: tuple[ActiveDirection, ...]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The staircase in the limit γ → 0.

    Attributes:
        first_level: the loss before any drop.
        drops: in order; those on which all scales agree.
        exists: whether all scales agree on every level.
        change: where they do not, which plateau changes at which scale, in a sentence; "" if they agree.
        scales: that were run.
        staircases: the plateaus at each of them.
        subject: what ran.
    """

    first_level: float
    drops: tuple[Drop, ...]
    exists: bool
    change: str
    scales: tuple[float, ...]
    staircases: tuple[Plateaus, ...]
    subject: str

    @property
    def levels(self) -> Float[np.ndarray, "levels"]:
        """The loss before the first drop and after each."""
        return np.array([self.first_level, *(drop.level for drop in self.drops)])

    @property
    def taus(self) -> Float[np.ndarray, "drops"]:
        """τ of each drop."""
        return np.array([drop.tau for drop in self.drops])

    def __str__(self) -> str:
        """Levels and times."""
        rows = [f"skeleton of {self.subject}: loss {self.first_level:.4g}"]
        for drop in self.drops:
            born = "; ".join(map(str, drop.born)) or "none"
            rows.append(f"  τ = {drop.tau:.4g} ± {drop.error:.1g}: to {drop.level:.4g}; born: {born}")
        if not self.exists:
            rows.append(f"  {self.change}")
        return "\n".join(rows)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and strings, ready for JSON."""
        return {
            "subject": self.subject,
            "scales": list(self.scales),
            "first_level": self.first_level,
            "drops": [
                {
                    "tau": drop.tau,
                    "error": drop.error,
                    "taus": list(drop.taus),
                    "level": drop.level,
                    "born": [{"direction": b.direction.tolist(), "sign": b.sign, "size": b.size} for b in drop.born],
                }
                for drop in self.drops
            ],
            "exists": self.exists,
            "change": self.change,
        }


def skeleton(
    dataset: Dataset,
    width: int = 100,
    seed: int = 0,
    slope: float = 0.0,
    loss: str = "square",
    until: float | None = None,
) -> Skeleton:
    """The γ → 0 limit of a draw's loss staircase in τ = t/ln(1/γ), from runs at 1e-20, 1e-40 and 1e-80.

    Args:
        dataset: scalar targets.
        width: of the two-layer network.
        seed: of its weights, the same at every scale.
        slope: α.
        loss: "square", "logistic" or "exponential".
        until: how far to look in τ; by default until the longest run rests, or 64 early escapes have passed.

    Raises:
        ValueError: several outputs, arguments out of range, a start from which nothing grows.

    >>> import biasfree as bf
    >>> result = skeleton(bf.datasets.orthogonal_pair(), width=40)
    >>> [round(float(x), 3) for x in result.levels], [round(float(x), 1) for x in result.taus]
    ([0.5, 0.25, 0.0], [0.9, 1.8])
    """
    neurons = checks.count(width, "width")
    if dataset.outputs != 1:
        raise ValueError(f"the skeleton is defined for scalar targets, got {dataset.outputs} outputs.")
    start = Network.init([dataset.dim, neurons, 1], slope, 1.0, seed=checks.count(seed, "seed", least=0))
    groups = gather(early_flow(start, dataset, loss))
    if not groups:
        raise ValueError("no neuron grows from this start: every one is inactive on all samples or shrinks.")
    furthest = _LONGEST / groups[0].rate if until is None else checks.positive(until, "until")
    staircases = []
    for scale in SCALES:
        run = _run(start, scale, dataset, loss, furthest, _LONG / groups[0].rate if until is None else furthest)
        staircases.append(plateaus(run))
    return _compared(tuple(staircases), dataset, loss)


def _run(start: Network, scale: float, dataset: Dataset, loss: str, furthest: float, tau: float) -> Any:
    """A run that is long enough: twice as long until it waits for half its time, or to ``furthest``."""
    small = start.with_weights([scale * np.asarray(layer) for layer in start.weights])
    while True:
        # A fit is followed until it is one.
        fitted = _FITTED * float(np.mean(_point_losses.value(loss, np.zeros(dataset.samples), dataset.targets)))
        run = dynamics.gradient_flow(small, dataset, loss=loss, until=tau * np.log(1 / scale), stop=fitted)
        waited = np.interp(0.5 * run.times[-1], run.times, run.losses) - run.losses[-1]
        if tau >= furthest or run.status.name == "loss level" or waited < 1e-3 * (run.losses[0] - run.losses[-1]):
            return run
        tau = min(2 * tau, furthest)


def _compared(staircases: tuple[Plateaus, ...], dataset: Dataset, loss: str) -> Skeleton:
    first = float(staircases[-1].levels[0]) if len(staircases[-1]) else float("nan")
    lists = [list(staircase) for staircase in staircases]
    agreed = 0
    while all(len(staircase) > agreed for staircase in lists):
        levels = [staircase[agreed].level for staircase in lists]
        if max(levels) - min(levels) > _SAME_LEVEL * first:
            break
        agreed += 1
    logs = np.log(1 / np.array(SCALES))
    drops = tuple(_drop(lists, k, logs) for k in range(1, agreed))
    longest = max(map(len, lists))
    exists, change = agreed == longest, ""
    if not exists:
        shown = ", ".join(
            f"{scale:g}: {staircase[agreed].level:.4g}" if len(staircase) > agreed else f"{scale:g}: none"
            for scale, staircase in zip(SCALES, lists, strict=True)
        )
        change = (
            f"Plateau {agreed + 1} is not the same at all scales (loss at {shown}): a basin of sleepers has emptied "
            "between them, and there is no limit beyond this point for this draw."
        )
    subject = f"{staircases[-1].trajectory.template} on {dataset.name}, {loss} loss"
    return Skeleton(first, drops, exists, change, SCALES, staircases, subject)


def _drop(lists: "list[list[Plateau]]", k: int, logs: np.ndarray) -> Drop:
    """Half way from plateau k − 1 to plateau k at each scale, and in the limit."""
    times = np.array([0.5 * (staircase[k - 1].end + staircase[k].begin) for staircase in lists])
    taus = times / logs
    # t = τ∞ ln(1/γ) + c: two starts give the slope.
    near, far = np.diff(times) / np.diff(logs)
    before, after = lists[-1][k - 1].directions, lists[-1][k].directions
    born = tuple(
        one
        for one in after
        if not any(one.sign == other.sign and float(one.direction @ other.direction) > 0.95 for other in before)
    )
    return Drop(float(far), float(abs(far - near)), tuple(taus.tolist()), lists[-1][k].level, born)
