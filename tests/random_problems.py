"""Small random problems of every kind, each from its seed."""

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
