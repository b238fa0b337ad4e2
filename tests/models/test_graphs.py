"""Graphs of every operation, built with onnx's own helpers, are computed as onnxruntime computes them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import biasfree as bf
from biasfree.models import Graph, read
from biasfree.models import _operations as ops
from tests.models.make_models import FOLDER

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
rng = np.random.default_rng(0)


def drawn(*shape):
    return rng.normal(size=shape).astype("f4")


def written(path, nodes, stored, inputs, outputs=(None, None), opset=17):
    """A model of float32 from x (and noise, …) to y."""
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape]) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, str(path))
    return path


def ran(path, **inputs):
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


IMAGE = {"x": (2, 8, 8)}
four = (None, None, None, None)
CASES = {
    "conv with stride, padding and groups": (
        [("Conv", ["x", "W", "b"], ["y"], {"strides": [2, 1], "pads": [1, 0, 2, 1], "group": 2})],
        {"W": drawn(4, 1, 3, 3), "b": drawn(4)}, IMAGE, four,
    ),
    "conv dilated": ([("Conv", ["x", "W"], ["y"], {"dilations": [2, 2]})], {"W": drawn(3, 2, 3, 3)}, IMAGE, four),
    "conv same": (
        [("Conv", ["x", "W"], ["y"], {"auto_pad": "SAME_UPPER"})], {"W": drawn(3, 2, 4, 3)}, IMAGE, four,
    ),
    "conv 1d": (
        [("Conv", ["x", "W"], ["y"], {"strides": [2], "pads": [1, 1]})], {"W": drawn(3, 2, 3)}, {"x": (2, 9)},
        (None, None, None),
    ),
    "conv transposed": (
        [("ConvTranspose", ["x", "W", "b"], ["y"],
          {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0], "group": 2})],
        {"W": drawn(2, 3, 3, 3), "b": drawn(6)}, IMAGE, four,
    ),
    "batch normalisation after a convolution": (
        [("Conv", ["x", "W"], ["c"]), ("BatchNormalization", ["c", "s", "b", "m", "v"], ["d"]), ("Relu", ["d"], ["y"])],
        {"W": drawn(3, 2, 3, 3), "s": drawn(3), "b": drawn(3), "m": drawn(3), "v": drawn(3) ** 2 + 1}, IMAGE, four,
    ),
    "batch normalisation of the input and after a transposed convolution": (
        [("BatchNormalization", ["x", "s", "b", "m", "v"], ["d"]), ("ConvTranspose", ["d", "W"], ["e"], {"group": 2}),
         ("BatchNormalization", ["e", "t", "t", "t", "u"], ["y"])],
        {"W": drawn(2, 2, 2, 2), "s": drawn(2), "b": drawn(2), "m": drawn(2), "v": drawn(2) ** 2 + 1, "t": drawn(4),
         "u": drawn(4) ** 2 + 1},
        IMAGE, four,
    ),
    "a skip, twice": (
        [("Gemm", ["x", "W", "b"], ["a"]), ("Relu", ["a"], ["r"]), ("Add", ["r", "x"], ["s"]),
         ("Sub", ["s", "a"], ["y"])],
        {"W": drawn(5, 5), "b": drawn(5)}, {"x": (5,)}, (None, None),
    ),
    "pooling": (
        [("MaxPool", ["x"], ["p"], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
         ("AveragePool", ["p"], ["q"], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
         ("AveragePool", ["q"], ["y"], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1})],
        {}, IMAGE, four,
    ),
    "global pooling and a classifier": (
        [("Conv", ["x", "W"], ["c"]), ("LeakyRelu", ["c"], ["l"], {"alpha": 0.2}), ("GlobalAveragePool", ["l"], ["g"]),
         ("Flatten", ["g"], ["f"]), ("Gemm", ["f", "V"], ["y"], {"transB": 1})],
        {"W": drawn(3, 2, 3, 3), "V": drawn(4, 3)}, IMAGE, (None, None),
    ),
    "concatenation, slopes per channel and casts": (
        [("PRelu", ["x", "a"], ["p"]), ("Cast", ["x"], ["c"], {"to": TensorProto.FLOAT}), ("Dropout", ["c"], ["d"]),
         ("Concat", ["p", "d"], ["e"], {"axis": 1}), ("Identity", ["e"], ["y"])],
        {"a": np.array([[[0.3]], [[-0.5]]], dtype="f4")}, IMAGE, four,
    ),
    "enlarged and padded": (
        [("Resize", ["x", "", "s"], ["r"], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                             "nearest_mode": "floor"}),
         ("Pad", ["r", "p"], ["y"], {"mode": "reflect"})],
        {"s": np.array([1, 1, 2, 3], dtype="f4"), "p": np.array([0, 0, 1, 2, 0, 0, 0, 1])}, IMAGE, four,
    ),
    "reshaped by shapes that are computed": (
        [("Shape", ["x"], ["s"]), ("Gather", ["s", "i"], ["n"]), ("Concat", ["n", "m"], ["t"], {"axis": 0}),
         ("Reshape", ["x", "t"], ["r"]), ("MatMul", ["r", "W"], ["y"])],
        {"i": np.array([0]), "m": np.array([-1]), "W": drawn(128, 3)}, IMAGE, (None, None),
    ),
    "transposed, reduced and scaled": (
        [("Transpose", ["x"], ["t"], {"perm": [0, 2, 3, 1]}),
         ("ReduceMean", ["t"], ["m"], {"axes": [2], "keepdims": 0}),
         ("Mul", ["m", "k"], ["u"]), ("Div", ["u", "k2"], ["w"]), ("Neg", ["w"], ["y"])],
        {"k": drawn(1, 8, 1), "k2": np.array(3.0, dtype="f4")}, IMAGE, (None, None, None),
    ),
    "smooth ones": (
        [("Gemm", ["x", "W"], ["a"]), ("Tanh", ["a"], ["t"]), ("Sigmoid", ["a"], ["s"]), ("Mul", ["t", "s"], ["m"]),
         ("LayerNormalization", ["m", "g", "b"], ["l"]), ("Softmax", ["l"], ["y"])],
        {"W": drawn(5, 5), "g": drawn(5), "b": drawn(5)}, {"x": (5,)}, (None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_agrees_on_every_operation(name, tmp_path) -> None:
    nodes, stored, inputs, out = CASES[name]
    path = written(tmp_path / "m.onnx", nodes, stored, inputs, out)
    found = read(path)
    assert not found.left_out
    values = {key: drawn(4, *shape) for key, shape in inputs.items()}
    theirs = ran(path, **values)
    ours = found(*values.values())
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= 1e-5 * max(1.0, np.abs(theirs).max())
    shifting = any("BatchNormalization" in n[0] or "b" in n[1] for n in nodes)
    assert found.bias_free is not shifting


def test_batch_normalisation_is_folded_and_its_shift_is_told(tmp_path) -> None:
    nodes, stored, inputs, out = CASES["batch normalisation after a convolution"]
    found = read(written(tmp_path / "m.onnx", nodes, stored, inputs, out))
    assert [type(node.operation) for node in found.nodes] == [ops.Conv, ops.Activation]
    assert any("BatchNorm" in note and "its shift is a bias" in note for note in found.notes)
    # Without mean and shift it is a factor, and the network stays bias-free.
    zeros = {**stored, "b": np.zeros(3, dtype="f4"), "m": np.zeros(3, dtype="f4")}
    assert read(written(tmp_path / "z.onnx", nodes, zeros, inputs, out)).bias_free


@pytest.mark.parametrize("name", ["denoiser", "residual", "unet"])
def test_networks_of_torchs_exporter(name) -> None:
    path = FOLDER / f"{name}.onnx"
    found = read(path)
    image = drawn(3, 1, 12, 16)
    inputs = [image] if name != "unet" else [image, np.abs(drawn(3, 1, 12, 16))]
    theirs = ran(path, **{port.name: value for port, value in zip(found.ports, inputs, strict=True)})
    assert np.abs(found(*inputs) - theirs).max() < 1e-5
    assert found.bias_free is (name != "residual")
    assert found.layers is None


def test_external_data_of_torchs_default_exporter(tmp_path) -> None:
    found = read(FOLDER / "external.onnx")
    inputs = drawn(5, 10)
    name = found.ports[0].name
    assert np.abs(found(inputs) - ran(FOLDER / "external.onnx", **{name: inputs})).max() < 1e-5
    assert found.layers.widths == (10, 64, 8)
    (tmp_path / "external.onnx").write_bytes((FOLDER / "external.onnx").read_bytes())
    with pytest.raises(ValueError, match="keep both files together"):
        read(tmp_path / "external.onnx")
    (tmp_path / "external.onnx.data").write_bytes(b"short")
    with pytest.raises(ValueError, match="cannot read external"):
        read(tmp_path / "external.onnx")


def test_scikit_learn_through_skl2onnx(tmp_path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from sklearn.neural_network import MLPRegressor

    x = drawn(200, 3)
    fitted = MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=30, random_state=0).fit(x, x @ [1.0, -2.0, 0.5])
    kind = skl2onnx.common.data_types.FloatTensorType([None, 3])
    path = tmp_path / "m.onnx"
    path.write_bytes(skl2onnx.convert_sklearn(fitted, initial_types=[("x", kind)]).SerializeToString())
    found = bf.inspect(path, x)
    assert found.layers.widths == (3, 8, 6, 1)
    assert not found.bias_free
    theirs = ran(path, x=x)
    assert np.abs(found.graph(x).reshape(-1) - theirs.reshape(-1)).max() < 1e-5
    np.testing.assert_allclose(found.graph(x).reshape(-1), fitted.predict(x), atol=1e-4)


def test_what_is_not_known_is_left_out_and_said(tmp_path) -> None:
    nodes = [
        ("Gemm", ["x", "W"], ["a"]),
        ("Relu", ["a"], ["r"]),
        ("Gemm", ["r", "V"], ["c"]),
        ("Hardmax", ["c"], ["y"]),
    ]
    path = written(tmp_path / "m.onnx", nodes, {"W": drawn(3, 4), "V": drawn(4, 2)}, {"x": (3,)})
    found = bf.inspect(path)
    assert found.layers.widths == (3, 4, 2)
    assert "Hardmax" in found.left_out[0]
    assert "as far as it was looked at" in found.headline
    assert "What was left out" in str(found)
    with pytest.raises(ValueError, match=r"Hardmax.*no layer of weights"):
        read(written(tmp_path / "n.onnx", [("Hardmax", ["x"], ["y"])], {}, {"x": (3,)}))


def test_a_network_with_skips_over_several_layers_is_a_graph() -> None:
    network = bf.Network.init([3, 3, 3, 3, 2], 0.2, 1.0, 0, skips=[0, 2, 0, 0], rectified=[True, False, True])
    x = rng.normal(size=(20, 3))
    found = Graph.from_network(network)
    np.testing.assert_allclose(found(x), np.asarray(network(x)), atol=1e-14)
    assert found.layers is None
    assert found.homogeneous


def test_shapes_that_do_not_fit_are_told() -> None:
    found = read(FOLDER / "denoiser.onnx")
    with pytest.raises(ValueError, match="data have shape"):
        found(np.zeros((2, 3, 8, 8)))
    with pytest.raises(ValueError, match="takes 2 inputs"):
        read(FOLDER / "unet.onnx")(np.zeros((2, 1, 8, 8)))
    with pytest.raises(ValueError, match="does not take inputs of shape"):
        read(FOLDER / "unet.onnx").shapes((np.zeros((1, 1, 7, 8)), np.zeros((1, 1, 7, 8))))


def test_layers_written_as_onnx_are_read_again_and_run(tmp_path) -> None:
    network = bf.Network.init([3, 5, 4, 1], 0.25, 1.0, 0, rectified=[True, False])
    layers = read(network).layers
    layers.save(tmp_path / "m.onnx")
    x = rng.normal(size=(20, 3))
    np.testing.assert_allclose(read(tmp_path / "m.onnx")(x), layers(x), atol=1e-14)
    relu = read(bf.Network.init([3, 5, 2], 0.0, 1.0, 0)).layers
    relu.save(tmp_path / "r.onnx")
    np.testing.assert_allclose(ran(tmp_path / "r.onnx", x=x), relu(x), atol=1e-13)
