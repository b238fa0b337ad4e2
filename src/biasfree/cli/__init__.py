"""The command line: parse, call, print. Heavy imports wait until a command runs."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from biasfree.cli._diagnose import diagnose
from biasfree.cli._explore import explore
from biasfree.cli._find import find
from biasfree.cli._inspect import inspect
from biasfree.cli._reproduce import reproduce
from biasfree.cli._simulate import simulate
from biasfree.cli._sweep import sweep

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="When is a bias-free ReLU network effectively a linear network?",
)


def _version(wanted: bool) -> None:
    if wanted:
        from biasfree import __version__

        typer.echo(f"biasfree {__version__}")
        raise typer.Exit


@app.callback()
def biasfree(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """When is a bias-free ReLU network effectively a linear network?"""


app.command()(simulate)
app.command()(reproduce)
app.command()(find)
app.command()(diagnose)
app.command()(inspect)
app.command()(sweep)
app.command()(explore)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    # Compiled functions are kept between runs: compiling takes longer than most of them run.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "biasfree" / "jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    try:
        app()
    except ValueError as error:
        typer.echo(f"biasfree: {error}", err=True)
        sys.exit(2)
