"""The part of biasfree that is written in C: steps and events of the exact flow (``*.c`` beside this file).

A wheel brings the library along. In a checkout whose C sources have changed it is compiled once more, in a second or
two, and kept in the user's cache folder. Structures here have the members of those in ``engine.h``, in their order.
"""

import ctypes
import functools
import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from biasfree.native import _build
from biasfree.native._compiling import announced

__all__ = ["FLOAT", "WHOLE", "address", "announced", "library", "room", "structure"]

FLOAT, WHOLE = np.dtype(np.float64), np.dtype(np.int64)  # what C takes arrays for
_BYTE = ctypes.c_char
_TYPES: dict[str, Any] = {"p": ctypes.c_void_p, "d": ctypes.c_double, "i": ctypes.c_int64}
# Every exported function, without its prefix, by what it gives back: nothing, a whole number or a number; its arguments
# are pointers, whole numbers and numbers (``tests/test_both_languages.py`` compares all this with the C sources).
_FUNCTIONS = {
    None: (
        "alike(pppiiddiip) alone(pppppppppppp) along(ippppiipipp) attempt(iidddppppppppp) bend(ipppppppp) chain(p) "
        "collocate(dpppppp) deep_sizes(pipppp) deep_stages(pppdppippp) deep_velocity(ppppp) follow(pidppppppp) "
        "grouped(ippidpppp) levels(ipiipppp) light_paces(pppppp) march(ppppppppppppp) modes(pp) pace_free(pd) "
        "pace_met_event(pd) pace_went_short(pi) phis(ipip) places(ipdpppp) propagated(ipippdiipp) pull_parts(ppp) "
        "pull_place(ppppppippp) pull_remaining(ppppp) pulls(ippppppp) pulls_of(ipiipppppppp) "
        "restored(ipiippppiip) solve(ppi) speeds(ippppppp) tables(p) travel(pppppppppppp) turn(pppii) "
        "wide_levels(ppipp) wide_velocity(ppipppp)"
    ),
    ctypes.c_int64: (
        "arcs(ppppppp) eigen(ippp) grid(ppppppppip) jacobian(ppppp) kicks(pppppppp) leans(ppp) leave_zero(pppi) "
        "pace_method(pp) parted(ppidp) quiet(ipdppdppp) real(pdidpppp) scan(pdddppdpp)"
    ),
    ctypes.c_double: (
        "deep_error(iippppppdd) deep_level(ppp) first_zero(ppiidppppp) keep_balance(pppp) "
        "moving(pppppp) pace_longest(pi) pace_step(pi)"
    ),
}
_NOTHING = ctypes.create_string_buffer(8)  # stands for arrays without numbers


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, its functions typed."""
    loaded = ctypes.CDLL(str(_file()))
    for gives, listed in _FUNCTIONS.items():
        for name, arguments in re.findall(r"(\w+)\((\w*)\)", listed):
            function = getattr(loaded, f"biasfree_{name}")
            function.argtypes, function.restype = [_TYPES[each] for each in arguments], gives
    return loaded


def _file() -> Path:
    """The library that a wheel brought, or one that is built here."""
    shipped = _build.HERE / _build.name()
    if shipped.exists():
        return shipped
    with announced("the exact flow"):  # no time passes where it was built before
        return _build.build(_cache_folder())


def _cache_folder() -> Path:
    """Where compiled code of this user is kept."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "biasfree"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "biasfree"


def address(array: np.ndarray, dtype: Any = FLOAT) -> int:
    """Where an array's numbers begin; it must be contiguous and of the type that C takes it for."""
    own = array.dtype
    if own is dtype or own == dtype:
        try:
            # Refuses what is not contiguous, empty or read-only. (An array is a buffer; its types do not say so.)
            return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            if array.flags.c_contiguous:
                return int(array.__array_interface__["data"][0]) if array.size else ctypes.addressof(_NOTHING)
    raise TypeError(f"need a contiguous array of {np.dtype(dtype)}, got {own} {array.shape} {array.strides}.")


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
    fields, kind = [], _TYPES["d"]
    for word in members.split():
        if word in _TYPES:
            kind = _TYPES[word]
        else:
            fields.append((word, kind))
    return type(what, (ctypes.Structure,), {"_fields_": [*fields, *last.items()]})
