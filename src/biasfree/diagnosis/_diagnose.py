"""The title's question for the user's own data: will a bias-free ReLU network be effectively linear on it?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from biasfree import checks, theory
from biasfree.datasets import Columns, Dataset, as_dataset
from biasfree.diagnosis import _course, _forecast
from biasfree.diagnosis._baselines import MOST_LABELS, Baselines, baselines
from biasfree.diagnosis._deep import deep_check, deep_forecast, soonest
from biasfree.diagnosis._diagnosis import Diagnosis, Sampling
from biasfree.diagnosis._findings import MOST_ON_LINES, Check, Floor, checked, floor_of
from biasfree.diagnosis._forecast import Forecast
from biasfree.diagnosis._gain import Gain, better_since, gain, judged, stable_rate
from biasfree.diagnosis._reasons import Facts, advice, reasons
from biasfree.diagnosis._sampling import (
    LEAST_DRAWS,
    Draw,
    affordable,
    draws,
    part,
    standard_error,
    typical_asymmetry,
)
from biasfree.diagnosis._several_early import pulled
from biasfree.diagnosis._several_forecast import several_forecast
from biasfree.diagnosis._stages import Stage, stages
from biasfree.diagnosis._targets import LOSSES, decided
from biasfree.diagnosis._treatment import Treated, on_start, treat
from biasfree.diagnosis._watch import Watch
from biasfree.networks import Network


class _Setup(NamedTuple):
    """The network and the training that the question is about."""

    loss: str
    slope: float
    width: int
    depth: int
    init_scale: float
    seeds: int
    simulate: bool
    first_seed: int


@dataclass
class _Results:
    """What is finished so far; Ctrl-C or a spent budget leaves the rest as it is."""

    symmetry: theory.Symmetry
    linear: Baselines
    draws: list[Draw]
    floor: Floor | None = None
    asymmetry: theory.Asymmetry | None = None
    typical: list[float] = field(default_factory=list)
    forecasts: list[Forecast] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def diagnose(
    data: Any,
    loss: str | None = None,
    slope: float = 0.0,
    width: int = 100,
    depth: int = 2,
    init_scale: float = 1e-3,
    seeds: int = 3,
    *,
    first_seed: int = 0,
    target: Columns | None = None,
    drop: Columns = (),
    sep: str | None = None,
    decimal: str | None = None,
    categories: str | None = None,
    standardise: bool = False,
    holdout: float = 0.0,
    simulate: bool = True,
    budget: float | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Diagnosis:
    """Will a bias-free network be effectively linear on this data, why, until when, and what does it gain?

    Two layers are predicted by theory and then checked. Theory covers deeper networks where Condition 3 holds and a
    linear map fits the target; elsewhere the simulation is the answer. Ctrl-C and a spent budget keep what is finished.

    Args:
        data: a ``Dataset``, a DataFrame, a path, a pair (inputs, targets), or an array whose last column is the target.
        loss: "square", "logistic" for two classes (any two numbers), or "cross-entropy" for classes. By default the
            last for more than two classes (words, or few whole numbers of a table), and else the first.
        slope: α in [0, 1]; 0 is ReLU.
        width: of each hidden layer.
        depth: number of weight layers, at least 2.
        init_scale: norm of each layer at the start.
        seeds: number of starts.
        first_seed: of the first start; the others have the seeds that follow.
        target: the column to predict, of a table; several for several outputs.
        drop: columns to leave out, of a table.
        sep, decimal: of a text file; found out by default.
        categories: "onehot" turns columns of words into columns of 0 and 1.
        standardise: centre and scale the inputs first; changes the symmetry, and so the answer.
        holdout: share of the samples to judge on that nothing is fitted to.
        simulate: whether to check the prediction by simulating every start and its linear twin.
        budget: seconds after which no more is begun, and what is finished is the answer.
        progress: called with what is being done and the share of the work that is done.

    Raises:
        ValueError: bad data, a loss that the targets do not have, arguments out of range, a deep network that no
            theory covers without a simulation.

    >>> from biasfree import datasets
    >>> diagnose(datasets.symmetric_gaussian(dim=3, pairs=20, seed=0), seeds=1, simulate=False).verdict
    'linear'
    """
    watch = Watch(budget, progress)
    checks.one_of(loss or "square", LOSSES, "loss")
    sizes = checks.slope(slope), checks.count(width, "width"), checks.count(depth, "depth", least=2)
    small, seeds = checks.positive(init_scale, "init_scale"), checks.count(seeds, "seeds")
    first_seed = checks.count(first_seed, "first_seed", least=0)
    dataset = as_dataset(data, target, drop, sep=sep, decimal=decimal, categories=categories)
    dataset, chosen, notes = decided(dataset, loss, table=not isinstance(data, Dataset))
    setup = _Setup(chosen, *sizes, small, seeds, simulate, first_seed)
    treated = treat(dataset, chosen, standardise, holdout)
    results, stopped = _begun(setup, treated, watch), None
    widths = [treated.dataset.dim, *[setup.width] * (depth - 1), treated.dataset.outputs]
    starts = [Network.init(widths, setup.slope, init_scale, first_seed + number) for number in range(setup.seeds)]
    notes += (*treated.notes, *on_start(starts[0], treated.dataset, chosen))
    try:
        _structure(setup, treated.dataset, results, watch)
        if depth == 2:
            _two_layers(setup, treated.dataset, starts, results, watch)
        else:
            notes.append(_deep(setup, starts, results, watch))
    except KeyboardInterrupt:
        stopped = "budget" if watch.expired else "interrupted"
    settings = {
        **setup._asdict(), "standardise": standardise, "holdout": holdout, "budget": budget,
        "rows followed": results.draws[0].data.samples,
    }  # fmt: skip
    return _answer(setup, treated, results, tuple(notes), settings, stopped)


def _begun(setup: _Setup, treated: Treated, watch: Watch) -> _Results:
    """The symmetry, linear regression, and the rows that courses are followed on."""
    data = treated.dataset
    # Without these there is no answer at all, whatever the budget.
    watch.say("symmetry and linear regression", 0.0)
    symmetry = theory.symmetry(data)
    fits_all = setup.loss == "square" or data.samples <= MOST_LABELS
    learned = data if fits_all else part(data, np.random.default_rng(17).permutation(data.samples)[:MOST_LABELS])
    linear = baselines(learned, setup.loss, treated.held_out)
    rows = affordable(data.dim, [setup.width] * (setup.depth - 1))
    sampled = data.samples > 2 * rows
    count = max(setup.seeds, LEAST_DRAWS) if sampled else setup.seeds
    return _Results(symmetry, linear, draws(data, symmetry, setup.loss, rows, count, linear.plain.weights))


def _structure(setup: _Setup, data: Dataset, results: _Results, watch: Watch) -> None:
    """Asymmetry, and the least losses of any network."""
    watch.advance("asymmetry", 0.05)
    sampled = results.draws[0].fresh is not None
    if sampled:
        results.typical = [typical_asymmetry(pulled(draw.data, setup.loss)) for draw in results.draws]
    else:
        results.asymmetry = theory.asymmetry(pulled(data, setup.loss))
        results.typical = [results.asymmetry.correlation.typical]
    watch.advance("least losses", 0.1)
    results.floor = floor_of(data if data.samples <= MOST_ON_LINES else results.draws[0].data, setup.loss, setup.slope)


def _two_layers(setup: _Setup, data: Dataset, starts: list[Network], results: _Results, watch: Watch) -> None:
    bounds = results.asymmetry
    even = results.symmetry.holds or (
        bounds is not None and max(bounds.correlation.upper, bounds.covariance.upper) < 1e-9
    )
    for number, draw in enumerate(results.draws):
        start = starts[number % setup.seeds]
        watch.advance(f"predicting start {number + 1} of {len(results.draws)}", 0.1 + 0.4 * number / len(results.draws))
        learned, levels = draw.data, draw.levels
        if even and setup.loss == "square":
            # Moments are all it takes.
            learned, levels = (
                data,
                _course.Levels(
                    _course.mean_loss(setup.loss, 0.0 * data.targets, data.targets), results.linear.plain.loss
                ),
            )
        predict = _forecast.forecast if data.outputs == 1 else several_forecast
        results.forecasts.append(predict(start, learned, setup.loss, even, levels, draw.fresh, watch.look))
    for number, start in enumerate(starts if setup.simulate else ()):
        progress, seed = _progress(watch, number, setup.seeds), setup.first_seed + number
        draw, forecast = results.draws[number], results.forecasts[number]
        results.checks.append(checked(start, draw, setup.loss, forecast, seed, progress))


def _deep(setup: _Setup, starts: list[Network], results: _Results, watch: Watch) -> str:
    draw = results.draws[0]
    known = [deep_forecast(start, draw.data, setup.loss, results.symmetry, draw.levels) for start in starts]
    if known[0] is None and not setup.simulate:
        raise ValueError(
            f"nothing is predicted for {setup.depth} layers on this data: theory covers deep networks only where "
            "inputs are even and a linear map fits the target. Let it simulate (leave --no-simulate out), or ask "
            "for --depth 2."
        )
    results.forecasts = [each for each in known if each is not None]
    for number, start in enumerate(starts if setup.simulate else ()):
        progress, seed = _progress(watch, number, setup.seeds), setup.first_seed + number
        check, measured = deep_check(start, results.draws[number], setup.loss, known[number], seed, progress)
        results.checks.append(check)
        if known[number] is None:
            results.forecasts.append(measured)
    return (
        f"At depth {setup.depth} no loss drops before t ≈ {soonest(starts[0], draw.data, setup.loss):.3g}, to leading "
        "order; theory of departures is of two layers, so what is said of them here is a measurement."
    )


def _progress(watch: Watch, number: int, count: int) -> Callable[[float], None]:
    def report(share: float) -> None:
        watch.advance(f"simulating start {number + 1} of {count}", 0.5 + 0.5 * (number + share) / count)

    report(0.0)
    return report


def _answer(
    setup: _Setup,
    treated: Treated,
    results: _Results,
    notes: tuple[str, ...],
    settings: dict[str, Any],
    stopped: str | None,
) -> Diagnosis:
    data, forecasts = treated.dataset, results.forecasts
    verdict = _commonest([f.verdict for f in forecasts]) if forecasts else _course.UNDECIDED
    lead = next((k for k, f in enumerate(forecasts) if f.verdict == verdict), None)
    departure = _forecast.middle([f.departure_time for f in forecasts if f.verdict == verdict])
    first = _course.mean_loss(setup.loss, 0.0 * data.targets, data.targets)
    gained = None if lead is None else _gained(setup, treated, results, lead, first)
    facts = Facts(
        data, setup.loss, _course.Levels(first, results.linear.plain.loss), results.symmetry, results.asymmetry,
        results.typical, results.linear, _explained(results, lead, verdict), verdict,
        max((f.nonlinearity for f in forecasts), default=0.0), departure,
        0.0 if gained is None else gained.over_linear,
    )  # fmt: skip
    why = reasons(facts) if lead is not None else ()
    if not np.any(np.abs(pulled(data, setup.loss).correlation) > 1e-12 * np.sqrt(np.mean(data.targets**2))):
        notes = (*notes, "Inputs and target are uncorrelated (β = 0): a linear network learns nothing here.")
    return Diagnosis(
        verdict=verdict,
        count=None if lead is None else forecasts[lead].reading.count,
        departure_time=departure,
        escape_time=_forecast.middle([f.escape_time for f in forecasts]),
        symmetry=results.symmetry,
        asymmetry=results.asymmetry,
        gathering=forecasts[0].gathering if forecasts else (),
        separable=None if setup.loss == "square" else results.linear.plain.separates,
        baselines=results.linear,
        floor=results.floor,
        gain=gained,
        reasons=why,
        advice=advice(facts, why, gained, setup.init_scale) if lead is not None else (),
        forecasts=tuple(forecasts),
        checks=tuple(results.checks),
        sampling=_sampling(setup, treated, results),
        notes=notes,
        dataset=data,
        held_out=treated.held_out,
        settings=settings,
        stopped=stopped,
        stages=_class_stages(treated, results, lead),
    )


def _class_stages(treated: Treated, results: _Results, lead: int | None) -> tuple[Stage, ...]:
    """Confusions of the start that stands for the verdict, as predicted, or else simulated."""
    if lead is None or not treated.dataset.classes:
        return ()
    course = results.forecasts[lead].course
    if course is None and lead < len(results.checks):
        course = results.checks[lead].course
    return () if course is None else stages(course, treated.dataset, treated.held_out)


def _network(results: _Results, lead: int | None) -> Network | None:
    """The network at the end of a course, the predicted one before the simulated one."""
    if lead is None:
        return None
    last = results.forecasts[lead].last
    if isinstance(last, Network):
        return last
    return results.checks[lead].course.networks[-1] if lead < len(results.checks) else None


def _explained(results: _Results, lead: int | None, verdict: str) -> Network | None:
    """The network that reasons are about: of one that leaves the linear solution, while it sits there."""
    if lead is not None and verdict == "linear until" and results.forecasts[lead].sitting is not None:
        return results.forecasts[lead].sitting
    return _network(results, lead)


def _gained(setup: _Setup, treated: Treated, results: _Results, lead: int, first: float) -> Gain | None:
    """Of the start that stands for the verdict, at the last time that was predicted, or else simulated."""
    forecast, data = results.forecasts[lead], treated.dataset
    last, time, how = forecast.last, forecast.until, "simulated" if forecast.how == "simulation" else "predicted"
    times, losses = forecast.times, forecast.losses
    if last is None:
        if lead >= len(results.checks):
            return None
        check = results.checks[lead]
        last, time, how = check.course.networks[-1], check.until, "simulated"
        times, losses = check.times, check.losses
    network = judged(last, time, how, data, setup.loss, treated.held_out)
    there = _network(results, lead)
    rate = None if there is None else stable_rate(there, results.draws[0].data.inputs)
    return gain(network, first, results.linear, times, losses, rate)


def _sampling(setup: _Setup, treated: Treated, results: _Results) -> Sampling | None:
    """Standard errors over the draws; None where everything was looked at."""
    if results.draws[0].fresh is None:
        return None
    forecasts = results.forecasts
    ends = [
        judged(f.last, f.until, "", treated.dataset, setup.loss, None).loss for f in forecasts if f.last is not None
    ]
    least = []
    if treated.dataset.samples > MOST_ON_LINES and results.floor is not None:
        least = [floor_of(draw.data, setup.loss, setup.slope).two_layer for draw in results.draws]
    first = _course.mean_loss(setup.loss, 0.0 * treated.dataset.targets, treated.dataset.targets)
    since = [better_since(first, results.linear, f.times, f.losses) for f in forecasts]
    return Sampling(
        rows=results.draws[0].data.samples,
        draws=len(results.draws),
        errors={
            "escape_time": standard_error([f.escape_time for f in forecasts]),
            "departure_time": standard_error([f.departure_time for f in forecasts]),
            "on_samples": standard_error([f.reading.on_samples.nonlinearity for f in forecasts]),
            "as_function": standard_error([f.reading.as_function.nonlinearity for f in forecasts]),
            "loss": standard_error(ends),
            "since": standard_error([without for without, _ in since]),
            "since_intercept": standard_error([beside for _, beside in since]),
            "asymmetry": standard_error(results.typical),
            "least_loss": standard_error(least),
        },
    )


def _commonest(verdicts: list[str]) -> str:
    """Most starts' verdict; of a tie, the one furthest from linear. A single start that leaves makes it an "until"."""
    if set(verdicts) == {"linear", "linear until"}:
        return "linear until"
    return max(_course.VERDICTS, key=lambda v: (verdicts.count(v), _course.VERDICTS.index(v)))
