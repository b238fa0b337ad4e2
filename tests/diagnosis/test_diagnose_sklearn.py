"""Sensible answers on scikit-learn's bundled data, each against what scikit-learn or a simulation says of the same."""

import numpy as np
import pytest
from scipy.optimize import linprog

import biasfree as bf
from biasfree.diagnosis import Diagnosis, diagnose

sklearn_datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn's data are not installed")
linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")


def answer(data: bf.Dataset, loss: str, **options) -> Diagnosis:
    return diagnose(data, loss, width=50, seeds=1, simulate=False, **options)


def separable(inputs: np.ndarray, labels: np.ndarray) -> bool:
    """Some w with y wᵀx ≥ 1 on all samples, by linear programming; columns scaled, which changes nothing."""
    signed = labels[:, None] * inputs / np.maximum(np.abs(inputs).max(axis=0), 1e-300)
    found = linprog(np.zeros(inputs.shape[1]), -signed, -np.ones(len(labels)), bounds=(None, None), method="highs")
    return found.status == 0


def test_diabetes_needs_its_bias() -> None:
    """Inputs are centred and the target is not: without a bias a linear map explains next to nothing, and the network
    bends to make up for it. Two half-spaces of opposite slope come close to a constant."""
    inputs, targets = sklearn_datasets.load_diabetes(return_X_y=True)
    found = answer(bf.Dataset(inputs, targets, "diabetes"), "square")
    without, with_intercept = (
        linear_model.LinearRegression(fit_intercept=intercept).fit(inputs, targets).predict(inputs)
        for intercept in (False, True)
    )
    assert found.verdict == "nonlinear"
    assert found.solution.kind == "least squares"
    assert found.solution.loss == pytest.approx(0.5 * np.mean((targets - without) ** 2), rel=1e-9)
    first, intercept_loss = 0.5 * np.mean(targets**2), 0.5 * np.mean((targets - with_intercept) ** 2)
    assert found.solution.loss > 0.85 * first
    assert intercept_loss < 0.15 * first
    # The verdict's number, and what it means: the predicted course ends below the best linear map *with* an intercept.
    assert found.forecasts[0].nonlinearity > 0.5
    assert found.forecasts[0].losses[-1] < intercept_loss
    assert found.floor.with_bias == 0


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(3, 8), (0, 1)])
def test_digits(pair) -> None:
    """Pixels are not negative: far from even, so that as a function the network bends, whatever it does on samples."""
    data = bf.datasets.digits(pair)
    found = answer(data, "logistic")
    assert found.to_dict()["as_function"]["verdict"] == "nonlinear"
    assert found.bend("as_function") > 0.5 > found.bend("on_samples")
    assert found.symmetry.paired_share == 0
    assert found.asymmetry.covariance.lower > 0.9
    assert separable(data.inputs, data.targets)
    assert (found.separable, found.solution.kind, found.solution.accuracy) == (True, "max margin", 1.0)
    fitted = linear_model.LogisticRegression(fit_intercept=False, C=1e6, max_iter=5000).fit(data.inputs, data.targets)
    margins = data.targets * (data.inputs @ found.solution.weights) / np.linalg.norm(found.solution.weights)
    theirs = data.targets * (data.inputs @ fitted.coef_[0]) / np.linalg.norm(fitted.coef_[0])
    assert margins.min() >= theirs.min() > 0
    assert any("off the origin" in note for note in found.notes)


@pytest.mark.slow
def test_breast_cancer_raw_and_standardised() -> None:
    """Raw: columns differ by 10⁵ and lie off the origin. Standardised: nearly even, two half-spaces of unlike slope."""
    inputs, labels = sklearn_datasets.load_breast_cancer(return_X_y=True)
    data = bf.Dataset(inputs, labels, "breast cancer")
    raw, centred = answer(data, "logistic"), answer(data, "logistic", standardise=True)
    signs = 2.0 * labels - 1
    assert raw.to_dict()["as_function"]["verdict"] == "nonlinear"
    assert raw.separable == separable(inputs, signs)
    assert any("--standardise" in note for note in raw.notes)
    assert any("Labels 0 and 1" in note for note in raw.notes)
    scaled = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    assert centred.separable == separable(scaled, signs)
    fitted = linear_model.LogisticRegression(fit_intercept=False, C=1e8, max_iter=100_000, tol=1e-8).fit(scaled, signs)
    theirs = np.mean(np.logaddexp(0, -signs * (scaled @ fitted.coef_[0])))
    assert centred.solution.kind == "logistic regression"
    assert centred.solution.loss == pytest.approx(theirs, rel=1e-3)
    assert centred.solution.loss <= theirs * (1 + 1e-9)
    assert centred.asymmetry.correlation.typical < 0.3 < raw.asymmetry.correlation.typical
    assert centred.verdict in ("several linear networks", "nonlinear")
    assert centred.bend("as_function") < raw.bend("as_function")


@pytest.mark.slow
def test_standardised_breast_cancer_as_simulated() -> None:
    """The forecast against the whole network, from the same start."""
    inputs, labels = sklearn_datasets.load_breast_cancer(return_X_y=True)
    found = diagnose(bf.Dataset(inputs, labels, "breast cancer"), "logistic", width=50, seeds=1, standardise=True)
    check = found.checks[0]
    assert check.measured["escape_time"] == pytest.approx(check.predicted["escape_time"], rel=0.05)
    assert check.measured["nonlinearity"] == pytest.approx(check.predicted["nonlinearity"], rel=0.2)
    assert check.measured["verdict"] in ("several linear networks", "nonlinear")
    # The bend goes away for a while, and at eight escape times it is gone; the check looks on until it is back.
    gone = (check.reading.bends[0] < 0.08) & (check.times > 2 * check.reading.escape_time)
    assert gone.any()
    assert check.until > 1.2 * check.times[gone][-1]
    assert check.reading.on_samples.last > 0.11
    assert check.reading.decides.otherwise is None
    # In the simulation a group parts in two, which the few neurons of the forecast cannot: both is said.
    assert found.forecasts[0].joined > 0
    assert check.agrees or ("DISAGREES" in str(found) and "nonlinear" in str(found.contradiction))
    assert "are predicted as one" in str(found)
