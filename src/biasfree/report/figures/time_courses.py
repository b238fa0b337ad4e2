"""Pictures of learning curves: loss over time with theory on top."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A slope has one colour in all pictures.
SLOPE_COLOURS = dict(zip(("0", "0.2", "0.4", "0.6", "0.8", "1"), COLOURS, strict=False)) | {"0.5": COLOURS[2]}


def corollary_14(data: Mapping[str, Any]) -> "Figure":
    """Flow, Eq. 38 and Eq. 38 as printed, by slope."""
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for slope, (flow, corrected, printed) in data["curves"].items():
            colour = SLOPE_COLOURS[slope]
            axes.plot(data["times"], flow, color=colour, linewidth=3, alpha=0.4, label=f"flow, $\\alpha$ = {slope}")
            axes.plot(data["times"], corrected, "--", color="black", linewidth=0.9)
            axes.plot(data["times"], printed, ":", color=colour, linewidth=0.9)
        axes.plot([], [], "--", color="black", linewidth=0.9, label="Eq. 38")
        axes.plot([], [], ":", color="grey", linewidth=0.9, label="as printed")
        axes.set(xlabel="flow time $t$", ylabel="square loss", xlim=(0, 25))
        axes.legend()
    return figure


def eq_34(data: Mapping[str, Any]) -> "Figure":
    """Flow and reduced flow, by slope."""
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for slope, (flow, reduced) in data["curves"].items():
            axes.plot(
                data["times"],
                flow,
                color=SLOPE_COLOURS[slope],
                linewidth=3,
                alpha=0.4,
                label=f"flow, $\\alpha$ = {slope}",
            )
            axes.plot(data["times"], reduced, "--", color="black", linewidth=0.9)
        axes.plot([], [], "--", color="black", linewidth=0.9, label="Eq. 34, reduced")
        axes.set(xlabel="flow time $t$", ylabel="square loss", xlim=(0, data["times"][-1]))
        axes.legend()
    return figure


FIGURES = {"corollary-14": corollary_14, "eq-34": eq_34}
