"""safetensors files, by the safetensors package: named tensors of a fully connected chain, nothing else."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models._layers import Layers

_MOST_BYTES = 2**28
_MOST_HEADER = 2**24
_MOST_TENSORS = 10_000
# Type: as numpy reads it, relative rounding.
_TYPES = {"F64": ("<f8", 2.0**-53), "F32": ("<f4", 2.0**-24), "F16": ("<f2", 2.0**-11), "BF16": ("<u2", 2.0**-8)}
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d{1,6})\.(?P<kind>weight|bias|running_mean|running_var)")
_COUNTER = re.compile(r".*\d{1,6}\.num_batches_tracked")
_PLAIN = re.compile(r"(?P<kind>[Wb])(?P<number>[1-9]\d{0,5})")
_EPSILON = 1e-5


def read_safetensors(source: Path, slope: float | None) -> Layers:
    """The layers in a safetensors file; the slope, which such files lack, from the argument or its metadata.

    Raises:
        ValueError: a broken file, other types than floating point, tensors that are no chain of layers.
    """
    size = source.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: {size:,} bytes are more than the {_MOST_BYTES:,} we take in.")
    try:
        tensors, metadata, rounding = _tensors(source.read_bytes())
        return layers_of(tensors, slope, metadata, source=f"{source.name} (safetensors)", rounding=rounding)
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as a safetensors network: {str(error).rstrip('.')}.") from error


def layers_of(tensors: dict[str, np.ndarray], slope: float | None, metadata: Mapping[str, str], **about: Any) -> Layers:
    """The chain that named tensors are, as in the state of a ``torch.nn.Sequential``."""
    weights, biases, notes = chain_of(tensors)
    alpha, note = _slope(slope, metadata)
    notes = ([note] if len(weights) > 1 else []) + notes
    return Layers.of(weights, biases, [alpha] * (len(weights) - 1), notes=notes, **about)


def chain_of(tensors: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray | None], list[str]]:
    """Weights, biases and notes in order: W1, b1, W2, … or ‹name›1.weight, ‹name›1.bias, ….

    Raises:
        ValueError: other names, several names, convolutions, a bias without its weights.
    """
    tensors_by_kind: dict[str, dict[int, np.ndarray]] = {
        "weight": {},
        "bias": {},
        "running_mean": {},
        "running_var": {},
    }
    prefixes = set()
    for name, values in tensors.items():
        if _COUNTER.fullmatch(name):
            continue
        match = _PLAIN.fullmatch(name) or _NUMBERED.fullmatch(name)
        if match is None:
            raise ValueError(
                f"the tensor {name[:60]!r} is not named like a layer: use W1, W2, … (b1, b2, …) "
                "or 0.weight, 0.bias, 1.weight, …; other networks can be read from ONNX"
            )
        kind = {"W": "weight", "b": "bias"}.get(match["kind"], match["kind"])
        prefixes.add(match.groupdict().get("prefix", "W"))
        number = int(match["number"])
        if number in tensors_by_kind[kind]:
            raise ValueError(f"two tensors are the {kind} of layer {number}")
        if values.ndim > 2:
            raise ValueError(
                f"the tensor {name[:60]!r} of shape {values.shape} is a convolution, of which this file does not say "
                "stride and padding; export the network to ONNX"
            )
        tensors_by_kind[kind][number] = values
    if not tensors_by_kind["weight"]:
        raise ValueError("there are no weights in it")
    if len(prefixes) > 1:
        raise ValueError(f"its layers have several names ({', '.join(sorted(map(repr, prefixes)))}): not one chain")
    order = sorted(tensors_by_kind["weight"])
    if prefixes == {"W"} and order != list(range(1, len(order) + 1)) and not any("." in name for name in tensors):
        raise ValueError(f"its layers must be W1, W2, … without a gap, and are {', '.join(f'W{n}' for n in order)}")
    return _put_together(tensors_by_kind, order)


def _put_together(
    tensors_by_kind: dict[str, dict[int, np.ndarray]], order: list[int]
) -> tuple[list[np.ndarray], list[np.ndarray | None], list[str]]:
    """Batch normalisations folded into the layer before them."""
    weights: list[np.ndarray] = []
    biases: list[np.ndarray | None] = []
    notes: list[str] = []
    alone = sorted(tensors_by_kind["bias"].keys() - tensors_by_kind["weight"].keys())
    if alone:
        raise ValueError(f"layer {alone[0]} has a bias but no weights")
    for number in order:
        weight, bias = tensors_by_kind["weight"][number], tensors_by_kind["bias"].get(number)
        if number not in tensors_by_kind["running_mean"]:
            weights.append(weight)
            biases.append(bias)
            continue
        mean, variance = tensors_by_kind["running_mean"][number], tensors_by_kind["running_var"].get(number)
        sizes = {np.shape(v) for v in (weight, mean, variance, bias) if v is not None}
        if not weights or variance is None or len(sizes) > 1 or mean.shape != (len(weights[-1]),):
            raise ValueError(f"the batch normalisation {number} does not fit the layer before it")
        factor = weight / np.sqrt(variance + _EPSILON)
        before = biases[-1]
        shift = (0.0 if bias is None else bias) + factor * ((0.0 if before is None else before) - mean)
        weights[-1], biases[-1] = factor[:, None] * weights[-1], shift
        shifted = "; its shift is a bias" if np.any(shift) else ""
        notes.append(f"BatchNorm {number} is folded into the layer before it, with epsilon {_EPSILON:g}{shifted}.")
    return weights, biases, notes


def _tensors(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str], float]:
    from safetensors import SafetensorError, deserialize

    if len(data) < 8:
        raise ValueError("it is too short for a header")
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, _MOST_HEADER):
        raise ValueError(f"its header is said to have {length:,} bytes, more than it can have")
    try:
        entries = deserialize(data)
    except (SafetensorError, RecursionError, OverflowError) as error:
        raise ValueError(f"the safetensors package refuses it: {str(error).splitlines()[0][:120]}") from error
    if len(entries) > _MOST_TENSORS:
        raise ValueError(f"it holds {len(entries):,} tensors, more than {_MOST_TENSORS:,}")
    tensors, rounding = {}, 0.0
    for name, entry in entries:
        if name in tensors:
            raise ValueError(f"it holds the tensor {name[:60]!r} twice")
        if _COUNTER.fullmatch(name):
            continue
        if entry["dtype"] not in _TYPES:
            raise ValueError(
                f"the tensor {name[:60]!r} is of type {str(entry['dtype'])[:20]!r}; only {', '.join(_TYPES)} are read"
            )
        layout, rounded = _TYPES[entry["dtype"]]
        values = np.frombuffer(entry["data"], layout)
        if entry["dtype"] == "BF16":
            # The upper half of a float32.
            values = (values.astype("<u4") << 16).view("<f4")
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
        rounding = max(rounding, rounded)
    return tensors, _metadata(data[8 : 8 + length]), rounding


def _metadata(header: bytes) -> dict[str, str]:
    """The texts a header carries; the package reads the rest and leaves these to those who open files by path."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("its header names something twice")
        return dict(pairs)

    return dict(json.loads(header, object_pairs_hook=unique).get("__metadata__") or {})


def _slope(slope: float | None, metadata: Mapping[str, str]) -> tuple[float, str]:
    end = "after every layer but the last; the file itself does not name activations."
    if slope is not None:
        return checks.slope(slope), f"σ of slope {slope:g}, as asked for, is taken {end}"
    if "slope" not in metadata:
        return 0.0, f"ReLU is taken {end} Give another slope if that is wrong."
    try:
        stored = float(metadata["slope"])
    except ValueError as error:
        raise ValueError(f"the slope in its metadata is not a number: {metadata['slope'][:20]!r}") from error
    return checks.slope(stored), f"σ of slope {stored:g}, from the file's metadata, is taken {end}"
