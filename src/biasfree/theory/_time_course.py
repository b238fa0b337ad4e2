"""Time courses under Condition 3 and Assumption 4: the closed form Eq. 38, and Eq. 34's reduced flow for any Σ.

Under Assumption 4 the weights are W₁ = W₂ᵀrᵀ for all times, so two numbers carry the whole network: the norm u of
either layer of the matching linear network (√a times the network's own) and the direction r. With W₁ = v(ur)ᵀ,
W₂ = uvᵀ, v a fixed unit vector, Eq. 34 becomes, in the linear network's time t̃ = at,

    d(ln u)/dt̃ = rᵀe − λ/a,    dr/dt̃ = (I − rrᵀ)e,    f(x) = wᵀx,  w = u²r,

where e = β − Σw for the square loss and e = ⟨y x/(1 + e^{y wᵀx})⟩ for the logistic one, and λ is the network's own
weight decay. The cost does not depend on the width, nor, for the square loss, on the number of samples; ln u never
underflows.

For white input, Σ = I, the square loss has a closed form. Corollary 14 prints u₀ = ‖W₁(0)‖; the linear network that the
solution is taken from has √a times this norm, and only that agrees with the flow. Multiplied out by q₂², so that it
holds at q₂ = 0,

    w(t) = (q₂ + q₁E²) [β̄(q₂ − q₁E²) + 2r⊥E] / { 4[u₀⁻² + q₁q₂t̃]E² + (q₂² + q₁²E²)(1 − E²)/s },

with E = e^{−st̃}, q₁ = 1 − rᵀβ̄, q₂ = 1 + rᵀβ̄ and r⊥ the part of r across β̄.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.special import expit

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.deprecated import renamed

_RTOL, _ATOL = 1e-12, 1e-13
# A trial step that leaps from a plateau lands far beyond any output; it must be finite to be rejected.
_LARGEST = 300.0
# Growth this much slower than at first is over.
_SETTLED = 1e-3


@renamed(initial_norm="init_scale")
def closed_form(
    times: Float[Any, "*times"],
    correlation: Float[Any, "dim"],
    initial_direction: Float[Any, "dim"],
    init_scale: float,
    slope: float,
) -> Float[np.ndarray, "*times dim"]:
    """Eq. 38: the linear map w(t), f(x; W(t)) = w(t)ᵀx, of a two-layer network on white input (Σ = I), square loss.

    Exact under Condition 3 from an Assumption 4 start. t = 0 gives w = ½(1+α)‖W₁(0)‖²r and t = inf gives β.

    Args:
        times: flow times t ≥ 0, of any shape; ``np.inf`` is allowed.
        correlation: β = ⟨y x⟩, shape (dim,).
        initial_direction: r of Assumption 4, normalised here.
        init_scale: the network's own ‖W₁(0)‖ (not the linear twin's).
        slope: α in [0, 1].

    Returns:
        w(t), shape (*times, dim).

    Warns:
        UserWarning: r = −β̄ exactly. This start lies on the stable manifold of the saddle at zero: the network only
            decays, to w = 0.

    Raises:
        ValueError: negative times, a norm that is not above zero, directions of zero length or of another dimension.

    >>> w = closed_form([0.0, 5.0, np.inf], [2.0, 0.0], initial_direction=[0.6, 0.8], init_scale=0.1, slope=0.0)
    >>> w[0], w[2]
    (array([0.003, 0.004]), array([2., 0.]))
    """
    t = checks.flow_times(times)
    beta, r, a, u0 = _start(correlation, initial_direction, init_scale, slope)
    s = np.linalg.norm(beta)
    # Without a correlation every direction is as good as r, and the formula holds with it.
    unit = beta / s if s > 0 else r
    # 1 ± rᵀβ̄ without cancellation, since r and β̄ are unit vectors.
    q1, q2 = 0.5 * np.sum((r - unit) ** 2), 0.5 * np.sum((r + unit) ** 2)
    if q2 < 1e-30:
        warnings.warn(
            "the initial direction is exactly −β̄: this start decays to the saddle at w = 0 and never learns. "
            "Any other direction, however near, ends at w = β.",
            UserWarning,
            stacklevel=2,
        )
        q2 = 0.0
    across = r - (r @ unit) * unit if q2 else np.zeros_like(r)
    clock = a * t[..., None]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        decay = np.exp(-s * clock)
        # (E/u₀)² by its logarithm: u₀⁻² alone may overflow.
        seed = np.exp(2 * (-s * clock - np.log(u0)))
        waited = np.where(np.isinf(clock), 0.0, q1 * q2 * clock) * decay**2
        # (1 − E²)/s, which is 2t̃ at s = 0.
        grown = -np.expm1(-2 * s * clock) / s if s > 0 else 2 * clock
        top = (q2 + q1 * decay**2) * (unit * (q2 - q1 * decay**2) + 2 * across * decay)
        w = top / (4 * (seed + waited) + (q2**2 + q1**2 * decay**2) * grown)
    # What t = ∞ leaves of 0/0 on the saddle, and the limits without rounding.
    w = np.where(np.isinf(clock), beta if q2 else np.zeros_like(beta), w)
    return np.where(clock == 0, u0**2 * r, w)


@renamed(initial_norm="init_scale")
def reduced_flow(
    times: Float[Any, "*times"],
    covariance: Float[Any, "dim dim"],
    correlation: Float[Any, "dim"],
    initial_direction: Float[Any, "dim"],
    init_scale: float,
    slope: float,
    weight_decay: float = 0.0,
) -> Float[np.ndarray, "*times dim"]:
    """Eq. 34 for any Σ, square loss: the linear map w(t) of a two-layer network, from dim + 1 variables.

    Exact under Condition 3 from an Assumption 4 start, integrated to about 1e-11. The cost depends neither on the
    width nor on the number of samples.

    Args:
        times: finite flow times t ≥ 0, of any shape and order.
        covariance: Σ = ⟨x xᵀ⟩, shape (dim, dim).
        correlation: β = ⟨y x⟩, shape (dim,).
        initial_direction: r of Assumption 4, normalised here.
        init_scale: the network's own ‖W₁(0)‖.
        slope: α in [0, 1].
        weight_decay: the network's own λ; its linear twin decays at 2λ/(α+1).

    Returns:
        w(t), shape (*times, dim).

    Raises:
        ValueError: negative or infinite times, shapes that do not match, a norm that is not above zero.

    >>> w = reduced_flow([0.0, 60.0], np.diag([1.0, 0.5]), [2.0, 1.0], [0.6, 0.8], init_scale=1e-6, slope=0.0)
    >>> bool(np.allclose(w[1], [2.0, 2.0]))
    True
    """
    matrix = checks.numeric(covariance, "covariance")
    beta, r, a, u0 = _start(correlation, initial_direction, init_scale, slope)
    if matrix.shape != (beta.size, beta.size):
        raise ValueError(f"covariance must have shape ({beta.size}, {beta.size}), got {matrix.shape}.")

    def pull(w: np.ndarray) -> np.ndarray:
        return beta - matrix @ w

    return integrated(times, pull, r, a, u0, weight_decay)


@renamed(initial_norm="init_scale")
def reduced_flow_logistic(
    times: Float[Any, "*times"],
    dataset: Dataset,
    initial_direction: Float[Any, "dim"],
    init_scale: float,
    slope: float,
    weight_decay: float = 0.0,
) -> Float[np.ndarray, "*times dim"]:
    """The logistic loss's twin of Eq. 34: the linear map w(t) of a two-layer network, from dim + 1 variables.

    Args:
        times: finite flow times t ≥ 0, of any shape and order.
        dataset: labels ±1; Condition 3 is assumed, not checked.
        initial_direction: r of Assumption 4, normalised here.
        init_scale: the network's own ‖W₁(0)‖.
        slope: α in [0, 1].
        weight_decay: the network's own λ.

    Returns:
        w(t), shape (*times, dim).

    Raises:
        ValueError: labels other than ±1, several outputs, and as ``reduced_flow``.

    >>> pair = Dataset([[1.0], [-1.0]], [1.0, -1.0])
    >>> w = reduced_flow_logistic([0.0, 50.0], pair, [1.0], init_scale=1e-3, slope=0.0)
    >>> bool(w[1, 0] > 3)
    True
    """
    losses.get("logistic").check_targets(dataset.targets)
    if dataset.outputs != 1:
        raise ValueError(f"the reduced flow is for one output, got {dataset.outputs}.")
    _, r, a, u0 = _start(dataset.correlation, initial_direction, init_scale, slope)
    signed = dataset.targets[:, None] * dataset.inputs

    def pull(w: np.ndarray) -> np.ndarray:
        return expit(-signed @ w) @ signed / len(signed)

    return integrated(times, pull, r, a, u0, weight_decay)


def integrated(
    times: Any, pull: Callable[[np.ndarray], np.ndarray], r: np.ndarray, a: float, u0: float, weight_decay: float = 0.0
) -> np.ndarray:
    """w at each time, from (ln u, r) in the linear network's time.

    Growth is integrated by an explicit method: an implicit one may leap over it from the plateau to the rest. Once u
    has settled, one that turns implicit where the decay to rest is stiff makes long waits cheap.
    """
    t = finite_times(times)
    decay = checks.non_negative(weight_decay, "weight_decay") / a
    velocity, settled = _reduced(pull, r, decay)
    wanted, where = np.unique(a * t, return_inverse=True)
    states = np.empty((wanted.size, r.size + 1))
    now, state, done = 0.0, np.concatenate([[np.log(u0)], r]), 0
    for method, events in (("DOP853", settled), ("LSODA", None)):
        if done == wanted.size:
            break
        # At least to a later time, for the solver needs some way to go.
        span = (now, max(wanted[-1], now + 1e-300))
        solution = solve_ivp(velocity, span, state, method, wanted[done:], rtol=_RTOL, atol=_ATOL, events=events)
        if not solution.success:
            raise ArithmeticError(f"the reduced flow could not be integrated: {solution.message}")
        reached = len(solution.t)
        states[done : done + reached] = np.reshape(solution.y, (state.size, reached)).T
        done += reached
        if solution.t_events and solution.t_events[0].size:
            now, state = float(solution.t_events[0][0]), solution.y_events[0][0]
    directions = states[:, 1:] / np.linalg.norm(states[:, 1:], axis=1, keepdims=True)
    w = np.exp(2 * states[:, :1]) * directions
    return w[where.ravel()].reshape(*t.shape, r.size)


def finite_times(times: Any) -> np.ndarray:
    """Times to which a reduced flow can be integrated, or ValueError."""
    t = checks.flow_times(times)
    if np.isinf(t).any():
        raise ValueError(
            "the reduced flow is integrated to finite times only. "
            "Its limits are known: see least_squares, max_margin and regularised_limit."
        )
    return t


def course(
    pull: Callable[[np.ndarray], np.ndarray], r: np.ndarray, u0: float, end: float
) -> Callable[[np.ndarray], np.ndarray]:
    """w as a function of times in [0, end] of any shape: as ``integrated``, for whoever asks more than once."""
    velocity, settled = _reduced(pull, r, 0.0)
    begins, pieces, state = [0.0], [], np.concatenate([[np.log(u0)], r])
    for method, events in (("DOP853", settled), ("LSODA", None)):
        span = (begins[-1], max(end, begins[-1] + 1e-300))
        solution = solve_ivp(velocity, span, state, method, dense_output=True, rtol=_RTOL, atol=_ATOL, events=events)
        if not solution.success:
            raise ArithmeticError(f"the reduced flow could not be integrated: {solution.message}")
        pieces.append(solution.sol)
        if not (solution.t_events and solution.t_events[0].size):
            break
        state = solution.y_events[0][0]
        begins.append(float(solution.t_events[0][0]))

    def at(times: np.ndarray) -> np.ndarray:
        flat = np.ravel(times)
        states = np.empty((flat.size, r.size + 1))
        belongs = np.searchsorted(begins[1:], flat, side="right")
        for number, piece in enumerate(pieces):
            if (here := belongs == number).any():
                states[here] = piece(flat[here]).T
        directions = states[:, 1:] / np.linalg.norm(states[:, 1:], axis=1, keepdims=True)
        return (np.exp(2 * states[:, :1]) * directions).reshape(*np.shape(times), r.size)

    return at


def _reduced(
    pull: Callable[[np.ndarray], np.ndarray], r: np.ndarray, decay: float
) -> tuple[Callable[[float, np.ndarray], np.ndarray], Callable[[float, np.ndarray], float]]:
    """The velocity of (ln u, r) in the linear network's time, and the event that u has settled."""

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        direction = state[1:] / math.sqrt(state[1:] @ state[1:])
        # exp of a logarithm that decay may take below the smallest number: 0 is right then.
        e = pull(math.exp(min(2 * state[0], _LARGEST)) * direction)
        along, moves = direction @ e, np.empty_like(state)
        moves[0], moves[1:] = along - decay, e - along * direction
        return moves

    def settled(time: float, state: np.ndarray) -> float:
        return float(velocity(time, state)[0]) - threshold

    settled.terminal, settled.direction = True, -1.0  # type: ignore[attr-defined]
    threshold = _SETTLED * float(np.linalg.norm(pull(np.zeros_like(r))))
    return velocity, settled


def _start(
    correlation: Any, initial_direction: Any, init_scale: float, slope: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """β, the unit direction r, a = (1+α)/2 and the linear twin's initial norm √a‖W₁(0)‖."""
    beta = checks.finite(checks.numeric(correlation, "correlation"), "correlation")
    direction = checks.finite(checks.numeric(initial_direction, "initial_direction"), "initial_direction")
    if beta.ndim != 1 or direction.shape != beta.shape:
        raise ValueError(
            "correlation and initial_direction must be vectors of one dimension, "
            f"got shapes {beta.shape} and {direction.shape}."
        )
    size = np.abs(direction).max(initial=0.0)
    if not size:
        raise ValueError("initial_direction must not be zero.")
    direction = direction / size
    a = 0.5 * (1 + checks.slope(slope))
    return beta, direction / np.linalg.norm(direction), a, np.sqrt(a) * checks.positive(init_scale, "init_scale")
