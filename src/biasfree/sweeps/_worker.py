"""What a worker does: a batch of runs, one after the other, until its time is up.

A run that fails is a row with a sentence. Results are the same wherever and in whatever order they are computed:
each run is on its own, and linear algebra uses one thread.
"""

import getpass
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from biasfree.datasets import Dataset
from biasfree.sweeps import _keys
from biasfree.sweeps._case import Case
from biasfree.sweeps._quantities import Quantity, converted, of_function, quantity
from biasfree.sweeps._store import ABOUT, as_words

_PATIENCE = 60.0  # seconds to wait for another process that compiles
BATCH_SECONDS = 1.0  # so that sending and storing a batch costs little beside computing it
_first = threading.Lock()
_compiled = False


class Spec(NamedTuple):
    """What all runs of a sweep share, as it is sent to workers.

    Attributes:
        shared: arguments by name.
        axes: the arguments that differ, with their values.
        keep: names of quantities, or functions of a run.
        function: a user's own run, instead of arguments and quantities.
        data: inputs, targets and name of data that no generator makes.
        numerics: what the workers' package must compute like.
    """

    shared: Mapping[str, Any]
    axes: Mapping[str, Sequence[Any]]
    keep: tuple[str | Callable[[Case], Any], ...]
    function: Callable[..., Any] | None
    data: tuple[np.ndarray, np.ndarray, str] | None
    numerics: str


class Cells(NamedTuple):
    """Some runs: indices into the values of the axes (runs, axes), and seeds."""

    points: np.ndarray
    seeds: np.ndarray

    def __len__(self) -> int:
        """Number of runs."""
        return len(self.seeds)


class Finished(NamedTuple):
    """The first runs of a batch, as many as there was time for.

    Attributes:
        done: how many.
        messages: sentences of those that failed.
        passing: failures that need not happen again, such as a lack of memory.
        columns: what was kept: float64, or str objects for text.
        seconds: of work.
    """

    done: int
    messages: dict[int, str]
    passing: tuple[int, ...]
    columns: dict[str, np.ndarray]
    seconds: float


class OtherNumericsError(RuntimeError):
    """A worker's package is not the command's."""


def work(spec: Spec, cells: Cells, stopped: Callable[[], bool] | None = None) -> Finished:
    """Compute ``cells`` in order until a batch's time is over; how many were done is in the result.

    In the command's own process ``stopped`` says whether Ctrl-C was pressed: the run under way is then left out.
    """
    from threadpoolctl import threadpool_limits

    if spec.numerics != _keys.numerics():
        raise OtherNumericsError(
            "a worker computes with another version of biasfree or of its libraries than this command; its results "
            "could differ. Install the same versions on all workers."
        )
    began = time.perf_counter()
    rows: list[Row] = []
    run = _runner(spec)
    with threadpool_limits(1):
        for point, seed in zip(cells.points.tolist(), cells.seeds.tolist(), strict=True):
            arguments = {name: values[i] for (name, values), i in zip(spec.axes.items(), point, strict=True)}
            try:
                with _nothing if _compiled or stopped is not None else _one_compiles():
                    row = run(arguments, seed)
            except KeyboardInterrupt:
                if stopped is None or not stopped():
                    raise
                break
            if stopped is not None and stopped():
                break
            rows.append(row)
            if time.perf_counter() - began >= BATCH_SECONDS:
                break
    return _collected(rows, time.perf_counter() - began)


def quantities(keep: Iterable[str | Callable[[Case], Any]]) -> dict[str, Quantity]:
    """Kept quantities by name."""
    functions = {}
    for each in keep:
        if isinstance(each, str):
            functions[each] = quantity(each)
        elif not callable(each):
            raise ValueError(f"keep must be names of quantities or functions of a run, got {each!r}.")
        else:
            functions[each.__name__] = of_function(each)
    return functions


Row = tuple[dict[str, Any], str, bool]  # values, sentence, whether the failure may pass


def _runner(spec: Spec) -> Callable[[dict[str, Any], int], Row]:
    if spec.function is not None:
        function, seeded = spec.function, takes_seed(spec.function)
        return lambda arguments, seed: _own_function(function, arguments, {"seed": seed} if seeded else {})
    kept = quantities(spec.keep)
    data = None if spec.data is None else Dataset(*spec.data)
    return lambda arguments, seed: _evaluated(Case({**spec.shared, **arguments}, seed, data), kept)


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


def _own_function(function: Callable[..., Any], arguments: dict[str, Any], seed: dict[str, int]) -> Row:
    try:
        returned = function(**arguments, **seed)
        if not isinstance(returned, Mapping):
            returned = {function.__name__: returned}
        row = {str(name): _number_or_word(value, function.__name__) for name, value in returned.items()}
        check_names(row, arguments)
        return row, "", False
    except Exception as error:
        return {}, _sentence(error), isinstance(error, (MemoryError, OSError))


def _number_or_word(value: Any, name: str) -> float | str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, Mapping) or np.ndim(value) != 0:
        raise ValueError(f"{name} must return a number, a word, or a dict of these, got {value!r}.")
    return float(value)


def check_names(names: Iterable[str], axes: Iterable[str]) -> None:
    """What is kept shares one file with the axes and with what is said of every run."""
    taken = {*axes, "seed", *ABOUT}
    for name in names:
        if name in taken:
            raise ValueError(f"a kept quantity cannot be called {name!r}: an axis, or what is said of every run, is.")


def takes_seed(function: Callable[..., Any]) -> bool:
    """Whether a user's run has a ``seed``."""
    code = getattr(function, "__code__", None)
    return code is not None and "seed" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"


def _collected(rows: list[Row], seconds: float) -> Finished:
    """Rows as columns; what a row has not is missing."""
    columns = {}
    for name in dict.fromkeys(name for row, _, _ in rows for name in row):
        text = any(isinstance(row.get(name), str) for row, _, _ in rows)
        column = [row.get(name, "" if text else np.nan) for row, _, _ in rows]
        if text:
            column = [value if isinstance(value, str) else as_words(np.array([value]))[0] for value in column]
        columns[name] = np.array(column, dtype=object if text else np.float64)
    messages = {index: message for index, (_, message, _) in enumerate(rows) if message}
    passing = tuple(index for index, (_, _, passing) in enumerate(rows) if passing)
    return Finished(len(rows), messages, passing, columns, seconds)


_nothing = nullcontext()


@contextmanager
def _one_compiles() -> Iterator[None]:
    """The first run of a process holds a lock of its machine: one process compiles, the others load what it kept."""
    global _compiled
    from filelock import FileLock, Timeout

    lock = FileLock(_own_folder() / "compiling", timeout=_PATIENCE)
    with _first:
        with suppress(Timeout):  # held by somebody's long run: compiling twice is the lesser evil
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
        _compiled = True


def keep_compiled_here() -> None:
    """On a cluster, have this process keep compiled code on its machine's own disk, not on one that many share."""
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
