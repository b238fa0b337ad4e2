"""Square, logistic, exponential and cross-entropy loss: value, residual and their log-domain forms.

Outputs and targets have shape (outputs, samples); a loss is the mean over samples of the sum over outputs.
Logistic and exponential loss take targets ±1 and depend on the margin m = y f alone. Cross-entropy takes the
probabilities of K ≥ 2 classes and depends on how far each output is from all others together,
z_k = ln Σ_{j≠k} e^{f_j} − f_k. Logarithms are computed without ever forming the loss, so that log L may reach −10⁵ and
beyond.
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
    curvature = 1.0
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
    curvature = 0.25
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
    curvature = 1.5
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
        return (targets * others - (1 - targets) * odds) / jnp.sum(odds, axis=0)

    def log_value(self, outputs: Outputs, targets: Outputs) -> Scalar:
        """Ln⟨Σ_k y_k ln(1 + e^{z_k})⟩ by log-sum-exp over samples and classes."""
        return _log_mean(_log_softplus(_against_others(outputs)), targets)

    def normalised_residual(self, outputs: Outputs, targets: Outputs) -> Outputs:
        """(y σ(z) − (1 − y) σ(−z))/L, σ(z) = e^{−softplus(−z)}."""
        z = _against_others(outputs)
        log_loss = _log_mean(_log_softplus(z), targets)
        right, wrong = -jax.nn.softplus(-z) - log_loss, -jax.nn.softplus(z) - log_loss
        return jnp.where(targets > 0, targets * jnp.exp(right), 0.0) - jnp.where(
            targets < 1, (1 - targets) * jnp.exp(wrong), 0.0
        )

    def encoded(self, targets: np.ndarray) -> np.ndarray:
        """Probabilities, one row per sample; whole numbers 0, …, K − 1 are read as classes."""
        if targets.ndim == 1:
            return one_hot(targets)
        self.check_targets(targets)
        return targets

    def check_targets(self, targets: np.ndarray) -> None:
        """Raise ValueError unless every row holds the probabilities of at least two classes."""
        if targets.ndim == 1:
            one_hot(targets)
            return
        total = targets.sum(axis=1)
        wrong = np.flatnonzero((targets < 0).any(axis=1) | (np.abs(total - 1) > _SUMS_TO_ONE))
        if targets.shape[1] < 2 or wrong.size:
            row = targets[wrong[0] if wrong.size else 0]
            shown = ", ".join(f"{value:g}" for value in row[:5]) + (", …" if len(row) > 5 else "")
            raise ValueError(
                "cross-entropy loss needs classes 0, 1, …, or for each sample the probabilities of at least two classes, "
                f"which sum to one; got a row ({shown}). Use loss='square' for regression."
            )


_SUMS_TO_ONE = 1e-9  # probabilities are given to that


def one_hot(classes: Any, count: int | None = None) -> Float[np.ndarray, "samples classes"]:
    """Classes 0, …, K − 1 as rows with a single one; ``count`` is K, by default the largest class and one more.

    >>> one_hot([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """
    given = np.asarray(classes)
    whole = given.astype(int) if given.size and np.isfinite(given).all() else np.zeros(given.shape, dtype=int)
    count = max(2, int(whole.max(initial=0)) + 1) if count is None else count
    if given.ndim != 1 or (whole != given).any() or (whole < 0).any() or (whole >= count).any():
        wrong = given[(whole != given) | (whole < 0) | (whole >= count)].ravel()[:5]
        raise ValueError(
            f"classes must be whole numbers from 0 to {count - 1}, one per sample, got "
            f"{', '.join(f'{value:g}' for value in wrong) or f'shape {given.shape}'}. "
            "Give the classes' names with Dataset(…, classes=…), or use loss='square' for regression."
        )
    return np.eye(count)[whole]


_LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Square(), Logistic(), Exponential(), CrossEntropy())}
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


def _odds(outputs: Any) -> tuple[Any, Any]:
    """e^{f_k} over the largest of them, and the sum of all others: of the largest one's own, without cancellation."""
    first = jnp.arange(outputs.shape[0])[:, None] == jnp.argmax(outputs, axis=0)
    odds = jnp.exp(outputs - jnp.max(outputs, axis=0))
    return odds, jnp.where(first, jnp.sum(jnp.where(first, 0.0, odds), axis=0), jnp.sum(odds, axis=0) - odds)


def _against_others(outputs: Any) -> Any:
    """z_k = ln Σ_{j≠k} e^{f_j} − f_k; the largest output's by a sum of its own, which neither cancels nor underflows."""
    first = jnp.arange(outputs.shape[0])[:, None] == jnp.argmax(outputs, axis=0)
    beaten = jax.nn.logsumexp(jnp.where(first, -jnp.inf, outputs), axis=0)
    _, others = _odds(outputs)
    usual = jnp.max(outputs, axis=0) + jnp.log(jnp.where(first, 1.0, others))
    return jnp.where(first, beaten, usual) - outputs


def _log_mean(log_values: Any, weights: Any = None) -> Any:
    return jax.nn.logsumexp(log_values, b=weights) - jnp.log(log_values.shape[1])
