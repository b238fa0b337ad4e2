"""The answer to the title's question for a user's own data: its numbers, and its verdict in a sentence."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from biasfree import files, theory
from biasfree.answer import Answer, Section
from biasfree.datasets import Dataset
from biasfree.diagnosis import _course
from biasfree.diagnosis._baselines import Baselines, Linear
from biasfree.diagnosis._findings import Check, Floor
from biasfree.diagnosis._forecast import Forecast
from biasfree.diagnosis._gain import Gain
from biasfree.diagnosis._reasons import Reason
from biasfree.diagnosis._stages import Stage
from biasfree.measure._cutting import Cut, cut

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory


@dataclass(frozen=True)
class Sampling:
    """How a large table was looked at.

    Attributes:
        rows: how many each start learned, drawn at random; as many others judged it.
        draws: how many.
        errors: standard error of each number that rests on draws, by its name; None where they do not give one.
    """

    rows: int
    draws: int
    errors: Mapping[str, float | None]

    def after(self, name: str, factor: float = 1.0) -> str:
        """ " ± error" of a number, or that one draw alone gave it."""
        error = self.errors.get(name)
        return " (by one draw alone)" if error is None else f" ± {factor * error:.2g}"


@dataclass(frozen=True, repr=False)
class Diagnosis(Answer):
    """The answer, what it rests on, and what was checked. Print it.

    Attributes:
        verdict: "linear", "linear until", "several linear networks" or "nonlinear" on the samples; "undecided" if the
            work ended before there was a prediction.
        count: how many linear networks; None where that is no description.
        departure_time: when the network leaves the linear solution; None if it does not, as far as is predicted.
        escape_time: when half of the linear solution's gain is made.
        symmetry, asymmetry: of the data, Condition 3; the latter None where draws of the data were looked at.
        gathering: where neurons gather at first; empty where there are too many lines to follow all.
        separable: of labels, by a hyperplane through the origin; None for numbers.
        baselines: linear regression, with and without intercept.
        floor: what can never be reached.
        gain: of the network over linear regression.
        reasons: for the verdict, the first explains most.
        advice: what one can do.
        forecasts: one per start, or draw.
        checks: the simulations, one per start; empty if none was asked for.
        sampling: errors of what rests on draws; None where everything was looked at.
        notes: on the data and what was done to them.
        dataset, held_out, settings: what was diagnosed, and how.
        stopped: "interrupted" by Ctrl-C, by the "budget", or None.
        stages: which classes are taken for which on every plateau of the predicted course, and at its end; empty for
            numbers.
    """

    verdict: str
    count: int | None
    departure_time: float | None
    escape_time: float | None
    symmetry: theory.Symmetry
    asymmetry: theory.Asymmetry | None
    gathering: tuple[theory.Gathering, ...]
    separable: bool | None
    baselines: Baselines
    floor: Floor | None
    gain: Gain | None
    reasons: tuple[Reason, ...]
    advice: tuple[str, ...]
    forecasts: tuple[Forecast, ...]
    checks: tuple[Check, ...]
    sampling: Sampling | None
    notes: tuple[str, ...]
    dataset: Dataset
    held_out: Dataset | None
    settings: Mapping[str, Any]
    stopped: str | None = None
    stages: tuple[Stage, ...] = ()

    @property
    def solution(self) -> Linear:
        """Where a linear network ends, and a ReLU network while it is linear."""
        return self.baselines.plain

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the work."""
        return self.stopped == "interrupted"

    @property
    def trajectory(self) -> "Trajectory | None":
        """The first simulation, None if there is none: ``biasfree.report.animate`` shows it."""
        return self.checks[0].run if self.checks else None

    def bend(self, question: str) -> float:
        """The largest nonlinearity of any start, "on_samples" or "as_function", while the linear solution is sat at."""
        return max((getattr(f.reading, question).nonlinearity for f in self.forecasts), default=0.0)

    @property
    def title(self) -> str:
        """What was asked."""
        return f"Will a bias-free network be linear on these data? {self.dataset}"

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        lead = next((f for f in self.forecasts if f.verdict == self.verdict), None)
        other = None if lead is None else lead.reading.decides.otherwise
        close = "" if other is None else f"; CLOSE TO A THRESHOLD: a tenth lower or higher would make it {other}"
        return self._sentence() + close

    def _sentence(self) -> str:
        network = self.network_name
        if self.verdict == _course.UNDECIDED:
            return f"undecided: the work ended before the course of {network} was predicted; what was finished is below"
        lead = next(f for f in self.forecasts if f.verdict == self.verdict)
        samples, function = (f"{self.bend(name):.2g}" for name in ("on_samples", "as_function"))
        bent, passing = f"{100 * float(samples):.3g}%", lead.reading.decides.passing
        error = ""
        if self.sampling is not None:
            error = self.sampling.after("departure_time")
            bent = f"{100 * float(samples):.3g}{self.sampling.after('on_samples', 100)}%"
        if self.verdict == "linear":
            sentence = f"linear: {network} will be linear on these samples, "
            exact = lead.how in ("exact", "Appendix F")
            limit = "up to rounding" if float(samples) < 1e-9 else f"up to {bent} of its outputs"
            sentence += "equivalent to a linear network throughout" if exact else limit
        elif self.verdict == "linear until":
            leaving = sum(f.departure_time is not None for f in self.forecasts)
            some = "" if leaving == len(self.forecasts) else f" ({leaving} of {len(self.forecasts)} starts leave)"
            sentence = (
                f"linear until t ≈ {self.departure_time:.3g}{error}: {network} sits at the linear solution, linear on "
                f"these samples up to {bent} of its outputs, and then leaves it{some}"
            )
        elif self.verdict == "several linear networks":
            return f"several linear networks: {network} acts as {self.count}, each on samples of its own"
        else:
            where = f"on the samples its outputs bend by up to {bent}"
            if lead.reading.void:
                where = f"at x and −x its outputs bend by up to {float(function):.0%} (on so few samples nothing bends)"
            return f"nonlinear: {network} does not sit at the linear solution of these data; {where}"
        if float(function) > _course.LINEAR >= float(samples):
            sentence += (
                f" (not as a function: at mirror images −x, which these data lack, it bends by {float(function):.0%})"
            )
        settled = lead.reading.decides.settled_time
        while_what = "while it escapes" if settled is None else f"until t ≈ {settled:.3g}"
        return sentence + (f"; in passing, {while_what}, it bends by up to {passing:.0%}" if passing >= 0.01 else "")

    @property
    def network_name(self) -> str:
        """What is diagnosed, in words."""
        kind = {0: "ReLU", 1: "linear"}.get(self.settings["slope"], f"leaky ReLU (slope {self.settings['slope']:g})")
        return f"a bias-free {kind} network of {self.settings['depth']} layers"

    @property
    def warning(self) -> str | None:
        """Where simulation and prediction disagree."""
        return self.contradiction

    @property
    def contradiction(self) -> str | None:
        """In what the simulations differ from the prediction; None if they agree, or there are none."""
        other = [c for c in self.checks if not c.agrees]
        if other:
            differing = ", ".join(
                f"seed {c.seed} {c.measured['verdict']} (predicted {c.predicted['verdict']}; it bends by "
                f"{c.measured['nonlinearity']:.1%}, predicted {c.predicted['nonlinearity']:.1%}"
                f"{_closeness(c)})"
                for c in other
            )
            starts = f"{len(other)} of {len(self.checks)} starts"
            return f"THE SIMULATION DISAGREES with the prediction for {starts}: {differing}"
        late = [c for c in self.checks if c.predicted["verdict"] == "linear until" and not _near(c)]
        if late:
            differing = ", ".join(
                f"seed {c.seed} at t ≈ {c.measured['departure_time'] or float('nan'):.3g}, predicted "
                f"{c.predicted['departure_time'] or float('nan'):.3g}"
                for c in late
            )
            return f"THE SIMULATION LEAVES AT ANOTHER TIME than predicted: {differing}"
        return None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The settings."""
        return self.settings

    @property
    def sections(self) -> tuple[Section, ...]:
        """In the order of the questions one asks."""
        from biasfree.diagnosis._sentences import sections

        return sections(self)

    @property
    def appendix(self) -> tuple[Section, ...]:
        """The plateaus of the first simulation."""
        from biasfree.diagnosis._sentences import appendix

        return appendix(self)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        floor, gain, asymmetry = self.floor, self.gain, self.asymmetry
        first = self.forecasts[0] if self.forecasts else None
        return files.plain(
            {
                "title": self.title,
                "verdict": self.verdict,
                "headline": self.headline,
                "count": self.count,
                "departure_time": self.departure_time,
                "escape_time": self.escape_time,
                "data": {
                    "name": self.dataset.name, "samples": self.dataset.samples, "dim": self.dataset.dim,
                    "columns": self.dataset.origin.get("columns"), "targets": self.dataset.origin.get("targets"),
                    "held_out": None if self.held_out is None else self.held_out.samples,
                    "outputs": self.dataset.outputs, "classes": self.dataset.classes,
                },
                "on_samples": self._question("on_samples"),
                "as_function": self._question("as_function"),
                "nonlinearity": max((f.nonlinearity for f in self.forecasts), default=None),
                "nonlinearity_in_passing": max((f.reading.decides.passing for f in self.forecasts), default=None),
                "reasons": [asdict(reason) for reason in self.reasons],
                "advice": self.advice,
                "gain": None if gain is None else {
                    **asdict(gain), "steps": gain.steps(gain.since),
                    "escape_steps": gain.steps(self.escape_time), "departure_steps": gain.steps(self.departure_time),
                },
                "linear_regression": {
                    name: {
                        "kind": fit.kind, "loss": fit.loss, "scikit_learn": fit.scikit_learn, "accuracy": fit.accuracy,
                        "held_out": fit.held_out, "held_out_accuracy": fit.held_out_accuracy,
                        "weights": fit.weights, "constant": fit.constant,
                    }
                    for name, fit in (
                        ("without_intercept", self.baselines.plain), ("with_intercept", self.baselines.intercept)
                    )
                },
                "stages": [asdict(each) for each in self.stages],
                "sampling": None if self.sampling is None else asdict(self.sampling),
                "symmetry": {"paired_share": self.symmetry.paired_share, "odd_share": self.symmetry.odd_share},
                "asymmetry": None if asymmetry is None else {
                    "correlation": asymmetry.correlation.lower,
                    "covariance": asymmetry.covariance.lower,
                    "typical_correlation": asymmetry.correlation.typical,
                    "typical_covariance": asymmetry.covariance.typical,
                },
                "contradiction": self.contradiction,
                "plateaus": None if first is None else [asdict(each) for each in plateaus(first)],
                "staircase": None if first is None or first.stairs is None
                else {"levels": first.stairs.levels, "times": first.stairs.times},
                "gathering": [
                    {"direction": g.direction, "sign": g.sign, "rate": g.rate, "basin": g.basin} for g in self.gathering
                ],
                "separable": self.separable,
                "solution": {
                    "kind": self.solution.kind, "loss": self.solution.loss, "accuracy": self.solution.accuracy,
                    "weights": self.solution.weights,
                },
                "best_possible_loss": None if floor is None else {
                    "two_layer": floor.two_layer, "deep": floor.deep, "with_bias": floor.with_bias,
                    "payers": floor.payers[:10],
                },
                "prediction": None if first is None else first.how,
                "check": [
                    {
                        "seed": c.seed, "predicted": c.predicted, "measured": c.measured, "until": c.until,
                        "status": c.status,
                    }
                    for c in self.checks
                ],
                "thresholds": {
                    "linear": _course.LINEAR, "below": _course.BELOW, "sits": _course.SITS,
                    "apart": _course.APART,
                },
                "stopped": self.stopped,
                "interrupted": self.interrupted,
                "settings": self.settings,
                "notes": self.notes,
            }
        )  # fmt: skip

    def _question(self, name: str) -> dict[str, Any] | None:
        """One of the two questions: its verdict among the starts, and its number."""
        read = [getattr(f.reading, name) for f in self.forecasts]
        if not read:
            return None
        common = max(
            _course.VERDICTS, key=lambda v: (sum(bend.verdict == v for bend in read), _course.VERDICTS.index(v))
        )
        return {
            "verdict": common,
            "nonlinearity": self.bend(name),
            "last": max(bend.last for bend in read),
            "otherwise": next((bend.otherwise for bend in read if bend.verdict == common), None),
        }


def plateaus(course: Forecast) -> list[Cut]:
    """Where the predicted loss waits, by the rule of ``biasfree.plateaus``."""
    if len(course.losses) < 3:
        return []
    return cut(course.times, course.losses, 1e-12 * float(course.losses[0]))[0]


def _closeness(check: Check) -> str:
    """Which of the two verdicts lies close to a threshold."""
    sides = (("measured", check.measured), ("predicted", check.predicted))
    close = [name for name, side in sides if side["otherwise"] is not None]
    return f"; close to a threshold as {' and as '.join(close)}" if close else ""


def _near(check: Check) -> bool:
    """Whether a departure came within a quarter of when it was predicted."""
    predicted, measured = (side["departure_time"] for side in (check.predicted, check.measured))
    return predicted is not None and measured is not None and abs(measured - predicted) <= 0.25 * predicted
