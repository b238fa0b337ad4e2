"""Runs of known outcome for the tests, and processes of their own that sweep over them."""

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
AXES = {"a": [0.1 * i for i in range(12)], "b": [1.0, 2.0, 3.0, 4.0, 5.0]}
SEEDS = 3
RUNS = 12 * 5 * SEEDS
# Other processes branch off one that has imported everything: to import it in each would take most of their time.
_IMPORTED = multiprocessing.get_context("forkserver")
_IMPORTED.set_forkserver_preload(
    ["biasfree.sweeps", "h5netcdf", "distributed.cli.dask_scheduler", "distributed.cli.dask_worker", __name__]
)


def wave(a: float, b: float, seed: int) -> dict[str, float | str]:
    """Numbers whose every bit is determined; in a process of its own it waits, to be killed half-way."""
    time.sleep(float(os.environ.get("OWN_RUNS_PAUSE", "0")))
    if b == 3.0 and seed == 1:
        raise ValueError(f"b = 3 does not go with seed {seed}.")
    return {"value": math.sin(a * 12.9898 + b * 78.233 + seed), "side": "low" if a < 0.55 else "high"}


def apart(function: Callable[..., None], *arguments: Any, pause: float = 0.01) -> ForkServerProcess:
    """A function in a process of its own, silent, whose runs wait for so many seconds each."""
    process = _IMPORTED.Process(target=_alone, args=(pause, function, *arguments))
    process.start()
    return process


def _alone(pause: float, function: Callable[..., None], *arguments: Any) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    os.environ.update({"PYTHONPATH": paths, "BIASFREE_QUIET": "1", "OWN_RUNS_PAUSE": str(pause)})
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    function(*arguments)


def sweep(folder: Path, out: Path, workers: int | None = None) -> None:
    """The sweep over ``wave``."""
    import biasfree as bf

    bf.sweep(wave, AXES, seeds=SEEDS, folder=folder, workers=workers).save(out)


def wait_for_batches(folder: Path, least: int, process: ForkServerProcess, seconds: float = 120) -> None:
    """Until so many batch files are there, or the process has ended."""
    end = time.monotonic() + seconds
    while len(list(folder.glob("batch-*.npz"))) < least and process.is_alive():
        assert time.monotonic() < end, "no batch was written"
        time.sleep(0.005)
