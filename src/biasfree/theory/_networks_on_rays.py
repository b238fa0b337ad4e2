"""Networks with prescribed values on finitely many lines: the constructions behind the least possible loss.

**Even parts are free.** Let v be orthogonal to the direction d of a line, and ε ≤ |vᵀd'|/|dᵀd'| for every other line
d'. Then

    h(x) = |(v + εd)ᵀx| + |(v − εd)ᵀx| − 2|vᵀx| = 2 max(ε|dᵀx| − |vᵀx|, 0)

is 2ε|t| at x = td and vanishes on every other line. So Σ_l (g_l/2ε_l) h_l takes the value |t|g_l on line l for any
g, and three neurons per line suffice.

**Rays are free for three layers.** With the same h, σ(h(x) − 2ε σ(−dᵀx)·s) with s ≥ 1 is 2εt on the ray td, t > 0,
and vanishes on the opposite ray and on every other line.
"""

import numpy as np
from jaxtyping import Float

from biasfree.lines import Lines
from biasfree.networks import Network
from biasfree.theory._expressivity import ParityForm

_TRIES = 16


def two_layers(
    grouped: Lines,
    linear_map: Float[np.ndarray, "outputs dim"],
    even: Float[np.ndarray, "lines outputs"],
    slope: float,
) -> Network:
    """A two-layer network with f(td_l) = t·Md_l + |t|·g_l on every line."""
    needed = np.flatnonzero(np.abs(even).max(axis=1, initial=0.0) > 1e-13 * np.abs(even).max(initial=0.0))
    outputs, dim = linear_map.shape
    directions, coefficients = [np.zeros((0, dim))], [np.zeros((0, outputs))]
    for line in needed.tolist():
        vectors, weights = _bump(grouped.directions, line)
        size = np.linalg.norm(vectors, axis=1)
        directions.append(vectors / size[:, None])
        coefficients.append((weights * size)[:, None] * even[line])
    form = ParityForm(linear_map, np.concatenate(directions), np.concatenate(coefficients).T, 0)
    return form.network(slope)


def deep(
    grouped: Lines,
    up: Float[np.ndarray, "lines outputs"],
    down: Float[np.ndarray, "lines outputs"],
    slope: float,
) -> Network:
    """A three-layer ReLU-like network with f(td_l) = t·p_l for t > 0 and |t|·q_l for t < 0.

    Leaky slopes are made of the same blocks: σ(z) + … combinations give max(z, 0) = (σ(z) + ασ(−z))/(1 − α²).

    Raises:
        ValueError: slope 1.
    """
    lines, dim, outputs = len(grouped), grouped.directions.shape[1], up.shape[1]
    first, second, third = [], [], []
    # max(z, 0) as a combination of the two leaky neurons on z and −z; exact for every slope below 1.
    relu = np.array([1.0, slope]) / (1 - slope**2)
    for line in range(lines):
        vectors, weights = _bump(grouped.directions, line)
        d = grouped.directions[line]
        # |vᵀx| = max(vᵀx, 0) + max(−vᵀx, 0) for the bump, and max(±dᵀx, 0) to cut one side off.
        first.append(np.concatenate([vectors, -vectors, [d], [-d]]))
        count = len(weights)
        for side, values in ((1, up[line]), (0, down[line])):
            row = np.zeros(2 * count + 2)
            row[:count] = row[count : 2 * count] = weights
            row[2 * count + side] = -2.0
            second.append((line, row))
            third.append(values)
    return _assembled(first, second, np.array(third).reshape(-1, outputs), dim, relu, slope)


def _assembled(
    first: list[np.ndarray],
    second: list[tuple[int, np.ndarray]],
    third: np.ndarray,
    dim: int,
    relu: np.ndarray,
    slope: float,
) -> Network:
    """Put the blocks of ``deep`` together, each max(z, 0) written out as leaky neurons on z and −z."""
    if not first:
        return Network([np.zeros((1, dim)), np.zeros((1, 1)), np.zeros((third.shape[1], 1))], slope)
    rows = np.concatenate(first)
    offsets = np.concatenate([[0], np.cumsum([len(block) for block in first])])
    middle = np.zeros((len(second), len(rows)))
    for i, (line, row) in enumerate(second):
        middle[i, offsets[line] : offsets[line] + len(row)] = row
    if slope == 0:
        return Network([rows, middle, third.T], slope)
    w1 = np.concatenate([rows, -rows])
    w2 = np.concatenate([middle * relu[0], middle * relu[1]], axis=1)
    w3 = np.concatenate([third.T * relu[0], third.T * relu[1]], axis=1)
    return Network([w1, np.concatenate([w2, -w2]), w3], slope)


def _bump(
    directions: Float[np.ndarray, "lines dim"], line: int
) -> tuple[Float[np.ndarray, "terms dim"], Float[np.ndarray, "terms"]]:
    """Vectors v and weights c with Σ c|vᵀx| = |t| on line ``line`` and 0 on every other."""
    d = directions[line]
    others = np.delete(directions, line, axis=0)
    if not len(others):
        return d[None], np.ones(1)
    # Orthogonal to d, and as far as a few draws find from being orthogonal to another line: the larger ε, the less
    # rounding.
    draws = np.random.default_rng([line, _TRIES]).normal(size=(_TRIES, len(d)))
    for _ in range(2):  # twice, for a draw that happens to lie along d
        draws -= np.outer(draws @ d, d)
        draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    along = np.maximum(np.abs(others @ d), 1e-300)
    ratios = np.array([(np.abs(others @ v) / along).min() for v in draws])
    v, epsilon = draws[ratios.argmax()], 0.9 * min(ratios.max(), 1.0)
    return np.array([v + epsilon * d, v - epsilon * d, v]), np.array([1.0, 1.0, -2.0]) / (2 * epsilon)
