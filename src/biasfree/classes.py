"""Classes as targets: one row per sample, with a single one or with probabilities."""

from typing import Any

import numpy as np
from jaxtyping import Float

_SUMS_TO_ONE = 1e-9  # probabilities are given to that
_MOST_CLASSES = 10_000  # more are numbers, not classes


def one_hot(classes: Any, count: int | None = None) -> Float[np.ndarray, "samples classes"]:
    """Classes 0, …, K − 1 as rows with a single one; ``count`` is K, by default the largest class and one more.

    >>> one_hot([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    given = np.asarray(classes)
    whole = given.astype(int) if given.size and np.isfinite(given).all() else np.zeros(given.shape, dtype=int)
    count = max(2, int(whole.max(initial=0)) + 1) if count is None else count
    if given.ndim != 1 or (whole != given).any() or (whole < 0).any() or (whole >= count).any():
        wrong = given[(whole != given) | (whole < 0) | (whole >= count)].ravel()[:5]
        raise ValueError(
            f"classes must be whole numbers from 0 to {count - 1}, one per sample, got "
            f"{', '.join(f'{value:g}' for value in wrong) or f'shape {given.shape}'}. "
            "Give the classes' names with Dataset(…, classes=…), or use loss='square' for regression."
        )
    if count > _MOST_CLASSES:
        raise ValueError(
            f"classes are numbered from 0 and at most {_MOST_CLASSES:,}, got a class {count - 1}. Number them "
            "0, 1, …, or use loss='square' for regression."
        )
    rows = np.zeros((len(whole), count))
    rows[np.arange(len(whole)), whole] = 1.0
    return rows


def check_probabilities(targets: Float[np.ndarray, "samples outputs"]) -> None:
    """Raise ValueError unless every row holds the probabilities of at least two classes."""
    total = targets.sum(axis=1)
    wrong = np.flatnonzero((targets < 0).any(axis=1) | (np.abs(total - 1) > _SUMS_TO_ONE))
    if targets.shape[1] >= 2 and not wrong.size:
        return
    row = targets[wrong[0] if wrong.size else 0]
    shown = ", ".join(f"{value:g}" for value in row[:5]) + (", …" if len(row) > 5 else "")
    raise ValueError(
        "cross-entropy loss needs classes 0, 1, …, or for each sample the probabilities of at least two classes, which "
        f"sum to one; got a row ({shown}). Use loss='square' for regression."
    )
