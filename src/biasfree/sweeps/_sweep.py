"""The public function: plan, look up what is known, compute what is not, refine, assemble."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from biasfree import checks
from biasfree.sweeps import _keys, _refine
from biasfree.sweeps._engine import Engine, engine
from biasfree.sweeps._plan import LEVELS, Plan
from biasfree.sweeps._result import Sweep, Tally, assembled
from biasfree.sweeps._store import DONE, FAILED, Batch, Store, locked
from biasfree.sweeps._table import Known, Table
from biasfree.sweeps._worker import Cells, Finished


class SweepProgress(NamedTuple):
    """How far a sweep is.

    Attributes:
        done: runs that are known, those of earlier sweeps included.
        total: runs that are planned so far; refinement adds to them.
        computed: runs that this sweep computed.
        failed: of the known ones.
        seconds: since computing began.
        dashboard: address of the cluster's own page, if there is one.
    """

    done: int
    total: int
    computed: int
    failed: int
    seconds: float
    dashboard: str | None

    @property
    def per_second(self) -> float:
        """Runs computed per second."""
        return self.computed / self.seconds if self.seconds > 0 else 0.0


ProgressCallback = Callable[[SweepProgress], None]


def sweep(
    run: Mapping[str, Any] | Callable[..., Any],
    axes: Mapping[str, Any],
    *,
    keep: Iterable[str | Callable[..., Any]] = (),
    seeds: int | Iterable[int] = 1,
    refine: str | None = None,
    levels: int = LEVELS,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    title: str = "",
    progress: ProgressCallback | None = None,
) -> Sweep:
    """Run a grid of flows and keep what is asked of each: a phase diagram as a labelled ``xarray.Dataset``.

    Args:
        run: what all runs share, by name: ``data`` (a generator's name, a file, or a Dataset), the generator's own
            arguments, ``data_seed`` ("run" for the run's own), ``noise`` on targets, ``width``, ``depth``, ``slope``,
            ``init_scale``, ``loss``, ``until``, ``stop`` (also "departure": where the linear plateau is left),
            ``weight_decay``, ``learning_rate`` and the flow's others. Or a function of the axes (and of ``seed``, if it
            has such an argument) that returns a number, a word, or a dict of these.
        axes: values by name of the argument, or a ``Range``.
        keep: quantities by name (``sweeps.REGISTRY``; ``measure.linearity.error``, ``theory.…``, ``plateaus.…``,
            ``diagnose.…``), or functions of a run, which has ``dataset``, ``network``, ``run`` and ``arguments``.
        seeds: how many, from 0 on, or which.
        refine: a kept quantity; grid cells whose corners disagree on it are halved ``levels`` times.
        levels: of refinement.
        folder: where finished runs are kept, so that the same call goes on after an interruption and a larger one
            computes only what is new; by default nothing is kept.
        workers: processes of this machine; by default this process alone.
        scheduler: address of a ``dask.distributed`` cluster.
        title: of pictures and files.
        progress: called with a ``SweepProgress`` as batches finish.

    Raises:
        ValueError: a plan that cannot be run, a folder in which another sweep is at work.
        StoreError: the folder cannot be written, e.g. because the disk is full; finished runs are kept.
        ClusterError: the cluster is gone; finished runs are kept.
        KeyboardInterrupt: on Ctrl-C; finished runs are kept.

    >>> from biasfree import sweeps
    >>> result = sweep(
    ...     {"data": "xor", "width": 20, "until": 2}, {"slope": [0.0, 0.5]}, keep=["final_loss"], seeds=2
    ... )
    >>> dict(result.dataset.final_loss.sizes)
    {'slope': 2, 'seed': 2}
    """
    plan = Plan.of(run, axes, keep, seeds, refine=refine, levels=levels, title=title)
    return run_plan(plan, folder, workers=workers, scheduler=scheduler, progress=progress)


def run_plan(
    plan: Plan,
    folder: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: ProgressCallback | None = None,
) -> Sweep:
    """``sweep`` for a plan that was read from a file."""
    if workers is not None:
        checks.count(workers, "workers")
        if scheduler is not None:
            raise ValueError("workers are processes of this machine, a scheduler has its own: give one of both.")
    with contextlib.ExitStack() as held:
        store = None if folder is None else held.enter_context(locked(Path(folder)))
        interruption = held.enter_context(_Interruption())
        known = Known([] if store is None else store.read())
        fine = [_refine.finest(axis, plan.levels if plan.refine else 0) for axis in plan.axes.values()]
        running = _Running(plan, fine, known, store, interruption.pressed, progress)
        get_engine = held.enter_context(_lazy_engine(workers, scheduler, interruption))
        table = _whole_grid(running, get_engine)
        if plan.refine is not None:
            _refined(running, get_engine, table)
    return assembled(plan, fine, table, running.tally(), None if folder is None else Path(folder))


class _Running:
    """One sweep under way: looks up, computes, stores, counts."""

    def __init__(
        self,
        plan: Plan,
        fine: list[tuple[Any, ...]],
        known: Known,
        store: Store | None,
        stopped: Callable[[], bool],
        progress: ProgressCallback | None,
    ) -> None:
        self.plan, self._known, self._store, self._stopped, self._progress = plan, known, store, stopped, progress
        self.fine = fine
        self._spec, self._word = plan.spec(fine), plan.shared_word()
        self._kinds = {name: each.kind for name, each in plan.quantities.items()}
        self._done = self._total = self._computed = self._failed = 0
        self._began = time.perf_counter()

    def tally(self) -> Tally:
        """What was done, for the result."""
        damaged = [] if self._store is None else list(self._store.damaged)
        return Tally(self._computed, self._done - self._computed, time.perf_counter() - self._began, damaged)

    def compute(self, points: np.ndarray, get_engine: Callable[[], Engine]) -> Table:
        """All seeds of ``points``, indices into the finest grid."""
        seeds = np.array(self.plan.seeds)
        keys = _keys.keys(self._word, self._spec.axes, points, self.plan.seeds)
        table = Table(len(keys), self._kinds)
        missing = table.take_known(keys, self._known, None if self.plan.function is not None else set(self._kinds))
        self._total += len(keys)
        self._done += len(keys) - len(missing)
        self._failed += table.failed()

        def cells(runs: np.ndarray) -> Cells:
            return Cells(points[runs // len(seeds)], seeds[runs % len(seeds)])

        if len(missing):
            chosen = get_engine()
            self._report(chosen)
            for runs, finished in chosen.batches(self._spec, missing, cells, self._stopped):
                self._take(table, keys, runs, finished)
                self._report(chosen)
        if self._stopped():
            raise KeyboardInterrupt
        return table

    def _take(self, table: Table, keys: np.ndarray, runs: np.ndarray, finished: Finished) -> None:
        batch = _batch(keys[runs], finished)
        table.put(runs, batch, np.arange(len(runs)))
        self._done += len(runs)
        self._computed += len(runs)
        self._failed += len(finished.messages)
        if self._store is None:
            return
        lasting = np.ones(len(runs), dtype=bool)
        lasting[list(finished.passing)] = False
        if lasting.any():
            self._store.write(batch.only(lasting))

    def _report(self, chosen: Engine) -> None:
        if self._progress is not None:
            since = time.perf_counter() - self._began
            self._progress(
                SweepProgress(self._done, self._total, self._computed, self._failed, since, chosen.dashboard)
            )


def _whole_grid(running: _Running, get_engine: Callable[[], Engine]) -> Table:
    axes = list(running.plan.axes.values())
    steps = [
        max(1, (len(values) - 1) // max(1, len(axis.values) - 1))
        for values, axis in zip(running.fine, axes, strict=True)
    ]
    sizes = [len(axis.values) for axis in axes]
    points = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1) * np.array(steps)
    table = running.compute(points, get_engine)
    table.points, table.level = points, np.zeros(len(points), dtype=np.int8)
    return table


def _refined(running: _Running, get_engine: Callable[[], Engine], table: Table) -> None:
    """Add the points of every level to ``table``."""
    plan = running.plan
    assert plan.refine is not None
    if plan.refine not in table.columns:
        raise ValueError(f"the run does not return {plan.refine!r}, which is to be refined.")
    kind = table.kinds[plan.refine]
    refinement = _refine.Refinement(running.fine, _refine.first_boxes(plan.axes, plan.levels), kind)
    new = table
    for level in range(1, plan.levels + 2):
        positions = [tuple(int(i) for i in point) for point in new.points]
        refinement.learn(positions, new.columns[plan.refine].reshape(len(positions), -1))
        wanted: list[_refine.Position] = []
        if level <= plan.levels:
            wanted = refinement.wanted()
        if not wanted:
            return
        points = np.array(wanted)
        new = running.compute(points, get_engine)
        new.points, new.level = points, np.full(len(points), level, dtype=np.int8)
        table.append(new)


def _batch(keys: np.ndarray, finished: Finished) -> Batch:
    state = np.full(finished.done, DONE, dtype=np.uint8)
    message = np.full(finished.done, "", dtype=object)
    for index, sentence in finished.messages.items():
        state[index], message[index] = FAILED, sentence
    return Batch(keys, state, message, finished.columns)


@contextlib.contextmanager
def _lazy_engine(
    workers: int | None, scheduler: str | None, interruption: "_Interruption"
) -> Iterator[Callable[[], Engine]]:
    """An engine that is started when there is something to compute."""
    with contextlib.ExitStack() as held:
        started: list[Engine] = []

        def get() -> Engine:
            if not started:
                with interruption.put_off():  # half a cluster could not be ended properly
                    started.append(held.enter_context(engine(workers, scheduler)))
            return started[0]

        yield get


class _Interruption:
    """Whether Ctrl-C was pressed: a flow that ends early because of it must not be taken for a result."""

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self.pressed: Callable[[], bool] = self._pressed.is_set
        self._main = threading.current_thread() is threading.main_thread()
        self._put_off = False

    def __enter__(self) -> "_Interruption":
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: Any) -> None:
        self._pressed.set()
        if not self._put_off:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """React to Ctrl-C afterwards only; processes that are started meanwhile leave it to this one for good."""
        mask = {signal.SIGINT} if self._main and hasattr(signal, "pthread_sigmask") else set[signal.Signals]()
        self._put_off = True
        if mask:
            resource_tracker.ensure_running()  # its start would end the blocking
            signal.pthread_sigmask(signal.SIG_BLOCK, mask)
        try:
            yield
        except Exception:
            if not self.pressed():
                raise
        finally:
            self._put_off = False
            if mask:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, mask)
        if self.pressed():
            raise KeyboardInterrupt
