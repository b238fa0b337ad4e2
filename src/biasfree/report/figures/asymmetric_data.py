"""Pictures of data that break the symmetry: staircases, output maps with their decision boundaries, neurons."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = COLOURS[0], COLOURS[1], "0.45"
_MAP = "PuOr_r"


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _output_map(
    axes: "Axes", shown: Mapping[str, Any], inputs: Any, labels: Any, neurons: Any = None, size: float = 4.5
) -> None:
    """Output in colour, its zero line, samples by label and, if given, the neurons' incoming weights as rays."""
    half, outputs = shown["half width"], np.asarray(shown["outputs"])
    # Colours are full at the size of the labels, however far the output grows.
    axes.imshow(
        outputs, origin="lower", extent=(-half, half, -half, half), cmap=_MAP, vmin=-2, vmax=2, interpolation="bilinear"
    )
    grid = np.linspace(-half, half, len(outputs))
    axes.contour(grid, grid, outputs, levels=[0.0], colors="black", linewidths=0.9)
    if neurons is not None:
        vectors = np.asarray(neurons)
        reach = 0.9 * half / np.linalg.norm(vectors[:, :2], axis=1).max()
        for first, second, sign in vectors:
            axes.plot(
                [0, reach * first], [0, reach * second], color="#8C2D04" if sign > 0 else "#3F007D", linewidth=0.7
            )
    _samples(axes, inputs, labels, size)
    axes.set(xlim=(-half, half), ylim=(-half, half), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(True)


def _samples(axes: "Axes", inputs: Any, labels: Any, size: float = 4.5) -> None:
    """Circles for +1, bars for −1."""
    x, y = np.asarray(inputs), np.asarray(labels)
    axes.plot(*x[y > 0].T, "o", color="white", markeredgecolor="black", markersize=size, markeredgewidth=0.9, zorder=4)
    axes.plot(*x[y < 0].T, "_", color="white", markersize=1.8 * size, markeredgewidth=3.2, zorder=4)
    axes.plot(*x[y < 0].T, "_", color="black", markersize=1.6 * size, markeredgewidth=1.6, zorder=5)


def _staircase(axes: "Axes", data: Mapping[str, Any]) -> None:
    """Simulated loss, predicted loss, predicted times and levels."""
    for time in data["step times"]:
        axes.axvline(time, color=GREY, linewidth=0.6, linestyle=":")
    axes.hlines(data["levels"], 0, data["times"][-1], color=GREY, linewidth=0.4, zorder=0)
    axes.plot(data["times"], data["losses"], color=BLUE, linewidth=2.6, alpha=0.5, label="simulation")
    axes.plot(data["times"], data["predicted"], "--", color="black", linewidth=0.9, label="linear networks")
    axes.set(xlim=(0, data["times"][-1]), ylim=(0, 1.08 * data["losses"][0]), xlabel="flow time $t$")


def _journal(data: Mapping[str, Any], loss: str) -> "Figure":
    """Columns: the two sets. Rows: loss, output while a sample is still to be learned, output in the end."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.5, 5.3)
        rows = figure.subplots(3, 2, height_ratios=(0.85, 1, 1))
        for k, (name, each) in enumerate(data.items()):
            _staircase(rows[0, k], each)
            rows[0, k].set_title(name, fontsize=8)
            for row in (1, 2):
                _output_map(
                    rows[row, k], each["maps"][row - 1], each["inputs"], each["labels"], each["neurons"][row - 1]
                )
                rows[row, k].set_xlabel(f"$t$ = {each['map times'][row - 1]:.0f}", labelpad=2)
        rows[0, 0].set_ylabel(f"{loss} loss")
        rows[0, 1].legend(fontsize=6.5, handlelength=1.5, loc="upper right", borderaxespad=0.1)
        rows[1, 0].set_ylabel("during training")
        rows[2, 0].set_ylabel("after training")
    return figure


def _both_losses(data: Mapping[str, Any]) -> "Figure":
    """One set, the two losses side by side."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.5, 1.9)
        panels = figure.subplots(1, 2)
        for axes, (loss, each) in zip(panels, data.items(), strict=True):
            _staircase(axes, each)
            axes.set_ylabel(f"{loss} loss")
        panels[1].legend(fontsize=6.5, handlelength=1.5, loc="upper right", borderaxespad=0.1)
    return figure


def symmetrised_augmentation(data: Mapping[str, Any]) -> "Figure":
    """Loss with and without the augmentation, and what was learned."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.5, 3.5)
        panels = figure.subplot_mosaic([["loss", "loss"], ["before", "after"]], height_ratios=(0.8, 1))
        axes = panels["loss"]
        axes.plot(data["times"], data["before"], color=BLUE, label="XOR")
        axes.plot(data["times"], data["after"], color=ORANGE, label="XOR, augmented")
        axes.axhline(data["bound"], color="black", linewidth=0.8, linestyle="--", label="least loss, any width")
        axes.set(xlabel="flow time $t$", ylabel="logistic loss", xlim=(0, data["times"][-1]), ylim=(0, 0.75))
        axes.legend(fontsize=6.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.25), columnspacing=1)
        for k, (name, title) in enumerate((("before", "XOR: 100 %"), ("after", "augmented: 50 %"))):
            _output_map(panels[name], data["maps"][k], data["inputs"][k], data["labels"][k])
            panels[name].set_xlabel(title)
    return figure


def stacked_ones(data: Mapping[str, Any]) -> "Figure":
    """Both max-margin lines of four points, and how the angle between them falls with the constant."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.5, 2.0)
        left, right = figure.subplots(1, 2)
        _samples(left, data["inputs"], data["labels"])
        span = np.array([-1.0, 5.0])
        for name, colour, style in (("with a bias", BLUE, "-"), ("stacked", ORANGE, "--")):
            first, second, bias = data[name]
            # The line first·x + second·y + bias = 0, upright when second vanishes.
            x, y = (
                (np.full(2, -bias / first), span)
                if abs(second) < 1e-9
                else (np.array([2.0, 5.0]), -(bias + first * np.array([2.0, 5.0])) / second)
            )
            left.plot(x, y, style, color=colour, label=name)
        left.set(xlim=(2, 5), ylim=(-0.7, 4.6), xlabel="$x_1$", ylabel="$x_2$")
        left.legend(fontsize=6.5, loc="upper left", borderaxespad=0.1, handlelength=1.5)
        constants = np.geomspace(1, 100, 60)
        right.plot(constants, np.degrees(np.arctan(7 / (4 + constants**2))), color="black", linewidth=0.9)
        right.plot(data["constants"], data["angles"], "o", color=ORANGE, markersize=4)
        right.set(xscale="log", yscale="log", xlabel="stacked constant $c$", ylabel="angle (degrees)")
    return figure


FIGURES = {
    "orthogonal-inputs": _both_losses,
    "xor-inputs": _both_losses,
    "tmlr-figure-4": lambda data: _journal(data, "square"),
    "tmlr-figure-8": lambda data: _journal(data, "logistic"),
    "symmetrised-augmentation": symmetrised_augmentation,
    "stacked-ones": stacked_ones,
}
