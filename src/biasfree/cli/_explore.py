"""``biasfree explore``: a page where a whole training run answers each move of a slider."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer


def explore(
    data: Annotated[
        str | None, typer.Argument(help="A CSV, NPZ or Parquet file, or a built-in data set (six points by default).")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of the file to predict.")] = None,
    port: Annotated[int, typer.Option(help="Port on loopback; 0 for any free one.")] = 8765,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
) -> None:
    """Explore training runs on a page in the browser; the server listens on loopback only."""
    from biasfree import checks
    from biasfree.cli._simulate import load_dataset
    from biasfree.explorer import serve
    from biasfree.explorer._view import GENERATORS, View

    file: list[str] = []
    fragment = ""
    if data is not None and (Path(data).suffix or Path(data).exists()):
        dataset = load_dataset(data, target, 0)
        View.of({"data": "file", "width": 1}).dataset(dataset)  # too large is said here, not on the page
        file, fragment = [str(Path(data).resolve()), target or ""], urlencode({"data": "file"})
    elif data is not None:
        if target is not None:
            raise ValueError(f"--target names a column of a file, but {data} is a built-in data set.")
        fragment = urlencode({"data": checks.one_of(data.replace("_", "-"), GENERATORS, "data set")})
    serve(file, port, fragment=fragment, browser=not no_browser, say=typer.echo)
