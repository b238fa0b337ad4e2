"""Progress of an answer: one line on the terminal, gone when it is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def answer_progress(quiet: bool = False) -> Iterator[Callable[[str, float], None] | None]:
    """Give a callback (what is being done, share done) that draws a line on standard error; None if not wanted.

    It is not wanted when quiet, or when standard error is no terminal.

    >>> with answer_progress(quiet=True) as callback:
    ...     print(callback)
    None
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("[progress.description]{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)
