"""What a diagnosis says, section by section: what is gained, what to do, why, when, what never, and the check."""

from typing import TYPE_CHECKING

import numpy as np

from biasfree.answer import Picture, Section, Table
from biasfree.diagnosis import _course, _stages
from biasfree.diagnosis._baselines import Linear
from biasfree.diagnosis._findings import MOST_ON_LINES
from biasfree.diagnosis._sampling import standard_error
from biasfree.diagnosis._scales import by_scale

if TYPE_CHECKING:
    from biasfree.diagnosis._diagnosis import Diagnosis

_HOW = {
    "exact": "predicted by the linear network it is equivalent to",
    "reduced network": "predicted by its early phase and the few neurons that then act as all of them",
    "early phase and flow": "predicted by its early phase and the flow of all its neurons from there, which are too "
    "different to act as few",
    "Appendix F": "predicted by Eq. 40, the form that the layers tend to on such data",
    "simulation": "measured, since no theory covers deep networks on such data",
}
# Below this share of the first loss a least loss is called none.
_NOTHING = 1e-9
# Samples × neurons up to which plateaus are explained one by one on the page.
_MOST_EXPLAINED = 20_000


def sections(found: "Diagnosis") -> tuple[Section, ...]:
    """In the order of the questions one asks."""
    all_of_them = (
        Section("What it gains over linear regression", _gain(found), _gain_table(found)),
        *_told_apart(found),
        Section("What to do", found.advice),
        Section("Why", _why(found)),
        Section("When", _when(found), pictures=_pictures(found)),
        Section("What it can never reach", _floor(found)),
        Section("The check", _check(found), _check_table(found)),
        Section("Notes", found.notes),
    )
    return tuple(s for s in all_of_them if s.sentences or s.table or s.pictures)


def _told_apart(found: "Diagnosis") -> list[Section]:
    """Classes: what the network confuses on its plateaus, the table of the last."""
    if not found.stages:
        return []
    names = found.dataset.classes
    return [
        Section(
            "Which classes it distinguishes", _stages.told(found.stages, names), _stages.table(found.stages[-1], names)
        )
    ]


def _gain(found: "Diagnosis") -> list[str]:
    gain, linear = found.gain, found.baselines
    if gain is None:
        return [f"linear regression: {linear.plain}; with an intercept: {linear.intercept}"]
    share = gain.over_linear / gain.first if gain.first else 0.0
    beside = gain.over_intercept / gain.first if gain.first else 0.0
    drawn = found.sampling
    error = "" if drawn is None else drawn.after("loss")
    told = [
        f"at t = {gain.network.time:.3g} its loss is {gain.network.loss:.4g}{error} ({gain.network.how}): "
        f"{_more(share)} than linear regression's without intercept ({linear.plain.loss:.4g}) and {_more(beside)} than "
        f"with one ({linear.intercept.loss:.4g}), in shares of the first loss {gain.first:.4g}"
    ]
    if gain.since is not None:
        told.append(
            f"it is better than linear regression without intercept, by {_course.BELOW:.0%}, from t ≈ {gain.since:.3g}"
            f"{'' if drawn is None else drawn.after('since')} on{_steps(found, gain.since)}"
        )
    if gain.since_intercept is not None:
        when = gain.since_intercept
        error = "" if drawn is None else drawn.after("since_intercept")
        told.append(
            f"and better than with an intercept, by as much, from t ≈ {when:.3g}{error} on{_steps(found, when)}"
        )
    if gain.network.confusions is not None and not found.dataset.classes:
        (right_minus, wrong_minus), (wrong_plus, right_plus) = gain.network.confusions.tolist()
        told.append(
            f"it takes {wrong_minus:,} of {right_minus + wrong_minus:,} samples of class −1 for +1, and {wrong_plus:,} "
            f"of {wrong_plus + right_plus:,} of class +1 for −1"
        )
    return told


def _more(share: float) -> str:
    if abs(share) < 5e-4:
        return "no lower"
    return f"{abs(share):.1%} {'lower' if share > 0 else 'higher'}"


def _steps(found: "Diagnosis", time: float | None) -> str:
    """How many steps of descent a flow time is."""
    gain = found.gain
    steps = None if gain is None else gain.steps(time)
    return "" if gain is None or steps is None else f" (step {steps:,} of descent at rate {gain.rate:g})"


def _gain_table(found: "Diagnosis") -> Table | None:
    gain, held = found.gain, found.held_out is not None
    labels = found.baselines.plain.accuracy is not None
    heads = ["", "loss", "by scikit-learn"] + ["held-out loss"] * held + ["labels right"] * labels
    heads += ["held out"] * (labels and held)

    def row(name: str, loss: float, theirs: float | None, unseen: float | None, *rights: float | None) -> list[str]:
        cells = [name, f"{loss:.5g}", _cell(theirs)] + [_cell(unseen)] * held
        return cells + [_share(right) for right in rights[: labels + (labels and held)]]

    def linear(name: str, fit: Linear) -> list[str]:
        kind = f"{name} ({fit.kind})"
        return row(kind, fit.loss, fit.scikit_learn, fit.held_out, fit.accuracy, fit.held_out_accuracy)

    rows = [
        linear("linear, no intercept", found.baselines.plain),
        linear("linear, with intercept", found.baselines.intercept),
    ]
    if gain is not None:
        net = gain.network
        name = f"network at t = {net.time:.3g}, {net.how}"
        rows.append(row(name, net.loss, None, net.held_out, net.accuracy, net.held_out_accuracy))
    return Table(heads, rows)


def _why(found: "Diagnosis") -> list[str]:
    told = [reason.sentence for reason in found.reasons]
    if found.forecasts:
        told += _questions(found)
    told.append(str(found.symmetry))
    if found.asymmetry is not None:
        told += [
            f"half-space asymmetry of the correlation, max ‖B(r)‖/‖β‖: {found.asymmetry.correlation}",
            f"half-space asymmetry of the inputs, max ‖Q(r)‖/‖Σ‖: {found.asymmetry.covariance}",
        ]
    if found.gathering:
        shown = "; ".join(str(g) for g in found.gathering[:4])
        more = f"; and {len(found.gathering) - 4} more" if len(found.gathering) > 4 else ""
        told.append(f"neurons gather at {shown}{more}")
    if found.separable is not None:
        by = "a linear map" if found.dataset.classes else "a hyperplane through the origin"
        told.append(f"labels {'' if found.separable else 'not '}separable by {by}")
    told.append(
        f"rule: linear while outputs are, up to {_course.LINEAR:.0%}, and the loss is not below every linear map's "
        f"by {_course.BELOW:.0%} of the first loss; judged from {_course.SITS:g} escape times on; several networks "
        f"if their responses overlap by less than {_course.APART:.0%}"
    )
    return told


def _questions(found: "Diagnosis") -> list[str]:
    """The two questions, each with its verdict and number."""
    told = []
    for name, where in (("on_samples", "on your samples"), ("as_function", "as a function, at x and at −x")):
        asked = found._question(name)
        assert asked is not None
        error = "" if found.sampling is None else found.sampling.after(name)
        told.append(f"{where}: {asked['verdict']}, bend {asked['nonlinearity']:.2g}{error} of its outputs")
    if found.forecasts[0].reading.void:
        told[0] += "; with no more samples than dimensions every function is linear there, so the second decides"
    return told


def _when(found: "Diagnosis") -> list[str]:
    if not found.forecasts:
        return []
    first = found.forecasts[0]
    error = "" if found.sampling is None else found.sampling.after("escape_time")
    escape = "at no time that is predicted"
    if found.escape_time is not None:
        escape = f"at t ≈ {found.escape_time:.3g}{error}{_steps(found, found.escape_time)}"
    told = [f"escape from the small start {escape}; {_HOW[first.how]}"]
    if first.stairs is not None:
        told.append(str(first.stairs))
    told += _waits(found)
    told += by_scale(found)
    if found.sampling is not None:
        told.append(
            f"each of {found.sampling.draws} draws of {found.sampling.rows:,} rows was followed until it does best on "
            f"as many other rows, to t ≈ {first.until:.3g} or so; what comes later on all {found.dataset.samples:,} "
            "rows is not told. Errors (±) are standard errors over the draws"
        )
    if found.verdict == "linear" and first.how == "reduced network":
        told.append(f"looked ahead to t ≈ {first.until:.3g}; what comes later is not told")
    return told


def _waits(found: "Diagnosis") -> list[str]:
    from biasfree.diagnosis._diagnosis import plateaus

    if found.forecasts[0].stairs is not None:
        return []
    courses = [[each for each in plateaus(f) if each.begin > 0] for f in found.forecasts]
    waits, where, spread = courses[0], "", []
    if found.sampling is not None:
        alike = len(courses) > 1 and {len(course) for course in courses} == {len(waits)}
        spread = courses if alike else []
        where = "" if alike else " in the first draw, and otherwise in others"

    def about(k: int, name: str) -> str:
        """The number, with its standard error over the draws."""
        value, error = getattr(waits[k], name), standard_error([getattr(course[k], name) for course in spread])
        form = ".4g" if name == "level" else ".3g"
        return f"{value:{form}}" + ("" if error is None else f" ± {error:.2g}")

    left = [k for k, each in enumerate(waits) if np.isfinite(each.end)]
    told = [f"{about(k, 'level')} from t ≈ {about(k, 'begin')} to {about(k, 'end')}" for k in left[:4]]
    more = [f"{len(left) - 4} more levels"] if len(left) > 4 else []
    sentences = [f"the loss waits at {'; '.join(told + more)}{where}"] if told else []
    if len(left) < len(waits):
        last = len(waits) - 1
        level, begin = about(last, "level"), about(last, "begin")
        if _more_to_learn(found, waits[last].level):
            sentences.append(
                f"it is near {level} from t ≈ {begin} to t ≈ {found.forecasts[0].until:.3g}, where the look ahead "
                f"ends{where}; what a linear map gains beyond that lies in directions of small inputs, learned late"
            )
        else:
            sentences.append(
                f"it comes to rest near {level}: nine tenths of the last fall are made by t ≈ {begin}{where}"
            )
    return sentences


def _more_to_learn(found: "Diagnosis", level: float) -> bool:
    """Whether a network that is linear on the samples is still above the least loss of a linear map."""
    gain = found.gain
    return found.verdict == "linear" and gain is not None and level > found.baselines.plain.loss + 0.01 * gain.first


def _floor(found: "Diagnosis") -> list[str]:
    floor = found.floor
    if floor is None:
        return []
    scale = (
        _course.Levels(found.gain.first, 0.0).first
        if found.gain is not None
        else float(np.mean(found.dataset.targets**2))
    )
    least = floor.two_layer if found.settings["depth"] == 2 else floor.deep
    where, error = "", ""
    if found.dataset.samples > MOST_ON_LINES and found.sampling is not None:
        where = f" (on the {found.sampling.rows:,} rows of a draw: on average no more than on all rows)"
        error = found.sampling.after("least_loss")
    if least <= _NOTHING * scale:
        drawn = " (each sample of a draw; all rows may leave more)" if where else ""
        return [f"nothing is out of reach: wide enough, some bias-free network fits every sample exactly{drawn}"]
    told = [
        f"no two-layer bias-free network goes below loss {floor.two_layer:.4g}{error}, however wide"
        + (
            f", and no deep one below {floor.deep:.4g}"
            if floor.deep > _NOTHING * scale
            else "; deep ones fit every sample"
        )
        + (
            f"; with biases: {floor.with_bias:.4g}"
            if floor.with_bias > _NOTHING * scale
            else "; with biases every sample is fitted"
        )
        + where
    ]
    if least - floor.with_bias > 0.01 * scale:
        samples = ", ".join(map(str, floor.payers[:5])) + (", …" if len(floor.payers) > 5 else "")
        told.append(
            f"removing the biases costs {least - floor.with_bias:.4g} at least; samples that pay most of two layers' "
            f"loss: {samples}"
        )
    return told


def _check(found: "Diagnosis") -> list[str]:
    asked, told = found.settings["seeds"], []
    if found.stopped is not None:
        why = "interrupted" if found.stopped == "interrupted" else "the budget is spent"
        predicted = min(len(found.forecasts), asked)
        told.append(
            f"{why}: {predicted} of {asked} starts were predicted and {len(found.checks)} of {asked} starts checked"
        )
    cut = [c for c in found.checks if not c.run.status.complete]
    told += [
        f"seed {c.seed} was followed to t = {c.until:.3g} only, by {c.run.counts.accepted:,} steps: {c.run.status.name}"
        for c in cut
    ]
    return told


def _check_table(found: "Diagnosis") -> Table | None:
    """Predicted and measured beside each other, a row for each start."""
    if not found.checks:
        return None
    shown = {"verdict": "verdict", "escape": "escape_time", "departure": "departure_time", "bend": "nonlinearity"}
    if found.dataset.classes:
        shown["labels right"] = "accuracy"
    heads = ["seed", *(head for name in shown for head in (f"{name}, predicted", "measured")), "loss", "linear twin"]
    names = tuple(shown.values())
    rows = [
        [
            str(c.seed),
            *(_cell(side[name]) for name in names for side in (c.predicted, c.measured)),
            f"{c.measured['final_loss']:.4g} at t = {c.until:.3g}",
            f"{c.measured['linear_loss']:.4g}",
        ]
        for c in found.checks
    ]
    return Table(heads, rows)


def _pictures(found: "Diagnosis") -> list[Picture]:
    """The learning curves with the levels that matter, and how the outputs bend over time."""
    levels = {
        "linear, no intercept": found.baselines.plain.loss,
        "linear, with intercept": found.baselines.intercept.loss,
    }
    if found.floor is not None:
        levels["least of two layers"] = found.floor.two_layer
    predicted = [f for f in found.forecasts if f.how != "simulation" and len(f.times)]
    if not (predicted or found.checks):
        return []
    departure = found.departure_time if found.verdict == "linear until" else None
    courses = {
        "simulated": [(c.times, c.losses, c.linear.times, c.linear.losses) for c in found.checks],
        "predicted": [(f.times, f.losses) for f in predicted],
        "levels": levels,
        "departure": departure,
        "loss": found.settings["loss"],
    }
    bends = {
        "simulated": [(c.times, *c.reading.bends) for c in found.checks],
        "predicted": [(f.times, *f.reading.bends) for f in predicted if f.reading.bends.shape[1] == len(f.times)],
        "threshold": _course.LINEAR,
        "departure": departure,
    }
    pictures = [
        Picture(
            "courses", "Loss against flow time: simulated networks, their linear twins, and the prediction.", courses
        )
    ]
    if bends["simulated"] or bends["predicted"]:
        caption = "How far the outputs are from linear over time: on the samples, and as a function (at x and at −x)."
        pictures.append(Picture("bends", caption, bends))
    return pictures


def appendix(found: "Diagnosis") -> tuple[Section, ...]:
    """The plateaus of the first simulation, explained, where that is a matter of seconds."""
    from biasfree.measure import plateaus

    run = found.trajectory
    if run is None or found.settings["depth"] != 2 or found.dataset.outputs > 1:
        return ()
    pictures = []
    if run.dataset.samples * run.final.widths[1] > _MOST_EXPLAINED:
        told = [
            f"Not explained one by one on {run.dataset.samples:,} samples and {run.final.widths[1]} neurons, which "
            "would take long: `biasfree.plateaus(answer.trajectory)` does it."
        ]
    else:
        explained = plateaus(run)
        told = [line.strip() for line in str(explained).splitlines() if line.strip()]
        if len(explained):
            caption = (
                "Where the loss waits, measured and predicted ends, and what the network computes on each plateau."
            )
            pictures.append(Picture("plateaus", caption, {"run": explained}))
    return (Section("The plateaus of the first simulation", told, pictures=pictures),)


def _cell(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None or not np.isfinite(value) else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
