"""Square, logistic and exponential loss: value, residual and their log-domain forms.

Outputs and targets have shape (outputs, samples); a loss is the mean over samples of the sum over outputs.
Logistic and exponential loss take targets ±1 and depend on the margin m = y f alone. Their logarithms are
computed without ever forming the loss, so that log L may reach −10⁵ and beyond.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from biasfree import checks

Outputs = Float[Array, "outputs samples"]
Scalar = Float[Array, ""]


class Loss(abc.ABC):
    """ℓ(f, y) and what a flow needs of it. Stateless; get one by name with ``losses.get``."""

    name: str
    labels_only: bool
    initial_pull: float  # κ = −∂ℓ/∂f at f = 0 per unit of y

    def value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """L = ⟨ℓ(f, y)⟩."""
        return jnp.exp(self.log_value(outputs, targets))

    @abc.abstractmethod
    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """−∂ℓ/∂f, sample by sample."""

    @abc.abstractmethod
    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln L, finite even where L underflows."""

    @abc.abstractmethod
    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """−(∂ℓ/∂f)/L, finite even where both underflow: the residual on the loss-normalised clock."""

    def check_targets(self, targets: np.ndarray) -> None:
        """Raise ValueError when targets are not ±1 and the loss needs labels."""
        if not self.labels_only:
            return
        wrong = np.unique(targets[np.abs(targets) != 1])
        if wrong.size:
            shown = ", ".join(f"{value:g}" for value in wrong[:5]) + (", …" if wrong.size > 5 else "")
            raise ValueError(
                f"{self.name} loss needs labels −1 and +1, got targets {shown}. "
                "Recode the labels, or use loss='square' for regression."
            )


class Square(Loss):
    """ℓ = ½(y − f)²."""

    name = "square"
    labels_only = False
    initial_pull = 1.0

    def value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """½⟨(y − f)²⟩."""
        return 0.5 * jnp.sum((targets - outputs) ** 2) / targets.shape[1]

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y − f."""
        return targets - outputs

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln ½⟨(y − f)²⟩, the largest residual taken out first."""
        error = jnp.abs(targets - outputs)
        top = jnp.max(error)
        scaled = error / jnp.where(top > 0, top, 1.0)
        return 2 * jnp.log(top) + jnp.log(0.5 * jnp.sum(scaled**2) / targets.shape[1])

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """(y − f)/L."""
        return (targets - outputs) / self.value(outputs, targets)


class Logistic(Loss):
    """ℓ = ln(1 + e^{−yf}), y = ±1."""

    name = "logistic"
    labels_only = True
    initial_pull = 0.5

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y/(1 + e^{yf})."""
        return targets * jax.nn.sigmoid(-targets * outputs)

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨ln(1 + e^{−m})⟩ by log-sum-exp over the margins."""
        return _log_mean(_log_softplus(-targets * outputs))

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y σ(−m)/L, σ(−m) = e^{−softplus(m)}."""
        margins = targets * outputs
        log_loss = _log_mean(_log_softplus(-margins))
        return targets * jnp.exp(-jax.nn.softplus(margins) - log_loss)


class Exponential(Loss):
    """ℓ = e^{−yf}, y = ±1."""

    name = "exponential"
    labels_only = True
    initial_pull = 1.0

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y e^{−yf}."""
        return targets * jnp.exp(-targets * outputs)

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨e^{−m}⟩ by log-sum-exp over the margins."""
        return _log_mean(-targets * outputs)

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y e^{−m}/L."""
        return targets * jnp.exp(-targets * outputs - _log_mean(-targets * outputs))


_LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Square(), Logistic(), Exponential())}
NAMES = tuple(_LOSSES)


def get(name: str) -> Loss:
    """The loss of this name.

    >>> f, y = jnp.array([[1000.0]]), jnp.array([[1.0]])
    >>> float(get("logistic").log_value(f, y))
    -1000.0
    """
    return _LOSSES[checks.one_of(name, _LOSSES, "loss")]


def _log_softplus(z: Any) -> Any:
    """ln ln(1 + e^z); for z ≪ 0, where e^z is lost beside 1, it is z − e^z/2 to double precision.

    Both branches see only arguments they can take, so that neither gives inf or NaN behind the ``where``.
    """
    small = z < -18.0
    tail = jnp.where(small, z, -18.0)
    body = jnp.where(small, 0.0, z)
    return jnp.where(small, tail - 0.5 * jnp.exp(tail), jnp.log(jax.nn.softplus(body)))


def _log_mean(log_values: Any) -> Any:
    return jax.nn.logsumexp(log_values) - jnp.log(log_values.shape[1])
