"""Is a model linear, and how far from it? Exactly where that can be had, else by sampling the unit sphere.

Two layers, or what merges to two, have the canonical form Mx + Σ c_l|v_lᵀx| of Theorem 1, from which everything follows
exactly: for x uniform on the sphere the best linear map is M, and E|uᵀx||vᵀx| = (2/π)(√(1−ρ²) + ρ asin ρ)/D, ρ = uᵀv.
Deeper networks are sampled in pairs ±x: the best linear map is fitted to one draw and judged on another.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree.inspection import _merging, _milp, _search
from biasfree.inspection._certificate import Certificate, certificate
from biasfree.inspection._milp import Maximum
from biasfree.models._layers import Layers
from biasfree.networks import Network
from biasfree.theory import ParityForm, parity_form

# What counts as zero, relative to the scale of the weights; more for numbers stored with fewer digits.
TOLERANCE = 1e-9
_PAIRS = 20_000
_WORK = 2_000_000_000
_MOST_LINES = 3_000
_WITNESSES = 2_000
# Hidden neurons up to which the mixed-integer program is tried, and its seconds: when nothing else decides, and when
# a witness is known and only the size of the largest deviation is open. The latter finishes in a second or two.
_OPEN, _KNOWN = (200, 20.0), (16, 20.0)
_MOST_OUTPUTS = 4


@dataclass(frozen=True, eq=False)
class Nearness:
    """How far a function is from the best linear map over the unit sphere.

    Attributes:
        linear_map: M, shape (outputs, dim).
        distance: root mean square of f − Mx relative to that of f.
        error: standard error of ``distance``; 0 for an exact one.
        odd, even: root mean squares of the odd and even parts relative to that of f.
        pairs: samples ±x it rests on; 0 for an exact one.
        witness: x of largest ‖f(x) − Mx‖/‖x‖ met, shape (dim,).
        largest: that ratio.
    """

    linear_map: Float[np.ndarray, "out dim"]
    distance: float
    error: float
    odd: float
    even: float
    pairs: int
    witness: Float[np.ndarray, "dim"]
    largest: float


@dataclass(frozen=True, eq=False)
class Decision:
    """Whether f(x) = Mx for all x.

    Attributes:
        linear: true, false, or None when not decided.
        why: a sentence.
        form: the canonical form, where there is one.
        nearness: over the unit sphere.
        certificate: bound on ‖f(x) − Mx‖/‖x‖, None for models with biases.
        maximum: of the mixed-integer program, where it was run.
    """

    linear: bool | None
    why: str
    form: ParityForm | None
    nearness: Nearness
    certificate: Certificate | None
    maximum: Maximum | None

    def to_dict(self, seed: int) -> dict[str, Any]:
        """For JSON."""
        near, form, top = self.nearness, self.form, self.maximum
        return {
            "why": self.why,
            "certified_by": None if self.certificate is None else self.certificate.method,
            "parity": {"odd": near.odd, "even": near.even},
            "sphere": {"distance": near.distance, "standard_error": near.error, "pairs": near.pairs, "seed": seed},
            "witness": {"x": near.witness, "deviation": near.largest},
            "canonical_form": None if form is None else {
                "linear_map": form.linear_map, "directions": form.directions, "coefficients": form.coefficients,
                "is_linear": form.is_linear, "is_odd": form.is_odd, "is_even": form.is_even,
            },
            "exact_maximum": None if top is None else {
                "value": top.value, "x": top.point, "bound": top.bound, "finished": top.finished
            },
        }  # fmt: skip


def tolerance_of(rounding: float) -> float:
    """What counts as zero, relative to the scale of the weights, for numbers stored with this rounding."""
    return max(TOLERANCE, 16 * rounding)


def decided(model: Layers, seed: int) -> Decision:
    """Decide, with everything known on the way."""
    return _without_biases(model, seed) if model.bias_free else _with_biases(model, seed)


def _without_biases(model: Layers, seed: int) -> Decision:
    exact = model if model.depth == 2 else _merging.merged_for_function(model).layers
    tolerance = tolerance_of(model.rounding)
    if exact.depth <= 2:
        form = _form(exact)
        near = _from_form(model, form, seed)
        bound = certificate(model, near.linear_map)
        how = "" if exact is model else f" after exact merging to {'-'.join(map(str, exact.widths))}"
        if form.is_linear:
            return Decision(True, f"exactly: every kink cancels{how}.", form, near, bound, None)
        if bound.bound <= tolerance * model.scale:
            why = f"to {tolerance:.0e} of the weights' scale: kinks cancel but for a certified {bound.bound:.1e}‖x‖."
            return Decision(True, why, form, near, bound, None)
        count = len(form.directions)
        why = f"{count} kink{' does' if count == 1 else 's do'} not cancel{how}."
        return Decision(False, why, form, near, bound, None)
    near = _sampled(model, seed)
    bound = certificate(model, near.linear_map)
    linear, why = _judged(near, bound, tolerance, model.scale)
    most, seconds = _OPEN if linear is None else _KNOWN
    maximum = None
    if linear is not True and sum(exact.widths[1:-1]) <= most and exact.widths[-1] <= _MOST_OUTPUTS:
        maximum = _milp.largest_deviation(exact, near.linear_map, seconds)
        boxed = np.sqrt(exact.widths[-1]) * maximum.bound
        # Only when it finished: how far an unfinished one comes is a matter of the machine.
        if maximum.finished and boxed < bound.bound:
            bound = Certificate(float(boxed), "mixed-integer programming on the unit box, solver's tolerance added")
        if linear is None:
            linear, why = _by_program(maximum, tolerance, model.scale)
    return Decision(linear, why, None, near, bound, maximum)


def _judged(near: Nearness, bound: Certificate, tolerance: float, scale: float) -> tuple[bool | None, str]:
    if near.largest > tolerance * scale:
        return False, f"for one x it differs from the nearest linear map by {near.largest:.3g}‖x‖."
    if bound.bound <= tolerance * scale:
        return True, f"proved to {tolerance:.0e} of the weights' scale, by {bound.method}."
    return None, (
        f"not decided: no input was found where it differs by {tolerance:.0e} of the weights' scale, and none of our "
        "proofs rules one out."
    )


def _by_program(maximum: Maximum, tolerance: float, scale: float) -> tuple[bool | None, str]:
    if maximum.value > tolerance * scale * float(np.linalg.norm(maximum.point)):
        return False, f"mixed-integer programming found an x at which it differs by {maximum.value:.3g}."
    if maximum.bound <= 10 * _milp.SOLVER_TOLERANCE * scale:
        return True, (
            f"proved by mixed-integer programming over {maximum.switches} switches, to "
            f"{10 * _milp.SOLVER_TOLERANCE:.0e} of the weights' scale (the solver's tolerance)."
        )
    return None, "not decided: mixed-integer programming ran out of time."


def _with_biases(model: Layers, seed: int) -> Decision:
    near = _sampled(model, seed)
    offset = model(np.zeros((1, model.widths[0])))[0]
    tolerance = tolerance_of(model.rounding) * (
        model.scale + sum(np.abs(model.bias(k)).max() for k in range(model.depth))
    )
    has_offset = bool(np.abs(offset).max() > tolerance)
    if model.depth <= 2 or model.is_affine:
        small = _merging.merged_for_function(model).layers
        # In (x, 1) the first layer has no biases; a row of bias alone makes no kink.
        kinks = False
        if small.depth == 2:
            rows = np.column_stack([small.weights[0], small.bias(0)])
            form = parity_form(Network([rows, small.weights[1]], small.slopes[0]))
            kinks = bool(form.directions[:, :-1].any())
        if not kinks:
            if has_offset:
                return Decision(False, "it is linear plus a constant.", None, near, None, None)
            return Decision(True, "exactly: every kink cancels, and so do the constants.", None, near, None, None)
        return Decision(False, "not every kink cancels.", None, near, None, None)
    if near.largest > tolerance:
        return Decision(False, "its biases bend it or shift it.", None, near, None, None)
    return Decision(None, "not decided for a deep network with biases.", None, near, None, None)


def _form(model: Layers) -> ParityForm:
    if model.depth == 2:
        return parity_form(model.as_network())
    dim, outputs = model.widths[0], model.widths[-1]
    return ParityForm(model.weights[0], np.zeros((0, dim)), np.zeros((outputs, 0)), 0)


def _from_form(model: Layers, form: ParityForm, seed: int) -> Nearness:
    if len(form.directions) > _MOST_LINES:
        return _sampled(model, seed)
    # For a Gaussian x, which differs by a common factor from one on the sphere.
    linear = float(np.sum(form.linear_map**2))
    cosine = np.clip(form.directions @ form.directions.T, -1, 1)
    moments = (2 / np.pi) * (np.sqrt(1 - cosine**2) + cosine * np.arcsin(cosine))
    even = max(float(np.einsum("ol,lm,om->", form.coefficients, moments, form.coefficients)), 0.0)
    total = linear + even
    shares = (np.sqrt(even / total), np.sqrt(linear / total)) if total else (0.0, 0.0)
    witness, largest = _search.of_form(form, np.concatenate([form.directions, np.eye(form.linear_map.shape[1])]), seed)
    return Nearness(form.linear_map, float(shares[0]), 0.0, float(shares[1]), float(shares[0]), 0, witness, largest)


def _sampled(model: Layers, seed: int) -> Nearness:
    dim = model.widths[0]
    affordable = _WORK // max(1, 4 * sum(w.size for w in model.weights))
    pairs = max(min(_PAIRS, affordable), 256, 3 * dim)
    rng = np.random.default_rng(seed)
    fit, fresh = _unit(rng.normal(size=(pairs, dim))), _unit(rng.normal(size=(pairs, dim)))
    odd = 0.5 * (model(fit) - model(-fit))
    # Relative to the output's own size, so that tiny networks are judged like others.
    size = float(np.abs(odd).max()) or 1.0
    linear_map = size * np.linalg.lstsq(fit, odd / size, rcond=None)[0].T
    forward, backward = model(fresh), model(-fresh)
    straight = fresh @ linear_map.T
    unit = max(float(np.abs(forward).max()), float(np.abs(backward).max())) or 1.0

    def square(values: np.ndarray) -> np.ndarray:
        return np.sum((values / unit) ** 2, axis=1)

    apart = 0.5 * (square(forward - straight) + square(backward + straight))
    whole = 0.5 * (square(forward) + square(backward))
    odd_part, even_part = square(0.5 * (forward - backward)), square(0.5 * (forward + backward))
    mean = float(whole.mean())
    if mean == 0:
        return Nearness(linear_map, 0.0, 0.0, 0.0, 0.0, pairs, fresh[0], 0.0)
    ratio = float(apart.mean()) / mean
    distance = np.sqrt(ratio)
    # Of a ratio of means, to first order; of its root.
    spread = float(np.std(apart - ratio * whole)) / mean / np.sqrt(pairs)
    error = spread / (2 * distance) if distance else 0.0
    tried = np.concatenate([fresh, -fresh, _tried(model)])
    values = np.linalg.norm(model(tried) - tried @ linear_map.T, axis=1)
    order = np.argsort(-values)
    witness, largest = tried[order[0]], float(values[order[0]])
    if model.bias_free:
        improved, deviation = _search.of_layers(model, linear_map, tried[order[:_WITNESSES]], seed)
        witness, largest = (improved, deviation) if deviation > largest else (witness, largest)
    return Nearness(
        linear_map, float(distance), float(error), float(np.sqrt(odd_part.mean() / mean)),
        float(np.sqrt(even_part.mean() / mean)), pairs, witness, largest,
    )  # fmt: skip


def _tried(model: Layers) -> np.ndarray:
    """Directions at which deviations are likely: the axes and the rows of W₁, both ways."""
    rows = model.weights[0][model.weights[0].any(axis=1)][:1000]
    both = np.concatenate([np.eye(model.widths[0])[:1000], _unit(rows)])
    return np.concatenate([both, -both])


def _unit(vectors: np.ndarray) -> np.ndarray:
    if not len(vectors):
        return vectors
    scaled = vectors / np.abs(vectors).max(axis=1, keepdims=True)
    return scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
