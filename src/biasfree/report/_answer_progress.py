"""Progress of an answer: a line on the terminal that is gone in the end, or lines as things begin."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY = 30.0


@contextmanager
def answer_progress(quiet: bool = False) -> Iterator[Callable[[str, float], None] | None]:
    """Give a callback (what is being done, share done) that reports it on standard error; None when quiet.

    On a terminal it draws a bar. Elsewhere it writes a line whenever something new begins, and every half a minute.

    >>> with answer_progress(quiet=True) as callback:
    ...     print(callback)
    None
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet:
        yield None
        return
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("[progress.description]{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def _lines() -> Callable[[str, float], None]:
    begun = shown = time.monotonic()
    last = ""

    def show(what: str, share: float) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if what != last or now - shown >= _EVERY:
            print(f"biasfree: {what} ({share:.0%}, {now - begun:.0f} s)", file=sys.stderr, flush=True)
            shown, last = now, what

    return show
