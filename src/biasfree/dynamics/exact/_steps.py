"""Smooth steps from event to event: the Runge–Kutta method of order 8 by Dormand and Prince, with dense output.

Within a step the pattern is held fixed, so the field is analytic and the full order is kept. At its end the step is
searched for **events**:

- a neuron met a line (g = w_hᵀd_l changed sign, or dipped below zero and came back);
- a sliding neuron's ς reached ±1;
- a sliding neuron's w₂ changed sign.

Their times are roots on the dense output, a polynomial of degree 7. The step then ends at the first one and the caller
decides what the neuron does there. **Weak crossings** do not end it: crossing line l changes ẇ by −2ςw₂q_ld_l; where
that cannot stop the neuron, and its effect over the rest of the step is small, it is added to the step's end to second
order (``_crossed``), for all crossings of a step together. With thousands of lines most crossings are of this kind; and
once the even part of a network has died out on symmetric data all of them are.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from biasfree.dynamics.exact._field import Pattern, beyond, log_loss, noise_of, raw_pull, rows_of, split, velocity
from biasfree.dynamics.exact._forms import after_crossing
from biasfree.dynamics.exact._runge_kutta import STAGES, dense, error_of, short_trial, state_at, trial, value_at

# Why ``advance`` came back.
REACHED, PAUSED, MET, FULL, TURNED, LEVEL, FAILED, STIFF, PARTED = range(9)

_BLUR = 1e-13  # how deep beyond a surface, as part of ‖w‖, is still on it
_SHALLOW = 1e-2  # the same for the end of a step, as part of rtol‖w‖: less is the step's error
_SCAN = 8
_BOUNDARY, _STIFF = 4.0, 12  # the method's stability ends near 6


class Limits(NamedTuple):
    """When to stop and what to keep."""

    rtol: float
    atol: float
    energy_scale: float
    level: float  # ln L to end at
    apart: float  # squared size of a group's passive rows, relative to the active one, at which it is no group any more
    watch: bool  # come back when the steps are held by stability


class Log(NamedTuple):
    """What a call of ``advance`` leaves behind, in arrays of fixed room."""

    saved: np.ndarray  # states at the times asked for, (room, size)
    crossed: np.ndarray  # neuron and line of negligible crossings, (room, 2)
    crossed_at: np.ndarray
    spent: np.ndarray  # evaluations, (1,)


@njit(cache=True)
def _first_root(begin, course, side):
    """The first x at which side·(begin + polynomial) goes below zero; 2 if it never does."""
    low = 0.0
    for k in range(1, _SCAN + 1):
        high = k / _SCAN
        if side * (begin + value_at(course, high)) < 0:
            for _ in range(60):
                middle = 0.5 * (low + high)
                if side * (begin + value_at(course, middle)) < 0:
                    high = middle
                else:
                    low = middle
                if high - low <= 1e-16 * high:
                    break
            return high
        low = high
    return 2.0


@njit(cache=True)
def _excess(state, data, pattern, h, p, q):
    """How far a sliding neuron's ς is beyond ±1."""
    dim = data.directions.shape[1]
    first, second = split(state, rows_of(state, dim), dim)
    pull, _ = raw_pull(first, second, data, pattern, p, q)
    return beyond(h, pull, p, q, data, pattern)


@njit(cache=True)
def _dips(g0, g1, slope0, slope1, blur):
    """Whether the cubic through both ends' values and slopes goes below −blur between them."""
    for k in range(1, 8):
        x = k / 8
        y = 1 - x
        if g0 * y * y * (1 + 2 * x) + g1 * x * x * (3 - 2 * x) + x * y * (slope0 * y - slope1 * x) < -blur:
            return True
    return False


@njit(cache=True)
def _products(state, data, active):
    dim = data.directions.shape[1]
    first, _ = split(state, rows_of(state, dim), dim)
    return np.dot(first[:active], data.transposed)


@njit(cache=True)
def parted(state, pattern, dim, apart):
    """Whether the differences within a group have outgrown it."""
    rows, active = rows_of(state, dim), pattern.side.shape[0]
    if rows == active:
        return False
    first, second = split(state, rows, dim)
    room = np.zeros(active)
    for row in range(rows):
        square = second[row] ** 2
        for j in range(dim):
            square += first[row, j] ** 2
        if row < active:
            room[row] = apart * square
        else:
            room[pattern.owner[row - active]] -= square
    return room.min() < 0


@njit(cache=True)
def _crossed(end, speed, suspects, roots, kicks, step, data, pattern, limits):
    """The end of a step in which neurons crossed lines, corrected to second order; empty if that is not enough.

    A crossing at a time τ before the end changes ẇ by ``kick`` d from there on. Its first order is τ·kick d. The second
    has two parts: what the kicks do to the velocity, J Σ ½τ²kick d, by a difference of velocities, and what grows from
    zero since the crossing (the crossed line's response to |wᵀd|), which is what the velocity with the new sides has at
    the end beyond the kicks, over τ/2. The third order is taken to be three tenths of the second.
    """
    dim, active = data.directions.shape[1], pattern.side.shape[0]
    rows, lines = rows_of(end, dim), data.directions.shape[0]
    p, q = np.empty(lines), np.empty(lines)
    first_order, bent, kicked = np.zeros_like(end), np.zeros_like(end), np.zeros_like(end)
    side = pattern.side.copy()
    total, weighted = 0.0, 0.0
    for k in range(kicks.shape[0]):
        if roots[k] > 1.0:
            continue
        h, line = suspects[k, 0], suspects[k, 1]
        left = (1.0 - roots[k]) * step
        side[h, line] = -side[h, line]
        total += abs(kicks[k])
        weighted += abs(kicks[k]) * left
        for j in range(dim):
            part = kicks[k] * data.directions[line, j]
            first_order[h * dim + j] += left * part
            bent[h * dim + j] += 0.5 * left * left * part
            kicked[h * dim + j] += part
    if total == 0:
        return end
    moved, fresh = np.empty_like(end), np.empty_like(end)
    velocity(end + bent, data, pattern, moved, p, q)
    flipped = Pattern(side, pattern.held, pattern.rank, pattern.basis, pattern.span, pattern.owner)
    velocity(end, data, flipped, fresh, p, q)
    found = end + first_order
    error, size = np.zeros(active), np.zeros(active)
    for i in range(end.shape[0] - 1):
        row = i // dim if i < rows * dim else i - rows * dim
        if row >= active:
            continue
        second = moved[i] - speed[i] + 0.5 * (weighted / total) * (fresh[i] - speed[i] - kicked[i])
        found[i] += second
        error[row] += second * second
        size[row] += found[i] ** 2
    for h in range(active):
        if not 0.3 * math.sqrt(error[h]) <= 0.3 * (limits.rtol * math.sqrt(size[h]) + limits.atol):
            return np.empty(0)
    # The squared speed changes with the kicks, too.
    for i in range(end.shape[0] - 1):
        found[-1] += 2 * speed[i] * first_order[i]
    return found


@njit(cache=True)
def _sizes(state, rows, active, dim):
    """‖w_h‖."""
    first, _ = split(state, rows, dim)
    found = np.empty(active)
    for h in range(active):
        total = 0.0
        for j in range(dim):
            total += first[h, j] ** 2
        found[h] = math.sqrt(total)
    return found


@njit(cache=True)
def advance(state, time, step, stiff, reach, until, quota, saves, data, pattern, form, limits, log):
    """Step until something is to be decided.

    Args that are not plain:
        stiff: counts the steps held by stability, less those that were not, from call to call.
        reach: take short steps, of this length at first; 0 for none. Their error counts in proportion to their length,
            since there are so many; if one is too large they are given up, and 0 comes back.

    Returns:
        state, time, step, stiff, reach, why, neuron, line, accepted, rejected, saved, crossed.
    """
    dim = data.directions.shape[1]
    active, lines = pattern.side.shape
    rows = rows_of(state, dim)
    stages = np.zeros((16, state.shape[0]))
    p, q = np.empty(lines), np.empty(lines)
    velocity(state, data, pattern, stages[0], p, q)
    q0 = q.copy()
    g0 = _products(state, data, active)
    slope0 = _products(stages[0], data, active)
    accepted, rejected, saved, crossed = 0, 0, 0, 0
    tiny, fresh = 1e-300, True
    sizes = _sizes(state, rows, active, dim)
    while True:
        if time >= until:
            return state, time, step, stiff, reach, REACHED, -1, -1, accepted, rejected, saved, crossed
        if accepted > 0 and fresh and parted(state, pattern, dim, limits.apart):
            return state, time, step, stiff, reach, PARTED, -1, -1, accepted, rejected, saved, crossed
        if stiff >= _STIFF and limits.watch:
            return state, time, step, stiff, reach, STIFF, -1, -1, accepted, rejected, saved, crossed
        if saved >= log.saved.shape[0] > 0:
            return state, time, step, stiff, reach, PAUSED, -1, -1, accepted, rejected, saved, crossed
        # On a surface to rounding and pushed through it.
        if data.b != 0 and fresh:
            fresh = False
            tiny_pull = 0.0
            for line in range(lines):
                tiny_pull += 1e-11 * (abs(p[line]) + abs(q[line]))
            _, second = split(state, rows, dim)
            for h in range(active):
                for line in range(lines):
                    side = pattern.side[h, line]
                    if side * g0[h, line] <= 0.1 * _BLUR * sizes[h] and (
                        side * slope0[h, line]
                        < -abs(second[h]) * (noise_of(line, p, q, data) + tiny_pull) - 1e-3 * sizes[h] * tiny_pull
                    ):
                        return state, time, step, stiff, reach, MET, h, line, accepted, rejected, saved, crossed
        if accepted + rejected >= quota:
            return state, time, step, stiff, reach, PAUSED, -1, -1, accepted, rejected, saved, crossed
        short = 0 < reach < 0.5 * step
        this = min(step, until - time)
        if short:
            this = min(this, reach)
            end, stiffness = short_trial(state, stages, this, data, pattern, form, p, q), 0.0
            log.spent[0] += 3
            if not error_of(state, end, stages, this, limits, active, dim, True) <= this / step:
                rejected += 1
                reach = 0.0
                continue
            error = 1.0
        else:
            end, stiffness = trial(state, stages, this, data, pattern, form, p, q)
            log.spent[0] += STAGES
            error = error_of(state, end, stages, this, limits, active, dim, False)
        if not error <= 1.0:
            rejected += 1
            stiff += 3  # at the edge of stability every second or third step fails
            shrink = 0.1 if not error < 1e10 else max(0.2, 0.9 * error ** (-1 / 8))
            step = this * shrink
            if not step > 1e-15 * time + tiny:
                return state, time, step, stiff, reach, FAILED, -1, -1, accepted, rejected, saved, crossed
            continue
        if stiffness > _BOUNDARY:
            stiff += 1
        elif not short:
            stiff = max(0, stiff - 1)
        grow = 10.0 if error < 1e-12 else min(10.0, max(0.3, 0.9 * error ** (-1 / 8)))
        g1 = _products(end, data, active)
        slope1 = _products(stages[STAGES], data, active)
        sizes = _sizes(end, rows, active, dim)
        # Candidates.
        _, second = split(state, rows, dim)
        end_first, end_second = split(end, rows, dim)
        found = 0
        suspects = np.empty((0, 2), dtype=np.int64)
        slides = False
        if data.b != 0:
            for h in range(active):
                for line in range(lines):
                    side = pattern.side[h, line]
                    if side == 0:
                        continue
                    x0, x1 = side * g0[h, line], side * g1[h, line]
                    s0, s1 = side * slope0[h, line] * this, side * slope1[h, line] * this
                    blur = max(_BLUR, _SHALLOW * limits.rtol) * sizes[h]
                    if x1 < -blur or (s0 < 0 < s1 and x0 > 0 and _dips(x0, x1, s0, s1, blur)):
                        if found == suspects.shape[0]:
                            more = np.empty((2 * found + 16, 2), dtype=np.int64)
                            more[:found] = suspects[:found]
                            suspects = more
                        suspects[found, 0], suspects[found, 1] = h, line
                        found += 1
                slides = slides or pattern.rank[h] > 0
        leaving = -1
        if slides:
            pull, _ = raw_pull(end_first, end_second, data, pattern, p, q)
            for h in range(active):
                if pattern.rank[h] == 0:
                    continue
                over = not beyond(h, pull, p, q, data, pattern) <= 0.0
                if over or second[h] * end_second[h] < 0 or (end_second[h] == 0 and second[h] != 0):
                    leaving = h
                    break
        level_passed = limits.level > -np.inf and log_loss(end, data, active) <= limits.level
        wanted = saved < saves.shape[0] and saves[saved] <= time + this
        if found == 0 and leaving < 0 and not level_passed and not wanted:
            state, time = end, time + this if this < until - time else until
            g0, slope0 = g1, slope1
            q0 = q.copy()
            stages[0] = stages[STAGES]
            fresh = True
            accepted += 1
            reach *= 1.5
            step = max(step, this) if this < step else this * grow
            continue
        if crossed > 0 and crossed + found > log.crossed.shape[0]:
            return state, time, step, stiff, reach, PAUSED, -1, -1, accepted, rejected, saved, crossed
        # The first event, on the dense output.
        course = dense(state, end, stages, this, data, pattern, form, p, q, short)
        raw_pull(end_first, end_second, data, pattern, p, q)  # q at the end
        when, why, who, which = 1.0, -1, -1, -1
        roots = np.empty(found)
        batch = leaving < 0 and not level_passed
        for k in range(found):
            h, line = suspects[k, 0], suspects[k, 1]
            side = pattern.side[h, line]
            projected = np.zeros(7)
            for c in range(7):
                for j in range(dim):
                    projected[c] += course[c, h * dim + j] * data.directions[line, j]
            root = _first_root(g0[h, line], projected, side)
            roots[k] = root
            if root > 1.0:
                continue
            kick = 2 * abs(end_second[h] * q[line])
            passes = abs(slope1[h, line]) > 10 * kick and side * slope1[h, line] < 0
            weak = abs(q[line]) <= noise_of(line, p, q, data)
            batch = batch and side * g1[h, line] < 0 and (passes or weak)
            if root < when or why < 0:
                when, why, who, which = root, MET, h, line
        kicks = np.zeros(found)
        for k in range(found):
            if roots[k] <= 1.0:
                h, line = suspects[k, 0], suspects[k, 1]
                x = 0.5 * (1.0 + roots[k])
                strength = q0[line] + x * (q[line] - q0[line])
                kicks[k] = -2 * pattern.side[h, line] * strength * (second[h] + x * (end_second[h] - second[h]))
        passed = False
        if why == MET and batch:
            corrected = _crossed(end, stages[STAGES], suspects, roots, kicks, this, data, pattern, limits)
            if corrected.shape[0] > 0:
                why, passed, end = -1, True, corrected
        if leaving >= 0:
            for h in range(active):
                if pattern.rank[h] == 0:
                    continue
                # w₂ = 0
                v0 = second[h]
                if v0 * end_second[h] < 0 or (end_second[h] == 0 and v0 != 0):
                    root = _first_root(v0, course[:, rows * dim + h].copy(), 1.0 if v0 > 0 else -1.0)
                    if root <= 1.0 and (root < when or why < 0):
                        when, why, who, which = root, TURNED, h, -1
                reach = when if why >= 0 else 1.0
                if not _excess(state_at(state, course, reach), data, pattern, h, p, q) <= 0:
                    low, high = 0.0, reach
                    for k in range(1, 5):
                        x = reach * k / 4
                        if not _excess(state_at(state, course, x), data, pattern, h, p, q) <= 0:
                            high = x
                            break
                        low = x
                    for _ in range(60):
                        x = 0.5 * (low + high)
                        if not _excess(state_at(state, course, x), data, pattern, h, p, q) <= 0:
                            high = x
                        else:
                            low = x
                        if high - low <= 1e-15 * high:
                            break
                    when, why, who, which = high, FULL, h, -1
        if level_passed or limits.level > -np.inf:
            reach = when if why >= 0 else 1.0
            if log_loss(state_at(state, course, reach), data, active) <= limits.level:
                low, high = 0.0, reach
                for _ in range(60):
                    x = 0.5 * (low + high)
                    if log_loss(state_at(state, course, x), data, active) <= limits.level:
                        high = x
                    else:
                        low = x
                    if high - low <= 1e-15 * high:
                        break
                when, why, who, which = high, LEVEL, -1, -1
        if why < 0:
            when = 1.0
        arrival = time + when * this
        if why < 0 and this >= until - time:
            arrival = until
        while saved < saves.shape[0] and saves[saved] <= arrival:
            x = min(max((saves[saved] - time) / this, 0.0), when)
            log.saved[saved] = state_at(state, course, x)
            saved_first, _ = split(log.saved[saved], rows, dim)
            for k in range(found):
                if passed and roots[k] < x:
                    h, line = suspects[k, 0], suspects[k, 1]
                    for j in range(dim):
                        saved_first[h, j] += kicks[k] * (x - roots[k]) * this * data.directions[line, j]
            saved += 1
        if passed:
            for k in range(found):
                if roots[k] <= 1.0:
                    h, line = suspects[k, 0], suspects[k, 1]
                    pattern.side[h, line] = -pattern.side[h, line]
                    after_crossing(form, data, pattern, h, line)
                    log.crossed[crossed, 0], log.crossed[crossed, 1] = h, line
                    log.crossed_at[crossed] = time + roots[k] * this
                    crossed += 1
        state, time = end if why < 0 else state_at(state, course, when), arrival
        accepted += 1
        if why >= 0:
            return state, time, step, stiff, reach, why, who, which, accepted, rejected, saved, crossed
        velocity(state, data, pattern, stages[0], p, q)
        q0 = q.copy()
        g0 = _products(state, data, active)
        slope0 = _products(stages[0], data, active)
        sizes = _sizes(state, rows, active, dim)
        fresh = True
        step = max(step, this) if this < step else this * grow
