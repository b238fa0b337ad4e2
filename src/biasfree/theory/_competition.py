"""Sleepers that wake beside each other: a competition of few amplitudes.

Let kinds j of sleepers have gathered in directions r_j, with responses φ_j = σ(r_jᵀx), signs s_j of v, and amplitudes
c_j = Σ|v|‖w‖. The awake groups follow them at once, since everything here is slow: what they add to the output beyond
what the columns F of the awake groups take back is Qφ_j, Q = I − F(FᵀHF)⁺FᵀH with H the loss's curvature. Hence

    ċ_j = 2c_j(ρ_j − Σ_k M_jk c_k),   M_jk = s_j s_k⟨φ_j H Qφ_k⟩,   L = L₀ − Σ_j (ρ_j + λ)c_j + ½ cᵀMc,

equations of competing species. A kind alone comes to rest at c = ρ/M. Two kinds that fit a narrow wedge of samples with
opposite signs have a nearly singular M: together they go on growing, and it is they that leave the linear solution.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

# Amplitudes count from this size on, as ln c; what is smaller grows by itself.
_SMALL = -700.0


class Competition(NamedTuple):
    """Kinds of sleepers on a plateau.

    Attributes:
        rates: ρ_j, net of decay.
        overlaps: M.
        gains: ρ_j + λ.
        log_sizes: ln c_j at time 0.
    """

    rates: Float[np.ndarray, "kinds"]
    overlaps: Float[np.ndarray, "kinds kinds"]
    gains: Float[np.ndarray, "kinds"]
    log_sizes: Float[np.ndarray, "kinds"]

    def time_of_fall(self, fall: float, kinds: np.ndarray | None = None, shift: np.ndarray | None = None) -> float:
        """When the loss has fallen by ``fall``; infinite if it does not.

        Args:
            fall: above zero.
            kinds: which of them take part, all by default.
            shift: added to the log sizes.
        """
        among = np.ones(len(self.rates), dtype=bool) if kinds is None else kinds
        rates, overlaps, gains = self.rates[among], self.overlaps[np.ix_(among, among)], self.gains[among]
        start = (self.log_sizes + (0.0 if shift is None else shift))[among]
        if not (rates > 0).any():
            return np.inf
        # Until the first is of the size at which it would rest, each grows by itself.
        own = np.maximum(np.diag(overlaps), 1e-300)
        growing = rates > 0
        alone = (np.log(1e-6 * rates[growing] / own[growing]) - start[growing]) / (2 * rates[growing])
        skipped = max(float(alone.min()), 0.0)
        logs = np.maximum(start + 2 * rates * skipped, _SMALL)

        def pace(_: float, logs: np.ndarray) -> np.ndarray:
            return np.asarray(2 * (rates - overlaps @ np.exp(np.minimum(logs, 50.0))))

        def left(_: float, logs: np.ndarray) -> float:
            c = np.exp(np.minimum(logs, 50.0))
            return float(gains @ c - 0.5 * c @ overlaps @ c) - fall

        left.terminal = True  # type: ignore[attr-defined]
        # As long as the slowest needs to grow from where it is, and as long again to compete.
        until = float(np.max((20.0 - logs[growing]) / (2 * rates[growing]))) + 100 / float(rates.max())
        solved = solve_ivp(pace, (0.0, until), logs, method="LSODA", rtol=1e-8, atol=1e-8, events=left)
        return skipped + float(solved.t_events[0][0]) if len(solved.t_events[0]) else np.inf


def competition(
    responses: Float[np.ndarray, "kinds samples"],
    signs: Float[np.ndarray, "kinds"],
    log_sizes: Float[np.ndarray, "kinds"],
    residuals: Float[np.ndarray, "samples"],
    curvature: Float[np.ndarray, "samples"],
    columns: Float[np.ndarray, "samples columns"],
    decay: float,
) -> Competition:
    """The competition of kinds with these responses beside awake groups with these columns."""
    root = np.sqrt(curvature)
    weighted = root[:, None] * columns
    signed = root * signs[:, None] * responses
    free = signed - (np.linalg.pinv(weighted, rcond=1e-10) @ signed.T).T @ weighted.T
    gains = np.mean(signs[:, None] * responses * residuals, axis=1)
    return Competition(gains - decay, free @ free.T / len(residuals), gains, log_sizes)
