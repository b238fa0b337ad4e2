"""The velocity of a two-layer network with its activation pattern held fixed, compiled.

Samples are grouped by line, x_i = t_i d_l. With ς_hl the side of line l that neuron h is on, a = (1+α)/2, b = (1−α)/2,

    f_i = t_i·lin_l + |t_i|·even_l,    lin_l = a Σ_h w₂h (w_hᵀd_l),    even_l = b Σ_h w₂h ς_hl (w_hᵀd_l),

and with the residuals e_i = −∂ℓ/∂f/P the neurons obey

    ẇ_h = w₂h c_h − λw_h,    ẇ₂h = c_hᵀw_h − λw₂h,    c_h = Σ_l d_l (p_l + ς_hl q_l),
    p_l = aΣ e_i t_i,    q_l = bΣ e_i|t_i|.

As long as no ς changes this is smooth. A neuron that slides on some lines has ς = 0 there in ``side``, and c_h is
projected across their span, which is what Filippov's ς would do. On the loss clock e and λ are divided by L, in the
log domain.

Neurons that have merged are one row; rows after the first ``active`` ones are **passive**: small differences between
merged neurons, which follow the same linear equation ż = [[0, c], [cᵀ, 0]]z as their owner and are not seen by the
output.

Numba rather than JAX, as measured (``docs/exact.md``): one compilation serves all shapes, which merging changes from
time to time, and a call from Python costs microseconds.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from biasfree.switching._compiled import solved

SQUARE, LOGISTIC, EXPONENTIAL = 0, 1, 2
KINDS = {"square": SQUARE, "logistic": LOGISTIC, "exponential": EXPONENTIAL}


class Data(NamedTuple):
    """The samples by line, and the constants of the flow."""

    directions: np.ndarray  # (lines, dim)
    transposed: np.ndarray  # (dim, lines)
    begin: np.ndarray  # first sample of each line, and one past the last; (lines + 1,)
    position: np.ndarray  # t_i in order of lines; (samples off the origin,)
    target: np.ndarray
    a: float
    b: float
    decay: float
    loss: int
    by_loss: bool  # the clock
    moments: np.ndarray  # per line Σt², Σt|t|, Σty and Σ|t|y, (lines, 4)
    noise: np.ndarray  # what the tolerance leaves undecided of a line's pull: rtol·Σ|ty|/P for square loss, (lines,)
    rtol: float
    samples: float  # P, those at the origin included
    offset: float  # their part of P·L


class Pattern(NamedTuple):
    """Which side of each line each active neuron is on, what it slides on, and who owns the passive rows."""

    side: np.ndarray  # (active, lines)
    held: np.ndarray  # lines slid on, (active, room)
    rank: np.ndarray  # how many, (active,)
    basis: np.ndarray  # orthonormal basis of what c is projected across, (active, room, dim)
    span: np.ndarray  # its dimension: ``rank``, or all of it for a neuron held at w = 0; (active,)
    owner: np.ndarray  # (passive,)


@njit(cache=True)
def outputs_by_line(products, second, side, lin, even, a, b):
    """lin_l and even_l from w_hᵀd_l."""
    lin[:] = 0.0
    even[:] = 0.0
    for h in range(products.shape[0]):
        v = second[h]
        for line in range(products.shape[1]):
            term = v * products[h, line]
            lin[line] += term
            even[line] += side[h, line] * term
    for line in range(lin.shape[0]):
        lin[line] *= a
        even[line] *= b


@njit(cache=True)
def log_softplus(z):
    """ln ln(1 + e^z)."""
    if z < -18.0:
        return z - 0.5 * math.exp(z)
    return math.log(math.log1p(math.exp(z))) if z < 30.0 else math.log(z)


@njit(cache=True)
def log_loss_of(lin, even, data):
    """ln L from what the lines put out."""
    if data.loss == SQUARE:
        total = data.offset
        for line in range(lin.shape[0]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                error = data.target[i] - t * lin[line] - abs(t) * even[line]
                total += 0.5 * error * error
        return math.log(total / data.samples) if total > 0 else -np.inf
    top = math.log(data.offset) if data.offset > 0 else -np.inf
    logs = np.empty(data.position.shape[0])
    for line in range(lin.shape[0]):
        for i in range(data.begin[line], data.begin[line + 1]):
            t = data.position[i]
            margin = data.target[i] * (t * lin[line] + abs(t) * even[line])
            logs[i] = -margin if data.loss == EXPONENTIAL else log_softplus(-margin)
            top = max(top, logs[i])
    total = data.offset * math.exp(-top) if data.offset > 0 else 0.0
    for i in range(logs.shape[0]):
        total += math.exp(logs[i] - top)
    return top + math.log(total) - math.log(data.samples)


@njit(cache=True)
def pulls(lin, even, data, p, q):
    """p_l and q_l; returns λ, divided by L on the loss clock."""
    if data.loss == SQUARE:
        # The residuals are linear in the outputs: four sums per line stand for all its samples.
        for line in range(lin.shape[0]):
            square, mixed = data.moments[line, 0], data.moments[line, 1]
            plain, bent = data.moments[line, 2], data.moments[line, 3]
            p[line] = data.a * (plain - lin[line] * square - even[line] * mixed) / data.samples
            q[line] = data.b * (bent - lin[line] * mixed - even[line] * square) / data.samples
        return data.decay
    decay, shift = data.decay, 0.0
    if data.by_loss:
        level = log_loss_of(lin, even, data)
        shift = level
        if decay > 0:
            decay *= math.exp(-level)
    for line in range(lin.shape[0]):
        plain, bent = 0.0, 0.0
        for i in range(data.begin[line], data.begin[line + 1]):
            t, y = data.position[i], data.target[i]
            f = t * lin[line] + abs(t) * even[line]
            if data.loss == EXPONENTIAL:
                residual = y * math.exp(-y * f - shift)
            else:
                margin = y * f
                # ln σ(−m) = −softplus(m)
                soft = margin + math.log1p(math.exp(-margin)) if margin > 0 else math.log1p(math.exp(margin))
                residual = y * math.exp(-soft - shift)
            plain += residual * t
            bent += residual * abs(t)
        p[line] = data.a * plain / data.samples
        q[line] = data.b * bent / data.samples
    return decay


@njit(cache=True)
def split(state, rows, dim):
    """First and second layer as views of a state [W₁ | w₂ | energy]."""
    return state[: rows * dim].reshape(rows, dim), state[rows * dim : rows * (dim + 1)]


@njit(cache=True)
def rows_of(state, dim):
    """Number of rows of a state."""
    return (state.shape[0] - 1) // (dim + 1)


@njit(cache=True)
def raw_pull(first, second, data, pattern, p, q):
    """c_h before what is slid on is projected out, (active, dim); fills p and q, returns λ too."""
    active = pattern.side.shape[0]
    lines = data.directions.shape[0]
    lin, even = np.empty(lines), np.zeros(lines)
    if data.b == 0:
        # No kinks: all outputs come from Σ w₂w, and all neurons are pulled alike.
        lin[:] = data.a * np.dot(np.dot(second[:active], first[:active]), data.transposed)
        decay = pulls(lin, even, data, p, q)
        pull = np.empty((active, data.directions.shape[1]))
        pull[:] = np.dot(p, data.directions)
        return pull, decay
    products = np.dot(first[:active], data.transposed)
    outputs_by_line(products, second, pattern.side, lin, even, data.a, data.b)
    decay = pulls(lin, even, data, p, q)
    for h in range(active):
        for line in range(lines):
            products[h, line] = p[line] + pattern.side[h, line] * q[line]
    return np.dot(products, data.directions), decay


@njit(cache=True)
def project(pull, pattern):
    """Take out of every c what lies along the lines its neuron slides on."""
    for h in range(pull.shape[0]):
        for k in range(pattern.span[h]):
            part = 0.0
            for j in range(pull.shape[1]):
                part += pull[h, j] * pattern.basis[h, k, j]
            for j in range(pull.shape[1]):
                pull[h, j] -= part * pattern.basis[h, k, j]


@njit(cache=True)
def moved(state, pull, decay, pattern, out):
    """Write what c does to all rows, passive ones with their owner's, to ``out``; the squared speed last."""
    dim = pull.shape[1]
    rows, active = rows_of(state, dim), pattern.side.shape[0]
    first, second = split(state, rows, dim)
    out_first, out_second = split(out, rows, dim)
    power = 0.0
    for row in range(rows):
        owner = row if row < active else pattern.owner[row - active]
        v, along = second[row], 0.0
        for j in range(dim):
            along += pull[owner, j] * first[row, j]
            out_first[row, j] = v * pull[owner, j] - decay * first[row, j]
        out_second[row] = along - decay * v
        if row < active:
            power += out_second[row] ** 2
            for j in range(dim):
                power += out_first[row, j] ** 2
    out[-1] = power


@njit(cache=True)
def velocity(state, data, pattern, out, p, q):
    """Write the velocity of ``state`` to ``out``, whose last entry is the squared speed."""
    dim = data.directions.shape[1]
    first, second = split(state, rows_of(state, dim), dim)
    pull, decay = raw_pull(first, second, data, pattern, p, q)
    project(pull, pattern)
    moved(state, pull, decay, pattern, out)


@njit(cache=True)
def sliding_sides(h, pull, q, data, pattern):
    """ς on the lines neuron h slides on, from its unprojected pull: Σ_k ς_k q_k d_jᵀd_k = −d_jᵀc."""
    count = pattern.rank[h]
    matrix, right = np.empty((count, count)), np.empty(count)
    for i in range(count):
        one = data.directions[pattern.held[h, i]]
        right[i] = 0.0
        for j in range(one.shape[0]):
            right[i] -= one[j] * pull[h, j]
        for k in range(count):
            other = data.directions[pattern.held[h, k]]
            matrix[i, k] = 0.0
            for j in range(one.shape[0]):
                matrix[i, k] += one[j] * other[j]
            matrix[i, k] *= q[pattern.held[h, k]]
    return solved(matrix, right)


@njit(cache=True)
def noise_of(line, p, q, data):
    """Pulls of a line that the integration's error may have made: residuals are right to the tolerance at best."""
    return data.noise[line] + 0.1 * data.rtol * (abs(p[line]) + abs(q[line]))


@njit(cache=True)
def beyond(h, pull, p, q, data, pattern):
    """How hard a sliding neuron is pulled off its lines, (|ς| − 1)|q|, beyond what is noise; not above 0: it stays.

    Where residuals have died out down to the tolerance, ς is a quotient of errors and may be anything.
    """
    largest = -np.inf
    sides = sliding_sides(h, pull, q, data, pattern)
    for k in range(pattern.rank[h]):
        line = pattern.held[h, k]
        excess = (abs(sides[k]) - 1.0) * abs(q[line]) - noise_of(line, p, q, data)
        if not excess <= largest:
            largest = excess
    return largest


@njit(cache=True)
def log_loss(state, data, active):
    """ln L of a state; |wᵀd| needs no pattern."""
    dim, lines = data.directions.shape[1], data.directions.shape[0]
    first, second = split(state, rows_of(state, dim), dim)
    lin, even = np.zeros(lines), np.zeros(lines)
    products = np.dot(first[:active], data.transposed)
    for h in range(active):
        for line in range(lines):
            lin[line] += data.a * second[h] * products[h, line]
            even[line] += data.b * second[h] * abs(products[h, line])
    return log_loss_of(lin, even, data)
