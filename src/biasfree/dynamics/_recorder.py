"""Keep the weights of a run: at given times, or at as many of its own steps as memory allows."""

import numpy as np

from biasfree.dynamics._field import Weights

_MOST, _LEAST, _BYTES = 400, 40, 2**26


class Recorder:
    """Collects saved weights. Without asked-for times it keeps every ``stride``-th accepted step and, when full,
    drops every second one and doubles the stride, so that a million steps cost no more memory than a few hundred.
    """

    def __init__(self, weights: Weights, points: np.ndarray | None) -> None:
        """Prepare for weights of this size."""
        size = sum(w.size for w in weights) * 8
        self._capacity = min(_MOST, max(_LEAST, _BYTES // size)) // 2 * 2  # even: thinning then keeps the newest
        self._points = points
        self._next = 0
        self._stride = 1
        self.times: list[float] = []
        self.energies: list[float] = []
        self._weights: list[tuple[np.ndarray, ...]] = []

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

    def offer(self, time: float, weights: Weights, energy: float, *, keep: bool = False) -> None:
        """Save if this is an asked-for time, or if ``keep`` says so (a step to keep, or where a run broke off)."""
        due = self._points is not None and self._next < len(self._points) and time >= self._points[self._next]
        if not (due or keep) or (self.times and time <= self.times[-1]):
            return
        self.times.append(time)
        self.energies.append(energy)
        self._weights.append(tuple(np.asarray(w) for w in weights))
        if self._points is not None:
            self._next += due
        elif len(self.times) > self._capacity:
            # The first stays; what goes is every second of the others.
            for kept in (self.times, self.energies, self._weights):
                del kept[1::2]
            self._stride *= 2

    def stacked(self) -> tuple[np.ndarray, ...]:
        """The saved weights, one array per layer, first axis the saved times."""
        return tuple(np.stack(layer) for layer in zip(*self._weights, strict=True))
