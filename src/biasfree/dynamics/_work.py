"""How much a run may cost unasked.

Work is counted, never timed: results must not depend on a machine's speed. Its unit is about a microsecond of a usual
processor, fitted to runs of the wide problems (``tests/wide.py``) and right to a factor of two or so. A small problem
may take seven seconds of it, a large one more in proportion; of the wide problems 99 in 100 take less than one. Whoever
gives ``max_steps`` has asked for more, and is given it.
"""

from biasfree.datasets import Dataset
from biasfree.networks import Network

_ALLOWED = 7e6  # of a small problem
_SIZE = 100_000  # weights × samples for which as much again is allowed
_GRADIENT, _PER_PRODUCT = 80.0, 4e-4  # of a gradient in adaptive steps, and of a weight and a sample in it (measured)


def allowed(network: Network, dataset: Dataset) -> float:
    """What a run may cost that nobody has given a limit."""
    return _ALLOWED * (1 + _size(network, dataset) / _SIZE)


def of_gradient(network: Network, dataset: Dataset) -> float:
    """Of one gradient in adaptive steps."""
    return _GRADIENT + _PER_PRODUCT * _size(network, dataset)


def _size(network: Network, dataset: Dataset) -> int:
    return sum(int(layer.size) for layer in network.weights) * dataset.samples
