"""What a diagnosis tells a person with a table: gains, advice, hold-out, budget, draws, messages, files."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import biasfree as bf
from biasfree import cli
from biasfree.diagnosis import _sampling, diagnose
from biasfree.diagnosis._baselines import baselines, least_squares
from biasfree.diagnosis._gain import stable_rate

RNG = np.random.default_rng(5)
INPUTS = RNG.normal(size=(60, 3))
WEIGHTS = np.array([1.0, -0.5, 0.3])
QUICK = {"width": 20, "seeds": 1, "simulate": False}


def invoke(*words: str):
    return CliRunner().invoke(cli.app, list(words))


@pytest.fixture(scope="module")
def shifted() -> bf.diagnosis.Diagnosis:
    """A mean that no linear map through the origin fits."""
    return diagnose((INPUTS, INPUTS @ WEIGHTS + 10.0), holdout=0.25, **QUICK)


def test_a_target_mean_is_the_reason_and_centring_the_advice(shifted) -> None:
    assert shifted.verdict == "nonlinear"
    assert shifted.reasons[0].name == "target mean"
    assert shifted.baselines.intercept.loss < 1e-20 < shifted.baselines.plain.loss
    assert shifted.advice[0].startswith("Centre the target")
    assert "no linear map without intercept can fit" in str(shifted)


def test_held_out_samples_are_judged_and_not_learned(shifted) -> None:
    assert (shifted.dataset.samples, shifted.held_out.samples) == (45, 15)
    both = np.concatenate([shifted.dataset.inputs, shifted.held_out.inputs])
    assert sorted(map(tuple, both)) == sorted(map(tuple, INPUTS))
    network, fit = shifted.gain.network, shifted.baselines.plain
    outputs = shifted.held_out.inputs @ np.linalg.lstsq(shifted.dataset.inputs, shifted.dataset.targets, rcond=None)[0]
    assert fit.held_out == pytest.approx(0.5 * np.mean((outputs - shifted.held_out.targets) ** 2), rel=1e-9)
    told = np.asarray(shifted.forecasts[0].last(shifted.held_out.inputs))
    assert network.held_out == pytest.approx(0.5 * np.mean((told - shifted.held_out.targets) ** 2))
    assert "held-out loss" in str(shifted)
    for wrong in (1.0, -0.1, 0.001):
        with pytest.raises(ValueError, match="holdout"):
            diagnose((INPUTS, INPUTS @ WEIGHTS), holdout=wrong, **QUICK)


def test_pairs_are_held_out_together() -> None:
    data = bf.datasets.symmetric_gaussian(dim=3, pairs=20, seed=0)
    found = diagnose(data, holdout=0.25, **QUICK)
    assert found.symmetry.holds
    assert (found.verdict, found.reasons[0].name) == ("linear", "even data")
    assert bf.theory.symmetry(found.held_out).holds


def test_linear_on_samples_in_a_half_space_but_not_as_a_function() -> None:
    inputs = RNG.uniform(0.5, 1.5, size=(50, 3))
    found = diagnose((inputs, inputs @ np.abs(WEIGHTS)), **QUICK)
    told = found.to_dict()
    assert found.verdict == told["on_samples"]["verdict"] == "linear"
    assert told["on_samples"]["nonlinearity"] < 1e-3
    assert told["as_function"]["nonlinearity"] > 0.3
    assert found.reasons[0].name == "one half-space"
    assert "not as a function" in found.headline


def test_what_is_learned_late_is_not_called_rest() -> None:
    """A column a thousand times larger than the others is learned first, and linear regression is not reached."""
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.uniform(900, 1000, 40), rng.normal(size=(40, 2))])
    found = bf.diagnose((inputs, 3 * inputs[:, 1] + 5.0), width=20, seeds=1, simulate=False)
    assert found.verdict == "linear"
    assert "linear on these samples, up to " in found.headline
    assert "where the look ahead ends" in str(found)
    assert "comes to rest" not in str(found)


def test_one_sample_bends_at_its_mirror_image_alone() -> None:
    found = bf.diagnose((np.ones((1, 3)), [2.0]), width=20, seeds=1, simulate=False)
    assert found.verdict == "nonlinear"
    assert "at x and −x its outputs bend by up to 50%" in found.headline


def test_starts_that_are_not_small_and_numbers_too_small_are_said() -> None:
    inputs = np.random.default_rng(0).normal(size=(20, 2))
    targets = inputs @ [1.0, 2.0]
    large = bf.diagnose((inputs, 1e-7 * targets), width=20, seeds=1, simulate=False)
    assert "The start is not small" in str(large)
    small = bf.diagnose((inputs, targets), width=20, seeds=1, simulate=False)
    assert "The start is not small" not in str(small)
    with pytest.raises(ValueError, match=r"targets reach .* whose powers vanish"):
        bf.diagnose((inputs, 1e-200 * targets), simulate=False)


def test_a_loss_of_zero_is_not_called_out_of_reach() -> None:
    told = str(diagnose((INPUTS, INPUTS @ WEIGHTS + np.abs(INPUTS[:, 0])), **QUICK))
    assert "below loss 0" not in told
    assert "nothing is out of reach" in told


def test_plateaus_are_waits_and_not_values_in_mid_descent() -> None:
    """A single exponential approach has none but its end; a staircase has its steps."""
    from biasfree.diagnosis._diagnosis import plateaus
    from biasfree.diagnosis._forecast import Forecast, straight

    times = np.linspace(0, 60, 300)
    falling = Forecast("exact", straight(1.0), times, np.exp(-0.5 * times))
    assert [each.level < 1e-3 for each in plateaus(falling)] == [True]
    steps = 1 - 0.5 / (1 + np.exp(-4 * (times - 10))) - 0.5 / (1 + np.exp(-4 * (times - 40)))
    levels = [each.level for each in plateaus(Forecast("exact", straight(1.0), times, steps))]
    np.testing.assert_allclose(levels, [1, 0.5, 0], atol=0.01)


def test_descent_at_the_rate_that_is_told_follows_the_flow() -> None:
    data = bf.datasets.six_points()
    start = bf.Network.init([2, 30, 1], 0.0, 1e-2, 0)
    flow = bf.gradient_flow(start, data, until=60)
    rate = stable_rate(flow.final, data.inputs)
    descent = bf.gradient_descent(start, data, learning_rate=rate, steps=round(60 / rate))
    assert descent.losses[-1] == pytest.approx(flow.losses[-1], rel=1e-3)
    # The bound is not idle: ten times the rate is beyond two over the curvature of a steeper problem.
    steep = bf.Dataset(10 * data.inputs, 10 * data.targets)
    assert stable_rate(flow.final, steep.inputs) < 0.05 * rate


def test_least_squares_by_parts_is_least_squares(monkeypatch) -> None:
    monkeypatch.setattr("biasfree.diagnosis._baselines._CHUNK", 7)
    data = bf.Dataset(INPUTS, INPUTS @ WEIGHTS + RNG.normal(size=60))
    for ones in (False, True):
        matrix = np.column_stack([INPUTS, np.ones(60)]) if ones else INPUTS
        expected = np.linalg.lstsq(matrix, data.targets, rcond=None)[0]
        np.testing.assert_allclose(least_squares(data, ones).weights, expected, rtol=1e-10)
    both = baselines(data, "square")
    assert both.plain.scikit_learn == pytest.approx(both.plain.loss, rel=1e-10)
    assert both.intercept.scikit_learn == pytest.approx(both.intercept.loss, rel=1e-10)


@pytest.fixture(scope="module")
def drawn():
    """Large enough to be looked at by draws of a thousand rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sampling, "_WORK", 1e3)
        patch.setattr(_sampling, "_LEAST", 500)
        patch.setattr("biasfree.diagnosis._diagnose.MOST_ON_LINES", 1000)
        rng = np.random.default_rng(1)
        inputs = rng.normal(size=(6000, 3))
        targets = inputs @ WEIGHTS + np.abs(inputs[:, 0]) + 0.5 * rng.normal(size=6000)
        return diagnose((inputs, targets), **QUICK), inputs, targets


def test_every_number_that_rests_on_draws_has_an_error(drawn) -> None:
    found, inputs, targets = drawn
    assert (found.sampling.rows, found.sampling.draws) == (500, 3)
    told = found.to_dict()["sampling"]["errors"]
    assert all(told[name] > 0 for name in ("escape_time", "on_samples", "as_function", "loss", "asymmetry"))
    assert "±" in str(found)
    assert told["least_loss"] == 0  # every draw of generic rows is fitted
    headline = found.headline.split("bend by up to ")[1]
    assert "±" in headline
    # Linear regression is of all rows, and so is the network's loss.
    expected = 0.5 * np.mean((targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]) ** 2)
    assert found.baselines.plain.loss == pytest.approx(expected)
    outputs = np.asarray(found.forecasts[0].last(inputs))
    assert found.gain.network.loss == pytest.approx(0.5 * np.mean((outputs - targets) ** 2))


def test_the_error_holds_what_all_rows_say(drawn) -> None:
    """The escape of the flow on all rows, from the same start, is within three standard errors and 2 %."""
    found, inputs, targets = drawn
    start = bf.Network.init([3, 20, 1], 0.0, 1e-3, 0)
    least = found.baselines.plain.loss
    half = 0.5 * (0.5 * np.mean(targets**2) + least)
    run = bf.gradient_flow(start, bf.Dataset(inputs, targets), until=100, method="bosh3", rtol=1e-4, stop=half)
    error = found.sampling.errors["escape_time"]
    assert abs(run.times[-1] - found.escape_time) < 3 * error + 0.02 * found.escape_time


def test_pairs_are_drawn_together() -> None:
    data = bf.datasets.symmetric_gaussian(dim=2, pairs=300, seed=0)
    drawn = _sampling.draws(data, bf.theory.symmetry(data), "square", 100, 2, np.zeros(2))
    assert all(bf.theory.symmetry(draw.data).holds for draw in drawn)
    assert not np.array_equal(drawn[0].data.inputs, drawn[1].data.inputs)


def test_a_spent_budget_keeps_what_is_finished() -> None:
    found = diagnose((INPUTS, INPUTS @ WEIGHTS), budget=1e-6 + 1e-9, seeds=2, width=20, progress=_slow)
    assert (found.verdict, found.stopped, found.forecasts) == ("undecided", "budget", ())
    assert "undecided" in found.headline
    assert "the budget is spent" in str(found)
    assert found.to_dict()["linear_regression"]["with_intercept"]["loss"] < 1e-20
    with pytest.raises(ValueError, match="budget must be a finite number above 0"):
        diagnose((INPUTS, INPUTS @ WEIGHTS), budget=0)


def _slow(what: str, share: float) -> None:
    """Progress as a callback gets it."""


def test_ctrl_c_in_any_stage_keeps_the_finished_ones() -> None:
    def stop(what: str, share: float) -> None:
        if what == "predicting start 2 of 3":
            raise KeyboardInterrupt

    found = diagnose((INPUTS, INPUTS @ WEIGHTS + np.abs(INPUTS[:, 0])), width=20, progress=stop)
    assert found.interrupted
    assert len(found.forecasts) == 1
    assert found.verdict == "nonlinear"
    assert "1 of 3 starts were predicted and 0 of 3 starts checked" in str(found)


def test_two_classes_are_labels_and_more_are_no_logistic_loss() -> None:
    table = pd.DataFrame(INPUTS, columns=["a", "b", "c"])
    names = np.where(INPUTS @ WEIGHTS > 0.3, "yes", "no")
    found = diagnose(table.assign(kind=names), "logistic", target="kind", **QUICK)
    assert any("Classes no and yes were read as −1 and +1" in note for note in found.notes)
    assert found.gain.network.confusions.sum() == 60
    assert "samples of class −1 for +1" in str(found)
    three = np.where(INPUTS[:, 0] > 1, "maybe", names)
    with pytest.raises(ValueError, match="two classes, got 3 classes"):
        diagnose(table.assign(kind=three), "logistic", target="kind", **QUICK)


def test_the_command_line_reads_tables_as_people_have_them(tmp_path) -> None:
    table = pd.DataFrame(INPUTS.round(4), columns=["a", "b", "c"]).assign(
        id=range(60), kind=["red", "blue"] * 30, price=(INPUTS @ WEIGHTS).round(4)
    )
    table.to_csv(tmp_path / "d.csv.gz", sep=";", decimal=",", index=False)
    words = ["diagnose", str(tmp_path / "d.csv.gz"), "--no-simulate", "--seeds", "1", "--width", "10"]
    done = invoke(
        *words, "--target", "price", "--drop", "id", "--categories", "onehot", "--holdout", "0.2",
        "--json", str(tmp_path / "o.json"), "--html", str(tmp_path / "o.html"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output + repr(done.exception)
    told = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert told["data"]["columns"] == ["a", "b", "c", "kind_blue", "kind_red"]
    assert told["data"]["held_out"] == 12
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert page.count("<img") == 2
    assert "What it gains over linear regression" in page
    noted = invoke(*words, "--target", "price", "--drop", "kind")
    assert "--drop id" in noted.output


def test_progress_is_told_where_there_is_no_terminal(capsys) -> None:
    from biasfree.report._answer_progress import answer_progress

    with answer_progress() as tell:
        tell("asymmetry", 0.1)
        tell("asymmetry", 0.2)
        tell("least losses", 0.3)
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in told] == ["biasfree: asymmetry", "biasfree: least losses"]


def test_an_animation_has_frames_and_says_what_it_cannot(tmp_path, monkeypatch) -> None:
    from matplotlib.animation import FFMpegWriter
    from PIL import Image

    run = bf.gradient_flow(bf.Network.init([3, 10, 1], 0.0, 1e-2, 0), bf.Dataset(INPUTS, INPUTS @ WEIGHTS), until=20)
    bf.report.animate(run, tmp_path / "run.gif", frames=5)
    with Image.open(tmp_path / "run.gif") as picture:
        assert 2 <= picture.n_frames <= 5
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(ValueError, match="MP4 needs the program ffmpeg"):
        bf.report.animate(run, tmp_path / "run.mp4")
    with pytest.raises(ValueError, match=r"must end in .gif or .mp4"):
        bf.report.animate(run, tmp_path / "run.avi")


def test_what_cannot_be_drawn_is_said_before_the_work_or_after_the_answer(tmp_path, monkeypatch) -> None:
    from matplotlib.animation import FFMpegWriter

    words = ["diagnose", "six-points", "--seeds", "1", "--width", "10"]
    (tmp_path / "run.gif").write_bytes(b"of another day")
    done = invoke(*words, "--budget", "1e-9", "--plot", str(tmp_path / "a.png"), "--animate", str(tmp_path / "run.gif"))
    assert done.exit_code == 0, repr(done.exception)
    assert "undecided" in done.output
    assert f"did not write {tmp_path / 'a.png'}: nothing was predicted yet" in done.output
    assert f"did not write {tmp_path / 'run.gif'}: no simulation was finished" in done.output
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    done = invoke(*words, "--animate", str(tmp_path / "run.mp4"))
    assert "MP4 needs the program ffmpeg" in str(done.exception)
    assert "Will a bias-free network" not in done.output


def test_a_file_is_no_folder_to_write_to(tmp_path) -> None:
    from biasfree import files

    (tmp_path / "there.csv").write_text("a\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"there\.csv is a file, not a folder"):
        files.writable(tmp_path / "there.csv" / "x.json", (".json",))


def test_reproduce_into_a_file_is_a_sentence(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "afile").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["biasfree", "reproduce", "--out", str(tmp_path / "afile" / "x")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "is a file" in capsys.readouterr().err


def test_answers_are_shown_by_one_renderer(shifted, tmp_path) -> None:
    from biasfree.answer import Answer

    assert isinstance(shifted, Answer)
    for ending in (".html", ".json", ".txt"):
        shifted.save(tmp_path / f"a{ending}")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8").startswith(shifted.title)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["headline"] == shifted.headline
    assert shifted.headline.split(":")[0] in shifted._repr_html_()
    with pytest.raises(ValueError, match="must end in"):
        shifted.save(tmp_path / "a.docx")
