"""What the network gains over linear regression, from when on, and in how many steps of descent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from biasfree.datasets import Dataset
from biasfree.diagnosis._baselines import Baselines, accuracy
from biasfree.diagnosis._course import BELOW, mean_loss, passing
from biasfree.diagnosis._sampling import outputs_at
from biasfree.networks import Network

_LOOKED_AT = 500


@dataclass(frozen=True)
class Judged:
    """A network at one time, on all the data.

    Attributes:
        time: flow time it stands at.
        how: "predicted" or "simulated".
        loss: on the training data.
        held_out: on the samples held out; None without such.
        accuracy, held_out_accuracy: shares of labels it gets right; None for numbers to predict.
        confusions: how many of each class (rows; −1 and +1 are two) are taken for which (columns), of the training
            data.
    """

    time: float
    how: str
    loss: float
    held_out: float | None
    accuracy: float | None
    held_out_accuracy: float | None
    confusions: Int[np.ndarray, "classes classes"] | None


@dataclass(frozen=True)
class Gain:
    """The network beside linear regression.

    Attributes:
        network: at the last time that was looked at.
        first: the loss at f = 0.
        over_linear, over_intercept: by how much its loss is lower than linear regression's; negative if it is higher.
        since, since_intercept: from which flow time on its loss is lower than linear regression's, without an intercept
            and with one, by 3 % of the first loss; None if never.
        rate: a learning rate at which descent is stable and follows the flow: the largest 1, 2 or 5 × 10ⁿ at or below
            1/⟨‖∂f/∂W‖²⟩, whose inverse bounds the curvature of the loss where residuals are small; None if not known.
    """

    network: Judged
    first: float
    over_linear: float
    over_intercept: float
    since: float | None
    since_intercept: float | None
    rate: float | None

    def steps(self, time: float | None) -> int | None:
        """Steps of descent at ``rate`` until a flow time."""
        if time is None or self.rate is None or not np.isfinite(time):
            return None
        return round(time / self.rate)


def judged(
    function: Callable[[Any], Any], time: float, how: str, data: Dataset, loss: str, held_out: Dataset | None
) -> Judged:
    """A network on all the data."""
    outputs = outputs_at(function, data.inputs)
    unseen = None if held_out is None else outputs_at(function, held_out.inputs)
    labels = loss != "square" or bool(data.classes)
    return Judged(
        time,
        how,
        mean_loss(loss, outputs, data.targets),
        None if held_out is None or unseen is None else mean_loss(loss, unseen, held_out.targets),
        accuracy(outputs, data.targets) if labels else None,
        accuracy(unseen, held_out.targets) if labels and held_out is not None and unseen is not None else None,
        confusions(outputs, data.targets) if labels else None,
    )


def gain(
    network: Judged,
    first: float,
    linear: Baselines,
    times: Float[np.ndarray, "times"],
    losses: Float[np.ndarray, "times"],
    rate: float | None,
) -> Gain:
    """The network beside linear regression; ``times`` and ``losses`` are its learning curve."""
    since, beside = better_since(first, linear, times, losses)
    return Gain(
        network, first, linear.plain.loss - network.loss, linear.intercept.loss - network.loss, since, beside, rate
    )


def better_since(
    first: float, linear: Baselines, times: Float[np.ndarray, "times"], losses: Float[np.ndarray, "times"]
) -> tuple[float | None, float | None]:
    """When a learning curve is below linear regression's loss, without intercept and with one, by 3 % of the first."""
    fits = (linear.plain, linear.intercept)
    without, beside = (passing(times, -losses, BELOW * first - fit.loss) if len(times) else None for fit in fits)
    return without, beside


def confusions(
    outputs: Float[np.ndarray, "samples ..."], targets: Float[np.ndarray, "samples ..."]
) -> Int[np.ndarray, "classes classes"]:
    """How many samples of each class (rows) are taken for which (columns): −1 and +1, or the largest of K outputs.

    >>> confusions(np.array([-1.0, 2.0, 3.0]), np.array([-1.0, -1.0, 1.0])).tolist()
    [[1, 1], [0, 1]]
    """
    if targets.ndim == 1:
        count, taken, true = 2, outputs > 0, targets > 0
    else:
        count, taken, true = targets.shape[1], outputs.argmax(axis=1), targets.argmax(axis=1)
    return np.bincount(count * true.astype(int) + taken, minlength=count**2).reshape(count, count)


def stable_rate(network: Network, inputs: Float[np.ndarray, "samples dim"]) -> float | None:
    """The largest 1, 2 or 5 × 10ⁿ at or below 1/⟨‖∂f/∂W‖²⟩ over some of the samples."""
    shown = inputs[np.random.default_rng(0).permutation(len(inputs))[:_LOOKED_AT]]
    size = _squared_gradient(network, shown)
    if not (np.isfinite(size) and size > 0):
        return None
    exponent = np.floor(np.log10(1 / size))
    mantissa = 1 / size / 10**exponent
    return float((5 if mantissa >= 5 else 2 if mantissa >= 2 else 1) * 10**exponent)


def _squared_gradient(network: Network, inputs: np.ndarray) -> float:
    if network.depth == 2:
        first, sizes = np.asarray(network.weights[0]), np.sum(np.asarray(network.weights[1]) ** 2, axis=0)
        reached = inputs @ first.T
        response = np.maximum(reached, network.slope * reached)
        slopes = np.where(reached > 0, 1.0, network.slope)
        length = np.sum(inputs**2, axis=1)
        return float(np.mean(np.sum(response**2, axis=1) + length * ((slopes**2) @ sizes)))
    import jax

    def size(x: Any) -> Any:
        jacobian = jax.jacrev(lambda each: each(x[None]).ravel())(network)
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(jacobian))

    return float(np.mean(jax.jit(jax.vmap(size))(inputs)))
