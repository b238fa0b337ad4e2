"""The tutorials' cells, read from their Markdown."""

import re
from pathlib import Path

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
NAMES = sorted(path.stem for path in TUTORIALS.glob("[0-9]*.md"))


def cells(name: str) -> list[str]:
    """The code of every cell, without its options."""
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    found = re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r"\A(?:---\n.*?\n---\n|(?::.*\n)+)", "", cell, flags=re.DOTALL) for cell in found]
