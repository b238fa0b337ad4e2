"""What a run is asked to do."""

import math
from dataclasses import dataclass
from typing import Any

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.networks import Network


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


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a run needs to know, checked.

    Attributes:
        network: the start; its weights may be those of a later time when a run is taken up again.
        dataset: full batch.
        loss, clock: by name.
        until: time to reach, values of s on the loss clock.
        rtol, atol: tolerances of a step.
        weight_decay: λ.
        stop: when to end before ``until``.
        max_steps: accepted and rejected steps allowed.
        smallest_step: of adaptive steps; 0 for one found from the stiffness.
        start: time at which ``network`` stands.
        max_work: allowed (``_work``); infinite where steps were given.
    """

    network: Network
    dataset: Dataset
    loss: str
    until: float
    rtol: float
    atol: float
    weight_decay: float = 0.0
    clock: str = "time"
    stop: Stop = Stop()
    max_steps: int = 2_000_000
    smallest_step: float = 0.0
    start: float = 0.0
    max_work: float = math.inf

    @property
    def axis(self) -> str:
        """The symbol of time: t, or s on the loss clock."""
        return "t" if self.clock == "time" else "s"

    def settings(self, method: str, because: str) -> dict[str, Any]:
        """As plain numbers and strings, for the record."""
        return {
            "method": method, "loss": self.loss, "clock": self.clock, "until": self.until, "rtol": self.rtol,
            "atol": self.atol, "weight_decay": self.weight_decay, "smallest_step": self.smallest_step,
            "max_steps": self.max_steps if math.isinf(self.max_work) else None, "stop_log_loss": self.stop.level,
            "stop_converged": self.stop.converged, "because": because,
        }  # fmt: skip
