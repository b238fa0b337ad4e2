"""The flow of one aligned chain of layers, whatever network it is part of: norms a_l and one direction r (Appendix F).

W₁ = a₁ρ₁rᵀ, W_l = a_lρ_lρ_{l−1}ᵀ, W_L = a_Lρ_{L−1}ᵀ with fixed unit vectors ρ_l computes w = a₁⋯a_L r on the share c of
the data that the chain is active on, and its square-loss flow, w* = Σ⁺β, is

    ȧ_l = c (Π_{k≠l} a_k) rᵀe,     d(a₁r)/dt = c (Π_{k≠1} a_k) e,     e = β − Σw = Σ(w* − w).

Integrated are ln a₁ from its start, the ratios q_l = a_l/a₁ and r, with κ = c a₁^{L−2}:

    d(ln a₁)/dt = κ Πq rᵀe,     q̇_l = κ (Π_{k≠l} q_k) (1 − q_l²) rᵀe,     ṙ = κ Πq (I − rrᵀ)e,

so that tiny norms never underflow, equal norms stay equal exactly, and a ratio may pass through zero. The differences
a_l² − a_k² are conserved, and so is the part of a₁r that Σ does not see; with w = w* elsewhere they give the limit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from biasfree import checks

# LSODA's own limit is about 2e-14; what is left amounts to 1e-11 or less of the state after thousands of steps.
_RTOL, _ATOL = 3e-14, 1e-14


class Moments(NamedTuple):
    """Σ, β, least squares w* and the directions Σ does not see."""

    covariance: Float[np.ndarray, "dim dim"]
    correlation: Float[np.ndarray, "dim"]
    least_squares: Float[np.ndarray, "dim"]
    unseen: Float[np.ndarray, "dim null"]

    @classmethod
    def of(cls, covariance: Any, correlation: Any) -> "Moments":
        """Check that some data set could have these moments."""
        beta = checks.finite(checks.numeric(correlation, "correlation"), "correlation")
        matrix = checks.finite(checks.numeric(covariance, "covariance"), "covariance")
        if beta.ndim != 1 or not beta.size or matrix.shape != (beta.size, beta.size):
            raise ValueError(
                f"covariance must have shape (dim, dim) and correlation (dim,), got {matrix.shape} and {beta.shape}."
            )
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        top = values[-1]
        if not top > 0 or values[0] < -1e-8 * top or np.abs(matrix - matrix.T).max() > 1e-8 * top:
            raise ValueError("covariance must be symmetric with eigenvalues of at least 0, as ⟨x xᵀ⟩ is, and not zero.")
        seen = values > beta.size * np.finfo(float).eps * top
        solution = vectors[:, seen] @ (vectors[:, seen].T @ beta / values[seen])
        if np.linalg.norm(matrix @ solution - beta) > 1e-8 * np.linalg.norm(beta):
            raise ValueError(
                "correlation must lie in the range of covariance, as ⟨y x⟩ does. Take both from one data set."
            )
        return cls(matrix, beta, solution, vectors[:, ~seen])

    @property
    def dim(self) -> int:
        """Input dimension."""
        return self.correlation.size

    def excess(self, maps: Float[np.ndarray, "*batch dim"]) -> Float[np.ndarray, "*batch"]:
        """Square loss of a linear map above that of least squares, ½(w−w*)ᵀΣ(w−w*)."""
        apart = maps - self.least_squares
        return 0.5 * np.einsum("...i,ij,...j->...", apart, self.covariance, apart)


class Chain(NamedTuple):
    """A chain at its start: r and a_l; all but a₁ may be zero or negative."""

    direction: Float[np.ndarray, "dim"]
    norms: Float[np.ndarray, "depth"]


def course(
    times: Float[np.ndarray, "*times"], moments: Moments, chain: Chain, share: float
) -> tuple[Float[np.ndarray, "*times depth"], Float[np.ndarray, "*times dim"]]:
    """Norms and directions of a chain at each time; ``share`` is c, the part of the data it is active on."""
    wanted, where = np.unique(times, return_inverse=True)
    finite = wanted[np.isfinite(wanted)]
    states = _start(chain)[None].repeat(finite.size, axis=0)
    if finite.size and finite[-1] > 0:
        states = _solved(finite[-1], moments, chain, share, t_eval=finite).y.T
    norms, directions = _read(states, chain)
    if finite.size < wanted.size:
        last, towards = _limit(moments, chain)
        norms, directions = np.concatenate([norms, last[None]]), np.concatenate([directions, towards[None]])
    where = where.ravel()
    return norms[where].reshape(*times.shape, -1), directions[where].reshape(*times.shape, -1)


def passing_times(
    moments: Moments, chain: Chain, share: float, fractions: Sequence[float]
) -> Float[np.ndarray, "fractions"]:
    """When a chain has taken these fractions, in rising order, off the loss at zero output; 0 if it has already."""
    whole = moments.excess(np.zeros(moments.dim))

    def left(state: np.ndarray) -> float:
        norms, directions = _read(state[None], chain)
        return float(moments.excess(np.prod(norms) * directions[0]) / whole)

    def crossing(fraction: float) -> Any:
        return lambda _, state: left(state) - (1 - fraction)

    ahead = [fraction for fraction in fractions if left(_start(chain)) > 1 - fraction]
    if not ahead:
        return np.zeros(len(fractions))
    events = [crossing(fraction) for fraction in ahead]
    events[-1].terminal = True
    # A few times as long as a chain would take that has the largest norm in every layer; then longer and longer.
    end = 10 / (share * np.linalg.norm(moments.correlation) * np.abs(chain.norms).max() ** (chain.norms.size - 2))
    while np.isfinite(end):
        crossings = _solved(end, moments, chain, share, events=events).t_events
        if all(times.size for times in crossings):
            return np.array([0.0] * (len(fractions) - len(ahead)) + [times[0] for times in crossings])
        end *= 4
    raise ArithmeticError("the chain does not learn in any time that a number can hold; start it from larger norms.")


def _start(chain: Chain) -> np.ndarray:
    return np.concatenate([[0.0], chain.norms[1:] / chain.norms[0], chain.direction])


def _read(states: np.ndarray, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    depth = chain.norms.size
    first = chain.norms[0] * np.exp(states[:, :1])
    directions = states[:, depth:] / np.linalg.norm(states[:, depth:], axis=1, keepdims=True)
    return np.concatenate([first, first * states[:, 1:depth]], axis=1), directions


def _solved(end: float, moments: Moments, chain: Chain, share: float, **options: Any) -> Any:
    depth = chain.norms.size
    itself = np.eye(depth - 1, dtype=bool)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        ratios, r = state[1:depth], state[depth:] / np.linalg.norm(state[depth:])
        first, product = chain.norms[0] * np.exp(state[0]), np.prod(ratios)
        # Σ(w* − w), not β − Σw: its rounding then dies out with w* − w, which lets steps at rest grow without end.
        error = moments.covariance @ (moments.least_squares - first**depth * product * r)
        along = r @ error
        others = np.prod(np.where(itself, 1.0, ratios), axis=1)
        turn = product * (error - along * r)
        pace = share * first ** (depth - 2)
        return pace * np.concatenate([[product * along], along * others * (1 - ratios) * (1 + ratios), turn])

    # LSODA turns implicit where the decay to rest is stiff.
    solution = solve_ivp(velocity, (0.0, end), _start(chain), "LSODA", rtol=_RTOL, atol=_ATOL, **options)
    if not solution.success:
        raise ArithmeticError(f"the reduced flow could not be integrated: {solution.message}")
    return solution


def _limit(moments: Moments, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """Rest, from what is conserved: a₁² = ‖n‖² + ‖w*‖²/(a₂⋯a_L)² with n what Σ does not see of a₁r."""
    offsets = chain.norms**2 - chain.norms[0] ** 2
    kept = moments.unseen @ (moments.unseen.T @ (chain.norms[0] * chain.direction))
    floor, goal = kept @ kept, np.sum(moments.least_squares**2)

    def surplus(square: float) -> float:
        return (square - floor) * np.prod(square + offsets[1:]) - goal

    square = low = max(floor, -offsets.min())
    if goal:
        high = low + 1.001 * goal ** (1 / offsets.size)
        square = brentq(surplus, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps)
    norms = np.sqrt(np.maximum(square + offsets, 0.0))
    reached = kept + moments.least_squares / np.prod(norms[1:]) if goal else kept
    size = np.linalg.norm(reached)
    return norms, reached / size if size else chain.direction
