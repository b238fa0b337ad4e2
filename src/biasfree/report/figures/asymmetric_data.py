"""Pictures of data that break the symmetry: staircases, output maps with their decision boundaries, neurons."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

BLUE, ORANGE, GREEN, PINK = COLOURS[:4]
GREY = "0.45"
_MAP = "PuOr_r"


def _figure(height: float, width: float = 3.5) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _output_map(
    axes: "Axes", half: float, outputs: Any, samples: tuple[Any, Any] | None = None, limit: float = 2.0
) -> "AxesImage":
    """Output in colour, full at ±limit, its zero line, and the samples by label."""
    values = np.asarray(outputs)
    image = axes.imshow(
        values,
        origin="lower",
        extent=(-half, half, -half, half),
        cmap=_MAP,
        vmin=-limit,
        vmax=limit,
        interpolation="bilinear",
    )
    for x, y in _decision_rays(values, half):
        axes.plot([0, x], [0, y], color="black", linewidth=0.9, solid_capstyle="round")
    if samples is not None:
        _samples(axes, *samples)
    axes.set(xlim=(-half, half), ylim=(-half, half), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(True)
    return image


def _decision_rays(values: np.ndarray, half: float) -> list[tuple[float, float]]:
    """Where f changes sign along the edge of the map: without biases, its zeros are rays from the origin through there.

    Where no neuron is active f is zero all over, and its sign is rounding: there is no boundary to draw.
    """
    along = np.linspace(-half, half, len(values))
    side, edge = np.full(len(values), half), len(values) - 1
    x = np.concatenate([along[:-1], side[:-1], along[:0:-1], -side[:-1]])
    y = np.concatenate([-side[:-1], along[:-1], side[:-1], along[:0:-1]])
    f = np.concatenate([values[0, :-1], values[:-1, edge], values[edge, :0:-1], values[:0:-1, 0]])
    signs = np.where(np.abs(f) < 1e-4 * np.abs(f).max(), 0, np.sign(f))
    rays = []
    for k in np.flatnonzero(signs):
        # A single point near zero is on the boundary, several in a row are none.
        other = (k + 1) % len(f) if signs[(k + 1) % len(f)] else (k + 2) % len(f)
        if signs[k] * signs[other] < 0:
            part = f[k] / (f[k] - f[other])
            rays.append((float(x[k] + part * (x[other] - x[k])), float(y[k] + part * (y[other] - y[k]))))
    return rays


def _neurons(axes: "Axes", half: float, neurons: Any) -> None:
    """Incoming weights as rays from the origin, coloured by the sign of the outgoing weight."""
    vectors = np.asarray(neurons)
    reach = 0.85 * half / np.linalg.norm(vectors[:, :2], axis=1).max()
    rays = np.stack([np.zeros((len(vectors), 2)), reach * vectors[:, :2]], axis=1)
    colours = [GREEN if sign > 0 else PINK for sign in vectors[:, 2]]
    axes.add_collection(LineCollection(list(rays), colors="white", linewidths=2.4, capstyle="round", zorder=2))
    axes.add_collection(LineCollection(list(rays), colors=colours, linewidths=1.3, capstyle="round", zorder=3))


def _samples(axes: "Axes", inputs: Any, labels: Any, size: float = 4.5) -> None:
    """Circles for +1, bars for −1."""
    x, y = np.asarray(inputs), np.asarray(labels)
    axes.plot(*x[y > 0].T, "o", color="white", markeredgecolor="black", markersize=size, markeredgewidth=0.9, zorder=4)
    axes.plot(*x[y < 0].T, "_", color="white", markersize=1.8 * size, markeredgewidth=3.4, zorder=4)
    axes.plot(*x[y < 0].T, "_", color="black", markersize=1.55 * size, markeredgewidth=1.6, zorder=5)


def _staircase(axes: "Axes", data: Mapping[str, Any], named: bool) -> None:
    """Simulated loss, predicted loss, predicted times and levels."""
    names = ("simulation", "linear networks", "predicted times") if named else (None, None, None)
    axes.hlines(data["levels"], 0, data["times"][-1], color="0.8", linewidth=0.5, zorder=0)
    axes.plot(data["times"], data["losses"], color=BLUE, linewidth=2.6, alpha=0.5, label=names[0])
    axes.plot(data["times"], data["predicted"], "--", color="black", linewidth=0.9, label=names[1])
    for k, time in enumerate(data["step times"]):
        axes.axvline(time, color=ORANGE, linewidth=0.8, linestyle=":", label=names[2] if k == 0 else None, zorder=0)
    axes.set(xlim=(0, data["times"][-1]), ylim=(0, 1.08 * data["losses"][0]), xlabel="flow time $t$")


def _legend(figure: "Figure", columns: int) -> None:
    figure.legend(loc="outside upper center", ncols=columns, fontsize=6.5, handlelength=1.6, columnspacing=1.2)


def _journal(data: Mapping[str, Any], loss: str, limit: float) -> "Figure":
    """Columns: the two sets. Rows: loss, output while samples are still to be learned, output in the end."""
    with mpl.rc_context(STYLE):
        figure = _figure(5.6)
        rows = figure.subplots(3, 2, height_ratios=(0.8, 1, 1))
        for k, (name, each) in enumerate(data.items()):
            _staircase(rows[0, k], each, named=k == 0)
            rows[0, k].set_title(name, fontsize=8)
            for row in (1, 2):
                shown, axes = each["maps"][row - 1], rows[row, k]
                half = shown["half width"]
                image = _output_map(axes, half, shown["outputs"], (each["inputs"], each["labels"]), limit)
                _neurons(axes, half, each["neurons"][row - 1])
                axes.set_title(f"$t$ = {each['map times'][row - 1]:.0f}", fontsize=7, pad=2)
        rows[0, 0].set_ylabel(f"{loss} loss")
        rows[1, 0].set_ylabel("during training")
        rows[2, 0].set_ylabel("after training")
        rows[1, 0].plot([], [], color=GREEN, label="neuron, $w_2 > 0$")
        rows[1, 0].plot([], [], color=PINK, label="neuron, $w_2 < 0$")
        figure.colorbar(image, ax=rows[1:], location="bottom", shrink=0.6, aspect=30, extend="both", label="output $f$")
        _legend(figure, 3)
    return figure


def _both_losses(data: Mapping[str, Any]) -> "Figure":
    """One set, the two losses side by side."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.0)
        panels = figure.subplots(1, 2)
        for k, (axes, (loss, each)) in enumerate(zip(panels, data.items(), strict=True)):
            _staircase(axes, each, named=k == 0)
            axes.set_ylabel(f"{loss} loss")
        _legend(figure, 3)
    return figure


def symmetrised_augmentation(data: Mapping[str, Any]) -> "Figure":
    """Loss with and without the augmentation, and what was learned."""
    with mpl.rc_context(STYLE):
        figure = _figure(3.8)
        panels = figure.subplot_mosaic([["loss", "loss"], ["before", "after"]], height_ratios=(0.75, 1))
        axes = panels["loss"]
        axes.plot(data["times"], data["before"], color=BLUE, label="XOR")
        axes.plot(data["times"], data["after"], color=ORANGE, label="XOR, augmented")
        axes.axhline(data["bound"], color="black", linewidth=0.8, linestyle="--", label="least loss, any width")
        axes.set(xlabel="flow time $t$", ylabel="logistic loss", xlim=(0, data["times"][-1]), ylim=(0, 0.75))
        for k, (name, title) in enumerate((("before", "XOR"), ("after", "augmented"))):
            shown = data["maps"][k]
            samples = (data["inputs"][k], data["labels"][k])
            image = _output_map(panels[name], shown["half width"], shown["outputs"], samples, limit=4.0)
            panels[name].set_title(f"{title}: accuracy {data['accuracies'][k]:.0%}", fontsize=8)
        both = [panels["before"], panels["after"]]
        figure.colorbar(image, ax=both, location="bottom", shrink=0.6, aspect=30, extend="both", label="output $f$")
        _legend(figure, 3)
    return figure


def six_points(data: Mapping[str, Any]) -> "Figure":
    """Loss through the plateau, and the output on it and after it."""
    with mpl.rc_context(STYLE):
        figure = _figure(4.1)
        panels = figure.subplot_mosaic([["loss", "loss"], ["during", "after"]], height_ratios=(0.85, 1))
        axes = panels["loss"]
        for k, losses in enumerate(data["others"]):
            axes.plot(data["other times"], losses, color="0.75", linewidth=0.7, label="other draws" if k == 0 else None)
        axes.plot(data["times"], data["losses"], color=BLUE, label="this network")
        axes.axhline(data["level"], color="black", linewidth=0.8, linestyle="--", label="linear solution")
        axes.set(xlabel="flow time $t$", ylabel="square loss", xlim=(0, data["other times"][-1]), ylim=(0, 0.54))
        for k, name in enumerate(("during", "after")):
            shown = data["maps"][k]
            image = _output_map(panels[name], shown["half width"], shown["outputs"], (data["inputs"], data["labels"]))
            panels[name].set_title(f"$t$ = {data['map times'][k]:.0f}", fontsize=8)
            axes.plot(
                data["map times"][k], np.interp(data["map times"][k], data["times"], data["losses"]), "o", color=BLUE
            )
        both = [panels["during"], panels["after"]]
        figure.colorbar(image, ax=both, location="bottom", shrink=0.6, aspect=30, extend="both", label="output $f$")
        _legend(figure, 3)
    return figure


def perturbed_symmetry(data: Mapping[str, Any]) -> "Figure":
    """All draws: which leave the plateau, and when; the plateau itself enlarged."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.1)
        whole, enlarged = figure.subplots(1, 2)
        for axes in (whole, enlarged):
            names = {True: "leave", False: "stay"} if axes is whole else {}
            for losses in data["losses"]:
                leaves = bool(losses[-1] < data["left"])
                colour = BLUE if leaves else ORANGE
                axes.plot(data["times"], losses, color=colour, linewidth=0.9, label=names.pop(leaves, None))
            name = "linear solution" if axes is whole else None
            axes.axhline(data["level"], color="black", linewidth=0.8, linestyle="--", label=name)
            axes.set(xlabel="flow time $t$", xlim=(0, data["times"][-1]))
        whole.set(ylabel="square loss", ylim=(0, 0.54))
        enlarged.set(ylim=(0.4355, 0.4455), title="enlarged")
        enlarged.title.set_fontsize(7)
        _legend(figure, 3)
    return figure


def depth_separation(data: Mapping[str, Any]) -> "Figure":
    """The target and what each depth has learned of it, with the samples and the loss."""
    with mpl.rc_context(STYLE):
        figure = _figure(4.2)
        panels = figure.subplot_mosaic([["loss", "target"], ["two", "three"]], height_ratios=(1, 1))
        axes = panels["loss"]
        end = max(times[-1] for times in data["times"])
        for k, (name, colour) in enumerate((("two layers", ORANGE), ("three layers", BLUE))):
            axes.plot(data["times"][k], data["losses"][k], color=colour, label=name)
        axes.axhline(data["level"], color="black", linewidth=0.8, linestyle="--", label="linear solution")
        axes.set(xlabel="flow time $t$", ylabel="square loss", xlim=(0, end), yscale="log")
        axes.set_ylim(0.5 * min(losses.min() for losses in data["losses"]), 1)
        samples = np.asarray(data["inputs"])
        for k, (name, title) in enumerate((("target", "target $g$"), ("two", "two layers"), ("three", "three layers"))):
            image = _output_map(panels[name], data["half width"], data["maps"][k])
            panels[name].set_title(title, fontsize=8)
            panels[name].plot(*samples.T, ".", color="black", markersize=1.6, markeredgewidth=0)
            panels[name].set(xlabel="$x_1$", ylabel="$x_2$", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
        below = [panels["two"], panels["three"]]
        figure.colorbar(image, ax=below, location="bottom", shrink=0.6, aspect=30, extend="both", label="output $f$")
        _legend(figure, 3)
    return figure


def depth_separation_losses(data: Mapping[str, Any]) -> "Figure":
    """Every draw's loss, as part of what a linear map leaves."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.3)
        axes = figure.subplots()
        for depth, colour in (("two", ORANGE), ("three", BLUE)):
            for k, (times, parts) in enumerate(zip(data["times"][depth], data["parts"][depth], strict=True)):
                axes.plot(times, parts, color=colour, linewidth=1, label=f"{depth} layers" if k == 0 else None)
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--", zorder=3, label="linear solution")
        axes.set(xlabel="flow time $t$", ylabel="loss ÷ the linear solution's", yscale="log")
        axes.set_xlim(0, max(times[-1] for depth in data["times"].values() for times in depth))
        axes.locator_params(axis="x", nbins=5)
        _legend(figure, 3)
    return figure


def best_possible_loss(data: Mapping[str, Any]) -> "Figure":
    """Trained losses against the bound: all on or above the diagonal."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.6)
        axes = figure.subplots()
        bounds, reached = np.asarray(data["bounds"]), np.asarray(data["reached"])
        axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, label="bound")
        styles = (("two layers", "o", BLUE), ("three layers", "^", ORANGE))
        for (name, marker, colour), bound, loss in zip(styles, bounds, reached, strict=False):
            axes.plot(bound, loss, marker, color=colour, markersize=4, alpha=0.8, linestyle="", label=name)
        axes.fill_between([0, 1], 0, [0, 1], color="0.92", linewidth=0)
        axes.text(0.62, 0.2, "no network of\nany width", fontsize=7, color=GREY)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set(xlabel="least possible loss ÷ ½⟨y²⟩", ylabel="trained loss ÷ ½⟨y²⟩")
        axes.legend(loc="upper left")
    return figure


def stacked_ones(data: Mapping[str, Any]) -> "Figure":
    """Both max-margin lines of four points, and how the angle between them falls with the constant."""
    with mpl.rc_context(STYLE):
        figure = _figure(2.1)
        left, right = figure.subplots(1, 2)
        _samples(left, data["inputs"], data["labels"])
        for name, colour, style in (("with a bias", BLUE, "-"), ("stacked [x, 1]", ORANGE, "--")):
            first, second, bias = data["with a bias" if style == "-" else "stacked"]
            # Both solve first·x + second·y + bias = 0; the foot of the origin's perpendicular is on the line.
            foot = -bias * np.array([first, second]) / (first**2 + second**2)
            left.axline(foot, foot + np.array([-second, first]), color=colour, linestyle=style, label=name)
        left.set(xlim=(2, 5), ylim=(-0.7, 3.7), xlabel="$x_1$", ylabel="$x_2$")
        constants = np.geomspace(1, 100, 60)
        right.plot(
            constants, np.degrees(np.arctan(7 / (4 + constants**2))), color="black", linewidth=0.9, label="by hand"
        )
        right.plot(data["constants"], data["angles"], "o", color=ORANGE, markersize=4)
        right.set(xscale="log", yscale="log", xlabel="stacked constant $c$", ylabel="angle (degrees)")
        _legend(figure, 3)
    return figure


FIGURES = {
    "orthogonal-inputs": _both_losses,
    "xor-inputs": _both_losses,
    "tmlr-figure-4": lambda data: _journal(data, "square", 2.0),
    "tmlr-figure-8": lambda data: _journal(data, "logistic", 4.0),
    "symmetrised-augmentation": symmetrised_augmentation,
    "perturbed-symmetry": perturbed_symmetry,
    "tmlr-figure-6": six_points,
    "depth-separation": depth_separation_losses,
    "tmlr-figure-1": depth_separation,
    "best-possible-loss": best_possible_loss,
    "stacked-ones": stacked_ones,
}
