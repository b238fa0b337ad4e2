"""What linear regression does on the data: with and without an intercept, by our own fit and by scikit-learn's."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from biasfree import theory
from biasfree.datasets import Dataset
from biasfree.diagnosis._sampling import mean_loss

# Rows up to which logistic regression is fitted to all of them.
MOST_LABELS = 50_000
_CHUNK = 50_000


@dataclass(frozen=True)
class Linear:
    """A linear model of the data.

    Attributes:
        kind: "least squares", "max margin" (separable labels) or "logistic regression".
        intercept: whether it has one.
        loss: its loss; 0 for a max margin, approached as the weights grow.
        accuracy: share of labels it gets right; None for numbers to predict.
        weights, constant: the map, or its direction for a max margin.
        scikit_learn: the loss of scikit-learn's fit of the same model.
        held_out: its loss on samples it was not fitted to; None without such, and for a max margin.
        held_out_accuracy: the same of the accuracy.
    """

    kind: str
    intercept: bool
    loss: float
    accuracy: float | None
    weights: Float[np.ndarray, "dim"]
    constant: float
    scikit_learn: float
    held_out: float | None = None
    held_out_accuracy: float | None = None

    def __call__(self, inputs: Float[np.ndarray, "samples dim"]) -> Float[np.ndarray, "samples"]:
        """Its outputs."""
        return np.asarray(inputs) @ self.weights + self.constant

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
        data: scalar targets, ±1 for the logistic loss.
        loss: "square" or "logistic".
        held_out: samples to judge the fits on.
    """
    if loss == "square":
        plain, stacked = least_squares(data, ones=False), least_squares(data, ones=True)
    else:
        plain, stacked = fitted(data, loss), fitted(data.with_ones(), loss)
    return Baselines(
        _judged(plain, plain.weights, 0.0, False, data, loss, held_out),
        _judged(stacked, stacked.weights[:-1], float(stacked.weights[-1]), True, data, loss, held_out),
    )


def least_squares(data: Dataset, ones: bool) -> Linear:
    """Our own fit of numbers, with a column of ones or without.

    Rows are reduced to a triangle some at a time, which is as exact as to do it at once and holds no second copy.
    """
    triangle = np.zeros((0, data.dim + ones + 1))
    for begin in range(0, data.samples, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        rows = np.column_stack([data.inputs[some], np.ones((len(data.inputs[some]), int(ones))), data.targets[some]])
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, rows]), mode="r"))
    weights = np.linalg.lstsq(triangle[:, :-1], triangle[:, -1], rcond=None)[0]
    constant = float(weights[-1]) if ones else 0.0
    loss = mean_loss("square", data.inputs @ weights[: data.dim] + constant, data.targets)
    # Rounding of an exact fit is an exact fit.
    loss = 0.0 if loss <= 1e-26 * float(np.max(data.targets**2)) else loss
    return Linear("least squares", ones, loss, None, weights, constant, np.nan)


def fitted(data: Dataset, loss: str) -> Linear:
    """Our own fit of labels, through the origin."""
    if theory.separability(data):
        return Linear("max margin", False, 0.0, 1.0, theory.max_margin(data).direction, 0.0, np.nan)
    best = theory.best_possible_loss(data, slope=1.0, loss=loss)
    weights = np.asarray(best.linear_map)
    right = accuracy(data.inputs @ weights, data.targets)
    return Linear("logistic regression", False, best.loss, right, weights, 0.0, np.nan)


def accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Share of labels ±1 that have the sign of the output."""
    return float(np.mean(np.sign(outputs) == labels))


def _judged(
    fit: Linear,
    weights: np.ndarray,
    constant: float,
    intercept: bool,
    data: Dataset,
    loss: str,
    held_out: Dataset | None,
) -> Linear:
    theirs = _scikit_learn(data, loss, intercept)
    unseen, right = None, None
    if held_out is not None:
        outputs = held_out.inputs @ weights + constant
        if fit.kind != "max margin":
            unseen = mean_loss(loss, outputs, held_out.targets)
        if loss != "square":
            right = accuracy(outputs, held_out.targets)
    return Linear(fit.kind, intercept, fit.loss, fit.accuracy, weights, constant, theirs, unseen, right)


def _scikit_learn(data: Dataset, loss: str, intercept: bool) -> float:
    """The loss of scikit-learn's own fit, without regularisation."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    if loss == "square":
        outputs = LinearRegression(fit_intercept=intercept).fit(data.inputs, data.targets).predict(data.inputs)
        return mean_loss(loss, outputs, data.targets)
    model: Any = LogisticRegression(C=1e10, fit_intercept=intercept, max_iter=1000)
    with warnings.catch_warnings():
        # Of separable labels the weights grow for ever: where it stops is a matter of its tolerance.
        warnings.simplefilter("ignore")
        fit = model.fit(data.inputs, data.targets)
    return mean_loss(loss, data.inputs @ fit.coef_[0] + (fit.intercept_[0] if intercept else 0.0), data.targets)
