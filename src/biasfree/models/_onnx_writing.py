"""Layers as an ONNX file: one Gemm per layer, Relu or LeakyRelu between them, everything in float64."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biasfree import checks, files

if TYPE_CHECKING:
    from biasfree.models._layers import Layers

_OPSET, _IR = 17, 8


def write_onnx(layers: "Layers", target: Path) -> None:
    """Write the network, whole or not at all; it takes any number of samples.

    Slopes other than 0 are written as PRelu: that of LeakyRelu is a float32 in the format.
    """
    checks.installed("onnx", extra="onnx", what="writing ONNX")
    from onnx import TensorProto, checker, helper, numpy_helper, save

    nodes, stored, current = [], [], "x"
    for k, weight in enumerate(layers.weights, 1):
        last = k == layers.depth
        names = [current, f"W{k}"]
        stored.append(numpy_helper.from_array(np.ascontiguousarray(weight), f"W{k}"))
        bias = layers.biases[k - 1]
        if bias is not None:
            names.append(f"b{k}")
            stored.append(numpy_helper.from_array(np.ascontiguousarray(bias), f"b{k}"))
        current = "y" if last else f"h{k}"
        nodes.append(helper.make_node("Gemm", names, [current], transB=1))
        slope = 1.0 if last else layers.slopes[k - 1]
        if slope == 0:
            nodes.append(helper.make_node("Relu", [current], [f"z{k}"]))
            current = f"z{k}"
        elif slope != 1:
            stored.append(numpy_helper.from_array(np.array([slope]), f"a{k}"))
            nodes.append(helper.make_node("PRelu", [current, f"a{k}"], [f"z{k}"]))
            current = f"z{k}"
    kind = TensorProto.DOUBLE
    graph = helper.make_graph(
        nodes, "biasfree",
        [helper.make_tensor_value_info("x", kind, ["samples", layers.widths[0]])],
        [helper.make_tensor_value_info("y", kind, ["samples", layers.widths[-1]])],
        stored,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    model.producer_name = "biasfree"
    checker.check_model(model)
    with files.written_whole(target) as draft:
        save(model, str(draft))
