"""Square, logistic, exponential and cross-entropy loss: value, residual and their log-domain forms.

Outputs and targets have shape (outputs, samples); a loss is the mean over samples of the sum over outputs.
Logistic and exponential loss take targets ±1 and depend on the margin m = y f alone. Cross-entropy takes the
probabilities of K ≥ 2 classes and depends on how far each output is from all others together,
z_k = ln Σ_{j≠k} e^{f_j} − f_k. Logarithms are computed without ever forming the loss, so that log L may reach −10⁵ and
beyond. NumPy arrays are taken by NumPy, which compiles nothing, and JAX arrays by JAX.
"""

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from biasfree import checks, classes

Outputs = Float[Array, "outputs samples"]
Scalar = Float[Array, ""]


class Loss(abc.ABC):
    """ℓ(f, y) and what a flow needs of it. Stateless; get one by name with ``losses.get``."""

    name: str
    labels_only: bool
    curvature: float  # the largest ∂²ℓ/∂f² where outputs are small

    def initial_residual(self, targets: np.ndarray) -> np.ndarray:
        """−∂ℓ/∂f at f = 0, for targets of shape (samples,) or (samples, outputs)."""
        return self.initial_pull * targets

    @property
    def initial_pull(self) -> float:
        """κ, the residual at f = 0 per unit of y."""
        raise ValueError(f"{self.name} loss has no single pull per unit of target. Use initial_residual.")

    def encoded(self, targets: np.ndarray) -> np.ndarray:
        """Targets as this loss takes them, checked: shape (samples,), or (samples, outputs).

        Raises:
            ValueError: targets that it does not take.
        """
        self.check_targets(targets)
        return targets

    def value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """L = ⟨ℓ(f, y)⟩."""
        return module_of(outputs).exp(self.log_value(outputs, targets))

    @abc.abstractmethod
    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """−∂ℓ/∂f, sample by sample."""

    @abc.abstractmethod
    def residual_change(self, outputs: Outputs, targets: Outputs, change: Outputs) -> Outputs:
        """What a small change of the outputs does to the residual: −∂²ℓ/∂f² times it, sample by sample."""

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
    curvature = 1.0
    initial_pull = 1.0

    def value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """½⟨(y − f)²⟩."""
        return 0.5 * ((targets - outputs) ** 2).sum() / targets.shape[1]

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y − f."""
        return targets - outputs

    def residual_change(self, outputs: Outputs, targets: Outputs, change: Outputs) -> Outputs:
        """−δf."""
        return -change

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln ½⟨(y − f)²⟩, the largest residual taken out first."""
        xp, error = module_of(outputs), abs(targets - outputs)
        top = error.max()
        scaled = error / xp.where(top > 0, top, 1.0)
        return 2 * xp.log(top) + xp.log(0.5 * (scaled**2).sum() / targets.shape[1])

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """(y − f)/L."""
        return (targets - outputs) / self.value(outputs, targets)


class Logistic(Loss):
    """ℓ = ln(1 + e^{−yf}), y = ±1."""

    name = "logistic"
    labels_only = True
    curvature = 0.25
    initial_pull = 0.5

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y/(1 + e^{yf})."""
        return targets * module_of(outputs).exp(-_softplus(targets * outputs))

    def residual_change(self, outputs: Outputs, targets: Outputs, change: Outputs) -> Outputs:
        """−σ(m) σ(−m) δf."""
        margins = targets * outputs
        return -module_of(outputs).exp(-_softplus(margins) - _softplus(-margins)) * change

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨ln(1 + e^{−m})⟩ by log-sum-exp over the margins."""
        return _log_mean(_log_softplus(-targets * outputs))

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y σ(−m)/L, σ(−m) = e^{−softplus(m)}."""
        margins = targets * outputs
        log_loss = _log_mean(_log_softplus(-margins))
        return targets * module_of(outputs).exp(-_softplus(margins) - log_loss)


class Exponential(Loss):
    """ℓ = e^{−yf}, y = ±1."""

    name = "exponential"
    labels_only = True
    curvature = 1.5
    initial_pull = 1.0

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y e^{−yf}."""
        return targets * module_of(outputs).exp(-targets * outputs)

    def residual_change(self, outputs: Outputs, targets: Outputs, change: Outputs) -> Outputs:
        """−e^{−m} δf."""
        return -module_of(outputs).exp(-targets * outputs) * change

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨e^{−m}⟩ by log-sum-exp over the margins."""
        return _log_mean(-targets * outputs)

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y e^{−m}/L."""
        return targets * module_of(outputs).exp(-targets * outputs - _log_mean(-targets * outputs))


class CrossEntropy(Loss):
    """ℓ = −Σ_k y_k ln softmax(f)_k, y the probabilities of K ≥ 2 classes.

    With z_k = ln Σ_{j≠k} e^{f_j} − f_k the probability of class k is σ(−z_k), and ℓ = Σ_k y_k ln(1 + e^{z_k}): for two
    classes the logistic loss of their outputs' difference.
    """

    name = "cross-entropy"
    labels_only = False
    curvature = 0.5  # the largest eigenvalue of diag(s) − ssᵀ

    def initial_residual(self, targets: np.ndarray) -> np.ndarray:
        """Y − 1/K."""
        return targets - 1 / targets.shape[1]

    def residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """Y − softmax(f), as y(1 − s) − (1 − y)s: without cancellation where all is fitted."""
        odds, others = _odds(outputs)
        return (targets * others - (1 - targets) * odds) / odds.sum(axis=0)

    def residual_change(self, outputs: Outputs, targets: Outputs, change: Outputs) -> Outputs:
        """−s(δf − ⟨s, δf⟩), s = softmax(f)."""
        odds, _ = _odds(outputs)
        parts = odds / odds.sum(axis=0)
        return -parts * (change - (parts * change).sum(axis=0))

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨Σ_k y_k ln(1 + e^{z_k})⟩ by log-sum-exp over samples and classes."""
        return _log_mean(_log_softplus(_against_others(outputs)), targets)

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """(y σ(z) − (1 − y) σ(−z))/L, σ(z) = e^{−softplus(−z)}."""
        xp, z = module_of(outputs), _against_others(outputs)
        log_loss = _log_mean(_log_softplus(z), targets)
        right, wrong = -_softplus(-z) - log_loss, -_softplus(z) - log_loss
        return xp.where(targets > 0, targets * xp.exp(right), 0.0) - xp.where(
            targets < 1, (1 - targets) * xp.exp(wrong), 0.0
        )

    def encoded(self, targets: np.ndarray) -> np.ndarray:
        """Probabilities, one row per sample; whole numbers 0, …, K − 1 are read as classes."""
        if targets.ndim == 1:
            return classes.one_hot(targets)
        self.check_targets(targets)
        return targets

    def check_targets(self, targets: np.ndarray) -> None:
        """Raise ValueError unless every row holds the probabilities of at least two classes."""
        if targets.ndim == 1:
            classes.one_hot(targets)
        else:
            classes.check_probabilities(targets)


_LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Square(), Logistic(), Exponential(), CrossEntropy())}
NAMES = tuple(_LOSSES)


def get(name: str) -> Loss:
    """The loss of this name.

    >>> f, y = np.array([[1000.0]]), np.array([[1.0]])
    >>> float(get("logistic").log_value(f, y))
    -1000.0
    """
    return _LOSSES[checks.one_of(name, _LOSSES, "loss")]


def module_of(array: Any) -> Any:
    """NumPy for its own arrays and numbers, JAX for all others."""
    return np if isinstance(array, np.ndarray | np.generic) else jnp


def _softplus(z: Any) -> Any:
    """ln(1 + e^z)."""
    return module_of(z).logaddexp(0.0, z)


def _log_softplus(z: Any) -> Any:
    """ln ln(1 + e^z); for z ≪ 0, where e^z is lost beside 1, it is z − e^z/2 to double precision.

    Both branches see only arguments they can take, so that neither gives inf or NaN behind the ``where``.
    """
    xp, small = module_of(z), z < -18.0
    tail = xp.where(small, z, -18.0)
    body = xp.where(small, 0.0, z)
    return xp.where(small, tail - 0.5 * xp.exp(tail), xp.log(_softplus(body)))


def _odds(outputs: Any) -> tuple[Any, Any]:
    """e^{f_k} over the largest of them, and the sum of all others: of the largest one's own, without cancellation."""
    xp = module_of(outputs)
    first = xp.arange(outputs.shape[0])[:, None] == outputs.argmax(axis=0)
    odds = xp.exp(outputs - outputs.max(axis=0))
    return odds, xp.where(first, xp.where(first, 0.0, odds).sum(axis=0), odds.sum(axis=0) - odds)


def _against_others(outputs: Any) -> Any:
    """z_k = ln Σ_{j≠k} e^{f_j} − f_k; the largest output's by a sum that neither cancels nor underflows."""
    xp = module_of(outputs)
    first = xp.arange(outputs.shape[0])[:, None] == outputs.argmax(axis=0)
    behind = xp.where(first, -xp.inf, outputs)
    best = behind.max(axis=0)
    others_of_first = best + xp.log(xp.exp(behind - best).sum(axis=0))
    _, others = _odds(outputs)
    usual = outputs.max(axis=0) + xp.log(xp.where(first, 1.0, others))
    return xp.where(first, others_of_first, usual) - outputs


def _log_mean(log_values: Any, weights: Any = None) -> Any:
    """Ln of the mean over samples of Σ weight·e^value, the largest term taken out first."""
    xp = module_of(log_values)
    if weights is not None:
        log_values = xp.where(weights > 0, log_values, -xp.inf)
    top = log_values.max()
    top = xp.where(xp.isfinite(top), top, 0.0)
    terms = xp.exp(log_values - top)
    return top + xp.log((terms if weights is None else weights * terms).sum()) - np.log(log_values.shape[1])
