"""A real browser for the tests: Debian's or an installed Chromium, driven by Playwright."""

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Chromium as root needs the first; the others keep it from asking hosts of its own.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((found for name in _NAMES if (found := shutil.which(name))), None)


def why_not() -> str | None:
    """Why there is no browser, or None."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: pip install 'biasfree[dev]'"
    if CHROMIUM is None:
        return "no Chromium found: apt-get install chromium"
    return None


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


class Watch:
    """A page, and everything that it should not do: say something on the console, ask another host."""

    def __init__(self, browser: Any, allowed: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.page = self.context.new_page()
        self.allowed, self.wrong, self._visits = allowed, list[str](), 0
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.set_default_timeout(120_000)  # a first run on a new machine compiles

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.allowed, "data:", "blob:")):
            self.wrong.append(f"asked {request.url}")

    def open(self, fragment: str = "") -> Any:
        """Open an address; on a page that is open already, by its fragment alone, which does not load it again."""
        self._visits += 1
        self.page.evaluate("delete document.body?.dataset.state")
        self.page.goto(f"{self.allowed}#{fragment}&visit={self._visits}")
        return self.drawn()

    def drawn(self) -> Any:
        """Wait until what was asked last is drawn."""
        self.page.wait_for_selector("body[data-state=drawn]")
        return self.page

    def complete(self) -> Any:
        """Wait for theory and diagnosis too."""
        self.page.wait_for_selector("body[data-state=drawn][data-beside=done][data-plateaus=done][data-diagnose=done]")
        return self.page

    def text(self, id: str) -> str:
        return self.page.inner_text(f"#{id}")

    def losses(self) -> list[float]:
        """The curve that is shown, as the page holds it."""
        return self.page.evaluate("window.explorer.then((page) => Array.from(page.run.arrays.losses))")

    def check(self) -> None:
        """Nothing was said on the console, and no other host was asked."""
        wrong, self.wrong = self.wrong, []
        assert not wrong, wrong

    def close(self) -> None:
        """End it, and check."""
        self.context.close()
        self.check()
