"""The first zero of sums of exponentials, compiled.

Σ_j c_j e^{r_j t}, rates falling, stays positive for ever if its coefficients, added up from the largest rate down, stay
positive (summation by parts). Where they do not, a time without zeros follows from the value, the slope and a bound on
the second derivative. Times are halved until they are such, or until the sum can only fall within them: its zero is
then found by Newton's steps, held inside by halving.
"""

import math

import numpy as np
from numba import njit

_ARC = 1.0  # e-folds of the fastest mode that are searched at once
_SHORTEST = 1e-13  # part of an arc at which a zero is located
_BEGUN = 1e-12  # part of a sum's terms by which rounding may move it
_DEEP = 64  # halvings that are ever open at once


@njit(cache=True)
def _slope(rates, part, time):
    total = 0.0
    for j in range(len(rates)):
        total += rates[j] * part[j] * math.exp(rates[j] * time)
    return total


@njit(cache=True)
def _value(rates, part, time, at_zero):
    """A sum that begins at zero is what it has grown by: where its terms cancel nothing else is right."""
    total = 0.0
    for j in range(len(rates)):
        total += part[j] * (math.expm1(rates[j] * time) if at_zero else math.exp(rates[j] * time))
    return total


@njit(cache=True)
def _falling(rates, part, low, high, at_zero, close):
    """The zero of a sum that falls from above zero at ``low`` to below it at ``high``; the end at or above zero."""
    time = 0.5 * (low + high)
    while high - low > close:
        value = _value(rates, part, time, at_zero)
        if value >= 0:
            low = time
        else:
            high = time
        slope = _slope(rates, part, time)
        # A little beyond Newton's end, so that the zero is enclosed from both sides.
        time = time - value / slope if slope < 0 else low
        time += 0.25 * close if value >= 0 else -0.25 * close
        if not low < time < high:
            time = 0.5 * (low + high)
            if time in (low, high):
                break
    return low


@njit(cache=True)
def zero_within(rates, part, arc, at_zero):
    """The first time at which one sum falls below zero, up to ``arc``; infinite if it does not.

    Args:
        rates: falling, shape (terms,).
        part: c, shape (terms,).
        arc: how far to look.
        at_zero: whether it begins at zero exactly; it then falls below only if it goes down.
    """
    curved = noise = flat = 0.0
    for j in range(len(rates)):
        size = abs(part[j])
        noise += _BEGUN * size
        flat += _BEGUN * abs(rates[j]) * size
        curved += rates[j] ** 2 * size * math.exp(max(rates[j], 0.0) * arc)
    begins, ends = np.empty(_DEEP), np.empty(_DEEP)
    begins[0], ends[0], count = 0.0, arc, 1
    while count:
        count -= 1
        begin, end = begins[count], ends[count]
        length = end - begin
        value, slope = _value(rates, part, begin, at_zero), _slope(rates, part, begin)
        if at_zero and begin == 0:
            value = 0.0 if slope >= -flat else -noise
        if value < -noise or (value < 0 and slope < 0):
            return begin
        ahead = _value(rates, part, end, at_zero)
        bent = curved * length**2  # a curve is at most an eighth of this below its chord, half of it below its tangent
        if ahead >= 0 and (min(value, ahead) >= 0.125 * bent or value + slope * length >= 0.5 * bent):
            continue
        if ahead < -noise and value > noise and slope + curved * length < 0:
            return _falling(rates, part, begin, end, at_zero, _SHORTEST * arc)
        if length <= _SHORTEST * arc:
            if ahead < -noise:
                return begin
            continue
        middle = 0.5 * (begin + end)
        begins[count], ends[count] = middle, end
        begins[count + 1], ends[count + 1] = begin, middle
        count += 2
    return np.inf


@njit(cache=True)
def first_zero(rates, parts, room):
    """When one of some sums, which begin at or above zero, first falls below it, and which.

    −1 if none does within ``room``; the time is then infinite if none ever does. A sum that begins at zero, up to
    rounding, is taken to begin there exactly.

    Args:
        rates: falling, shape (terms,).
        parts: c of each sum, shape (sums, terms).
        room: how far to look.
    """
    sums, terms = parts.shape
    alive, begun = np.empty(sums, dtype=np.bool_), np.empty(sums, dtype=np.bool_)
    for i in range(sums):
        size = total = 0.0
        for j in range(terms):
            size += abs(parts[i, j])
            total += parts[i, j]
        alive[i], begun[i] = size > 0, abs(total) <= _BEGUN * size
    time, fastest, part = 0.0, rates[0], np.empty(terms)
    while True:
        arc, found, which, left = 0.0, np.inf, -1, False
        if fastest > 0:
            arc = min(_ARC / fastest, room - time)
        for i in range(sums):
            if not alive[i]:
                continue
            total = size = 0.0
            least = np.inf
            for j in range(terms):
                part[j] = parts[i, j] * math.exp((rates[j] - fastest) * time)  # only ratios matter
                total += part[j]
                size += abs(part[j])
                least = min(least, total)
            # Positive from here on; rounding of a sum that begins at zero is none.
            alive[i] = least + (_BEGUN * size if begun[i] else 0.0) < 0
            if alive[i]:
                left = True
                if time < room and fastest > 0:
                    zero = zero_within(rates, part, arc, begun[i] and time == 0)
                    if zero < found:
                        found, which = zero, i
        if not left or fastest == 0:
            return np.inf, -1
        if time >= room:
            return room, -1
        if found <= arc:
            return time + found, which
        time += arc
