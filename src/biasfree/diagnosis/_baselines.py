"""What linear regression does on the data: with and without an intercept, by our own fit and by scikit-learn's."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._course import mean_loss

# Rows up to which logistic regression is fitted to all of them.
MOST_LABELS = 50_000
_CHUNK = 50_000


@dataclass(frozen=True)
class Linear:
    """A linear model of the data.

    Attributes:
        kind: "least squares"; "logistic regression", or "max margin" for separable labels; "multinomial regression", or
            "separating map" for classes that a linear map separates.
        intercept: whether it has one.
        loss: its loss; 0 where labels or classes are separated, approached as the weights grow.
        accuracy: share of labels or classes it gets right; None for numbers to predict.
        weights, constant: the map, or its direction where it may grow for ever; of shapes (dim,) and (), or
            (outputs, dim) and (outputs,).
        scikit_learn: the loss of scikit-learn's fit of the same model.
        held_out: its loss on samples it was not fitted to; None without such, and where labels are separated.
        held_out_accuracy: the same of the accuracy.
    """

    kind: str
    intercept: bool
    loss: float
    accuracy: float | None
    weights: Float[np.ndarray, "dim"] | Float[np.ndarray, "outputs dim"]
    constant: float | Float[np.ndarray, "outputs"]
    scikit_learn: float
    held_out: float | None = None
    held_out_accuracy: float | None = None

    def __call__(self, inputs: Float[np.ndarray, "samples dim"]) -> Float[np.ndarray, "samples ..."]:
        """Its outputs."""
        return np.asarray(inputs) @ self.weights.T + self.constant

    @property
    def separates(self) -> bool:
        """Whether it gets every label right, and its weights may grow for ever."""
        return self.kind in ("max margin", "separating map")

    def __str__(self) -> str:
        """Kind, loss and accuracy."""
        right = "" if self.accuracy is None else f", {self.accuracy:.1%} of the labels right"
        return f"{self.kind}, loss {self.loss:.4g}{right}"


@dataclass(frozen=True)
class Baselines:
    """Linear regression without and with an intercept.

    Attributes:
        plain: without; where a bias-free linear network ends.
        intercept: with.
    """

    plain: Linear
    intercept: Linear

    @property
    def gap(self) -> float:
        """What an intercept gains."""
        return max(self.plain.loss - self.intercept.loss, 0.0)


def baselines(data: Dataset, loss: str, held_out: Dataset | None = None) -> Baselines:
    """Fit both.

    Args:
        data: ±1 for the logistic loss, classes for cross-entropy.
        loss: "square", "logistic" or "cross-entropy".
        held_out: samples to judge the fits on.
    """
    if loss == "square":
        plain, stacked = least_squares(data, ones=False), least_squares(data, ones=True)
    else:
        plain, stacked = fitted(data, loss), fitted(data.with_ones(), loss)
    several = data.outputs > 1
    constant = stacked.weights[..., -1] if several else float(stacked.weights[-1])
    return Baselines(
        _judged(plain, plain.weights, np.zeros(data.outputs) if several else 0.0, False, data, loss, held_out),
        _judged(stacked, stacked.weights[..., :-1], constant, True, data, loss, held_out),
    )


def least_squares(data: Dataset, ones: bool) -> Linear:
    """Our own fit of numbers, with a column of ones or without.

    Rows are reduced to a triangle some at a time, which is as exact as to do it at once and holds no second copy.
    """
    triangle, inner = np.zeros((0, data.dim + ones + data.outputs)), data.dim + ones
    for begin in range(0, data.samples, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        rows = np.column_stack([data.inputs[some], np.ones((len(data.inputs[some]), int(ones))), data.targets[some]])
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, rows]), mode="r"))
    weights = np.linalg.lstsq(triangle[:, :inner], triangle[:, inner:], rcond=None)[0].T
    weights = weights if data.outputs > 1 else weights[0]
    outputs = data.inputs @ weights[..., : data.dim].T + (weights[..., -1] if ones else 0.0)
    loss = mean_loss("square", outputs, data.targets)
    # Rounding of an exact fit is an exact fit.
    loss = 0.0 if loss <= 1e-26 * float(np.max(data.targets**2)) else loss
    right = accuracy(outputs, data.targets) if data.classes else None
    return Linear("least squares", ones, loss, right, weights, np.nan, np.nan)


def fitted(data: Dataset, loss: str) -> Linear:
    """Our own fit of labels or classes, through the origin."""
    if loss == "cross-entropy":
        return _classes_fitted(data)
    if theory.separability(data):
        return Linear("max margin", False, 0.0, 1.0, theory.max_margin(data).direction, 0.0, np.nan)
    best = theory.best_possible_loss(data, slope=1.0, loss=loss)
    weights = np.asarray(best.linear_map)
    right = accuracy(data.inputs @ weights, data.targets)
    return Linear("logistic regression", False, best.loss, right, weights, 0.0, np.nan)


def _classes_fitted(data: Dataset) -> Linear:
    """Multinomial regression, or where a linear map separates all classes a map that does."""
    best = theory.best_possible_loss(data, slope=1.0, loss="cross-entropy")
    kind = "multinomial regression" if best.loss > 0 else "separating map"
    # Where some classes are separated from all others the best map is at infinity, and scikit-learn's is on its way.
    weights = np.asarray(best.linear_map) if best.attained or best.loss == 0 else _multinomial(data, False)[0]
    return Linear(kind, False, best.loss, accuracy(best.outputs, data.targets), weights, np.nan, np.nan)


def accuracy(outputs: np.ndarray, targets: np.ndarray) -> float:
    """Share of labels ±1 that have the sign of the output, or of classes whose output is the largest."""
    if targets.ndim == 2:
        return float(np.mean(outputs.argmax(axis=1) == targets.argmax(axis=1)))
    return float(np.mean(np.sign(outputs) == targets))


def _judged(
    fit: Linear,
    weights: np.ndarray,
    constant: float | np.ndarray,
    intercept: bool,
    data: Dataset,
    loss: str,
    held_out: Dataset | None,
) -> Linear:
    theirs = _scikit_learn(data, loss, intercept)
    unseen, right = None, None
    if held_out is not None:
        outputs = held_out.inputs @ weights.T + constant
        if not fit.separates:
            unseen = mean_loss(loss, outputs, held_out.targets)
        if fit.accuracy is not None:
            right = accuracy(outputs, held_out.targets)
    return Linear(fit.kind, intercept, fit.loss, fit.accuracy, weights, constant, theirs, unseen, right)


def _scikit_learn(data: Dataset, loss: str, intercept: bool) -> float:
    """The loss of scikit-learn's own fit, without regularisation."""
    from sklearn.linear_model import LinearRegression

    if loss == "square":
        outputs = LinearRegression(fit_intercept=intercept).fit(data.inputs, data.targets).predict(data.inputs)
        return mean_loss(loss, outputs, data.targets)
    weights, constant = _multinomial(data, intercept)
    outputs = data.inputs @ weights.T + constant
    # Of two classes its output is the difference.
    return mean_loss(loss, outputs if loss == "cross-entropy" else outputs[:, 1] - outputs[:, 0], data.targets)


def _multinomial(data: Dataset, intercept: bool) -> tuple[Float[np.ndarray, "classes dim"], np.ndarray]:
    """Weights and constants of scikit-learn's regression of labels or classes, a row for each."""
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(C=1e10, fit_intercept=intercept, max_iter=1000)
    with warnings.catch_warnings():
        # Of separable labels the weights grow for ever: where it stops is a matter of its tolerance.
        warnings.simplefilter("ignore")
        fit = model.fit(data.inputs, data.targets if data.targets.ndim == 1 else data.targets.argmax(axis=1))
    weights, constant = fit.coef_, fit.intercept_ if intercept else np.zeros(len(fit.coef_))
    if len(weights) == 1:  # two classes: it gives their difference
        weights, constant = np.concatenate([-weights, weights]) / 2, np.concatenate([-constant, constant]) / 2
    return weights, constant
