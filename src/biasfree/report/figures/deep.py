"""Pictures of deep networks: their sorted weights and stepwise loss, their reduced flow, what they conserve, and how
slowly their last layers tend to rank one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREEN, _PINK = COLOURS[:4]
_THICK = {"linewidth": 3, "alpha": 0.5}
_THEORY: dict[str, Any] = {"linestyle": "--", "color": "black", "linewidth": 0.9}


def _figure(height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(3.5, height), layout="constrained")


def _lettered(panels: Any) -> None:
    for letter, axes in zip("abcd", panels, strict=False):
        axes.set_title(letter, loc="left", fontsize=8, fontweight="bold")


def figure_5(data: Mapping[str, Any]) -> "Figure":
    """Weights of both networks, neurons sorted by r_l with the borders of the blocks; below, the loss."""
    with mpl.rc_context(STYLE):
        figure = _figure(5.4)
        halves: Any = figure.subfigures(2, 1, height_ratios=(2.4, 1))
        upper, lower = halves
        grid = upper.subplots(2, 3, width_ratios=(0.4, 1, 0.16))
        labels = ("$W_1$", "$W_2$", "$W_3^\\top$")
        across = ("input", "hidden layer 1", "output")
        along = ("hidden layer 1", "hidden layer 2", "hidden layer 2")
        for row, (name, weights) in zip(grid, data["weights"].items(), strict=True):
            first, second = data["blocks"][name]
            sheets = (weights[0], weights[1], weights[2].T)
            borders = ((first, None), (second, first), (second, None))
            for k, axes in enumerate(row):
                image = _sheet(axes, sheets[k], borders[k])
                axes.set_title(labels[k], fontsize=8, pad=4)
                axes.set_ylabel(along[k], fontsize=6.5, labelpad=2)
                axes.set_xlabel(across[k], fontsize=6.5, labelpad=2)
            row[0].annotate(
                f"{name} network", (-0.36, 0.5), xycoords="axes fraction", rotation=90, va="center", ha="right"
            )
        bar = upper.colorbar(image, ax=grid, location="bottom", shrink=0.6, aspect=30)
        bar.set_label("weight / largest of its matrix")
        _steps(lower, data)
    return figure


def _sheet(axes: "Axes", sheet: np.ndarray, borders: tuple[int, int | None]) -> Any:
    """One matrix, white at zero, with lines between its blocks."""
    image = axes.imshow(
        sheet / np.abs(sheet).max(), cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    axes.axhline(borders[0] - 0.5, color="black", linewidth=0.7, linestyle=":")
    if borders[1] is not None:
        axes.axvline(borders[1] - 0.5, color="black", linewidth=0.7, linestyle=":")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    return image


def _steps(figure: Any, data: Mapping[str, Any]) -> None:
    """Loss of both networks, and its two steps enlarged: as two paths from where they were read, and as predicted."""
    whole, enlarged = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1))
    first, second = (
        float(np.interp(-part * data["levels"][0], *_falling(data["curves"]["ReLU"]))) for part in (0.75, 0.25)
    )
    marked = [*data["predicted_at_start"], first, second]
    room = 0.25 * (max(marked) - min(marked)) + 0.01 * second
    end = 1.15 * max(marked)
    for axes in (whole, enlarged):
        for colour, (name, (times, losses)) in zip((_ORANGE, _BLUE), data["curves"].items(), strict=True):
            # A run that ended with its loss near zero stays there.
            axes.plot([*times, max(end, times[-1])], [*losses, losses[-1]], color=colour, label=name, **_THICK)
        axes.plot(*data["predicted"], label="two-path flow", **_THEORY)
        axes.axhline(data["levels"][1], color="grey", linewidth=0.5, zorder=0)
        axes.set_xlabel("flow time $t$")
    for time in data["predicted_at_start"]:
        enlarged.axvline(time, color=_GREEN, linewidth=0.9, linestyle=":")
    whole.plot([], [], color=_GREEN, linewidth=0.9, linestyle=":", label="predicted at $t = 0$")
    whole.text(0, data["levels"][1], " half", va="bottom", fontsize=7, color="grey")
    whole.set(ylabel="square loss", xlim=(0, end), ylim=(0, 1.05 * data["levels"][0]))
    enlarged.set(xlim=(min(marked) - room, max(marked) + room))
    enlarged.set_title("ReLU, enlarged", fontsize=7)
    figure.legend(
        *whole.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
        fontsize=6.5,
        handlelength=1.5,
        columnspacing=1.0,
    )


def _falling(curve: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A falling loss as np.interp needs it."""
    times, losses = curve
    return -losses, times


def structure_persists(data: Mapping[str, Any]) -> "Figure":
    """Loss, norm and direction of the whole network beside the two equations, and a start beside the form."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.6)
        panels = figure.subplots(2, 2, sharex=True).ravel()
        _lettered(panels)
        for colour, (depth, curve) in zip(COLOURS, data["curves"].items(), strict=False):
            for axes, name in zip(panels, ("loss", "norm", "turned"), strict=False):
                whole, reduced = curve[name]
                axes.plot(
                    curve["times"],
                    whole,
                    color=colour,
                    label=f"{depth} layers" if axes is panels[0] else None,
                    **_THICK,
                )
                axes.plot(curve["times"], reduced, **_THEORY)
        panels[0].plot([], [], label="two equations", **_THEORY)
        times, beside = data["perturbed"]
        panels[3].plot(times, 1e3 * beside, color=COLOURS[0], label="3 layers, perturbed start")
        panels[0].set(ylabel="square loss", ylim=(0, None), xlim=(0, None))
        panels[1].set(ylabel="norm $u$ of a layer", ylim=(0, None))
        panels[2].set(ylabel="cosine of $r$ and $w^*$", xlabel="flow time $t$")
        panels[3].set(ylabel="residual of Eq. 40 / $10^{-3}$", xlabel="flow time $t$", ylim=(0, None))
        figure.legend(loc="outside upper center", ncols=2, fontsize=7)
    return figure


def matrix_invariance(data: Mapping[str, Any]) -> "Figure":
    """How far the matrix around each hidden layer drifts while the loss falls."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.5)
        axes = figure.subplots()
        for colour, (layer, drift) in zip(COLOURS, data["drifts"].items(), strict=False):
            linear = int(layer) in data["linear"]
            label = f"$k$ = {layer}, {'linear' if linear else 'ReLU'}"
            axes.plot(10 ** data["log_losses"][1:], drift[1:], "--" if linear else "-", color=colour, label=label)
        # At first there is nothing but rounding.
        axes.set(xlabel="logistic loss", xscale="log", yscale="log", ylim=(1e-9, 1))
        axes.invert_xaxis()
        ticks = [tick for tick in (0.7, 0.5, 0.3, 0.2, 0.1) if tick <= 10 ** data["log_losses"][0]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_ylabel(
            "drift of $W_kW_k^\\top - W_{k+1}^\\top W_{k+1}$\nrelative to the squared weights", linespacing=1.4
        )
        figure.legend(loc="outside upper center", ncols=2, fontsize=7)
    return figure


def rank_one_limit(data: Mapping[str, Any]) -> "Figure":
    """1 − ‖W‖₂/‖W‖_F by layer with the power law fitted to the first tenth, and alignment with its bound."""
    distance = data["distances"]
    shown = distance > 0.5
    with mpl.rc_context(STYLE):
        figure = _figure(4.4)
        rank, angle = figure.subplots(2, 1, sharex=True)
        _lettered((rank, angle))
        for colour, (layer, values) in zip(COLOURS, data["shortfalls"].items(), strict=False):
            linear = layer in data["laws"]
            label = f"$W_{layer}$, {'linear' if linear else 'ReLU'}"
            rank.plot(distance[shown], values[shown], color=colour, label=label, **(_THICK if linear else {}))
            if linear:
                rank.plot(distance[shown], data["laws"][layer][shown], **_THEORY)
        rank.plot([], [], label=f"law, $(\\ln 1/L)^{{-{data['exponent']:g}}}$ in the limit", **_THEORY)
        rank.axvline(data["fitted"], color="grey", linewidth=0.6)
        rank.text(
            data["fitted"],
            0.75,
            "fitted up to here ",
            transform=rank.get_xaxis_transform(),
            fontsize=6.5,
            va="top",
            ha="right",
            color="grey",
        )
        rank.set(xscale="log", yscale="log", ylabel="$1 - \\|W\\|_2/\\|W\\|_F$")
        rank.legend(fontsize=6.5, loc="lower left")
        for colour, layer, values, most in zip(
            COLOURS[1:], data["laws"], data["misalignment"].T, data["misalignment_limit"].T, strict=False
        ):
            angle.plot(distance[shown], values[shown], color=colour, label=f"$W_{layer}$ and $W_{int(layer) + 1}$")
            said = shown & (most < 1)
            angle.plot(distance[said], most[said], "-.", color=colour, linewidth=0.9)
        angle.plot([], [], "-.", color="grey", linewidth=0.9, label="allowed at most")
        angle.set(xscale="log", yscale="log", xlabel="$\\log_{10} 1/L$")
        angle.set_ylabel("$1 - |\\langle v_{k+1}, u_k\\rangle|$")
        angle.legend(fontsize=6.5, loc="lower left")
    return figure


FIGURES = {
    "tmlr-figure-5": figure_5,
    "structure-persists": structure_persists,
    "matrix-invariance": matrix_invariance,
    "rank-one-limit": rank_one_limit,
}
