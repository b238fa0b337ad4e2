"""A certified bound on ‖f(x) − Mx‖/‖x‖ for all x, for networks without biases.

Every step is an inequality: a network is first made smaller, with a bound on what that changes (`_merging`), then the
input is restricted to the directions that W₁ sees. What is left is bounded

- exactly, when one or two directions are left: f is linear between its kinks on the circle, so extremes are found;
- for two layers by the even part Σ c_l|v_lᵀx| (Theorem 1), without merging: by optimal transport (`_transport`);
- for deeper ones by linear relaxation (`_relaxation`).

Several tolerances of merging are tried and the smallest sum of the parts is kept.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.inspection import _merging, _relaxation
from biasfree.inspection._transport import transport_bound
from biasfree.models._layers import Layers
from biasfree.theory import ParityForm, parity_form

_TOLERANCES = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2)
_GRID = 4096
_MOST_POINTS = 200_000
_MOST_RELAXED = 2_000
_MOST_MERGED = 1_000
_MOST_ENTRIES = 50_000_000
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Certificate:
    """A bound that holds for all inputs.

    Attributes:
        bound: on ‖f(x) − Mx‖/‖x‖.
        method: how it was found, in words.
    """

    bound: float
    method: str


def certificate(model: Layers, linear_map: Float[np.ndarray, "out dim"]) -> Certificate:
    """The smallest bound we can prove on ‖f(x) − Mx‖/‖x‖.

    Args:
        model: without biases.
        linear_map: M, shape (outputs, dim).
    """
    best = Certificate(np.inf, "")
    for small in _smaller(model):
        for candidate in _bounds(small.layers, linear_map):
            total = candidate.bound + small.error + _ROUNDING * model.scale
            if total < best.bound:
                merging = f", after merging to {'-'.join(map(str, small.layers.widths))}"
                best = Certificate(float(total), candidate.method + merging * (small.layers.widths != model.widths))
    return best


def _smaller(model: Layers) -> list[_merging.Merged]:
    """The network merged exactly, and with every tolerance that makes a difference."""
    exact = _merging.merged_for_function(model)
    # Grouping is quadratic in the width.
    if max(model.widths) > _MOST_MERGED:
        return [exact]
    coarsest = _merging.merged_for_function(model, _TOLERANCES[-1])
    if coarsest.layers.widths == exact.layers.widths:
        return [exact]
    between = [_merging.merged_for_function(model, tolerance) for tolerance in _TOLERANCES[:-1]]
    return list({(each.layers.widths, each.error): each for each in (exact, *between, coarsest)}.values())


def _bounds(model: Layers, linear_map: np.ndarray) -> list[Certificate]:
    if model.depth == 1:
        return [Certificate(_norm(model.weights[0] - linear_map), "no activation is left")]
    bounds = [Certificate(_product(model) + _norm(linear_map), "norms of the layers")]
    if model.depth == 2:
        form = parity_form(model.as_network())
        gap = _norm(form.linear_map - linear_map)
        bounds.append(Certificate(gap + even_bound(form), "the even part of Theorem 1, by optimal transport"))
    narrow = _in_few_directions(model, linear_map)
    if narrow is not None:
        bounds.append(narrow)
    elif model.depth > 2 and max(model.widths) <= _MOST_RELAXED:
        bound = float(np.linalg.norm(_relaxation.deviation_bound(model, linear_map)))
        bounds.append(Certificate(bound, "linear relaxation on the unit ball"))
    return bounds


def even_bound(form: ParityForm) -> float:
    """A bound on ‖Σ c_l |v_lᵀx|‖ for ‖x‖ = 1.

    >>> from biasfree import Network
    >>> round(even_bound(parity_form(Network([[[1.0, 0.0], [0.0, 1.0]], [[2.0, -2.0]]], slope=0.0))), 9)
    1.0
    """
    if form.is_linear:
        return 0.0

    single = [transport_bound(form.directions, row) for row in form.coefficients]
    sizes = np.linalg.norm(form.coefficients, axis=0)
    together = np.linalg.norm(form.coefficients / np.sqrt(sizes), 2) * np.linalg.norm(
        np.sqrt(sizes)[:, None] * form.directions, 2
    )
    return float(min(np.linalg.norm(single), together, sizes.sum()))


def _in_few_directions(model: Layers, linear_map: np.ndarray) -> Certificate | None:
    """The supremum on the one or two directions that matter, with what the others may add; None if there are more."""
    _, sizes, directions = np.linalg.svd(model.weights[0], full_matrices=True)
    rest = np.concatenate([sizes, [0.0, 0.0, 0.0]])
    count = next((k for k in (1, 2) if rest[k] <= 1e-3 * rest[0]), min(len(directions), 3))
    if count > 2:
        return None
    kept = directions[:count].T
    tail = np.prod([_norm(w) for w in model.weights[1:]]) * rest[count] + _norm(linear_map - linear_map @ kept @ kept.T)
    narrow = model.replaced([model.weights[0] @ kept, *model.weights[1:]], model.biases, model.slopes)
    largest = supremum(narrow, linear_map @ kept)
    if largest is None:
        return None
    name = "exact, on the one direction it sees" if count == 1 else "exact, kink by kink, in the plane it sees"
    return Certificate(largest[0] + float(tail), name)


def supremum(model: Layers, linear_map: Float[np.ndarray, "out dim"]) -> tuple[float, Float[np.ndarray, "dim"]] | None:
    """The largest ‖f(x) − Mx‖ on the unit circle (or on ±1) from above, and where; None when kinks are too many.

    All kinks are found layer by layer: between two neighbouring points of the set so far every h is linear in x, so it
    changes sign at most once. Between kinks ‖f(x) − Mx‖ is convex, hence at most its larger end over the cosine of half
    the angle, which a grid among the kinks keeps to 1 + 3·10⁻⁷.
    """
    if model.widths[0] == 1:
        points = np.array([[1.0], [-1.0]])
        sizes = np.linalg.norm(model(points) - points @ linear_map.T, axis=1)
        return float(sizes.max()), points[np.argmax(sizes)]
    angles = np.linspace(-np.pi, np.pi, _GRID, endpoint=False)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    for layer in range(model.depth - 1):
        if len(points) * sum(model.widths) > _MOST_ENTRIES:
            return None
        if model.slopes[layer] == 1:
            continue
        h = model.preactivations(points)[layer]
        after = np.roll(h, -1, axis=0)
        at, neuron = np.nonzero(h * after < 0)
        if len(points) + len(at) > _MOST_POINTS:
            return None
        share = h[at, neuron] / (h[at, neuron] - after[at, neuron])
        fresh = (1 - share)[:, None] * points[at] + share[:, None] * np.roll(points, -1, axis=0)[at]
        points = np.concatenate([points, fresh / np.linalg.norm(fresh, axis=1, keepdims=True)])
        points = points[np.argsort(np.arctan2(points[:, 1], points[:, 0]), kind="stable")]
    sizes = np.linalg.norm(model(points) - points @ linear_map.T, axis=1)
    return float(sizes.max() / np.cos(np.pi / _GRID)), points[np.argmax(sizes)]


def _product(model: Layers) -> float:
    return float(np.prod([_norm(w) for w in model.weights]))


def _norm(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, 2))
