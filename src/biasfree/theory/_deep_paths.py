"""The two sign paths of a deep ReLU network, and the staircase they make of its loss.

Split the neurons of Eq. 40 by the signs of r_l. The positive ones of every layer form a chain that is active where
r₊ᵀx > 0, the negative ones another, active where r₋ᵀx < 0. While no sample lies between the two hyperplanes, no sample
meets both and each path is an aligned chain (see ``_chain_flow``) on half of the data:

    f(x) = w₊ᵀx where r₊ᵀx > 0,  w₋ᵀx elsewhere;     w± = a₁±⋯a_L± r±;     L − L* = ¼ Σ± (w±−w*)ᵀΣ(w±−w*)

on even inputs with an odd target: half of β and half of Σ for each. On white data with r± = β̄ neither turns and the two
are independent for ever. Else they turn at different times, and once samples lie between them the empty blocks of
Eq. 40 leak: weights are then off by some tenths of a per cent. Only paths of equal norms turn together.

From small weights the path of larger norm is learned first: the loss falls to exactly half way between zero output and
least squares, waits there, and falls again. At depth 2 the two times differ by ln(a₊/a₋)/(s/2) only, and for norms that
are not very different the steps merge; from depth 3 on they differ by a fixed part of the whole wait.

**From when the times can be predicted.** The rank-one chain is exact once layers are aligned. From random weights at
depth 3 or more they align while they grow, so there is no closed form. Measured against the flow (20 inputs, widths
100 and 400, γ = 1e-2 at depth 3, 0.1 at depth 4; errors relative to the time of the drop):

    paths read off the network at          depth 3, four to seven draws     depth 4, two draws
    t = 0, "overlap"                       within 4 %                       worthless (twice the time or more)
    t = 0, "gain"                          5–17 % early                     19–23 % early
    half way to the first drop, "gain"     within 1 %                       within 5 %
    loss fallen by 1 %, "gain"             3e-5 first, 1.4e-3 second drop   1e-5 first, 1e-3 second drop

Where ``SignPaths.alignments`` was above 0.9 the time came out within 1 %. At width 40 and 5 inputs "overlap" was off by
up to 10 % at t = 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.networks import Network
from biasfree.theory._chain_flow import Moments, course, passing_times
from biasfree.theory._deep import FORM_TOLERANCE, layers
from biasfree.theory._sign_paths import SignPaths


@dataclass(frozen=True)
class TwoPathFlow:
    """The course of both paths, positive first.

    Attributes:
        times: as asked for, any shape.
        layer_norms: a_l±(t), shape (2, *times, depth).
        directions: r±(t), shape (2, *times, dim).
        maps: w±(t), shape (2, *times, dim).
        excess_losses: the square loss above that of least squares, shape (*times,).
        start: the paths it started from.
    """

    times: Float[np.ndarray, "*times"]
    layer_norms: Float[np.ndarray, "2 *times depth"]
    directions: Float[np.ndarray, "2 *times dim"]
    maps: Float[np.ndarray, "2 *times dim"]
    excess_losses: Float[np.ndarray, "*times"]
    start: SignPaths

    def between(self, inputs: Float[Any, "samples dim"]) -> Float[np.ndarray, "*times"]:
        """Fraction of samples between the two hyperplanes: the prediction is exact up to the first time it is not 0."""
        sides = np.sign(self.directions @ checks.numeric(inputs, "inputs").T)
        return np.mean(sides[0] != sides[1], axis=-1)

    def __str__(self) -> str:
        """How far each path came."""
        if not self.times.size:
            return "two paths, no times asked for"
        last = np.unravel_index(np.argmax(self.times), self.times.shape)
        sizes = [float(np.linalg.norm(path[last])) for path in self.maps]
        return (
            f"two paths at t = {self.times[last]:.4g}: ‖w₊‖ = {sizes[0]:.4g}, ‖w₋‖ = {sizes[1]:.4g}, "
            f"excess loss {self.excess_losses[last]:.4g}"
        )


def two_path_flow(
    times: Float[Any, "*times"],
    covariance: Float[Any, "dim dim"],
    correlation: Float[Any, "dim"],
    paths: SignPaths,
) -> TwoPathFlow:
    """The two path ODEs of a deep ReLU network with paths of unequal norms; square loss, any depth.

    Exact on even inputs with an odd target while no sample lies between the paths' hyperplanes, which on white data
    with r± = β̄ is for ever.

    Args:
        times: flow times t ≥ 0 since ``paths``, of any shape and order; ``np.inf`` gives the limit.
        covariance: Σ = ⟨x xᵀ⟩, shape (dim, dim).
        correlation: β = ⟨y x⟩, shape (dim,).
        paths: from ``sign_paths`` or ``SignPaths.of_norms``.

    Raises:
        ValueError: negative times, moments that no data set has, shapes that do not match.

    >>> paths = SignPaths.of_norms([0.1, 0.2], [1.0, 0.0], depth=3)
    >>> flow = two_path_flow([0.0, 15.0, np.inf], np.eye(2), [1.0, 0.0], paths)
    >>> flow.excess_losses.round(3)
    array([0.496, 0.221, 0.   ])
    """
    moments = _moments(covariance, correlation, paths)
    t = checks.flow_times(times)
    norms, directions = map(np.array, zip(*(course(t, moments, chain, 0.5) for chain in paths.chains), strict=True))
    maps = np.prod(norms, axis=-1)[..., None] * directions
    return TwoPathFlow(t, norms, directions, maps, moments.excess(maps).mean(axis=0), paths)


def two_path_weights(flow: TwoPathFlow, network: Network) -> tuple[Float[np.ndarray, "*times out in"], ...]:
    """All weights along a two-path flow.

    Args:
        flow: from ``two_path_flow``, with paths that ``sign_paths`` read off ``network``.
        network: its start, of Eq. 40's form, with paths of any norms.

    Returns:
        W_l(t), one array per layer, as ``Trajectory.weights`` has them.

    Raises:
        ValueError: a network that is not made of two such paths.

    >>> from biasfree.theory._sign_paths import sign_paths
    >>> start = Network.aligned_relu([2, 4, 4, 1], init_scale=0.5, seed=0)
    >>> flow = two_path_flow([0.0, 9.0], np.eye(2), [1.0, 0.0], sign_paths(start, [1.0, 0.0]))
    >>> bool(np.allclose(two_path_weights(flow, start)[1][0], start.weights[1]))
    True
    """
    weights, members = layers(network), flow.start.members
    if [both.shape[1] for both in members] != [weight.shape[0] for weight in weights[:-1]]:
        raise ValueError("the flow must start from paths that sign_paths read off this network.")

    def assembled(norms: np.ndarray, directions: np.ndarray) -> list[np.ndarray]:
        built = [np.zeros((*norms.shape[1:-1], *weight.shape)) for weight in weights]
        for path, (r, begun) in enumerate(flow.start.chains):
            scale, on = norms[path] / begun, [both[path] for both in members]
            built[0] += scale[..., :1, None] * (on[0] * (weights[0] @ r))[:, None] * directions[path][..., None, :]
            for layer in range(1, len(weights)):
                after = on[layer] if layer < len(on) else np.ones(1, dtype=bool)
                built[layer] += scale[..., layer, None, None] * (weights[layer] * np.outer(after, on[layer - 1]))
        return built

    again = assembled(flow.start.layer_norms, flow.start.directions)
    apart = max(np.linalg.norm(a - w) / np.linalg.norm(w) for a, w in zip(again, weights, strict=True))
    if apart > FORM_TOLERANCE:
        raise ValueError(
            f"the network must consist of two aligned paths, as Eq. 40 has it; {apart:.1g} of a layer is beside them."
        )
    return tuple(assembled(flow.layer_norms, flow.directions))


@dataclass(frozen=True)
class DeepStaircase:
    """The two steps of a deep ReLU network's loss.

    Attributes:
        levels: the loss at zero output, with one path learned, and at least squares.
        times: when the first and the second path have taken half of their share off the loss, counted from the network
            that the paths were read from; 0 if they had already.
        spans: for each step, when 1 %, 50 % and 99 % of its share are gone, shape (2, 3).
        first: ``"positive"`` or ``"negative"``.
    """

    levels: Float[np.ndarray, "3"]
    times: Float[np.ndarray, "2"]
    spans: Float[np.ndarray, "2 3"]
    first: str

    @property
    def wait(self) -> float:
        """How long the loss stays at its middle level, from 99 % of the first step to 1 % of the second; 0 if not."""
        return max(0.0, float(self.spans[1, 0] - self.spans[0, 2]))

    def __str__(self) -> str:
        """Levels and times in a line."""
        high, half, low = self.levels
        plateau = f"waits for {self.wait:.4g}" if self.wait else "hardly waits, as the steps overlap"
        return (
            f"loss {high:.4g} → {half:.4g} at t = {self.times[0]:.6g} (the {self.first} path), {plateau}, "
            f"→ {low:.4g} at t = {self.times[1]:.6g}"
        )


def deep_staircase(
    paths: SignPaths,
    covariance: Float[Any, "dim dim"],
    correlation: Float[Any, "dim"],
    target_power: float | None = None,
) -> DeepStaircase:
    """When a deep ReLU network learns its two paths, and the loss before, between and after.

    On white data with equal norms in a path this is ``drop_time`` with √2 times the path's norm. The level between is
    exactly half way for every symmetric data set. Times from the paths of a random start are good to 4 % at depth 3 and
    width 100 (``middle="overlap"``), from paths read when the loss has fallen by 1 % to 3e-5 for the first drop and
    1.4e-3 for the second, at depths 3 and 4.

    Args:
        paths: from ``sign_paths`` (of a start, or of an early network), ``wide_paths`` or ``SignPaths.of_norms``.
        covariance: Σ = ⟨x xᵀ⟩, shape (dim, dim).
        correlation: β = ⟨y x⟩, shape (dim,).
        target_power: ⟨y²⟩; that of the linear target Σ⁺β by default, whose final loss is 0.

    Raises:
        ValueError: no correlation, a target power below what β needs, moments that no data set has.

    >>> print(deep_staircase(SignPaths.of_norms([0.01, 0.012], [1.0, 0.0], depth=3), np.eye(2), [1.0, 0.0]))
    loss 0.5 → 0.25 at t = 164.16 (the negative path), waits for 21.74, → 0 at t = 197.493
    """
    moments = _moments(covariance, correlation, paths)
    learned = float(moments.correlation @ moments.least_squares)
    power = learned if target_power is None else checks.non_negative(target_power, "target_power")
    if learned == 0:
        raise ValueError("correlation must not be zero: without it there is nothing linear to learn.")
    if power < learned * (1 - 1e-9):
        raise ValueError(f"target_power must be at least βᵀΣ⁺β = {learned:.6g}, as ⟨y²⟩ is, got {target_power!r}.")
    spans = np.array([passing_times(moments, chain, 0.5, (0.01, 0.5, 0.99)) for chain in paths.chains])
    # Of paths that are both learned, the one of larger output came first.
    order = sorted((0, 1), key=lambda i: (spans[i, 1], -np.linalg.norm(paths.maps[i])))
    levels = 0.5 * np.array([power, power - 0.5 * learned, max(power - learned, 0.0)])
    return DeepStaircase(levels, spans[order, 1], spans[order], ("positive", "negative")[order[0]])


def _moments(covariance: Any, correlation: Any, paths: SignPaths) -> Moments:
    moments = Moments.of(covariance, correlation)
    if paths.directions.shape[1] != moments.dim:
        raise ValueError(f"the paths are of {paths.directions.shape[1]} dimensions, the moments of {moments.dim}.")
    return moments
