"""Timing, progress lines, and what else the machine was doing meanwhile."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_BEGAN = time.perf_counter()
_STAT = Path("/proc/stat")


def say(text: str) -> None:
    """Tell on stderr what is being measured now."""
    print(f"[{time.perf_counter() - _BEGAN:5.0f} s] {text}", file=sys.stderr, flush=True)


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that ``work`` took, and what it returned."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def on_each_processor(work: Callable[[], object], rounds: int) -> list[list[float]]:
    """Seconds of so many rounds of work that one thread does, on each processor that this process may use.

    Of two processors one may be a fifth slower than the other, and which one a short run is on is chance.
    """
    if not hasattr(os, "sched_setaffinity"):
        return [[timed(work)[0] for _ in range(rounds)]]
    allowed, turns = os.sched_getaffinity(0), list[list[float]]()
    try:
        for each in sorted(allowed):
            os.sched_setaffinity(0, {each})
            turns.append([timed(work)[0] for _ in range(rounds)])
    finally:
        os.sched_setaffinity(0, allowed)
    return turns


def compilation(work: Callable[[], object]) -> float:
    """Seconds of compilation: the first call of ``work`` less the second."""
    first, second = timed(work)[0], timed(work)[0]
    return max(0.0, first - second)


def level_ground(wanted: int) -> dict[str, object]:
    """Give all contenders the same chances, before any library starts threads; returns what was set.

    Cores: PyTorch takes a number of threads but JAX takes every core it may use, so this process and its children are
    kept to ``wanted`` cores, where the system can do that.
    Waiting: PyTorch's threads wait for each other by spinning. When other work takes a core, each wait costs a time
    slice and a step ten times its due, which would flatter us. So they wait passively in this process, unless the user
    says otherwise; where a ratio rests on it, the peer runs both ways (``quicker_way``).
    """
    cores = None
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:wanted])
        cores = len(os.sched_getaffinity(0))
    return {"cores": cores, "omp_wait_policy": os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")}


def quicker_way(module: str, *arguments: object) -> tuple[float, dict[str, float]]:
    """Seconds that ``python -m bench.module`` prints for a peer: those of the quicker way to wait, and of each.

    In a process for each way, as a library reads it once. Steps of small networks are so short that it matters how
    threads wait for each other: spinning is up to twice as fast on a quiet machine, passively on a busy one.
    """
    seconds = {}
    for policy in ("spinning", "passive"):
        given = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
        given |= {"OMP_WAIT_POLICY": "PASSIVE"} if policy == "passive" else {}
        command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
        answer = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
        seconds[policy] = float(json.loads(answer.stdout))
    return min(seconds.values()), seconds


class OtherWork:
    """Cores kept busy, on average since this was made, by anything but this process and its children."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.perf_counter(), _busy(), _own()

    def cores(self) -> float | None:
        """The average, or None where the system does not tell."""
        busy = _busy()
        if busy is None or self._busy is None:
            return None
        others = (busy - self._busy) - (_own() - self._own)
        return max(0.0, others / (time.perf_counter() - self._began))


def _busy() -> float | None:
    """Seconds all cores were in use or taken away by a host (steal), since boot."""
    if not _STAT.is_file():
        return None
    fields = [int(field) for field in _STAT.read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    return sum(os.times()[:4])
