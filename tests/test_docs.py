"""What the README shows is what happens."""

import itertools
import re
import sys
from pathlib import Path

import pytest

import biasfree as bf
from biasfree import dynamics

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_first_example_runs_and_prints_its_card(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES[0].strip().splitlines()) <= 10
    exec(compile(EXAMPLES[0], "README.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    shown = re.search(r"```\n(Trajectory.*?)```", README, re.DOTALL)[1]
    # Steps and seconds vary with the machine; the words and the losses do not.
    stable = ("network", "data", "seeds", "loss")
    printed = capsys.readouterr().out
    for line in shown.splitlines():
        if line.split()[0] in stable:
            assert line in printed


@pytest.mark.slow  # every example also runs in `make smoke`, by the wheel, which is part of .ci/run
def test_other_examples_run() -> None:
    import biasfree

    for block in EXAMPLES[1:]:
        exec(block, {"bf": biasfree})


def test_counted_studies_are_as_many() -> None:
    from biasfree import studies

    assert int(re.search(r"(\d+) studies", README)[1]) == len(studies.studies())


def test_commands_and_links_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_functions_named_in_the_theory_page_exist() -> None:
    import biasfree

    table = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8").split("# What is new")[0]
    names = re.findall(r"`((?:measure\.)?[a-z_0-9]+)(?:\(|`)", table)
    assert len(names) > 40
    for name in names:
        home = biasfree.measure if name.startswith("measure.") else biasfree.theory
        # `is_linear` and the like are attributes of a result, named beside the function that gives it.
        assert hasattr(home, name.removeprefix("measure.")) or hasattr(biasfree.theory.ParityForm, name), name


def test_every_file_of_the_engine_has_its_place_in_the_documentation() -> None:
    text = (ROOT / "docs" / "exact.md").read_text("utf-8")
    package = ROOT / "src" / "biasfree"
    modules = {path.stem for path in (package / "dynamics" / "exact").glob("_*.py")} - {"__init__"}
    sources = {path.name for path in (package / "native").iterdir() if path.suffix in {".c", ".h"}}
    named = {name.removesuffix(".py") for name in re.findall(r"`(?:native/)?(_?\w+(?:\.py|\.c|\.h)?)`", text)}
    assert modules | sources <= named
    known = sources | {path.stem for path in package.rglob("*.py")}
    assert {name for name in named if name.endswith((".c", ".h")) or name.startswith("_")} <= known


def test_a_call_goes_the_way_that_is_drawn() -> None:
    """What ``_flow`` calls, in order: the modules of docs/design.md, none of them twice."""
    folder, begun = Path(dynamics.__file__).parent, []

    def ours(frame) -> bool:
        return folder in Path(frame.f_code.co_filename).parents

    def called(frame, event, _) -> None:
        before = frame.f_back
        while before is not None and not ours(before):  # what wraps a function is no visit
            before = before.f_back
        if event == "call" and ours(frame) and before is not None and Path(before.f_code.co_filename).stem == "_flow":
            path = Path(frame.f_code.co_filename)
            name = "methods" if path.parent.name in {"methods", "exact"} else path.stem
            if name not in {"_flow", "_status", "_pieces"}:  # itself, and vocabularies
                begun.append(name)

    bf.gradient_flow(bf.Network.init([2, 3, 1], 0.0, 0.1, 0), bf.datasets.xor(), until=1.0)  # imports are no visits
    sys.setprofile(called)
    try:
        bf.gradient_flow(bf.Network.init([2, 3, 1], 0.0, 0.1, 0), bf.datasets.xor(), until=1.0)
    finally:
        sys.setprofile(None)
    visited = [module for module, _ in itertools.groupby(begun)]
    text = (ROOT / "docs" / "design.md").read_text("utf-8").split("## The way of one `gradient_flow` call")[1]
    drawn = re.findall(r"^ ?\d+ ├─ (\w+)|^10 └─ (\w+)", text, re.MULTILINE)
    assert visited == [one or other for one, other in drawn]
    assert len(re.findall(r"^ ?\d+ ", text.split("```")[1], re.MULTILINE)) <= 10
