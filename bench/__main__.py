"""``python -m bench``: measure, print tables, write ``bench/results.json``.

The exit code does not say whether the expectations were met: a benchmark on a busy machine may miss them by chance,
so it reports, and a reader judges.
"""

import argparse
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import _memory, _tables
from bench._clock import OtherWork, level_ground, say
from biasfree import files, provenance

_CORES = 2
_NARROWEST = 118  # a pipe has no width of its own
_PARTS = (
    "figure3", "exact", "report", "paper", "outputs", "explorer", "imports", "answers", "growth", "sweeps"
)  # fmt: skip


def main() -> int:
    """Parse, measure, show, write."""
    options = _options()
    ground, other = level_ground(_CORES), OtherWork()
    try:
        results = _measure(options.quick, options.only)
    except KeyboardInterrupt:
        print("interrupted; nothing was written.", file=sys.stderr)
        return 130
    found = _tables.expectations(results)
    report = {
        "environment": dict(provenance.environment()) | _versions("torch", "torchdiffeq"),
        "quick": options.quick,
        **ground,
        "cores_busy_with_other_work": other.cores(),
        **results,
        "expectations": _tables.plain(found),
    }
    with files.written_whole(options.json) as draft:
        draft.write_text(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")

    console = Console()
    console.width = max(console.width, _NARROWEST) if not console.is_terminal else console.width
    _tables.show(results, console)
    _tables.show_expectations(found, report["cores_busy_with_other_work"], console)
    say(f"wrote {options.json.name}")
    return 0


def _measure(quick: bool, only: str | None) -> dict[str, Any]:
    """The rest is imported when its turn comes."""
    results: dict[str, Any] = {}
    if only in (None, "figure3"):
        _need("torch", "torchdiffeq")
        say("Figure 3: peak memory of the flow")
        results["memory"] = _memory.peak()

        from bench import _figure3

        results["figure3"] = _figure3.measure(quick)
    if only in (None, "exact"):
        _need("torch", "torchdiffeq")
        from bench import _exact

        results["exact"] = _exact.measure(quick)
    if only in (None, "report"):
        from bench import _first_call

        results["report"] = _first_call.measure(quick)
    if only in (None, "paper"):
        _need("torch")
        from bench import _paper

        results["paper"] = _paper.measure(quick)
    if only in (None, "explorer"):
        _need("torch")
        from bench import _explorer

        results["explorer"] = _explorer.measure(quick)
    if only in (None, "outputs"):
        _need("torch")
        from bench import _outputs

        results["outputs"] = _outputs.measure(quick)
    if only in (None, "imports"):
        from bench import _imports

        results["imports"] = _imports.measure(quick)
    if only in (None, "answers"):
        _need("torch")
        from bench import _answers

        results["answers"] = _answers.measure(quick)
    if only in (None, "growth"):
        from bench import _growth

        results["growth"] = _growth.measure(quick)
    if only in (None, "sweeps"):
        _need("torch", "distributed")
        from bench import _sweeps

        results["sweeps"] = _sweeps.measure(quick)
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ratios of speed beside peers, in one run.")
    parser.add_argument("--quick", action="store_true", help="extrapolate the descents from 500 of 10,000 steps")
    parser.add_argument(
        "--only",
        choices=_PARTS,
        help="measure one part only",
    )
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).with_name("results.json"), metavar="PATH", help="file to write"
    )
    options = parser.parse_args()
    try:
        files.writable(options.json, (".json",))
    except ValueError as error:
        parser.error(str(error))
    return options


def _need(*packages: str) -> None:
    missing = [name for name, version in _versions(*packages).items() if version is None]
    if missing:
        sys.exit(f"the peers need {' and '.join(missing)}: install the extra 'bench', or use --only growth.")


def _versions(*packages: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


if __name__ == "__main__":
    sys.exit(main())
