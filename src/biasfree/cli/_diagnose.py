"""``biasfree diagnose``: the title's question for the user's own data."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Loss(StrEnum):
    """The losses whose course is predicted."""

    square = "square"
    logistic = "logistic"
    cross_entropy = "cross-entropy"


class Categories(StrEnum):
    """What may be done to columns of words."""

    onehot = "onehot"


def diagnose(
    data: Annotated[
        str,
        typer.Argument(help="A CSV, TSV (or either .gz), Parquet or NPZ file, or a built-in data set (six-points)."),
    ],
    target: Annotated[
        list[str] | None, typer.Option(help="Column of the file to predict; several times for several outputs.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; several times for several.")] = None,
    sep: Annotated[str | None, typer.Option(help="What separates entries of a text file; guessed by default.")] = None,
    decimal: Annotated[str | None, typer.Option(help=". or , in numbers of a text file; guessed by default.")] = None,
    categories: Annotated[
        Categories | None, typer.Option(help="onehot: columns of words become columns of 0 and 1.")
    ] = None,
    loss: Annotated[
        Loss | None,
        typer.Option(help="square, logistic for two classes, cross-entropy for classes; by default as the target is."),
    ] = None,
    slope: Annotated[float, typer.Option(help="0 is ReLU, 1 linear, between them leaky ReLU.")] = 0.0,
    width: Annotated[int, typer.Option(help="Hidden neurons.")] = 100,
    depth: Annotated[int, typer.Option(help="Weight layers; predicted for 2, mostly measured for more.")] = 2,
    init_scale: Annotated[float, typer.Option(help="Norm of each layer at the start.")] = 1e-3,
    seeds: Annotated[int, typer.Option(help="Number of starts to look at.")] = 3,
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Centre and scale the inputs first; moves the origin.")
    ] = False,
    holdout: Annotated[float, typer.Option(help="Share of the samples to judge on that nothing is fitted to.")] = 0.0,
    budget: Annotated[float | None, typer.Option(help="Seconds after which what is finished is the answer.")] = None,
    no_simulate: Annotated[bool, typer.Option("--no-simulate", help="Predict only, do not check.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all numbers to this JSON file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the learning curves to this .png, .pdf or .svg.")] = None,
    animate: Annotated[Path | None, typer.Option(help="Write the first simulation as a .gif or .mp4.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Will a bias-free network be effectively linear on this data, until when, and what does it gain?"""
    from biasfree import diagnosis, files, report
    from biasfree.report import _animation, _plots
    from biasfree.report._answer_progress import answer_progress

    if quiet:
        os.environ["BIASFREE_QUIET"] = "1"
    # Every argument is checked before the work starts.
    for path, endings in ((json_file, (".json",)), (html, (".html",)), (plot, _plots.FORMATS)):
        if path is not None:
            files.writable(path, endings)
    if animate is not None:
        _animation.film_target(animate)
        if no_simulate:
            raise ValueError("--animate shows a simulation. Leave --no-simulate out.")
    table: dict[str, Any] = {
        "target": target or None, "drop": drop or (), "sep": sep, "decimal": decimal,
        "categories": None if categories is None else categories.value,
    }  # fmt: skip
    try:
        with answer_progress(quiet) as progress:
            answer = diagnosis.diagnose(
                _source(data, table), None if loss is None else loss.value, slope, width, depth, init_scale, seeds,
                holdout=holdout, budget=budget, simulate=not no_simulate, standardise=standardise, progress=progress,
                **table,
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo("interrupted before there was an answer.", err=True)
        raise typer.Exit(130) from None
    typer.echo(str(answer))
    for path in filter(None, (json_file, html)):
        answer.save(path)
        typer.echo(f"wrote {path}")
    if plot is not None:
        drawn = any(section.pictures for section in answer.sections)
        if drawn:
            report.save_figure(answer.plot(), plot)
        typer.echo(f"wrote {plot}" if drawn else f"did not write {plot}: nothing was predicted yet")
    if animate is not None:
        if answer.trajectory is not None:
            report.animate(answer.trajectory, animate)
        done = answer.trajectory is not None
        typer.echo(f"wrote {animate}" if done else f"did not write {animate}: no simulation was finished")
    if answer.interrupted:
        raise typer.Exit(130)


def _source(data: str, table: dict[str, Any]) -> Any:
    """A path, or a built-in data set by its name."""
    from biasfree import datasets

    if Path(data).suffix or Path(data).exists():
        return data
    given = [name for name, value in table.items() if value]
    if given:
        raise ValueError(f"--{given[0]} is for tables in files, but {data} is a built-in data set.")
    return datasets.builtin(data, seed=0)
