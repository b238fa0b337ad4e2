"""NPZ archives of W1 … WL, with b1 … bL, a slope, and what ``Network.save`` writes. Sizes are checked unread."""

import math
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from biasfree import checks
from biasfree.models._layers import Layers
from biasfree.models._safetensors import chain_of
from biasfree.networks import Network

_MOST_BYTES = 2**28
_MOST_ARRAYS = 10_000
_LAYER = re.compile(r"[Wb][1-9]\d{0,5}")
_SETTINGS = ("slope", "slopes", "rectified", "skips")
_BROKEN = (
    OSError, EOFError, RuntimeError, OverflowError, TypeError, SyntaxError, KeyError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_npz(source: Path, slope: float | None) -> Layers:
    """The model in an NPZ archive; ``slope`` overrules the one stored, and ReLU is taken where none is.

    Raises:
        ValueError: no archive of plain numeric arrays, more data than is sensible, arrays that are no network.
    """
    try:
        arrays, rounding, ignored = _arrays(source)
        weights, biases, _ = chain_of({name: a for name, a in arrays.items() if name not in _SETTINGS})
        slopes, note = _slopes(arrays, len(weights) - 1, slope)
        notes = [note] if note else []
        if ignored:
            notes.append(f"Arrays other than W1, b1, … are ignored: {', '.join(ignored[:5])}.")
        about = {"source": f"{source.name} (NPZ)", "rounding": rounding, "notes": notes}
        if "skips" in arrays and arrays["skips"].any():
            if any(b is not None for b in biases):
                raise ValueError("it has both biases and identity skips, which we do not read together")
            skipping = Network(weights, 0.0, skips=arrays["skips"].reshape(-1).tolist())
            folded = Layers.from_network(skipping)
            weights, about["notes"] = list(folded.weights), [*folded.notes, *notes]
        return Layers.of(weights, biases, slopes, **about)
    except _BROKEN as error:
        raise ValueError(f"cannot read {source.name} as a network: it is not an NPZ of plain arrays.") from error
    except ValueError as error:
        raise ValueError(f"cannot read {source.name} as a network: {str(error).rstrip('.')}.") from error


def _arrays(source: Path) -> tuple[dict[str, np.ndarray], float, list[str]]:
    arrays, ignored, rounding = {}, [], 0.0
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        declared = sum(member.file_size for member in members)
        if declared > _MOST_BYTES or len(members) > _MOST_ARRAYS:
            raise ValueError(
                f"its {len(members):,} arrays unpack to {declared:,} bytes, and we take in {_MOST_ARRAYS:,} arrays "
                f"and {_MOST_BYTES:,} bytes"
            )
        for member in members:
            name = member.filename.removesuffix(".npy")
            if not (_LAYER.fullmatch(name) or name in _SETTINGS):
                ignored += [name] if name != "origin" else []
                continue
            if name in arrays:
                raise ValueError(f"it holds the array {name!r} twice")
            arrays[name], rounded = _array(archive, member, name)
            rounding = max(rounding, rounded if _LAYER.fullmatch(name) else 0.0)
    if "W1" not in arrays:
        raise ValueError("there is no array 'W1' in it; a network is stored as arrays W1, W2, …")
    return arrays, rounding, ignored


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> tuple[np.ndarray, float]:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if header is None:
            raise ValueError(f"the array {name!r} is of an unknown version of the format")
        shape, by_columns, kind = header(stream)
        if kind.kind not in "biuf":
            what = "Python objects, which could run code on loading" if kind.hasobject else f"type {kind}"
            raise ValueError(f"the array {name!r} is of {what}; save plain numbers")
        # Before anything is allocated: a header may promise any shape.
        count = math.prod(shape)
        if stream.tell() + count * kind.itemsize != member.file_size:
            raise ValueError(f"the array {name!r} declares shape {shape}, and its data are of another size")
        values = np.frombuffer(stream.read(count * kind.itemsize), kind)
    rounding = float(np.finfo(kind).eps) / 2 if kind.kind == "f" else 0.0
    return checks.numeric(values.reshape(shape, order="F" if by_columns else "C"), name), rounding


def _slopes(arrays: dict[str, np.ndarray], hidden: int, slope: float | None) -> tuple[list[float], str | None]:
    rectified = arrays["rectified"].reshape(-1).tolist() if "rectified" in arrays else [1.0] * hidden
    if len(rectified) != hidden:
        raise ValueError(f"'rectified' must have one entry per hidden layer, {hidden}, got {len(rectified)}")
    if slope is None and "slopes" in arrays:
        return [float(s) for s in arrays["slopes"].reshape(-1)], None
    note = None
    if slope is None and "slope" in arrays:
        if arrays["slope"].size != 1:
            raise ValueError(f"'slope' must be one number, got shape {arrays['slope'].shape}")
        slope = float(arrays["slope"].reshape(-1)[0])
    elif slope is None:
        slope = 0.0
        note = "ReLU is taken after every layer but the last; the file does not store a slope." if hidden else None
    return [checks.slope(slope) if r else 1.0 for r in rectified], note
