"""Coming to rest: the end of a flow in closed form, once it is linear and stable. A saddle's plateau is neither.

Near rest Ẇ = v − H ΔW with H the Hessian, so that ΔW(T) = ∫₀ᵀ e^{−Hs} v ds. Lanczos, started at v, gives H on the few
directions v lives in, H ≈ Q diag(θ) Qᵀ, and with it ΔW(T) = Q diag((1 − e^{−θT})/θ) Qᵀv. This is accepted only if

- the predicted move is so small that its square, the error of the linearisation, is below rtol,
- the true velocity where it ends confirms it: what is left to go, by that velocity, is of the order of rtol,
- nothing grows there: no rate is below −0.1/T, neither among those that the velocity left at the end sees (a deep
  network's sleeping path has a rate of the order of minus its small weights, and sleeps for the inverse of that) nor
  among those that a random direction sees (a saddle that the velocity happens to miss).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._field import Kind, Problem, Weights, velocity
from biasfree.dynamics._float64 import SMALLEST
from biasfree.dynamics._hessian import Hessian
from biasfree.dynamics._lanczos import lanczos
from biasfree.dynamics._vector_field import Layers

_LARGEST_LEFT = 0.1  # of the velocity, what may be left where the prediction ends; chosen
_LEFT_TO_GO = 10.0  # rtol's that what is left to go may be, by the velocity at the prediction's end; chosen
_GROWTH = 0.1  # −rate · horizon that still counts as none; chosen: e^0.1 is hardly growth
_HOPELESS = 3.0  # the same where the residual still bends the flat directions a little
_BENT = 0.003  # the part of rtol that the square of the predicted relative move, the linearisation's error, may be
_MOST_GROWTH = 50.0  # −rate · time; a bound against overflow: growth far below this is refused (_GROWTH, _HOPELESS)
_STILL = 1e-3  # of rtol: a move that needs no prediction


class Rest(NamedTuple):
    """A flow's approach to rest from ``start``."""

    start: Float[np.ndarray, "size"]
    modes: Float[np.ndarray, "size directions"]
    rates: Float[np.ndarray, "directions"]
    velocity: Float[np.ndarray, "directions"]
    layers: Layers

    def move(self, duration: float) -> Float[np.ndarray, "size"]:
        """ΔW after ``duration``."""
        return self.modes @ (self.velocity * _integral(self.rates, duration))

    def energy(self, duration: float) -> float:
        """∫‖Ẇ‖² over ``duration``."""
        return float(np.sum(self.velocity**2 * _integral(2 * self.rates, duration)))

    def weights(self, duration: float) -> Weights:
        """The weights after ``duration``."""
        return self.layers.of(self.start + self.move(duration))


def _integral(rates: np.ndarray, duration: float) -> np.ndarray:
    """∫₀ᵀ e^{−θs} ds = (1 − e^{−θT})/θ."""
    exponent = np.clip(rates * duration, -_MOST_GROWTH, None)
    none = exponent == 0
    safe = np.where(none, 1.0, exponent)
    return duration * np.where(none, 1.0, -np.expm1(-safe) / safe)


def find_rest(weights: Weights, horizon: float, rtol: float, problem: Problem, kind: Kind) -> tuple[Rest | None, int]:
    """The rest of the flow over ``horizon`` if it is linear and stable, else None; and the products H v it took."""
    layers = Layers(weights)
    start, now = _flat(weights), _flat(velocity(weights, problem, kind))
    size, speed = float(np.linalg.norm(start)), float(np.linalg.norm(now))
    if not np.isfinite(speed) or size == 0:
        return None, 0
    cost = 0
    if speed * horizon <= _STILL * rtol * size:
        rest, moved = Rest(start, np.zeros((start.size, 0)), np.zeros(0), np.zeros(0), layers), 0.0
    else:
        here = Hessian(layers.of(start), problem, kind)
        seen = lanczos(now, lambda v: here.times(layers.of(v)), -_HOPELESS / horizon)
        cost += seen.products
        rest = Rest(start, seen.modes, seen.rates, seen.modes.T @ now, layers)
        moved = float(np.linalg.norm(rest.move(horizon)))
        if not seen.stable or moved > np.sqrt(_BENT * rtol) * size:
            return None, cost
    end = rest.weights(horizon)
    then = _flat(velocity(end, problem, kind))
    left = float(np.linalg.norm(then)) / max(speed, SMALLEST)
    if moved and not (left <= _LARGEST_LEFT and left * moved <= _LEFT_TO_GO * rtol * size):
        return None, cost
    there = Hessian(end, problem, kind)
    for direction in (then, np.random.default_rng(0).normal(size=start.size)):
        if direction.any():
            growing = lanczos(direction, lambda v: there.times(layers.of(v)), -_GROWTH / horizon)
            cost += growing.products
            if not growing.stable:
                return None, cost
    return rest, cost


def _flat(weights: Weights) -> np.ndarray:
    return np.concatenate([np.asarray(layer).ravel() for layer in weights])
