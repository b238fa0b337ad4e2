"""Le & Jegelka: what gradient flow conserves in networks with ReLU, linear and residual layers.

Inputs lie in the positive orthant, where neurons can be active on every sample. What follows for the rank of the last
layers is in ``low_rank_limit``.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

import biasfree as bf
from biasfree import measure
from biasfree.studies import low_rank_limit
from biasfree.studies._draws import saved_network
from biasfree.studies._study import Result, Study, at_least, at_most
from biasfree.studies._velocity import velocity
from biasfree.studies.low_rank_limit import DIM, RTOL, SAMPLES, SMOOTH, WIDTH, hidden, settings, trained

# Which hidden layers are rectified; if quick, those of the other network, which is compiled then already.
DEEP = (True, True, False, False)
# W₁, then M₂ = I + W₂ and M₃ = I + W₃, a branch x + C B x of B = W₄ and C = W₅, and W₆; all linear.
RESIDUAL, SKIPS = (DIM, *[WIDTH] * 5, 1), (0, 1, 1, 0, 2, 0)
EVERY = slice(None)
# Exact cancellation, to rounding; and what is left of a law where a neuron slides along its activation boundary, which
# a solver can only follow by small steps across it.
EXACT, SLIDING = 1e-12, 100 * RTOL


def orthant(seed: int) -> bf.Dataset:
    """Inputs with positive entries, split by a hyperplane through the origin with room of 0.1 on either side."""
    inputs = np.abs(np.random.default_rng([seed, 1]).normal(size=(SAMPLES, DIM))) + 0.2
    normal = np.resize([1.0, -1.0], DIM) / np.sqrt(DIM)
    labels = np.where(inputs @ normal > 0, 1.0, -1.0)
    return bf.Dataset(inputs + 0.1 * np.outer(labels, normal), labels, "separable, in the positive orthant")


@functools.cache
def early(seed: int, quick: bool) -> bf.Trajectory:
    """Down to a loss of 0.1; half of the neurons of each ReLU layer start with positive weights."""
    rectified = low_rank_limit.RECTIFIED if quick else DEEP
    start = bf.Network.init((DIM, *[WIDTH] * len(rectified), 1), 0.0, 2.0, seed, rectified=rectified)
    half = np.arange(WIDTH)[:, None] < WIDTH // 2
    weights = [np.asarray(w) for w in start.weights]
    for layer in range(sum(rectified)):
        weights[layer] = np.where(half, np.abs(weights[layer]), weights[layer])
    return trained(start.with_weights(weights), orthant(seed), 1)


def speed(
    law: Callable[[bf.Network], measure.Invariant],
    network: bf.Network,
    moves: list[np.ndarray],
    layer: int,
    neurons: np.ndarray | slice = EVERY,
) -> float:
    """Time derivative of a balance along ``moves``, relative to what layer ``layer`` alone contributes.

    A quadratic function Q has Q'(W)[V] = (Q(W + V) − Q(W − V))/2 exactly.
    """

    def along(moves: list[np.ndarray]) -> np.ndarray:
        there, back = (
            law(network.with_weights([w + sign * v for w, v in zip(network.weights, moves, strict=True)])).value
            for sign in (1, -1)
        )
        change = (there - back) / 2
        return change[neurons] if change.ndim == 1 else change[neurons][:, neurons]

    alone = along([v if k == layer else 0 * v for k, v in enumerate(moves, 1)])
    return float(np.abs(along(moves)).max() / np.abs(alone).max())


@functools.cache
def moving(seed: int, quick: bool) -> tuple[tuple[bf.Network, list[np.ndarray]], ...]:
    """Networks at five times of the early run, with the exact gradient there."""
    run = early(seed, quick)
    networks = [saved_network(run, save) for save in np.linspace(0, len(run.times) - 1, 5).astype(int)]
    return tuple((network, velocity(network, run.dataset, "logistic")) for network in networks)


def fastest(
    seed: int, quick: bool, law: Callable[..., measure.Invariant], layer: int, neurons: np.ndarray | slice = EVERY
) -> float:
    """Largest rate of change of a layer's balance at these."""
    return max(
        speed(functools.partial(law, layer=layer), network, moves, layer, neurons)
        for network, moves in moving(seed, quick)
    )


def neuron_invariance(seed: int, quick: bool, protocol: str) -> Result:
    """‖incoming‖² − ‖outgoing‖² of every hidden neuron."""
    run = early(seed, quick)
    relu, linear = hidden(run, True), hidden(run, False)
    laws = {layer: measure.neuron_balance(run, layer) for layer in (*relu, *linear)}
    fast = [fastest(seed, quick, measure.neuron_balance, layer) for layer in laws]
    return Result(
        {
            "rate of change along the exact gradient": max(fast),
            "drift in ReLU layers along the flow": max(laws[k].relative_drift for k in relu),
            "drift in linear layers along the flow": max(laws[k].relative_drift for k in linear),
        },
        {
            "rate of change along the exact gradient": at_most(EXACT),
            "drift in ReLU layers along the flow": at_most(SLIDING),
            "drift in linear layers along the flow": at_most(SMOOTH),
        },
        why="Each neuron can be rescaled without changing the function, since σ is positively homogeneous, and the "
        "flow conserves what belongs to this symmetry. Relative to the squared weights it drifts by the solver's "
        "error only, which is larger where a neuron slides along its activation boundary.",
        settings=settings(run),
    )


def matrix_invariance(seed: int, quick: bool, protocol: str) -> Result:
    """W_kW_kᵀ − W_{k+1}ᵀW_{k+1} around every hidden layer; around ReLU layers it is the counter-example."""
    run = early(seed, quick)
    relu, linear = hidden(run, True), hidden(run, False)
    laws = {layer: measure.matrix_balance(run, layer) for layer in (*relu, *linear)}
    fast = {layer: fastest(seed, quick, measure.matrix_balance, layer) for layer in laws}
    return Result(
        {
            "linear layers, rate of change along the exact gradient": max(fast[k] for k in linear),
            "linear layers, drift along the flow": max(laws[k].relative_drift for k in linear),
            "ReLU layers, largest rate of change": min(fast[k] for k in relu),
            "ReLU layers, drift along the flow": min(laws[k].relative_drift for k in relu),
        },
        {
            "linear layers, rate of change along the exact gradient": at_most(EXACT),
            "linear layers, drift along the flow": at_most(SMOOTH),
            "ReLU layers, largest rate of change": at_least(0.01),
            "ReLU layers, drift along the flow": at_least(10 * SLIDING),
        },
        why="Between linear layers any rotation of the neurons leaves the function alone, and the whole matrix is "
        "conserved. ReLU neurons cannot be rotated into each other: two that are active on different samples have an "
        "entry that moves, and the matrix of a ReLU layer drifts by a sizeable part of the weights.",
        data={
            "log_losses": run.log_losses / math.log(10),
            "drifts": {str(k): law.drift / law.scale for k, law in laws.items()},
            "linear": list(linear),
        },
        settings=settings(run),
    )


def stable_neurons(seed: int, quick: bool, protocol: str) -> Result:
    """The same matrix on the block of neurons that are active on every sample all the time."""
    run = early(seed, quick)
    relu = hidden(run, True)
    blocks = {k: measure.active_block_balance(run, k) for k in relu}
    fast = [fastest(seed, quick, measure.matrix_balance, k, block.neurons) for k, block in blocks.items()]
    return Result(
        {
            "neurons active on every sample, in the layer with the fewest": min(
                len(b.neurons) for b in blocks.values()
            ),
            "rate of change along the exact gradient": max(fast),
            "drift along the flow": max(block.relative_drift for block in blocks.values()),
            "drift of the whole matrix": min(measure.matrix_balance(run, k).relative_drift for k in relu),
        },
        {
            "neurons active on every sample, in the layer with the fewest": at_least(2),
            "rate of change along the exact gradient": at_most(EXACT),
            "drift along the flow": at_most(SLIDING),
            "drift of the whole matrix": at_least(10 * SLIDING),
        },
        why="Neurons that are active on every sample act as linear ones, and their block is conserved while the rest "
        "of the same matrix moves. Such neurons exist here since all inputs are positive and half of the neurons "
        "start with positive weights; symmetric data leave none in the first layer.",
        settings=settings(run),
    )


@functools.cache
def residual_run(seed: int) -> bf.Trajectory:
    """A linear residual network for a while; without kinks the flow is accurate."""
    start = bf.Network.init(RESIDUAL, 1.0, 1.5, seed, skips=SKIPS)
    return bf.gradient_flow(start, orthant(seed), loss="logistic", until=4.0, rtol=1e-9, method="tsit5", save=40)


RESIDUAL_LAWS: dict[str, tuple[int, Callable[..., measure.Invariant]]] = {
    "M₂M₂ᵀ − M₃ᵀM₃": (2, lambda subject: measure.matrix_balance(subject, 2)),
    "W₁W₁ᵀ − M₂ᵀM₂": (1, lambda subject: measure.matrix_balance(subject, 1)),
    "inside the branch, BBᵀ − CᵀC": (4, lambda subject: measure.branch_balance(subject, 5)),
    "sum over the layers that skips join": (3, lambda subject: measure.stream_balance(subject, 3)),
}
RESIDUAL_FAILS: dict[str, tuple[int, Callable[..., measure.Invariant]]] = {
    "W₂W₂ᵀ − W₃ᵀW₃, without the identity": (2, lambda subject: measure.matrix_balance(subject, 2, identity=False)),
    "M₃M₃ᵀ − BᵀB, where the branch begins": (3, lambda subject: measure.matrix_balance(subject, 3)),
    "CCᵀ − W₆ᵀW₆, where the branch ends": (5, lambda subject: measure.matrix_balance(subject, 5)),
}


def residual_invariance(seed: int, quick: bool, protocol: str) -> Result:
    """Balances of identity-skip layers and branches: by their rates, and by their drift along a flow unless quick."""
    data, measured, expected = orthant(seed), {}, {}
    network = bf.Network.init(RESIDUAL, 1.0, 1.5, seed, skips=SKIPS)
    moves = velocity(network, data, "logistic")
    run = None if quick else residual_run(seed)
    for laws, rule, drifts in (
        (RESIDUAL_LAWS, at_most(EXACT), at_most(1e-7)),
        (RESIDUAL_FAILS, at_least(0.01), at_least(0.01)),
    ):
        for name, (layer, law) in laws.items():
            measured[f"{name}: rate"] = speed(law, network, moves, layer)
            expected[f"{name}: rate"] = rule
            if run is not None:
                measured[f"{name}: drift"] = law(run).relative_drift
                expected[f"{name}: drift"] = drifts
    return Result(
        measured,
        expected,
        why="A layer with an identity skip applies M = I + W and is conserved as M; W alone is not. Inside a branch "
        "x + CBx the two matrices balance each other, but what meets the skip, before or after, does not balance its "
        "neighbour alone: the skip carries signal past it. Only the sum over all layers that skips join is conserved.",
        settings={"network": str(network), "init scale": 1.5, "samples": data.samples, "loss": "logistic"},
    )


STUDIES = (
    Study(
        id="neuron-invariance",
        title="What every neuron conserves",
        reference="Le & Jegelka, balance of neurons",
        statement="Gradient flow conserves, for every hidden neuron of a network with ReLU or linear layers, the "
        "difference of squared norms of its incoming and its outgoing weights.",
        formula="d/dt (‖W_k[i, :]‖² − ‖W_{k+1}[:, i]‖²) = 0",
        run=neuron_invariance,
    ),
    Study(
        id="matrix-invariance",
        title="What linear layers conserve, and ReLU layers do not",
        reference="Le & Jegelka, matrix invariance and its failure for ReLU layers",
        statement="Around a linear hidden layer gradient flow conserves a whole matrix. Around a ReLU layer it does "
        "not.",
        formula="d/dt (W_kW_kᵀ − W_{k+1}ᵀW_{k+1}) = 0",
        run=matrix_invariance,
    ),
    Study(
        id="stable-neurons",
        title="Neurons that are always active",
        reference="Le & Jegelka, invariance of stably activated neurons",
        statement="In a ReLU layer the matrix is conserved on the block of neurons that are active on every sample.",
        formula="d/dt [W_kW_kᵀ − W_{k+1}ᵀW_{k+1}]_ij = 0 for always active i, j",
        run=stable_neurons,
    ),
    Study(
        id="residual-invariance",
        title="Identity skips and branches",
        reference="Le & Jegelka, networks with skip connections",
        statement="For linear layers with an identity skip the conserved matrix is that of M = I + W; inside a "
        "residual branch of two layers it is that of its own matrices.",
        formula="d/dt (M_kM_kᵀ − M_{k+1}ᵀM_{k+1}) = 0, M = I + W;   d/dt (BBᵀ − CᵀC) = 0 in x + CBx",
        run=residual_invariance,
    ),
    *low_rank_limit.STUDIES,
)
