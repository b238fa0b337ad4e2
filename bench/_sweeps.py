"""Sweeps: runs per second of one phase diagram, beside a plain loop, multiprocessing, and PyTorch in proportion.

The diagram is of the six points: offsets × seeds at width 100, flows to t = 1000. Every contender does the same runs
but PyTorch, whose descent at the papers' rate is timed over some of its steps. Rounds alternate, and the best counts.
The overhead is what a sweep takes beyond the runs it makes, which clock themselves: two loops one after the other
differ by more than that on a machine that does other work too. What two workers gain is told for 10,000 runs, the time
until they are ready included, in proportion to fewer.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import biasfree as bf
from bench._clock import say, timed
from biasfree import sweeps

WIDTH, SCALE, UNTIL, RATE = 100, 1e-3, 1000.0, 0.025
OFFSETS = (0.05, 0.1, 0.15, 0.2)
RUN = {"data": "six_points", "width": WIDTH, "init_scale": SCALE, "until": UNTIL}
WORKERS, MANY = 2, 10_000


def one(offset: float, seed: int) -> float:
    """One run, as one would write it."""
    start = bf.Network.init([2, WIDTH, 1], 0.0, SCALE, seed)
    return float(bf.gradient_flow(start, bf.datasets.six_points(offset), until=UNTIL).losses[-1])


def clocked(offset: float, seed: int) -> dict[str, float]:
    """The same run, with the seconds it took."""
    seconds, loss = timed(lambda: one(offset, seed))
    return {"final_loss": loss, "seconds": seconds}


def trivial(a: float, b: float, seed: int) -> float:
    """A run that costs nothing."""
    return a * b + seed


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of every contender, ratios, memory, and what a million cells take."""
    seeds, rounds = (5, 2) if quick else (25, 3)
    cells = [(offset, seed) for offset in OFFSETS for seed in range(seeds)]
    one(*cells[0])
    best: dict[str, float] = {}
    starts: list[float] = []
    results: dict[str, list[float]] = {}
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.starmap(one, cells[:WORKERS] * 2)
        contenders = {
            "plain loop": lambda: timed(lambda: [one(*cell) for cell in cells]),
            "sweep": lambda: _sweep(seeds, None, starts),
            f"sweep, {WORKERS} workers": lambda: _sweep(seeds, WORKERS, starts),
            f"multiprocessing, {WORKERS} processes": lambda: timed(lambda: pool.starmap(one, cells, chunksize=1)),
        }
        for number in range(rounds):
            for name, work in contenders.items():
                say(f"sweeps: {name}, round {number + 1} of {rounds}")
                seconds, found = work()
                best[name] = min(best.get(name, np.inf), seconds)
                results[name] = list(found)
    per_second = {name: len(cells) / seconds for name, seconds in best.items()}
    say("sweeps: PyTorch, in proportion")
    per_second["PyTorch descent, in proportion"] = 1 / _torch_seconds(200 if quick else 2000)

    def for_many(seconds: float) -> float:
        return seconds * MANY / len(cells)

    say("sweeps: overhead")
    overheads = [_overhead(seeds) for _ in range(rounds)]
    agree = all(found == results["plain loop"] for found in results.values())
    return {
        "settings": {**RUN, "offsets": OFFSETS, "seeds": seeds, "rounds": rounds, "torch_rate": RATE},
        "per_second": per_second,
        "same_bits": agree,
        "overhead": median(overheads),
        "overheads": overheads,
        "sweep_beside_plain_loop": best["sweep"] / best["plain loop"],
        "start_seconds": max(starts),
        "two_workers": for_many(best["sweep"]) / (for_many(best[f"sweep, {WORKERS} workers"]) + max(starts)),
        "memory": {f"{workers or 1} workers": _command_memory(workers) for workers in (None, WORKERS)},
        "million": _million(100_000 if quick else 1_000_000),
    }


def _sweep(seeds: int, workers: int | None, starts: list[float]) -> tuple[float, list[float]]:
    """Seconds from when the workers are at work, which count for thousands of runs; ``starts`` gets the time before."""
    began, marks = time.perf_counter(), list[tuple[float, int]]()

    def mark(progress: sweeps.SweepProgress) -> None:
        marks.append((time.perf_counter(), progress.done))

    with tempfile.TemporaryDirectory() as folder:
        found = bf.sweep(
            RUN, {"offset": OFFSETS}, keep=["final_loss"], seeds=seeds, folder=Path(folder) / "runs", workers=workers,
            progress=mark,
        )  # fmt: skip
    values = found.dataset.final_loss.to_numpy().ravel().tolist()
    ready = 0 if workers is None else next(i for i, (_, done) in enumerate(marks) if done >= 2 * workers)
    (begun, before), (ended, after) = marks[ready], marks[-1]
    starts.append(begun - began)
    return (ended - begun) * len(values) / (after - before), values


def _overhead(seeds: int) -> float:
    """What a sweep that keeps its runs in a folder takes beyond these runs, as a share of them."""
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        found = bf.sweep(
            clocked, {"offset": OFFSETS}, seeds=seeds, folder=Path(folder) / "runs",
            progress=lambda _: marks.append(time.perf_counter()),
        )  # fmt: skip
    return (marks[-1] - marks[0]) / float(found.dataset.seconds.sum()) - 1


def _torch_seconds(steps: int) -> float:
    """Of one run by descent at the papers' rate, on one core as every run of a sweep."""
    from bench._peers import TorchDescent

    start = tuple(np.asarray(w) for w in bf.Network.init([2, WIDTH, 1], 0.0, SCALE, 0).weights)
    descent = TorchDescent(bf.datasets.six_points(), start, RATE, threads=1)
    descent.advance(50)
    return timed(lambda: descent.advance(steps))[0] / steps * (UNTIL / RATE)


def _command_memory(workers: int | None) -> float:
    """Peak bytes of a command that sweeps, saves and draws, in a process of its own; its workers are not counted."""
    code = (
        "import biasfree as bf\n"
        "from bench import _memory, _sweeps\n"
        "from biasfree import report\n"
        "if __name__ == '__main__':\n"
        f"    axes, out = {{'offset': _sweeps.OFFSETS}}, {{'workers': {workers}, 'folder': 'runs'}}\n"
        "    found = bf.sweep(_sweeps.RUN, axes, keep=['final_loss'], seeds=3, **out)\n"
        "    found.save('found.nc')\n"
        "    report.save_figure(found.plot(), 'found.png')\n"
        "    print(_memory.largest())\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "command.py"
        script.write_text(code)
        path = os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")])
        around = os.environ | {"PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True, env=around, cwd=folder
        )
    return float(done.stdout.split()[-1])


def _million(cells: int) -> dict[str, float]:
    """What it takes to plan many cells, to run them when a run is nothing, and how many files that leaves."""
    say(f"sweeps: {cells:,} cells")
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "runs"
        began = time.perf_counter()
        axes = {"a": np.linspace(0, 1, cells // 1000), "b": np.linspace(0, 1, 100)}
        bf.sweep(trivial, axes, seeds=10, folder=kept, progress=lambda _: marks.append(time.perf_counter()))
        seconds, files = time.perf_counter() - began, len(list(kept.iterdir()))
    return {"cells": cells, "planned_seconds": marks[0] - began, "seconds": seconds, "files": files}
