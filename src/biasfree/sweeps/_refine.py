"""New runs where they matter: grid cells whose corners disagree are halved along every axis, level by level.

A point in the middle of an edge or face whose corners agree is taken to be like them and not run, so that a boundary
to 1/256 of an axis costs hundreds of runs instead of 65,536. A feature smaller than a cell of the first grid may be
missed.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from biasfree.sweeps._plan import Axis

Position = tuple[int, ...]
TOLERANCE = 0.1  # of the first grid's range: numbers further apart than this disagree


class Box(NamedTuple):
    """A cell of the grid: its lowest corner and its extent, in steps of the finest grid."""

    origin: Position
    size: Position

    def corners(self) -> Iterator[Position]:
        """All of them; an axis without extent has one side."""
        sides = [(o, o + s) if s else (o,) for o, s in zip(self.origin, self.size, strict=True)]
        return itertools.product(*sides)


def finest(axis: Axis, levels: int) -> tuple[Any, ...]:
    """The values of an axis halved ``levels`` times; whole numbers stay whole, and may then repeat."""
    if not axis.numeric or len(axis.values) < 2:
        return axis.values
    parts, whole = 2**levels, all(isinstance(value, int) for value in axis.values)
    values: list[Any] = []
    for low, high in itertools.pairwise(axis.values):
        for part in range(parts):
            share = part / parts
            between = low * (high / low) ** share if axis.spacing == "log" else low + (high - low) * share
            values.append(low if part == 0 else round(between) if whole else float(f"{between:.12g}"))
    return (*values, axis.values[-1])


def first_boxes(axes: Mapping[str, Axis], levels: int) -> list[Box]:
    """The cells of the first grid; one for each value of an axis that is not refined."""
    per_axis = []
    for axis in axes.values():
        if axis.numeric and len(axis.values) > 1:
            step = 2**levels
            per_axis.append([(i * step, step) for i in range(len(axis.values) - 1)])
        else:
            per_axis.append([(i, 0) for i in range(len(axis.values))])
    return [Box(tuple(o for o, _ in each), tuple(s for _, s in each)) for each in itertools.product(*per_axis)]


class Refinement:
    """The boundary of one quantity, level by level.

    Attributes:
        values: what is known or taken for granted at points of the finest grid.
    """

    def __init__(self, fine: Sequence[Sequence[Any]], boxes: list[Box], kind: str) -> None:
        """Takes the finest grid's values per axis, the first cells, and the quantity's kind."""
        self._fine, self._boxes, self._kind = fine, boxes, kind
        self.values: dict[Position, Any] = {}
        self._tolerance = 0.0

    def learn(self, positions: Sequence[Position], of_seeds: np.ndarray) -> None:
        """Take in the results of runs: (points, seeds)."""
        first = not self.values
        for position, values in zip(positions, of_seeds, strict=True):
            self.values[position] = _agreed(values, self._kind)
        if first and self._kind == "number":
            known = [value for value in self.values.values() if math.isfinite(value)]
            self._tolerance = TOLERANCE * (max(known) - min(known)) if known else 0.0

    def wanted(self) -> list[Position]:
        """Points to run for the next level; empty when nothing is left to be halved."""
        split = [box for box in self._boxes if self._disagree([self.values[c] for c in box.corners()])]
        self._boxes, wanted = [], dict[Position, None]()
        for box in split:
            sides = self._sides(box)
            if all(len(side) < 3 for side in sides):
                continue
            for position in itertools.product(*sides):
                if position not in self.values:
                    face = [(s[0], s[-1]) if p == s[len(s) // 2] and len(s) == 3 else (p,)
                            for p, s in zip(position, sides, strict=True)]  # fmt: skip
                    around = [self.values[corner] for corner in itertools.product(*face)]
                    if self._disagree(around):
                        wanted[position] = None
                    else:
                        self.values[position] = around[0] if self._kind != "number" else float(np.mean(around))
            halves = [list(itertools.pairwise(side)) if len(side) > 1 else [(side[0], side[0])] for side in sides]
            for each in itertools.product(*halves):
                self._boxes.append(Box(tuple(low for low, _ in each), tuple(high - low for low, high in each)))
        return list(wanted)

    def _sides(self, box: Box) -> list[tuple[int, ...]]:
        """Along each axis: the ends, and the middle if there is a value strictly between."""
        sides: list[tuple[int, ...]] = []
        for fine, low, size in zip(self._fine, box.origin, box.size, strict=True):
            middle = low + size // 2
            if size > 1 and fine[middle] not in (fine[low], fine[low + size]):
                sides.append((low, middle, low + size))
            else:
                sides.append((low, low + size) if size else (low,))
        return sides

    def _disagree(self, values: Sequence[Any]) -> bool:
        if self._kind != "number":
            return len(set(values)) > 1
        finite = [value for value in values if math.isfinite(value)]
        if 0 < len(finite) < len(values):
            return True
        return bool(finite) and max(finite) - min(finite) > self._tolerance


def _agreed(values: np.ndarray, kind: str) -> Any:
    """What the seeds say together: the commonest word, the majority, the median."""
    if kind == "text":
        return Counter(sorted(values)).most_common(1)[0][0]
    known = values[~np.isnan(values)]
    if not len(known):
        return "failed" if kind == "share" else math.nan
    return bool(np.mean(known) >= 0.5) if kind == "share" else float(np.median(known))
