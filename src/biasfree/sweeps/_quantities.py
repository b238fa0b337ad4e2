"""What is kept of a run: named quantities, any scalar of ``measure``, ``theory``, ``plateaus`` or ``diagnose``, or a
Python function of the run.

Names without a dot are in ``REGISTRY``. ``measure.linearity.error`` calls ``measure.linearity`` with what the run has
under the names of its parameters (``network`` is the trained one for ``measure`` and the start for ``theory``) and
takes ``error`` of the result; ``plateaus.…`` and ``diagnose.…`` likewise call ``bf.plateaus`` of the trajectory and
``bf.diagnose`` of the data, one start and no simulation. A number picks an element, from 0 (``plateaus.1.end``), and
``count`` is their number.
"""

import dataclasses
import functools
import inspect
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from biasfree import checks, measure, theory
from biasfree.datasets import Dataset
from biasfree.sweeps._case import Case, trained

Scalar = float | str


class Quantity(NamedTuple):
    """What is kept of a run.

    Attributes:
        of: the function of a run; a number, True or False, or a word.
        label: long name.
        units: "1" for pure numbers.
        kind: "number", "share" (true or false, kept as 1 and 0) or "text".
        predicted_by: the quantity that theory has for it.
    """

    of: Callable[[Case], Any]
    label: str
    units: str = "1"
    kind: str = "number"
    predicted_by: str | None = None


_TIME = "flow time, 1/η descent steps"


def _departure_time(case: Case) -> float:
    """When the loss leaves the linear solution's plateau; infinite if it has not by the end of the run."""
    level, run = case.departure_level, case.run
    if level == 0 or run.losses[-1] > level * (1 + 1e-9):
        return math.inf
    # A run that was to stop there ends there.
    return float(run.times[-1]) if case.stop == level else run.time_of_loss(level)


def _escape_time(case: Case) -> float:
    """When the loss is half way from its start to the linear solution's."""
    level = 0.5 * (float(case.run.losses[0]) + case.linear_loss)
    return case.run.time_of_loss(level) if case.run.losses[-1] <= level else math.inf


def _predicted_escape_time(case: Case) -> float:
    # y/2 stands for y in the first moments of the logistic loss.
    share = {"square": 1.0, "logistic": 0.5, "exponential": 1.0}[case.arguments["loss"]]
    rate = 0.5 * (1 + case.arguments["slope"]) * share * float(np.linalg.norm(case.dataset.correlation))
    return theory.escape_time(case.arguments["init_scale"], rate - case.arguments["weight_decay"])


def _predicted_departure(case: Case) -> float:
    names = ("slope", "loss", "init_scale", "weight_decay", "width")
    return _departure_law(case.dataset, *(case.arguments[name] for name in names))


@functools.lru_cache(maxsize=64)
def _departure_law(data: Dataset, slope: float, loss: str, init_scale: float, weight_decay: float, width: int) -> float:
    return float(theory.departure(data, slope, loss, init_scale, weight_decay=weight_decay, width=width).time)


@functools.lru_cache(maxsize=64)
def _threshold(data: Dataset, slope: float, loss: str) -> float:
    return theory.departure_threshold(data, slope, loss)


def _twin_error(case: Case) -> float:
    return case.remembered("weight error", _compared_with_twin)


def _compared_with_twin(case: Case) -> float:
    """Eq. 5 at the end: ‖√a W(t) − W_lin(at)‖/‖W_lin(at)‖."""
    run, slope = case.run, case.arguments["slope"]
    factor = 0.5 * (1 + slope)
    arguments = dict(case.arguments) | {
        "until": float(run.times[-1]) * factor,
        "weight_decay": theory.linear_weight_decay(case.arguments["weight_decay"], slope),
    }
    twin = trained(theory.linear_twin(case.network), case.dataset, arguments, None)
    if not twin.status.complete:
        raise ValueError(f"the linear twin's run: {twin.status.message}")
    pairs = list(zip(run.final.weights, twin.final.weights, strict=True))
    apart = sum(float(np.sum((math.sqrt(factor) * np.asarray(w) - np.asarray(v)) ** 2)) for w, v in pairs)
    return math.sqrt(apart / sum(float(np.sum(np.asarray(v) ** 2)) for _, v in pairs))


REGISTRY: dict[str, Quantity] = {
    "final_loss": Quantity(lambda c: c.run.losses[-1], "loss at the end", predicted_by="best_possible_loss"),
    "final_time": Quantity(lambda c: c.run.times[-1], "time of the end", _TIME),
    "status": Quantity(lambda c: c.attempt.status.name, "how the run ended", "", "text"),
    "linear_loss": Quantity(lambda c: c.linear_loss, "loss of the linear solution"),
    "best_possible_loss": Quantity(lambda c: c.best_loss, "least loss of any width"),
    "loss_excess": Quantity(lambda c: c.run.losses[-1] / c.linear_loss, "loss at the end ÷ the linear solution's"),
    "departure_time": Quantity(
        _departure_time, "time of leaving the linear plateau", _TIME, predicted_by="predicted_departure_time"
    ),
    "leaves": Quantity(
        lambda c: c.departure_level > 0 and c.run.losses[-1] <= c.departure_level * (1 + 1e-9),
        "leaves the linear plateau", kind="share", predicted_by="predicted_departure_time",
    ),
    "predicted_departure_time": Quantity(_predicted_departure, "departure time predicted without simulation", _TIME),
    "decay_to_spare": Quantity(
        lambda c: _threshold(c.dataset, c.arguments["slope"], c.arguments["loss"]) - c.arguments["weight_decay"],
        "predicted threshold of weight decay − λ",
    ),
    "escape_time": Quantity(
        _escape_time, "time at which half of the linear solution is learned", _TIME,
        predicted_by="predicted_escape_time",
    ),
    "predicted_escape_time": Quantity(_predicted_escape_time, "ln(1/γ)/(as), the escape time to leading order", _TIME),
    "weight_error": Quantity(_twin_error, "weight error of Theorem 5 (Eq. 5)", predicted_by="predicted_weight_error"),
    "predicted_weight_error": Quantity(
        lambda c: theory.finite_width_error(c.network, c.dataset), "|ε|/2, its prediction from the start"
    ),
    "weight_error_ratio": Quantity(
        lambda c: _twin_error(c) / theory.finite_width_error(c.network, c.dataset), "weight error ÷ its prediction"
    ),
    "linearity_error": Quantity(
        lambda c: measure.linearity(c.run.final, c.dataset.inputs).error, "share of the output that is not linear"
    ),
    "verdict": Quantity(lambda c: _diagnosis(c).verdict, "verdict of diagnose", "", "text"),
}  # fmt: skip


def quantity(name: str) -> Quantity:
    """A quantity by its name.

    Raises:
        ValueError: no such name, function or attribute, or one that needs what no run has.
    """
    if "." not in name:
        return REGISTRY[checks.one_of(name, REGISTRY, "quantity")]
    head, *rest = name.split(".")
    checks.one_of(head, ("measure", "theory", "plateaus", "diagnose"), "kind of quantity")
    called = 2 if head in ("measure", "theory") else 1
    path = ".".join([head, *rest][:called])
    function, attributes = _public(path), rest[called - 1 :]
    kind = _kind(function, attributes, name)
    if head == "diagnose":
        return Quantity(lambda case: _scalar(_diagnosis(case), attributes, name), name, kind=kind)
    names = _fillable(function, path)

    def of(case: Case) -> Any:
        context = _context(case, trained_network=head == "measure")
        return _scalar(function(**{each: context[each]() for each in names}), attributes, name)

    return Quantity(of, name, kind=kind)


def of_function(function: Callable[[Case], Any]) -> Quantity:
    """A quantity that a user wrote: a function of a run that returns a number, a word, true or false."""
    text = (inspect.getdoc(function) or function.__name__).splitlines()[0].rstrip(".")
    returned = typing.get_type_hints(function).get("return")
    return Quantity(function, text, kind={str: "text", bool: "share"}.get(typing.cast(Any, returned), "number"))


def _public(path: str) -> Any:
    """A function by its public name, e.g. ``theory.best_possible_loss``."""
    import biasfree

    home, _, name = path.rpartition(".")
    module = getattr(biasfree, home) if home else biasfree
    if home and name not in module.__all__:
        checks.one_of(name, [each for each in module.__all__ if each[0].islower()], f"function of {home}")
    function = getattr(module, name, None)
    if function is None or not callable(function):
        raise ValueError(f"this version of biasfree has no {path}.")
    return function


def _context(case: Case, trained_network: bool) -> dict[str, Callable[[], Any]]:
    """What functions may ask for by the names of their parameters."""
    known: dict[str, Callable[[], Any]] = {
        "dataset": lambda: case.dataset,
        "inputs": lambda: case.dataset.inputs,
        "network": lambda: case.run.final if trained_network else case.network,
        "trajectory": lambda: case.run,
        "run": lambda: case.run,
        "seed": lambda: case.seed,
    }
    for name, value in case.arguments.items():
        known.setdefault(name, lambda value=value: value)  # type: ignore[misc]
    return known


_OFFERED = (
    "dataset", "inputs", "network", "trajectory", "run", "seed", "loss", "slope", "depth", "width", "init_scale",
    "weight_decay",
)  # fmt: skip


def _fillable(function: Any, path: str) -> list[str]:
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in _OFFERED:
            names.append(name)
        elif parameter.default is inspect.Parameter.empty:
            raise ValueError(
                f"{path} needs {name!r}, which no run has; keep it by a Python function in bf.sweep instead."
            )
    return names


def _kind(function: Any, attributes: Sequence[str], name: str) -> str:
    """Whether a number or a word is kept, from annotations; also finds attributes that are not there."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return "number"
    for attribute in attributes:
        if not isinstance(returned, type) or attribute == "count":
            return "number"
        if attribute.isdigit():
            returned = typing.get_type_hints(getattr(returned, "__getitem__", len)).get("return")
            continue
        if not (hasattr(returned, attribute) or attribute in getattr(returned, "__annotations__", {})):
            fields = [f.name for f in dataclasses.fields(returned)] if dataclasses.is_dataclass(returned) else []
            raise ValueError(f"{name}: {returned.__name__} has no {attribute!r}. It has: {', '.join(sorted(fields))}.")
        member = getattr(returned, attribute, None)
        try:
            if isinstance(member, property):
                returned = typing.get_type_hints(member.fget).get("return")
            elif inspect.isfunction(member):
                returned = typing.get_type_hints(member).get("return")
            else:
                returned = typing.get_type_hints(returned).get(attribute)
        except (NameError, TypeError):
            return "number"
    return {str: "text", bool: "share"}.get(typing.cast(Any, returned), "number")


def _scalar(value: Any, attributes: Sequence[str], name: str) -> Any:
    for attribute in attributes:
        if attribute.isdigit():  # a run may have fewer of them
            value = value[int(attribute)] if int(attribute) < len(value) else None
        elif attribute == "count" and hasattr(value, "__len__"):
            value = len(value)
        else:
            value = None if value is None else getattr(value, attribute)
        if inspect.ismethod(value):
            value = value()
    if value is None:
        return math.nan
    if isinstance(value, (str, bool, int, float, np.generic)) or np.ndim(value) == 0:
        return value
    raise ValueError(f"{name} is an array of shape {np.shape(value)}; a sweep keeps single numbers and words.")


def _diagnosis(case: Case) -> Any:
    arguments = case.arguments
    return _diagnosed(
        case.dataset, arguments["loss"], arguments["slope"], arguments["width"], arguments["depth"],
        arguments["init_scale"],
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _diagnosed(dataset: Any, loss: str, slope: float, width: int, depth: int, init_scale: float) -> Any:
    return _public("diagnose")(dataset, loss, slope, width, depth, init_scale, seeds=1, simulate=False)


def converted(value: Any, kind: str, name: str) -> Scalar:
    """A kept value as it is stored: float, or str for text.

    Raises:
        ValueError: a value of another kind.
    """
    if kind == "text":
        return str(value)
    if isinstance(value, str) or np.ndim(value) != 0:
        raise ValueError(f"{name} must be a single number, got {value!r}.")
    return float(value)
