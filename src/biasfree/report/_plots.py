"""Plots worth a paper: one column wide, colour-blind safe, labelled with units."""

import importlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import files
from biasfree.dynamics import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which readers with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: Any = {
    "figure.figsize": (3.5, 2.5),
    "figure.dpi": 200,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.titley": 1.0,  # nothing is above the axes, and to look for it takes a tenth of the time
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
FORMATS = (".png", ".pdf", ".svg")
_BACKENDS = {".png": "agg", ".pdf": "pdf", ".svg": "svg"}
_COMPRESSION = 3  # of PNG: three fifths of the default's time, for a tenth more bytes
_DASHES = ("--", ":", "-.")


def plot_loss(
    *trajectories: Trajectory,
    labels: list[str] | None = None,
    log: bool | None = None,
    predicted: Mapping[str, tuple[Any, Any]] | None = None,
) -> "Figure":
    """Loss against flow time, one curve per trajectory, with predicted curves laid over them.

    Args:
        *trajectories: at least one.
        labels: one per trajectory; by default each network's description.
        log: show log₁₀ of the loss; by default on the loss clock only.
        predicted: name → (times, losses) of curves that theory gives, drawn dashed.

    Returns:
        A matplotlib Figure that belongs to no window: save it with ``savefig`` or show it in a notebook.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if not trajectories:
        raise ValueError("plot_loss needs at least one trajectory.")
    names = [str(t.template) for t in trajectories] if labels is None else labels
    if len(names) != len(trajectories):
        raise ValueError(f"labels must be one per trajectory, {len(trajectories)}, got {len(names)}.")
    clocks = {t.settings["clock"] for t in trajectories}
    decades = "loss" in clocks if log is None else log
    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for i, trajectory in enumerate(trajectories):
            height = trajectory.log_losses / math.log(10) if decades else trajectory.losses
            axes.plot(trajectory.times, height, color=COLOURS[i % len(COLOURS)], label=names[i])
        for i, (name, (times, values)) in enumerate((predicted or {}).items()):
            with np.errstate(divide="ignore"):
                height = np.log10(values) if decades else np.asarray(values)
            axes.plot(times, height, color="black", linestyle=_DASHES[i % len(_DASHES)], linewidth=1.0, label=name)
        axes.set_xlabel("flow time $t$" if clocks == {"time"} else "loss-normalised time $s$")
        loss = " / ".join(sorted({t.settings["loss"] for t in trajectories}))
        axes.set_ylabel(f"log$_{{10}}$ {loss} loss" if decades else f"{loss} loss")
        axes.set_xlim(0, max(t.times[-1] for t in trajectories))
        if not decades:
            axes.set_ylim(bottom=0)
        if len(trajectories) > 1 or predicted:
            axes.legend()
        else:
            axes.set_title(f"{trajectories[0].dataset.name}, {names[0]}", fontsize=8)
    return figure


def save_finished(figure: "Figure", stem: str | os.PathLike[str], formats: Sequence[str]) -> None:
    """Write a figure that is not to change any more in several formats.

    It is laid out once, and its ticks are looked for once: that takes longer than to draw it.
    """
    import matplotlib as mpl

    from biasfree.report._ticks import keep_ticks

    lay_out(figure)
    for ending in formats:
        save_figure(figure, f"{os.fspath(stem)}{ending}")
        if ending != formats[-1]:
            with mpl.rc_context(STYLE):
                keep_ticks(figure)


def lay_out(figure: "Figure") -> None:
    """Put everything in its place.

    The axes must be as they are to be shown: minor ticks without labels, which need no room, stay where they are now.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from biasfree.report._powers import plain_powers
    from biasfree.report._ticks import join_minor_ticks

    engine = figure.get_layout_engine()
    if engine is None:
        return
    plain_powers(figure)
    FigureCanvasAgg(figure)
    with mpl.rc_context(STYLE):
        join_minor_ticks(figure)
        engine.execute(figure)
    figure.set_layout_engine("none")


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, PDF or SVG, whole or not at all."""
    import matplotlib as mpl

    from biasfree.report._powers import plain_powers

    target = files.writable(path, FORMATS)
    # Each by itself: what PDF takes is slow to load.
    backend = importlib.import_module(f"matplotlib.backends.backend_{_BACKENDS[target.suffix]}")
    plain_powers(figure)
    with mpl.rc_context(STYLE), files.written_whole(target) as draft:
        # Not by savefig, which draws everything twice, the first time to see what is there.
        same = isinstance(figure.canvas, backend.FigureCanvas)  # and knows the sizes of texts already
        options = {"pil_kwargs": {"compress_level": _COMPRESSION}} if target.suffix == ".png" else {}
        getattr(figure.canvas if same else backend.FigureCanvas(figure), f"print_{target.suffix[1:]}")(draft, **options)
