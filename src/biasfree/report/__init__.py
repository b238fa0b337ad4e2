"""What is shown to a person: plots and progress."""

from biasfree.report._plots import plot_loss, save_figure
from biasfree.report._progress import progress_bar

__all__ = ["plot_loss", "progress_bar", "save_figure"]
