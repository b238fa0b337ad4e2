"""Compile the C sources beside this file into one shared library; used when the package is built, and by its loader.

The library's name carries a hash of the sources, so that one built from others is never loaded. It needs nothing but a
C compiler: no headers of Python, no packages. Nothing of the machine it is built on enters it, so that the same sources
give the same numbers on every processor of a kind.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Contracted products would round differently from processor to processor. No error numbers: nobody asks for them.
FLAGS = ("-std=c99", "-O3", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off")
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def sources() -> list[Path]:
    """The C files."""
    return sorted(HERE.glob("*.c"))


def name() -> str:
    """The library's file name: it changes with the sources and with how they are compiled."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in [*sources(), *sorted(HERE.glob("*.h"))]:
        digest.update(path.name.encode() + path.read_bytes())
    return f"engine-{digest.hexdigest()[:16]}{_SUFFIX}"


def compiler() -> list[str] | None:
    """The C compiler there is: that of the environment variable CC, the system's, or Zig's from the package ziglang."""
    asked = os.environ.get("CC", "").split()
    if asked and shutil.which(asked[0]):
        return asked
    for command in ("cc", "gcc", "clang"):
        if shutil.which(command):
            return [command]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def build(folder: Path) -> Path:
    """Compile into a folder, whole or not at all; where it is already there nothing is done."""
    target = folder / name()
    if target.exists():
        return target
    command = compiler()
    if command is None:
        raise RuntimeError(
            "the compiled part of biasfree is not there and no C compiler was found to make it: install one, for "
            "instance by `pip install ziglang`, or install biasfree from a wheel."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as room:
        made = Path(room) / target.name
        libraries = [] if sys.platform == "win32" else ["-lm", "-pthread"]
        run = subprocess.run(
            [*command, *FLAGS, *map(str, sources()), "-o", str(made), *libraries], capture_output=True, text=True
        )
        if run.returncode != 0:
            raise RuntimeError(f"{command[0]} could not compile biasfree's C sources:\n{run.stderr.strip()}")
        made.replace(target)
    return target
