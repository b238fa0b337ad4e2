"""``biasfree inspect``: what a trained network is as a function."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from biasfree.datasets import Dataset


def inspect(
    model: Annotated[Path, typer.Argument(help="An ONNX, safetensors, NPZ (W1, W2, …) or, with torch, PT file.")],
    data: Annotated[
        str | None,
        typer.Option(help="Where to measure: a table, an NPY or NPZ file, or a built-in data set."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of the data that is no input.")] = None,
    slope: Annotated[
        float | None, typer.Option(help="Slope of the activations, where the file does not say; 0 is ReLU.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Merge nearly parallel neurons up to this relative error; exact by default.")
    ] = None,
    jointly: Annotated[
        bool, typer.Option("--jointly", help="Homogeneity in all inputs together; extra inputs stay without it.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random inputs.")] = 0,
    compress: Annotated[
        Path | None, typer.Option(help="Write the smaller, identical network to this ONNX or NPZ file.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the answer to this JSON file.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write the answer as a page to this file.")] = None,
) -> None:
    """Tell how far a trained network is from linear on your data, and what it does: any ONNX graph, or layers."""
    from biasfree import files, inspection

    # Every argument is checked before the work starts.
    for path, suffixes in ((compress, (".npz", ".onnx")), (json_file, (".json",)), (html_file, (".html",))):
        if path is not None:
            files.writable(path, suffixes)
    answer = inspection.inspect(
        model, None if data is None else _data(data, target, seed), slope=slope, tolerance=tolerance, jointly=jointly,
        seed=seed,
    )  # fmt: skip
    smaller = None if compress is None else answer.compressed
    typer.echo(str(answer))
    if compress is not None and smaller is not None:
        smaller.save(compress)
    for path in filter(None, (json_file, html_file)):
        answer.save(path)
    for path in filter(None, (compress, json_file, html_file)):
        typer.echo(f"  wrote {path}")


def _data(data: str, target: str | None, seed: int) -> "Dataset | Path":
    from biasfree import datasets

    if Path(data).suffix or Path(data).exists():
        # Arrays are fitted to the model's inputs where these are known.
        return Path(data) if target is None else datasets.load(data, target)
    if target is not None:
        raise ValueError(f"--target names a column of a file, but --data {data} is a built-in data set.")
    return datasets.builtin(data, seed=seed)
