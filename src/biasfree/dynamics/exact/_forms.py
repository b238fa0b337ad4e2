"""Square loss within one pattern: the samples enter through a vector and a matrix.

The residuals are linear in the outputs, and these, while no side changes, in m_k = w₂k w_k. With the sums over each
line's samples that ``Data.moments`` holds (Σt², Σt|t|, Σty, Σ|t|y),

    c_h = g_h − Σ_k M_hk m_k,    g_h = (1/P) Σ_l d_l (aΣty + bς_hl Σ|t|y),
    M_hk = (1/P) Σ_l d_l d_lᵀ ((a² + b²ς_hl ς_kl) Σt² + ab(ς_hl + ς_kl) Σt|t|).

A few merged neurons on thousands of lines are moved by this at (neurons × dim)² operations instead of neurons × dim ×
lines; lines are then touched at the ends of steps only, to look for events. A neuron that crosses a line changes its
rows and columns by a multiple of d_l d_lᵀ.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from biasfree.dynamics.exact._field import SQUARE, moved, project, rows_of, split

_LARGEST = 256


class Form(NamedTuple):
    """g and M, flat in (neuron, coordinate); empty where the lines themselves are the cheaper way."""

    constant: np.ndarray
    matrix: np.ndarray


@njit(cache=True)
def form_of(data, pattern):
    """The form of a pattern."""
    active, lines = pattern.side.shape
    dim = data.directions.shape[1]
    size = active * dim
    if data.loss != SQUARE or data.b == 0 or size > _LARGEST or 2 * size > lines:
        return Form(np.zeros(0), np.zeros((0, 0)))
    constant, matrix = np.zeros(size), np.zeros((size, size))
    a, b = data.a, data.b
    weighted = np.empty((dim, lines))
    for h in range(active):
        for line in range(lines):
            pull = (a * data.moments[line, 2] + b * pattern.side[h, line] * data.moments[line, 3]) / data.samples
            for j in range(dim):
                constant[h * dim + j] += pull * data.directions[line, j]
        for k in range(h + 1):
            for line in range(lines):
                one, other = pattern.side[h, line], pattern.side[k, line]
                weight = (a * a + b * b * one * other) * data.moments[line, 0]
                weight = (weight + a * b * (one + other) * data.moments[line, 1]) / data.samples
                for j in range(dim):
                    weighted[j, line] = weight * data.transposed[j, line]
            block = np.dot(weighted, data.directions)
            for i in range(dim):
                for j in range(dim):
                    matrix[h * dim + i, k * dim + j] = block[i, j]
                    matrix[k * dim + j, h * dim + i] = block[i, j]
    return Form(constant, matrix)


@njit(cache=True)
def after_crossing(form, data, pattern, h, line):
    """Change the form after neuron h has changed sides."""
    if form.constant.shape[0] == 0:
        return
    dim = data.directions.shape[1]
    d, turned = data.directions[line], 2 * pattern.side[h, line] * data.b / data.samples
    for j in range(dim):
        form.constant[h * dim + j] += turned * data.moments[line, 3] * d[j]
    for k in range(pattern.side.shape[0]):
        change = turned * (data.b * pattern.side[k, line] * data.moments[line, 0] + data.a * data.moments[line, 1])
        if k == h:  # ς_h² does not change
            change = 2 * turned * data.a * data.moments[line, 1]
        for i in range(dim):
            for j in range(dim):
                part = change * d[i] * d[j]
                form.matrix[h * dim + i, k * dim + j] += part
                if k != h:
                    form.matrix[k * dim + i, h * dim + j] += part


@njit(cache=True)
def velocity_by_form(state, data, pattern, form, out):
    """As ``velocity``, from the form of the state's pattern."""
    dim, active = data.directions.shape[1], pattern.side.shape[0]
    first, second = split(state, rows_of(state, dim), dim)
    products = np.empty(active * dim)
    for h in range(active):
        for j in range(dim):
            products[h * dim + j] = second[h] * first[h, j]
    pull = (form.constant - np.dot(form.matrix, products)).reshape(active, dim)
    project(pull, pattern)
    moved(state, pull, data.decay, pattern, out)
