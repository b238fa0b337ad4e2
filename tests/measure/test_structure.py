"""Spectra against numpy's own functions, closed forms of Eqs. 39 and 40, and invariance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.measure._structure import spectrum, structure


def orthogonal(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


@pytest.fixture(scope="module")
def trajectory() -> bf.Trajectory:
    rng = np.random.default_rng(20)
    data = bf.Dataset(np.abs(rng.normal(size=(6, 3))) + 0.2, 2 * rng.normal(size=6))
    network = bf.Network.init([3, 6, 6, 1], 0.0, 2.0, rng)
    return bf.gradient_flow(network, data, until=2.0, rtol=1e-8, method="tsit5", save=8)


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    values=st.lists(st.floats(0.01, 10), min_size=1, max_size=4),
    extra=st.integers(0, 3),
    factor=st.floats(1e-150, 1e150),
)
def test_a_matrix_of_known_singular_values(seed: int, values: list[float], extra: int, factor: float) -> None:
    """U diag(s) Vᵀ times any factor: ratios, ranks and residuals are those of s."""
    rng, s = np.random.default_rng(seed), np.sort(values)[::-1]
    left, right = orthogonal(rng, s.size + extra)[:, : s.size], orthogonal(rng, s.size)
    found = spectrum(factor * (left * s) @ right.T)
    np.testing.assert_allclose(found.singular_values, factor * s, rtol=1e-12)
    assert found.stable_rank == pytest.approx(np.sum(s**2) / s[0] ** 2)
    assert found.spectral_share == pytest.approx(s[0] / np.sqrt(np.sum(s**2)))
    for rank in (1, 2, 5):
        assert found.residual(rank) == pytest.approx(np.sqrt(np.sum(s[rank:] ** 2) / np.sum(s**2)), abs=1e-12)
    assert found.rank(1e-6) == s.size
    # u and v are the leading pair: uᵀWv = s₁.
    assert found.left @ ((left * s) @ right.T) @ found.right == pytest.approx(s[0])


def test_every_saved_time_against_a_loop_of_numpy(trajectory: bf.Trajectory) -> None:
    found = structure(trajectory)
    for index, network in enumerate(trajectory.networks):
        weights = [np.asarray(w) for w in network.weights]
        leading = []
        for layer, weight in zip(found.layers, weights, strict=True):
            norm = np.linalg.norm(weight)
            assert layer.norm[index] == pytest.approx(norm)
            assert layer.stable_rank[index] == pytest.approx((norm / np.linalg.norm(weight, 2)) ** 2)
            assert layer.spectral_share[index] == pytest.approx(np.linalg.norm(weight, 2) / norm)
            for tolerance in (1e-3, 0.1, 0.5):
                # numpy's tolerance is absolute
                assert layer.rank(tolerance)[index] == np.linalg.matrix_rank(
                    weight, tol=tolerance * np.linalg.norm(weight, 2)
                )
            # The best rank-k approximation from the eigenvectors of WWᵀ, not from a singular value decomposition.
            vectors = np.linalg.eigh(weight @ weight.T)[1][:, ::-1]
            for rank in (1, 2):
                kept = vectors[:, :rank] @ vectors[:, :rank].T @ weight
                expected = np.linalg.norm(weight - kept) / norm
                assert layer.residual(rank)[index] == pytest.approx(expected, abs=1e-12)
            negative = sum(float(entry) ** 2 for entry in weight.ravel() if entry < 0)
            assert layer.negative_mass[index] == pytest.approx(np.sqrt(negative) / norm)
            leading.append((vectors[:, 0], np.linalg.eigh(weight.T @ weight)[1][:, -1]))
        for k in range(2):
            assert found.alignment[index, k] == pytest.approx(abs(leading[k + 1][1] @ leading[k][0]))


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_eq_39_is_rank_one_and_aligned(depth: int) -> None:
    found = structure(bf.Network.aligned_linear([3, *[8] * (depth - 1), 1], init_scale=0.2, seed=depth))
    for layer in found.layers:
        assert layer.rank(1e-9) == 1
        assert layer.norm == pytest.approx(0.2)
        assert layer.residual(1) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found.alignment, 1, rtol=1e-12)
    # Both factors have half their square in either sign: of r_l r_{l−1}ᵀ half the square is negative.
    for layer in found.layers[1:]:
        assert layer.negative_mass == pytest.approx(np.sqrt(0.5))


@pytest.mark.parametrize("depth", [3, 4])
def test_eq_40_has_rank_two_non_negative_middle_layers(depth: int) -> None:
    found = structure(bf.Network.aligned_relu([3, *[8] * (depth - 1), 1], init_scale=0.2, seed=depth))
    assert [int(layer.rank(1e-9)) for layer in found.layers] == [1, *[2] * (depth - 2), 1]
    for layer in found.layers[1:-1]:
        # Two blocks of norm √2 · ½ u each.
        np.testing.assert_allclose(layer.singular_values[:2], 0.2 / np.sqrt(2), rtol=1e-12)
        assert layer.stable_rank == pytest.approx(2)
        assert layer.residual(1) == pytest.approx(np.sqrt(0.5))
        assert layer.residual(2) == pytest.approx(0, abs=1e-12)
        assert layer.negative_mass == 0


def test_permuting_neurons_changes_nothing() -> None:
    network = bf.Network.init([4, 7, 6, 1], 0.0, 1.0, seed=3)
    other = network.permuted(1, np.random.default_rng(0).permutation(7)).permuted(2, [5, 3, 1, 0, 2, 4])
    for one, two in zip(structure(network).layers, structure(other).layers, strict=True):
        np.testing.assert_allclose(one.singular_values, two.singular_values, rtol=1e-12)
        assert one.negative_mass == pytest.approx(two.negative_mass)
    np.testing.assert_allclose(structure(network).alignment, structure(other).alignment, rtol=1e-10)


def test_an_identity_skip_around_one_layer_makes_it_i_plus_w() -> None:
    rng = np.random.default_rng(0)
    u, v = (w / np.linalg.norm(w) for w in rng.normal(size=(2, 4)))
    # Layer 2 maps as M2 = 3 u vᵀ, of rank one, though W2 = M2 − I has full rank.
    weights = [np.outer(v, [1.0, 2.0]), 3 * np.outer(u, v) - np.eye(4), np.outer(rng.normal(size=4), u), np.eye(4)]
    found = structure(bf.Network(weights, 0.0, skips=[0, 1, 0, 2]))
    assert list(found.blocks) == [2]
    assert found.layers[1].rank() == 4
    assert found.blocks[2].rank() == 1
    assert found.blocks[2].norm == pytest.approx(3)
    np.testing.assert_allclose(found.alignment[:2], 1, rtol=1e-12)
    assert found.to_xarray()["stable_rank"].sel(matrix="I + W2") == pytest.approx(1)
    assert "I + W2: norm 3" in str(found)


def test_a_zero_matrix_has_rank_zero_and_no_ratios() -> None:
    found = spectrum(np.zeros((2, 3)))
    assert found.rank() == 0
    assert found.norm == 0
    assert np.isnan([found.stable_rank, found.spectral_share, found.residual(1), found.negative_mass]).all()


def test_xarray_is_labelled(trajectory: bf.Trajectory) -> None:
    found = structure(trajectory)
    table = found.to_xarray()
    assert table.sizes == {"time": 9, "matrix": 3, "index": 6, "pair": 2}
    np.testing.assert_array_equal(table["time"], trajectory.times)
    np.testing.assert_array_equal(
        table["rank_two_residual"].sel(matrix="W2", time=2.0), found.layers[1].residual(2)[-1]
    )
    assert int(table["singular_value"].sel(matrix="W3").notnull().sum()) == 9
    assert "at t = 2" in str(found)


def test_a_network_of_one_layer_has_no_neighbours() -> None:
    found = structure(bf.Network([[[3.0, 4.0]]], 1.0))
    assert found.alignment.shape == (0,)
    assert "alignment" not in str(found)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: structure(np.eye(2)), "Network or a Trajectory"),
        (lambda: spectrum(np.ones(3)), "must be a matrix"),
        (lambda: spectrum([[np.nan]]), "finite"),
        (lambda: spectrum(np.eye(2)).rank(1.5), "below 1"),
        (lambda: spectrum(np.eye(2)).residual(0), "at least 1"),
    ],
)
def test_refusals(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
