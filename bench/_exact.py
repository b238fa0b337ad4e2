"""The exact flow beside descent at the papers' rates, diffrax and torchdiffeq: whole runs, work and precision, growth.

What is compiled, kept on disk between runs, is measured apart (``_first_call``); so are wide networks and generic data
(``_generic``), the exact flow's hardest.
"""

import itertools
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import numpy as np

import biasfree as bf
from bench import _first_call, _generic
from bench._clock import on_each_processor, say, timed
from bench._figure3 import complete
from bench._paper import Descent, descents, peer_seconds

NAMES = {
    "tmlr-figure-3": "Figure 3, six slopes, width 500",
    "tmlr-figure-4": "XOR and orthogonal pair, square loss",
    "tmlr-figure-8": "XOR and orthogonal pair, logistic loss",
    "tmlr-figure-6": "six points to t = 1000",
}
# Times that ours and the peer take turns: a machine's pace changes by half within seconds, which is all that short runs
# take. (Figure 3 by descent takes minutes as it is.)
TURNS = {"tmlr-figure-3": 1, "tmlr-figure-4": 3, "tmlr-figure-8": 3, "tmlr-figure-6": 5}
SAVES, THREADS = 50, 2
STARTS = {"samples": 2000, "width": 500, "scale": 1e-8}
# Six points until the plateau is reached: neurons cross, slide and leave.
UNTIL, POINTS = 40.0, 40
SMALLEST = 0.025


def measure(quick: bool) -> dict[str, Any]:
    """Ratios of whole runs, the work-precision table, growth, and the cost of compilation."""
    cold = _first_call.first_flow()
    rounds = 3 if quick else 7
    runs: dict[str, dict[str, Any]] = {}
    for name, words in NAMES.items():
        cases = [case for case in descents() if case.figure == name]
        say(f"exact flow: {words}")
        for case in cases:
            _ours(case)
        ours, peers = list[list[list[float]]](), list[dict[str, float]]()
        for _ in range(1 if quick else TURNS[name]):
            ours.append(on_each_processor(lambda cases=cases: [_ours(case) for case in cases], rounds))
            peers.append(peer_seconds(name, quick)[1])
        waiting = {way: median(each[way] for each in peers) for way in peers[0]}
        by_processor = [median(itertools.chain(*turns)) for turns in zip(*ours, strict=True)]
        seconds, peer = mean(by_processor), min(waiting.values())
        runs[words] = {
            "ours_seconds": seconds, "ours_by_processor": by_processor, "descent_seconds": peer,
            "descent_waiting": waiting, "ratio": peer / seconds, "extrapolated": True,
        }  # fmt: skip
    say("exact flow: six points by diffrax at a smallest step")
    data, start = bf.datasets.six_points(), bf.Network.init([2, 100, 1], 0.0, 1e-3, 0)
    until = 100.0 if quick else 1000.0
    solve = _diffrax(start, data, until, 1e-4)
    solve()
    theirs, ours = timed(solve)[0], median(timed(lambda: _flow(start, data, until))[0] for _ in range(rounds))
    runs["six points beside diffrax"] = {
        "until": until, "ours_seconds": ours, "diffrax_seconds": theirs, "ratio": theirs / ours, "extrapolated": False,
    }  # fmt: skip
    return {
        "settings": {"saves": SAVES, "threads": THREADS, "rounds": rounds, "smallest_step": SMALLEST},
        "first_call_cpu_seconds": cold,
        "runs": runs,
        "work_precision": _work_precision(rounds, quick),
        "growth": _growth(rounds, quick),
        **_generic.measure(quick),
    }


def _ours(case: Descent) -> bf.Trajectory:
    return _flow(case.start, case.data, case.rate * case.steps, loss=case.loss)


def _flow(start: bf.Network, data: bf.Dataset, until: float, **options: Any) -> bf.Trajectory:
    return complete(bf.gradient_flow(start, data, until=until, method="exact", **({"save": SAVES} | options)))


def _work_precision(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Seconds and the largest error of the loss curve, six points to t = 40, width 100."""
    from bench._peers import TorchDescent, TorchFlow

    data, start = bf.datasets.six_points(), bf.Network.init([2, 100, 1], 0.0, 1e-3, 0)
    first = tuple(np.asarray(w) for w in start.weights)
    times = np.linspace(0, UNTIL, POINTS + 1)
    truth = _flow(start, data, UNTIL, rtol=1e-12, save=times).losses
    rows = []

    def add(name: str, setting: str, run: Callable[[], np.ndarray], repeat: int = 1) -> None:
        say(f"work and precision: {name}, {setting}")
        seconds, losses = zip(*(timed(run) for _ in range(repeat)), strict=True)
        error = float(np.abs(losses[0] - truth).max() / truth[0])
        rows.append({"method": name, "setting": setting, "seconds": median(seconds), "error": error})

    def loss(weights: tuple[np.ndarray, ...]) -> float:
        outputs = (weights[1] @ np.maximum(weights[0] @ data.inputs.T, 0))[0]
        return float(0.5 * np.mean((data.targets - outputs) ** 2))

    for rtol in (1e-4, 1e-6, 1e-8, 1e-10):
        add(
            "exact", f"rtol {rtol:g}", lambda rtol=rtol: _flow(start, data, UNTIL, rtol=rtol, save=times).losses, rounds
        )
    for rate in (0.1, 0.025, 0.00625):

        def descend(rate: float = rate) -> np.ndarray:
            loop, found = TorchDescent(data, first, rate, THREADS), [loss(first)]
            for _ in range(POINTS):
                loop.advance(round(UNTIL / POINTS / rate))
                found.append(loss(loop.weights))
            return np.array(found)

        add("PyTorch descent", f"rate {rate:g}", descend)
    for rtol in (1e-3, 1e-5) if quick else (1e-3, 1e-5, 1e-7):
        solve = _diffrax(start, data, UNTIL, rtol, times, smallest=SMALLEST * rtol**0.2)
        solve()
        add("diffrax Tsit5, smallest step", f"rtol {rtol:g}", lambda solve=solve: np.array([loss(w) for w in solve()]))
    for rtol in (1e-3,) if quick else (1e-3, 1e-4):
        flow = TorchFlow(data, first, rtol, 1e-3 * rtol, THREADS)
        add(
            "torchdiffeq dopri5", f"rtol {rtol:g}", lambda f=flow: np.array([loss(first), *map(loss, f.run(times[1:]))])
        )
    return rows


def _diffrax(
    start: bf.Network, data: bf.Dataset, until: float, rtol: float, times: Any = None, smallest: float = SMALLEST
) -> Callable[[], list[tuple[np.ndarray, ...]]]:
    """diffrax's Tsit5 on jax.grad, with a smallest step, as its users would write it."""
    import diffrax
    import jax
    import jax.numpy as jnp

    inputs, targets = jnp.asarray(data.inputs.T), jnp.asarray(data.targets)

    def loss(weights: Any) -> Any:
        return 0.5 * jnp.mean((targets - (weights[1] @ jax.nn.relu(weights[0] @ inputs))[0]) ** 2)

    @jax.jit
    def solve(weights: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, w, _: jax.tree.map(jnp.negative, jax.grad(loss)(w))),
            diffrax.Tsit5(), 0.0, until, smallest, weights,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=1e-3 * rtol, dtmin=smallest, force_dtmin=True),
            saveat=diffrax.SaveAt(ts=jnp.asarray(times)) if times is not None else diffrax.SaveAt(t1=True),
            max_steps=1_000_000,
        ).ys  # fmt: skip

    weights = tuple(jnp.asarray(w) for w in start.weights)

    def run() -> list[tuple[np.ndarray, ...]]:
        layers = [np.asarray(layer) for layer in jax.block_until_ready(solve(weights))]
        return list(zip(*layers, strict=True))

    return run


def _growth(rounds: int, quick: bool) -> dict[str, Any]:
    """How many times longer a larger problem takes; Figure 3's, two networks kept."""
    larger = {"width": 50_000 if quick else 500_000, "scale": 1e-100, "samples": 20_000 if quick else 200_000}
    found = {}
    for axis, value in larger.items():
        say(f"exact flow: growth with {axis}")
        small, large = _figure_3(**STARTS), _figure_3(**(STARTS | {axis: value}))
        _flow(*small, save=1)
        base = median(timed(lambda small=small: _flow(*small, save=1))[0] for _ in range(rounds))
        seconds = min(timed(lambda large=large: _flow(*large, save=1))[0] for _ in range(1 if quick else 2))
        found[axis] = {"from": STARTS[axis], "to": value, "seconds": [base, seconds], "factor": seconds / base}
    return found


def _figure_3(samples: int, width: int, scale: float) -> tuple[bf.Network, bf.Dataset, float]:
    data = bf.datasets.symmetric_gaussian(dim=20, pairs=samples // 2, target="linear_plus_sine", seed=0)
    return bf.Network.init([20, width, 1], 0.0, scale, 0), data, 40.0 * float(np.log(scale) / np.log(1e-8))
