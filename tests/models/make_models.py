"""Small ONNX files for the tests, written with a protocol-buffer writer of our own: run as a module to make them anew.

python -m tests.models.make_models
"""

import itertools
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "files"
FLOAT, INT64, FLOAT16, DOUBLE = 1, 7, 10, 11


def varint(value: int) -> bytes:
    value %= 2**64
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def tensor(name: str, values: np.ndarray, *, raw: bool = True, packed: bool = True) -> bytes:
    """A TensorProto, as raw bytes or in the typed field, packed or number by number."""
    values = np.asarray(values)
    kind = {"f4": FLOAT, "f8": DOUBLE, "i8": INT64, "f2": FLOAT16}[values.dtype.str[1:]]
    dims = field(1, b"".join(map(varint, values.shape))) if packed else b"".join(field(1, n) for n in values.shape)
    head = dims + field(2, kind) + field(8, name)
    if raw:
        return head + field(9, values.astype(values.dtype.newbyteorder("<")).tobytes())
    if kind == INT64:
        return head + field(7, b"".join(varint(int(n)) for n in values.flat))
    place, wire = (4, 5) if kind == FLOAT else (10, 1)
    little = values.astype(values.dtype.newbyteorder("<"))
    if packed:
        return head + field(place, little.tobytes())
    return head + b"".join(varint(place << 3 | wire) + number.tobytes() for number in little.reshape(-1))


def attribute(name: str, value: float | int | bytes | list[int]) -> bytes:
    if isinstance(value, bytes):
        return field(5, field(1, name) + field(5, value) + field(20, 4))
    if isinstance(value, list):
        return field(5, field(1, name) + b"".join(field(8, n) for n in value) + field(20, 7))
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value) + field(20, 2))
    return field(5, field(1, name) + varint(2 << 3 | 5) + np.float32(value).tobytes() + field(20, 1))


def node(operator: str, inputs: list[str], outputs: list[str], **attributes: float | int | bytes | list[int]) -> bytes:
    text = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    return text + field(4, operator) + b"".join(attribute(name, value) for name, value in attributes.items())


def value_info(name: str, kind: int, *shape: int | str) -> bytes:
    dims = b"".join(field(1, field(1, n) if isinstance(n, int) else field(2, n)) for n in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def graph(nodes: list[bytes], stored: list[bytes], inputs: list[bytes], outputs: list[bytes]) -> bytes:
    parts = [(1, nodes), (5, stored), (11, inputs), (12, outputs)]
    return b"".join(field(number, each) for number, group in parts for each in group) + field(2, "chain")


def model(graph_bytes: bytes, opset: int = 17) -> bytes:
    return field(1, 8) + field(7, graph_bytes) + field(8, field(1, "") + field(2, opset))


def chain(
    weights: list[np.ndarray],
    slopes: list[float],
    biases: list[np.ndarray | None] | None = None,
    *,
    gemm: bool = False,
    raw: bool = True,
) -> bytes:
    """A fully connected chain, as MatMul (+ Add) or as Gemm with transB."""
    kind = {"f4": FLOAT, "f8": DOUBLE}[weights[0].dtype.str[1:]]
    nodes, stored, current = [], [], "x"
    for i, weight in enumerate(weights, 1):
        bias = None if biases is None else biases[i - 1]
        names = [current, f"W{i}"]
        stored.append(tensor(f"W{i}", weight if gemm else np.ascontiguousarray(weight.T), raw=raw, packed=raw))
        if bias is not None:
            stored.append(tensor(f"b{i}", bias, raw=raw))
        if gemm:
            nodes.append(node("Gemm", [*names, f"b{i}"] if bias is not None else names, [f"h{i}"], transB=1))
        else:
            nodes.append(node("MatMul", names, [f"h{i}" if bias is None else f"m{i}"]))
            if bias is not None:
                nodes.append(node("Add", [f"m{i}", f"b{i}"], [f"h{i}"]))
        current = f"h{i}"
        if i < len(weights) and slopes[i - 1] != 1:
            slope = slopes[i - 1]
            extra = {} if slope == 0 else {"alpha": slope}
            nodes.append(node("LeakyRelu" if slope else "Relu", [current], [f"z{i}"], **extra))
            current = f"z{i}"
    dim, outputs = weights[0].shape[1], weights[-1].shape[0]
    return model(graph(nodes, stored, [value_info("x", kind, "n", dim)], [value_info(current, kind, "n", outputs)]))


def examples() -> dict[str, tuple[bytes, list[np.ndarray], list[float], list[np.ndarray | None]]]:
    """Name → file, weights, slopes, biases; drawn from one seed."""
    rng = np.random.default_rng(6)

    def drawn(widths: list[int], kind: str) -> list[np.ndarray]:
        return [rng.normal(size=(m, n)).astype(kind) for n, m in itertools.pairwise(widths)]

    made = {}
    two = drawn([3, 5, 1], "f8")
    made["two_layers_float64"] = (chain(two, [0.0]), two, [0.0], [None, None])
    deep = drawn([4, 6, 5, 2], "f4")
    made["three_layers_float32"] = (chain(deep, [0.0, 0.0], gemm=True), deep, [0.0, 0.0], [None] * 3)
    biased = drawn([3, 4, 2], "f8")
    shifts: list[np.ndarray | None] = [rng.normal(size=4), rng.normal(size=2)]
    made["biases_float64"] = (chain(biased, [0.0], shifts), biased, [0.0], shifts)
    gemm: list[np.ndarray | None] = [b.astype("f4") for b in (rng.normal(size=4), rng.normal(size=2))]
    single = drawn([3, 4, 2], "f4")
    made["gemm_biases_float32"] = (chain(single, [0.0], gemm, gemm=True), single, [0.0], gemm)
    leaky = drawn([3, 5, 4, 1], "f4")
    made["leaky_float32"] = (chain(leaky, [0.25, 1.0], raw=False), leaky, [0.25, 1.0], [None] * 3)
    typed = drawn([2, 3, 1], "f8")
    made["typed_fields_float64"] = (chain(typed, [0.0], raw=False), typed, [0.0], [None, None])
    return made


def linear_example() -> bytes:
    """Five hidden neurons whose kinks cancel: f(x) = 3x₁ − x₂ in exact arithmetic and in float64."""
    first = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.0, 0.0]])
    return chain([first, np.array([[3.0, -3.0, -0.5, 0.5, 7.0]])], [0.0])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (data, *_) in examples().items():
        (FOLDER / f"{name}.onnx").write_bytes(data)
    (FOLDER / "linear_float64.onnx").write_bytes(linear_example())


if __name__ == "__main__":
    main()
