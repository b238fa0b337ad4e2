"""The pages' own Markdown: no link leads nowhere, and readers' questions are answered within three clicks."""

import functools
import itertools
import re
from pathlib import Path

import pytest

from biasfree import papers, studies
from tests.site.questions import QUESTIONS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated"} & set(path.relative_to(DOCS).parts))
MADE = ("generated/results", "generated/studies/index", "generated/tests/index", "generated/reference/index")


@functools.cache
def text_of(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    heads = re.findall(r"(?m)^#{1,3} (.+)$", text_of(page))
    return frozenset(re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text_of(page))


def made(target: str) -> bool:
    """Whether a page is one of those made from the package."""
    return target in MADE or target.startswith("generated/reference/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_no_link_leads_nowhere(page: Path) -> None:
    entries = {f"#result-{entry.id}" for entry in papers.ENTRIES} | {
        f"#study-{study.id}" for study in studies.studies()
    }
    for link in links(page):
        path, _, anchor = link.partition("#")
        assert "://" not in link, f"{link} leads to another host"
        if not path:
            assert link in entries or anchor in anchors(page) or anchor.startswith("biasfree."), link
            continue
        target = (page.parent / path).resolve()
        if not made(target.relative_to(DOCS).with_suffix("").as_posix() if target.is_relative_to(DOCS) else ""):
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_picture_is_described(page: Path) -> None:
    for described in re.findall(r"!\[(.*?)\]\(", text_of(page)):
        assert len(described) > 10


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_three_clicks_away(question: str) -> None:
    """Each step between pages that are written by hand is a link of the page before; the built site is tested whole."""
    path, words = QUESTIONS[question]
    assert path[0] == "index"
    assert len(path) <= 4
    for here, there in itertools.pairwise(path):
        page = DOCS / f"{here.partition('#')[0]}.md"
        name = there.partition("#")[0]
        if not page.exists() or here.startswith("generated/") or name == here.partition("#")[0]:
            continue  # a made page, or a heading of the same page, which stands in its table of contents
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if not link.startswith("#")}
        assert (DOCS / f"{name}.md").resolve() in found, f"{here} has no link to {there}"
    last = DOCS / f"{path[-1].partition('#')[0]}.md"
    if not path[-1].startswith("generated/"):
        for word in words:
            assert word in last.read_text(encoding="utf-8"), word
        anchor = path[-1].partition("#")[2]
        assert not anchor or anchor in anchors(last)
