"""What docs/diagnosis.md shows is what happens."""

import re
from pathlib import Path

import biasfree as bf

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "diagnosis.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = [text for kind, text in BLOCKS if kind == "python"]
SHOWN = [text for kind, text in BLOCKS if not kind]


def test_examples_run(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in EXAMPLES:
        exec(block, {"bf": bf})
    assert "several linear networks" in capsys.readouterr().out


def test_the_thresholds_are_those_of_the_code() -> None:
    from biasfree.diagnosis import _course

    for value, told in (
        (_course.LINEAR, "bend at most 10 %"),
        (_course.BELOW, "more than 3 % of L₀"),
        (_course.SITS, "linear at 1.5 escape times and ever after"),
        (_course.APART, "apart (below 5 %)"),
    ):
        number = re.search(r"[\d.]+", told)[0]
        assert float(number) in (value, round(100 * value, 9))
        assert told in PAGE


def test_the_worked_example_says_what_the_rule_says() -> None:
    """Its departure lies where the six points' plateau ends, and its solution is least squares."""
    shown = next(block for block in SHOWN if "six points" in block)
    data = bf.datasets.six_points()
    assert f"({bf.theory.best_possible_loss(data, slope=1.0).loss:.4g})" in shown
    assert 550 < float(re.search(r"linear until t ≈ (\d+)", shown)[1]) < 640
