"""Extremal directions of G(u) = ⟨r σ(uᵀx)⟩ on the sphere, for any residuals r: exact in one and two dimensions.

On lines x_i = t_i d_l, G(u) = pᵀu + Σ_l s_l|uᵀd_l| with p = a⟨r x⟩, s_l = b⟨r|t|⟩. In the plane their normals cut the
circle into arcs, on each of which G = cᵀu with c constant: its maximum on the arc is at c̄ if that lies within, else
at an end, where it is a local maximum if G rises to it from both sides. In more dimensions random neurons find extrema
from below (``gathering_directions``), and max_u G(u) ≤ ‖p‖ + max_u ‖Σ_l s_l sgn(uᵀd_l) d_l‖ closes the interval.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.theory._asymmetry import Bound, signed_bound
from biasfree.theory._gathering import gathering_directions

_SAME_ANGLE = 1e-12
_SEARCHED = 400


class Extremum(NamedTuple):
    """A direction u at which neurons with this sign of v gather, and |G(u)|."""

    direction: Float[np.ndarray, "dim"]
    sign: int
    rate: float


def extrema(
    dataset: Dataset, residuals: Float[np.ndarray, "samples"], slope: float, seed: int = 0
) -> tuple[tuple[Extremum, ...], Bound]:
    """The growing directions of residuals, the fastest first, and the largest rate enclosed.

    Args:
        dataset: inputs.
        residuals: r.
        slope: α.
        seed: of the search in three and more dimensions.
    """
    a, dim = 0.5 * (1 + slope), dataset.dim
    grouped = lines(dataset.inputs)
    drift, even, kept = grouped.pulls(residuals / dataset.samples)
    drift, even, directions = a * drift, (1 - a) * even[kept], grouped.directions[kept]
    if dim == 1:
        maxima = _on_two_rays(drift, even)
    elif dim == 2:
        maxima = _on_circle(drift, even, directions)
    else:
        gathered = gathering_directions(Dataset(dataset.inputs, residuals), slope, samples=_SEARCHED, seed=seed)
        maxima = [Extremum(g.direction, g.sign, g.rate) for g in gathered]
    maxima = sorted(maxima, key=lambda each: -each.rate)
    best = maxima[0] if maxima else Extremum(np.eye(dim)[0], 1, 0.0)
    if dim <= 2:
        return tuple(maxima), Bound(best.rate, best.rate, best.direction, True, np.nan)
    even_part = signed_bound(even, directions, dim, seed)
    upper = max(float(np.linalg.norm(drift)) + even_part.upper, best.rate)
    return tuple(maxima), Bound(best.rate, upper, best.direction, upper <= best.rate * (1 + 1e-12), np.nan)


def _on_two_rays(drift: np.ndarray, even: np.ndarray) -> list[Extremum]:
    maxima = []
    for side in (1.0, -1.0):
        value = float(side * drift[0] + even.sum())
        if value:
            maxima.append(Extremum(np.array([side]), int(np.sign(value)), abs(value)))
    return maxima


def _on_circle(drift: np.ndarray, even: np.ndarray, directions: np.ndarray) -> list[Extremum]:
    normals = np.arctan2(directions[:, 1], directions[:, 0]) + np.pi / 2
    edges = np.unique(np.mod(np.concatenate([normals, normals + np.pi]), 2 * np.pi))
    if not len(edges):
        size = float(np.linalg.norm(drift))
        return [Extremum(s * drift / size, s, size) for s in (1, -1)] if size else []
    lengths = np.diff(np.append(edges, edges[0] + 2 * np.pi))
    middle = edges + lengths / 2
    units = np.column_stack([np.cos(middle), np.sin(middle)])
    pulls = drift + (np.sign(units @ directions.T) * even) @ directions
    maxima = []
    for k, (pull, length) in enumerate(zip(pulls, lengths, strict=True)):
        size = float(np.linalg.norm(pull))
        edge, before = edges[k], pulls[k - 1]
        at_edge = np.array([np.cos(edge), np.sin(edge)])
        turning = np.array([-at_edge[1], at_edge[0]])
        for sign in (1, -1):
            if size:
                angle = np.arctan2(sign * pull[1], sign * pull[0])
                ahead = np.mod(angle - edge + _SAME_ANGLE, 2 * np.pi)
                if 2 * _SAME_ANGLE < ahead < length:
                    maxima.append(Extremum(sign * pull / size, sign, size))
            value = sign * float(at_edge @ pull)
            if value > 0 and sign * float(before @ turning) >= 0 >= sign * float(pull @ turning):
                maxima.append(Extremum(at_edge, sign, value))
    return maxima
