"""Keep the weights of a run: at given times, or at as many of its own steps as memory allows."""

import bisect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from biasfree.dynamics._pieces import Piece
from biasfree.dynamics._plan import Plan

_MOST, _LEAST = 400, 40  # networks kept of a run for which no times were asked for
_BYTES = 2**26  # of all of these, within those bounds: 64 MB
_NO_LIMIT = 10**9  # steps


class _Saved(NamedTuple):
    time: float
    weights: tuple[np.ndarray, ...]
    energy: float
    lasting: bool
    log_loss: float


class _Due(NamedTuple):
    time: float
    lasting: bool


class Recorder:
    """Takes from every piece of a run what is due.

    Without asked-for times half of the room is for times spread over the run, which last, and half for every
    ``stride``-th accepted step, which shows where the solver had to work. When that half is full, every second of these
    goes and the stride doubles, so that a million steps cost no more memory than a few hundred.
    """

    def __init__(self, weights: Sequence[Any], points: np.ndarray | None, until: float) -> None:
        """Prepare for weights of this size and a run of length ``until``."""
        size = sum(w.size for w in weights) * 8
        self._half = min(_MOST, max(_LEAST, _BYTES // size)) // 2
        self._gap = until / self._half if points is None else math.inf
        self._points = None if points is None else np.asarray(points, dtype=float).tolist()
        self._next = 0
        self._stride = 1
        self._missing = 1  # accepted steps until one is kept
        self._saved: list[_Saved] = []
        self._latest = -math.inf  # of the saved times
        self._passing = 0  # saved ones that need not last
        self.carried = 0.0  # energy spent before the integrator that is running now took over
        self.pause = 0.0 if points is None else math.inf  # the next of the times spread over the run

    @classmethod
    def of(cls, plan: Plan) -> "Recorder":
        """For a plan's own times."""
        return cls(plan.network.weights, plan.save, plan.until - plan.start)

    # What is due

    @property
    def asked(self) -> bool:
        """Whether times were asked for; then nothing else is saved of a run that goes as planned."""
        return self._points is not None

    @property
    def steps_left(self) -> int:
        """Accepted steps until one is to be kept; no limit when times were asked for."""
        return _NO_LIMIT if self.asked else self._missing

    def next_time(self, until: float) -> float:
        """The next time that must be met exactly."""
        if self._points is None or self._next >= len(self._points):
            return until
        return self._points[self._next]

    # Taking

    def take(self, piece: Piece) -> None:
        """Save what is due of a piece; of one that is not dense that can only be its end."""
        last = self._saved[-1] if self._saved else None
        if last is not None and last.time == piece.begin and math.isnan(last.log_loss):
            # The start is saved before an integrator has looked at it.
            level = piece.at(piece.begin).log_loss if piece.dense else piece.log_loss
            self._saved[-1] = last._replace(log_loss=level)
        if self._points is not None:
            if self.next_time(math.inf) <= piece.end:
                self._save(piece, self._asked_of(piece, self._points))
            return
        due = list[_Due]()
        for end in piece.ends or (piece.end,):
            due += self._due(piece, end)
            self._missing -= 1 if piece.ends else piece.accepted
            if self._missing <= 0:
                due += self._claimed(end, keep=True)
                self._missing = self._stride
        self._save(piece, due)

    def _asked_of(self, piece: Piece, points: list[float]) -> list[_Due]:
        """Those of the times that were asked for which a piece has come to."""
        first, self._next = self._next, bisect.bisect_right(points, piece.end, lo=self._next)
        due = list[_Due]()
        for point in points[first : self._next]:
            time = max(point, piece.begin) if piece.dense else piece.end
            if time > self._latest:
                due.append(_Due(time, True))
                self._latest = time
        return due

    def _due(self, piece: Piece, end: float) -> list[_Due]:
        """What is due at times up to one of a piece, of a run for which none were asked for."""
        due = list[_Due]()
        while (next_one := self.pause) <= end:
            due += self._claimed(max(next_one, piece.begin) if piece.dense else end)
            if self.pause <= next_one:
                break  # a time that is not later than what is saved already
        return due

    def close(self, piece: Piece, cut_short: bool) -> None:
        """The end of a run is kept; of one with asked-for times only if it was cut short, or nothing else is there."""
        if not self.asked or cut_short or not self._saved:
            # What was claimed may not have been saved: Ctrl-C.
            self._latest = self._saved[-1].time if self._saved else -math.inf
            self._save(piece, self._claimed(piece.end, keep=True))

    def _claimed(self, time: float, *, keep: bool = False) -> list[_Due]:
        """This time if it is asked for, or one to last, or if ``keep`` says so, and is not saved yet."""
        asked_for = self._points is not None and self._next < len(self._points) and time >= self._points[self._next]
        lasting = time >= self.pause
        self._next += asked_for
        if lasting:
            self.pause = time + self._gap
        if not (asked_for or lasting or keep) or time <= self._latest:
            return []
        self._latest = time
        return [_Due(time, asked_for or lasting)]

    def _save(self, piece: Piece, due: list[_Due]) -> None:
        for (time, lasting), point in zip(due, piece.points([each.time for each in due]), strict=True):
            weights = tuple(map(np.asarray, point.weights))
            self._saved.append(_Saved(time, weights, self.carried + point.energy, lasting, point.log_loss))
            self._passing += not lasting
            if not self.asked and self._passing > self._half:
                self._thin()

    def _thin(self) -> None:
        """Every second of the steps that need not last goes."""
        passing = [saved for saved in self._saved if not saved.lasting]
        going = {saved.time for saved in passing[-2::-2]}  # the newest stays
        self._saved = [saved for saved in self._saved if saved.time not in going]
        self._passing -= len(going)
        self._stride *= 2

    # What was saved

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
        """ln L at the saved times, NaN where it was not given."""
        return np.array([saved.log_loss for saved in self._saved])

    def stacked(self) -> tuple[np.ndarray, ...]:
        """The saved weights, one array per layer, first axis the saved times."""
        return tuple(np.stack(layer) for layer in zip(*(saved.weights for saved in self._saved), strict=True))
