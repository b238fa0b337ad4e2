"""How far from rank one the last linear layers can ever be: Ji & Telgarsky's bound, from the start alone.

Write A_k for W_k, or for M_k = I + W_k where an identity skip spans layer k alone. Between linear layers the flow
conserves B_k = A_kA_kᵀ − A_{k+1}ᵀA_{k+1}. Let v lead A_{k+1} from the right, s₁ ≥ s₂ ≥ … be its singular values. What a
matrix has beyond rank one, ‖A‖_F² − ‖A‖₂², is the least trace of AAᵀ on a hyperplane; taken on the one across v,

    ‖A_k‖_F² − ‖A_k‖₂² ≤ ‖A_{k+1}‖_F² − ‖A_{k+1}‖₂² + tr B_k − vᵀB_kv,        (1)

and vᵀB_kv ≥ λ_min(B_k). The last layer of a network with one output is a row, of rank one. So down the chain

    ‖A_k‖_F² − ‖A_k‖₂² ≤ D_k = Σ_{j=k}^{L−1} (tr B_j − λ_min(B_j)),

at all times, for every layer k such that all hidden layers k … L − 1 are linear: all layers of a linear network, the
last ones of a ReLU network. Ji & Telgarsky take one D ≥ D_k for all of them. There is no such law for W in place of
I + W, nor for what comes before a hidden layer at which a skip over several layers starts or ends.

**ReLU layers.** On neurons that stay active on every sample the block of B_k is conserved too. Leaving columns out of
A_{k+1} lowers each of its singular values, so (1) holds for the rows of A_k of these neurons, with that block, from
the time on at which they are so; for any columns of these rows as well. The chain ends there, unless all neurons of the
layer are such.

**Alignment is faster.** Let u lead A_k from the left and θ be the angle between u and v. ‖A_k‖₂² is uᵀA_kA_kᵀu, and at
least vᵀA_kA_kᵀv. With A_kA_kᵀ = A_{k+1}ᵀA_{k+1} + B_k this gives

    (s₁² − s₂²) sin²θ ≤ uᵀB_ku − vᵀB_kv ≤ (λ_max(B_k) − λ_min(B_k)) sin θ,   s₂² ≤ D_{k+1},

so 1 − cos θ falls like s₁⁻⁴ while 1 − ‖A‖₂/‖A‖_F falls like s₁⁻²: layers are aligned long before they are of rank one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks
from biasfree.networks import Network


@dataclass(frozen=True, eq=False)
class LayerBound:
    """The bound for one layer.

    Attributes:
        layer: its number, 1 is the first.
        name: of its matrix, W3, or M3 for I + W3.
        neurons: the rows it is about; all but for a ReLU layer.
        excess: D_k, which ‖A‖_F² − ‖A‖₂² on these rows never exceeds.
        spread: λ_max − λ_min of the conserved B_k; 0 for the last layer, inf where only some neurons are in the law.
    """

    layer: int
    name: str
    neurons: Int[np.ndarray, "neurons"]
    excess: float
    spread: float


@dataclass(frozen=True, eq=False)
class RankBound:
    """The bounds for the layers that have one.

    Attributes:
        layers: in their order; the last layer of the network is the last here.
        common: Ji & Telgarsky's one D for all whole layers, max_k ‖A_k‖_F² − ‖A_L‖_F² + Σ‖B_k‖₂; no less than any D_k.
    """

    layers: tuple[LayerBound, ...]
    common: float

    @property
    def excess(self) -> Float[np.ndarray, "layers"]:
        """D_k of ``layers``."""
        return np.array([each.excess for each in self.layers])

    def misalignment(self, spectral_norms: Float[Any, "*saved layers"]) -> Float[np.ndarray, "*saved pairs"]:
        """The largest 1 − |⟨v_{k+1}, u_k⟩| that neighbours can have while ‖A_{k+1}‖₂ is this large; 1 says nothing.

        Args:
            spectral_norms: ‖A_k‖₂ of ``layers``, in their order, shape (*saved, layers).

        Raises:
            ValueError: another number of layers.
        """
        norms = checks.numeric(spectral_norms, "spectral_norms")
        if norms.ndim == 0 or norms.shape[-1] != len(self.layers):
            raise ValueError(f"spectral_norms must end in {len(self.layers)} layers, got shape {norms.shape}.")
        spread = np.array([each.spread for each in self.layers[:-1]])
        gap = norms[..., 1:] ** 2 - self.excess[1:]
        sine = np.where(gap > spread, spread / np.where(gap > spread, gap, 1.0), 1.0)
        # 1 − √(1 − sin²), without the cancellation.
        return sine**2 / (1 + np.sqrt(1 - sine**2))

    def __str__(self) -> str:
        """One line."""
        shown = ", ".join(
            f"{each.excess:.3g} for {each.name}" + (f" ({len(each.neurons)} neurons)" if len(each.neurons) > 1 else "")
            for each in self.layers
        )
        return f"‖A‖_F² − ‖A‖₂² never exceeds {shown}"

    __repr__ = __str__


def rank_bound(network: Network, active: Mapping[int, Any] | None = None) -> RankBound:
    """Ji & Telgarsky's finite-time bound ‖W_k‖_F² − ‖W_k‖₂² ≤ D for the last linear layers, from the start.

    It holds along gradient flow for any loss and data. With weight decay λ it holds still, and shrinks by e^{−2λt},
    but not for M = I + W.

    Args:
        network: the start; one output, at least two layers. Hidden layers are followed from the last one back to the
            first that is not linear.
        active: for hidden ReLU layers, by number (1 is the first), a mask of the neurons that are active on every
            sample, shape (width,). ``network`` is then where the flow was when they began to be so.

    Raises:
        ValueError: one layer, several outputs, a mask that does not fit.

    >>> network = Network([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]], slope=1.0)
    >>> [round(each.excess, 12) for each in rank_bound(network).layers]  # B = [[3, −1], [−1, 0]]
    [3.302775637732, 0.0]
    >>> print(rank_bound(network))
    ‖A‖_F² − ‖A‖₂² never exceeds 3.3 for W1 (2 neurons), 0 for W2
    """
    depth, outputs = network.depth, network.widths[-1]
    if depth == 1:
        raise ValueError(
            "a bound on the rank follows from how layers are tied to each other, and a network of one layer has no "
            "other. Use at least two layers."
        )
    if outputs != 1:
        raise ValueError(
            f"the bound starts from a last layer of rank one, that is one output; this network has {outputs}. "
            "Ask about one output at a time."
        )
    rows = _rows(network, active or {})
    acting = [checks.numeric(w, "weights") for w in network.weights]
    acting = [w + np.eye(len(w)) if span == 1 else w for w, span in zip(acting, network.skips, strict=True)]
    bounds = [LayerBound(depth, _name(network, depth), np.arange(1), 0.0, 0.0)]
    size, imbalances = [np.sum(acting[-1] ** 2)], 0.0
    for layer in range(depth - 1, 0, -1):
        chosen = rows[layer]
        # A skip over several layers feeds or reads these neurons past A_k and A_{k+1}.
        joined = any(span > 1 and layer in (end - span, end) for end, span in enumerate(network.skips, 1))
        if joined or not len(chosen):
            break
        before, after = acting[layer - 1][chosen], acting[layer][:, chosen]
        values = np.linalg.eigvalsh(before @ before.T - after.T @ after)
        excess = bounds[-1].excess + max(0.0, float(values[1:].sum()))
        whole = len(chosen) == network.widths[layer]
        spread = float(values[-1] - values[0]) if whole else np.inf
        bounds.append(LayerBound(layer, _name(network, layer), chosen, excess, spread))
        if not whole:
            break
        size.append(np.sum(before**2))
        imbalances += np.abs(values).max()
    return RankBound(tuple(bounds[::-1]), float(max(size) - size[0] + imbalances))


def _rows(network: Network, active: Mapping[int, Any]) -> dict[int, Int[np.ndarray, "neurons"]]:
    """By hidden layer, the neurons that act linearly on all samples."""
    rows = {
        layer: np.arange(0 if _is_rectified(network, layer) else network.widths[layer])
        for layer in range(1, network.depth)
    }
    for layer, mask in active.items():
        if layer not in rows:
            raise ValueError(f"active must name hidden layers, 1 to {network.depth - 1}, got {layer!r}.")
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (network.widths[layer],):
            raise ValueError(
                f"active[{layer}] must be a mask of {network.widths[layer]} neurons, True or False each, got shape "
                f"{mask.shape} of {mask.dtype}."
            )
        if _is_rectified(network, layer):
            rows[layer] = np.flatnonzero(mask)
    return rows


def _is_rectified(network: Network, layer: int) -> bool:
    return network.slope < 1 and network.rectified[layer - 1]


def _name(network: Network, layer: int) -> str:
    return f"{'M' if network.skips[layer - 1] == 1 else 'W'}{layer}"
