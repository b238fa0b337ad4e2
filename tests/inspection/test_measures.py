"""What inspect measures, against definitions written out, differences and closed forms."""

import numpy as np
import pytest

import biasfree as bf
from biasfree.inspection import _colouring, inspect
from biasfree.inspection._function import BlackBox, ChainFunction, GraphFunction
from biasfree.inspection._local_maps import decomposed
from biasfree.inspection._points import Points, given
from biasfree.models import Layers, read
from tests.models.make_models import FOLDER

rng = np.random.default_rng(0)


def images(count=6, size=12, noise=0.1):
    y, x = np.mgrid[:size, :size] / size
    made = [0.5 + 0.3 * x + 0.4 * ((x - a) ** 2 + (y - b) ** 2 < 0.06) for a, b in rng.uniform(0.3, 0.7, (count, 2))]
    return np.stack(made)[:, None] + noise * rng.normal(size=(count, 1, size, size))


def points_of(name, count=6, size=12):
    graph = read(FOLDER / f"{name}.onnx")
    x = images(count, size)
    data = x if name != "unet" else (x, np.full_like(x, 0.1))
    return graph, given(data, graph.ports)


@pytest.mark.parametrize("name", ["denoiser", "residual", pytest.param("unet", marks=pytest.mark.slow)])
def test_local_maps_are_derivatives(name) -> None:
    """By few products, all at once, one by one from the left, and by differences of values."""
    graph, points = points_of(name)
    function, one = GraphFunction(graph), points[[2]]
    found = function.jacobian(one)
    dim = one.x.shape[1]
    plan = _colouring.plan(graph, graph.shapes(one.values))
    assert plan is not None
    if name != "unet":
        assert plan.products == 49  # three kernels of 3 see 7 pixels
    every = function.from_one(one, np.eye(dim)).T
    np.testing.assert_allclose(found, every, atol=1e-14)
    np.testing.assert_allclose(function.back_to_one(one, np.eye(dim)[:9]), every[:9], atol=1e-14)
    step = 1e-7
    for pixel in (0, 50, dim - 1):
        moved = np.zeros(dim)
        moved[pixel] = step
        shaped = moved.reshape(1, *one.shape)
        ahead, behind = (Points((one.values[0] + s * shaped, *one.values[1:])) for s in (1, -1))
        slope = (function(ahead) - function(behind))[0] / (2 * step)
        np.testing.assert_allclose(found[:, pixel], slope, atol=1e-7)


def test_bias_free_graphs_are_homogeneous_and_biased_ones_are_not() -> None:
    _, points = points_of("denoiser")
    free = inspect(FOLDER / "denoiser.onnx", points.values[0])
    assert free.homogeneous is True
    assert free.homogeneity.error < 1e-13
    assert free.homogeneity.net_bias < 1e-13
    assert free.linear is False
    x = points.values[0]
    biased = inspect(FOLDER / "residual.onnx", x)
    assert biased.homogeneous is False
    assert biased.bias_free is False
    # By its definition: f(x) − A_x x.
    function = GraphFunction(biased.graph)
    net = [function(points[[i]])[0] - function.jacobian(points[[i]]) @ points.x[i] for i in range(len(points))]
    whole = function(points)
    assert biased.homogeneity.net_bias == pytest.approx(np.linalg.norm(net) / np.linalg.norm(whole), rel=1e-9)
    worst = max(
        np.linalg.norm(biased.graph(c * x) / c - biased.graph(x)) / np.linalg.norm(whole) for c in (1e-3, 1.0, 1e3)
    )
    assert biased.homogeneity.error == pytest.approx(worst, rel=1e-9)


def test_a_noise_map_is_scaled_only_on_request() -> None:
    # Of the shape that the command line's test has: what compiles longest is compiled once for both.
    _, points = points_of("unet", count=3, size=8)
    names = ("x", "noise")
    data = dict(zip(names, points.values, strict=True))
    alone = inspect(FOLDER / "unet.onnx", data)
    assert alone.homogeneous is False
    assert alone.homogeneity.error > 1
    together = inspect(FOLDER / "unet.onnx", points.values, jointly=True)
    assert together.homogeneous is True
    assert together.homogeneity.error < 1e-12
    assert together.homogeneity.net_bias < 1e-13
    assert "jointly" in str(together)
    with pytest.raises(ValueError, match="lack 'noise'"):
        inspect(FOLDER / "unet.onnx", {"x": points.values[0]})
    with pytest.raises(ValueError, match="takes 2 inputs"):
        inspect(FOLDER / "unet.onnx", points.values[0])


def test_the_linear_share_is_that_of_samples_left_out() -> None:
    network = bf.Network.init([4, 9, 2], 0.1, 2.0, 0)
    x = rng.normal(size=(40, 4))
    found = inspect(network, x).share
    f = np.asarray(network(x))
    rest = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        rest.append(f[i] - np.linalg.lstsq(x[others], f[others], rcond=None)[0].T @ x[i])
    assert found.share == pytest.approx(1 - (np.square(rest).sum() / np.square(f).sum()), rel=1e-10)
    sizes = np.linalg.norm(rest, axis=1)
    assert found.worst_sample == np.argmax(sizes)
    np.testing.assert_allclose(found.per_sample, 1 - (sizes / np.linalg.norm(f, axis=1)) ** 2, rtol=1e-8)
    np.testing.assert_allclose(found.linear_map, np.linalg.lstsq(x, f, rcond=None)[0].T, atol=1e-12)
    # Held out means held out: more noise dimensions than samples say nothing, and in-sample would say everything.
    wide = inspect(lambda z: np.abs(z[:, 0]), rng.normal(size=(30, 29)))
    assert wide.share.share < 0.5 < 1 - wide.share.in_sample**2


def test_few_images_are_judged_by_the_others_local_maps() -> None:
    """A network with a linear map inside: the local maps are that map, and predict held-out images exactly."""
    graph, points = points_of("denoiser")
    found = inspect(FOLDER / "denoiser.onnx", points.values[0]).share
    assert "mean of 6 local maps" in found.method
    function = GraphFunction(graph)
    maps = [function.jacobian(points[[i]]) for i in range(6)]
    f = function(points)
    rest = [f[i] - np.mean([maps[j] for j in range(6) if j != i], axis=0) @ points.x[i] for i in range(6)]
    assert found.share == pytest.approx(1 - np.square(rest).sum() / np.square(f).sum(), rel=1e-9)


def test_singular_values_ranks_and_variation() -> None:
    layers = Layers.of([rng.normal(size=(6, 4)), rng.normal(size=(4, 6))], None, [0.0])
    x = rng.normal(size=(12, 4))
    found = inspect(layers, x).local
    maps = [layers.weights[1] @ np.diag((layers.weights[0] @ row > 0).astype(float)) @ layers.weights[0] for row in x]
    for each in found.maps:
        matrix = maps[each.sample]
        values = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(each.singular_values, values, atol=1e-12)
        shares = values[values > 1e-14] / values.sum()
        assert each.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-6)
        assert each.asymmetry == pytest.approx(np.linalg.norm(matrix - matrix.T) / 2 / np.linalg.norm(matrix))
    mean = np.mean(maps, axis=0)
    expected = np.sqrt(sum(np.square(m - mean).sum() for m in maps) / sum(np.square(m).sum() for m in maps))
    assert found.variation == pytest.approx(expected)
    linear = inspect(bf.Network.init([3, 5, 3], 1.0, 1.0, 0), rng.normal(size=(10, 3))).local
    assert linear.variation < 1e-14


def test_large_maps_go_by_their_square_with_a_stated_resolution(monkeypatch) -> None:
    from biasfree.inspection import _local_maps

    values = np.concatenate([[3.0, 2.0], np.logspace(0, -12, 38)])
    turn, other = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (40, 55))
    matrix = turn * values @ other[:40]
    monkeypatch.setattr(_local_maps, "_BY_SQUARE", 10)
    for given_matrix in (matrix, matrix.T):
        found, resolution, left, right = decomposed(given_matrix)
        assert 1e-8 < resolution < 1e-6
        kept = values > 2 * resolution
        np.testing.assert_allclose(found[: kept.sum()], values[kept], atol=resolution)
        assert (found[values < resolution / 2] == 0).all()
        np.testing.assert_allclose(given_matrix @ right[:, :3], left[:, :3] * found[:3], atol=1e-7)


@pytest.mark.parametrize("kind", ["symmetric", "sparse", "sparse and symmetric", "sparse and wide"])
def test_structure_of_large_maps_changes_no_singular_value(kind, monkeypatch) -> None:
    from biasfree.inspection import _local_maps

    monkeypatch.setattr(_local_maps, "_BY_SQUARE", 10)
    # A start of ones would never see odd eigenvectors; these come in pairs of opposite sign as well.
    matrix = rng.normal(size=(80, 120 if kind.endswith("wide") else 80))
    if kind.startswith("sparse"):
        matrix = np.where(np.abs(np.subtract.outer(np.arange(80), np.arange(matrix.shape[1]))) < 3, matrix, 0.0)
    if kind.endswith("symmetric"):
        matrix = matrix + matrix.T
        matrix = matrix - matrix[::-1, ::-1]
    found, resolution, left, right = decomposed(matrix)
    values = np.linalg.svd(matrix, compute_uv=False)
    assert bool(resolution < 1e-12 * values[0]) is kind.endswith("symmetric")
    np.testing.assert_allclose(found, values, atol=2 * resolution)
    np.testing.assert_allclose(matrix @ right, left * values[: right.shape[1]], atol=1e-7 * values[0])
    np.testing.assert_allclose(right.T @ right, np.eye(right.shape[1]), atol=1e-9)


def test_activation_patterns_against_signs() -> None:
    network = bf.Network.init([3, 7, 5, 1], 0.0, 2.0, 1)
    x = np.abs(rng.normal(size=(30, 3)))
    found = inspect(network, x).patterns
    first = x @ np.asarray(network.weights[0]).T
    second = np.maximum(first, 0) @ np.asarray(network.weights[1]).T
    for layer, h in zip(found.layers, (first, second), strict=True):
        on = h > 0
        assert (layer.dead, layer.always_active) == ((~on.any(0)).sum(), on.all(0).sum())
        assert layer.dead + layer.always_active + layer.switching == layer.units == h.shape[1]
        assert layer.active_share == pytest.approx(on.mean())
    assert found.distinct == len({tuple(row) for row in np.concatenate([first > 0, second > 0], axis=1).tolist()})
    channels = inspect(FOLDER / "denoiser.onnx", images()).patterns.layers[0]
    assert channels.channels
    assert channels.units == 8


# Any function


def test_a_function_is_inspected_by_its_values() -> None:
    network = bf.Network.init([4, 9, 2], 0.0, 2.0, 0)
    x = rng.normal(size=(60, 4))

    def plain(z):
        return np.asarray(network(z))

    found, known = inspect(plain, x), inspect(network, x)
    assert found.graph is None
    assert found.share.share == pytest.approx(known.share.share, rel=1e-9)
    assert found.homogeneity.error < 1e-12
    assert found.homogeneity.net_bias < 1e-8
    assert found.linear is False
    assert found.local.variation == pytest.approx(known.local.variation, rel=1e-6)
    np.testing.assert_allclose(found.local.maps[0].singular_values, known.local.maps[0].singular_values, rtol=1e-6)
    assert "only values are known" in str(found)
    found.to_dict()
    linear = inspect(lambda z: z @ np.array([1.0, -2.0, 0.5, 0.0]), x)
    assert linear.verdict == "linear in effect"
    assert linear.share.distance < 1e-12


def test_functions_of_images_of_float32_and_of_bad_manners() -> None:
    x = images()
    blur = inspect(lambda z: ((z + np.roll(z, 1, axis=2)) / 2).astype(np.float32), x)
    assert blur.share.distance < 1e-5
    assert blur.local.variation < 1e-3
    with pytest.raises(ValueError, match="needs inputs"):
        inspect(lambda z: z)
    with pytest.raises(ValueError, match="one output per sample"):
        inspect(lambda z: z.sum(), x)
    with pytest.raises(ValueError, match="does not take inputs of shape"):
        inspect(lambda z: z @ np.ones((3, 3)), rng.normal(size=(5, 4)))
    with pytest.raises(ValueError, match="must be finite"):
        inspect(lambda z: np.inf * z, rng.normal(size=(5, 4)))
    with pytest.raises(ValueError, match="axis of samples"):
        inspect(lambda z: z, np.ones(4))


def test_the_three_kinds_of_function_agree() -> None:
    layers = Layers.of([rng.normal(size=(6, 4)), rng.normal(size=(3, 6))], [rng.normal(size=6), None], [0.2])
    points = given(rng.normal(size=(5, 4)), read(layers).ports)
    chain, graph = ChainFunction(layers), GraphFunction(read(layers))
    box = BlackBox(lambda z: layers(z), "layers")
    tangents = (rng.normal(size=(5, 4)),)
    for other, allowed in ((graph, 1e-13), (box, 1e-8)):
        np.testing.assert_allclose(other(points), chain(points), atol=1e-13)
        np.testing.assert_allclose(other.along(points, tangents), chain.along(points, tangents), atol=allowed)
        np.testing.assert_allclose(other.jacobian(points[[0]]), chain.jacobian(points[[0]]), atol=allowed)
        np.testing.assert_allclose(other.from_one(points[[1]], tangents[0]), chain.from_one(points[[1]], tangents[0]),
                                   atol=allowed)  # fmt: skip


def test_no_data_means_random_inputs_that_are_stated() -> None:
    found = inspect(FOLDER / "denoiser.onnx")
    assert "standard normal entries, seed 0" in str(found)
    assert found.points.shape == (1, 16, 16)
    assert found.on_data is False


def test_pictures_of_images(tmp_path) -> None:
    from biasfree import report

    found = inspect(FOLDER / "denoiser.onnx", images())
    kinds = [p.kind for s in found.sections for p in s.pictures]
    assert kinds == ["inspection", "filters"]
    figure = report.draw(found.sections[-1].pictures[1])
    assert len(figure.axes) == 8
    row = found.local.maps[0].matrix[6 * 12 + 6].reshape(12, 12)
    np.testing.assert_array_equal(np.asarray(figure.axes[1].images[0].get_array()), row)
    found.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text().count("data:image/png;base64") == 2


def test_too_few_samples_are_not_taken_for_an_answer() -> None:
    network = bf.Network.init([4, 9, 1], 0.0, 1.0, 0)
    one = inspect(network, rng.normal(size=(1, 4)))
    assert one.verdict == "not decided"
    assert "one sample only" in one.headline
    assert one.to_dict()["linear_share"]["share"] is None
    three = inspect(network, rng.normal(size=(3, 4)))
    assert not three.share.enough
    if three.verdict == "not linear":
        assert "as far as so few samples tell" in three.headline
    # A linear map is found from two samples of many dimensions, by its local maps.
    wide = rng.normal(size=(20, 20))
    assert inspect(lambda z: z @ wide, rng.normal(size=(2, 20))).verdict == "linear in effect"


def test_constants_and_zeros_are_told() -> None:
    x = rng.normal(size=(30, 4))
    shifted = inspect(lambda z: z @ np.array([1.0, 2.0, 0.0, 0.0]) + 10, x)
    assert "linear plus a constant" in shifted.headline
    assert shifted.linear is False
    assert "output is zero" in inspect(lambda z: np.zeros((len(z), 2)), x).headline
    absolute = bf.Network([[[1.0, 2.0], [-1.0, -2.0]], [[1.0, 1.0]]], 0.0)
    even = np.concatenate([x[:, :2], -x[:, :2]])
    assert "misses all of its output" in inspect(absolute, even).headline
