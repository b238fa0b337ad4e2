"""How much a run may cost unasked.

Work is counted, never timed: results must not depend on a machine's speed. Its unit is about a microsecond of a usual
processor, fitted to runs of the wide problems (``tests/wide.py``) and right to a factor of two or so. A small problem
may take ten seconds of it, a large one more in proportion; of the wide problems 19 in 20 take less than one. Whoever
gives ``max_steps``, or a method, has asked for more, and is given it.
"""

import math

from biasfree.datasets import Dataset
from biasfree.networks import Network

_ALLOWED = 10e6  # of a small problem
_SIZE = 100_000  # weights × samples for which as much again is allowed
# Of a gradient in adaptive steps, and of the root of weights × samples in it: from C's loops over few numbers to
# matrix products (measured from 200 to 340,000).
_GRADIENT, _PER_ROOT = 20.0, 0.5


def allowed(network: Network, dataset: Dataset) -> float:
    """What a run may cost that nobody has given a limit."""
    return _ALLOWED * (1 + _size(network, dataset) / _SIZE)


def of_gradient(network: Network, dataset: Dataset) -> float:
    """Of one gradient in adaptive steps."""
    return _GRADIENT + _PER_ROOT * math.sqrt(_size(network, dataset))


def _size(network: Network, dataset: Dataset) -> int:
    return sum(int(layer.size) for layer in network.weights) * dataset.samples
