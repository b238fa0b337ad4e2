"""What is done to a user's table before it is judged, and what is worth knowing about it: nothing happens silently."""

from dataclasses import dataclass

import numpy as np

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._sampling import part, shuffled
from biasfree.networks import Network

# Columns whose sizes differ by more than this are learned one long after the other.
_UNEQUAL_SIZES = 100.0
# Fourth powers of the data are formed.
_LARGEST, _SMALLEST = 1e50, 1e-50
# Outputs of a start beyond this share of the targets are not small.
_NOT_SMALL = 0.1
# So few different whole numbers are probably classes.
_CLASSES = 10


@dataclass(frozen=True)
class Treated:
    """A data set ready to be judged.

    Attributes:
        dataset: with targets as the loss takes them: numbers, ±1 for labels, one row per sample for classes.
        held_out: samples that nothing is fitted to, treated alike; None unless asked for.
        notes: sentences on what was done, and on what may surprise.
    """

    dataset: Dataset
    held_out: Dataset | None
    notes: tuple[str, ...]


def treat(dataset: Dataset, loss: str, standardise: bool = False, holdout: float = 0.0) -> Treated:
    """Turn labels into ±1 where the loss needs them, centre and scale if asked, and note what stands out.

    Args:
        dataset: as loaded.
        loss: "square", "logistic" or "cross-entropy".
        standardise: subtract each input's mean and divide by its standard deviation, both of the samples that are kept.
        holdout: the share of samples to hold out, drawn at random; samples x and −x go together.

    Raises:
        ValueError: labels that are not two values, a share that leaves too few samples.
    """
    notes: list[str] = list(dataset.origin.get("notes", ()))
    if len(dataset.classes) == 2 and loss != "cross-entropy":
        names = dataset.classes
        notes.append(f"Classes {names[0]} and {names[1]} were read as −1 and +1.")
        dataset = Dataset(dataset.inputs, np.where(dataset.labels == 1, 1.0, -1.0), dataset.name, dataset.origin)
    inputs, targets = dataset.inputs, dataset.targets
    largest = max(float(np.abs(inputs).max()), float(np.abs(targets).max()))
    if largest > _LARGEST:
        raise ValueError(
            f"the data reach {largest:.2g}, whose powers are beyond floating-point numbers: rescale them (for inputs, "
            "--standardise does so after you have brought them below 1e50)."
        )
    if loss == "logistic":
        targets = _labels(targets, notes)
    elif not targets.any():
        raise ValueError("all targets are zero: there is nothing to learn.")
    elif targets.ndim == 1:
        notes.extend(_on_targets(targets))
    if not inputs.any():
        raise ValueError("all inputs are zero: a network without biases gives 0 on every sample.")
    for array, name in ((inputs, "inputs"), (targets, "targets")):
        if (size := float(np.abs(array).max())) < _SMALLEST:
            raise ValueError(f"the {name} reach {size:.2g} only, whose powers vanish in floating point: rescale them.")
    # Large tables are not copied where nothing changes.
    labelled = dataset if targets is dataset.targets else Dataset(inputs, targets, dataset.name, dataset.origin)
    kept, held = _split(labelled, holdout, notes)
    inputs, aside = kept.inputs, None if held is None else held.inputs
    if standardise:
        mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
        still = spread <= 1e-12 * np.maximum(np.abs(inputs).max(axis=0), 1e-300)
        mean, spread = np.where(still, 0.0, mean), np.where(still, 1.0, spread)
        inputs = (inputs - mean) / spread
        aside = None if aside is None else (aside - mean) / spread
        notes.append(
            "Inputs were standardised: each column less its mean, divided by its standard deviation. Moving the origin "
            "changes which samples are opposite to each other, and so the answer below, which is about the "
            "standardised data."
        )
    treated = kept
    if standardise:
        treated = Dataset(inputs, kept.targets, kept.name, {**kept.origin, "standardised": True}, kept.classes)
    other = (
        None if held is None or aside is None else Dataset(aside, held.targets, held.name, held.origin, held.classes)
    )
    return Treated(treated, other, (*notes, *_remarks(treated, standardise)))


def on_start(start: Network, data: Dataset, loss: str) -> list[str]:
    """A sentence where a start is not small beside what is to be learned."""
    rows = slice(0, 1000)
    outputs, targets = np.asarray(start(data.inputs[rows])), data.targets[rows]
    wanted = float(np.sqrt(np.mean(targets**2))) if loss == "square" else 1.0
    share = float(np.sqrt(np.mean(outputs**2))) / wanted if wanted else 0.0
    if share <= _NOT_SMALL:
        return []
    return [
        f"The start is not small: its outputs are {share:.2g} of the size of what is to be learned. All that is said "
        "here is of small starts; take a smaller init scale, or measure the target in smaller units."
    ]


def _split(data: Dataset, holdout: float, notes: list[str]) -> tuple[Dataset, Dataset | None]:
    """The samples to learn from, and those held out."""
    if isinstance(holdout, bool) or not 0 <= holdout < 1:
        raise ValueError(f"holdout must be a share of the samples in [0, 1), got {holdout!r}. Try 0.2.")
    count = round(holdout * data.samples)
    if not holdout:
        return data, None
    if not 0 < count < data.samples - 1:
        raise ValueError(f"holdout {holdout:g} of {data.samples} samples leaves none on one side. Take another share.")
    order = shuffled(data.samples, theory.symmetry(data).pairs, seed=[17, 1000])
    kept, held = part(data, np.sort(order[count:])), part(data, np.sort(order[:count]))
    before, after = (len(np.unique(each.labels if each.classes else each.targets)) for each in (data, kept))
    if (data.classes or before == 2) and after < before:
        raise ValueError(f"holdout {holdout:g} leaves no sample of some class to learn from. Hold out fewer.")
    notes.append(f"{count:,} of {data.samples:,} samples were held out, drawn at random with seed 0.")
    return kept, held


def _labels(targets: np.ndarray, notes: list[str]) -> np.ndarray:
    values = np.unique(targets)
    if values.size == 1:
        raise ValueError(f"all labels are {values[0]:g}: the logistic loss needs two classes.")
    if values.size > 2:
        few = ", ".join(f"{v:g}" for v in values[:5]) + (", …" if values.size > 5 else "")
        raise ValueError(
            f"the logistic loss needs two classes, got {values.size} values ({few}). For several classes use the "
            "cross-entropy loss; for a number to predict, use the square loss."
        )
    if values.tolist() != [-1.0, 1.0]:
        notes.append(f"Labels {values[0]:g} and {values[1]:g} were read as −1 and +1.")
    return np.where(targets == values[1], 1.0, -1.0)


def _on_targets(targets: np.ndarray) -> list[str]:
    values = np.unique(targets)
    if values.size == 1:
        return [
            f"All targets are {values[0]:g}: a single bias would fit them; without one the inputs must, and a network "
            "without biases is judged by how well it can."
        ]
    whole = bool((values == np.round(values)).all())
    if 2 < values.size <= _CLASSES and whole and values.size < len(targets):
        return [
            f"The target takes {values.size} different values and is predicted as a number. If they are classes, ask "
            "for --loss cross-entropy."
        ]
    return []


def _remarks(dataset: Dataset, standardised: bool) -> list[str]:
    """Sentences on what stands out; none for a plain table."""
    inputs, remarks = dataset.inputs, []
    names = dataset.origin.get("columns", ())
    names = names if len(names) == dataset.dim else tuple(map(str, range(dataset.dim)))
    sizes = np.sqrt(np.mean(inputs**2, axis=0))
    constant = np.flatnonzero(np.ptp(inputs, axis=0) == 0)
    empty = constant[sizes[constant] == 0]
    offset = np.setdiff1d(constant, empty)
    if empty.size:
        remarks.append(f"Zero throughout and without effect: input column {_listed(empty, names)}.")
    if offset.size:
        remarks.append(
            f"Constant: input column {_listed(offset, names)}. Stacked ones act as a bias of the first layer that is "
            "regularised and trained as a weight, and are not the same as a bias."
        )
    live = sizes[sizes > 0]
    if live.size and live.max() > _UNEQUAL_SIZES * live.min() and not standardised:
        remarks.append(
            f"Columns differ in size by a factor of {live.max() / live.min():.2g}: the largest decide what is learned "
            "first, and the others follow long after. Standardising (--standardise) would change this, and the answer."
        )
    mean = np.linalg.norm(inputs.mean(axis=0)) / np.sqrt(np.mean(np.sum(inputs**2, axis=1)))
    if mean > 0.1 and not standardised:
        remarks.append(
            f"The inputs lie off the origin (their mean is {mean:.0%} of their size), so that they cannot be even. "
            "Centring (--standardise) would change this, and the answer."
        )
    if dataset.samples < dataset.dim:
        remarks.append(
            f"There are fewer samples ({dataset.samples}) than dimensions ({dataset.dim}): a linear map fits generic "
            "targets exactly, and on these samples every network looks linear."
        )
    if dataset.dim == 1:
        remarks.append("The inputs are one-dimensional: a bias-free network is two straight lines that meet at 0.")
    repeated = _repeated(inputs)
    if repeated:
        remarks.append(f"{repeated} of {dataset.samples} samples repeat the inputs of another.")
    return remarks


def _listed(columns: np.ndarray, names: tuple[str, ...]) -> str:
    shown = ", ".join(names[c] for c in columns[:5])
    return shown + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")


def _repeated(inputs: np.ndarray) -> int:
    """How many rows repeat another, found by a random projection before any rows are compared."""
    key = inputs @ np.random.default_rng(0).normal(size=inputs.shape[1])
    _, place, count = np.unique(key, return_inverse=True, return_counts=True)
    rows = inputs[count[place.ravel()] > 1]
    return len(rows) - len(np.unique(rows, axis=0)) if len(rows) else 0
