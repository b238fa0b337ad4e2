"""Is it linear, and how far from it: exact answers, certified bounds and mixed-integer programming."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import biasfree as bf
from biasfree.inspection import inspect
from biasfree.inspection._certificate import certificate, supremum
from biasfree.inspection._decision import decided
from biasfree.inspection._milp import largest_deviation
from biasfree.inspection._relaxation import deviation_bound, ranges
from biasfree.models._layers import Layers
from biasfree.theory import depth_separation_network


def drawn(widths, slopes, seed) -> Layers:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, n)) / np.sqrt(n) for n, m in itertools.pairwise(widths)]
    return Layers.of(weights, None, slopes)


def sphere(samples, dim, seed=0):
    x = np.random.default_rng(seed).normal(size=(samples, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def hidden_identity(dim=3, seed=0) -> Layers:
    """Σ c_i (σ(p_i − q_i) − σ(q_i − 2p_i)) with p = σ(t), q = σ(−t), t = Vx: as pq = 0 it is Σ c_i t_i, linear in x.

    No two rows are parallel and no kinks of one layer cancel: only the two layers together are linear.
    """
    rng = np.random.default_rng(seed)
    turned = rng.normal(size=(dim, dim))
    eye = np.eye(dim)
    second = np.block([[eye, -eye], [-2 * eye, eye]])
    row = rng.normal(size=dim)
    return Layers.of([np.concatenate([turned, -turned]), second, np.concatenate([row, -row])[None]], None, [0.0, 0.0])


FAMILY = {
    "two layers": drawn([5, 20, 1], [0.0], 0),
    "two layers, leaky, three outputs": drawn([6, 15, 3], [0.3], 1),
    "in the plane": drawn([2, 12, 9, 1], [0.0, 0.0], 2),
    "three layers": drawn([4, 8, 8, 1], [0.0, 0.0], 3),
    "three layers, two outputs": drawn([5, 10, 10, 2], [0.1, 0.1], 4),
    "slopes of their own": drawn([4, 9, 8, 7, 1], [0.0, 1.0, 0.5], 5),
    "wide": drawn([10, 60, 60, 1], [0.0, 0.0], 6),
    "Eq. 40": Layers.from_network(bf.Network.aligned_relu([6, 20, 20, 1], 1.0, 0)),
    "near Eq. 40": Layers.of(
        [
            np.asarray(w) + 1e-5 * np.random.default_rng(7).normal(size=w.shape)
            for w in bf.Network.aligned_relu([6, 20, 20, 1], 1.0, 0).weights
        ],
        None,
        [0.0, 0.0],
    ),
    "identity in three layers": hidden_identity(),
    "Eq. 3": Layers.from_network(depth_separation_network()),
}


@pytest.mark.parametrize("name", FAMILY)
def test_no_sample_beats_the_certified_bound(name) -> None:
    model = FAMILY[name]
    found = decided(model, seed=0)
    x = sphere(100_000, model.widths[0], seed=1)
    deviations = np.linalg.norm(model(x) - x @ found.nearness.linear_map.T, axis=1)
    assert deviations.max() <= found.certificate.bound
    # Nor for a linear map that is not the best.
    other = found.nearness.linear_map + np.random.default_rng(2).normal(size=found.nearness.linear_map.shape)
    apart = np.linalg.norm(model(x) - x @ other.T, axis=1).max()
    assert apart <= certificate(model, other).bound
    # The distance told is the one a fresh sample measures, to its standard error.
    outputs = model(x)
    measured = np.linalg.norm(outputs - x @ found.nearness.linear_map.T) / np.linalg.norm(outputs)
    assert abs(measured - found.nearness.distance) <= 5 * found.nearness.error + 0.01 * measured + 1e-13


def test_bounds_are_of_use() -> None:
    """Tight where exact, and small where the network is nearly linear."""
    plane = FAMILY["in the plane"]
    found = decided(plane, 0)
    angles = np.linspace(0, 2 * np.pi, 200_001)
    x = np.column_stack([np.cos(angles), np.sin(angles)])
    top = np.abs(plane(x) - x @ found.nearness.linear_map.T).max()
    assert top <= found.certificate.bound <= top * (1 + 1e-6)
    assert decided(FAMILY["Eq. 40"], 0).certificate.bound < 1e-12
    near = decided(FAMILY["near Eq. 40"], 0)
    assert 1e-6 < near.certificate.bound < 1e-2


@pytest.mark.parametrize("norm", [2, np.inf])
def test_ranges_hold_every_preactivation(norm) -> None:
    for name in ("three layers, two outputs", "slopes of their own"):
        model = FAMILY[name]
        x = np.random.default_rng(0).uniform(-1, 1, size=(20_000, model.widths[0]))
        x /= np.linalg.norm(x, ord=norm, axis=1, keepdims=True)
        found = ranges(model, norm)
        for h, low, high in zip(model.preactivations(x), found.low, found.high, strict=False):
            assert (low <= h.min(axis=0)).all()
            assert (h.max(axis=0) <= high).all()
        zero = np.zeros((model.widths[-1], model.widths[0]))
        assert (np.abs(model(x)).max(axis=0) <= deviation_bound(model, zero, norm)).all()


def largest_by_cells(model: Layers, linear_map: np.ndarray) -> float:
    """Every activation pattern of every layer is a polyhedral cone; on each, a linear program over the box."""
    best, dim = 0.0, model.widths[0]
    hidden = model.widths[1:-1]
    for pattern in itertools.product([0, 1], repeat=sum(hidden)):
        bits, at = np.array(pattern), 0
        acting, rows = np.eye(dim), []
        for k, width in enumerate(hidden):
            h = model.weights[k] @ acting
            on = bits[at : at + width]
            at += width
            rows.append(np.where(on, -1.0, 1.0)[:, None] * h)
            acting = np.where(on, 1.0, model.slopes[k])[:, None] * h
        for row in model.weights[-1] @ acting - linear_map:
            for sign in (1, -1):
                cell = np.concatenate(rows)
                found = linprog(-sign * row, A_ub=cell, b_ub=np.zeros(len(cell)), bounds=[(-1, 1)] * dim)
                best = max(best, -found.fun)
    return best


@pytest.mark.parametrize(
    ("widths", "slopes"), [([2, 3, 3, 1], [0.0, 0.0]), ([2, 3, 2, 2], [0.25, 0.0]), ([3, 3, 2, 1], [0.0, 0.4])]
)
def test_mixed_integer_programming_against_all_activation_cells(widths, slopes) -> None:
    model = drawn(widths, slopes, 11)
    linear_map = np.random.default_rng(12).normal(size=(widths[-1], widths[0]))
    found = largest_deviation(model, linear_map)
    expected = largest_by_cells(model, linear_map)
    assert found.finished
    assert found.value == pytest.approx(expected, abs=1e-4)
    assert found.value <= expected + 1e-9
    assert expected <= found.bound + 1e-12


def test_mixed_integer_programming_is_silent(capfd) -> None:
    largest_deviation(FAMILY["three layers"], np.zeros((1, 4)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_deep_network_that_only_the_program_proves_linear(scale) -> None:
    model = hidden_identity()
    model = Layers.of([scale * w for w in model.weights], None, model.slopes)
    found = inspect(model)
    assert found.linear is True
    assert "mixed-integer" in found.decision.why
    # And one weight of the middle layer changed by a thousandth makes it nonlinear, at a witness that is checked.
    weights = [w.copy() for w in model.weights]
    weights[1][0, 0] *= 1.001
    bent = inspect(Layers.of(weights, None, model.slopes))
    assert bent.linear is False
    near = bent.decision.nearness
    x = near.witness
    assert np.abs(bent.graph(x[None])[0] - near.linear_map @ x).max() == pytest.approx(near.largest * np.linalg.norm(x))
    assert near.largest > 0


def test_answers_on_known_functions() -> None:
    assert inspect(bf.Network.aligned_relu([5, 30, 30, 30, 1], 1.0, 0)).linear is True
    assert inspect(bf.Network.rank_one(4, 50, 0.0, 1.0, 0)).linear is True
    assert inspect(bf.Network.init([4, 9, 9, 2], 1.0, 1.0, 0)).linear is True
    assert inspect(bf.Network([[[0.0, 0.0]], [[1.0]]], 0.0)).linear is True
    odd = inspect(depth_separation_network())
    assert odd.linear is False
    assert odd.decision.nearness.even < 1e-12
    assert odd.decision.nearness.odd == pytest.approx(1.0)
    absolute = inspect(bf.Network([[[1.0, 2.0], [-1.0, -2.0]], [[1.0, 1.0]]], 0.0))
    assert absolute.decision.form.is_even
    assert absolute.distance_from_linear == pytest.approx(1.0)
    assert absolute.certified_bound == pytest.approx(np.sqrt(5))
    single = inspect(bf.Network([[[3.0, 4.0]]], 0.0))
    assert single.linear is True
    assert single.certified_bound < 1e-12
    assert single.neurons_after_merging == 0


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.9]), st.integers(1, 3))
def test_two_layers_are_linear_iff_kinks_cancel(seed, slope, outputs) -> None:
    """Every neuron with its mirror image: linear; with one outgoing weight changed: not."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.normal(size=(5, 3)), rng.normal(size=(outputs, 5))
    factors = rng.uniform(0.1, 10, size=5)
    first = np.concatenate([rows, -factors[:, None] * rows])
    second = np.concatenate([columns, -columns / factors], axis=1)
    yes = inspect(bf.Network([first, second], slope))
    assert yes.linear is True
    np.testing.assert_allclose(np.atleast_2d(yes.linear_map), (1 + slope) * columns @ rows, atol=1e-11)
    second[0, 0] += 0.1
    no = inspect(bf.Network([first, second], slope))
    assert no.linear is False
    size = 0.1 * (1 - slope) / 2 * np.linalg.norm(rows[0])
    assert no.certified_bound == pytest.approx(size, rel=1e-6)
    assert no.decision.nearness.largest <= size * (1 + 1e-9)


def test_float32_rounding_is_not_taken_for_a_kink(tmp_path) -> None:
    weights = [np.asarray(w).astype("f4") for w in bf.Network.aligned_relu([5, 20, 1], 1.0, 3).weights]
    np.savez(tmp_path / "m.npz", W1=weights[0], W2=weights[1])
    found = inspect(tmp_path / "m.npz")
    assert found.linear is True
    assert 0 < found.certified_bound < 1e-5
    # The same numbers said to be float64 are not exactly linear.
    np.savez(tmp_path / "d.npz", W1=weights[0].astype(float), W2=weights[1].astype(float))
    assert inspect(tmp_path / "d.npz").linear is False


def test_biases() -> None:
    """σ(x+1) − σ(−x−1) = x + 1, and less the one it is linear."""
    first, second = np.array([[1.0], [-1.0]]), np.array([[1.0, -1.0]])
    affine = inspect(Layers.of([first, second], [np.array([1.0, -1.0]), None], [0.0]))
    assert (affine.bias_free, affine.homogeneous, affine.linear) == (False, False, False)
    assert "plus a constant" in str(affine)
    assert affine.certified_bound is None
    straight = inspect(Layers.of([first, second], [np.array([1.0, -1.0]), np.array([-1.0])], [0.0]))
    assert straight.linear is True
    assert straight.bias_free is False
    bent = inspect(Layers.of([first, second], [np.array([1.0, -1.0]), np.array([0.5])], [0.5]))
    assert bent.linear is False
    deep = inspect(Layers.of([np.eye(2), np.eye(2), np.ones((1, 2))], [None, np.ones(2), None], [0.0, 0.0]))
    assert deep.linear is False
    assert deep.homogeneous is False


def test_the_supremum_is_found_where_it_is_said_to_be() -> None:
    plane = FAMILY["in the plane"]
    value, at = supremum(plane, np.zeros((1, 2)))
    assert np.abs(plane(at[None]))[0, 0] == pytest.approx(value, rel=1e-6)


def test_distance_on_the_data_is_least_squares() -> None:
    data = bf.datasets.six_points()
    network = bf.Network.init([2, 7, 1], 0.0, 1.0, 0)
    found = inspect(network, data)
    outputs = np.asarray(network(data.inputs))
    rest = np.linalg.lstsq(data.inputs, outputs, rcond=None)[1]
    assert found.distance_from_linear == pytest.approx(np.sqrt(rest[0]) / np.linalg.norm(outputs))
    active = data.inputs @ np.asarray(network.weights[0]).T > 0
    assert found.layer_reports[0].dead == (~active.any(axis=0)).sum()
    assert found.layer_reports[0].always_active == active.all(axis=0).sum()
    with pytest.raises(ValueError, match="dimension 2"):
        inspect(network, np.ones((3, 3)))
