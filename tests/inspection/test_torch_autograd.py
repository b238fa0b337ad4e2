"""Local maps, homogeneity and net bias beside PyTorch's autograd. Run by `make test-torch`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-torch` sets it up")

from biasfree.inspection import inspect  # noqa: E402
from biasfree.inspection._function import GraphFunction  # noqa: E402
from biasfree.inspection._local_maps import decomposed  # noqa: E402
from biasfree.inspection._points import given  # noqa: E402
from biasfree.models import read  # noqa: E402
from tests.models import torch_models  # noqa: E402

pytestmark = pytest.mark.torch


def noisy(count, size):
    rng = np.random.default_rng(0)
    return torch_models.images(count, size, 7) + 0.1 * rng.normal(size=(count, 1, size, size))


@pytest.mark.parametrize("name", torch_models.NETWORKS)
@pytest.mark.parametrize("source", ["onnx", "module"])
def test_denoisers_agree_with_autograd(name, source) -> None:
    """A bias-free one, a residual one with batch norm, and a U-Net with a noise map: to 1e-6."""
    net = torch_models.made(name)
    x = noisy(3, 16)
    inputs = (x,) if name != "unet" else (x, np.full_like(x, 0.1))
    jointly = name == "unet"
    model = net if source == "module" else torch_models.FOLDER / f"{name}.onnx"
    found = inspect(model, inputs if jointly else x, jointly=jointly)
    tensors = tuple(torch.tensor(v) for v in inputs)
    with torch.no_grad():
        f = net(*tensors).numpy().reshape(3, -1)
        size = np.linalg.norm(f)
        errors = [
            np.linalg.norm(net(*(c * t for t in tensors)).numpy().reshape(3, -1) / c - f) / size
            for c in (1e-3, 0.1, 10.0, 1e3)
        ]
    assert found.homogeneity.error == pytest.approx(max(errors), abs=1e-6, rel=1e-6)
    net_bias = []
    for i, each in enumerate(found.local.maps):
        one = [t[i : i + 1] for t in tensors]
        maps = torch.autograd.functional.jacobian(lambda *v: net(*v).reshape(-1), tuple(one))
        maps = [m.reshape(256, -1).numpy() for m in maps]
        assert np.abs(each.matrix - maps[0]).max() < 1e-6
        values = np.linalg.svd(maps[0], compute_uv=False)
        assert np.abs(each.singular_values - values).max() < 1e-6
        net_bias.append(f[i] - sum(m @ t.numpy().reshape(-1) for m, t in zip(maps, one, strict=True)))
    assert found.homogeneity.net_bias == pytest.approx(np.linalg.norm(net_bias) / size, abs=1e-6)
    assert found.bias_free is (name != "residual")


@pytest.mark.slow
def test_the_full_spectrum_of_a_64_by_64_image() -> None:
    """Rows of A_x as autograd has them, pixel by pixel; its 4096 singular values by what must hold of them.

    How long it takes, beside that loop, is told by `python -m bench --only answers`.
    """
    torch.manual_seed(0)
    net = torch_models.Denoiser(16, 5).double().eval()
    x = noisy(1, 64)
    graph = read(net, shapes=((1, 64, 64),))
    matrix = GraphFunction(graph).jacobian(given(x, graph.ports))
    tensor = torch.tensor(x, requires_grad=True)
    outputs = net(tensor).reshape(-1)
    pixels = range(0, 4096, 64)
    rows = [torch.autograd.grad(outputs[i], tensor, retain_graph=True)[0].reshape(-1).numpy() for i in pixels]
    assert np.abs(np.stack(rows) - matrix[:: pixels.step]).max() < 1e-12
    values, resolution, left, right = decomposed(matrix)
    assert len(values) == 4096
    assert np.sum(values**2) == pytest.approx(np.sum(matrix**2), rel=1e-6)
    assert resolution < 1e-5 * values[0]
    size = left.shape[1]
    assert np.abs(matrix @ right - left * values[:size]).max() < 1e-6 * values[0]
    assert np.abs(right.T @ right - np.eye(size)).max() < 1e-6
