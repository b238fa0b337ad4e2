"""The velocity of a two-layer network with its activation pattern held fixed, as seen from Python.

``_data`` has the equations. While no side changes the velocity is smooth. A row that slides on some lines has ς = 0
there in ``Pattern.side``, and M_h is projected across their span, which is what Filippov's ς would do. Rows after the
active ones are **passive**: small differences between merged neurons, which follow the same linear equation as the
active row that owns them and are not seen by the output (``_merging``).
"""

import ctypes
import functools
from ctypes import byref
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._arrays import Desk, Form, Pattern
from biasfree.dynamics.exact._data import SQUARE, Data
from biasfree.dynamics.exact._kernels import engine, line_forces, pulls_in_c
from biasfree.dynamics.exact._methods import basis, on_curve
from biasfree.native import address

_LARGEST_FORM = 256  # rows × dimensions up to which a form's products are cheaper than the lines' (measured)


class Pulls(NamedTuple):
    """What pulls the rows of one state, or of several with one axis more in front.

    Attributes:
        level: ln L.
        decay: λ, divided by L on the loss clock.
        p, q: per output and line.
        mass: the size that these are differences of, Σ|et|/P; for square loss Σ|ty|/P.
        matrices: M_h of the active rows, what they slide on included.
    """

    level: Float[np.ndarray, "*n"]
    decay: Float[np.ndarray, "*n"]
    p: Float[np.ndarray, "*n outputs lines"]
    q: Float[np.ndarray, "*n outputs lines"]
    mass: Float[np.ndarray, "*n"]
    matrices: Float[np.ndarray, "*n active dim outputs"]

    @property
    def whole(self) -> float:
        """Σ|p| + Σ|q|: what all lines together could pull."""
        return float(np.abs(self.p).sum() + np.abs(self.q).sum())

    @property
    def scale(self) -> float:
        """What rounding of the pulls is measured by."""
        return self.whole + float(self.mass)


def pulls_of(
    states: Float[np.ndarray, "*n rows columns"], data: Data, side: Float[np.ndarray, "active lines"]
) -> Pulls:
    """The pulls of a state, or of many: the equations of ``_data``, as the compiled steps have them too."""
    if len(data.given):
        p, q = pulls_on_lines(states, data, side)
        return Pulls(np.array(np.nan), np.array(data.decay), p, q, np.array(data.mass), matrices_of(p, q, data, side))
    level, p, q, mass, matrices = pulls_in_c(states, data, side)
    decay = data.decay * np.exp(-level) if data.by_loss and data.decay > 0 else np.full(level.shape, data.decay)
    return Pulls(level, decay, p, q, mass, matrices)


class Moving(NamedTuple):
    """How the rows of one state move.

    Attributes:
        level: ln L on the loss clock, else 0.
        decay, p, q, mass: as of ``Pulls``.
        matrices: M_h of the active rows, without what they slide on.
        velocity: of all rows.
    """

    level: float
    decay: float
    p: Float[np.ndarray, "outputs lines"]
    q: Float[np.ndarray, "outputs lines"]
    mass: float
    matrices: Float[np.ndarray, "active dim outputs"]
    velocity: Float[np.ndarray, "rows columns"]

    @classmethod
    def of(cls, z: Float[np.ndarray, "rows columns"], data: Data, pattern: Pattern, desk: Desk) -> "Moving":
        """At some rows; the desk has room for them."""
        decay, velocity, outputs = ctypes.c_double(), np.empty(z.shape), data.outputs
        level = engine().biasfree_moving(
            address(z), byref(data.c), byref(pattern.c), byref(desk.c), address(velocity), byref(decay)
        )
        both = desk.work[: 2 * outputs].copy()
        mass = float(desk.work[2 * outputs, 0]) if both.size else 0.0
        return cls(level, decay.value, both[:outputs], both[outputs:], mass, desk.pull.copy(), velocity)

    @property
    def whole(self) -> float:
        """Σ|p| + Σ|q|: what all lines together could pull."""
        return float(np.abs(self.p).sum() + np.abs(self.q).sum())


def pulls_on_lines(
    z: Float[np.ndarray, "rows columns"], data: Data, side: Float[np.ndarray, "active lines"]
) -> tuple[Float[np.ndarray, "outputs lines"], Float[np.ndarray, "outputs lines"]]:
    """p and q of a state, without what they make of every row."""
    if len(data.given):
        both = on_curve(basis(data.given_at), data.given)
        return both[: data.outputs], both[data.outputs :]
    return line_forces(*line_outputs(z, data, side), data)


def matrices_of(
    p: np.ndarray, q: np.ndarray, data: Data, side: np.ndarray
) -> Float[np.ndarray, "*n active dim outputs"]:
    """M_h from the lines' pulls."""
    rows = p[..., None, :, :] + side[:, None, :] * q[..., None, :, :]  # (…, active, outputs, lines)
    return np.swapaxes(rows @ data.directions, -1, -2)


def line_outputs(
    states: Float[np.ndarray, "*n rows columns"], data: Data, side: Float[np.ndarray, "active lines"]
) -> tuple[Float[np.ndarray, "*n outputs lines"], Float[np.ndarray, "*n outputs lines"]]:
    """lin_l and even_l of all active rows together."""
    active, dim = len(side), data.directions.shape[1]
    first, second = states[..., :active, :dim], np.swapaxes(states[..., :active, dim:], -1, -2)
    if data.b == 0:
        lin = data.a * (second @ first) @ data.transposed
        return lin, np.zeros_like(lin)
    products = first @ data.transposed
    return data.a * (second @ products), data.b * (second @ (side * products))


def velocity(
    states: Float[np.ndarray, "*n rows columns"], pulls: Pulls, pattern: Pattern
) -> Float[np.ndarray, "*n rows columns"]:
    """The velocity of states from their pulls."""
    dim = pulls.matrices.shape[-2]
    matrices = pulls.matrices
    if pattern.across is not None:
        matrices = pattern.across @ matrices
    matrices = matrices[..., pattern.owner, :, :]
    first, second = states[..., :dim], states[..., dim:]
    moved = np.concatenate(
        [np.einsum("...hik,...hk->...hi", matrices, second), np.einsum("...hik,...hi->...hk", matrices, first)], axis=-1
    )
    return moved - np.asarray(pulls.decay)[..., None, None] * states


def form_of(data: Data, side: Float[np.ndarray, "active lines"]) -> Form:
    """Square loss within one pattern: the samples enter through a vector and a matrix.

    The residuals are linear in the outputs, and these, while no side changes, in m_k = w_k v_kᵀ. With the sums over
    each line's samples that ``Data.powers`` and ``sums`` hold,

        M_h = g_h − Σ_k M_hk m_k,    g_h = (1/P) Σ_l d_l (aΣty + bς_hl Σ|t|y)ᵀ,
        M_hk = (1/P) Σ_l d_l d_lᵀ ((a² + b²ς_hl ς_kl) Σt² + ab(ς_hl + ς_kl) Σt|t|).

    A few merged neurons on thousands of lines are moved by this at (rows × dim)² operations instead of rows × dim ×
    lines. Empty where the lines themselves are the cheaper way.
    """
    (active, lines), dim = side.shape, data.directions.shape[1]
    size, outputs = active * dim, data.target.shape[1]
    if data.loss != SQUARE or data.b == 0 or size > _LARGEST_FORM or 2 * size > lines:
        return no_form(outputs)
    odd, bent = data.sums
    pulled = data.a * odd[None] + data.b * side[:, None, :] * bent[None]  # (active, outputs, lines)
    constant = np.einsum("hkl,ld->hdk", pulled, data.directions).reshape(size, outputs) / data.samples
    matrix = np.empty((active, dim, active, dim))
    square, mixed = data.powers / data.samples
    for h in range(active):
        for k in range(h + 1):
            weight = (data.a**2 + data.b**2 * side[h] * side[k]) * square
            weight = weight + data.a * data.b * (side[h] + side[k]) * mixed
            block = (data.transposed * weight) @ data.directions
            matrix[h, :, k], matrix[k, :, h] = block, block.T
    return Form(np.ascontiguousarray(constant), matrix.reshape(size, size))


@functools.cache
def no_form(outputs: int) -> Form:
    """Of a pattern whose lines are the cheaper way."""
    return Form(np.zeros((0, outputs)), np.zeros((0, 0)))


def after_crossing(form: Form, data: Data, pattern: Pattern, h: int, line: int) -> None:
    """Change a form, in place, after row h has changed sides on a line: by multiples of d_l d_lᵀ."""
    if form.constant.size:
        engine().biasfree_turn(byref(form.c), byref(data.c), byref(pattern.c), h, line)
