"""Exponential collocation by Newton's method, where fast directions turn within a step.

The equations are those of ``_late``: the places P_n of all modes at seven points of the step obey

    P_n = L_n + Σ_i K_ni N(P_i),

L the linearised flow, and K what interpolating N and convolving it with e^{τJ} makes of its values. Iteration changes
an error in fast directions, which a slow motion by δ has turned by δ, by a factor of about hλδ²: λ may be 10⁸ times the
rate of the slow motion, which bounds h long before the way bends. Newton's method has no such bound. What it finds are
places: from N they could only be found with hλδ times their rounding, so that the way between them is the polynomial
through them. A fast direction that is not at rest when the step begins is none; it shows in the highest coefficient.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_ASTRAY = 3.0  # times the change before; chosen: far from the way the first turns may be longer, one after the other


def solved(
    linear: Float[np.ndarray, "7 modes"],
    kernel: Float[np.ndarray, "7 7 modes"],
    bent: Callable[[np.ndarray], np.ndarray],
    slopes: Callable[[np.ndarray], np.ndarray],
    judged: Callable[[np.ndarray], float],
    turns: int,
    settled: float,
) -> tuple[Float[np.ndarray, "7 modes"], float]:
    """The places, and what further turns would change; infinite where Newton's method does not converge.

    Args:
        linear: L.
        kernel: K, by point, point and mode.
        bent: N at places.
        slopes: its derivatives there, (7, modes, modes).
        judged: the size of a change, in units of the tolerance.
        turns: at most.
        settled: what may be left to change.
    """
    places, before = linear, np.inf
    points, modes = linear.shape
    for turn in range(turns):
        missing = linear + np.einsum("nim,im->nm", kernel, bent(places)) - places
        matrix = np.einsum("nim,imk->nmik", -kernel, slopes(places)).reshape(points * modes, points * modes)
        matrix[np.diag_indices(len(matrix))] += 1.0
        if not (np.isfinite(matrix).all() and np.isfinite(missing).all()):
            break
        try:
            change = np.linalg.solve(matrix, missing.ravel()).reshape(points, modes)
        except np.linalg.LinAlgError:
            break
        places = places + change
        now = judged(change)
        ratio = now / before
        left = now * (ratio / (1 - ratio) if turn > 0 and ratio < 1 else 1.0)
        if left <= settled:
            return places, left
        if not ratio < _ASTRAY:
            break
        before = now
    return places, np.inf


def slope_of(curve: Float[np.ndarray, "8 modes"]) -> Float[np.ndarray, "8 modes"]:
    """The derivative of a curve of degree 7, as one of the same degree.

    >>> slope_of(np.linspace(0.0, 1.0, 8)[:, None])[:, 0].round(12).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    degree = len(curve) - 1
    lower = degree * np.diff(curve, axis=0)
    part = (np.arange(degree + 1) / degree)[:, None]
    padded = np.concatenate([lower[:1], lower, lower[-1:]])
    return part * padded[:-1] + (1 - part) * padded[1:]
