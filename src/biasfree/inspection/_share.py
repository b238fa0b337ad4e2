"""How much of a network's output on the data is linear, judged on samples that did not choose the linear map.

The best linear map M is by least squares, and each sample is judged by the map that the *others* give, which has a
closed form: the residual of a sample that is left out is r_i/(1 − h_i) with h_i its leverage. Where samples are too few
for least squares (images), the mean of the other samples' local maps A_x is a second candidate; the one that predicts
left-out samples better is taken.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree.inspection._function import MOST_ENTRIES, Function
from biasfree.inspection._points import Points

# Leverage of a sample that no other sample says anything about.
_ALONE = 1 - 1e-9
# Samples per dimension from which least squares needs no second candidate; samples whose local maps are averaged.
_ENOUGH, _AVERAGED = 3, 16
_MOST_SAMPLES = 20_000


@dataclass(frozen=True, eq=False)
class LinearShare:
    """The linear part of the output on the data.

    Attributes:
        share: 1 − Σ‖f(x) − Mx‖²/Σ‖f(x)‖² over samples left out in turn.
        distance: √(1 − share) where that is a number: root mean square of what is not linear, relative to the output.
        in_sample: the same distance when no sample is left out, None where least squares fits anything.
        per_sample_distance: ‖f(x) − Mx‖/‖f(x)‖ of each sample, shape (samples,).
        chosen: which samples, where there are too many for all.
        affine: the share when a constant is allowed too, None without biases or with too few samples.
        linear_map: M from all samples, shape (outputs, dim); None where it is too large to hold or never formed.
        method: how M was found, in words.
        worst_sample, worst_output: where Mx misses f(x) most.
        worst_distance: ‖f(x) − Mx‖/‖f(x)‖ of that sample.
        samples: how many were judged; one sample alone is not judged, and its numbers are NaN.
        enough: whether there are samples enough for least squares; else a better linear map may exist.
    """

    share: float
    distance: float
    in_sample: float | None
    per_sample_distance: Float[np.ndarray, "samples"]
    chosen: np.ndarray
    affine: float | None
    linear_map: Float[np.ndarray, "out dim"] | None
    method: str
    worst_sample: int
    worst_output: int
    worst_distance: float
    samples: int
    enough: bool

    @property
    def per_sample(self) -> Float[np.ndarray, "samples"]:
        """The share of each sample."""
        return 1 - self.per_sample_distance**2

    def to_dict(self) -> dict[str, Any]:
        """For JSON; the map only where it is small."""
        small = self.linear_map is not None and self.linear_map.size <= 10_000
        return {
            "share": self.share, "distance": self.distance, "in_sample_distance": self.in_sample,
            "affine_share": self.affine, "method": self.method, "samples": self.samples, "enough_samples": self.enough,
            "per_sample": self.per_sample, "per_sample_distance": self.per_sample_distance,
            "linear_map": self.linear_map if small else None,
            "fails_most": {
                "sample": self.worst_sample, "output": self.worst_output, "distance": self.worst_distance
            },
        }  # fmt: skip


def measured(function: Function, points: Points, with_constant: bool) -> LinearShare:
    """The linear share on the points.

    Args:
        function: what is measured.
        points: where.
        with_constant: say also what a linear map plus a constant explains.
    """
    chosen = np.arange(len(points))
    if len(points) > _MOST_SAMPLES:
        chosen = np.linspace(0, len(points) - 1, _MOST_SAMPLES).round().astype(int)
    some = points[chosen]
    x, f = some.x, function(some)
    unit = float(np.abs(f).max()) or 1.0
    f = f / unit
    dim, out = x.shape[1], f.shape[1]
    fit = _least_squares(x, f)
    rest, method, kept = fit.left_out, f"least squares on {len(some)} samples, each judged without itself", chosen
    linear_map = unit * fit.coefficients.T if out * dim <= MOST_ENTRIES else None
    if len(some) < _ENOUGH * dim and len(some) > 1:
        few = _few(len(some))
        other = _by_local_maps(function, some[few], f[few], unit)
        if np.linalg.norm(other) < np.linalg.norm(rest[few]) or not np.isfinite(rest[few]).all():
            rest, kept, f = other, chosen[few], f[few]
            linear_map = None
            method = (
                f"mean of {len(few)} local maps, each sample judged by the others'; too few samples for least squares"
            )
    if len(some) == 1:
        # There is no other sample to judge it by.
        rest = np.full_like(f, np.nan)
    size, missed = np.linalg.norm(f, axis=1), np.linalg.norm(rest, axis=1)
    total = float((size**2).sum()) or 1.0
    share = 1 - float((missed**2).sum()) / total
    worst = int(np.argmax(missed))
    return LinearShare(
        share, float(np.sqrt(np.maximum(1 - share, 0.0))),
        None if fit.interpolates else float(np.sqrt(fit.squares / max(fit.total, 1e-300))),
        missed / np.where(size > 0, size, np.inf), kept,
        _affine(x, function(some) / unit) if with_constant and len(x) > dim + 1 else None, linear_map, method,
        int(kept[worst]), int(np.argmax(np.abs(rest[worst]))), float(missed[worst] / (size[worst] or 1.0)), len(kept),
        len(some) >= _ENOUGH * dim,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Fit:
    coefficients: np.ndarray  # (dim, out)
    left_out: np.ndarray  # residual of each sample under the map of the others; of size f where there is none
    squares: float  # of all residuals, none left out
    total: float  # of all outputs
    interpolates: bool


def _least_squares(x: np.ndarray, f: np.ndarray) -> _Fit:
    left, sizes, right = np.linalg.svd(x, full_matrices=False)
    kept = sizes > sizes.max(initial=0.0) * max(x.shape) * np.finfo(float).eps
    left, sizes, right = left[:, kept], sizes[kept], right[kept]
    coefficients = right.T @ ((left.T @ f) / sizes[:, None])
    rest = f - left @ (left.T @ f)
    leverage = (left**2).sum(axis=1)
    alone = leverage > _ALONE
    # A sample that alone spans a direction is predicted by the others in the remaining ones only.
    out = rest / np.where(alone, 1.0, 1 - leverage)[:, None]
    out[alone] = f[alone]
    return _Fit(coefficients, out, float((rest**2).sum()), float((f**2).sum()), len(x) <= int(kept.sum()))


def _affine(x: np.ndarray, f: np.ndarray) -> float:
    fit = _least_squares(np.column_stack([x, np.ones(len(x))]), f)
    return 1 - float((fit.left_out**2).sum()) / (fit.total or 1.0)


def _few(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, _AVERAGED)).round().astype(int))


def _by_local_maps(function: Function, some: Points, f: np.ndarray, unit: float) -> np.ndarray:
    """f(x_i) less the mean over j ≠ i of A_{x_j} x_i."""
    count = len(some)
    total = np.zeros_like(f)
    for j in range(count):
        others = np.arange(count) != j
        total[others] += function.from_one(some[[j]], some.x[others]) / unit
    return f - total / (count - 1)
