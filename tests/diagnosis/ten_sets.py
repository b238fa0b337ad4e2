"""Ten data sets that people have, and plain descent on them; uses nothing of ``biasfree.diagnosis``.

The descent is full batch on the square loss, from the same weights as the diagnosis, and knows nothing of the rest of
the package: W ← W − η ∇L by NumPy. A flow time t is t/η steps.
"""

from dataclasses import dataclass

import numpy as np
from sklearn import datasets as sklearn_datasets

import biasfree as bf

WIDTH, SCALE = 30, 1e-3


def standardised(inputs: np.ndarray) -> np.ndarray:
    return (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)


def ten_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    positive, gaussian = rng.uniform(0.5, 1.5, size=(100, 5)), rng.normal(size=(150, 4))
    w = rng.normal(size=5)
    iris, cancer, digits, diabetes = (
        getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "breast_cancer", "digits", "diabetes")
    )
    linear = gaussian @ w[:4]
    return {
        "positive inputs": (positive, positive @ np.abs(w)),
        "iris": (iris[0], iris[1].astype(float)),
        "breast cancer": (cancer[0], cancer[1].astype(float)),
        "breast cancer, standardised": (standardised(cancer[0]), cancer[1].astype(float)),
        "digits parity": (digits[0], 2.0 * (digits[1] % 2) - 1),
        "diabetes": diabetes,
        "diabetes, centred": (diabetes[0], diabetes[1] - diabetes[1].mean()),
        "Gaussian": (gaussian, linear),
        "Gaussian, |x|": (gaussian, linear + 2 * np.abs(gaussian[:, 0])),
        "Gaussian, mean": (gaussian, linear + 10.0),
    }


@dataclass(frozen=True)
class Descent:
    times: np.ndarray
    losses: np.ndarray
    bends: np.ndarray  # on the samples, relative to the larger of outputs and targets

    def at(self, time: float) -> tuple[float, float]:
        return float(np.interp(time, self.times, self.losses)), float(np.interp(time, self.times, self.bends))


def descent(inputs: np.ndarray, targets: np.ndarray, rate: float, until: float, saved: int = 200) -> Descent:
    start = bf.Network.init([inputs.shape[1], WIDTH, 1], 0.0, SCALE, 0)
    first, second = np.array(start.weights[0]), np.array(start.weights[1])[0]
    basis, sizes, _ = np.linalg.svd(inputs, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]]
    steps, size = int(until / rate), np.mean(targets**2)
    every = max(1, steps // saved)
    found = []
    for step in range(steps + 1):
        reached = inputs @ first.T
        response = np.maximum(reached, 0)
        outputs = response @ second
        error = outputs - targets
        if step % every == 0:
            left = outputs - basis @ (basis.T @ outputs)
            bend = np.sqrt(np.mean(left**2) / max(np.mean(outputs**2), size))
            found.append((step * rate, 0.5 * np.mean(error**2), bend))
        pull = (error[:, None] * (reached > 0)) * second
        first, second = (
            first - rate * pull.T @ inputs / len(targets),
            second - rate * response.T @ error / len(targets),
        )
    return Descent(*np.array(found).T)
