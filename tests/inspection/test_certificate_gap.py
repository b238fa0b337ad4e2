"""The certificate of two layers: a bound that is one, and within three times of what is met."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.inspection import inspect
from biasfree.inspection._transport import transport_bound


def units(count, dim, seed):
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def largest_in_the_plane(directions, coefficients):
    """Between neighbouring kinks the sum is A cos(φ − φ₀): its extremes are kinks, or where the gradient points."""
    kinks = np.sort(np.concatenate([np.arctan2(directions[:, 0], -directions[:, 1]) + k * np.pi for k in (0, 1, 2)]))
    tried = [np.array([np.cos(a), np.sin(a)]) for a in kinks]
    for low, high in itertools.pairwise(kinks):
        middle = (low + high) / 2
        x = np.array([np.cos(middle), np.sin(middle)])
        gradient = (coefficients * np.sign(directions @ x)) @ directions
        for sign in (1, -1):
            at = sign * gradient / max(np.linalg.norm(gradient), 1e-300)
            if np.array_equal(np.sign(directions @ at), np.sign(directions @ x)):
                tried.append(at)
    return max(abs(np.abs(directions @ x) @ coefficients) for x in tried)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(1e-6, 1.0))
def test_transport_bounds_the_sum_in_the_plane(seed, count, spread) -> None:
    rng = np.random.default_rng(seed)
    directions = np.array([1.0, 0.0]) + spread * rng.normal(size=(count, 2))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    coefficients = rng.normal(size=count)
    exact = largest_in_the_plane(directions, coefficients)
    assert exact <= transport_bound(directions, coefficients) * (1 + 1e-9)


def test_transport_is_tight_where_it_can_be() -> None:
    assert transport_bound(np.eye(3), np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0)
    assert transport_bound(np.eye(2), np.array([1.0, 1.0])) == pytest.approx(np.sqrt(2))
    same = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert transport_bound(same, np.array([1.0, -1.0])) < 1e-9
    assert transport_bound(units(5, 3, 0), np.zeros(5)) == 0


@pytest.mark.parametrize(("dim", "width", "slope"), [(3, 10, 0.0), (5, 20, 0.3), (10, 50, 0.0), (20, 100, 0.0)])
def test_the_gap_of_random_two_layer_networks(dim, width, slope) -> None:
    found = inspect(bf.Network.init([dim, width, 1], slope, 2.0, 3))
    assert 1 - 1e-9 <= found.certificate_gap <= 3
    assert "merging" not in found.decision.certificate.method
    # The largest met is met.
    near = found.decision.nearness
    x = near.witness
    assert abs(found.graph(x[None])[0, 0] - near.linear_map[0] @ x) / np.linalg.norm(x) == pytest.approx(near.largest)


def test_the_gap_of_a_trained_network_and_its_practical_sentence() -> None:
    """Linear to 1e-6 on its data: the sentence says so first, and the certificate is within three times."""
    data = bf.datasets.symmetric_gaussian(dim=4, pairs=30, seed=0)
    start = bf.Network.init([4, 50, 1], slope=0.0, init_scale=1e-3, seed=0)
    found = inspect(bf.gradient_flow(start, data, until=60).final, data)
    assert found.linear is False
    assert found.verdict == "linear in effect"
    assert found.headline.startswith("On symmetric Gaussian it is linear up to")
    text = str(found)
    assert text.index("it is linear up to") < text.index("Certified:") < text.index("kinks do not cancel")
    assert 1 <= found.certificate_gap <= 3
    # The wedge between its nearly parallel neurons, which random inputs do not meet, is searched.
    x = np.random.default_rng(0).normal(size=(200_000, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    deviation = np.abs(found.layers(x)[:, 0] - x @ found.linear_map)
    assert deviation.max() <= found.decision.nearness.largest <= found.certified_bound
