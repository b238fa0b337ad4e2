"""Broken and hostile files: exit code 2, one sentence, no traceback, no time and no memory lost."""

import io
import json
import pickle
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from biasfree import cli
from tests.models.make_models import (
    attribute,
    chain,
    field,
    graph,
    model,
    node,
    tensor,
    value_info,
    varint,
)  # fmt: skip

W1, W2 = np.arange(6.0).reshape(3, 2) - 2, np.array([[1.0, -1.0, 2.0]])
X, Y = value_info("x", 11, "n", 2), value_info("y", 11, "n", 1)
GOOD = chain([W1, W2], [0.0])


def onnx(nodes, stored=(), inputs=(X,), outputs=(Y,)) -> bytes:
    return model(graph(list(nodes), list(stored), list(inputs), list(outputs)))


def matmul(name="W", source="x", target="y") -> bytes:
    return node("MatMul", [source, name], [target])


def safetensors(entries, numbers=b"", length=None) -> bytes:
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + numbers


def npz(compression=zipfile.ZIP_STORED, **members) -> bytes:
    """An archive whose members are arrays, or bytes as they are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression, compresslevel=1) as archive:  # zeros shrink to a 200th, at once
        for name, content in members.items():
            if not isinstance(content, bytes):
                inner = io.BytesIO()
                np.save(inner, content)
                content = inner.getvalue()
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def npy(shape, kind="<f8", data=b"") -> bytes:
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def nested(depth: int) -> bytes:
    """A graph in an attribute of a node in a graph in an attribute …."""
    inner = b""
    for _ in range(depth):
        inner = graph([node("If", ["x"], ["y"]) + field(5, field(1, "then_branch") + field(6, inner))], [], [X], [Y])
    return model(inner)


def outside(location: str) -> bytes:
    """Weights said to lie in another file."""
    entry = field(13, field(1, "location") + field(2, location))
    return onnx([matmul()], [field(1, 2) + field(1, 1) + field(2, 11) + field(8, "W") + entry + field(14, 1)])


def lying_zip() -> bytes:
    """An archive that declares a small size for a member that unpacks to much more."""
    data = bytearray(npz(zipfile.ZIP_DEFLATED, W1=npy((1000, 1000), data=bytes(8_000_000)), W2=W2))
    for signature, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(signature)
        data[at + place : at + place + 4] = struct.pack("<I", 1000)
    return bytes(data)


BIG = 2**40
F64 = {"dtype": "F64", "shape": [3, 2], "data_offsets": [0, 48]}
W = tensor("W", np.ones((2, 1)))
PLAIN = {"W1": W1, "W2": W2}

CORPUS: dict[str, tuple[str, bytes]] = {
    # ONNX
    "empty": ("m.onnx", b""),
    "one byte": ("m.onnx", b"\x08"),
    "text": ("m.onnx", b"this is not a model\n" * 10),
    "zeros": ("m.onnx", bytes(1000)),
    "random bytes": ("m.onnx", np.random.default_rng(0).bytes(1000)),
    **{f"cut at {n}": ("m.onnx", GOOD[:n]) for n in (1, 3, 20, 60, 100, len(GOOD) // 2, len(GOOD) - 20, len(GOOD) - 1)},
    "no graph": ("m.onnx", field(1, 8)),
    "two graphs": ("m.onnx", GOOD + GOOD),
    "no operations": ("m.onnx", onnx([], [W])),
    "a length past the end": ("m.onnx", field(1, 8) + varint(7 << 3 | 2) + varint(BIG) + b"abc"),
    "an endless number": ("m.onnx", field(1, 8) + varint(7 << 3) + b"\xff" * 30),
    "wire type 3": ("m.onnx", varint(7 << 3 | 3) + b"\x00"),
    "field 0": ("m.onnx", b"\x00\x01"),
    "a number for a graph's node": ("m.onnx", model(field(1, 5))),
    "an operator nobody knows": ("m.onnx", onnx([node("FancyOp", ["x"], ["y"])])),
    "convolution": ("m.onnx", onnx([node("Conv", ["x", "W"], ["y"])], [W])),
    "another domain": ("m.onnx", onnx([matmul() + field(7, "com.example")], [W])),
    "a cycle": (
        "m.onnx", onnx([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], outputs=[value_info("b", 11)]),
    ),
    "a cycle off the path": (
        "m.onnx", onnx([matmul(), node("Relu", ["p"], ["q"]), node("Relu", ["q"], ["p"])], [W]),
    ),
    "two inputs": ("m.onnx", onnx([matmul()], [W], inputs=[X, value_info("x2", 11, "n", 2)])),
    "two outputs": ("m.onnx", onnx([matmul()], [W], outputs=[Y, value_info("y2", 11)])),
    "no input": ("m.onnx", onnx([matmul()], [W], inputs=[])),
    "an output nobody makes": ("m.onnx", onnx([matmul(target="z")], [W])),
    "a value made twice": ("m.onnx", onnx([matmul(), matmul()], [W])),
    "weights that are not there": ("m.onnx", onnx([matmul("V")])),
    "weights that are a vector": ("m.onnx", onnx([matmul()], [tensor("W", np.ones(2))])),
    "weights of whole numbers": ("m.onnx", onnx([matmul()], [tensor("W", np.ones((2, 1), dtype="i8"))])),
    "weights stored twice": ("m.onnx", onnx([matmul()], [W, W])),
    "weights in another file": (
        "m.onnx", onnx([matmul()], [field(1, 2) + field(2, 11) + field(8, "W") + field(14, 1)]),
    ),
    "weights outside the folder": ("m.onnx", outside("../secret.bin")),
    "weights at an absolute path": ("m.onnx", outside("/etc/hostname")),
    "weights of a file that is not there": ("m.onnx", outside("other.bin")),
    "sums of stored tensors that explode": (
        "m.onnx",
        onnx(
            [node("Add", ["p", "q"], ["r"]), matmul("r")],
            [tensor("p", np.ones((20_000, 1))), tensor("q", np.ones((1, 20_000)))],
        ),
    ),
    "sparse weights": ("m.onnx", model(graph([matmul()], [W], [X], [Y]) + field(15, b""))),
    "NaN": ("m.onnx", onnx([matmul()], [tensor("W", np.array([[1.0], [np.nan]]))])),
    "infinity": ("m.onnx", onnx([matmul()], [tensor("W", np.array([[1.0], [np.inf]]))])),
    "widths that do not chain": ("m.onnx", chain([W1, np.ones((1, 4))], [0.0])),
    "a bias of another length": (
        "m.onnx", onnx([matmul(target="a"), node("Add", ["a", "c"], ["y"])], [W, tensor("c", np.ones(5))]),
    ),
    "a bias per sample": (
        "m.onnx", onnx([matmul(target="a"), node("Add", ["a", "c"], ["y"])], [W, tensor("c", np.ones((5, 1)))]),
    ),
    "a huge declared shape": (
        "m.onnx", onnx([matmul()], [field(1, BIG) * 2 + field(2, 11) + field(8, "W") + field(9, bytes(16))]),
    ),
    "a negative shape": (
        "m.onnx", onnx([matmul()], [field(1, -2) + field(1, -1) + field(2, 11) + field(8, "W") + field(9, bytes(16))]),
    ),
    "a shape of a thousand dimensions": (
        "m.onnx", onnx([matmul()], [field(1, b"\x01" * 1000) + field(2, 11) + field(8, "W") + field(9, bytes(8))]),
    ),
    "deeply nested": ("m.onnx", nested(300)),
    "more nodes than sensible": (
        "m.onnx", onnx([matmul(target="a0"), *(node("Relu", [f"a{i}"], [f"a{i + 1}"]) for i in range(11_000))], [W]),
    ),
    "a million tiny fields": ("m.onnx", b"\x08\x01" * 1_000_000),
    "a slope that is NaN": (
        "m.onnx", onnx([matmul(target="a"), node("LeakyRelu", ["a"], ["y"], alpha=float("nan"))], [W]),
    ),
    "samples transposed": ("m.onnx", onnx([node("Gemm", ["x", "W"], ["y"], transA=1)], [W])),
    "multiplied from the left": ("m.onnx", onnx([node("MatMul", ["W", "x"], ["y"])], [W])),
    "a reshape of samples": (
        "m.onnx", onnx([matmul(target="a"), node("Reshape", ["a", "s"], ["y"])], [W, tensor("s", np.array([1, -1]))]),
    ),
    "a name that is no text": ("m.onnx", onnx([node("MatMul", ["x"], ["y"]) + field(1, b"\xff\xfe")], [W])),
    "attributes that are no tensor": ("m.onnx", onnx([node("Constant", [], ["W"]) + attribute("value", 1), matmul()])),
    # safetensors
    "too short": ("m.safetensors", b"\x01\x00"),
    "a header longer than the file": ("m.safetensors", safetensors({}, length=BIG)),
    "a header that is no JSON": ("m.safetensors", safetensors(b"{" + b"x" * 40)),
    "a header of brackets": ("m.safetensors", safetensors(b"{\"a\":" + b"[" * 200_000)),
    "a header that is a list": ("m.safetensors", safetensors(b"[1, 2, 3]")),
    "no tensors": ("m.safetensors", safetensors({})),
    "a name twice": ("m.safetensors", safetensors(b'{"W1": {}, "W1": {}}')),
    "overlapping tensors": (
        "m.safetensors",
        safetensors({"W1": F64, "W2": {"dtype": "F64", "shape": [1, 3], "data_offsets": [40, 64]}}, bytes(64)),
    ),
    "offsets out of range": ("m.safetensors", safetensors({"W1": {**F64, "data_offsets": [0, 4800]}}, bytes(48))),
    "offsets backwards": ("m.safetensors", safetensors({"W1": {**F64, "data_offsets": [48, 0]}}, bytes(48))),
    "a shape that does not fit": ("m.safetensors", safetensors({"W1": {**F64, "shape": [BIG, BIG]}}, bytes(48))),
    "a shape of texts": ("m.safetensors", safetensors({"W1": {**F64, "shape": ["3", "2"]}}, bytes(48))),
    "whole numbers": ("m.safetensors", safetensors({"W1": {**F64, "dtype": "I64"}}, bytes(48))),
    "a tensor named otherwise": ("m.safetensors", safetensors({"embedding": F64}, bytes(48))),
    "several chains": ("m.safetensors", safetensors({
        "a.0.weight": F64, "b.0.weight": {**F64, "data_offsets": [48, 96]}}, bytes(96))),
    "a slope that is no number": (
        "m.safetensors",
        safetensors({"__metadata__": {"slope": "steep"}, "W1": F64}, bytes(48)),
    ),
    # NPZ
    "not a zip": ("m.npz", b"W1 = [[1, 2]]"),
    "a cut archive": ("m.npz", npz(**PLAIN)[:-30]),
    "an archive cut in half": ("m.npz", npz(**PLAIN)[:200]),
    "no arrays": ("m.npz", npz()),
    "no W1": ("m.npz", npz(W2=W2)),
    "a gap": ("m.npz", npz(W1=W1, W3=W2)),
    "widths": ("m.npz", npz(W1=W1, W2=np.ones((1, 7)))),
    "NaN in an array": ("m.npz", npz(W1=W1 * np.nan, W2=W2)),
    "complex numbers": ("m.npz", npz(W1=W1 * 1j, W2=W2)),
    "text for weights": ("m.npz", npz(W1=np.array([["a", "b"]]), W2=W2)),
    "a vector for weights": ("m.npz", npz(W1=np.ones(3), W2=W2)),
    "an empty matrix": ("m.npz", npz(W1=np.zeros((0, 2)), W2=np.zeros((1, 0)))),
    "a bias of another size": ("m.npz", npz(**PLAIN, b1=np.ones(7))),
    "a slope outside": ("m.npz", npz(**PLAIN, slope=np.array(-0.5))),
    "slopes for other layers": ("m.npz", npz(**PLAIN, slopes=np.ones(5))),
    "objects, which are pickles": (
        "m.npz", npz(W1=npy((1,), "|O", pickle.dumps([1])), W2=W2),
    ),
    "a huge declared array": ("m.npz", npz(W1=npy((BIG, BIG)), W2=W2)),
    "a member that is no array": ("m.npz", npz(W1=b"hello", W2=W2)),
    "a size that lies": ("m.npz", lying_zip()),
    "a flipped byte": ("m.npz", npz(**PLAIN).replace(W2.tobytes(), W2[:, ::-1].tobytes())),
    # Pickles and wrong names
    "a pickle": ("m.pkl", pickle.dumps({"W1": [1.0]})),
    "a checkpoint": ("m.ckpt", b"anything"),
    "a torch file": ("m.pt", npz(**PLAIN)),
    "a pickle called ONNX": ("m.onnx", pickle.dumps({"W1": [1.0]})),
    "a pickle called safetensors": ("m.safetensors", pickle.dumps([1.0] * 50, protocol=4)),
    "NPZ called ONNX": ("m.onnx", npz(**PLAIN)),
    "ONNX called NPZ": ("m.npz", GOOD),
    "safetensors called ONNX": ("m.onnx", safetensors({"W1": F64}, bytes(48))),
    "no suffix": ("model", GOOD),
    "a text file": ("model.txt", b"W1"),
    "a single array": ("m.npy", npy((2,), data=bytes(16))),
}  # fmt: skip


# Networks that are no plain chains, and are read.
UNUSUAL: dict[str, tuple[str, bytes]] = {
    "softmax": ("m.onnx", onnx([matmul(target="a"), node("Softmax", ["a"], ["y"])], [W])),
    "a branch": (
        "m.onnx",
        onnx([matmul(target="a"), node("Relu", ["a"], ["b"]), node("Add", ["a", "b"], ["y"])], [W]),
    ),
    "weights of half precision": ("m.onnx", onnx([matmul()], [tensor("W", np.ones((2, 1), dtype="f2"))])),
    "a slope above one": (
        "m.onnx", onnx([matmul(target="a"), node("LeakyRelu", ["a"], ["y"], alpha=3.0)], [W]),
    ),
}  # fmt: skip


def torch_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps([1]))
        archive.writestr("archive/data/0", bytes(16))
    return stream.getvalue()


CORPUS["a torch archive called NPZ"] = ("m.npz", torch_zip())


@pytest.mark.parametrize("name", CORPUS)
def test_every_broken_file_gets_a_sentence(name, monkeypatch, capsys, tmp_path) -> None:
    file, data = CORPUS[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_bytes(data)
    monkeypatch.setattr(sys, "argv", ["biasfree", "inspect", file, "--compress", "out.npz"])
    begun = time.process_time()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (2, "")
    assert time.process_time() - begun < 5
    told = captured.err.strip()
    assert told.startswith("biasfree: ")
    assert "\n" not in told
    assert len(told) < 400
    assert told.endswith(".")
    assert not (tmp_path / "out.npz").exists()


def test_what_the_broken_files_are_made_from_is_read(monkeypatch, capsys, tmp_path) -> None:
    assert len(CORPUS) >= 40
    monkeypatch.chdir(tmp_path)
    for file, data in (*WHOLE.items(), *UNUSUAL.values()):
        (tmp_path / file).write_bytes(data)
        monkeypatch.setattr(sys, "argv", ["biasfree", "inspect", file])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, capsys.readouterr().err


PICKLES = ("a pickle", "a torch file", "a pickle called ONNX", "a torch archive called NPZ", "a checkpoint")


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_are_told_what_to_do_instead(name, tmp_path) -> None:
    from biasfree.inspection import inspect

    file, data = CORPUS[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(ValueError, match=r"pickle.*safetensors.*ONNX.*savez"):
        inspect(tmp_path / file)


def test_missing_files_and_other_things(tmp_path) -> None:
    from biasfree.inspection import inspect

    with pytest.raises(ValueError, match="no file at"):
        inspect(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="not a file"):
        inspect(tmp_path)
    with pytest.raises(ValueError, match="got dict"):
        inspect({"W1": W1})


WHOLE = {
    "m.onnx": GOOD,
    "m.npz": npz(zipfile.ZIP_DEFLATED, **PLAIN, b1=np.ones(3), slope=np.array(0.5)),
    "m.safetensors": safetensors({"W1": F64}, W1.tobytes()),
}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_any_damage_is_a_sentence_or_a_model(tmp_path, file, data) -> None:
    """Bytes changed, cut out or put in, anywhere."""
    from biasfree.models._reading import read

    whole = WHOLE[file]
    at = data.draw(st.integers(0, len(whole) - 1))
    gone = data.draw(st.sampled_from([0, 1, 1, 8, 64]))
    put = data.draw(st.binary(max_size=12))
    (tmp_path / file).write_bytes(whole[:at] + put + whole[at + gone :])
    try:
        found = read(tmp_path / file)
    except ValueError:
        return
    assert all(np.isfinite(weight).all() for weight in found.layers.weights)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read as Linux tells it")
def test_bombs_take_neither_time_nor_memory(tmp_path) -> None:
    """In a process of their own, with the memory that it reached, imports included; nothing that we do not need is."""
    zeros = bytes(400_000_000)
    bombs = {
        "zip.npz": npz(zipfile.ZIP_DEFLATED, W1=npy((50_000, 1000), data=zeros), W2=W2),
        "lies.npz": lying_zip(),
        "shape.npz": CORPUS["a huge declared array"][1],
        "shape.onnx": CORPUS["a huge declared shape"][1],
        "nested.onnx": nested(300),
        "fields.onnx": b"\x08\x01" * 5_000_000,
        "brackets.safetensors": CORPUS["a header of brackets"][1],
    }
    del zeros
    code = """
import pathlib, sys, time
from biasfree.inspection import inspect
for path in sys.argv[1:]:
    begun = time.process_time()
    try:
        inspect(path)
    except ValueError as error:
        assert time.process_time() - begun < 5, path
        assert len(str(error).splitlines()) == 1, error
    else:
        raise SystemExit(f"{path} was read")
assert 'torch' not in sys.modules
# Of this process alone: resource.getrusage would count the one that started it.
status = pathlib.Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
    for name, data in bombs.items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", code, *(str(tmp_path / name) for name in bombs)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reached = int(done.stdout) * 1024
    print(f"{reached:,} bytes at most")
    assert reached < 1_000_000_000
