"""Networks: function, symmetries, starts, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biasfree import Network, datasets, theory

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(9, 3))
SLOPES = st.floats(0, 1)


def by_hand(network: Network, x: np.ndarray) -> np.ndarray:
    """The definition, in plain loops."""
    entering = [x]
    for layer, weight in enumerate(network.weights):
        h = np.array([sum(w * z for w, z in zip(row, entering[-1], strict=True)) for row in np.asarray(weight)])
        if network.skips[layer]:
            h = h + entering[layer + 1 - network.skips[layer]]
        if layer < network.depth - 1 and network.rectified[layer]:
            h = np.array([max(v, network.slope * v) for v in h])
        entering.append(h)
    return entering[-1]


@pytest.mark.parametrize(
    ("widths", "rectified", "skips"),
    [
        ([3, 1], None, None),
        ([3, 5, 1], None, None),
        ([3, 5, 2], None, None),
        ([3, 4, 4, 1], [True, False], [0, 1, 0]),
        ([3, 3, 3, 3, 1], [True, False, True], [1, 0, 2, 0]),
    ],
)
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_forward_is_the_definition(widths, rectified, skips, slope) -> None:
    network = Network.init(widths, slope, 2.0, 1, rectified=rectified, skips=skips)
    expected = np.array([by_hand(network, x) for x in POINTS])
    np.testing.assert_allclose(network(POINTS), expected[:, 0] if widths[-1] == 1 else expected, atol=1e-14)
    np.testing.assert_allclose(network(POINTS[0]), expected[0, 0] if widths[-1] == 1 else expected[0], atol=1e-14)
    assert network(POINTS.reshape(3, 3, 3)).shape == ((3, 3) if widths[-1] == 1 else (3, 3, 2))


@given(SLOPES, st.floats(1e-3, 1e3), st.integers(0, 99))
def test_positive_homogeneity_in_inputs_and_weights(slope, factor, seed) -> None:
    network = Network.init([3, 4, 2, 1], slope, 1.0, seed)
    np.testing.assert_allclose(network(factor * POINTS), factor * network(POINTS), rtol=1e-12, atol=1e-14 * factor)
    np.testing.assert_allclose(
        network.rescaled(factor)(POINTS), factor**3 * network(POINTS), rtol=1e-12, atol=1e-14 * factor**3
    )


@given(SLOPES, st.integers(0, 99))
def test_permutation_and_neuron_rescaling_keep_the_function(slope, seed) -> None:
    rng = np.random.default_rng(seed)
    network = Network.init([3, 5, 4, 1], slope, 2.0, seed)
    same = network.permuted(1, rng.permutation(5)).permuted(2, rng.permutation(4))
    same = same.neurons_rescaled(1, rng.uniform(0.1, 9, 5)).neurons_rescaled(2, rng.uniform(0.1, 9, 4))
    np.testing.assert_allclose(same(POINTS), network(POINTS), atol=1e-13)


def test_pytree_round_trip_and_gradient() -> None:
    network = Network.init([3, 4, 1], 0.0, 1.0, 0)
    other = Network.init([3, 4, 1], 0.0, 1.0, 1)
    mean = jax.tree.map(lambda a, b: (a + b) / 2, network, other)
    np.testing.assert_allclose(mean.weights[0], (network.weights[0] + other.weights[0]) / 2)
    assert not mean.origin  # it must not claim a seed
    slopes = jax.vmap(lambda n, x: n(x), in_axes=(None, 0))(network, jnp.asarray(POINTS))
    np.testing.assert_allclose(slopes, network(POINTS))
    gradient = jax.grad(lambda n: n(POINTS).sum())(network)
    assert gradient.weights[0].shape == (4, 3)
    with pytest.raises(AttributeError, match="immutable"):
        network.slope = 1.0


class TestStarts:
    def test_init_is_appendix_g(self) -> None:
        network = Network.init([20, 500, 1], 0.0, 1e-8, 3)
        rng = np.random.default_rng(3)
        for weight, shape in zip(network.weights, [(500, 20), (1, 500)], strict=True):
            np.testing.assert_array_equal(weight, rng.normal(size=shape) * (1e-8 / np.sqrt(np.prod(shape))))
        assert np.linalg.norm(network.weights[0]) == pytest.approx(1e-8, rel=0.05)

    @pytest.mark.parametrize("widths", [[3, 6, 1], [3, 6, 5, 4, 2]])
    def test_balanced(self, widths) -> None:
        network = Network.balanced(widths, 0.0, 0.1, 0)
        for before, after in zip(network.weights, network.weights[1:], strict=False):
            np.testing.assert_allclose((before**2).sum(1), (after**2).sum(0), rtol=1e-12)

    def test_rank_one_is_assumption_4(self) -> None:
        first, second = map(np.asarray, Network.rank_one(4, 7, 0.0, 0.3, 1, direction=[0, 0, 2, 0]).weights)
        np.testing.assert_allclose(first, second.T @ [[0, 0, 1, 0]], atol=1e-16)
        assert np.linalg.norm(second) == pytest.approx(0.3)
        assert np.linalg.norm(second[second > 0]) == pytest.approx(np.linalg.norm(second[second < 0]))

    @pytest.mark.parametrize("widths", [[4, 6, 1], [4, 6, 6, 1], [4, 6, 5, 8, 1]])
    def test_eqs_39_and_40(self, widths) -> None:
        linear, relu = Network.aligned_linear(widths, 0.5, 2), Network.aligned_relu(widths, 0.5, 2)
        for one, two in zip(linear.weights, relu.weights, strict=True):
            assert np.linalg.norm(one) == pytest.approx(0.5)
            assert np.linalg.norm(two) == pytest.approx(0.5)
        for one, two in zip(linear.weights[1:-1], relu.weights[1:-1], strict=True):
            # Positive entries agree up to √2, negative ones of the linear network are zero in the other.
            np.testing.assert_allclose(two, np.sqrt(2) * np.maximum(one, 0), atol=1e-15)
        # Eq. 41: with equal norms of both signs the ReLU network is half its own linear product.
        product = np.eye(4)
        for weight in relu.weights:
            product = np.asarray(weight) @ product
        x = RNG.normal(size=(5, 4))
        np.testing.assert_allclose(relu(x), 0.5 * x @ product[0], atol=1e-14)


class TestFiles:
    def test_round_trip(self, tmp_path) -> None:
        network = Network.init([3, 4, 4, 1], 0.2, 1.0, 5, rectified=[True, False], skips=[0, 1, 0])
        network.save(tmp_path / "n.npz")
        again = Network.load(tmp_path / "n.npz")
        assert (again.architecture, again.slope, again.origin["seed"]) == (network.architecture, 0.2, 5)
        np.testing.assert_array_equal(again(POINTS), network(POINTS))
        assert [p.name for p in tmp_path.iterdir()] == ["n.npz"]

    def test_bad_files(self, tmp_path) -> None:
        (tmp_path / "x.npz").write_bytes(b"junk")
        np.savez(tmp_path / "y.npz", V=np.eye(2))
        np.savez(tmp_path / "z.npz", W1=np.array([None]))
        for name, sentence in (("x", "not an NPZ"), ("y", "no array 'W1'"), ("z", "not an NPZ"), ("no", "no file at")):
            with pytest.raises(ValueError, match=sentence):
                Network.load(tmp_path / f"{name}.npz")
        with pytest.raises(ValueError, match="does not exist"):
            Network.init([1, 1], 0.0, 1.0, 0).save(tmp_path / "no" / "n.npz")
        with pytest.raises(ValueError, match="must end in"):
            Network.init([1, 1], 0.0, 1.0, 0).save(tmp_path / "n.pkl")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Network([], 0.0), "at least one layer"),
        (lambda: Network([np.eye(2), np.ones((1, 3))], 0.0), "widths must chain"),
        (lambda: Network([np.array([[np.nan]])], 0.0), "must be finite"),
        (lambda: Network([np.ones(3)], 0.0), "must be a matrix"),
        (lambda: Network([np.eye(2)], 1.5), r"slope must lie in \[0, 1\], got 1.5"),
        (lambda: Network([np.eye(2)], -0.1), "slope"),
        (lambda: Network([np.eye(2)], float("nan")), "slope"),
        (lambda: Network([np.eye(2), np.eye(2)], 0.0, [True, True]), "one entry per hidden layer"),
        (lambda: Network([np.ones((3, 2))], 0.0, skips=[1]), "equal widths"),
        (lambda: Network([np.eye(2)], 0.0, skips=[2]), "spans 2 layers"),
        (lambda: Network.init([2, 0, 1], 0.0, 1.0, 0), "every width"),
        (lambda: Network.init([2], 0.0, 1.0, 0), "at least the input dimension"),
        (lambda: Network.init([2, 3, 1], 0.0, 0.0, 0), "init_scale must be a finite number above 0"),
        (lambda: Network.init([2, 3, 1], 0.0, float("inf"), 0), "scale"),
        (lambda: Network.init([2, 3, 1], 0.0, 1.0, 0.5), "seed"),
        (lambda: Network.rank_one(2, 1, 0.0, 1.0, 0), "width must be a whole number of at least 2"),
        (lambda: Network.rank_one(2, 4, 0.0, 1.0, 0, direction=[0, 0]), "nonzero vector"),
        (lambda: Network.aligned_relu([2, 4, 2], 1.0, 0), "one output"),
        (lambda: Network.init([2, 3, 1], 0.0, 1.0, 0)(np.ones(3)), "dimension 2"),
        (lambda: Network.init([2, 3, 1], 0.0, 1.0, 0).permuted(1, [0, 0, 1]), "permutation"),
        (lambda: Network.init([2, 3, 1], 0.0, 1.0, 0).permuted(2, [0]), "hidden layer"),
        (lambda: Network.init([2, 2, 2, 1], 0.0, 1.0, 0, skips=[0, 1, 0]).permuted(1, [1, 0]), "identity skip"),
        (lambda: Network.init([2, 3, 1], 0.0, 1.0, 0).rescaled(0), "factor"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


class TestFormerNames:
    """Published names that changed go on working, and say what to write instead."""

    def test_the_size_of_a_start(self) -> None:
        with pytest.warns(DeprecationWarning, match=r"Network\.init: the argument scale is now called init_scale"):
            former = Network.init([2, 3, 1], slope=0.0, scale=0.1, seed=0)
        now = Network.init([2, 3, 1], slope=0.0, init_scale=0.1, seed=0)
        for one, other in zip(former.weights, now.weights, strict=True):
            np.testing.assert_array_equal(one, other)
        with pytest.warns(DeprecationWarning, match="now called init_scale"):
            former = theory.closed_form(1.0, [1.0], [1.0], initial_norm=0.1, slope=0.0)
        np.testing.assert_array_equal(former, theory.closed_form(1.0, [1.0], [1.0], init_scale=0.1, slope=0.0))
        with pytest.raises(TypeError, match="init_scale twice"):
            Network.init([2, 3, 1], 0.0, scale=0.1, init_scale=0.1, seed=0)

    def test_times_come_first(self) -> None:
        data, start = datasets.symmetric_gaussian(dim=2, pairs=5, seed=0), Network.init([2, 4, 1], 0.0, 1e-3, 0)
        now = theory.theorem_13([0.0, 1.0], start, data, "square")
        for arguments, options in [
            ((start, data, [0.0, 1.0], "square"), {}),
            ((start, data), {"times": [0.0, 1.0], "loss": "square"}),
        ]:
            with pytest.warns(DeprecationWarning, match="times comes first now"):
                former = theory.theorem_13(*arguments, **options)
            for one, other in zip(former, now, strict=True):
                np.testing.assert_array_equal(one, other)
