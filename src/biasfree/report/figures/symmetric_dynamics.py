"""Pictures of two-layer networks on symmetric data: Figure 3 and its relatives."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from biasfree.report._plots import COLOURS, STYLE
from biasfree.report.figures.time_courses import SLOPE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THEORY: dict[str, Any] = {"color": "black", "linewidth": 0.8}
_DOTS: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 3, "markeredgewidth": 0}
# Curves that fall on one another are drawn ever thinner, and points as rings in one another, so that each is seen.
_NESTED = (6.5, 5.4, 4.3, 3.3, 2.4, 1.5)
_RINGS = (8.6, 7.1, 5.6, 4.1, 2.6, 1.1)
_RING: dict[str, Any] = {"linestyle": "none", "marker": "o", "markerfacecolor": "none", "markeredgewidth": 0.7}


def _panels(rows: int, columns: int, height: float, **options: Any) -> tuple["Figure", Any]:
    """A figure one column wide; several panels are lettered."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.5, height), layout="constrained")
    axes = figure.subplots(rows, columns, **options)
    for letter, panel in zip("abc", np.ravel(axes) if rows * columns > 1 else (), strict=False):
        panel.set_title(letter, loc="left", fontsize=8, fontweight="bold")
    return figure, axes


def figure_3(data: Mapping[str, Any]) -> "Figure":
    """Loss over time and over rescaled time with Eq. 34 on top, and the weights' error with |ε|/2."""
    with mpl.rc_context(STYLE):
        figure, (over_time, rescaled, weights) = _panels(3, 1, 5.8)
        end = 1.4 * data["escape"]
        rescaled.plot(*data["curves"]["1"]["theory"], **_THEORY)
        for size, (slope, curve) in zip(_RINGS, data["curves"].items(), strict=False):
            colour, factor = SLOPE_COLOURS[slope], (1 + float(slope)) / 2
            label = f"$\\alpha$ = {slope}"
            over_time.plot(*curve["theory"], color=colour, linewidth=0.9)
            over_time.plot(curve["times"], curve["losses"], color=colour, label=label, **_DOTS)
            rescaled.plot(factor * curve["times"], curve["losses"], color=colour, markersize=size, **_RING)
        over_time.plot([], [], label="theory", **_THEORY)
        top = 1.12 * data["curves"]["1"]["losses"][0]
        for axes, limits in ((over_time, (0, 2 * end)), (rescaled, (0.72 * data["escape"], 1.28 * data["escape"]))):
            axes.axhline(data["least_squares"], color="grey", linewidth=0.7, linestyle=":")
            axes.set(xlim=limits, ylim=(0, top), ylabel="square loss")
        over_time.text(0, data["least_squares"], " least squares", color="grey", fontsize=7, va="bottom")
        over_time.set(xlabel="flow time $t$")
        figure.legend(loc="outside upper center", ncols=4, fontsize=7, handletextpad=0.3, columnspacing=1.2)
        rescaled.set(xlabel=r"rescaled time $\frac{1}{2}(\alpha+1)t$")
        late = data["rescaled"] >= 0.7 * data["escape"]
        first, last = data["rescaled"][late][[0, -1]]
        grid = data["foreseen"]["times"]
        for slope, error in data["errors"].items():
            colour = SLOPE_COLOURS[slope]
            weights.plot(grid, 100 * data["foreseen"][slope], color=colour, linewidth=0.9)
            weights.plot(data["rescaled"][late], 100 * error[late], color=colour, **_DOTS)
        weights.axhline(100 * data["predicted"], linestyle="--", **_THEORY)
        weights.text(first, 101 * data["predicted"], r" $|\varepsilon|/2$", fontsize=7, va="bottom")
        weights.axhline(1, color="grey", linewidth=0.7, linestyle=":")
        weights.text(last, 1, "printed: below 1 % ", color="grey", fontsize=7, va="bottom", ha="right")
        weights.set(xlim=(first, last), ylim=(0, 125 * max(data["predicted"], 0.01)), ylabel="weight error (%)")
        weights.set(xlabel=r"rescaled time $\frac{1}{2}(\alpha+1)t$")
    return figure


def assumption_4(data: Mapping[str, Any]) -> "Figure":
    """How far the weights are from rank one, with Eq. 23, and their positive and negative parts from equal norm."""
    with mpl.rc_context(STYLE):
        figure, axes = _panels(1, 1, 2.5)
        name = r"not rank one: $\|W_1 - W_2^\top r^\top\|/\|W_1\|$"
        axes.plot(data["times"], data["distance"], color=COLOURS[0], label=name, **_DOTS)
        axes.plot(*data["foreseen"], label="the same by Eq. 23", **_THEORY)
        axes.plot(data["times"], np.abs(data["imbalance"]), color=COLOURS[1], label="unequal signs", **_DOTS)
        axes.axhline(abs(data["start"]), label=r"$|\varepsilon|$ of $r_1$", linestyle="--", **_THEORY)
        axes.set(yscale="log", xlabel="flow time $t$", ylabel="defect of Assumption 4", xlim=(0, data["times"][-1]))
        figure.legend(loc="outside upper center", ncols=2, fontsize=7, handletextpad=0.4, columnspacing=1.2)
    return figure


def theorem_5_logistic(data: Mapping[str, Any]) -> "Figure":
    """Logistic loss over time and over rescaled time, with the reduced flow and the linear twin on top."""
    with mpl.rc_context(STYLE):
        figure, (over_time, rescaled) = _panels(1, 2, 2.1, sharey=True)
        for width, (slope, (losses, reduced)) in zip(_NESTED[::2], data["curves"].items(), strict=False):
            colour = SLOPE_COLOURS[slope]
            over_time.plot(data["times"], losses, color=colour, linewidth=3, alpha=0.5)
            over_time.plot(data["times"], reduced, linestyle="--", **_THEORY)
            label = f"$\\alpha$ = {slope}"
            rescaled.plot((1 + float(slope)) / 2 * data["times"], losses, color=colour, linewidth=width, label=label)
        over_time.plot([], [], linestyle="--", label="reduced flow", **_THEORY)
        rescaled.plot(*data["linear"], linestyle="--", label="linear twin", **_THEORY)
        over_time.set(xlabel="flow time $t$", ylabel="logistic loss", ylim=(0, None), xlim=(0, data["times"][-1]))
        rescaled.set(xlabel=r"$\frac{1}{2}(\alpha+1)t$", xlim=(0, data["linear"][0][-1]))
        for axes in (over_time, rescaled):
            axes.legend(fontsize=7, loc="lower left")
    return figure


def weight_decay(data: Mapping[str, Any]) -> "Figure":
    """Loss of the network, of its twin with the matching decay, and of its twin with the same decay."""
    curves, levels, times = data["curves"], data["levels"], data["times"]
    with mpl.rc_context(STYLE):
        figure, axes = _panels(1, 1, 2.4)
        axes.plot(times, curves["network"], color=COLOURS[0], linewidth=3, alpha=0.5, label=r"ReLU, $\lambda$")
        axes.plot(times, curves["matching"], linestyle="--", label=r"linear twin, $2\lambda/(\alpha+1)$", **_THEORY)
        axes.plot(times, curves["equal"], color=COLOURS[1], linestyle="-.", label=r"linear twin, the same $\lambda$")
        limit = r"minimum of $L + \lambda_{\mathrm{lin}}\|w\|$"
        for name, text, side in (("limit", limit, 1), ("least squares", "least squares", -1)):
            axes.axhline(levels[name], color="grey", linewidth=0.7, linestyle=":")
            note = {"color": "grey", "fontsize": 7, "ha": "right", "va": "bottom" if side > 0 else "top"}
            axes.annotate(text, (60, levels[name]), (-2, 3 * side), textcoords="offset points", **note)
        axes.set(xlabel=r"flow time $t$ of the ReLU network", ylabel="square loss", xlim=(0, 60))
        axes.set_ylim(levels["least squares"] - 0.12 * (curves["network"][0] - levels["least squares"]), None)
        axes.legend()
    return figure


def large_initialisation(data: Mapping[str, Any]) -> "Figure":
    """Errors of Eqs. 4 and 5 over time, by initial scale."""
    with mpl.rc_context(STYLE):
        figure, panels = _panels(1, 2, 2.2, sharey=True)
        for colour, (scale, errors) in zip(COLOURS, data["curves"].items(), strict=False):
            for axes, error in zip(panels, errors, strict=True):
                axes.plot(data["times"][1:], error[1:], color=colour, label=f"$\\gamma$ = {scale}")
        for axes, text in zip(panels, ("function, Eq. 4", "weights, Eq. 5"), strict=True):
            axes.set(xscale="log", yscale="log", xlabel="flow time $t$", ylim=(3e-5, 3))
            axes.set_title(text, fontsize=8)
        panels[0].set_ylabel("distance from the linear twin")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=7)
    return figure


def large_learning_rate(data: Mapping[str, Any]) -> "Figure":
    """Loss of descent over time, and over time divided by the predicted lag, with the flow on top."""
    with mpl.rc_context(STYLE):
        figure, (over_time, divided) = _panels(1, 2, 2.2, sharey=True)
        times, losses = data["curves"]["flow"]
        for colour, (rate, lag) in zip(COLOURS, data["lags"].items(), strict=False):
            descent = data["curves"][rate]
            over_time.plot(*descent, color=colour, label=f"$\\eta$ = {rate}", **_DOTS)
            divided.plot(descent[0] / lag, descent[1], color=colour, **_DOTS)
        for axes in (over_time, divided):
            axes.plot(times, losses, label="flow", **_THEORY)
        drop = float(np.interp(-data["half"], -losses, times))
        for axes in (over_time, divided):
            axes.set(xlim=(0.8 * drop, 1.3 * drop), ylim=(0, None))
        over_time.set(xlabel=r"time $t = \eta k$", ylabel="square loss")
        divided.set(xlabel="$t$ / predicted lag")
        over_time.legend(fontsize=7, loc="lower left", handletextpad=0.4)
    return figure


def max_margin(data: Mapping[str, Any]) -> "Figure":
    """Angle to the max-margin direction against ln(1/L), with the predicted power."""
    with mpl.rc_context(STYLE):
        figure, axes = _panels(1, 1, 2.5)
        styles: dict[str, Any] = {
            "linear": {"color": COLOURS[1], "linewidth": 3, "alpha": 0.5},
            "ReLU": {"color": COLOURS[0]},
        }
        for name, (decades, gap) in data["curves"].items():
            begun = decades > 1
            axes.plot(decades[begun], gap[begun], label=f"{name} network", **styles[name])
        decades, gap = data["curves"]["ReLU"]
        line = np.array([20.0, decades[-1]])
        if np.isfinite(data["limit"]):
            height = 0.5 * (data["limit"] / (line * np.log(10))) ** 2
            text = r"predicted: $\frac{1}{2}(k\,/\ln\frac{1}{L})^2$"
        else:
            height = gap[-1] * decades[-1] / line
            text = r"slope of $1/\ln\frac{1}{L}$"
        axes.plot(line, height, linestyle="--", label=text, **_THEORY)
        axes.set(xscale="log", yscale="log", xlabel=r"$-\log_{10}$ of the logistic loss")
        axes.set_ylabel(r"$1 - \cos\angle(w, \hat{w})$")
        axes.legend(loc="lower left")
    return figure


def theorem_13(data: Mapping[str, Any]) -> "Figure":
    """Norm of the weights beside the growing mode, and the error of Eq. 23, with window and departure."""
    with mpl.rc_context(STYLE):
        figure, (norms, errors) = _panels(2, 1, 4.2, sharex=True)
        for colour, (scale, curve) in zip(COLOURS, data["curves"].items(), strict=False):
            times, later = curve["times"], curve["times"] > 0
            label = f"$\\gamma = 10^{{{np.log10(float(scale)):.0f}}}$"
            norms.plot(times, curve["norms"], color=colour, linewidth=3, alpha=0.5, label=label)
            norms.plot(times, curve["mode"], linestyle="--", **_THEORY)
            errors.plot(times[later], curve["error"][later], color=colour)
            errors.axvline(curve["predicted"], color=colour, linewidth=0.8, linestyle="--")
            errors.plot(curve["departure"], data["level"], "o", color=colour, markersize=4)
            for axes in (norms, errors):
                axes.axvspan(0, curve["window"], color=colour, alpha=0.12, linewidth=0)
        norms.plot([], [], linestyle="--", label="growing mode", **_THEORY)
        norms.set(yscale="log", ylabel=r"$\|W\|$", xlim=(0, None))
        norms.set_ylim(top=30 * max(curve["norms"].max() for curve in data["curves"].values()))
        norms.legend(loc="lower right")
        errors.axhline(data["level"], color="grey", linewidth=0.7, linestyle=":")
        errors.plot([], [], "o", color="grey", markersize=4, label=f"off by {data['level']:.0%}")
        errors.plot([], [], color="grey", linewidth=0.8, linestyle="--", label="predicted")
        errors.fill_between([], [], color="grey", alpha=0.3, linewidth=0, label="window of Thm 13")
        errors.set(yscale="log", xlabel="flow time $t$", ylabel="relative error of Eq. 23")
        names = {"handlelength": 1.3, "handletextpad": 0.4, "columnspacing": 0.9, "fontsize": 7}
        errors.legend(loc="lower right", bbox_to_anchor=(1.02, 0.98), ncols=3, **names)
    return figure


FIGURES = {
    "assumption-4": assumption_4,
    "tmlr-figure-3": figure_3,
    "theorem-5-logistic": theorem_5_logistic,
    "weight-decay": weight_decay,
    "large-initialisation": large_initialisation,
    "large-learning-rate": large_learning_rate,
    "corollary-6-max-margin": max_margin,
    "theorem-13": theorem_13,
}
