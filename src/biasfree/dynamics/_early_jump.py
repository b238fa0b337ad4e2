"""The early phase of a two-layer network, in closed form, for the adaptive steps.

While the output is negligible the exact flow's closed form (``exact._early``) needs no steps at all, only a little work
for every crossing: as measured, about that of 300,000 + 50·samples multiplications, of which a gradient has 4·samples·
width·dim. On large generic data crossings come by the hundred thousand at first, and steps that take many of them at
once are the cheaper way; later there are few. So the steps begin, and from time to time it is looked how many crossings
they took. Once these would have cost less than the steps, the closed form takes over, to the end of the phase. Where no
line matters (symmetric data, linear networks) it does so at once.

Deep networks have no such phase: their early flow is homogeneous of higher degree, and its steps lengthen as the start
gets smaller. One ten times smaller costs about a fifth more of them, as measured at depths 3 and 4.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from biasfree.datasets import Dataset
from biasfree.lines import Lines, lines
from biasfree.networks import Network

if TYPE_CHECKING:
    from biasfree.dynamics.exact._early import Early

_CROSSING, _PER_SAMPLE = 300_000, 50  # multiplications


@dataclass(frozen=True)
class Leap:
    """A way through the early phase; times count from where it begins."""

    duration: float
    switches: int
    _early: "Early"

    def weights(self, elapsed: float) -> Any:
        """Both layers."""
        neurons = self._early.at(elapsed)
        return jnp.asarray(neurons[:, :-1]), jnp.asarray(neurons[None, :, -1])

    def energy(self, elapsed: float) -> float:
        """∫‖Ẇ‖² since the beginning."""
        return self._early.energy(elapsed)


class EarlyJump:
    """Looks for the moment to leap, once in a run."""

    def __init__(self, network: Network, dataset: Dataset, settings: dict[str, Any]) -> None:
        """Two layers and one output; else it never leaps."""
        self.over = network.depth != 2 or any(network.skips) or network.widths[-1] != 1
        self.next_look = 0
        self._slope = 1.0 if network.is_linear else network.slope
        self._dataset, self._settings = dataset, settings
        self._lines: Lines | None = None
        self._active: np.ndarray | None = None
        self._evaluations = 0

    def look(self, weights: Any, time: float, accepted: int, evaluations: int, log_loss: float) -> Leap | None:
        """The leap to take here, if it is the cheaper way by now; ``log_loss`` is that of the start."""
        first, second = (np.asarray(layer) for layer in weights)
        inputs, targets = np.asarray(self._dataset.inputs), np.asarray(self._dataset.targets, dtype=float)
        self.next_look = accepted + accepted // 3 + 8
        if self._lines is None:
            self._lines = lines(inputs)
        if self._slope < 1 and self._lines.pulls(targets)[2].size:
            before, self._active = self._active, first @ inputs.T > 0
            spent, self._evaluations = evaluations - self._evaluations, evaluations
            gradient = 4 * inputs.size * len(first)
            crossing = _CROSSING + _PER_SAMPLE * len(inputs)
            if before is None or crossing * int(np.sum(self._active != before)) > gradient * spent:
                return None
        from biasfree.dynamics.exact._early import early_phase, spectral_norm  # Numba is loaded when it is needed

        self.over = True
        scale = float(np.exp(log_loss)) if self._settings["clock"] == "loss" else 1.0
        early = early_phase(
            np.column_stack([first, second[0]]), self._lines, targets, spectral_norm(inputs),
            slope=self._slope, loss=self._settings["loss"], decay=self._settings["weight_decay"] / scale, scale=scale,
            rtol=self._settings["rtol"], until=self._settings["until"] - time,
        )  # fmt: skip
        return None if early is None else Leap(early.time, len(early.events), early)
