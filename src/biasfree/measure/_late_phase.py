"""The end of training on separable data: rank, alignment, direction and margin while the loss falls for ever.

Le & Jegelka: with logistic or exponential loss the last linear layers of a ReLU network tend to rank one and align. No
limit is reached at a finite loss, so the ranks come with their rate (``_approach``).

A_k is the matrix that layer k applies: W_k, or I + W_k with an identity skip around it alone. It moves as W_k does, and
where no skip is longer f is homogeneous in all A_k together, θ, of degree L, the depth. That makes it a network of
Lyu & Li's theory, skips or not. They show that min_i y_i f(x_i)/‖θ‖^L has a limit, and that its smoothed form
γ̃ = ℓ⁻¹(Σ_i ℓ_i)/‖θ‖^L, below it by about ln P/‖θ‖^L at most, never falls once it is positive. For a linear network the
limit is the margin of the hard-margin SVM over L^{L/2}.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from biasfree import theory
from biasfree.measure._approach import Approach, approach, power_of_ten
from biasfree.measure._neurons import neurons
from biasfree.measure._rank_excess import RankExcess, acting, beside_bound, shortfall
from biasfree.measure._saved import Saved, saved
from biasfree.measure._structure import Spectrum, Structure, spectrum, structure
from biasfree.networks import Network, forward
from biasfree.theory._rank_bound import LayerBound, rank_bound

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# The tail of a run is where ln 1/L is at least this part of what it is at the end.
_TAIL = 0.1
# What counts as nearly of rank one in words.
_GOAL = 0.99


@dataclass(frozen=True, eq=False)
class ActiveBlock:
    """The part of a ReLU layer between neurons that are active on every sample, all over the tail of a run.

    Attributes:
        layer: its number, 1 is the first.
        neurons: such neurons of this layer: the rows.
        inputs: such neurons of the layer before, or all if that has no activation: the columns.
        spectrum: of the block at every saved time; None if it is empty.
        bound: D for ‖A‖_F² − ‖A‖₂² of the block in the tail; None where no law gives one.
    """

    layer: int
    neurons: Int[np.ndarray, "neurons"]
    inputs: Int[np.ndarray, "inputs"]
    spectrum: Spectrum | None
    bound: float | None


@dataclass(frozen=True, eq=False)
class LatePhase:
    """The end of training, at every saved time.

    Attributes:
        network: the start.
        loss: its name.
        times: saved times.
        log_losses: ln L.
        tail: the saved times at which ln 1/L is at least a tenth of what it is at the end.
        structure: spectra and alignment of all layers.
        rank: what the last linear layers have beyond rank one, beside Ji & Telgarsky's bound.
        approaches: by layer, the rate of these but the last, which is of rank one; empty for runs that are too short,
            and where a skip over several layers leaves f without a degree.
        active_blocks: one for each ReLU layer.
        angle: between θ/‖θ‖ and the last saved θ/‖θ‖, in radians.
        margin: min_i y_i f(x_i).
        normalised_margin: the same over ‖θ‖^L; None where f has no degree.
        smoothed_margin: Lyu & Li's γ̃; None where f has no degree.
        svm_gap: 1 − cos of the angle between a linear network's end-to-end map and the hard-margin SVM through the
            origin; None for other networks.
    """

    network: Network
    loss: str
    times: Float[np.ndarray, "saved"]
    log_losses: Float[np.ndarray, "saved"]
    tail: Bool[np.ndarray, "saved"]
    structure: Structure
    rank: RankExcess
    approaches: dict[int, Approach]
    active_blocks: tuple[ActiveBlock, ...]
    angle: Float[np.ndarray, "saved"]
    margin: Float[np.ndarray, "saved"]
    normalised_margin: Float[np.ndarray, "saved"] | None
    smoothed_margin: Float[np.ndarray, "saved"] | None
    svm_gap: Float[np.ndarray, "saved"] | None

    @property
    def acting(self) -> tuple[Spectrum, ...]:
        """Spectra of A_1, …, A_L."""
        return acting(self.structure)

    @property
    def spectral_share(self) -> Float[np.ndarray, "saved layers"]:
        """‖A_k‖₂/‖A_k‖_F."""
        return np.stack([each.spectral_share for each in self.acting], axis=-1)

    @property
    def shortfall(self) -> Float[np.ndarray, "saved layers"]:
        """1 − ‖A_k‖₂/‖A_k‖_F, to full relative accuracy."""
        return np.stack([shortfall(each) for each in self.acting], axis=-1)

    @property
    def distance(self) -> Float[np.ndarray, "saved layers"]:
        """‖A_k/‖A_k‖_F − u_kv_kᵀ‖_F, which is √(2 · shortfall)."""
        return np.sqrt(2 * self.shortfall)

    @property
    def alignment(self) -> Float[np.ndarray, "saved pairs"]:
        """|⟨v_{k+1}, u_k⟩| of neighbouring layers."""
        return self.structure.alignment

    def __str__(self) -> str:
        """What is reached and what is not."""
        first, levels = int(np.argmax(self.tail)), [power_of_ten(each) for each in self.log_losses]
        rows = [f"Late phase of a {self.network}, {self.loss} loss {levels[0]} → {levels[-1]}"]
        rows += [self._share(each) for each in self.rank.bound.layers]
        if len(self.rank.bound.layers) > 1:
            apart = ", ".join(f"{each:.1e}" for each in self.rank.misalignment[-1])
            rows += [f"1 − alignment of these neighbours: {apart}", str(self.rank)]
        rows += [self._relu(each) for each in self.active_blocks]
        rows.append(f"direction of all weights: turned by {self.angle[first]:.2g} rad since L = {levels[first]}")
        if self.normalised_margin is not None:
            before, after = (f"{self.normalised_margin[i]:.4g}" for i in (first, -1))
            rows.append(f"margin/‖θ‖^{self.network.depth}: {before} → {after} since then")
        if self.svm_gap is not None:
            rows.append(f"end-to-end map: 1 − cos = {self.svm_gap[-1]:.2g} from the hard-margin SVM")
        return "\n  ".join(rows)

    __repr__ = __str__

    def _share(self, bound: LayerBound) -> str:
        share, name = self.spectral_share[-1, bound.layer - 1], bound.name
        text = f"‖{name}‖₂/‖{name}‖_F = {share:.4f}"
        if self.shortfall[-1, bound.layer - 1] == 0:
            return f"{text}: of rank one"
        law = self.approaches.get(bound.layer)
        rate = "no rate known" if law is None else (
            f"1 − it falls like (ln 1/L)^−{law.measured_exponent:.2f}, in the limit ^−{law.exponent:.2g}"
        )  # fmt: skip
        if share >= _GOAL:
            return f"{text}, {_GOAL} is reached; {rate}"
        when = "" if law is None else f", expected at L = {power_of_ten(law.log_loss_at(_GOAL))}"
        return f"{text}, {_GOAL} is not reached{when}; {rate}"

    def _relu(self, block: ActiveBlock) -> str:
        text = f"ReLU layer {block.layer}: stable rank {self.acting[block.layer - 1].stable_rank[-1]:.3g}"
        if block.spectrum is None:
            return f"{text}; no block of neurons active on every sample"
        return (
            f"{text}; block of neurons active on every sample, {len(block.neurons)} × {len(block.inputs)}: "
            f"{block.spectrum.stable_rank[-1]:.3g}"
        )


def late_phase(run: "Trajectory") -> LatePhase:
    """Rank, alignment, direction and margin at the end of training (Le & Jegelka; Ji & Telgarsky; Lyu & Li).

    Args:
        run: with logistic or exponential loss, no weight decay, at least two layers and one output, whose network
            separates the data at the end. Losses far below 1e-10 need ``clock="loss"``.

    Raises:
        ValueError: another loss, weight decay, one layer, several outputs, data not separated; for a linear network,
            data that no hyperplane through the origin separates.

    >>> import biasfree as bf
    >>> data = bf.datasets.separable(dim=2, samples=6, seed=0)
    >>> start = bf.Network.init([2, 3, 1], slope=1.0, init_scale=0.5, seed=0)
    >>> run = bf.gradient_flow(start, data, loss="logistic", clock="loss", until=np.inf, stop=1e-20)
    >>> phase = late_phase(run)
    >>> phase.rank.holds, phase.approaches[1].exponent, bool(phase.svm_gap[-1] < 1e-3)
    (True, 1.0, True)
    """
    stack = _checked(run)
    network, data = run.template, run.dataset
    svm = theory.max_margin(data).direction if network.is_linear else None
    margin, maps = _responses(run)
    if margin[-1].min() <= 0:
        raise ValueError(
            f"the late phase begins when every sample is on the side of its label; at the end of this run "
            f"{int((margin[-1] <= 0).sum())} of {data.samples} are not. Train longer, or take data that the network "
            "can separate."
        )
    theta = np.concatenate([stack.acting(k + 1).reshape(len(margin), -1) for k in range(network.depth)], axis=1)
    size = np.linalg.norm(theta, axis=1)
    turned = theta / size[:, None] - theta[-1] / size[-1]
    tail = run.log_losses <= _TAIL * run.log_losses[-1]
    layer_structure = structure(run)
    rank = beside_bound(run, layer_structure)
    degree = network.depth if max(network.skips) <= 1 else None
    return LatePhase(
        network=network,
        loss=run.settings["loss"],
        times=np.asarray(run.times),
        log_losses=np.asarray(run.log_losses),
        tail=tail,
        structure=layer_structure,
        rank=rank,
        approaches={} if degree is None else _approaches(run, rank, acting(layer_structure), tail, degree),
        active_blocks=_active_blocks(run, tail),
        angle=2 * np.arcsin(np.minimum(np.linalg.norm(turned, axis=1) / 2, 1)),
        margin=margin.min(axis=1),
        normalised_margin=None if degree is None else margin.min(axis=1) / size**degree,
        smoothed_margin=None if degree is None else _smoothed(run) / size**degree,
        svm_gap=None if svm is None else ((_unit(maps) - svm) ** 2).sum(axis=1) / 2,
    )


def _checked(run: "Trajectory") -> Saved:
    stack = saved(run)
    if stack.times is None:
        raise ValueError("the end of training is measured along a run: pass a Trajectory, not a single network.")
    loss, decay, network = run.settings["loss"], run.settings["weight_decay"], run.template
    if loss == "square":
        raise ValueError(
            "the late phase is about losses that fall for ever, logistic and exponential; this run used 'square', "
            "which comes to rest."
        )
    if decay:
        raise ValueError(f"with weight decay ({decay:g}) the weights stay finite and the loss does not vanish. Use 0.")
    if network.depth == 1:
        raise ValueError(
            "a network of one layer is a single row for each output, so there is no rank to ask about. "
            "Use at least two layers."
        )
    if network.widths[-1] != 1:
        raise ValueError(
            f"margins and ranks at the end of training are known for one output, this network has {network.widths[-1]}."
        )
    return stack


def _responses(run: "Trajectory") -> tuple[Float[np.ndarray, "saved samples"], Float[np.ndarray, "saved dim"]]:
    """Margins y_i f(x_i), and the outputs for unit inputs, which are the end-to-end map if the network is linear."""
    network, data = run.template, run.dataset
    probes = np.concatenate([data.inputs, np.eye(data.dim)])
    outputs = np.stack([
        np.asarray(forward(weights, probes, network.slope, network.architecture))[0]
        for weights in zip(*run.weights, strict=True)
    ])  # fmt: skip
    return data.targets * outputs[:, : data.samples], outputs[:, data.samples :]


def _smoothed(run: "Trajectory") -> Float[np.ndarray, "saved"]:
    """ℓ⁻¹(S) of the sum S = P · L of all losses: −ln S for exponential loss, −ln(e^S − 1) for logistic loss."""
    log_sum = run.log_losses + np.log(run.dataset.samples)
    if run.settings["loss"] == "exponential":
        return -log_sum
    # (e^S − 1)/S is 1 where S underflows.
    total = np.maximum(np.exp(log_sum), 1e-300)
    return -log_sum - np.log(np.expm1(total) / total)


def _approaches(
    run: "Trajectory", rank: RankExcess, spectra: tuple[Spectrum, ...], tail: Bool[np.ndarray, "saved"], degree: int
) -> dict[int, Approach]:
    """By layer, what could be fitted."""
    layers = [each.layer for each in rank.bound.layers[:-1]]
    laws = {layer: approach(spectra[layer - 1], run.log_losses, tail, degree) for layer in layers}
    return {layer: law for layer, law in laws.items() if law is not None}


def _active_blocks(run: "Trajectory", tail: Bool[np.ndarray, "saved"]) -> tuple[ActiveBlock, ...]:
    """For each ReLU layer, the block between neurons that are active on every sample in the tail."""
    network, stack, first = run.template, saved(run), int(np.argmax(tail))
    if network.is_linear:
        return ()
    activity = neurons(run, since=float(run.times[first])).layers
    then = network.with_weights([w[first] for w in run.weights])
    later = rank_bound(then, {each.layer: each.stably_active for each in activity})
    bounds = {each.layer: each.excess for each in later.layers}
    blocks = []
    for each in activity:
        if not network.rectified[each.layer - 1]:
            continue
        rows = np.flatnonzero(each.stably_active)
        columns = np.arange(network.widths[each.layer - 1])
        if each.layer > 1:
            columns = np.flatnonzero(activity[each.layer - 2].stably_active)
        block = stack.acting(each.layer)[:, rows][:, :, columns]
        of_block = spectrum(block, f"{stack.acting_name(each.layer)} on active neurons") if block.size else None
        blocks.append(ActiveBlock(each.layer, rows, columns, of_block, bounds.get(each.layer) if block.size else None))
    return tuple(blocks)


def _unit(vectors: Float[np.ndarray, "saved dim"]) -> Float[np.ndarray, "saved dim"]:
    """Divided by their lengths; zeros stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)
