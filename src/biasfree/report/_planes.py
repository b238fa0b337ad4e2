"""Pictures in the plane of the inputs: data, what a network computes there, and where its neurons point.

Data of two dimensions are shown as they are. Of others, the plane of the two directions along which the inputs are
largest is shown: outputs at points of that plane, samples and neurons projected on it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 121
_SAMPLES, _LINES, _PANELS, _NAMED = 400, 40, 4, 12
# Where outputs are below this share of the targets all around, there is silence and no line where they change sign.
_NEGLIGIBLE = 1e-3


def output_map(network: Network, data: Dataset, *, reach: float | None = None) -> "Figure":
    """What a network computes in the plane of the inputs, with the samples and their targets on top.

    One output is a map in red and blue, with its zero as a line; several are a map each, the first four; of classes,
    the likeliest is shown.

    Args:
        network: with as many inputs and outputs as the data.
        data: gives the plane, the targets and the range of colours.
        reach: the map's half side; by default a quarter beyond the samples.

    Returns:
        A matplotlib Figure that belongs to no window.

    Raises:
        ValueError: a network that does not fit the data.

    >>> import biasfree as bf
    >>> data = bf.datasets.xor()
    >>> figure = output_map(bf.Network.init([2, 10, 1], slope=0.0, init_scale=1.0, seed=0), data)
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    _check(network, data)
    shown = 1 if data.classes else min(data.outputs, _PANELS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(0.6 + 2.6 * shown, 2.6), layout="constrained")
        for k, axes in enumerate(np.atleast_1d(figure.subplots(1, shown))):
            image = draw_map(axes, network, data, output=k, reach=reach)
            if image is not None:
                figure.colorbar(image, ax=axes, shrink=0.8, label="output" if data.outputs == 1 else f"output {k + 1}")
        figure.suptitle(f"{data.name}, {network}", fontsize=8)
    return figure


def draw_map(
    axes: "Axes", network: Network, data: Dataset, *, output: int = 0, reach: float | None = None, samples: bool = True
) -> Any:
    """One map of ``output_map`` on given axes; returns what a colour bar is made of, None for classes."""
    from matplotlib.colors import ListedColormap

    plane, names = plane_of(data.inputs)
    points = data.inputs @ plane.T
    half = float(reach or 1.25 * (np.abs(points).max() or 1.0))
    side = np.linspace(-half, half, _GRID)
    grid = np.stack(np.meshgrid(side, side), axis=-1) @ plane
    values = np.asarray(network(grid)).reshape(_GRID, _GRID, -1)
    seen = np.random.default_rng(0).permutation(len(points))[:_SAMPLES]
    spots: dict[str, Any] = {"s": 14, "edgecolors": "black", "linewidths": 0.5, "zorder": 3}
    if data.classes:
        colours = _class_colours(data.outputs)
        colour_of: dict[str, Any] = {"cmap": ListedColormap(colours), "vmin": -0.5, "vmax": data.outputs - 0.5}
        axes.pcolormesh(side, side, values.argmax(axis=-1), alpha=0.35, rasterized=True, shading="auto", **colour_of)
        image, targets = None, data.labels
        for k, name in enumerate(data.classes):
            axes.scatter([], [], color=colours[k], label=name, **spots)
        _legend(axes, data)
    else:
        targets = np.asarray(data.targets).reshape(data.samples, -1)[:, output]
        # One scale for all maps of a data set: a network that is still asleep is blank.
        top = float(np.quantile(np.abs(targets), 0.98)) or 1.0
        colour_of = {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
        surface = values[..., output]
        image = axes.pcolormesh(side, side, surface, rasterized=True, shading="auto", **colour_of)
        if surface.min() < 0 < surface.max():
            from scipy.ndimage import maximum_filter  # slow to load

            negligible = maximum_filter(np.abs(surface), 3) < _NEGLIGIBLE * top
            if not negligible.all():
                visible = np.ma.masked_array(surface, negligible)
                axes.contour(side, side, visible, levels=[0.0], colors="grey", linewidths=0.7)
    if samples:
        axes.scatter(points[seen, 0], points[seen, 1], c=targets[seen], **colour_of, **spots)
    axes.set(xlabel=names[0], ylabel=names[1], xlim=(-half, half), ylim=(-half, half))
    axes.set_aspect("equal")
    return image


def plot_neurons(network: Network, data: Dataset | None = None) -> "Figure":
    """Where the first layer's neurons point: a dot per row of W₁, as large as what leaves it.

    Of two layers with one output, red neurons raise the output and blue ones lower it. With data of two dimensions,
    grey lines are where a neuron's input from a sample changes its sign, xᵀw = 0: there its flow has a kink.

    Args:
        network: of any depth.
        data: gives the plane to look at, and the lines; by default the plane in which the rows are largest.

    Returns:
        A matplotlib Figure that belongs to no window.

    Raises:
        ValueError: a network that does not fit the data.

    >>> import biasfree as bf
    >>> figure = plot_neurons(bf.Network.init([2, 30, 1], slope=0.0, init_scale=0.1, seed=0), bf.datasets.six_points())
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if data is not None:
        _check(network, data)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9, 2.7), layout="constrained")
        draw_neurons(figure.subplots(), network, data)
        figure.suptitle(str(network) if data is None else f"{data.name}, {network}", fontsize=8)
    return figure


def draw_neurons(axes: "Axes", network: Network, data: Dataset | None = None) -> None:
    """``plot_neurons`` on given axes."""
    rows = np.asarray(network.weights[0])
    plane, names = plane_of(rows if data is None else data.inputs)
    spots = rows @ plane.T
    reach = 1.15 * (float(np.abs(spots).max()) or 1.0)
    if data is not None and data.dim == 2:
        for normal in lines(data.inputs).directions[:_LINES]:
            axes.axline((0, 0), (float(-normal[1]), float(normal[0])), color="lightgrey", linewidth=0.7, zorder=1)
    axes.axhline(0, color="grey", linewidth=0.4, zorder=1)
    axes.axvline(0, color="grey", linewidth=0.4, zorder=1)
    leaving = np.linalg.norm(np.asarray(network.weights[1]), axis=0) if network.depth > 1 else np.ones(len(rows))
    sizes = 4 + 26 * leaving / (leaving.max() or 1.0)
    axes.scatter(spots[:, 0], spots[:, 1], s=sizes, c=neuron_colours(network), alpha=0.75, linewidths=0, zorder=3)
    w = "w" if names[0].startswith("$") else "of $w$, "
    labels = [name.replace("x", w) if w == "w" else f"{name} {w}".rstrip(", ") for name in names]
    axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_aspect("equal")


def neuron_colours(network: Network) -> list[str]:
    """Of two layers with one output, red raises the output and blue lowers it; else all are grey."""
    if network.depth != 2 or network.widths[-1] != 1:
        return ["grey"] * network.widths[1]
    return [COLOURS[1] if sign > 0 else COLOURS[0] for sign in np.asarray(network.weights[1])[0]]


def plot_dataset(data: Dataset) -> "Figure":
    """The samples: in the plane of their inputs, coloured by target or class; one-dimensional ones as a graph."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    seen = np.random.default_rng(0).permutation(data.samples)[: 10 * _SAMPLES]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2, 2.5), layout="constrained")
        axes = figure.subplots()
        if data.classes:
            points, names = _projected(data.inputs)
            colours = _class_colours(data.outputs)
            for k, name in enumerate(data.classes):
                chosen = seen[data.labels[seen] == k]
                axes.scatter(points[chosen, 0], points[chosen, 1], s=9, color=colours[k], label=name, linewidths=0)
            _legend(axes, data)
        elif data.dim == 1:
            targets = np.asarray(data.targets).reshape(data.samples, -1)
            for k in range(min(data.outputs, len(COLOURS))):
                axes.scatter(data.inputs[seen, 0], targets[seen, k], s=9, color=COLOURS[k], linewidths=0)
            names = ("$x$", "target")
        else:
            points, names = _projected(data.inputs)
            targets = np.asarray(data.targets).reshape(data.samples, -1)[:, 0]
            top = float(np.quantile(np.abs(targets), 0.98)) or 1.0
            colour_of: dict[str, Any] = {"c": targets[seen], "cmap": "RdBu_r", "vmin": -top, "vmax": top}
            size = 16 if data.samples < 100 else 7
            dots = axes.scatter(
                points[seen, 0], points[seen, 1], s=size, edgecolors="black", linewidths=0.3, **colour_of
            )
            figure.colorbar(dots, ax=axes, label="target" if data.outputs == 1 else "first target")
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.set_title(str(data), fontsize=8)
    return figure


def plot_network(network: Network, data: Dataset | None = None) -> "Figure":
    """Of two inputs, or with data: its neurons. Else the singular values of each layer, relative to its largest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if data is not None or network.widths[0] == 2:
        return plot_neurons(network, data)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2, 2.5), layout="constrained")
        axes = figure.subplots()
        for k, weight in enumerate(network.weights):
            values = np.linalg.svd(np.asarray(weight), compute_uv=False)
            label = f"$W_{{{k + 1}}}$, largest {values[0]:.3g}"
            axes.plot(np.arange(1, len(values) + 1), values / (values[0] or 1.0), ".-", markersize=3,
                      color=COLOURS[k % len(COLOURS)], label=label)  # fmt: skip
        axes.set(xlabel="number", ylabel="singular value / largest", ylim=(0, 1.05))
        axes.legend(fontsize=6)
        axes.set_title(str(network), fontsize=8)
    return figure


def plane_of(vectors: np.ndarray) -> tuple[Float[np.ndarray, "2 dim"], tuple[str, str]]:
    """Two orthonormal directions to look along, those in which the vectors are largest, and their names."""
    dim = vectors.shape[1]
    if dim == 1:
        return np.array([[1.0], [0.0]]), ("$x$", "")
    if dim == 2:
        return np.eye(2), ("$x_1$", "$x_2$")
    return np.linalg.svd(vectors.T @ vectors)[2][:2], ("1st direction", "2nd direction")


def _projected(inputs: np.ndarray) -> tuple[np.ndarray, tuple[str, str]]:
    plane, names = plane_of(inputs)
    return inputs @ plane.T, names


def _class_colours(count: int) -> list[Any]:
    """The palette for up to seven classes, evenly spaced hues for more."""
    import matplotlib as mpl

    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return [mpl.colormaps["turbo"](value) for value in np.linspace(0.05, 0.95, count)]


def _legend(axes: "Axes", data: Dataset) -> None:
    """Beside the picture; of many classes, none."""
    if len(data.classes) <= _NAMED:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6)


def _check(network: Network, data: Dataset) -> None:
    if (network.widths[0], network.widths[-1]) != (data.dim, data.outputs):
        raise ValueError(
            f"the network maps {network.widths[0]} inputs to {network.widths[-1]}, the data has {data.dim} and "
            f"{data.outputs}: give the data that belongs to the network."
        )
