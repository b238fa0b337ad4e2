"""Plans as TOML files; what is wrong with one is said in a sentence that names the line."""

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from biasfree import checks, files
from biasfree.sweeps._plan import LEVELS, Plan, Range

_TOP = ("title", "seeds", "keep", "run", "axes", "refine", "plot")
_RANGE = ("from", "to", "count", "spacing")


def shipped() -> list[str]:
    """Names of the plans that come with the package."""
    return sorted(Path(str(each)).stem for each in resources.files("biasfree.sweeps.plans").iterdir()
                  if str(each).endswith(".toml"))  # fmt: skip


def shipped_text(name: str) -> str:
    """The text of a plan that comes with the package."""
    checks.one_of(name, shipped(), "plan")
    return (resources.files("biasfree.sweeps.plans") / f"{name}.toml").read_text(encoding="utf-8")


def load_plan(path: str | Path) -> Plan:
    """Read a plan from a file, or one that comes with the package by its name.

    Raises:
        ValueError: no such plan, or what is wrong with it, and in which line.
    """
    if not Path(path).suffix and not Path(path).exists():
        return read_plan(shipped_text(str(path)), f"{path}.toml")
    source = files.readable(path)
    try:
        text = source.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source} is no text in UTF-8: {error}.") from error
    return read_plan(text, str(path), source.parent)


def read_plan(text: str, name: str = "plan.toml", beside: Path | None = None) -> Plan:
    """A plan from its text; data files are looked for ``beside`` it.

    Raises:
        ValueError: what is wrong with it, and in which line.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is no valid TOML: {error}.") from error
    where: tuple[str, str] | None = None
    try:
        for key in tables:
            where = ("", key)
            checks.one_of(key, _TOP, "entry")
        for key, kind in (("run", dict), ("axes", dict), ("keep", list), ("title", str), ("plot", dict)):
            where = ("", key)
            if key in tables and not isinstance(tables[key], kind):
                kinds = {dict: f"a table, [{key}]", list: "a list", str: "a text"}
                raise ValueError(f"{key} must be {kinds[kind]}, got {tables[key]!r}.")
        where = None
        run, axes = dict(tables.get("run", {})), dict(tables.get("axes", {}))
        for key, value in axes.items():
            where = ("axes", key)
            axes[key] = _range(value) if isinstance(value, dict) else value
        where = ("run", "data")
        if isinstance(run.get("data"), str) and Path(run["data"]).suffix and beside is not None:
            run["data"] = str(beside / run["data"])
        where = ("", "refine")
        refine, levels = _refinement(tables.get("refine"))
        where = None
        plot = tables.get("plot", {})
        return Plan.of(run, axes, tables.get("keep", ()), tables.get("seeds", 1), refine=refine, levels=levels,
                       title=tables.get("title", ""), plot=plot)  # fmt: skip
    except ValueError as error:
        line = _line(text, where) if where else _line_of_sentence(text, str(error))
        raise ValueError(f"{name}{f', line {line}' if line else ''}: {error}") from error


def _range(table: dict[str, Any]) -> Range:
    for key in table:
        checks.one_of(key, _RANGE, "entry of a range")
    for key in _RANGE[:3]:
        if key not in table:
            raise ValueError(f"a range needs {key!r}: {{ from = 0.01, to = 1.0, count = 9, spacing = 'log' }}.")
    made = Range(table["from"], table["to"], table["count"], table.get("spacing", "linear"))
    for key in ("from", "to"):
        if isinstance(table[key], (str, bool)) or not isinstance(table[key], (int, float)):
            raise ValueError(f"{key} must be a number, got {table[key]!r}.")
    made.values()
    return made


def _refinement(entry: Any) -> tuple[str | None, int]:
    if entry is None:
        return None, LEVELS
    if isinstance(entry, str):
        return entry, LEVELS
    if not isinstance(entry, dict) or not isinstance(entry.get("on"), str):
        raise ValueError(f"refine must be the name of a kept quantity, or {{ on = name, levels = 5 }}, got {entry!r}.")
    for key in entry:
        checks.one_of(key, ("on", "levels"), "entry of refine")
    return entry["on"], checks.count(entry.get("levels", LEVELS), "levels")


def _line(text: str, where: tuple[str, str]) -> int | None:
    """The line in which a key of a table stands."""
    table, key = where
    now = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[\s*([\w.\"-]+)\s*\]", line):
            now = head[1]
            if table == "" and now == key:
                return number
        elif now == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return None


def _line_of_sentence(text: str, sentence: str) -> int | None:
    """The line that a sentence is about: its first word or quoted name that is a key or a value of the plan."""
    quoted = re.findall(r"'([^']+)'", sentence)
    for name in [*quoted, *re.findall(r"[\w.]+", sentence)]:
        for table in ("axes", "run", "plot", ""):
            if (line := _line(text, (table, name))) is not None:
                return line
        if name in quoted:
            for number, line_text in enumerate(text.splitlines(), 1):
                if f'"{name}"' in line_text.partition("#")[0] or f"'{name}'" in line_text.partition("#")[0]:
                    return number
    for about, table in (("quantity", "keep"), ("a run needs", "run")):  # of what is not there
        if about in sentence and (line := _line(text, ("", table))) is not None:
            return line
    return None
