"""``biasfree simulate``: train a network and print how it went."""

import functools
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from biasfree.datasets import Dataset
    from biasfree.dynamics import Trajectory
    from biasfree.measure import Plateaus


class Loss(StrEnum):
    """Names of the losses."""

    square = "square"
    logistic = "logistic"
    exponential = "exponential"
    cross_entropy = "cross-entropy"


class Clock(StrEnum):
    """Names of the clocks."""

    time = "time"
    loss = "loss"


def simulate(
    data: Annotated[str, typer.Option(help="A built-in data set (try six-points), or a CSV, NPZ or Parquet file.")],
    until: Annotated[float, typer.Option(help="Flow time to reach; s on the loss clock.")],
    target: Annotated[str | None, typer.Option(help="Column of the file to predict, or several: y1,y2.")] = None,
    width: Annotated[int, typer.Option(help="Neurons in each hidden layer.")] = 100,
    depth: Annotated[int, typer.Option(help="Weight layers; 2 is one hidden layer.")] = 2,
    slope: Annotated[float, typer.Option(help="0 is ReLU, 1 linear, between them leaky ReLU.")] = 0.0,
    init_scale: Annotated[float, typer.Option(help="Norm of each layer at the start.")] = 1e-3,
    seed: Annotated[int, typer.Option(help="Seed of the weights, and of random built-in data.")] = 0,
    loss: Annotated[Loss, typer.Option(help="What is minimised.")] = Loss.square,
    method: Annotated[str, typer.Option(help="auto, exact, bosh3, dopri5, tsit5, dopri8 or rkc.")] = "auto",
    rtol: Annotated[float, typer.Option(help="Relative tolerance of a step.")] = 1e-6,
    atol: Annotated[float | None, typer.Option(help="Absolute tolerance; far below the start by default.")] = None,
    clock: Annotated[Clock, typer.Option(help="loss: dW/ds = -grad L / L, for losses below 1e-300.")] = Clock.time,
    weight_decay: Annotated[float, typer.Option(help="L2 regularisation of the weights.")] = 0.0,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Gradient descent at this rate, until/rate steps, instead of the flow."),
    ] = None,
    stop_loss: Annotated[float | None, typer.Option(help="Stop once the loss is at or below this.")] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(help="Steps the flow may take; by default as many as some ten seconds of work hold."),
    ] = None,
    save: Annotated[int | None, typer.Option(help="Keep so many evenly spaced networks.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the trajectory to this NetCDF file (.nc).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the loss curve to this .png, .pdf or .svg.")] = None,
    plateaus: Annotated[
        bool,
        typer.Option("--plateaus", help="Tell every plateau and its predicted end; --plot draws them."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train a network by gradient flow (or descent) and print how it went."""
    from biasfree import checks
    from biasfree.networks import Network
    from biasfree.report import progress_bar

    if quiet:
        os.environ["BIASFREE_QUIET"] = "1"
    # Every argument is checked before the work starts.
    _check_writable(out, plot)
    depth, width = checks.count(depth, "depth"), checks.count(width, "width")
    dataset = load_dataset(data, target, seed)
    network = Network.init([dataset.dim, *[width] * (depth - 1), dataset.outputs], slope, init_scale, seed)
    if learning_rate is None:
        train = _flow(until, method, rtol, atol, clock, stop_loss, max_steps)
    else:
        train = _descent(until, learning_rate, clock, stop_loss, max_steps)
    with progress_bar(quiet) as progress:
        trajectory = train(network, dataset, loss=loss.value, weight_decay=weight_decay, save=save, progress=progress)
    waits = trajectory.plateaus() if plateaus and trajectory.status.name != "not finite" else None
    _write(trajectory, waits, out, plot)
    _print(trajectory, waits, as_json, out, plot)
    if trajectory.status.name == "interrupted":
        raise typer.Exit(130)
    if not trajectory.status.complete:
        raise typer.Exit(1)


def _check_writable(out: Path | None, plot: Path | None) -> None:
    from biasfree import files
    from biasfree.report import _plots

    if out is not None:
        files.writable(out, (".nc",))
    if plot is not None:
        files.writable(plot, _plots.FORMATS)


def _flow(
    until: float,
    method: str,
    rtol: float,
    atol: float | None,
    clock: Clock,
    stop_loss: float | None,
    max_steps: int | None,
) -> Callable[..., "Trajectory"]:
    """The flow as asked for, of any network on any data."""
    from biasfree.dynamics import Stop, gradient_flow

    return functools.partial(
        gradient_flow, until=until, method=method, rtol=rtol, atol=atol, clock=clock.value, stop=Stop(loss=stop_loss),
        max_steps=max_steps,
    )  # fmt: skip


def _descent(
    until: float, learning_rate: float, clock: Clock, stop_loss: float | None, max_steps: int | None
) -> Callable[..., "Trajectory"]:
    """Descent to the same flow time, which has nothing of what belongs to the flow."""
    from biasfree import checks
    from biasfree.dynamics import gradient_descent

    rate = checks.positive(learning_rate, "learning-rate")
    steps = round(checks.positive(until, "until") / rate)
    if stop_loss is not None or clock is Clock.loss:
        raise ValueError("--stop-loss and --clock loss belong to the flow; leave --learning-rate out.")
    if max_steps is not None:
        raise ValueError("--max-steps belongs to the flow: descent takes until / learning-rate steps.")
    return functools.partial(gradient_descent, learning_rate=rate, steps=steps)


def _write(trajectory: "Trajectory", waits: "Plateaus | None", out: Path | None, plot: Path | None) -> None:
    from biasfree.report import plot_loss, plot_plateaus, save_figure

    if out is not None:
        trajectory.save(out)
    if plot is not None:
        save_figure(plot_plateaus(waits) if waits else plot_loss(trajectory), plot)


def _print(
    trajectory: "Trajectory", waits: "Plateaus | None", as_json: bool, out: Path | None, plot: Path | None
) -> None:
    if as_json:
        import json

        waiting = {} if waits is None else {"plateaus": waits.to_dict()}
        typer.echo(json.dumps(trajectory.summary() | waiting, indent=2))
        return
    typer.echo(str(trajectory))
    if waits is not None:
        typer.echo(f"\n{waits}\n")
    for path in filter(None, (out, plot)):
        typer.echo(f"  wrote    {path}")


def load_dataset(data: str, target: str | None, seed: int) -> "Dataset":
    """A file, or a built-in data set by its name."""
    from biasfree import datasets

    if Path(data).suffix or Path(data).exists():
        return datasets.load(data, target)
    if target is not None:
        raise ValueError(f"--target names a column of a file, but {data} is a built-in data set.")
    return datasets.builtin(data, seed=seed)
