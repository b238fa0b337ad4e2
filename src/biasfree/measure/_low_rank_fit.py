"""Fits of Eq. 39 and Eq. 40: how close the weights are to the low-rank form they take when trained from small weights.

Eq. 39 (linear):  W₁ = u r₁rᵀ,  W_l = u r_l r_{l−1}ᵀ,  W_L = u r_{L−1}ᵀ, with unit vectors r, r_l.
Eq. 40 (ReLU):    the same, but of the middle layers only the two blocks where r_l and r_{l−1} have one sign, times √2.

Both are chains of rank-one matrices: one chain for Eq. 39; for Eq. 40 one through the neurons of positive r_l and one
through those of negative r_l, which share the input direction, meet the output with opposite signs and have one norm
each. The chains are fitted by alternating least squares, and Eq. 40 is their special case of equal norms u/√2.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree.measure._saved import Run, Saved, saved
from biasfree.networks import Network

# Sweeps converge like power iteration: in a few for weights of low rank, slowly for noise, where a fit says little.
_MOST_SWEEPS = 300
_STILL = 1e-14


@dataclass(frozen=True, eq=False)
class LowRankFit:
    """The weights of Eq. 39 or 40 nearest to a network's.

    Attributes:
        equation: 39 or 40.
        norm: u, shape (*saved,).
        direction: r, unit, shape (*saved, dim).
        neurons: r_l of each hidden layer, unit, shape (*saved, width).
        orders: of each hidden layer the permutation that sorts r_l downwards, so that neurons of the positive block
            come first, as ``Network.permuted`` takes it; shape (*saved, width).
        residuals: ‖W_l − fit‖_F/‖W_l‖_F of each layer, shape (*saved, L).
        path_norms: Eq. 40 only: the norm of every layer along the positive and along the negative neurons, shape
            (*saved, 2). Eq. 40 needs both to be u/√2; while one of the two paths waits to be learned they differ.
        path_residuals: Eq. 40 only: residuals of the form that leaves each path its own norm, shape (*saved, L).
        times: saved times, or None for a single network.
    """

    equation: int
    norm: Float[np.ndarray, "*saved"]
    direction: Float[np.ndarray, "*saved dim"]
    neurons: tuple[Float[np.ndarray, "*saved width"], ...]
    orders: tuple[Int[np.ndarray, "*saved width"], ...]
    residuals: Float[np.ndarray, "*saved layers"]
    path_norms: Float[np.ndarray, "*saved 2"] | None
    path_residuals: Float[np.ndarray, "*saved layers"] | None
    times: Float[np.ndarray, "saved"] | None

    def __str__(self) -> str:
        """One line: norm and residuals, at the last saved time."""
        last = () if self.times is None else (-1,)
        when = "" if self.times is None else f" at t = {self.times[-1]:g}"
        shown = ", ".join(f"W{i} {value:.2g}" for i, value in enumerate(self.residuals[last], 1))
        return f"Eq. {self.equation}{when}: u = {self.norm[last]:.4g}, relative residuals {shown}"

    __repr__ = __str__


def fit_eq_39(subject: Network | Run) -> LowRankFit:
    """Fit Eq. 39, the rank-one aligned layers of a deep linear network (Appendix F).

    It concerns weights only, so ReLU networks may be fitted too: their first and last layers have this form, the
    middle ones that of Eq. 40.

    Args:
        subject: a network, or a trajectory, whose saved times are then the first axis of every result.

    Raises:
        ValueError: one layer, several outputs, identity skips, or a layer without any weight.

    >>> from biasfree import Network
    >>> print(fit_eq_39(Network([[[0.6, 0.8], [-0.6, -0.8]], [[1.0, -1.0]]], slope=1.0)))
    Eq. 39: u = 1.414, relative residuals W1 ..., W2 ...
    """
    stack = _fittable(subject, 39)
    weights = stack.weights
    (chain,), (scale,), direction = _fit_chains(weights, sides=(1,))
    neurons = [*chain[1:-1]]
    fitted = [_outer(after, before) * scale[..., None, None] for before, after in itertools.pairwise(chain)]
    residuals = _residuals(weights, fitted)
    return LowRankFit(39, scale, direction, tuple(neurons), _orders(neurons), residuals, None, None, stack.times)


def fit_eq_40(subject: Network | Run) -> LowRankFit:
    """Fit Eq. 40, the form of a deep ReLU network trained on a linear target from small weights (Appendix F).

    With two layers there are no middle ones: Eq. 40 is then Eq. 39, and with equal ``path_norms`` Assumption 4.

    Args:
        subject: a network, or a trajectory, whose saved times are then the first axis of every result.

    Raises:
        ValueError: a linear network; a leaky or partly linear one of more than two layers; one layer, several
            outputs, identity skips, or a layer without any weight.

    >>> from biasfree import Network
    >>> fit = fit_eq_40(Network.aligned_relu([3, 6, 6, 1], init_scale=0.1, seed=0))
    >>> round(float(fit.norm), 12), bool(fit.residuals.max() < 1e-12)
    (0.1, True)
    """
    stack = _fittable(subject, 40)
    weights = stack.weights
    chains, scales, direction = _fit_chains(weights, sides=(1, -1))
    norm = np.hypot(*scales)
    share = [(scale / np.where(norm > 0, norm, 1))[..., None] for scale in scales]
    neurons = [share[0] * plus - share[1] * minus for plus, minus in zip(*(c[1:-1] for c in chains), strict=True)]

    paths = [
        sum(
            (scale[..., None, None] * _outer(chain[layer + 1], chain[layer]))
            for chain, scale in zip(chains, scales, strict=True)
        )
        for layer in range(len(weights))
    ]
    size = norm[..., None, None]
    middle = [size * np.sqrt(2) * np.maximum(_outer(after, before), 0) for before, after in itertools.pairwise(neurons)]
    printed = [size * _outer(neurons[0], direction), *middle, size * neurons[-1][..., None, :]]
    return LowRankFit(
        40, norm, direction, tuple(neurons), _orders(neurons), _residuals(weights, printed),
        np.stack(scales, -1), _residuals(weights, paths), stack.times,
    )  # fmt: skip


def _fittable(subject: Network | Run, equation: int) -> Saved:
    """The weights, or a sentence on why the equation says nothing about such a network."""
    stack = saved(subject)
    network, name = stack.template, f"Eq. {equation}"
    if network.depth == 1:
        raise ValueError(f"{name} relates neighbouring layers, but this network has one layer. Use structure().")
    if network.widths[-1] != 1:
        raise ValueError(f"{name} is about networks of one output, got {network.widths[-1]} outputs. Use structure().")
    if any(network.skips):
        raise ValueError(f"{name} is about networks without identity skips, got skips {network.skips}.")
    if equation == 40 and network.is_linear:
        raise ValueError("Eq. 40 is about ReLU networks, and this one is linear. Use fit_eq_39.")
    if equation == 40 and network.depth > 2 and (network.slope or not all(network.rectified)):
        raise ValueError(
            "Eq. 40 is about networks whose hidden layers are all ReLU (slope 0), "
            f"got slope {network.slope:g} and rectified {network.rectified}. Use structure()."
        )
    for layer, weight in enumerate(stack.weights, 1):
        if not weight.any(axis=(-2, -1)).all():
            raise ValueError(f"{name} has no zero layers, but all weights of layer {layer} are zero.")
    return stack


def _fit_chains(
    weights: Sequence[np.ndarray], sides: tuple[int, ...]
) -> tuple[list[list[np.ndarray]], list[np.ndarray], np.ndarray]:
    """Chains v₀, …, v_L of unit vectors and a norm n for each side: W_l ≈ Σ_sides n v_l v_{l−1}ᵀ in least squares.

    Of side ±1 the first vector is ±r and the last ±1. With two sides, hidden vectors are non-negative and each neuron
    belongs to one of them. For one side the sum of squares falls by the sweep, as Σ_l v_lᵀW_l v_{l−1} rises.
    """
    # In units of each network's largest weight, so that squares of tiny weights do not underflow.
    unit = np.max([np.abs(w).max(axis=(-2, -1)) for w in weights], axis=0)
    scaled = [w / unit[..., None, None] for w in weights]
    depth, lead = len(weights), weights[0].shape[:-2]
    chains: list[list[np.ndarray]] = [[np.zeros(0)] * depth + [np.full((*lead, 1), float(side))] for side in sides]
    norms = [np.ones(lead) for _ in sides]

    def assign(layer: int, pulls: list[np.ndarray]) -> None:
        if len(sides) == 2:
            gain = [np.maximum(norm[..., None] * pull, 0) for norm, pull in zip(norms, pulls, strict=True)]
            in_first = gain[0] >= gain[1]
            pulls = [np.where(in_first, np.maximum(pulls[0], 0), 0), np.where(in_first, 0, np.maximum(pulls[1], 0))]
        for chain, pull in zip(chains, pulls, strict=True):
            chain[layer] = _unit(pull)

    def aim() -> np.ndarray:
        parts = zip(sides, norms, chains, strict=True)
        r = _unit(sum((side * norm[..., None] * _times(scaled[0].mT, chain[1]) for side, norm, chain in parts)))
        for side, chain in zip(sides, chains, strict=True):
            chain[0] = side * r
        return r

    # From the output backwards every sign is known: r_{l−1} points along W_lᵀr_l.
    for layer in range(depth - 1, 0, -1):
        assign(layer, [_times(scaled[layer].mT, chain[layer + 1]) for chain in chains])
    direction = aim()
    explained = np.zeros(lead)
    for _ in range(_MOST_SWEEPS):
        for layer in range(1, depth):
            assign(
                layer,
                [_times(scaled[layer - 1], c[layer - 1]) + _times(scaled[layer].mT, c[layer + 1]) for c in chains],
            )
        norms = [
            sum((c[layer + 1] * _times(w, c[layer])).sum(-1) for layer, w in enumerate(scaled)) / depth for c in chains
        ]
        direction = aim()
        before, explained = explained, np.sum(np.square(norms), axis=0)
        if (np.abs(explained - before) <= _STILL * explained).all():
            break
    return chains, [norm * unit for norm in norms], direction


def _residuals(weights: Sequence[np.ndarray], fitted: Sequence[np.ndarray]) -> Float[np.ndarray, "*saved layers"]:
    """Relative Frobenius residual of each layer, in units of its largest weight."""
    sizes = [np.abs(w).max(axis=(-2, -1), keepdims=True) for w in weights]
    return np.stack(
        [
            np.linalg.norm((w - f) / size, axis=(-2, -1)) / np.linalg.norm(w / size, axis=(-2, -1))
            for w, f, size in zip(weights, fitted, sizes, strict=True)
        ],
        axis=-1,
    )


def _orders(neurons: Sequence[np.ndarray]) -> tuple[Int[np.ndarray, "*saved width"], ...]:
    return tuple(np.argsort(-r, axis=-1, kind="stable") for r in neurons)


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return (matrix @ vector[..., None])[..., 0]


def _outer(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    return after[..., :, None] * before[..., None, :]


def _unit(vector: np.ndarray) -> np.ndarray:
    """Of length one; zero stays zero."""
    length = np.linalg.norm(vector, axis=-1, keepdims=True)
    return vector / np.where(length > 0, length, 1)
