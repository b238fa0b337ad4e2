"""Which neurons are active on the data: never, always, or on some samples only."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from biasfree.inspection._points import Points
from biasfree.models import Graph
from biasfree.models import _operations as ops

_SAMPLES = 500


@dataclass(frozen=True)
class Pattern:
    """The neurons of one activation; for images its channels, each at all positions.

    Attributes:
        name: of the activation.
        units: neurons, or channels.
        dead: active on no sample (and at no position).
        always_active: active on every sample (at every position).
        switching: the others.
        active_share: of all units, samples and positions.
        channels: whether units are channels of images.
    """

    name: str
    units: int
    dead: int
    always_active: int
    switching: int
    active_share: float
    channels: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Patterns:
    """All activations, and how many different patterns the samples have.

    Attributes:
        layers: one for each activation, in the order of the network.
        distinct: different activation patterns among the samples.
        samples: how many were looked at.
    """

    layers: tuple[Pattern, ...]
    distinct: int
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "distinct": self.distinct,
            "samples": self.samples,
            "activations": [layer.to_dict() for layer in self.layers],
        }


def measured(graph: Graph, points: Points) -> Patterns | None:
    """Activity of all activations; None where there are none."""
    places: list[int] = []
    names: list[str] = []
    for node in graph.nodes:
        if isinstance(node.operation, ops.Activation) and np.any(np.asarray(node.operation.slope) != 1):
            places.append(node.inputs[0])
            names.append(node.name or f"activation {len(names) + 1}")
    if not places:
        return None
    some = points.spread(_SAMPLES)
    active: list[list[np.ndarray]] = [[] for _ in places]
    codes: list[bytes] = []
    for values in _values(graph, some, tuple(places)):
        positive = [v > 0 for v in values]
        for k, each in enumerate(positive):
            active[k].append(each)
        flat = np.concatenate([each.reshape(len(each), -1) for each in positive], axis=1)
        codes += [row.tobytes() for row in np.packbits(flat, axis=1)]
    layers = tuple(_pattern(name, np.concatenate(parts)) for name, parts in zip(names, active, strict=True))
    return Patterns(layers, len(set(codes)), len(some))


def _values(graph: Graph, some: Points, places: tuple[int, ...]) -> Any:
    """The inputs of the activations, batch by batch."""
    layers = graph.layers
    if layers is not None and graph.chain is not None:
        for rows in layers.batches(some.x):
            preactivations = layers.preactivations(rows)[:-1]
            yield [h for h, slope in zip(preactivations, layers.slopes, strict=True) if slope != 1]
        return
    from biasfree.models import _evaluate

    for part in graph.batches(some.values):
        yield [np.asarray(v) for v in _evaluate.everything(graph.nodes, part, places)]


def _pattern(name: str, active: np.ndarray) -> Pattern:
    axes = (0, *range(2, active.ndim))
    never, always = ~active.any(axis=axes), active.all(axis=axes)
    units = active.shape[1]
    return Pattern(
        name, units, int(never.sum()), int(always.sum()), int(units - never.sum() - always.sum()),
        float(active.mean()), active.ndim > 2,
    )  # fmt: skip
