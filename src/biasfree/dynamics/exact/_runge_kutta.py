"""One step of the Runge–Kutta method of order 8 by Dormand and Prince, its error, and its dense output.

Where events follow each other far more closely than its steps are long, most of the twelve stages would be spent on
what lies beyond the next event. A **short** step is one of Bogacki and Shampine's method of order 3 instead, three
stages, with the cubic through both ends' values and velocities for its dense output.
"""

import math

import numpy as np
from numba import njit
from scipy.integrate import DOP853

from biasfree.dynamics.exact._field import rows_of, velocity
from biasfree.dynamics.exact._forms import velocity_by_form

_A, _B, _E3, _E5 = (np.ascontiguousarray(m) for m in (DOP853.A, DOP853.B, DOP853.E3, DOP853.E5))
_A_EXTRA, _DENSE = np.ascontiguousarray(DOP853.A_EXTRA), np.ascontiguousarray(DOP853.D)
STAGES = 12
_SHORT = np.array([[0.5, 0.0, 0.0], [0.0, 0.75, 0.0], [2 / 9, 1 / 3, 4 / 9]])
_SHORT_ERROR = np.zeros(STAGES + 1)
_SHORT_ERROR[[0, 1, 2, STAGES]] = -5 / 72, 1 / 12, 1 / 9, -1 / 8


@njit(cache=True)
def _combine(state, stages, step, weights, count, out):
    """Write state + step·Σ weights·stages to ``out``; the sum first, so that small steps are not lost in rounding."""
    out[:] = 0.0
    for j in range(count):
        weight = weights[j] * step
        if weight != 0.0:
            for i in range(out.shape[0]):
                out[i] += weight * stages[j, i]
    for i in range(out.shape[0]):
        out[i] += state[i]


@njit(cache=True)
def _within(state, data, pattern, form, out, p, q):
    """The velocity inside a step, where p and q are not asked for."""
    if form.constant.shape[0]:
        velocity_by_form(state, data, pattern, form, out)
    else:
        velocity(state, data, pattern, out, p, q)


@njit(cache=True)
def trial(state, stages, step, data, pattern, form, p, q):
    """The end of a step; stages[0] holds the velocity at its beginning, stages[12] at its end on return."""
    end = np.empty_like(state)
    for s in range(1, STAGES):
        _combine(state, stages, step, _A[s], s, end)
        _within(end, data, pattern, form, stages[s], p, q)
    last = end.copy()
    _combine(state, stages, step, _B, STAGES, end)
    velocity(end, data, pattern, stages[STAGES], p, q)
    # The last stage and the end are two estimates at one time: how their velocities differ shows the fastest rate.
    speeds, places = 0.0, 0.0
    for i in range(state.shape[0] - 1):
        speeds += (stages[STAGES, i] - stages[STAGES - 1, i]) ** 2
        places += (end[i] - last[i]) ** 2
    return end, step * math.sqrt(speeds / places) if places > 0 else 0.0


@njit(cache=True)
def short_trial(state, stages, step, data, pattern, form, p, q):
    """The end of a short step; stages[12] holds the velocity there on return."""
    end = np.empty_like(state)
    for s in range(1, 3):
        _combine(state, stages, step, _SHORT[s - 1], s, end)
        _within(end, data, pattern, form, stages[s], p, q)
    _combine(state, stages, step, _SHORT[2], 3, end)
    velocity(end, data, pattern, stages[STAGES], p, q)
    return end


@njit(cache=True)
def error_of(state, end, stages, step, limits, active, dim, short):
    """Largest error of a neuron in units of its tolerance: by two embedded estimates, or a short step's one."""
    rows = rows_of(state, dim)
    fifth, third, size = np.zeros(active + 1), np.zeros(active + 1), np.zeros(active + 1)
    last = state.shape[0] - 1
    for i in range(state.shape[0]):
        h = i // dim if i < rows * dim else i - rows * dim
        if i == last:
            h = active
        elif h >= active:
            continue
        e5, e3 = 0.0, 0.0
        for j in range(STAGES + 1):
            if short:
                e5 += _SHORT_ERROR[j] * stages[j, i]
            else:
                e5 += _E5[j] * stages[j, i]
                e3 += _E3[j] * stages[j, i]
        fifth[h] += e5 * e5
        third[h] += e3 * e3
        size[h] += max(state[i] ** 2, end[i] ** 2)
    worst = 0.0
    for h in range(active + 1):
        if h < active:
            tolerance = limits.atol + limits.rtol * math.sqrt(size[h])
        else:
            tolerance = 0.01 * limits.rtol * max(limits.energy_scale, end[last])
        together = math.sqrt(fifth[h] + 0.01 * third[h])
        if together > 0 and tolerance > 0:
            worst = max(worst, step * fifth[h] / together / tolerance)
        elif together > 0 or not together >= 0:
            worst = np.inf
    return worst


@njit(cache=True)
def dense(state, end, stages, step, data, pattern, form, p, q, short):
    """Coefficients of the dense output, (7, size)."""
    course = np.zeros((7, state.shape[0]))
    for i in range(state.shape[0]):
        change, begin, final = end[i] - state[i], step * stages[0, i], step * stages[STAGES, i]
        course[0, i] = change
        course[1, i] = begin - change
        course[2, i] = 2 * change - begin - final
    if short:
        return course
    middle = np.empty_like(state)
    for extra in range(3):
        s = STAGES + 1 + extra
        _combine(state, stages, step, _A_EXTRA[extra], s, middle)
        _within(middle, data, pattern, form, stages[s], p, q)
    for k in range(4):
        for i in range(state.shape[0]):
            total = 0.0
            for j in range(16):
                total += _DENSE[k, j] * stages[j, i]
            course[3 + k, i] = step * total
    return course


@njit(cache=True)
def value_at(course, x):
    """The dense polynomial of one quantity, without its value at x = 0."""
    total = 0.0
    for i in range(7):
        total += course[6 - i]
        total *= x if i % 2 == 0 else 1 - x
    return total


@njit(cache=True)
def state_at(state, course, x):
    found = np.empty_like(state)
    for i in range(state.shape[0]):
        found[i] = state[i] + value_at(course[:, i], x)
    return found
