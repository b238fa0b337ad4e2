"""Lengths of rows so small that their squares are no numbers: starts may be 1e-200."""

import numpy as np
from jaxtyping import Float


def lengths(rows: Float[np.ndarray, "*n columns"]) -> Float[np.ndarray, "*n"]:
    """‖row‖ of each row, its largest entry taken out first.

    >>> lengths(np.array([[3e-200, 4e-200], [0.0, 0.0]])).tolist()
    [5e-200, 0.0]
    """
    largest = np.maximum.reduce(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest > 0, largest, 1.0)
    return largest[..., 0] * np.sqrt(np.add.reduce(scaled * scaled, axis=-1))


def units(rows: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n columns"]:
    """Rows of length 1; those that are zero stay so.

    >>> units(np.array([[3e-200, 4e-200], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    size = lengths(rows)[:, None]
    return rows / np.where(size > 0, size, 1.0)
