"""The compiled part: velocity, one trial step with its curve, and what a curve is searched for.

Everything else is NumPy and Python. These functions hold loops over plain arrays and nothing else, so that they compile
in seconds, once, and are kept on disk. Shapes do not matter to them: merging changes these all the time.

A **curve** is a step's dense output as Bernstein coefficients of degree 7 in x ∈ [0, 1], shape (8, rows, columns). A
polynomial lies within the range of these coefficients, and halving the interval brings them closer to it, so that a
search for its first zero can miss nothing, however short a dip may be.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import config

from biasfree.dynamics.exact._data import LOGISTIC, SQUARE

_inner = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]


class _Kernel:
    """A compiled function, optimised as far as loops over plain arrays gain from it.

    LLVM's level 1 instead of Numba's own 3: the first call takes 7.4 s of CPU in place of 12, the runs last as long
    (measured on the six points, Figure 3 and 100 neurons on 200 lines).
    """

    def __init__(self, function: Any) -> None:
        self.compiled, self._ready = njit(cache=True, error_model="numpy")(function), False
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
_ENERGY = 0.01  # the energy is a sum over all steps: one of them may spend so much of the tolerance
NEAR = 3.0
# Times a step's tolerance, how far its curve may be from the last stage's place. Over 40 wide problems 99 of 100 steps
# of each were below 77, single ones at up to 450; 3,700 where a fast direction is at rest to rounding and the step is
# far too long for it, which the step's end does not show (wide seed 523).
_CURVE = 100.0
_NOTHING = 1e-250  # a row so small is as good as zero: its squares and errors are no numbers
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
        bent: step·bent @ stages is how far the curve is from the last stage's place, (total,); 0 where there is none.
    """

    a: np.ndarray
    error: np.ndarray
    error_low: np.ndarray
    dense: np.ndarray
    core: int
    bent: np.ndarray


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
    work: np.ndarray  # p, q and a row of products, (2·outputs + 1, lines)
    share: np.ndarray  # of passive rows, the largest part of a neuron's own size that it has in one; (rows,)

    @classmethod
    def room(cls, rows: int, columns: int, active: int, dim: int, lines: int) -> "Trial":
        """Empty room."""
        shape = (rows, columns)
        return cls(
            np.empty((16, *shape)), np.empty(16), np.empty((8, *shape)), np.empty(8), np.empty(shape), np.empty(shape),
            np.empty((active, dim, columns - dim)), np.empty((2 * (columns - dim) + 1, lines)),
            np.ones(rows),
        )  # fmt: skip


@_inner
def _outputs(z: Any, data: Any, side: Any, work: Any) -> None:
    """lin_l and even_l of all outputs, (outputs, lines), to the first rows of ``work``; its last is used up."""
    dim, lines = data.transposed.shape
    outputs = z.shape[1] - dim
    last = 2 * outputs
    for k in range(last):
        for line in range(lines):
            work[k, line] = 0.0
    if data.b == 0.0:  # no kinks: all comes from Σ v wᵀ
        for k in range(outputs):
            for j in range(dim):
                total = 0.0
                for h in range(side.shape[0]):
                    total += z[h, dim + k] * z[h, j]
                for line in range(lines):
                    work[k, line] += data.a * total * data.transposed[j, line]
        return
    for h in range(side.shape[0]):
        for line in range(lines):
            work[last, line] = 0.0
        for j in range(dim):
            weight = z[h, j]
            for line in range(lines):
                work[last, line] += weight * data.transposed[j, line]
        for k in range(outputs):
            odd, bent = data.a * z[h, dim + k], data.b * z[h, dim + k]
            for line in range(lines):
                work[k, line] += odd * work[last, line]
                work[outputs + k, line] += bent * side[h, line] * work[last, line]


@_inner
def _log_loss(work: Any, data: Any) -> float:
    """ln L from what the lines put out; NaN stays NaN."""
    outputs = (work.shape[0] - 1) // 2
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
    total = 0.0
    for twice in range(2):
        if twice == 1 and data.offset > 0.0:
            total = data.offset * math.exp(-top)
        for line in range(work.shape[1]):
            for i in range(data.begin[line], data.begin[line + 1]):
                t = data.position[i]
                z = -data.target[i, 0] * (t * work[0, line] + abs(t) * work[1, line])
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
def _pulls(work: Any, data: Any, shift: float) -> None:
    """Overwrite lin and even by p and q; on the loss clock ``shift`` is ln L."""
    outputs = (work.shape[0] - 1) // 2
    for line in range(work.shape[1]):
        if data.loss == SQUARE:
            square, mixed = data.powers[0, line], data.powers[1, line]
            for k in range(outputs):
                lin, even = work[k, line], work[outputs + k, line]
                work[k, line] = data.a * (data.sums[0, k, line] - lin * square - even * mixed) / data.samples
                work[outputs + k, line] = data.b * (data.sums[1, k, line] - lin * mixed - even * square) / data.samples
            continue
        odd, bent = 0.0, 0.0
        for i in range(data.begin[line], data.begin[line + 1]):
            t, y = data.position[i], data.target[i, 0]
            margin = y * (t * work[0, line] + abs(t) * work[1, line])
            if data.loss == LOGISTIC:  # ln σ(−m) = −softplus(m)
                margin = max(margin, 0.0) + math.log1p(math.exp(-abs(margin)))
            residual = y * math.exp(-margin - shift)
            odd += residual * t
            bent += residual * abs(t)
        work[0, line] = data.a * odd / data.samples
        work[1, line] = data.b * bent / data.samples


@_inner
def _gathered(work: Any, data: Any, side: Any, pull: Any) -> None:
    """M_h = Σ_l d_l (p_l + ς_hl q_l)ᵀ of the active rows."""
    dim, lines = data.transposed.shape
    outputs = pull.shape[2]
    for h in range(side.shape[0]):
        for k in range(outputs):
            for j in range(dim):
                if data.b == 0.0 and h > 0:  # without kinks all rows are pulled alike
                    pull[h, j, k] = pull[0, j, k]
                    continue
                total = 0.0
                for line in range(lines):
                    total += (work[k, line] + side[h, line] * work[outputs + k, line]) * data.transposed[j, line]
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
def _velocity(data: Any, pattern: Any, form: Any, trial: Any, s: int) -> None:
    """Write the velocity of all rows at ``trial.place`` to stage s, and the squared speed of the active ones."""
    dim, active, z = data.transposed.shape[0], pattern.side.shape[0], trial.place
    outputs, decay = z.shape[1] - dim, data.decay
    if form.constant.shape[0] > 0:
        _by_form(z, form, dim, trial.pull)
    else:
        _outputs(z, data, pattern.side, trial.work)
        shift = _log_loss(trial.work, data) if data.by_loss else 0.0
        decay = decay * math.exp(-shift) if decay > 0.0 else 0.0
        _pulls(trial.work, data, shift)
        _gathered(trial.work, data, pattern.side, trial.pull)
    _projected(pattern, trial.pull)
    trial.powers[s] = 0.0
    for row in range(z.shape[0]):
        owner = pattern.owner[row]
        for j in range(dim + outputs):
            total = -decay * z[row, j]
            if j < dim:
                for k in range(outputs):
                    total += trial.pull[owner, j, k] * z[row, dim + k]
            else:
                for i in range(dim):
                    total += trial.pull[owner, i, j - dim] * z[row, i]
            trial.stages[s, row, j] = total
            if row < active:
                trial.powers[s] += total * total


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
def _off(z: Any, trial: Any, step: float, limits: Any, method: Any, owner: Any) -> float:
    """The largest error of a row's curve, in units of what it may be."""
    worst = 0.0
    for row in range(z.shape[0]):
        off, size, own = 0.0, 0.0, 0.0
        for j in range(z.shape[1]):
            total = 0.0
            for s in range(method.a.shape[0]):
                total += method.bent[s] * trial.stages[s, row, j]
            if total != total:
                return np.inf
            off = max(off, abs(total))
            size = max(size, abs(z[row, j]), abs(trial.curve[7, row, j]))
            own = max(own, abs(z[owner[row], j]), abs(trial.curve[7, owner[row], j]))
        if owner[row] != row:
            size = max(size, own / trial.share[row])
        if off > 0.0:
            worst = max(worst, step * off / (_CURVE * (limits.atol + limits.rtol * size)))
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


@_Kernel
def attempt(
    z: Any, energy: float, step: float, data: Any, pattern: Any, form: Any, limits: Any, method: Any, trial: Any
) -> tuple[float, float]:
    """One step from rows ``z``; ``trial`` holds the velocity there and is filled.

    Returns the error in units of the tolerance, and step × fastest rate, as two estimates at the step's end show it.
    The curve is filled only where the error is at most 1.
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
        _velocity(data, pattern, form, trial, s)
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
    return max(error, _off(z, trial, step, limits, method, pattern.owner)), stiffness


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
        elif stack[top, 0] < 0.0 or top >= _DEEPEST or width < 1e-15 * (low + width):
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


class Sought(NamedTuple):
    """Room for what is found along a curve; times are x ∈ [0, 1], and 2 for what does not happen."""

    pairs: np.ndarray  # rows and lines that meet, (room, 2)
    times: np.ndarray  # when they do, (room,); NEAR: they only come within the row's radius
    ended: np.ndarray  # when each slide ends, (slides,)
    fell: np.ndarray  # when the loss is at the level, (1,)
    beyond: np.ndarray  # at each node, how far a slide is beyond its end, as part of all pulls; (8,)
    values: np.ndarray  # both margins of every slide and its v·v_begin at the nodes, and the loss; (8, 3·slides + 1)
    place: np.ndarray  # (rows, columns)
    work: np.ndarray  # (2·outputs + 1, lines)
    stack: np.ndarray  # of the search for roots, (52, 10)

    @classmethod
    def room(cls, crossings: int, slides: int, rows: int, columns: int, dim: int, lines: int) -> "Sought":
        """Empty room."""
        return cls(
            np.empty((crossings, 2), dtype=np.int64), np.empty(crossings), np.empty(slides), np.empty(1), np.zeros(8),
            np.empty((8, 3 * slides + 1)), np.empty((rows, columns)), np.empty((2 * (columns - dim) + 1, lines)),
            np.empty((_DEEPEST + 2, 10)),
        )  # fmt: skip


@_inner
def _crossings(curve: Any, data: Any, side: Any, blur: float, radius: Any, sought: Any) -> int:
    """Rows beyond a line by ``blur`` of their size somewhere along a curve, or within ``radius`` of it; how many."""
    dim, found, c = data.directions.shape[1], 0, sought.stack
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
                    c[0, n] += curve[n, h, j] * data.directions[line, j]
                c[0, n] = sign * c[0, n] + depth
                least = min(least, c[0, n])
                if n == 0 and least > reach + depth:
                    break
            x = _first_below(c) if least < 0.0 else 2.0
            if x == 2.0 and radius[h] > 0.0 and least < radius[h]:
                x = NEAR
            if x == 2.0:
                continue
            if found < sought.times.shape[0]:
                sought.pairs[found, 0], sought.pairs[found, 1], sought.times[found] = h, line, x
                found += 1
    return found


@_inner
def _margins(data: Any, pattern: Any, rounding: float, sought: Any, n: int) -> None:
    """Both margins of every slide at node n, where ``sought.work`` holds p and q, and how far one is beyond its end.

    A slide on line l has ς·s_l = μ with s_l = v·q_l < 0 and μ = −B·ẇ_free. Its margins are −s_l ± μ, both positive
    while |ς| < 1 and the line attracts, plus what ``rounding`` of all the pulls may have made of them.
    """
    dim, lines = data.transposed.shape
    z, work, outputs = sought.place, sought.work, sought.place.shape[1] - dim
    whole = data.mass
    for k in range(2 * outputs):
        for line in range(lines):
            whole += abs(work[k, line])
    sought.beyond[n] = 0.0
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
        noise = rounding * size * whole
        sought.values[n, 3 * i], sought.values[n, 3 * i + 1] = noise - strength - free, noise - strength + free
        if size > _NOTHING and whole > 0.0:
            sought.beyond[n] = max(sought.beyond[n], (strength + abs(free)) / (size * whole))


@_Kernel
def scan(
    curve: Any, data: Any, pattern: Any, level: float, blur: float, rounding: float, radius: Any, at_nodes: Any,
    back: Any, sought: Any,
) -> int:  # fmt: skip
    """Search a curve for all that can happen along it (``_events``); returns how many crossings there are.

    ``at_nodes`` gives the curve's values at its nodes, ``back`` coefficients from such values. Crossings that there is
    no room for are left out: ask again with more room if all of it is used.
    """
    dim, slides, z = data.transposed.shape[0], pattern.slides.shape[0], sought.place
    for i in range(slides):
        sought.ended[i] = 2.0
    sought.fell[0] = 2.0
    functions = 3 * slides + (1 if level > -np.inf else 0)
    for n in range(8 if functions > 0 else 0):
        for row in range(z.shape[0]):
            for j in range(z.shape[1]):
                z[row, j] = 0.0
                for m in range(8):
                    z[row, j] += at_nodes[n, m] * curve[m, row, j]
        _outputs(z, data, pattern.side, sought.work)
        height = _log_loss(sought.work, data)
        sought.values[n, 3 * slides] = max(height, -1e300) - level
        _pulls(sought.work, data, height if data.by_loss else 0.0)
        _margins(data, pattern, rounding, sought, n)
        for i in range(slides):
            total, h = 0.0, pattern.slides[i, 0]
            for k in range(dim, z.shape[1]):
                total += z[h, k] * curve[0, h, k]
            sought.values[n, 3 * i + 2] = total
    for i in range(functions):
        for m in range(8):
            sought.stack[0, m] = 0.0
            for n in range(8):
                sought.stack[0, m] += back[m, n] * sought.values[n, i]
        x = _first_below(sought.stack)
        if i == 3 * slides:
            sought.fell[0] = x
        elif x < sought.ended[i // 3]:
            sought.ended[i // 3] = x
    return 0 if data.b == 0.0 else _crossings(curve, data, pattern.side, blur, radius, sought)
