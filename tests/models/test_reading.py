"""Models are read as they are run by onnxruntime and PyTorch, and as they were written."""

import json

import numpy as np
import pytest

import biasfree as bf
from biasfree.inspection import inspect
from biasfree.models._reading import read
from tests.models import make_models
from tests.models.make_models import FOLDER, graph, model, node, tensor, value_info

EXAMPLES = make_models.examples()
NAMES = sorted(EXAMPLES)


def outputs(weights, slopes, biases, inputs):
    """The definition, written out once more."""
    z = inputs
    for k, weight in enumerate(weights):
        z = z @ weight.astype(float).T + (0.0 if biases[k] is None else biases[k].astype(float))
        if k < len(weights) - 1:
            z = np.maximum(z, 0) + slopes[k] * np.minimum(z, 0)
    return z


@pytest.fixture
def written(tmp_path):
    def write(data: bytes, name: str = "model.onnx"):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_files_are_read_as_they_were_written(name) -> None:
    data, weights, slopes, biases = EXAMPLES[name]
    assert (FOLDER / f"{name}.onnx").read_bytes() == data
    found = read(FOLDER / f"{name}.onnx")
    inputs = np.random.default_rng(0).normal(size=(50, weights[0].shape[1]))
    expected = outputs(weights, slopes, biases, inputs)
    np.testing.assert_allclose(found(inputs), expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    assert found.bias_free == all(b is None for b in biases)
    assert found.layers.slopes == tuple(slopes)


@pytest.mark.parametrize("name", NAMES)
def test_onnxruntime_agrees(name) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = FOLDER / f"{name}.onnx"
    kind, allowed = (np.float64, 1e-12) if name.endswith("float64") else (np.float32, 1e-5)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = read(path)
    inputs = np.random.default_rng(1).normal(size=(200, found.layers.widths[0])).astype(kind)
    (theirs,) = session.run(None, {"x": inputs})
    ours = found(inputs.astype(float))
    assert np.abs(ours - theirs).max() <= allowed * np.abs(theirs).max()


def test_the_onnx_package_finds_our_files_valid() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    for path in sorted(FOLDER.glob("*.onnx")):
        onnx.checker.check_model(onnx.load(path))


def test_operators_beyond_the_plain_chain(written) -> None:
    """Constants, transposed weights, alpha and beta, Identity, Flatten, Reshape, activations and biases at the ends."""
    rng = np.random.default_rng(0)
    first, second, bias = rng.normal(size=(4, 3)), rng.normal(size=(2, 4)), rng.normal(size=4)
    nodes = [
        node("Constant", [], ["c"], value=tensor("", bias)),
        node("Transpose", ["W1"], ["W1t"], perm=[1, 0]),
        node("Flatten", ["x"], ["x0"]),
        node("Identity", ["x0"], ["x1"]),
        node("Gemm", ["x1", "W1t", "c"], ["h"], alpha=2.0, beta=0.5),
        node("Relu", ["h"], ["z"]),
        node("Reshape", ["z", "shape"], ["z1"]),
        node("LeakyRelu", ["z1"], ["z2"], alpha=0.5),
        node("MatMul", ["z2", "W2"], ["o"]),
        node("Add", ["one", "o"], ["o1"]),
        node("LeakyRelu", ["o1"], ["y"], alpha=0.5),
    ]
    stored = [
        tensor("W1", first), tensor("W2", np.ascontiguousarray(second.T)), tensor("one", np.array(1.0)),
        tensor("shape", np.array([-1, 4])),
    ]  # fmt: skip
    path = written(model(graph(nodes, stored, [value_info("x", 11, "n", 3, 1)], [value_info("y", 11, "n", 2)])))
    found = read(path)
    x = rng.normal(size=(20, 3))
    z = np.maximum(2 * x @ first.T + 0.5 * bias, 0) @ second.T + 1.0
    np.testing.assert_allclose(found(x), np.where(z > 0, z, 0.5 * z), atol=1e-14 * 100)
    assert any("flattened" in note for note in found.notes)
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    reference = pytest.importorskip("onnx.reference", reason="onnx has no reference runtime")
    (theirs,) = reference.ReferenceEvaluator(onnx.load(path)).run(None, {"x": x[:, :, None]})
    np.testing.assert_allclose(found(x), theirs, atol=1e-12)


def test_activation_and_bias_before_any_matrix(written) -> None:
    weight = np.array([[1.0, -2.0]])
    nodes = [
        node("Relu", ["x"], ["a"]), node("Add", ["a", "c"], ["b"]), node("Relu", ["b"], ["d"]),
        node("MatMul", ["d", "W"], ["y"]),
    ]  # fmt: skip
    stored = [tensor("c", np.array([-1.0, 0.5])), tensor("W", weight.T.copy())]
    found = read(written(model(graph(nodes, stored, [value_info("x", 11, "n", 2)], [value_info("y", 11, "n", 1)]))))
    x = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(found(x), np.maximum(np.maximum(x, 0) + np.array([-1.0, 0.5]), 0) @ weight.T, atol=1e-15)


def test_a_linear_onnx_file_is_found_linear() -> None:
    found = inspect(FOLDER / "linear_float64.onnx")
    assert (found.bias_free, found.homogeneous, found.linear) == (True, True, True)
    np.testing.assert_array_equal(found.linear_map, [3.0, -1.0])
    assert found.certified_bound <= 1e-12
    assert found.neurons_after_merging == 2


# safetensors and NPZ


def test_safetensors_by_hand_with_a_header_that_looks_like_a_pickle(tmp_path) -> None:
    """A header of 640 bytes begins with the two bytes that a pickle of protocol 2 begins with."""
    entries = {
        "W1": {"dtype": "F64", "shape": [2, 1], "data_offsets": [0, 16]},
        "W2": {"dtype": "F64", "shape": [1, 2], "data_offsets": [16, 32]},
    }
    header = json.dumps(entries).encode().ljust(640)
    numbers = np.array([1.0, -1.0, 2.0, -2.0]).tobytes()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + numbers)
    found = inspect(tmp_path / "m.safetensors")
    assert found.linear is True
    assert found.linear_map.tolist() == [2.0]
    assert any("ReLU is taken" in note for note in found.graph.notes)


def test_npz_with_and_without_what_network_saves(tmp_path) -> None:
    network = bf.Network.init([3, 5, 4, 1], 0.2, 1.0, 0, rectified=[True, False])
    network.save(tmp_path / "n.npz")
    found = read(tmp_path / "n.npz")
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(found(x)[:, 0], np.asarray(network(x)), atol=1e-14)
    assert found.layers.slopes == (0.2, 1.0)
    rng = np.random.default_rng(1)
    w1, w2, b1 = rng.normal(size=(4, 3)).astype("f4"), np.asfortranarray(rng.normal(size=(1, 4))), rng.normal(size=4)
    np.savez_compressed(tmp_path / "b.npz", W1=w1, W2=w2, b1=b1, note=np.array(1))
    biased = read(tmp_path / "b.npz")
    np.testing.assert_allclose(biased(x), np.maximum(x @ w1.astype(float).T + b1, 0) @ w2.T, atol=1e-14)
    assert not biased.bias_free
    assert any("note" in note for note in biased.notes)
    skipping = bf.Network.init([3, 3, 1], 0.0, 1.0, 0, skips=[1, 0])
    skipping.save(tmp_path / "s.npz")
    np.testing.assert_allclose(read(tmp_path / "s.npz")(x)[:, 0], np.asarray(skipping(x)), atol=1e-14)


def test_zero_biases_are_none(tmp_path) -> None:
    np.savez(tmp_path / "z.npz", W1=np.eye(2), W2=np.ones((1, 2)), b1=np.zeros(2))
    found = inspect(tmp_path / "z.npz")
    assert found.bias_free
    assert "all of them are zero" in str(found)


def test_numbers_packed_and_one_by_one_are_read_the_same(written) -> None:
    values = np.arange(6.0).reshape(2, 3)
    for raw, packed in [(True, True), (False, True), (False, False)]:
        stored = [tensor("W", values.T.copy(), raw=raw, packed=packed)]
        data = model(
            graph(
                [node("MatMul", ["x", "W"], ["y"])],
                stored,
                [value_info("x", 11, "n", 3)],
                [value_info("y", 11, "n", 2)],
            )
        )
        np.testing.assert_array_equal(read(written(data)).layers.weights[0], values)
