"""What names a run: a hash of all that determines it.

A run is determined by its arguments (defaults filled in), its seed, the bytes of data that no generator makes, the
source of a user's function, and the numerics: the package's own source and the libraries it computes with. The key is
the exclusive or of one 128-bit hash per (name, value): the order of arguments does not matter, nor whether one is an
axis, and a million keys are a few array operations.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from biasfree.datasets import Dataset

Keys = np.ndarray  # (runs, 2) of uint64
_LIBRARIES = ("numpy", "scipy", "jax", "jaxlib", "scikit-learn")
# What shows and what schedules does not change a number.
_NOT_NUMERICS = ("cli", "report", "explorer", "studies", "inspection", "models", "sweeps")
_NUMERICS_OF_SWEEPS = ("_arguments.py", "_case.py", "_quantities.py")


@functools.cache
def numerics() -> str:
    """A digest of everything installed that enters a result."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(path for kind in ("*.py", "*.c", "*.h") for path in root.rglob(kind)):
        inside = path.relative_to(root)
        if inside.parts[0] not in _NOT_NUMERICS or (inside.parts[0] == "sweeps" and inside.name in _NUMERICS_OF_SWEEPS):
            digest.update(str(inside.as_posix()).encode() + b"\0" + path.read_bytes())
    for name in _LIBRARIES:
        digest.update(f"{name} {metadata.version(name)}".encode())
    return digest.hexdigest()


def word(name: str, value: Any) -> np.ndarray:
    """The hash of one (name, value): two uint64."""
    digest = hashlib.blake2b(f"{name}={_text(value)}".encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def shared_word(arguments: Mapping[str, Any], data: Dataset | None, function: Callable[..., Any] | None) -> np.ndarray:
    """What all runs of a sweep have in common."""
    words = [word(f"argument {name}", value) for name, value in arguments.items()]
    words.append(word("numerics", numerics()))
    if data is not None:
        words.append(word("data bytes", data_digest(data)))
    if function is not None:
        words.append(word("function", function_digest(function)))
    return np.bitwise_xor.reduce(words, axis=0)


def keys(shared: np.ndarray, axes: Mapping[str, Sequence[Any]], points: np.ndarray, seeds: Sequence[int]) -> Keys:
    """One key per point and seed, the seed running fastest.

    Args:
        shared: of ``shared_word``.
        axes: each axis' values.
        points: (points, axes) of indices into these.
        seeds: of the runs.
    """
    combined = np.broadcast_to(shared, (len(points), 2)).copy()
    for column, (name, values) in enumerate(axes.items()):
        words = np.array([word(f"argument {name}", value) for value in values])
        combined ^= words[points[:, column]]
    of_seeds = np.array([word("seed", seed) for seed in seeds])
    return (combined[:, None] ^ of_seeds[None]).reshape(-1, 2)


def data_digest(data: Dataset) -> str:
    """Of the numbers; the name does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (data.inputs, data.targets):
        digest.update(str(array.shape).encode() + np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def function_digest(function: Callable[..., Any]) -> str:
    """Of a user's function: its source, and the plain values it takes from around it. What it calls is not looked at.

    Raises:
        ValueError: a function whose source cannot be read, or that takes objects from around it.
    """
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"the source of {getattr(function, '__name__', function)!r} cannot be read, so its results could not be "
            "kept apart from those of another function. Define it by def in a file or a notebook cell."
        ) from error
    around = inspect.getclosurevars(function).nonlocals
    for name, value in around.items():
        if not isinstance(value, (int, float, str, bool, tuple, type(None))):
            raise ValueError(
                f"{function.__name__} takes {name!r} from around it, a {type(value).__name__}, which a key cannot "
                "hold. Make it a number or a word, or move it into the function."
            )
    return hashlib.blake2b(f"{text}\0{_text(sorted(around.items()))}".encode(), digest_size=16).hexdigest()


def _text(value: Any) -> str:
    """Unambiguous: 1, 1.0, '1' and True differ, and floats are exact."""
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(each) for each in value) + "]"
    if isinstance(value, float):
        return f"float {value.hex()}"
    return f"{type(value).__name__} {value!r}"
