"""Small denoisers in PyTorch, trained on synthetic images; run as a module to train and export them anew.

python -m tests.models.torch_models        needs what ``make bench`` sets up
"""

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-torch` sets it up")
from torch import nn  # noqa: E402

FOLDER = Path(__file__).parent / "files"


class Denoiser(nn.Sequential):
    """Three bias-free convolutions with one ReLU module that is used twice."""

    def __init__(self, channels: int = 8, layers: int = 3) -> None:
        relu = nn.ReLU()
        widths = [1, *[channels] * (layers - 1), 1]
        parts: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            parts += [nn.Conv2d(before, after, 3, padding=1, bias=False), relu]
        super().__init__(*parts[:-1])


class Residual(nn.Module):
    """x − n(x), as in DnCNN, with batch normalisation, whose shifts are biases in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Conv2d(8, 1, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.last(torch.relu(self.norm(self.middle(torch.relu(self.first(x))))))


class UNet(nn.Module):
    """Two scales, a skip by concatenation, and a noise map as a second input; bias-free."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.Conv2d(6, 8, 3, padding=1, bias=False)
        self.pool, self.up = nn.AvgPool2d(2), nn.ConvTranspose2d(8, 6, 2, stride=2, bias=False)
        self.join, self.last = nn.Conv2d(12, 6, 3, padding=1, bias=False), nn.Conv2d(6, 1, 3, padding=1, bias=False)
        self.bend = nn.LeakyReLU(0.1)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        high = torch.relu(self.enter(torch.cat([x, noise], 1)))
        low = self.bend(self.down(self.pool(high)))
        return self.last(torch.relu(self.join(torch.cat([high, self.up(low)], 1))))


def images(count: int, size: int, seed: int) -> np.ndarray:
    """Discs and half-planes on a ramp, shape (count, 1, size, size), values about 0 to 1."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    made = []
    for _ in range(count):
        angle, (cx, cy), radius = rng.uniform(0, 2 * np.pi), rng.uniform(0.2, 0.8, 2), rng.uniform(0.1, 0.35)
        ramp = 0.5 + 0.3 * (np.cos(angle) * (x - 0.5) + np.sin(angle) * (y - 0.5))
        disc = (x - cx) ** 2 + (y - cy) ** 2 < radius**2
        edge = np.cos(3 * angle) * (x - cx) + np.sin(3 * angle) * (y - cy) > 0.1
        made.append(ramp + 0.4 * disc - 0.3 * edge)
    return np.stack(made)[:, None]


def trained(net: nn.Module, steps: int, seed: int = 0) -> nn.Module:
    """Trained to remove noise of standard deviations between 0.02 and 0.3, in evaluation mode."""
    torch.manual_seed(seed)
    clean = torch.tensor(images(256, 16, seed), dtype=torch.float32)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    net.train()
    for _ in range(steps):
        chosen = clean[torch.randint(len(clean), (32,))]
        sigma = torch.rand(32, 1, 1, 1) * 0.28 + 0.02
        noisy = chosen + sigma * torch.randn_like(chosen)
        inputs = (noisy, sigma.expand_as(noisy)) if isinstance(net, UNet) else (noisy,)
        loss = ((net(*inputs) - chosen) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def exported(net: nn.Module, path: Path, **options: object) -> None:
    """By torch's default exporter, with any number of samples and image sizes."""
    count = 2 if isinstance(net, UNet) else 1
    inputs = tuple(torch.zeros(2, 1, 16, 16) for _ in range(count))
    sizes = {0: torch.export.Dim("samples"), 2: 2 * torch.export.Dim("h", min=2), 3: 2 * torch.export.Dim("w", min=2)}
    torch.onnx.export(net, inputs, str(path), dynamic_shapes=(sizes,) * count, verbose=False, **options)


def without_traces(path: Path) -> None:
    """Leave out where in whose files each node was made, which the exporter writes beside it."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    path.write_bytes(model.SerializeToString())


NETWORKS = {"denoiser": Denoiser, "residual": Residual, "unet": UNet}


def made(name: str) -> nn.Module:
    """The committed network, from its state dict beside the ONNX file."""
    net = NETWORKS[name]()
    stored = np.load(FOLDER / f"{name}_state.npz")
    net.load_state_dict({key: torch.tensor(stored[key]) for key in stored.files})
    return net.double().eval()


def main() -> None:
    for name, kind in NETWORKS.items():
        torch.manual_seed(1)
        net = trained(kind(), 400)
        np.savez(FOLDER / f"{name}_state.npz", **{k: v.numpy() for k, v in net.state_dict().items()})
        exported(net, FOLDER / f"{name}.onnx", external_data=False)
    # The default exporter writes weights beside the model.
    torch.manual_seed(2)
    small = nn.Sequential(nn.Linear(10, 64, bias=False), nn.ReLU(), nn.Linear(64, 8, bias=False)).eval()
    torch.onnx.export(
        small, (torch.zeros(2, 10),), str(FOLDER / "external.onnx"), verbose=False,
        dynamic_shapes=({0: torch.export.Dim("samples")},),
    )  # fmt: skip
    for name in (*NETWORKS, "external"):
        without_traces(FOLDER / f"{name}.onnx")


if __name__ == "__main__":
    main()
