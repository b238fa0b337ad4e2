"""The panels of a phase diagram: heat maps over two axes, curves with bands over one."""

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from biasfree.report._plots import COLOURS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_DECADES = 30.0  # a range of more than this factor is shown on a logarithmic scale
_BAND = (0.1, 0.9)
_GREY = "#d9d9d9"


class Line(NamedTuple):
    """A boundary that theory draws: where ``values`` meet ``level``."""

    values: "xr.DataArray"
    level: float
    label: str


class Scale(NamedTuple):
    """What colours mean, the same in all facets: from ``low`` to ``high``, or one per word."""

    low: float
    high: float
    words: list[str]

    @classmethod
    def of(cls, values: "xr.DataArray") -> "Scale":
        """For all of ``values``."""
        if values.attrs.get("kind") == "text":
            return cls(0.0, 1.0, [word for word in _in_order(set(values.to_numpy().ravel())) if word])
        finite = values.to_numpy()[np.isfinite(values.to_numpy())]
        if values.attrs.get("kind") == "share" or not finite.size:
            return cls(0.0, 1.0, [])
        low, high = float(finite.min()), float(finite.max())
        if high == low:
            low, high = low - 0.1 * abs(low) - 1e-12, high + 0.1 * abs(high) + 1e-12
        return cls(low, high, [])


def middle(values: "xr.DataArray") -> "xr.DataArray":
    """Over the seeds: the share that is true, the median of the finite ones, or the commonest word."""
    if values.attrs.get("kind") == "share":
        return values.mean("seed", skipna=True, keep_attrs=True)
    if values.attrs.get("kind") == "text":
        words = values.transpose(..., "seed").to_numpy()
        commonest = np.array([_commonest(each) for each in words.reshape(-1, words.shape[-1])], dtype=object)
        return values.isel(seed=0, drop=True).copy(data=commonest.reshape(words.shape[:-1]))
    return values.copy(data=_quantile(values, 0.5)).isel(seed=0, drop=True)


def _commonest(words: np.ndarray) -> str:
    known = sorted(str(word) for word in words if word)
    return Counter(known).most_common(1)[0][0] if known else ""


def _quantile(values: "xr.DataArray", share: float) -> np.ndarray:
    """Over the seeds, broadcast back: of the finite values; infinite where there are only such, else missing."""
    axis = values.get_axis_num("seed")
    ordered = np.sort(np.where(np.isneginf(values), np.inf, values), axis=axis)  # infinite ones last, then missing ones
    count = np.sum(np.isfinite(ordered), axis=axis, keepdims=True)
    place = np.round(share * np.maximum(count - 1, 0)).astype(int)
    picked = np.take_along_axis(ordered, place, axis=axis)
    return np.broadcast_to(picked, values.shape)


def heat_map(axes: "Axes", values: "xr.DataArray", run: np.ndarray, lines: list[Line], scale: Scale) -> None:
    """Two axes; ``run`` marks the cells that were run; the others show the nearest of these."""
    horizontal, vertical = (str(dim) for dim in values.dims)
    shown = _filled(values, run)
    x, y = (_places(values[name]) for name in (horizontal, vertical))
    mesh: dict[str, Any] = {"rasterized": True, "linewidth": 0}
    edges = (_edges(x, _log(values[horizontal])), _edges(y, _log(values[vertical])))
    if values.attrs.get("kind") == "text":
        _words(axes, edges, shown, scale.words, mesh)
    else:
        _numbers(axes, edges, shown, values, scale, mesh)
    for index, line in enumerate(lines):
        field, level = line.values.transpose(horizontal, vertical), line.level
        if np.isinf(field).any() and level > 0:  # never is a rate of zero
            field, level = 1 / field, 1 / level
        drawn = _between(field, run).T
        if min(drawn.shape) > 1 and np.nanmin(drawn) < level < np.nanmax(drawn):
            style = ("--", ":", "-.")[index % 3]
            axes.contour(x, y, drawn, levels=[level], colors="black", linewidths=1.2, linestyles=style)
            axes.plot([], [], color="black", linestyle=style, linewidth=1.2, label=line.label)
    if not run.all():
        i, j = np.nonzero(run)
        axes.plot(x[i], y[j], ".", color="black", markersize=1.0, alpha=0.35)
    axis_scale(axes.xaxis, values[horizontal], x)
    axis_scale(axes.yaxis, values[vertical], y)


def _numbers(
    axes: "Axes", edges: Any, shown: np.ndarray, values: "xr.DataArray", scale: Scale, mesh: dict[str, Any]
) -> None:
    from matplotlib.colors import LogNorm, Normalize

    low, high = scale.low, scale.high
    share = values.attrs.get("kind") == "share"
    decades = not share and low > 0 and high / low > _DECADES
    norm = LogNorm(low, high) if decades else Normalize(low, high)
    axes.set_facecolor(_GREY)
    drawn = np.ma.masked_invalid(shown.T)
    image = axes.pcolormesh(*edges, drawn, norm=norm, cmap="cividis" if share else "viridis", **mesh)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(_label(values), fontsize=7)
    if np.isinf(shown).any() or np.isnan(shown).any():
        word = "never within the run" if np.isinf(shown).any() else "failed or not run"
        axes.plot([], [], "s", color=_GREY, label=word)


def _words(axes: "Axes", edges: Any, shown: np.ndarray, words: list[str], mesh: dict[str, Any]) -> None:
    from matplotlib.colors import ListedColormap

    codes = np.array([[words.index(word) if word else np.nan for word in row] for row in shown])
    colours = ListedColormap([COLOURS[i % len(COLOURS)] for i in range(len(words))])
    axes.set_facecolor(_GREY)
    axes.pcolormesh(
        *edges, np.ma.masked_invalid(codes.T), cmap=colours, vmin=-0.5, vmax=len(words) - 0.5, alpha=0.85, **mesh
    )
    for index, word in enumerate(words):
        axes.plot([], [], "s", color=COLOURS[index % len(COLOURS)], label=word)


def _in_order(words: set[str]) -> list[str]:
    """Verdicts from linear to nonlinear; other words by the alphabet."""
    ladder = ["linear", "linear until", "several linear networks", "nonlinear"]
    return sorted(words, key=lambda word: (ladder.index(word) if word in ladder else len(ladder), word))


def curves(axes: "Axes", values: "xr.DataArray", predicted: "xr.DataArray | None", along: str) -> None:
    """Median and band over the seeds against one axis, a curve per value of the other, if there is one."""
    other = next((str(dim) for dim in values.dims if dim not in (along, "seed")), None)
    if values.attrs.get("kind") == "text":
        if other is not None:
            raise ValueError(f"{values.name} is a word; curves over two axes need numbers.")
        _shares(axes, values, along)
        return
    for index in range(values.sizes[other] if other else 1):
        part = values.isel({other: index}) if other else values
        colour = COLOURS[index % len(COLOURS)]
        label = f"{_symbol(values[other])} = {values[other].to_numpy()[index]:.4g}" if other else None
        centre = middle(part)
        x = _places(part[along])
        known = np.isfinite(centre.to_numpy())
        axes.plot(x[known], centre.to_numpy()[known], "o-", markersize=2.5, color=colour, label=label)
        if part.sizes["seed"] > 1 and values.attrs.get("kind") != "share":
            low, high = (_quantile(part, share)[..., 0] for share in _BAND)
            inside = np.isfinite(low) & np.isfinite(high)
            axes.fill_between(x[inside], low[inside], high[inside], color=colour, alpha=0.2, linewidth=0)
        if predicted is not None:
            theory = middle(predicted.isel({other: index}) if other else predicted).to_numpy()
            shown = np.isfinite(theory)
            axes.plot(x[shown], theory[shown], "--", color="black" if not other else colour, linewidth=1.0)
    if predicted is not None:
        axes.plot([], [], "--", color="black", linewidth=1.0, label=str(predicted.attrs.get("long_name", "theory")))
    axis_scale(axes.xaxis, values[along], _places(values[along]))
    numbers = values.to_numpy()[np.isfinite(values.to_numpy())]
    apart = 5.0 if _log(values[along]) else _DECADES  # a power law is a line where both axes are logarithmic
    if numbers.size and numbers.min() > 0 and numbers.max() / numbers.min() > apart:
        axes.set_yscale("log")
    elif values.attrs.get("kind") == "share":
        axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel(_label(values), fontsize=8)


def _shares(axes: "Axes", values: "xr.DataArray", along: str) -> None:
    """The share of seeds that say each word, against one axis."""
    x, words = _places(values[along]), values.transpose(along, "seed").to_numpy()
    for index, word in enumerate(Scale.of(values).words):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(x, np.mean(words == word, axis=1), "o-", markersize=2.5, color=colour, label=word)
    axis_scale(axes.xaxis, values[along], x)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel(f"share of draws: {_label(values)}", fontsize=8)


def axis_scale(axis: Any, coordinate: "xr.DataArray", places: np.ndarray) -> None:
    """Logarithmic where the grid is; words as ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    name = axis.axis_name
    if coordinate.dtype.kind not in "biuf":
        getattr(axis.axes, f"set_{name}ticks")(places, [str(value) for value in coordinate.to_numpy()])
    elif _log(coordinate):
        getattr(axis.axes, f"set_{name}scale")("log")
        if places.max() < 100 * places.min():  # too few powers of ten to be read by
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(_label(coordinate))


def _label(values: "xr.DataArray") -> str:
    text = str(values.attrs.get("long_name", values.name))
    if values.attrs.get("kind") == "share":
        return f"share that {text}"
    units = str(values.attrs.get("units", "1"))
    return text if units in ("1", "", "flow time, 1/η descent steps") else f"{text} ({units})"


def _symbol(coordinate: "xr.DataArray") -> str:
    last = str(coordinate.attrs.get("long_name", coordinate.name)).split()[-1]
    return last if len(last) == 1 else str(coordinate.name)


def _log(coordinate: "xr.DataArray") -> bool:
    return coordinate.attrs.get("spacing") == "log"


def _places(coordinate: "xr.DataArray") -> np.ndarray:
    values = coordinate.to_numpy()
    return values.astype(float) if values.dtype.kind in "biuf" else np.arange(len(values), dtype=float)


def _edges(centres: np.ndarray, log: bool) -> np.ndarray:
    """Half way between neighbours, and as far out at the ends."""
    places = np.log(centres) if log else centres
    if len(places) == 1:
        edges = np.array([places[0] - 0.5, places[0] + 0.5])
    else:
        between = (places[1:] + places[:-1]) / 2
        edges = np.array([2 * places[0] - between[0], *between, 2 * places[-1] - between[-1]])
    return np.exp(edges) if log else edges


def _filled(values: "xr.DataArray", run: np.ndarray) -> np.ndarray:
    """Cells that a refinement left out look like the nearest that was run."""
    shown = values.to_numpy()
    if run.all() or not run.any():
        return shown
    from scipy.spatial import cKDTree

    grid, known = _unit_square(values), np.argwhere(run)
    nearest = cKDTree(grid[run]).query(grid.reshape(-1, grid.shape[-1]))[1]
    return shown[tuple(known[nearest].T)].reshape(shown.shape)


def _between(values: "xr.DataArray", run: np.ndarray) -> np.ndarray:
    """A smooth quantity, interpolated where a refinement left cells out."""
    shown = values.to_numpy()
    known = run & np.isfinite(shown)
    if known.all() or known.sum() < 4:
        return shown
    from scipy.interpolate import griddata

    grid = _unit_square(values)
    return np.where(known, shown, griddata(grid[known], shown[known], grid))


def _unit_square(values: "xr.DataArray") -> np.ndarray:
    """Where the cells are, each axis from 0 to 1 on its own scale."""
    scaled = []
    for dim in values.dims:
        places = _places(values[dim])
        places = np.log(places) if _log(values[dim]) else places
        scaled.append((places - places.min()) / (np.ptp(places) or 1.0))
    return np.stack(np.meshgrid(*scaled, indexing="ij"), axis=-1)
