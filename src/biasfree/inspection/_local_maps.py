"""The local map A_x = ∂f/∂x of a sample: for a bias-free network f(x) = A_x x exactly, a linear filter made for x.

Its singular values and vectors say what a network keeps and what it removes (Mohan, Kadkhodaie, Simoncelli and
Fernandez-Granda 2020 for denoisers). A_x is formed by batched products with the Jacobian, never pixel by pixel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from biasfree.inspection._function import MOST_ENTRIES, Function
from biasfree.inspection._points import Points, spread

# n³ of all spectra together; above the second size they come from AᵀA, twice as fast and right to 1e-8 of the largest.
_WORK, _BY_SQUARE = 9e10, 1200
_MOST_MAPS, _VECTORS = 16, 6
_PROBES, _PROBED = 16, 32


@dataclass(frozen=True, eq=False)
class LocalMap:
    """A_x of one sample.

    Attributes:
        sample: which.
        singular_values: from the largest on; those below ``resolution`` are not distinguished from 0.
        resolution: what rounding leaves of the singular values.
        left, right: some leading singular vectors, shapes (outputs, k) and (dim, k).
        effective_rank: e^H with H the entropy of s_i/Σs (Roy and Vetterli); 1 for rank one, n for equal values.
        dimensionality: Σs², the dimension of the subspace if A_x is a projection.
        asymmetry: ‖A − Aᵀ‖/2‖A‖, 0 for a symmetric map; None where outputs and inputs differ in number.
        matrix: A_x itself, shape (outputs, dim).
    """

    sample: int
    singular_values: Float[np.ndarray, "values"]
    resolution: float
    left: Float[np.ndarray, "out k"]
    right: Float[np.ndarray, "dim k"]
    effective_rank: float
    dimensionality: float
    asymmetry: float | None
    matrix: Float[np.ndarray, "out dim"]


@dataclass(frozen=True, eq=False)
class LocalMaps:
    """A_x of some samples, and how much it varies.

    Attributes:
        maps: the samples looked at closely.
        variation: root mean square of ‖A_x − Ā‖ relative to that of ‖A_x‖, Ā the mean; 0 for a linear map.
        varied_over: samples that this rests on.
        by_probes: whether it was estimated from random directions, for want of memory.
        shape: of x, for pictures.
        out: of f(x).
    """

    maps: tuple[LocalMap, ...]
    variation: float
    varied_over: int
    by_probes: bool
    shape: tuple[int, ...]
    out: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON; vectors and matrices are left out."""
        return {
            "variation": self.variation,
            "variation_over_samples": self.varied_over,
            "variation_by_random_directions": self.by_probes,
            "samples": [
                {
                    "sample": each.sample, "singular_values": each.singular_values, "resolution": each.resolution,
                    "effective_rank": each.effective_rank, "dimensionality": each.dimensionality,
                    "asymmetry": each.asymmetry,
                }
                for each in self.maps
            ],
        }  # fmt: skip


def measured(function: Function, points: Points, seed: int) -> LocalMaps | None:
    """Local maps of as many samples as time allows, evenly chosen; None where even one is too large.

    Args:
        function: what is looked at.
        points: where.
        seed: of random directions, for variation of maps too large to be held.
    """
    out = function.shape(points)
    dim, outputs = points.x.shape[1], int(np.prod(out))
    if dim * outputs > MOST_ENTRIES:
        return None
    each = float(min(dim, outputs)) ** 2 * max(dim, outputs)
    count = int(max(1, min(_MOST_MAPS, _WORK // each, MOST_ENTRIES * 4 // (dim * outputs))))
    chosen = spread(len(points), count)
    matrices = [function.jacobian(points[[i]]) for i in chosen]
    maps = tuple(_looked_at(int(i), matrix) for i, matrix in zip(chosen, matrices, strict=True))
    if len(matrices) >= min(len(points), 8):
        mean = np.mean(matrices, axis=0)
        whole = sum(float((m**2).sum()) for m in matrices)
        variation = np.sqrt(sum(float(((m - mean) ** 2).sum()) for m in matrices) / (whole or 1.0))
        return LocalMaps(maps, float(variation), len(matrices), False, points.shape, out)
    some = points.spread(_PROBED)
    probes = np.random.default_rng(seed).normal(size=(_PROBES, dim))
    moved = np.stack([function.from_one(some[[i]], probes) for i in range(len(some))])
    apart = float(((moved - moved.mean(axis=0)) ** 2).sum())
    return LocalMaps(maps, float(np.sqrt(apart / (float((moved**2).sum()) or 1.0))), len(some), True, points.shape, out)


def _looked_at(sample: int, matrix: np.ndarray) -> LocalMap:
    values, resolution, left, right = decomposed(matrix)
    total = float(values.sum())
    shares = values[values > 0] / (total or 1.0)
    rank = float(np.exp(-(shares * np.log(shares)).sum())) if total else 0.0
    norm = float(np.linalg.norm(matrix))
    square = matrix.shape[0] == matrix.shape[1]
    asymmetry = float(np.linalg.norm(matrix - matrix.T)) / (2 * norm) if square and norm else None
    return LocalMap(sample, values, resolution, left, right, rank, float((values**2).sum()), asymmetry, matrix)


def decomposed(matrix: Float[np.ndarray, "out dim"]) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """All singular values, what rounding leaves of them, and some leading vectors left and right.

    Large maps go by eigenvalues alone: of A itself where it is symmetric; else of AᵀA or AAᵀ, whichever is smaller,
    with an error of about √ε of the largest value, below which values are given as 0. One thread does it: half of the
    work is bound by memory, and more threads wait for each other ten times longer than they work as soon as a core is
    taken.
    """
    with threadpool_limits(1, user_api="blas"):
        if min(matrix.shape) <= _BY_SQUARE:
            left, values, right = scipy.linalg.svd(matrix, full_matrices=False)
            resolution = float(values[0]) * max(matrix.shape) * np.finfo(float).eps if len(values) else 0.0
            return values, resolution, left[:, :_VECTORS], right[:_VECTORS].T
        return _of_symmetric(matrix) if _is_symmetric(matrix) else _by_square(matrix)


def _is_symmetric(matrix: np.ndarray) -> bool:
    if matrix.shape[0] != matrix.shape[1]:
        return False
    return bool(np.abs(matrix - matrix.T).max() <= 10 * np.finfo(float).eps * np.abs(matrix).max())


def _of_symmetric(matrix: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    values = np.sort(np.abs(scipy.linalg.eigvalsh(matrix, check_finite=False)))[::-1]
    signs, vectors = _leading(_sparse(matrix), "LM")
    resolution = float(values[0]) * len(matrix) * np.finfo(float).eps
    return values, resolution, vectors * np.sign(signs), vectors


def _by_square(matrix: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """By AᵀA or AAᵀ; local maps are mostly zeros, so that multiplying costs next to nothing beside the eigenvalues."""
    wide = matrix.shape[1] > matrix.shape[0]
    given = _sparse(matrix.T if wide else matrix)
    square = given.T @ given
    dense = square.toarray() if scipy.sparse.issparse(square) else square
    values = np.sqrt(np.maximum(scipy.linalg.eigvalsh(dense, check_finite=False)[::-1], 0.0))
    resolution = float(values[0]) * np.sqrt(len(dense) * np.finfo(float).eps)
    values = np.where(values > resolution, values, 0.0)
    _, vectors = _leading(square, "LA")
    sizes = np.where(values[:_VECTORS] > 0, values[:_VECTORS], 1.0)
    other = (given @ vectors) / sizes
    return values, resolution, *((vectors, other) if wide else (other, vectors))


def _sparse(matrix: np.ndarray) -> Any:
    """Without its zeros, where most entries are zeros."""
    return scipy.sparse.csr_array(matrix) if np.count_nonzero(matrix) < 0.1 * matrix.size else matrix


def _leading(square: Any, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenvalues and eigenvectors of a symmetric matrix, by Lanczos, the largest first."""
    from scipy.sparse.linalg import eigsh

    # A random start: a regular one may be at right angles to eigenvectors of a map with symmetries.
    start = np.random.default_rng(0).normal(size=square.shape[0])
    values, vectors = eigsh(square, k=_VECTORS, which=which, v0=start)
    order = np.argsort(-np.abs(values))
    return values[order], vectors[:, order]
