"""The user's patience: a budget of seconds, Ctrl-C, and where the work stands."""

import time
from collections.abc import Callable

from biasfree import checks


class OutOfTime(KeyboardInterrupt):
    """The budget is spent. Like Ctrl-C it ends a simulation that is under way, and what is finished is kept."""


class Watch:
    """Reports where the work stands, and ends it when the budget is spent.

    Attributes:
        expired: whether the budget has ended anything.
    """

    def __init__(self, budget: float | None = None, progress: Callable[[str, float], None] | None = None) -> None:
        """Start the clock.

        Args:
            budget: seconds, None for as long as it takes.
            progress: called with what is being done and the share of the work that is done.
        """
        self._end = None if budget is None else time.monotonic() + checks.positive(budget, "budget")
        self._progress = progress
        self._doing, self._share = "", 0.0
        self.expired = False

    def say(self, what: str, share: float) -> None:
        """Say what is being done."""
        self._doing, self._share = what, share
        if self._progress is not None:
            self._progress(what, share)

    def advance(self, what: str, share: float) -> None:
        """Say what is done next, and look at the clock."""
        self._doing, self._share = what, share
        self.look()

    def look(self) -> None:
        """Look at the clock; raises OutOfTime when the budget is spent."""
        self.say(self._doing, self._share)
        if self._end is not None and time.monotonic() > self._end:
            self.expired = True
            raise OutOfTime
