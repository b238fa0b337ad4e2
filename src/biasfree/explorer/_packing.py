"""What travels: a JSON head and named arrays behind it, as one run of bytes.

    4 bytes   length of the head, little-endian
    head      JSON; ``head["arrays"][name]`` is {"type", "shape", "at"}, ``at`` counted from the end of the head
    padding   to a multiple of 8
    arrays    little-endian, each at a multiple of 8

Losses and times stay float64, so that the page shows the package's own digits.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from biasfree import files

_TYPES = {"float64": "<f8", "float32": "<f4", "int32": "<i4", "int16": "<i2", "int8": "<i1", "uint8": "<u1"}


def packed(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Head and arrays as bytes; what is not finite in the head is null."""
    table: dict[str, Any] = {}
    parts, at = [], 0
    for name, array in arrays.items():
        kind = array.dtype.name
        table[name] = {"type": kind, "shape": list(array.shape), "at": at}
        data = np.ascontiguousarray(array, dtype=_TYPES[kind]).tobytes()
        parts.append(data + bytes(-len(data) % 8))
        at += len(parts[-1])
    text = json.dumps(files.plain({**head, "arrays": table}), allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``packed`` was given.

    >>> head, arrays = unpacked(packed({"a": 1}, {"times": np.array([0.0, 0.1])}))
    >>> head["a"], arrays["times"]
    (1, array([0. , 0.1]))
    """
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    arrays = {}
    for name, entry in head.pop("arrays").items():
        count = int(np.prod(entry["shape"], dtype=int))
        flat = np.frombuffer(data, _TYPES[entry["type"]], count, 4 + length + entry["at"])
        arrays[name] = flat.reshape(entry["shape"])
    return head, arrays
