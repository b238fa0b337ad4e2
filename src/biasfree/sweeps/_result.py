"""The result of a sweep: a labelled array per quantity, its file, and its printed card."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from biasfree import files, provenance
from biasfree.sweeps import _keys
from biasfree.sweeps._plan import Plan
from biasfree.sweeps._quantities import Quantity
from biasfree.sweeps._store import ABOUT, DONE, FAILED
from biasfree.sweeps._table import NOT_RUN, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = "biasfree sweep 1"


class Tally(NamedTuple):
    """What a sweep did: runs computed and known before, seconds, batch files that were damaged."""

    computed: int
    reused: int
    seconds: float
    damaged: list[str]


@dataclass(frozen=True)
class Sweep:
    """A phase diagram.

    Attributes:
        dataset: one variable per kept quantity, over the axes and ``seed``; ``state`` (0 not run, 1 done, 2 failed),
            ``message`` with the sentence of each failed run, and ``level``, the refinement at which a point came in.
        tally: what was computed; None for a sweep that was read from a file.
        folder: where finished runs are.
    """

    dataset: xr.Dataset
    tally: Tally | None = None
    folder: Path | None = None

    @property
    def quantities(self) -> list[str]:
        """Names of what was kept."""
        return [str(name) for name in self.dataset.data_vars if name not in ABOUT]

    @property
    def plan(self) -> dict[str, Any]:
        """The plan, as the file holds it."""
        return dict(json.loads(self.dataset.attrs["plan"]))

    @property
    def failures(self) -> dict[str, int]:
        """The sentences of failed runs, and how many said so."""
        failed = self.dataset["message"].to_numpy()[self.dataset["state"].to_numpy() == FAILED]
        return dict(Counter(str(sentence) for sentence in failed).most_common())

    def plot(self, quantity: str | Sequence[str] | None = None, **options: Any) -> "Figure":
        """The phase diagram: ``report.plot_sweep`` of the data set."""
        from biasfree import report

        return report.plot_sweep(self.dataset, quantity, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF file, whole or not at all."""
        target = files.writable(path, (".nc",))
        with files.written_whole(target) as draft:
            self.dataset.to_netcdf(draft, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Sweep":
        """Read a file that ``save`` wrote.

        Raises:
            ValueError: no such file, or none of a sweep.
        """
        source = files.readable(path)
        try:
            with xr.open_dataset(source, engine="h5netcdf") as opened:
                stored = opened.load()
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"cannot read {source.name} as a sweep: {error}.") from error
        if stored.attrs.get("format") != _FORMAT:
            raise ValueError(f"cannot read {source.name} as a sweep: its format is not known.")
        return cls(stored)

    def summary(self) -> dict[str, Any]:
        """The numbers of a sweep, as JSON can hold them."""
        state = self.dataset["state"].to_numpy()
        entries: dict[str, Any] = {
            "title": self.dataset.attrs.get("title", ""),
            "axes": {name: int(size) for name, size in self.dataset["state"].sizes.items()},
            "keep": self.quantities,
            "runs": int(np.sum(state != NOT_RUN)),
            "failed": int(np.sum(state == FAILED)),
            "failures": self.failures,
        }
        if self.tally is not None:
            computed, reused, seconds, damaged = self.tally
            rate = computed / seconds if seconds > 0 else 0.0
            entries |= {"computed": computed, "reused": reused, "seconds": seconds, "runs_per_second": rate}
            entries |= {"damaged_files": damaged, "folder": None if self.folder is None else str(self.folder)}
        return entries

    def __str__(self) -> str:
        """A card."""
        summary = self.summary()
        axes = " × ".join(f"{name} {size}" for name, size in summary["axes"].items())
        lines = [f"Sweep {summary['title']}".rstrip(), f"  axes     {axes}", f"  kept     {', '.join(summary['keep'])}"]
        lines.append(f"  runs     {summary['runs']:,}, of which {summary['failed']:,} failed")
        lines += [f"           {count:,} × {sentence}" for sentence, count in list(summary["failures"].items())[:3]]
        if self.tally is not None:
            rate = f", {summary['runs_per_second']:.3g} per second" if self.tally.computed else ""
            before = f"{summary['reused']:,} known before, {summary['seconds']:.1f} s"
            lines.append(f"  work     {summary['computed']:,} computed{rate}, {before}")
            if summary["damaged_files"]:
                count = len(summary["damaged_files"])
                lines.append(
                    f"  damaged  {count} batch file{'s' if count > 1 else ''}: removed, the runs computed again"
                )
        return "\n".join(lines)

    def __repr__(self) -> str:
        """One line; ``print`` shows the card."""
        summary = self.summary()
        axes = " × ".join(f"{name} {size}" for name, size in summary["axes"].items())
        return f"Sweep({summary['title'] + ': ' if summary['title'] else ''}{axes}, {summary['runs']:,} runs)"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from biasfree import report

        return report.notebook_html(self)


def assembled(plan: Plan, fine: Sequence[Sequence[Any]], table: Table, tally: Tally, folder: Path | None) -> Sweep:
    """The result on the grid of all values that were run; cells in between that were not are marked so."""
    coordinates, where = {}, []
    for axis, (name, values) in enumerate(zip(plan.axes, fine, strict=True)):
        used = np.unique(table.points[:, axis])
        kept = list(dict.fromkeys(values[i] for i in used))
        if plan.axes[name].numeric and plan.refine is not None:
            kept.sort()
        place = {value: index for index, value in enumerate(kept)}
        lookup = np.array([place.get(value, -1) for value in values])
        where.append(lookup[table.points[:, axis]])
        argument = plan.axes[name].argument
        attributes = {"long_name": argument.label, "units": argument.units, "spacing": plan.axes[name].spacing}
        coordinates[name] = (name, _coordinate(kept), attributes)
    dims = (*plan.axes, "seed")
    shape = (*(len(coordinates[name][1]) for name in plan.axes), len(plan.seeds))
    coordinates["seed"] = ("seed", np.array(plan.seeds), {"long_name": "seed of the weights", "units": "1"})

    def spread(column: np.ndarray, filler: Any) -> np.ndarray:
        grid = np.full(shape, filler, dtype=column.dtype)
        grid[tuple(where)] = column.reshape(len(table.points), -1)
        return grid

    known = plan.quantities
    variables: dict[str, Any] = {}
    for name, column in table.columns.items():
        about = known.get(name, Quantity(lambda case: None, name, kind=table.kinds[name]))
        attributes = {"long_name": about.label, "units": about.units, "kind": table.kinds[name]}
        if about.predicted_by in table.columns:
            attributes["predicted_by"] = str(about.predicted_by)
        variables[name] = (dims, spread(column, "" if column.dtype == object else np.nan), attributes)
    meanings = {"flag_values": np.array([NOT_RUN, DONE, FAILED], dtype=np.int8), "flag_meanings": "not_run done failed"}
    variables["state"] = (dims, spread(table.state.astype(np.int8), NOT_RUN), {"long_name": "state", **meanings})
    variables["message"] = (dims, spread(table.message, ""), {"long_name": "why the run failed"})
    level = np.full(shape[:-1], -1, dtype=np.int8)
    level[tuple(where)] = table.level
    variables["level"] = (dims[:-1], level, {"long_name": "level of refinement, −1 where nothing was run"})
    return Sweep(xr.Dataset(variables, coordinates, _attributes(plan, tally)), tally, folder)


def _coordinate(values: Sequence[Any]) -> np.ndarray:
    if all(isinstance(value, bool) for value in values):
        return np.array([str(value).lower() for value in values], dtype=object)
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([str(value) for value in values], dtype=object)


def _attributes(plan: Plan, tally: Tally) -> dict[str, Any]:
    def plain(value: Any) -> str:
        return json.dumps(files.plain(value, str), ensure_ascii=False)

    return {
        "format": _FORMAT,
        "title": plan.title,
        "plan": plain(plan.to_dict()),
        "numerics": _keys.numerics(),
        "environment": plain(provenance.environment()),
        "computed": tally.computed,
        "reused": tally.reused,
        "wall_time": tally.seconds,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
