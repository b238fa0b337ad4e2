"""Pictures of networks with several outputs: twins, modes one by one, and cross-entropy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

from biasfree.report._plots import COLOURS, STYLE
from biasfree.report.figures.time_courses import SLOPE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THEORY: dict[str, Any] = {"color": "black", "linewidth": 0.9, "linestyle": "--"}


def several_outputs_linear_twin(data: Mapping[str, Any]) -> "Figure":
    """Loss of each slope over its own time, with the twin's on top."""
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for slope, (losses, twin) in data["curves"].items():
            label = f"$\\alpha$ = {slope}"
            axes.plot(data["times"], losses, color=SLOPE_COLOURS[slope], linewidth=3, alpha=0.4, label=label)
            axes.plot(data["times"], twin, **_THEORY)
        axes.plot([], [], label=r"linear twin at $\frac{1}{2}(\alpha+1)t$", **_THEORY)
        axes.set(xlabel="flow time $t$", ylabel="square loss, three outputs", xlim=(0, data["times"][-1]))
        axes.legend()
    return figure


def modes_one_by_one(data: Mapping[str, Any]) -> "Figure":
    """The strength of each mode and the loss, with predictions on top."""
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.5, 3.8), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for mode, time in enumerate(data["predicted_times"]):
            colour = COLOURS[mode]
            above.plot(
                data["times"],
                data["strengths"][:, mode],
                color=colour,
                linewidth=3,
                alpha=0.4,
                label=f"mode {mode + 1}",
            )
            above.plot(data["times"], data["predicted_strengths"][:, mode], **_THEORY)
            for axes in (above, below):
                axes.axvline(time, color=colour, linewidth=0.7, linestyle=":")
        below.plot(data["times"], data["losses"], color=COLOURS[0], linewidth=3, alpha=0.4, label="ReLU network")
        below.plot(data["times"], data["predicted_losses"], label="linear twin, predicted", **_THEORY)
        for level in data["levels"]:
            below.axhline(level, color="grey", linewidth=0.5, linestyle=":")
        above.set(ylabel="strength $u^\\top F z$")
        begin = 0.6 * float(data["predicted_times"][0])
        below.set(xlabel="flow time $t$", ylabel="square loss", xlim=(begin, data["times"][-1]))
        above.legend(loc="lower right")
        below.legend()
    return figure


def cross_entropy_twin(data: Mapping[str, Any]) -> "Figure":
    """Loss beside the twin's, and the weight error of Eq. 5, for two and for three classes."""
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.5, 3.8), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for colour, (classes, (losses, twin, errors)) in zip(COLOURS, data["curves"].items(), strict=False):
            above.plot(data["times"], losses, color=colour, linewidth=3, alpha=0.4, label=f"{classes} classes")
            above.plot(data["times"], twin, **_THEORY)
            below.plot(data["times"][1:], errors[1:], color=colour, label=f"{classes} classes")
        above.plot([], [], label="linear twin", **_THEORY)
        above.set(ylabel="cross-entropy")
        below.set(yscale="log", xlabel="flow time $t$", ylabel="weight error of Eq. 5", xlim=(0, data["times"][-1]))
        above.legend()
        below.legend(loc="center right")
    return figure


FIGURES = {
    "several-outputs-linear-twin": several_outputs_linear_twin,
    "modes-one-by-one": modes_one_by_one,
    "cross-entropy-twin": cross_entropy_twin,
}
