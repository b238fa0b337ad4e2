"""Losses against their definitions, by automatic differentiation and in extended range."""

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasfree import losses

DEFINITIONS = {
    "square": lambda f, y: 0.5 * (y - f) ** 2,
    "logistic": lambda f, y: jnp.log1p(jnp.exp(-y * f)),
    "exponential": lambda f, y: jnp.exp(-y * f),
    "cross-entropy": lambda f, y: -y * jax.nn.log_softmax(f, axis=0),
}
OUTPUTS = st.lists(st.floats(-15, 15), min_size=4, max_size=4)


@functools.cache
def compiled(name: str) -> tuple[Any, Callable[..., Any]]:
    """A loss, and its mean over two samples by definition with its derivative: whole functions, not many small ones."""
    methods = ("value", "log_value", "residual", "normalised_residual")
    loss = SimpleNamespace(**{method: jax.jit(getattr(losses.get(name), method)) for method in methods})
    return loss, jax.jit(jax.value_and_grad(lambda f, y: DEFINITIONS[name](f, y).sum() / 2))


@pytest.mark.parametrize("name", ["square", "logistic", "exponential"])
@given(outputs=OUTPUTS)
def test_value_residual_and_logarithms(name: str, outputs: list[float]) -> None:
    (loss, mean), f = compiled(name), np.array(outputs).reshape(2, 2)
    y = np.array([[1.0, -1.0], [-1.0, 1.0]])
    value, derivative = mean(f, y)
    value = float(value)
    assert float(loss.value(f, y)) == pytest.approx(value, rel=1e-12, abs=1e-300)
    if value > 0:
        assert float(loss.log_value(f, y)) == pytest.approx(np.log(value), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(loss.normalised_residual(f, y) * value, loss.residual(f, y), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(loss.residual(f, y), -2 * np.asarray(derivative), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["logistic", "exponential"])
@pytest.mark.parametrize("margin", [40.0, 750.0, 1e5, 1e8])
def test_log_domain_far_beyond_underflow(name: str, margin: float) -> None:
    """Margins m and m + ln 3: ln((e^{−m} + e^{−m}/3)/2) = −m + ln(2/3), and weights 3/4, 1/4 in the residual."""
    loss, y = losses.get(name), jnp.array([[1.0, -1.0]])
    f = y * (margin + jnp.array([[0.0, np.log(3.0)]]))
    assert float(loss.log_value(f, y)) == pytest.approx(-margin + np.log(2 / 3), rel=1e-14)
    # Half of each: the mean over two samples is in the loss but not in the residual.
    np.testing.assert_allclose(loss.normalised_residual(f, y) / 2, y * jnp.array([[0.75, 0.25]]), rtol=1e-6)


@pytest.mark.parametrize("y", [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [[0.2, 0.0], [0.5, 0.9], [0.3, 0.1]]])
@given(outputs=st.lists(st.floats(-15, 15), min_size=6, max_size=6))
def test_cross_entropy_is_minus_the_logarithm_of_the_softmax(y: list, outputs: list[float]) -> None:
    (loss, mean), f, y = compiled("cross-entropy"), np.array(outputs).reshape(3, 2), np.array(y)
    value, derivative = mean(f, y)
    value = float(value)
    assert float(loss.value(f, y)) == pytest.approx(value, rel=1e-9)
    assert float(loss.log_value(f, y)) == pytest.approx(np.log(value), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(loss.residual(f, y), -2 * np.asarray(derivative), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loss.normalised_residual(f, y) * value, loss.residual(f, y), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("margin", [40.0, 750.0, 1e5, 1e8])
def test_cross_entropy_far_beyond_underflow(margin: float) -> None:
    """One sample leads two others by m and m + ln 3: ln L = −m + ln(4/3), and the others share −L as 3/4 and 1/4."""
    loss, y = losses.get("cross-entropy"), jnp.array([[1.0], [0.0], [0.0]])
    f = jnp.array([[0.0], [-margin], [-margin - np.log(3.0)]])
    assert float(loss.log_value(f, y)) == pytest.approx(-margin + np.log(4 / 3), rel=1e-14)
    np.testing.assert_allclose(loss.normalised_residual(f, y), [[1.0], [-0.75], [-0.25]], rtol=1e-6)


def test_cross_entropy_takes_classes() -> None:
    np.testing.assert_array_equal(losses.get("cross-entropy").encoded(np.array([0.0, 2.0])), [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match="at most 10,000, got a class 1000000"):
        losses.get("cross-entropy").encoded(np.array([0.0, 1e6]))
    np.testing.assert_allclose(losses.get("cross-entropy").initial_residual(np.array([[1.0, 0.0]])), [[0.5, -0.5]])


def test_logistic_logarithm_is_continuous_at_its_branch() -> None:
    y, z = jnp.array([[1.0]]), np.array([18 - 1e-9, 18 + 1e-9])
    below, above = (float(losses.get("logistic").log_value(jnp.array([[v]]), y)) for v in z)
    assert below - above == pytest.approx(2e-9, rel=1e-3)


def test_labels() -> None:
    losses.get("square").check_targets(np.array([0.3]))
    losses.get("logistic").check_targets(np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="logistic loss needs labels −1 and \\+1, got targets 0, 2"):
        losses.get("logistic").check_targets(np.array([0.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match="Did you mean 'logistic'"):
        losses.get("logisitc")
