"""The built site in a real browser: nothing said on the console, nothing asked of another host, no dead link.

`make docs` builds the site and then runs this file. Without a built site there is nothing to test, and it says so.
"""

import functools
import itertools
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from biasfree import papers
from tests.explorer.browsing import browser, why_not
from tests.site.questions import QUESTIONS

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
PAGES = sorted(SITE.rglob("*.html"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAGES, reason="there is no built site: run `make docs`, which tests it too"),
]


class Parsed(HTMLParser):
    """Links, anchors, pictures and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.pictures: list[dict[str, str | None]] = []
        self.loaded: list[str] = []
        self.formulas = 0
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.anchors.add(str(values["id"]))
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag == "img":
            self.pictures.append(values)
        if tag in ("img", "script", "iframe") and values.get("src"):
            self.loaded.append(str(values["src"]))
        if tag == "link" and values.get("href"):
            self.loaded.append(str(values["href"]))
        self.formulas += tag == "math"

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@functools.cache
def parsed(page: Path) -> Parsed:
    return Parsed(page.read_text(encoding="utf-8"))


def name_of(page: Path) -> str:
    return page.relative_to(SITE).as_posix()


def target(page: Path, link: str) -> tuple[Path, str]:
    """The file a link leads to, and the anchor in it."""
    path, anchor = urldefrag(link)
    return ((page.parent / unquote(path)).resolve() if path else page), unquote(anchor)


def test_every_link_within_the_site_leads_somewhere() -> None:
    dead = []
    for page in PAGES:
        for link in parsed(page).links:
            if "://" in link or link.startswith("mailto:"):
                continue
            there, anchor = target(page, link)
            if not there.exists() or (anchor and there.suffix == ".html" and anchor not in parsed(there).anchors):
                dead.append(f"{name_of(page)}: {link}")
    assert not dead


def test_nothing_is_loaded_from_elsewhere() -> None:
    outside = [f"{name_of(page)}: {what}" for page in PAGES for what in parsed(page).loaded if "//" in what]
    assert not outside


def test_every_picture_has_a_text_alternative() -> None:
    bare = [
        f"{name_of(page)}: {picture.get('src')}"
        for page in PAGES
        for picture in parsed(page).pictures
        if len(picture.get("alt") or "") < 10
    ]
    assert not bare


def test_formulas_are_mathml() -> None:
    assert parsed(SITE / "theory.html").formulas > 100
    for page in PAGES:
        assert "MathJax" not in page.read_text(encoding="utf-8")


def test_every_entry_links_to_its_function_study_and_tests() -> None:
    page = SITE / "generated" / "results.html"
    found = {target(page, link) for link in parsed(page).links}
    files = {(there.relative_to(SITE).as_posix(), anchor) for there, anchor in found if there.is_relative_to(SITE)}
    anchors = {anchor for _, anchor in files}
    for entry in papers.ENTRIES:
        assert f"result-{entry.id}" in parsed(page).anchors
        for function in entry.functions:
            assert f"biasfree.{function}" in anchors, (entry.id, function)
        for study in entry.studies:
            assert (f"generated/studies/{study}.html", f"study-{study}") in files, (entry.id, study)
        for test in entry.tests:
            assert test.rpartition("::")[2] in "".join(parsed(page).words), (entry.id, test)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_three_clicks_away(question: str) -> None:
    path, words = QUESTIONS[question]
    assert len(path) <= 4
    for here, there in itertools.pairwise(path):
        page = SITE / f"{here.partition('#')[0]}.html"
        name, _, anchor = there.partition("#")
        links = {target(page, link) for link in parsed(page).links}
        wanted = (SITE / f"{name}.html").resolve()
        assert any(file == wanted and (not anchor or anchor == at) for file, at in links), f"{here} → {there}"
    text = " ".join("".join(parsed(SITE / f"{path[-1].partition('#')[0]}.html").words).split())
    for word in words:
        assert word in text, word


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if reason := why_not():
        pytest.skip(reason)
    with browser() as found:
        yield found


def lost(request: Any) -> bool:
    """Whether a request failed by itself, and not because the next page was asked for meanwhile."""
    return "ABORTED" not in (request.failure or "")


def watched(chromium: Any, wrong: list[str], **options: Any) -> Any:
    """A page that writes down what it should not do."""
    page = chromium.new_context(**options).new_page()
    page.on("console", lambda message: wrong.append(f"{page.url}: console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    page.on(
        "requestfailed", lambda request: wrong.append(f"{page.url}: failed {request.url}") if lost(request) else None
    )
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:", "blob:"))
            else wrong.append(f"{page.url}: asked {request.url}")
        ),
    )
    return page


def test_no_page_complains_or_asks_another_host(chromium: Any) -> None:
    wrong: list[str] = []
    page = watched(chromium, wrong, viewport={"width": 1200, "height": 900})
    for each in PAGES:
        page.goto(each.as_uri())
    assert not wrong


def test_legible_at_400_pixels_and_in_the_dark(chromium: Any) -> None:
    wrong: list[str] = []
    narrow = watched(chromium, wrong, viewport={"width": 400, "height": 800})
    dark = watched(chromium, wrong, viewport={"width": 400, "height": 800}, color_scheme="dark")
    for name in ("index", "start", "theory", "generated/results", "generated/reference/top", "tutorials/1-first-flow"):
        narrow.goto((SITE / f"{name}.html").as_uri())
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 400, name
        dark.goto((SITE / f"{name}.html").as_uri())
        brightness = dark.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
        )
        assert brightness < 200, name
    assert not wrong


def test_search_finds_a_number_from_disk(chromium: Any) -> None:
    wrong: list[str] = []
    page = watched(chromium, wrong)
    page.goto((SITE / "search.html").as_uri() + "?q=closed_form")
    page.wait_for_selector("#search-results li a", timeout=20_000)
    assert page.locator("#search-results li").count() >= 1
    assert not wrong
