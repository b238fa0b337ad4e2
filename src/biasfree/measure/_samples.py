"""The loss of a run at single samples: values, residuals, and curvatures along directions of the outputs."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from biasfree import losses
from biasfree.datasets import Dataset
from biasfree.theory import _point_losses

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory
    from biasfree.networks import Network


class Samples:
    """The samples of a data set with a loss; outputs have shape (…, samples) for one output, else (…, samples, K)."""

    def __init__(self, dataset: Dataset, loss: str) -> None:
        """Targets are taken as the loss takes them, classes as probabilities."""
        self.inputs, self.loss, self.name = dataset.inputs, loss, dataset.name
        self.targets: np.ndarray = np.asarray(losses.get(loss).encoded(dataset.targets))

    @classmethod
    def of(cls, run: "Trajectory") -> "Samples":
        """Those that a run was trained on."""
        return cls(run.dataset, run.settings["loss"])

    @property
    def size(self) -> float:
        """Of the targets: the root mean square of their length; 1 if all are zero."""
        return float(np.sqrt(np.mean(np.sum(self.targets.reshape(len(self.targets), -1) ** 2, axis=1)))) or 1.0

    @property
    def reach(self) -> float:
        """⟨‖y‖‖x‖⟩: what targets could pull with."""
        return pull(self.inputs, self.targets)

    def zero(self) -> Float[np.ndarray, "samples *outputs"]:
        """The outputs of a network that does nothing."""
        return np.zeros_like(self.targets, dtype=float)

    def outputs(self, network: "Network") -> Float[np.ndarray, "samples *outputs"]:
        """Of a network."""
        return np.asarray(network(self.inputs)).reshape(self.targets.shape)

    def mean_loss(self, outputs: Float[np.ndarray, "samples *outputs"]) -> float:
        """L."""
        points = _point_losses.value(self.loss, self._rows(outputs), self._rows(self.targets))
        return float(np.sum(points)) / len(self.inputs)

    def residuals(self, outputs: Float[np.ndarray, "..."]) -> np.ndarray:
        """−∂ℓ/∂f."""
        return self._rows(_point_losses.residual(self.loss, self._rows(outputs), self._rows(self.targets)))

    def curvature(self, outputs: Float[np.ndarray, "samples *outputs"]) -> Float[np.ndarray, "samples outputs outputs"]:
        """∂²ℓ/∂f², a matrix for each sample."""
        if self.loss == "cross-entropy":
            shares = self.targets - self.residuals(outputs)
            return shares[:, :, None] * np.eye(shares.shape[1]) - shares[:, :, None] * shares[:, None, :]
        points = np.asarray(_point_losses.curvature(self.loss, outputs, self.targets)).reshape(len(outputs), -1)
        return np.asarray(points[:, :, None] * np.eye(points.shape[1]))

    def _rows(self, values: np.ndarray) -> np.ndarray:
        """Outputs and samples change places, where there are several outputs."""
        return np.asarray(values if self.targets.ndim == 1 else np.swapaxes(values, -1, -2))


def pull(inputs: Float[np.ndarray, "samples dim"], residuals: Float[np.ndarray, "samples *outputs"]) -> float:
    """⟨‖r‖‖x‖⟩: no growth rate on these residuals is larger."""
    length = np.linalg.norm(residuals.reshape(len(residuals), -1), axis=1)
    return float(np.mean(length * np.linalg.norm(inputs, axis=1)))
