"""The answer to the title's question for a user's own data, in words, numbers and a picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasfree import files, theory
from biasfree.answer import Answer, Picture, Section, Table
from biasfree.datasets import Dataset
from biasfree.diagnosis import _course
from biasfree.diagnosis._findings import COMPARED, Check, Floor, Solution
from biasfree.diagnosis._forecast import Forecast


@dataclass(frozen=True, repr=False)
class Diagnosis(Answer):
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
        dataset, settings: what was diagnosed, and how.
        interrupted: whether Ctrl-C left starts unchecked.
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
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them."""
        return files.plain(
            {
                "title": self.title,
                "verdict": self.verdict,
                "headline": self.headline,
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
                "nonlinearity_in_passing": max(f.passing for f in self.forecasts),
                "contradiction": self.contradiction,
                "plateaus": [{"time": t, "loss": level} for t, level in plateaus(self.forecasts[0])],
                "staircase": None
                if (stairs := self.forecasts[0].stairs) is None
                else {"levels": stairs.levels, "times": stairs.times},
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
                    "linear": _course.LINEAR, "below": _course.BELOW, "sits": _course.SITS,
                    "apart": _course.APART,
                },
                "interrupted": self.interrupted,
                "settings": self.settings,
                "notes": self.notes,
            }
        )  # fmt: skip

    @property
    def title(self) -> str:
        """What was asked."""
        return f"Will a bias-free network be linear on these data? {self.dataset}"

    @property
    def facts(self) -> Mapping[str, Any]:
        """The settings."""
        return self.settings

    @property
    def warning(self) -> str | None:
        """Where simulation and forecast disagree."""
        return self.contradiction

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        kind = {0: "ReLU", 1: "linear"}.get(self.settings["slope"], f"leaky ReLU (slope {self.settings['slope']:g})")
        network = f"a bias-free {kind} network of {self.settings['depth']} layers"
        bent, passing = (max(getattr(f, name) for f in self.forecasts) for name in ("nonlinearity", "passing"))
        if self.verdict == "linear":
            told = f"linear: {network} will be linear on this data, "
            if self.forecasts[0].how in ("exact", "Appendix F"):
                told += "equivalent to a linear network throughout"
            else:
                told += f"up to {bent:.1%} of its outputs"
        elif self.verdict == "linear until":
            leaving = sum(f.departure_time is not None for f in self.forecasts)
            some = "" if leaving == len(self.forecasts) else f" ({leaving} of {len(self.forecasts)} starts leave)"
            told = (
                f"linear until t ≈ {self.departure_time:.3g}: {network} sits at the linear solution, linear up to "
                f"{bent:.1%} of its outputs, and then leaves it{some}"
            )
        elif self.verdict == "several linear networks":
            return f"several linear networks: {network} acts as {self.count}, each on samples of its own"
        else:
            return (
                f"nonlinear: {network} does not sit at the linear solution of this data; its outputs bend by up to "
                f"{bent:.0%}"
            )
        return told + (f"; in passing, while it escapes, it bends by up to {passing:.0%}" if passing >= 0.01 else "")

    @property
    def contradiction(self) -> str | None:
        """In what the simulations differ from the forecast; None if they agree, or there are none."""
        other = [c for c in self.checks if not c.agrees]
        if other:
            found = ", ".join(
                f"seed {c.seed} {c.measured['verdict']} (foretold {c.predicted['verdict']}; it bends by "
                f"{c.measured['nonlinearity']:.1%}, foretold {c.predicted['nonlinearity']:.1%})"
                for c in other
            )
            return f"THE SIMULATION DISAGREES with the forecast for {len(other)} of {len(self.checks)} starts: {found}"
        late = [c for c in self.checks if c.predicted["verdict"] == "linear until" and not _near(c)]
        if late:
            found = ", ".join(
                f"seed {c.seed} at t ≈ {_told(c.measured['departure_time'])}, foretold "
                f"{_told(c.predicted['departure_time'])}"
                for c in late
            )
            return f"THE SIMULATION LEAVES AT ANOTHER TIME than foretold: {found}"
        return None

    @property
    def sections(self) -> tuple[Section, ...]:
        """In the order of the questions one asks."""
        found = (
            Section("Why", self._why()),
            Section("What will happen", self._course(), pictures=[self._picture()]),
            Section("What can never happen", self._floor()),
            Section("The check", self._check(), self._table() if self.checks else None),
            Section("Notes", self.notes),
        )
        return tuple(section for section in found if section.sentences or section.table)

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
            f"rule: linear while outputs are, up to {_course.LINEAR:.0%}, and the loss is not below every linear map's "
            f"by {_course.BELOW:.0%} of the first loss; judged from {_course.SITS:g} escape times on; several networks "
            f"if their responses overlap by less than {_course.APART:.0%}"
        )
        return found

    def _course(self) -> list[str]:
        first = self.forecasts[0]
        escape = "at no time that is foretold" if self.escape_time is None else f"at t ≈ {self.escape_time:.3g}"
        how = {
            "exact": "foretold by the linear network it is equivalent to",
            "reduced network": "foretold by its early phase and the few neurons that then act as all of them",
            "Appendix F": "foretold by Eq. 40, the form that the layers tend to on such data",
            "simulation": "measured, since no theory speaks of deep networks on such data",
        }[first.how]
        course = [f"escape from the small start {escape}; {how}"]
        course.append(f"linear solution: {self.solution}")
        if first.stairs is not None:
            course.append(str(first.stairs))
        levels = plateaus(first)
        if levels and first.stairs is None:
            more = f"; and {len(levels) - 4} more" if len(levels) > 4 else ""
            course.append("plateaus: " + "; ".join(f"{loss:.4g} from t ≈ {t:.3g}" for t, loss in levels[:4]) + more)
        if self.verdict == "linear" and first.how == "reduced network":
            course.append(
                f"looked ahead to t ≈ {first.until:.3g}, some sixty escape times; what comes later is not told"
            )
        return course

    def _floor(self) -> list[str]:
        floor = self.floor
        found = [
            f"no two-layer bias-free network goes below loss {floor.two_layer:.4g}, no deep one below "
            f"{floor.deep:.4g}; with biases: {floor.with_bias:.4g}"
        ]
        scale = theory.linear_loss(np.zeros(self.dataset.dim), self.dataset, self.settings["loss"])
        least = floor.two_layer if self.settings["depth"] == 2 else floor.deep
        if least - floor.with_bias > 0.01 * float(scale):
            samples = ", ".join(map(str, floor.payers[:5])) + (", …" if len(floor.payers) > 5 else "")
            deeper = least - floor.deep > 0.01 * float(scale)
            found.append(
                f"removing the biases costs {least - floor.with_bias:.4g} at least"
                f"{f' ({floor.deep - floor.with_bias:.4g} with more layers)' if deeper else ''}; samples that pay most "
                f"of two layers' loss: {samples}"
            )
        return found

    def _check(self) -> list[str]:
        if self.interrupted:
            return [f"interrupted: {len(self.checks)} of {self.settings['seeds']} starts were checked"]
        return []

    def _table(self) -> Table:
        """Foretold and measured beside each other, a row for each start."""
        heads = ["seed"]
        for name in ("verdict", "escape", "departure", "bend"):
            heads += [f"{name}, foretold", "measured"]
        heads += ["loss", "linear twin"]
        rows = [
            [
                str(c.seed),
                *(_told(side[name]) for name in COMPARED for side in (c.predicted, c.measured)),
                f"{c.measured['final_loss']:.4g} at t = {c.until:.3g}",
                f"{c.measured['linear_loss']:.4g}",
            ]
            for c in self.checks
        ]
        return Table(heads, rows)

    def _picture(self) -> Picture:
        """The learning curves, foretold and simulated, beside the levels that matter."""
        return Picture(
            "courses",
            "Loss against flow time: simulated networks, their linear twins, and what was foretold",
            {
                "simulated": [(c.times, c.losses, c.linear_times, c.linear_losses) for c in self.checks],
                "foretold": [(f.times, f.losses) for f in self.forecasts if f.how != "simulation"],
                "levels": {self.solution.kind: self.solution.loss, "least of two layers": self.floor.two_layer},
                "departure": self.departure_time if self.verdict == "linear until" else None,
                "loss": self.settings["loss"],
            },
        )


def _told(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "—" if value is None or not np.isfinite(value) else f"{value:.3g}"


def _near(check: Check) -> bool:
    """Whether a departure came within a quarter of when it was foretold."""
    foretold, found = (side["departure_time"] for side in (check.predicted, check.measured))
    return foretold is not None and found is not None and abs(found - foretold) <= 0.25 * foretold


def plateaus(course: Forecast) -> list[tuple[float, float]]:
    """Where the foretold loss rests: (since when, level) for stretches of at least half an escape time."""
    if not len(course.losses):
        return []
    times, curve = course.times, course.losses
    fall = 0.005 * (curve[0] - curve.min())
    found: list[tuple[float, float]] = []
    k = 0
    while k < len(times) - 1:
        end = int(np.searchsorted(-curve, -(curve[k] - fall), side="right"))
        end = min(end, len(times)) - 1
        rests = times[k] > 0 and times[end] - times[k] >= 0.5 * min(course.escape_time, times[-1])
        if rests and (not found or found[-1][1] - curve[k] > 6 * fall):
            found.append((float(times[k]), float(curve[(k + end) // 2])))
        k = max(end, k + 1)
    return found
