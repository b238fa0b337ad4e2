"""``biasfree find``: where a numbered result of the papers lives."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from biasfree.papers import Entry


def find(
    wanted: Annotated[
        list[str], typer.Argument(help='A number, such as "Eq. 38", "theorem 5" or "journal figure 3", or words.')
    ],
    report: Annotated[Path, typer.Option(help="Folder of `biasfree reproduce`, to look up verdicts.")] = Path("report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Where a theorem, lemma, equation or figure of the papers lives: function, study, test, picture, verdict."""
    from biasfree import papers
    from biasfree.report import stored_verdicts

    text = " ".join(wanted)
    entries = papers.find(text)
    if not entries:
        raise ValueError(
            f"no result of the papers is called {text!r}. Equations run from 1 to 45 and statements from 1 to 14 in "
            "the workshop paper, figures from 1 to 8 in the journal. Words are searched for too, such as early phase."
        )
    verdicts = stored_verdicts(report, {study for entry in entries for study in entry.studies})
    if as_json:
        rows = [asdict(entry) | {"verdicts": {s: verdicts[s] for s in entry.studies}} for entry in entries]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    typer.echo("\n\n".join(_shown(entry, verdicts, report) for entry in entries))


def _shown(entry: "Entry", verdicts: dict[str, str], report: Path) -> str:
    journal = f", journal {entry.journal}" if entry.journal else ""
    lines = [f"{entry.label} ({entry.place}{journal})", f"  {entry.says}"]
    lines += [f"  function  biasfree.{name}" for name in entry.functions]
    for study in entry.studies:
        lines.append(f"  study     {study}: {verdicts[study]}")
        lines += [f"  picture   {path}" for path in sorted((report / "figures").glob(f"{study}*.png"))]
    lines += [f"  test      tests/{name}" for name in entry.tests]
    if entry.studies:
        lines.append(f"  run it    biasfree reproduce {entry.id}")
    if entry.note:
        lines.append(f"  note      {entry.note}")
    return "\n".join(lines)
