"""The plateau of almost symmetric data: the best network of two awake groups, one for either half space.

After the escape two groups are awake: v > 0 near w̄ and v < 0 near −w̄, w the linear solution. With u and z their joint
weights Σ|v|w the network is f = φ⁺uᵀx − φ⁻zᵀx, φ⁺ = σ'(uᵀx), φ⁻ = σ'(zᵀx). While neither changes sides this is linear
in (u, z), so that they come to rest at the minimum of a convex function,

    min_{u,z} L(f) + λ(‖u‖ + ‖z‖):

a balanced group that computes u has (‖w‖² + v²)/2 = ‖u‖. Under Condition 3 this is the linear solution; else each half
space is fitted for itself. A group that is pushed over a line from both sides slides along it: u ⟂ d.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from biasfree.datasets import Dataset
from biasfree.theory import _point_losses
from biasfree.theory._limits import least_squares, linear_loss, regularised_limit

_ROUNDS = 50
_ON_LINE = 1e-9


class HalfSpaces(NamedTuple):
    """Where the two awake groups come to rest.

    Attributes:
        maps: u and −z, what either computes on its own half space; shape (2, dim).
        outputs: f of every sample.
        residuals: −∂ℓ/∂f.
        curvature: ∂²ℓ/∂f².
        loss: L.
        linear_map: w, the linear solution.
        linear_loss: L of it.
        columns: ∂f/∂(u, z), shape (samples, 2·dim).
        settled: whether both stay in the cells they were looked for in.
    """

    maps: Float[np.ndarray, "2 dim"]
    outputs: Float[np.ndarray, "samples"]
    residuals: Float[np.ndarray, "samples"]
    curvature: Float[np.ndarray, "samples"]
    loss: float
    linear_map: Float[np.ndarray, "dim"]
    linear_loss: float
    columns: Float[np.ndarray, "samples 2*dim"]
    settled: bool


def half_spaces(dataset: Dataset, slope: float, loss: str, weight_decay: float) -> HalfSpaces:
    """The rest of the two awake groups, from the linear solution on.

    Raises:
        ValueError: no finite linear solution (separable labels without decay).
    """
    x = dataset.inputs
    if loss == "square" and not weight_decay:
        linear = least_squares(dataset)
    else:
        linear = regularised_limit(dataset, weight_decay, slope, loss)
    both = np.stack([linear, -linear]) / (1 + slope)
    held: list[set[int]] = [set(), set()]
    sides = np.where(x @ both.T > 0, 1, -1)
    seen = [sides.tobytes()]
    settled = False
    for _ in range(_ROUNDS):
        both = _minimised(dataset, both, sides, held, slope, loss, weight_decay)
        reach = x @ both.T
        size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(both, axis=1)
        after = np.where(np.abs(reach) <= _ON_LINE * size, sides, np.where(reach > 0, 1, -1))
        changed = after != sides
        if not changed.any():
            settled = True
            break
        if after.tobytes() in seen:
            # Pushed back and forth over these lines: it slides along them.
            for sample, group in np.argwhere(changed).tolist():
                held[group].add(sample)
            sides = np.where(changed, sides, after)
        else:
            sides = after
        seen.append(sides.tobytes())
    outputs = _columns(x, sides, held, slope) @ both.ravel()
    return HalfSpaces(
        np.stack([both[0], -both[1]]),
        outputs,
        np.asarray(_point_losses.residual(loss, outputs, dataset.targets)),
        np.asarray(_point_losses.curvature(loss, outputs, dataset.targets)),
        float(np.mean(_point_losses.value(loss, outputs, dataset.targets))),
        linear,
        float(linear_loss(linear, dataset, loss)),
        _columns(x, sides, held, slope),
        settled,
    )


def _frames(x: np.ndarray, held: list[set[int]]) -> list[np.ndarray]:
    """For u and for z the projection on the planes it slides on."""
    frames = []
    for samples in held:
        slid = x[sorted(samples)]
        frames.append(np.eye(x.shape[1]) - (np.linalg.pinv(slid) @ slid if len(slid) else 0.0))
    return frames


def _columns(x: np.ndarray, sides: np.ndarray, held: list[set[int]], slope: float) -> np.ndarray:
    factor, frames = np.where(sides > 0, 1.0, slope), _frames(x, held)
    return np.concatenate([factor[:, :1] * x @ frames[0], -factor[:, 1:] * x @ frames[1]], axis=1)


def _minimised(
    dataset: Dataset,
    both: np.ndarray,
    sides: np.ndarray,
    held: list[set[int]],
    slope: float,
    loss: str,
    decay: float,
) -> np.ndarray:
    """The minimum with all sides held, u and z each within the planes it slides on."""
    x, y, dim = dataset.inputs, dataset.targets, dataset.dim
    frames, columns = _frames(x, held), _columns(x, sides, held, slope)
    start = np.concatenate([frames[0] @ both[0], frames[1] @ both[1]])
    if loss == "square" and not decay:
        change = np.linalg.lstsq(columns, y - columns @ start, rcond=1e-10)[0]
        return np.asarray(start + change).reshape(2, dim)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        outputs, parts = columns @ flat, flat.reshape(2, dim)
        norms = np.linalg.norm(parts, axis=1)
        value = np.mean(_point_losses.value(loss, outputs, y)) + decay * norms.sum()
        units = parts / np.maximum(norms, 1e-300)[:, None]
        gradient = -_point_losses.residual(loss, outputs, y) @ columns / len(y)
        return float(value), gradient + decay * units.ravel()

    minimiser = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-12, "maxiter": 2000}).x
    return np.stack([frames[0] @ minimiser[:dim], frames[1] @ minimiser[dim:]])
