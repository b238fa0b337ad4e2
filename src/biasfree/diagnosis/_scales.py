"""How long a network stays linear from other starts: the forecast as a function of the initialisation scale."""

import math
from typing import TYPE_CHECKING

from biasfree import theory
from biasfree.lines import lines

if TYPE_CHECKING:
    from biasfree.diagnosis._diagnosis import Diagnosis

# The law follows thousands of neurons across all lines; with more lines than this it takes too long here.
_LINES = 50
# The law and the forecast must agree to this share to be reported side by side.
_AGREE = 0.25


def by_scale(diagnosis: "Diagnosis") -> list[str]:
    """One sentence for data that are left after a while; none where the law of departure does not speak of them."""
    settings, seen = diagnosis.settings, diagnosis.departure_time
    if diagnosis.verdict != "linear until" or seen is None or diagnosis.sampling is not None:
        return []
    if settings["depth"] != 2 or diagnosis.dataset.outputs != 1 or len(lines(diagnosis.dataset.inputs)) > _LINES:
        return []
    scale, width = settings["init_scale"], settings["width"]
    try:
        law = theory.departure(diagnosis.dataset, settings["slope"], settings["loss"], scale, width=width)
    except ValueError:  # no linear solution to be left at a finite time
        return []
    if not math.isfinite(law.time) or abs(law.time - seen) > _AGREE * seen:
        return []
    rest = law.time - law.per_e_fold * math.log(1 / scale)
    sentence = (
        f"from other init scales γ: linear until t ≈ {law.per_e_fold:.3g} ln(1/γ) {'+' if rest >= 0 else '−'} "
        f"{abs(rest):.3g} by the law of departure, which gives {law.time:.3g} at γ = {scale:g}"
    )
    stays = law.stays(width)
    return [sentence + (f"; of starts of this width and scale {stays:.0%} never leave" if stays >= 0.01 else "")]
