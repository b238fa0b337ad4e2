"""When is a bias-free ReLU network effectively linear? Answered for a network that somebody has trained."""

import os
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from biasfree import answer as answers
from biasfree import checks, datasets, files, measure
from biasfree.answer import Picture, Section, Table
from biasfree.datasets import Dataset
from biasfree.inspection import _merging
from biasfree.inspection._layer_reports import LayerReport, layer_reports
from biasfree.inspection._linear_answer import Answer, answered, tolerance_of
from biasfree.inspection._merging import Merged
from biasfree.models._layers import Layers
from biasfree.models._reading import read
from biasfree.theory import homogeneity_error

_PROBES = 200
# A network this near to its best linear map is called linear in effect.
_NEARLY = 0.01
_SHOWN = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(answers.Answer):
    """What a trained network is as a function; ``print`` it, ``to_dict()`` it or ``plot()`` it.

    Attributes:
        model: what was read.
        bias_free: whether no layer has a bias other than zero.
        homogeneous: whether f(cx) = c f(x) for every c > 0; None when biases leave it open.
        answer: is it linear, how that was decided, the canonical form, distance and certified bound.
        on_data: distance from the best linear map over the data, None without data.
        data_name: what the data are called.
        layers: a report for each layer.
        merged: the network after merging, with a bound on the change.
        tolerance: of merging.
        seed: of all samples.
        points: what ``plot`` shows, some of the data or of the unit sphere, shape (points, dim).
    """

    model: Layers
    bias_free: bool
    homogeneous: bool | None
    answer: Answer
    on_data: measure.Linearity | None
    data_name: str | None
    layers: tuple[LayerReport, ...]
    merged: Merged
    tolerance: float
    seed: int
    points: Float[np.ndarray, "points dim"]

    # The fields of --json, by name

    @property
    def linear(self) -> bool | None:
        """Whether f(x) = Mx for all x; None when not decided."""
        return self.answer.linear

    @property
    def linear_map(self) -> Float[np.ndarray, "... dim"]:
        """M, the nearest linear map over the unit sphere; shape (dim,) or (outputs, dim)."""
        found = self.answer.nearness.linear_map
        return found[0] if len(found) == 1 else found

    @property
    def distance_from_linear(self) -> float:
        """Root mean square of f − (best linear map) relative to f: over the data if there are any, else the sphere."""
        return self.answer.nearness.distance if self.on_data is None else self.on_data.error

    @property
    def certified_bound(self) -> float | None:
        """‖f(x) − Mx‖ ≤ bound·‖x‖ for every x; None with biases, where no such bound exists at 0."""
        return None if self.answer.certificate is None else self.answer.certificate.bound

    @property
    def neurons_after_merging(self) -> int:
        """Hidden neurons that remain."""
        return sum(_merging.neuron_counts(self.merged.model))

    @property
    def compressed(self) -> Layers:
        """The smaller network: ``compressed.save(path)`` writes it, ``compressed.as_network()`` is a ``Network``."""
        return self.merged.model

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        near, found, form = self.answer.nearness, self.answer.certificate, self.answer.form
        top = self.answer.maximum
        return files.plain(
            {
                "title": self.title,
                "verdict": self.verdict,
                "headline": self.headline,
                "model": {"source": self.model.source, "widths": self.model.widths, "slopes": self.model.slopes},
                "bias_free": self.bias_free,
                "homogeneous": self.homogeneous,
                "linear": self.linear,
                "why": self.answer.why,
                "tolerance": tolerance_of(self.model),
                "linear_map": self.linear_map,
                "distance_from_linear": self.distance_from_linear,
                "distance_over": "the unit sphere" if self.on_data is None else "the data",
                "certified_bound": self.certified_bound,
                "certified_by": None if found is None else found.method,
                "parity": {"odd": near.odd, "even": near.even},
                "sphere": {
                    "distance": near.distance, "standard_error": near.error, "pairs": near.pairs, "seed": self.seed
                },
                "witness": {"x": near.witness, "deviation": near.largest},
                "canonical_form": None if form is None else {
                    "linear_map": form.linear_map, "directions": form.directions, "coefficients": form.coefficients,
                    "is_linear": form.is_linear, "is_odd": form.is_odd, "is_even": form.is_even,
                },
                "exact_maximum": None if top is None else {
                    "value": top.value, "x": top.point, "bound": top.bound, "finished": top.finished
                },
                "data": None if self.on_data is None else {
                    "name": self.data_name, "linear_map": self.on_data.linear_map, "distance": self.on_data.error
                },
                "layers": [layer.to_dict() for layer in self.layers],
                "neurons_after_merging": self.neurons_after_merging,
                "widths_after_merging": self.merged.model.widths,
                "merging_error": self.merged.error,
                "merging_tolerance": self.tolerance,
                "notes": self.model.notes,
            }
        )  # fmt: skip

    @property
    def title(self) -> str:
        """What was asked."""
        return f"Is {self.model.source} linear? {self.model}"

    @property
    def verdict(self) -> str:
        """ "linear", "not linear" or "not decided"."""
        return {True: "linear", False: "not linear", None: "not decided"}[self.linear]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return self._linearity()[0]

    @property
    def facts(self) -> dict[str, Any]:
        """Model, data and seed."""
        return {"model": str(self.model), "data": self.data_name or "none", "seed": self.seed}

    @property
    def sections(self) -> tuple[Section, ...]:
        """What there is to say, in order, under a heading each."""
        caption = "Left: output against the best linear map. Right: singular values of each layer."
        return (
            Section("What it is", [*self._kind(), *self.model.notes]),
            Section("Is it linear?", self._linearity()),
            Section("Its neurons", self._neurons()),
            Section("Its layers", table=self._layers(), pictures=[Picture("inspection", caption, {"found": self})]),
        )

    def _kind(self) -> list[str]:
        if self.bias_free:
            return ["It has no biases, so it is positively homogeneous: f(cx) = c f(x) for every c > 0."]
        with_bias = [str(k) for k, b in enumerate(self.model.biases, 1) if b is not None]
        plural = "s" * (len(with_bias) != 1)
        homogeneous = (
            "and is not positively homogeneous" if self.homogeneous is False
            else "though no departure from positive homogeneity was found"
        )  # fmt: skip
        return [f"It has biases in layer{plural} {', '.join(with_bias)}, {homogeneous}."]

    def _linearity(self) -> list[str]:
        near, answer = self.answer.nearness, self.answer
        verdict = {True: "It is linear", False: "It is not linear", None: "Whether it is linear is"}[self.linear]
        told = [f"{verdict}{ {True: ', ', False: ': ', None: ' '}[self.linear] }{answer.why}"]
        form = answer.form
        if form is not None and not form.is_linear:
            odd = "even, f(−x) = f(x)" if form.is_even else "neither odd nor even but linear plus even"
            terms = f"{len(form.directions)} term{'s' * (len(form.directions) != 1)}"
            told.append(f"By Theorem 1 it is {odd}: f(x) = Mx + Σ c|vᵀx| with {terms}.")
        elif form is not None:
            told.append("It is odd, which for two layers means linear (Corollary 2).")
        how = "exactly" if not near.pairs else f"± {near.error:.1g}, {near.pairs} pairs ±x, seed {self.seed}"
        if self.linear is not True:
            told.append(
                f"Over the unit sphere its odd part is {near.odd:.3g} and its even part {near.even:.3g} of its size, "
                f"and it is {near.distance:.3g} from the best linear map ({how})."
            )
            if near.distance <= _NEARLY:
                told.append(f"In effect it is a linear network: all but {near.distance:.1g} of its output is wᵀx.")
        if self.on_data is not None:
            told.append(f"Over {self.data_name} it is {self.on_data.error:.3g} of its output from the best linear map.")
        if answer.certificate is not None:
            told.append(
                f"Certified for every x: |f(x) − wᵀx| ≤ {answer.certificate.bound:.3g}‖x‖ ({answer.certificate.method})"
                + ("." if self.linear else f"; the largest met is {near.largest:.3g}‖x‖.")
            )
        else:
            told.append("With biases no bound on |f(x) − wᵀx|/‖x‖ exists near 0.")
        if answer.maximum is not None:
            state = "exactly" if answer.maximum.finished else "at least"
            told.append(
                f"The largest |f(x) − wᵀx| over the box |x_i| ≤ 1 is {state} {answer.maximum.value:.6g} "
                f"(mixed-integer programming, {answer.maximum.switches} switches)."
            )
        told.append(f"w = {_shown(self.linear_map)}.")
        return told

    def _neurons(self) -> list[str]:
        before = sum(self.model.widths[1:-1])
        widths = "-".join(map(str, self.merged.model.widths))
        exact = self.tolerance <= _merging.EXACT
        told = []
        if before:
            how = "exact merging" if exact else f"merging at tolerance {self.tolerance:g}"
            told.append(f"Of {before} hidden neurons {self.neurons_after_merging} remain after {how} ({widths}).")
            if not exact:
                told.append(f"That changes the function by at most {self.merged.error:.2g}‖x‖.")
        for layer in self.layers:
            if layer.dead is not None and layer.slope is not None and layer.slope < 1:
                told.append(
                    f"On {self.data_name}, {layer.dead} neurons of layer {layer.layer} are dead and "
                    f"{layer.always_active} always active, of {layer.outputs}."
                )
        return told

    def _layers(self) -> Table:
        heads = ["layer", "shape", "norm", "stable rank", "rank", "s₂/s₁", "alignment", "imbalance", "residual"]
        equation = self.layers[0].equation
        if equation is not None:
            heads[-1] = f"Eq. {equation} residual"
        rows = [
            [
                f"W{layer.layer}{' + bias' if layer.has_bias else ''}", f"{layer.outputs}×{layer.inputs}",
                f"{layer.norm:.4g}", _cell(layer.stable_rank), str(layer.rank), _cell(layer.second_singular_value),
                _cell(layer.alignment), _cell(layer.imbalance), _cell(layer.residual),
            ]
            for layer in self.layers
        ]  # fmt: skip
        return Table(heads, rows)


def inspect(
    model: Any,
    data: Any = None,
    *,
    slope: float | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> Inspection:
    """Tell what a trained network is: bias-free, homogeneous, linear, how far from it, and how many neurons it needs.

    Nothing in a file is ever executed; pickles are refused.

    Args:
        model: path of an ONNX, safetensors or NPZ file (W1, W2, …), a ``Network``, or a PyTorch module.
        data: where the distance from linear and the neurons' activity are measured: a ``Dataset``, inputs of shape
            (samples, dim), or a path that ``datasets.load`` reads; the unit sphere without it.
        slope: α of the activations, where the model does not say (NPZ, safetensors); 0 is ReLU.
        tolerance: merge neurons that are parallel only nearly, as long as this changes the function by about this share
            of the weights' scale at most; exact merging by default.
        seed: of all random inputs.

    Raises:
        ValueError: what cannot be read, is no chain of fully connected layers, or does not fit the data.

    >>> from biasfree import Network
    >>> found = inspect(Network([[[1.0, 0.0], [-2.0, 0.0]], [[2.0, -1.0]]], slope=0.0))
    >>> found.linear, found.linear_map, found.neurons_after_merging
    (True, array([2., 0.]), 2)
    """
    seed = checks.count(seed, "seed", least=0)
    if slope is not None:
        slope = checks.slope(slope)
    read_model = read(model, slope)
    inputs, name = _inputs(data, read_model.widths[0])
    tolerance = _merging.EXACT if tolerance is None else checks.non_negative(tolerance, "tolerance")
    smaller = _merging.merged_for_function(read_model, tolerance)
    sphere = np.random.default_rng(seed).normal(size=(_SHOWN, read_model.widths[0]))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    return Inspection(
        read_model,
        read_model.bias_free,
        _is_homogeneous(read_model, sphere[:_PROBES]),
        answered(read_model, seed),
        None if inputs is None else measure.linearity(cast(Any, read_model), inputs),
        name,
        layer_reports(read_model, inputs),
        smaller,
        tolerance,
        seed,
        sphere if inputs is None else inputs[:_SHOWN],
    )


def _inputs(data: Any, dim: int) -> tuple[np.ndarray | None, str | None]:
    if data is None:
        return None, None
    if isinstance(data, (str, os.PathLike)):
        data = datasets.load(data)
    inputs, name = (data.inputs, data.name) if isinstance(data, Dataset) else (data, "the data")
    inputs = checks.finite(checks.numeric(inputs, "data"), "data")
    if inputs.ndim != 2 or not len(inputs) or inputs.shape[1] != dim:
        raise ValueError(f"the model takes inputs of dimension {dim}, and the data have shape {inputs.shape}.")
    return inputs, name


def _is_homogeneous(model: Layers, inputs: np.ndarray) -> bool | None:
    if model.bias_free:
        return True
    return False if homogeneity_error(model, inputs) > tolerance_of(model) else None


def _shown(array: np.ndarray) -> str:
    """A short vector whole, a long one by its size."""
    if array.size > 8:
        return f"a map of shape {array.shape} and norm {np.linalg.norm(array):.6g}"
    return np.array2string(array, precision=6, separator=", ").replace("\n", "")


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
