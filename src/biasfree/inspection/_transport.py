"""A bound on Σ c_l|v_lᵀx| over the unit sphere where terms of both signs nearly cancel: the even part of two layers.

Move the positive terms onto the negative ones: with f_lm ≥ 0 what of c_l goes to m, and u_l what is left,

    Σ c_l|v_lᵀx| ≤ Σ f_lm (|v_lᵀx| − |v_mᵀx|) + Σ u_l|v_lᵀx| ≤ Σ f_lm |(v_l ∓ v_m)ᵀx| + Σ u_l|v_lᵀx|

whenever no negative term receives more than it has. The cheapest plan, of cost ‖v_l ∓ v_m‖ and 1 for what stays, is a
linear program (optimal transport). What is then left has one sign: Σ w|aᵀx| ≤ √(Σ w‖a‖ · λ_max(Σ w aaᵀ/‖a‖)).
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog
from scipy.sparse import coo_array

# Partners tried for each positive term; fewer plans only make the bound larger. Terms beyond which it is not tried.
_PARTNERS, _MOST_TERMS = 30, 3_000


def transport_bound(directions: Float[np.ndarray, "lines dim"], coefficients: Float[np.ndarray, "lines"]) -> float:
    """A bound on the largest |Σ c_l|v_lᵀx|| where ‖x‖ = 1.

    Args:
        directions: unit vectors v_l.
        coefficients: c_l.

    >>> bool(abs(transport_bound(np.eye(2), np.array([2.0, -2.0])) - 2) < 1e-9)
    True
    """
    if not np.any(coefficients) or len(coefficients) > _MOST_TERMS:
        return float(np.abs(coefficients).sum())
    return max(_one_side(directions, coefficients), _one_side(directions, -coefficients))


def one_sign_bound(directions: np.ndarray, weights: np.ndarray) -> float:
    """A bound on Σ w|vᵀx|, w ≥ 0, ‖x‖ = 1, ‖v‖ = 1."""
    kept = weights > 0
    if not kept.any():
        return 0.0
    scaled = np.sqrt(weights[kept])[:, None] * directions[kept]
    return float(min(weights.sum(), np.sqrt(weights.sum()) * np.linalg.norm(scaled, 2)))


def _one_side(directions: np.ndarray, coefficients: np.ndarray) -> float:
    """A bound on the largest Σ c_l|v_lᵀx|."""
    above, below = np.flatnonzero(coefficients > 0), np.flatnonzero(coefficients < 0)
    if not len(above):
        return 0.0
    plain = one_sign_bound(directions, np.maximum(coefficients, 0))
    if not len(below):
        return plain
    mass, room = coefficients[above], -coefficients[below]
    first, second, apart = _pairs(directions[above], directions[below])
    flow, staying = _plan(mass, room, first, second, np.linalg.norm(apart, axis=1))
    # The solver keeps its constraints to a tolerance: what violates them counts in full.
    moved = np.bincount(first, flow, len(above)) + staying
    received = np.bincount(second, flow, len(below))
    violation = float(np.maximum(mass - moved, 0).sum() + np.maximum(received - room, 0).sum())
    rows = np.concatenate([apart, directions[above]])
    sizes = np.linalg.norm(rows, axis=1)
    weights = np.concatenate([flow, staying]) * sizes
    units = rows / np.where(sizes > 0, sizes, 1.0)[:, None]
    return min(plain, one_sign_bound(units, weights) + violation)


def _pairs(above: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Near pairs of lines, and v_l ∓ v_m for each, the shorter of the two."""
    cosine = above @ below.T
    count = min(_PARTNERS, len(below))
    near = np.argpartition(-np.abs(cosine), count - 1, axis=1)[:, :count]
    first, second = np.repeat(np.arange(len(above)), count), near.reshape(-1)
    sign = np.where(cosine[first, second] >= 0, 1.0, -1.0)
    return first, second, above[first] - sign[:, None] * below[second]


def _plan(
    mass: np.ndarray, room: np.ndarray, first: np.ndarray, second: np.ndarray, cost: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest transport: what goes along each pair, and what stays of each positive term."""
    pairs, total = len(first), len(mass)
    unit = float(mass.sum())
    rows = np.concatenate([first, np.arange(total)])
    leaving = coo_array((np.ones(pairs + total), (rows, np.arange(pairs + total)))).tocsr()
    arriving = coo_array((np.ones(pairs), (second, np.arange(pairs))), shape=(len(room), pairs + total)).tocsr()
    solution = linprog(
        np.concatenate([cost, np.ones(total)]), A_eq=leaving, b_eq=mass / unit, A_ub=arriving, b_ub=room / unit,
        method="highs",
    )  # fmt: skip
    if solution.x is None:
        return np.zeros(pairs), mass
    amounts = unit * np.maximum(solution.x, 0.0)
    return amounts[:pairs], amounts[pairs:]
