"""Runs of known outcome for the tests, and small programs that sweep over them in a process of their own."""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AXES = {"a": [0.1 * i for i in range(12)], "b": [1.0, 2.0, 3.0, 4.0, 5.0]}
SEEDS = 3
RUNS = 12 * 5 * SEEDS


def wave(a: float, b: float, seed: int) -> dict[str, float | str]:
    """A few milliseconds of waiting, and numbers whose every bit is determined."""
    time.sleep(0.01)
    if b == 3.0 and seed == 1:
        raise ValueError(f"b = 3 does not go with seed {seed}.")
    return {"value": math.sin(a * 12.9898 + b * 78.233 + seed), "side": "low" if a < 0.55 else "high"}


PROGRAM = """
import sys
import biasfree as bf
from tests.sweeps import own_runs
if __name__ == "__main__":
    found = bf.sweep(own_runs.wave, own_runs.AXES, seeds=own_runs.SEEDS, folder=sys.argv[1], workers={workers})
    found.save(sys.argv[2])
"""


def environment() -> dict[str, str]:
    """This one's, with the package and the tests on the path."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "BIASFREE_QUIET": "1"}


def started(*words: str, **more: object) -> subprocess.Popen:
    """A Python process."""
    return subprocess.Popen([sys.executable, *words], env=environment(), **more)  # type: ignore[call-overload]


def program(folder: Path, out: Path, workers: int | None = None, **more: object) -> subprocess.Popen:
    """The sweep over ``wave``, in a process of its own."""
    script = out.with_suffix(".py")
    script.write_text(PROGRAM.format(workers=workers))
    return started(str(script), str(folder), str(out), **more)


def wait_for_batches(folder: Path, least: int, process: subprocess.Popen, seconds: float = 120) -> None:
    """Until so many batch files are there, or the process has ended."""
    end = time.monotonic() + seconds
    while len(list(folder.glob("batch-*.npz"))) < least and process.poll() is None:
        assert time.monotonic() < end, "no batch was written"
        time.sleep(0.005)
