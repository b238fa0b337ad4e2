"""Where a network is looked at: the user's samples, or random inputs that are stated."""

import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks, datasets, files
from biasfree.datasets import Dataset
from biasfree.models import Graph, Port
from biasfree.models._graph import fitted

# What stands for a size that the model leaves open, and how many random inputs are drawn: a few for each dimension, so
# that a linear map is determined, but no more numbers than these.
OPEN_SIZE = 16
_LEAST, _PER_DIMENSION, _MOST_DRAWN = 256, 4, 50_000
_MOST_BYTES = 2**30
_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs of a network.

    Attributes:
        values: one array for each input, shape (samples, *shape); the first is x, others are extra inputs.
        name: what they are called in sentences.
        drawn: how they were drawn, in words; None for the user's data.
    """

    values: tuple[np.ndarray, ...]
    name: str = "the data"
    drawn: str | None = None

    @property
    def x(self) -> Float[np.ndarray, "samples dim"]:
        """The first input, one row per sample."""
        return self.values[0].reshape(len(self.values[0]), -1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of x, without the samples' axis."""
        return self.values[0].shape[1:]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.values[0])

    def __getitem__(self, chosen: Any) -> "Points":
        """Some of the samples."""
        return replace(self, values=tuple(value[chosen] for value in self.values))

    def spread(self, count: int) -> "Points":
        """At most so many samples, evenly from first to last."""
        return self[spread(len(self), count)]

    def scaled(self, factor: float, jointly: bool) -> "Points":
        """x times a factor, and the extra inputs too if ``jointly``."""
        first, *rest = self.values
        return replace(self, values=(factor * first, *(factor * v if jointly else v for v in rest)))


def spread(total: int, count: int) -> np.ndarray:
    """At most ``count`` of ``total`` places, evenly from first to last.

    >>> spread(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, total - 1, min(total, count)).round().astype(int))


def given(data: Any, ports: tuple[Port, ...], name: str | None = None) -> Points:
    """The user's data as inputs of a model with these ports.

    Args:
        data: an array, a ``Dataset``, a path (table, NPY, or NPZ with an array per input), or for several inputs a
            tuple or a mapping by name.
        ports: the model's inputs.
        name: what to call them.

    Raises:
        ValueError: what does not fit.
    """
    if isinstance(data, (str, os.PathLike)):
        name = name or Path(data).name
        data = _loaded(files.readable(data), ports)
    if isinstance(data, Dataset):
        name, data = data.name, data.inputs
    if isinstance(data, Mapping):
        missing = [port.name for port in ports if port.name not in data]
        if missing:
            wanted = ", ".join(repr(port.name) for port in ports)
            raise ValueError(f"the data need an entry for each input of the model ({wanted}), and lack {missing[0]!r}.")
        data = tuple(data[port.name] for port in ports)
    arrays = tuple(data) if isinstance(data, tuple) else (data,)
    if len(arrays) != len(ports):
        wanted = ", ".join(map(str, ports))
        raise ValueError(
            f"the model takes {len(ports)} inputs ({wanted}), and the data are {len(arrays)}. Give a tuple of arrays, "
            "a mapping by name, or an NPZ file with an array for each."
        )
    values = tuple(
        fitted(checks.finite(checks.numeric(array, "data"), "data"), port)
        for array, port in zip(arrays, ports, strict=True)
    )
    if not len(values[0]) or len({len(v) for v in values}) > 1:
        raise ValueError(f"the inputs must be equally many samples, at least one, got {[len(v) for v in values]}.")
    return Points(values, name or "the data")


def drawn(graph: Graph, seed: int) -> Points:
    """Random inputs where there are no data: standard normal entries, said so."""
    shapes = graph.open_sizes(OPEN_SIZE)
    dim = max(1, math.prod(shapes[0]))
    entries = max(1, sum(math.prod(shape) for shape in shapes))
    count = max(8, min(max(_LEAST, _PER_DIMENSION * dim), _MOST_DRAWN // entries))
    rng = np.random.default_rng(seed)
    values = tuple(rng.normal(size=(count, *shape)) for shape in shapes)
    shown = " and ".join(map(str, shapes))
    size = "" if len(shapes) == len(shapes[0]) == 1 else f" of shape{'s' * (len(shapes) > 1)} {shown}"
    return Points(values, "random inputs", f"{count} inputs{size} with standard normal entries, seed {seed}")


def _loaded(source: Path, ports: tuple[Port, ...]) -> Any:
    """Arrays from NPY and NPZ files that hold a model's inputs; tables by ``datasets.load``."""
    if source.suffix.lower() not in _ARRAYS:
        return _rows(source, ports[0])
    if source.stat().st_size > _MOST_BYTES:
        raise ValueError(f"cannot read {source.name}: more than {_MOST_BYTES:,} bytes.")
    try:
        loaded = np.load(source, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = loaded.files
            if all(port.name in names for port in ports):
                return {port.name: loaded[port.name] for port in ports}
            if len(ports) == 1 and len(names) == 1:
                return loaded[names[0]]
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {source.name}: it is not a file of plain arrays.") from error
    if len(ports) == 1:
        return datasets.load(source)
    wanted = ", ".join(repr(port.name) for port in ports)
    raise ValueError(
        f"{source.name} must hold an array for each input of the model ({wanted}), and holds {names[:10]}."
    )


def _rows(source: Path, port: Port) -> np.ndarray:
    """All columns of a table, but for one called ``target`` that the model has no input for."""
    table = datasets.load_inputs(source)
    sizes = [n for n in port.shape if n is not None]
    wanted = math.prod(sizes) if len(sizes) == len(port.shape) else table.shape[1]
    if table.shape[1] == wanted + 1 and "target" in table:
        table = table.drop(columns="target")
    if table.shape[1] != wanted:
        names = ", ".join(map(str, table.columns[:12])) + (", …" if table.shape[1] > 12 else "")
        raise ValueError(
            f"{source.name} has {table.shape[1]} columns ({names}), and the model takes {wanted} inputs. Name a column "
            "that is no input with --target (in Python, `bf.datasets.load(path, target)` leaves it out)."
        )
    return table.to_numpy(dtype=np.float64)
