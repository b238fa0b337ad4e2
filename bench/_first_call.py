"""What a user waits for: the first flow in a new process, and ``make report``, with nothing compiled and with all kept.

Processes of their own, with folders of their own for what is kept of compiled code. Of the flow the seconds of CPU
are told, all threads together, since compiling is what they are spent on; of the report those of the clock. What can
be repeated, with all kept, is run three times and the quickest counts: others' work on a machine only ever adds.
"""

import os
import subprocess
import sys
import tempfile
from typing import Any

from bench._clock import say, timed

_TURNS = 3
_FLOW = """
import time
import biasfree as bf
data, start = bf.datasets.six_points(), bf.Network.init([2, 100, 1], 0.0, 1e-3, 0)
began = time.process_time()
bf.gradient_flow(start, data, until=1000, save=50)
print(time.process_time() - began)
"""


def first_flow() -> dict[str, float]:
    """CPU seconds of the first call on the six points, with nothing kept and with all kept from before."""
    with tempfile.TemporaryDirectory() as folder:
        say("first call: nothing kept")
        cold = float(_python(folder, "-c", _FLOW).stdout)
        say("first call: kept")
        warm = min(float(_python(folder, "-c", _FLOW).stdout) for _ in range(_TURNS))
    return {"nothing_kept": cold, "kept": warm}


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of ``biasfree reproduce``, all of it, first with nothing kept; a quick run does without."""
    if quick:
        return {}
    with tempfile.TemporaryDirectory() as folder:

        def report(kept: str) -> float:
            say(f"make report: {kept.replace('_', ' ')}")
            run = ("-c", "from biasfree.cli import main; main()", "reproduce")
            out = ("--fresh", "--quiet", "--out", f"{folder}/{kept}")
            return timed(lambda: _python(folder, *run, *out))[0]

        cold, warm = report("nothing_kept"), [report("kept") for _ in range(_TURNS)]
    return {"seconds": {"nothing_kept": cold, "kept": min(warm)}, "turns": warm}


def _python(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A new process that keeps what it compiles in ``folder``."""
    kept = {"XDG_CACHE_HOME": folder, "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax", "BIASFREE_QUIET": "1"}
    return subprocess.run([sys.executable, *arguments], env=os.environ | kept, check=True, stdout=subprocess.PIPE)
