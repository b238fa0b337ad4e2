"""The least logistic or exponential loss under the constraints of ``_best_loss``: convex, and often not attained.

The outputs are linear in the unknowns θ = (w, g), f_i = wᵀx_i + |t_i|g_l, where g_l belongs to the sample's line or,
for deep networks, to its ray. So the loss is convex in θ. Whatever can be made to vanish is set aside first: if all
samples of one g_l want it to grow the same way, their losses vanish with it at no one's cost. On the rest Newton's
method either comes to rest at a minimum, or finds a θ that classifies every sample, and the infimum is 0. What remains
undecided is split by a linear programme: among the θ with all margins y_i f_i ≥ 0, one makes the most of them
positive. Those samples' losses vanish along θ → ∞ while the others' outputs stay as they are, so the infimum is the
minimum over the others alone, and there it is attained.
"""

from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Float, Int

from biasfree.lines import Lines
from biasfree.theory import _point_losses

_STEPS = 200
# Beyond this margin a sample's pull is below rounding: a minimum that needs it is taken for one at infinity.
_FAR = 36.0


@dataclass(frozen=True)
class _Margins:
    """y_i f_i = shared_i·w + own_i g_{column i}: each sample meets w and at most one unknown of its own group."""

    shared: Float[np.ndarray, "samples dim"]
    own: Float[np.ndarray, "samples"]
    column: Int[np.ndarray, "samples"]
    groups: int

    def __call__(self, unknowns: np.ndarray) -> np.ndarray:
        dim = self.shared.shape[1]
        group = unknowns[dim:][self.column] if self.groups else 0.0
        return self.shared @ unknowns[:dim] + self.own * group

    def adjoint(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([self.shared.T @ values, self._binned(self.own * values)])

    def _binned(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.column, values, self.groups)[: self.groups]

    def newton_step(self, curvature: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """−H⁻¹∇, the groups' diagonal block eliminated first; a ridge at rounding level holds what does not matter."""
        dim = self.shared.shape[1]
        weighted = curvature[:, None] * self.shared
        block = self.shared.T @ weighted
        diagonal = self._binned(curvature * self.own**2)
        diagonal = diagonal + 1e-13 * (diagonal.max(initial=0.0) or 1.0)
        cross = np.array([self._binned(self.own * values) for values in weighted.T]).reshape(dim, self.groups)
        block = block - (cross / diagonal) @ cross.T
        block = block + 1e-13 * (np.trace(block) or 1.0) * np.eye(dim)
        shared = np.linalg.solve(block, -gradient[:dim] + cross @ (gradient[dim:] / diagonal))
        return np.concatenate([shared, (-gradient[dim:] - cross.T @ shared) / diagonal])

    def matrix(self) -> scipy.sparse.csr_array:
        rows = np.arange(len(self.own))
        own = scipy.sparse.csr_array((self.own, (rows, self.column)), shape=(len(rows), max(self.groups, 1)))
        return scipy.sparse.hstack([scipy.sparse.csr_array(self.shared), own], format="csr")

    def restricted(self, samples: np.ndarray) -> "_Margins":
        return _Margins(self.shared[samples], self.own[samples], self.column[samples], self.groups)


def minimiser(
    grouped: Lines,
    inputs: Float[np.ndarray, "samples dim"],
    targets: Float[np.ndarray, "samples outputs"],
    loss: str,
    free: str,
) -> tuple[Float[np.ndarray, "samples outputs"], Float[np.ndarray, "outputs dim"] | None]:
    """Outputs of a minimiser, ±inf where a margin may grow for ever, and its linear map (w alone is not unique then).

    Args:
        grouped: the samples' lines.
        inputs, targets: the data, labels ±1.
        loss: "logistic" or "exponential".
        free: "none" for f = wᵀx, "even" for f = wᵀx + |t|g_l, "rays" for a slope of its own on each ray.
    """
    t, line = grouped.position, np.maximum(grouped.member, 0)
    column, groups = {
        "none": (np.zeros_like(line), 0),
        "even": (line, len(grouped)),
        "rays": (2 * line + (t < 0), 2 * len(grouped)),
    }[free]
    # Inputs of unit size, so that Newton sees comparable numbers; t is the same length in both.
    scale = np.abs(t).max(initial=0.0) or 1.0
    shared = np.zeros((len(t), 0)) if free == "rays" else inputs / scale
    own = np.zeros_like(t) if free == "none" else np.abs(t) / scale
    outputs, maps = np.empty_like(targets), []
    for output, labels in enumerate(targets.T):
        margins, unknowns = _infimum(_Margins(labels[:, None] * shared, labels * own, column, groups), loss)
        outputs[:, output] = labels * margins
        maps.append(unknowns[: shared.shape[1]] / scale)
    return outputs, None if free == "rays" else np.array(maps)


def _infimum(problem: _Margins, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Margins where the infimum is approached, inf for those that grow for ever; and unknowns θ of the finite part."""
    margins = np.full(len(problem.own), np.inf)
    left = _undisputed(problem)
    rest = problem.restricted(left)
    unknowns, reached, at_rest = _newton(rest, loss)
    if not at_rest and not (reached > 0).all():
        staying = ~_growing(rest)
        # Here the minimum is attained, however large the margins of outlying samples are at it.
        unknowns, reached[staying], _ = _newton(rest.restricted(staying), loss, far=np.inf)
        reached[~staying] = np.inf
    elif not at_rest:
        reached[:] = np.inf
    margins[left] = reached
    return margins, unknowns


def _undisputed(problem: _Margins) -> np.ndarray:
    """The samples left when those are set aside whose unknown g all its samples want to grow the same way."""
    if not problem.groups:
        return np.arange(len(problem.own))
    up = np.bincount(problem.column, problem.own > 0, problem.groups)
    down = np.bincount(problem.column, problem.own < 0, problem.groups)
    disputed = (up > 0) & (down > 0)
    return np.flatnonzero(disputed[problem.column] | (problem.own == 0))


def _newton(problem: _Margins, loss: str, far: float = _FAR) -> tuple[np.ndarray, np.ndarray, bool]:
    """Damped Newton on ⟨ℓ⟩ from 0: unknowns, margins, and whether it came to rest before any ran far."""
    samples = max(len(problem.own), 1)
    unknowns = np.zeros(problem.shared.shape[1] + problem.groups)
    margins = problem(unknowns)
    for _ in range(_STEPS):
        # In terms of margins every label is 1.
        pull, curvature = _point_losses.residual(loss, margins, 1.0), _point_losses.curvature(loss, margins, 1.0)
        gradient = -problem.adjoint(pull) / samples
        size_of_terms = np.abs(problem.shared).T @ pull
        reach = np.concatenate([size_of_terms, np.full(problem.groups, pull.sum())]) / samples
        if (np.abs(gradient) <= 1e-13 * reach).all():
            return unknowns, margins, True
        if np.abs(margins).max() > far or (margins > 0).all():
            return unknowns, margins, False
        step = problem.newton_step(curvature / samples, gradient)
        ahead, size = problem(step), 1.0
        now = _point_losses.value(loss, margins, 1.0).mean()
        wanted = 1e-4 * (gradient @ step)
        while _point_losses.value(loss, margins + size * ahead, 1.0).mean() > now + size * wanted and size > 1e-8:
            size /= 2
        if size <= 1e-8:
            # No decrease that rounding lets through: as near to a minimum as can be known, unless margins are running
            # away.
            return unknowns, margins, bool(np.abs(margins).max() < 0.5 * far)
        unknowns, margins = unknowns + size * step, margins + size * ahead
    return unknowns, margins, False


def _growing(problem: _Margins) -> np.ndarray:
    """Which margins can grow for ever while none shrinks: max Σs, 0 ≤ s_i ≤ 1, s ≤ the margins of θ."""
    matrix = problem.matrix()
    samples, count = matrix.shape
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(count), -np.ones(samples)]),
        A_ub=scipy.sparse.hstack([-matrix, scipy.sparse.eye_array(samples)], format="csr"),
        b_ub=np.zeros(samples),
        bounds=[(None, None)] * count + [(0, 1)] * samples,
        method="highs",
    )
    return result.x[count:] > 0.5
