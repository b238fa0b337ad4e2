"""What is predicted: a number, several numbers, or a class; and by which loss. Said, never guessed silently.

A column of words is one of classes. So is a column of few different whole numbers, each of them found several times,
unless a loss is asked for that takes them as numbers or as labels. Three classes or more are learned by cross-entropy,
two are read as −1 and +1.
"""

import numpy as np

from biasfree.datasets import Dataset

LOSSES = ("square", "logistic", "cross-entropy")
# Whole numbers are classes if they are so few, and each is found so many times.
FEW, _TIMES = 10, 3


def decided(dataset: Dataset, loss: str | None, table: bool) -> tuple[Dataset, str, list[str]]:
    """The data with their targets as classes where they are, the loss, and sentences on both.

    Args:
        dataset: as loaded.
        loss: the one asked for; None if none was.
        table: whether the target came as a column, which may hold classes as numbers; a data set says so itself.

    Raises:
        ValueError: a loss that these targets do not have.

    >>> data = Dataset(np.arange(9.0).reshape(9, 1), [0, 1, 2] * 3)
    >>> decided(data, None, table=True)[:2]
    (data: 9 samples, 1 dimension, 3 classes, 'cross-entropy')
    >>> decided(data, "square", table=True)[:2]
    (data: 9 samples, 1 dimension, 'square')
    """
    notes: list[str] = []
    if isinstance(dataset.origin.get("classes"), str) and len(dataset.classes) > 2:
        notes.append(f"{dataset.origin['classes']}."[:1].upper() + f"{dataset.origin['classes']}."[1:])
    if not dataset.classes and dataset.outputs == 1:
        values, counts = np.unique(dataset.targets, return_counts=True)
        whole = bool((values == np.round(values)).all())
        few = table and whole and 2 < values.size <= FEW and counts.min() >= _TIMES
        if loss == "cross-entropy" or (few and loss is None):
            dataset, note = _classes(dataset, values, whole)
            notes.append(note)
    if len(dataset.classes) == 2 and loss != "cross-entropy":
        return dataset, loss or "square", notes
    if loss is None:
        loss = "cross-entropy" if dataset.classes else "square"
        if dataset.classes:
            notes.append("Classes are learned by cross-entropy (softmax over one output for each).")
    if loss == "logistic" and dataset.outputs > 1:
        many = f"{len(dataset.classes)} classes" if dataset.classes else f"{dataset.outputs} outputs"
        raise ValueError(
            f"the logistic loss needs two classes, got {many}. Use --loss cross-entropy for classes, or --loss square "
            "for numbers."
        )
    if loss == "cross-entropy" and not dataset.classes:
        raise ValueError(
            f"cross-entropy needs classes, got {dataset.outputs} columns of numbers. Name one column of classes as the "
            "target, or use --loss square."
        )
    return dataset, loss, notes


def _classes(dataset: Dataset, values: np.ndarray, whole: bool) -> tuple[Dataset, str]:
    """Numbers as classes, and what was done."""
    if values.size < 2 or values.size > 100 or not whole:
        given = f"{values.size} different {'whole numbers' if whole else 'numbers'}"
        raise ValueError(
            f"cross-entropy needs between two and 100 classes, words or whole numbers; the target has {given}. Use "
            "--loss square to predict a number."
        )
    name = dataset.origin.get("target")
    what = f"Column {name!r}" if isinstance(name, str) else "The target"
    shown = ", ".join(f"{value:g}" for value in values[:5]) + (", …" if values.size > 5 else "")
    return (
        Dataset(dataset.inputs, dataset.targets, dataset.name, dataset.origin, classes=True),
        f"{what} is taken for classes: {values.size} different whole numbers ({shown}). To predict it as a number, ask "
        "for --loss square.",
    )
