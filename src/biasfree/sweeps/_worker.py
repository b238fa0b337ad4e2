"""What a worker does: a batch of runs, one after the other, until its time is up.

A run that fails is a row with a sentence. Results are the same wherever and in whatever order they are computed:
each run is on its own, and linear algebra uses one thread.
"""

import getpass
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from biasfree.datasets import Dataset
from biasfree.sweeps import _keys
from biasfree.sweeps._case import Case
from biasfree.sweeps._quantities import Quantity, converted, of_function, quantity
from biasfree.sweeps._store import DONE, FAILED

BATCH_SECONDS = 1.0  # so that sending and storing a batch costs little beside computing it
_first = threading.Lock()
_compiled = False


class Cell(NamedTuple):
    """One run: the values of the axes, and the seed."""

    values: tuple[Any, ...]
    seed: int


class Spec(NamedTuple):
    """What all runs of a sweep share, as it is sent to workers.

    Attributes:
        shared: arguments by name.
        axes: names of the arguments that differ.
        keep: names of quantities, or functions of a run.
        function: a user's own run, instead of arguments and quantities.
        data: inputs, targets and name of data that no generator makes.
        numerics: what the workers' package must compute like.
    """

    shared: Mapping[str, Any]
    axes: tuple[str, ...]
    keep: tuple[str | Callable[[Case], Any], ...]
    function: Callable[..., Any] | None
    data: tuple[np.ndarray, np.ndarray, str] | None
    numerics: str


class Finished(NamedTuple):
    """The first runs of a batch, as many as there was time for.

    Attributes:
        state: DONE or FAILED.
        message: a sentence for failed runs.
        passing: failures that need not happen again, such as a lack of memory.
        columns: what was kept.
        seconds: of work.
    """

    state: list[int]
    message: list[str]
    passing: list[bool]
    columns: dict[str, list[Any]]
    seconds: float


class OtherNumericsError(RuntimeError):
    """A worker's package is not the command's."""


def work(
    spec: Spec, cells: Sequence[Cell], seconds: float = BATCH_SECONDS, stopped: Callable[[], bool] = bool
) -> Finished:
    """Compute ``cells`` in order until ``seconds`` are over or ``stopped`` says so; a run that was stopped is left out."""
    from threadpoolctl import threadpool_limits

    if spec.numerics != _keys.numerics():
        raise OtherNumericsError(
            "a worker computes with another version of biasfree or of its libraries than this command; its results could "
            "differ. Install the same versions on all workers."
        )
    began = time.perf_counter()
    finished = Finished([], [], [], {}, 0.0)
    run = _runner(spec)
    with threadpool_limits(1):
        for index, cell in enumerate(cells):
            try:
                with _one_compiles(index == 0):
                    row, message, passing = run(cell)
            except KeyboardInterrupt:
                if not stopped():
                    raise
                break
            if stopped():
                break
            _add(finished, row, message, passing)
            if time.perf_counter() - began >= seconds:
                break
    return finished._replace(seconds=time.perf_counter() - began)


def quantities(keep: Iterable[str | Callable[[Case], Any]]) -> dict[str, Quantity]:
    """Kept quantities by name."""
    return {each if isinstance(each, str) else each.__name__: quantity(each) if isinstance(each, str) else of_function(each)
            for each in keep}  # fmt: skip


Row = tuple[dict[str, Any], str, bool]


def _runner(spec: Spec) -> Callable[[Cell], Row]:
    if spec.function is not None:
        return lambda cell: _own_function(spec, cell)
    kept = quantities(spec.keep)
    data = None if spec.data is None else Dataset(*spec.data)
    return lambda cell: _evaluated(
        Case(dict(spec.shared) | dict(zip(spec.axes, cell.values, strict=True)), cell.seed, data), kept
    )


def _evaluated(case: Case, kept: Mapping[str, Quantity]) -> Row:
    """Every quantity of a run; those that fail are missing, and the first says why."""
    row: dict[str, Any] = {}
    message, passing = "", False
    for name, each in kept.items():
        try:
            row[name] = converted(each.of(case), each.kind, name)
        except Exception as error:  # whatever it is, it is this cell's and not the end of the sweep
            row[name] = "" if each.kind == "text" else np.nan
            message, passing = message or _sentence(error), passing or isinstance(error, (MemoryError, OSError))
    return row, message, passing


def _own_function(spec: Spec, cell: Cell) -> Row:
    assert spec.function is not None
    arguments = dict(spec.shared) | dict(zip(spec.axes, cell.values, strict=True))
    try:
        found = spec.function(**arguments, **({"seed": cell.seed} if takes_seed(spec.function) else {}))
        if not isinstance(found, Mapping):
            found = {spec.function.__name__: found}
        return {name: value if isinstance(value, str) else float(value) for name, value in found.items()}, "", False
    except Exception as error:
        return {}, _sentence(error), isinstance(error, (MemoryError, OSError))


def takes_seed(function: Callable[..., Any]) -> bool:
    """Whether a user's run has a ``seed``."""
    code = getattr(function, "__code__", None)
    return code is not None and "seed" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _add(finished: Finished, row: dict[str, Any], message: str, passing: bool) -> None:
    count = len(finished.state)
    finished.state.append(FAILED if message else DONE)
    finished.message.append(message)
    finished.passing.append(passing)
    for name in {**finished.columns, **row}:
        filler = "" if isinstance(row.get(name, next(iter(finished.columns.get(name, [])), 0.0)), str) else np.nan
        column = finished.columns.setdefault(name, [filler] * count)
        column.append(row.get(name, filler))


@contextmanager
def _one_compiles(first: bool) -> Any:
    """The first run of a process holds a lock of its machine: one process compiles, the others load what it kept."""
    global _compiled
    if not first or _compiled:
        yield
        return
    from filelock import FileLock

    with _first, FileLock(_own_folder() / "compiling"):
        yield
        _compiled = True


def keep_compiled_here() -> None:
    """On a cluster, have this process keep compiled code on its machine's own disk, not on one that many share."""
    import numba

    if "biasfree.dynamics.exact._kernels" not in sys.modules and not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = str(_own_folder() / "numba")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_own_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _own_folder() -> Path:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "user"
    folder = Path(tempfile.gettempdir()) / f"biasfree-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
