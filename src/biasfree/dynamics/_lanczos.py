"""Lanczos' method: what a symmetric matrix does to one vector, from its products alone."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._float64 import SMALLEST

_DIRECTIONS = 40  # e^{−Hs}v over a time T needs about √(‖H‖T) of them, and steps are stable to ‖H‖h = 3
_INVARIANT = 1e-10  # of the largest rate: a new direction so short is rounding, and the space is complete


class Spectrum(NamedTuple):
    """Eigenvectors and eigenvalues of H on a Krylov space.

    Attributes:
        modes, rates: eigenvectors, one a column, and eigenvalues, the lowest first.
        stable: no rate is below the one that was called the lowest.
        products: with H, that it took.
    """

    modes: Float[np.ndarray, "size directions"]
    rates: Float[np.ndarray, "directions"]
    stable: bool
    products: int


def lanczos(
    first: Float[np.ndarray, "size"], times: Callable[[np.ndarray], np.ndarray], lowest: float = -np.inf
) -> Spectrum:
    """The spectrum of H on the Krylov space of ``first``, fully re-orthogonalised.

    Ends as soon as a rate falls below ``lowest``: Ritz values only fall as the space grows.
    """
    basis = [first / max(float(np.linalg.norm(first)), SMALLEST)]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = times(basis[-1])
        diagonal.append(float(basis[-1] @ image))
        rates, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, -1))  # reads the lower half
        stable = bool(rates[0] >= lowest)
        known = np.stack(basis, axis=1)
        for _ in range(2):
            image = image - known @ (known.T @ image)
        length = float(np.linalg.norm(image))
        full = len(basis) >= min(_DIRECTIONS, first.size) or length <= _INVARIANT * np.max(np.abs(diagonal))
        if full or not stable:
            return Spectrum(known @ vectors, rates, stable, len(basis))
        beside.append(length)
        basis.append(image / length)
