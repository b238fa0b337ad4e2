"""Run wide random problems at two tolerances and tell what is wrong with any: ``python -m tests.wide --count 1000``."""

import argparse
import contextlib
import functools
import json
import math
import multiprocessing
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import biasfree as bf
from biasfree import losses
from biasfree.dynamics import _status
from tests.random_problems import SECONDS, is_large, outputs_of, wide_problem, wide_problem_of_several

LOOSE, TIGHT = 1e-6, 1e-10
ROOM = 100  # times the larger tolerance: how far two runs may be apart
NUDGE = 1e-6  # relative size of the disturbance by which the flow's own amplification is measured
SEPARATRIX = 100  # a flow that makes a disturbance grow by more than this has a separatrix near
SAVES = 10
# Problems that take more than a second of processor time: half of what all take together. They are for the slow tests.
COSTLY = (
    0, 8, 14, 23, 30, 42, 48, 58, 88, 92, 125, 132, 139, 150, 196, 272, 298, 344, 377, 396, 452, 502, 509, 511, 543,
    566, 614, 619, 643, 716, 789, 819, 839, 846, 867, 872, 884, 912, 979, 985, 1004, 1012, 1041,
)  # fmt: skip
QUICK = [seed for seed in range(1043) if seed not in COSTLY]  # the thousand of ``make test``
SLOW = [seed for seed in range(10_000) if seed not in QUICK]
STATUSES = (
    "reached",
    "loss level",
    "converged",
    "step limit",
    "precision limit",
    "stuck",
    "inaccurate",
    "not finite",
)
REFUSED = STATUSES[-2:]  # results that say of themselves that they are wrong


class OverBudgetError(Exception):
    """A run lasted longer than it may."""


@dataclass(frozen=True)
class Verdict:
    """What two runs of a problem showed; ``reasons`` is empty if nothing is wrong."""

    seed: int
    reasons: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    difference: float = math.nan  # between tolerances, in units of weights and first loss
    amplification: float = math.nan  # measured only where the difference asks for it
    branched: bool = False
    excused: str = ""  # "branch" or "separatrix" where that is why the tolerances may differ
    tags: dict[str, Any] = field(default_factory=dict)


@functools.cache
def warm() -> None:
    """Compile first: that is on no run's budget. The second one has an early phase of its own."""
    rng = np.random.default_rng(0)
    for samples, width, scale in ((6, 4, 0.1), (40, 20, 1e-12)):
        start = bf.Network([scale * rng.normal(size=(width, 2)), scale * rng.normal(size=(1, width))], 0.0)
        bf.gradient_flow(start, bf.Dataset(rng.normal(size=(samples, 2)), rng.normal(size=samples)), until=30.0)


@contextlib.contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Raise OverBudgetError after so much processor time, which other work on the machine does not change.

    In other threads than the main one it is only looked at afterwards.
    """
    warm()
    if threading.current_thread() is not threading.main_thread():
        began = time.process_time()
        yield
        if time.process_time() - began > seconds:
            raise OverBudgetError
        return

    rang = False

    def ring(*_: Any) -> None:
        nonlocal rang
        rang = True
        raise OverBudgetError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except SystemError as error:  # what compiled code makes of an exception that comes while it runs
        raise (OverBudgetError() if rang else error) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def examine(seed: int, seconds: float | None = None, several: bool = False) -> Verdict:
    """Run a wide problem, perhaps of several outputs, at both tolerances and check all that must hold of any run."""
    start, data, options = wide_problem_of_several(seed) if several else wide_problem(seed)
    seconds = seconds or (6 * SECONDS if is_large(seed) else SECONDS)
    verdict = Verdict(seed, tags=describe(start, data, options))
    runs: dict[float, bf.Trajectory] = {}
    for rtol in (LOOSE, TIGHT):
        began = time.process_time()
        try:
            with budget(seconds):
                runs[rtol] = bf.gradient_flow(start, data, save=SAVES, rtol=rtol, **options)
            wrong = faults(runs[rtol], rtol)
        except OverBudgetError:
            wrong = [f"longer than {seconds:g} s"]
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        verdict = replace(
            verdict,
            reasons=(*verdict.reasons, *(f"{word} at rtol {rtol:g}" for word in wrong)),
            seconds=(*verdict.seconds, time.process_time() - began),
        )
    names = tuple(run.status.name for run in runs.values())
    incomplete = tuple(run.status.message for run in runs.values() if not run.status.complete)
    verdict = replace(verdict, statuses=names, incomplete=incomplete, branched=any(map(branched, runs.values())))
    if verdict.reasons or not all(map(comparable, runs.values())):
        return verdict
    return agreement(verdict, runs, start, data, options, seconds)


def comparable(run: bf.Trajectory) -> bool:
    """Not what was refused, but where that is for a rounding which the loose tolerance allows."""
    return run.status.name not in REFUSED or 0 < max(run.counts.regrowth_error, run.counts.rerun_gap) <= ROOM * LOOSE


def agreement(
    verdict: Verdict,
    runs: dict[float, bf.Trajectory],
    start: bf.Network,
    data: bf.Dataset,
    options: dict[str, Any],
    seconds: float,
) -> Verdict:
    """Compare the tolerances; allow for a branch that is told, for what steps say, and for the flow's amplification."""
    try:
        with budget(seconds):
            difference = distance(runs[LOOSE], runs[TIGHT])
    except (OverBudgetError, RuntimeError) as error:
        why = str(error) or f"longer than {seconds:g} s to where both came"
        return replace(verdict, reasons=(*verdict.reasons, why))
    verdict = replace(verdict, difference=difference)
    room = ROOM * LOOSE
    if difference <= room:
        return verdict
    if verdict.branched:
        return replace(verdict, excused="branch")
    if any(_status.NOT_RUN_AGAIN in run.status.message for run in runs.values()):
        return replace(verdict, excused="not run again")
    if difference <= runs[LOOSE].counts.local_errors:
        return replace(verdict, excused="as far as adaptive steps say that they are off")
    try:
        with budget(4 * seconds):
            grows = amplification(runs[TIGHT], start, data, options, last_common(runs[LOOSE], runs[TIGHT]))
    except OverBudgetError:
        grows = math.nan
    verdict = replace(verdict, amplification=grows)
    if grows > SEPARATRIX and difference <= room * grows:
        return replace(verdict, excused="separatrix")
    why = f"tolerances differ by {difference:.1e}, amplification {grows:.1e}"
    return replace(verdict, reasons=(*verdict.reasons, why))


def faults(run: bf.Trajectory, rtol: float) -> list[str]:
    """What must not be, whatever the problem."""
    wrong = []
    name, message = run.status.name, run.status.message
    if name not in STATUSES:
        wrong.append(f"unknown status {name!r}")
    if run.status.complete != (name in STATUSES[:3]):
        wrong.append(f"{name!r} complete={run.status.complete}")
    if not (len(message) > 10 and message.rstrip().endswith((".", "!"))):
        wrong.append(f"no sentence: {message!r}")
    if not all(np.isfinite(layer).all() for layer in run.weights):
        wrong.append(f"weights not finite under {name!r}")
    if not np.isfinite(run.losses).all() or np.isnan(run.log_losses).any():
        wrong.append(f"losses not finite under {name!r}")
    if wrong:
        return wrong
    goal, noise = objective(run), rounding(run)
    if goal.max() > goal[0] * (1 + ROOM * rtol) + noise:
        wrong.append(f"objective rises from {goal[0]:.6g} to {goal.max():.6g}")
    elif (np.diff(goal) > ROOM * rtol * goal[0] + noise).any():
        wrong.append(f"objective rises by {np.diff(goal).max() / goal[0]:.1e} of its start")
    if run.status.complete and goal[0] > noise:  # of a loss that is rounding, nothing is conserved
        for gauge in ("energy_gap", "balance_drift", "admissibility"):
            value = getattr(run, gauge, math.nan)
            if run.settings["method"] == "exact" and value > 1e4 * rtol:
                wrong.append(f"{gauge} {value:.1e} under {name!r}")
    if name == "reached" and not math.isclose(run.times[-1], run.settings["until"], rel_tol=1e-9):
        wrong.append(f"reached {run.settings['until']:g} and ends at {run.times[-1]:g}")
    level = run.settings.get("stop_log_loss", -math.inf)
    if name == "loss level" and run.log_losses[-1] > level + 1e-3 * abs(level):
        wrong.append(f"loss level with ln L = {run.log_losses[-1]:g}")
    return wrong


def objective(run: bf.Trajectory) -> np.ndarray:
    squares = sum((np.asarray(layer).reshape(len(run.times), -1) ** 2).sum(1) for layer in run.weights)
    return np.asarray(run.losses) + 0.5 * run.settings["weight_decay"] * squares


def rounding(run: bf.Trajectory) -> float:
    """A loss that is nothing but rounding: that of outputs off by 1e-14 of what they are sums of."""
    if run.settings["loss"] != "square":
        return 0.0
    first, second = (np.abs(layer[0]).reshape(len(layer[0]), -1) for layer in run.weights)
    parts = (np.abs(run.dataset.inputs) @ first.T) @ second.T
    return float((1e-14 * (np.abs(run.dataset.targets).max() + parts.max())) ** 2)


def branched(run: bf.Trajectory) -> bool:
    """Whether a branch or a separatrix is told of; not a start on a line: σ'(0) = slope for everybody."""
    message, events = run.status.message.lower(), run.events
    if "separatrix" in message or events is None:
        return "separatrix" in message or "branch" in message
    at_zero = ~run.weights[0][0].any(axis=1)[events.neurons]
    return bool(((events.kinds == "branch") & (at_zero | (events.times > run.times[0]))).any())


def loss_unit(run: bf.Trajectory) -> float:
    """What differences of losses are measured by: the first; of what may begin at nothing and grow, what it becomes."""
    if not run.settings["weight_decay"]:
        return float(run.losses[0])
    return float(objective(run)[0] if run.settings["clock"] == "time" else np.max(run.losses))


def distance(one: bf.Trajectory, two: bf.Trajectory, unit: float | None = None) -> float:
    """The largest difference at common saved times: of losses in their unit, of weights of the largest."""
    unit = loss_unit(one) if unit is None else unit
    mine, theirs = both_saved(one, two)
    pairs = [(a[mine], b[theirs]) for a, b in zip(one.weights, two.weights, strict=True)]
    off = np.abs(one.losses[mine] - two.losses[theirs]).max()
    if not (one.status.complete and two.status.complete):  # compared where the shorter one ended, too
        ends = ended(one, two)
        pairs += zip(*(end.weights for end in ends), strict=True) if ends else []
        off = max(off, abs(loss_of(one, ends[0]) - loss_of(two, ends[1]))) if ends else off
    scale = max(np.abs(layer).max() for run in (one, two) for layer in run.weights)
    gaps = [np.abs(a - b).max() / scale if scale else 0.0 for a, b in pairs]
    gaps.append(off / unit if unit else off)
    return float(max(gaps))


def both_saved(one: bf.Trajectory, two: bf.Trajectory) -> list[list[int]]:
    """The saves of each run at times that both saved."""
    shared = [
        (i, j)
        for i, t in enumerate(one.times)
        for j in [int(np.argmin(np.abs(two.times - t)))]
        if abs(two.times[j] - t) <= 1e-12 * one.settings["until"]
    ]
    return [list(saves) for saves in zip(*shared, strict=True)]


def ended(one: bf.Trajectory, two: bf.Trajectory) -> list[bf.Network]:
    """Both networks where the shorter run ended; none where the longer one takes too much work from its last save."""
    try:
        return [run.at(last_common(one, two)) for run in (one, two)]
    except RuntimeError as error:
        if "as much work as a run does unasked" in str(error):
            return []
        raise


def loss_of(run: bf.Trajectory, network: bf.Network) -> float:
    """The loss of a run, at some other network."""
    outputs = outputs_of(run.dataset.inputs, *map(np.asarray, network.weights), network.slope)
    targets = np.asarray(run.dataset.targets).reshape(len(outputs), -1)
    return float(losses.get(run.settings["loss"]).value(outputs.T, targets.T))


def last_common(one: bf.Trajectory, two: bf.Trajectory) -> float:
    """The last time that both runs came to."""
    return float(min(one.times[-1], two.times[-1]))


def amplification(
    run: bf.Trajectory, start: bf.Network, data: bf.Dataset, options: dict[str, Any], end: float | None = None
) -> float:
    """By how much the flow makes a small disturbance grow until ``end``.

    Two at the start, one at saves 3 and 6, and one when half and three quarters of all events are over: a flow may
    shrink disturbances for most of its time and make them grow where something happens (seed 344 of several outputs,
    by 1e5). Runs of the smaller tolerance, disturbed relative to each neuron, in the same units as ``distance``.
    """
    grown = []
    end = run.times[-1] if end is None else end
    times = np.append(run.times[run.times < end], end)
    for number, when in enumerate(moments(run, times)):
        rng = np.random.default_rng(number)
        rest = {**options, "until": end - when, "rtol": TIGHT}
        rest["save"] = np.append(0.0, times[times > when] - when)
        rest["save"][-1] = rest["until"]
        network = run.at(when)
        first, second = (np.array(layer) for layer in network.weights)
        same = bf.gradient_flow(bf.Network([first, second], start.slope), data, **rest)
        whole = np.column_stack([first, second.T])
        largest = np.abs(whole).max(axis=1)
        sizes = largest * np.linalg.norm(whole / np.where(largest > 0, largest, 1.0)[:, None], axis=1)
        first = first + NUDGE * sizes[:, None] * rng.uniform(-1, 1, size=first.shape)
        second = second + NUDGE * sizes * rng.uniform(-1, 1, size=second.shape)
        other = bf.gradient_flow(bf.Network([first, second], start.slope), data, **rest)
        grown.append(distance(same, other, loss_unit(run)) / NUDGE)
    return max(grown, default=math.nan)


def moments(run: bf.Trajectory, times: np.ndarray) -> list[float]:
    """When a run is disturbed, before the last of some times."""
    chosen = [times[n] for n in (0, 0, 3, 6) if n < len(times) - 1]
    if run.events is not None:
        happened = run.events.times[run.events.times < times[-1]]
        chosen += np.quantile(happened, (0.5, 0.75), method="lower").tolist() if happened.size else []
    return [float(when) for when in chosen]


def describe(start: bf.Network, data: bf.Dataset, options: dict[str, Any]) -> dict[str, Any]:
    first, _ = start.weights
    return {
        "D×P×H": f"{first.shape[1]}×{len(data.inputs)}×{first.shape[0]}",
        "loss": options["loss"][:3] + (" s" if options["clock"] == "loss" else ""),
        "slope": round(start.slope, 2),
        "decay": float(f"{options['weight_decay']:.1e}"),
        "until": f"{options['until']:.1e}",
        "|W|": f"{max(np.abs(np.asarray(layer)).max() for layer in start.weights):.0e}",
        "|x|": f"{np.abs(data.inputs).max():.0e}",
        "|y|": f"{np.abs(data.targets).max():.0e}",
    }


def table(verdicts: Sequence[Verdict]) -> str:
    """Every failure with its seed and reason; the shares of statuses and excuses; the slowest."""
    bad = [v for v in verdicts if v.reasons]
    lines = [f"{len(bad)} of {len(verdicts)} problems fail" + (":" if bad else ".")]
    for v in bad:
        told = " ".join(f"{key}={value}" for key, value in v.tags.items())
        lines += [f"  seed {v.seed:5d}  {'; '.join(v.reasons)[:230]}", f"              {told}"]
    names = Counter(name for v in verdicts for name in v.statuses)
    lines.append("statuses: " + ", ".join(f"{count} {name}" for name, count in names.most_common()))
    for v in verdicts:
        if v.incomplete:
            lines.append(f"  seed {v.seed:5d}  {v.statuses}: {v.incomplete[0][:160]}")
    excuses = Counter(v.excused for v in verdicts if v.excused)
    lines.append(
        f"branches told in {sum(v.branched for v in verdicts)}; tolerances allowed to differ for a branch in "
        f"{excuses['branch']} {[v.seed for v in verdicts if v.excused == 'branch']}, for a separatrix in "
        f"{excuses['separatrix']} {[v.seed for v in verdicts if v.excused == 'separatrix']}, as cut short before a "
        f"second run in {excuses['not run again']} {[v.seed for v in verdicts if v.excused == 'not run again']}"
    )
    kinds = Counter(kind_of(reason) for v in bad for reason in v.reasons)
    lines.append("reasons: " + ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common()))
    spent = np.array([sum(v.seconds) for v in verdicts])
    lines.append(f"{spent.sum():.1f} s for both tolerances; median {np.median(spent):.3f} s a problem; slowest:")
    for v in sorted(verdicts, key=lambda v: -sum(v.seconds))[:10]:
        told = " ".join(f"{key}={value}" for key, value in v.tags.items())
        lines.append(f"  seed {v.seed:5d}  {sum(v.seconds):6.2f} s  {told}")
    return "\n".join(lines)


def kind_of(reason: str) -> str:
    """A reason without its numbers."""
    words = ("tolerances differ", "objective rises", "not finite", "longer than", "energy_gap", "balance_drift")
    return next((word for word in (*words, "admissibility") if word in reason), reason.split(" at rtol")[0][:60])


def recorded(path: Path | None) -> list[Verdict]:
    """The verdicts that a file of ``--record`` holds, a line each."""
    if path is None or not path.exists():
        return []
    return [
        Verdict(**{key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(line).items()})
        for line in path.read_text().splitlines()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="*", help="only these")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2))
    parser.add_argument("--seconds", type=float, default=None, help="what one run may last")
    parser.add_argument("--several", action="store_true", help="with several outputs")
    parser.add_argument("--follow", action="store_true", help="tell failures as they are found")
    parser.add_argument("--record", type=Path, help="write every verdict here as it comes; those it holds are kept")
    options = parser.parse_args()
    seeds = options.seeds or range(options.first, options.first + options.count)
    verdicts = recorded(options.record)
    held = {verdict.seed for verdict in verdicts}
    jobs = [(seed, options.seconds, options.several) for seed in seeds if seed not in held]
    with contextlib.ExitStack() as stack:
        if options.processes == 1:
            found: Any = (examine(*job) for job in jobs)
        else:
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(options.processes))
            found = pool.imap(_examine, jobs, chunksize=5)
        for verdict in found:
            verdicts.append(verdict)
            if options.record:
                with options.record.open("a") as file:
                    print(json.dumps(asdict(verdict)), file=file)
            if options.follow and (verdict.reasons or verdict.incomplete):
                print(verdict.seed, *verdict.reasons, *verdict.incomplete, flush=True)
    print(table(verdicts))


def _examine(job: tuple[int, float | None, bool]) -> Verdict:
    return examine(*job)


if __name__ == "__main__":
    main()
