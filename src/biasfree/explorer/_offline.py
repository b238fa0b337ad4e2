"""The page's files, and the page as one file that works from disk: its modules, Plotly and a run inside.

Modules name each other by bare names, which an import map in ``index.html`` turns into addresses. In one file the map
turns the same names into data addresses, so nothing is bundled and nothing rewritten but the map.
"""

import base64
import functools
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

_FOLDER = resources.files("biasfree.explorer").joinpath("page")


@functools.cache
def parts() -> tuple[str, ...]:
    """Names of the page's files."""
    return tuple(sorted(entry.name for entry in _FOLDER.iterdir() if not entry.name.startswith((".", "_"))))


def part(name: str) -> str:
    """One of the page's files."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


@functools.cache
def plotly() -> bytes:
    """Plotly.js, as the installed package carries it; as bytes, since a string of it takes twice the memory."""
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()


def one_file(view: Mapping[str, Any], shown: Mapping[str, Any], answers: Mapping[str, bytes]) -> bytes:
    """The page with a run inside; it asks nobody for anything."""
    from biasfree import __version__
    from biasfree.explorer import _gallery, _view

    stored = {
        "view": view,
        "shown": shown,
        "answers": {kind: base64.b64encode(answer).decode() for kind, answer in answers.items()},
        "choices": {
            "version": __version__, "defaults": _view.defaults(), "file": None, "losses": _view.LOSSES,
            "data": {name: list(takes) for name, (_, takes) in _view.GENERATORS.items()}, "rtols": _view.RTOLS,
            "largest": _view.LARGEST, "gallery": [prepared._asdict() for prepared in _gallery.GALLERY],
        },
    }  # fmt: skip
    modules = {f"explorer/{name}": _as_address(part(name)) for name in parts() if name.endswith(".js")}
    policy = (
        "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'none'"
    )
    addresses = json.dumps({"imports": modules})
    replaced = {
        r'<script type="importmap">.*?</script>': f'<script type="importmap">{addresses}</script>',
        r'<link rel="stylesheet"[^>]*>': f"<style>{part('style.css')}</style>",
        r'<link rel="icon"[^>]*>': f'<link rel="icon" href="{_as_address(part("icon.svg"), "image/svg+xml")}">',
        r'<script type="module" src="page/main.js"></script>': _stored(stored)
        + '<script type="module">import "explorer/main.js";</script>',
        r"<meta charset[^>]*>": f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">',
    }
    page = part("index.html")
    for pattern, text in replaced.items():
        before, there, after = _around(pattern, page)
        assert there, f"index.html has no {pattern}"
        page = before + text + after
    before, there, after = _around(r'<script src="plotly.js"[^>]*></script>', page)
    assert there, "index.html has no plotly.js"
    script = plotly().replace(b"</script", b"<\\/script")  # nothing in it may look like the end of its element
    return b"".join([before.encode(), b"<script>", script, b"</script>", after.encode()])


def _as_address(text: str, kind: str = "text/javascript") -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _around(pattern: str, page: str) -> tuple[str, bool, str]:
    match = re.search(pattern, page, re.DOTALL)
    return (page[: match.start()], True, page[match.end() :]) if match else (page, False, "")


def _stored(value: Any) -> str:
    """A value inside the page; nothing in it can look like the end of its element."""
    text = json.dumps(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="stored">{text}</script>'
