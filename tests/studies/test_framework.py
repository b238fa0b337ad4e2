"""Verdicts follow from numbers; finished studies are not run twice; the page is whole and needs no network."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from typer.testing import CliRunner

from biasfree import report, studies
from biasfree.cli import app
from biasfree.studies import Result, Study, at_least, at_most, near

CALLS: list[tuple[int, bool, str]] = []


def sample(seed: int, quick: bool, protocol: str) -> Result:
    CALLS.append((seed, quick, protocol))
    # Seed 13 stands for a machine on which the claim fails.
    error = 1.0 if seed == 13 else 1e-12
    return Result(
        {"error <b>": error, "told": math.inf}, {"error <b>": at_most(1e-9)}, "because & so", settings={"γ": 1e-8}
    )


@pytest.fixture
def one_study(monkeypatch: pytest.MonkeyPatch) -> Study:
    CALLS.clear()
    study = Study("sample", "A sample", "Eq. 0", "nothing is claimed", "0 = 0", sample, ("other-name",))
    monkeypatch.setattr(studies._registry, "studies", lambda: (study,))
    monkeypatch.setattr(studies, "studies", lambda: (study,))
    return study


def test_expectations() -> None:
    assert at_most(1.0).verdict(1.0) == "holds"
    assert at_most(1.0).verdict(1.1) == "differs"
    assert at_most(1.0, loosely=2.0).verdict(1.1) == "holds approximately"
    assert at_least(1.0, loosely=0.5).verdict(0.6) == "holds approximately"
    assert near(2.0, relative=0.1).verdict(2.3) == "differs"
    assert near(0.0, absolute=0.1).verdict(-0.05) == "holds"
    assert at_least(0.0).verdict(math.nan) == "differs"
    assert at_least(0.0).verdict(math.inf) == "holds"


def test_the_verdict_is_the_worst_of_all_and_needs_numbers() -> None:
    expected = {"a": at_most(1.0), "b": at_most(1.0, loosely=2.0)}
    assert Result({"a": 0.0, "b": 0.0}, expected, "").verdict == "holds"
    assert Result({"a": 0.0, "b": 1.5}, expected, "").verdict == "holds approximately"
    assert Result({"a": 3.0, "b": 1.5}, expected, "").verdict == "differs"
    assert Result({"a": 3.0, "b": 1.5}, expected, "").rule == "a ≤ 1; b ≤ 1 (approximately: ≤ 2)"
    with pytest.raises(ValueError, match="missing"):
        Result({"a": 0.0}, expected, "")
    with pytest.raises(ValueError, match="missing"):
        Result({"a": 0.0}, {}, "")


def test_finished_studies_are_not_run_twice(one_study: Study, tmp_path: Path) -> None:
    first = report.reproduce(folder=tmp_path)
    assert report.reproduce(folder=tmp_path) == first
    assert len(CALLS) == 1
    report.reproduce(folder=tmp_path, fresh=True)
    report.reproduce(folder=tmp_path, request=report.Request(seed=1))
    report.reproduce(folder=tmp_path, request=report.Request(seed=1, quick=True, protocol="paper"))
    assert CALLS[1:] == [(0, False, "flow"), (1, False, "flow"), (1, True, "paper")]
    # A file that was cut off, or left by other source, is not trusted.
    stored = tmp_path / "results" / "sample.json"
    stored.write_text(stored.read_text(encoding="utf-8")[:50], encoding="utf-8")
    report.reproduce(folder=tmp_path, request=report.Request(seed=1, quick=True, protocol="paper"))
    assert len(CALLS) == 5


def test_command_line(one_study: Study, tmp_path: Path) -> None:
    runner = CliRunner()
    arguments = [
        "reproduce",
        "other-name",
        "--out",
        str(tmp_path / "r"),
        "--json",
        str(tmp_path / "o.json"),
        "--jobs",
        "1",
    ]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0
    assert re.search(r"sample +holds +\d", done.output)
    (outcome,) = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert set(outcome) == {"id", "reference", "verdict", "measured", "expected", "rule", "seconds", "seed"}
    assert outcome["verdict"] == "holds"
    assert outcome["measured"] == {"error <b>": 1e-12, "told": "inf"}
    assert runner.invoke(app, [*arguments, "--seed", "13"]).exit_code == 1
    assert "sample" in runner.invoke(app, ["reproduce", "--list"]).output
    for wrong in (["reproduce", "nonsense"], ["reproduce", "--seed", "-1"], ["reproduce", "--json", "x.txt"]):
        with pytest.raises(ValueError, match=r"unknown study|at least 0|\.json"):
            runner.invoke(app, [*wrong, "--out", str(tmp_path / "r")], catch_exceptions=False)


def test_the_page_stands_alone(one_study: Study, tmp_path: Path) -> None:
    outcomes = report.reproduce(folder=tmp_path)
    text = report.write_page(tmp_path, outcomes, 1.0).read_text(encoding="utf-8")
    assert "error &lt;b&gt;" in text
    assert "because &amp; so" in text
    assert "def sample" in text
    assert not re.search(r"(src|href)=['\"]https?:", text)
    for target in re.findall(r"href='#([^']+)'", text):
        assert f"id='{target}'" in text
    assert not list(tmp_path.glob("*.tmp*"))


def test_a_failing_study_is_named(one_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int, quick: bool, protocol: str) -> Result:
        raise ArithmeticError("no solution")

    study = Study("broken", "", "", "", "", broken)
    monkeypatch.setattr(studies._registry, "studies", lambda: (study,))
    with pytest.raises(report.StudyError, match="broken failed: no solution"):
        report.reproduce(folder=tmp_path)


def test_ids_are_unique_and_every_slip_is_shown_by_a_study() -> None:
    ids = [name for study in studies.studies() for name in (study.id, *study.aliases)]
    assert len(ids) == len(set(ids))
    for slip in studies._slips.SLIPS:
        assert slip.study in ids


def test_results_hold_plain_data_only() -> None:
    result = studies.find(["corollary-14"])[0].run(0, True, "flow")
    for value in result.data.values():
        assert isinstance(value, (np.ndarray, list, tuple, dict, float, int, str))


def test_logarithmic_axes_write_the_powers_that_matplotlib_would(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.loglog([1e-3, 1e4], [2.0, 9.0])
    report.save_figure(figure, tmp_path / "powers.svg")
    written = (tmp_path / "powers.svg").read_text(encoding="utf-8")
    shown = re.findall(r">([^<>]*10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)<", written)
    assert {"10⁻³", "10⁴", "2×10⁰", "6×10⁰"} <= set(shown)
    assert "10^" not in written


def decorated(grid: bool) -> Figure:
    """Axes of all kinds: shared, logarithmic, labels of minor ticks, an offset, a colour bar, none."""
    figure = Figure(figsize=(5, 5), layout="constrained")
    panels = figure.subplots(3, 2, sharex="col")
    for k, axes in enumerate(panels.flat):
        axes.plot([1.0, 30.0], [1.0 + k, 1.0 + 10.0 ** (2 * k)])
        axes.set(xlabel="flow time $t$", ylabel=f"panel {k}", yscale="log" if k in (1, 3) else "linear")
    panels[0, 1].set(ylim=(2, 9))
    panels[0, 0].set(xscale="log")
    panels[1, 0].grid(visible=grid)
    panels[2, 0].set(ylim=(1e7, 3e7), xlim=(30, 0.5))
    panels[0, 0].tick_params(top=True, labeltop=True)
    panels[1, 1].set_axis_off()
    figure.colorbar(panels[2, 1].imshow([[0.0, 1.0]], aspect="auto"), ax=panels[2, 1], label="output")
    return figure


@pytest.mark.parametrize("grid", [False, True])
def test_pictures_saved_in_several_formats_look_as_matplotlib_draws_them(grid: bool, tmp_path: Path) -> None:
    report.save_figure(decorated(grid), tmp_path / "plain.png")
    report._plots.save_finished(decorated(grid), tmp_path / "first", (".png", ".svg"))
    again = decorated(grid)
    report._plots.save_finished(again, tmp_path / "again", (".png", ".svg"))
    again.set_dpi(decorated(grid).dpi)  # SVG has its own
    report.save_figure(again, tmp_path / "kept.png")
    plain, *others = (imread(tmp_path / f"{name}.png") for name in ("plain", "first", "kept"))
    assert plain.std() > 0.1
    for other in others:
        np.testing.assert_allclose(other, plain, rtol=0, atol=2 / 255)
    written = (tmp_path / "first.svg").read_text(encoding="utf-8")
    assert all(f">{label}<" in written for label in ("panel 0", "panel 5", "output", "1e7", "10⁰"))
