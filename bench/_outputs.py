"""Several outputs: ten digits beside PyTorch at the largest stable rate, and a symmetric set with three outputs.

**Digits**: both go to the same cross-entropy. The largest stable rate is the largest power of √2 at which the loss
never rises on the whole way; it is searched for, and only the last run is timed. Such descent reaches the level within
a percent of the flow's own time, so the flow is asked for no more than that; both times are told, beside that of a flow
a hundred times as accurate. **Symmetric set**: as
Figure 3, with a linear target of rank three; the papers' rate is the peer's, extrapolated from a part of its steps.
"""

import json
import math
import sys
from statistics import median
from typing import Any

import numpy as np
import torch

import biasfree as bf
from bench._clock import quicker_way, say, timed
from bench._figure3 import complete

WIDTH, SCALE, LEVEL, RTOL, THREADS = 50, 0.1, 0.1, 2e-2, 2
RATE, UNTIL, SYMMETRIC = 0.004, 40.0, {"pairs": 1000, "dim": 20, "width": 500, "scale": 1e-8}
_FIRST_RATE, _MOST_STEPS = 2.0**-3, 20_000


def measure(quick: bool) -> dict[str, Any]:
    """Both ratios."""
    return {"digits": _digits(3 if quick else 5), "symmetric": _symmetric(40 if quick else 200)}


class _Torch:
    """A plain PyTorch loop: autograd, then W ← W − η∇L by hand."""

    def __init__(self, data: bf.Dataset, start: bf.Network, classes: bool) -> None:
        torch.set_num_threads(THREADS)
        self._inputs, self._targets = torch.tensor(data.inputs), torch.tensor(data.targets)
        self.weights = [torch.tensor(np.asarray(w)).requires_grad_(True) for w in start.weights]
        self._classes = classes

    def loss(self) -> torch.Tensor:
        outputs = torch.relu(self._inputs @ self.weights[0].T) @ self.weights[1].T
        if self._classes:
            return torch.nn.functional.cross_entropy(outputs, self._targets)
        return 0.5 * ((outputs - self._targets) ** 2).sum() / len(outputs)

    def step(self, rate: float) -> float:
        loss = self.loss()
        loss.backward()
        with torch.no_grad():
            for weight in self.weights:
                weight.sub_(weight.grad, alpha=rate)
                weight.grad = None
        return float(loss.detach())


def _descended(data: bf.Dataset, start: bf.Network, rate: float) -> int | None:
    """Steps to the level; None where the loss rises, or does not get there."""
    loop, before = _Torch(data, start, True), math.inf
    for step in range(_MOST_STEPS):
        loss = loop.step(rate)
        if not loss <= before * (1 + 1e-9):
            return None
        if loss <= LEVEL:
            return step
        before = loss
    return None


def _ten_digits() -> tuple[bf.Dataset, bf.Network]:
    return bf.datasets.digits(), bf.Network.init([64, WIDTH, 10], 0.0, SCALE, 0)


def _symmetric_set() -> tuple[bf.Dataset, bf.Network]:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((SYMMETRIC["pairs"], SYMMETRIC["dim"]))
    teacher = rng.standard_normal((SYMMETRIC["dim"], 3)) / math.sqrt(SYMMETRIC["dim"])
    data = bf.Dataset(inputs, inputs @ teacher, "symmetric, three outputs").symmetrised()
    return data, bf.Network.init([SYMMETRIC["dim"], SYMMETRIC["width"], 3], 0.0, SYMMETRIC["scale"], 0)


def _as_peer(what: str, number: float, rounds: int) -> float:
    """Seconds of descent on the digits at a rate, or of so many steps on the symmetric set: the median of rounds."""
    if what == "digits":
        data, start = _ten_digits()
        _descended(data, start, number)
        return median(timed(lambda: _descended(data, start, number))[0] for _ in range(rounds))
    loop, steps = _Torch(*_symmetric_set(), False), round(number)
    loop.step(RATE)
    return median(timed(lambda: [loop.step(RATE) for _ in range(steps)])[0] for _ in range(rounds))


def _digits(rounds: int) -> dict[str, Any]:
    data, start = _ten_digits()
    rate = _FIRST_RATE
    say("digits: the largest stable rate of descent")
    while _descended(data, start, rate) is None and rate > 1e-6:
        rate /= 2
    while _descended(data, start, rate * math.sqrt(2)) is not None:
        rate *= math.sqrt(2)
    say(f"digits: PyTorch at rate {rate:g}, and auto")

    def ours(rtol: float = RTOL) -> bf.Trajectory:
        return complete(bf.gradient_flow(start, data, loss="cross-entropy", until=1e6, stop=LEVEL, save=10, rtol=rtol))

    run, reference, steps = ours(), ours(RTOL / 100), _descended(data, start, rate)
    assert steps is not None
    mine = median(timed(ours)[0] for _ in range(rounds))
    peer, waiting = quicker_way("_outputs", "digits", rate, rounds)
    return {
        "rate": rate, "steps": steps, "ours_seconds": mine, "descent_seconds": peer, "descent_waiting": waiting,
        "ratio": peer / mine, "method": run.settings["method"], "loss": float(run.losses[-1]),
        "rtol": RTOL, "gradients": run.counts.evaluations, "time": float(run.times[-1]), "descent_time": rate * steps,
        "reference_time": float(reference.times[-1]),
    }  # fmt: skip


def _symmetric(steps: int) -> dict[str, Any]:
    data, start = _symmetric_set()
    say("symmetric set, three outputs")

    def ours() -> bf.Trajectory:
        return complete(bf.gradient_flow(start, data, until=UNTIL, save=20))

    run, mine = ours(), median(timed(ours)[0] for _ in range(3))
    whole = UNTIL / RATE / steps
    turn, turns = quicker_way("_outputs", "symmetric", steps, 3)
    peer, waiting = whole * turn, {way: whole * seconds for way, seconds in turns.items()}
    return {
        "rate": RATE, "ours_seconds": mine, "descent_seconds": peer, "descent_waiting": waiting, "ratio": peer / mine,
        "method": run.settings["method"], "extrapolated": True,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(_as_peer(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))))
