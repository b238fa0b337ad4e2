"""The compiled part: velocity, steps with their curves, and what a curve is searched for.

Everything else is NumPy and Python. These functions hold loops over plain arrays and nothing else, so that they compile
in seconds, once, and are kept on disk. What costs when they compile is every array that is handed on: hence few of
them, and none to whom does not need it. Shapes do not matter: merging changes these all the time.

A **curve** is a step's dense output as Bernstein coefficients of degree 7 in x ∈ [0, 1], shape (8, rows, columns). A
polynomial lies within the range of these coefficients, and halving the interval brings them closer to it, so that a
search for its first zero can miss nothing, however short a dip may be.
"""

import functools
import math
from typing import Any

import numpy as np
from numba import njit
from numba.core import config

from biasfree.dynamics.exact._arrays import BEFORE, DEEPEST, PLACE, START
from biasfree.dynamics.exact._data import CROSS_ENTROPY, LOGISTIC, SQUARE
from biasfree.dynamics.exact._methods import AT_NODES, FROM_NODES, NODES, TABLES

# No array is made here and none is kept: without counting who holds one, less is compiled.
_PLAIN: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
_inner: Any = njit(**_PLAIN, no_cpython_wrapper=True)  # type: ignore[call-overload]


class _Kernel:
    """A compiled function, optimised as far as loops over plain arrays gain from it.

    LLVM's level 1 instead of Numba's own 3: the first call takes two thirds of the time, the runs last as long
    (measured on the six points, Figure 3 and 100 neurons on 200 lines).
    """

    def __init__(self, function: Any) -> None:
        self.compiled, self._ready = njit(**_PLAIN, cache=True)(function), False
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        if self._ready:
            return self.compiled(*args)
        usual = vars(config)["OPT"]
        vars(config)["OPT"] = type(usual)(_OPTIMISED)
        try:
            return self.compiled(*args)
        finally:
            vars(config)["OPT"], self._ready = usual, True


_OPTIMISED = 1  # LLVM's level
_A, _TIMES, _ERRORS, _DENSE = TABLES
_ENERGY = 0.01  # the energy is a sum over all steps: one of them may spend so much of the tolerance
# Times a step's tolerance, how far its curve may be from the last stage's place. Over 40 wide problems 99 of 100 steps
# of each were below 77, single ones at up to 450; 3,700 where a fast direction is at rest to rounding and the step is
# far too long for it, which the step's end does not show (wide seed 523).
_CURVE = 100.0
NEAR = 3.0
BLUR = 1e-12  # a row has met a line when it is beyond it by this part of its size: above what rounding makes of wᵀd = 0
ROUNDING = 1e-13  # of all pulls together, what rounding may have made of one: 16 digits less what sums of many lose
_NOTHING = 1e-250  # a row so small is as good as zero: its squares and errors are no numbers


# The velocity


@_inner
def _outputs(z: Any, transposed: Any, a: float, b: float, side: Any, work: Any) -> None:
    """lin_l and even_l of all outputs, (outputs, lines), to the first rows of ``work``; its last is used up."""
    dim, lines = transposed.shape
    outputs = z.shape[1] - dim
    last = 2 * outputs
    for k in range(last):
        for line in range(lines):
            work[k, line] = 0.0
    if b == 0.0:  # no kinks: all comes from Σ v wᵀ
        for k in range(outputs):
            for j in range(dim):
                total = 0.0
                for h in range(side.shape[0]):
                    total += a * z[h, dim + k] * z[h, j]
                for line in range(lines):
                    work[k, line] += total * transposed[j, line]
        return
    for h in range(side.shape[0]):
        for line in range(lines):
            work[last, line] = 0.0
        for j in range(dim):
            weight = z[h, j]
            for line in range(lines):
                work[last, line] += weight * transposed[j, line]
        for k in range(outputs):
            odd, bent = a * z[h, dim + k], b * z[h, dim + k]
            for line in range(lines):
                work[k, line] += odd * work[last, line]
                work[outputs + k, line] += bent * side[h, line] * work[last, line]


@_inner
def _given(given: Any, x: float, work: Any) -> None:
    """Pulls that are given as a curve, at x."""
    for k in range(given.shape[1]):
        for line in range(work.shape[1]):
            work[k, line] = 0.0
    count = 1.0
    for n in range(8):
        weight = count * x**n * (1.0 - x) ** (7 - n)
        count = count * (7 - n) / (n + 1)
        for k in range(given.shape[1]):
            for line in range(work.shape[1]):
                work[k, line] += weight * given[n, k, line]


@_inner
def _log_softplus(z: float) -> float:
    """ln ln(1 + e^z); for z ≪ 0, where e^z is lost beside 1, it is z − e^z/2 to double precision."""
    if z < -18.0:
        return z - 0.5 * math.exp(z)
    return math.log(math.log1p(math.exp(z))) if z < 30.0 else math.log(z)


@_inner
def _rivals(work: Any, line: int, t: float) -> tuple[int, float, float]:
    """Which output of a sample is the largest, its value, and ln Σe^f of all others."""
    outputs, first, most, second, total = (work.shape[0] - 1) // 4, 0, -np.inf, -np.inf, 0.0
    for k in range(outputs):
        f = t * work[k, line] + abs(t) * work[outputs + k, line]
        if f > most:
            first, most, second = k, f, most
        else:
            second = max(second, f)
    for k in range(outputs):
        if k != first:
            total += math.exp(t * work[k, line] + abs(t) * work[outputs + k, line] - second)
    return first, most, second + math.log(total)


@_inner
def _log_odds(f: float, leads: bool, most: float, others: float) -> tuple[float, float]:
    """ln of the probability of one class, and of all others together; ``leads``: its output is the largest."""
    whole = max(most, others) + math.log1p(math.exp(-abs(most - others)))
    if leads:
        return f - whole, others - whole
    return f - whole, math.log1p(-math.exp(f - whole))


@_inner
def _log_loss(work: Any, data: Any) -> float:
    """ln L from what the lines put out; NaN stays NaN."""
    outputs = (work.shape[0] - 1) // 4
    if data.loss == SQUARE:
        total = data.offset
        for line in range(work.shape[1]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                for k in range(outputs):
                    error = data.target[i, k] - t * work[k, line] - abs(t) * work[outputs + k, line]
                    total += 0.5 * error * error
        return -np.inf if total == 0.0 else math.log(total / data.samples)
    top = math.log(data.offset) if data.offset > 0.0 else -np.inf
    total, first, most, others = 0.0, 0, 0.0, 0.0
    for twice in range(2):
        if twice == 1 and data.offset > 0.0:
            total = data.offset * math.exp(-top)
        for line in range(work.shape[1]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                if data.loss == CROSS_ENTROPY:
                    first, most, others = _rivals(work, line, t)
                for k in range(outputs):
                    y, f = data.target[i, k], t * work[k, line] + abs(t) * work[outputs + k, line]
                    if f != f:
                        return np.nan
                    z = -y * f
                    if data.loss == CROSS_ENTROPY:
                        if y == 0.0:
                            continue
                        right, wrong = _log_odds(f, k == first, most, others)
                        z = math.log(y) + _log_softplus(wrong - right)
                    elif data.loss == LOGISTIC:
                        z = _log_softplus(z)
                    if twice == 0:
                        top = max(top, z)
                    else:
                        total += math.exp(z - top)
    return top + math.log(total / data.samples)


@_inner
def _pulls(work: Any, data: Any, shift: float) -> None:
    """Overwrite lin and even by p and q; on the loss clock ``shift`` is ln L."""
    outputs = (work.shape[0] - 1) // 4
    room = 2 * outputs + 1  # where sums are formed
    first, most, others = 0, 0.0, 0.0
    for line in range(work.shape[1]):
        if data.loss == SQUARE:
            square, mixed = data.powers[0, line], data.powers[1, line]
            for k in range(outputs):
                lin, even = work[k, line], work[outputs + k, line]
                work[k, line] = data.a * (data.sums[0, k, line] - lin * square - even * mixed) / data.samples
                work[outputs + k, line] = data.b * (data.sums[1, k, line] - lin * mixed - even * square) / data.samples
            continue
        for k in range(2 * outputs):
            work[room + k, line] = 0.0
        for i in range(data.begin[line], data.begin[line + 1]):
            t = data.position[i]
            if data.loss == CROSS_ENTROPY:
                first, most, others = _rivals(work, line, t)
            for k in range(outputs):
                y, f = data.target[i, k], t * work[k, line] + abs(t) * work[outputs + k, line]
                if data.loss == CROSS_ENTROPY:
                    right, wrong = _log_odds(f, k == first, most, others)
                    residual = 0.0 if y == 0.0 else y * math.exp(wrong - shift)
                    residual -= 0.0 if y == 1.0 else (1.0 - y) * math.exp(right - shift)
                else:
                    margin = y * f
                    if data.loss == LOGISTIC:  # ln σ(−m) = −softplus(m)
                        margin = max(margin, 0.0) + math.log1p(math.exp(-abs(margin)))
                    residual = y * math.exp(-margin - shift)
                work[room + k, line] += residual * t
                work[room + outputs + k, line] += residual * abs(t)
        for k in range(outputs):
            work[k, line] = data.a * work[room + k, line] / data.samples
            work[outputs + k, line] = data.b * work[room + outputs + k, line] / data.samples


@_inner
def _gathered(work: Any, transposed: Any, b: float, side: Any, pull: Any) -> None:
    """M_h = Σ_l d_l (p_l + ς_hl q_l)ᵀ of the active rows."""
    outputs = pull.shape[2]
    for h in range(side.shape[0]):
        for k in range(outputs):
            for j in range(transposed.shape[0]):
                if b == 0.0 and h > 0:  # without kinks all rows are pulled alike
                    pull[h, j, k] = pull[0, j, k]
                    continue
                total = 0.0
                for line in range(work.shape[1]):
                    total += (work[k, line] + side[h, line] * work[outputs + k, line]) * transposed[j, line]
                pull[h, j, k] = total


@_inner
def _by_form(z: Any, constant: Any, matrix: Any, pull: Any) -> None:
    """M_h from the form of a pattern."""
    active, dim, outputs = pull.shape
    for h in range(active):
        for j in range(dim):
            for k in range(outputs):
                total = constant[h * dim + j, k]
                for other in range(active):
                    inner = 0.0
                    for i in range(dim):
                        inner += matrix[h * dim + j, other * dim + i] * z[other, i]
                    total -= inner * z[other, dim + k]
                pull[h, j, k] = total


@_inner
def _pulled(coefficients: Any, x: float, pull: Any) -> None:
    """M of a row alone, which is given as a curve, at x."""
    _, dim, outputs = pull.shape
    for j in range(dim):
        for k in range(outputs):
            total, count = 0.0, 1.0
            for n in range(8):
                total += count * x**n * (1.0 - x) ** (7 - n) * coefficients[n * dim + j, k]
                count = count * (7 - n) / (n + 1)
            pull[0, j, k] = total


@_inner
def _projected(basis: Any, span: Any, pull: Any) -> None:
    """Take out of every M what lies along the lines its row slides on."""
    active, dim, outputs = pull.shape
    for h in range(active):
        for s in range(span[h]):
            for k in range(outputs):
                part = 0.0
                for j in range(dim):
                    part += pull[h, j, k] * basis[h, s, j]
                for j in range(dim):
                    pull[h, j, k] -= part * basis[h, s, j]


@_inner
def _velocity(data: Any, pattern: Any, form: Any, time: float, desk: Any, stage: Any) -> float:
    """Write the velocity of all rows at the desk's place to ``stage``; the squared speed of the active ones."""
    dim, active, z, decay = data.transposed.shape[0], pattern.side.shape[0], desk.rows[PLACE], data.decay
    if data.given.shape[0] > 0:
        _pulled(form.constant, data.given_at + data.given_rate * time, desk.pull)
    elif form.constant.shape[0] > 0:
        _by_form(z, form.constant, form.matrix, desk.pull)
    else:
        _outputs(z, data.transposed, data.a, data.b, pattern.side, desk.work)
        shift = _log_loss(desk.work, data) if data.by_loss else 0.0
        decay = decay * math.exp(-shift) if decay > 0.0 else 0.0
        _pulls(desk.work, data, shift)
        _gathered(desk.work, data.transposed, data.b, pattern.side, desk.pull)
    _projected(pattern.basis, pattern.span, desk.pull)
    power = 0.0
    for row in range(z.shape[0]):
        owner = pattern.owner[row]
        for j in range(z.shape[1]):
            total = -decay * z[row, j]
            if j < dim:
                for k in range(dim, z.shape[1]):
                    total += desk.pull[owner, j, k - dim] * z[row, k]
            else:
                for i in range(dim):
                    total += desk.pull[owner, i, j - dim] * z[row, i]
            stage[row, j] = total
            if row < active:
                power += total * total
    return power


# Steps


@_inner
def _error(
    rows: Any, stages: Any, powers: Any, step: float, energy: float, limits: Any, method: Any, active: int
) -> float:
    """Largest error of a row, and of the energy, in units of its tolerance.

    Sizes are largest entries, not sums of squares: those of rows of 1e-200 would be no numbers.
    """
    worst = 0.0
    for row in range(active + 1):
        high, low, size = 0.0, 0.0, 0.0
        for j in range(rows.shape[2] if row < active else 1):
            one, other = 0.0, 0.0
            for s in range(method.core):
                value = stages[s, row, j] if row < active else powers[s]
                one += _ERRORS[method.number, 0, s] * value
                other += _ERRORS[method.number, 1, s] * value
            if one != one or other != other:
                return np.inf
            high, low = max(high, abs(one)), max(low, abs(other))
            if row < active:
                size = max(size, abs(rows[START, row, j]), abs(rows[PLACE, row, j]))
        if high == 0.0:
            continue
        tolerance = limits.atol + limits.rtol * size
        if row == active:
            tolerance = _ENERGY * limits.rtol * max(limits.energy, energy)
        if not tolerance > 0.0:
            return np.inf
        ratio = 0.1 * low / high  # how Dormand and Prince combine their two estimates
        worst = max(worst, step * high / math.sqrt(1.0 + ratio * ratio) / tolerance)
    return worst


@_inner
def _stiffness(rows: Any, last: Any, before: Any, step: float, active: int) -> float:
    """Step × fastest rate, from the last two estimates at the step's end."""
    speeds, places = 0.0, 0.0
    for row in range(active):
        for j in range(rows.shape[2]):
            speeds = max(speeds, abs(last[row, j] - before[row, j]))
            places = max(places, abs(rows[PLACE, row, j] - rows[BEFORE, row, j]))
    return step * speeds / places if places > 0.0 else 0.0


@_inner
def _off(begin: Any, curve: Any, stages: Any, step: float, limits: Any, method: Any, owner: Any, share: Any) -> float:
    """The largest error of a row's curve, in units of what it may be."""
    worst, active = 0.0, begin.shape[0] - share.shape[0]
    for row in range(begin.shape[0]):
        off, size, own = 0.0, 0.0, 0.0
        for j in range(begin.shape[1]):
            total = 0.0
            for s in range(method.stages):
                total += _ERRORS[method.number, 2, s] * stages[s, row, j]
            if total != total:
                return np.inf
            off = max(off, abs(total))
            size = max(size, abs(begin[row, j]), abs(curve[7, row, j]))
            own = max(own, abs(begin[owner[row], j]), abs(curve[7, owner[row], j]))
        if row >= active:
            size = max(size, own / share[row - active])
        if off > 0.0:
            worst = max(worst, step * off / (_CURVE * (limits.atol + limits.rtol * size)))
    return worst


@_Kernel
def attempt(
    n: int, first: int, time: float, step: float, energy: float, data: Any, pattern: Any, form: Any, limits: Any,
    method: Any, share: Any, trial: Any, desk: Any,
) -> tuple[float, float]:  # fmt: skip
    """Step n from the desk's start, beginning with its ``first`` stage: 1 if the velocity there is known, else 0.

    Returns the error in units of the tolerance, and step × fastest rate, as two estimates at the step's end show it.
    The curve is filled only where the error is at most 1. Of a step of length 0 only the velocity is found.
    """
    core, active, z, stages = method.core, pattern.side.shape[0], desk.rows[START], trial.stages
    error, stiffness, total = np.inf, 0.0, 0.0
    for s in range(first, method.stages + 1):
        if s == core:
            gained = 0.0
            for i in range(core):
                gained += step * _DENSE[method.number, 7, i] * trial.powers[i]
            error = _error(desk.rows, stages, trial.powers, step, energy + gained, limits, method, active)
            stiffness = _stiffness(desk.rows, stages[core - 1], stages[core - 2], step, active)
            if not error <= 1.0:
                return error, stiffness
        if s == method.stages or (s == 1 and step == 0.0):
            break
        for row in range(z.shape[0]):
            for j in range(z.shape[1]):
                if s == core - 1:
                    desk.rows[BEFORE, row, j] = desk.rows[PLACE, row, j]
                total = 0.0  # the sum first, so that small steps are not lost in rounding
                for i in range(s):
                    total += _A[method.number, s, i] * stages[i, row, j]
                desk.rows[PLACE, row, j] = z[row, j] + step * total
        trial.powers[s] = _velocity(data, pattern, form, time + _TIMES[method.number, s] * step, desk, stages[s])
    if not error <= 1.0:
        return error, stiffness
    for k in range(8):
        total = 0.0
        for s in range(method.stages):
            total += _DENSE[method.number, k, s] * trial.powers[s]
        trial.energies[n, k] = energy + step * total
        for row in range(z.shape[0]):
            for j in range(z.shape[1]):
                total = 0.0
                for s in range(method.stages):
                    total += _DENSE[method.number, k, s] * stages[s, row, j]
                trial.curves[n, k, row, j] = z[row, j] + step * total
    return max(error, _off(z, trial.curves[n], stages, step, limits, method, pattern.owner, share)), stiffness


# What happens along a curve


@_inner
def _first_below(stack: Any) -> float:
    """The first x in [0, 1] at which a polynomial goes below zero; 2 if it never does.

    Its eight Bernstein coefficients are in the first row of ``stack``. Halves that may go below are looked at from the
    left until float64 ends; columns 8 and 9 hold where a half begins and how wide it is.
    """
    top = 0
    stack[0, 8], stack[0, 9] = 0.0, 1.0
    while top >= 0:
        low, width = stack[top, 8], stack[top, 9]
        least = stack[top, 0]
        for i in range(1, 8):
            least = min(least, stack[top, i])
        if least >= 0.0:
            top -= 1
        elif stack[top, 0] < 0.0 or top >= DEEPEST or width < 1e-15 * (low + width):
            return low
        else:
            for i in range(8):  # de Casteljau: both halves
                stack[top + 1, i] = stack[top, 0]
                for j in range(7 - i):
                    stack[top, j] = 0.5 * (stack[top, j] + stack[top, j + 1])
            stack[top, 8], stack[top, 9] = low + 0.5 * width, 0.5 * width
            stack[top + 1, 8], stack[top + 1, 9] = low, 0.5 * width
            top += 1
    return 2.0


@_inner
def _crossings(curve: Any, transposed: Any, side: Any, blur: float, radius: Any, met: Any, c: Any) -> int:
    """Rows beyond a line by ``blur`` of their size somewhere along a curve, or within ``radius`` of it; how many."""
    dim, found = transposed.shape[0], 0
    for h in range(side.shape[0]):
        size, reach = 0.0, 0.0
        for n in range(8):
            for j in range(curve.shape[2]):
                size = max(size, abs(curve[n, h, j]))  # v's too: where w vanishes, rounding does not
                if j < dim:
                    reach = max(reach, abs(curve[n, h, j] - curve[0, h, j]))
        if size < _NOTHING:
            continue
        depth = blur * size
        reach = 1.01 * math.sqrt(dim) * reach - depth + radius[h]
        for line in range(side.shape[1]):
            sign, least = side[h, line], np.inf
            if sign == 0.0:
                continue
            for n in range(8):
                c[0, n] = 0.0
                for j in range(dim):
                    c[0, n] += curve[n, h, j] * transposed[j, line]
                c[0, n] = sign * c[0, n] + depth
                least = min(least, c[0, n])
                if n == 0 and least > reach + depth:
                    break
            x = _first_below(c) if least < 0.0 else 2.0
            if x == 2.0 and radius[h] > 0.0 and least < radius[h]:
                x = NEAR
            if x != 2.0 and found < met.shape[0]:
                met[found, 0], met[found, 1], met[found, 2], met[found, 3] = h, line, x, -least / size
                found += 1
    return found


@_inner
def _margins(z: Any, work: Any, data: Any, pattern: Any, values: Any, beyond: Any) -> None:
    """Both margins of every slide at a node, where ``work`` holds p and q, and how far one is beyond its end.

    A slide on line l has ς·s_l = μ with s_l = v·q_l < 0 and μ = −B·ẇ_free. Its margins are −s_l ± μ, both positive
    while |ς| < 1 and the line attracts, plus what ``ROUNDING`` of all the pulls may have made of them.
    """
    dim, lines = data.transposed.shape
    outputs, whole = z.shape[1] - dim, data.mass
    for k in range(2 * outputs):
        for line in range(lines):
            whole += abs(work[k, line])
    for i in range(pattern.slides.shape[0]):
        h, held = pattern.slides[i, 0], pattern.slides[i, 1]
        strength, free, size = 0.0, 0.0, 0.0
        for k in range(outputs):
            v = z[h, dim + k]
            size = max(size, abs(v))
            strength += v * work[outputs + k, held]
            for line in range(lines):
                along = 0.0
                for j in range(dim):
                    along += pattern.dual[i, j] * data.transposed[j, line]
                free += along * v * (work[k, line] + pattern.side[h, line] * work[outputs + k, line])
        noise = ROUNDING * size * whole
        values[3 * i], values[3 * i + 1] = noise - strength - free, noise - strength + free
        beyond[i] = 0.0
        if size > _NOTHING and whole > 0.0:
            beyond[i] = max(0.0, (strength + abs(free)) / (size * whole))


@_Kernel
def scan(
    curve: Any, begin: float, length: float, blur: float, data: Any, pattern: Any, level: float,
    desk: Any, sought: Any,
) -> int:  # fmt: skip
    """Search a curve for all that can happen along it (``_events``); times begin and length matter to given pulls only.

    Returns how many crossings there are, -1 if nothing happens at all. Crossings that there is no room for are left
    out: ask again with more room if all of it is used.
    """
    dim, slides, z, first = data.transposed.shape[0], pattern.slides.shape[0], desk.rows[PLACE], 2.0
    for i in range(slides + 1):
        sought.ended[i] = 2.0
    functions = 3 * slides + (1 if level > -np.inf else 0)
    for n in range(8 if functions > 0 else 0):
        for row in range(z.shape[0]):
            for j in range(z.shape[1]):
                z[row, j] = 0.0
                for m in range(8):
                    z[row, j] += AT_NODES[n, m] * curve[m, row, j]
        if data.given.shape[0] > 0:
            time = begin + NODES[n] * length
            _given(data.given, data.given_at + data.given_rate * time, desk.work)
        else:
            _outputs(z, data.transposed, data.a, data.b, pattern.side, desk.work)
            height = _log_loss(desk.work, data)
            sought.values[n, 3 * slides] = max(height, -1e300) - level
            _pulls(desk.work, data, height if data.by_loss else 0.0)
        _margins(z, desk.work, data, pattern, sought.values[n], sought.beyond[n])
        for i in range(slides):
            total, h = 0.0, pattern.slides[i, 0]
            for k in range(dim, z.shape[1]):
                total += z[h, k] * curve[0, h, k]
            sought.values[n, 3 * i + 2] = total
    for i in range(functions):
        for m in range(8):
            desk.stack[0, m] = 0.0
            for n in range(8):
                desk.stack[0, m] += FROM_NODES[m, n] * sought.values[n, i]
        x = _first_below(desk.stack)
        sought.ended[i // 3] = min(sought.ended[i // 3], x)
        first = min(first, x)
    found = 0
    if data.b != 0.0:
        found = _crossings(curve, data.transposed, pattern.side, blur, desk.radius, sought.met, desk.stack)
    return -1 if found == 0 and first > 1.0 else found
