"""Checks of a plan before its first run."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from biasfree import checks, losses
from biasfree.dynamics import METHODS, Stop
from biasfree.sweeps._arguments import STARTS
from biasfree.sweeps._worker import takes_seed


def check_shared(shared: Mapping[str, Any]) -> None:
    """What no run could use is the end of the sweep; along an axis it would be a failed cell.

    Raises:
        ValueError: the first value that is wrong.
    """
    for name, rule in _RULES.items():
        if shared.get(name) is not None:
            rule(shared[name])


def _until(value: float) -> None:
    if value != math.inf:
        checks.positive(value, "until", remedy="It is the flow time to reach.")


def _stop(value: Any) -> None:
    if isinstance(value, str):
        checks.one_of(value, ("converged", "departure"), "stop rule")
    else:
        Stop.of(value)


def _data_seed(value: Any) -> None:
    if value != "run":
        checks.count(value, "data_seed", least=0)


_RULES: dict[str, Callable[[Any], object]] = {
    "width": lambda value: checks.count(value, "width"),
    "depth": lambda value: checks.count(value, "depth"),
    "slope": checks.slope,
    "init_scale": lambda value: checks.positive(value, "init_scale"),
    "start": lambda value: checks.one_of(value, STARTS, "start"),
    "loss": losses.get,
    "until": _until,
    "stop": _stop,
    "method": lambda value: checks.one_of(value, METHODS, "method"),
    "rtol": lambda value: checks.positive(value, "rtol"),
    "weight_decay": lambda value: checks.non_negative(value, "weight_decay"),
    "noise": lambda value: checks.non_negative(value, "noise"),
    "clock": lambda value: checks.one_of(value, ("time", "loss"), "clock"),
    "learning_rate": lambda value: checks.positive(value, "learning_rate"),
    "data_seed": _data_seed,
}


def check_shown(refine: str | None, plot: Mapping[str, Any], names: Iterable[str]) -> None:
    """What is refined and what pictures show must be kept."""
    if refine is not None:
        checks.one_of(refine, names, "kept quantity to refine")
    for key, value in plot.items():
        checks.one_of(key, ("show", "curves", "boundary"), "entry of plot")
        if not isinstance(value, list):
            raise ValueError(f"{key} of plot must be a list, got {value!r}.")
        for each in value:
            if key == "boundary" and not (isinstance(each, Mapping) and {"quantity", "level"} <= set(each)):
                raise ValueError(f"a boundary is {{ quantity = name, level = number, label = text }}, got {each!r}.")
            checks.one_of(each["quantity"] if key == "boundary" else each, names, "kept quantity to show")
            if key == "boundary" and (isinstance(each["level"], bool) or not isinstance(each["level"], (int, float))):
                raise ValueError(f"the level of a boundary must be a number, got {each['level']!r}.")


def check_own(function: Callable[..., Any], axes: Mapping[str, Any], keep: Sequence[Any]) -> None:
    """A user's run must take the axes and return what is kept."""
    if keep:
        raise ValueError("a run that is your own function returns what is kept; leave keep out.")
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in axes:
        checks.one_of(name, [each for each in parameters if each != "seed"], f"argument of {function.__name__}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in axes and not (name == "seed" and takes_seed(function)):
            raise ValueError(f"{function.__name__} needs {name!r}: make it an axis, or give it a default.")
