"""How nearly two runs, of a network and of its linear twin, satisfy Theorem 5; and how nearly weights satisfy
Assumption 4."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.networks import Network

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory


@dataclass(frozen=True)
class Assumption4:
    """How far a two-layer network is from Assumption 4: W₁ = W₂ᵀrᵀ, positive and negative parts of W₂ of equal norm.

    Attributes:
        distance: ‖W₁ − W₂ᵀrᵀ‖/‖W₁‖ for the unit r that makes it least.
        direction: that r.
        rank_one: ‖W₁ − its best rank-one matrix‖/‖W₁‖, which does not ask for balance with W₂.
        imbalance: (‖W₂⁺‖² − ‖W₂⁻‖²)/‖W₂‖², between −1 and 1.
    """

    distance: float
    direction: Float[np.ndarray, "dim"]
    rank_one: float
    imbalance: float

    def __str__(self) -> str:
        """The three numbers."""
        return (
            f"‖W₁ − W₂ᵀrᵀ‖ = {self.distance:.3g}‖W₁‖, W₁ is {self.rank_one:.3g} from rank one, "
            f"signs of W₂ out of balance by {self.imbalance:.3g}"
        )


def assumption_4(network: Network) -> Assumption4:
    """Measure the defect of Assumption 4.

    Args:
        network: two layers, one output, any scale.

    Raises:
        ValueError: another depth, several outputs, a layer of zeros.

    >>> print(assumption_4(Network.rank_one(3, 8, slope=0.0, init_scale=1e-9, seed=0)).distance < 1e-15)
    True
    """
    if network.depth != 2 or network.widths[-1] != 1:
        raise ValueError(
            f"Assumption 4 is about two-layer networks with one output, got a {network}. With several outputs the twin "
            "asks for mirror images instead: see theory.mirrored and theory.parity_form."
        )
    first, second = (np.asarray(w) for w in network.weights)
    sizes = [np.abs(w).max() for w in (first, second)]
    if not all(sizes):
        raise ValueError("Assumption 4 says nothing of a layer of zeros.")
    # Each layer scaled to size one; their ratio returns where the two are compared.
    first, second, ratio = first / sizes[0], second[0] / sizes[1], sizes[1] / sizes[0]
    pull = second @ first
    length = np.linalg.norm(pull)
    # ‖W₁ − W₂ᵀrᵀ‖² = ‖W₁‖² − 2W₂W₁r + ‖W₂‖² is least where r points along W₂W₁.
    direction = pull / length if length else np.eye(1, first.shape[1])[0]
    norm = np.linalg.norm(first)
    return Assumption4(
        float(np.linalg.norm(first - ratio * np.outer(second, direction)) / norm),
        direction,
        float(np.linalg.norm(np.linalg.svd(first, compute_uv=False)[1:]) / norm),
        float(np.sum(second * np.abs(second)) / np.sum(second**2)),
    )


@dataclass(frozen=True)
class EquivalenceErrors:
    """How far a run is from Theorem 5 along its way.

    Attributes:
        times: of the network; its twin is met at ½(α+1) times these.
        function: Eq. 4, root mean square over the inputs of f(x; W(t)) − f_lin(x; W_lin(½(α+1)t)), relative to the
            targets'.
        weights: Eq. 5, ‖√((α+1)/2) W(t) − W_lin(½(α+1)t)‖/‖W_lin(½(α+1)t)‖, both layers together.
    """

    times: Float[np.ndarray, "times"]
    function: Float[np.ndarray, "times"]
    weights: Float[np.ndarray, "times"]

    def __str__(self) -> str:
        """The largest and the last of each."""
        return (
            f"Eq. 4 off by {self.function.max():.3g} at most, {self.function[-1]:.3g} in the end; "
            f"Eq. 5 by {self.weights.max():.3g} at most, {self.weights[-1]:.3g} in the end"
        )


def equivalence_errors(
    run: "Trajectory", linear_run: "Trajectory", inputs: Float[Any, "samples dim"] | None = None
) -> EquivalenceErrors:
    """Error curves of Eqs. 4 and 5 between a run and the run of its linear twin.

    The twin is taken at the times ½(α+1)t: where it was saved then (give both runs matching ``save`` times), that
    network is used; elsewhere it is integrated there from the save before.

    Args:
        run: of a two-layer network of slope α.
        linear_run: of its linear twin, ``theory.linear_twin(network)``, on the same data.
        inputs: where functions are compared; the training inputs by default.

    Raises:
        ValueError: runs of different shapes, a second run that is not linear or ends too early.

    >>> import biasfree as bf
    >>> data = bf.datasets.symmetric_gaussian(dim=3, pairs=10, seed=0)
    >>> start = bf.Network.rank_one(3, 6, slope=0.0, init_scale=0.1, seed=1)
    >>> times = np.linspace(0, 6, 7)
    >>> run = bf.gradient_flow(start, data, until=6, save=times)
    >>> twin = bf.gradient_flow(bf.theory.linear_twin(start), data, until=3, save=times / 2)
    >>> bool(equivalence_errors(run, twin).weights.max() < 1e-4)
    True
    """
    if not linear_run.template.is_linear:
        raise ValueError(f"the second run must be of a linear network, got a {linear_run.template}.")
    if run.template.widths != linear_run.template.widths or run.template.depth != 2:
        raise ValueError(
            f"Theorem 5 compares two-layer networks of the same widths, got {run.template} and {linear_run.template}."
        )
    a = 0.5 * (1 + (1.0 if run.template.is_linear else run.template.slope))
    wanted = a * np.asarray(run.times)
    end = float(linear_run.times[-1])
    if wanted[-1] > end * (1 + 1e-12):
        raise ValueError(
            f"the linear run must reach t = {wanted[-1]:g}, (α+1)/2 times the other's end, but stops at {end:g}."
        )
    inputs = run.dataset.inputs if inputs is None else checks.numeric(inputs, "inputs")
    size = np.sqrt(np.mean(run.dataset.targets**2)) or 1.0
    function, weights = [], []
    for time, network in zip(wanted, run.networks, strict=True):
        twin = _network_at(linear_run, min(time, end))
        function.append(np.sqrt(np.mean((np.asarray(network(inputs)) - np.asarray(twin(inputs))) ** 2)) / size)
        pairs = zip(network.weights, twin.weights, strict=True)
        apart = sum(float(np.sum((np.sqrt(a) * np.asarray(w) - np.asarray(v)) ** 2)) for w, v in pairs)
        weights.append(np.sqrt(apart / sum(float(np.sum(np.asarray(v) ** 2)) for v in twin.weights)))
    return EquivalenceErrors(np.asarray(run.times), np.array(function), np.array(weights))


def _network_at(run: "Trajectory", time: float) -> Network:
    """The network saved at this time up to rounding, else the one integrated there."""
    index = int(np.argmin(np.abs(run.times - time)))
    near = abs(float(run.times[index]) - time) <= 1e-12 * max(time, 1.0)
    return run.networks[index] if near else run.at(time)
