"""What no bias-free network can fit: the least loss that any width can reach.

Write each sample as x_i = t_i d_l on its line l. A network without biases is linear along each ray, f(td) = t p for
t > 0 and |t| q for t < 0, so samples share the two numbers (p_l, q_l) of their line.

- **Deep** networks (three layers or more, α < 1): every p_l, q_l can be had (``_networks_on_rays``). The least loss
  is one problem in one unknown per ray.
- **Two layers** (α < 1): Theorem 1 ties the odd halves together, (p_l − q_l)/2 = wᵀd_l with one w for all lines, and
  leaves the even halves g_l = (p_l + q_l)/2 free. For the square loss, with S± = Σt², M± = Σ|t|y over the two sides
  of a line, the rays' own optima are p* = M₊/S₊, q* = M₋/S₋; for a given w the best g_l costs, on top of the deep
  optimum,

      (1/2P) Σ_l A_l (wᵀd_l − (p*_l − q*_l)/2)²,   A_l = 4S₊S₋/(S₊ + S₋),

  a least-squares problem in w alone. Lines with samples on one side only are free.
- **Linear** networks (α = 1, or one layer): ordinary least squares.

Logistic and exponential losses have no closed form: see ``_best_margin_loss``; nor has cross-entropy: see
``_best_class_loss``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.lines import TOLERANCE, Lines, lines
from biasfree.networks import Network
from biasfree.theory import _best_class_loss, _best_margin_loss, _networks_on_rays, _point_losses
from biasfree.theory._expressivity import ParityForm


@dataclass(frozen=True)
class BestLoss:
    """The least loss that bias-free networks of some depth and slope can reach on a data set, whatever their width.

    Attributes:
        loss: its value.
        attained: whether a network reaches it; logistic, exponential and cross-entropy loss may be approached only.
        outputs: f(x_i) of the minimiser, shape (samples,) or (samples, outputs); infinite where a margin may grow
            for ever.
        per_sample: each sample's own share; their mean is ``loss``.
        linear_map: the minimiser's linear map w (two layers and linear networks), shape (dim,) or (outputs, dim).
        samples_off: indices of the samples that are not fitted, the worst first.
        gap: no network is below ``loss − gap``, proved by a dual solution; 0 for the square loss, which is solved in
        closed
            form, and None where there is no such proof (logistic and exponential loss).
        dataset, depth, slope: what was asked.
    """

    loss: float
    attained: bool
    outputs: Float[np.ndarray, "samples ..."]
    per_sample: Float[np.ndarray, "samples"]
    linear_map: Float[np.ndarray, "... dim"] | None
    dataset: Dataset
    depth: int | str
    slope: float
    gap: float | None = None

    @property
    def samples_off(self) -> np.ndarray:
        """Samples with a loss of their own above rounding, the worst first."""
        paying = np.flatnonzero(self.per_sample > 1e-12 * max(1.0, self.per_sample.max()))
        return paying[np.argsort(-self.per_sample[paying], kind="stable")]

    def __float__(self) -> float:
        """The loss."""
        return self.loss

    def network(self) -> Network:
        """A network that attains the loss: two layers of 3·lines + 2·outputs neurons at most, or three layers if deep.

        Raises:
            ValueError: the loss is approached only.
        """
        if not self.attained:
            raise ValueError(
                "no network attains this loss: it is approached as margins grow. Square loss is always attained."
            )
        grouped = lines(self.dataset.inputs)
        outputs = self.outputs.reshape(self.dataset.samples, -1)
        if self.linear_map is None:
            return _networks_on_rays.deep(grouped, *_ray_slopes(grouped, outputs), self.slope)
        linear_map = np.atleast_2d(self.linear_map)
        even = _even_slopes(grouped, outputs - self.dataset.inputs @ linear_map.T)
        if self.slope == 1:
            return ParityForm(linear_map, np.zeros((0, self.dataset.dim)), np.zeros((len(linear_map), 0)), 0).network(
                1.0
            )
        return _networks_on_rays.two_layers(grouped, linear_map, even, self.slope)

    def __str__(self) -> str:
        """One sentence."""
        kind = (
            "linear"
            if self.slope == 1 or self.depth == 1
            else f"{'two-layer' if self.depth == 2 else 'deep'} bias-free"
        )
        share = f"; {len(self.samples_off)} of {self.dataset.samples} samples pay" if self.loss > 0 else ""
        where = f"loss {self.loss:.6g} on {self.dataset.name}{share}"
        return (
            f"no {kind} network can go below {where}"
            if self.attained
            else f"{kind} networks approach, but never reach, {where}"
        )


def best_possible_loss(
    dataset: Dataset, depth: int | str = 2, slope: float = 0.0, loss: str = "square", tolerance: float = TOLERANCE
) -> BestLoss:
    """The least loss that any bias-free network of this depth can reach on the data, whatever its width.

    Args:
        dataset: samples (samples, dim), scalar or vector targets.
        depth: number of layers; 2, or 3 and more, which is the same as ``"deep"``.
        slope: α; 1 asks about linear networks, every other slope gives the same answer.
        loss: "square", "logistic", "exponential" or "cross-entropy", for K outputs the sum or softmax over all of them.
        tolerance: samples whose unit vectors differ by less, up to sign, lie on one line.

    Returns:
        The loss with its minimiser; ``.network()`` builds a network that attains it.

    Raises:
        ValueError: an unknown depth or loss, labels other than ±1 for logistic and exponential loss.

    >>> from biasfree import datasets
    >>> print(best_possible_loss(datasets.six_points(), depth=2))
    no two-layer bias-free network can go below loss 0 on six points
    >>> round(float(best_possible_loss(datasets.six_points(), slope=1.0)), 6)
    0.443615
    >>> symmetric = Dataset([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 1.0]).symmetrised()
    >>> float(best_possible_loss(symmetric, depth="deep"))
    0.0
    >>> print(best_possible_loss(symmetric, depth=2))
    no two-layer bias-free network can go below loss 0.0555556 on data, symmetrised; 6 of 6 samples pay
    """
    depth = _depth(depth)
    slope, measure = checks.slope(slope), losses.get(loss)
    targets = measure.encoded(dataset.targets)
    shape, targets = targets.shape, targets.reshape(dataset.samples, -1)
    linear = slope == 1 or depth == 1
    grouped = lines(dataset.inputs, tolerance)
    free, gap = "none" if linear else "even" if depth == 2 else "rays", None
    weights: np.ndarray | None
    if loss == "cross-entropy":
        minimum = _best_class_loss.minimiser(grouped, dataset.inputs, targets, free)
        outputs, weights, gap = minimum.outputs, minimum.weights, minimum.gap
    elif loss != "square":
        outputs, weights = _best_margin_loss.minimiser(grouped, dataset.inputs, targets, loss, free)
    else:
        gap = 0.0
        if linear:
            weights = np.linalg.lstsq(dataset.inputs, targets, rcond=None)[0].T
            outputs = dataset.inputs @ weights.T
        else:
            outputs, weights = _square(grouped, targets, two_layers=depth == 2)
    per_sample = _point_losses.value(loss, outputs.T, targets.T).sum(axis=0)
    if loss == "square":
        # Rounding of an exact fit is an exact fit.
        per_sample[per_sample <= 1e-26 * max(np.max(targets**2), 1e-300)] = 0.0
    return BestLoss(
        float(per_sample.mean()),
        bool(np.isfinite(outputs).all()),
        outputs.reshape(shape),
        per_sample,
        None if weights is None else weights.reshape(*shape[1:], dataset.dim),
        dataset,
        "deep" if depth == "deep" else depth,
        slope,
        gap,
    )


def _depth(depth: Any) -> int | str:
    if isinstance(depth, str):
        return checks.one_of(depth, ("deep",), "depth (a number of layers, or)")
    number = checks.count(depth, "depth")
    return number if number <= 2 else "deep"


def _square(grouped: Lines, targets: np.ndarray, two_layers: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """The minimiser's outputs (samples, outputs) and, for two layers, its linear map (outputs, dim)."""
    # Distances of order one, so that fourth powers of them neither overflow nor underflow.
    unit = np.abs(grouped.position).max(initial=0.0) or 1.0
    t, member = grouped.position[:, None] / unit, grouped.member
    up, down = np.maximum(t, 0), np.maximum(-t, 0)
    power = [grouped.total(side**2) for side in (up, down)]
    moment = [grouped.total(side * targets) for side in (up, down)]
    # A ray without samples has no optimum of its own; any number serves.
    slopes = [m / np.where(s > 0, s, 1.0) for m, s in zip(moment, power, strict=True)]
    weights = None
    if two_layers:
        stiffness = 4 * power[0] * power[1] / (power[0] + power[1])
        wanted = 0.5 * (slopes[0] - slopes[1])
        root = np.sqrt(stiffness)
        both = root[:, 0] > 0
        weights = np.linalg.lstsq((root * grouped.directions)[both], (root * wanted)[both], rcond=None)[0].T
        odd = grouped.directions @ weights.T
        even = (moment[0] + moment[1] - odd * (power[0] - power[1])) / (power[0] + power[1])
        slopes = [even + odd, even - odd]
    here = np.maximum(member, 0)
    if not len(grouped):
        return np.zeros_like(targets), weights
    outputs = np.where(member[:, None] >= 0, up * slopes[0][here] + down * slopes[1][here], 0.0)
    return outputs, None if weights is None else weights / unit


def _ray_slopes(grouped: Lines, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p_l and q_l of outputs that are linear along each ray, (lines, outputs) each; 0 on rays without samples."""
    t = grouped.position[:, None]
    return tuple(
        grouped.total(side * outputs) / np.maximum(grouped.total(side**2), 1e-300)
        for side in (np.maximum(t, 0), np.maximum(-t, 0))
    )


def _even_slopes(grouped: Lines, outputs: np.ndarray) -> np.ndarray:
    """g_l of outputs |t|g_l, (lines, outputs)."""
    t = grouped.position[:, None]
    return grouped.total(np.abs(t) * outputs) / grouped.total(t**2)
