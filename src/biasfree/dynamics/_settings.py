"""Temporary: names that the exact flow of before imports from here; to go with it."""

from biasfree.dynamics._progress import Progress, ProgressCallback
from biasfree.dynamics._status import Status

__all__ = ["Progress", "ProgressCallback", "Status", "axis"]


def axis(clock: str) -> str:
    """The symbol of time: t, or s on the loss clock."""
    return "t" if clock == "time" else "s"
