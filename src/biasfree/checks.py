"""Bad input gets one sentence: the rule, the value received, the way out."""

import difflib
import importlib.util
import math
from collections.abc import Iterable
from typing import Any

import numpy as np


def positive(value: float, what: str, *, remedy: str = "") -> float:
    """Return ``value`` as a float, or raise ValueError unless it is a finite number above zero."""
    number = _number(value, what)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be a finite number above 0, got {value!r}.{_then(remedy)}")
    return number


def non_negative(value: float, what: str) -> float:
    """Return ``value`` as a float, or raise ValueError unless it is a finite number of at least zero."""
    number = _number(value, what)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{what} must be a finite number of at least 0, got {value!r}.")
    return number


def count(value: int, what: str, *, least: int = 1) -> int:
    """Return ``value`` as an int, or raise ValueError unless it is a whole number of at least ``least``."""
    number = _number(value, what)
    if not (math.isfinite(number) and number == int(number) and number >= least):
        raise ValueError(f"{what} must be a whole number of at least {least}, got {value!r}.")
    return int(number)


def slope(value: float) -> float:
    """Return the slope α as a float, or raise ValueError unless it lies in [0, 1]."""
    number = _number(value, "slope")
    if not 0 <= number <= 1:
        raise ValueError(
            f"slope must lie in [0, 1], got {value!r}. Use 0 for ReLU, 1 for a linear network, "
            "anything between for leaky ReLU."
        )
    return number


def seed(value: Any) -> int | np.random.Generator:
    """Return the seed, or raise ValueError unless it is a whole number or a numpy Generator."""
    if isinstance(value, np.random.Generator):
        return value
    return count(value, "seed", least=0)


def seed_name(value: int | np.random.Generator) -> int | str:
    """What a result's origin says of a seed."""
    return "a numpy Generator" if isinstance(value, np.random.Generator) else int(value)


def installed(*packages: str, extra: str, what: str, remedy: str = "") -> None:
    """Raise ValueError that says what to install if one of the packages of an optional extra is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f"{what} needs {' and '.join(missing)}, which {verb} not installed. "
            f"Install: pip install 'biasfree[{extra}]'.{_then(remedy)}"
        )


def one_of(value: str, options: Iterable[str], what: str) -> str:
    """Return ``value`` if it is among ``options``, or raise ValueError that suggests the nearest."""
    known = sorted(options)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown {what} {value!r}.{hint} Known: {', '.join(known)}.")


def callback(value: Any) -> None:
    """Raise ValueError unless ``value``, a progress callback, can be called or is None."""
    if value is not None and not callable(value):
        raise ValueError(f"progress must be a function of a Progress, got {value!r}.")


def finite(array: np.ndarray, what: str) -> np.ndarray:
    """Return ``array``, or raise ValueError that says where it is not finite."""
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{what} must be finite, but {int(bad.sum())} of {array.size} entries are not "
            f"(the first is {array[first]} at {list(first)}). Remove or replace these entries."
        )
    return array


def numeric(array: Any, what: str) -> np.ndarray:
    """Return a copy of ``array`` as float64, row by row, or raise ValueError when its entries are not numbers."""
    try:
        raw = np.asarray(array)
        if raw.dtype.kind not in "biuf":
            raise TypeError(raw.dtype)
        return np.array(raw, dtype=np.float64, order="C")  # C takes no other order, as of a transposed matrix
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be an array of real numbers, got {_shown(array)}.") from error


def flow_times(times: Any) -> np.ndarray:
    """Return ``times`` as float64 of any shape, or raise ValueError unless all are at least 0; infinity is allowed."""
    array = numeric(times, "times")
    if not (array >= 0).all():
        raise ValueError(f"times must be at least 0, got {array[~(array >= 0)].flat[0]}.")
    return array


def _number(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes, bool)) or value is None:
        raise ValueError(f"{what} must be a number, got {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} must be a number, got {_shown(value)}.") from error


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _then(remedy: str) -> str:
    return f" {remedy}" if remedy else ""
