"""What a run is asked to do."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _field, _work
from biasfree.dynamics._float64 import SMALLEST
from biasfree.networks import Network

TIGHTEST, _LOOSEST = 1e-13, 0.1  # rtol: below is rounding, above a step says nothing
MOST_STEPS = 2_000_000  # of which only the smallest networks can take so many within the work of a run
_BELOW_START = 1e-6  # of rtol times the start's size: the absolute tolerance, far below weights that matter


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
        save: times to keep networks at; None for the run's own steps, thinned.
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
    max_steps: int = MOST_STEPS
    smallest_step: float = 0.0
    start: float = 0.0
    max_work: float = math.inf
    save: np.ndarray | None = None

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


def planned(
    network: Network,
    dataset: Dataset,
    *,
    until: float,
    rtol: float,
    atol: float | None,
    weight_decay: float,
    loss: str,
    clock: str,
    save: int | Iterable[float] | None,
    stop: Stop | float | str | None,
    smallest_step: float | None,
    max_steps: int | None,
    asked: bool,
) -> Plan:
    """What is asked of a flow, checked; ``asked`` says that a method was.

    Raises:
        ValueError: arguments out of range, a network that does not fit the data, labels other than ±1.
    """
    rule = Stop.of(stop)
    end = math.inf if until == math.inf else checks.positive(until, "until", remedy="It is the flow time to reach.")
    relative = checks.positive(rtol, "rtol")
    if not TIGHTEST <= relative <= _LOOSEST:
        raise ValueError(f"rtol must lie between {TIGHTEST:g} and {_LOOSEST:g}, got {rtol!r}.")
    if math.isinf(end) and rule == Stop():
        raise ValueError("until=inf needs a stop rule: a loss level or 'converged'.")
    decay = checks.non_negative(weight_decay, "weight_decay")
    _field.problem(network, dataset, loss, decay)
    dataset = _field.encoded(dataset, loss)
    if checks.one_of(clock, ("time", "loss"), "clock") == "loss" and loss == "square":
        raise ValueError(
            "clock='loss' is for losses without a minimum, logistic, exponential and cross-entropy; got 'square'."
        )
    return Plan(
        network,
        dataset,
        loss,
        end,
        relative,
        _default_atol(network, relative) if atol is None else checks.non_negative(atol, "atol"),
        decay,
        clock,
        rule,
        MOST_STEPS if max_steps is None else checks.count(max_steps, "max_steps"),
        0.0 if smallest_step is None else checks.positive(smallest_step, "smallest_step"),
        max_work=math.inf if asked or max_steps is not None else _work.allowed(network, dataset),
        save=save_points(save, end, "times"),
    )


def _default_atol(network: Network, rtol: float) -> float:
    """Far below the weights: they may be 1e-8 small and must still be right in proportion."""
    flat = np.concatenate([np.ravel(np.asarray(layer)) for layer in network.weights])
    largest = float(np.abs(flat).max())  # taken out first: squares of 1e-200 are zero
    size = largest * float(np.sqrt(np.mean((flat / largest) ** 2))) if largest else 0.0
    return max(_BELOW_START * rtol * size, SMALLEST)


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


def _brief(points: Any) -> str:
    flat = np.ravel(points)
    return ", ".join(f"{p:g}" for p in flat[:4]) + (f", …, {flat[-1]:g}" if flat.size > 4 else "")
