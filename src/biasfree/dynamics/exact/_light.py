"""Rows too small for the output to notice: each moves by pulls that are known (``native/late.c``)."""

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._kernels import engine
from biasfree.native import address


def propagated(
    rows: Float[np.ndarray, "rows columns"], matrices: Float[np.ndarray, "rows dim outputs"], decay: float,
    times: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "n rows columns"]:  # fmt: skip
    """e^{tA}z with A = [[−λ, M], [Mᵀ, −λ]] at some times.

    >>> propagated(np.array([[1.0, 0.0]]), np.array([[[2.0]]]), 0.0, np.array([0.0, 0.5])).round(3).tolist()
    [[[1.0, 0.0]], [[1.543, 1.175]]]
    """
    dim, outputs = matrices.shape[1:]
    rows, matrices, times = (np.ascontiguousarray(each, dtype=float) for each in (rows, matrices, times))
    to, room = np.empty((len(times), *rows.shape)), np.empty((dim + outputs, outputs))
    engine().biasfree_propagated(
        len(times), address(times), len(rows), address(rows), address(matrices), decay, dim, outputs, address(to),
        address(room),
    )  # fmt: skip
    return to
