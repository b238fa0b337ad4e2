"""The least cross-entropy under the constraints of ``_best_loss``: convex, with a certificate.

The outputs are linear in the unknowns, f_i = Wx_i + |t_i|g_l with g_l ∈ R^K of the sample's line or, for deep networks,
of its ray; L = ⟨ln Σ_k e^{f_k} − yᵀf⟩ is convex in θ = (W, g).

**Certificate.** Since ln Σe^{f_k} ≥ pᵀf + H(p) for all probabilities p, H their entropy, every p_i with Σ_i (p_i −
y_i)x_iᵀ = 0 and Σ_{i∈l} |t_i|(p_i − y_i) = 0 proves L ≥ ⟨H(p)⟩ for every network. Newton's step η gives such p next to
the softmax s: p_i = s_i + (diag s_i − s_is_iᵀ) f_i(η) meets these equations because η solves Newton's, and p ≥ 0 once
the step is small. The gap L − ⟨H(p)⟩ is of second order in η.

**Minima at infinity.** A line, or ray, whose samples all have one class is fitted by its own g at no one's cost, and
set aside. If Newton finds a θ that classifies all others, the infimum is 0. If it does not come to rest either, a
linear programme finds which margins f_y − f_k can grow for ever while none shrinks; e^{f_k} of these vanishes, and
without them the minimum is attained.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize
import scipy.sparse
from jaxtyping import Bool, Float, Int

from biasfree.lines import Lines

_STEPS = 100
# Margins beyond this are on their way to infinity: their pull is below rounding.
_FAR = 33.0
_RIDGE = 1e-13


@dataclass(frozen=True)
class _Problem:
    """f_i = Wx_i + own_i g_{column i}, softmax over the classes that are left of each sample."""

    shared: Float[np.ndarray, "samples dim"]
    own: Float[np.ndarray, "samples"]
    column: Int[np.ndarray, "samples"]
    groups: int
    targets: Float[np.ndarray, "samples classes"]
    left: Bool[np.ndarray, "samples classes"]

    def outputs(self, unknowns: tuple[np.ndarray, np.ndarray]) -> Float[np.ndarray, "samples classes"]:
        """f of W (classes, dim) and g (groups, classes)."""
        weights, even = unknowns
        return self.shared @ weights.T + (self.own[:, None] * even[self.column] if self.groups else 0.0)

    def adjoint(self, values: Float[np.ndarray, "samples classes"]) -> tuple[np.ndarray, np.ndarray]:
        """Σ_i values_i x_iᵀ, and Σ own_i values_i of each group."""
        even = np.zeros((self.groups, values.shape[1]))
        if self.groups:
            np.add.at(even, self.column, self.own[:, None] * values)
        return values.T @ self.shared, even

    def loss(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each sample's loss, and its softmax."""
        held = np.where(self.left, outputs, -np.inf)
        top = held.max(axis=1, keepdims=True)
        odds = np.exp(held - top)
        total = odds.sum(axis=1, keepdims=True)
        # Of the target's own class without cancellation: ln(1 + the others' share).
        fitted = np.sum(self.targets * outputs, axis=1)
        best = self.targets.argmax(axis=1)
        rest = odds.copy()
        rest[np.arange(len(rest)), best] = 0.0
        own = odds[np.arange(len(rest)), best]
        alone = (self.targets.max(axis=1) == 1) & (own > 1e-200)
        exact = np.log1p(rest.sum(axis=1) / np.where(alone, own, 1.0))
        usual = np.log(total[:, 0]) + top[:, 0] - fitted
        return np.where(alone, exact, usual), odds / total

    def newton_step(self, softmax: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """η with Σ(diag s − ssᵀ)f(η)·features = Σ pull·features; the groups' blocks are eliminated first."""
        classes, dim = softmax.shape[1], self.shared.shape[1]
        bend = softmax[:, :, None] * (np.eye(classes) - softmax[:, None, :])
        gradient, even = self.adjoint(pull)
        # One product for each class: Σ_i bend_ikj x_i x_iᵀ for all j at once.
        bent = (bend[:, k, :, None] * self.shared[:, None, :] for k in range(classes))
        rows = [self.shared.T @ each.reshape(len(self.own), classes * dim) for each in bent]
        matrix, right = np.concatenate(rows), gradient.ravel()
        inverse, cross = self._groups(bend)
        if self.groups and dim:
            folded = np.einsum("gak,gkj->gaj", cross, inverse)
            matrix = matrix - np.einsum("gaj,gbj->ab", folded, cross)
            right = right - np.einsum("gaj,gj->a", folded, even)
        weights = _least(matrix, right) if dim else np.zeros(0)
        left = even - np.einsum("gak,a->gk", cross, weights) if dim else even
        return weights.reshape(classes, dim), np.einsum("gkj,gj->gk", inverse, left)

    def _groups(self, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inverses of the groups' own blocks, and their blocks with W."""
        classes, dim = bend.shape[1], self.shared.shape[1]
        if not self.groups:
            return np.zeros((0, classes, classes)), np.zeros((0, classes * dim, classes))
        blocks = np.zeros((self.groups, classes, classes))
        np.add.at(blocks, self.column, (self.own**2)[:, None, None] * bend)
        ridge = _RIDGE * (np.trace(blocks, axis1=1, axis2=2)[:, None, None] + 1e-300) + 1e-290
        # The sum over classes is free, so that the least-norm step is taken.
        inverse = np.linalg.pinv(blocks + ridge * np.eye(classes), rcond=1e-12, hermitian=True)
        cross = np.zeros((self.groups, classes, dim, classes))
        np.add.at(cross, self.column, np.einsum("i,ikj,id->ikdj", self.own, bend, self.shared))
        return inverse, cross.reshape(self.groups, classes * dim, classes)


@dataclass(frozen=True)
class ClassMinimum:
    """The infimum: outputs where it is approached (−inf for classes that are ruled out), W, and the certified gap."""

    outputs: Float[np.ndarray, "samples classes"]
    weights: Float[np.ndarray, "classes dim"] | None
    gap: float


def minimiser(
    grouped: Lines,
    inputs: Float[np.ndarray, "samples dim"],
    targets: Float[np.ndarray, "samples classes"],
    free: str,
) -> ClassMinimum:
    """The least cross-entropy.

    Args:
        grouped: the samples' lines.
        inputs, targets: the data, targets as probabilities.
        free: "none" for f = Wx, "even" for f = Wx + |t|g_l, "rays" for a slope of its own on each ray.
    """
    t, line = grouped.position, np.maximum(grouped.member, 0)
    column, groups = {
        "none": (np.zeros_like(line), 0),
        "even": (line, len(grouped)),
        "rays": (2 * line + (t < 0), 2 * len(grouped)),
    }[free]
    scale = np.abs(t).max(initial=0.0) or 1.0
    shared = np.zeros((len(t), 0)) if free == "rays" else inputs / scale
    own = np.zeros_like(t) if free == "none" else np.abs(t) / scale
    outputs = np.where(targets > 0, 0.0, -np.inf)
    disputed = _disputed(own, column, groups, targets)
    used, column = np.unique(column[disputed], return_inverse=True)
    problem = _Problem(
        shared[disputed], own[disputed], column.ravel(), len(used) if groups else 0, targets[disputed],
        np.ones_like(targets[disputed], dtype=bool),
    )  # fmt: skip
    weights, gap = np.zeros((targets.shape[1], shared.shape[1])), 0.0
    if len(disputed):
        outputs[disputed], weights, gap = _infimum(problem)
    share = len(disputed) / len(targets)
    weights = (weights - weights.mean(axis=0)) / scale
    return ClassMinimum(outputs, None if free == "rays" else weights, gap * share)


def _disputed(own: np.ndarray, column: np.ndarray, groups: int, targets: np.ndarray) -> np.ndarray:
    """The samples that are left when groups of one certain class are set aside."""
    if not groups:
        return np.arange(len(own))
    seen = np.zeros((groups, targets.shape[1]), dtype=bool)
    np.logical_or.at(seen, column, targets > 0)
    return np.flatnonzero((seen.sum(axis=1) > 1)[column] | (own == 0))


def _infimum(problem: _Problem) -> tuple[np.ndarray, np.ndarray, float]:
    """Outputs, W and gap."""
    outputs, unknowns, gap, at_rest = _newton(problem, _FAR)
    if at_rest:
        return outputs, unknowns[0], gap
    if _separated(_margins(outputs, problem.targets), problem.targets):
        # Every sample is on its side: along θ → ∞ the loss vanishes.
        return np.where(problem.targets > 0, 0.0, -np.inf), unknowns[0], 0.0
    growing = _growing(problem)
    rest = replace(problem, left=~growing)
    outputs, unknowns, gap, _ = _newton(rest, np.inf)
    return np.where(growing, -np.inf, outputs), unknowns[0], gap


def _margins(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """f_y − f_k, y the likeliest class."""
    return np.take_along_axis(outputs, targets.argmax(axis=1)[:, None], axis=1) - outputs


def _separated(margins: np.ndarray, targets: np.ndarray) -> bool:
    """Whether every sample is of one class and on the side of it."""
    return bool((targets.max(axis=1) == 1).all() and (margins[targets == 0] > 0).all())


def _newton(problem: _Problem, far: float) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], float, bool]:
    """Damped Newton from 0: outputs, unknowns, certified gap, and whether it came to rest before margins ran far."""
    classes = problem.targets.shape[1]
    unknowns = np.zeros((classes, problem.shared.shape[1])), np.zeros((problem.groups, classes))
    outputs = problem.outputs(unknowns)
    best = np.inf
    for _ in range(_STEPS):
        losses, softmax = problem.loss(outputs)
        now, pull = losses.mean(), problem.targets - softmax
        step = problem.newton_step(softmax, pull)
        ahead = problem.outputs(step)
        gap = _gap(problem, now, softmax, ahead, unknowns)
        best = min(best, gap)
        margins = _margins(outputs, problem.targets)
        if gap <= 1e-13 * max(now, 1e-3):
            return outputs, unknowns, gap, bool(np.abs(margins[problem.left]).max(initial=0.0) <= far)
        if far < np.inf and _separated(margins, problem.targets):
            return outputs, unknowns, best, False
        slope, size = -np.sum(pull * ahead) / len(pull), 1.0
        while problem.loss(outputs + size * ahead)[0].mean() > now + 1e-4 * size * slope and size > 1e-10:
            size /= 2
        if size <= 1e-10:
            break
        unknowns = unknowns[0] + size * step[0], unknowns[1] + size * step[1]
        outputs = problem.outputs(unknowns)
    return outputs, unknowns, best, bool(best <= 1e-9 and np.abs(_margins(outputs, problem.targets)).max() <= far)


def _gap(
    problem: _Problem, loss: float, softmax: np.ndarray, ahead: np.ndarray, unknowns: tuple[np.ndarray, np.ndarray]
) -> float:
    """L − ⟨H(p)⟩ for the p of Newton's step, and what rounding leaves of the equations it must meet; inf if p < 0."""
    shifted = softmax * (1 + ahead - np.sum(softmax * ahead, axis=1, keepdims=True))
    if (shifted < 0).any():
        return np.inf
    entropy = -np.sum(shifted * np.log(np.where(shifted > 0, shifted, 1.0)), axis=1).mean()
    unmet = problem.adjoint(shifted - problem.targets)
    slack = sum(float(np.abs(np.sum(a * b))) for a, b in zip(unmet, unknowns, strict=True)) / len(softmax)
    return max(0.0, float(loss - entropy) + slack)


def _least(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The least solution of a symmetric system; directions whose curvature is rounding's are left alone."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _RIDGE * max(values[-1], 1e-300)
    return vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept])


def _growing(problem: _Problem) -> Bool[np.ndarray, "samples classes"]:
    """Which f_y − f_k can grow for ever while none shrinks: max Σs, 0 ≤ s_ik ≤ 1, s_ik ≤ f_iy − f_ik of θ."""
    samples, classes = problem.targets.shape
    shape = samples, max(1, problem.groups)
    columns = scipy.sparse.csr_array((problem.own, (np.arange(samples), problem.column)), shape)
    features = scipy.sparse.hstack([scipy.sparse.csr_array(problem.shared), columns], format="csr")
    chosen = problem.targets.argmax(axis=1)
    sample, other = np.nonzero(np.arange(classes) != chosen[:, None])

    def at(which: np.ndarray) -> scipy.sparse.csr_array:
        place = scipy.sparse.csr_array((np.ones(len(sample)), (np.arange(len(sample)), which)), (len(sample), classes))
        rows = features[sample]
        return scipy.sparse.hstack([rows.multiply(place[:, [k]].toarray()) for k in range(classes)], format="csr")

    margins = scipy.sparse.csr_array(at(chosen[sample]) - at(other))
    # Classes of positive probability keep their distance: what grows for one of them is lost on the other.
    tied = problem.targets[sample, other] > 0
    count, free = margins.shape[1], np.flatnonzero(~tied)
    none = scipy.sparse.csr_array((int(tied.sum()), len(free)))
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(count), -np.ones(len(free))]),
        A_ub=scipy.sparse.hstack([-margins[free], scipy.sparse.eye_array(len(free))], format="csr"),
        b_ub=np.zeros(len(free)),
        A_eq=scipy.sparse.hstack([margins[np.flatnonzero(tied)], none], format="csr"),
        b_eq=np.zeros(int(tied.sum())),
        bounds=[(None, None)] * count + [(0, 1)] * len(free),
        method="highs",
    )
    growing = np.zeros(problem.targets.shape, dtype=bool)
    growing[sample[free], other[free]] = result.x[count:] > 0.5
    return growing
