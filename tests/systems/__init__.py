"""Problems whose flow is known exactly, by means that share nothing with the code under test.

Each names a start, a data set, and a function from a time to an exact observable; ``observe`` reads the same
observable off a network. One tester runs every method on each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.optimize import brentq
from scipy.special import lambertw

from biasfree import Dataset, Network, datasets


@dataclass(frozen=True)
class System:
    name: str
    network: Network
    dataset: Dataset
    until: float
    exact: Callable[[float], np.ndarray]
    observe: Callable[[Network], np.ndarray]
    flow: dict[str, Any] = field(default_factory=dict)
    # How exact the exact solution is, relative to the observable.
    floor: float = 1e-11


def _linear_map(network: Network) -> np.ndarray:
    product = np.eye(network.widths[0])
    for weight in network.weights:
        product = np.asarray(weight) @ product
    return product.ravel()


def _all_weights(network: Network) -> np.ndarray:
    return np.concatenate([np.asarray(w).ravel() for w in network.weights])


def scalar_deep_linear(depth: int) -> System:
    """One input x = 1, target s, all weights equal to u: u' = u^{L−1}(s − u^L), so t = ∫ du / (u^{L−1}(s − u^L))."""
    target, start = 1.5, 0.3

    def exact(t: float) -> np.ndarray:
        def elapsed(u: float) -> float:
            return quad(lambda v: 1 / (v ** (depth - 1) * (target - v**depth)), start, u, epsrel=1e-12, limit=200)[0]

        limit = target ** (1 / depth)
        u = start if t == 0 else brentq(lambda v: elapsed(v) - t, start, limit * (1 - 1e-9), xtol=1e-15, rtol=1e-14)
        return np.full(depth, u)

    network = Network([[[start]]] * depth, slope=1.0)
    return System(f"scalar linear, depth {depth}", network, Dataset([[1.0]], [target]), 2.0, exact, _all_weights)


def regression() -> System:
    """One layer, weight decay λ: w' = β − (Σ + λ)w, w = (Σ+λ)⁻¹β + e^{−(Σ+λ)t}(w₀ − (Σ+λ)⁻¹β)."""
    rng, decay = np.random.default_rng(1), 0.2
    data = Dataset(rng.normal(size=(8, 3)), rng.normal(size=8))
    start = rng.normal(size=3)
    matrix = data.covariance + decay * np.eye(3)
    rest = np.linalg.solve(matrix, data.correlation)

    def exact(t: float) -> np.ndarray:
        return rest + expm(-matrix * t) @ (start - rest)

    return System(
        "regression with decay", Network([start[None]], 1.0), data, 3.0, exact, _all_weights, {"weight_decay": decay}
    )


def riccati(correlation: np.ndarray, start: np.ndarray, t: float) -> np.ndarray:
    """QQᵀ at time t for a balanced two-layer linear network on white input.

    With Q = [W₁ᵀ; W₂] and J = diag(I, −1) the flow is Q' = FQ − ½QQᵀQ + ½JQQᵀJQ, F = [[0, β], [βᵀ, 0]]. The last term
    vanishes where QᵀJQ = 0, which is what balance means, and the Riccati equation for QQᵀ that remains is solved by
    QQᵀ(t) = e^{Ft}Q₀ [I + Q₀ᵀ ∫₀ᵗ e^{2Fs} ds Q₀]⁻¹ Q₀ᵀ e^{Ft}.
    """
    dim = correlation.size
    generator = np.zeros((dim + 1, dim + 1))
    generator[:dim, dim] = generator[dim, :dim] = correlation
    block = np.zeros((2 * dim + 2, 2 * dim + 2))
    block[: dim + 1, : dim + 1], block[: dim + 1, dim + 1 :] = 2 * generator, np.eye(dim + 1)
    integral = expm(block * t)[: dim + 1, dim + 1 :]
    grown = expm(generator * t) @ start
    middle = np.eye(start.shape[1]) + start.T @ integral @ start
    return grown @ np.linalg.solve(middle, grown.T)


def balanced_linear(slope: float) -> System:
    """Two layers from an Assumption-4 start on white symmetric data: the matching linear network's exact solution.

    Theorem 5: f(x; W(t)) = f_lin(x; W_lin(at)) with W_lin(0) = √a W(0), a = (1+α)/2.
    """
    a = 0.5 * (1 + slope)
    data = datasets.symmetric_gaussian(dim=3, pairs=20, target="linear_plus_sine", whiten=True, seed=3)
    network = Network.rank_one(3, 6, slope, 0.1, seed=2)
    first, second = (np.sqrt(a) * np.asarray(w) for w in network.weights)
    start = np.concatenate([first.T, second])

    def exact(t: float) -> np.ndarray:
        square = riccati(np.asarray(data.correlation), start, a * t)
        return data.inputs @ square[:-1, -1]

    def observe(network: Network) -> np.ndarray:
        return np.asarray(network(data.inputs))

    return System(f"Assumption 4, slope {slope:g}", network, data, 8.0, exact, observe)


def early_phase() -> System:
    """Eq. 23 while the output is negligible: relative error of the order of (γ e^{ast})², here below 1e-12."""
    slope, scale = 0.3, 1e-9
    data = datasets.symmetric_gaussian(dim=3, pairs=20, target="linear", seed=4)
    network = Network.init([3, 6, 1], slope, scale, seed=5)
    strength = float(np.linalg.norm(data.correlation))
    unit = np.asarray(data.correlation) / strength
    first, second = (np.asarray(w) for w in network.weights)

    def exact(t: float) -> np.ndarray:
        rate = 0.5 * (1 + slope) * strength * t
        up, down = 0.5 * (first @ unit + second[0]), 0.5 * (first @ unit - second[0])
        across = first - np.outer(first @ unit, unit)
        along = np.exp(rate) * up + np.exp(-rate) * down
        readout = np.exp(rate) * up - np.exp(-rate) * down
        return np.concatenate([(np.outer(along, unit) + across).ravel(), readout]) / scale

    def observe(network: Network) -> np.ndarray:
        return _all_weights(network) / scale

    return System("Eq. 23, slope 0.3", network, data, 6.0, exact, observe)


def identity_skip() -> System:
    """f = (1 + w)x on x = 1: w' = s − 1 − w."""

    def exact(t: float) -> np.ndarray:
        return np.array([0.7 + (0.2 - 0.7) * np.exp(-t)])

    network = Network([[[0.2]]], 1.0, skips=[1])
    return System("identity skip", network, Dataset([[1.0]], [1.7]), 3.0, exact, _all_weights)


def exponential_scalar(clock: str) -> System:
    """One weight, x = y = 1, e^{−w}: w = ln(e^{w₀} + t) in time, w = w₀ + s on the loss clock."""

    def exact(t: float) -> np.ndarray:
        return np.array([0.5 + t if clock == "loss" else np.log(np.exp(0.5) + t)])

    options = {"loss": "exponential", "clock": clock}
    data = Dataset([[1.0]], [1.0])
    return System(
        f"exponential loss, {clock} clock", Network([[[0.5]]], 1.0), data, 900.0, exact, _all_weights, options
    )


def logistic_scalar() -> System:
    """One weight, x = y = 1: w' = 1/(1 + e^w), so w + e^w = w₀ + e^{w₀} + t and w = c − W(e^c), c the right side."""

    def exact(t: float) -> np.ndarray:
        c = 0.5 + np.exp(0.5) + t
        return np.array([c - lambertw(np.exp(c)).real])

    return System(
        "logistic loss", Network([[[0.5]]], 1.0), Dataset([[1.0]], [1.0]), 30.0, exact, _all_weights,
        {"loss": "logistic"},
    )  # fmt: skip


SYSTEMS = [
    *(scalar_deep_linear(depth) for depth in (1, 2, 3, 5)),
    regression(),
    *(balanced_linear(slope) for slope in (0.0, 0.2, 1.0)),
    early_phase(),
    identity_skip(),
    exponential_scalar("time"),
    exponential_scalar("loss"),
    logistic_scalar(),
]
