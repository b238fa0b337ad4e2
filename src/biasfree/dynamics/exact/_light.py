"""Rows too small for the output to notice: each moves by pulls that are known."""

import numpy as np
from jaxtyping import Float


def propagated(
    rows: Float[np.ndarray, "rows columns"],
    matrices: Float[np.ndarray, "n rows dim outputs"],
    decay: Float[np.ndarray, "n"],
    times: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "n rows columns"]:
    """e^{tA}z with A = [[−λ, M], [Mᵀ, −λ]]: along M's singular vectors a hyperbolic rotation, elsewhere only decay."""
    dim = matrices.shape[-2]
    moves = np.any(rows != 0, axis=1)
    matrices = matrices * moves[:, None, None]  # where a row is zero, what would make it grow may overflow
    if matrices.shape[-1] == 1:
        size = np.sqrt(np.einsum("nhdk,nhdk->nhk", matrices, matrices))
        left = matrices / np.where(size > 0, size, 1.0)[..., None, :]
        right = np.ones((1, 1, 1, 1))
    else:
        left, size, right = np.linalg.svd(matrices, full_matrices=False)
    one = np.einsum("nhdr,hd->nhr", left, rows[:, :dim])
    other = (right @ rows[:, dim:, None])[..., 0]
    t, decay = times[:, None, None], decay[:, None, None]
    # cosh and sinh times the decay, each exponential by itself: neither overflows unless the row does.
    rises, falls, fades = np.exp(t * (size - decay)), np.exp(-t * (size + decay)), np.exp(-decay * t)
    grown, turned = 0.5 * (rises + falls) - fades, 0.5 * (rises - falls)
    first = fades * rows[:, :dim] + (left @ (grown * one + turned * other)[..., None])[..., 0]
    second = fades * rows[:, dim:] + ((turned * one + grown * other)[..., None, :] @ right)[..., 0, :]
    return np.concatenate([first, second], axis=2)
