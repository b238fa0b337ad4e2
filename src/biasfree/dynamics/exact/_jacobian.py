"""The derivative J of the velocity with respect to some rows, their sides held: minus a Hessian, so symmetric.

The samples of line l with t > 0 see u⁺_l = lin_l + even_l, those with t < 0 see u⁻_l = lin_l − even_l. With what the
loss bends by along them, C±_l = Σ ℓ″t²/P over the samples of one sign, a matrix over the outputs,

    J = A − Σ_l Σ_± ∇u±_l C±_l (∇u±_l)ᵀ,    A_h = [[−λ, M_h], [M_hᵀ, −λ]],
    ∂u±_l/∂w_h = (a ± bς_hl) d_l v_hᵀ,    ∂u±_l/∂v_h = (a ± bς_hl) w_hᵀd_l.

On the loss clock the velocity is F = −∇ ln L, and J has FFᵀ besides. The lines that a row slides on are projected out.
"""

from ctypes import byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._data import CROSS_ENTROPY, EXPONENTIAL, SQUARE, Data
from biasfree.dynamics.exact._field import line_outputs
from biasfree.dynamics.exact._kernels import engine
from biasfree.native import address, structure

_ROWS = structure("Rows", "p z side across matrices roots d decay i count")


class Rows(NamedTuple):
    """Rows that J is of, and what pulls them.

    Attributes:
        z: w and v.
        side: ς.
        across: the projections across what they slide on; None where none slides.
        matrices: M, projected.
        decay: λ.
        bends: C⁺ and C⁻ of every line.
        force: the velocity.
    """

    z: Float[np.ndarray, "rows columns"]
    side: Float[np.ndarray, "rows lines"]
    across: Float[np.ndarray, "rows dim dim"] | None
    matrices: Float[np.ndarray, "rows dim outputs"]
    decay: float
    bends: Float[np.ndarray, "2 lines outputs outputs"]
    force: Float[np.ndarray, "entries"]

    @property
    def parts(self) -> tuple[Float[np.ndarray, "rows dim"], Float[np.ndarray, "rows outputs"]]:
        """The weights w and v."""
        dim = self.matrices.shape[1]
        return self.z[:, :dim], self.z[:, dim:]


def bends(
    z: Float[np.ndarray, "active columns"], data: Data, side: np.ndarray, level: float
) -> Float[np.ndarray, "2 lines outputs outputs"]:
    """C⁺ and C⁻ of every line at rows ``z``, whose ln L is ``level``."""
    if data.loss == SQUARE:
        return data.curvature[0]
    each = np.eye(data.outputs)
    t, counts = data.position, np.diff(data.begin)  # samples of each line
    lin, even = (np.repeat(part, counts, axis=-1) for part in line_outputs(z, data, side))
    outputs = t * lin + np.abs(t) * even
    shift = level if data.by_loss else 0.0
    if data.loss == CROSS_ENTROPY:  # diag(s) − ssᵀ
        right, wrong = _log_odds(outputs)
        curved = -np.exp(right.T[:, :, None] + right.T[:, None, :] - shift)
        own = np.exp(right + wrong - shift).T
        curved = np.where(each > 0, own[:, :, None], curved)
    else:
        margin = data.target.T * outputs
        # ln ℓ″: that of logistic loss is σ(m)σ(−m).
        logs = -margin if data.loss == EXPONENTIAL else -np.logaddexp(0.0, margin) - np.logaddexp(0.0, -margin)
        curved = np.exp(logs - shift).T[:, :, None] * each
    weight = curved * (t**2)[:, None, None]
    right_half = (t > 0)[:, None, None]
    both = np.stack([np.where(right_half, weight, 0.0), np.where(right_half, 0.0, weight)])
    return np.add.reduceat(both, data.begin[:-1], axis=1) / data.samples


def _log_odds(outputs: Float[np.ndarray, "*n outputs samples"]) -> tuple[np.ndarray, np.ndarray]:
    """ln of the probability of each class, and of all others together, neither of which cancels."""
    leads = np.arange(outputs.shape[-2])[:, None] == np.argmax(outputs, axis=-2)[..., None, :]
    most = outputs.max(axis=-2, keepdims=True)
    others = np.logaddexp.reduce(np.where(leads, -np.inf, outputs), axis=-2, keepdims=True)
    whole = np.logaddexp(most, others)
    right = outputs - whole
    return right, np.where(leads, others - whole, np.log1p(-np.exp(np.where(leads, -1.0, right))))


def _roots(curved: Float[np.ndarray, "2 lines outputs outputs"]) -> Float[np.ndarray, "2 lines outputs outputs"]:
    """R with RRᵀ = C."""
    if curved.shape[-1] == 1:
        return np.sqrt(curved)
    sizes, vectors = np.linalg.eigh(curved)
    return vectors * np.sqrt(np.maximum(sizes, 0.0))[..., None, :]


def dense(rows: Rows, data: Data) -> Float[np.ndarray, "entries entries"]:
    """J as a matrix."""
    count, dim, outputs = rows.matrices.shape
    roots = data.curvature[1] if data.loss == SQUARE else np.ascontiguousarray(_roots(rows.bends))
    size, across = rows.z.size, None if rows.across is None else address(rows.across)
    jacobian, room = np.empty((size, size)), np.empty(2 * dim)
    slopes = np.empty((2 * outputs * rows.side.shape[1], size))
    given = _ROWS(
        address(rows.z), address(rows.side), across, address(rows.matrices), address(roots), rows.decay, count
    )
    used = engine().biasfree_jacobian(byref(given), byref(data.c), address(jacobian), address(slopes), address(room))
    slopes = slopes[:used]
    jacobian -= slopes.T @ slopes
    if data.by_loss:
        jacobian += np.outer(rows.force, rows.force)
    return jacobian


def times(vector: Float[np.ndarray, "entries"], rows: Rows, data: Data) -> Float[np.ndarray, "entries"]:
    """J times a vector, without J."""
    count, dim, _ = rows.matrices.shape
    change, (own, outgoing) = vector.reshape(count, -1), rows.parts
    first, second = change[:, :dim], change[:, dim:]
    if rows.across is not None:
        first = np.einsum("hij,hj->hi", rows.across, first)
    products, moved = own @ data.transposed, first @ data.transposed
    lin = data.a * (second.T @ products + outgoing.T @ moved)
    even = data.b * (second.T @ (rows.side * products) + outgoing.T @ (rows.side * moved))
    plus, minus = (np.einsum("lkj,jl->kl", *both) for both in zip(rows.bends, (lin + even, lin - even), strict=True))
    pulled = data.a * (plus + minus) + data.b * rows.side[:, None, :] * (plus - minus)
    bent = np.swapaxes(pulled @ data.directions, 1, 2)  # what M falls by
    if rows.across is not None:
        bent = rows.across @ bent
    one = np.einsum("hdk,hk->hd", rows.matrices, second) - np.einsum("hdk,hk->hd", bent, outgoing)
    other = np.einsum("hdk,hd->hk", rows.matrices, first) - np.einsum("hdk,hd->hk", bent, own)
    image = np.column_stack([one - rows.decay * first, other - rows.decay * second]).ravel()
    return image + rows.force * (rows.force @ vector) if data.by_loss else image
