"""How far a data set is from what Theorem 5 needs of Condition 3: its half-space asymmetry.

The proofs use Condition 3 through Lemmas 10 and 11 alone: for every unit vector r,

    B(r) = ⟨sgn(rᵀx) y xᵀ⟩ = 0   and   Q(r) = ⟨sgn(rᵀx) x xᵀ⟩ = 0,

so that a neuron of direction r, which sees aβ + bB(r) and aΣ + bQ(r), moves as a linear one. max_r ‖B(r)‖/‖β‖ and
max_r ‖Q(r)‖/‖Σ‖ say how wrong that can be; ‖·‖ is the Euclidean norm of a vector and the Frobenius norm of a matrix. On
lines through the origin, x_i = t_i d_l, both are signed sums

    Σ_l sgn(rᵀd_l) a_l d_lᵀ,   a_l = (1/P) Σ_i |t_i| y_i   or   a_l = q_l d_l,  q_l = (1/P) Σ_i t_i|t_i|.

Lines whose a_l vanishes to rounding drop out; ``_signed_sums`` finds or encloses the maximum over the others.

Both may vanish without Condition 3: only sums along a line matter, so that two samples at x balance one at −√2x in Q.

**The maximum jumps where inputs move.** Let x and −x part by an angle, however small, and a neuron whose hyperplane
passes between them sees both on one side, not cancelling at all. Six points with an offset of 1e-9 have
max ‖B‖/‖β‖ = 1, as with an offset of 0.15. Few directions see it, which is why ``typical``, the root mean square over
all r, stands beside the maximum: it is continuous in the data, and what a neuron started at random meets.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.theory._signed_sums import SignedSum

# What rounding leaves of a sum that cancels, relative to what was summed.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Bound:
    """A maximum over directions, enclosed.

    Attributes:
        lower: the value at ``direction``.
        upper: no direction exceeds it.
        direction: the best unit vector r that was found; shape (dim,).
        exact: whether ``lower`` is the maximum itself: all cells were visited, or the bounds meet.
        typical: root mean square over all directions; exact in a plane, over directions drawn at random otherwise.
    """

    lower: float
    upper: float
    direction: Float[np.ndarray, "dim"]
    exact: bool
    typical: float

    def __str__(self) -> str:
        """The number or the interval, and the typical value."""
        if np.isinf(self.lower):
            return "infinite: there is nothing to compare it to"
        value = f"{self.lower:.4g}" if self.exact else f"between {self.lower:.4g} and {self.upper:.4g}"
        return f"{value} ({self.typical:.4g} for a random direction)"


@dataclass(frozen=True)
class Asymmetry:
    """Half-space asymmetry of a data set; both maxima are 0 under Condition 3.

    Attributes:
        correlation: max_r ‖B(r)‖/‖β‖; 0 where B is 0 for all r, infinite where β = 0 and B is not.
        covariance: max_r ‖Q(r)‖/‖Σ‖.
    """

    correlation: Bound
    covariance: Bound

    def __str__(self) -> str:
        """One line for each."""
        return f"max ‖B(r)‖/‖β‖: {self.correlation}\nmax ‖Q(r)‖/‖Σ‖: {self.covariance}"


def asymmetry(dataset: Dataset, seed: int | np.random.Generator = 0, effort: int = 32) -> Asymmetry:
    """Half-space asymmetry max_r ‖B(r)‖/‖β‖ and max_r ‖Q(r)‖/‖Σ‖: the distance from Lemmas 10 and 11.

    Exact where the lines that do not cancel lie in a plane, so always in one and two dimensions, and for up to some
    thousand lines in a space of three; a lower bound with its direction and a rigorous upper bound otherwise. The upper
    bound is near the maximum for few lines or lines that nearly cancel, and far above it for many lines that do not.

    Args:
        dataset: inputs of shape (samples, dim), targets (samples,) or (samples, outputs).
        seed: of the search; whole number or numpy Generator.
        effort: how many random directions the search starts from.

    Raises:
        ValueError: an effort that is not a whole number of at least 1.

    >>> from biasfree import datasets
    >>> print(asymmetry(datasets.xor()))
    max ‖B(r)‖/‖β‖: 2.55 (2.55 for a random direction)
    max ‖Q(r)‖/‖Σ‖: 0.645 (0.645 for a random direction)
    >>> asymmetry(datasets.symmetric_gaussian(dim=4, pairs=30, seed=0)).correlation.upper
    0.0
    """
    effort = checks.count(effort, "effort")
    rng = np.random.default_rng(checks.seed(seed))
    grouped = lines(dataset.inputs)
    directions = grouped.directions
    # Ratios do not depend on units, and these keep squares from overflow and underflow.
    position = grouped.position / (np.abs(grouped.position).max() or 1.0)
    targets = dataset.targets.reshape(dataset.samples, -1)
    targets = targets / (np.abs(targets).max() or 1.0)
    length, square = np.abs(position), position**2

    correlation = grouped.total(position[:, None] * targets).T @ directions
    covariance = (directions * grouped.total(square)[:, None]).T @ directions
    starts = np.concatenate([correlation, np.linalg.eigh(covariance)[1].T[::-1]])
    size = float(np.linalg.norm(correlation))

    # Targets are rounded relative to the largest of them, which is 1.
    reach = grouped.total(length)
    pull = grouped.total(length[:, None] * targets)
    pull[np.linalg.norm(pull, axis=1) <= _ROUNDING * reach] = 0.0
    stretch = grouped.total(position * length)
    stretch[np.abs(stretch) <= _ROUNDING * grouped.total(square)] = 0.0
    return Asymmetry(
        correlation=_bound(pull, directions, size if size > _ROUNDING * reach.sum() else 0.0, starts, rng, effort),
        covariance=_bound(stretch, directions, float(np.linalg.norm(covariance)), starts, rng, effort),
    )


def signed_bound(
    coefficients: Float[np.ndarray, "lines"], directions: Float[np.ndarray, "lines dim"], dim: int, seed: int = 0
) -> Bound:
    """max_r ‖Σ_l sgn(rᵀd_l) s_l d_l‖ for numbers s_l, enclosed."""
    rng = np.random.default_rng(seed)
    if not len(coefficients):
        return Bound(0.0, 0.0, np.eye(dim)[0], True, 0.0)
    starts = rng.normal(size=(32, dim))
    return _bound(coefficients[:, None], directions, 1.0, starts, rng, 32)


def _bound(
    coefficients: Float[np.ndarray, "lines ..."],
    directions: Float[np.ndarray, "lines dim"],
    unit: float,
    starts: Float[np.ndarray, "starts dim"],
    rng: np.random.Generator,
    effort: int,
) -> Bound:
    """max_r ‖Σ_l sgn(rᵀd_l) a_l d_lᵀ‖/unit; a_l is the row of coefficients of line l, or its only number times d_l."""
    kept = np.flatnonzero(coefficients if coefficients.ndim == 1 else coefficients.any(axis=1))
    if not kept.size:
        return Bound(0.0, 0.0, np.eye(starts.shape[1])[0], True, 0.0)
    coefficients, directions = coefficients[kept], directions[kept]
    # Only the span of the lines matters, to signs as to norms.
    _, sizes, axes = np.linalg.svd(np.linalg.qr(directions, mode="r"))
    axes = axes[: max(2, int(np.sum(sizes > 1e-12 * sizes[0])))]
    best, upper, typical = _signed_sum(coefficients, directions @ axes.T).largest(starts @ axes.T, rng, effort)
    direction = best @ axes
    direction /= np.linalg.norm(direction)
    if not unit:
        return Bound(np.inf, np.inf, direction, True, np.inf)
    # At the direction itself: in a cell as narrow as rounding it would not be what the search saw.
    lower = _signed_sum(coefficients, directions).size(direction)
    exact = lower >= upper * (1 - _ROUNDING * len(kept))
    return Bound(lower / unit, max(lower, upper) / unit, direction, exact, typical / unit)


def _signed_sum(coefficients: Float[np.ndarray, "lines ..."], directions: Float[np.ndarray, "lines dim"]) -> SignedSum:
    return SignedSum(coefficients[:, None] * directions if coefficients.ndim == 1 else coefficients, directions)
