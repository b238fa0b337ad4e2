"""Answers at the size of real work: a table of a million rows, and the local map of an image with its whole spectrum.

**The table** is diagnosed in a process of its own, which tells its seconds and its peak memory. **The local map** of a
bias-free denoiser at a 64×64 image, with all singular values, stands beside autograd pixel by pixel, which gives the
map alone; the loop is extrapolated from some of its pixels. Both run on one thread, and processor time is compared.
"""

import itertools
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from bench._clock import say
from biasfree.inspection._function import GraphFunction
from biasfree.inspection._local_maps import decomposed
from biasfree.inspection._points import given
from biasfree.models import read

ROWS, COLUMNS, SIZE, PIXELS = 1_000_000, 20, 64, 64

_DIAGNOSED = """
import json, resource, sys, time
import numpy as np
import biasfree as bf
rows, columns = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
inputs = rng.normal(size=(rows, columns))
targets = inputs @ rng.normal(size=columns) + 0.5 * np.abs(inputs[:, 0]) + 0.3 * rng.normal(size=rows)
begun = time.perf_counter(), time.process_time()
found = bf.diagnose((inputs, targets))
text = str(found)
print(json.dumps({
    "seconds": time.perf_counter() - begun[0], "processor_seconds": time.process_time() - begun[1],
    "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "verdict": found.verdict,
    "errors": dict(found.sampling.errors),
}))
"""


def measure(quick: bool) -> dict[str, Any]:
    """Both."""
    return {"table": _table(ROWS // 10 if quick else ROWS), "local_map": _local_map(SIZE // 2 if quick else SIZE)}


def _table(rows: int) -> dict[str, Any]:
    say(f"diagnose: {rows:,} rows of {COLUMNS} columns")
    command = [sys.executable, "-c", _DIAGNOSED, str(rows), str(COLUMNS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"rows": rows, "columns": COLUMNS, **json.loads(done.stdout.splitlines()[-1])}


def _local_map(size: int) -> dict[str, Any]:
    say(f"inspect: the local map of a {size}×{size} image and its spectrum, beside autograd pixel by pixel")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    channels = [1, 16, 16, 16, 16, 1]
    parts: list[torch.nn.Module] = []
    for into, out in itertools.pairwise(channels):
        parts += [torch.nn.Conv2d(into, out, 3, padding=1, bias=False), torch.nn.ReLU()]
    network = torch.nn.Sequential(*parts[:-1]).double().eval()
    image = np.random.default_rng(0).normal(size=(1, 1, size, size))
    graph = read(network, shapes=((1, size, size),))
    function, points = GraphFunction(graph), given(image, graph.ports)
    function.jacobian(points)
    begun = time.process_time()
    matrix = function.jacobian(points)
    formed = time.process_time() - begun
    values, *_ = decomposed(matrix)
    whole = time.process_time() - begun
    loop, rows = _pixel_by_pixel(network, image, size)
    return {
        "size": size, "values": len(values), "formed_seconds": formed, "seconds": whole, "loop_seconds": loop,
        "ratio": loop / whole, "largest_difference": float(np.abs(rows - matrix[:: size**2 // PIXELS]).max()),
    }  # fmt: skip


def _pixel_by_pixel(network: torch.nn.Module, image: np.ndarray, size: int) -> tuple[float, np.ndarray]:
    """Seconds for all pixels, from some of them, and their rows."""
    tensor = torch.tensor(image, requires_grad=True)
    outputs = network(tensor).reshape(-1)
    begun = time.process_time()
    rows = [
        torch.autograd.grad(outputs[i], tensor, retain_graph=True)[0].reshape(-1).numpy()
        for i in range(0, size**2, size**2 // PIXELS)
    ]
    return (time.process_time() - begun) * size**2 / len(rows), np.stack(rows)
