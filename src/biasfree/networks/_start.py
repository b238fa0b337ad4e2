"""Weights to start from: Appendix G, balanced, Assumption 4, Eqs. 39 and 40. Plain arrays, no networks."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from biasfree import checks


def random(
    widths: Sequence[int], slope: float, init_scale: float, seed: int | Generator
) -> tuple[list[np.ndarray], float]:
    """Appendix G: layer l i.i.d. N(0, γ²/N_l)."""
    sizes, rng = _widths(widths), default_rng(checks.seed(seed))
    init_scale = checks.positive(init_scale, "init_scale")
    pairs = zip(sizes[1:], sizes, strict=False)
    return [rng.normal(size=shape) * (init_scale / np.sqrt(np.prod(shape))) for shape in pairs], slope


def balanced(
    widths: Sequence[int], slope: float, init_scale: float, seed: int | Generator
) -> tuple[list[np.ndarray], float]:
    """Appendix G for the first layer; each later layer's columns are scaled to the rows they meet."""
    weights, slope = random(widths, slope, init_scale, seed)
    for before, after in itertools.pairwise(weights):
        after *= np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=0)
    return weights, slope


def rank_one(dim: int, width: int, init_scale: float, seed: int | Generator, direction: Any) -> list[np.ndarray]:
    """Assumption 4: W₁ = W₂ᵀrᵀ with equal norms of W₂'s positive and negative parts."""
    rng = default_rng(checks.seed(seed))
    r = _direction(direction, checks.count(dim, "dim"), rng)
    readout = checks.positive(init_scale, "init_scale") * _two_sided(rng, checks.count(width, "width", least=2))
    return [np.outer(readout, r), readout[None]]


def aligned(
    widths: Sequence[int], init_scale: float, seed: int | Generator, direction: Any, *, blocks: bool
) -> list[np.ndarray]:
    """Eq. 39, or Eq. 40 with ``blocks``: u r₁rᵀ, u r_l r_{l−1}ᵀ (its two same-sign blocks times √2), u r_{L−1}ᵀ."""
    sizes, rng = _widths(widths), default_rng(checks.seed(seed))
    if len(sizes) < 3 or sizes[-1] != 1 or min(sizes[1:-1]) < 2:
        raise ValueError(
            f"Eqs. 39 and 40 need hidden layers of width at least 2 and one output, got widths {list(widths)}."
        )
    u = checks.positive(init_scale, "init_scale")
    r = _direction(direction, sizes[0], rng)
    sides = [_two_sided(rng, size) for size in sizes[1:-1]]
    middle = []
    for before, after in itertools.pairwise(sides):
        outer = np.outer(after, before)
        middle.append(u * np.where(outer > 0, np.sqrt(2) * outer, 0.0) if blocks else u * outer)
    return [u * np.outer(sides[0], r), *middle, u * sides[-1][None]]


def _two_sided(rng: Generator, size: int) -> np.ndarray:
    """A random unit vector whose positive and negative parts have equal norm."""
    magnitudes = np.abs(rng.normal(size=size))
    signs = np.where(rng.permutation(size) < size // 2, 1.0, -1.0)
    for side in (1.0, -1.0):
        magnitudes[signs == side] /= np.sqrt(2) * np.linalg.norm(magnitudes[signs == side])
    return signs * magnitudes


def _direction(direction: Any, dim: int, rng: Generator) -> np.ndarray:
    r = (
        rng.normal(size=dim)
        if direction is None
        else checks.finite(checks.numeric(direction, "direction"), "direction")
    )
    if r.shape != (dim,) or not r.any():
        raise ValueError(f"direction must be a nonzero vector of {dim} numbers, got shape {r.shape}.")
    return r / np.linalg.norm(r)


def _widths(widths: Sequence[int]) -> list[int]:
    try:
        sizes = [checks.count(w, "every width") for w in widths]
    except TypeError as error:
        raise ValueError(f"widths must be a sequence of whole numbers, got {widths!r}.") from error
    if len(sizes) < 2:
        raise ValueError(f"widths must name at least the input dimension and the outputs, got {list(widths)}.")
    return sizes
