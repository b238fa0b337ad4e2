"""The compiled part: velocity, one trial step with its curve, and what a curve is searched for.

Everything else is NumPy and Python. These functions hold loops over plain arrays and nothing else, so that they compile
in seconds, once, and are kept on disk. Shapes do not matter to them: merging changes these all the time.

A **curve** is a step's dense output as Bernstein coefficients of degree 7 in x ∈ [0, 1], shape (8, rows, columns). A
polynomial lies within the range of these coefficients, and halving the interval brings them closer to it, so that a
search for its first zero can miss nothing, however short a dip may be.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from biasfree.dynamics.exact._data import EXPONENTIAL, LOGISTIC, SQUARE

_kernel = njit(cache=True, error_model="numpy")
_inner = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)  # called from kernels only
_ENERGY = 0.01  # the energy is a sum over all steps: one of them may spend so much of the tolerance
NEAR = 3.0
_DEEPEST = 50  # halvings of the unit interval after which float64 ends


class Pattern(NamedTuple):
    """Which side of each line each active row is on, and what it slides on.

    Attributes:
        side: ς, 0 where it slides; (active, lines).
        owner: the active row whose sides a row shares, itself for active ones; (rows,).
        basis, span: an orthonormal basis of the lines a row slides on, (active, room, dim), and its dimension; a row
            at rest at w = 0 has all of R^D.
        slides: row and line of every slide, (slides, 2).
        dual: for each slide the vector B with ς·s = −B·ẇ_free, the dual of its direction among those its row
            slides on; (slides, dim).
    """

    side: np.ndarray
    owner: np.ndarray
    basis: np.ndarray
    span: np.ndarray
    slides: np.ndarray
    dual: np.ndarray


class Form(NamedTuple):
    """Square loss, few rows on many lines: M_h = constant_h − Σ_k matrix_hk w_k v_kᵀ; empty where it is not used."""

    constant: np.ndarray  # (active·dim, outputs)
    matrix: np.ndarray  # (active·dim, active·dim)


class Method(NamedTuple):
    """A Runge–Kutta method: the last core stage is the velocity at the step's end.

    Attributes:
        a: coefficients of the stages, (total, total).
        error, error_low: embedded error estimates, (core,); the second is 0 where there is one only.
        dense: the curve is z + step·dense @ stages, (8, total).
        core: stages that decide about the step, its end included; those after them serve the curve.
    """

    a: np.ndarray
    error: np.ndarray
    error_low: np.ndarray
    dense: np.ndarray
    core: int


class Limits(NamedTuple):
    """What a step may be off by."""

    rtol: float
    atol: float
    energy: float  # the size that errors of the energy are judged against


class Trial(NamedTuple):
    """Room for a trial step, and what it leaves there."""

    stages: np.ndarray  # (16, rows, columns); the first holds the velocity at the step's beginning
    powers: np.ndarray  # squared speeds, (16,)
    curve: np.ndarray  # (8, rows, columns)
    energies: np.ndarray  # curve of the energy, (8,)
    place: np.ndarray  # (rows, columns)
    before: np.ndarray
    pull: np.ndarray  # M_h, (active, dim, outputs)

    @classmethod
    def room(cls, rows: int, columns: int, active: int, dim: int) -> "Trial":
        """Empty room."""
        shape = (rows, columns)
        return cls(
            np.empty((16, *shape)), np.empty(16), np.empty((8, *shape)), np.empty(8), np.empty(shape), np.empty(shape),
            np.empty((active, dim, columns - dim)),
        )  # fmt: skip


@_inner
def _outputs(z: Any, data: Any, side: Any, lin: Any, even: Any) -> None:
    """lin_l and even_l of all outputs, (outputs, lines)."""
    dim, lines = data.transposed.shape
    outputs = z.shape[1] - dim
    for k in range(outputs):
        for line in range(lines):
            lin[k, line], even[k, line] = 0.0, 0.0
    if data.b == 0.0:  # no kinks: all comes from Σ v wᵀ
        for k in range(outputs):
            for j in range(dim):
                total = 0.0
                for h in range(side.shape[0]):
                    total += z[h, dim + k] * z[h, j]
                for line in range(lines):
                    lin[k, line] += data.a * total * data.transposed[j, line]
        return
    products = np.empty(lines)
    for h in range(side.shape[0]):
        for line in range(lines):
            products[line] = 0.0
        for j in range(dim):
            weight = z[h, j]
            for line in range(lines):
                products[line] += weight * data.transposed[j, line]
        for k in range(outputs):
            odd, bent = data.a * z[h, dim + k], data.b * z[h, dim + k]
            for line in range(lines):
                lin[k, line] += odd * products[line]
                even[k, line] += bent * side[h, line] * products[line]


@_inner
def _log_loss(lin: Any, even: Any, data: Any) -> float:
    """ln L from what the lines put out; NaN stays NaN."""
    if data.loss == SQUARE:
        total = data.offset
        for line in range(lin.shape[1]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                for k in range(lin.shape[0]):
                    error = data.target[i, k] - t * lin[k, line] - abs(t) * even[k, line]
                    total += 0.5 * error * error
        return -np.inf if total == 0.0 else math.log(total / data.samples)
    top = math.log(data.offset) if data.offset > 0.0 else -np.inf
    total = 0.0
    for twice in range(2):
        if twice == 1 and data.offset > 0.0:
            total = data.offset * math.exp(-top)
        for line in range(lin.shape[1]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                z = -data.target[i, 0] * (t * lin[0, line] + abs(t) * even[0, line])
                if z != z:
                    return np.nan
                if data.loss == LOGISTIC:
                    if z < -18.0:
                        z -= 0.5 * math.exp(z)
                    else:
                        z = math.log(math.log1p(math.exp(z))) if z < 30.0 else math.log(z)
                if twice == 0:
                    top = max(top, z)
                else:
                    total += math.exp(z - top)
    return top + math.log(total / data.samples)


@_inner
def _pulls(lin: Any, even: Any, data: Any) -> float:
    """Overwrite lin and even by p and q; returns λ, divided by L on the loss clock."""
    outputs, lines = lin.shape
    if data.loss == SQUARE:
        for k in range(outputs):
            for line in range(lines):
                square, mixed = data.powers[0, line], data.powers[1, line]
                odd = data.sums[0, k, line] - lin[k, line] * square - even[k, line] * mixed
                bent = data.sums[1, k, line] - lin[k, line] * mixed - even[k, line] * square
                lin[k, line] = data.a * odd / data.samples
                even[k, line] = data.b * bent / data.samples
        return data.decay
    shift = _log_loss(lin, even, data) if data.by_loss else 0.0
    for line in range(lines):
        odd, bent = 0.0, 0.0
        for i in range(data.begin[line], data.begin[line + 1]):
            t, y = data.position[i], data.target[i, 0]
            margin = y * (t * lin[0, line] + abs(t) * even[0, line])
            if data.loss == LOGISTIC:  # ln σ(−m) = −softplus(m)
                margin = margin + math.log1p(math.exp(-margin)) if margin > 0.0 else math.log1p(math.exp(margin))
            residual = y * math.exp(-margin - shift)
            odd += residual * t
            bent += residual * abs(t)
        lin[0, line] = data.a * odd / data.samples
        even[0, line] = data.b * bent / data.samples
    return data.decay * math.exp(-shift) if data.decay > 0.0 else 0.0


@_inner
def _gathered(p: Any, q: Any, data: Any, side: Any, pull: Any) -> None:
    """M_h = Σ_l d_l (p_l + ς_hl q_l)ᵀ of the active rows."""
    dim, lines = data.transposed.shape
    row = np.empty(lines)
    for h in range(side.shape[0]):
        for k in range(p.shape[0]):
            if data.b == 0.0 and h > 0:  # without kinks all rows are pulled alike
                for j in range(dim):
                    pull[h, j, k] = pull[0, j, k]
                continue
            for line in range(lines):
                row[line] = p[k, line] + side[h, line] * q[k, line]
            for j in range(dim):
                total = 0.0
                for line in range(lines):
                    total += row[line] * data.transposed[j, line]
                pull[h, j, k] = total


@_inner
def _by_form(z: Any, form: Any, dim: int, pull: Any) -> None:
    """M_h from the form of a pattern."""
    for h in range(pull.shape[0]):
        for j in range(dim):
            for k in range(pull.shape[2]):
                total = form.constant[h * dim + j, k]
                for other in range(pull.shape[0]):
                    inner = 0.0
                    for i in range(dim):
                        inner += form.matrix[h * dim + j, other * dim + i] * z[other, i]
                    total -= inner * z[other, dim + k]
                pull[h, j, k] = total


@_inner
def _projected(pattern: Any, pull: Any) -> None:
    """Take out of every M what lies along the lines its row slides on."""
    active, dim, outputs = pull.shape
    for h in range(active):
        for s in range(pattern.span[h]):
            for k in range(outputs):
                part = 0.0
                for j in range(dim):
                    part += pull[h, j, k] * pattern.basis[h, s, j]
                for j in range(dim):
                    pull[h, j, k] -= part * pattern.basis[h, s, j]


@_inner
def _velocity(z: Any, data: Any, pattern: Any, form: Any, pull: Any, out: Any) -> float:
    """Write the velocity of all rows to ``out``; returns the squared speed of the active ones."""
    dim, lines = data.transposed.shape
    active, outputs = pattern.side.shape[0], z.shape[1] - dim
    decay = data.decay
    if form.constant.shape[0] > 0:
        _by_form(z, form, dim, pull)
    else:
        p, q = np.empty((outputs, lines)), np.empty((outputs, lines))
        _outputs(z, data, pattern.side, p, q)
        decay = _pulls(p, q, data)
        _gathered(p, q, data, pattern.side, pull)
    _projected(pattern, pull)
    power = 0.0
    for row in range(z.shape[0]):
        owner = pattern.owner[row]
        for j in range(dim):
            total = -decay * z[row, j]
            for k in range(outputs):
                total += pull[owner, j, k] * z[row, dim + k]
            out[row, j] = total
        for k in range(outputs):
            total = -decay * z[row, dim + k]
            for j in range(dim):
                total += pull[owner, j, k] * z[row, j]
            out[row, dim + k] = total
        if row < active:
            for j in range(dim + outputs):
                power += out[row, j] ** 2
    return power


@_inner
def _error(z: Any, trial: Any, step: float, energy: float, limits: Any, method: Any, active: int) -> float:
    """Largest error of a row, and of the energy, in units of its tolerance.

    Sizes are largest entries, not sums of squares: those of rows of 1e-200 would be no numbers.
    """
    worst = 0.0
    for row in range(active + 1):
        high, low, size = 0.0, 0.0, 0.0
        for j in range(z.shape[1] if row < active else 1):
            one, other = 0.0, 0.0
            for s in range(method.core):
                value = trial.stages[s, row, j] if row < active else trial.powers[s]
                one += method.error[s] * value
                other += method.error_low[s] * value
            if one != one or other != other:
                return np.inf
            high, low = max(high, abs(one)), max(low, abs(other))
            if row < active:
                size = max(size, abs(z[row, j]), abs(trial.place[row, j]))
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
def _judged(
    z: Any, trial: Any, step: float, energy: float, limits: Any, method: Any, active: int
) -> tuple[float, float]:
    """The error, and step × fastest rate, from the last two estimates at the step's end."""
    gained, speeds, places, last = 0.0, 0.0, 0.0, method.core - 1
    for s in range(method.core):
        gained += step * method.dense[7, s] * trial.powers[s]
    for row in range(active):
        for j in range(z.shape[1]):
            speeds = max(speeds, abs(trial.stages[last, row, j] - trial.stages[last - 1, row, j]))
            places = max(places, abs(trial.place[row, j] - trial.before[row, j]))
    stiffness = step * speeds / places if places > 0.0 else 0.0
    return _error(z, trial, step, energy + gained, limits, method, active), stiffness


@_kernel
def attempt(
    z: Any, energy: float, step: float, data: Any, pattern: Any, form: Any, limits: Any, method: Any, trial: Any
) -> tuple[float, float]:
    """One step from rows ``z``; ``trial`` holds the velocity there and is filled.

    Returns the error in units of the tolerance, and step × fastest rate, as two estimates at the step's end show it. The
    curve is filled only where the error is at most 1.
    """
    core, active, rows, columns = method.core, pattern.side.shape[0], z.shape[0], z.shape[1]
    error, stiffness = 0.0, 0.0
    for s in range(1, method.a.shape[0]):
        if s == core:
            error, stiffness = _judged(z, trial, step, energy, limits, method, active)
            if not error <= 1.0:
                return error, stiffness
        for row in range(rows):
            for j in range(columns):
                if s == core - 1:
                    trial.before[row, j] = trial.place[row, j]
                total = 0.0  # the sum first, so that small steps are not lost in rounding
                for i in range(s):
                    total += method.a[s, i] * trial.stages[i, row, j]
                trial.place[row, j] = z[row, j] + step * total
        trial.powers[s] = _velocity(trial.place, data, pattern, form, trial.pull, trial.stages[s])
    if method.a.shape[0] == core:
        error, stiffness = _judged(z, trial, step, energy, limits, method, active)
        if not error <= 1.0:
            return error, stiffness
    for n in range(8):
        gained = 0.0
        for s in range(method.a.shape[0]):
            gained += method.dense[n, s] * trial.powers[s]
        trial.energies[n] = energy + step * gained
        for row in range(rows):
            for j in range(columns):
                total = 0.0
                for s in range(method.a.shape[0]):
                    total += method.dense[n, s] * trial.stages[s, row, j]
                trial.curve[n, row, j] = z[row, j] + step * total
    return error, stiffness


@_inner
def _first_below(c: Any, stack: Any, where: Any) -> float:
    """The first x in [0, 1] at which a polynomial of Bernstein coefficients c goes below zero; 2 if it never does.

    Halves that may go below are looked at from the left until float64 ends.
    """
    count, top = c.shape[0], 0
    for i in range(count):
        stack[0, i] = c[i]
    where[0, 0], where[0, 1] = 0.0, 1.0
    while top >= 0:
        low, width = where[top, 0], where[top, 1]
        least = stack[top, 0]
        for i in range(1, count):
            least = min(least, stack[top, i])
        if least >= 0.0:
            top -= 1
        elif stack[top, 0] < 0.0 or top >= _DEEPEST or width < 1e-15 * (low + width):
            return low
        else:
            for i in range(count):  # de Casteljau: both halves
                stack[top + 1, i] = stack[top, 0]
                for j in range(count - 1 - i):
                    stack[top, j] = 0.5 * (stack[top, j] + stack[top, j + 1])
            where[top, 0], where[top, 1] = low + 0.5 * width, 0.5 * width
            where[top + 1, 0], where[top + 1, 1] = low, 0.5 * width
            top += 1
    return 2.0


class Sought(NamedTuple):
    """Room for what is found along a curve; times are x ∈ [0, 1], and 2 for what does not happen."""

    pairs: np.ndarray  # rows and lines that meet, (room, 2)
    times: np.ndarray  # when they do, (room,); NEAR: they only come within the row's radius
    ended: np.ndarray  # when each slide ends, (slides,)
    fell: np.ndarray  # when the loss is at the level, (1,)
    beyond: np.ndarray  # at each node, how far a slide is beyond its end, as part of all pulls; (8,)

    @classmethod
    def room(cls, crossings: int, slides: int) -> "Sought":
        """Empty room."""
        return cls(
            np.empty((crossings, 2), dtype=np.int64), np.empty(crossings), np.empty(slides), np.empty(1), np.zeros(8)
        )


@_inner
def _crossings(curve: Any, data: Any, side: Any, blur: float, radius: Any, sought: Any, stack: Any, where: Any) -> int:
    """Rows beyond a line by ``blur`` of their size somewhere along a curve, or within ``radius`` of it; how many."""
    dim, found, count = data.directions.shape[1], 0, curve.shape[0]
    c = np.empty(count)
    for h in range(side.shape[0]):
        size, reach = 0.0, 0.0
        for n in range(count):
            for j in range(curve.shape[2]):
                size = max(size, abs(curve[n, h, j]))  # v's too: where w vanishes, rounding does not
                if j < dim:
                    reach = max(reach, abs(curve[n, h, j] - curve[0, h, j]))
        depth = blur * size
        reach = 1.01 * math.sqrt(dim) * reach - depth
        for line in range(side.shape[1]):
            sign = side[h, line]
            if sign == 0.0:
                continue
            c[0] = 0.0
            for j in range(dim):
                c[0] += curve[0, h, j] * data.directions[line, j]
            if sign * c[0] > reach + radius[h]:
                continue
            least = np.inf
            for n in range(count):
                c[n] = 0.0
                for j in range(dim):
                    c[n] += curve[n, h, j] * data.directions[line, j]
                c[n] = sign * c[n] + depth
                least = min(least, c[n])
            x = _first_below(c, stack, where) if least < 0.0 else 2.0
            if x > 1.0 and radius[h] > 0.0 and least < radius[h]:
                x = NEAR
            if (x <= 1.0 or x == NEAR) and found < sought.times.shape[0]:
                sought.pairs[found, 0], sought.pairs[found, 1], sought.times[found] = h, line, x
                found += 1
    return found


@_inner
def _margins(z: Any, data: Any, pattern: Any, p: Any, q: Any, rounding: float, out: Any) -> float:
    """Both margins of every slide, and v·v_begin last; returns how far one is beyond its end.

    A slide on line l has ς·s_l = μ with s_l = v·q_l < 0 and μ = −B·ẇ_free. Its margins are −s_l ± μ, both positive while
    |ς| < 1 and the line attracts, plus what ``rounding`` of all the pulls may have made of them.
    """
    dim, lines = data.transposed.shape
    whole, worst = data.mass, 0.0
    for k in range(p.shape[0]):
        for line in range(lines):
            whole += abs(p[k, line]) + abs(q[k, line])
    for i in range(pattern.slides.shape[0]):
        h, held = pattern.slides[i, 0], pattern.slides[i, 1]
        strength, free, size = 0.0, 0.0, 0.0
        for k in range(p.shape[0]):
            strength += z[h, dim + k] * q[k, held]
            size = max(size, abs(z[h, dim + k]))
        for line in range(lines):
            pulled, along = 0.0, 0.0
            for k in range(p.shape[0]):
                pulled += z[h, dim + k] * (p[k, line] + pattern.side[h, line] * q[k, line])
            for j in range(dim):
                along += pattern.dual[i, j] * data.transposed[j, line]
            free += along * pulled
        noise = rounding * size * whole
        out[i, 0], out[i, 1] = noise - strength - free, noise - strength + free
        if size * whole > 0.0:
            worst = max(worst, (noise - min(out[i, 0], out[i, 1])) / (size * whole))
    return worst


@_kernel
def scan(
    curve: Any, data: Any, pattern: Any, level: float, blur: float, rounding: float, radius: Any, at_nodes: Any,
    back: Any, sought: Any,
) -> int:
    """Search a curve for all that can happen along it (``_events``); returns how many crossings there are.

    ``at_nodes`` gives the curve's values at its nodes, ``back`` coefficients from such values. If there are more
    crossings than there is room for, the first ones in order of rows are kept.
    """
    dim, lines = data.transposed.shape
    rows, columns, slides = curve.shape[1], curve.shape[2], pattern.slides.shape[0]
    stack, where = np.empty((_DEEPEST + 2, 8)), np.empty((_DEEPEST + 2, 2))
    sought.fell[0] = 2.0
    for i in range(slides):
        sought.ended[i] = 2.0
    if slides > 0 or level > -np.inf:
        z, values, c = np.empty((rows, columns)), np.empty((8, slides, 3)), np.empty(8)
        p, q = np.empty((columns - dim, lines)), np.empty((columns - dim, lines))
        heights = np.empty(8)
        for n in range(8):
            for row in range(rows):
                for j in range(columns):
                    z[row, j] = 0.0
                    for m in range(8):
                        z[row, j] += at_nodes[n, m] * curve[m, row, j]
            _outputs(z, data, pattern.side, p, q)
            if level > -np.inf:
                heights[n] = max(_log_loss(p, q, data), -1e300) - level
            _pulls(p, q, data)
            sought.beyond[n] = _margins(z, data, pattern, p, q, rounding, values[n])
            for i in range(slides):
                h = pattern.slides[i, 0]
                values[n, i, 2] = 0.0
                for k in range(dim, columns):
                    values[n, i, 2] += z[h, k] * curve[0, h, k]
        for i in range(3 * slides + 1):
            if i == 3 * slides and level == -np.inf:
                break
            for m in range(8):
                c[m] = 0.0
                for n in range(8):
                    c[m] += back[m, n] * (values[n, i // 3, i % 3] if i < 3 * slides else heights[n])
            x = _first_below(c, stack, where)
            if i == 3 * slides:
                sought.fell[0] = x
            elif x < sought.ended[i // 3]:
                sought.ended[i // 3] = x
    if data.b == 0.0:
        return 0
    return _crossings(curve, data, pattern.side, blur, radius, sought, stack, where)
