"""Which reader a model needs: by what it is, by the name of its file, and by the file's first bytes."""

import os
import zipfile
from pathlib import Path
from typing import Any

from biasfree import files
from biasfree.models._graph import Graph
from biasfree.models._layers import Layers
from biasfree.models._npz_model import read_npz
from biasfree.models._onnx import read_onnx
from biasfree.models._safetensors import read_safetensors
from biasfree.models._torch_module import is_module, read_module, read_state
from biasfree.networks import Network

_SUFFIXES = (".npz", ".onnx", ".safetensors", ".pt", ".pth")
_TORCH = (".pt", ".pth", ".bin", ".ckpt")
_PICKLES = (*_TORCH, ".pkl", ".pickle", ".joblib")
_INSTEAD = (
    "loading it could run any code. Save the weights with safetensors, export the network to ONNX, or write them with "
    "numpy.savez(path, W1=…, W2=…)."
)


def read(model: Any, slope: float | None = None, shapes: tuple[tuple[int, ...], ...] | None = None) -> Graph:
    """Read a model from a file, a ``Network`` or a PyTorch module.

    Args:
        model: path of an ONNX, safetensors, NPZ or (where torch is installed) PT file, a ``Network``, ``Layers`` or a
            torch module.
        slope: α of the activations, for what does not store it (NPZ, safetensors, PT, bare Linear layers).
        shapes: of the inputs without the samples' axis, where they are known; a torch module does not state them.

    Raises:
        ValueError: anything else, pickles, broken files, networks of which nothing can be read.
    """
    if isinstance(model, Graph):
        return model
    if isinstance(model, Layers):
        return Graph.from_layers(model)
    if isinstance(model, Network):
        return Graph.from_network(model)
    if isinstance(model, (str, os.PathLike)):
        return _read_file(files.readable(model), slope)
    if is_module(model):
        return read_module(model, slope, shapes)
    raise ValueError(
        f"inspect takes a path, a biasfree.Network, a PyTorch module or a function (of a "
        f"scikit-learn model its `predict`), got {type(model).__name__}."
    )


def _read_file(source: Path, slope: float | None) -> Graph:
    suffix = source.suffix.lower()
    try:
        with source.open("rb") as stream:
            head = stream.read(16)
    except OSError as error:
        raise ValueError(f"cannot open {source}: {error.strerror}.") from error
    if not head:
        raise ValueError(f"cannot read {source.name}: it is empty.")
    if _is_pickle(source, head):
        if suffix in _TORCH:
            return Graph.from_layers(read_state(source, slope, _INSTEAD))
        raise ValueError(f"{source.name} is a pickle and is not read: {_INSTEAD}")
    if suffix not in _SUFFIXES:
        raise ValueError(f"cannot read {source.name}: the name must end in {', '.join(_SUFFIXES)}.")
    zipped = head[:2] == b"PK"
    tensors = head[8:9] == b"{" and int.from_bytes(head[:8], "little") < source.stat().st_size
    held = ".npz" if zipped else ".safetensors" if tensors else None
    if (held is not None and held != suffix) or (suffix == ".npz" and not zipped):
        what = f"its content is that of a {held} file; rename it" if held else "it is not an NPZ archive"
        raise ValueError(f"cannot read {source.name} as {suffix[1:]}: {what}.")
    if suffix == ".npz":
        return Graph.from_layers(read_npz(source, slope))
    if suffix == ".safetensors":
        return Graph.from_layers(read_safetensors(source, slope))
    if slope is not None:
        raise ValueError(f"{source.name} names its own activations; leave the slope out.")
    return read_onnx(source)


def _is_pickle(source: Path, head: bytes) -> bool:
    if source.suffix.lower() in _PICKLES:
        return True
    if head[:2] == b"PK":
        try:
            with zipfile.ZipFile(source) as archive:
                return any(name == "data.pkl" or name.endswith("/data.pkl") for name in archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError):
            return False
    # Protocols 2 to 5 announce themselves; a safetensors file may begin with the same two bytes, but not with eight
    # of a plausible length and a brace.
    plausible = head[8:9] == b"{" and int.from_bytes(head[:8], "little") < source.stat().st_size
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and not plausible
