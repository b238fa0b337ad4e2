"""Answers at the size of real work: a table of a million rows, and local maps of images (``_local_maps``).

The table is diagnosed in a process of its own, which tells its seconds and its peak memory.
"""

import json
import subprocess
import sys
from typing import Any

from bench import _local_maps
from bench._clock import say

ROWS, COLUMNS = 1_000_000, 20

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
    return {"table": _table(ROWS // 10 if quick else ROWS), "local_map": _local_maps.measure()}


def _table(rows: int) -> dict[str, Any]:
    say(f"diagnose: {rows:,} rows of {COLUMNS} columns")
    command = [sys.executable, "-c", _DIAGNOSED, str(rows), str(COLUMNS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"rows": rows, "columns": COLUMNS, **json.loads(done.stdout.splitlines()[-1])}
