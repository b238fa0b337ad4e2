"""The title's question for the user's own data: will a bias-free ReLU network be effectively linear on it?"""

from collections.abc import Callable

import numpy as np

from biasfree import checks, theory
from biasfree.datasets import Dataset
from biasfree.diagnosis import _course, _forecast
from biasfree.diagnosis._deep import deep_check, deep_forecast, soonest
from biasfree.diagnosis._diagnosis import Diagnosis
from biasfree.diagnosis._findings import Check, checked, floor_of, solution_of
from biasfree.diagnosis._forecast import Forecast
from biasfree.diagnosis._reduction import seen
from biasfree.diagnosis._treatment import treat
from biasfree.networks import Network


def diagnose(
    dataset: Dataset,
    loss: str = "square",
    slope: float = 0.0,
    width: int = 100,
    depth: int = 2,
    init_scale: float = 1e-3,
    seeds: int = 3,
    *,
    simulate: bool = True,
    standardise: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Diagnosis:
    """Will a bias-free network be effectively linear on this data, why, until when, and what can it never learn?

    Two layers are foretold by theory and then checked. Of deeper networks theory speaks where Condition 3 holds and a
    linear map fits the target; elsewhere the simulation is the answer. Ctrl-C during the simulations ends them and
    keeps what was found.

    Args:
        dataset: scalar targets.
        loss: "square", or "logistic" for two classes (any two numbers).
        slope: α in [0, 1]; 0 is ReLU.
        width: of each hidden layer.
        depth: number of weight layers, at least 2.
        init_scale: norm of each layer at the start.
        seeds: number of starts.
        simulate: whether to check the forecast by simulating every start and its linear twin.
        standardise: centre and scale the inputs first; changes the symmetry, and so the answer.
        progress: called with what is being done and the share of the work that is done.

    Raises:
        ValueError: several outputs, labels of more than two kinds, arguments out of range, a deep network that no
            theory speaks of without a simulation.

    >>> from biasfree import datasets
    >>> diagnose(datasets.symmetric_gaussian(dim=3, pairs=20, seed=0), seeds=1, simulate=False).verdict
    'linear'
    """
    checks.one_of(loss, ("square", "logistic"), "loss")
    depth, width = checks.count(depth, "depth", least=2), checks.count(width, "width")
    count = checks.count(seeds, "seeds")
    treated = treat(dataset, loss, standardise)
    data, notes = treated.dataset, list(treated.notes)
    starts = [Network.init([data.dim, *[width] * (depth - 1), 1], slope, init_scale, seed) for seed in range(count)]
    tell = progress or (lambda what, share: None)
    tell("symmetry and least losses", 0.0)
    symmetry, asymmetry = theory.symmetry(data), theory.asymmetry(data)
    solution = solution_of(data, loss)
    levels = _course.Levels(float(theory.linear_loss(np.zeros(data.dim), data, loss)), solution.loss)
    floor = floor_of(data, loss, slope)
    if np.linalg.norm(data.correlation) <= 1e-12 * np.sqrt(np.mean(data.targets**2)):
        notes.append("Inputs and target are uncorrelated (β = 0): a linear network learns nothing here.")
    if depth == 2:
        if (looked_at := seen(data).samples) < data.samples:
            notes.append(f"The forecast looks at {looked_at:,} of the {data.samples:,} samples, drawn at random.")
        forecasts = _two_layers(starts, data, loss, asymmetry, levels, tell)
    else:
        known = [deep_forecast(start, data, loss, symmetry, levels) for start in starts]
        if known[0] is None and not simulate:
            raise ValueError(
                f"nothing is foretold for {depth} layers on this data: theory speaks of deep networks only where "
                "inputs are even and a linear map fits the target. Let it simulate (leave --no-simulate out), or ask "
                "for --depth 2."
            )
        notes.append(
            f"At depth {depth} no loss drops before t ≈ {soonest(starts[0], data, loss):.3g}, to leading order; theory "
            "of departures is of two layers, so what is said of them here is measured."
        )
        forecasts = [f for f in known if f is not None]
    done: list[Check] = []
    interrupted = False
    try:
        for seed, start in enumerate(starts if simulate else ()):

            def part(share: float, seed: int = seed) -> None:
                tell(f"simulating start {seed + 1} of {count}", (seed + share) / count)

            part(0.0)
            if depth == 2:
                done.append(checked(start, data, loss, forecasts[seed], levels, seed, part))
            else:
                check, measured = deep_check(start, data, loss, known[seed], levels, seed, part)
                done.append(check)
                if known[seed] is None:
                    forecasts.append(measured)
    except KeyboardInterrupt:
        if not forecasts:
            raise
        interrupted = True
    verdict = _commonest([f.verdict for f in forecasts])
    return Diagnosis(
        verdict=verdict,
        count=next((f.count for f in forecasts if f.verdict == verdict), None),
        departure_time=_forecast.middle([f.departure_time for f in forecasts if f.verdict == verdict]),
        escape_time=_forecast.middle([f.escape_time for f in forecasts]),
        symmetry=symmetry,
        asymmetry=asymmetry,
        gathering=forecasts[0].gathering,
        separable=None if loss == "square" else bool(theory.separability(data)),
        solution=solution,
        floor=floor,
        forecasts=tuple(forecasts),
        checks=tuple(done),
        notes=tuple(notes),
        dataset=data,
        settings={
            "loss": loss, "slope": slope, "width": width, "depth": depth, "init_scale": init_scale, "seeds": count,
            "standardise": standardise,
        },
        interrupted=interrupted,
    )  # fmt: skip


def _two_layers(
    starts: list[Network],
    data: Dataset,
    loss: str,
    asymmetry: theory.Asymmetry,
    levels: _course.Levels,
    tell: Callable[[str, float], None],
) -> list[Forecast]:
    found = []
    for number, start in enumerate(starts):
        tell(f"foretelling start {number + 1} of {len(starts)}", number / len(starts))
        found.append(_forecast.forecast(start, data, loss, asymmetry, levels))
    return found


def _commonest(verdicts: list[str]) -> str:
    """Most starts' verdict; of a tie, the one furthest from linear. A single start that leaves makes it an "until"."""
    if set(verdicts) == {"linear", "linear until"}:
        return "linear until"
    return max(_course.VERDICTS, key=lambda v: (verdicts.count(v), _course.VERDICTS.index(v)))
