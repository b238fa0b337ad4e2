"""Explicit steps that were taken together, as the way of all rows."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from biasfree.dynamics.exact._alone import Joined
from biasfree.dynamics.exact._arrays import Trial
from biasfree.dynamics.exact._methods import basis, on_curve


@dataclass
class Steps:
    """Steps one after the other; only in the last one something may happen.

    Attributes:
        begins: when each begins, and the end of all, since the first one's beginning.
        curves, energies: of each.
        joined: what rows that met events in the last one do.
        arrival: how far the steps are gone.
    """

    begins: Float[np.ndarray, "steps+1"]
    curves: Float[np.ndarray, "steps 8 rows columns"]
    energies: Float[np.ndarray, "steps 8"]
    arrival: float
    joined: Joined | None = None

    @classmethod
    def of(cls, trial: Trial, count: int) -> "Steps":
        """What a march has left."""
        begins = np.concatenate([[0.0], np.cumsum(trial.lengths[:count])])
        return cls(begins, trial.curves[:count].copy(), trial.energies[:count].copy(), float(begins[-1]))

    @property
    def last(self) -> tuple[float, float]:
        """Beginning and length of the last step."""
        return float(self.begins[-2]), float(self.begins[-1] - self.begins[-2])

    def without_last(self) -> "Steps":
        """All but the last."""
        return Steps(self.begins[:-1], self.curves[:-1], self.energies[:-1], float(self.begins[-2]))

    @property
    def ends(self) -> list[float]:
        """When each step ends."""
        return [*self.begins[1:-1].tolist(), self.arrival]

    def at(self, time: float) -> tuple[Float[np.ndarray, "rows columns"], float]:
        """Rows and energy a time after the beginning."""
        time = min(max(time, 0.0), self.arrival)
        n = min(int(np.searchsorted(self.begins, time, side="right")) - 1, len(self.curves) - 1)
        x = (time - self.begins[n]) / (self.begins[n + 1] - self.begins[n])
        weights = basis(x)
        z, energy = on_curve(weights, self.curves[n]), float(weights @ self.energies[n])
        if self.joined is not None and n == len(self.curves) - 1:
            energy += self.joined.change(x, z)
        return z, energy
