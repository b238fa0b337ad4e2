"""What grows inside awake neurons: with several outputs a group that rests in one direction may learn another.

For one output the pull of an awake neuron's cell is zero where it rests. For K outputs the matrix M of its cell is zero
only along what the neuron uses of it: a group a_h(z₁, u₁) rests with Mᵀz₁ = 0, Mu₁ = 0, and M's further pairs (z, u)
go on pulling at the group's small parts across. Linearised about the rest θ* the flow of all awake weights is

    δθ̇ = (B − JᵀHJ − λ)δθ,    B δθ = (Mδv, Mᵀδw) for each neuron,    J = ∂f/∂θ,  H the loss's curvature,

averages over the samples understood. What changes the output at first order is stiff and dies out. What does not, the
parts b_h(z, u) with Σ a_h b_h = 0, grows at the singular value: a group of n neurons has n − 1 such parts, and a single
neuron has none. As Bθ* = λθ*, growing directions are orthogonal to θ*: the weights at the plateau's first moment,
projected on them, are what grows. What it makes of the loss is told by the rule of ``_waking``.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from biasfree.lines import lines
from biasfree.measure._alone import Alone
from biasfree.measure._awake import sides
from biasfree.measure._samples import pull
from biasfree.measure._waking import GROWN, NO_RATE
from biasfree.networks import Network

# More weights than this are not decomposed.
_MOST = 2000
# Rates that differ by less than this share grow together.
_SAME_RATE = 0.03
# Neurons with less than this share of the largest part take no part.
_FELT = 0.01


class Part(NamedTuple):
    """Parts of awake neurons that grow at one rate.

    Attributes:
        direction, output: of their w and of their v, unit vectors; of either sign.
        rate: at which they grow, net of decay.
        end: when they have made a tenth of the fall they can make.
        fall: how far the loss can fall by them alone.
        neurons: rows of the awake neurons.
    """

    direction: Float[np.ndarray, "dim"]
    output: Float[np.ndarray, "outputs"]
    rate: float
    end: float
    fall: float
    neurons: np.ndarray


def inner_growth(awake: Alone, inputs: Float[np.ndarray, "samples dim"], decay: float) -> tuple[Part, ...] | None:
    """The growing parts of awake neurons, the fastest first; None where there are too many weights to tell.

    Args:
        awake: the awake neurons alone, of a two-layer network with several outputs.
        inputs: of the samples.
        decay: λ.
    """
    begun, rested, last = awake.begun, awake.rested, awake.stretches[-1]
    if begun is None or rested is None:
        return ()
    residuals = last.residuals.reshape(len(inputs), -1)
    if sum(np.asarray(layer).size for layer in rested.weights) > _MOST:
        return None
    active, frames = _responses(rested, inputs)
    rates, modes = np.linalg.eigh(_linearised(rested, inputs, active, frames, residuals, last.curvature))
    least = max(NO_RATE * pull(inputs, last.residuals), 2 * awake.still)
    growing = np.flatnonzero(rates - decay > least)[::-1]
    weights = np.concatenate([np.asarray(begun.weights[0]), np.asarray(begun.weights[1]).T], axis=1)
    found = []
    for together in _runs(rates[growing]):
        here = modes[:, growing[together]]
        part = (here @ (here.T @ weights.ravel())).reshape(weights.shape)
        rate = float(rates[growing[together[0]]])
        one = _part(part, rate - decay, awake.stretches[0].begin, inputs, active, residuals, last.curvature)
        found += [] if one is None else [one]
    return tuple(found)


def _responses(network: Network, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """σ' of every neuron at every sample, and the projection on the boundaries that each neuron slides on."""
    first = np.asarray(network.weights[0])
    if network.is_linear:
        return np.ones((len(first), len(inputs))), np.tile(np.eye(first.shape[1]), (len(first), 1, 1))
    grouped = lines(inputs)
    side = sides(first, grouped)
    at = side[:, grouped.member] * np.sign(grouped.position)
    frames = np.empty((len(first), first.shape[1], first.shape[1]))
    for h in range(len(first)):
        held = grouped.directions[side[h] == 0]
        frames[h] = np.eye(first.shape[1]) - np.linalg.pinv(held) @ held
    return np.where(at > 0, 1.0, network.slope), frames


def _linearised(
    network: Network,
    inputs: np.ndarray,
    active: np.ndarray,
    frames: np.ndarray,
    residuals: np.ndarray,
    curvature: np.ndarray,
) -> np.ndarray:
    """B − JᵀHJ, a symmetric matrix over all (w, v), neuron after neuron."""
    first, second = np.asarray(network.weights[0]), np.asarray(network.weights[1]).T
    (width, dim), outputs, samples = first.shape, second.shape[1], len(inputs)
    matrix = np.einsum("hp,pd,pk->hdk", active, inputs, residuals) / samples
    matrix = np.einsum("hde,hek->hdk", frames, matrix)
    seen = np.einsum("hde,hp,pe->hpd", frames, active, inputs)
    jacobian = np.zeros((samples, outputs, width, dim + outputs))
    jacobian[..., :dim] = np.einsum("hpd,hk->pkhd", seen, second)
    heights = active * (first @ inputs.T)
    for k in range(outputs):
        jacobian[:, k, :, dim + k] = heights.T
    flat = jacobian.reshape(samples, outputs, -1)
    stiff = flat.reshape(samples * outputs, -1).T @ np.einsum("pkl,plm->pkm", curvature, flat).reshape(
        samples * outputs, -1
    )
    pulls = np.zeros((width, dim + outputs, width, dim + outputs))
    for h in range(width):
        pulls[h, :dim, h, dim:] = matrix[h]
        pulls[h, dim:, h, :dim] = matrix[h].T
    return pulls.reshape(stiff.shape) - stiff / samples


def _runs(rates: np.ndarray) -> list[np.ndarray]:
    """Falling rates parted where one is lower than the first of its run by more than the tolerance."""
    found: list[list[int]] = []
    for k, rate in enumerate(rates.tolist()):
        if found and rate > (1 - _SAME_RATE) * rates[found[-1][0]]:
            found[-1].append(k)
        else:
            found.append([k])
    return [np.array(run) for run in found]


def _part(
    part: np.ndarray,
    rate: float,
    begin: float,
    inputs: np.ndarray,
    active: np.ndarray,
    residuals: np.ndarray,
    curvature: np.ndarray,
) -> Part | None:
    """What parts (δw, δv) make of the loss as they grow; None if they cannot lower it."""
    dim = inputs.shape[1]
    size = float(np.abs(part).max())
    if not size > 0:
        return None
    first, second = part[:, :dim] / size, part[:, dim:] / size
    output = np.einsum("hp,hk->pk", active * (first @ inputs.T), second)
    gain = float(np.mean(np.sum(residuals * output, axis=1)))
    weight = float(np.mean(np.einsum("pk,pkl,pl->p", output, curvature, output)))
    if not gain > 0 or not weight > 0:
        return None
    end = begin + max((np.log(GROWN * gain / weight) - 2 * np.log(size)) / (2 * rate), 0.0)
    outputs, _, ways = np.linalg.svd(second.T @ first)
    lengths = np.linalg.norm(part, axis=1)
    members = np.flatnonzero(lengths > _FELT * lengths.max())
    return Part(ways[0], outputs[:, 0], rate, float(end), gain**2 / (2 * weight), members)
