"""What the weights of each layer show: rank, alignment, balance, closeness to Eq. 39 or 40, neurons on the data."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import measure
from biasfree.models import Graph
from biasfree.models import _operations as ops
from biasfree.models._layers import Layers
from biasfree.networks import Network


@dataclass(frozen=True)
class LayerReport:
    """One layer of weights; what concerns the neurons after it is None for the last.

    Attributes:
        layer: its number, 1 is the first.
        outputs, inputs: shape of W.
        has_bias: whether it has a bias other than zero.
        slope: of the activation that follows; 1 for none.
        norm: ‖W‖_F.
        stable_rank: ‖W‖_F²/‖W‖₂².
        rank: singular values above 1 % of the largest.
        second_singular_value: s₂/s₁.
        alignment: |⟨v_{k+1}, u_k⟩| with the next layer; says little where s₂ ≈ s₁.
        imbalance: Σ|‖incoming‖² − ‖outgoing‖²|/Σ(‖incoming‖² + ‖outgoing‖²) over its neurons, 0 when balanced.
        equation: 39 or 40, whichever the network may obey; None when neither applies.
        residual: ‖W − fit‖_F/‖W‖_F of that equation.
        dead, always_active: neurons active on no sample, and on every sample, of the data.
        name: what the file calls it, or its kind; "W1" … in a chain.
    """

    layer: int
    outputs: int
    inputs: int
    has_bias: bool
    slope: float | None
    norm: float
    stable_rank: float | None
    rank: int
    second_singular_value: float | None
    alignment: float | None
    imbalance: float | None
    equation: int | None
    residual: float | None
    dead: int | None
    always_active: int | None
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def layer_reports(model: Layers, inputs: Float[np.ndarray, "samples dim"] | None) -> tuple[LayerReport, ...]:
    """A report for each layer, with its neurons' activity where there are data."""
    # The measures ask about weights alone; slope and biases are reported separately.
    bare = Network(model.weights, 0.0)
    structure = measure.structure(bare)
    equation, residuals = _low_rank(model)
    active = _active_shares(model, inputs) if inputs is not None else None
    reports = []
    for k, (weight, spectrum) in enumerate(zip(model.weights, structure.layers, strict=True)):
        hidden = k < model.depth - 1
        ratios = spectrum.ratios
        reports.append(
            LayerReport(
                k + 1, weight.shape[0], weight.shape[1], model.biases[k] is not None,
                model.slopes[k] if hidden else None,
                float(spectrum.norm), _number(spectrum.stable_rank), int(spectrum.rank()),
                _number(ratios[1]) if len(ratios) > 1 else None,
                _number(structure.alignment[k]) if hidden else None,
                _imbalance(bare, k + 1) if hidden else None,
                equation, None if residuals is None else float(residuals[k]),
                int((active[k] == 0).sum()) if hidden and active is not None else None,
                int((active[k] == 1).sum()) if hidden and active is not None else None,
                f"W{k + 1}",
            )
        )  # fmt: skip
    return tuple(reports)


def graph_reports(graph: Graph) -> tuple[LayerReport, ...]:
    """A report for each layer of weights of any graph; kernels are taken as matrices (outputs, inputs × positions)."""
    reports: list[LayerReport] = []
    for node in graph.nodes:
        operation = node.operation
        if not isinstance(operation, (ops.Linear, ops.Conv)):
            continue
        weight = np.asarray(operation.weight)
        if isinstance(operation, ops.Conv) and operation.transposed:
            weight = weight.swapaxes(0, 1)
        matrix = weight.reshape(len(weight), -1)
        values = np.linalg.svd(matrix, compute_uv=False)
        norm, top = float(np.linalg.norm(values)), float(values[0])
        reports.append(
            LayerReport(
                len(reports) + 1, matrix.shape[0], matrix.shape[1], operation.shift is not None, None, norm,
                norm**2 / top**2 if top else None, int((values > 0.01 * top).sum()) if top else 0,
                float(values[1] / top) if len(values) > 1 and top else None, None, None, None, None, None, None,
                f"{operation.title}{f' {node.name}' if node.name else ''}",
            )
        )  # fmt: skip
    return tuple(reports)


def _low_rank(model: Layers) -> tuple[int | None, np.ndarray | None]:
    """The fit of Eq. 39 (linear) or 40 (ReLU), where the paper says anything about such a network."""
    try:
        network = model.as_network()
        fit = measure.fit_eq_39(network) if network.is_linear else measure.fit_eq_40(network)
    except ValueError:
        return None, None
    return fit.equation, fit.residuals


def _imbalance(network: Network, layer: int) -> float | None:
    before, after = (np.asarray(w) for w in network.weights[layer - 1 : layer + 1])
    value = measure.neuron_balance(network, layer).value
    total = float((before**2).sum() + (after**2).sum())
    return float(np.abs(value).sum()) / total if total else None


def _active_shares(model: Layers, inputs: np.ndarray) -> list[np.ndarray]:
    counts = [np.zeros(width) for width in model.widths[1:-1]]
    for batch in model.batches(inputs):
        for k, h in enumerate(model.preactivations(batch)[:-1]):
            counts[k] += (h > 0).sum(axis=0) if model.slopes[k] < 1 else len(batch)
    return [count / len(inputs) for count in counts]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
