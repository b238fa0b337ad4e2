"""Pages made from the index of results: the index itself, one page per study, one per file of tests; and `{lives}`.

Verdicts and pictures are those that `biasfree reproduce --quick --out docs/_build/studies` left; without them the
pages say that nothing was run.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from biasfree import papers, report, studies

ROOT = Path(__file__).resolve().parents[2]
PAGES, RUNS = ROOT / "docs" / "generated", ROOT / "docs" / "_build" / "studies"
CLASSES = {"holds": "holds", "holds approximately": "nearly", "differs": "differs"}


def plain(text: object) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", str(text)).replace("\n", " ")


def function(name: str) -> str:
    """A link to a function's reference."""
    return f"{{py:obj}}`{name} <biasfree.{name}>`"


def test_page(test: str) -> str:
    """The page of a test's file, without ending."""
    return test.partition("::")[0].removesuffix(".py").replace("/", "-")


def test_anchor(test: str) -> str:
    """The label of a test."""
    return "test-" + re.sub(r"[^a-z0-9]+", "-", test.lower())


def test_link(test: str) -> str:
    """A link to a test's source on its page."""
    return f"[{plain(test.rpartition('::')[2])}](#{test_anchor(test)})"


def verdict(words: str) -> str:
    """A verdict with its colour; the words say it too."""
    name = words.partition(" (")[0]
    return f"[{plain(words)}]{{.{CLASSES[name]}}}" if name in CLASSES else plain(words)


def study_link(study: str) -> str:
    """A link to a study's page."""
    return f"[{study}](#study-{study})"


def outcome(study: str) -> dict[str, Any] | None:
    """What the last run of a study left."""
    try:
        return json.loads((RUNS / "results" / f"{study}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def pictures(study: str) -> list[str]:
    """The names of a study's PNG pictures."""
    return [name for name in (outcome(study) or {}).get("figures", []) if name.endswith(".png")]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    head = list(head)
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines] + [""]


def index_page(verdicts: dict[str, str]) -> str:
    """Every numbered result with its function, study, verdict, picture and test."""
    lines = [
        "# Index of results",
        "",
        "Every theorem, lemma, corollary, condition, assumption, equation and figure of Zhang, Saxe & Latham, by its "
        "number in the workshop paper and, where it is known, in the journal; the results of Le & Jegelka, which are "
        'known here by name only; and what goes beyond both. On the command line `biasfree find "Eq. 38"` prints a '
        "row and `biasfree reproduce eq-38` runs it. Verdicts are those of the run this site was built with.",
        "",
    ]
    for title, entries in papers.GROUPS.items():
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += entry_lines(entry, verdicts)
    return "\n".join(lines)


def entry_lines(entry: papers.Entry, verdicts: dict[str, str]) -> list[str]:
    """One entry under a heading of its own."""
    journal = f" (journal {entry.journal})" if entry.journal else ""
    shown = [f"{study_link(study)}: {verdict(verdicts[study])}" for study in entry.studies]
    drawn = [f"[{study}](#picture-{study})" for study in entry.studies if pictures(study)]
    lines = [
        f"(result-{entry.id})=",
        f"### {plain(entry.label)}{journal}",
        "",
        f"{plain(entry.says)} *{plain(entry.place)}*",
        "",
    ]
    links = {
        "Function": map(function, entry.functions), "Study": shown, "Picture": drawn,
        "Test": map(test_link, entry.tests),
    }  # fmt: skip
    lines += [f"- {kind}: {text}" for kind, all_of in links.items() if (text := ", ".join(all_of))]
    return [*lines, *([f"- Note: {plain(entry.note)}"] if entry.note else []), ""]


def study_page(study: studies.Study, words: str) -> str:
    """One study: claim, verdict, numbers, picture, source."""
    source = f"src/{study.run.__module__.replace('.', '/')}.py"
    lines = [
        f"(study-{study.id})=",
        f"# {plain(study.title)}",
        "",
        f"{plain(study.reference)}. Run it: `biasfree reproduce {study.id}`.",
        "",
        plain(study.statement),
        "",
        *(["```text", study.formula, "```", ""] if study.formula else []),
        f"**Verdict:** {verdict(words)}",
        "",
    ]
    found = outcome(study.id)
    if found:
        rows = [
            [plain(name), f"{value:.4g}" if isinstance(value, (int, float)) else plain(value),
             plain(found["expected"].get(name, "not judged"))]
            for name, value in found["measured"].items()
        ]  # fmt: skip
        lines += [*table(("quantity", "measured", "expected"), rows), plain(found["why"]), ""]
    for i, name in enumerate(pictures(study.id)):
        lines += [f"(picture-{study.id})=", ""] if i == 0 else []
        lines += [
            f"```{{image}} ../../_build/studies/figures/{name}",
            f":alt: {study.title}. {study.statement}",
            "```",
            "",
        ]
    here = [f"[{plain(e.label)}](#result-{e.id})" for e in papers.ENTRIES if study.id in e.studies]
    lines += [f"In the index: {', '.join(here)}.", "", "## Source", ""]
    lines += [f"```{{literalinclude}} ../../../{source}", ":language: python", "```", ""]
    return "\n".join(lines)


def tests_page(path: str, tests: list[str]) -> str:
    """The tests of one file that the index names."""
    lines = [f"# tests/{plain(path)}", "", "Of this file, the tests that the index of results names.", ""]
    for test in tests:
        name = test.partition("::")[2]
        lines += [f"({test_anchor(test)})=", f"## {plain(name.rpartition('::')[2])}", ""]
        lines += [f"```{{literalinclude}} ../../../tests/{path}", ":language: python"]
        lines += [f":pyobject: {name.replace('::', '.')}", "```", ""]
    return "\n".join(lines)


def listing(title: str, text: str, pages: Iterable[str]) -> str:
    """A page that lists others."""
    return "\n".join([f"# {title}", "", text, "", "```{toctree}", ":maxdepth: 1", "", *pages, "```", ""])


def generate(app: Sphinx) -> None:
    """Write all pages; those that say what they said before are left alone."""
    every = studies.studies()
    verdicts = report.stored_verdicts(RUNS, [study.id for study in every])
    files: dict[str, list[str]] = {}
    for test in sorted({test for entry in papers.ENTRIES for test in entry.tests}):
        files.setdefault(test.partition("::")[0], []).append(test)
    pages = {"results.md": index_page(verdicts)}
    pages |= {f"studies/{study.id}.md": study_page(study, verdicts[study.id]) for study in every}
    pages |= {f"tests/{test_page(path)}.md": tests_page(path, tests) for path, tests in files.items()}
    pages["studies/index.md"] = listing(
        "Studies", "The executable paper, one page per study, in the order of the papers.", [s.id for s in every]
    )
    pages["tests/index.md"] = listing(
        "Tests behind the results", "The source of every test that the index names.", map(test_page, files)
    )
    for name, text in pages.items():
        target = PAGES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    for folder in ("studies", "tests"):
        for left in set((PAGES / folder).glob("*.md")) - {PAGES / name for name in pages}:
            left.unlink()


class Lives(SphinxDirective):
    """``{lives} eq-38 theorem-5``: links to the function, study and test of these entries."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """One line of links."""
        known = {entry.id: entry for entry in papers.ENTRIES}
        entries = [known[name] for name in self.arguments[0].split()]

        def joined(kind: str, link: Any) -> str:
            return ", ".join(dict.fromkeys(link(name) for entry in entries for name in getattr(entry, kind)))

        where = ", ".join(f"[{plain(entry.label)}](#result-{entry.id})" for entry in entries)
        text = (
            f"*Index:* {where}. *Function:* {joined('functions', function)}. *Study:* {joined('studies', study_link)}. "
            f"*Test:* {joined('tests', test_link)}."
        )
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both."""
    app.add_directive("lives", Lives)
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
