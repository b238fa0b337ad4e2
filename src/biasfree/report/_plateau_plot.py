"""A run with its plateaus: the loss curve, where it waits, predicted and measured ends, and what is computed there."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree.dynamics import Trajectory
from biasfree.measure import Plateau, Plateaus, plateaus
from biasfree.report._planes import draw_map
from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 6
# How much of a last plateau that does not end is drawn, as a share of the time before it.
_TAIL = 0.4
# Losses below this share of the first are fits.
_FITTED = 1e-9


def plot_plateaus(run: Trajectory | Plateaus) -> "Figure":
    """The loss with its plateaus, and below it, for each, the output map (two dimensions) or the active directions.

    Args:
        run: a trajectory, or its plateaus if they are known already.

    Returns:
        A matplotlib Figure that belongs to no window.

    Raises:
        ValueError: a run without a plateau.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    explained = run if isinstance(run, Plateaus) else plateaus(run)
    if not len(explained):
        raise ValueError("the run has no plateau to draw; plot its loss instead.")
    trajectory, shown = explained.trajectory, list(explained)[:_MOST]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(5.0, 1.5 * len(shown)), 4.2), layout="constrained")
        rows = figure.add_gridspec(2, len(shown), height_ratios=(1.6, 1.0))
        _curve(figure.add_subplot(rows[0, :]), trajectory, explained)
        for k, each in enumerate(shown):
            axes = figure.add_subplot(rows[1, k])
            draw = _map if trajectory.dataset.dim == 2 and trajectory.template.widths[-1] == 1 else _directions
            draw(axes, trajectory, each)
            level = each.level if abs(each.level) > _FITTED * abs(float(trajectory.losses[0])) else 0.0
            axes.set_title(f"{k + 1}: loss {level:.3g}", fontsize=7)
    return figure


def _curve(axes: Any, run: Trajectory, explained: Plateaus) -> None:
    axes.plot(run.times, run.losses, color="black")
    last = _last_shown(run, explained)
    for k, each in enumerate(explained):
        colour = COLOURS[k % len(COLOURS)]
        axes.axvspan(each.begin, min(each.end, last), color=colour, alpha=0.12, linewidth=0)
        middle = 0.5 * (each.begin + min(each.end, last))
        axes.text(middle, each.level, f"{k + 1}", fontsize=7, va="bottom", ha="center")
        if each.ends:
            label = "measured end" if k == 0 else None
            axes.axvline(each.end, color=colour, linewidth=0.9, label=label)
        if math.isfinite(each.predicted_end) and each.predicted_end <= last:
            label = "predicted end" if k == 0 else None
            axes.axvline(each.predicted_end, color="black", linestyle=":", linewidth=1.1, label=label)
    axes.set_xlabel("flow time $t$" if run.settings["clock"] == "time" else "loss-normalised time $s$")
    axes.set_ylabel(f"{run.settings['loss']} loss")
    axes.set_xlim(0, last)
    axes.set_ylim(bottom=0)
    if any(each.ends for each in explained):
        axes.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none")


def _last_shown(run: Trajectory, explained: Plateaus) -> float:
    """The end of the time axis: the run's, but of a long rest at the end only its beginning."""
    last, resting = float(run.times[-1]), explained[-1]
    if resting.ends or explained.falling or not resting.begin:
        return last
    foreseen = resting.predicted_end if math.isfinite(resting.predicted_end) else 0.0
    return min(last, (1 + _TAIL) * max(resting.begin, foreseen))


def _at(run: Trajectory, each: Plateau) -> Any:
    at = int(np.argmin(np.abs(run.times - each.slowest)))
    return run.template.with_weights([layer[at] for layer in run.weights])


def _map(axes: Any, run: Trajectory, each: Plateau) -> None:
    """The output on a square around the samples, with the active directions as arrows."""
    draw_map(axes, _at(run, each), run.dataset)
    length = 0.7 * axes.get_xlim()[1]
    arrow = {"arrowstyle": "->", "lw": 0.9, "color": "black", "shrinkA": 0, "shrinkB": 0}
    for one in each.directions if each.growth is not None else ():
        # Under the samples, which have zorder 3.
        axes.annotate("", length * one.direction, (0, 0), arrowprops=arrow, zorder=2.5)
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="")


def _directions(axes: Any, run: Trajectory, each: Plateau) -> None:
    """The sizes of the active directions; of one output, red ones raise it and blue ones lower it."""
    sizes, numbers = [one.size for one in each.directions], range(1, len(each.directions) + 1)
    axes.set_xlabel("active direction", fontsize=7)
    if not sizes:
        axes.text(0.5, 0.5, "none awake", ha="center", va="center", transform=axes.transAxes, fontsize=7)
        axes.set(xticks=[], yticks=[])
        return
    signs = [one.sign for one in each.directions]
    axes.bar(numbers, sizes, color=[COLOURS[0] if sign < 0 else COLOURS[1] if sign else "grey" for sign in signs])
    named = ["v > 0" if sign > 0 else "v < 0" if sign else str(k) for k, sign in enumerate(signs, 1)]
    axes.set_xticks(numbers, named)
    axes.tick_params(labelsize=6)
    axes.set_ylabel("size", fontsize=7)
