"""The local map A_x of a 64×64 image by ``inspect``, beside autograd pixel by pixel.

Three denoisers: plain, residual with batch normalisation, and a U-Net with a noise map as a second input. Forming A_x
is compared with a loop that does the same, on one thread each, in processor time and in wall time, the best of a few
turns; the loop is extrapolated from some of its pixels. The full singular spectrum, which a loop does not give, is
timed for itself.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from bench._clock import say
from biasfree.inspection._function import GraphFunction
from biasfree.inspection._local_maps import decomposed
from biasfree.inspection._points import given
from biasfree.models import read

SIZE, PIXELS, TURNS = 64, 64, 5


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = _plain(nn.BatchNorm2d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.inner(x)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = _conv(2, 16), _conv(16, 16)
        self.pool, self.up = nn.AvgPool2d(2), nn.ConvTranspose2d(16, 16, 2, stride=2, bias=False)
        self.join, self.last = _conv(32, 16), _conv(16, 1)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        high = torch.relu(self.enter(torch.cat([x, noise], 1)))
        low = torch.relu(self.down(self.pool(high)))
        return self.last(torch.relu(self.join(torch.cat([high, self.up(low)], 1))))


def _conv(into: int, out: int) -> nn.Conv2d:
    return nn.Conv2d(into, out, 3, padding=1, bias=False)


def _plain(norm: type[nn.Module] | None = None) -> nn.Module:
    parts: list[nn.Module] = []
    for into, out in itertools.pairwise([1, 16, 16, 16, 16, 1]):
        parts += [_conv(into, out), *([norm(out)] if norm else []), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


NETWORKS: dict[str, Callable[[], nn.Module]] = {"plain": _plain, "residual": _Residual, "U-Net": _UNet}


def measure() -> dict[str, Any]:
    """Each network."""
    torch.set_num_threads(1)
    with threadpool_limits(1, user_api="blas"):
        return {"size": SIZE, "networks": {name: _measured(name) for name in NETWORKS}}


def _measured(name: str) -> dict[str, Any]:
    say(f"inspect, {name}: the local map of a {SIZE}×{SIZE} image and its spectrum, beside autograd pixel by pixel")
    torch.manual_seed(0)
    network = NETWORKS[name]().double().eval()
    count = 2 if name == "U-Net" else 1
    images = tuple(np.random.default_rng(0).normal(size=(count, 1, 1, SIZE, SIZE)))
    graph = read(network, shapes=((1, SIZE, SIZE),) * count)
    function, points = GraphFunction(graph), given(images if count > 1 else images[0], graph.ports)
    first, _ = _timed(lambda: function.jacobian(points))
    ours, matrix = _best(lambda: function.jacobian(points))
    loop, rows = _best(lambda: _pixel_by_pixel(network, images))
    loop = {clock: seconds * SIZE**2 / PIXELS for clock, seconds in loop.items()}
    spectrum, (values, *_) = _timed(lambda: decomposed(matrix))
    return {
        "formed": ours, "formed_at_first": first, "loop": loop, "spectrum": spectrum, "values": len(values),
        "ratio": {clock: loop[clock] / ours[clock] for clock in ours},
        "largest_difference": float(np.abs(rows - matrix[:: SIZE**2 // PIXELS]).max()),
    }  # fmt: skip


def _pixel_by_pixel(network: nn.Module, images: tuple[np.ndarray, ...]) -> np.ndarray:
    """Some rows of A_x."""
    tensors = [torch.tensor(image, requires_grad=k == 0) for k, image in enumerate(images)]
    outputs = network(*tensors).reshape(-1)
    step = SIZE**2 // PIXELS
    rows = [torch.autograd.grad(outputs[i], tensors[0], retain_graph=True)[0] for i in range(0, SIZE**2, step)]
    return torch.stack(rows).reshape(PIXELS, -1).numpy()


def _best(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    turns = [_timed(work) for _ in range(TURNS)]
    return {clock: min(seconds[clock] for seconds, _ in turns) for clock in turns[0][0]}, turns[0][1]


def _timed(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    begun = time.process_time(), time.perf_counter()
    found = work()
    return {"processor": time.process_time() - begun[0], "wall": time.perf_counter() - begun[1]}, found
