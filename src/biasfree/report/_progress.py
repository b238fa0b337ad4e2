"""A progress bar for the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from biasfree.dynamics import Progress
from biasfree.dynamics._progress import ProgressCallback


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[ProgressCallback | None]:
    """Give a callback that draws a bar on standard error; None when quiet or when that is no terminal.

    >>> with progress_bar(quiet=True) as callback:
    ...     print(callback)
    None
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("[progress.description]{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("integrating", total=1.0)

        def show(progress: Progress) -> None:
            text = f"t = {progress.time:.4g}, {progress.steps} steps, loss {progress.loss:.4g}"
            bar.update(task, completed=progress.fraction, description=text)

        yield show
