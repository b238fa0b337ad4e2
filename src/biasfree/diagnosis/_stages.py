"""Which classes a network takes for which, on every plateau of its course and at its end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from biasfree.answer import Table
from biasfree.datasets import Dataset
from biasfree.diagnosis._baselines import accuracy
from biasfree.diagnosis._course import Course
from biasfree.diagnosis._gain import confusions
from biasfree.diagnosis._sampling import outputs_at
from biasfree.measure._cutting import cut

# Classes of which a whole table is shown, and pairs that are named beyond.
_SHOWN, _NAMED = 12, 5


@dataclass(frozen=True)
class Stage:
    """A network of a course, judged by the classes it distinguishes.

    Attributes:
        begin, end: of its plateau; ``end`` is infinite on the last one. Both are ``time`` where there is no plateau.
        time: when it was looked at, the slowest moment of the plateau.
        loss: at that time, on the data that the course was followed on.
        accuracy: share of all samples whose class it finds.
        confusions: how many samples of each class (rows) it takes for which (columns).
        held_out_accuracy: on samples held out; None without such.
    """

    begin: float
    end: float
    time: float
    loss: float
    accuracy: float
    confusions: Int[np.ndarray, "classes classes"]
    held_out_accuracy: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it is a plateau."""
        return self.end > self.begin


def stages(course: Course, data: Dataset, held_out: Dataset | None = None) -> tuple[Stage, ...]:
    """The plateaus of a course, by the rule of ``biasfree.plateaus``, and its end where that is on none.

    Args:
        course: of networks with one output per class.
        data: with classes; all rows.
        held_out: samples that nothing was fitted to.
    """
    waits = cut(course.times, course.losses, 1e-12 * float(course.losses[0]))[0] if len(course.losses) > 2 else []
    # The start, where nothing is learned yet, says nothing.
    spans = [(each.begin, each.end, each.slowest) for each in waits if each.begin > course.times[0]]
    if not spans or np.isfinite(spans[-1][1]):
        last = float(course.times[-1])
        spans.append((last, last, last))
    judged = []
    for begin, end, time in spans:
        place = int(np.argmin(np.abs(course.times - time)))
        network = course.networks[place]
        outputs = outputs_at(network, data.inputs)
        unseen = None if held_out is None else accuracy(outputs_at(network, held_out.inputs), held_out.targets)
        right = accuracy(outputs, data.targets)
        judged.append(
            Stage(begin, end, time, float(course.losses[place]), right, confusions(outputs, data.targets), unseen)
        )
    return tuple(judged)


def accuracy_at(course: Course, time: float, data: Dataset) -> float:
    """The share of classes that the saved network nearest to a time gets right."""
    network = course.networks[int(np.argmin(np.abs(course.times - time)))]
    return accuracy(outputs_at(network, data.inputs), data.targets)


def descriptions(stages: Sequence[Stage], names: Sequence[str]) -> list[str]:
    """One sentence for each stage, with the pairs of classes that are confused most."""
    sentences = []
    for stage in stages:
        span = f"on the plateau from t ≈ {stage.begin:.3g}" + ("" if np.isinf(stage.end) else f" to {stage.end:.3g}")
        where = span if stage.waits else f"at t = {stage.time:.3g}, where the course ends, still falling"
        unseen = "" if stage.held_out_accuracy is None else f" ({stage.held_out_accuracy:.1%} of those held out)"
        sentences.append(
            f"{where}, loss {stage.loss:.4g}: {stage.accuracy:.1%} of the samples right{unseen}; "
            f"{_mistakes(stage.confusions, names)}"
        )
    return sentences


def table(stage: Stage, names: Sequence[str]) -> Table | None:
    """The confusions of a stage; None where there are too many classes to show."""
    if len(names) > _SHOWN:
        return None
    heads = ["class", "samples", *(f"taken for {name}" for name in names)]
    rows = [[name, str(row.sum()), *map(str, row)] for name, row in zip(names, stage.confusions, strict=True)]
    return Table(heads, rows)


def _mistakes(confusions: np.ndarray, names: Sequence[str]) -> str:
    wrong = confusions - np.diag(np.diag(confusions))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_NAMED]
    pairs = [(int(wrong.flat[k]), *np.unravel_index(k, wrong.shape)) for k in order if wrong.flat[k]]
    if not pairs:
        return "none is confused"
    return (
        "takes "
        + ", ".join(f"{count:,} {names[a]} for {names[b]}" for count, a, b in pairs)
        + (", …" if np.count_nonzero(wrong) > len(pairs) else "")
    )
