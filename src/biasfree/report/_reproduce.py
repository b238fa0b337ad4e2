"""Run studies, several at a time, and leave numbers and pictures in a folder.

Each worker is a process that takes one module of studies after the other, since studies of a module share their
runs, and writes every outcome as soon as it has it: nothing is lost when either is interrupted, or when a study fails.
"""

import gc
import importlib
import itertools
import multiprocessing
import os
import queue
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from biasfree import studies
from biasfree.report import _outcomes
from biasfree.report._outcomes import Outcome, Request
from biasfree.report._plots import save_finished
from biasfree.report.figures import figures
from biasfree.studies import Study


class StudyError(RuntimeError):
    """A study could not be run to its end."""


def reproduce(
    wanted: Sequence[str] = (),
    folder: Path | str = "report",
    request: Request | None = None,
    *,
    workers: "Workers | None" = None,
    fresh: bool = False,
    progress: Callable[[str, str], None] | None = None,
) -> list[Outcome]:
    """Run the named studies (all by default) and write the folder's page.

    Args:
        wanted: ids or aliases.
        folder: where numbers, pictures and ``index.html`` go; made if it is not there.
        request: seed, quick and protocol.
        workers: processes to share the work; without them it is done in this one.
        fresh: run again what is there already.
        progress: called with a study's id and "running", "stored", "failed" or its verdict.

    Raises:
        ValueError: an unknown study.
        StudyError: studies failed; all others were run and are kept.
    """
    request, folder = request or Request(), Path(folder)
    chosen = studies.find(wanted)
    notify = progress or (lambda study, state: None)
    done: dict[str, Outcome] = {}
    for study in chosen:
        kept = None if fresh else _outcomes.stored(folder, study.id, request.key)
        if kept is not None:
            done[study.id] = kept
            notify(study.id, "stored")
    modules = [
        (module, [study.id for study in group])
        for module, group in itertools.groupby(
            (study for study in chosen if study.id not in done), key=lambda study: study.run.__module__
        )
    ]
    # The long ones first, so that no process is left with one at the end.
    modules.sort(key=lambda task: studies.rank_by_length(task[0]))
    failures: list[str] = []

    def report(study: str, state: str, failure: str = "") -> None:
        notify(study, state)
        if failure:
            failures.append(failure)

    if workers is None:
        for module, ids in modules:
            run_module(module, ids, str(folder), request, report)
    else:
        workers.run([(module, ids, str(folder), request) for module, ids in modules], report)
    for study in chosen:
        if study.id not in done:
            outcome = _outcomes.stored(folder, study.id, request.key)
            if outcome is not None:
                done[study.id] = outcome
    missing = [study.id for study in chosen if study.id not in done]
    if missing:
        raise StudyError("\n".join(failures or [f"these studies left no outcome: {', '.join(missing)}."]))
    return [done[study.id] for study in chosen]


def run_module(module: str, ids: Sequence[str], folder: str, request: Request, notify: Callable[..., None]) -> None:
    """Run these studies of one module, one after the other, each with its pictures and its outcome on disk."""
    for study in studies.find(ids):
        if study.run.__module__ != module:
            continue
        notify(study.id, "running")
        try:
            verdict = _one(study, Path(folder), request).verdict
        except Exception as error:
            notify(study.id, "failed", f"study {study.id} failed: {error}\n{traceback.format_exc()}")
        else:
            notify(study.id, verdict)


def _one(study: Study, folder: Path, request: Request) -> Outcome:
    begun = time.perf_counter()
    result = study.run(request.seed, request.quick, request.protocol)
    names, formats = [], (".png",) if request.quick else (".png", ".svg")
    for name, figure in figures(study.id, result.data).items():
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        save_finished(figure, folder / "figures" / name, formats)
        names += [f"{name}{ending}" for ending in formats]
    outcome = Outcome.of(study, result, request, time.perf_counter() - begun, tuple(names))
    outcome.save(folder)
    return outcome


class Workers:
    """Processes that run modules of studies.

    Args:
        jobs: how many.
        quick: compile for speed of compilation: quick studies compile longer than they run.
    """

    def __init__(self, jobs: int, quick: bool = False) -> None:
        """Start the processes."""
        context: Any = multiprocessing.get_context("spawn")
        if _single_thread():
            context = multiprocessing.get_context("fork")
            _load()
            gc.freeze()  # what is shared is not looked through
        self._tasks, self._news = context.Queue(), context.Queue()
        self._processes = [
            context.Process(target=_worker, args=(self._tasks, self._news), daemon=True) for _ in range(jobs)
        ]
        # One thread each for linear algebra, and for XLA (NPROC): there is a process for every core already.
        settings = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NPROC": "1"}
        if quick:
            settings["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        settings = {name: value for name, value in settings.items() if name not in os.environ}
        os.environ.update(settings)
        try:
            for process in self._processes:
                process.start()
        finally:
            for name in settings:
                del os.environ[name]

    def run(self, tasks: Sequence[tuple[str, Sequence[str], str, Request]], notify: Callable[..., None]) -> None:
        """Have all tasks done; ``notify`` is called with what they report."""
        for task in (*tasks, *[None] * len(self._processes)):
            self._tasks.put(task)
        while any(process.is_alive() for process in self._processes) or not self._news.empty():
            try:
                notify(*self._news.get(timeout=0.2))
            except queue.Empty:
                continue

    def __enter__(self) -> "Workers":
        """Themselves."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.terminate()
            process.join()


def _single_thread() -> bool:
    """Whether this process may be forked, which saves loading everything anew: threads, such as JAX's, do not survive.

    Known on Linux only.
    """
    tasks = Path("/proc/self/task")
    return sys.platform == "linux" and tasks.is_dir() and len(list(tasks.iterdir())) == 1


def _load() -> None:
    """All that studies and pictures are likely to need."""
    studies.studies()
    for name in ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "biasfree.dynamics.exact"):
        importlib.import_module(name)


def _worker(tasks: Any, news: Any) -> None:
    """Take modules until there are none; report by messages of plain text."""
    try:
        _load()
        while (task := tasks.get()) is not None:
            module, ids, folder, request = task
            run_module(module, ids, folder, request, lambda *message: news.put(message))
    except KeyboardInterrupt:
        pass
