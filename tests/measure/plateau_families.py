"""Families of data: predicted ends of plateaus beside measured ones. ``python -m`` prints the tables."""

import sys
from dataclasses import dataclass

import numpy as np

import biasfree as bf
from biasfree import theory

EPSILONS = (0.01, 0.03, 0.1)


@dataclass(frozen=True)
class Comparison:
    """One plateau: when it began, ended and was predicted to end, and by what."""

    name: str
    begin: float
    end: float
    predicted: float
    by: str
    until: float

    @property
    def right(self) -> bool:
        """Within 10 % of the end, or neither ends while the run lasts."""
        if np.isinf(self.end):
            return not self.predicted <= self.until
        return bool(abs(self.predicted - self.end) <= 0.1 * self.end)

    @property
    def right_in_length(self) -> bool:
        """Within 10 % of the plateau's own length: the stricter question."""
        if np.isinf(self.end):
            return not self.predicted <= self.until
        return bool(abs(self.predicted - self.end) <= 0.1 * (self.end - self.begin))

    def __str__(self) -> str:
        """One row."""
        flag = "  " if self.right else "**"
        return f"{flag} {self.name}: {self.begin:.5g} to {self.end:.5g}, predicted {self.predicted:.5g} ({self.by})"


def random_set(number: int, outputs: int = 1) -> bf.Dataset:
    """Four to eight Gaussian samples with Gaussian targets in two or three dimensions."""
    rng = np.random.default_rng([16, number] if outputs == 1 else [16, number, outputs])
    dim, samples = 2 + number % 2, int(rng.integers(4, 9))
    inputs = rng.normal(size=(samples, dim))
    targets = rng.normal(size=samples if outputs == 1 else (samples, outputs))
    return bf.Dataset(inputs, targets, f"random {number}" + f", {outputs} outputs" * (outputs > 1))


def class_set(number: int) -> bf.Dataset:
    """Six to nine Gaussian samples of three classes, in turn, in two or three dimensions."""
    rng = np.random.default_rng([161, number, 3])
    dim, samples = 2 + number % 2, int(rng.integers(6, 10))
    return bf.Dataset(rng.normal(size=(samples, dim)), np.arange(samples) % 3, f"classes {number}", classes=range(3))


def random_run(number: int) -> list[Comparison]:
    """All plateaus of a random set, or of XOR (50) and the orthogonal pair (51), at 1e-12."""
    named = {50: bf.datasets.xor(), 51: bf.datasets.orthogonal_pair()}
    return _all_ends(named.get(number) or random_set(number), 60, number, 3000.0 if number < 50 else 250.0)


def several_run(number: int) -> list[Comparison]:
    """All plateaus of a random set with two (even numbers) or three outputs, or of classes (every fifth)."""
    classes = number % 5 == 4
    data = class_set(number) if classes else random_set(number, 2 + number % 2)
    return _all_ends(data, 40, number, 1000.0, "cross-entropy" if classes else "square")


def _all_ends(data: bf.Dataset, width: int, seed: int, until: float, loss: str = "square") -> list[Comparison]:
    start = bf.Network.init([data.dim, width, data.outputs], 0.0, 1e-12, seed=seed)
    found = bf.gradient_flow(start, data, loss=loss, until=until).plateaus()
    return [Comparison(data.name, p.begin, p.end, p.predicted_end, p.predicted_by, found.until) for p in found]


def almost_symmetric(number: int) -> bf.Dataset:
    """Pairs ±x with an odd target, sparse (0 to 19) or dense (20 to 39), targets or inputs perturbed by ε."""
    rng = np.random.default_rng([61, number])
    sparse = number < 20
    pairs = int(rng.integers(2, 7)) if sparse else int(rng.integers(20, 201))
    dim = 2 + number % 2 if sparse else int(rng.integers(2, 11))
    half = rng.normal(size=(pairs, dim))
    y = half @ rng.normal(size=dim) / np.sqrt(dim)
    y = y + 0.3 * np.sin(3 * y)
    inputs, targets = np.concatenate([half, -half]), np.concatenate([y, -y])
    epsilon, moved = EPSILONS[number % 3], number % 4 < 2
    if moved:
        inputs = inputs + epsilon * rng.normal(size=inputs.shape)
    else:
        targets = targets + epsilon * rng.normal(size=targets.shape)
    kind = f"{pairs} pairs in {dim}-D, {'inputs' if moved else 'targets'} off by {epsilon:g}"
    return bf.Dataset(inputs, targets, f"{'sparse' if sparse else 'dense'} {number}: {kind}")


def departure_run(number: int, scale: float) -> Comparison:
    """The plateau at the linear solution, in a run a thousand times as long as the escape."""
    data = almost_symmetric(number)
    start = bf.Network.init([data.dim, 40 if number < 20 else 20, 1], 0.0, scale, seed=number)
    escape = theory.escape_time(scale, theory.aligned_start(start, data).rate)
    found = bf.gradient_flow(start, data, until=1000 * escape).plateaus()
    first = float(np.mean(data.targets**2) / 2)
    linear = float(theory.linear_loss(theory.least_squares(data), data))
    at = next((p for p in found if p.level <= linear + 0.05 * (first - linear)), None)
    name = f"{data.name}, from {scale:g}"
    if at is None:
        return Comparison(name, np.nan, np.nan, np.nan, "no such plateau", found.until)
    return Comparison(name, at.begin, at.end, at.predicted_end, at.predicted_by or at.reason.kind, found.until)


if __name__ == "__main__":
    # random, several or almost-symmetric; the first number and the one after the last.
    which, low, high = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rows: list[Comparison] = []
    for index in range(low, high):
        if which == "almost-symmetric":
            new = [departure_run(index, s) for s in (1e-4, 1e-12)]
        else:
            new = random_run(index) if which == "random" else several_run(index)
        print(*new, sep="\n", flush=True)
        rows += new
    print(
        f"{sum(row.right for row in rows)} of {len(rows)} right, {sum(row.right_in_length for row in rows)} in length"
    )
