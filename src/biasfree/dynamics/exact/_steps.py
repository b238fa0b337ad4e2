"""Explicit steps that were taken together, as the way of all rows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._alone import Joined
from biasfree.dynamics.exact._arrays import Trial
from biasfree.dynamics.exact._kernels import along


@dataclass
class Steps:
    """Steps one after the other; only in the last one rows may go alone.

    Attributes:
        begins: when each begins, and the end of all, since the first one's beginning.
        lengths: of each, to the end of its curve: an event may have cut it short.
        curves, energies: of each.
        joined: what rows that met events in the last one do.
        arrival: how far the steps are gone.
    """

    begins: Float[np.ndarray, "steps+1"]
    lengths: Float[np.ndarray, "steps"]
    curves: Float[np.ndarray, "steps 8 rows columns"]
    energies: Float[np.ndarray, "steps 8"]
    arrival: float
    joined: Joined | None = None

    @classmethod
    def of(cls, trial: Trial, count: int) -> "Steps":
        """What a march has left."""
        begins, lengths = np.concatenate([[0.0], np.cumsum(trial.lengths[:count])]), trial.lengths[:count].copy()
        return cls(begins, lengths, trial.curves[:count].copy(), trial.energies[:count].copy(), float(begins[-1]))

    @classmethod
    def cut(cls, trial: Trial, lengths: Float[np.ndarray, "steps"], parts: Float[np.ndarray, "steps"]) -> "Steps":
        """Steps of which only parts were gone; the trial is theirs."""
        begins, count = np.concatenate([[0.0], np.cumsum(lengths * parts)]), len(lengths)
        return cls(begins, lengths, trial.curves[:count], trial.energies[:count], float(begins[-1]))

    @property
    def last(self) -> tuple[float, float]:
        """Beginning and length of the last step."""
        return float(self.begins[-2]), float(self.lengths[-1])

    def without_last(self) -> "Steps":
        """All but the last."""
        lengths, curves, energies = self.lengths[:-1], self.curves[:-1], self.energies[:-1]
        return Steps(self.begins[:-1], lengths, curves, energies, float(self.begins[-2]))

    @property
    def ends(self) -> list[float]:
        """When each step ends."""
        return [*self.begins[1:-1].tolist(), self.arrival]

    def at(self, time: float) -> tuple[Float[np.ndarray, "rows columns"], float]:
        """Rows and energy a time after the beginning."""
        states, energies = self.several(np.array([time]))
        return states[0], float(energies[0])

    def several(
        self, times: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n rows columns"], Float[np.ndarray, "n"]]:
        """Rows and energies at several times after the beginning."""
        times = np.clip(times, 0.0, self.arrival)
        n = np.minimum(np.searchsorted(self.begins, times, side="right"), len(self.curves)) - 1
        x, states = (times - self.begins[n]) / self.lengths[n], np.empty((len(times), *self.curves.shape[2:]))
        energies = along(n, x, self.curves, self.energies, states)
        if self.joined is not None:
            for k in np.flatnonzero(n == len(self.curves) - 1).tolist():
                energies[k] += self.joined.change(float(x[k]), states[k])
        return states, energies
