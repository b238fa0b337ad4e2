"""The index of results: no number of the papers is missing, and no entry leads nowhere."""

import ast
import functools
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import biasfree
from biasfree import papers, studies
from biasfree.cli import app

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT.parent / "shared" / "paper" / "zhang2024_workshop_full_text.txt"

# What the workshop paper numbers, read off its text by hand.
STATEMENTS = {
    "Theorem": (1, 5, 13),
    "Corollary": (2, 6, 14),
    "Condition": (3,),
    "Assumption": (4,),
    "Lemma": (7, 8, 9, 10, 11, 12),
}
EQUATIONS = range(1, 46)
PARTS = {
    6: "ab", 7: "ab", 8: "ab", 10: "ab", 16: "ab", 24: "ab", 30: "ab", 34: "ab", 37: "ab", 39: "abc", 40: "abc",
}  # fmt: skip
WORKSHOP_FIGURES, JOURNAL_FIGURES = range(1, 4), range(1, 9)
# What is known of the journal's own numbers.
JOURNAL = {"Theorem 8": "Theorem 5", "Assumption 7": "Assumption 4"}
# Figures of the journal that nothing at hand describes.
UNKNOWN = {"tmlr-figure-2", "tmlr-figure-7"}


def test_every_number_has_its_entry() -> None:
    wanted = {f"{kind} {number}" for kind, numbers in STATEMENTS.items() for number in numbers}
    wanted |= {f"Eq. {number}" for number in EQUATIONS}
    wanted |= {f"Workshop Figure {number}" for number in WORKSHOP_FIGURES}
    labels = [entry.label for entry in papers.ENTRIES]
    assert wanted <= set(labels)
    assert len(labels) == len(set(labels))
    for number in JOURNAL_FIGURES:
        assert len(papers.find(f"journal figure {number}")) == 1
    for journal, workshop in JOURNAL.items():
        assert [entry.label for entry in papers.find(f"journal {journal}")] == [workshop]
    # Nothing is indexed that is not in the papers.
    numbered = {label for label in labels if re.match(r"(Theorem|Corollary|Condition|Assumption|Lemma|Eq\.) ", label)}
    assert numbered == wanted - {f"Workshop Figure {number}" for number in WORKSHOP_FIGURES}


def test_the_list_of_numbers_is_the_papers() -> None:
    """The list above against the text itself, where that is at hand."""
    if not TEXT.exists():
        pytest.skip(
            "the workshop paper's text is not beside this checkout: the list of numbers was not compared with it"
        )
    text = TEXT.read_text(encoding="utf-8")
    kinds = "Theorem|Lemma|Corollary|Condition|Assumption|Proposition|Definition|Remark|Conjecture|Table"
    printed = {(kind, int(number)) for kind, number in re.findall(rf"(?m)^\W*({kinds}) (\d+)", text)}
    assert printed == {(kind, number) for kind, numbers in STATEMENTS.items() for number in numbers}
    tags = re.findall(r"\\tag\{(\d+)([a-z]?)\}|(?m:\((\d+)([a-z]?)\)\s*$)", text)
    equations = {(int(a or c), b or d) for a, b, c, d in tags}
    assert {number for number, _ in equations} <= set(EQUATIONS)
    assert max(number for number, _ in equations) == max(EQUATIONS)
    for number, part in equations:
        assert part in PARTS.get(number, ""), (number, part)
    # Also those only referred to.
    referred = {int(n) for n in re.findall(r"Equations? \((\d+)", text)}
    assert referred <= set(EQUATIONS)
    assert {int(n) for n in re.findall(r"(?m)^Figure (\d+)", text)} == set(WORKSHOP_FIGURES)


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    """The names of all tests in a file, with their classes."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(found)


@pytest.mark.parametrize("entry", papers.ENTRIES, ids=lambda entry: entry.id)
def test_no_link_is_dead(entry: papers.Entry) -> None:
    known = {study.id for study in studies.studies()}
    if entry.id in UNKNOWN:
        assert entry.note
        assert entry.functions == entry.studies == entry.tests == ()
        with pytest.raises(ValueError, match="no study shows"):
            studies.find([entry.id])
        return
    assert entry.functions
    assert entry.studies
    assert entry.tests
    for name in entry.functions:
        functools.reduce(getattr, name.split("."), biasfree)
    assert set(entry.studies) <= known
    for test in entry.tests:
        path, _, name = test.partition("::")
        assert name in names_in(ROOT / "tests" / path), test


def test_every_study_is_in_the_index() -> None:
    indexed = {study for entry in papers.ENTRIES for study in entry.studies}
    assert indexed == {study.id for study in studies.studies()}


def test_every_number_is_an_alias() -> None:
    for entry in papers.ENTRIES:
        for name in entry.names if entry.studies else ():
            found = {study.id for study in studies.find([name])}
            assert found
            # A name that is also a study's own means that study alone.
            assert found <= set(entry.studies)
    for name, study in {
        "eq-38": "corollary-14", "eq-2": "theorem-1", "eq-3": "depth-separation", "eq-40": "eq-39-40",
        "lemma-12": "lemma-12", "lemma-9": "lemma-8-9", "Eq. 24a": "lemma-8-9", "tmlr-theorem-8": "theorem-5-square",
        "workshop-figure-2": "tmlr-figure-6",
    }.items():  # fmt: skip
        assert study in {found.id for found in studies.find([name])}, name


@pytest.mark.parametrize(
    ("typed", "label"),
    [
        ("Eq. 38", "Eq. 38"), ("eq-38", "Eq. 38"), ("equation (38)", "Eq. 38"), ("38", "Eq. 38"), ("Eqn 40b", "Eq. 40"),
        ("THEOREM 5", "Theorem 5"), ("thm. 13", "Theorem 13"), ("Cor 6", "Corollary 6"), ("lemma_12", "Lemma 12"),
        ("workshop fig. 2", "Workshop Figure 2"), ("TMLR Figure 6", "Workshop Figure 2"), ("App. E.4", "Appendix E.4"),
        ("Appendix C.4", "Journal Appendix C.4"), ("theorem_13", "Theorem 13"), ("skeleton", "The skeleton"),
        ("Appendix F.2", "Eq. 44"), ("Section 4.1", "Theorem 5"),
    ],
)  # fmt: skip
def test_numbers_are_found_as_people_type_them(typed: str, label: str) -> None:
    assert label in [entry.label for entry in papers.find(typed)]


def test_command_line(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = str(tmp_path / "report")
    shown = runner.invoke(app, ["find", "Eq. 38", "--report", folder])
    assert shown.exit_code == 0
    for piece in (
        "biasfree.theory.closed_form",
        "tests/theory/test_time_course.py::",
        "not run here",
        "reproduce eq-38",
    ):
        assert piece in shown.output
    assert runner.invoke(app, ["reproduce", "eq-2", "--quick", "--jobs", "1", "--out", folder]).exit_code == 0
    assert "theorem-1: holds (seed 0, quick)" in runner.invoke(app, ["find", "eq", "2", "--report", folder]).output
    (row,) = json.loads(runner.invoke(app, ["find", "lemma 12", "--json", "--report", folder]).output)
    assert row["functions"] == ["theory.lemma_12"]
    assert row["verdicts"] == {"lemma-12": "not run here"}
    for wrong in ("Eq. 99", "theorem 2", "nothing of the kind", "0", ""):
        with pytest.raises(ValueError, match="no result of the papers is called"):
            runner.invoke(app, ["find", wrong], catch_exceptions=False)
