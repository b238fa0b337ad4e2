"""``biasfree sweep``: a plan of many runs, and a picture of their results."""

import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from biasfree.sweeps import Sweep

EXAMPLE = "example"


def sweep(
    plan: Annotated[
        str | None,
        typer.Argument(help="A plan (plan.toml), the name of one that comes with biasfree, or the word plot."),
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="After plot: the .nc file of a sweep.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the result goes; plan.nc beside the plan by default. After plot: picture."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where finished runs are kept; plan.runs beside the plan by default.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of this machine; this one alone by default.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a dask.distributed cluster.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the phase diagram to this .png, .pdf or .svg.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="What the picture shows; may be given several times.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Write a commented plan (plan.toml) and exit.")] = False,
    plans: Annotated[bool, typer.Option("--list", help="List the plans that come with biasfree.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")] = False,
) -> None:
    """Run a plan of many runs and keep its phase diagram; started again, it goes on where it was."""
    if plans:
        _list()
    elif example:
        _example(Path("plan.toml") if plan is None else Path(plan))
    elif plan is None:
        raise ValueError("name a plan: biasfree sweep plan.toml. `biasfree sweep --example` writes one.")
    elif plan == "plot":
        _plot(file, out, show, quiet)
    elif file is not None:
        raise ValueError(f"one plan at a time, got {plan} and {file}. To draw a result: biasfree sweep plot {file}.")
    else:
        _run(plan, out, folder, workers, scheduler, plot, show, as_json, quiet)


def _list() -> None:
    from biasfree import sweeps

    for name in sweeps.shipped():
        typer.echo(f"{name:24} {sweeps.load_plan(name).title}")


def _example(path: Path) -> None:
    from biasfree import files, sweeps

    files.writable(path, (".toml",))
    if path.exists():
        raise ValueError(f"{path} exists already. Name another file: biasfree sweep --example other.toml.")
    with files.written_whole(path) as draft:
        draft.write_text(sweeps.shipped_text(EXAMPLE), encoding="utf-8")
    typer.echo(f"wrote {path}; run it by: biasfree sweep {path}")


def _plot(file: Path | None, out: Path | None, show: list[str] | None, quiet: bool) -> None:
    from biasfree import files, report, sweeps
    from biasfree.report import _plots

    if file is None:
        raise ValueError("name the result to draw: biasfree sweep plot plan.nc.")
    target = files.writable(out or file.with_suffix(".png"), _plots.FORMATS)
    report.save_figure(sweeps.load(file).plot(show or None), target)
    if not quiet:
        typer.echo(f"wrote {target}")


def _run(
    name: str,
    out: Path | None,
    folder: Path | None,
    workers: int | None,
    scheduler: str | None,
    plot: Path | None,
    show: list[str] | None,
    as_json: bool,
    quiet: bool,
) -> None:
    os.environ["BIASFREE_QUIET"] = "1"  # the progress line says enough
    with _on(signal.SIGINT, signal.SIG_DFL):  # some library's import swallows KeyboardInterrupt
        from biasfree import files, report, sweeps
        from biasfree.report import _plots

        # Every argument is checked before the work starts.
        plan = sweeps.load_plan(name)
    base = Path(name) if Path(name).suffix else Path(f"{name}.toml")
    result = files.writable(out or base.with_suffix(".nc"), (".nc",))
    if plot is not None:
        files.writable(plot, _plots.FORMATS)
    kept = folder or base.with_suffix(".runs")
    try:
        with (
            _on(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT)),  # a batch system's time limit, say
            report.sweep_progress(quiet or as_json) as progress,
        ):
            outcome = sweeps.run_plan(plan, kept, workers=workers, scheduler=scheduler, progress=progress)
        _write(outcome, result, plot, show)
    except KeyboardInterrupt:
        logging.getLogger("asyncio").disabled = True  # else it logs, as the process ends, what Dask left open
        typer.echo(f"interrupted; finished runs are kept in {kept}, and the same command goes on.", err=True)
        sys.exit(130)
    except (sweeps.StoreError, sweeps.ClusterError) as error:
        typer.echo(f"biasfree: {error}", err=True)
        sys.exit(1)
    if as_json:
        typer.echo(json.dumps(outcome.summary() | {"file": str(result)}, indent=2, ensure_ascii=False))
    elif not quiet:
        typer.echo(str(outcome))
        for path in filter(None, (result, plot)):
            typer.echo(f"  wrote    {path}")


@contextmanager
def _on(number: int, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _write(outcome: "Sweep", result: Path, plot: Path | None, show: list[str] | None) -> None:
    from biasfree import report, sweeps

    try:
        outcome.save(result)
        if plot is not None:
            report.save_figure(outcome.plot(show or None), plot)
    except OSError as error:
        raise sweeps.StoreError(
            f"cannot write the result: {error.strerror or error}. All runs are kept; make room, and the same command "
            "only writes it."
        ) from error
