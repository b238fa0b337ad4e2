"""One answer to one question, as a self-contained HTML page: opens from disk, needs no network."""

import base64
import html
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from biasfree import files
from biasfree.provenance import environment
from biasfree.report._page import _STYLE
from biasfree.report._plots import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Section:
    """A heading with what belongs under it.

    Attributes:
        heading: its title.
        sentences: a paragraph each.
        heads, rows: a table, if there are heads.
        figure: a picture, embedded as PNG.
        caption: of the picture.
    """

    heading: str
    sentences: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: "Figure | None" = None
    caption: str = ""


def write_answer_page(
    path: str | os.PathLike[str],
    title: str,
    verdict: str,
    sections: Sequence[Section],
    settings: Mapping[str, str] | None = None,
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: ends in .html.
        title: what was asked.
        verdict: the answer, one sentence.
        sections: in the order they are shown.
        settings: what the answer rests on, by name; versions and platform are added.

    Raises:
        ValueError: a path that cannot be written.
    """
    target = files.writable(path, (".html",))
    facts = {**(settings or {}), **environment()}
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>",
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{_text(title)}</h1><p><strong>{_text(verdict)}</strong></p></header><main>",
        *(_section(section) for section in sections),
        f"<h2>Provenance</h2>{_table((), [list(pair) for pair in facts.items()])}",
        "</main><footer>Written by biasfree. Every number follows from the file, the seed and the settings.</footer>",
        "</body></html>",
    ]
    with files.written_whole(target) as draft:
        Path(draft).write_text("\n".join(parts), encoding="utf-8")


def _section(section: Section) -> str:
    paragraphs = "".join(f"<p>{_text(sentence)}</p>" for sentence in section.sentences)
    table = _table(section.heads, section.rows) if section.heads else ""
    picture = "" if section.figure is None else _picture(section.figure, section.caption)
    return f"<section><h2>{_text(section.heading)}</h2>{paragraphs}{table}{picture}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = f"<tr>{''.join(f'<th>{_text(cell)}</th>' for cell in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll'><table>{head}{body}</table></div>"


def _picture(figure: "Figure", caption: str) -> str:
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format="png")
    data = base64.b64encode(stream.getvalue()).decode()
    width, height = figure.get_size_inches()
    # On a narrow screen a wide picture is scrolled rather than shrunk until nothing can be read.
    least = " style='min-width: 36rem'" if width > 2 * height else ""
    return (
        f"<figure><div class='scroll'><img alt='{_text(caption)}'{least} src='data:image/png;base64,{data}'></div>"
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
