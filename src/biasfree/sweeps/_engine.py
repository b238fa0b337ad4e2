"""Who computes: this process, workers on this machine, or the workers of a cluster elsewhere.

Each engine takes a queue of runs and gives finished ones as they come. Batches are fitted to about a second of work.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from biasfree import checks
from biasfree.sweeps._worker import BATCH_SECONDS, Cells, Finished, OtherNumericsError, Spec, keep_compiled_here, work

_MOST_IN_BATCH = 20_000
_NO_ANSWER, _NO_WORKERS = 10.0, 60.0  # seconds to wait for a scheduler, and for a worker
# A batch that took two workers down is halved. Dask looks at a worker's stack every 10 ms, wakes its loop every 20, and
# has it give memory back all the time, only to ask for it again: all that costs time.
_KEEP_MEMORY = 2**27  # bytes that a worker keeps for its next arrays
_LOCAL = {
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": _KEEP_MEMORY, "MALLOC_MMAP_THRESHOLD_": _KEEP_MEMORY // 4, "MALLOC_ARENA_MAX": 1,
        "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1,
    },
}  # fmt: skip
_GROWTH = 4  # of the number of runs in a batch, from one to the next


class ClusterError(RuntimeError):
    """The cluster is gone or cannot be used; the text says what to do."""


class Engine(Protocol):
    """Computes runs."""

    @property
    def dashboard(self) -> str | None:
        """Address of the page that shows the workers, if there is one."""

    def batches(
        self, spec: Spec, runs: np.ndarray, cells: Callable[[np.ndarray], Cells], stopped: Callable[[], bool]
    ) -> Iterator[tuple[np.ndarray, Finished]]:
        """Finished runs, in whatever order."""


class _Pace:
    """How many runs make a batch."""

    def __init__(self) -> None:
        self.size, self._each = 1, 0.0

    def learn(self, finished: Finished) -> None:
        if finished.done:
            each = finished.seconds / finished.done
            self._each = each if not self._each else 0.7 * self._each + 0.3 * each
            fitting = int(BATCH_SECONDS / max(self._each, 1e-9)) + 1
            self.size = min(fitting, self.size * _GROWTH, _MOST_IN_BATCH)


class Here:
    """This process."""

    dashboard: str | None = None

    def batches(
        self, spec: Spec, runs: np.ndarray, cells: Callable[[np.ndarray], Cells], stopped: Callable[[], bool]
    ) -> Iterator[tuple[np.ndarray, Finished]]:
        """Finished runs in order."""
        pace, begin = _Pace(), 0
        while begin < len(runs) and not stopped():
            batch = runs[begin : begin + pace.size]
            finished = work(spec, cells(batch), stopped=stopped)
            pace.learn(finished)
            begin += finished.done
            if finished.done:
                yield batch[: finished.done], finished


class Cluster:
    """Workers of a ``dask.distributed`` client.

    Worker, scheduler or network may fail at any time: a batch that was lost with its worker is computed by another, a
    run that takes its workers down again and again is a failed run, and a scheduler that is gone ends the sweep.
    """

    def __init__(self, client: Any) -> None:
        """Takes a ``distributed.Client``."""
        self._client = client
        self._pending: dict[Any, np.ndarray] = {}
        self._lonely_since: float | None = None

    @property
    def dashboard(self) -> str | None:
        """Its address, if somebody serves it."""
        try:
            import bokeh  # noqa: F401
        except ImportError:
            return None
        return str(self._client.dashboard_link) or None

    def batches(
        self, spec: Spec, runs: np.ndarray, cells: Callable[[np.ndarray], Cells], stopped: Callable[[], bool]
    ) -> Iterator[tuple[np.ndarray, Finished]]:
        """Finished runs as they come."""
        _sent_by_value(spec)
        pace, queue, suspects, blamed = _Pace(), deque[np.ndarray](), deque[np.ndarray](), set[int]()
        begin = 0
        try:
            while (queue or suspects or begin < len(runs) or self._pending) and not stopped():
                threads = self._threads()
                if not (queue or begin < len(runs) or self._pending):  # nobody else is left that could be to blame
                    queue.append(suspects.popleft())
                for _ in range(2 * threads + 1 - len(self._pending)):
                    if queue:
                        batch = queue.popleft()
                    elif begin < len(runs):
                        # Small batches at the end, so that no worker waits for another's last one.
                        size = min(pace.size, 1 + (len(runs) - begin) // (2 * max(1, threads)))
                        batch = runs[begin : begin + size]
                        begin += len(batch)
                    else:
                        break
                    self._pending[self._client.submit(work, spec, cells(batch), pure=False)] = batch
                for batch, outcome in self._ended():
                    if isinstance(outcome, Finished):
                        pace.learn(outcome)
                        if outcome.done < len(batch):
                            queue.append(batch[outcome.done :])
                        yield batch[: outcome.done], outcome
                    elif len(batch) > 1:  # one of them takes workers down: find out which
                        half = len(batch) // 2
                        queue.extend((batch[:half], batch[half:]))
                    elif int(batch[0]) not in blamed:  # runs that only waited beside it are suspected too
                        blamed.add(int(batch[0]))
                        suspects.append(batch)
                    else:
                        yield batch, Finished(1, {0: outcome}, (0,), {}, 0.0)
        finally:
            if self._alive():
                self._client.cancel(list(self._pending), force=True)
            self._pending.clear()

    def _ended(self) -> Iterator[tuple[np.ndarray, Finished | str]]:
        """What has ended since: runs, or why a batch has none."""
        from distributed import wait
        from distributed.scheduler import KilledWorker

        try:
            with self._client.as_current():
                ended = wait(list(self._pending), timeout=0.5, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            ended = set()
        except Exception as error:  # the futures of a scheduler that is gone
            raise self._gone() from error
        if not self._alive():
            raise self._gone()
        for future in ended:
            if future.status in ("lost", "pending"):
                continue  # its worker was killed with the result; another computes it
            batch = self._pending.pop(future)
            if future.status == "finished":
                yield batch, future.result()
            elif future.status == "error":
                failure = future.exception()
                if isinstance(failure, OtherNumericsError):
                    raise ClusterError(str(failure)) from failure
                if isinstance(failure, KilledWorker):
                    yield batch, "the run took its worker down several times, perhaps for lack of memory."
                else:
                    raise ClusterError(
                        f"a worker could not take up a batch: {type(failure).__name__}: {failure}. The workers need "
                        "biasfree installed in the same version."
                    ) from failure
            else:
                raise self._gone()

    def _threads(self) -> int:
        """Of all workers now."""
        try:
            threads = sum(self._client.nthreads().values())
        except Exception as error:
            raise self._gone() from error
        now = time.monotonic()
        self._lonely_since = None if threads else self._lonely_since or now
        if self._lonely_since is not None and now - self._lonely_since > _NO_WORKERS:
            raise ClusterError(
                f"no worker joined the cluster for {_NO_WORKERS:g} seconds. Runs finished before are kept; start "
                "workers, and the same command goes on."
            )
        return threads

    def _alive(self) -> bool:
        return bool(self._client.status == "running")

    def _gone(self) -> ClusterError:
        return ClusterError(
            "the scheduler of the cluster is gone. Runs finished before are kept; start it again, and the same command "
            "goes on."
        )


@contextmanager
def engine(workers: int | None, scheduler: str | None) -> Iterator[Engine]:
    """The engine that is asked for: this process, ``workers`` local processes, or a scheduler's address.

    Raises:
        ValueError: a scheduler that does not answer, or Dask is not installed.
    """
    if scheduler is None and (workers is None or workers == 1):
        yield Here()
        return
    checks.installed("distributed", extra="cluster", what="a sweep by several workers")
    import dask
    from distributed import Client, LocalCluster

    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=_NO_ANSWER, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(f"no scheduler answers at {scheduler}: start one by `dask scheduler`.") from error
        with client, _silenced():
            client.register_plugin(_plugin())
            yield Cluster(client)
        return
    with (
        _silenced(),
        dask.config.set(_LOCAL),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", memory_limit=0, silence_logs=logging.CRITICAL,
        ) as local,
        Client(local, set_as_default=False) as client,
    ):  # fmt: skip
        yield Cluster(client)


@contextmanager
def _silenced() -> Iterator[None]:
    """What Dask logs of lost connections and workers, tracebacks included, is said here in a sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _sent_by_value(spec: Spec) -> None:
    """A user's functions travel as they are: workers need not have the file they stand in."""
    import cloudpickle

    for each in (spec.function, *spec.keep):
        module = sys.modules.get(getattr(each, "__module__", ""))
        if module is not None and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)


def _plugin() -> Any:
    from distributed import WorkerPlugin

    class KeepCompiled(WorkerPlugin):
        """Before the first run of every worker, those that join later included."""

        name = "biasfree"

        def setup(self, worker: Any) -> None:
            keep_compiled_here()

    return KeepCompiled()
