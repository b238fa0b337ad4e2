"""Peak memory of the Figure 3 flow, in a process of its own: ``python -m bench._memory`` prints it as JSON.

On Linux a child's peak starts at what its parent held when it was launched, so this has to be asked for before the
parent loads anything large.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path


def peak() -> dict[str, int]:
    """Bytes of a fresh process: with everything imported, and at the peak of the flow."""
    done = subprocess.run(
        [sys.executable, "-m", "bench._memory"],
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _largest() -> int:
    # Linux counts in kilobytes, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _main() -> None:
    from bench import _figure3

    data, start = _figure3.problem()
    imported = _largest()
    _figure3.flow(start, data)
    print(json.dumps({"imported_bytes": imported, "peak_bytes": _largest()}))


if __name__ == "__main__":
    _main()
