"""The early phase of several outputs without Condition 3: every neuron's own piecewise-linear flow, solved exactly.

While the output is negligible the neurons do not see each other. With the samples grouped by line, x_i = t_i d_l, and
r₀ the residual at f = 0, a neuron (w, v), v ∈ R^K, obeys in each activation cell

    ẇ = Mv,   v̇ = Mᵀw,    M = a⟨x r₀ᵀ⟩ + b Σ_l ς_l d_l k_lᵀ,   k_l = ⟨|t| r₀⟩ over the line,   ς_l = sgn(wᵀd_l).

With M = Σ_i s_i z_i u_iᵀ each pair of singular vectors has a part that grows as e^{s_it}, of balanced direction (z_i,
u_i), and one that shrinks; switches and slides are in ``biasfree.switching``. In its last cell a neuron tends to the
largest pair that it has a part of, and grows at that s. Under Condition 3 no line matters, there is one M = aβᵀ, and
these are the modes of ``_modes``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.lines import lines
from biasfree.networks import Network
from biasfree.switching import UNDECIDED, Segments, SeveralRunner, Switches
from biasfree.theory._early import layers_and_pace


@dataclass(frozen=True, eq=False)
class SeveralEarlyFlow:
    """Every neuron's early flow, for several outputs; see ``early_flow_several``.

    Attributes:
        directions: the lines whose crossing changes anything, shape (lines, dim).
        switches: the table of events.
        limit_direction: where each neuron's w ends up pointing if the phase lasts, shape (width, dim).
        limit_output: where its v ends up pointing, shape (width, outputs).
        rate: each neuron's final rate of growth, 0 for neurons without a growing part.
        log_amplitude: ln of the size ‖w‖ ≈ ‖v‖ that, grown at ``rate`` from t = 0, gives the neuron's late size.
        sliding: for each neuron, the lines (columns) it finally slides on, shape (width, lines).
        network: the start.
    """

    directions: Float[np.ndarray, "lines dim"]
    switches: Switches
    limit_direction: Float[np.ndarray, "width dim"]
    limit_output: Float[np.ndarray, "width outputs"]
    rate: Float[np.ndarray, "width"]
    log_amplitude: Float[np.ndarray, "width"]
    sliding: Bool[np.ndarray, "width lines"]
    network: Network
    _segments: Segments

    @property
    def escape_times(self) -> Float[np.ndarray, "width"]:
        """−log_amplitude/rate: when each neuron would be of size one; infinite for those that do not grow."""
        growing = self.rate > 0
        return np.where(growing, -self.log_amplitude / np.where(growing, self.rate, 1.0), np.inf)

    def at(self, time: float, largest: float = np.inf) -> Network:
        """The network at a flow time, as long as its output is negligible.

        Neurons that would be larger than ``largest``, for which the phase is over, are given that size.
        """
        first, second, log_size = self._segments.at(checks.non_negative(time, "time"), self.network.widths[1])
        size = np.exp(np.minimum(log_size, np.log(largest)))[:, None]
        return self.network.with_weights([size * first, (size * second).T])

    def __str__(self) -> str:
        """Counts of what happened."""
        growing = int(np.sum(self.rate > 0))
        return f"early flow of {self.network}: {self.switches}; {growing} neurons grow in the end"


def early_flow_several(
    network: Network, dataset: Dataset, loss: str = "square", until: float = np.inf
) -> SeveralEarlyFlow:
    """The early phase of a two-layer network with several outputs on any data, with exact switching times.

    Holds while the output is negligible beside the targets, that is until about the least of ``escape_times``.

    Args:
        network: two layers, any number of outputs, slope and scale.
        dataset: as many outputs as the network has.
        loss: its name; for cross-entropy r₀ = y − 1/K.
        until: leave out switches after this flow time; by default all are found.

    Raises:
        ValueError: another depth, shapes that do not fit.
        ArithmeticError: a neuron met lines again and again without moving, and its way could not be decided.

    >>> data = Dataset([[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> flow = early_flow_several(Network.init([2, 20, 2], slope=0.0, init_scale=1e-6, seed=0), data)
    >>> sorted({round(float(rate), 9) for rate in flow.rate})
    [0.0, 0.5, 1.0]
    """
    first, second, a = layers_and_pace(network, dataset)
    measure = losses.get(loss)
    residual = measure.initial_residual(measure.encoded(dataset.targets)).reshape(dataset.samples, -1)
    grouped = lines(dataset.inputs)
    residual /= dataset.samples
    drift, strength, kept = grouped.pulls(residual)
    kept = kept[:0] if a == 1 else kept
    pulls = (1 - a) * strength[kept], a * drift, (a - 1) * grouped.odd(residual)[kept]
    runner = SeveralRunner(grouped.directions[kept], *pulls, first, second.T)
    runner.advance_all(until)
    if runner.stuck:
        raise ArithmeticError(UNDECIDED)
    return _result(runner, network)


def _result(runner: SeveralRunner, network: Network) -> SeveralEarlyFlow:
    """What the last stretch of every neuron tends to: the strongest of its growing parts."""
    modes, width = runner.modes, network.widths[1]
    rates = np.where(modes.up != 0, modes.rate, 0.0)
    lead, every = rates.argmax(axis=1), np.arange(width)
    rate, part = rates[every, lead], modes.up[every, lead]
    growing = rate > 0
    inputs = np.where(growing[:, None], np.sign(part)[:, None] * modes.first[every, :, lead], modes.across)
    outputs = np.where(growing[:, None], np.sign(part)[:, None] * modes.second[every, :, lead], modes.still)
    resting = np.sqrt(np.sum(modes.across**2, axis=1) + np.sum(modes.still**2, axis=1))
    with np.errstate(divide="ignore"):
        log_amplitude = np.log(np.where(growing, np.abs(part), resting)) + runner.log_size - rate * runner.time
    return SeveralEarlyFlow(
        runner.directions, runner.switches(), _unit(inputs), _unit(outputs), rate, log_amplitude,
        runner.sliding.copy(), network, runner.segments(),
    )  # fmt: skip


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
