"""safetensors files: eight bytes of length, a JSON header of names, types and places, then the numbers themselves."""

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.models._model import Model

_MOST_BYTES = 2**28
_MOST_HEADER = 2**24
_MOST_TENSORS = 10_000
# Type: bytes per number, relative rounding.
_TYPES = {"F64": (8, 2.0**-53), "F32": (4, 2.0**-24), "F16": (2, 2.0**-11), "BF16": (2, 2.0**-8)}
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d{1,6})\.(?P<kind>weight|bias)")
_PLAIN = re.compile(r"(?P<kind>[Wb])(?P<number>[1-9]\d{0,5})")


def read_safetensors(source: Path, slope: float | None) -> Model:
    """The model in a safetensors file; the slope, which such files lack, from the argument or its metadata.

    Raises:
        ValueError: a broken file, other types than floating point, tensors that are no chain of layers.
    """
    size = source.stat().st_size
    if size > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: {size:,} bytes are more than the {_MOST_BYTES:,} we take in.")
    try:
        tensors, metadata, rounding = _tensors(source.read_bytes())
        weights, biases = chain_of(tensors)
        alpha, note = _slope(slope, metadata)
        return Model.of(
            weights, biases, [alpha] * (len(weights) - 1), source=f"{source.name} (safetensors)",
            rounding=rounding, notes=(note,) if len(weights) > 1 else (),
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as a safetensors network: {str(error).rstrip('.')}.") from error


def chain_of(tensors: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    """Weights and biases in their order: W1, b1, W2, … or ‹name›1.weight, ‹name›1.bias, ….

    Raises:
        ValueError: other names, several names, a bias without its weights.
    """
    found: dict[str, dict[int, np.ndarray]] = {"weight": {}, "bias": {}}
    prefixes = set()
    for name, values in tensors.items():
        match = _PLAIN.fullmatch(name) or _NUMBERED.fullmatch(name)
        if match is None:
            raise ValueError(
                f"the tensor {name[:60]!r} is not named like a layer: use W1, W2, … (b1, b2, …) "
                "or 0.weight, 0.bias, 1.weight, …"
            )
        kind = {"W": "weight", "b": "bias"}.get(match["kind"], match["kind"])
        prefixes.add(match.groupdict().get("prefix", "W"))
        if int(match["number"]) in found[kind]:
            raise ValueError(f"two tensors are the {kind} of layer {int(match['number'])}")
        found[kind][int(match["number"])] = values
    if not found["weight"]:
        raise ValueError("there are no weights in it")
    if len(prefixes) > 1:
        raise ValueError(f"its layers have several names ({', '.join(sorted(map(repr, prefixes)))}): not one chain")
    alone = sorted(found["bias"].keys() - found["weight"].keys())
    if alone:
        raise ValueError(f"layer {alone[0]} has a bias but no weights")
    order = sorted(found["weight"])
    if prefixes == {"W"} and order != list(range(1, len(order) + 1)) and not any("." in name for name in tensors):
        raise ValueError(f"its layers must be W1, W2, … without a gap, and are {', '.join(f'W{n}' for n in order)}")
    return [found["weight"][n] for n in order], [found["bias"].get(n) for n in order]


def _tensors(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str], float]:
    if len(data) < 8:
        raise ValueError("it is too short for a header")
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, _MOST_HEADER):
        raise ValueError(f"its header is said to have {length:,} bytes, more than it can have")
    header = _header(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata are not texts")
    if len(header) > _MOST_TENSORS:
        raise ValueError(f"it holds {len(header):,} tensors, more than {_MOST_TENSORS:,}")
    numbers = memoryview(data)[8 + length :]
    tensors, places, rounding = {}, [], 0.0
    for name, entry in header.items():
        kind, shape, (begin, end) = _entry(name, entry, len(numbers))
        width, rounded = _TYPES[kind]
        if end - begin != math.prod(shape) * width:
            raise ValueError(f"the tensor {name[:60]!r} declares shape {shape} but stores {end - begin:,} bytes")
        tensors[name] = _values(numbers[begin:end], kind).reshape(shape)
        places.append((begin, end))
        rounding = max(rounding, rounded)
    places.sort()
    if any(first[1] > second[0] for first, second in itertools.pairwise(places)):
        raise ValueError("its tensors overlap")
    return tensors, metadata, rounding


def _header(raw: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("its header names something twice")
        return dict(pairs)

    try:
        header = json.loads(raw, object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError("its header is not JSON") from error
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    return header


def _entry(name: str, entry: Any, size: int) -> tuple[str, list[int], tuple[int, int]]:
    shown = repr(name[:60])
    if not isinstance(entry, dict):
        raise ValueError(f"the header's entry for {shown} is not an object")
    kind: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    places: Any = entry.get("data_offsets")
    if kind not in _TYPES:
        raise ValueError(f"the tensor {shown} is of type {str(kind)[:20]!r}; only {', '.join(_TYPES)} are read")
    if not _whole(shape) or len(shape) > 8 or not _whole(places) or len(places) != 2:
        raise ValueError(f"the shape or the place of the tensor {shown} is not a list of whole numbers")
    if not 0 <= places[0] <= places[1] <= size:
        raise ValueError(f"the tensor {shown} lies at bytes {places[0]} to {places[1]} of {size}")
    return kind, shape, (places[0], places[1])


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**63 for n in numbers)


def _values(raw: memoryview, kind: str) -> np.ndarray:
    if kind == "BF16":
        # The upper half of a float32.
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
    return np.frombuffer(raw, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[kind]).astype(np.float64)


def _slope(slope: float | None, metadata: dict[str, str]) -> tuple[float, str]:
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
