"""What determines a run: its arguments by name, their kinds and defaults, those of data generators included."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from biasfree import checks, datasets
from biasfree.datasets import Dataset

Value = float | int | str | bool | None | tuple[Any, ...]
REQUIRED = "required"


class Argument(NamedTuple):
    """One argument: its kind (number, count, text, flag or other), default, and what axes of pictures call it."""

    kind: str
    default: Any
    label: str
    units: str = "1"


RUN: dict[str, Argument] = {
    "data": Argument("text", REQUIRED, "data set", ""),
    "target": Argument("text", None, "target column", ""),
    "data_seed": Argument("other", 0, "seed of the data"),
    "noise": Argument("number", 0.0, "noise on targets ε"),
    "symmetrised": Argument("flag", False, "(−x, −y) added"),
    "width": Argument("count", 100, "width"),
    "depth": Argument("count", 2, "depth"),
    "slope": Argument("number", 0.0, "slope α"),
    "init_scale": Argument("number", 1e-3, "initialisation scale γ"),
    "start": Argument("text", "init", "start", ""),
    "loss": Argument("text", "square", "loss", ""),
    "until": Argument("number", REQUIRED, "flow time", "1/η descent steps"),
    "stop": Argument("other", None, "stops at"),
    "method": Argument("text", "auto", "method", ""),
    "rtol": Argument("number", 1e-6, "relative tolerance"),
    "max_steps": Argument("count", None, "steps allowed"),
    "weight_decay": Argument("number", 0.0, "weight decay λ"),
    "clock": Argument("text", "time", "clock", ""),
    "learning_rate": Argument("number", None, "learning rate η"),
}
STARTS = ("init", "balanced", "rank_one")
_GENERATOR_LABELS = {
    "offset": "offset δ",
    "dim": "input dimension",
    "pairs": "pairs ±x",
    "samples": "samples",
    "margin": "margin",
}


_READERS = ("load", "read", "from_table", "as_dataset", "builtin")  # these need more than arguments


@functools.cache
def generators() -> dict[str, Callable[..., Dataset]]:
    """Every function of ``biasfree.datasets`` that makes a data set from its arguments alone."""
    functions = {}
    for name in datasets.__all__:
        function = getattr(datasets, name)
        makes = inspect.isfunction(function) and inspect.signature(function).return_annotation is Dataset
        if makes and name not in _READERS:
            functions[name] = function
    return functions


@functools.cache
def generator_arguments(name: str) -> dict[str, Argument]:
    """The arguments of a generator, but for its seed, which is ``data_seed`` here."""
    arguments = {}
    for key, parameter in inspect.signature(generators()[name]).parameters.items():
        if key == "seed":
            continue
        default = REQUIRED if parameter.default is inspect.Parameter.empty else parameter.default
        kinds = {bool: "flag", int: "count", float: "number", str: "text"}
        arguments[key] = Argument(kinds.get(type(default), "other"), default, _GENERATOR_LABELS.get(key, key))
    return arguments


def known_arguments(data: Sequence[Any]) -> dict[str, Argument]:
    """All arguments of runs on ``data``: generators' names, a file, or a Dataset."""
    known = dict(RUN)
    for name in filter(None, map(generator_name, data)):
        if known.get("target") == RUN["target"]:
            del known["target"]  # a column of a file; generators may have one of their own
        for key, argument in generator_arguments(name).items():
            # Two generators with different defaults: the plan must say.
            differ = key in known and known[key].default != argument.default
            known[key] = argument._replace(default=REQUIRED) if differ else argument
    return known


def generator_name(data: Any) -> str | None:
    """The generator that ``data`` names; None for a file or a Dataset."""
    if isinstance(data, Dataset) or (isinstance(data, str) and (Path(data).suffix or Path(data).exists())):
        return None
    if not isinstance(data, str):
        raise ValueError(f"data must be the name of a generator, a file or a Dataset, got {data!r}.")
    return checks.one_of(data.replace("-", "_"), generators(), "data set")


def normalised(name: str, value: Any, argument: Argument) -> Value:
    """``value`` as its kind wants it, so that 1 and 1.0 are the same run, or raise ValueError."""
    if isinstance(value, (list, tuple)):
        return tuple(normalised(name, each, Argument("other", None, "")) for each in value)
    if hasattr(value, "item"):
        value = value.item()
    if value is None:
        return None
    if argument.kind in ("number", "count"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{name} must be a number, got {value!r}.")
        number = float(value)
        if math.isnan(number):
            raise ValueError(f"{name} must be a number, got {value!r}.")
        if argument.kind == "number":
            return number
        if not number.is_integer():
            raise ValueError(f"{name} must be a whole number, got {value!r}.")
        return int(number)
    if argument.kind == "flag" and not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}.")
    if argument.kind == "text" and not isinstance(value, str):
        raise ValueError(f"{name} must be a word, got {value!r}.")
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"{name} must be a number, a word, true or false, got {value!r}.")
    return value


def complete(given: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> dict[str, Value]:
    """The arguments that every run shares, defaults filled in; those of ``axes`` are left out."""
    data = list(axes.get("data", [given["data"]] if "data" in given else []))
    if not data:
        raise ValueError("a run needs 'data': the name of a generator, a file, or (in Python) a Dataset.")
    known = known_arguments(data)
    for name in (*given, *axes):
        checks.one_of(name, known, "argument")
    shared: dict[str, Value] = {}
    for name, argument in known.items():
        if name in axes or (name == "data" and isinstance(data[0], Dataset)):
            continue
        if name in given:
            shared[name] = normalised(name, given[name], argument)
        elif argument.default == REQUIRED:
            raise ValueError(f"a run needs {name!r}: give it a value, or make it an axis.")
        else:
            shared[name] = argument.default
    return shared
