"""The law of departure: when a network leaves the linear solution of almost symmetric data, and who can leave.

The plateau's residuals r (``_half_spaces``) have no part that the awake groups could still use. A sleeping neuron of
direction u sees G(u) = ⟨r σ(uᵀx)⟩ and grows at |G(u)| − λ at its extrema. Under Condition 3 all of it vanishes, and
near it G is of first order in the asymmetry, so that the plateau's length goes as 1/δ.

**Time.** A sleeper of size γ grows at some rate k until the escape at t₀ ≈ ln(1/γ)/ρ₀, often at k ≤ 0, and at ρ from
then on: t ≈ t₀ + (ln(1/γ) − k t₀)/ρ + …, hence dt/d ln(1/γ) = 1/ρ₀ + (1 − k/ρ₀)/ρ for a single kind of sleepers.
Several kinds compete (``_competition``), and often none of them leaves without another.

**Who.** Where an awake group rests, the pull ⟨r σ' x⟩ of its cell is λ times its direction and no more: a sleeper there
does not grow. Only sleepers that the early phase has left in other cells do. Random neurons are followed through the
early phase to t₀ and then on r, both exactly; their share p gives the chance (1 − p)^width that nobody leaves.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.theory import _point_losses
from biasfree.theory._asymmetry import Bound
from biasfree.theory._competition import Competition, competition
from biasfree.theory._early_flow import EarlyFlow, early_flow
from biasfree.theory._extrema import Extremum, extrema
from biasfree.theory._gathering import gather
from biasfree.theory._half_spaces import HalfSpaces, half_spaces

# Rates below this share of what the residuals could pull with are zero.
_NO_RATE = 1e-9
# Net rates of an awake group's own direction below this share of the decay are what rounding leaves of zero.
_ZERO = 1e-4
_FEW_LINES, _DRAWN, _DRAWN_FEW, _LARGE = 20, 2000, 8000, 1e10
# Of more kinds of sleepers than this the rarest are left out.
_KINDS = 5
# Cosine to the awake group's direction from which on a neuron belongs to it.
_JOINED = 0.9
# How far below the linear solution's loss it must go to have left it, as a share of the first loss.
BELOW = 0.03


class Leaver(NamedTuple):
    """Sleepers that gather and grow in one direction of the plateau's residuals.

    Attributes:
        direction: where they gather.
        sign: of v.
        rate: ρ − λ, at which they grow on the plateau.
        early_rate: k, at which they have grown until the escape.
        share: of all neurons drawn.
        needed: whether the linear solution is not left without them.
    """

    direction: Float[np.ndarray, "dim"]
    sign: int
    rate: float
    early_rate: float
    share: float
    needed: bool


@dataclass(frozen=True, eq=False)
class Departure:
    """When and how the linear solution is left; see ``departure``.

    Attributes:
        rate: the largest rate of growth on the plateau, net of weight decay, with its direction: exact in one and two
            dimensions, an interval in more; 0 if nothing grows.
        growing: all directions that grow, with the sign of v and the net rate.
        escape_rate: ρ₀, at which the awake groups grew.
        escape_time: t₀.
        linear_map: w of the linear solution, and ``linear_loss`` its loss.
        level: the loss on the plateau, at or below ``linear_loss``.
        leavers: kinds of sleepers that grow on the plateau, the fastest first.
        time: when the linear solution is left, its loss passed by 3 % of the first loss, by those kinds that a network
            of this width most probably has; infinite if it is not.
        per_e_fold: dt/d ln(1/γ): how much later for every e-fold of a smaller start; NaN if it is not left.
        companies: the sets of kinds that leave together, as masks over ``leavers``; without one of them it is not left.
        init_scale, width, weight_decay: what was asked.
        settled: whether the awake groups stay in their cells; if not, the residuals are an approximation.
        drawn: how many random neurons were followed.
        reason: why nobody leaves, "" if somebody does.
    """

    rate: Bound
    growing: tuple[Extremum, ...]
    escape_rate: float
    escape_time: float
    linear_map: Float[np.ndarray, "dim"]
    linear_loss: float
    level: float
    leavers: tuple[Leaver, ...]
    time: float
    per_e_fold: float
    companies: tuple[tuple[bool, ...], ...]
    init_scale: float
    width: int
    weight_decay: float
    settled: bool
    drawn: int
    reason: str

    @property
    def asymmetry(self) -> float:
        """ρ/ρ₀, without units: the plateau is about 1/asymmetry times as long as the escape."""
        return self.rate.lower / self.escape_rate if self.escape_rate else np.nan

    def stays(self, width: int) -> float:
        """The chance that a network of this width never leaves: that the sleepers it takes are not all there."""
        count = checks.count(width, "width")
        return 1 - sum(_chance(company, self.leavers, count) for company in self.companies)

    def __str__(self) -> str:
        """The law in words."""
        rows = [f"linear solution, loss {self.linear_loss:.6g}: the plateau is at {self.level:.6g}"]
        rows.append(f"growth on it at most {_shown(self.rate)}; escape at rate {self.escape_rate:.4g}")
        for each in self.leavers:
            rows.append(f"{each.share:.2%} of neurons sleep where they grow at rate {each.rate:.4g}")
        if np.isfinite(self.time):
            never = self.stays(self.width)
            rows.append(
                f"left at t ≈ {self.time:.4g} from init scale {self.init_scale:g}, {self.per_e_fold:.4g} later for "
                f"every e-fold below; with probability {never:.2g} never at width {self.width}"
            )
            if never > 0.5:
                rows.append("most draws lack the sleepers that it takes, and never leave")
        else:
            rows.append(f"never left: {self.reason}")
        return "\n".join(rows)

    __repr__ = __str__


def _chance(company: tuple[bool, ...], kinds: Sequence[Leaver], width: int) -> float:
    """The probability that just these kinds are there among so many neurons."""
    missing = (1 - np.array([kind.share for kind in kinds])) ** width
    return float(np.prod(np.where(company, 1 - missing, missing)))


def _shown(bound: Bound) -> str:
    return f"{bound.lower:.4g}" if bound.exact else f"{bound.lower:.4g} (certainly below {bound.upper:.4g})"


def departure(
    dataset: Dataset,
    slope: float = 0.0,
    loss: str = "square",
    init_scale: float = 1e-3,
    *,
    weight_decay: float = 0.0,
    width: int = 100,
    seed: int = 0,
) -> Departure:
    """Rate, time law and candidates of the departure from the linear solution, without simulation.

    For data that are nearly symmetric (Condition 3 up to a perturbation δ): ρ ∝ δ and the time goes as ln(1/γ)/ρ.

    Args:
        dataset: scalar targets; ±1 for the logistic loss, and not linearly separable unless there is decay.
        slope: α in [0, 1).
        loss: "square", "logistic" or "exponential".
        init_scale: γ, norm of each layer at the start.
        weight_decay: λ; rates fall by it, and the residuals are those of the regularised solution.
        width: of the network, which sets the size of its neurons.
        seed: of the neurons drawn, and of the search in three and more dimensions.

    Raises:
        ValueError: several outputs, slope 1, arguments out of range, no correlation, separable labels without decay.

    >>> from biasfree import datasets
    >>> law = departure(datasets.six_points(offset=0.02), init_scale=1e-6)
    >>> round(law.rate.lower / 0.02, 3), law.rate.exact
    (0.112, True)
    >>> departure(datasets.symmetric_gaussian(dim=3, pairs=20, seed=0)).time
    inf
    """
    alpha, scale = checks.slope(slope), checks.positive(init_scale, "init_scale")
    decay, neurons = checks.non_negative(weight_decay, "weight_decay"), checks.count(width, "width")
    if alpha == 1:
        raise ValueError("a linear network (slope 1) never departs from linearity; use a slope below 1.")
    if dataset.outputs != 1:
        raise ValueError(f"the law of departure is known for scalar targets, got {dataset.outputs} outputs.")
    losses.get(loss).check_targets(dataset.targets)
    if not np.linalg.norm(dataset.correlation):
        raise ValueError("the data have no input-output correlation (β = 0): there is no linear solution to leave.")
    rest = half_spaces(dataset, alpha, loss, decay)
    growing, rate = _growth(dataset, rest, alpha, decay, seed)
    # Neurons of the size they have in a network of this width; where there are few lines each is quickly followed.
    drawn = _DRAWN_FEW if len(lines(dataset.inputs)) <= _FEW_LINES else _DRAWN
    early = _drawn_neurons(dataset, alpha, loss, drawn, seed).scaled(scale * np.sqrt(drawn / neurons))
    awake, escape_rate, escape_time = _escape(early, dataset, neurons / drawn, decay, losses.get(loss).initial_pull)
    first_loss = float(np.mean(_point_losses.value(loss, np.zeros(dataset.samples), dataset.targets)))
    fall = rest.loss - rest.linear_loss + BELOW * first_loss
    kinds, rival = _kinds(early, awake, escape_time, dataset, rest, neurons, decay)
    companies: tuple[tuple[bool, ...], ...] = ()
    time, later, reason = np.inf, np.nan, _NO_GROWTH if not growing else _nobody(drawn, kinds)
    if kinds:
        sets = (company for company in itertools.product((False, True), repeat=len(kinds)) if any(company))
        falls = {company: rival.time_of_fall(fall, np.array(company)) for company in sets}
        companies = tuple(company for company, after in falls.items() if np.isfinite(after))
        needed = np.all(companies, axis=0) if companies else np.zeros(len(kinds), dtype=bool)
        kinds = [kind._replace(needed=bool(one)) for kind, one in zip(kinds, needed, strict=True)]
    if companies:
        # Those that a network of this width most probably has.
        likely = max(companies, key=lambda company: _chance(company, kinds, neurons))
        after = falls[likely]
        # Sizes at the escape fall with the scale, the escape comes later.
        shift = np.array([2 * (kind.early_rate / escape_rate - 1) for kind in kinds])
        later = 1 / escape_rate + rival.time_of_fall(fall, np.array(likely), shift) - after
        time, reason = escape_time + after, ""
    return Departure(
        rate, growing, escape_rate, escape_time, rest.linear_map, rest.linear_loss, rest.loss, tuple(kinds), time,
        float(later) if np.isfinite(time) else np.nan, companies, scale, neurons, decay, rest.settled, drawn, reason,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _drawn_neurons(dataset: Dataset, slope: float, loss: str, drawn: int, seed: int) -> EarlyFlow:
    """The early flow of random neurons from scale one; laws of one data set over scales and decays share it."""
    return early_flow(Network.init([dataset.dim, drawn, 1], slope, 1.0, seed=seed), dataset, loss)


def departure_threshold(dataset: Dataset, slope: float = 0.0, loss: str = "square") -> float:
    """The weight decay λ at and above which no direction grows on the plateau: max_u |G_λ(u)| − λ = 0.

    G_λ is that of the residuals of the regularised plateau, which differ from the unregularised ones by first order in
    λ; the threshold is therefore not ρ(0), but the root of ρ(λ) = λ. Where it takes several kinds of sleepers to leave,
    that ends at a smaller λ already, which ``departure`` knows: beside the kinds that rest the others shrink.

    Raises:
        ValueError: as ``departure``.
    """
    alpha = checks.slope(slope)

    def net(decay: float) -> float:
        growing, _ = _growth(dataset, half_spaces(dataset, alpha, loss, decay), alpha, decay, 0)
        return growing[0].rate if growing else -1.0

    unregularised = net(0.0)
    if unregularised <= 0:
        return 0.0
    low, high = 0.0, unregularised
    while net(high) > 0:
        low, high = high, 2 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if net(middle) > 0 else (low, middle)
    return high


def _growth(
    dataset: Dataset, rest: HalfSpaces, slope: float, decay: float, seed: int
) -> tuple[tuple[Extremum, ...], Bound]:
    """The directions that grow on the plateau, those of the awake groups left out, and the largest net rate."""
    maxima, bound = extrema(dataset, rest.residuals, slope, seed)
    reach = float(np.mean(np.abs(dataset.targets) * np.linalg.norm(dataset.inputs, axis=1)))
    none = _NO_RATE * reach
    kept = []
    for each in maxima:
        net = each.rate - decay
        if net > none and not (_of_awake(each.direction, each.sign, rest) and net < _ZERO * max(decay, none)):
            kept.append(each._replace(rate=net))
    best = kept[0] if kept else None
    lower = best.rate if best else 0.0
    upper = lower if bound.exact else max(bound.upper - decay, lower)
    direction = best.direction if best else bound.direction
    return tuple(kept), Bound(lower, upper, direction, bound.exact or upper == lower, np.nan)


def _of_awake(direction: np.ndarray, sign: int, rest: HalfSpaces) -> bool:
    """Whether this is an awake group's own direction: an extremum too, whose net rate is zero up to rounding."""
    own = rest.maps[0] if sign > 0 else -rest.maps[1]
    return bool(direction @ own >= (1 - 1e-9) * np.linalg.norm(own))


def _escape(
    early: EarlyFlow, dataset: Dataset, share: float, decay: float, pull: float
) -> tuple[np.ndarray, float, float]:
    """The neurons that wake first, of either sign, their rate, and when the later of the two groups has grown."""
    awake, rates, times = np.zeros(len(early.rate), dtype=bool), [], []
    curvature = 0.25 if pull == 0.5 else 1.0
    gathered = gather(early)
    for sign in (1, -1):
        groups = [group for group in gathered if group.sign == sign and group.rate > decay]
        if groups:
            group = groups[0]
            awake[group.neurons] = True
            reach = dataset.inputs @ group.direction
            response = np.maximum(reach, early.network.slope * reach)
            size = np.logaddexp.reduce(2 * early.log_amplitude[group.neurons]) + np.log(share)
            grown = np.log(0.5 * (group.rate - decay) / (curvature * np.mean(response**2)))
            rates.append(group.rate - decay)
            times.append((grown - size) / (2 * (group.rate - decay)))
    if not rates:
        raise ValueError("no neuron grows from a small start: weight decay is too strong, or the data give no pull.")
    return awake, max(rates), max(*times, 0.0)


def _kinds(
    early: EarlyFlow, awake: np.ndarray, escape: float, dataset: Dataset, rest: HalfSpaces, width: int, decay: float
) -> tuple[list[Leaver], Competition]:
    """The kinds of sleepers that are there at the escape and grow on the plateau, and how they compete."""
    state = early.at(escape, _LARGE)
    # Some that will join the awake groups have not yet done so, and may do something else now.
    joined = np.einsum("hd,hd->h", np.asarray(state.weights[0]), early.limit_direction)
    awake = awake & (joined > _JOINED * np.linalg.norm(np.asarray(state.weights[0]), axis=1))
    sizes = [_log_sizes(network) for network in (early.network, state)]
    flow = early_flow(state, Dataset(dataset.inputs, rest.residuals))
    reach = float(np.mean(np.abs(dataset.targets) * np.linalg.norm(dataset.inputs, axis=1)))
    kinds, logs = [], []
    for group in gather(flow):
        members = group.neurons[~awake[group.neurons]]
        rate = group.rate - decay
        # One that shrinks by itself under decay may grow beside another.
        if not members.size or group.rate <= max(_NO_RATE * reach, 0.5 * decay):
            continue
        if abs(rate) < _ZERO * decay and _of_awake(group.direction, group.sign, rest):
            continue
        share = len(members) / len(awake)
        k = float(np.median(sizes[1][members] - sizes[0][members])) / escape if escape else 0.0
        # Of a middling one, or of as many as the width has; decay has worked on all of them until the escape.
        own = 2 * np.median(flow.log_amplitude[members]) + np.log(max(1.0, share * width)) - 2 * decay * escape
        kinds.append(Leaver(group.direction, group.sign, rate, k - decay, share, False))
        logs.append(float(own))
    kept = sorted(np.argsort([-kind.share for kind in kinds])[:_KINDS].tolist())
    kinds, logs = [kinds[k] for k in kept], [logs[k] for k in kept]
    met = dataset.inputs @ np.array([kind.direction for kind in kinds]).reshape(-1, dataset.dim).T
    responses = np.maximum(met, early.network.slope * met).T
    signs = np.array([float(kind.sign) for kind in kinds])
    rival = competition(responses, signs, np.array(logs), rest.residuals, rest.curvature, rest.columns, decay)
    return kinds, rival


def _log_sizes(network: Network) -> np.ndarray:
    """ln of the larger of ‖w‖ and |v|, neuron by neuron."""
    first, second = (np.asarray(layer) for layer in network.weights)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.abs(first).max(axis=1), np.abs(second[0]))))


_NO_GROWTH = (
    "no direction has a positive growth rate on the residuals of the plateau, so that no sleeper grows, wherever "
    "it is; without decay no two-layer network of any width does better"
)


def _nobody(drawn: int, kinds: Sequence[Leaver]) -> str:
    if kinds:
        others = "shrink under weight decay" if any(kind.rate < 0 for kind in kinds) else "are missing"
        return (
            f"of {drawn} random neurons some still grow when the linear solution is reached, but they find only a "
            f"little to learn beside the awake groups, and those that would go on with them {others}"
        )
    return (
        f"there are growing directions, but of {drawn} random neurons none is in their basins when the linear solution "
        "is reached: the early phase has brought all of them into the cells of the awake groups, where ⟨r σ' x⟩ is "
        "zero, or out of sight of all samples"
    )
