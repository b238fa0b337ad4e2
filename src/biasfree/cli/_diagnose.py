"""``biasfree diagnose``: the title's question for the user's own data."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from biasfree.cli._simulate import load_dataset


class Loss(StrEnum):
    """The losses whose course is foretold."""

    square = "square"
    logistic = "logistic"


def diagnose(
    data: Annotated[str, typer.Argument(help="A CSV, Parquet or NPZ file, or a built-in data set (try six-points).")],
    target: Annotated[str | None, typer.Option(help="Column of the file to predict.")] = None,
    loss: Annotated[Loss, typer.Option(help="square, or logistic for two classes.")] = Loss.square,
    slope: Annotated[float, typer.Option(help="0 is ReLU, 1 linear, between them leaky ReLU.")] = 0.0,
    width: Annotated[int, typer.Option(help="Hidden neurons.")] = 100,
    depth: Annotated[int, typer.Option(help="Weight layers; foretold for 2, mostly measured for more.")] = 2,
    init_scale: Annotated[float, typer.Option(help="Norm of each layer at the start.")] = 1e-3,
    seeds: Annotated[int, typer.Option(help="Number of starts to look at.")] = 3,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Centre and scale the inputs first; moves the origin.")
    ] = False,
    no_simulate: Annotated[bool, typer.Option("--no-simulate", help="Foretell only, do not check.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this JSON file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the learning curves to this .png, .pdf or .svg.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress line.")] = False,
) -> None:
    """Will a bias-free network be effectively linear on this data, until when, and what can it never learn?"""
    from biasfree import diagnosis, files, report
    from biasfree.report import _plots
    from biasfree.report._answer_progress import answer_progress

    if quiet:
        os.environ["BIASFREE_QUIET"] = "1"
    for path, endings in ((json_file, (".json",)), (html, (".html",)), (plot, _plots.FORMATS)):
        if path is not None:
            files.writable(path, endings)
    dataset = load_dataset(data, target, 0)
    try:
        with answer_progress(quiet) as progress:
            found = diagnosis.diagnose(
                dataset, loss.value, slope, width, depth, init_scale, seeds,
                simulate=not no_simulate, standardise=standardise, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo("interrupted before there was an answer.", err=True)
        raise typer.Exit(130) from None
    for path in filter(None, (json_file, html)):
        found.save(path)
    if plot is not None:
        report.save_figure(found.plot(), plot)
    typer.echo(str(found))
    for path in filter(None, (json_file, html, plot)):
        typer.echo(f"wrote {path}")
    if found.interrupted:
        raise typer.Exit(130)
