"""What is shown to a person: plots, progress, and the executable paper's page."""

from biasfree.report._animation import animate
from biasfree.report._answer import PICTURES, answer_html, answer_json, answer_text, draw, write_answer
from biasfree.report._course_plot import plot_courses
from biasfree.report._notebook import notebook_html, plot
from biasfree.report._outcomes import Outcome, Request, stored_verdicts, write_json
from biasfree.report._page import write_page
from biasfree.report._planes import output_map, plot_dataset, plot_network, plot_neurons
from biasfree.report._plateau_plot import plot_plateaus
from biasfree.report._plots import plot_loss, save_figure
from biasfree.report._progress import progress_bar
from biasfree.report._reproduce import StudyError, Workers, reproduce
from biasfree.report._sweep_plot import plot_sweep
from biasfree.report._sweep_progress import sweep_progress

__all__ = [
    "PICTURES",
    "Outcome",
    "Request",
    "StudyError",
    "Workers",
    "animate",
    "answer_html",
    "answer_json",
    "answer_text",
    "draw",
    "notebook_html",
    "output_map",
    "plot",
    "plot_courses",
    "plot_dataset",
    "plot_loss",
    "plot_network",
    "plot_neurons",
    "plot_plateaus",
    "plot_sweep",
    "progress_bar",
    "reproduce",
    "save_figure",
    "stored_verdicts",
    "sweep_progress",
    "write_answer",
    "write_json",
    "write_page",
]
