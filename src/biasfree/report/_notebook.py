"""What a notebook shows: an object's printed text beside a small picture of it."""

import base64
import html
import io
from typing import TYPE_CHECKING, Any

from biasfree.datasets import Dataset
from biasfree.dynamics import Trajectory
from biasfree.measure import Plateaus
from biasfree.networks import Network
from biasfree.report._planes import plot_dataset, plot_network
from biasfree.report._plateau_plot import plot_plateaus
from biasfree.report._plots import STYLE, plot_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 110
_BOX = "display: flex; flex-wrap: wrap; gap: 1em; align-items: flex-start"


def plot(shown: Any, **options: Any) -> "Figure":
    """The picture of an object of biasfree; what ``.plot()`` calls.

    A trajectory: its loss (options of ``plot_loss``). Plateaus: ``plot_plateaus``, or the loss where there are none.
    A network: its neurons (``plot_neurons``), or of more than two inputs the singular values of its layers. A data
    set: its samples. A sweep: its phase diagram (``plot_sweep``). An answer: its first picture.

    Raises:
        ValueError: anything else.

    >>> import biasfree as bf
    >>> figure = plot(bf.datasets.six_points())
    """
    if isinstance(shown, Trajectory):
        return plot_loss(shown, **options)
    if isinstance(shown, Plateaus):
        return plot_plateaus(shown, **options) if len(shown) else plot_loss(shown.trajectory, **options)
    if isinstance(shown, Network):
        return plot_network(shown, **options)
    if isinstance(shown, Dataset):
        return plot_dataset(shown, **options)
    if hasattr(shown, "plot"):
        return shown.plot(**options)
    raise ValueError(
        f"nothing is known to draw of a {type(shown).__name__}: give a trajectory, plateaus, a network, a data set, a "
        "sweep or an answer."
    )


def notebook_html(shown: Any) -> str:
    """Its text beside its picture, self-contained, with a text alternative."""
    text = html.escape(str(shown))
    alternative = html.escape(f"Picture of: {str(shown).splitlines()[0]}", quote=True)
    style = "margin: 0; white-space: pre-wrap; flex: 1 1 24em; min-width: 16em; line-height: 1.3"
    return (
        f"<div style='{_BOX}'><img alt='{alternative}' style='max-width: 24em; flex: 0 1 24em; min-width: 12em' "
        f"src='data:image/png;base64,{_png(plot(shown))}'><pre style='{style}'>{text}</pre></div>"
    )


def _png(figure: "Figure") -> str:
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="png", dpi=_DPI)
    return base64.b64encode(stream.getvalue()).decode()
