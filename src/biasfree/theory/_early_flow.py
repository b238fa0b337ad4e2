"""The early phase without Condition 3: every neuron's own piecewise-linear flow, solved exactly.

While the output is negligible the neurons do not see each other. With the samples grouped by line, x_i = t_i d_l, and
k_l = κ⟨|t_i|y_i⟩ over a line's samples, a neuron (w, w₂) obeys

    ẇ = w₂c,  ẇ₂ = cᵀw,    c = κaβ + b Σ_l ς_l k_l d_l,    ς_l = sgn(wᵀd_l).

**Between switches** c is constant, and with ρ = ‖c‖, c̄ = c/ρ, A = (c̄ᵀw + w₂)/2, B = (c̄ᵀw − w₂)/2, E = e^{ρt}

    w = w⊥ + c̄(AE + B/E),  w₂ = AE − B/E.

Switching times and sliding are in ``biasfree.switching``. Each neuron's size is kept as a logarithm: starts of 1e-300
and growth by e^{1000} are alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.switching import ROUNDING, UNDECIDED, Runner, Segments, Switches
from biasfree.theory._early import two_layers


@dataclass(frozen=True)
class EarlyFlow:
    """Every neuron's early flow, exact between and at its switches; see ``early_flow``.

    Attributes:
        directions: the lines whose crossing changes anything, shape (lines, dim).
        switches: the table of events.
        limit_direction: where each neuron's w ends up pointing if the phase lasts, shape (width, dim).
        limit_sign: the sign of w₂ there.
        rate: each neuron's final rate of growth ‖c‖, 0 for neurons that come to rest, negative for those that shrink.
        log_amplitude: ln of the size |w₂| ≈ ‖w‖ that, grown at ``rate`` from t = 0, gives the neuron's late size.
        sliding: for each neuron, the lines (columns) it finally slides on, shape (width, lines).
        network: the start.
    """

    directions: Float[np.ndarray, "lines dim"]
    switches: Switches
    limit_direction: Float[np.ndarray, "width dim"]
    limit_sign: Float[np.ndarray, "width"]
    rate: Float[np.ndarray, "width"]
    log_amplitude: Float[np.ndarray, "width"]
    sliding: np.ndarray
    network: Network
    _segments: Segments

    @property
    def limit_output(self) -> Float[np.ndarray, "width 1"]:
        """``limit_sign`` as a direction of the one output."""
        return self.limit_sign[:, None]

    def at(self, time: float, largest: float = np.inf) -> Network:
        """The network at a flow time, as long as its output is negligible.

        Neurons that would be larger than ``largest``, for which the phase is over, are given that size.
        """
        t = checks.non_negative(time, "time")
        first, second, log_size = self._segments.at(t, self.network.widths[1])
        size = np.exp(np.minimum(log_size, np.log(largest)))
        return self.network.with_weights([size[:, None] * first, (size * second)[None]])

    def scaled(self, factor: float) -> "EarlyFlow":
        """The same flow from weights ``factor`` times as large: it is homogeneous."""
        log = float(np.log(checks.positive(factor, "factor")))
        return replace(
            self,
            log_amplitude=self.log_amplitude + log,
            network=self.network.with_weights([factor * np.asarray(layer) for layer in self.network.weights]),
            _segments=replace(self._segments, log_size=self._segments.log_size + log),
        )

    def __str__(self) -> str:
        """Counts of what happened."""
        growing = int(np.sum(self.rate > 0))
        return f"early flow of {self.network}: {self.switches}; {growing} neurons grow in the end"


def early_flow(
    network: Network,
    dataset: Dataset,
    loss: str = "square",
    until: float = np.inf,
    progress: Callable[[float], None] | None = None,
) -> EarlyFlow:
    """The early phase of a two-layer network on any data, in closed form with exact switching times.

    Holds while the output is negligible beside the targets, that is until about ``escape_time``. Condition 3 is not
    needed: on symmetric data no line matters and this is Eq. 23.

    Args:
        network: two layers, one output, any slope and scale.
        dataset: scalar targets.
        loss: "square", "logistic" or "exponential".
        until: leave out switches after this flow time; by default all are found, and there are finitely many.
        progress: called with the share of neurons that are done.

    Raises:
        ValueError: another depth, several outputs, dimensions that do not match.

    >>> from biasfree import datasets
    >>> flow = early_flow(Network.init([2, 60, 1], slope=0.0, init_scale=1e-6, seed=0), datasets.xor())
    >>> sorted({round(float(r), 12) for r in flow.rate})
    [0.25, 0.5, 0.75, 1.0]
    """
    first, second, a = two_layers(network, dataset)
    grouped = lines(dataset.inputs)
    residuals = losses.get(loss).initial_pull / dataset.samples * dataset.targets
    drift, strength, kept = grouped.pulls(residuals)
    pulls = (1 - a) * strength[kept], a * drift, (a - 1) * grouped.odd(residuals)[kept]
    runner = Runner(grouped.directions[kept], *pulls, first, second)
    while runner.advance(until):
        if progress is not None:
            progress(1 - runner.open.mean())
    if runner.stuck:
        raise ArithmeticError(UNDECIDED)
    return _result(runner, network)


def _result(runner: Runner, network: Network) -> EarlyFlow:
    """What the last stretch of every neuron tends to."""
    rate, unit, up, across = runner.modes.rate, runner.modes.unit, runner.modes.up, runner.modes.across
    growing, turning = up != 0, np.linalg.norm(across, axis=1) > ROUNDING
    # Without a growing mode w tends to what lies across c; with neither, it shrinks along itself.
    direction = np.where(
        growing[:, None], np.sign(up)[:, None] * unit, np.where(turning[:, None], across, runner.first)
    )
    length = np.linalg.norm(direction, axis=1, keepdims=True)
    amplitude = np.where(growing, np.abs(up), np.maximum(np.abs(runner.second), length[:, 0]))
    final_rate = np.where(growing, rate, np.where(turning, 0.0, -rate))
    with np.errstate(divide="ignore"):
        log_amplitude = np.log(amplitude) + runner.log_size - final_rate * runner.time
    return EarlyFlow(
        runner.directions,
        runner.switches(),
        direction / np.where(length > 0, length, 1.0),
        np.where(growing, np.sign(up), np.sign(runner.second)),
        final_rate,
        log_amplitude,
        runner.sliding.copy(),
        network,
        runner.segments(),
    )
