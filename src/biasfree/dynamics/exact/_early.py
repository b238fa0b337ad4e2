"""The early phase of the exact flow: in closed form, up to where a bound on what it neglects says stop.

While the output is negligible every neuron moves by itself, between its switches in closed form
(``switching.Runner``; ``SeveralRunner`` for several outputs, where c is a matrix). Weight decay multiplies everything
by e^{−λt} and changes no direction; on the loss clock L keeps its first value L₀, and all rates are divided by it.

**What is neglected** is the output's part of the residuals: |Δe_i| ≤ κ'|f_i| with κ' the loss's curvature. As
‖⟨g x⟩‖² ≤ σ⟨g²⟩ for any g, with σ the largest eigenvalue of ⟨xxᵀ⟩, and ⟨f²⟩^½ ≤ σ^½S with S = Σ_h|w₂h|‖w_h‖, at most
N = ½‖W‖², c is off by at most ‖Δc‖ ≤ κ'σN, and a neuron by at most ∫‖Δc‖dt of its size. N grows by at most e^{2ρt},
ρ = ‖u‖ + Σ|q_l| being the largest c there is. So from a time where N is known

    ∫‖Δc‖dt ≤ κ'σN(e^{2ρΔ} − 1)/2ρ

over a stretch Δ. Each stretch spends half of what is left of the budget, a fifth of rtol; when stretches become
short beside 1/ρ the phase ends. On the loss clock the change of L counts too, with the same bound times ‖u‖/L₀-like
factors, for which the budget is halved again.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import losses
from biasfree.dynamics.exact._groups import Formed, of_terms
from biasfree.lines import Lines
from biasfree.switching import Runner, Segments, SeveralModes, SeveralRunner, Switches

# Part of rtol that the phase may cost in all: docs/exact.md counts it among what limits the accuracy. And the stretch,
# in units of 1/ρ, below which the phase ends; chosen: halving the budget shortens a stretch by ln 2/2ρ = 0.35/ρ, so
# that only a stretch or two are lost, which steps then take.
_BUDGET, _SHORT = 0.2, 0.25
_BY_LOSS = 0.5  # of the budget, on the loss clock; chosen: L, by which velocities are divided, changes there too
_SPENT = 0.5  # chosen: of what is left of the budget, for a stretch; the sum of all stays below it


@dataclass(frozen=True)
class Early:
    """The phase from t = 0 to ``time``.

    Attributes:
        time: its end, on the run's clock.
        events: what happened in it.
    """

    time: float
    events: Switches
    _segments: Segments
    _decay: float
    _width: int

    def at(self, time: float) -> Float[np.ndarray, "width columns"]:
        """Neurons (w, v) at a time before the end."""
        first, second, log_size = self._segments.at(time, self._width)
        neurons = np.column_stack([first, second])
        neurons *= np.exp(log_size - self._decay * time)[:, None]
        return neurons

    def gain(self, time: float) -> float:
        """L(f = 0) − L, in units of ``scale``: to first order Σ_h w₂h c_hᵀw_h; the second is (rtol/5)² at most.

        With c = ρc̄ that is ρ(A²E² − B²/E²) for each neuron.
        """
        s = self._segments
        here = s.last_before(time, self._width)
        modes, elapsed = s.modes.take(here), time - s.begin[here]
        size = 2 * (s.log_size[here] - self._decay * time)
        return 0.5 * float(sum(rate @ _grown(power, size + 2 * rate * elapsed) for rate, power in modes.powers()))

    def energy(self, time: float) -> float:
        """∫‖Ẇ‖² up to a time: of each mode's growth g and squared size p a stretch Δ holds gp(e^{2gΔ} − 1)/2."""
        s = self._segments
        following = np.append(s.begin[1:], np.inf)
        following[np.append(np.diff(s.neuron) != 0, True)] = np.inf
        stretch = np.clip(np.minimum(following, time) - s.begin, 0.0, None)
        size, total = 2 * (s.log_size - self._decay * s.begin), 0.0
        for rate, power in s.modes.powers():
            growth = rate - self._decay
            total += float(growth @ (_grown(power, size + 2 * growth * stretch) - _grown(power, size)))
        return 0.5 * total

    def group(self, members: Int[np.ndarray, "members"]) -> Formed | None:
        """Some neurons at the end, as one whose differences keep their digits; None if they are not under one M.

        With several outputs all modes grow, each at its own rate: neurons become parallel to a hundred digits, and what
        is left between them may drive them apart later (``Carried.straighten``). With one output it does not.
        """
        s = self._segments
        if not isinstance(s.modes, SeveralModes):
            return None
        here = s.last_before(self.time, self._width)[members]
        modes, elapsed = s.modes.take(here), (self.time - s.begin[here])[:, None]
        first, second, rate = modes.first[0], modes.second[0], modes.rate[0]
        if any((each != each[0]).any() for each in (modes.rate, modes.first, modes.second)):
            return None
        moves, size = rate > 0, (s.log_size[here] - self._decay * self.time)[:, None]
        w, v, phase = first[:, moves].T, second[:, moves].T, modes.rate[:, moves] * elapsed
        across, still = _complement(w), _complement(v)
        terms = np.concatenate([
            np.column_stack([w, v]), np.column_stack([across, np.zeros((len(across), v.shape[1]))]),
            np.column_stack([np.zeros((len(still), w.shape[1])), still]), np.column_stack([w, -v]),
        ])  # fmt: skip
        parts = [modes.up[:, moves], modes.across @ across.T, modes.still @ still.T, modes.down[:, moves]]
        powers = [size + phase, size + 0 * parts[1], size + 0 * parts[2], size - phase]
        part, power = np.concatenate(parts, axis=1), np.concatenate(powers, axis=1)
        with np.errstate(divide="ignore"):
            power += np.log(np.abs(part))
        largest = power.max(axis=0)
        some = np.exp(largest) > 0
        coefficients = np.sign(part[:, some]) * np.exp(power[:, some] - largest[some])
        return of_terms(members, coefficients, np.exp(largest[some])[:, None] * terms[some])


def _complement(rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "others dim"]:
    """An orthonormal basis of what is across orthonormal rows."""
    return np.linalg.qr(rows.T, mode="complete")[0].T[len(rows) :]


def _grown(power: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """power·e^exponent, and 0 where there is nothing to grow."""
    return np.where(power > 0, power * np.exp(exponent), 0.0)


def early_phase(
    neurons: Float[np.ndarray, "width columns"],
    grouped: Lines,
    targets: Float[np.ndarray, "samples *outputs"],
    power: float,
    *,
    slope: float,
    loss: str,
    decay: float,
    scale: float,
    rtol: float,
    until: float,
) -> Early | None:
    """Follow the early phase as far as it goes; None if it has no length worth having.

    Args:
        neurons: the start, rows (w, v).
        grouped: the inputs by line.
        targets: of all samples.
        power: σ, the largest eigenvalue of ⟨xxᵀ⟩.
        slope: α.
        loss: its name.
        decay: λ, divided by L₀ on the loss clock.
        scale: what rates are divided by: 1, or L₀ on the loss clock.
        rtol: the run's tolerance.
        until: the run's end.
    """
    a = 0.5 * (1 + slope)
    residuals = losses.get(loss).initial_residual(targets) / (len(targets) * scale)
    drift, strength, kept = grouped.pulls(residuals)
    drift, strength, at_kink = a * drift, (1 - a) * strength, (a - 1) * grouped.odd(residuals)
    dim = grouped.directions.shape[1]
    kept, outputs = kept[:0] if a == 1 else kept, neurons.shape[1] - dim
    fastest = float(np.linalg.norm(drift) + np.linalg.norm(strength[kept].reshape(len(kept), outputs), axis=1).sum())
    if fastest == 0 or not neurons.any():
        return None
    runner: Runner | SeveralRunner
    if outputs == 1:
        one = strength[kept].reshape(-1), drift.reshape(dim), at_kink[kept].reshape(-1)
        runner = Runner(grouped.directions[kept], *one, neurons[:, :-1], neurons[:, -1])
    else:
        several = strength[kept], drift, at_kink[kept]
        runner = SeveralRunner(grouped.directions[kept], *several, neurons[:, :dim], neurons[:, dim:])
    left = _BUDGET * rtol * (_BY_LOSS if scale != 1 else 1.0)
    curvature = losses.get(loss).curvature * power / scale
    time = 0.0
    while time < until and _SPENT * left > 0:  # where all fades for good, stretches never end: half of 5e-324 is 0
        sizes, elapsed = 2 * (runner.log_size - decay * time), time - runner.time
        with np.errstate(divide="ignore"):
            parts = [np.log(power) + sizes + 2 * rate * elapsed for rate, power in runner.modes.powers()]
        # In logarithms: N of a start of 1e-200 is no number.
        log_rate = math.log(0.5 * curvature) + float(np.logaddexp.reduce(np.ravel(parts))) - math.log(2 * fastest)
        stretch = float(np.logaddexp(0.0, math.log(_SPENT * left) - log_rate)) / (2 * fastest)
        if stretch < _SHORT / fastest:
            break
        stretch = min(stretch, until - time)
        growth = 2 * fastest * stretch
        left -= math.exp(log_rate + growth + math.log(-math.expm1(-growth)))
        time += stretch
        runner.advance_all(time)
        if runner.stuck:
            return None
    if time == 0:
        return None
    table = runner.switches()
    events = Switches(table.times, table.neurons, kept[table.lines], table.kinds)
    return Early(time, events, runner.segments(), decay, len(neurons))


def spectral_norm(inputs: np.ndarray) -> float:
    """The largest eigenvalue of ⟨xxᵀ⟩."""
    return float(np.linalg.norm(inputs.T @ inputs, 2)) / len(inputs)
