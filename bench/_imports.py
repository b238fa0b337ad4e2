"""What a user waits for before anything begins: ``import biasfree`` and ``biasfree --help``, beside ``import numpy``.

New processes, in turns, so that all meet the same machine; the median of the rounds.
"""

import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from bench._clock import say, timed

_ROUNDS = {True: 5, False: 15}  # by whether the run is quick
_HELP = "import sys; from biasfree.cli import main; sys.argv = ['biasfree', '--help']; main()"


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of the two imports, of whole processes, and their ratios."""
    say("imports beside numpy")
    contenders: dict[str, Callable[[], float]] = {
        "import numpy": lambda: _import("numpy"),
        "import biasfree": lambda: _import("biasfree"),
        "python -c 'import numpy'": lambda: _process("import numpy"),
        "biasfree --help": lambda: _process(_HELP),
    }
    rounds = [{name: seconds() for name, seconds in contenders.items()} for _ in range(_ROUNDS[quick])]
    seconds = {name: median(each[name] for each in rounds) for name in contenders}
    return {
        "seconds": seconds,
        "import": seconds["import biasfree"] / seconds["import numpy"],
        "help": seconds["biasfree --help"] / seconds["python -c 'import numpy'"],
    }


def _import(module: str) -> float:
    """Seconds of one import in a new process, without the start of Python itself."""
    code = f"import time; began = time.perf_counter(); import {module}; print(time.perf_counter() - began)"
    return float(_python(code).stdout)


def _process(code: str) -> float:
    """Seconds of a whole process, the start of Python included."""
    return timed(lambda: _python(code))[0]


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
