"""What a sweep is asked: a base, axes, seeds, and what to keep of each run."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from biasfree import checks, datasets
from biasfree.datasets import Dataset
from biasfree.sweeps import _arguments, _keys
from biasfree.sweeps._arguments import Argument
from biasfree.sweeps._case import Case
from biasfree.sweeps._plan_checks import check_own, check_shared, check_shown
from biasfree.sweeps._quantities import Quantity
from biasfree.sweeps._worker import Spec, check_names, quantities

LEVELS = 5
_SPACINGS = ("linear", "log")
_MOST_RUNS, _MOST_VALUES = 100_000_000, 1_000_000
_MOST_LEVELS = 12
_FAR = 5.0  # times as large


@dataclass(frozen=True)
class Range:
    """``count`` values from ``start`` to ``stop``, both included, evenly spaced or (``"log"``) in equal ratios.

    >>> Range(1e-3, 1e-1, 3, "log").values()
    (0.001, 0.01, 0.1)
    """

    start: float
    stop: float
    count: int
    spacing: str = "linear"

    def values(self) -> tuple[float, ...]:
        """The grid.

        Raises:
            ValueError: fewer than two values, an unknown spacing, or a log grid that is not above zero.
        """
        count = checks.count(self.count, "count", least=2)
        if count > _MOST_VALUES:
            raise ValueError(f"a range has at most {_MOST_VALUES:,} values, got count {self.count!r}.")
        start, stop = float(self.start), float(self.stop)
        if not (math.isfinite(start) and math.isfinite(stop)) or start == stop:
            raise ValueError(f"a range goes from one number to another, got {self.start!r} to {self.stop!r}.")
        if checks.one_of(self.spacing, _SPACINGS, "spacing") == "linear":
            grid = np.linspace(start, stop, count)
        elif min(start, stop) <= 0:
            raise ValueError(f"a log range needs ends above 0, got {self.start!r} to {self.stop!r}.")
        else:
            grid = np.geomspace(start, stop, count)
        # Twelve digits: 0.3 and not 0.30000000000000004, and the same key for the same value typed by hand.
        return tuple(float(f"{value:.12g}") for value in grid)


class Axis(NamedTuple):
    """One axis: its values, how they are spaced, and what the argument is."""

    values: tuple[Any, ...]
    spacing: str
    argument: Argument

    @property
    def numeric(self) -> bool:
        """Whether there is something between two values."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.values)


@dataclass(frozen=True)
class Plan:
    """A sweep, checked.

    Attributes:
        shared: arguments that all runs share, defaults filled in.
        axes: by name, in the order asked.
        seeds: of the weights.
        keep: quantities by name, or functions of a run.
        function: a user's own run.
        data: what runs are on, if no generator makes it.
        refine: the quantity whose boundary is refined, or None.
        levels: how often a grid cell may be halved.
        title: of pictures and files.
        plot: what ``plot`` shows by default.
    """

    shared: Mapping[str, Any]
    axes: Mapping[str, Axis]
    seeds: tuple[int, ...]
    keep: tuple[str | Callable[..., Any], ...]
    function: Callable[..., Any] | None = None
    data: Dataset | None = None
    refine: str | None = None
    levels: int = LEVELS
    title: str = ""
    plot: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        run: Mapping[str, Any] | Callable[..., Any],
        axes: Mapping[str, Any],
        keep: Iterable[str | Callable[..., Any]] = (),
        seeds: int | Iterable[int] = 1,
        *,
        refine: str | None = None,
        levels: int = LEVELS,
        title: str = "",
        plot: Mapping[str, Any] | None = None,
    ) -> "Plan":
        """Check everything that can be checked before a run.

        Raises:
            ValueError: the first thing that is wrong.
        """
        if not isinstance(axes, Mapping):
            raise ValueError(f"axes are values by name, e.g. {{'width': [30, 100, 300]}}, got {axes!r}.")
        if not axes:
            raise ValueError("a sweep needs at least one axis, e.g. {'width': [30, 100, 300]}.")
        grids = {name: _grid(name, values) for name, values in axes.items()}
        chosen = (keep,) if isinstance(keep, str) or callable(keep) else tuple(keep)
        own = run if callable(run) else None
        data = None
        if own is not None:
            shared: dict[str, Any] = {}
            known = {name: Argument("other", None, name) for name in axes}
            check_own(own, axes, chosen)
        else:
            assert isinstance(run, Mapping)
            shared = _arguments.complete(run, {name: grid[0] for name, grid in grids.items()})
            check_shared(shared)
            data = _data(run, axes)
            _check_generated(shared, data)
            known = _arguments.known_arguments(grids["data"][0] if "data" in grids else [run["data"]])
            if not chosen:
                raise ValueError("a sweep needs something to keep of each run, e.g. keep = ['final_loss'].")
        names = quantities(chosen)
        if len(names) < len(chosen):
            raise ValueError(f"keep names a quantity twice: {', '.join(map(str, chosen))}.")
        check_names(names, axes)
        if own is None:
            check_shown(refine, plot or {}, names)
        checked = {name: _axis(name, *grid, known[name]) for name, grid in grids.items()}
        if "seed" in checked:
            raise ValueError("seeds are no axis; set seeds instead.")
        halvings = checks.count(levels, "levels")
        if halvings > _MOST_LEVELS:
            raise ValueError(f"levels may be at most {_MOST_LEVELS}, 1/{2**_MOST_LEVELS} of a cell, got {levels!r}.")
        plan = cls(shared, checked, _seeds(seeds), chosen, own, data, refine, halvings, title, dict(plot or {}))
        if plan.runs > _MOST_RUNS:
            raise ValueError(f"this sweep has {plan.runs:,} runs; at most {_MOST_RUNS:,} are planned at once.")
        if refine is not None and not any(axis.numeric and len(axis.values) > 1 for axis in checked.values()):
            raise ValueError("refine needs an axis of at least two numbers.")
        return plan

    @property
    def runs(self) -> int:
        """Number of runs of the grid, refinement not counted."""
        return math.prod(len(axis.values) for axis in self.axes.values()) * len(self.seeds)

    @property
    def quantities(self) -> dict[str, Quantity]:
        """What is kept, by name."""
        return quantities(self.keep)

    def spec(self, fine: Sequence[Sequence[Any]]) -> Spec:
        """What workers need; ``fine`` are the values that runs may have along each axis."""
        data = None if self.data is None else (self.data.inputs, self.data.targets, self.data.name)
        return Spec(
            self.shared, dict(zip(self.axes, fine, strict=True)), self.keep, self.function, data, _keys.numerics()
        )

    def shared_word(self) -> np.ndarray:
        """The part of the keys that all runs have in common."""
        # Data that were given count by their bytes, whatever their file is called.
        named = () if self.data is None else ("data", "target")
        shared = {name: value for name, value in self.shared.items() if name not in named}
        word = _keys.shared_word(shared, self.data, self.function)
        for each in self.keep:
            if callable(each):
                word = word ^ _keys.word("kept function", _keys.function_digest(each))
        return word

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return {
            "title": self.title,
            "run": dict(self.shared) if self.function is None else self.function.__name__,
            "data": None if self.data is None else {"name": self.data.name, "bytes": _keys.data_digest(self.data)},
            "axes": {name: {"values": list(axis.values), "spacing": axis.spacing} for name, axis in self.axes.items()},
            "seeds": list(self.seeds),
            "keep": [each if isinstance(each, str) else each.__name__ for each in self.keep],
            "refine": self.refine,
            "levels": self.levels if self.refine else None,
            "plot": dict(self.plot),
        }


def _grid(name: str, values: Any) -> tuple[tuple[Any, ...], str | None]:
    if isinstance(values, Range):
        try:
            return values.values(), values.spacing
        except ValueError as error:
            raise ValueError(f"axis {name!r}: {error}") from error
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"axis {name!r} must be a list of values or a range, got {values!r}.")
    grid = tuple(value.item() if hasattr(value, "item") else value for value in values)
    if not grid:
        raise ValueError(f"axis {name!r} has no values.")
    return grid, None


def _axis(name: str, values: Sequence[Any], spacing: str | None, argument: Argument) -> Axis:
    if spacing is not None and argument.kind == "count":
        values = [round(value) for value in values]  # a range of widths
    checked = tuple(_arguments.normalised(name, value, argument) for value in values)
    if len(set(checked)) < len(checked):
        raise ValueError(f"axis {name!r} has a value twice: {', '.join(map(str, checked))}.")
    axis = Axis(checked, spacing or "linear", argument)
    return axis._replace(spacing=_guessed(checked)) if spacing is None and axis.numeric else axis


def _guessed(values: Sequence[Any]) -> str:
    """Of a list: log if its ratios are more alike than its differences; of two values, if they are far apart."""
    if len(values) < 2 or min(values) <= 0 or math.inf in values:
        return "linear"
    if len(values) == 2:
        return "log" if max(values) >= _FAR * min(values) else "linear"
    spread = [np.std(steps) / abs(np.mean(steps)) for steps in (np.diff(np.log(values)), np.diff(values))]
    return "log" if spread[0] < spread[1] else "linear"


def _seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    if isinstance(seeds, Iterable) and not isinstance(seeds, (str, bytes)):
        numbers = tuple(checks.count(seed, "each of seeds", least=0) for seed in seeds)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"seeds must be different whole numbers, got {list(numbers)}.")
        return numbers
    number = checks.count(seeds, "seeds")  # type: ignore[arg-type]
    if number > _MOST_VALUES:
        raise ValueError(f"seeds may be at most {_MOST_VALUES:,}, got {seeds!r}.")
    return tuple(range(number))


def _check_generated(shared: Mapping[str, Any], given: Dataset | None) -> None:
    """Make data that all runs share once, so that a wrong argument is found before the first run."""
    if given is not None or "data" not in shared:
        return
    needed = (*_arguments.generator_arguments(str(_arguments.generator_name(shared["data"]))), "data_seed")
    if all(name in shared for name in (*needed, "noise", "symmetrised")):
        try:
            _ = Case(shared, seed=0).dataset
        except MemoryError as error:
            raise ValueError("data of this size do not fit into memory; make fewer or smaller ones.") from error


def _data(run: Mapping[str, Any], axes: Mapping[str, Any]) -> Dataset | None:
    """Data that no generator makes: read here, so that workers need no file."""
    if "data" in axes:
        if any(_arguments.generator_name(name) is None for name in axes["data"]):
            raise ValueError("an axis of data sets must name generators; sweep over files one by one.")
        return None
    given = run["data"]
    if isinstance(given, Dataset):
        return given
    if _arguments.generator_name(given) is not None:
        return None
    if "target" in axes:
        raise ValueError("target, the column of a file, cannot be an axis; sweep over columns one by one.")
    return datasets.load(given, run.get("target"))
