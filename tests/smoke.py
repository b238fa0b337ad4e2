"""Every command once, and the README's examples, by an installed package: ``python smoke.py README.md``.

For an environment that holds the wheel and nothing else of the project; ``make smoke`` and a slow test run it. Packages
of extras that are missing must be named by the command that needs them.
"""

import contextlib
import importlib.util
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

PROGRAM = str(Path(sys.executable).with_name("biasfree"))
PLAN = """
title = "smoke"
seeds = 1
keep = ["final_loss"]
[run]
data = "six_points"
width = 10
until = 5
[axes]
init_scale = [1e-3, 1e-2]
"""
TABLE = "a,b,y\n" + "".join(f"{a},{b},{abs(a) - b / 2}\n" for a in (-2, -1, 1, 2) for b in (-1, 0.5, 1, 3))
MODEL = """
import numpy as np, biasfree as bf
net = bf.Network.init([2, 6, 1], slope=0.0, init_scale=1.0, seed=0)
np.savez("model.npz", W1=np.asarray(net.weights[0]), W2=np.asarray(net.weights[1]), slope=0.0)
"""


def main(readme: str) -> None:
    """Run all; the first failure ends it with a traceback."""
    examples = re.findall(r"```python\n(.*?)```", Path(readme).read_text(encoding="utf-8"), re.DOTALL)
    listed = set(re.findall(r"^  ([a-z]+) ", biasfree("--help").partition("Commands:")[2], re.MULTILINE))
    assert listed == set(COMMANDS), f"commands without a smoke test, or gone: {listed ^ set(COMMANDS)}"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("table.csv").write_text(TABLE)
        Path("plan.toml").write_text(PLAN)
        for name, command in COMMANDS.items():
            with told(name):
                command()
        for k, example in enumerate(examples, 1):
            with told(f"README, example {k}"):
                python("import biasfree as bf\n" + example)


def simulate() -> None:
    """A flow, its file and its picture; a table of one's own; bad input is a sentence."""
    out = biasfree(
        "simulate", "--data", "six-points", "--width", "20", "--until", "20", "--out", "run.nc", "--plot", "a.png"
    )
    assert "reached t = 20" in out, out
    assert Path("run.nc").stat().st_size > 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert '"status"' in biasfree("simulate", "--data", "table.csv", "--target", "y", "--until", "2", "--json")
    assert "Traceback" not in biasfree("simulate", "--data", "nowhere.csv", code=2)


def reproduce() -> None:
    """The list, and one study."""
    assert "theorem-1" in biasfree("reproduce", "--list")
    biasfree("reproduce", "theorem-1", "--quick", "--out", "report")
    assert Path("report/index.html").is_file()


def find() -> None:
    """A number of the papers, with the verdict that the study before left."""
    assert "biasfree.theory.closed_form" in biasfree("find", "Eq. 38")
    assert "theorem-1: holds" in biasfree("find", "eq-2")
    assert "no result" in biasfree("find", "Eq. 99", code=2)


def diagnose() -> None:
    """A verdict on a table of one's own."""
    assert "linear" in biasfree("diagnose", "table.csv", "--target", "y", "--width", "10", "--seeds", "1")


def inspect() -> None:
    """A model as NPZ; ONNX where the extra is there, its name where it is not."""
    python(MODEL)
    biasfree("inspect", "model.npz", "--data", "table.csv", "--target", "y")
    written = ("inspect", "model.npz", "--compress", "smaller.onnx")
    if there("onnx"):
        biasfree(*written)
        biasfree("inspect", "smaller.onnx")
    else:
        assert "biasfree[onnx]" in biasfree(*written, code=2)


def sweep() -> None:
    """An example, the list, and a plan of two runs, by two processes where the extra is there."""
    biasfree("sweep", "--example", "other.toml")
    assert "six-points" in biasfree("sweep", "--list")
    biasfree("sweep", "plan.toml", "--plot", "plan.png")
    assert Path("plan.nc").is_file()
    if not there("distributed"):
        anew = ("sweep", "plan.toml", "--workers", "2", "--folder", "other.runs", "--out", "other.nc")
        assert "biasfree[cluster]" in biasfree(*anew, code=2)


def explore() -> None:
    """The page is served and the server ends; or the extra is named."""
    if not all(map(there, ("plotly", "starlette", "uvicorn"))):
        assert "biasfree[explore]" in biasfree("explore", "--no-browser", "--port", "0", code=2)
        return
    command = [PROGRAM, "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(found[0] for line in server.stdout if (found := re.search(r"http://127[^\s]+", line)))
            with urlopen(address, timeout=30) as page:
                assert b"<html" in page.read().lower()
        finally:
            server.send_signal(signal.SIGINT)


COMMANDS = {
    "simulate": simulate, "reproduce": reproduce, "find": find, "diagnose": diagnose, "inspect": inspect,
    "sweep": sweep, "explore": explore,
}  # fmt: skip


def biasfree(*arguments: str, code: int = 0) -> str:
    """What the installed program prints; its exit code must be the given one."""
    ended = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert ended.returncode == code, f"biasfree {' '.join(arguments)}: exit code {ended.returncode}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def python(code: str) -> None:
    """Run a few lines in a process of its own."""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def there(package: str) -> bool:
    """Whether an optional package is installed."""
    return importlib.util.find_spec(package) is not None


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Print what was run, and for how long."""
    began = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
