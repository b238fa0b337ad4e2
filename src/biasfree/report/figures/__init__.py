"""One function per study that has a picture: from the study's data to a figure, or several by name."""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Modules that hold ``FIGURES``: study id → function of the result's data.
_MODULES: tuple[str, ...] = ("time_courses", "symmetric_dynamics", "asymmetric_data", "plateaus", "deep")


def figures(study: str, data: Mapping[str, Any]) -> dict[str, "Figure"]:
    """The pictures of a study, by file name without ending; none if it has none."""
    for name in _MODULES:
        drawers: Mapping[str, Callable[[Mapping[str, Any]], Any]]
        drawers = importlib.import_module(f"biasfree.report.figures.{name}").FIGURES
        if study in drawers:
            drawn = drawers[study](data)
            return drawn if isinstance(drawn, dict) else {study: drawn}
    return {}
