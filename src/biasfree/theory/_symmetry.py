"""Condition 3, sample by sample: does every x have a partner −x, and do their targets cancel?

**Even inputs.** There are as many samples at x as at −x; with more on one side, the surplus is unpaired. Samples at the
origin are their own partners: a network without biases gives 0 there and has no gradient, whatever the target.

**Odd target.** With one sample at x and one at −x, y(−x) = −y(x). Where samples repeat, with targets that need not
agree, y(x) is the mean target of the samples at x, and ȳ(x) + ȳ(−x) = 0 is asked, of every output. That is what the
dynamics sees: the gradient of the square loss holds targets in ⟨y …⟩ alone, and for the losses of labels ±1 the number
of samples and their mean target say how many there are of each label. Only paired samples count: ``odd`` answers, would
Condition 3 hold if the unpaired samples were dropped? To this end a sample is paired with one whose target cancels its
own if there is any left, and the others in the order of their targets.

Condition 3 is sufficient. What the proofs use of it is weaker, and measured by ``asymmetry``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.lines import split_at_gaps, up_to_sign

# Sizes computed for x and for −x may differ by rounding, and by no more than this.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class Symmetry:
    """How a data set stands to Condition 3. Indices are those of the data set's samples.

    Attributes:
        samples: how many samples the data set has.
        origin: samples at x = 0; harmless.
        pairs: index pairs (i, j), i < j, with x_j = −x_i; no sample is in two. Shape (pairs, 2).
        unpaired: samples that lack a partner, in their own order.
        mismatched: those of the pairs whose targets do not cancel, the worst first; shape (mismatched, 2). Pairs at
            points ±x whose mean targets cancel are not among them.
        defects: ‖y_i + y_j‖ of each of these.
        tolerance: what was asked for, relative to the largest ‖x‖ and the largest ‖y‖.
    """

    samples: int
    origin: Int[np.ndarray, "origin"]
    pairs: Int[np.ndarray, "pairs 2"]
    unpaired: Int[np.ndarray, "unpaired"]
    mismatched: Int[np.ndarray, "mismatched 2"]
    defects: Float[np.ndarray, "mismatched"]
    tolerance: float

    @property
    def even(self) -> bool:
        """Whether the empirical distribution of the inputs is even: no sample lacks a partner."""
        return not self.unpaired.size

    @property
    def odd(self) -> bool:
        """Whether the target is odd on the paired samples; true if there are none."""
        return not self.defects.size

    @property
    def holds(self) -> bool:
        """Condition 3: even inputs and an odd target."""
        return self.even and self.odd

    @property
    def paired_share(self) -> float:
        """Share of the samples off the origin that have a partner."""
        off_origin = self.samples - self.origin.size
        return 2 * len(self.pairs) / off_origin if off_origin else 1.0

    @property
    def odd_share(self) -> float:
        """Share of the pairs that are not mismatched."""
        return 1 - len(self.mismatched) / len(self.pairs) if len(self.pairs) else 1.0

    def __str__(self) -> str:
        """The verdict, and which samples break the condition."""
        if self.unpaired.size and not len(self.pairs):
            return f"inputs not even (no sample of {self.samples} has a partner −x): Condition 3 fails"
        pairs = f"{len(self.pairs)} pair{'s' * (len(self.pairs) != 1)}"
        at_origin = f", {self.origin.size} at the origin" if self.origin.size else ""
        if self.even:
            inputs = f"inputs even ({pairs}{at_origin})"
        else:
            lacking = f"{self.unpaired.size} of {self.samples} samples lack a partner −x"
            inputs = f"inputs not even ({pairs}{at_origin}; {lacking}: {_listed(self.unpaired.tolist())})"
        if self.odd:
            target = "target odd" if self.even else "target odd on the pairs"
        else:
            worst = _listed([f"{i} and {j}" for i, j in self.mismatched.tolist()])
            target = (
                f"target not odd (targets of {len(self.mismatched)} of {pairs} do not cancel, "
                f"by up to {self.defects[0]:.3g}: samples {worst})"
            )
        return f"{inputs}, {target}: Condition 3 {'holds' if self.holds else 'fails'}"

    __repr__ = __str__


def symmetry(dataset: Dataset, tolerance: float = 1e-9) -> Symmetry:
    """Whether Condition 3 holds (inputs even, target odd) and, if not, which samples break it.

    O(samples · log(samples)), by sorting; the module says what *odd* means where samples repeat.

    Args:
        dataset: inputs of shape (samples, dim), targets (samples,) or (samples, outputs).
        tolerance: how far x_j may be from −x_i, relative to the largest ‖x‖, and the targets' sum from 0, relative to
            the largest ‖y‖. 0 compares numbers exactly; any other is taken for at least 1e-14, the rounding of the
            comparison.

    Raises:
        ValueError: a negative tolerance.

    >>> from biasfree import datasets
    >>> print(symmetry(datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)))
    inputs even (50 pairs), target odd: Condition 3 holds
    >>> print(symmetry(datasets.six_points()))
    inputs not even (2 pairs; 2 of 6 samples lack a partner −x: 4, 5), target odd on the pairs: Condition 3 fails
    """
    tolerance = checks.non_negative(tolerance, "tolerance")
    allowed = max(tolerance, _ROUNDING) if tolerance else 0.0
    at_origin, point, side = _points(dataset.inputs, allowed)
    index = np.flatnonzero(~at_origin)

    targets = dataset.targets.reshape(dataset.samples, -1)[index]
    # A power of two changes no digit, and keeps squares from overflow and underflow.
    unit = 2.0 ** (np.frexp(np.abs(targets).max(initial=0.0))[1] - 1)
    targets = targets / unit
    allowed *= np.linalg.norm(targets, axis=1).max(initial=0.0)
    # Of generic data no two samples are at one pair of points, and there is nothing to match.
    crowded = np.flatnonzero(np.bincount(point, minlength=1)[point] > 1)
    beside, facing = point[crowded], side[crowded]
    signed = facing[:, None] * targets[crowded]
    place = beside
    for values in signed.T:
        place = split_at_gaps(place, values, allowed)
    cancelling = _matched(place, facing, signed[:, 0])
    rest = np.setdiff1d(np.arange(crowded.size), cancelling, assume_unique=True)
    others = rest[_matched(beside[rest], facing[rest], signed[rest, 0])]
    pairs = crowded[np.sort(np.concatenate([cancelling, others]), axis=1)]
    pairs = pairs[np.argsort(pairs[:, 0])]
    lacking = np.ones(index.size, dtype=bool)
    lacking[pairs] = False

    sums = targets[pairs[:, 0]] + targets[pairs[:, 1]]
    here = point[pairs[:, 0]]
    totals = np.column_stack([np.bincount(here, column, minlength=1) for column in sums.T])
    means = totals / np.maximum(np.bincount(here, minlength=1), 1)[:, None]
    defects = np.linalg.norm(sums, axis=1)
    broken = np.linalg.norm(means, axis=1) > allowed
    mismatched = np.flatnonzero(broken[here] & (defects > allowed))
    mismatched = mismatched[np.argsort(-defects[mismatched], kind="stable")]
    return Symmetry(
        samples=dataset.samples,
        origin=np.flatnonzero(at_origin),
        pairs=index[pairs],
        unpaired=index[lacking],
        mismatched=index[pairs[mismatched]],
        defects=unit * defects[mismatched],
        tolerance=tolerance,
    )


def _points(inputs: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which samples are at the origin; for each of the others, which pair of points ±x it is at, and on which side."""
    at_origin = np.logical_not(inputs.any(axis=1))
    if not at_origin.all():
        largest = max(inputs.max(), -inputs.min())
        # Squares that overflow or underflow are the only reason to copy the inputs.
        if not 1e-100 < largest < 1e100:
            inputs = inputs / largest
        size = np.sqrt(np.einsum("sd,sd->s", inputs, inputs))
        tolerance *= size.max()
        at_origin |= size <= tolerance
    point, side, _ = up_to_sign(inputs[~at_origin] if at_origin.any() else inputs, tolerance)
    return at_origin, point, side


def _matched(label: np.ndarray, side: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Index pairs of one label and opposite sides, the k-th by value of one side with the k-th of the other."""
    order = np.lexsort((values, 2 * label + (side > 0)))
    run = (2 * label + (side > 0))[order]
    start = np.flatnonzero(np.diff(run, prepend=-1))
    length = np.diff(np.append(start, len(run)))
    # The two sides of a label are runs next to each other.
    facing = np.flatnonzero((run[start[:-1]] // 2) == (run[start[1:]] // 2))
    count = np.minimum(length[facing], length[facing + 1])
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.column_stack([order[np.repeat(start[one], count) + step] for one in (facing, facing + 1)])


def _listed(names: list) -> str:
    """A few of them by name."""
    return ", ".join(str(name) for name in names[:4]) + (", …" if len(names) > 4 else "")
