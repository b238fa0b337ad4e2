"""How far a ReLU network of finite width is from its linear twin, for any number of outputs.

The network with the twin's weights, W = a^{−1/2}W_lin, computes the twin's map and an even part

    e(x) = (b/a) Σ_h v_h|w_hᵀx|      (w, v the twin's weights, a, b = (1±α)/2),

which vanishes when every neuron has its mirror image, and is of order 1/√width for a random start. The flow unlearns
it: on symmetric data odd and even parts do not meet in the loss, and to first order in e a change δ of the scaled
weights √aW obeys

    dδ/dt = −a Jᵀ(e + Jδ)/P,   J = (b/a) ∂(Σ_h v_h|w_hᵀx|)/∂(w, v).

With the twin standing still for a time τ, JJᵀ = Σ_m λ_m q_m q_mᵀ and c_m = q_mᵀe this gives

    ‖δ‖² = Σ_m (c_m²/λ_m)(1 − e^{−aλ_mτ/P})²,     P⟨e²⟩ = Σ_m c_m² e^{−2aλ_mτ/P}.

δ is the change of least norm that removes what can be removed by then. At one output, or while one mode is learned, J
has one direction that matters, and ‖δ‖/‖W_lin‖ = |ε|/2: the error of ``finite_width_error``. Later modes turn each
neuron its own way, e is then made of one |w_hᵀx| per neuron, and its short waves go slowly.

This leaves out how e moves the modes themselves, and the wait before: τ is counted from the last mode that was learned.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.deprecated import times_first
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.theory._modes import mode_staircase

# Even functions are looked at on so many lines at most: they vary slowly from one to the next.
_MOST_LINES = 400


class FiniteWidthResponse(NamedTuple):
    """What finite width is predicted to leave of Theorem 5 at one time.

    Attributes:
        weights: ‖√((α+1)/2) W − W_lin‖/‖W_lin‖, the error of Eq. 5.
        function: root mean square of the even part of f, relative to the targets'; the error of Eq. 4, where the two
            are not at different stages.
        unanswered: the same before the flow has unlearned any of it.
    """

    weights: float
    function: float
    unanswered: float


@times_first("time")
def finite_width_response(time: float, network: Network, dataset: Dataset) -> FiniteWidthResponse:
    """The predicted distance of a network from its linear twin at a time on one of its plateaus, or in the end.

    To first order in the even part; Condition 3 is assumed, not checked.

    Args:
        time: flow time of the network, after its first mode is learned.
        network: the start: two layers, small random weights, any number of outputs.
        dataset: as many outputs as the network has.

    Raises:
        ValueError: as ``mode_staircase``; a time before the first mode is learned.

    >>> from biasfree import datasets, theory
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> start = Network.init([3, 100, 1], slope=0.0, init_scale=1e-6, seed=0)
    >>> response = finite_width_response(150.0, start, data)
    >>> bool(abs(response.weights / theory.finite_width_error(start, data) - 1) < 0.05)
    True
    """
    stairs = mode_staircase(network, dataset)
    time = checks.positive(time, "time")
    learned = stairs.times[stairs.times <= time]
    if not learned.size:
        raise ValueError(
            f"the first mode is learned at t = {stairs.times[0]:.4g}, and time must lie after that, got {time:g}."
        )
    first, second = stairs.twin_weights(time)
    a, size = 0.5 * (1 + stairs.slope), float(np.sqrt(np.sum(first**2) + np.sum(second**2)))
    points = _points(dataset)
    even, kernel = _even_part(first, second, points)
    ratio = (1 - a) / a
    values, vectors = np.linalg.eigh(ratio**2 * kernel)
    values, seen = np.maximum(values, 0.0), ratio * (vectors.T @ even)
    removed = -np.expm1(-a * values * (time - learned.max()) / len(points))
    least = np.where(values > 0, removed / np.sqrt(np.where(values > 0, values, 1.0)), 0.0)
    scale = np.sqrt(np.mean(np.sum(dataset.targets.reshape(dataset.samples, -1) ** 2, axis=1)) * len(points))
    return FiniteWidthResponse(
        float(np.linalg.norm(seen * least)) / size,
        float(np.linalg.norm(seen * (1 - removed)) / scale),
        float(np.linalg.norm(seen) / scale),
    )


def _points(dataset: Dataset) -> Float[np.ndarray, "points dim"]:
    """One point per line, of the mean square length of its samples; every so many lines where there are too many."""
    grouped = lines(dataset.inputs)
    power = grouped.total(grouped.position**2) / np.maximum(grouped.total(np.ones(dataset.samples)), 1)
    points = np.sqrt(power)[:, None] * grouped.directions
    return points[:: -(-len(points) // _MOST_LINES)]


def _even_part(
    first: Float[np.ndarray, "width dim"],
    second: Float[np.ndarray, "outputs width"],
    points: Float[np.ndarray, "p dim"],
) -> tuple[Float[np.ndarray, "values"], Float[np.ndarray, "values values"]]:
    """Σ_h v_h|w_hᵀx| at the points, output after output, and the Gram matrix of its gradients."""
    signals = points @ first.T
    sizes, signs = np.abs(signals), np.sign(signals)
    count, outputs = len(points), len(second)
    kernel = np.kron(np.eye(outputs), sizes @ sizes.T)
    near = points @ points.T
    for k in range(outputs):
        for j in range(outputs):
            block = (signs * (second[k] * second[j])) @ signs.T * near
            kernel[k * count : (k + 1) * count, j * count : (j + 1) * count] += block
    return (sizes @ second.T).T.ravel(), kernel
