"""The executable paper as one self-contained HTML page: opens from disk, needs no network."""

import base64
import html
import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

from biasfree import files, studies
from biasfree.report._outcomes import Outcome
from biasfree.studies import VERDICTS
from biasfree.studies._slips import CHOICES, SLIPS

_STYLE = """
:root { --ink: #1a1a1a; --faint: #666; --line: #ddd; --paper: #fff;
  --holds: #00664d; --nearly: #8a5a00; --differs: #a32a00; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 16px/1.55 Georgia, "Times New Roman", serif; }
main, header, footer { max-width: 54rem; margin: 0 auto; padding: 0 1.2rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .3rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .5rem 0; }
a { color: #00558a; }
.reference, .settings, .lead { color: var(--faint); font-size: .92rem; }
.formula { font-family: "Cambria Math", "STIX Two Math", Georgia, serif; overflow-x: auto; padding: .5rem .8rem;
  border-left: 3px solid var(--line); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .32rem .6rem .32rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: var(--holds); } .nearly { color: var(--nearly); } .differs { color: var(--differs); }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption { font-size: .85rem; color: var(--faint); }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--faint); font-size: .92rem; }
pre { overflow-x: auto; font-size: .78rem; line-height: 1.4; background: #f7f7f5; padding: .8rem; }
footer { color: var(--faint); font-size: .85rem; padding-bottom: 3rem; margin-top: 3rem; }
"""
_CLASSES = dict(zip(VERDICTS, ("holds", "nearly", "differs"), strict=True))


def write_page(folder: Path | str, outcomes: Sequence[Outcome], seconds: float) -> Path:
    """Write ``index.html`` with all outcomes, whole or not at all.

    Args:
        folder: where the outcomes' pictures are.
        outcomes: in the order they are to be shown.
        seconds: wall time of the whole run.
    """
    target = Path(folder) / "index.html"
    with files.written_whole(target) as draft:
        Path(draft).write_text(page(Path(folder), outcomes, seconds), encoding="utf-8")
    return target


def page(folder: Path, outcomes: Sequence[Outcome], seconds: float) -> str:
    """The page's text."""
    counts = {v: sum(o.verdict == v for o in outcomes) for v in VERDICTS}
    plural = dict(zip(VERDICTS, ("hold", "hold approximately", "differ"), strict=True))
    summary = ", ".join(
        f"{count} {verdict if count == 1 else plural[verdict]}" for verdict, count in counts.items() if count
    )
    seed = ", ".join(sorted({str(o.seed) for o in outcomes})) or "none"
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<link rel='icon' href='data:,'>",
        f"<title>When are bias-free ReLU networks linear? Reproduced</title><style>{_STYLE}</style></head><body>",
        "<header><h1>When are bias-free ReLU networks effectively linear? The executable paper</h1>",
        "<p>Every theorem, lemma, equation and figure of Zhang, Saxe &amp; Latham (workshop 2024, TMLR 2025) and of "
        "Le &amp; Jegelka (ICLR 2022), run on this machine: the prediction beside the measurement, and a verdict "
        "computed from the two by the rule that is stated.</p>",
        f"<p class='lead'>{len(outcomes)} results: {summary}. Seed {seed}; {seconds:.0f} s in all. "
        "<a href='#slips'>Slips in the printed papers</a>; <a href='#choices'>what they leave open</a>; "
        "<a href='#provenance'>provenance</a>.</p></header><main>",
        _summary(outcomes),
        *(_section(folder, outcome) for outcome in outcomes),
        _slips({o.id: o for o in outcomes}),
        _provenance(outcomes, seconds),
        "</main><footer>Written by biasfree. Every number follows from the seed and the settings beside it.</footer>",
        "</body></html>",
    ]
    return "\n".join(parts)


def _summary(outcomes: Sequence[Outcome]) -> str:
    rows = "".join(
        f"<tr><td><a href='#{o.id}'>{_text(o.id)}</a></td><td>{_text(o.title)}</td>"
        f"<td>{_verdict(o.verdict)}</td><td class='number'>{o.seconds:.1f} s</td></tr>"
        for o in outcomes
    )
    head = "<tr><th>result</th><th></th><th>verdict</th><th>time</th></tr>"
    return f"<h2>Summary</h2><div class='scroll'><table>{head}{rows}</table></div>"


def _section(folder: Path, o: Outcome) -> str:
    study = next(s for s in studies.studies() if s.id == o.id)
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td class='number'>{_number(value)}</td>"
        f"<td>{_text(o.expected.get(name, 'reported, not judged'))}</td></tr>"
        for name, value in o.measured.items()
    )
    settings = "; ".join(f"{name} {_setting(value)}" for name, value in o.settings.items())
    also = f" Also: {', '.join(study.aliases)}." if study.aliases else ""
    pictures = "".join(_picture(folder, name, o) for name in o.figures if name.endswith(".png"))
    formula = f"<div class='formula'>{_text(o.formula)}</div>" if o.formula else ""
    source = inspect.getsource(importlib.import_module(study.run.__module__))
    return (
        f"<section id='{o.id}'><h2>{_text(o.title)} — {_verdict(o.verdict)}</h2>"
        f"<p class='reference'>{_text(o.reference)}. <code>{o.id}</code>.{_text(also)}</p>"
        f"<p>{_text(o.statement)}</p>{formula}"
        f"<div class='scroll'><table><tr><th>quantity</th><th>measured</th><th>expected</th></tr>{rows}</table></div>"
        f"<p>{_text(o.why)}</p>{pictures}"
        f"<p class='settings'>Seed {o.seed}, protocol {_text(o.protocol)}{', quick' if o.quick else ''}, "
        f"{o.seconds:.1f} s. {_text(settings)}</p>"
        f"<details><summary>Source of this study: {_text(study.run.__module__)}</summary>"
        f"<pre>{_text(source)}</pre></details>"
        "</section>"
    )


def _picture(folder: Path, name: str, o: Outcome) -> str:
    data = base64.b64encode((folder / "figures" / name).read_bytes()).decode()
    vector = Path(name).with_suffix(".svg")
    link = f" <a href='figures/{vector}'>vector</a>" if str(vector) in o.figures else ""
    return (
        f"<figure><img alt='{_text(o.title)}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{_text(Path(name).stem)}{link}</figcaption></figure>"
    )


def _slips(outcomes: dict[str, Outcome]) -> str:
    rows = []
    for slip in SLIPS:
        outcome = outcomes.get(slip.study)
        shown = "not run"
        if outcome is not None and slip.quantity in outcome.measured:
            shown = f"<a href='#{slip.study}'>{_text(slip.quantity)}: {_number(outcome.measured[slip.quantity])}</a>"
        cells = (_text(slip.where), _text(slip.printed), _text(slip.right), shown)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>where</th><th>printed</th><th>right</th><th>measured</th></tr>"
    return (
        "<h2 id='slips'>Slips in the printed papers</h2><p>What the text says, what it must say, and the measurement "
        f"that shows it.</p><div class='scroll'><table>{head}{''.join(rows)}</table></div>"
    )


def _provenance(outcomes: Sequence[Outcome], seconds: float) -> str:
    """What a reproducibility sheet asks for."""
    facts = {
        "wall time": f"{seconds:.1f} s",
        "all studies, one after the other": f"{sum(o.seconds for o in outcomes):.1f} s",
        **(outcomes[-1].environment if outcomes else {}),
    }
    return (
        "<h2 id='choices'>What the papers leave open</h2><p>Items of a reproducibility sheet that neither text "
        f"settles, and what is taken here.</p>{_pairs({c.question: c.taken for c in CHOICES})}"
        f"<h2 id='provenance'>Provenance</h2>{_pairs(facts)}"
    )


def _pairs(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<tr><td>{_text(k)}</td><td>{_text(v)}</td></tr>" for k, v in facts.items())
    return f"<div class='scroll'><table>{rows}</table></div>"


def _verdict(verdict: str) -> str:
    return f"<span class='verdict {_CLASSES[verdict]}'>{_text(verdict)}</span>"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else _text(value)


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_setting, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
