"""The flow of a deep network of Eq. 39 or 40 reduced to its norm u and direction r (Appendix F), at any depth.

A deep linear network of Eq. 39 is one aligned chain of layers (see ``_chain_flow``) with a_l = u. A ReLU network of
Eq. 40 is two of them, one for each sign of rᵀx, each active on half of symmetric data; when r_l⁺ and r_l⁻ have equal
norms the two are equal, with a_l = u/√2. The paper's equations for u and u r are these. So a ReLU network from an
Eq. 40 start is the linear network of Eq. 39 with weights smaller by √2 at half the pace: what Theorem 5 says of two
layers, and the paper gives up beyond, holds from these starts at every depth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.deprecated import renamed
from biasfree.networks import Network
from biasfree.theory._chain_flow import Chain, Moments, course
from biasfree.theory._deep import FORM_TOLERANCE, layers


@dataclass(frozen=True)
class DeepFlow:
    """The course of a deep network of Eq. 39 (linear) or Eq. 40 (ReLU).

    Attributes:
        times: as asked for, any shape.
        layer_norms: ‖W_l(t)‖, shape (*times, depth); all are u(t) from a start of equal norms.
        directions: r(t), unit vectors, shape (*times, dim).
        maps: w(t) of f = wᵀx: u^L r for the linear network, (u/√2)^L r for ReLU; shape (*times, dim).
        excess_losses: the square loss above that of least squares.
        initial_norms, initial_direction: what it started from.
        rectified: whether it is the ReLU network.
    """

    times: Float[np.ndarray, "*times"]
    layer_norms: Float[np.ndarray, "*times depth"]
    directions: Float[np.ndarray, "*times dim"]
    maps: Float[np.ndarray, "*times dim"]
    excess_losses: Float[np.ndarray, "*times"]
    initial_norms: Float[np.ndarray, "depth"]
    initial_direction: Float[np.ndarray, "dim"]
    rectified: bool

    @property
    def norms(self) -> Float[np.ndarray, "*times"]:
        """u(t): the norm of the first layer, and of every layer from a start of equal norms."""
        return self.layer_norms[..., 0]

    @property
    def depth(self) -> int:
        """Number of layers L."""
        return self.initial_norms.size

    def __str__(self) -> str:
        """Where it went, in a line."""
        kind = "ReLU network by Eq. 40" if self.rectified else "linear network by Eq. 39"
        if not self.times.size:
            return f"{self.depth}-layer {kind}, no times asked for"
        ends = [np.argmin(self.times), np.argmax(self.times)]

        def shown(values: np.ndarray) -> str:
            return " → ".join(f"{values.flat[i]:.4g}" for i in ends)

        size = np.linalg.norm(self.maps, axis=-1)
        return (
            f"{self.depth}-layer {kind}, t = {shown(self.times)}: u {shown(self.norms)}, ‖w‖ {shown(size)}, "
            f"excess loss {shown(self.excess_losses)}"
        )


@renamed(initial_norm="init_scale")
def deep_reduced_flow(
    times: Float[Any, "*times"],
    covariance: Float[Any, "dim dim"],
    correlation: Float[Any, "dim"],
    initial_direction: Float[Any, "dim"],
    init_scale: float | Float[Any, "depth"],
    depth: int,
    rectified: bool = True,
) -> DeepFlow:
    """The two ODEs of Appendix F for u and u r, at any depth and for any Σ; square loss.

    Exact from an Eq. 39 start (linear), and from an Eq. 40 start (ReLU) on even inputs with an odd target. A step costs
    O(dim²), whatever the width and the number of samples. Integrated to about 1e-11; from depth 3 on a wait of n times
    the drop's own length multiplies all errors, that of ``init_scale`` included, by about n.

    Args:
        times: flow times t ≥ 0, of any shape and order; ``np.inf`` gives the limit: w = Σ⁺β, and where Σ is singular
            also what it does not see of the start. (A start exactly against β on white data is the exception: it
            lies on the stable manifold of the saddle at zero.)
        covariance: Σ = ⟨x xᵀ⟩, shape (dim, dim).
        correlation: β = ⟨y x⟩, shape (dim,).
        initial_direction: r(0), normalised here; ``effective_map(network).map`` points along it.
        init_scale: u(0) = ‖W_l(0)‖, or one norm per layer.
        depth: L, at least 2.
        rectified: ReLU by Eq. 40, or linear by Eq. 39.

    Raises:
        ValueError: negative times, norms that are not above zero, moments that no data set has, shapes that do not fit.

    >>> flow = deep_reduced_flow([0.0, 5.0, np.inf], np.eye(2), [1.0, 0.0], [0.6, 0.8], init_scale=0.5, depth=3)
    >>> print(flow)
    3-layer ReLU network by Eq. 40, t = 0 → inf: u 0.5 → 1.414, ‖w‖ 0.04419 → 1, excess loss 0.4745 → 0
    >>> flow.maps[2]
    array([1., 0.])
    """
    moments = Moments.of(covariance, correlation)
    t, norms = checks.flow_times(times), checks.numeric(init_scale, "init_scale")
    depth = checks.count(depth, "depth", least=2)
    if norms.shape not in ((), (depth,)) or not (np.isfinite(norms) & (norms > 0)).all():
        raise ValueError(f"init_scale must be one finite number above 0, or one per layer, got {init_scale!r}.")
    r = checks.finite(checks.numeric(initial_direction, "initial_direction"), "initial_direction")
    if r.shape != (moments.dim,) or not r.any():
        raise ValueError(f"initial_direction must be a nonzero vector of {moments.dim} numbers, got shape {r.shape}.")
    r /= np.abs(r).max()
    chain = Chain(r / np.linalg.norm(r), np.broadcast_to(norms, (depth,)) / (np.sqrt(2) if rectified else 1.0))
    sizes, directions = course(t, moments, chain, 0.5 if rectified else 1.0)
    maps = np.prod(sizes, axis=-1)[..., None] * directions
    initial = np.broadcast_to(norms, (depth,)).copy()
    return DeepFlow(
        t, sizes * (np.sqrt(2) if rectified else 1.0), directions, maps, moments.excess(maps),
        initial, chain.direction, bool(rectified),
    )  # fmt: skip


def deep_weights(flow: DeepFlow, network: Network) -> tuple[Float[np.ndarray, "*times out in"], ...]:
    """All weights along a reduced flow: the r_l stay those of the start, only the norms and r move.

    Args:
        flow: from ``deep_reduced_flow``.
        network: its start, of Eq. 39's or Eq. 40's form.

    Returns:
        W_l(t), one array per layer, as ``Trajectory.weights`` has them.

    Raises:
        ValueError: a network that is not the start of this flow.

    >>> from biasfree.theory._deep import effective_map
    >>> start = Network.aligned_relu([2, 4, 4, 1], init_scale=0.5, seed=0)
    >>> flow = deep_reduced_flow([0.0, 9.0], np.eye(2), [1.0, 0.0], effective_map(start).map, 0.5, depth=3)
    >>> [w.shape for w in deep_weights(flow, start)]
    [(2, 4, 2), (2, 4, 4), (2, 1, 4)]
    """
    weights = layers(network)
    r = flow.initial_direction
    norms = np.array([np.linalg.norm(weight) for weight in weights])
    if len(weights) != flow.depth or weights[0].shape[1] != r.size:
        raise ValueError(f"the flow is of a {flow.depth}-layer network on {r.size} inputs, got a {network}.")
    apart = np.abs(norms - flow.initial_norms).max() / flow.initial_norms.max()
    tilted = np.linalg.norm(weights[0] - np.outer(weights[0] @ r, r)) / norms[0]
    if max(apart, tilted) > FORM_TOLERANCE:
        raise ValueError(
            f"the network must be the start of this flow: its norms differ by {apart:.1g} of them, "
            f"and W₁ by {tilted:.1g} of it from the form u r₁rᵀ."
        )
    moved = flow.layer_norms[..., None, None]
    first = moved[..., 0, :, :] * (weights[0] @ r / norms[0])[:, None] * flow.directions[..., None, :]
    return (first, *(moved[..., i, :, :] * (weights[i] / norms[i]) for i in range(1, flow.depth)))
