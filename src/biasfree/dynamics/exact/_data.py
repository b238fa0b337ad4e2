"""The samples as the exact flow sees them: by line, or by their moments alone.

Samples are grouped by line, x_i = t_i d_l. A neuron h has weights w_h (in) and v_h (out, one number per output) and
lies on side ς_hl = ±1 of line l. With a = (1+α)/2, b = (1−α)/2 the outputs are

    f_i = t_i·lin_l + |t_i|·even_l,    lin_l = a Σ_h v_h (w_hᵀd_l),    even_l = b Σ_h v_h ς_hl (w_hᵀd_l),

and with the residuals e_i = −∂ℓ/∂f_i / P the neurons obey

    ẇ_h = M_h v_h − λw_h,    v̇_h = M_hᵀw_h − λv_h,    M_h = Σ_l d_l (p_l + ς_hl q_l)ᵀ,
    p_l = a Σ e_i t_i,    q_l = b Σ e_i |t_i|.

For square loss the residuals are linear in the outputs, and four sums per line stand for all its samples.
"""

import ctypes
import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from biasfree.datasets import Dataset
from biasfree.dynamics._moments import Moments
from biasfree.lines import Lines
from biasfree.native import address, structure

SQUARE, LOGISTIC, EXPONENTIAL, CROSS_ENTROPY = 0, 1, 2, 3
KINDS = {"square": SQUARE, "logistic": LOGISTIC, "exponential": EXPONENTIAL, "cross-entropy": CROSS_ENTROPY}

_UNSPANNED = 1e-14  # part of the largest singular value: what rounding leaves of directions in one plane

_DATA = structure(
    "Data",
    "p transposed begin position target powers sums given d a b decay samples offset mass given_at given_rate "
    "i loss by_loss gives dim lines outputs",
)


class _Data(NamedTuple):
    """The samples by line, and the constants of the flow."""

    transposed: Float[np.ndarray, "dim lines"]  # d_l
    begin: Int[np.ndarray, "lines+1"]  # first sample of each line, and one past the last
    position: Float[np.ndarray, "samples"]  # t_i in order of lines; samples at the origin are left out
    target: Float[np.ndarray, "samples outputs"]
    powers: Float[np.ndarray, "2 lines"]  # Σt² and Σt|t|
    sums: Float[np.ndarray, "2 outputs lines"]  # Σty and Σ|t|y
    a: float
    b: float
    decay: float
    loss: int
    by_loss: bool  # the clock
    samples: float  # P, those at the origin included
    offset: float  # their part of P·L
    mass: float  # the size that pulls are differences of, where that is known: Σ|ty|/P for square loss
    given: Float[np.ndarray, "coefficients 2*outputs lines"]  # p and q as a curve in x (``_alone``), or nothing
    given_at: float  # its x at time 0
    given_rate: float  # how much x grows in a unit of time


class Data(_Data):
    """``_Data``, and the same for C."""

    @functools.cached_property
    def c(self) -> ctypes.Structure:
        """For C (``native/engine.h``)."""
        arrays = (self.position, self.target, self.powers, self.sums, self.given)
        return _DATA(
            address(self.transposed), address(self.begin, np.int64), *map(address, arrays), self.a, self.b, self.decay,
            self.samples, self.offset, self.mass, self.given_at, self.given_rate, self.loss, self.by_loss,
            len(self.given) > 0, *self.transposed.shape, self.outputs,
        )  # fmt: skip

    @property
    def directions(self) -> Float[np.ndarray, "lines dim"]:
        """d_l, one in a row."""
        return self.transposed.T

    @functools.cached_property
    def span(self) -> Float[np.ndarray, "dim rank"]:
        """An orthonormal basis of what the directions span."""
        _, sizes, basis = np.linalg.svd(self.directions, full_matrices=False)
        return np.ascontiguousarray(basis[sizes > _UNSPANNED * sizes.max(initial=0.0)].T)

    @functools.cached_property
    def halves(self) -> Float[np.ndarray, "2 lines"]:
        """Σt²/P over the samples of one sign, on every line."""
        square, mixed = self.powers
        return 0.5 * np.stack([square + mixed, square - mixed]) / self.samples

    @functools.cached_property
    def curvature(self) -> Float[np.ndarray, "2 2 lines outputs outputs"]:
        """C± of every line under square loss, where it is the same everywhere, and R with RRᵀ = C (``_jacobian``)."""
        return np.stack([self.halves, np.sqrt(self.halves)])[..., None, None] * np.eye(self.outputs)

    @property
    def outputs(self) -> int:
        """K."""
        return self.target.shape[1]


def by_line(grouped: Lines, dataset: Dataset, slope: float, loss: str, clock: str, decay: float) -> Data:
    """The samples in order of lines."""
    targets = np.asarray(dataset.targets, dtype=float).reshape(dataset.samples, -1)
    order = np.argsort(grouped.member, kind="stable")
    order = order[np.searchsorted(grouped.member[order], 0) :]
    begin = np.searchsorted(grouped.member[order], np.arange(len(grouped) + 1)).astype(np.int64)
    position, target = np.ascontiguousarray(grouped.position[order]), np.ascontiguousarray(targets[order])
    at_origin = targets[grouped.member < 0]
    constant = {
        "square": 0.5 * float(np.sum(at_origin**2)),
        "logistic": math.log(2) * at_origin.size,
        "exponential": float(at_origin.size),
        "cross-entropy": math.log(targets.shape[1]) * len(at_origin),
    }[loss]
    return _data(
        np.ascontiguousarray(grouped.directions), begin, position, target, slope, decay, loss, clock == "loss",
        float(dataset.samples), constant,
    )  # fmt: skip


def by_moments(dataset: Dataset, decay: float, a: float) -> Data:
    """A linear network under square loss sees β and Σ alone: D samples with the same moments stand for all."""
    targets = np.asarray(dataset.targets, dtype=float).reshape(dataset.samples, -1)
    moments = Moments.of(np.asarray(dataset.inputs, dtype=float), targets)
    dim = len(moments.position)
    data = _data(
        moments.directions, np.arange(dim + 1, dtype=np.int64), moments.position,
        np.ascontiguousarray(moments.target), 1.0, decay, "square", False, float(dim), 0.5 * moments.left,
    )  # fmt: skip
    return data._replace(a=a, b=0.0)


def sample_by_sample(target: Float[np.ndarray, "samples outputs"], decay: float, loss: str, clock: str) -> Data:
    """A line for each sample, and the sample at 1 on it: the losses of outputs that come from elsewhere."""
    samples = len(target)
    begin, ones = np.arange(samples + 1, dtype=np.int64), np.ones(samples)
    return _data(np.zeros((samples, 0)), begin, ones, target, 1.0, decay, loss, clock == "loss", float(samples), 0.0)


def _data(
    directions: np.ndarray,
    begin: np.ndarray,
    position: np.ndarray,
    target: np.ndarray,
    slope: float,
    decay: float,
    loss: str,
    by_loss: bool,
    samples: float,
    offset: float,
) -> Data:
    size = np.abs(position)
    count = len(begin) - 1

    def summed(terms: np.ndarray) -> np.ndarray:
        return np.add.reduceat(terms, begin[:-1], axis=0) if count else np.zeros((0, *terms.shape[1:]))

    powers = np.stack([summed(position**2), summed(position * size)])
    sums = np.stack([summed(position[:, None] * target).T, summed(size[:, None] * target).T])
    return Data(
        np.ascontiguousarray(directions.T), begin, position, target, np.ascontiguousarray(powers),
        np.ascontiguousarray(sums), 0.5 * (1 + slope), 0.5 * (1 - slope), float(decay), KINDS[loss], by_loss, samples,
        offset, float(np.sum(size[:, None] * np.abs(target))) / samples if loss == "square" else 0.0,
        np.zeros((0, 2 * target.shape[1], count)), 0.0, 0.0,
    )  # fmt: skip
