"""What the last linear layers have beyond rank one along a run, beside Ji & Telgarsky's bound from its start."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from biasfree.measure._saved import saved
from biasfree.measure._structure import Spectrum, Structure, structure
from biasfree.theory._rank_bound import RankBound, rank_bound

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

# The part of ‖A‖_F² by which an integration at usual tolerances may miss what the flow conserves.
_DRIFT = 1e-6


@dataclass(frozen=True, eq=False)
class RankExcess:
    """How far the last linear layers are from rank one and from each other's directions, beside what is allowed.

    A is W, or I + W with an identity skip around the layer.

    Attributes:
        bound: for the layers that have one, from the start of the run.
        times: saved times.
        excess: ‖A_k‖_F² − ‖A_k‖₂² of these layers.
        limit: D_k at these times: constant, or shrunk by weight decay.
        size: ‖A_k‖_F².
        misalignment: 1 − |⟨v_{k+1}, u_k⟩| of these layers.
        misalignment_limit: what the bound allows for it; 1 says nothing.
    """

    bound: RankBound
    times: Float[np.ndarray, "saved"]
    excess: Float[np.ndarray, "saved layers"]
    limit: Float[np.ndarray, "saved layers"]
    size: Float[np.ndarray, "saved layers"]
    misalignment: Float[np.ndarray, "saved pairs"]
    misalignment_limit: Float[np.ndarray, "saved pairs"]

    @property
    def slack(self) -> Float[np.ndarray, "saved layers"]:
        """D_k − (‖A_k‖_F² − ‖A_k‖₂²), never negative along gradient flow."""
        return self.limit - self.excess

    @property
    def holds(self) -> bool:
        """Whether the slack is nowhere negative, but for an error of integration of 1e-6 of ‖A_k‖_F²."""
        return bool((self.slack >= -_DRIFT * self.size).all())

    def __str__(self) -> str:
        """One line: the largest excess of each layer and its D."""
        pairs = zip(self.bound.layers, self.excess.max(axis=0), strict=True)
        most = ", ".join(f"{value:.3g} ≤ {each.excess:.3g} for {each.name}" for each, value in pairs)
        verdict = "holds at all" if self.holds else "FAILS at some of the"
        return f"‖A‖_F² − ‖A‖₂² ≤ D {verdict} {len(self.times)} saved times: {most}"

    __repr__ = __str__


def rank_excess(run: "Trajectory") -> RankExcess:
    """Check Ji & Telgarsky's bound ‖W_k‖_F² − ‖W_k‖₂² ≤ D at every saved time, for any loss and data.

    Descent keeps to it to the order of its rate only.

    Args:
        run: of a network with at least two layers and one output, saved from its start on.

    Raises:
        ValueError: a single network, one layer, several outputs, weight decay together with identity skips.

    >>> import biasfree as bf
    >>> data = bf.datasets.symmetric_gaussian(dim=2, pairs=4, seed=0)
    >>> start = bf.Network.init([2, 3, 1], slope=1.0, init_scale=0.5, seed=0)
    >>> result = rank_excess(bf.gradient_flow(start, data, until=5.0))
    >>> result.holds, result.slack.shape == (len(result.times), 2)
    (True, True)
    """
    if saved(run).times is None:
        raise ValueError("a bound for all times is checked along a run: pass a Trajectory, not a single network.")
    return beside_bound(run, structure(run))


def beside_bound(run: "Trajectory", structure: Structure) -> RankExcess:
    """The same, where the structure is known already."""
    bound, decay, times = rank_bound(run.template), run.settings["weight_decay"], np.asarray(run.times)
    if decay and any(run.template.skips[each.layer - 1] == 1 for each in bound.layers):
        raise ValueError(
            f"weight decay ({decay:g}) pulls W to 0 and not I + W, so that layers with identity skips have no bound. "
            "Use weight_decay=0."
        )
    # On the loss clock the bound shrinks by an unknown factor; the start's still holds.
    fade = np.exp(-2 * decay * times) if run.settings["clock"] == "time" else np.ones(len(times))
    spectra = [acting(structure)[each.layer - 1] for each in bound.layers]
    return RankExcess(
        bound=bound,
        times=times,
        excess=np.stack([excess(each) for each in spectra], axis=-1),
        limit=fade[:, None] * bound.excess,
        size=np.stack([each.norm**2 for each in spectra], axis=-1),
        misalignment=1 - structure.alignment[:, bound.layers[0].layer - 1 :],
        misalignment_limit=bound.misalignment(np.stack([each.singular_values[:, 0] for each in spectra], axis=-1)),
    )


def acting(structure: Structure) -> tuple[Spectrum, ...]:
    """Spectra of the matrices that the layers apply: I + W with an identity skip around the layer alone, else W."""
    return tuple(structure.blocks.get(layer, plain) for layer, plain in enumerate(structure.layers, 1))


def excess(spectrum: Spectrum) -> Float[np.ndarray, "*saved"]:
    """‖A‖_F² − ‖A‖₂², without the cancellation."""
    return (spectrum.singular_values[..., 1:] ** 2).sum(axis=-1)


def shortfall(spectrum: Spectrum) -> Float[np.ndarray, "*saved"]:
    """1 − ‖A‖₂/‖A‖_F, likewise."""
    return spectrum.residual(1) ** 2 / (1 + spectrum.spectral_share)
