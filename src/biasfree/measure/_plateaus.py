"""Every plateau of a run, explained, and its end predicted.

How a run is cut stands in ``_cutting``, what awake neurons compute in ``_awake``, and what sleeping neurons will do in
``_waking``, of several outputs also what grows in awake ones (``_inner_growth``). The explanation is for two layers; of
any other network the plateaus, their levels and how linear the function is there are still reported.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from biasfree.measure import _awake, _story
from biasfree.measure._awake import ActiveDirection
from biasfree.measure._cutting import SHOULDER, VISIBLE, Cut, cut
from biasfree.measure._ending import ending
from biasfree.measure._inner_growth import Part
from biasfree.measure._linearity import linearity
from biasfree.measure._reasons import NOT_EXPLAINED, Reason, reason
from biasfree.measure._samples import Samples
from biasfree.networks import Network
from biasfree.shown import Shown
from biasfree.theory import Gathering

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# How closely begin and end are placed, relative to the time.
_CLOSE = 1e-2


@dataclass(frozen=True, eq=False)
class Plateau:
    """One wait of the loss.

    Attributes:
        begin, end: flow times at which it is reached and left; ``end`` is infinite if the run ends on it.
        level: the loss where it is slowest.
        slowest: when that is.
        fall: how far the loss falls in the transition after it, 0 if the run ends on it.
        nonlinearity: root mean square of f(x) − Mx over the samples and their mirror images, relative to f's; 0 where
            the function is linear.
        linear_map: M by least squares.
        directions: what awake neurons point to, the largest first. For two layers they are groups that act as one
            neuron; else the singular directions of the first layer.
        networks: for each linear network that the awake neurons make up, the samples it answers for; None where two
            overlap, or where there is no such description.
        asleep: number of sleeping neurons; None where not known.
        growth: gathering directions of the residuals with their rates, and which sleepers are in whose basin; None
            where not known.
        parts: for several outputs, directions in which awake neurons grow beside those they have, with their rates.
        predicted_end: from the early flow of the sleepers on the plateau's residuals, from ``begin`` on; infinite if
            no sleeper grows, NaN where nothing is predicted.
        predicted_by: "early flow" of the sleepers; "awake neurons alone", where these turn, or wake without a visible
            fall, and their own flow had to be followed; "linearised flow", where awake neurons grow in further
            directions (several outputs); "" where nothing ends it or nothing is predicted.
        reason: why it ends or does not.
    """

    begin: float
    end: float
    level: float
    slowest: float
    fall: float
    nonlinearity: float
    linear_map: Float[np.ndarray, "... dim"]
    directions: tuple[ActiveDirection, ...]
    networks: tuple[tuple[int, ...], ...] | None
    asleep: int | None
    growth: tuple[Gathering, ...] | None
    parts: tuple[Part, ...]
    predicted_end: float
    predicted_by: str
    reason: Reason

    @property
    def ends(self) -> bool:
        """Whether the run leaves it."""
        return math.isfinite(self.end)

    @property
    def prediction_error(self) -> float:
        """(predicted − measured)/measured end; 0 if neither ends, NaN where nothing is predicted or only one ends."""
        if math.isinf(self.predicted_end) and not self.ends:
            return 0.0
        both = math.isfinite(self.predicted_end) and self.ends
        return (self.predicted_end - self.end) / self.end if both else math.nan

    def __str__(self) -> str:
        """Its part of the story."""
        return _story.plateau(self)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and strings, ready for JSON; what is not finite is None."""
        return _story.as_dict(self)


@dataclass(frozen=True, eq=False)
class Plateaus(Shown):
    """All plateaus of a run, in order of time; a sequence.

    Attributes:
        plateaus: one by one.
        falling: whether the run ends while its loss still falls.
        until: the run's last time.
        init_scale: mean norm of the layers at the start.
        subject: what ran, in words.
        trajectory: the run.
    """

    plateaus: tuple[Plateau, ...]
    falling: bool
    until: float
    init_scale: float
    subject: str
    trajectory: "Trajectory"

    def __len__(self) -> int:
        """How many."""
        return len(self.plateaus)

    def __iter__(self) -> Iterator[Plateau]:
        """One by one."""
        return iter(self.plateaus)

    def __getitem__(self, index: int) -> Plateau:
        """The plateau of this number, from 0."""
        return self.plateaus[index]

    @property
    def levels(self) -> Float[np.ndarray, "plateaus"]:
        """Their losses."""
        return np.array([each.level for each in self.plateaus])

    @property
    def ends(self) -> Float[np.ndarray, "plateaus"]:
        """Their ends, infinite for one that the run does not leave."""
        return np.array([each.end for each in self.plateaus])

    @property
    def predicted_ends(self) -> Float[np.ndarray, "plateaus"]:
        """Their predicted ends."""
        return np.array([each.predicted_end for each in self.plateaus])

    def __str__(self) -> str:
        """A story to be read aloud."""
        return _story.story(self)

    def __repr__(self) -> str:
        """One line; ``print`` gives the whole description."""
        levels = ", ".join(f"{level:.3g}" for level in self.levels) or "none"
        return f"Plateaus({self.subject}: losses {levels})"

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and strings, ready for JSON; what is not finite is None."""
        return {
            "subject": self.subject,
            "until": self.until,
            "init_scale": self.init_scale,
            "falling": self.falling,
            "plateaus": [each.to_dict() for each in self.plateaus],
        }


def plateaus(trajectory: "Trajectory") -> Plateaus:
    """Cut a run into plateaus and transitions, explain each plateau and predict its end.

    The rule (docs/plateaus.md) has no knobs: a plateau is where the loss is at least five times slower than in the
    transitions on its sides, each of which takes at least a thousandth of the whole fall.

    Args:
        trajectory: flow or descent, any depth and loss, saved densely enough to show its transitions. Evenly spaced
            saves of a run with a long wait may not be; the solver's own (the default of ``gradient_flow``) are.

    Raises:
        ValueError: something else than a trajectory.

    >>> import biasfree as bf
    >>> start = bf.Network.init([2, 50, 1], slope=0.0, init_scale=1e-8, seed=0)
    >>> result = plateaus(bf.gradient_flow(start, bf.datasets.orthogonal_pair(), until=100))
    >>> result.levels.round(3) + 0.0
    array([0.5 , 0.25, 0.  ])
    >>> bool(abs(result.predicted_ends[:2] / result.ends[:2] - 1).max() < 0.02)
    True
    """
    if not isinstance(getattr(trajectory, "template", None), Network):
        raise ValueError(f"plateaus takes a Trajectory, got {type(trajectory).__name__}.")
    by_logarithm = trajectory.by_logarithm
    values = trajectory.log_losses if by_logarithm else trajectory.objectives()
    usable = np.isfinite(values)
    if not usable.all():
        raise ValueError("the run's losses are not all numbers, so it has no plateaus to find; see its status.")
    cuts, falling = cut(np.asarray(trajectory.times), np.asarray(values), trajectory.rounding)
    if trajectory.settings["clock"] == "time":
        cuts = [_placed(trajectory, values, each) for each in cuts]
    way: list[tuple[np.ndarray, float]] = []
    explained = tuple(_explained(trajectory, each, way) for each in cuts)
    start = trajectory.template
    scale = float(np.mean([_norm(np.asarray(layer)) for layer in start.weights]))
    subject = f"{start} on {trajectory.dataset.name}, {trajectory.settings['loss']} loss"
    return Plateaus(explained, falling, float(trajectory.times[-1]), scale, subject, trajectory)


def _placed(run: "Trajectory", values: np.ndarray, each: Cut) -> Cut:
    """Begin and end to a thousandth of the time, by integrating again where saved times are too far apart."""
    samples, decay = Samples.of(run), run.settings["weight_decay"]

    def value(t: float) -> float:
        network = run.at(t)
        norm = sum(float(np.sum(np.asarray(layer) ** 2)) for layer in network.weights)
        return samples.mean_loss(samples.outputs(network)) + 0.5 * decay * norm

    def placed(time: float, level: float) -> float:
        k = int(np.searchsorted(run.times, time))
        if not 0 < k < len(run.times) or run.times[k] - run.times[k - 1] < _CLOSE * time:
            return time
        low, high = float(run.times[k - 1]), float(run.times[k])
        if not values[k - 1] > level > values[k]:
            return time
        return float(brentq(lambda t: value(t) - level, low, high, xtol=_CLOSE * high / 10, rtol=_CLOSE / 10))

    end = placed(each.end, each.level - SHOULDER * each.after) if each.after else each.end
    begin = placed(each.begin, each.level + SHOULDER * each.before) if each.before else each.begin
    return replace(each, begin=begin, end=end)


def _norm(layer: np.ndarray) -> float:
    largest = float(np.abs(layer).max()) or 1.0
    return largest * float(np.linalg.norm(layer / largest))


def _explained(run: "Trajectory", each: Cut, way: list[tuple[np.ndarray, float]]) -> Plateau:
    """One plateau; its residuals and its duration are added to the way that neurons have come."""
    at = int(np.argmin(np.abs(run.times - each.slowest)))
    network, data = run.template.with_weights([layer[at] for layer in run.weights]), run.dataset
    linear = linearity(network, np.concatenate([data.inputs, -data.inputs]))
    level = float(run.losses[at])
    common = (each.begin, each.end, level, float(run.times[at]), each.after, linear.error, linear.linear_map)
    simple = network.depth == 2 and not any(network.skips) and all(network.rectified)
    if not simple or run.settings["clock"] == "loss":
        return Plateau(*common, _first_layer(network), None, None, None, (), math.nan, "", NOT_EXPLAINED)
    samples = Samples.of(run)
    sleeping = _awake.asleep(network, samples)
    groups = _awake.active_directions(network, ~sleeping, samples)
    least = VISIBLE * float(run.losses.max() - run.losses.min())
    networks, quiet = _awake.linear_networks(groups), int(sleeping.sum())
    try:
        future = ending(run, each, sleeping, least)
        why, growth = reason(future, each, run, way), future.waking.growth
    except ArithmeticError as undecided:
        why = Reason("not told", f"Its end is not predicted: {undecided}")
        return Plateau(*common, groups, networks, quiet, (), (), math.nan, "", why)
    if math.isfinite(each.end) and future.awake.stretches:
        way.append((future.awake.stretches[-1].residuals, each.end - sum(time for _, time in way)))
    return Plateau(*common, groups, networks, quiet, growth, future.parts, future.end, future.by, why)


def _first_layer(network: Network) -> tuple[ActiveDirection, ...]:
    """The singular directions of the first layer that are not negligible; of either sign."""
    first = np.asarray(network.weights[0])
    _, sizes, axes = np.linalg.svd(first / (np.abs(first).max() or 1.0), full_matrices=False)
    sizes = sizes * (np.abs(first).max() or 1.0)
    none = np.zeros(0, dtype=int)
    kept = sizes > 0.01 * sizes[0]
    return tuple(
        ActiveDirection(a, 0, np.zeros(0), float(s), none, none, False)
        for a, s in zip(axes[kept], sizes[kept], strict=True)
    )
