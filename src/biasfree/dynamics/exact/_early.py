"""The early phase of the exact flow: in closed form, up to where a bound on what it neglects says stop.

While the output is negligible every neuron moves by itself, between its switches in closed form
(``switching.Runner``). Weight decay multiplies everything by e^{−λt} and changes no direction; on the loss clock L
keeps its first value L₀, and all rates are divided by it.

**What is neglected** is the output's part of the residuals: |Δe_i| ≤ κ'|f_i| with κ' the loss's curvature. As
‖⟨g x⟩‖² ≤ σ⟨g²⟩ for any g, with σ the largest eigenvalue of ⟨xxᵀ⟩, and ⟨f²⟩^½ ≤ σ^½S with S = Σ_h|w₂h|‖w_h‖, at most
N = ½‖W‖², c is off by at most ‖Δc‖ ≤ κ'σN, and a neuron by at most ∫‖Δc‖dt of its size. N grows by at most e^{2ρt},
ρ = ‖u‖ + Σ|q_l| being the largest c there is. So from a time where N is known

    ∫‖Δc‖dt ≤ κ'σN(e^{2ρΔ} − 1)/2ρ

over a stretch Δ. Each stretch spends half of what is left of the budget, a fifth of rtol; when stretches become
short beside 1/ρ the phase ends. On the loss clock the change of L counts too, with the same bound times ‖u‖/L₀-like
factors, for which the budget is halved again.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.lines import Lines
from biasfree.switching import ROUNDING, Runner, Segments, advanced, modes

_BUDGET, _SHORT = 0.2, 0.25
CURVATURE = {"square": 1.0, "logistic": 0.25, "exponential": 1.5}
PULL = {"square": 1.0, "logistic": 0.5, "exponential": 1.0}  # −∂ℓ/∂f at f = 0, per unit of y


@dataclass(frozen=True)
class Early:
    """The phase from t = 0 to ``time``.

    Attributes:
        time: its end, on the run's clock.
        events: (time, neuron, line, kind).
    """

    time: float
    events: list[tuple[float, int, int, str]]
    _segments: Segments
    _decay: float
    _width: int

    def at(self, time: float) -> Float[np.ndarray, "width dim+1"]:
        """Neurons (w, w₂) at a time before the end."""
        s = self._segments
        here = s.last_before(time, self._width)
        first, second, log_size = advanced(s.first[here], s.second[here], s.pull[here], time - s.begin[here])
        size = np.exp(s.log_size[here] + log_size - self._decay * time)
        return size[:, None] * np.column_stack([first, second])

    def energy(self, time: float) -> float:
        """∫‖Ẇ‖² up to a time: of each mode's growth g and squared size p a stretch Δ holds gp(e^{2gΔ} − 1)/2."""
        s = self._segments
        rate, _, up, down, across = modes(s.first, s.second, s.pull)
        following = np.append(s.begin[1:], np.inf)
        following[np.append(np.diff(s.neuron) != 0, True)] = np.inf
        stretch = np.clip(np.minimum(following, time) - s.begin, 0.0, None)
        size = np.exp(2 * (s.log_size - self._decay * s.begin))
        still = np.where(rate > 0, 0.0, s.second) ** 2
        total = np.zeros_like(rate)
        for growth, power in (
            (rate - self._decay, 2 * up**2),
            (-rate - self._decay, 2 * down**2),
            (np.full_like(rate, -self._decay), np.sum(across**2, axis=1) + still),
        ):
            total += 0.5 * growth * power * np.expm1(2 * growth * stretch)
        return float(np.sum(size * total))


def early_phase(
    neurons: Float[np.ndarray, "width dim+1"],
    grouped: Lines,
    targets: Float[np.ndarray, "samples"],
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
        neurons: the start, rows (w, w₂).
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
    a, samples = 0.5 * (1 + slope), len(targets)
    signed = PULL[loss] * targets / (samples * scale)
    drift = a * (grouped.total(grouped.position * signed) @ grouped.directions)
    terms = np.abs(grouped.position) * signed
    strength, mass = (1 - a) * grouped.total(terms), grouped.total(np.abs(terms))
    kept = np.flatnonzero(np.abs(strength) > 100 * ROUNDING * mass)
    fastest = float(np.linalg.norm(drift) + np.abs(strength[kept]).sum())
    if fastest == 0 or not neurons.any():
        return None
    runner = Runner(grouped.directions[kept], strength[kept], drift, neurons[:, :-1], neurons[:, -1])
    left = _BUDGET * rtol * (0.5 if scale != 1 else 1.0)
    curvature = CURVATURE[loss] * power / scale
    time = 0.0
    while time < until:
        first, second, log_size = advanced(runner.first, runner.second, runner.pull, time - runner.time)
        sizes = np.exp(2 * (runner.log_size + log_size - decay * time))
        square = 0.5 * float(np.sum(sizes * (np.sum(first**2, axis=1) + second**2)))
        stretch = np.log1p(2 * fastest * (0.5 * left) / (curvature * square)) / (2 * fastest)
        if stretch < _SHORT / fastest:
            break
        stretch = min(stretch, until - time)
        left -= curvature * square * np.expm1(2 * fastest * stretch) / (2 * fastest)
        time += stretch
        runner.advance_all(time)
    if time == 0:
        return None
    table = runner.switches()
    events = [
        (float(t), int(h), int(kept[line]), str(kind))
        for t, h, line, kind in zip(table.times, table.neurons, table.lines, table.kinds, strict=True)
    ]
    return Early(time, events, runner.segments(), decay, len(neurons))
