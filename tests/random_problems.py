"""Random problems of every kind, each from its seed: small ones, and ones from the widest ranges."""

from typing import Any

import numpy as np

import biasfree as bf


def random_problem(seed: int, small: bool = False) -> tuple[bf.Network, bf.Dataset, dict[str, Any]]:
    """A start, data, and options of ``gradient_flow``; ``small`` ones can be given to the slow reference."""
    rng = np.random.default_rng(seed)
    dim, samples, width = (int(rng.integers(1, most + 1)) for most in ((3, 6, 8) if small else (5, 12, 30)))
    scale = 10 ** rng.uniform(-4 if small else -12, 0)
    slope = float(rng.choice([0.0, rng.uniform(0, 1), 1.0], p=[0.5, 0.4, 0.1]))
    inputs, kind = rng.normal(size=(samples, dim)), rng.integers(0, 4)
    if kind == 1:
        inputs = np.round(2 * inputs) / 2  # lines that coincide, samples at the origin, neurons that meet several lines
    if kind == 2:
        inputs = np.concatenate([inputs[: (samples + 1) // 2], -inputs[: samples // 2]])
    targets = rng.normal(size=samples)
    loss = str(rng.choice(["square", "logistic", "exponential"]))
    if loss != "square":
        targets = np.where(targets > 0, 1.0, -1.0)
    clock = "time" if loss == "square" or rng.random() < 0.6 else "loss"
    options: dict[str, Any] = {
        "loss": loss,
        "clock": clock,
        "weight_decay": float(rng.choice([0.0, 0.0, 0.0, 0.01, 0.1])),
        "until": float(10 ** rng.uniform(0, 1.5 if small else 3)),
    }
    if clock == "loss":
        options["until"] = min(options["until"], 3.0 if small else 200.0)
        if not small:
            options["stop"] = bf.Stop(log_loss=-1000.0)
    first = rng.normal(size=(width, dim)) * scale / np.sqrt(width * dim)
    second = rng.normal(size=(1, width)) * scale / np.sqrt(width)
    return bf.Network([first, second], slope), bf.Dataset(inputs, targets), options


WORK = 20_000  # dim × samples × width of a wide problem, at most; twenty times this for large ones
SECONDS = 20.0  # what a run of a wide problem may last; a usual one takes hundredths of a second
FIRST_LARGE = 1_000  # from this seed on there are large ones


def is_large(seed: int) -> bool:
    return seed >= FIRST_LARGE and seed % 100 == 0


def wide_problem(seed: int) -> tuple[bf.Network, bf.Dataset, dict[str, Any]]:
    """A start, data, and options of ``gradient_flow`` from ranges as wide as anybody will ask for.

    Dimension 1–40, samples 1–300, width 1–200, most of them small: log-uniform, and their product at most ``WORK``.
    Inputs of size 1e-4…1e4 and targets of 1e-6…1e6, half of them of size 1; starts of scale 1e-200…10, half of them
    above 1e-4; ``until`` 1e-9…1e9, mostly in units of the problem's own time scale, so that something happens.
    """
    rng = np.random.default_rng([seed, 14])
    work = 20 * WORK if is_large(seed) else WORK
    while True:
        dim, samples, width = (int(np.exp(rng.uniform(0, np.log(most + 1)))) for most in (40, 300, 200))
        if dim * samples * width <= work and (not is_large(seed) or dim * samples * width > WORK):
            break
    inputs, mirrored = _wide_inputs(rng, samples, dim)
    loss = str(rng.choice(["square", "logistic", "exponential"], p=[0.5, 0.25, 0.25]))
    targets = _wide_targets(rng, inputs, mirrored)
    if loss != "square":
        targets = np.where(targets > 0, 1.0, -1.0)
    elif rng.random() < 0.5:
        targets = targets * 10 ** rng.uniform(-6, 6)
    slope = float(rng.choice([0.0, rng.uniform(0, 1), 1.0], p=[0.5, 0.4, 0.1]))
    scale = 10 ** rng.uniform(*((-4, 1) if rng.random() < 0.5 else (-200, 1)))
    first, second = _wide_start(rng, inputs, width, scale)
    outputs = outputs_of(inputs, first, second, slope)
    if loss == "exponential" and np.abs(outputs).max() > 100:  # or else the first loss is infinite
        shrink = np.sqrt(100 / np.abs(outputs).max())
        first, second, outputs = first * shrink, second * shrink, outputs * shrink**2
    clock = "time" if loss == "square" or rng.random() < 0.6 else "loss"
    unit = _time_scale(inputs, targets, outputs, loss, clock, scale)
    until = unit * 10 ** rng.uniform(-2, 2) if rng.random() < 0.7 else 10 ** rng.uniform(-9, 9)
    options: dict[str, Any] = {
        "loss": loss,
        "clock": clock,
        "weight_decay": float(rng.choice([0.0, 10 ** rng.uniform(-4, 0), rng.uniform(0, 5)], p=[0.6, 0.25, 0.15])),
        "until": float(np.clip(until, 1e-9, 1e9)),
    }
    if clock == "loss":
        options["stop"] = bf.Stop(log_loss=-1000.0)
    return bf.Network([first, second[None]], slope), bf.Dataset(inputs, targets), options


def wide_problem_of_several(seed: int) -> tuple[bf.Network, bf.Dataset, dict[str, Any]]:
    """The same with two to four outputs, by square loss or cross-entropy."""
    start, data, options = wide_problem(seed)
    rng = np.random.default_rng([seed, 99])
    outputs, samples = int(rng.integers(2, 5)), len(data.inputs)
    first, second = map(np.array, start.weights)
    more = [rng.normal(size=second.shape) * np.abs(second) * rng.choice([1.0, 0.1]) for _ in range(outputs - 1)]
    if rng.random() < 0.5:
        sizes = np.abs(data.targets).max() or 1.0
        others = sizes * rng.normal(size=(samples, outputs - 1))
        targets = np.column_stack([np.asarray(data.targets, dtype=float).reshape(samples), others])
        options = {**options, "loss": "square", "clock": "time"}
        options.pop("stop", None)
    else:
        targets, options = np.eye(outputs)[rng.integers(outputs, size=samples)], {**options, "loss": "cross-entropy"}
    return bf.Network([first, np.concatenate([second, *more])], start.slope), bf.Dataset(data.inputs, targets), options


def _wide_inputs(rng: np.random.Generator, samples: int, dim: int) -> tuple[np.ndarray, bool]:
    """Inputs of one kind of geometry, then perhaps some zero or repeated ones; whether the second half mirrors."""
    kind = rng.choice(["any", "lattice", "opposite", "collinear", "column of ones", "orthogonal", "uneven"])
    inputs = rng.normal(size=(samples, dim))
    if kind == "lattice":
        inputs = np.round(2 * inputs) / 2
    if kind == "opposite":
        inputs = np.concatenate([inputs[: (samples + 1) // 2], -inputs[: samples // 2]])
    if kind == "collinear":
        few = rng.normal(size=(int(rng.integers(1, 4)), dim))
        inputs = few[rng.integers(len(few), size=samples)] * np.round(rng.normal(size=(samples, 1)) * 4) / 4
    if kind == "column of ones":
        inputs[:, -1] = 1.0
    if kind == "orthogonal":
        inputs = np.eye(dim)[rng.integers(dim, size=samples)] * rng.choice([-1.0, 1.0, 2.0], size=(samples, 1))
    if kind == "uneven":
        inputs *= 10 ** rng.uniform(-2, 2, size=(samples, 1))
    if kind != "opposite":
        if rng.random() < 0.2:
            inputs[rng.random(samples) < 0.3] = 0.0
        if rng.random() < 0.2:  # the same input again, and mostly with another label
            inputs[samples // 2 :] = inputs[rng.integers(max(samples // 2, 1), size=samples - samples // 2)]
    if rng.random() < 0.5:
        inputs = inputs * 10 ** rng.uniform(-4, 4)
    return inputs, bool(kind == "opposite" and samples % 2 == 0)


def _wide_targets(rng: np.random.Generator, inputs: np.ndarray, mirrored: bool) -> np.ndarray:
    samples, dim = inputs.shape
    kind = rng.choice(["any", "constant", "zero", "linear", "steps"], p=[0.5, 0.1, 0.05, 0.2, 0.15])
    targets = rng.normal(size=samples)
    if kind == "constant":
        targets[:] = targets[0]
    if kind == "zero":
        targets[:] = 0.0
    if kind == "linear":
        targets = inputs @ rng.normal(size=dim) / max(np.abs(inputs).max(), 1e-300)
    if kind == "steps":
        targets = np.round(targets)
    if mirrored and kind == "any" and rng.random() < 0.7:
        targets[samples // 2 :] = rng.choice([-1.0, 1.0]) * targets[: samples // 2]
    return targets


def _wide_start(
    rng: np.random.Generator, inputs: np.ndarray, width: int, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of one layout, then perhaps some neurons on lines, and some that are zero."""
    dim = inputs.shape[1]
    first = rng.normal(size=(width, dim)) * scale / np.sqrt(width * dim)
    second = rng.normal(size=width) * scale / np.sqrt(width)
    kind = rng.choice(["any", "balanced", "mirrored", "opposed", "duplicated", "rank one"], p=[0.5] + [0.1] * 5)
    half = width // 2
    if kind == "balanced":
        second = np.linalg.norm(first, axis=1) * np.where(second > 0, 1.0, -1.0)
    if kind == "mirrored":
        first[half : 2 * half], second[half : 2 * half] = -first[:half], -second[:half]
    if kind == "opposed":  # the output is zero to begin with
        first[half : 2 * half], second[half : 2 * half] = first[:half], -second[:half]
    if kind == "duplicated":
        first[half : 2 * half], second[half : 2 * half] = first[:half], second[:half]
    if kind == "rank one":
        first = np.outer(second, rng.normal(size=dim))
    if rng.random() < 0.15:
        for h in np.flatnonzero(rng.random(width) < 0.5):
            x = inputs[rng.integers(len(inputs))]
            if x.any():
                x = x / np.abs(x).max()
                for _ in range(3):
                    first[h] = first[h] - x * ((first[h] / scale) @ x / (x @ x)) * scale
    if rng.random() < 0.1:
        first[rng.random(width) < 0.3] = 0.0
    if rng.random() < 0.1:
        second[rng.random(width) < 0.3] = 0.0
    return first, second


def outputs_of(inputs: np.ndarray, first: np.ndarray, second: np.ndarray, slope: float) -> np.ndarray:
    """Of a network of two layers, per sample; for the second layer's weights in a row one more axis of length 1."""
    before = inputs @ first.T
    return np.where(before > 0, before, slope * before) @ second.T


def _time_scale(
    inputs: np.ndarray, targets: np.ndarray, outputs: np.ndarray, loss: str, clock: str, scale: float
) -> float:
    """About how long the weights take to grow to their last size: logarithms of sizes over the pull on them."""
    margins = np.clip(targets * outputs, -700, 700)
    pulls = {
        "square": np.abs(targets - outputs),
        "logistic": 1 / (1 + np.exp(margins)),
        "exponential": np.exp(-margins),
    }
    sizes = np.linalg.norm(inputs, axis=1)
    pull = float(np.mean(pulls[loss] * sizes))
    if not pull > 0:
        return 1.0
    last = np.sqrt((np.abs(targets).max() if loss == "square" else 1.0) / sizes.max())
    unit = (1 + max(0.0, np.log(max(last, 1e-300) / scale))) / pull
    losses = {"square": 1.0, "logistic": np.mean(np.logaddexp(0, -margins)), "exponential": np.mean(np.exp(-margins))}
    return float(unit * losses[loss]) if clock == "loss" else float(unit)
