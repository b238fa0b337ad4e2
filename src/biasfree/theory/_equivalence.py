"""Theorem 5 as maps between a (leaky) ReLU network and its linear twin, and how far real runs depart from it.

With a = (1+α)/2, Condition 3 and Assumption 4: W(t) = a^{−1/2} W_lin(at) and f(x; W(t)) = f_lin(x; W_lin(at));
weight decay λ of the network is λ/a of its twin, and descent at rate η/a of the network is descent at rate η of its
twin, step by step.

**Finite width.** A random start has the structure of Assumption 4 after the early phase, except that the positive
and negative parts of r₁ differ by ε = (‖r₁⁺‖² − ‖r₁⁻‖²)/‖r₁‖². The even part of the function must vanish at the end,
so the two parts end
equal: with ‖W₂⁺‖² = ½(1+ε)u² before, each part's norm changes by the factor (1±ε)^{−1/2}, and the weights end at a
relative distance |ε|/2 + O(ε²) from the twin's, for every α < 1. The entries of r₁ are independent Gaussians, so ε
is about N(0, 3/width).

**Descent** multiplies the growing mode by 1 + ηas per step, the flow by e^{ηas}: its clock runs slow by ηas/ln(1 +
ηas).
"""

from typing import Any

import numpy as np

from biasfree import checks, losses
from biasfree.datasets import Dataset
from biasfree.networks import Network
from biasfree.theory._early import aligned_start, two_layers


def weight_factor(slope: float) -> float:
    """√(2/(α+1)): the network's weights are this much larger than its linear twin's (Eq. 5).

    >>> weight_factor(1.0), round(weight_factor(0.0), 6)
    (1.0, 1.414214)
    """
    return float(np.sqrt(2 / (1 + checks.slope(slope))))


def linear_time(times: Any, slope: float) -> Any:
    """½(α+1)t: the time at which the linear twin is where the network is at t (Eq. 4).

    >>> linear_time(np.array([0.0, 10.0]), slope=0.0)
    array([0., 5.])
    """
    return 0.5 * (1 + checks.slope(slope)) * checks.numeric(times, "times")


def linear_weight_decay(weight_decay: float, slope: float) -> float:
    """2λ/(α+1): the linear twin's weight decay that matches the network's λ.

    >>> linear_weight_decay(0.1, slope=0.0)
    0.2
    """
    return checks.non_negative(weight_decay, "weight_decay") * 2 / (1 + checks.slope(slope))


def linear_learning_rate(learning_rate: float, slope: float) -> float:
    """½(α+1)η: the linear twin's rate at which its descent follows the network's at η step by step.

    >>> linear_learning_rate(0.2, slope=0.0)
    0.1
    """
    return 0.5 * (1 + checks.slope(slope)) * checks.positive(learning_rate, "learning_rate")


def linear_twin(network: Network) -> Network:
    """The linear network that Theorem 5 sets beside a two-layer network: W_lin(0) = √((α+1)/2) W(0), slope 1.

    Raises:
        ValueError: another depth than two.

    >>> network = Network.rank_one(3, 8, slope=0.0, init_scale=0.1, seed=0)
    >>> x = np.ones(3)
    >>> bool(np.isclose(network(x), linear_twin(network)(x)))
    True
    """
    _two(network)
    return network.with_slope(1.0).rescaled(1 / weight_factor(network.slope))


def relu_twin(network: Network, slope: float = 0.0) -> Network:
    """The network of this slope that Theorem 5 sets beside a linear two-layer one: W(0) = √(2/(α+1)) W_lin(0).

    Raises:
        ValueError: another depth than two, or a network that is not linear.

    >>> linear = Network.init([3, 8, 1], slope=1.0, init_scale=0.1, seed=0)
    >>> relu_twin(linear).slope
    0.0
    """
    _two(network)
    if not network.is_linear:
        raise ValueError(
            f"the twin of a linear network is asked for, got a {network}. See linear_twin for the other way."
        )
    return network.with_slope(slope).rescaled(weight_factor(slope))


def mirrored(network: Network) -> Network:
    """Each neuron (w, v) as two: (w, v)/√2 and its mirror image (−w, −v)/√2.

    From such a start Theorem 5 holds exactly under Condition 3, for any weights and any number of outputs: mirror
    images stay mirror images, and their even parts cancel (see the head of ``_modes``).

    Raises:
        ValueError: another depth than two.

    >>> network = mirrored(Network.init([3, 8, 2], slope=0.0, init_scale=0.1, seed=0))
    >>> x = np.ones(3)
    >>> network.widths, bool(np.allclose(network(x), linear_twin(network)(x)))
    ((3, 16, 2), True)
    """
    _two(network)
    first, second = (np.asarray(w) / np.sqrt(2) for w in network.weights)
    return network.with_weights([np.concatenate([first, -first]), np.concatenate([second, -second], axis=1)])


def finite_width_error(network: Network, dataset: Dataset) -> float:
    """|ε|/2: the relative weight error of Eq. 5 that a random small start is predicted to end with, for every α < 1.

    For several outputs see ``finite_width_response``.

    Args:
        network: the start, two layers and one output; of whatever slope, for ε does not depend on it.
        dataset: Condition 3 is assumed, not checked.

    Raises:
        ValueError: another depth, several outputs, β = 0.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> bool(finite_width_error(Network.init([3, 500, 1], slope=0.0, init_scale=1e-8, seed=0), data) < 0.2)
    True
    """
    return abs(aligned_start(network, dataset).imbalance) / 2


def finite_width_error_distribution(width: int) -> Any:
    """The distribution of |ε|/2 over random starts: half-normal of scale √(3/width)/2, a frozen SciPy distribution.

    >>> errors = finite_width_error_distribution(500)
    >>> round(float(errors.cdf(0.01)), 2), round(float(errors.mean()), 4)
    (0.2, 0.0309)
    """
    # Slow to import, and needed here only.
    from scipy import stats

    return stats.halfnorm(scale=0.5 * np.sqrt(3 / checks.count(width, "width")))


def descent_lag(network: Network, dataset: Dataset, learning_rate: float, loss: str = "square") -> float:
    """ηas/ln(1 + ηas): by this factor descent at rate η is behind the flow in the early phase.

    Descent's loss after k steps is about the flow's at time ηk divided by this.

    Args:
        network: two layers, one output.
        dataset: Condition 3 is assumed, not checked.
        learning_rate: η.
        loss: "square", "logistic" or "exponential".

    Raises:
        ValueError: a rate that is not above zero, another depth, several outputs.

    >>> from biasfree import datasets
    >>> data = datasets.symmetric_gaussian(dim=3, pairs=50, seed=0)
    >>> 1.0 < descent_lag(Network.init([3, 8, 1], slope=0.0, init_scale=1e-8, seed=0), data, learning_rate=0.01) < 1.01
    True
    """
    _, _, a = two_layers(network, dataset)
    rate = losses.get(loss).initial_pull * a * float(np.linalg.norm(dataset.correlation))
    gain = checks.positive(learning_rate, "learning_rate") * rate
    return gain / float(np.log1p(gain)) if gain else 1.0


def _two(network: Network) -> None:
    if network.depth != 2 or any(network.skips):
        raise ValueError(f"Theorem 5 is about two-layer networks, got a {network}.")
