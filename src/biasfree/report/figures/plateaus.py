"""Pictures of the studies of plateaus."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _axes(width: float = 3.5) -> tuple["Figure", Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 2.6), layout="constrained")
        return figure, figure.subplots()


def departure_law(data: Mapping[str, Any]) -> "Figure":
    """Departure time against asymmetry on logarithmic axes, one colour per scale, the law as lines."""
    figure, axes = _axes(4.2)
    lines = data.get("law offsets", data["offsets"])
    for k, scale in enumerate(np.asarray(data["scales"])):
        exponent = round(np.log10(scale))
        axes.plot(lines, np.asarray(data["law"])[k], color=COLOURS[k], linewidth=1.0)
        axes.plot(
            data["offsets"], np.asarray(data["times"])[k], "o", color=COLOURS[k], markersize=4,
            label=f"$\\gamma = 10^{{{exponent}}}$",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("asymmetry δ (offset of one of six points)")
    axes.set_ylabel("departure time $t$")
    axes.legend(title="measured; lines: theory", fontsize=7, title_fontsize=7)
    return figure


def departure_decay(data: Mapping[str, Any]) -> "Figure":
    """The rate per e-fold against weight decay."""
    figure, axes = _axes()
    axes.plot(data["decays"], data["law"], color="black", linewidth=1.0, label="law")
    axes.plot(data["decays"], data["rates"], "o", color=COLOURS[0], label="measured")
    axes.axvline(data["threshold"], color=COLOURS[1], linestyle=":", label="threshold")
    axes.set_xlabel("weight decay λ")
    axes.set_ylabel("e-folds of the scale per unit of time")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    return figure


def saddle_to_saddle(data: Mapping[str, Any]) -> "Figure":
    """Predicted against measured ends of plateaus."""
    figure, axes = _axes()
    measured, predicted = np.asarray(data["pairs"]).T
    kept = np.isfinite(predicted)
    ends = np.array([measured[kept].min(), measured[kept].max()])
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.plot(measured[kept], predicted[kept], "o", color=COLOURS[0], markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured end of a plateau")
    axes.set_ylabel("predicted end")
    return figure


def plateau_skeleton(data: Mapping[str, Any]) -> "Figure":
    """The limiting staircase, and the drops at each scale."""
    figure, axes = _axes()
    limit, levels = np.asarray(data["limit"]), np.asarray(data["levels"])
    edges = np.concatenate([[0.0], limit, [1.15 * limit[-1]]])
    axes.stairs(levels, edges, color="black", baseline=None, label="limit")
    for k, scale in enumerate(np.asarray(data["scales"])):
        middle = 0.5 * (levels[1:] + levels[:-1])
        axes.plot(
            np.asarray(data["taus"])[:, k], middle, "o", color=COLOURS[k], markersize=4,
            label=f"$\\gamma = 10^{{{round(np.log10(scale))}}}$",
        )  # fmt: skip
    axes.set_xlabel("$\\tau = t/\\ln(1/\\gamma)$")
    axes.set_ylabel("loss")
    axes.legend(fontsize=7)
    return figure


FIGURES = {
    "departure-law": departure_law,
    "departure-decay": departure_decay,
    "saddle-to-saddle": saddle_to_saddle,
    "plateau-skeleton": plateau_skeleton,
}
