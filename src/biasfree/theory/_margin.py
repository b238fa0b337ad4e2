"""Where classification ends: the max-margin direction (Corollary 6), or the reason why there is none.

min ‖w‖ s.t. aᵀw ≥ 1 for every row a = y_i x_i is a least-distance problem. Lawson and Hanson solve it by non-negative
least squares: the multipliers u ≥ 0 that bring Σ u_i (a_i, κ) nearest to (0, 1), whatever κ, are positive on the
support alone; if they reach it, they are Farkas's certificate that no w exists. Rows enter a working set as they are
found violated, so that no object of samples × samples is formed. On the support w is then solved for directly, and
every condition of optimality is checked on all samples.
"""

import sys
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from scipy.optimize import nnls

from biasfree import losses
from biasfree.datasets import Dataset

_EPSILON = sys.float_info.epsilon
# Unit vectors whose convex hull is nearer to the origin than this touch it, as far as double precision can resolve.
_TOUCHING = 1e-13
# A multiplier this small beside the largest changes w by less than rounding.
_VANISHED = 1e-14
# Largest violation of an optimality condition, relative to its terms, of a result that is handed out.
_OPTIMAL = 1e-10
# Margin, 1 but for rounding, below which a sample is not clearly on its side; and what w is moved by, relatively, to
# bring it there: a few units of rounding.
_CLEAR, _PUSH = 0.5, 4 * _EPSILON
_SHIFTS = 30


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The hyperplane wᵀx + b = 0 with the widest margin, scaled so that y(wᵀx + b) ≥ 1 with equality on the support.

    Attributes:
        weights: w = Σ α_i y_i x_i over the support, shape (dim,).
        bias: b, 0 through the origin.
        margin: 1/‖w‖, distance of the nearest samples to the hyperplane.
        support: indices of samples that hold the hyperplane in place. When more samples than needed lie on the margin
            (copies of one, say), this is one sufficient choice of them.
        multipliers: α_i > 0 of the support.
        residual: the largest violation of a condition of optimality, relative to the terms it is made of.
        samples: number of samples in all.
    """

    weights: Float[np.ndarray, "dim"]
    bias: float
    margin: float
    support: Int[np.ndarray, "support"]
    multipliers: Float[np.ndarray, "support"]
    residual: float
    samples: int

    @property
    def direction(self) -> Float[np.ndarray, "dim"]:
        """w/‖w‖, which the weights of a flow tend to while their norm grows for ever."""
        return self.weights * self.margin

    def __str__(self) -> str:
        """One line."""
        where = f"bias {self.bias:.6g}" if self.bias else "through the origin"
        return f"max margin {self.margin:.6g}, {where}: held by {len(self.support)} of {self.samples} samples"


@dataclass(frozen=True, eq=False)
class Separability:
    """Whether some w has y_i wᵀx_i > 0 for all samples, and the proof.

    Attributes:
        separable: the answer.
        weights: such a w of norm 1, shape (dim,); None if there is none.
        witness: when there is none, indices of samples with a convex combination Σ c_i y_i x_i = 0; else empty.
        multipliers: c_i > 0 of the witness, Σ c_i = 1.
    """

    separable: bool
    weights: Float[np.ndarray, "dim"] | None
    witness: Int[np.ndarray, "witness"]
    multipliers: Float[np.ndarray, "witness"]

    def __bool__(self) -> bool:
        """Whether the data are separable."""
        return self.separable

    def __str__(self) -> str:
        """One sentence."""
        if self.separable:
            return "separable by a hyperplane through the origin"
        return f"not separable by a hyperplane through the origin: {_combination(self)}"


def max_margin(dataset: Dataset) -> MaxMargin:
    """Hard-margin SVM through the origin, min ‖w‖² s.t. y_i wᵀx_i ≥ 1: where logistic loss ends (Corollary 6).

    On separable data ‖w‖ grows for ever and its direction tends to this one. ``max_margin(dataset.with_ones())`` gives
    (w, b) for the stacked input [x, 1] of Appendix B, which is not ``max_margin_with_bias``.

    Args:
        dataset: targets ±1, shape (samples,).

    Raises:
        ValueError: labels other than ±1, vector targets, or data that no hyperplane through the origin separates; the
            message names samples that prove it.

    >>> print(max_margin(Dataset([[2.0, 1.0], [2.0, -1.0], [-3.0, 0.0]], [1, 1, -1])))
    max margin 2, through the origin: held by 2 of 3 samples
    """
    answer = separability(dataset)
    if not answer:
        raise ValueError(
            f"max margin needs data that a hyperplane through the origin separates, but in {dataset.name} "
            f"{_combination(answer)}. Remove such samples, or see whether max_margin_with_bias will do."
        )
    support, multipliers, weights = least_norm(_signed(dataset), np.ones(dataset.samples))
    solution = None if weights is None else _optimal(dataset, _cleared(dataset, weights), 0.0, support, multipliers)
    if solution is None:
        raise _too_narrow(dataset)
    return solution


def max_margin_with_bias(dataset: Dataset) -> MaxMargin:
    """Hard-margin SVM with a bias, min ‖w‖² s.t. y_i(wᵀx_i + b) ≥ 1, the bias free of charge (Appendix B).

    A problem through the origin with one more dimension, which puts a small price on the bias, finds the support;
    there the problem proper is solved. Should the price have misled, the origin is moved onto the hyperplane found,
    where it cannot.

    Args:
        dataset: targets ±1, shape (samples,), both labels present.

    Raises:
        ValueError: labels other than ±1, vector targets, one class only, or classes whose convex hulls meet.

    >>> solution = max_margin_with_bias(Dataset([[3, 2], [3, 3], [4, 0], [4, 2]], [1, 1, -1, -1]))
    >>> solution.weights.round(12) + 0.0, round(solution.bias, 12), round(solution.margin, 12)
    (array([-2.,  0.]), 7.0, 0.5)
    """
    _signed(dataset)
    inputs, labels = dataset.inputs, dataset.targets
    if abs(labels.sum()) == dataset.samples:
        raise ValueError(
            f"a margin with a bias needs both labels, got only {labels[0]:+g} in {dataset.name}. "
            "With one class any hyperplane far enough away will do."
        )
    origin = 0.5 * (inputs[labels > 0].mean(axis=0) + inputs[labels < 0].mean(axis=0))
    answer = separability(Dataset(inputs - origin, labels).with_ones())
    if not answer:
        plus, minus = (answer.witness[labels[answer.witness] == label] for label in (1, -1))
        raise ValueError(
            f"max margin needs data that a hyperplane separates, but in {dataset.name} a convex combination of samples "
            f"{_listed(plus)} (label +1) equals one of samples {_listed(minus)} (label −1) to rounding. "
            "Remove such samples."
        )
    reach = float(np.linalg.norm(inputs - origin, axis=1).max())
    for _ in range(_SHIFTS):
        rows = labels[:, None] * np.column_stack([inputs - origin, np.full(dataset.samples, reach)])
        support, _, stacked = least_norm(rows, np.ones(dataset.samples))
        if stacked is None:
            break
        if solution := _with_free_bias(dataset, support):
            return solution
        weights, offset = stacked[:-1], reach * stacked[-1]
        origin = origin - offset * weights / (weights @ weights)
        reach *= 2
    raise _too_narrow(dataset)


def separability(dataset: Dataset) -> Separability:
    """Whether a hyperplane through the origin separates the labels, with a proof either way (Farkas).

    Sets that only touch such a hyperplane are not separable. The answer does not depend on the scale of samples or of
    input dimensions. For hyperplanes with a bias ask about ``dataset.with_ones()``.

    Args:
        dataset: targets ±1, shape (samples,).

    Raises:
        ValueError: labels other than ±1, or vector targets.

    >>> print(separability(Dataset([[1.0], [-1.0]], [1, -1])))
    separable by a hyperplane through the origin
    >>> print(separability(Dataset([[1.0], [3.0]], [1, -1])))
    not separable by a hyperplane through the origin: 0.75·y₀x₀ + 0.25·y₁x₁ = 0 to rounding
    """
    signed = _signed(dataset)
    size = np.abs(signed).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    rows = signed / size
    # With its own length for a level every sample counts by its direction alone.
    levels = np.linalg.norm(rows, axis=1)
    support, multipliers, weights = least_norm(rows, levels)
    if weights is None:
        order = np.argsort(-multipliers, kind="stable")
        return Separability(False, None, support[order], multipliers[order])
    weights = weights / size
    weights /= np.abs(weights).max()
    return Separability(True, weights / np.linalg.norm(weights), support[:0], multipliers[:0])


def least_norm(
    rows: Float[np.ndarray, "rows dim"], levels: Float[np.ndarray, "rows"]
) -> tuple[Int[np.ndarray, "support"], Float[np.ndarray, "support"], Float[np.ndarray, "dim"] | None]:
    """Min ‖w‖ s.t. aᵀw ≥ h for every row a and its level h > 0: support, multipliers (w = Σ u_i a_i) and w.

    When there is no w: None for it, and rows with a convex combination Σ u_i a_i = 0.
    """
    norms = np.linalg.norm(rows, axis=1)
    if not norms.all():
        return np.flatnonzero(norms == 0)[:1], np.ones(1), None
    unit, levels = rows / norms[:, None], levels / norms
    # About as many rows at a time as can support a hyperplane.
    batch = max(50, rows.shape[1])
    working = _lowest(unit @ unit.mean(axis=0), batch)
    while True:
        top = levels[working].max()
        held, shares, weights = _on_working_set(unit[working], levels[working] / top)
        support = working[held]
        if weights is None:
            shares = shares / norms[support]
            return support, shares / shares.sum(), None
        weights = top * weights
        slack = unit @ weights - levels
        worst = _lowest(slack, batch)
        # Rows that are violated by no more than the product's rounding would come back for ever.
        worst = np.setdiff1d(worst[slack[worst] < -8 * _EPSILON * np.linalg.norm(weights)], working)
        if not worst.size:
            return support, top * shares / norms[support], weights
        working = np.concatenate([working, worst])


def _on_working_set(
    unit: Float[np.ndarray, "rows dim"], levels: Float[np.ndarray, "rows"]
) -> tuple[Int[np.ndarray, "support"], Float[np.ndarray, "support"], Float[np.ndarray, "dim"] | None]:
    """The same for a few rows of length 1 with levels h ≤ 1."""
    goal = np.append(np.zeros(unit.shape[1]), 1.0)
    kappa = 1.0
    while True:
        columns = np.vstack([unit.T, kappa * levels])
        shares, gap = nnls(columns, goal, maxiter=30 * max(columns.shape))
        support = np.flatnonzero(shares)
        # gap² = 1/(1 + ‖w‖²) with w for the levels κh: figures are lost unless κ is near the margin.
        if gap > 0.1:
            break
        kappa *= gap
        if kappa < _TOUCHING:
            support = np.flatnonzero(shares > _VANISHED * shares.max())
            return support, shares[support], None
    while True:
        weights, shares = _met(unit[support], levels[support])
        if shares.min() > _VANISHED * shares.max():
            return support, shares, weights
        support = np.delete(support, shares.argmin())


def _with_free_bias(dataset: Dataset, support: Int[np.ndarray, "support"]) -> MaxMargin | None:
    """Least ‖w‖ with wᵀx + b = y on the support; None when that is not the answer for all samples.

    Differences to one of the samples leave w alone in the equations, and make the multipliers of the classes cancel.
    """
    while True:
        inputs, labels = dataset.inputs[support], dataset.targets[support]
        if abs(labels.sum()) == len(labels):
            return None
        edges = inputs[1:] - inputs[0]
        weights, pulls = _met(edges, labels[1:] - labels[0])
        multipliers = labels * np.append(-pulls.sum(), pulls)
        if multipliers.min() > _VANISHED * multipliers.max():
            return _optimal(dataset, weights, float(np.mean(labels - inputs @ weights)), support, multipliers)
        support = np.delete(support, multipliers.argmin())


def _met(
    rows: Float[np.ndarray, "rows dim"], levels: Float[np.ndarray, "rows"]
) -> tuple[Float[np.ndarray, "dim"], Float[np.ndarray, "rows"]]:
    """The least w with aᵀw = h on all rows, and its multipliers; by pivoted QR, which is faster than an SVD."""
    weights = scipy.linalg.lstsq(rows, levels, lapack_driver="gelsy")[0]
    return weights, scipy.linalg.lstsq(rows.T, weights, lapack_driver="gelsy")[0]


def _lowest(values: Float[np.ndarray, "rows"], count: int) -> Int[np.ndarray, "chosen"]:
    return np.argpartition(values, count)[:count] if count < len(values) else np.arange(len(values))


def _signed(dataset: Dataset) -> Float[np.ndarray, "samples dim"]:
    """y_i x_i of a data set with one label per sample."""
    if dataset.outputs != 1:
        raise ValueError(
            f"a margin needs one label per sample, got {dataset.outputs} outputs. Ask for each column, or for "
            "max_margin_classes."
        )
    losses.get("logistic").check_targets(dataset.targets)
    return dataset.targets[:, None] * dataset.inputs


def _optimal(
    dataset: Dataset,
    weights: Float[np.ndarray, "dim"],
    bias: float,
    support: Int[np.ndarray, "support"],
    multipliers: Float[np.ndarray, "support"],
) -> MaxMargin | None:
    """The result if all samples confirm it: nothing violated, support on the margin, w = Σ α_i y_i x_i."""
    inputs, labels, norm = dataset.inputs, dataset.targets, float(np.linalg.norm(weights))
    lengths = np.linalg.norm(inputs, axis=1)
    margins = labels * (inputs @ weights + bias)
    slack = (margins - 1) / (1 + lengths * norm + abs(bias))
    off = np.linalg.norm(weights - (multipliers * labels[support]) @ inputs[support]) / (multipliers @ lengths[support])
    residual = float(max(0.0, -slack.min(), np.abs(slack[support]).max(), off))
    if residual > _OPTIMAL or margins.min() < _CLEAR:
        return None
    order = np.argsort(support)
    return MaxMargin(weights, bias, 1 / norm, support[order], multipliers[order], residual, dataset.samples)


def _cleared(dataset: Dataset, weights: Float[np.ndarray, "dim"]) -> Float[np.ndarray, "dim"]:
    """Weights that leave far samples on the wrong side, by rounding, moved by as much towards the right one."""
    signed = _signed(dataset)
    low = signed[signed @ weights < _CLEAR]
    if not len(low):
        return weights
    ways = (low / np.linalg.norm(low, axis=1)[:, None]).sum(axis=0)
    return weights + _PUSH * np.linalg.norm(weights) * ways


def _too_narrow(dataset: Dataset) -> ValueError:
    return ValueError(
        f"{dataset.name} is separable, but by a margin too small beside its inputs for double precision. "
        "Bring samples and input dimensions to a common scale, and merge samples that are copies but for rounding."
    )


def _combination(answer: Separability) -> str:
    subscripts = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    names = [str(index).translate(subscripts) for index in answer.witness[:5]]
    terms = [f"{share:.3g}·y{name}x{name}" for share, name in zip(answer.multipliers, names, strict=False)]
    rest = f" + … ({len(answer.witness)} terms)" if len(answer.witness) > 5 else ""
    return f"{' + '.join(terms)}{rest} = 0 to rounding"


def _listed(samples: Int[np.ndarray, "chosen"]) -> str:
    return ", ".join(map(str, samples[:5])) + (", …" if len(samples) > 5 else "")
