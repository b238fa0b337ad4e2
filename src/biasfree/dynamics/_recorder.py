"""Keep the weights of a run: at given times, or at as many of its own steps as memory allows."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_MOST, _LEAST, _BYTES = 400, 40, 2**26


class _Saved(NamedTuple):
    time: float
    weights: tuple[np.ndarray, ...]
    energy: float
    lasting: bool
    log_loss: float


class Recorder:
    """Collects saved weights.

    Without asked-for times half of the room is for steps spread over the run's time, which last, and half for every
    ``stride``-th accepted step, which shows where the solver had to work. When that half is full, every second of these
    goes and the stride doubles, so that a million steps cost no more memory than a few hundred.
    """

    def __init__(self, weights: Sequence[Any], points: np.ndarray | None, until: float) -> None:
        """Prepare for weights of this size and a run to ``until``."""
        size = sum(w.size for w in weights) * 8
        self._half = min(_MOST, max(_LEAST, _BYTES // size)) // 2
        self._gap = until / self._half if points is None else math.inf
        self._points = points
        self._next = 0
        self._stride = 1
        self._saved: list[_Saved] = []
        self.pause = 0.0 if points is None else math.inf  # a step that ends at or after this is saved, to last

    @property
    def asked(self) -> bool:
        """Whether times were asked for; then nothing else is saved of a run that goes as planned."""
        return self._points is not None

    @property
    def steps_to_next(self) -> int:
        """Accepted steps until one is to be kept; no limit when times were asked for."""
        return 10**9 if self.asked else self._stride

    def next_time(self, until: float) -> float:
        """The next time that must be met exactly."""
        if self._points is None or self._next >= len(self._points):
            return until
        return float(self._points[self._next])

    def upcoming(self, most: int) -> np.ndarray:
        """The next times asked for, or else those the run is to be spread over."""
        if self._points is not None:
            return self._points[self._next : self._next + most]
        return self.pause + self._gap * np.arange(most) if math.isfinite(self._gap) else np.zeros(0)

    def offer(
        self, time: float, weights: Sequence[Any], energy: float, *, keep: bool = False, log_loss: float = math.nan
    ) -> None:
        """Save if this is an asked-for time, or a step to last, or if ``keep`` says so."""
        due = self._points is not None and self._next < len(self._points) and time >= self._points[self._next]
        lasting = time >= self.pause
        if not (due or lasting or keep) or (self._saved and time <= self._saved[-1].time):
            return
        self._saved.append(_Saved(time, tuple(np.asarray(w) for w in weights), energy, due or lasting, log_loss))
        self._next += due
        if lasting:
            self.pause = time + self._gap
        if self.asked:
            return
        passing = [saved for saved in self._saved if not saved.lasting]
        if len(passing) > self._half:
            going = {saved.time for saved in passing[-2::-2]}  # the newest stays
            self._saved = [saved for saved in self._saved if saved.time not in going]
            self._stride *= 2

    @property
    def times(self) -> np.ndarray:
        """The saved times."""
        return np.array([saved.time for saved in self._saved])

    @property
    def energies(self) -> np.ndarray:
        """The energies at the saved times."""
        return np.array([saved.energy for saved in self._saved])

    @property
    def log_losses(self) -> np.ndarray:
        """ln L at the saved times, NaN where it was not told."""
        return np.array([saved.log_loss for saved in self._saved])

    def stacked(self) -> tuple[np.ndarray, ...]:
        """The saved weights, one array per layer, first axis the saved times."""
        return tuple(np.stack(layer) for layer in zip(*(saved.weights for saved in self._saved), strict=True))
