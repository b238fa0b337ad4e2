"""Pictures of an inspection: linear share, singular values, layers, and equivalent filters of images."""

from typing import TYPE_CHECKING

import numpy as np

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from biasfree.inspection import Inspection

_SPECTRA = 8
_LEAST = 1e-16


def plot_inspection(inspection: "Inspection") -> "Figure":
    """Left: what of each sample's output is not linear, sorted. Right: singular values of A_x, or its one row."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        missed = np.sort(np.maximum(np.nan_to_num(inspection.share.per_sample_distance, nan=1.0), _LEAST))
        many = len(missed) > 30
        left.semilogy(np.arange(1, len(missed) + 1), missed, "-" if many else ".-", color=COLOURS[0], label="samples")
        left.axhline(
            max(inspection.share.distance, _LEAST), color="black", linewidth=0.8, linestyle="--", label="all together"
        )
        if missed[-1] < 1e-12:
            # Nothing but rounding: a scale of its own would show it as if it were something.
            left.set_ylim(_LEAST / 10, 1.0)
        left.set_xlabel(f"samples of {inspection.points.name}, sorted")
        left.set_ylabel("not linear, $\\|f-Mx\\|/\\|f\\|$")
        left.legend()
        maps = () if inspection.local is None else inspection.local.maps[:_SPECTRA]
        if not maps:
            right.text(0.5, 0.5, "$A_x$ is too large to be formed", ha="center", transform=right.transAxes)
        elif len(maps[0].singular_values) == 1:
            _draw_rows(right, inspection)
        else:
            _draw_spectra(right, inspection)
    return figure


def _draw_spectra(panel: "Axes", inspection: "Inspection") -> None:
    """Singular values of local maps; what rounding leaves is not shown."""
    from matplotlib.ticker import MaxNLocator

    maps = () if inspection.local is None else inspection.local.maps[:_SPECTRA]
    for k, each in enumerate(maps):
        values = each.singular_values[each.singular_values > each.resolution]
        if len(values):
            line = ".-" if len(values) < 40 else "-"
            panel.semilogy(
                np.arange(1, len(values) + 1), values, line, color=COLOURS[k % len(COLOURS)], markersize=4,
                label=f"sample {each.sample}",
            )  # fmt: skip
    seen = np.concatenate([line.get_ydata() for line in panel.lines] or [np.ones(1)])
    if np.ptp(seen) <= 1e-3 * seen.max():
        panel.set_ylim(seen.max() / 2, 2 * seen.max())
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("index $i$ of the singular value")
    panel.set_ylabel("$s_i$ of $A_x$")
    if panel.lines:
        panel.legend(ncols=2 if len(maps) > 4 else 1)


def _draw_rows(panel: "Axes", inspection: "Inspection") -> None:
    """A single output has one row A_x, its slopes: shown themselves, beside the best linear map."""
    from matplotlib.ticker import MaxNLocator

    maps = () if inspection.local is None else inspection.local.maps
    for k, each in enumerate(maps):
        row = each.matrix.reshape(-1)
        panel.plot(np.arange(1, len(row) + 1), row, ".", color=COLOURS[0], markersize=4, label="_" * bool(k) + "$A_x$")
    if inspection.linear_map is not None and np.size(inspection.linear_map) == maps[0].matrix.size:
        row = np.asarray(inspection.linear_map).reshape(-1)
        panel.plot(np.arange(1, len(row) + 1), row, "_", color="black", markersize=12, label="best linear map")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("input $j$")
    panel.set_ylabel("slope $\\partial f/\\partial x_j$")
    panel.legend()


def plot_layers(inspection: "Inspection") -> "Figure":
    """Left: the network's first output against that of the best linear map. Right: singular values of each layer."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    layers, linear_map = inspection.layers, inspection.linear_map
    if layers is None or linear_map is None:
        raise ValueError("only fully connected chains have this picture.")
    points = inspection.points.spread(len(inspection.outputs)).x
    outputs, straight = inspection.outputs[:, 0], points @ np.atleast_2d(linear_map)[0]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        ends = [min(straight.min(), outputs.min()), max(straight.max(), outputs.max())]
        left.plot(ends, ends, color="black", linewidth=0.8, linestyle="--", label="linear")
        left.plot(straight, outputs, ".", color=COLOURS[0], markersize=2.5, label="network")
        left.set_xlabel(f"best linear map $Mx$, $x$ from {inspection.points.name}")
        left.set_ylabel("first output $f_1(x)$" if inspection.outputs.shape[1] > 1 else "output $f(x)$")
        left.legend()
        for k, weight in enumerate(layers.weights):
            values = np.linalg.svd(weight, compute_uv=False)
            if values[0] > 0:
                shown = np.maximum(values / values[0], _LEAST)[:20]
                colour = COLOURS[k % len(COLOURS)]
                right.semilogy(np.arange(1, len(shown) + 1), shown, ".-", color=colour, label=f"W{k + 1}", markersize=4)
        right.xaxis.get_major_locator().set_params(integer=True)
        right.set_xlabel("index $i$ of the singular value")
        right.set_ylabel("$s_i/s_1$")
        if right.lines:
            right.legend(ncols=2 if layers.depth > 4 else 1)
    return figure


def plot_filters(inspection: "Inspection") -> "Figure":
    """The image, rows of A_x as images at three pixels of it, and its leading singular vectors."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    local = inspection.local
    if local is None or len(local.shape) != 3:
        raise ValueError("equivalent filters are those of networks from images to images.")
    each, (_, height, width) = local.maps[0], local.shape
    image = inspection.points.values[0][each.sample][0]
    pixels = [(height // 2, width // 2), (height // 4, width // 4), (height // 4, 3 * width // 4)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 3.9), layout="constrained")
        above, below = figure.subplots(2, 4)
        above[0].imshow(image, cmap="gray")
        above[0].set_title(f"input, sample {each.sample}", fontsize=8)
        rows = each.matrix.reshape(local.out[0], height, width, *local.shape)
        for k, (i, j) in enumerate(pixels):
            above[0].plot(j, i, "s", markersize=4, markerfacecolor="none", color=COLOURS[k])
            kernel = rows[0, i, j, 0]
            top = np.abs(kernel).max() or 1.0
            above[k + 1].imshow(kernel, cmap="RdBu_r", vmin=-top, vmax=top)
            above[k + 1].set_title(f"filter of pixel ({i}, {j})", fontsize=8, color=COLOURS[k])
        for k in range(4):
            if k < each.right.shape[1]:
                vector = each.right[:, k].reshape(local.shape)[0]
                top = np.abs(vector).max() or 1.0
                below[k].imshow(vector, cmap="RdBu_r", vmin=-top, vmax=top)
                below[k].set_title(f"right vector {k + 1}, s = {each.singular_values[k]:.3g}", fontsize=8)
        for panel in (*above, *below):
            panel.set_xticks([])
            panel.set_yticks([])
    return figure
