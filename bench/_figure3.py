"""Figure 3 of the workshop paper, α = 0: biasfree's flow and descent beside PyTorch, a plain JAX scan and torchdiffeq.

All take turns, round by round, so that a busy moment of the machine falls on all of them. In a round each descent
goes on from where it was, and a flow runs whole. Twenty rounds of 500 steps make the paper's 10,000, and their ends are
the times at which the loss curves are compared.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

import jax
import numpy as np

import biasfree as bf
from bench._clock import OtherWork, compilation, say, timed

SEED, WIDTH, SCALE = 0, 500, 1e-8
RATE, STEPS, UNTIL = 0.004, 10_000, 40.0
RTOL, REFERENCE_RTOL = 1e-6, 1e-10
THREADS = 2

Weights = tuple[np.ndarray, ...]


@dataclass
class Contender:
    """One way to compute the run, and what was measured of it."""

    name: str
    parts: int  # how many of its turns make the whole run
    compile_seconds: float | None = None  # None: nothing is compiled
    evaluations: int | None = None
    turns: dict[int, float] = field(default_factory=dict)  # seconds by round
    losses: list[float] | None = None  # at the common times

    @property
    def measured_whole(self) -> bool:
        """Whether the whole run was timed, not extrapolated."""
        return len(self.turns) >= self.parts

    @property
    def seconds(self) -> float:
        """The whole run, without compilation: the turns added up, or so many times their median."""
        if self.parts > 1 and self.measured_whole:
            return sum(self.turns.values())
        return self.parts * median(self.turns.values())

    def at_pace(self, turn: int, compiled: bool) -> float:
        """Seconds for the whole run at the pace of one turn, with compilation unless already ``compiled``."""
        return self.parts * self.turns[turn] + (0.0 if compiled else self.compile_seconds or 0.0)

    def faster_than(self, peer: "Contender") -> dict[str, Any]:
        """How many times faster than ``peer``: the median of the quotients within the rounds both took part in.

        Quotients of totals would set a busy round of one against a quiet round of the other.
        """
        shared = sorted(self.turns.keys() & peer.turns.keys())
        rounds, cold = (
            [peer.at_pace(turn, compiled) / self.at_pace(turn, compiled) for turn in shared]
            for compiled in (True, False)
        )
        return {
            "ours": self.name,
            "peer": peer.name,
            "ratio": median(rounds),
            "ratio_with_compilation": median(cold),
            "rounds": rounds,
            "extrapolated": not (self.measured_whole and peer.measured_whole),
        }


def problem() -> tuple[bf.Dataset, bf.Network]:
    """The data and the start."""
    data = bf.datasets.symmetric_gaussian(dim=20, pairs=1000, target="linear_plus_sine", seed=SEED)
    return data, bf.Network.init([20, WIDTH, 1], 0.0, SCALE, seed=SEED)


def flow(start: bf.Network, data: bf.Dataset, **options: Any) -> bf.Trajectory:
    """biasfree's flow through the whole run."""
    return complete(bf.gradient_flow(start, data, until=UNTIL, **({"rtol": RTOL} | options)))


def descent(start: bf.Network, data: bf.Dataset, steps: int) -> bf.Trajectory:
    """biasfree's descent for ``steps`` steps; keeps both ends."""
    return complete(bf.gradient_descent(start, data, learning_rate=RATE, steps=steps, save=1))


def complete(run: bf.Trajectory) -> bf.Trajectory:
    """The run, unless it was cut short: half a run must not be timed as a whole one."""
    if run.status.name == "interrupted":
        raise KeyboardInterrupt
    if not run.status.complete:
        raise RuntimeError(f"a run was cut short: {run.status.message}")
    return run


def measure(quick: bool) -> dict[str, Any]:
    """Time all contenders and compare their loss curves."""
    from bench._peers import JaxDescent, TorchDescent, TorchFlow

    jax.config.update("jax_enable_compilation_cache", False)
    rounds, steps, every = (5, 100, 5) if quick else (20, STEPS // 20, 7)
    times = [UNTIL * (i + 1) / 20 for i in range(20)]
    data, start = problem()
    first = tuple(np.asarray(w) for w in start.weights)
    # The largest absolute tolerance that keeps weights of the start's size right to rtol: generous to the peer.
    atol = RTOL * float(np.sqrt(sum((w**2).sum() for w in first) / sum(w.size for w in first)))

    say("Figure 3: compilation")
    parts = STEPS // steps
    our_flow = Contender("biasfree flow", 1, compilation(lambda: flow(start, data)))
    our_descent = Contender("biasfree descent", parts, compilation(lambda: descent(start, data, 20)), STEPS)
    scan = JaxDescent(data, first, RATE)
    jax_descent = Contender("JAX scan", parts, compilation(lambda: scan.rehearse(20)), STEPS)
    scan.rehearse(steps)
    loop, ode = TorchDescent(data, first, RATE, THREADS), TorchFlow(data, first, RTOL, atol, THREADS)
    TorchDescent(data, first, RATE, THREADS).advance(20)
    torch_descent, torch_flow = Contender("PyTorch loop", parts, None, STEPS), Contender("torchdiffeq dopri5", 1)
    descents = (torch_descent, jax_descent, our_descent)

    ours, curves, other_cores = start, {c.name: [] for c in descents}, []
    for turn in range(rounds):
        say(f"Figure 3: round {turn + 1} of {rounds}")
        other = OtherWork()
        torch_descent.turns[turn], _ = timed(lambda: loop.advance(steps))
        our_descent.turns[turn], run = timed(lambda ours=ours: descent(ours, data, steps))
        ours = run.final
        jax_descent.turns[turn], _ = timed(lambda: scan.advance(steps))
        our_flow.turns[turn], trajectory = timed(lambda: flow(start, data))
        if turn % every == 0:
            torch_flow.turns[turn], states = timed(lambda: ode.run(times))
        for contender, weights in zip(descents, (loop.weights, scan.weights, ours.weights), strict=True):
            curves[contender.name].append(_loss(weights, data))
        other_cores.append(other.cores())

    say("Figure 3: reference for accuracy")
    reference = flow(start, data, rtol=REFERENCE_RTOL, save=times)
    our_flow.evaluations, torch_flow.evaluations = trajectory.counts.evaluations, ode.evaluations
    our_flow.losses = [_loss(network.weights, data) for network in trajectory.at(times)]
    torch_flow.losses = [_loss(weights, data) for weights in states]
    for contender in descents:
        contender.losses = None if quick else curves[contender.name]
    exact = [_loss(network.weights, data) for network in reference.at(times)]
    return {
        "settings": {
            "data": str(data), "data_origin": dict(data.origin), "network": str(start),
            "network_origin": dict(start.origin), "rate": RATE, "steps": STEPS, "until": UNTIL, "rtol": RTOL,
            "torchdiffeq_atol": atol, "biasfree_atol": trajectory.settings["atol"],
            "reference_rtol": REFERENCE_RTOL, "threads": THREADS, "rounds": rounds, "steps_per_round": steps,
        },
        "common_times": times,
        "reference_losses": exact,
        "contenders": [_plain(c, exact) for c in (our_flow, our_descent, torch_descent, jax_descent, torch_flow)],
        "descents_differ": None if quick else float(np.ptp(list(curves.values()), axis=0).max()),
        "cores_busy_with_other_work_by_round": other_cores,
        "ratios": [our_descent.faster_than(peer) for peer in (torch_descent, jax_descent)]
        + [our_flow.faster_than(peer) for peer in (torch_descent, jax_descent, torch_flow)],
    }  # fmt: skip


def _loss(weights: Any, data: bf.Dataset) -> float:
    """½⟨(y − f)²⟩, by the same code for everyone."""
    first, second = (np.asarray(w) for w in weights)
    outputs = (second @ np.maximum(first @ data.inputs.T, 0.0))[0]
    return float(0.5 * np.mean((data.targets - outputs) ** 2))


def _plain(contender: Contender, exact: list[float]) -> dict[str, Any]:
    """As numbers for JSON."""
    gap = None
    if contender.losses is not None:
        gap = float(np.abs(np.subtract(contender.losses, exact)).max())
    return {
        "name": contender.name,
        "seconds": contender.seconds,
        "extrapolated": not contender.measured_whole,
        "compile_seconds": contender.compile_seconds,
        "evaluations": contender.evaluations,
        "turns_per_run": contender.parts,
        "turn_seconds": {str(turn): seconds for turn, seconds in contender.turns.items()},
        "losses": contender.losses,
        "final_loss": contender.losses[-1] if contender.losses else None,
        "largest_deviation": gap,
    }
