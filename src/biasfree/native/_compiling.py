"""Saying so when a first call compiles for long."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 1.0  # seconds
_begun: set[str] = set()


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Around a first call of compiled code: after a second, one line on standard error says what is being waited for.

    Once in a process for each ``what``; never where the environment has BIASFREE_QUIET=1.
    """
    if what in _begun or os.environ.get("BIASFREE_QUIET", "0") not in ("", "0"):
        yield
        return
    _begun.add(what)
    timer = threading.Timer(_PATIENCE, _say, (f"biasfree: compiling {what}, once …\n",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
