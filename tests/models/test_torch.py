"""What PyTorch makes is read as PyTorch runs it: modules, exports, state dicts. Run by `make test-torch`."""

import numpy as np
import pytest

from biasfree.inspection import inspect
from biasfree.models import read
from tests.models.test_reading import outputs

pytestmark = pytest.mark.torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize(("kind", "allowed", "bias"), [("float64", 1e-12, False), ("float32", 1e-5, True)])
def test_modules_and_their_exports(torch, tmp_path, kind, allowed, bias) -> None:
    torch.manual_seed(0)
    dtype = getattr(torch, kind)
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(5, 7, bias=bias), nn.ReLU(), nn.Sequential(nn.Linear(7, 6, bias=bias), nn.LeakyReLU(0.125)),
        nn.Identity(), nn.Linear(6, 2, bias=bias),
    ).to(dtype).eval()  # fmt: skip
    inputs = torch.randn(100, 5, dtype=dtype)
    theirs = net(inputs).detach().double().numpy()
    found = read(net)
    size = np.abs(theirs).max()
    assert np.abs(found(inputs.double().numpy()) - theirs).max() <= allowed * size
    assert found.layers.slopes == (0.0, 0.125)
    assert found.bias_free is not bias
    pytest.importorskip("onnxscript", reason="torch exports ONNX with onnxscript, which is not installed")
    path = tmp_path / "exported.onnx"
    torch.onnx.export(net, (inputs,), str(path), external_data=False, verbose=False)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    again = read(path)
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # this runtime lacks LeakyRelu in float64
        if kind == "float32":
            raise
        print("onnxruntime does not run it:", str(error).splitlines()[0])
        ran = theirs
    else:
        (ran,) = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})
    assert np.abs(again(inputs.double().numpy()) - ran).max() <= allowed * size
    assert (again.layers.slopes, again.bias_free) == (found.layers.slopes, found.bias_free)


def test_a_module_with_its_own_forward_is_checked_against_its_outputs(torch) -> None:
    nn = torch.nn

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4, bias=False), nn.Linear(4, 1, bias=False)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4, bias=False)

        def forward(self, x):
            return torch.cumsum(self.first(x), 1)

    class Lying(Plain):
        """Traced by its layers, and run otherwise."""

        def __call__(self, x):
            return 2 * super().__call__(x)

    assert read(Plain().double()).layers.slopes == (0.0,)
    # What comes before an operation that we do not know is read, and said so.
    partly = read(Own().double())
    assert partly.layers.widths == (3, 4)
    assert "cumsum" in partly.left_out[0]
    with pytest.raises(ValueError, match="not those of the operations"):
        read(Lying().double())
    with pytest.raises(ValueError, match="LSTM"):
        read(nn.Sequential(nn.LSTM(3, 3)))
    with pytest.raises(ValueError, match="eval"):
        read(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))


@pytest.mark.parametrize("kind", ["F64", "F32", "F16", "BF16"])
def test_safetensors(torch, tmp_path, kind) -> None:
    import safetensors.torch

    torch.manual_seed(0)
    dtype = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    stored = {
        f"net.{n}.{what}": torch.randn(*shape, dtype=torch.float64).to(dtype)
        for n, what, shape in [
            (0, "weight", (12, 3)),
            (2, "weight", (4, 12)),
            (10, "weight", (1, 4)),
            (2, "bias", (4,)),
        ]
    }
    safetensors.torch.save_file(stored, tmp_path / "m.safetensors", metadata={"slope": "0.5"})
    found = read(tmp_path / "m.safetensors")
    x = np.random.default_rng(0).normal(size=(40, 3))
    plain = {name: values.double().numpy() for name, values in stored.items()}
    expected = outputs(
        [plain["net.0.weight"], plain["net.2.weight"], plain["net.10.weight"]], [0.5, 0.5],
        [None, plain["net.2.bias"], None], x,
    )  # fmt: skip
    np.testing.assert_allclose(found(x), expected, atol=1e-13 * np.abs(expected).max())
    assert "metadata" in found.notes[0]
    assert read(tmp_path / "m.safetensors", slope=0.0).layers.slopes == (0.0, 0.0)


def test_the_default_exporter_writes_external_data_and_is_read(torch, tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(20, 64, bias=False), nn.ReLU(), nn.Linear(64, 30, bias=False)).eval()
    path = tmp_path / "m.onnx"
    torch.onnx.export(net, (torch.randn(3, 20),), str(path), verbose=False)
    assert (tmp_path / "m.onnx.data").stat().st_size > 0
    found = read(path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = np.random.default_rng(0).normal(size=(3, 20)).astype("f4")
    (theirs,) = session.run(None, {session.get_inputs()[0].name: inputs})
    assert np.abs(found(inputs) - theirs).max() < 1e-5
    (tmp_path / "m.onnx.data").unlink()
    with pytest.raises(ValueError, match=r"m\.onnx\.data.*keep both files together"):
        read(path)


def test_a_relu_module_that_is_used_twice(torch) -> None:
    nn = torch.nn
    relu = nn.ReLU()
    net = nn.Sequential(
        nn.Linear(3, 5, bias=False), relu, nn.Linear(5, 4, bias=False), relu, nn.Linear(4, 1, bias=False)
    ).double()
    found = read(net)
    assert found.layers.slopes == (0.0, 0.0)
    x = torch.randn(20, 3, dtype=torch.float64)
    np.testing.assert_allclose(found(x.numpy()), net(x).detach().numpy(), atol=1e-14)


def test_state_dicts_of_sequentials(torch, tmp_path) -> None:
    """safetensors and PT of the same module; batch normalisation is folded, its shift is a bias and said so."""
    import safetensors.torch

    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).double()
    net(torch.randn(200, 4, dtype=torch.float64) + 1)
    net.eval()
    x = torch.randn(30, 4, dtype=torch.float64)
    safetensors.torch.save_file(net.state_dict(), tmp_path / "m.safetensors")
    torch.save(net.state_dict(), tmp_path / "m.pt")
    for name in ("m.safetensors", "m.pt"):
        found = read(tmp_path / name)
        np.testing.assert_allclose(found(x.numpy()), net(x).detach().numpy(), atol=1e-13)
        assert any("BatchNorm 1 is folded" in n and "its shift is a bias" in n for n in found.layers.notes)
    torch.save(net, tmp_path / "whole.pt")
    with pytest.raises(ValueError, match="weights_only"):
        read(tmp_path / "whole.pt")
    safetensors.torch.save_file({"0.weight": torch.zeros(2, 1, 3, 3)}, tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match=r"convolution.*ONNX"):
        read(tmp_path / "c.safetensors")


def test_layers_that_are_measured_but_not_certified(torch) -> None:
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2), nn.Softmax(1)).double().eval()
    x = torch.randn(50, 4, dtype=torch.float64)
    found = inspect(net, x.numpy())
    np.testing.assert_allclose(found.graph(x.numpy()), net(x).detach().numpy(), atol=1e-13)
    assert found.linear is False
    assert found.decision is None
    assert "not piecewise linear" in str(found)
