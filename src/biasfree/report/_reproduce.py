"""Run studies, several at a time, and leave numbers and pictures in a folder.

Each worker is a process that takes one module of studies after the other, since studies of a module share their
runs, and writes every outcome as soon as it has it: nothing is lost when either is interrupted, or when a study fails.
"""

import itertools
import multiprocessing
import queue
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from biasfree import studies
from biasfree.report import _outcomes
from biasfree.report._outcomes import Outcome, Request
from biasfree.report._plots import save_figure
from biasfree.report.figures import figures
from biasfree.studies import Study


class StudyError(RuntimeError):
    """A study could not be run to its end."""


def reproduce(
    wanted: Sequence[str] = (),
    folder: Path | str = "report",
    request: Request | None = None,
    *,
    jobs: int = 1,
    fresh: bool = False,
    progress: Callable[[str, str], None] | None = None,
) -> list[Outcome]:
    """Run the named studies (all by default) and write the folder's page.

    Args:
        wanted: ids or aliases.
        folder: where numbers, pictures and ``index.html`` go; made if it is not there.
        request: seed, quick and protocol.
        jobs: number of processes.
        fresh: run again what is there already.
        progress: called with a study's id and "running", "stored", "failed" or its verdict.

    Raises:
        ValueError: an unknown study.
        StudyError: studies failed; all others were run and are kept.
    """
    request, folder = request or Request(), Path(folder)
    chosen = studies.find(wanted)
    tell = progress or (lambda study, state: None)
    done: dict[str, Outcome] = {}
    for study in chosen:
        kept = None if fresh else _outcomes.stored(folder, study.id, request.key)
        if kept is not None:
            done[study.id] = kept
            tell(study.id, "stored")
    modules = [
        (module, [study.id for study in group])
        for module, group in itertools.groupby(
            (study for study in chosen if study.id not in done), key=lambda study: study.run.__module__
        )
    ]
    # The long ones first, so that no process is left with one at the end.
    modules.sort(key=lambda task: studies.rank_by_length(task[0]))
    failures: list[str] = []

    def heard(study: str, state: str, failure: str = "") -> None:
        tell(study, state)
        if failure:
            failures.append(failure)

    if jobs <= 1 or len(modules) <= 1:
        for module, ids in modules:
            run_module(module, ids, str(folder), request, heard)
    else:
        _in_processes(modules, str(folder), request, jobs, heard)
    for study in chosen:
        if study.id not in done:
            outcome = _outcomes.stored(folder, study.id, request.key)
            if outcome is not None:
                done[study.id] = outcome
    missing = [study.id for study in chosen if study.id not in done]
    if missing:
        raise StudyError("\n".join(failures or [f"these studies left no outcome: {', '.join(missing)}."]))
    return [done[study.id] for study in chosen]


def run_module(module: str, ids: Sequence[str], folder: str, request: Request, tell: Callable[..., None]) -> None:
    """Run these studies of one module, one after the other, each with its pictures and its outcome on disk."""
    for study in studies.find(ids):
        if study.run.__module__ != module:
            continue
        tell(study.id, "running")
        try:
            verdict = _one(study, Path(folder), request).verdict
        except Exception as error:
            tell(study.id, "failed", f"study {study.id} failed: {error}\n{traceback.format_exc()}")
        else:
            tell(study.id, verdict)


def _one(study: Study, folder: Path, request: Request) -> Outcome:
    begun = time.perf_counter()
    result = study.run(request.seed, request.quick, request.protocol)
    names = []
    for name, figure in figures(study.id, result.data).items():
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for ending in (".png", ".svg"):
            save_figure(figure, folder / "figures" / f"{name}{ending}")
            names.append(f"{name}{ending}")
            # Laid out once; laying out takes longer than drawing.
            figure.set_layout_engine("none")
    outcome = Outcome.of(study, result, request, time.perf_counter() - begun, tuple(names))
    outcome.save(folder)
    return outcome


def _worker(tasks: Any, news: Any, folder: str, request: Request) -> None:
    """Take modules until there are none; report by messages of plain text."""
    try:
        while True:
            try:
                module, ids = tasks.get_nowait()
            except queue.Empty:
                break
            run_module(module, ids, folder, request, lambda *message: news.put(message))
    except KeyboardInterrupt:
        pass


def _in_processes(
    modules: list[tuple[str, list[str]]], folder: str, request: Request, jobs: int, tell: Callable[..., None]
) -> None:
    # JAX's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    tasks, news = context.Queue(), context.Queue()
    for task in modules:
        tasks.put(task)
    workers = [
        context.Process(target=_worker, args=(tasks, news, folder, request), daemon=True)
        for _ in range(min(jobs, len(modules)))
    ]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers) or not news.empty():
            try:
                tell(*news.get(timeout=0.2))
            except queue.Empty:
                continue
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
