"""Symmetric data perturbed step by step, and what a long simulation says; uses nothing of ``biasfree.diagnosis``.

A member has pairs ±x of Gaussian inputs with the odd targets y + 0.3 sin 3y, y = wᵀx, ‖w‖ = 1. Gaussian noise of size
ε, 0 to 1 in eleven steps, is then added to the targets, to the inputs, or to both, in turn; each sample has its own.

**The measured verdict.** The ReLU network and the linear network of the same weights (width 30, γ = 1e-3) are simulated
for sixty times ln(1/γ)/(‖β‖/2), which is about sixty escape times. L₀ is the first loss, L* the linear network's last.

- Escape: the loss is below (L₀ + L*)/2.
- Not linear: the outputs at the samples are more than 10 % off the nearest linear map (root mean square, relative to
  the larger of the outputs and the targets), or the loss is below L* by more than 3 % of L₀. Where samples are no more
  than dimensions, outputs at ±x stand for those at the samples.
- linear: never so after 1.5 escape times; or so by the outputs alone, and not any more at the end. linear until: not at
  1.5 escape times, but later.
- several linear networks: so at 1.5 escape times, while all neurons of at least 1 % of Σ|w₂|‖w‖ fall into two or more
  classes; in a class, one sign of w₂ and at the end responses to the samples whose cosine is above 0.95; between
  classes cosines below 0.05 at all times from 1.5 escape times on. nonlinear: anything else.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

import biasfree as bf

WIDTH, SCALE = 30, 1e-3
KINDS = ("targets", "inputs", "both")
# pairs, dimensions: four and twelve samples, each on a line of its own when moved; and many lines.
SHAPES = ((2, 2), (6, 3), (80, 3))
VERDICTS = ("linear", "linear until", "several linear networks", "nonlinear")


@dataclass(frozen=True)
class Measured:
    verdict: str
    escape_time: float
    departure_time: float | None
    largest: float  # nonlinearity, from 1.5 escape times on


def member(number: int, pairs: int, dim: int) -> bf.Dataset:
    rng = np.random.default_rng([6, number, pairs])
    half = rng.normal(size=(pairs, dim))
    w = rng.normal(size=dim)
    y = half @ (w / np.linalg.norm(w))
    y = y + 0.3 * np.sin(3 * y)
    inputs, targets = np.concatenate([half, -half]), np.concatenate([y, -y])
    amount, kind = (number % 11) / 10, KINDS[number % 3]
    moved, changed = rng.normal(size=inputs.shape), rng.normal(size=targets.shape)
    if kind != "targets":
        inputs = inputs + amount * moved
    if kind != "inputs":
        targets = targets + amount * changed
    return bf.Dataset(inputs, targets, f"{pairs} pairs, {kind} ± {amount}")


def measured(data: bf.Dataset, seed: int = 0) -> Measured:
    start = bf.Network.init([data.dim, WIDTH, 1], 0.0, SCALE, seed)
    unit = np.log(1 / SCALE) / (0.5 * np.linalg.norm(data.correlation))
    save = np.concatenate([np.linspace(0, 8 * unit, 400), np.linspace(8 * unit, 60 * unit, 201)[1:]])
    save[-1] = 60 * unit
    tolerance = 3e-5 if data.samples < 64 else 1e-4
    relu, linear = (
        bf.gradient_flow(network, data, until=60 * unit, save=save, rtol=tolerance, method="bosh3", max_steps=300_000)
        for network in (start, start.with_slope(1.0))
    )
    first, least = linear.losses[0], linear.losses[-1]
    both = data.inputs
    if np.linalg.matrix_rank(both) == len(both):
        both = np.concatenate([both, -both])
    networks = relu.networks
    outputs = np.array([np.asarray(network(both)) for network in networks])
    off = outputs - outputs @ np.linalg.pinv(both).T @ both.T
    bent = np.sqrt(np.mean(off**2, axis=1) / np.maximum(np.mean(outputs**2, axis=1), np.mean(data.targets**2)))
    times, losses = relu.times, relu.losses
    half = 0.5 * (first + least)
    k = int(np.argmax(losses < half))
    assert k > 0
    escape = times[k] - (times[k] - times[k - 1]) * (half - losses[k]) / (losses[k - 1] - losses[k])
    gone = (bent > 0.1) | (losses < least - 0.03 * first)
    sits = int(np.searchsorted(times, 1.5 * escape))
    largest = float(bent[sits:].max())
    returns = bent[-1] <= 0.1 and not (losses < least - 0.03 * first).any()
    if returns or not gone[sits:].any():
        return Measured("linear", escape, None, largest)
    if not gone[sits]:
        return Measured("linear until", escape, times[sits + np.argmax(gone[sits:])], largest)
    several = _several(networks[sits:], data.inputs)
    verdict = "several linear networks" if several else "nonlinear"
    return Measured(verdict, escape, times[np.argmax(gone)], largest)


def _several(networks: list[bf.Network], inputs: np.ndarray) -> bool:
    first, second = (np.asarray(w) for w in networks[-1].weights)
    size = np.abs(second[0]) * np.linalg.norm(first, axis=1)
    large = size >= 0.01 * size.sum()
    positive = second[0, large] > 0

    def cosines(network: bf.Network) -> np.ndarray:
        responses = np.maximum(inputs @ np.asarray(network.weights[0])[large].T, 0)
        responses /= np.maximum(np.linalg.norm(responses, axis=0), 1e-300)
        return responses.T @ responses

    alike = (cosines(networks[-1]) > 0.95) & (positive[:, None] == positive)
    classes, member_of = connected_components(alike)
    between = member_of[:, None] != member_of
    closed = alike[~between].all()
    return bool(classes > 1 and closed and all(cosines(network)[between].max() < 0.05 for network in networks))
