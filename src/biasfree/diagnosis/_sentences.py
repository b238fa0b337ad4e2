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


def sections(diagnosis: "Diagnosis") -> tuple[Section, ...]:
    """In the order of the questions one asks."""
    all_of_them = (
        Section("What it gains over linear regression", _gain(diagnosis), _gain_table(diagnosis)),
        *_confusions(diagnosis),
        Section("What to do", diagnosis.advice),
        Section("Why", _why(diagnosis)),
        Section("When", _when(diagnosis), pictures=_pictures(diagnosis)),
        Section("What it can never reach", _floor(diagnosis)),
        Section("The check", _check(diagnosis), _check_table(diagnosis)),
        Section("Notes", diagnosis.notes),
    )
    return tuple(s for s in all_of_them if s.sentences or s.table or s.pictures)


def _confusions(diagnosis: "Diagnosis") -> list[Section]:
    """Classes: what the network confuses on its plateaus, the table of the last."""
    if not diagnosis.stages:
        return []
    names = diagnosis.dataset.classes
    return [
        Section(
            "Which classes it distinguishes",
            _stages.descriptions(diagnosis.stages, names),
            _stages.table(diagnosis.stages[-1], names),
        )
    ]


def _gain(diagnosis: "Diagnosis") -> list[str]:
    gain, linear = diagnosis.gain, diagnosis.baselines
    if gain is None:
        return [f"linear regression: {linear.plain}; with an intercept: {linear.intercept}"]
    share = gain.over_linear / gain.first if gain.first else 0.0
    beside = gain.over_intercept / gain.first if gain.first else 0.0
    drawn = diagnosis.sampling
    error = "" if drawn is None else drawn.after("loss")
    sentences = [
        f"at t = {gain.network.time:.3g} its loss is {gain.network.loss:.4g}{error} ({gain.network.how}): "
        f"{_more(share)} than linear regression's without intercept ({linear.plain.loss:.4g}) and {_more(beside)} than "
        f"with one ({linear.intercept.loss:.4g}), in shares of the first loss {gain.first:.4g}"
    ]
    if gain.since is not None:
        sentences.append(
            f"it is better than linear regression without intercept, by {_course.BELOW:.0%}, from t ≈ {gain.since:.3g}"
            f"{'' if drawn is None else drawn.after('since')} on{_steps(diagnosis, gain.since)}"
        )
    if gain.since_intercept is not None:
        when = gain.since_intercept
        error = "" if drawn is None else drawn.after("since_intercept")
        sentences.append(
            f"and better than with an intercept, by as much, from t ≈ {when:.3g}{error} on{_steps(diagnosis, when)}"
        )
    if gain.network.confusions is not None and not diagnosis.dataset.classes:
        (right_minus, wrong_minus), (wrong_plus, right_plus) = gain.network.confusions.tolist()
        sentences.append(
            f"it takes {wrong_minus:,} of {right_minus + wrong_minus:,} samples of class −1 for +1, and {wrong_plus:,} "
            f"of {wrong_plus + right_plus:,} of class +1 for −1"
        )
    return sentences


def _more(share: float) -> str:
    if abs(share) < 5e-4:
        return "no lower"
    return f"{abs(share):.1%} {'lower' if share > 0 else 'higher'}"


def _steps(diagnosis: "Diagnosis", time: float | None) -> str:
    """How many steps of descent a flow time is."""
    gain = diagnosis.gain
    steps = None if gain is None else gain.steps(time)
    return "" if gain is None or steps is None else f" (step {steps:,} of descent at rate {gain.rate:g})"


def _gain_table(diagnosis: "Diagnosis") -> Table | None:
    gain, held = diagnosis.gain, diagnosis.held_out is not None
    labels = diagnosis.baselines.plain.accuracy is not None
    heads = ["", "loss", "by scikit-learn"] + ["held-out loss"] * held + ["labels right"] * labels
    heads += ["held out"] * (labels and held)

    def row(name: str, loss: float, theirs: float | None, unseen: float | None, *rights: float | None) -> list[str]:
        cells = [name, f"{loss:.5g}", _cell(theirs)] + [_cell(unseen)] * held
        return cells + [_share(right) for right in rights[: labels + (labels and held)]]

    def linear(name: str, fit: Linear) -> list[str]:
        kind = f"{name} ({fit.kind})"
        return row(kind, fit.loss, fit.scikit_learn, fit.held_out, fit.accuracy, fit.held_out_accuracy)

    rows = [
        linear("linear, no intercept", diagnosis.baselines.plain),
        linear("linear, with intercept", diagnosis.baselines.intercept),
    ]
    if gain is not None:
        net = gain.network
        name = f"network at t = {net.time:.3g}, {net.how}"
        rows.append(row(name, net.loss, None, net.held_out, net.accuracy, net.held_out_accuracy))
    return Table(heads, rows)


def _why(diagnosis: "Diagnosis") -> list[str]:
    sentences = [reason.sentence for reason in diagnosis.reasons]
    if diagnosis.forecasts:
        sentences += _questions(diagnosis)
    sentences.append(str(diagnosis.symmetry))
    if diagnosis.asymmetry is not None:
        sentences += [
            f"half-space asymmetry of the correlation, max ‖B(r)‖/‖β‖: {diagnosis.asymmetry.correlation}",
            f"half-space asymmetry of the inputs, max ‖Q(r)‖/‖Σ‖: {diagnosis.asymmetry.covariance}",
        ]
    if diagnosis.gathering:
        shown = "; ".join(str(g) for g in diagnosis.gathering[:4])
        more = f"; and {len(diagnosis.gathering) - 4} more" if len(diagnosis.gathering) > 4 else ""
        sentences.append(f"neurons gather at {shown}{more}")
    if diagnosis.separable is not None:
        by = "a linear map" if diagnosis.dataset.classes else "a hyperplane through the origin"
        sentences.append(f"labels {'' if diagnosis.separable else 'not '}separable by {by}")
    sentences.append(
        f"rule: linear while outputs are, up to {_course.LINEAR:.0%}, and the loss is not below every linear map's "
        f"by {_course.BELOW:.0%} of the first loss; judged from {_course.SITS:g} escape times on; several networks "
        f"if their responses overlap by less than {_course.APART:.0%}"
    )
    return sentences


def _questions(diagnosis: "Diagnosis") -> list[str]:
    """The two questions, each with its verdict and number."""
    sentences = []
    for name, where in (("on_samples", "on your samples"), ("as_function", "as a function, at x and at −x")):
        answer = diagnosis._question(name)
        assert answer is not None
        error = "" if diagnosis.sampling is None else diagnosis.sampling.after(name)
        close = (
            ""
            if answer["otherwise"] is None
            else f" (close: thresholds a tenth off would make it {answer['otherwise']})"
        )
        sentences.append(
            f"{where}: {answer['verdict']}, bend {answer['nonlinearity']:.2g}{error} of its outputs{close}"
        )
    if diagnosis.forecasts[0].reading.void:
        sentences[0] += "; with no more samples than dimensions every function is linear there, so the second decides"
    return sentences


def _when(diagnosis: "Diagnosis") -> list[str]:
    if not diagnosis.forecasts:
        return []
    first = diagnosis.forecasts[0]
    error = "" if diagnosis.sampling is None else diagnosis.sampling.after("escape_time")
    escape = "at no time that is predicted"
    if diagnosis.escape_time is not None:
        escape = f"at t ≈ {diagnosis.escape_time:.3g}{error}{_steps(diagnosis, diagnosis.escape_time)}"
    sentences = [f"escape from the small start {escape}; {_HOW[first.how]}"]
    if first.stairs is not None:
        sentences.append(str(first.stairs))
    sentences += _waits(diagnosis)
    sentences += by_scale(diagnosis)
    if diagnosis.sampling is not None:
        sentences.append(
            f"each of {diagnosis.sampling.draws} draws of {diagnosis.sampling.rows:,} rows was followed until it does "
            f"best on as many other rows, to t ≈ {first.until:.3g} or so; what comes later on all "
            f"{diagnosis.dataset.samples:,} rows is not predicted. Errors (±) are standard errors over the draws"
        )
    joined = max(f.joined for f in diagnosis.forecasts)
    if diagnosis.verdict == "several linear networks" and joined > 0:
        sentences.append(
            f"neurons within {joined:g} radians of each other are predicted as one; whether such a group parts later, "
            "and overlaps by more than networks of their own do, only a simulation of all neurons can say"
        )
    if diagnosis.verdict == "linear" and first.how == "reduced network":
        sentences.append(f"looked ahead to t ≈ {first.until:.3g}; what comes later is not predicted")
    return sentences


def _waits(diagnosis: "Diagnosis") -> list[str]:
    from biasfree.diagnosis._diagnosis import plateaus

    if diagnosis.forecasts[0].stairs is not None:
        return []
    courses = [[each for each in plateaus(f) if each.begin > 0] for f in diagnosis.forecasts]
    waits, where, spread = courses[0], "", []
    if diagnosis.sampling is not None:
        alike = len(courses) > 1 and {len(course) for course in courses} == {len(waits)}
        spread = courses if alike else []
        where = "" if alike else " in the first draw, and otherwise in others"

    def about(k: int, name: str) -> str:
        """The number, with its standard error over the draws."""
        value, error = getattr(waits[k], name), standard_error([getattr(course[k], name) for course in spread])
        form = ".4g" if name == "level" else ".3g"
        return f"{value:{form}}" + ("" if error is None else f" ± {error:.2g}")

    left = [k for k, each in enumerate(waits) if np.isfinite(each.end)]
    levels = [f"{about(k, 'level')} from t ≈ {about(k, 'begin')} to {about(k, 'end')}" for k in left[:4]]
    more = [f"{len(left) - 4} more levels"] if len(left) > 4 else []
    sentences = [f"the loss waits at {'; '.join(levels + more)}{where}"] if levels else []
    if len(left) < len(waits):
        last = len(waits) - 1
        level, begin = about(last, "level"), about(last, "begin")
        if _more_to_learn(diagnosis, waits[last].level):
            sentences.append(
                f"it is near {level} from t ≈ {begin} to t ≈ {diagnosis.forecasts[0].until:.3g}, where the look ahead "
                f"ends{where}; what a linear map gains beyond that lies in directions of small inputs, learned late"
            )
        else:
            sentences.append(
                f"it comes to rest near {level}: nine tenths of the last fall are made by t ≈ {begin}{where}"
            )
    return sentences


def _more_to_learn(diagnosis: "Diagnosis", level: float) -> bool:
    """Whether a network that is linear on the samples is still above the least loss of a linear map."""
    gain, least = diagnosis.gain, diagnosis.baselines.plain.loss
    return diagnosis.verdict == "linear" and gain is not None and level > least + 0.01 * gain.first


def _floor(diagnosis: "Diagnosis") -> list[str]:
    floor = diagnosis.floor
    if floor is None:
        return []
    scale = (
        _course.Levels(diagnosis.gain.first, 0.0).first
        if diagnosis.gain is not None
        else float(np.mean(diagnosis.dataset.targets**2))
    )
    least = floor.two_layer if diagnosis.settings["depth"] == 2 else floor.deep
    where, error = "", ""
    if diagnosis.dataset.samples > MOST_ON_LINES and diagnosis.sampling is not None:
        where = f" (on the {diagnosis.sampling.rows:,} rows of a draw: on average no more than on all rows)"
        error = diagnosis.sampling.after("least_loss")
    if least <= _NOTHING * scale:
        drawn = " (each sample of a draw; all rows may leave more)" if where else ""
        return [f"nothing is out of reach: wide enough, some bias-free network fits every sample exactly{drawn}"]
    sentences = [
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
        sentences.append(
            f"removing the biases costs {least - floor.with_bias:.4g} at least; samples that pay most of two layers' "
            f"loss: {samples}"
        )
    return sentences


def _check(diagnosis: "Diagnosis") -> list[str]:
    starts, sentences = diagnosis.settings["seeds"], []
    if diagnosis.stopped is not None:
        why = "interrupted" if diagnosis.stopped == "interrupted" else "the budget is spent"
        predicted = min(len(diagnosis.forecasts), starts)
        sentences.append(
            f"{why}: {predicted} of {starts} starts were predicted and {len(diagnosis.checks)} of {starts} starts "
            "checked"
        )
    cut = [c for c in diagnosis.checks if not c.run.status.complete]
    sentences += [
        f"seed {c.seed} was followed to t = {c.until:.3g} only, by {c.run.counts.accepted:,} steps: {c.run.status.name}"
        for c in cut
    ]
    return sentences


def _check_table(diagnosis: "Diagnosis") -> Table | None:
    """Predicted and measured beside each other, a row for each start."""
    if not diagnosis.checks:
        return None
    shown = {"verdict": "verdict", "escape": "escape_time", "departure": "departure_time", "bend": "nonlinearity"}
    if diagnosis.dataset.classes:
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
        for c in diagnosis.checks
    ]
    return Table(heads, rows)


def _pictures(diagnosis: "Diagnosis") -> list[Picture]:
    """The learning curves with the levels that matter, and how the outputs bend over time."""
    levels = {
        "linear, no intercept": diagnosis.baselines.plain.loss,
        "linear, with intercept": diagnosis.baselines.intercept.loss,
    }
    if diagnosis.floor is not None:
        levels["least of two layers"] = diagnosis.floor.two_layer
    predicted = [f for f in diagnosis.forecasts if f.how != "simulation" and len(f.times)]
    if not (predicted or diagnosis.checks):
        return []
    departure = diagnosis.departure_time if diagnosis.verdict == "linear until" else None
    courses = {
        "simulated": [(c.times, c.losses, c.linear.times, c.linear.losses) for c in diagnosis.checks],
        "predicted": [(f.times, f.losses) for f in predicted],
        "levels": levels,
        "departure": departure,
        "loss": diagnosis.settings["loss"],
    }
    bends = {
        "simulated": [(c.times, *c.reading.bends) for c in diagnosis.checks],
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


def appendix(diagnosis: "Diagnosis") -> tuple[Section, ...]:
    """The plateaus of the first simulation, explained, where that is a matter of seconds."""
    from biasfree.measure import plateaus

    run = diagnosis.trajectory
    if run is None or diagnosis.settings["depth"] != 2 or diagnosis.dataset.outputs > 1:
        return ()
    pictures = []
    if run.dataset.samples * run.final.widths[1] > _MOST_EXPLAINED:
        sentences = [
            f"Not explained one by one on {run.dataset.samples:,} samples and {run.final.widths[1]} neurons, which "
            "would take long: `biasfree.plateaus(answer.trajectory)` does it."
        ]
    else:
        explained = plateaus(run)
        sentences = [line.strip() for line in str(explained).splitlines() if line.strip()]
        if len(explained):
            caption = (
                "Where the loss waits, measured and predicted ends, and what the network computes on each plateau."
            )
            pictures.append(Picture("plateaus", caption, {"run": explained}))
    return (Section("The plateaus of the first simulation", sentences, pictures=pictures),)


def _cell(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None or not np.isfinite(value) else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
