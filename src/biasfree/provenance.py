"""What a reader needs to repeat a run: versions, platform, processor, commit."""

import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

_PACKAGES = ("biasfree", "jax", "jaxlib", "numpy", "scipy")


@functools.cache
def environment() -> dict[str, str]:
    """Name the versions, platform and commit this process runs with.

    >>> sorted(environment())[:3]
    ['biasfree', 'commit', 'cores']
    """
    versions = {name: metadata.version(name) for name in _PACKAGES}
    return versions | {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "commit": _commit(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of the source tree, or 'unknown' for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "unknown"

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
