"""``biasfree sweep``: results, sentences with their line, exit codes, pictures."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from biasfree import cli, report, sweeps

PLAN = """title = "Small"
seeds = 2
keep = ["final_loss", "best_possible_loss"]

[run]
data = "xor"
width = 10
until = 2

[axes]
slope = [0.0, 0.5]
init_scale = { from = 1e-3, to = 1e-1, count = 3, spacing = "log" }
"""


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the program with arguments, in an empty folder; gives exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["biasfree", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


def test_a_plan_its_result_and_its_picture(run, tmp_path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    code, out, err = run("sweep", "plan.toml", "--plot", "small.png")
    assert (code, err) == (0, "")
    assert "12, of which 0 failed" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.nc", "plan.runs", "plan.toml", "small.png"]
    code, out, _ = run("sweep", "plan.toml", "--json")
    told = json.loads(out)
    assert (told["runs"], told["computed"], told["reused"], told["failed"]) == (12, 0, 12, 0)
    assert told["axes"] == {"slope": 2, "init_scale": 3, "seed": 2}
    assert run("sweep", "plan.toml", "--quiet") == (0, "", "")
    code, out, _ = run("sweep", "plot", "plan.nc", "--out", "again.svg", "--show", "best_possible_loss")
    assert code == 0
    assert (tmp_path / "again.svg").read_text().startswith("<?xml")
    data = sweeps.load(tmp_path / "plan.nc").dataset
    np.testing.assert_allclose(data.init_scale, [1e-3, 1e-2, 1e-1])


def test_the_example_is_a_plan_that_is_not_overwritten(run, tmp_path) -> None:
    code, out, _ = run("sweep", "--example")
    assert code == 0
    assert "plan.toml" in out
    assert (tmp_path / "plan.toml").read_text().count("#") > 10
    assert sweeps.load_plan(tmp_path / "plan.toml").runs == 32
    code, _, err = run("sweep", "--example")
    assert code == 2
    assert "exists already" in err


@pytest.mark.parametrize("name", sweeps.shipped())
def test_shipped_plans_are_plans(name) -> None:
    plan = sweeps.load_plan(name)
    assert plan.title
    assert plan.runs < 3000
    shown = plan.plot["show"]
    assert set(shown) <= set(plan.quantities)


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("[axes]", "[axis]", 10, "unknown entry 'axis'"),
        ("width = 10", "widht = 10", 7, "Did you mean 'width'"),
        ('"xor"', '"xorr"', 6, "Did you mean 'xor'"),
        ("count = 3", "count = 1", 12, "at least 2"),
        ("from = 1e-3", "from = 0", 12, "above 0"),
        ("to = 1e-1, ", "", 12, "needs 'to'"),
        ("spacing =", "spaced =", 12, "unknown entry of a range"),
        ("slope = [0.0, 0.5]", 'slope = "all"', 11, "must be a list of values or a range"),
        ("slope = [0.0, 0.5]", "slop = [0.0, 0.5]", 11, "Did you mean 'slope'"),
        ("seeds = 2", "seeds = -2", 2, "seeds must be"),
        ('"final_loss"', '"final_lost"', 3, "Did you mean 'final_loss'"),
        ("width = 10", 'width = "ten"', 7, "width must be a number"),
        ("seeds = 2", "seeds = 2\nseeds = 3", 3, "no valid TOML"),
        ("seeds = 2", 'seeds = 2\nrefine = "verdict"', 3, "unknown kept quantity"),
        ("until = 2", "", 5, "needs 'until'"),
        ("until = 2", "until = -2", 8, "until must be a finite number above 0"),
        ("width = 10", "width = inf", 7, "width must be a whole number"),
        ("width = 10", 'loss = "cubic"', 7, "unknown loss"),
        ("seeds = 2", "seeds = [0.5]", 2, "must be a whole number"),
        ('"final_loss"', "3", 3, "keep must be names"),
        ('"final_loss"', '""', 3, "unknown quantity"),
        ("[axes]", '[plot]\nboundary = [{ quantity = "final_loss", level = "x" }]\n[axes]', 11, "must be a number"),
        ("[axes]", '[plot]\nshow = ["leaves"]\n[axes]', 11, "unknown kept quantity to show 'leaves'"),
        ("[axes]", '[plot]\nshown = ["final_loss"]\n[axes]', 11, "unknown entry of plot 'shown'"),
    ],
)
def test_bad_plans_are_a_sentence_with_the_line(run, tmp_path, old, new, line, sentence) -> None:
    assert old in PLAN
    (tmp_path / "plan.toml").write_text(PLAN.replace(old, new))
    code, out, err = run("sweep", "plan.toml")
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert re.search(rf"line {line}\b", err), err
    assert not (tmp_path / "plan.runs").exists()


def test_bad_use_is_a_sentence(run, tmp_path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "broken.nc").write_bytes(b"no")
    for words, sentence in [
        ((), "name a plan"),
        (("nowhere.toml",), "no file at nowhere.toml"),
        (("six-point",), "Did you mean 'six-points'"),
        (("plot",), "name the result to draw"),
        (("plot", "broken.nc"), "cannot read broken.nc"),
        (("plan.toml", "--out", "found.csv"), "must end in .nc"),
        (("plan.toml", "--workers", "0"), "workers must be"),
        (("plan.toml", "other.toml"), "one plan at a time"),
    ]:
        code, _, err = run("sweep", *words)
        assert code == 2, words
        assert sentence in err


def test_pictures_of_one_two_and_three_axes() -> None:
    from biasfree.sweeps import Range, sweep

    def parabola(x: float, y: float, z: float, seed: int) -> dict[str, float | str]:
        return {"height": x * x + y * z + 0.1 * seed, "side": "above" if y > x * z else "below"}

    one = sweep(parabola, {"x": Range(0, 1, 5), "y": [0.5], "z": [1.0]}, seeds=3)
    figure = one.plot("height")
    (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 5]
    np.testing.assert_allclose(line.get_ydata(), np.linspace(0, 1, 5) ** 2 + 0.5 + 0.1)  # the median of three seeds
    two = sweep(parabola, {"x": Range(0, 1, 5), "y": Range(0, 1, 4), "z": [1.0]}, seeds=2)
    mesh = two.plot("height").axes[0].collections[0]
    assert mesh.get_array().shape == (4, 5)
    words = [text.get_text() for text in two.plot("side").axes[0].get_legend().get_texts()]
    assert words == ["above", "below"]
    three = sweep(parabola, {"x": Range(0, 1, 3), "y": Range(0, 1, 3), "z": [0.5, 1.0]}, seeds=1)
    titles = [axes.get_title() for axes in three.plot("side").axes]
    assert titles == ["z = 0.5", "z = 1.0"]
    # Colours mean the same in all facets, words that a facet has not included.
    high = sweep(parabola, {"x": Range(0, 1, 3), "y": Range(2, 3, 3), "z": [0.5, 1.0, 3.0]}, seeds=1)
    limits = {axes.collections[0].get_clim() for axes in high.plot("height").axes if axes.get_title()}
    assert limits == {(0.5 * 2, 1 + 3 * 3)}
    first, _, last = (axes.collections[0] for axes in high.plot("side").axes)
    assert set(first.get_array().ravel()) == {0.0}
    assert set(last.get_array().ravel()) == {0.0, 1.0}
    assert first.get_clim() == last.get_clim()
    # Words along one axis: the share of the seeds.
    (axes,) = one.plot("side").axes
    shares = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert shares == {"above": [1.0, 1.0, 0.0, 0.0, 0.0], "below": [0.0, 0.0, 1.0, 1.0, 1.0]}
    with pytest.raises(ValueError, match="unknown kept quantity"):
        two.plot("depth")


def test_theory_is_drawn_on_top_where_it_was_kept() -> None:
    from biasfree.sweeps import sweep

    found = sweep(
        {"data": "symmetric_gaussian", "dim": 3, "pairs": 10, "until": 2}, {"init_scale": [1e-3, 1e-2, 1e-1]},
        keep=["escape_time", "predicted_escape_time"],
    )  # fmt: skip
    assert found.dataset.escape_time.attrs["predicted_by"] == "predicted_escape_time"
    figure = report.plot_sweep(found.dataset)
    drawn = [line.get_ydata() for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert any(np.array_equal(y, found.dataset.predicted_escape_time[:, 0]) for y in drawn)


def test_ctrl_c_is_a_sentence(run, tmp_path, monkeypatch) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps, "run_plan", interrupted)
    code, _, err = run("sweep", "plan.toml")
    assert code == 130
    assert "the same command goes on" in err


def test_what_the_page_shows_is_what_happens(capsys) -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "sweeps.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})
    assert "final_loss" in capsys.readouterr().out
    for picture in re.findall(r"\]\(([^)#]+)\)", page):
        assert (root / "docs" / picture).exists(), picture
    assert set(sweeps.shipped()) == {"example", *re.findall(r"^\*\*`([a-z0-9-]+)`\.\*\*", page, re.MULTILINE)}
