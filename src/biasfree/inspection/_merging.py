"""Fewer neurons, the same function: one neuron for those on one ray, none for those that do nothing.

Between two neighbouring layers z ↦ Bσ(Az) = aBAz + b Σ_h B_h|A_hᵀz| (Theorem 1, for vector outputs). Neurons whose rows
A_h lie on one line share a kink, so a line needs

- one neuron per *ray* that carries weight: Σ B_hσ(A_hᵀz) = (Σ B_h‖A_h‖) σ(uᵀz); or
- one neuron per *line* whose kinks do not cancel, with what is then left of aBA as pairs σ(vᵀz) − σ(−vᵀz) = 2a vᵀz;

whichever is fewer. Rows that are parallel only nearly are merged too when a tolerance allows it, with a bounded error:
a merged neuron differs from its members where signs disagree, in a wedge in which |A_hᵀz| ≤ ‖A_h‖‖z‖ sin∠(A_h, u), and
elsewhere by what P = Σ B_hA_hᵀ lacks of rank one, nothing for a single output.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.models._layers import Layers
from biasfree.networks import Network
from biasfree.theory import ParityForm, parity_form

# What rounding leaves of directions that are the same; any tolerance above it is the caller's choice.
EXACT = 1e-13
_MOST_SWEEPS = 10


@dataclass(frozen=True, eq=False)
class Merged:
    """A smaller model.

    Attributes:
        layers: the smaller one.
        error: a bound on ‖f(x) − f_small(x)‖/‖x‖ for all x, in exact arithmetic; for a model with biases on
            ‖f(x) − f_small(x)‖/‖(x, 1)‖.
    """

    layers: Layers
    error: float


def compress(network: Network, tolerance: float = EXACT) -> Network:
    """The same function with fewer neurons, by exact merging.

    Args:
        network: any depth, without skips over several layers.
        tolerance: merge neurons that are parallel only nearly, as long as this changes the function by no more than
            about this share of the weights' scale.

    Raises:
        ValueError: a negative tolerance, or a skip over several layers.

    >>> compress(Network([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0, 0.0]]], slope=0.0))
    2-1-1 ReLU network
    """
    return merged_for_function(Layers.from_network(network), tolerance).layers.as_network()


def merged_for_function(model: Layers, tolerance: float = EXACT) -> Merged:
    """Merge, drop and multiply out until nothing more can be done.

    Args:
        model: with biases or without.
        tolerance: as in ``compress``.

    Raises:
        ValueError: a negative tolerance, or one of 1 and above.
    """
    tolerance = checks.non_negative(tolerance, "tolerance")
    if tolerance >= 1:
        raise ValueError(f"tolerance is a share of the weights' scale and below 1, got {tolerance!r}.")
    error = 0.0
    for _ in range(_MOST_SWEEPS):
        before = model.widths
        model = _multiplied_out(model)
        for layer in range(model.depth - 1):
            model = _without_useless(model, layer)
            if model.slopes[layer] < 1:
                model, change = _merged_layer(model, layer, max(tolerance, EXACT))
                error += change
        if model.widths == before:
            break
    return Merged(model, error)


# Layers


def _multiplied_out(model: Layers) -> Layers:
    """Layers that are linear multiplied into the next, one hidden layer with an activation left if there is any."""
    layer = 0
    while layer < model.depth - 1:
        first, second = model.weights[layer], model.weights[layer + 1]
        factor = _linear_factor(model, layer)
        if factor is not None and second.shape[0] * first.shape[1] <= first.size + second.size:
            bias = second @ model.bias(layer) + model.bias(layer + 1)
            weights = [*model.weights[:layer], factor * second @ first, *model.weights[layer + 2 :]]
            biases = [*model.biases[:layer], bias if bias.any() else None, *model.biases[layer + 2 :]]
            model = model.replaced(weights, biases, model.slopes[:layer] + model.slopes[layer + 1 :])
        else:
            layer += 1
    return model


def _linear_factor(model: Layers, layer: int) -> float | None:
    """The factor that stands for σ: 1 without it or where nothing negative reaches it, a where all kinks cancel in the
    next layer; None where σ does something."""
    slope = model.slopes[layer]
    if slope == 1 or _always_active(model, layer).all():
        return 1.0
    if model.depth == 2 or not model.bias_free:
        return None
    pair = Network([model.weights[layer], model.weights[layer + 1]], slope)
    return 0.5 * (1 + slope) if parity_form(pair).is_linear else None


def _always_active(model: Layers, layer: int) -> np.ndarray:
    """Neurons whose input is never negative: what follows a ReLU is not, and neither weights nor bias are."""
    if layer == 0 or model.slopes[layer - 1] != 0:
        return np.zeros(model.widths[layer + 1], dtype=bool)
    return (model.weights[layer] >= 0).all(axis=1) & (model.bias(layer) >= 0)


def _without_useless(model: Layers, layer: int) -> Layers:
    """Drop neurons that nothing leaves or whose output is the same for every input; constants go to the next bias."""
    first, second, bias, slope = model.weights[layer], model.weights[layer + 1], model.bias(layer), model.slopes[layer]
    constant = ~first.any(axis=1)
    if layer > 0 and model.slopes[layer - 1] == 0 and slope == 0:
        # What follows a ReLU is never negative: weights and bias that are never positive give 0.
        silent = (first <= 0).all(axis=1) & (bias <= 0) & ~constant
    else:
        silent = np.zeros(len(first), dtype=bool)
    value = np.where(constant, np.where(bias > 0, bias, slope * bias), 0.0)
    kept = ~constant & ~silent & second.any(axis=0)
    if kept.all():
        return model
    carried = model.bias(layer + 1) + second @ value
    if not kept.any():
        # A chain needs a neuron in each layer.
        kept[0] = True
        first, second = np.zeros_like(first), np.zeros_like(second)
        bias = np.zeros_like(bias)
    weights, biases = list(model.weights), list(model.biases)
    weights[layer], weights[layer + 1] = first[kept], second[:, kept]
    biases[layer] = bias[kept] if bias[kept].any() else None
    biases[layer + 1] = carried if carried.any() else None
    return model.replaced(weights, biases, model.slopes)


# Neurons


def _merged_layer(model: Layers, layer: int, tolerance: float) -> tuple[Layers, float]:
    bias_free = model.bias_free
    first, second, slope = model.weights[layer], model.weights[layer + 1], model.slopes[layer]
    # With biases the input is (z, 1), and parallel rows are parallel in (w, b).
    rows = first if bias_free else np.column_stack([first, model.bias(layer)])
    smallest = _by_ray(rows, second, slope, tolerance)
    if bias_free:
        other = _by_line(rows, second, slope, tolerance)
        smallest = min(smallest, other, key=lambda each: (len(each[0]), each[2]))
    new_rows, new_second, change = smallest
    if len(new_rows) >= len(rows):
        return model, 0.0
    weights, biases = list(model.weights), list(model.biases)
    weights[layer], weights[layer + 1] = new_rows[:, : first.shape[1]], new_second
    if not bias_free:
        column = new_rows[:, -1]
        biases[layer] = column if column.any() else None
    before = np.prod([_norm(model, k) for k in range(layer)])
    after = np.prod([_norm(model, k) for k in range(layer + 2, model.depth)])
    return model.replaced(weights, biases, model.slopes), float(change * before * after)


def _by_ray(
    rows: Float[np.ndarray, "neurons dim"], second: Float[np.ndarray, "out neurons"], slope: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """One neuron for each ray, and a bound on what this changes per unit of ‖z‖."""
    groups, _ = _grouped(rows, np.linalg.norm(second, axis=0), tolerance, both_sides=False)
    incoming, outgoing, error = [], [], 0.0
    for members in groups:
        if len(members) == 1:
            incoming.append(rows[members[0]])
            outgoing.append(second[:, members[0]])
            continue
        direction, column, mass, change = _one_for(rows[members], second[:, members], 0.5 * (1 - slope))
        error += change
        if np.linalg.norm(column) <= tolerance * mass:
            error += float(np.linalg.norm(column))
            continue
        # As large coming in as going out.
        size = np.sqrt(np.linalg.norm(column))
        incoming.append(size * direction)
        outgoing.append(column / size)
    if not incoming:
        return np.zeros((1, rows.shape[1])), np.zeros((len(second), 1)), error
    return np.stack(incoming), np.stack(outgoing, axis=1), error


def _by_line(
    rows: Float[np.ndarray, "neurons dim"], second: Float[np.ndarray, "out neurons"], slope: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """One neuron for each line whose kinks do not cancel, and pairs for the rest of the linear map."""
    a, b = 0.5 * (1 + slope), 0.5 * (1 - slope)
    groups, signs = _grouped(rows, np.linalg.norm(second, axis=0), tolerance, both_sides=True)
    if len(groups) == len(rows):
        return rows, second, 0.0
    directions, coefficients, error = [], [], 0.0
    for members in groups:
        turned = signs[members, None] * rows[members]
        # Only |·| is approximated here: twice the wedge, as |A_hᵀz| stands with the wrong sign there.
        direction, column, mass, change = _one_for(turned, second[:, members], b)
        error += change
        if b * np.linalg.norm(column) <= tolerance * mass:
            error += b * float(np.linalg.norm(column))
        else:
            directions.append(direction)
            coefficients.append(b * column)
    linear_map = a * second @ rows
    shape = (0, rows.shape[1])
    form = ParityForm(
        linear_map,
        np.stack(directions) if directions else np.zeros(shape),
        np.stack(coefficients, axis=1) if coefficients else np.zeros((len(second), 0)),
        len(rows),
    )
    new_rows, new_second = (np.asarray(w) for w in form.network(slope).weights)
    # What the new network's linear map lacks, rounding included.
    error += float(np.linalg.norm(a * new_second @ new_rows - linear_map, 2))
    return new_rows, new_second, error


def _one_for(
    rows: Float[np.ndarray, "members dim"], columns: Float[np.ndarray, "out members"], b: float
) -> tuple[Float[np.ndarray, "dim"], Float[np.ndarray, "out"], float, float]:
    """Unit u and c with Σ B_h A_hᵀ ≈ c uᵀ, the sum of ‖B_h‖‖A_h‖, and a bound on the error of merging per unit ‖z‖.

    Of two choices of u the one of smaller bound: the leading direction of Σ B_hA_hᵀ, and the members' mean, which also
    makes sense when the sum cancels.
    """
    masses = np.linalg.norm(rows, axis=1) * np.linalg.norm(columns, axis=0)
    total = columns @ rows
    mean = np.linalg.norm(columns, axis=0) @ rows
    candidates = [mean / np.linalg.norm(mean)]
    if total.any():
        leading = total[0] if len(total) == 1 else np.linalg.svd(total, full_matrices=False)[2][0]
        leading = leading / np.linalg.norm(leading)
        candidates.append(leading if leading @ mean >= 0 else -leading)

    def bound(u: np.ndarray) -> float:
        along = rows @ u
        apart = np.linalg.norm(rows - along[:, None] * u, axis=1)
        # Behind u a member is nowhere near the ray.
        apart = np.where(along > 0, apart, np.linalg.norm(rows, axis=1))
        rest = total - np.outer(total @ u, u)
        wedge = 2 * b * float(np.linalg.norm(columns, axis=0) @ apart)
        return wedge + float(np.linalg.norm(rest, 2))

    bounds = [bound(u) for u in candidates]
    best = int(np.argmin(bounds))
    u = candidates[best]
    return u, total @ u, float(masses.sum()), bounds[best]


def _grouped(
    rows: Float[np.ndarray, "neurons dim"], leaving: Float[np.ndarray, "neurons"], tolerance: float, *, both_sides: bool
) -> tuple[list[Int[np.ndarray, "members"]], Float[np.ndarray, "neurons"]]:
    """Neurons by ray, or by line: each joins the nearest of those before it, the heaviest first, if it is near enough.

    Near enough is sin∠ ≤ tolerance·max(1, mean mass/own mass), mass ‖A_h‖‖B_h‖: a light neuron may point further away.
    All wedges together then change the function by no more than a few times tolerance·Σ mass.
    """
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / np.where(lengths > 0, lengths, 1)[:, None]
    mass = lengths * leaving
    mean = mass.mean()
    allowed = tolerance * np.maximum(1.0, mean / np.where(mass > 0, mass, np.inf))
    allowed[mass == 0] = tolerance
    order = np.argsort(-mass, kind="stable")
    leaders = np.empty_like(units)
    members: list[list[int]] = []
    signs = np.ones(len(rows))
    for neuron in order:
        unit, count = units[neuron], len(members)
        if count:
            along = leaders[:count] @ unit
            nearest = int(np.argmax(np.abs(along) if both_sides else along))
            sign = 1.0 if along[nearest] >= 0 or not both_sides else -1.0
            # The difference of unit vectors, exact where 1 − cos² would cancel.
            if np.linalg.norm(unit - sign * leaders[nearest]) <= allowed[neuron]:
                members[nearest].append(int(neuron))
                signs[neuron] = sign
                continue
        leaders[count] = unit
        members.append([int(neuron)])
    return [np.array(sorted(group)) for group in members], signs


def _norm(model: Layers, layer: int) -> float:
    weight = model.weights[layer]
    if model.bias_free:
        return float(np.linalg.norm(weight, 2))
    whole = np.block([[weight, model.bias(layer)[:, None]], [np.zeros((1, weight.shape[1])), np.ones((1, 1))]])
    return float(np.linalg.norm(whole, 2))


def neuron_counts(model: Layers) -> tuple[int, ...]:
    """Neurons of each hidden layer that do something: a layer kept for the chain's sake alone counts none."""
    return tuple(
        int((first.any(axis=1) & second.any(axis=0)).sum()) for first, second in itertools.pairwise(model.weights)
    )
