"""Pictures of the answers given to a user's own case."""

from typing import TYPE_CHECKING

import numpy as np

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biasfree.inspection import Inspection


def plot_inspection(found: "Inspection") -> "Figure":
    """Left: the network's output against that of the best linear map. Right: singular values of each layer.

    Args:
        found: an inspection; its points are the data, or random ones of the unit sphere.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    outputs = found.model(found.points)[:, 0]
    straight = found.points @ np.atleast_2d(found.linear_map)[0]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 2.7), layout="constrained")
        left, right = figure.subplots(1, 2)
        ends = [min(straight.min(), outputs.min()), max(straight.max(), outputs.max())]
        left.plot(ends, ends, color="black", linewidth=0.8, linestyle="--", label="linear")
        left.plot(straight, outputs, ".", color=COLOURS[0], markersize=2.5, label="network")
        where = found.data_name or "the unit sphere"
        left.set_xlabel(f"best linear map $w^\\mathsf{{T}}x$, $x$ from {where}")
        several = found.model.widths[-1] > 1
        left.set_ylabel("first output $f_1(x)$" if several else "output $f(x)$")
        left.legend()
        for k, weight in enumerate(found.model.weights):
            values = np.linalg.svd(weight, compute_uv=False)
            if values[0] > 0:
                shown = np.maximum(values / values[0], 1e-16)[:20]
                colour = COLOURS[k % len(COLOURS)]
                right.semilogy(np.arange(1, len(shown) + 1), shown, ".-", color=colour, label=f"W{k + 1}", markersize=4)
        right.xaxis.get_major_locator().set_params(integer=True)
        right.set_xlabel("index $i$ of the singular value")
        right.set_ylabel("$s_i/s_1$")
        right.legend(ncols=2 if found.model.depth > 4 else 1)
    return figure
