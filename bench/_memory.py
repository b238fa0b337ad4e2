"""Peak memory of the Figure 3 flow, in a process of its own: ``python -m bench._memory`` prints it as JSON."""

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


def largest() -> int:
    """Peak bytes of this process."""
    status = Path("/proc/self/status")
    if status.is_file():  # getrusage would start from what the parent held when it launched this process
        return 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    # Linux counts in kilobytes, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _main() -> None:
    from bench import _figure3

    data, start = _figure3.problem()
    imported = largest()
    _figure3.flow(start, data)
    print(json.dumps({"imported_bytes": imported, "peak_bytes": largest()}))


if __name__ == "__main__":
    _main()
