"""The title's question for data: verdicts on sets whose answer is known, and what the numbers rest on."""

import dataclasses
import json
import os
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

import biasfree as bf
from biasfree import cli
from biasfree.cli import app
from biasfree.diagnosis import _course, _forecast, _reduction, diagnose
from biasfree.diagnosis._treatment import treat
from biasfree.report import _answer_progress

RNG = np.random.default_rng(0)
RANDOM = bf.Dataset(RNG.normal(size=(20, 3)), RNG.normal(size=20), "random")


@pytest.fixture(scope="module")
def six() -> bf.diagnosis.Diagnosis:
    return diagnose(bf.datasets.six_points(), seeds=1)


def test_verdicts_on_the_papers_own_sets(six) -> None:
    symmetric = diagnose(bf.datasets.symmetric_gaussian(5, 50, "linear_plus_sine", seed=0), simulate=False)
    assert (symmetric.verdict, symmetric.count, symmetric.departure_time) == ("linear", 1, None)
    assert six.verdict == "linear until"
    for data, count in ((bf.datasets.xor(), 4), (bf.datasets.orthogonal_pair(), 2)):
        found = diagnose(data, seeds=1, simulate=False)
        assert (found.verdict, found.count) == ("several linear networks", count)
    assert diagnose(RANDOM, seeds=1, simulate=False).verdict == "nonlinear"


def test_a_terminal_waits_for_nothing_that_only_the_page_shows(six, monkeypatch) -> None:
    assert "The plateaus of the first simulation" in six._repr_html_()
    assert "The plateaus of the first simulation" not in str(six)
    (staircase,) = six.appendix[0].pictures
    assert (staircase.kind, len(staircase.data["run"])) == ("plateaus", len(bf.plateaus(six.trajectory)))

    def not_asked_for(run):
        raise AssertionError("plateaus are explained on the page alone")

    monkeypatch.setattr("biasfree.measure.plateaus", not_asked_for)
    assert "linear until" in str(six)
    monkeypatch.setattr("biasfree.diagnosis._sentences._MOST_EXPLAINED", 10)
    assert "Not explained one by one on 6 samples" in six._repr_html_()


def test_the_first_seed_says_which_starts_are_looked_at() -> None:
    data = bf.datasets.six_points(0.3)
    four, fourth = (diagnose(data, width=5, seeds=4 - k, first_seed=k, simulate=False) for k in (0, 3))
    assert [each.escape_time for each in fourth.forecasts] == [four.forecasts[3].escape_time]
    assert len({each.escape_time for each in four.forecasts}) == 4
    (check,) = diagnose(data, width=5, seeds=1, first_seed=3).checks
    assert check.seed == 3
    assert check.run.template.weights[0].tolist() == bf.Network.init([2, 5, 1], 0.0, 1e-3, 3).weights[0].tolist()
    with pytest.raises(ValueError, match="first_seed must be a whole number of at least 0, got -1"):
        diagnose(data, first_seed=-1)


def test_departure_is_predicted_to_ten_percent(six) -> None:
    """Against the exact flow: when the loss has left the plateau by 3 %. By adaptive steps, and ten starts: slow."""
    start = bf.Network.init([2, 100, 1], 0.0, 1e-3, seed=0)
    run = bf.gradient_flow(start, bf.datasets.six_points(), until=800, stop=0.4286)
    assert run.status.name == "loss level"
    assert six.departure_time == pytest.approx(run.times[-1], rel=0.1)
    assert six.checks[0].measured["departure_time"] == pytest.approx(six.departure_time, rel=0.02)


def test_exact_course_of_symmetric_data() -> None:
    data = bf.datasets.symmetric_gaussian(3, 20, "linear_plus_sine", seed=3)
    found = diagnose(data, seeds=1)
    check = found.checks[0]
    assert check.measured["escape_time"] == pytest.approx(check.predicted["escape_time"], rel=0.03)
    assert check.measured["departure_time"] is None
    assert check.measured["final_loss"] == pytest.approx(found.solution.loss, rel=1e-3)
    assert found.floor.two_layer == pytest.approx(found.solution.loss, rel=1e-9)
    assert found.floor.deep == pytest.approx(0.0, abs=1e-20)


def test_merging_parallel_neurons_keeps_the_flow() -> None:
    """Parallel neurons stay parallel: the small network's flow is the large one's."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(3, 3))
    directions[:, 2] = np.linalg.norm(directions[:, :2], axis=1) * [1, -1, 1]
    rows = np.repeat(directions, 4, axis=0) * rng.uniform(0.05, 0.2, size=(12, 1))
    large = bf.Network([rows[:, :2], rows[None, :, 2]], 0.0)
    small = _reduction.merged_for_flow(large, 1e-6)
    assert small.widths == (2, 8, 1)
    data = bf.datasets.six_points()
    runs = [bf.gradient_flow(network, data, until=5, rtol=1e-9, save=4) for network in (large, small)]
    np.testing.assert_allclose(runs[0].losses, runs[1].losses, atol=1e-8)


def test_early_phase_by_steps_is_the_exact_one() -> None:
    """Many lines are followed by steps, few exactly; here is what the two make of the same data."""
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(40, 3))
    data = bf.Dataset(inputs, inputs @ [1.0, -0.5, 0.2] + rng.normal(size=40))
    start = bf.Network.init([3, 20, 1], 0.0, 1e-4, 0)
    grown, time, rate = _reduction._stepped(start, data, "square", 3e-3)
    exact = bf.theory.early_flow(start, data).at(time)
    outputs = [np.asarray(network(data.inputs)) for network in (grown, exact)]
    assert np.linalg.norm(outputs[0] - outputs[1]) < 0.03 * np.linalg.norm(outputs[1])
    assert rate == pytest.approx(bf.theory.gather(bf.theory.early_flow(start, data))[0].rate, rel=0.05)


def test_several_linear_networks_are_counted() -> None:
    """One for disjoint responses each; a group and its equal mirror image are one; overlap is no description."""
    data = bf.datasets.xor()
    axes = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])

    def count(rows, outputs):
        return _course.linear_networks([bf.Network([rows, [outputs]], 0.0)], data)

    assert count(axes, [-1.0, -1, 1, 1]) == 4
    assert count(axes[:2], [1.0, -1]) == 1
    assert count(axes[:2], [1.0, -2]) == 2
    assert count(np.concatenate([axes[:1], [[1.0, 1.0]]]), [1.0, 1]) is None


def test_two_samples_in_a_plane_tell_nothing_and_the_function_does() -> None:
    data = bf.datasets.orthogonal_pair()
    mirrored = np.concatenate([data.inputs, -data.inputs])
    linear = (mirrored @ [2.0, -1.0])[None]
    rectified = np.maximum(linear, 0)
    on_samples, as_function = _course.nonlinearity(np.concatenate([linear, rectified]), data)
    np.testing.assert_allclose(on_samples, 0, atol=1e-14)
    assert as_function[0] < 1e-14
    assert as_function[1] == pytest.approx(np.sqrt(0.5), rel=0.2)


def test_with_bias_only_conflicts_cost() -> None:
    """Entropy of repeated inputs with both labels, variance of repeated inputs with other targets."""
    inputs = [[1.0, 0.5], [1.0, 0.5], [-2.0, 1.0], [0.0, 3.0]]
    numbers = diagnose(bf.Dataset(inputs, [1.0, 3.0, 2.0, -1.0]), seeds=1, simulate=False)
    assert numbers.floor.with_bias == pytest.approx(0.5 * 2 / 4)
    labels = diagnose(bf.Dataset(inputs, [1.0, -1.0, 1.0, -1.0]), "logistic", seeds=1, simulate=False)
    assert labels.floor.with_bias == pytest.approx(np.log(2) / 2)


def test_treatments_are_said() -> None:
    rng = np.random.default_rng(2)
    inputs = np.column_stack([rng.normal(size=30), 1000 * rng.normal(size=30), np.ones(30), np.zeros(30)])
    treated = treat(bf.Dataset(inputs, rng.integers(0, 2, 30)), "logistic")
    said = " ".join(treated.notes)
    assert set(treated.dataset.targets) == {-1.0, 1.0}
    for word in ("Labels 0 and 1", "Constant", "Zero throughout", "factor of"):
        assert word in said
    centred = treat(bf.Dataset(inputs, rng.normal(size=30)), "square", standardise=True)
    assert "standardised" in centred.notes[0]
    np.testing.assert_allclose(centred.dataset.inputs[:, :2].mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("data", "loss", "match"),
    [
        (bf.Dataset([[1.0], [2.0], [3.0]], [0.0, 1.0, 2.0]), "logistic", "two classes, got 3"),
        (bf.Dataset([[1.0], [2.0]], [1.0, 1.0]), "logistic", "all labels are 1"),
        (bf.Dataset([[1.0], [2.0]], [0.0, 0.0]), "square", "nothing to learn"),
        (bf.Dataset([[0.0], [0.0]], [1.0, 2.0]), "square", "all inputs are zero"),
        (bf.Dataset([[1.0], [2.0]], [[1.0, 2.0], [3.0, 4.0]]), "logistic", "two classes, got 2 outputs"),
    ],
)
def test_bad_data_is_refused_with_a_sentence(data, loss, match) -> None:
    with pytest.raises(ValueError, match=match):
        diagnose(data, loss)


def test_command_line(tmp_path) -> None:
    out = tmp_path / "found.json"
    done = CliRunner().invoke(app, ["diagnose", "xor", "--no-simulate", "--seeds", "1", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "several linear networks" in done.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["verdict"] == "several linear networks"
    assert found["count"] == 4
    assert found["solution"]["kind"] == "least squares"
    assert {"two_layer", "deep", "with_bias"} <= found["best_possible_loss"].keys()
    assert {"correlation", "covariance"} <= found["asymmetry"].keys()
    assert found["check"] == []


def test_staircase_levels_and_times_are_told() -> None:
    """The plateaus of the orthogonal pair, against a simulation: half of the loss, and when."""
    found = diagnose(bf.datasets.orthogonal_pair(), seeds=1)
    stairs = found.to_dict()["staircase"]
    np.testing.assert_allclose(stairs["levels"], [0.5, 0.25, 0.0], atol=1e-12)
    run = bf.gradient_flow(bf.Network.init([2, 100, 1], 0.0, 1e-3, 0), bf.datasets.orthogonal_pair(), until=40)
    for time, level in zip(stairs["times"], (0.375, 0.125), strict=True):
        assert time == pytest.approx(run.time_of_loss(level), rel=0.02)
    assert "2 linear networks: loss 0.5 → 0.25 → 0 at t = " in str(found)


def test_a_contradiction_is_in_the_first_lines(six) -> None:
    assert six.contradiction is None
    check = six.checks[0]
    other = dataclasses.replace(check, measured={**check.measured, "verdict": "nonlinear"})
    told = str(dataclasses.replace(six, checks=(other,))).splitlines()
    assert "SIMULATION DISAGREES" in told[2]
    later = dataclasses.replace(check, measured={**check.measured, "departure_time": 2 * six.departure_time})
    assert "ANOTHER TIME" in str(dataclasses.replace(six, checks=(later,))).splitlines()[2]


def test_interrupted_simulations_keep_what_was_found() -> None:
    def stop(what: str, share: float) -> None:
        if what == "simulating start 2 of 3":
            raise KeyboardInterrupt

    found = diagnose(bf.datasets.xor(), width=20, progress=stop)
    assert found.interrupted
    assert [check.seed for check in found.checks] == [0]
    assert len(found.forecasts) == 3
    assert "interrupted: 3 of 3 starts were predicted and 1 of 3 starts checked" in str(found)


def test_ctrl_c_on_the_command_line(monkeypatch, capsys, tmp_path) -> None:
    """A real signal while the second start is simulated: the answer is printed and written, with exit code 130."""
    out = tmp_path / "o.json"

    @contextmanager
    def progress(quiet=False):
        def tell(what, share):
            if what.startswith("simulating start 2"):
                os.kill(os.getpid(), signal.SIGINT)

        yield tell

    monkeypatch.setattr(_answer_progress, "answer_progress", progress)
    monkeypatch.setattr(sys, "argv", ["biasfree", "diagnose", "xor", "--width", "20", "--json", str(out)])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are started with it ignored
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capsys.readouterr()
    assert ended.value.code == 130, printed.err
    assert "several linear networks" in printed.out
    assert "Traceback" not in printed.err
    assert len(json.loads(out.read_text(encoding="utf-8"))["check"]) == 1


def test_deep_networks() -> None:
    """A linear target on even inputs is Appendix F's; an odd one that is not linear is measured, and is left."""
    linear = bf.datasets.symmetric_gaussian(3, 20, seed=0)
    found = diagnose(linear, width=30, depth=3, init_scale=0.03, seeds=1)
    assert (found.verdict, found.forecasts[0].how) == ("linear", "Appendix F")
    check = found.checks[0]
    assert check.agrees
    assert check.measured["nonlinearity"] < 0.05
    assert check.measured["final_loss"] < 1e-3 * check.losses[0]
    with pytest.raises(ValueError, match="nothing is predicted for 3 layers"):
        diagnose(bf.datasets.depth_separation(30, seed=0), depth=3, simulate=False)
    with pytest.raises(ValueError, match="depth must be a whole number of at least 2"):
        diagnose(linear, depth=1)


@pytest.mark.slow
def test_a_deep_network_leaves_the_linear_solution_of_an_odd_target() -> None:
    """The depth separation: three layers learn what two cannot; no theory says when, so the answer is measured."""
    data = bf.datasets.depth_separation(50, seed=0)
    found = diagnose(data, width=50, depth=3, init_scale=0.1, seeds=1)
    assert found.forecasts[0].how == "simulation"
    assert found.verdict in ("linear until", "nonlinear")
    assert found.checks[0].measured["final_loss"] < 0.5 * found.solution.loss
    assert diagnose(data, width=50, seeds=1, simulate=False).verdict == "linear"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_six_points_leave_when_predicted(seed) -> None:
    """Seeds 1 and 7 stay for ever; the others leave within 10 % of when it is predicted.

    The simulation is one of its own, by adaptive steps: when the loss has left the plateau of the linear
    solution by 3 %.
    """
    data = bf.datasets.six_points()
    start = bf.Network.init([2, 100, 1], 0.0, 1e-3, seed)
    levels = _course.Levels(0.5, bf.theory.best_possible_loss(data, slope=1.0).loss)
    told = _forecast.forecast(start, data, "square", False, levels)
    run = bf.gradient_flow(start, data, until=1500, method="tsit5", rtol=1e-5, stop=levels.left)
    if seed in (1, 7):
        assert run.status.name == "reached"
        assert told.verdict == "linear"
    else:
        assert told.verdict == "linear until"
        assert told.departure_time == pytest.approx(run.times[-1], rel=0.1)


def bent_course(bends: list[float]) -> _course.Course:
    """On x = ±1 with y = x: f(x) = x + b|x| at t = 1, 2, …, whose bend is b; it escapes between t = 1 and 2."""
    networks = [bf.Network([[[1.0], [-1.0]], [[1 + b, -1 + b]]], 0.0) for b in (0.0, *bends)]
    times = np.arange(1.0, len(networks) + 1)
    return _course.Course(times, np.where(times > 1, 0.05, 0.5), networks)


def read_bends(bends: list[float]) -> _course.Bend:
    data = bf.Dataset([[1.0], [-1.0]], [1.0, -1.0])
    return _course.read_course(bent_course(bends), data, _course.Levels(0.5, 0.0)).on_samples


def test_a_verdict_says_from_when_on_it_does_not_depend_on_where_one_stops() -> None:
    """Bent, straight for a while, and bent again: whoever stops in between reads "linear"."""
    returning = [0.3, 0.3, 0.3, 0.05, 0.05, 0.05, 0.3, 0.3]
    assert read_bends(returning).verdict == "several linear networks"
    assert read_bends(returning[:6]).verdict == "linear"
    assert read_bends(returning).decided_time == 8.0  # t = 1, and one more for each bend
    for stop in range(3, len(returning) + 1):
        same = read_bends(returning[:stop]).verdict == "several linear networks"
        assert same or stop + 1 < read_bends(returning).decided_time
    assert read_bends([0.3, 0.3, 0.3, 0.3]).decided_time <= 4.0
    assert read_bends([0.01, 0.01, 0.01, 0.01, 0.3, 0.3]).decided_time == 6.0  # the departure


def test_a_bend_that_goes_away_is_not_given_the_thresholds_number() -> None:
    settled = read_bends([0.3, 0.3, 0.2, 0.0999, 0.06, 0.04])
    assert (settled.verdict, settled.settled_time, settled.otherwise) == ("linear", 5.0, None)
    assert settled.nonlinearity == settled.last == pytest.approx(0.04, rel=0.01)
    assert settled.passing == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("bends", "verdict", "otherwise"),
    [
        ([0.097] * 6, "linear", "nonlinear"),
        ([0.3, 0.2, 0.15, 0.097], "linear", "nonlinear"),
        ([0.105] * 6, "several linear networks", "linear"),
        ([0.02, 0.02, 0.02, 0.105], "linear until", "linear"),
        ([0.05] * 6, "linear", None),
        ([0.3] * 6, "several linear networks", None),
    ],
)
def test_a_hairs_breadth_is_no_clear_verdict(bends, verdict, otherwise) -> None:
    bend = read_bends(bends)
    assert (bend.verdict, bend.otherwise) == (verdict, otherwise)


def test_what_is_close_is_said_in_the_headline(six) -> None:
    clear = six.headline
    assert "CLOSE" not in clear
    first = six.forecasts[0]
    close = dataclasses.replace(first.reading.on_samples, otherwise="nonlinear")
    forecast = dataclasses.replace(first, reading=dataclasses.replace(first.reading, on_samples=close))
    doubtful = dataclasses.replace(six, forecasts=(forecast,))
    assert doubtful.headline == f"{clear}; CLOSE TO A THRESHOLD: a tenth lower or higher would make it nonlinear"
    assert doubtful.to_dict()["on_samples"]["otherwise"] == "nonlinear"
