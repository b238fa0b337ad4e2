"""What a run was asked to do and how it ended."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from biasfree import checks

_SECONDS_PER_CALL = 0.3


@dataclass(frozen=True)
class Stop:
    """When to end before ``until``: whichever of these comes first.

    Attributes:
        loss: end once the loss is at or below this level.
        log_loss: the same for ln L, which may be far below what a loss can hold (ln 1e-1000 ≈ −2302.6).
        converged: end once the flow is at rest for good: continuing to ``until`` would move the weights by less
            than rtol of their norm. A saddle's plateau does not count.

    >>> Stop(loss=1e-6).level
    -13.815510557964274
    """

    loss: float | None = None
    log_loss: float | None = None
    converged: bool = False

    def __post_init__(self) -> None:
        """Check the levels."""
        if self.loss is not None:
            checks.positive(self.loss, "the loss level to stop at")
        if self.log_loss is not None and not math.isfinite(self.log_loss):
            raise ValueError(f"the log-loss level to stop at must be finite, got {self.log_loss!r}.")

    @property
    def level(self) -> float:
        """The ln L to end at, −inf when none was asked for."""
        levels = [math.log(self.loss)] if self.loss is not None else []
        levels += [self.log_loss] if self.log_loss is not None else []
        return max(levels, default=-math.inf)

    @classmethod
    def of(cls, wish: "Stop | float | str | None") -> "Stop":
        """Read what a user may write: a Stop, a loss level, ``"converged"`` or None."""
        if isinstance(wish, Stop):
            return wish
        if wish is None:
            return cls()
        if isinstance(wish, str):
            checks.one_of(wish, ("converged",), "stop rule")
            return cls(converged=True)
        return cls(loss=checks.positive(wish, "the loss level to stop at"))


class Status(NamedTuple):
    """How a run ended: a short name, and a sentence."""

    name: str
    message: str

    @property
    def complete(self) -> bool:
        """Whether the run did what was asked, as against being cut short."""
        return self.name in ("reached", "loss level", "converged")


class Progress(NamedTuple):
    """What a progress callback is told, a few times a second."""

    time: float
    until: float
    steps: int
    loss: float

    @property
    def fraction(self) -> float:
        """Part of the way, 0 to 1; 0 when there is no end time."""
        return self.time / self.until if math.isfinite(self.until) else 0.0


ProgressCallback = Callable[[Progress], None]


def save_points(save: int | Iterable[float] | None, until: float, what: str) -> np.ndarray | None:
    """The times (or steps) to save at, 0 first: evenly spaced for a number, as given for a sequence."""
    if save is None:
        return None
    if not isinstance(save, Iterable):
        number = checks.count(save, "save", least=1)
        if not math.isfinite(until):
            raise ValueError(f"save={number} {what} need a finite end; give the {what} themselves, or leave save out.")
        return np.linspace(0.0, until, number + 1)
    points = checks.finite(checks.numeric(list(save), "save"), "save")
    if not points.size:
        raise ValueError(f"save must name at least one of the {what}, got none.")
    if points.ndim != 1 or (np.diff(points) <= 0).any() or points[0] < 0 or points[-1] > until:
        raise ValueError(f"save must be increasing {what} between 0 and {until:g}, got {_brief(points)}.")
    return points


def check_callback(progress: Any) -> None:
    """Raise ValueError unless ``progress`` can be called."""
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be a function of a Progress, got {progress!r}.")


def next_quota(quota: int, seconds: float) -> int:
    """Steps for the next compiled call, so that one lasts about a third of a second."""
    return int(min(max(4, quota * min(4.0, _SECONDS_PER_CALL / max(seconds, 1e-6))), 100_000))


def axis(clock: str) -> str:
    """The symbol of time: t, or s on the loss clock."""
    return "t" if clock == "time" else "s"


def _brief(points: Any) -> str:
    flat = np.ravel(points)
    return ", ".join(f"{p:g}" for p in flat[:4]) + (f", …, {flat[-1]:g}" if flat.size > 4 else "")
