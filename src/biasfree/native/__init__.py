"""The part of biasfree that is written in C: steps and events of the exact flow (``*.c`` beside this file).

A wheel brings the library along. In a checkout whose C sources have changed it is compiled once more, in a second or
two, and kept in the user's cache folder. Structures here have the members of those in ``engine.h``, in their order.
"""

import ctypes
import functools
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from biasfree.native import _build
from biasfree.native._compiling import announced

__all__ = ["FLOAT", "WHOLE", "address", "announced", "library", "room", "structure"]

FLOAT, WHOLE = np.dtype(np.float64), np.dtype(np.int64)  # what C takes arrays for
_BYTE = ctypes.c_char
_NOTHING = ctypes.create_string_buffer(8)  # stands for arrays without numbers


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library."""
    shipped = _build.HERE / _build.name()
    if shipped.exists():
        return ctypes.CDLL(str(shipped))
    with announced("the exact flow"):  # no time passes where it was built before
        return ctypes.CDLL(str(_build.build(_cache_folder())))


def _cache_folder() -> Path:
    """Where compiled code of this user is kept."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "biasfree"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "biasfree"


def address(array: np.ndarray, dtype: Any = FLOAT) -> int:
    """Where an array's numbers begin; it must be contiguous and of the type that C takes it for."""
    own = array.dtype
    if (own is not dtype and own != dtype) or not array.flags.c_contiguous:
        raise TypeError(f"need a contiguous array of {np.dtype(dtype)}, got {own} {array.shape} {array.strides}.")
    if not array.size:
        return ctypes.addressof(_NOTHING)
    try:
        return ctypes.addressof(_BYTE.from_buffer(array.data))  # a third of the time of what follows
    except (TypeError, ValueError):  # read-only
        return int(array.__array_interface__["data"][0])


def room(*sizes: int) -> tuple[np.ndarray, list[int]]:
    """One array with room for several, and where each of them begins; it must live for as long as C uses it."""
    whole = np.empty(sum(sizes))
    begin = address(whole)
    return whole, [begin + whole.itemsize * before for before in itertools.accumulate(sizes[:-1], initial=0)]


def structure(what: str, members: str, **last: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """A C structure from the names of its members, in order; p, i or d before some says that they are pointers, whole
    numbers or numbers. Members that are structures themselves come last.

    >>> structure("Interval", "d low high i parts").__name__
    'Interval'
    """
    types: dict[str, Any] = {"p": ctypes.c_void_p, "d": ctypes.c_double, "i": ctypes.c_int64}
    fields, kind = [], types["d"]
    for word in members.split():
        if word in types:
            kind = types[word]
        else:
            fields.append((word, kind))
    return type(what, (ctypes.Structure,), {"_fields_": [*fields, *last.items()]})
