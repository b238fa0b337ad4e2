"""When is a bias-free ReLU network effectively linear? Answered for a network that somebody has trained."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import answer as answers
from biasfree import files
from biasfree.answer import Section
from biasfree.inspection import _merging, _sentences
from biasfree.inspection._decision import Decision, tolerance_of
from biasfree.inspection._homogeneity import Homogeneity
from biasfree.inspection._layer_reports import LayerReport
from biasfree.inspection._local_maps import LocalMaps
from biasfree.inspection._merging import Merged
from biasfree.inspection._patterns import Patterns
from biasfree.inspection._points import Points
from biasfree.inspection._share import LinearShare
from biasfree.models import Graph, Layers

# Distances from linear up to which a network is called linear in effect, and nearly linear.
IN_EFFECT, NEARLY = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Inspection(answers.Answer):
    """What a trained network is as a function; ``print`` it, ``to_dict()`` it or ``plot()`` it.

    Attributes:
        source: what was inspected, in words.
        graph: its operations; None for a function of which only values are known.
        points: where it was measured.
        outputs: f at the points, shape (samples, outputs); at most some of them.
        homogeneity: f(cx) against c f(x), and the net bias f(x) − A_x x.
        share: the linear share of the output, held out, and the best linear map.
        local: the local maps A_x; None where they are too large.
        patterns: which neurons are active; None for a function or a network without activations.
        decision: is it linear for every x, with certificate and canonical form; None where it is no chain of layers.
        layer_reports: ranks, alignment and balance of each layer.
        merged: the network after merging, with a bound on the change; None where it is no chain of layers.
        tolerance: of merging.
        seed: of all random numbers.
        left_out: what of the question or the network was not looked at, a sentence each.
    """

    source: str
    graph: Graph | None
    points: Points
    outputs: Float[np.ndarray, "samples out"]
    homogeneity: Homogeneity
    share: LinearShare
    local: LocalMaps | None
    patterns: Patterns | None
    decision: Decision | None
    layer_reports: tuple[LayerReport, ...]
    merged: Merged | None
    tolerance: float
    seed: int
    left_out: tuple[str, ...]

    # What was asked

    @property
    def layers(self) -> Layers | None:
        """The network as a fully connected chain, where it is one."""
        return None if self.graph is None else self.graph.layers

    @property
    def bias_free(self) -> bool | None:
        """Whether nothing is added anywhere in the network; None for a function."""
        return None if self.graph is None else self.graph.bias_free

    @property
    def homogeneous(self) -> bool | None:
        """Whether f(cx) = c f(x) for every c > 0; None when that is left open.

        Without biases it follows from the operations, in all inputs jointly; else it is false where it fails.
        """
        if (
            self.graph is not None
            and self.graph.homogeneous
            and (len(self.graph.ports) == 1 or self.homogeneity.jointly)
        ):
            return True
        return False if self.homogeneity.error > self._zero else None

    @property
    def linear(self) -> bool | None:
        """Whether f(x) = Mx for all x; None when not decided."""
        if self.decision is not None:
            return self.decision.linear
        if self.graph is not None and self.graph.is_affine and self.graph.bias_free and len(self.graph.ports) == 1:
            return True
        bent = self.local is not None and self.local.variation > self._zero
        return False if bent or self.homogeneity.net_bias > self._zero or self.homogeneity.error > self._zero else None

    @property
    def linear_map(self) -> Float[np.ndarray, "... dim"] | None:
        """The nearest linear map: over the sphere where that is exact, else by least squares on the points."""
        linear_map = self.share.linear_map if self.decision is None else self.decision.nearness.linear_map
        return linear_map[0] if linear_map is not None and len(linear_map) == 1 else linear_map

    @property
    def on_data(self) -> bool:
        """Whether the user gave data."""
        return self.points.drawn is None

    @property
    def distance_from_linear(self) -> float:
        """Root mean square of f − (best linear map) relative to f: over the data if there are any, else the sphere."""
        if self.on_data or self.decision is None:
            return self.share.distance if self.share.in_sample is None else self.share.in_sample
        return self.decision.nearness.distance

    @property
    def practical_distance(self) -> float:
        """What the headline says: held out on the data, else exact or sampled over the sphere; NaN for one sample."""
        return self.share.distance if self.on_data or self.decision is None else self.decision.nearness.distance

    @property
    def linear_plus_constant(self) -> bool:
        """Whether, on the points, a constant makes up for what the best linear map misses."""
        affine = self.share.affine
        return affine is not None and 1 - affine <= IN_EFFECT**2 < 1 - self.share.share

    @property
    def certified_bound(self) -> float | None:
        """‖f(x) − Mx‖ ≤ bound·‖x‖ for every x; None with biases, where no such bound exists at 0, or for no chain."""
        certificate = None if self.decision is None else self.decision.certificate
        return None if certificate is None else certificate.bound

    @property
    def certificate_gap(self) -> float | None:
        """The certified bound over the largest ‖f(x) − Mx‖/‖x‖ met: 1 when the bound is reached."""
        if self.certified_bound is None or self.decision is None or not self.decision.nearness.largest:
            return None
        return self.certified_bound / self.decision.nearness.largest

    @property
    def neurons_after_merging(self) -> int | None:
        """Hidden neurons that remain; None where it is no chain of layers."""
        return None if self.merged is None else sum(_merging.neuron_counts(self.merged.layers))

    @property
    def compressed(self) -> Layers:
        """The smaller network: ``compressed.save(path)`` writes it, ``compressed.as_network()`` is a ``Network``.

        Raises:
            ValueError: it is no chain of fully connected layers.
        """
        if self.merged is None:
            raise ValueError(
                f"only fully connected chains are compressed, by merging neurons, and {self.source} is "
                f"{'a function' if self.graph is None else f'a {self.graph}'}."
            )
        return self.merged.layers

    @property
    def _zero(self) -> float:
        """What counts as zero, relative to the output: rounding of stored numbers, or of differences."""
        if self.graph is None:
            return 1e-3
        return 1e3 * tolerance_of(self.graph.rounding)

    # As an answer

    @property
    def title(self) -> str:
        """What was asked."""
        return f"Is {self.source} linear?{'' if self.graph is None else f' {self.graph}'}"

    @property
    def verdict(self) -> str:
        """ "linear", "linear in effect" (within 1 %), "nearly linear" (within 10 %), "not linear" or "not decided"."""
        if self.linear:
            return "linear"
        distance = self.practical_distance
        if np.isnan(distance):
            return "not decided"
        return "linear in effect" if distance <= IN_EFFECT else "nearly linear" if distance <= NEARLY else "not linear"

    @property
    def headline(self) -> str:
        """The practical sentence: how far from linear where it matters."""
        return _sentences.headline(self)

    @property
    def sections(self) -> tuple[Section, ...]:
        """What there is to say, in order of importance."""
        return _sentences.sections(self)

    @property
    def facts(self) -> dict[str, Any]:
        """Model, data and seed."""
        what = "a function" if self.graph is None else str(self.graph)
        return {"model": what, "data": self.points.drawn or self.points.name, "seed": self.seed}

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        layers, ports = self.layers, () if self.graph is None else self.graph.ports
        over = "the data" if self.on_data else "random inputs" if self.decision is None else "the unit sphere"
        small = self.linear_map is not None and np.size(self.linear_map) <= 10_000
        return files.plain(
            {
                "title": self.title,
                "verdict": self.verdict,
                "headline": self.headline,
                "model": {
                    "source": self.source,
                    "kind": "function" if self.graph is None else str(self.graph),
                    "inputs": [{"name": port.name, "shape": port.shape} for port in ports],
                    "widths": None if layers is None else layers.widths,
                    "slopes": None if layers is None else layers.slopes,
                },
                "bias_free": self.bias_free,
                "biases": [] if self.graph is None else [str(node) for node in self.graph.shifts],
                "homogeneous": self.homogeneous,
                "linear": self.linear,
                "linear_map": self.linear_map if small else None,
                "distance_from_linear": self.distance_from_linear,
                "distance_over": over,
                "data": {"name": self.points.name, "drawn": self.points.drawn, "samples": len(self.points)},
                "homogeneity": self.homogeneity.to_dict(),
                "linear_share": self.share.to_dict(),
                "local_maps": None if self.local is None else self.local.to_dict(),
                "activation_patterns": None if self.patterns is None else self.patterns.to_dict(),
                "certified_bound": self.certified_bound,
                "certificate_gap": self.certificate_gap,
                **({} if self.decision is None else self.decision.to_dict(self.seed)),
                "layers": [layer.to_dict() for layer in self.layer_reports],
                "neurons_after_merging": self.neurons_after_merging,
                "widths_after_merging": None if self.merged is None else self.merged.layers.widths,
                "merging_error": None if self.merged is None else self.merged.error,
                "merging_tolerance": self.tolerance,
                "notes": [] if self.graph is None else self.graph.notes,
                "left_out": self.left_out,
            }
        )
