"""``inspect``: read a model, measure it, decide what can be decided."""

import os
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.inspection import _homogeneity, _local_maps, _merging, _patterns, _points, _share
from biasfree.inspection._decision import Decision, decided
from biasfree.inspection._function import MOST_ENTRIES, BlackBox, ChainFunction, Function, GraphFunction
from biasfree.inspection._inspection import Inspection
from biasfree.inspection._layer_reports import graph_reports, layer_reports
from biasfree.inspection._points import Points
from biasfree.models import Graph, Layers, Port, is_module, read
from biasfree.networks import Network

_SHOWN = 1000


def inspect(
    model: Any,
    data: Any = None,
    *,
    slope: float | None = None,
    tolerance: float | None = None,
    jointly: bool = False,
    seed: int = 0,
) -> Inspection:
    """Tell what a trained network is: how far from linear on your data, bias-free, homogeneous, and what it does.

    Nothing in a file is ever executed. Of pickles only tensors are read, by ``torch.load(weights_only=True)``.

    Args:
        model: path of an ONNX, safetensors, NPZ (W1, W2, …) or PT file, a ``Network``, a PyTorch module, or any
            function of a batch of inputs, which needs ``data``.
        data: where it is measured: a ``Dataset``, inputs of shape (samples, …), a path (table, NPY, NPZ); for a model
            with several inputs a tuple of arrays or a mapping by name. Random inputs without it, and said so.
        slope: α of the activations, where the model does not say (NPZ, safetensors, PT); 0 is ReLU.
        tolerance: merge neurons that are parallel only nearly, as long as this changes the function by about this share
            of the weights' scale at most; exact merging by default.
        jointly: homogeneity in all inputs together, f(cx, cσ) = c f(x, σ); by default extra inputs (noise maps) stay.
        seed: of all random inputs.

    Raises:
        ValueError: what cannot be read, or does not fit the data.

    >>> from biasfree import Network
    >>> inspection = inspect(Network([[[1.0, 0.0], [-2.0, 0.0]], [[2.0, -1.0]]], slope=0.0))
    >>> inspection.linear, inspection.linear_map, inspection.neurons_after_merging
    (True, array([2., 0.]), 2)
    >>> inspect(lambda x: x @ np.ones(3), np.random.default_rng(0).normal(size=(50, 3))).headline
    'On the data it is linear up to ...'
    """
    seed = checks.count(seed, "seed", least=0)
    slope = None if slope is None else checks.slope(slope)
    tolerance = _merging.EXACT if tolerance is None else checks.non_negative(tolerance, "tolerance")
    known = isinstance(model, (str, os.PathLike, Network, Layers, Graph)) or is_module(model)
    if callable(model) and not known:
        return _function(model, data, tolerance, jointly, seed)
    graph = read(model, slope, _shapes(data))
    points = _points.drawn(graph, seed) if data is None else _points.given(data, graph.ports)
    layers = graph.layers
    if jointly and len(graph.ports) == 1:
        raise ValueError("jointly is about extra inputs, such as noise maps, and the model has one input only.")
    if layers is None:
        graph.shapes(points.values)
    function: Function = GraphFunction(graph) if layers is None else ChainFunction(layers)
    decision = None if layers is None else decided(layers, seed)
    merged = None if layers is None else _merging.merged_for_function(layers, tolerance)
    inputs = None if data is None else points.x
    reports = graph_reports(graph) if layers is None else layer_reports(layers, inputs)
    left_out = list(graph.left_out)
    return _measured(
        function, graph, points, jointly, seed, decision, reports, merged, tolerance, left_out, graph.source
    )


def _function(function: Any, data: Any, tolerance: float, jointly: bool, seed: int) -> Inspection:
    """A function of which only values are known."""
    called = getattr(function, "__name__", type(function).__name__)
    name = "the given function" if called == "<lambda>" else f"the function {called}"
    if data is None:
        raise ValueError(f"{name} is inspected by its values, and needs inputs: inspect(function, inputs).")
    if isinstance(data, Dataset):
        data, label = data.inputs, data.name
    else:
        label = "the data"
    arrays = [checks.numeric(a, "inputs") for a in (data if isinstance(data, tuple) else (data,))]
    if any(a.ndim < 2 for a in arrays):
        raise ValueError(f"inputs must have an axis of samples and at least one more, got shape {arrays[0].shape}.")
    ports = tuple(Port(f"input {i}", a.shape[1:]) for i, a in enumerate(arrays, 1))
    points = _points.given(tuple(arrays), ports, label)
    left_out = [
        "Certificate, neurons, layers and merging: of a function only values are known. Derivatives are by differences."
    ]
    box = BlackBox(function, name)
    return _measured(box, None, points, jointly, seed, None, (), None, tolerance, left_out, name)


def _measured(
    function: Function,
    graph: Graph | None,
    points: Points,
    jointly: bool,
    seed: int,
    decision: Decision | None,
    reports: tuple[Any, ...],
    merged: Any,
    tolerance: float,
    left_out: list[str],
    source: str,
) -> Inspection:
    shown = points.spread(_SHOWN)
    outputs = function(shown)
    local = _local_maps.measured(function, points, seed)
    if local is None:
        entries = points.x.shape[1] * outputs.shape[1]
        left_out.append(
            f"Local maps A_x: they have {entries:,} entries each, more than {MOST_ENTRIES:,}; look at smaller images."
        )
    with_constant = graph is None or not graph.bias_free
    return Inspection(
        source, graph, points, outputs, _homogeneity.measured(function, points, jointly),
        _share.measured(function, points, with_constant), local,
        None if graph is None else _patterns.measured(graph, points), decision, reports, merged, tolerance, seed,
        tuple(left_out),
    )  # fmt: skip


def _shapes(data: Any) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of the inputs, where data tell them: a torch module does not."""
    arrays = data if isinstance(data, tuple) else (data,)
    if isinstance(data, Dataset):
        arrays = (data.inputs,)
    if any(not hasattr(a, "shape") or len(np.shape(a)) < 2 for a in arrays):
        return None
    return tuple(tuple(np.shape(a)[1:]) for a in arrays)
