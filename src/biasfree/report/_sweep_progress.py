"""Progress of a sweep on the terminal: runs done, per second, failures, time left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sweep_progress(quiet: bool = False) -> Iterator[Callable[[Any], None] | None]:
    """Give a callback that draws a bar on standard error; None when quiet or when that is no terminal.

    >>> with sweep_progress(quiet=True) as callback:
    ...     print(callback)
    None
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("runs"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, note="")
        said: set[str] = set()

        def show(now: Any) -> None:
            if now.dashboard and now.dashboard not in said:
                said.add(now.dashboard)
                console.print(f"dashboard: {now.dashboard}")
            bar.update(task, completed=now.done, total=now.total, note=note(now))

        yield show


def note(now: Any) -> str:
    """Rate, failures and time left in words.

    >>> from types import SimpleNamespace
    >>> note(SimpleNamespace(per_second=4.0, failed=1, total=1000, done=280))
    '4.0 per second, 1 failed, 3:00 left'
    """
    if not now.per_second:
        return f"{now.failed:,} failed"
    left = round((now.total - now.done) / now.per_second)
    clock = f"{left // 3600}:{left % 3600 // 60:02}:{left % 60:02}" if left >= 3600 else f"{left // 60}:{left % 60:02}"
    return f"{now.per_second:.1f} per second, {now.failed:,} failed, {clock} left"
