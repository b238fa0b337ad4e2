"""What grows inside awake neurons: with several outputs a group that rests in one direction may learn another.

For one output the pull of an awake neuron's cell is zero where it rests. For K outputs the matrix M of its cell is zero
only along what the neuron uses of it: a group a_h(z₁, u₁) rests with Mᵀz₁ = 0, Mu₁ = 0, and M's further pairs (z, u)
go on pulling at the group's small parts across. Linearised about the rest θ* the flow of all awake weights is

    δθ̇ = (B − JᵀHJ − λ)δθ,    B δθ = (Mδv, Mᵀδw) for each neuron,    J = ∂f/∂θ,  H the loss's curvature,

averages over the samples understood. What changes the output at first order is stiff and dies out. What does not, the
parts b_h(z, u) with Σ a_h b_h = 0, grows at the singular value: a group of n neurons has n − 1 such parts, and a single
neuron has none. A part p of rate μ moves at μp, so that the velocity where the neurons are slowest, projected on a
growing eigenvector and divided by its rate, is what grows. What it makes of the loss follows by ``_waking``.
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
_TAKES_PART = 0.01


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
    """The growing parts of awake neurons, the fastest first; None where there are too many weights to decide.

    None are listed where the neurons have not come to rest: what speeds them up is mostly slower than they are.

    Args:
        awake: the awake neurons alone, of a two-layer network with several outputs.
        inputs: of the samples.
        decay: λ.
    """
    if awake.later is None:
        return ()
    rested, last = awake.later[1][0], awake.stretches[-1]
    residuals = last.residuals.reshape(len(inputs), -1)
    if sum(np.asarray(layer).size for layer in rested.weights) > _MOST:
        return None
    active, frames = _responses(rested, inputs)
    pulls = _pulls(inputs, active, frames, residuals)
    rates, modes = np.linalg.eigh(_linearised(rested, inputs, active, frames, pulls, last.curvature))
    least = max(NO_RATE * pull(inputs, last.residuals), 2 * awake.still)
    growing = np.flatnonzero(rates - decay > least)[::-1]
    velocity = _velocity(rested, pulls, decay)
    # Where they are slowest, what speeds them up and what slows them down are even: Σμ_i(e_iᵀθ̇)² = 0.
    speeding = np.maximum(rates - decay, 0.0) * (modes.T @ velocity.ravel()) ** 2
    if speeding[growing].sum() < 0.5 * speeding.sum():
        return ()
    parts = []
    for together in _runs(rates[growing]):
        here, net = modes[:, growing[together]], rates[growing[together]] - decay
        part = (here @ (here.T @ velocity.ravel() / net)).reshape(velocity.shape)
        one = _part(part, float(net[0]), awake.rest, inputs, active, residuals, last.curvature)
        parts += [] if one is None else [one]
    return tuple(parts)


def _pulls(inputs: np.ndarray, active: np.ndarray, frames: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """M of every neuron's cell, within the boundaries that it slides on."""
    matrix = np.einsum("hp,pd,pk->hdk", active, inputs, residuals) / len(inputs)
    return np.asarray(np.einsum("hde,hek->hdk", frames, matrix))


def _velocity(network: Network, pulls: np.ndarray, decay: float) -> np.ndarray:
    """(ẇ, v̇) of every neuron."""
    first, second = np.asarray(network.weights[0]), np.asarray(network.weights[1]).T
    moved = [np.einsum("hdk,hk->hd", pulls, second), np.einsum("hdk,hd->hk", pulls, first)]
    return np.concatenate(moved, axis=1) - decay * np.concatenate([first, second], axis=1)


def turned(awake: Alone, inputs: Float[np.ndarray, "samples dim"], slope: float, rate: float) -> float:
    """When the first awake neuron has crossed a line that matters to parts of this rate; infinite if none does.

    A line matters if M, and with it a rate, differs on its two sides by more than rates that are taken for the same.
    """
    if awake.later is None:
        return np.inf
    grouped, residuals = lines(inputs), awake.stretches[-1].residuals.reshape(len(inputs), -1)
    _, even, _ = grouped.pulls(residuals / len(inputs))
    matters = (1 - slope) * np.linalg.norm(even, axis=1) > _SAME_RATE * rate
    times, networks = awake.later
    cells = sides(np.asarray(networks[0].weights[0]), grouped)[:, matters]
    for time, network in zip(times[1:], networks[1:], strict=True):
        if (sides(np.asarray(network.weights[0]), grouped)[:, matters] != cells).any():
            return float(time)
    return np.inf


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
    matrix: np.ndarray,
    curvature: np.ndarray,
) -> np.ndarray:
    """B − JᵀHJ, a symmetric matrix over all (w, v), neuron after neuron."""
    first, second = np.asarray(network.weights[0]), np.asarray(network.weights[1]).T
    (width, dim), outputs, samples = first.shape, second.shape[1], len(inputs)
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
    runs: list[list[int]] = []
    for k, rate in enumerate(rates.tolist()):
        if runs and rate > (1 - _SAME_RATE) * rates[runs[-1][0]]:
            runs[-1].append(k)
        else:
            runs.append([k])
    return [np.array(run) for run in runs]


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
    members = np.flatnonzero(lengths > _TAKES_PART * lengths.max())
    return Part(ways[0], outputs[:, 0], rate, float(end), gain**2 / (2 * weight), members)
