"""``biasfree reproduce``: both papers re-derived on this machine."""

import contextlib
import gc
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from biasfree.report import Outcome


class Protocol(StrEnum):
    """How figures are run."""

    flow = "flow"
    paper = "paper"


def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="Studies to run; all by default. See --list.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page, the pictures and the numbers.")] = Path("report"),
    seed: Annotated[int, typer.Option(help="Seed of all data and weights.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller problems, half a minute.")] = False,
    protocol: Annotated[
        Protocol, typer.Option(help="flow, or paper: the papers' own descent at their learning rates.")
    ] = Protocol.flow,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the outcomes to this JSON file.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per processor.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again what is finished already.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, only the closing table.")] = False,
) -> None:
    """Re-derive every theorem, lemma, equation and figure of the papers; exit code 1 when one differs."""
    # Loading and pictures make many objects that stay for long: they are looked through a hundredth as often.
    gc.set_threshold(70_000, 20, 50)
    _keep_compiled()
    if jobs != 1:
        _one_thread_each()
    from biasfree import checks, files, report, studies

    if list_only:
        for study in studies.studies():
            also = f" ({', '.join(study.aliases)})" if study.aliases else ""
            typer.echo(f"{study.id:28} {study.title}{also}")
        return
    if quiet:
        os.environ["BIASFREE_QUIET"] = "1"
    # Every argument is checked before the work starts.
    if json_file is not None:
        files.writable(json_file, (".json",))
    files.folder(out)
    request = report.Request(checks.count(seed, "seed", least=0), quick, protocol.value)
    count = checks.count(os.cpu_count() or 1 if jobs is None else jobs, "jobs")

    begun = time.perf_counter()
    try:
        with report.Workers(count, quick) if count > 1 else contextlib.nullcontext() as workers:
            chosen = studies.find(ids or ())
            outcomes = report.reproduce(
                [study.id for study in chosen],
                out,
                request,
                workers=workers,
                fresh=fresh,
                progress=_progress(quiet, len(chosen)),
            )
    except KeyboardInterrupt:
        typer.echo("interrupted; finished studies are kept, and the same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    except report.StudyError as error:
        typer.echo(f"biasfree: {error}", err=True)
        raise typer.Exit(1) from None
    page = report.write_page(out, outcomes, time.perf_counter() - begun)
    if json_file is not None:
        report.write_json(json_file, outcomes)
    _table(outcomes)
    typer.echo(f"wrote {page}")
    if any(outcome.verdict == studies.VERDICTS[-1] for outcome in outcomes):
        raise typer.Exit(1)


def _keep_compiled() -> None:
    """Have JAX keep what it compiles, for the processes of this and of later runs: a third of the time otherwise.

    Must come before JAX is loaded. Set JAX_COMPILATION_CACHE_DIR for another folder.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "biasfree" / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _one_thread_each() -> None:
    """One thread for linear algebra: there is a process for every core, and without threads it can be forked.

    Must come before NumPy is loaded.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _progress(quiet: bool, total: int) -> "Callable[[str, str], None] | None":
    """A line per study on standard error, as it begins and as it ends."""
    if quiet:
        return None
    ended = 0

    def show(study: str, state: str) -> None:
        nonlocal ended
        if state == "running":
            typer.echo(f"  …     {study}", err=True)
        else:
            ended += 1
            typer.echo(f"{ended:3}/{total:<3} {study}: {state}", err=True)

    return show


def _table(outcomes: "Sequence[Outcome]") -> None:
    for outcome in outcomes:
        typer.echo(f"{outcome.id:28} {outcome.verdict:20} {outcome.seconds:6.1f} s")
