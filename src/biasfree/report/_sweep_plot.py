"""Phase diagrams of a sweep, as one would put them in a paper."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import checks
from biasfree.report import _sweep_panels as panels
from biasfree.report._plots import STYLE

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_ABOUT = ("state", "message", "level")
_MOST_FACETS = 6
_WIDTH, _HEIGHT = 3.4, 3.0  # of a panel, in inches
_LETTERS = 15  # of a title, per inch
_ROW, _HANDLE = 72, 7  # letters of a legend that a panel has room for, and what a line before an entry takes


def plot_sweep(
    dataset: "xr.Dataset",
    quantity: str | Sequence[str] | None = None,
    *,
    curves: Sequence[str] = (),
    title: str | None = None,
) -> "Figure":
    """The phase diagram: a heat map over two axes, facets for a third, curves with bands over seeds for one.

    Where the sweep kept what theory has for the quantity, theory is drawn on top: a dashed curve, or the boundary at
    which it says that things change.

    Args:
        dataset: of a sweep.
        quantity: what to show, one panel each; by default what the plan says, else the first that was kept.
        curves: those to be shown as curves against the first axis, one per value of the second.
        title: by default the plan's.

    Raises:
        ValueError: no such quantity, or more than three axes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    plan = json.loads(dataset.attrs.get("plan", "{}"))
    settings = plan.get("plot", {})
    names = _names(dataset, quantity, settings)
    curved = {*curves, *(settings.get("curves", []) if quantity is None else [])}
    dims = [str(dim) for dim in dataset["state"].dims if dim != "seed" and dataset.sizes[dim] > 1]
    if len(dims) > 3:
        raise ValueError(
            f"a picture shows at most three axes, this sweep has {len(dims)}: {', '.join(dims)}. Choose a value of "
            "some first, by result.dataset.sel or isel."
        )
    whole = dataset.squeeze([dim for dim in dataset.dims if dim not in (*dims, "seed")], drop=True)
    facet = dims[2] if len(dims) == 3 else None
    parts = [whole] if facet is None else [whole.isel({facet: i}) for i in range(min(whole.sizes[facet], _MOST_FACETS))]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH * max(len(parts), len(names) if len(parts) == 1 else 1),
                                 _HEIGHT * (len(names) if len(parts) > 1 else 1)), layout="constrained")  # fmt: skip
        shape = (len(names), len(parts)) if len(parts) > 1 else (1, len(names))
        grid = figure.subplots(*shape, squeeze=False)
        for row, name in enumerate(names):
            for column, part in enumerate(parts):
                axes = grid[row, column] if len(parts) > 1 else grid[0, row]
                scale = panels.Scale.of(panels.middle(whole[name]))
                _panel(axes, part, name, dims[:2], name in curved, plan, settings, scale)
                if facet is not None:
                    value = whole[facet].to_numpy()[column]
                    axes.set_title(f"{whole[facet].attrs.get('long_name', facet)} = {value}", fontsize=7)
        named = str(dataset.attrs.get("title", "") if title is None else title)
        figure.suptitle(textwrap.fill(named, int(_LETTERS * figure.get_figwidth())), fontsize=9)
    return figure


def _names(dataset: "xr.Dataset", quantity: str | Sequence[str] | None, settings: Mapping[str, Any]) -> list[str]:
    kept = [str(name) for name in dataset.data_vars if name not in _ABOUT]
    if quantity is None:
        quantity = settings.get("show", kept[:1])
    names = [quantity] if isinstance(quantity, str) else list(quantity or ())
    if not names:
        raise ValueError("nothing was kept that could be shown: every run failed.")
    return [checks.one_of(name, kept, "kept quantity") for name in names]


def _panel(
    axes: Any, part: "xr.Dataset", name: str, dims: list[str], as_curves: bool, plan: Any, settings: Mapping[str, Any],
    scale: panels.Scale,
) -> None:  # fmt: skip
    values = part[name]
    predicted = part.get(values.attrs.get("predicted_by", ""))
    if len(dims) < 2 or as_curves:
        if not dims:
            raise ValueError("the sweep has a single point; there is nothing to draw.")
        comparable = predicted is not None and values.attrs.get("kind") != "share"
        panels.curves(axes, values, predicted if comparable else None, dims[0])
    else:
        ordered = values.transpose(*dims, "seed")
        run = (part["state"].transpose(*dims, "seed") > 0).any("seed").to_numpy()
        lines = _lines(part, name, plan, settings)
        panels.heat_map(axes, panels.middle(ordered), run, lines, scale)
    handles, labels = axes.get_legend_handles_labels()
    if handles:  # below the panel, where it hides nothing
        columns = next((count for count in (3, 2) if _letters(labels, count) <= _ROW), 1)
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, frameon=False)


def _letters(labels: list[str], columns: int) -> int:
    """The width of a legend in so many columns, in letters."""
    lengths = np.array_split([len(label) + _HANDLE for label in labels], columns)
    return sum(int(each.max(initial=0)) for each in lengths)


def _lines(part: "xr.Dataset", name: str, plan: Any, settings: Mapping[str, Any]) -> list[panels.Line]:
    """Boundaries of theory: those the plan names, else the predicted time at which runs end."""
    lines = []
    for each in settings.get("boundary", []):
        if each.get("panel", name) == name and each["quantity"] in part:
            label = each.get("label", f"{each['quantity']} = {each['level']:g}")
            lines.append(panels.Line(panels.middle(part[each["quantity"]]), float(each["level"]), label))
    predicted = part.get(part[name].attrs.get("predicted_by", ""))
    run = plan.get("run")
    if lines or predicted is None or not isinstance(run, dict):
        return lines
    if part[name].attrs.get("kind") == "share" and np.isfinite(float(run.get("until") or np.nan)):
        until = float(run["until"])
        return [panels.Line(panels.middle(predicted), until, f"predicted at t = {until:g}")]
    if part[name].attrs.get("kind") == "number":
        centre = panels.middle(predicted)
        finite = centre.to_numpy()[np.isfinite(centre.to_numpy())]
        if finite.size and finite.max() > finite.min():
            level = float(np.quantile(finite, 0.5))
            return [panels.Line(centre, level, f"theory: {level:.3g}")]
    return lines
