"""A view: everything that a picture of the explorer depends on, checked, and turned into data, network and run.

The page sends a view as a JSON object with any of the fields below; what is left out has the default stated here. The
same names stand in the page's address.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from biasfree import checks, datasets
from biasfree.datasets import Dataset

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory
    from biasfree.networks import Network

# Sets by name: what makes each, and which fields of a view it takes.
GENERATORS: dict[str, tuple[Callable[..., Dataset], tuple[str, ...]]] = {
    "six-points": (datasets.six_points, ("offset",)),
    "orthogonal-pair": (datasets.orthogonal_pair, ()),
    "xor": (datasets.xor, ()),
    "depth-separation": (datasets.depth_separation, ("pairs", "data_seed")),
    "separable": (datasets.separable, ("dim", "data_seed")),
    "symmetric-gaussian": (datasets.symmetric_gaussian, ("dim", "pairs", "whiten", "data_seed")),
    "linear-plus-sine": (datasets.symmetric_gaussian, ("dim", "pairs", "whiten", "data_seed")),
    "digits": (datasets.digits, ()),
}
OWN = ("points", "file")  # placed by hand or dropped on the page; the file that the server was started with
LOSSES, METHODS, DEPTHS = ("square", "logistic", "exponential"), ("flow", "descent"), (2, 3)
# What one page may ask of the machine. Products are of samples and neurons.
LARGEST = {
    "samples": 4000, "dim": 100, "width": 1000, "deep_width": 200, "product": 2_000_000, "steps": 10_000_000,
    "until": 1e9, "slopes": 6, "target": 1e6, "seed": 2**31 - 1,
}  # fmt: skip
SMALLEST_SCALE, LARGEST_SCALE = 1e-100, 10.0
RTOLS = (1e-3, 1e-4, 1e-6, 1e-8)


@dataclass(frozen=True)
class View:
    """What a page requests; see ``docs/explorer.md`` for the words that the page uses.

    Attributes:
        data: a name of ``GENERATORS``, "points" or "file".
        offset, dim, pairs, whiten, data_seed: arguments of the generator; None for its own default.
        inputs, targets, name: the samples of "points".
        mirrored: add (−x, −y) for every sample.
        ones: stack a one on every input.
        width, slope, depth, scale, seed: of ``Network.init``.
        loss, weight_decay, until, rtol: of the flow.
        method: "flow", or "descent" with its ``rate``.
        slopes: other slopes whose loss is to be drawn beside.
    """

    data: str = "six-points"
    offset: float | None = None
    dim: int | None = None
    pairs: int | None = None
    whiten: bool = False
    data_seed: int = 0
    inputs: tuple[tuple[float, ...], ...] = ()
    targets: tuple[float, ...] = ()
    name: str = "points"
    mirrored: bool = False
    ones: bool = False
    width: int = 100
    slope: float = 0.0
    depth: int = 2
    scale: float = 1e-3
    seed: int = 0
    loss: str = "square"
    weight_decay: float = 0.0
    method: str = "flow"
    rate: float = 0.01
    until: float = 1000.0
    rtol: float = 1e-6
    slopes: tuple[float, ...] = ()

    @classmethod
    def of(cls, fields: Any) -> "View":
        """From JSON.

        Raises:
            ValueError: one sentence on the first thing that is wrong.
        """
        if not isinstance(fields, Mapping):
            raise ValueError(f"a view must be a JSON object, got {_kind(fields)}.")
        for name in fields:
            checks.one_of(name, _CHECKS, "field of a view")
        return cls(**{name: _CHECKS[name](value) for name, value in fields.items()})

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as JSON can hold it; two views that are equal have equal dictionaries."""
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                changed[field.name] = _listed(value)
        return changed

    def plain_data(self, file: Dataset | None = None) -> Dataset:
        """The samples before anything is mirrored or stacked."""
        if self.data == "file":
            if file is None:
                raise ValueError("the server was started without a data file. Start it with `biasfree explore FILE`.")
            return file
        if self.data == "points":
            if not self.inputs:
                raise ValueError("there are no points yet. Place one on the canvas, or choose a data set.")
            return Dataset(self.inputs, self.targets, self.name)
        make, takes = GENERATORS[self.data]
        return make(**self.arguments(takes))

    def arguments(self, takes: tuple[str, ...]) -> dict[str, Any]:
        """What a generator is called with: what was asked for, and the seed of random sets always."""
        given: dict[str, Any] = {}
        for name in takes:
            value = getattr(self, name)
            if name == "data_seed":
                given["seed"] = value
            elif value is not None and not (name == "whiten" and not value):
                given[name] = value
        if self.data == "linear-plus-sine":
            given["target"] = "linear_plus_sine"
        if self.data == "digits":  # two of them: the explorer shows networks of one output
            given["classes"] = (0, 1)
        return given

    def dataset(self, file: Dataset | None = None) -> Dataset:
        """The samples that are trained on, within the limits.

        Raises:
            ValueError: several outputs, or more samples, dimensions or neurons than one page may ask for.
        """
        self._small_enough_to_make()
        data = self.plain_data(file)
        if data.outputs != 1:
            raise ValueError(f"the explorer shows networks of one output, but {data.name} has {data.outputs}.")
        if self.mirrored:
            data = data.symmetrised()
        if self.ones:
            data = data.with_ones()
        _at_most(data.samples, LARGEST["samples"], "samples")
        _at_most(data.dim, LARGEST["dim"], "input dimensions")
        if data.samples * self.width > LARGEST["product"]:
            raise ValueError(
                f"samples × neurons may be at most {LARGEST['product']:,} here, got {data.samples} × {self.width}. "
                "Take fewer of either, or run it in Python."
            )
        return data

    def _small_enough_to_make(self) -> None:
        """A set that is too large is not even drawn."""
        samples = 2 * (self.pairs or 0) * (2 if self.mirrored else 1)
        _at_most(samples, LARGEST["samples"], "samples (two of each pair)")
        _at_most(self.dim or 0, LARGEST["dim"], "input dimensions")
        if self.depth > 2:
            _at_most(self.width, LARGEST["deep_width"], "neurons in each layer of three-layer networks")

    def network(self, data: Dataset, slope: float | None = None) -> "Network":
        """The start; with another slope, the same weights."""
        from biasfree.networks import Network

        widths = [data.dim, *[self.width] * (self.depth - 1), 1]
        return Network.init(widths, self.slope if slope is None else slope, self.scale, self.seed)

    @property
    def steps(self) -> int:
        """Of descent."""
        return max(1, round(self.until / self.rate))

    @property
    def saves(self) -> int:
        """How many networks of a descent are kept."""
        return min(300, self.steps)

    def run(
        self, data: Dataset, slope: float | None = None, progress: Callable[[Any], None] | None = None
    ) -> "Trajectory":
        """The run that is shown, or that of another slope from the same weights."""
        from biasfree.dynamics import gradient_descent, gradient_flow

        start = self.network(data, slope)
        if self.method == "descent":
            if self.steps > LARGEST["steps"]:
                raise ValueError(
                    f"descent may take at most {LARGEST['steps']:,} steps here, got {self.until:g}/{self.rate:g} = "
                    f"{self.steps:,}. Take a larger rate or an earlier end."
                )
            return gradient_descent(
                start, data, loss=self.loss, learning_rate=self.rate, steps=self.steps,
                weight_decay=self.weight_decay, save=self.saves, progress=progress,
            )  # fmt: skip
        return gradient_flow(
            start, data, loss=self.loss, until=self.until, rtol=self.rtol, weight_decay=self.weight_decay,
            progress=progress,
        )  # fmt: skip


def _at_most(value: float, limit: float, what: str) -> None:
    if value > limit:
        raise ValueError(f"at most {limit:,} {what} can be shown here, got {value:,}. Take fewer, or run it in Python.")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


# One check per field. Whole numbers may be written 100 or 100.0, as JSON does not distinguish them.


def _boolean(what: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{what} must be true or false, got {_shown(value)}.")
        return value

    return check


def _whole(what: str, least: int, most: float) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        number = checks.count(value, what, least=least)
        if number > most:
            raise ValueError(f"{what} must be at most {int(most):,} here, got {number:,}.")
        return number

    return check


def _between(what: str, least: float, most: float) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        number = checks.non_negative(value, what) if least >= 0 else _finite(value, what)
        if not least <= number <= most:
            raise ValueError(f"{what} must lie between {least:g} and {most:g} here, got {number:g}.")
        return number

    return check


def _choice(what: str, options: tuple[Any, ...]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, bool) or value not in options:
            shown = ", ".join(str(option) for option in options)
            raise ValueError(f"{what} must be one of {shown}, got {_shown(value)}.")
        return options[options.index(value)]

    return check


def _or_default(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _listing(what: str, check: Callable[[Any], Any], most: float) -> Callable[[Any], tuple[Any, ...]]:
    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"{what} must be a list, got {_kind(value)}.")
        if len(value) > most:
            raise ValueError(f"{what} may hold at most {int(most):,} entries, got {len(value):,}.")
        return tuple(check(each) for each in value)

    return checked


def _finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number, got {_shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST["target"]:
        raise ValueError(f"{what} must lie between ±{LARGEST['target']:g} here, got {_shown(value)}.")
    return number


def _label(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 60 or not value.isprintable():
        raise ValueError(f"the name of the data must be 1 to 60 printable characters, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "data": _choice("data", (*GENERATORS, *OWN)),
    "offset": _or_default(lambda value: _finite(value, "offset")),
    "dim": _or_default(_whole("dim", 1, LARGEST["dim"])),
    "pairs": _or_default(_whole("pairs", 1, LARGEST["samples"] // 2)),
    "whiten": _boolean("whiten"),
    "data_seed": _whole("data_seed", 0, LARGEST["seed"]),
    "inputs": _listing(
        "inputs",
        _listing("an input", lambda value: _finite(value, "an input's coordinate"), LARGEST["dim"]),
        LARGEST["samples"],
    ),
    "targets": _listing("targets", lambda value: _finite(value, "a target"), LARGEST["samples"]),
    "name": _label,
    "mirrored": _boolean("mirrored"),
    "ones": _boolean("ones"),
    "width": _whole("width", 1, LARGEST["width"]),
    "slope": checks.slope,
    "depth": _choice("depth", DEPTHS),
    "scale": _between("scale", SMALLEST_SCALE, LARGEST_SCALE),
    "seed": _whole("seed", 0, LARGEST["seed"]),
    "loss": _choice("loss", LOSSES),
    "weight_decay": _between("weight_decay", 0.0, 100.0),
    "method": _choice("method", METHODS),
    "rate": _between("rate", 1e-6, 100.0),
    "until": _between("until", 1e-6, LARGEST["until"]),
    "rtol": _choice("rtol", RTOLS),
    "slopes": _listing("slopes", checks.slope, LARGEST["slopes"]),
}


def defaults() -> dict[str, Any]:
    """The default of every field, for the page."""
    return {field.name: _listed(field.default) for field in dataclasses.fields(View)}
