"""Few samples in place of many: a linear network under square loss sees ⟨xxᵀ⟩, ⟨yxᵀ⟩ and ⟨|y|²⟩ alone."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.dynamics._float64 import SMALLEST

_NOTHING = 1e-14  # of the largest variance: what rounding leaves of a direction in which inputs do not vary, some 50 ε


class Moments(NamedTuple):
    """D samples position·direction with the moments of all, and what they leave of the targets.

    Attributes:
        directions: eigenvectors of ⟨xxᵀ⟩, one per row.
        position: along them.
        target: of each sample.
        left: D⟨|y|²⟩ − Σ|target|², which no linear map explains.
    """

    directions: Float[np.ndarray, "dim dim"]
    position: Float[np.ndarray, "dim"]
    target: Float[np.ndarray, "dim ..."]
    left: float

    @classmethod
    def of(cls, inputs: Float[np.ndarray, "samples dim"], targets: Float[np.ndarray, "samples ..."]) -> "Moments":
        """The moments of a data set."""
        samples, dim = inputs.shape
        values, vectors = np.linalg.eigh(inputs.T @ inputs / samples)
        kept = values > _NOTHING * max(values.max(), SMALLEST)
        position = np.sqrt(dim * np.where(kept, values, 0.0))
        target = np.zeros((dim, *targets.shape[1:]))
        target[kept] = dim * ((inputs @ vectors[:, kept] / position[kept]).T @ targets) / samples
        left = dim * float(np.sum(targets**2)) / samples - float(np.sum(target**2))
        return cls(np.ascontiguousarray(vectors.T), position, target, max(left, 0.0))

    def samples(self) -> tuple[Float[np.ndarray, "dim+1 dim"], Float[np.ndarray, "dim+1 ..."]]:
        """Inputs and targets of D + 1 samples with the same moments; the last, at the origin, has what is left.

        >>> rng = np.random.default_rng(0)
        >>> inputs, targets = rng.normal(size=(100, 3)), rng.normal(size=100)
        >>> few, theirs = Moments.of(inputs, targets).samples()
        >>> few.shape, np.allclose(few.T @ few / 4, inputs.T @ inputs / 100)
        ((4, 3), True)
        >>> np.allclose([theirs @ few[:, 0], theirs @ theirs], [targets @ inputs[:, 0] / 25, targets @ targets / 25])
        True
        """
        dim = len(self.position)
        scale = np.sqrt((dim + 1) / dim)
        inputs = scale * np.vstack([self.position[:, None] * self.directions, np.zeros(dim)])
        targets = scale * np.concatenate([self.target, np.zeros_like(self.target[:1])])
        targets.reshape(dim + 1, -1)[-1, 0] = scale * np.sqrt(self.left)
        return inputs, targets
