"""Where regression ends: least squares (Corollary 6), its regularised kin, and the loss of a linear map.

**Weight decay.** Take a two-layer network under Condition 3 and Assumption 4, whose weights flow by Ẇ = −∇L − λW. By
Theorem 5 it computes f = wᵀx like the linear network with W_lin = √a W, a = (1+α)/2, whose decay is λ_lin = λ/a.
Decay makes that network balanced in the end, and a balanced rank-one network that computes w has
(‖W₁‖² + ‖W₂‖²)/2 = ‖w‖, the least of all that compute it. The flow therefore ends at the minimum of

    L(w) + λ_lin ‖w‖,   λ_lin = 2λ/(α+1):

the norm itself, not its square. Unlike ridge regression this keeps w = 0 for every decay above ‖∇L(0)‖.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dgejsv
from scipy.optimize import brentq

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.theory import _point_losses

_NEWTON_STEPS = 1000
# Numbers held at a time when a label loss is evaluated for many weights.
_BLOCK = 2**22


def least_squares(dataset: Dataset) -> Float[np.ndarray, "dim"] | Float[np.ndarray, "outputs dim"]:
    """Where square loss ends under Condition 3: w = Σ⁺β, the ordinary least-squares map (Corollary 6).

    When Σ is singular this is the solution of least norm, to which the flow tends as its initial scale goes to 0. It is
    computed from the inputs, not from Σ, so that nothing is squared; input dimensions may differ in scale.

    Args:
        dataset: samples (samples, dim), scalar or vector targets.

    Returns:
        Shape (dim,), or (outputs, dim) for vector targets: f(x) = wᵀx.

    >>> least_squares(Dataset([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1.0, 2.0, 3.0])).round(12)
    array([1., 3.])
    """
    axes = principal_axes(dataset)
    return (axes.basis @ (axes.targets.T / axes.values).T).T


def regularised_limit(
    dataset: Dataset, weight_decay: float, slope: float, loss: str = "square"
) -> Float[np.ndarray, "dim"]:
    """Where training with weight decay ends under Condition 3: argmin L(w) + 2λ/(α+1) ‖w‖.

    For square loss w solves (Σ + (λ_lin/n) I) w = β with n = ‖w‖, and is 0 once λ_lin ≥ ‖β‖; for logistic loss it is 0
    once λ_lin ≥ ‖β‖/2, for exponential loss once λ_lin ≥ ‖β‖. At slope 1 Condition 3 is not needed.

    Args:
        dataset: scalar targets, ±1 for logistic and exponential loss.
        weight_decay: λ of Ẇ = −∇L − λW.
        slope: α of the two-layer network.
        loss: "square", "logistic" or "exponential".

    Returns:
        w of the map f(x) = wᵀx that the network ends at.

    Raises:
        ValueError: arguments out of range, vector targets, labels other than ±1, or a label loss without decay that
            has no finite minimum.

    >>> data = Dataset([[1.0, 0.0], [-1.0, 0.0]], [3.0, -3.0])  # Σ = diag(1, 0), β = (3, 0)
    >>> regularised_limit(data, weight_decay=0.5, slope=0.0).round(12)
    array([2., 0.])
    >>> regularised_limit(data, weight_decay=0.5, slope=1.0).round(12)
    array([2.5, 0. ])
    """
    decay = 2 * checks.non_negative(weight_decay, "weight_decay") / (1 + checks.slope(slope))
    losses.get(loss).check_targets(dataset.targets)
    if dataset.outputs != 1 or loss == "cross-entropy":
        raise ValueError(
            f"the regularised limit is known for scalar targets, got {dataset.outputs} outputs and {loss} loss. "
            "Ask for each column of the targets on its own."
        )
    axes = principal_axes(dataset)
    if loss == "square":
        return axes.basis @ _shrunk(axes.values**2, axes.values * axes.targets, decay)
    # Without decay no norm counts, and white coordinates show a vanishing curvature for what it is.
    frame = axes.basis if decay > 0 else axes.basis / axes.values
    return frame @ _label_limit(dataset.inputs @ frame, dataset.targets, decay, loss)


def linear_loss(
    weights: Float[Any, "*batch dim"], dataset: Dataset, loss: str = "square"
) -> Float[np.ndarray, "*batch"]:
    """Loss of the linear map f(x) = wᵀx, for one w or many.

    Square loss is ½(‖Rw − Qᵀy‖² + ‖y − QQᵀy‖²)/P with X = QR: it costs nothing per sample for each w, is never
    negative, and keeps its figures near zero loss.

    Args:
        weights: shape (..., dim), or (..., outputs, dim) for vector targets.
        dataset: targets ±1 for logistic and exponential loss, classes for cross-entropy.
        loss: "square", "logistic", "exponential" or "cross-entropy".

    Raises:
        ValueError: weights that do not fit the data, labels other than ±1.

    >>> linear_loss([[0.0], [1.0]], Dataset([[1.0], [-2.0]], [1.0, -2.0])).round(12)
    array([1.25, 0.  ])
    """
    weights = checks.numeric(weights, "weights")
    targets = losses.get(loss).encoded(dataset.targets)
    shape = (*targets.shape[1:], dataset.dim)
    if weights.shape[-len(shape) :] != shape:
        raise ValueError(
            f"weights must end in shape {shape} to fit {dataset.name} ({dataset.dim} dimensions, "
            f"{dataset.outputs} outputs), got shape {weights.shape}."
        )
    batch = weights.shape[: -len(shape)]
    targets = targets.reshape(dataset.samples, -1)
    maps = weights.reshape(-1, targets.shape[1], dataset.dim)
    if loss == "square":
        frame, triangle = np.linalg.qr(dataset.inputs)
        seen = frame.T @ targets
        unexplained = np.sum((targets - frame @ seen) ** 2)
        misfit = np.sum((maps @ triangle.T - seen.T) ** 2, axis=(1, 2))
        return (0.5 * (misfit + unexplained) / dataset.samples).reshape(batch)
    values = np.empty(len(maps))
    rows = max(1, _BLOCK // targets.size)
    for first in range(0, len(maps), rows):
        outputs = maps[first : first + rows] @ dataset.inputs.T
        values[first : first + rows] = _point_losses.value(loss, outputs, targets.T).sum(axis=(1, 2)) / dataset.samples
    return values.reshape(batch)


class PrincipalAxes(NamedTuple):
    """Σ = B diag(s²) Bᵀ on the span of the inputs, and β = B (s c): c are the targets seen along the axes.

    Attributes:
        basis: B, orthonormal columns, shape (dim, rank).
        values: s > 0, shape (rank,).
        targets: c, shape (rank,) or (rank, outputs).
    """

    basis: Float[np.ndarray, "dim rank"]
    values: Float[np.ndarray, "rank"]
    targets: Float[np.ndarray, "rank ..."]


def principal_axes(dataset: Dataset) -> PrincipalAxes:
    """Principal axes of the inputs about the origin, weak ones to as many figures as strong ones.

    Whether the inputs span a direction is judged after every dimension is scaled to unit size, and the one-sided Jacobi
    method, unlike the usual SVD, is not disturbed by that scaling: a dimension in other units is not lost.
    """
    size = np.abs(dataset.inputs).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    left, stretch, right = np.linalg.svd(dataset.inputs / size, full_matrices=False)
    rank = int(np.sum(stretch > max(dataset.inputs.shape) * sys.float_info.epsilon * stretch[0]))
    left, stretch, right = left[:, :rank], stretch[:rank], right[:rank]
    if rank == 0:
        return PrincipalAxes(np.zeros((dataset.dim, 0)), stretch, np.zeros((0, *dataset.targets.shape[1:])))
    span = np.eye(dataset.dim) if rank == dataset.dim else np.linalg.qr(size[:, None] * right.T)[0]
    # X B = left @ core; joba=0 asks for small singular values of a column-scaled matrix to full relative accuracy.
    core = (stretch[:, None] * right * size) @ span
    scaled, turned, axes, work, _, failed = dgejsv(core, joba=0)
    if failed:
        raise RuntimeError(f"the singular values of {dataset.name} did not converge (LAPACK dgejsv: {failed}).")
    values = scaled * (work[0] / work[1]) / np.sqrt(dataset.samples)
    seen = turned.T @ (left.T @ dataset.targets) / np.sqrt(dataset.samples)
    return PrincipalAxes(span @ axes, values, seen)


def _shrunk(
    curvature: Float[np.ndarray, "rank"], pull: Float[np.ndarray, "rank"], decay: float
) -> Float[np.ndarray, "rank"]:
    """Argmin ½wᵀSw − bᵀw + λ‖w‖ for diagonal S: w = n b/(ns + λ) where n = ‖w‖ makes ‖b/(ns + λ)‖ = 1."""
    # Deep in the tail of a label loss all three are tiny, and squares would underflow.
    unit = np.abs(pull).max(initial=0.0)
    if unit == 0:
        return np.zeros_like(pull)
    curvature, pull, decay = curvature / unit, pull / unit, decay / unit
    strength = float(np.linalg.norm(pull))
    if strength <= decay:
        return np.zeros_like(pull)
    if decay == 0:
        return pull / curvature

    def excess(norm: float) -> float:
        return float(np.linalg.norm(pull / (norm * curvature + decay))) - 1

    # With the largest curvature everywhere the root would be here; smaller ones only move it up.
    low = (strength - decay) / curvature.max()
    high = low
    while excess(high) > 0:
        low, high = high, 2 * high
    norm = low if high == low else brentq(excess, low, high, xtol=sys.float_info.min, rtol=4 * sys.float_info.epsilon)
    return norm * pull / (norm * curvature + decay)


def _label_limit(
    inputs: Float[np.ndarray, "samples rank"], labels: Float[np.ndarray, "samples"], decay: float, loss: str
) -> Float[np.ndarray, "rank"]:
    """Argmin of a label loss + λ‖w‖, by Newton steps that keep the norm as it is: each is a ``_shrunk``."""
    weights = np.zeros(inputs.shape[1])
    if not inputs.size:
        return weights
    unit = float(np.sqrt(np.mean(inputs**2) * inputs.shape[1]))
    signed, decay = labels[:, None] * inputs / unit, decay / unit

    def objective(w: np.ndarray) -> float:
        return float(_point_losses.value(loss, signed @ w, 1.0).mean() + decay * np.linalg.norm(w))

    for _ in range(_NEWTON_STEPS):
        margins = signed @ weights
        gradient = -_point_losses.residual(loss, margins, 1.0) @ signed / len(labels)
        bend = _point_losses.curvature(loss, margins, 1.0)
        curvature, frame = np.linalg.eigh((signed.T * bend) @ signed / len(labels))
        strongest = curvature[-1]
        # A w that serves all samples can serve them better; one that some no longer feel is on its way to infinity.
        if decay == 0 and (margins.min() > 0 or curvature[0] < 1e-12 * strongest):
            break
        # Below rounding a curvature is noise; the place where steps vanish does not depend on it.
        curvature = np.maximum(curvature, sys.float_info.epsilon * strongest)
        aim = frame @ _shrunk(curvature, curvature * (frame.T @ weights) - frame.T @ gradient, decay)
        step = aim - weights
        predicted_change = gradient @ step + decay * (np.linalg.norm(aim) - np.linalg.norm(weights))
        here, part = objective(weights), 1.0
        slack = 4 * sys.float_info.epsilon * here
        # Newton's error is squared by each step: after this one it is below rounding.
        if -predicted_change <= slack or np.linalg.norm(step) <= 1e-9 * np.linalg.norm(aim):
            return aim / unit
        while objective(weights + part * step) > here + 1e-4 * part * predicted_change + slack and part > 1e-12:
            part /= 2
        weights = weights + part * step
    raise ValueError(
        f"{loss} loss + {decay * unit:g} ‖w‖ has no finite minimum to double precision on these data. "
        "Use a larger weight_decay, or max_margin for the direction w tends to when the data are separable."
    )
