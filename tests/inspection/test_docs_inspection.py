"""What docs/inspection.md shows is what happens."""

import re
from pathlib import Path

import biasfree as bf

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "inspection.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = [text for kind, text in BLOCKS if kind == "python"]
SHOWN = [text for kind, text in BLOCKS if not kind]


def test_examples_run_and_print_what_is_shown(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in EXAMPLES:
        exec(block, {"bf": bf})
    printed = capsys.readouterr().out
    inspected = next(block for block in SHOWN if block.startswith("Is trained.npz"))
    # Words and counts; digits of what rounding leaves differ between machines.
    for line in inspected.splitlines():
        if not re.search(r"e-[01]|0\.000|W\d ", line):
            assert line in printed, line
    assert "it is linear up to" in printed
    assert "it is not linear: the best linear map misses 33 % of its output" in printed
