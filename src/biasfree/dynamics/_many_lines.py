"""The velocity of a two-layer network on many lines, in C (``native/wide.c``).

Samples that share a line share wᵀd, and σ(h) = a h + b|h| with a = (1+α)/2, b = (1−α)/2: the first part is that of a
linear network and costs little, the second is the same at x and −x. So the work is that of one product per line and
neuron forward and one backward, half of what samples need where they come in opposite pairs. Where no line has samples
on both sides, σ is taken as it is and the linear part falls away. A neuron that lies exactly on a line counts as behind
it, one with w = 0 as behind all samples. Lines are taken in blocks whose numbers stay in the processor's cache; a few
parts of all blocks may go to a thread each. How many parts there are does not depend on the machine.
"""

import ctypes
import functools
import math
import os
from collections.abc import Iterator
from ctypes import byref
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree.datasets import Dataset
from biasfree.dynamics._field import Kind, Problem
from biasfree.dynamics.exact._data import Data, by_line
from biasfree.dynamics.exact._kernels import engine
from biasfree.lines import lines
from biasfree.native import address, structure

Flat = Float[np.ndarray, "size"]
BLOCK, _GROUP = 96, 16  # lines of a block at most, and neurons that are taken together, as in C
_TWELVE = 12  # lines that C multiplies at once: blocks of a multiple leave none over
_CACHED = 24_000  # numbers wᵀd of a block: with all beside them they fit into half a megabyte
_PARTS = 4  # of all blocks, whose sums are added at the end
_LINE = 8  # numbers of a cache line: four that lie in two of them take as long to read as eight
_WIDE = structure(
    "Wide",
    "p blocks across kept ends room d slope at_zero "
    "i odd single width dim padded outputs outputs_padded parts room_size",
)


class ManyLines:
    """Lays the lines out, and takes the velocity of both layers."""

    def __init__(self, width: int, problem: Problem, kind: Kind) -> None:
        """Of a network of so many hidden neurons, on the time clock."""
        inputs, targets = np.asarray(problem.inputs), np.asarray(problem.targets)
        grouped = lines(inputs)
        self.paired = grouped.pairs_up(targets.T)  # symmetric data: at f = 0 all neurons are pulled alike
        data = by_line(
            grouped, Dataset(inputs, targets.T), float(problem.slope), kind.loss, kind.clock,
            float(problem.weight_decay),
        )  # fmt: skip
        data, slope = _one_sided(data, float(problem.slope))
        self._directions, self._outputs, self._dim = data.directions, data.outputs, inputs.shape[1]
        padded, outputs_padded = _fours(self._dim), _fours(self._outputs)
        blocks = list(_blocks(data, max(_TWELVE, min(BLOCK, _CACHED // width // _TWELVE * _TWELVE))))
        parts = min(_PARTS, len(blocks))
        room = (width + 4 * self._outputs + 1) * BLOCK + (self._outputs + _GROUP) * padded
        room += (self._outputs + width) * padded + width * outputs_padded
        room = -(-room // _LINE) * _LINE
        self._linear, self._levels = np.empty((self._outputs, self._dim)), np.empty(len(blocks))
        self._own = address(self._linear), address(self._levels)
        self._held = (  # by what C reads
            blocks,
            (type(data.c) * len(blocks))(*(block.data.c for block in blocks)),
            np.array([address(block.across) for block in blocks], dtype=np.int64),
            np.array([address(block.kept, np.int64) for block in blocks], dtype=np.int64),
            _ends(blocks, parts),
            _aligned(parts, room),
        )
        _, c_blocks, across, kept, ends, rooms = self._held
        self._wide: Any = _WIDE(
            ctypes.addressof(c_blocks), address(across, np.int64), address(kept, np.int64), address(ends, np.int64),
            address(rooms), slope, float(problem.slope) / data.a if data.a > 0 else 0.0, data.a > 0,
            slope >= 0 and bool((np.diff(data.begin) == 1).all()), width, self._dim, padded, self._outputs,
            outputs_padded, parts, room,
        )  # fmt: skip

    def velocity(self, flat: Flat) -> tuple[Flat, Float[np.ndarray, "outputs dim"]]:
        """Of all weights, in one row, and Σ p dᵀ, the linear part's pull."""
        pull, moving = np.empty((self._outputs, self._dim)), np.empty(flat.size)
        engine().biasfree_wide_velocity(
            byref(self._wide), address(flat), _processors(), self._own[0], address(pull), self._own[1], address(moving)
        )
        return moving, pull

    def log_loss(self) -> float:
        """Ln L where the last velocity was taken, if it is a by-product of that: under square loss, and where each line
        has one sample under cross-entropy; else NaN."""
        return self._level()

    def log_loss_at(self, flat: Flat) -> float:
        """Ln L."""
        engine().biasfree_wide_levels(byref(self._wide), address(flat), _processors(), *self._own)
        return self._level()

    def _level(self) -> float:
        """Of all blocks."""
        top = float(self._levels.max())
        return top + math.log(float(np.exp(self._levels - top).sum())) if math.isfinite(top) else top

    def active(self, first: Float[np.ndarray, "width dim"]) -> Bool[np.ndarray, "width lines"]:
        """Which neurons are on the positive side of which lines."""
        return first @ self._directions.T > 0


def _fours(count: int) -> int:
    """The next multiple of four: that many numbers are taken at a time."""
    return -(-count // 4) * 4


def _one_sided(data: Data, slope: float) -> tuple[Data, float]:
    """The data, and the slope behind a line: −1, or the network's where no line has samples on both sides.

    Directions are then turned to their samples, which are all at t > 0: lin is not needed, and even is all there is.
    The direction of a sample that is alone on its line is the sample itself, at t = 1.
    """
    counts = np.diff(data.begin)
    turn = np.sign(data.position[data.begin[:-1]])
    if (data.position * np.repeat(turn, counts) < 0).any():
        return data, -1.0
    length = np.where(counts == 1, np.abs(data.position[data.begin[:-1]]), 1.0)
    powers, sums = np.repeat(data.powers[:1] / length**2, 2, axis=0), np.repeat(data.sums[1:] / length, 2, axis=0)
    turned = data._replace(
        transposed=np.ascontiguousarray(data.transposed * (turn * length)),
        position=np.abs(data.position) / np.repeat(length, counts), powers=powers, sums=sums, a=0.0, b=1.0,
    )  # fmt: skip
    return turned, slope


class _Block(NamedTuple):
    """Lines that are taken together."""

    data: Data  # of the dimensions that are kept
    across: Float[np.ndarray, "lines padded"]  # their directions
    kept: Int[np.ndarray, "kept"]  # dimensions in which they are not all zero


def _blocks(data: Data, size: int) -> Iterator[_Block]:
    """So many lines each, filled up to fours by lines without samples; samples at the origin are the first one's."""
    data = _neighboured(data)
    directions, ends = np.ascontiguousarray(data.directions), data.begin
    for first in range(0, max(len(directions), 1), size):
        chosen = slice(first, first + size)
        own, begin = directions[chosen], ends[first : first + size + 1]
        kept, more = np.flatnonzero(own.any(axis=0)), _fours(max(len(own), 1)) - len(own)
        samples = slice(begin[0], begin[-1])
        across = _aligned(len(own) + more, _fours(len(kept)))
        across[: len(own), : len(kept)] = own[:, kept]
        transposed = _aligned(len(kept), len(across))
        transposed[...] = across[:, : len(kept)].T
        part = data._replace(
            transposed=transposed,
            begin=np.concatenate([begin, np.full(more, begin[-1])]) - begin[0],
            position=data.position[samples], target=data.target[samples],
            powers=_filled(data.powers[:, chosen], more), sums=_filled(data.sums[:, :, chosen], more),
            given=np.zeros((0, 2 * data.outputs, len(across))), offset=data.offset if first == 0 else 0.0,
        )  # fmt: skip
        yield _Block(part, across, kept.astype(np.int64))


def _neighboured(data: Data) -> Data:
    """The lines in another order: with zeros in the same rare dimensions they are neighbours, so that many of these are
    zero in a whole block."""
    there = data.transposed != 0
    if not len(there):
        return data
    order = np.lexsort(there[np.argsort(-there.sum(axis=1), kind="stable")])
    counts = np.diff(data.begin)[order]
    begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    samples = np.repeat(data.begin[order] - begin[:-1], counts) + np.arange(begin[-1])
    return data._replace(
        transposed=data.transposed[:, order], begin=begin, position=data.position[samples],
        target=data.target[samples], powers=data.powers[:, order], sums=data.sums[:, :, order],
    )  # fmt: skip


def _ends(blocks: list[_Block], parts: int) -> Int[np.ndarray, "parts+1"]:
    """Of parts that take about as long as each other: two products with all dimensions, three with all outputs."""
    costs = [len(block.across) * (2 * len(block.kept) + 3 * block.data.outputs) for block in blocks]
    until = np.concatenate([[0], np.cumsum(costs)])
    return np.abs(until - np.linspace(0, until[-1], parts + 1)[:, None]).argmin(axis=1).astype(np.int64)


def _aligned(rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    """Zeros that begin with a cache line."""
    wide = np.zeros(rows * columns + _LINE)
    begin = -address(wide) % (8 * _LINE) // 8
    return wide[begin : begin + rows * columns].reshape(rows, columns)


def _filled(array: np.ndarray, more: int) -> np.ndarray:
    """With so many zeros at the end of each row."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + more))
    wide[..., : array.shape[-1]] = array
    return wide


@functools.cache
def _processors() -> int:
    """How many there are for this process; a matrix library's threads, where limited, limit these too."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]
    return max(1, min([there, *(int(limit) for limit in limits if limit.isdigit())]))
