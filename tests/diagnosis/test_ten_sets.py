"""Verdict, gain and reason on ten data sets that people have, each judged by plain descent written for this test."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import biasfree as bf
from tests.diagnosis.ten_sets import SCALE, WIDTH, descent, ten_sets

SETS = ten_sets()
# The reason that must come first; escape times that descent is run for, at which part of the rate that is told.
CASES = {
    "positive inputs": ("one half-space", 10.0, 1.0),
    "iris": ("a linear map suffices", 40.0, 2.0),
    "Gaussian": ("a linear map suffices", 20.0, 4.0),
    "Gaussian, |x|": ("asymmetry", 15.0, 2.0),
    "Gaussian, mean": ("target mean", 15.0, 2.0),
    "diabetes": ("target mean", 8.0, 2.0),
    "diabetes, centred": ("asymmetry", 8.0, 1.0),
    "breast cancer, standardised": ("target mean", 8.0, 1.0),
    "breast cancer": ("asymmetry", 4.0, 1.0),
    "digits parity": ("one half-space or asymmetry", 5.0, 1.0),
}
HEAVY = ("diabetes", "diabetes, centred", "breast cancer", "breast cancer, standardised", "digits parity")
PARAMETERS = [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in CASES]


@pytest.mark.parametrize("name", PARAMETERS)
def test_verdict_gain_and_reason(name) -> None:
    inputs, targets = SETS[name]
    reason, escapes, slower = CASES[name]
    found = bf.diagnose((inputs, targets), width=WIDTH, init_scale=SCALE, seeds=1, simulate=False, loss="square")
    told = found.forecasts[0]
    until = min(escapes * found.escape_time, told.until)
    run = descent(inputs, targets, found.gain.rate / slower, until)
    first = 0.5 * np.mean(targets**2)

    # Linear regression as scikit-learn has it.
    for intercept, fit in ((False, found.baselines.plain), (True, found.baselines.intercept)):
        model = LinearRegression(fit_intercept=intercept).fit(inputs, targets)
        theirs = 0.5 * np.mean((targets - model.predict(inputs)) ** 2)
        if np.linalg.cond(inputs) < 1e4:
            assert fit.loss == pytest.approx(theirs, rel=1e-6, abs=1e-12 * first)
        else:
            # It leaves out directions in which the inputs are small: on raw breast cancer its loss is 0.2 % higher.
            assert 0.99 * theirs < fit.loss < theirs * (1 + 1e-9)
        assert fit.scikit_learn == pytest.approx(theirs, rel=1e-9, abs=1e-20 * first)

    # The gain, and the bend on the samples, at every time that descent was run to after the escape.
    later = run.times > 1.5 * found.escape_time
    predicted = np.interp(run.times, told.times, told.losses)
    assert np.abs(predicted - run.losses)[later].max() < 0.02 * first
    bends = np.interp(run.times, told.times, told.reading.bends[0])
    assert np.abs(bends - run.bends)[later].max() < 0.03

    # The verdict, read off descent as far as it was run.
    linear = 0.5 * np.mean((targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]) ** 2)
    off = (run.bends > 0.1) | (run.losses < linear - 0.03 * first)
    if found.verdict == "linear":
        settled = told.reading.on_samples.settled_time or 0.0
        assert not (off & later & (run.times > 1.05 * settled)).any()
    elif found.verdict == "linear until":
        assert not (off & later & (run.times < 0.95 * found.departure_time)).any()
        assert (off & (run.times < 1.1 * found.departure_time)).any() or until < found.departure_time
    else:
        assert off[later][0]
    assert found.reasons[0].name in reason.split(" or ")
    assert found.reasons[0].sentence in str(found)
