"""Plain crossings of negligible neurons, compiled: all but a few of what happens in an early phase.

A crossing is plain if the neuron goes on through the line it has met and goes on sliding on the lines it slid on:
flipped, the line must let it pass, and the ς that keep d_lᵀc = 0 on the others must lie inside [−1, 1]. By the
convexity that ``settle`` rests on this is then the solution. Everything else is left to ``settle``.
"""

import math

import numpy as np
from numba import njit

DONE, MET, FULL = range(3)
_AFRESH = 50  # crossings after which sums are formed anew


@njit(cache=True)
def solved(matrix, right):
    """The solution of a small system, by elimination with row pivots; infinite if there is none.

    A call of LAPACK would cost more, to compile above all. Both arguments are used up.
    """
    count = len(right)
    for i in range(count):
        best = i
        for k in range(i + 1, count):
            if abs(matrix[k, i]) > abs(matrix[best, i]):
                best = k
        if matrix[best, i] == 0:
            right[:] = np.inf
            return right
        for k in range(count):
            matrix[i, k], matrix[best, k] = matrix[best, k], matrix[i, k]
        right[i], right[best] = right[best], right[i]
        for k in range(i + 1, count):
            factor = matrix[k, i] / matrix[i, i]
            for j in range(i, count):
                matrix[k, j] -= factor * matrix[i, j]
            right[k] -= factor * right[i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    return right


@njit(cache=True)
def _inner(one, other):
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@njit(cache=True, error_model="numpy")
def _next(towards, products, up, down, rate, second, size, side, sliding, touching, rounding):
    """Time to the next switch and its line; −1 is w₂ = 0 while sliding. As ``Runner`` describes it.

    ``towards`` and ``products`` are d_lᵀc and d_lᵀw.
    """
    growth, shrunk, line, slides = np.inf, 0.0, 0, False
    if rate == 0:
        return np.inf, 0
    inverse = 1 / rate
    for k in range(len(towards)):
        if sliding[k]:
            slides = True
            continue
        along = inverse * towards[k]
        pace = side[k] * along
        if touching[k]:
            one = down / up
            if 1 < one < growth and pace * (up * one - down / one) < 0:
                growth, shrunk, line = one, 1 / one, k
            continue
        if abs(products[k]) <= rounding * size and pace * second < 0:
            return 0.0, k
        quadratic, linear, constant = along * up, products[k] - (up + down) * along, along * down
        # Most lines are out of the question: g = ς_l d_lᵀw only grows, or rises and falls and has not fallen below zero
        # by the time of the first switch so far.
        if pace * up >= 0:
            if pace * (up - down) >= 0:
                continue
        elif side[k] * products[k] >= 0 and side[k] * (linear + quadratic * growth + constant * shrunk) >= 0:
            continue
        square = linear * linear - 4 * quadratic * constant
        if not square >= 0:
            continue
        root = math.sqrt(square)
        half = -0.5 * (linear + root) if linear >= 0 else -0.5 * (linear - root)
        one, two = half / quadratic, constant / half
        if 1 < one < growth and pace * (up * one - down / one) < 0:
            growth, shrunk, line = one, 1 / one, k
        if 1 < two < growth and pace * (up * two - down / two) < 0:
            growth, shrunk, line = two, 1 / two, k
    wait = math.log(growth) / rate
    if slides and 1 < down / up < np.inf:
        turn = 0.5 * math.log(down / up) / rate
        if turn < wait:
            return turn, -1
    return wait, line


@njit(cache=True)
def _add(out, factor, row):
    for k in range(len(out)):
        out[k] += factor * row[k]


@njit(cache=True)
def _against(vector, transposed, out):
    """d_lᵀ of a vector, on all lines."""
    out[:] = 0.0
    for j in range(len(vector)):
        _add(out, vector[j], transposed[j])


@njit(cache=True)
def _between(line, directions, transposed, gram, out):
    """d_lᵀ of a line's own direction, on all lines."""
    if len(gram):
        out[:] = gram[line]
    else:
        _against(directions[line], transposed, out)


@njit(cache=True)
def _sum_of(side, strength, drift, directions, sliding, out):
    """c without the lines slid on."""
    out[:] = drift
    for k in range(len(side)):
        if not sliding[k]:
            _add(out, side[k] * strength[k], directions[k])


@njit(cache=True)
def _sides(pull, strength, directions, held):
    """ς on the lines ``held`` that make d_lᵀc = 0 there, from c without them."""
    count = len(held)
    matrix, right = np.empty((count, count)), np.empty(count)
    for i in range(count):
        one = directions[held[i]]
        right[i] = -_inner(one, pull)
        for k in range(count):
            matrix[i, k] = _inner(one, directions[held[k]]) * strength[held[k]]
    return solved(matrix, right)


@njit(cache=True, error_model="numpy")
def follow(neurons, until, lines, state, modes, floors, log):
    """Take each neuron through its plain crossings before ``until``, until the log is full.

    Args:
        neurons: which.
        until: common end.
        lines: directions, the same transposed, strengths, drift, and the directions' products if there is room for
            them.
        state: first, second, log_size, time, side, sliding, touching of all neurons; changed in place.
        modes: rate, unit, up, down, across, still of all neurons; changed in place.
        floors: rounding of a product and of a sum, the largest ς inside, and the c that is none.
        log: neuron and line of each crossing, its time, and of the stretch that begins there log_size, rate, up, down,
            still, unit and across.

    Returns:
        For each neuron DONE, MET or FULL, and the line it has met; the number of crossings.
    """
    directions, transposed, strength, drift, gram = lines
    first, second, log_size, time, side, sliding, touching = state
    rate, unit, up, down, across, still = modes
    rounding, least, inside, nothing = floors
    crossed, when, stretches = log
    dim, count = len(drift), len(strength)
    why, met = np.full(len(neurons), FULL), np.full(len(neurons), -1)
    pull, turned, new = np.empty(dim), np.empty(dim), np.empty(dim)
    free, towards, products, row = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    found = 0
    for index in range(len(neurons)):
        h = neurons[index]
        slides = 0
        for k in range(count):
            slides += sliding[h, k]
        held = np.empty(slides, dtype=np.int64)
        for k in range(count - 1, -1, -1):
            if sliding[h, k]:
                slides -= 1
                held[slides] = k
        _sum_of(side[h], strength, drift, directions, sliding[h], pull)
        # d_lᵀ of c without the lines slid on, of c, and of w.
        _against(pull, transposed, free)
        _against(unit[h], transposed, towards)
        for k in range(count):
            towards[k] *= rate[h]
        _against(first[h], transposed, products)
        since = 0
        while found < len(when):
            size = math.sqrt(_inner(first[h], first[h]))
            wait, line = _next(
                towards, products, up[h], down[h], rate[h], second[h], size, side[h], sliding[h], touching[h], rounding
            )
            if wait == np.inf or not time[h] + wait <= until:
                why[index] = DONE
                break
            phase = rate[h] * wait
            lift = phase if up[h] != 0 else 0.0
            grown, shrunk, stays = up[h], down[h] * math.exp(-phase - lift), math.exp(-lift)
            second[h] = grown - shrunk
            whole = abs(second[h])
            for j in range(dim):
                first[h, j] = stays * across[h, j] + (grown + shrunk) * unit[h, j]
                whole = max(whole, abs(first[h, j]))
            second[h] /= whole
            for j in range(dim):
                first[h, j] /= whole
            turns = (grown + shrunk - stays * (up[h] + down[h])) / rate[h]
            for k in range(count):
                products[k] = (stays * products[k] + turns * towards[k]) / whole
                touching[h, k] = touching[h, k] and wait <= 0
            log_size[h] += lift + math.log(whole)
            time[h] += wait
            met[index] = line
            size = math.sqrt(_inner(first[h], first[h]))
            if line < 0 or size <= 1e3 * rounding * abs(second[h]) or second[h] == 0:
                why[index] = MET
                break
            d = directions[line]
            _add(first[h], -_inner(first[h], d), d)
            # Flip it, and see whether the neuron is let through.
            kick = -2 * side[h, line] * strength[line]
            turned[:] = pull
            _add(turned, kick, d)
            new[:] = turned
            sides = _sides(turned, strength, directions, held)
            plain = True
            for i in range(len(held)):
                plain = plain and abs(sides[i]) < inside
                _add(new, sides[i] * strength[held[i]], directions[held[i]])
            through = -side[h, line] * second[h] * _inner(d, new)
            margin = least * abs(second[h]) * (math.sqrt(_inner(new, new)) + abs(strength[line]))
            if not (plain and (through > margin or second[h] * strength[line] >= 0)):
                why[index] = MET
                break
            side[h, line] = -side[h, line]
            touching[h, line] = True
            pull[:] = turned
            since += 1
            if since == _AFRESH:
                since = 0
                _sum_of(side[h], strength, drift, directions, sliding[h], pull)
                _against(pull, transposed, free)
                _against(first[h], transposed, products)
            else:
                _between(line, directions, transposed, gram, row)
                _add(free, kick, row)
            products[line] = 0.0
            towards[:] = free
            for i in range(len(held)):
                side[h, held[i]] = sides[i]
                _between(held[i], directions, transposed, gram, row)
                _add(towards, sides[i] * strength[held[i]], row)
            # Its new modes.
            rate[h] = math.sqrt(_inner(new, new))
            if rate[h] <= nothing:
                rate[h] = 0.0
            for j in range(dim):
                unit[h, j] = new[j] / rate[h] if rate[h] > 0 else 0.0
            aligned = _inner(unit[h], first[h])
            for j in range(dim):
                across[h, j] = first[h, j] - aligned * unit[h, j]
            floor = rounding * (abs(second[h]) + math.sqrt(_inner(first[h], first[h])))
            up[h], down[h] = 0.5 * (aligned + second[h]), 0.5 * (aligned - second[h])
            if rate[h] == 0 or abs(up[h]) <= floor:
                up[h] = 0.0
            if rate[h] == 0 or abs(down[h]) <= floor:
                down[h] = 0.0
            still[h] = second[h] if rate[h] == 0 else 0.0
            crossed[found, 0], crossed[found, 1], when[found] = h, line, time[h]
            entry = stretches[found]
            entry[0], entry[1], entry[2], entry[3], entry[4] = log_size[h], rate[h], up[h], down[h], still[h]
            for j in range(dim):
                entry[5 + j], entry[5 + dim + j] = unit[h, j], across[h, j]
            found += 1
    return why, met, found
