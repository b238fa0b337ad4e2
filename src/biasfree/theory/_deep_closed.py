"""Closed form of an aligned deep network whose direction is at rest: u(t), its inverse t(u), and when the loss drops.

Where β is an eigenvector of Σ, as on white data, and r = β̄, the direction does not turn and one number is left. With
x = u for a linear network, x = u/√2 and half the pace (c = ½) for ReLU, strength s = ‖β‖ and curvature λ = β̄ᵀΣβ̄,

    ẋ = c x^{L−1} (s − λx^L),     f = x^L β̄ᵀx.

In z = x/x*, x* = (s/λ)^{1/L}, time is the integral of 1/(z^{L−1}(1−z^L)) = z^{1−L} + z/(1−z^L), by partial fractions

    cλx*^{2L−2} t = G(z) − G(z₀),     G(z) = z^{2−L}/(2−L) − (1/L) Σ_k ω_k² ln(1 − z/ω_k),

ω_k the L-th roots of unity; for L = 2 the first term is ln z, and u² is a logistic curve. From small weights the first
term is nearly all of the time: ln(1/u₀) at depth 2, u₀^{−(L−2)}/(L−2) beyond, in units of 1/(cs).
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.deprecated import renamed


@renamed(initial_norm="init_scale")
def aligned_norm(
    times: Float[Any, "*times"],
    depth: int,
    init_scale: float,
    strength: float,
    curvature: float = 1.0,
    rectified: bool = True,
) -> Float[np.ndarray, "*times"]:
    """u(t), the norm of each layer of a network of Eq. 39 or 40 with r = β̄ an eigenvector of Σ; square loss.

    Args:
        times: flow times t ≥ 0, of any shape; ``np.inf`` gives the limit.
        depth: L, at least 2.
        init_scale: u(0), below or above its limit.
        strength: s = ‖β‖.
        curvature: λ of Σβ̄ = λβ̄; 1 for white data.
        rectified: ReLU by Eq. 40, or linear by Eq. 39.

    Raises:
        ValueError: negative times, other arguments that are not above zero, a depth below 2.

    >>> aligned_norm([0.0, np.inf], depth=3, init_scale=0.1, strength=8.0)
    array([0.1       , 2.82842712])
    """
    chain = _Scalar.of(depth, init_scale, strength, curvature, rectified)
    t = checks.flow_times(times)
    if chain.start == 1:
        return np.full(t.shape, chain.unit)
    return chain.unit * np.where(t == 0, chain.start, chain.after(np.where(t == 0, 0.0, chain.rate * t)))


@renamed(initial_norm="init_scale")
def aligned_time(
    norms: Float[Any, "*norms"],
    depth: int,
    init_scale: float,
    strength: float,
    curvature: float = 1.0,
    rectified: bool = True,
) -> Float[np.ndarray, "*norms"]:
    """t(u), the inverse of ``aligned_norm``: when each layer has reached the norm u.

    Args:
        norms: values of u between the initial norm and the limit, of any shape; the limit itself takes for ever.
        depth, init_scale, strength, curvature, rectified: as for ``aligned_norm``.

    Raises:
        ValueError: norms that the flow does not pass, other arguments as for ``aligned_norm``.

    >>> half_way = aligned_time(1.0, depth=2, init_scale=1e-6, strength=1.0)
    >>> bool(np.isclose(aligned_norm(half_way, depth=2, init_scale=1e-6, strength=1.0), 1.0))
    True
    """
    chain = _Scalar.of(depth, init_scale, strength, curvature, rectified)
    z = checks.numeric(norms, "norms") / chain.unit
    between = (z >= chain.start) & (z <= 1) if chain.start <= 1 else (z <= chain.start) & (z >= 1)
    if not between.all():
        raise ValueError(
            f"norms must lie between the initial norm, {chain.start * chain.unit:.6g}, and its limit, "
            f"{chain.unit:.6g}, got {(z[~between] * chain.unit).flat[0]:.6g}."
        )
    return chain.elapsed(z) / chain.rate


@renamed(initial_norm="init_scale")
def drop_time(
    depth: int,
    init_scale: float,
    strength: float,
    curvature: float = 1.0,
    rectified: bool = True,
    fraction: float = 0.5,
    leading_order: bool = False,
) -> float:
    """When the loss of an aligned deep network has fallen by ``fraction`` of the way, from depth, scale and data alone.

    Exact where r = β̄ is an eigenvector of Σ. No ReLU network whose layers have norm γ drops earlier, to leading order,
    than u₀ = √2 γ gives: for a linear target on white data ⟨y f⟩ ≤ (s/2) Π‖W_l‖, which a single path attains.

    Args:
        depth: L, at least 2.
        init_scale: u(0).
        strength: s = ‖β‖.
        curvature: λ of Σβ̄ = λβ̄; 1 for white data.
        rectified: ReLU by Eq. 40 (rate s 2^{−L/2} for u), or linear by Eq. 39 (rate s).
        fraction: of the way from the initial to the final loss, between 0 and 1.
        leading_order: ln(u*/u₀)/rate at depth 2, u₀^{−(L−2)}/((L−2) rate) beyond: what is left of it as u₀ → 0.

    Raises:
        ValueError: arguments out of range.

    >>> exact, leading = (drop_time(3, 1e-3, 1.0, leading_order=order) for order in (False, True))
    >>> round(leading, 6), bool(abs(exact / leading - 1) < 0.002)
    (2828.427125, True)
    """
    chain = _Scalar.of(depth, init_scale, strength, curvature, rectified)
    part = checks.positive(fraction, "fraction")
    if part >= 1:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction!r}. The last of the loss is never gone.")
    if leading_order:
        waits = -np.log(chain.start) if chain.depth == 2 else chain.start ** (2 - chain.depth) / (chain.depth - 2)
        return float(waits / chain.rate)
    # The excess loss is proportional to (1 − z^L)².
    reached = (1 - (1 - chain.start**chain.depth) * np.sqrt(1 - part)) ** (1 / chain.depth)
    return float(chain.elapsed(np.asarray(reached)) / chain.rate)


class _Scalar(NamedTuple):
    """z' = z^{L−1}(1 − z^L) in units of ``rate``, from z = ``start``; u = ``unit`` · z.

    Inverted in y = ln(z/|1−z|), which resolves z from its limit 1 at any distance, and in which G is concave from below
    and convex from above: dG/dy = z^{2−L}/(1 + z + ⋯ + z^{L−1}), which is 1/L at the limit.
    """

    depth: int
    start: float
    rate: float
    unit: float

    @classmethod
    def of(cls, depth: int, init_scale: float, strength: float, curvature: float, rectified: bool) -> "_Scalar":
        layers = checks.count(depth, "depth", least=2)
        norm = checks.positive(init_scale, "init_scale")
        s, bend = checks.positive(strength, "strength"), checks.positive(curvature, "curvature")
        limit = (s / bend) ** (1 / layers)
        unit = limit * np.sqrt(2) if rectified else limit
        return cls(layers, norm / unit, (0.5 if rectified else 1.0) * bend * limit ** (2 * layers - 2), unit)

    def elapsed(self, z: np.ndarray) -> np.ndarray:
        """G(z) − G(start)."""
        with np.errstate(divide="ignore"):
            y = np.log(z) - np.log(np.abs(1 - z))
        # Where z is the limit the time is infinite; at a start that is the limit, nothing happens.
        return np.where(z == self.start, 0.0, self._clock(z, y) - self._clock(*self._begin))

    def after(self, clock: np.ndarray) -> np.ndarray:
        """z at each value of the clock: Newton's method inside a bracket that shrinks."""
        z0, y0 = self._begin
        finite = np.isfinite(clock)
        clock = np.where(finite, clock, 0.0)
        goal = self._clock(z0, y0) + clock
        near, far = y0 + self.depth * clock, y0 + clock / self._slope(z0)
        low, high = np.minimum(near, far), np.maximum(near, far)
        y = low
        for _ in range(4000):
            z = self._position(y)
            missing = goal - self._clock(z, y)
            low, high = np.where(missing > 0, y, low), np.where(missing > 0, high, y)
            newton = y + missing / self._slope(z)
            following = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
            moved = np.abs(following - y) > 4e-16 * np.maximum(1.0, np.abs(y))
            y = following
            if not moved.any():
                break
        return np.where(finite, self._position(y), 1.0)

    @property
    def _begin(self) -> tuple[np.ndarray, np.ndarray]:
        z = np.asarray(self.start)
        return z, np.log(z) - np.log(np.abs(1 - z))

    def _position(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return 1 / (1 + np.sign(1 - self.start) * np.exp(-y))

    def _slope(self, z: np.ndarray) -> np.ndarray:
        return z ** (2 - self.depth) / np.polyval(np.ones(self.depth), z)

    def _clock(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """G, with ln|1 − z| = ln z − y."""
        depth = self.depth
        roots = np.exp(2j * np.pi * np.arange(1, depth) / depth)
        turns = np.sum(roots**2 * np.log(1 - z[..., None] / roots), axis=-1).real
        waits = np.log(z) if depth == 2 else z ** (2.0 - depth) / (2 - depth)
        return waits - (np.log(z) - y + turns) / depth
