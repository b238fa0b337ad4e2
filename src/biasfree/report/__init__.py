"""What is shown to a person: plots, progress, and the executable paper's page."""

from biasfree.report._animation import animate
from biasfree.report._answer import PICTURES, answer_html, answer_json, answer_text, draw, write_answer
from biasfree.report._course_plot import plot_courses
from biasfree.report._outcomes import Outcome, Request, write_json
from biasfree.report._page import write_page
from biasfree.report._plateau_plot import plot_plateaus
from biasfree.report._plots import plot_loss, save_figure
from biasfree.report._progress import progress_bar
from biasfree.report._reproduce import StudyError, Workers, reproduce

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
    "plot_courses",
    "plot_loss",
    "plot_plateaus",
    "progress_bar",
    "reproduce",
    "save_figure",
    "write_answer",
    "write_json",
    "write_page",
]
