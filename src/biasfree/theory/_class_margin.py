"""Where classification into several classes ends: the max-margin map W, in the norm that the network's depth chooses.

Cross-entropy on separable data drives f = Wx to infinity along a W that meets (w_y − w_k)ᵀx_i ≥ 1 for every sample and
every class k other than its own y with the least norm.

- **One layer** (multinomial regression): least Frobenius norm, the multi-class SVM of Crammer & Singer without slack.
- **Two layers**, linear or, where the twin holds, ReLU: their flow decreases (‖W₁‖² + ‖W₂‖²)/2, whose least value among
all
  networks that compute W is the nuclear norm ‖W‖_* = Σ singular values. For two classes both have the binary max-margin
  direction, W = (−w, w)ᵀ/2; from three classes on they differ.

With rows a_ik = (e_y − e_k)x_iᵀ the Frobenius problem is the least-distance problem of ``_margin``. The nuclear norm is
‖W‖_* = min_M ½tr(WᵀM⁻¹W) + ½tr M over positive K × K matrices M, with M = (WWᵀ)^{1/2} at the minimum; for a given M it
is a least-distance problem again, for M^{−1/2}W. The two are minimised in turn.

**Certificate.** Multipliers u ≥ 0 with ‖Σ u_ik a_ik‖_dual ≤ 1 prove ‖W‖ ≥ Σ u_ik for every W with these margins; the
dual of the nuclear norm is the spectral norm. Those of the last least-distance problem, divided by the spectral norm of
their sum, serve.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.theory._margin import least_norm

_ROUNDS = 500
_CLOSE = 1e-9
NORMS = ("nuclear", "frobenius")


@dataclass(frozen=True, eq=False)
class ClassMargin:
    """The map W of least norm with (w_y − w_k)ᵀx ≥ 1 for all samples and classes k ≠ y.

    Attributes:
        weights: W, shape (classes, dim); its rows sum to 0.
        norm: which one is least, "nuclear" or "frobenius".
        size: ‖W‖ in that norm.
        gap: size exceeds the least possible one by at most this, relative to it.
        support: pairs (sample, class) that hold W in place, shape (support, 2).
        samples: number of samples in all.
    """

    weights: Float[np.ndarray, "classes dim"]
    norm: str
    size: float
    gap: float
    support: Int[np.ndarray, "support 2"]
    samples: int

    @property
    def margin(self) -> float:
        """1/‖W‖: the least f_y − f_k of a map of norm one."""
        return 1 / self.size

    @property
    def direction(self) -> Float[np.ndarray, "classes dim"]:
        """W/‖W‖_F."""
        return self.weights / np.linalg.norm(self.weights)

    def __str__(self) -> str:
        """One line."""
        held = len(np.unique(self.support[:, 0]))
        return f"max margin {self.margin:.6g} in the {self.norm} norm: held by {held} of {self.samples} samples"


def max_margin_classes(dataset: Dataset, norm: str = "nuclear") -> ClassMargin:
    """The multi-class max-margin map: where cross-entropy ends on separable data.

    Args:
        dataset: one class per sample (one-hot targets, or whole numbers).
        norm: "nuclear" for two layers, "frobenius" for one layer, the multi-class SVM.

    Raises:
        ValueError: targets that are not single classes, fewer than two classes present, or data that no map separates.

    >>> data = Dataset([[2.0, 0.0], [0.0, 2.0], [-1.0, -1.0]], ["a", "b", "c"], classes=True)
    >>> print(max_margin_classes(data, "frobenius"))
    max margin 1.30931 in the frobenius norm: held by 3 of 3 samples
    """
    checks.one_of(norm, NORMS, "norm")
    targets = losses.get("cross-entropy").encoded(dataset.targets)
    if not ((targets == 0) | (targets == 1)).all():
        raise ValueError("a margin needs one class per sample, and these targets are probabilities between 0 and 1.")
    classes, label = targets.shape[1], targets.argmax(axis=1)
    sample, other = np.nonzero(targets == 0)
    # Inputs of unit size, so that the working sets see comparable numbers.
    scale = float(np.abs(dataset.inputs).max()) or 1.0
    inputs = dataset.inputs[sample] / scale
    signs = np.eye(classes)[label[sample]] - np.eye(classes)[other]
    root, weights, size, gap = np.eye(classes), np.zeros((classes, dataset.dim)), np.inf, np.inf
    for _ in range(_ROUNDS if norm == "nuclear" else 1):
        rows = np.einsum("pk,pd->pkd", signs @ root, inputs).reshape(len(sample), -1)
        support, shares, solution = least_norm(rows, np.ones(len(sample)))
        if solution is None:
            some = ", ".join(map(str, np.unique(sample[support])[:5]))
            raise ValueError(
                f"max margin needs data that a linear map separates, but in {dataset.name} a convex combination of the "
                f"differences (e_y − e_k)xᵀ vanishes, of samples {some} among others. Remove such samples."
            )
        trial = root @ solution.reshape(classes, dataset.dim)
        total = np.einsum("p,pk,pd->kd", shares, signs[support], inputs[support])
        values = np.linalg.svd(trial, compute_uv=False)
        here = float(values.sum() if norm == "nuclear" else np.linalg.norm(trial))
        dual = float(np.linalg.norm(total, 2 if norm == "nuclear" else "fro"))
        bound = float(shares.sum()) / dual
        if here / bound - 1 < gap:
            weights, size, gap, held = trial, here, max(0.0, here / bound - 1), support
        if gap <= _CLOSE:
            break
        # (WWᵀ + small)^{1/4}: the square root of the next M, kept off zero by less and less.
        left, spread, _ = np.linalg.svd(trial, full_matrices=False)
        floor = max(1e-10, 0.1 * (here / bound - 1)) * spread[0]
        root = (left * np.sqrt(np.sqrt(spread**2 + floor**2))) @ left.T + 0.0
    pairs = np.column_stack([sample[held], other[held]])
    return ClassMargin(weights / scale, norm, size / scale, gap, pairs[np.lexsort(pairs.T[::-1])], dataset.samples)
