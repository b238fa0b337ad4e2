"""``biasfree inspect``: what a trained network is as a function."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from biasfree.datasets import Dataset


def inspect(
    model: Annotated[Path, typer.Argument(help="An ONNX, safetensors or NPZ (W1, W2, …) file. Pickles are refused.")],
    data: Annotated[
        str | None, typer.Option(help="Where to measure: a CSV, NPZ or Parquet file, or a built-in data set.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of the data that is no input.")] = None,
    slope: Annotated[
        float | None, typer.Option(help="Slope of the activations, where the file does not say; 0 is ReLU.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Merge nearly parallel neurons up to this relative error; exact by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random inputs.")] = 0,
    compress: Annotated[
        Path | None, typer.Option(help="Write the smaller, identical network to this NPZ file.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the answer to this JSON file.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write the answer as a page to this file.")] = None,
) -> None:
    """Tell whether a trained network is bias-free, linear, how far from it, and how many neurons it needs."""
    from biasfree import files, inspection

    # Everything that can be wrong is found out before the work starts.
    for path, suffix in ((compress, ".npz"), (json_file, ".json"), (html_file, ".html")):
        if path is not None:
            files.writable(path, (suffix,))
    found = inspection.inspect(
        model, None if data is None else _dataset(data, target, seed), slope=slope, tolerance=tolerance, seed=seed
    )
    typer.echo(str(found))
    if compress is not None:
        found.compressed.save(compress)
    for path in filter(None, (json_file, html_file)):
        found.save(path)
    for path in filter(None, (compress, json_file, html_file)):
        typer.echo(f"  wrote {path}")


def _dataset(data: str, target: str | None, seed: int) -> "Dataset":
    from biasfree import datasets

    if Path(data).suffix or Path(data).exists():
        return datasets.load(data, target)
    if target is not None:
        raise ValueError(f"--target names a column of a file, but --data {data} is a built-in data set.")
    return datasets.builtin(data, seed=seed)
