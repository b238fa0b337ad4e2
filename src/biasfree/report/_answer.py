"""The one renderer of answers: text for terminals, a page, JSON, and what a notebook shows."""

import base64
import html
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biasfree import files
from biasfree.answer import Answer, Picture, Section, Table
from biasfree.provenance import environment
from biasfree.report._course_plot import plot_bends, plot_courses
from biasfree.report._inspection_plots import plot_filters, plot_inspection, plot_layers
from biasfree.report._page import _STYLE
from biasfree.report._plateau_plot import plot_plateaus
from biasfree.report._plots import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANSWER_FORMATS = (".html", ".json", ".txt")
# Pictures that answers may ask for, by name: each takes the picture's data as arguments.
PICTURES: Mapping[str, Callable[..., "Figure"]] = {
    "bends": plot_bends,
    "courses": plot_courses,
    "filters": plot_filters,
    "inspection": plot_inspection,
    "layers": plot_layers,
    "plateaus": plot_plateaus,
}
# Rows of a table that a terminal shows.
_ROWS = 12


def answer_text(answer: Answer) -> str:
    """The answer for a terminal: title, headline, a warning if there is one, and its sections without pictures."""
    lines = [answer.title, answer.headline, *([answer.warning] if answer.warning else []), ""]
    for section in answer.sections:
        if not (section.sentences or section.table):
            continue
        lines.append(section.heading)
        lines += [f"  {sentence}" for sentence in section.sentences]
        lines += [f"  {row}" for row in _columns(section.table)]
    return "\n".join(lines)


def answer_html(answer: Answer) -> str:
    """The answer as it stands in a page or a notebook: self-contained, pictures within."""
    warning = f"<p class='differs'><strong>{_text(answer.warning)}</strong></p>" if answer.warning else ""
    return "\n".join(
        [
            f"<header><h1>{_text(answer.title)}</h1><p><strong>{_text(answer.headline)}</strong></p>{warning}</header>",
            "<main>",
            *(_section(section) for section in (*answer.sections, *answer.appendix)),
            "</main>",
        ]
    )


def answer_json(answer: Answer) -> str:
    """All numbers of the answer."""
    return json.dumps(answer.to_dict(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write_answer(answer: Answer, path: str | os.PathLike[str]) -> Path:
    """Write the answer as .html, .json or .txt, whole or not at all.

    Raises:
        ValueError: another ending, or a path that cannot be written.
    """
    target = files.writable(path, ANSWER_FORMATS)
    written = {".html": _page, ".json": answer_json, ".txt": lambda each: answer_text(each) + "\n"}
    with files.written_whole(target) as draft:
        Path(draft).write_text(written[target.suffix.lower()](answer), encoding="utf-8")
    return target


def draw(picture: Picture) -> "Figure":
    """The figure of a picture."""
    return PICTURES[picture.kind](**picture.data)


def _page(answer: Answer) -> str:
    facts = {**{name: str(value) for name, value in answer.facts.items()}, **environment()}
    return "\n".join(
        [
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
            "<meta name='viewport' content='width=device-width, initial-scale=1'><link rel='icon' href='data:,'>",
            f"<title>{_text(answer.title)}</title><style>{_STYLE}</style></head><body>",
            answer_html(answer),
            f"<main><h2>Provenance</h2>{_table(Table((), [list(pair) for pair in facts.items()]))}</main>",
            "<footer>Written by biasfree. Every number follows from the data, the seed and the settings.</footer>",
            "</body></html>",
        ]
    )


def _section(section: Section) -> str:
    paragraphs = "".join(f"<p>{_text(sentence)}</p>" for sentence in section.sentences)
    table = "" if section.table is None else _table(section.table)
    pictures = "".join(_picture(draw(picture), picture.caption) for picture in section.pictures)
    return f"<section><h2>{_text(section.heading)}</h2>{paragraphs}{table}{pictures}</section>"


def _table(table: Table) -> str:
    head = f"<tr>{''.join(f'<th>{_text(cell)}</th>' for cell in table.heads)}</tr>" if table.heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<div class='scroll'><table>{head}{body}</table></div>"


def _columns(table: Table | None) -> list[str]:
    """A table as lines of text, its columns under each other."""
    if table is None or not table.rows:
        return []
    shown: list[Sequence[str]] = [table.heads, *table.rows[:_ROWS]] if table.heads else list(table.rows[:_ROWS])
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return lines + ([f"… and {len(table.rows) - _ROWS} more"] if len(table.rows) > _ROWS else [])


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


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
