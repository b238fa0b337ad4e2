"""A number for each pattern of sides: rows and neurons of the same one obey the same equation, and may be merged."""

import functools

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._arrays import Pattern
from biasfree.dynamics.exact._data import Data
from biasfree.dynamics.exact._kernels import line_forces
from biasfree.dynamics.exact._riders import chunks, felt_lines, outputs_of
from biasfree.dynamics.exact._sliding import ON_A_LINE

# Bits of a mark, and of a whole number that float64 has exactly, less one for its sign. Bound: n marks add up to less
# than 2^52; two patterns of the same marks' sum by chance are one in 2^40, or fewer bits where there are many lines.
_MARK_BITS, _WHOLE_BITS = 40, 52


def keys_of_rows(pattern: Pattern) -> Float[np.ndarray, "active"]:
    """Of active rows, by their sides and spans."""
    marks = _marks(pattern.side.shape[1])
    return pattern.side @ marks[0, 1:] + pattern.span * marks[0, 0]


def keys_of_neurons(neurons: Float[np.ndarray, "width columns"], data: Data, rtol: float) -> Float[np.ndarray, "width"]:
    """Of neurons, by their sides of the lines whose crossing matters by now.

    Neurons on either side of another line move alike. (While a network on symmetric data is small, that is so for all
    lines.) What one that lies on a line does depends on the sign of v, however small that is. Sums of whole numbers are
    exact in any order.
    """
    p, q = line_forces(*outputs_of(neurons, data), data)
    matters, dim = felt_lines(p, q, data, rtol), data.directions.shape[1]
    marks = _marks(len(matters))
    keys = []
    for part in chunks(neurons, len(matters)):
        first = part[:, :dim]
        products = first @ data.transposed[:, matters]
        near = np.abs(products) <= ON_A_LINE * np.abs(first).max(axis=1, initial=0)[:, None]
        sign_of_v = near.any(axis=1) * np.sign(part[:, dim:]).sum(axis=1)
        keys.append(((products > 0) & ~near) @ marks[0, 1:] + near @ marks[1, 1:] + sign_of_v * marks[0, 0])
    return np.concatenate(keys)


@functools.cache
def _marks(count: int) -> Float[np.ndarray, "2 count+1"]:
    """Whole numbers by which patterns are distinguished, so small that sums of them are exact in any order."""
    largest = 2 ** min(_MARK_BITS, _WHOLE_BITS - (count + 1).bit_length())
    return np.random.default_rng(0).integers(1, largest, size=(2, count + 1)).astype(float)
