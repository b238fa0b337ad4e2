"""The title's question for the user's own data: will a bias-free ReLU network be effectively linear on it?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import checks, files, theory
from biasfree.answers import _forecast
from biasfree.answers._findings import Check, Floor, Solution, checked, floor_of, solution_of
from biasfree.answers._forecast import Forecast
from biasfree.answers._treatment import treat
from biasfree.datasets import Dataset
from biasfree.networks import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS = ("linear", "linear until", "several linear networks", "nonlinear")


@dataclass(frozen=True)
class Diagnosis:
    """The answer, what it rests on, and what was checked. Print it.

    Attributes:
        verdict: "linear", "linear until", "several linear networks" or "nonlinear".
        count: how many linear networks; None where that is no description.
        departure_time: when the network leaves the linear solution; None if it does not, as far as is foretold.
        escape_time: when half of the linear solution's gain is made.
        symmetry, asymmetry: of the data, Condition 3.
        gathering: where neurons gather at first; empty where there are too many lines to follow all.
        solution, floor: what is learned, and what can never be.
        forecasts: one per seed.
        checks: the simulations, one per seed; empty if none was asked for.
        notes: on the data and what was done to them.
    """

    verdict: str
    count: int | None
    departure_time: float | None
    escape_time: float | None
    symmetry: theory.Symmetry
    asymmetry: theory.Asymmetry
    gathering: tuple[theory.Gathering, ...]
    separable: bool | None
    solution: Solution
    floor: Floor
    forecasts: tuple[Forecast, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    dataset: Dataset
    settings: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return files.plain(
            {
                "verdict": self.verdict,
                "count": self.count,
                "departure_time": self.departure_time,
                "escape_time": self.escape_time,
                "data": {"name": self.dataset.name, "samples": self.dataset.samples, "dim": self.dataset.dim},
                "symmetry": {"paired_share": self.symmetry.paired_share, "odd_share": self.symmetry.odd_share},
                "asymmetry": {
                    "correlation": self.asymmetry.correlation.lower,
                    "covariance": self.asymmetry.covariance.lower,
                    "typical_correlation": self.asymmetry.correlation.typical,
                    "typical_covariance": self.asymmetry.covariance.typical,
                },
                "nonlinearity": max(f.nonlinearity for f in self.forecasts),
                "gathering": [
                    {"direction": g.direction, "sign": g.sign, "rate": g.rate, "basin": g.basin} for g in self.gathering
                ],
                "separable": self.separable,
                "solution": {
                    "kind": self.solution.kind, "loss": self.solution.loss, "accuracy": self.solution.accuracy,
                    "weights": self.solution.weights,
                },
                "best_possible_loss": {
                    "two_layer": self.floor.two_layer, "deep": self.floor.deep, "with_bias": self.floor.with_bias,
                    "payers": self.floor.payers[:10],
                },
                "prediction": self.forecasts[0].how,
                "check": [
                    {
                        "seed": c.seed, "predicted": c.predicted, "measured": c.measured, "until": c.until,
                        "status": c.status,
                    }
                    for c in self.checks
                ],
                "thresholds": {
                    "linear": _forecast.LINEAR, "below": _forecast.BELOW, "sits": _forecast.SITS,
                    "apart": _forecast.APART,
                },
                "settings": self.settings,
                "notes": self.notes,
            }
        )  # fmt: skip

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        network = f"a two-layer bias-free network of slope {self.settings['slope']:g}"
        bent = max(f.nonlinearity for f in self.forecasts)
        if self.verdict == "linear":
            if self.symmetry.holds or self.settings["slope"] == 1:
                why = "it is equivalent to a linear network throughout"
            else:
                why = f"its outputs stay linear up to {bent:.1%}"
            return f"linear: {network} will be linear on this data; {why}"
        if self.verdict == "linear until":
            leaving = sum(f.departure_time is not None for f in self.forecasts)
            some = "" if leaving == len(self.forecasts) else f" ({leaving} of {len(self.forecasts)} starts leave)"
            return (
                f"linear until t ≈ {self.departure_time:.3g}: {network} sits at the linear solution, linear up to "
                f"{bent:.1%}, and then leaves it{some}"
            )
        if self.verdict == "several linear networks":
            return f"several linear networks: {network} acts as {self.count}, learned one after the other"
        return f"nonlinear: {network} is not linear on this data at any time; its outputs bend by {bent:.0%} or more"

    def __str__(self) -> str:
        """One screen: verdict, why, what will happen, what never can, the check."""
        parts = [f"{title}\n" + "\n".join(f"  {line}" for line in told) for title, told in self.sections().items()]
        return "\n".join([str(self.dataset), self.headline, "", *parts])

    def sections(self) -> dict[str, list[str]]:
        """Title → sentences, in the order of the questions one asks."""
        found = {
            "Why": self._why(),
            "What will happen": self._course(),
            "What can never happen": self._floor(),
            "The check": self._check(),
            "Notes": list(self.notes),
        }
        return {title: told for title, told in found.items() if told}

    def _why(self) -> list[str]:
        found = [
            str(self.symmetry),
            f"half-space asymmetry of the correlation, max ‖B(r)‖/‖β‖: {self.asymmetry.correlation}",
            f"half-space asymmetry of the inputs, max ‖Q(r)‖/‖Σ‖: {self.asymmetry.covariance}",
        ]
        if self.gathering:
            shown = "; ".join(str(g) for g in self.gathering[:4])
            more = f"; and {len(self.gathering) - 4} more" if len(self.gathering) > 4 else ""
            found.append(f"neurons gather at {shown}{more}")
        if self.separable is not None:
            found.append(f"labels {'' if self.separable else 'not '}separable by a hyperplane through the origin")
        found.append(
            f"rule: linear while outputs are, up to {_forecast.LINEAR:.0%} of their size, and the loss is not below "
            f"every linear map's by {_forecast.BELOW:.0%} of the first loss; sitting at the linear solution means "
            f"leaving it after {_forecast.SITS:g} escape times or later; several networks if they overlap by less "
            f"than {_forecast.APART:.0%}"
        )
        return found

    def _course(self) -> list[str]:
        escape = "never" if self.escape_time is None else f"t ≈ {self.escape_time:.3g}"
        course = [f"escape from the small start at {escape}; foretold by {self.forecasts[0].how}"]
        course.append(f"linear solution: {self.solution}")
        levels = plateaus(self.forecasts[0])
        if levels:
            more = f"; and {len(levels) - 4} more" if len(levels) > 4 else ""
            course.append("plateaus: " + "; ".join(f"{loss:.4g} from t ≈ {t:.3g}" for t, loss in levels[:4]) + more)
        return course

    def _floor(self) -> list[str]:
        floor = self.floor
        found = [
            f"no two-layer bias-free network goes below loss {floor.two_layer:.4g}, no deep one below "
            f"{floor.deep:.4g}; with biases: {floor.with_bias:.4g}"
        ]
        scale = theory.linear_loss(np.zeros(self.dataset.dim), self.dataset, self.settings["loss"])
        if floor.two_layer - floor.with_bias > 0.01 * float(scale):
            samples = ", ".join(map(str, floor.payers[:5])) + (", …" if len(floor.payers) > 5 else "")
            found.append(
                f"removing the biases costs {floor.two_layer - floor.with_bias:.4g} at least; samples that pay most: "
                f"{samples}"
            )
        return found

    def _check(self) -> list[str]:
        def told(value: float | None) -> str:
            return "—" if value is None or not np.isfinite(value) else f"{value:.3g}"

        return [
            f"seed {c.seed}: escape {told(c.predicted['escape_time'])} foretold, {told(c.measured['escape_time'])} "
            f"measured; departure {told(c.predicted['departure_time'])} foretold, "
            f"{told(c.measured['departure_time'])} measured; loss at t = {c.until:.3g}: "
            f"{c.measured['final_loss']:.4g}, linear twin {c.measured['linear_loss']:.4g}"
            for c in self.checks
        ]

    def plot(self) -> "Figure":
        """The learning curves, foretold and simulated, beside the levels that matter."""
        from biasfree.report import plot_courses

        return plot_courses(
            [(c.times, c.losses, c.linear_losses) for c in self.checks],
            [(f.times, f.losses) for f in self.forecasts],
            {self.solution.kind: self.solution.loss, "least of two layers": self.floor.two_layer},
            self.departure_time if self.verdict == "linear until" else None,
            self.settings["loss"],
        )


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
) -> Diagnosis:
    """Will a bias-free network be effectively linear on this data, why, until when, and what can it never learn?

    Args:
        dataset: scalar targets.
        loss: "square", or "logistic" for two classes (any two numbers).
        slope: α in [0, 1]; 0 is ReLU.
        width: of the hidden layer.
        depth: 2; the theory of departures is about two layers.
        init_scale: norm of each layer at the start.
        seeds: number of starts.
        simulate: whether to check the forecast by simulating every start and its linear twin.
        standardise: centre and scale the inputs first; changes the symmetry, and so the answer.

    Raises:
        ValueError: several outputs, labels of more than two kinds, another depth, arguments out of range.

    >>> from biasfree import datasets
    >>> diagnose(datasets.symmetric_gaussian(dim=3, pairs=20, seed=0), seeds=1, simulate=False).verdict
    'linear'
    """
    checks.one_of(loss, ("square", "logistic"), "loss")
    if checks.count(depth, "depth") != 2:
        raise ValueError(
            f"depth must be 2, got {depth}: departures are foretold for two layers only. For deeper networks simulate "
            "(biasfree simulate --depth) and inspect the result."
        )
    treated = treat(dataset, loss, standardise)
    data, notes = treated.dataset, list(treated.notes)
    asymmetry = theory.asymmetry(data)
    solution = solution_of(data, loss)
    levels = _forecast.Levels(float(theory.linear_loss(np.zeros(data.dim), data, loss)), solution.loss)
    starts = [
        Network.init([data.dim, width, 1], slope, init_scale, seed) for seed in range(checks.count(seeds, "seeds"))
    ]
    if np.linalg.norm(data.correlation) <= 1e-12 * np.sqrt(np.mean(data.targets**2)):
        notes.append("Inputs and target are uncorrelated (β = 0): a linear network learns nothing here.")
    forecasts = tuple(_forecast.forecast(start, data, loss, asymmetry, levels) for start in starts)
    verdict = _commonest([f.verdict for f in forecasts])
    gathering = theory.gather(theory.early_flow(starts[0], data, loss)) if forecasts[0].how == "reduced network" else ()
    pairs = zip(starts, forecasts, strict=True) if simulate else ()
    done = tuple(checked(start, data, loss, f, levels, seed) for seed, (start, f) in enumerate(pairs))
    return Diagnosis(
        verdict=verdict,
        count=next((f.count for f in forecasts if f.verdict == verdict), None),
        departure_time=_forecast.middle([f.departure_time for f in forecasts if f.verdict == verdict]),
        escape_time=_forecast.middle([f.escape_time for f in forecasts]),
        symmetry=theory.symmetry(data),
        asymmetry=asymmetry,
        gathering=gathering,
        separable=None if loss == "square" else bool(theory.separability(data)),
        solution=solution,
        floor=floor_of(data, loss, slope),
        forecasts=forecasts,
        checks=done,
        notes=tuple(notes),
        dataset=data,
        settings={
            "loss": loss, "slope": slope, "width": width, "depth": depth, "init_scale": init_scale, "seeds": seeds,
            "standardise": standardise,
        },
    )  # fmt: skip


def plateaus(course: Forecast) -> list[tuple[float, float]]:
    """Where the foretold loss rests: (since when, level) for stretches of at least a fifth of an escape time."""
    if not len(course.losses):
        return []
    times, curve = course.times, course.losses
    fall = 0.005 * (curve[0] - curve.min())
    found: list[tuple[float, float]] = []
    k = 0
    while k < len(times) - 1:
        end = int(np.searchsorted(-curve, -(curve[k] - fall), side="right"))
        end = min(end, len(times)) - 1
        rests = times[k] > 0 and times[end] - times[k] >= 0.2 * min(course.escape_time, times[-1])
        if rests and (not found or found[-1][1] - curve[k] > 2 * fall):
            found.append((float(times[k]), float(curve[k])))
        k = max(end, k + 1)
    return found


def _commonest(verdicts: list[str]) -> str:
    """Most starts' verdict; of a tie, the one furthest from linear. A single start that leaves makes it an "until"."""
    if set(verdicts) == {"linear", "linear until"}:
        return "linear until"
    return max(VERDICTS, key=lambda v: (verdicts.count(v), VERDICTS.index(v)))
