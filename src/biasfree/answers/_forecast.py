"""What will happen to a two-layer network on given data, foretold; three ways, from the most exact to the cheapest.

- **Condition 3** (or just what its proofs use): the network is its linear twin; Eq. 34's reduced flow is the course.
- **Few lines**: the early phase is followed in closed form with all its switches. By its end the neurons have gathered
  in a few directions; parallel ones act as one, and the flow of that small network is the course of the large one.
- **Many lines**: a neuron of w₂ > 0 settles where r = c/‖c‖ with c = aβ + bB(r), one of w₂ < 0 where −r does with
  aβ − bB; how far these two fixed points are apart says how far from linear the network begins. On the plateau of the
  linear solution the neurons still small see its residuals e, and grow at the rate max_r |⟨eσ(rᵀx)⟩|, sought on some
  thousand samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.dynamics import Trajectory, gradient_flow
from biasfree.lines import lines
from biasfree.networks import Network

# A network counts as linear while its outputs are, up to this part of their own or of the targets' size.
LINEAR = 0.1
# And while its loss is not below what the best linear map reaches, by more than this part of the first loss.
BELOW = 0.03
# The linear solution counts as sat at if the network leaves it no sooner than so many escape times.
SITS = 1.5
# Groups of neurons whose responses overlap by less are networks by themselves.
APART = 0.05
# The output's size, as part of the targets', up to which the early phase is trusted; which neurons count as parallel.
_EARLY, _PARALLEL = 3e-3, 1e-2
_FEW_LINES, _HORIZON, _SAVED, _SEARCHED = 64, 30.0, 400, 3000


@dataclass(frozen=True)
class Forecast:
    """The course of one start.

    Attributes:
        how: "exact", "reduced network" or "fixed points".
        escape_time: when half of what the linear solution gains is gained; of order ln(1/γ)/rate.
        departure_time: when the network stops being linear, by its outputs or by its loss; None if it never does, as
            far as was looked.
        nonlinearity: size of what is not linear in the outputs, at its largest while the linear solution is sat at.
        count: number of linear networks the network acts as; None where that is no description.
        times, losses: the learning curve; empty where it is not foretold.
    """

    how: str
    escape_time: float
    departure_time: float | None
    nonlinearity: float
    count: int | None
    times: Float[np.ndarray, "times"]
    losses: Float[np.ndarray, "times"]

    @property
    def verdict(self) -> str:
        """In the words of the title's question."""
        if self.departure_time is None:
            return "linear"
        if self.departure_time >= SITS * self.escape_time:
            return "linear until"
        return "several linear networks" if self.count is not None and self.count > 1 else "nonlinear"


@dataclass(frozen=True)
class Levels:
    """Losses to read a course by: at f = 0, and the least of a linear map."""

    first: float
    linear: float

    @property
    def gained(self) -> float:
        """Half of the linear solution's gain is made."""
        return 0.5 * (self.first + self.linear)

    @property
    def left(self) -> float:
        """No linear map is that good."""
        return self.linear - BELOW * self.first


def forecast(start: Network, dataset: Dataset, loss: str, asymmetry: theory.Asymmetry, levels: Levels) -> Forecast:
    """Foretell the course of a start.

    Args:
        start: two layers, one output.
        dataset: scalar targets.
        loss: "square" or "logistic".
        asymmetry: of the data.
        levels: of the loss.
    """
    if start.is_linear or max(asymmetry.correlation.upper, asymmetry.covariance.upper) < 1e-9:
        return _exact(start, dataset, loss, levels)
    if len(lines(dataset.inputs)) <= _FEW_LINES:
        return _reduced(start, dataset, loss, levels)
    return _fixed_points(start, dataset, loss, asymmetry.covariance.typical)


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


def read_off(
    run: Trajectory, dataset: Dataset, levels: Levels, begun: float = 0.0
) -> tuple[float, float | None, float]:
    """Escape time, departure time and nonlinearity of a simulated run that began at ``begun``.

    The nonlinearity is the largest before the departure if the linear solution is sat at, else of the whole run.
    """
    mirrored = np.concatenate([dataset.inputs, -dataset.inputs])
    outputs = np.array([np.asarray(network(mirrored)) for network in run.networks])
    bent = nonlinearity(outputs, dataset)
    times = run.times + begun
    escaped = passing(times, -run.losses, -levels.gained)
    leaving = [t for t in (passing(times, bent, LINEAR), passing(times, -run.losses, -levels.left)) if t is not None]
    left = min(leaving, default=None)
    escape = np.inf if escaped is None else escaped
    until = len(times)
    if left is not None and left >= SITS * escape:
        until = max(1, int(np.searchsorted(times, left)))
    return escape, left, float(bent[:until].max())


def _exact(start: Network, dataset: Dataset, loss: str, levels: Levels) -> Forecast:
    aligned = theory.aligned_start(start, dataset, loss)
    rate_time = theory.escape_time(min(aligned.norm, 0.5), aligned.rate)
    times = np.linspace(0, 4 * rate_time, _SAVED + 1)
    slope = 1.0 if start.is_linear else start.slope
    if loss == "square":
        course = theory.reduced_flow(
            times, dataset.covariance, dataset.correlation, aligned.direction, aligned.norm, slope
        )
    else:
        course = theory.reduced_flow_logistic(times, dataset, aligned.direction, aligned.norm, slope)
    curve = theory.linear_loss(course, dataset, loss)
    escaped = passing(times, -curve, -levels.gained)
    return Forecast("exact", rate_time if escaped is None else escaped, None, 0.0, 1, times, curve)


def _reduced(start: Network, dataset: Dataset, loss: str, levels: Levels) -> Forecast:
    early = theory.early_flow(start, dataset, loss)
    groups = theory.gather(early)
    if not groups:
        return Forecast("reduced network", np.inf, None, 0.0, 0, np.zeros(0), np.zeros(0))
    target = _EARLY * np.sqrt(np.mean(dataset.targets**2))

    def negligible(time: float) -> bool:
        return bool(np.abs(np.asarray(early.at(time)(dataset.inputs))).max() < target)

    low, high = 0.0, 1 / groups[0].rate
    while negligible(high):
        low, high = high, 2 * high
    for _ in range(30):
        between = 0.5 * (low + high)
        low, high = (between, high) if negligible(between) else (low, between)
    few = merged(early.at(low), _PARALLEL)
    scale = max(theory.escape_time(min(start_norm(start), 0.5), groups[0].rate), low)
    run = gradient_flow(
        few, dataset, loss=loss, until=_HORIZON * scale, save=_SAVED, rtol=1e-4, method="bosh3", max_steps=300_000
    )
    escaped, left, bent = read_off(run, dataset, levels, low)
    stairs = theory.several_linear_networks(start, dataset, loss)
    count = stairs.linear_networks if stairs.coupling < APART else None
    first = theory.linear_loss(np.zeros(dataset.dim), dataset, loss)
    return Forecast(
        "reduced network",
        escaped,
        left,
        bent,
        count,
        np.concatenate([[0.0], low + run.times]),
        np.concatenate([[first], run.losses]),
    )


def start_norm(start: Network) -> float:
    """About the size a random start's growing part has: half of either layer's square."""
    return float(np.sqrt(0.5 * sum(np.sum(np.asarray(w) ** 2) for w in start.weights) / 2))


def merged(network: Network, tolerance: float) -> Network:
    """One neuron for all whose (w, w₂) are parallel within ``tolerance``: its square is the sum of theirs.

    Parallel neurons stay parallel and act as one. Neurons of no size fill up to a power of two, so that few shapes are
    compiled.
    """
    first, second = (np.asarray(w) for w in network.weights)
    joined = np.column_stack([first, second[0]])
    size = np.linalg.norm(joined, axis=1)
    order = np.argsort(-size)
    units = joined / np.maximum(size, 1e-300)[:, None]
    found: list[np.ndarray] = []
    left = order[size[order] > 0]
    while left.size:
        same = units[left] @ units[left[0]] > 1 - 0.5 * tolerance**2
        found.append(units[left[0]] * np.linalg.norm(size[left[same]]))
        left = left[~same]
    rows = np.zeros((max(8, 1 << (len(found) - 1).bit_length()), joined.shape[1]))
    rows[: len(found)] = found
    return Network([rows[:, :-1], rows[None, :, -1]], network.slope)


def _fixed_points(start: Network, dataset: Dataset, loss: str, uneven: float) -> Forecast:
    inputs, targets = dataset.inputs, dataset.targets
    a = 0.5 * (1 + start.slope)
    pull = 1.0 if loss == "square" else 0.5
    up, down = (_settled(inputs, targets, pull, a, sign) for sign in (1.0, -1.0))
    rate = max(float(np.linalg.norm(up)), float(np.linalg.norm(down)))
    split = float(np.linalg.norm(up - down)) / max(float(np.linalg.norm(up + down)), 1e-300)
    fitted = inputs @ theory.least_squares(dataset)
    # While they grow neurons are parted by B(r); once they meet each other's output, by Q(r).
    bent = max(split, (1 - a) / a * uneven) * min(1.0, float(np.sqrt(np.mean(fitted**2) / np.mean(targets**2))))
    escape = theory.escape_time(min(start_norm(start) / np.sqrt(2), 0.5), max(rate, 1e-300))
    nothing = np.zeros(0)
    if bent > LINEAR:
        return Forecast("fixed points", escape, escape, bent, None, nothing, nothing)
    departure = None
    if loss == "square":
        few = np.random.default_rng(0).permutation(dataset.samples)[:_SEARCHED]
        growth = fastest_growth(inputs[few], (targets - fitted)[few], a)
        # One neuron's size, not the layer's: it is single neurons that are left small.
        small = start_norm(start) / np.sqrt(start.widths[1])
        if growth > 1e-9 * rate:
            departure = escape + theory.escape_time(min(small, 0.5), growth)
    return Forecast("fixed points", escape, departure, bent, 1, nothing, nothing)


def _settled(inputs: np.ndarray, targets: np.ndarray, pull: float, a: float, sign: float) -> np.ndarray:
    """C at the fixed point r = c/‖c‖, c = κ(aβ ± bB(r)), reached from β."""
    weighted = pull * targets[:, None] * inputs / len(targets)
    drift = a * weighted.sum(axis=0)
    c = drift
    for _ in range(100):
        new = drift + sign * (1 - a) * (np.sign(inputs @ c) @ weighted)
        if np.linalg.norm(new - c) <= 1e-9 * np.linalg.norm(new):
            break
        # Half steps: a full one may swing between two cells for ever.
        c = 0.5 * (c + new)
    return c


def fastest_growth(inputs: np.ndarray, residuals: np.ndarray, a: float, starts: int = 16, seed: int = 0) -> float:
    """The largest |⟨eσ(rᵀx)⟩| that climbing from random directions finds; r may not be told from a local one."""
    rng = np.random.default_rng(seed)
    weighted = residuals[:, None] * inputs / len(residuals)
    drift = a * weighted.sum(axis=0)
    best = 0.0
    for sign in (1.0, -1.0):
        directions = rng.normal(size=(starts, inputs.shape[1]))
        for _ in range(60):
            directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
            gradient = drift + (1 - a) * np.sign(directions @ inputs.T) @ weighted
            best = max(best, float((sign * np.sum(gradient * directions, axis=1)).max()))
            size = np.linalg.norm(gradient, axis=1, keepdims=True)
            directions = directions + sign * 0.5 * gradient / np.maximum(size, 1e-300)
    return best


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that are there."""
    there = [v for v in values if v is not None and np.isfinite(v)]
    return float(np.median(there)) if there else None
