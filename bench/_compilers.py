"""Numba or JAX for the exact flow: one trial step (twelve stages) in both, on states that real runs pass through.

Compilation is measured in processes of their own: with nothing kept on disk, and again with what that left there (JAX
keeps what it compiled, too, if it is told to). Times are those of the fastest round, since on a busy machine that is
the one disturbed least; contenders take turns within a round.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
from numba import njit
from threadpoolctl import ThreadpoolController

import biasfree as bf
from bench import _jax_step
from bench._clock import say, timed
from bench._figure3 import complete
from biasfree.dynamics.exact import _steps
from biasfree.dynamics.exact._field import Data, Pattern, velocity
from biasfree.dynamics.exact._forms import Form
from biasfree.dynamics.exact._runge_kutta import STAGES, trial

AGREEMENT = 1e-12
WIDTH, SCALE, UNTIL = 100, 1e-3, 1000.0
# Loop over the stages unrolled, or not, for less to compile; and then with rows padded to powers of two.
VARIANTS = ("unrolled", "rolled", "padded")
_ROUND = 0.05  # seconds
_LOOP = 1e-3  # part of the step by which a loop goes on, so that it stays where it began


class Case(NamedTuple):
    """A moment of a real run."""

    name: str
    state: np.ndarray
    step: float
    data: Data
    pattern: Pattern
    form: Form

    @property
    def rows(self) -> tuple[int, int]:
        """Active and passive ones."""
        return len(self.pattern.side), len(self.pattern.owner)

    def for_numba(self) -> tuple[Any, ...]:
        """Arguments of ``trial``."""
        stages, (p, q) = np.zeros((STAGES + 4, len(self.state))), np.empty((2, len(self.data.directions)))
        velocity(self.state, self.data, self.pattern, stages[0], p, q)
        return self.state, stages, self.step, self.data, self.pattern, self.form, p, q

    def for_jax(self, variant: str, begin: np.ndarray) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A compiled function, and its arguments where JAX has them at hand."""
        rows, dim = self._padded_rows(variant), self.data.directions.shape[1]
        state, begin = (_jax_step.padded(each, self.pattern, dim, *rows) for each in (self.state, begin))
        problem = _jax_step.problem(self.data, self.pattern, self.form, *rows)
        work = _jax_step.unrolled if variant == "unrolled" else _jax_step.rolled
        return work, (*jax.device_put((state, begin, np.float64(self.step))), problem)

    def from_jax(self, variant: str, state: Any) -> np.ndarray:
        """A state without the padding."""
        active, dim = self._padded_rows(variant)[0], self.data.directions.shape[1]
        return _jax_step.unpadded(np.asarray(state), self.pattern, dim, active)

    def _padded_rows(self, variant: str) -> tuple[int, int]:
        return _powers(*self.rows) if variant == "padded" else self.rows


def measure(quick: bool) -> dict[str, Any]:
    """Seconds to compile or load, microseconds per step, and the number of shapes real runs go through."""
    say("compilers: shapes of real runs")
    shapes = _shapes(3 if quick else 10)
    cases = _cases()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cases")
        file.write_bytes(pickle.dumps([(case, case.for_numba()[1][0]) for case in cases]))
        first_calls = {kind: _first_calls(kind, file, 1 if quick else 2) for kind in ("numba", "jax")}
    with ThreadpoolController().limit(limits=1, user_api="blas"):  # as in a run
        table = [_steps_of(case, 3 if quick else 20) for case in cases[1:]]
    for place, row in enumerate(table):
        for variant in VARIANTS:
            for kept in ("nothing_kept", "kept"):
                row["jax"][variant][f"{kept}_seconds"] = first_calls["jax"][kept][variant][place]
    numba = {
        f"{kept}_seconds": {"first_shape": seconds["first"], "largest_of_others": max(seconds["others"])}
        for kept, seconds in first_calls["numba"].items()
    }
    return {
        "settings": {"rounds": 3 if quick else 20, "processes": 1 if quick else 2, "agreement": AGREEMENT},
        "numba": numba,
        "cases": table,
        "shapes": shapes | {"jax_seconds_to_compile": _of_a_run(table, shapes)},
    }


def _of_a_run(table: list[dict[str, Any]], shapes: dict[str, Any]) -> dict[str, float]:
    """What JAX would spend on compiling the step alone in the run with seed 0, by the median over the cases."""
    each = {v: median(row["jax"][v]["nothing_kept_seconds"] for row in table) for v in VARIANTS}
    first = shapes["seeds"][0]
    return {v: seconds * first["padded" if v == "padded" else "pairs"] for v, seconds in each.items()}


# Shapes and states of real runs


def _watched(start: bf.Network, data: bf.Dataset, until: float) -> tuple[Counter[tuple[int, int]], list[Case]]:
    """Steps tried with each (active rows, passive rows), and the first moment of each."""
    steps: Counter[tuple[int, int]] = Counter()
    first: dict[tuple[int, int], Case] = {}
    advance = _steps.advance

    def watch(*arguments: Any) -> Any:
        state, _, step, *_, by_line, pattern, form = arguments[:11]
        # The loop changes sides and form in place.
        copies = Pattern(*(part.copy() for part in pattern)), Form(*(part.copy() for part in form))
        case = Case("", state.copy(), float(step), by_line, *copies)
        found = advance(*arguments)
        first.setdefault(case.rows, case)
        steps[case.rows] += int(found[8] + found[9])
        return found

    with mock.patch.object(_steps, "advance", watch):
        complete(bf.gradient_flow(start, data, until=until, method="exact", save=1))
    return steps, list(first.values())


def _shapes(seeds: int) -> dict[str, Any]:
    """How many different shapes runs on the six points go through."""
    data, runs, everything = bf.datasets.six_points(), [], set()
    for seed in range(seeds):
        steps, _ = _watched(bf.Network.init([2, WIDTH, 1], 0.0, SCALE, seed), data, UNTIL)
        everything |= set(steps)
        runs.append(
            {
                "seed": seed, "pairs": len(steps), "padded": len({_powers(*pair) for pair in steps}),
                "steps": sum(steps.values()), "steps_by_pair": [[*pair, count] for pair, count in steps.items()],
            }
        )  # fmt: skip
    return {
        "what": f"six points, width {WIDTH}, scale {SCALE:g}, until {UNTIL:g}",
        "seeds": runs,
        "pairs_of_all": len(everything),
        "padded_of_all": len({_powers(*pair) for pair in everything}),
    }


def _cases() -> list[Case]:
    """The first one is for warming up."""
    six = bf.datasets.six_points()
    figure_3 = bf.datasets.symmetric_gaussian(dim=20, pairs=1000, target="linear_plus_sine", seed=0)
    small = _watched(bf.Network.init([2, 20, 1], 0.0, SCALE, 0), six, UNTIL)[1]
    wide = _watched(bf.Network.init([2, WIDTH, 1], 0.0, SCALE, 0), six, UNTIL)[1]
    paper = _watched(bf.Network.init([20, 500, 1], 0.0, 1e-8, 0), figure_3, 40.0)[1]
    large = _watched(bf.Network.init([20, 40, 1], 0.0, 1e-2, 0), figure_3, 0.02)[1]
    return [
        small[0]._replace(name="warm-up"),
        _nearest(small, 8)._replace(name="six points, width 20, merged"),
        _nearest(wide, 22)._replace(name="six points, width 100, merged"),
        wide[0]._replace(name="six points, width 100, start"),
        paper[0]._replace(name="Figure 3, merged"),
        large[0]._replace(name="Figure 3's data, width 40, start"),
    ]


def _nearest(cases: list[Case], active: int) -> Case:
    return min(cases, key=lambda case: abs(case.rows[0] - active))


def _powers(*rows: int) -> tuple[int, int]:
    """Each number of rows padded to the next power of two."""
    active, passive = (1 << (count - 1).bit_length() if count else 0 for count in rows)
    return active, passive


# First calls, each in a new process


def _first_calls(kind: str, cases: Path, processes: int) -> dict[str, Any]:
    """Seconds of first calls with nothing kept on disk, and with what was kept; the least of some processes."""
    found: dict[str, list[Any]] = {"nothing_kept": [], "kept": []}
    for _ in range(processes):
        with tempfile.TemporaryDirectory() as folder:
            keep = {
                "NUMBA_CACHE_DIR": folder,
                "JAX_COMPILATION_CACHE_DIR": folder,
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            }
            for kept in found:
                say(f"compilers: first calls by {kind}, {kept.replace('_', ' ')}")
                code = f"from bench import _compilers; _compilers._first_calls_here({kind!r}, {str(cases)!r})"
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    cwd=Path(__file__).resolve().parents[1], env=os.environ | keep, stdout=subprocess.PIPE, check=True,
                )  # fmt: skip
                found[kept].append(json.loads(done.stdout))
    return {kept: jax.tree.map(lambda *seconds: min(seconds), *each) for kept, each in found.items()}


def _first_calls_here(kind: str, cases: str) -> None:
    """Print the seconds of the first call with each case as JSON."""
    loaded: list[tuple[Case, np.ndarray]] = pickle.loads(Path(cases).read_bytes())
    if kind == "numba":
        njit(lambda x: x + 1.0)(1.0)  # LLVM itself is no part of it
        seconds = []
        for case, begin in loaded:
            stages, (p, q) = np.zeros((STAGES + 4, len(begin))), np.empty((2, len(case.data.directions)))
            stages[0] = begin
            arguments = (case.state, stages, case.step, case.data, case.pattern, case.form, p, q)
            seconds.append(timed(lambda arguments=arguments: trial(*arguments))[0])
        print(json.dumps({"first": seconds[0], "others": seconds[1:]}))
        return
    found: dict[str, list[float]] = {}
    for variant in VARIANTS:
        found[variant] = []
        for case, begin in loaded:
            work, arguments = case.for_jax(variant, begin)
            call = timed(lambda work=work, arguments=arguments: jax.block_until_ready(work(*arguments)))
            found[variant].append(call[0])
    # What the first shape pays for once is no part of it.
    print(json.dumps({variant: seconds[1:] for variant, seconds in found.items()}))


# Steps, compiled


@njit
def _repeated(state, stages, step, data, pattern, form, p, q, times):
    for _ in range(times):
        state, _ = trial(state, stages, step, data, pattern, form, p, q)
        stages[0] = stages[STAGES]
    return state


def _steps_of(case: Case, rounds: int) -> dict[str, Any]:
    """Microseconds per step, called from Python one by one and in a compiled loop."""
    say(f"compilers: steps, {case.name}")
    numba = case.for_numba()
    begin, (end, _) = numba[1][0].copy(), trial(*numba)
    singly: dict[str, Callable[[], Any]] = {"numba": lambda: trial(*numba)}
    looped: dict[str, Callable[[int], Any]] = {
        "numba": lambda times: _repeated(case.state, numba[1], _LOOP * case.step, *numba[3:], times)
    }
    differences = {}
    for variant in VARIANTS:
        work, arguments = case.for_jax(variant, begin)
        singly[variant] = lambda work=work, arguments=arguments: jax.block_until_ready(work(*arguments))
        differences[variant] = _agreement(case, end, case.from_jax(variant, work(*arguments)[0]), variant)
        if variant != "padded":
            state, velocity, step, problem = arguments
            shorter = (work, state, velocity, _LOOP * step, problem)
            looped[variant] = lambda times, s=shorter: jax.block_until_ready(_jax_step.repeated(*s, times))
    alone = _fastest({name: _many(call) for name, call in singly.items()}, rounds)
    together = _fastest(looped, rounds)
    return {
        "case": case.name,
        "active_rows": case.rows[0], "passive_rows": case.rows[1],
        "lines": case.data.directions.shape[0], "dim": case.data.directions.shape[1],
        "by_form": bool(case.form.constant.size), "sliding": int(np.sum(case.pattern.rank > 0)),
        "numba": {"microseconds": alone["numba"], "microseconds_in_a_loop": together["numba"]},
        "jax": {
            variant: {
                "microseconds": alone[variant], "microseconds_in_a_loop": together.get(variant),
                "relative_difference": differences[variant],
            }
            for variant in VARIANTS
        },
    }  # fmt: skip


def _agreement(case: Case, ours: np.ndarray, theirs: np.ndarray, variant: str) -> float:
    difference = float(np.abs(theirs - ours).max() / np.abs(ours).max())
    if not difference <= AGREEMENT:
        raise ArithmeticError(f"{case.name}: the ends by Numba and JAX ({variant}) differ by {difference:.1e}.")
    return difference


def _many(call: Callable[[], Any]) -> Callable[[int], None]:
    def calls(times: int) -> None:
        for _ in range(times):
            call()

    return calls


def _fastest(contenders: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, float]:
    """Microseconds per repetition of each, in its fastest round."""
    times = {}
    for name, work in contenders.items():
        work(1)
        times[name] = max(1, round(_ROUND / (min(timed(lambda work=work: work(3))[0] for _ in range(3)) / 3)))
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(rounds):
        for name, work in contenders.items():
            seconds, _ = timed(lambda work=work, count=times[name]: work(count))
            best[name] = min(best[name], 1e6 * seconds / times[name])
    return {name: float(each) for name, each in best.items()}
