"""Docstrings are plain text with the field's own symbols: show |x|, W_l and a * b as they are, and shapes as shapes."""

import re
import sys

from sphinx.application import Sphinx
from sphinx.util import typing as sphinx_typing

_LITERAL = re.compile(r"(``.+?``)")
_MARKUP = re.compile(r"([|*`]|_(?![A-Za-z0-9])|(?<![\w\\])_(?=[A-Za-z0-9]))")
_SECTIONS = ("Args:", "Attributes:", "**Attributes**", "Returns:", "Raises:", "Yields:", "Example:", "Examples:")
_ITEM = re.compile(r"^(\s+)((?:[\\*]{0,4}\w+)(?:, [\\*]{0,4}\w+)*): (.*)$")


def escape(lines: list[str]) -> list[str]:
    """Lines without markup, except in literals and examples; indented formulas become literal blocks."""
    shown: list[str] = []
    example = formula = section = False
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ")
        if line.strip() and not indented:
            section, formula = line.strip() in _SECTIONS, False
        elif indented and not before.strip() and not section and not formula and not example:
            formula = True
            shown += ["::", ""]
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        pieces = _LITERAL.split(line)
        pieces[::2] = [_MARKUP.sub(r"\\\1", piece) for piece in pieces[::2]]
        shown.append(line if example or formula else "".join(pieces))
    return shown


def sections(lines: list[str]) -> list[str]:
    """Items that name several things at once: arguments one by one, attributes as a list of definitions."""
    shown: list[str] = []
    section, depth = "", 0
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() in ("Args:", "Attributes:"):
            section, depth = line.strip(), indent
            shown += [line] if section == "Args:" else [" " * indent + "**Attributes**", ""]
            continue
        if line.strip() and indent <= depth:
            section = ""
        item = _ITEM.match(line) if section and indent == depth + 4 else None
        if item is None:
            shown.append(line)
            continue
        names = item[2].replace("\\", "").split(", ")
        if section == "Attributes:":
            shown += ["", item[1] + ", ".join(f"``{name}``" for name in names), f"{item[1]}    {item[3]}"]
            continue
        # What follows an item belongs to each of its names.
        rest = []
        for after in lines[i + 1 :]:
            if after.strip() and len(after) - len(after.lstrip()) <= indent:
                break
            rest.append(after)
        for name in names[:-1]:
            shown += [f"{item[1]}{name}: {item[3]}", *(text for text in rest if text.strip())]
        shown.append(f"{item[1]}{names[-1]}: {item[3]}")
    return shown


def process(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Both, in place."""
    lines[:] = sections(escape(lines))


def _axes(match: re.Match[str]) -> str:
    axes = match[2].replace("*", "…").split()
    # Without brackets or commas, at which Sphinx would look for a cross-reference.
    return f"{match[1].lower()} array: {' × '.join(axes)}" if axes else f"{match[1].lower()} number"


def _shown(annotation: object, *args: object, **settings: object) -> str:
    """An annotation as a reader wants it: "float array: samples × dim" for one with named axes."""
    text = _plain(annotation, *args, **settings)
    text = re.sub(
        r"~?(?:jaxtyping\.)?\b(Float|Int|Bool|Num|Complex|Shaped)\[[\w.~]+, ?['\"]([^'\"]*)['\"]\]", _axes, text
    )
    return re.sub(r"~?(?:typing|collections\.abc)\.(?=\w)", "", text)


_plain = sphinx_typing.stringify_annotation


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    # Before napoleon, which has the default priority.
    app.connect("autodoc-process-docstring", process, priority=400)
    # Where autodoc turns annotations into text differs from version to version.
    for name, module in list(sys.modules.items()):
        if name.startswith("sphinx.ext.autodoc") and hasattr(module, "stringify_annotation"):
            module.stringify_annotation = _shown
    return {"parallel_read_safe": True, "parallel_write_safe": True}
