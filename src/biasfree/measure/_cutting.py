"""Where a loss curve waits: the rule that cuts a run into plateaus and transitions.

Let V be what the run descends on (L, or L + ½λ‖W‖² with weight decay; ln L on the loss clock) and R how far it falls in
all.

1. **Monotone curve.** V̂ is half way between the lowest value so far and the highest still to come. It never rises; the
   gap between the two is what the curve goes up and down by, its noise: rounding of a flow, oscillation of descent. A
   curve that often rises is taken to have six times its median rise of noise everywhere.
2. **Speeds.** Saved times are joined into blocks over each of which V̂ falls by more than four times the noise there,
   and by R/10000 or more: between two events that nearly coincide a speed is a quotient of rounding errors. A block's
   speed is its fall over its duration.
3. **Slow and fast.** A plateau is a dip of the speed, a transition a peak; each must differ from its neighbours by a
   factor of 3 or more. The start and the end of a run may be dips too.
4. **Visible.** A transition through which V̂ falls by less than R/1000 is none: the plateaus on its two sides are one.
   The last dip is a plateau if nothing visible is left to fall, or if V̂ does not fall visibly in the second half of
   what was seen of it. Else the run ends while it falls.

The level of a plateau is V̂ where it is slowest. It begins when nine tenths of the transition before it are made, and
ends when a tenth of the next one is.

Nothing depends on the units of time or loss, nor on how densely a run was saved, as long as transitions are resolved.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# How many times faster than a plateau its transitions are; the smallest visible fall, as a share of the whole.
FASTER, VISIBLE = 3.0, 1e-3
# Share of a transition that belongs to the plateaus on either side of it.
SHOULDER = 0.1
_NOISES = 4.0
# The least fall of a block, as a share of the smallest visible one.
_BLOCK = 0.1
# A curve is noisy if it rises at more than this share of its saved times.
_OFTEN = 0.05


@dataclass(frozen=True)
class Cut:
    """One plateau of a curve.

    Attributes:
        begin, end: when it is reached and left; ``end`` is infinite if the curve ends on it.
        slowest: the time at which the curve is slowest.
        level: the curve's value there.
        before, after: how far the curve falls in the transitions on either side; 0 where there is none.
    """

    begin: float
    end: float
    slowest: float
    level: float
    before: float
    after: float


def cut(
    times: Float[np.ndarray, "saved"],
    values: Float[np.ndarray, "saved"],
    rounding: float = 0.0,
    least: float | None = None,
) -> tuple[list[Cut], bool]:
    """Cut a falling curve into plateaus by the rule above.

    Args:
        times: increasing.
        values: what falls.
        rounding: smallest difference of values that means anything.
        least: the smallest visible fall; a thousandth of the whole by default.

    Returns:
        The plateaus in order of time, and whether the curve still falls where it ends.

    >>> t = np.linspace(0, 100, 1001)
    >>> stairs = 3 - np.tanh(t - 30) - 0.5 * np.tanh(t - 60)
    >>> [(round(each.level, 6), round(each.begin), round(each.end, 1)) for each in cut(t, stairs)[0]]
    [(4.5, 0, 28.9), (2.5, 31, 58.9), (1.5, 61, inf)]
    """
    curve, noise = _monotone(values)
    fall = float(curve[0] - curve[-1])
    # What the noise can do is not a fall.
    least = max(VISIBLE * fall if least is None else least, float(np.median(noise)))
    if len(times) < 3 or not fall > max(_NOISES * max(float(noise.max()), rounding), least):
        return _standing(times, curve, noise, rounding), False
    edges = _blocks(curve, noise, max(rounding, _BLOCK * least))
    lengths = np.diff(times[edges])
    speeds = np.maximum(-np.diff(curve[edges]), rounding or 1e-300) / lengths
    slow = _dips(np.log(speeds))
    # Of a slow block, its middle; a block may be all of a plateau.
    moments = [float(0.5 * (times[edges[b]] + times[edges[b + 1]])) for b in slow]
    if slow and slow[0] == 0:
        moments[0] = float(times[0])
    if slow and slow[-1] == len(speeds) - 1:
        moments[-1] = float(times[-1])
    dips = [_Dip(t, float(np.interp(t, times, curve)), float(speeds[b])) for t, b in zip(moments, slow, strict=True)]
    dips = _visible(dips, least)
    if dips and dips[-1].moment == times[-1] and not _rests(times, curve, dips, least):
        dips = dips[:-1]
    rests = bool(dips) and dips[-1].level - curve[-1] < least
    return _cuts(times, curve, dips, least, rests), not rests


class _Dip(NamedTuple):
    moment: float
    level: float
    speed: float


def _monotone(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low = np.minimum.accumulate(values)
    high = np.maximum.accumulate(values[::-1])[::-1]
    rises = np.diff(values)
    rises = rises[rises > 0]
    # Where a noisy curve falls fast it never rises: noise that is met everywhere is there too.
    usual = 6 * float(np.median(rises)) if len(rises) > _OFTEN * len(values) else 0.0
    return 0.5 * (low + high), np.maximum(high - low, usual)


def _standing(times: np.ndarray, curve: np.ndarray, noise: np.ndarray, rounding: float) -> list[Cut]:
    """A curve that does not fall is one plateau, if it does not rise either."""
    if float(noise.max()) > max(_NOISES * rounding, VISIBLE * abs(float(curve[0]))):
        return []
    return [Cut(float(times[0]), np.inf, float(times[-1]), float(curve[-1]), 0.0, 0.0)]


def _blocks(curve: np.ndarray, noise: np.ndarray, rounding: float) -> np.ndarray:
    """Edges of the blocks, as indices of saved times."""
    edges, begin, worst = [0], 0, 0.0
    for i in range(1, len(curve)):
        worst = max(worst, float(noise[i - 1]), float(noise[i]))
        if curve[begin] - curve[i] > max(_NOISES * worst, rounding):
            edges.append(i)
            begin, worst = i, 0.0
    if edges[-1] != len(curve) - 1:
        edges.append(len(curve) - 1)
    return np.array(edges)


def _dips(heights: np.ndarray) -> list[int]:
    """Minima that lie between maxima higher by the factor, the ends of the curve included: a zigzag."""
    threshold, minima = np.log(FASTER), []
    low = high = 0
    rising: bool | None = None
    for i, height in enumerate(heights):
        low = i if height < heights[low] else low
        high = i if height > heights[high] else high
        if rising is not False and heights[high] - height >= threshold:
            # Past a peak; what comes before the first is a dip only if the curve rose to it.
            rising, low = False, i
        elif rising is not True and height - heights[low] >= threshold:
            minima.append(low)
            rising, high = True, i
    if rising is False:
        minima.append(low)
    return minima


def _visible(dips: list[_Dip], least: float) -> list[_Dip]:
    """Join plateaus that no visible fall parts, the smallest fall first; the slower dip stands for both."""
    dips = list(dips)
    while len(dips) > 1:
        falls = [one.level - two.level for one, two in itertools.pairwise(dips)]
        k = int(np.argmin(falls))
        if falls[k] >= least:
            break
        del dips[k if dips[k].speed > dips[k + 1].speed else k + 1]
    return dips


def _rests(times: np.ndarray, curve: np.ndarray, dips: list[_Dip], least: float) -> bool:
    """Whether the last dip, at which the run ends, is a plateau."""
    level = dips[-1].level
    if 0 <= level < least:
        return True
    above = dips[-2].level if len(dips) > 1 else float(curve[0])
    begin = _passing(times, curve, level + SHOULDER * (above - level))
    return float(np.interp(0.5 * (begin + times[-1]), times, curve)) - level < least


def _cuts(times: np.ndarray, curve: np.ndarray, dips: list[_Dip], least: float, rests: bool) -> list[Cut]:
    cuts = []
    for k, (moment, level, _) in enumerate(dips):
        above = dips[k - 1].level if k else float(curve[0])
        below = dips[k + 1].level if k + 1 < len(dips) else float(curve[-1])
        before, after = above - level, level - below
        last = rests and k == len(dips) - 1
        end = np.inf if last else _passing(times, curve, level - SHOULDER * after)
        first = not k and before < least
        begin = float(times[0]) if first else _passing(times, curve, level + SHOULDER * before)
        cuts.append(Cut(begin, end, moment, level, 0.0 if first else before, 0.0 if last else after))
    return cuts


def _passing(times: np.ndarray, curve: np.ndarray, level: float) -> float:
    """When the curve first is at or below a level, by a straight line between saved times."""
    k = int(np.argmax(curve <= level))
    if k == 0:
        return float(times[0] if curve[0] <= level else times[-1])
    share = (curve[k - 1] - level) / (curve[k - 1] - curve[k])
    return float(times[k - 1] + share * (times[k] - times[k - 1]))
