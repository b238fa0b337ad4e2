"""Columns that must be numbers: what they hold if they are not, and what to do about it, in a sentence."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

# Slow to import, and needed for tables only.
if TYPE_CHECKING:
    import pandas as pd

# Entries looked at, characters of each, and the share of entries that must agree.
_MOST, _LONGEST, _AGREE = 200, 40, 0.9
_SIGNS = re.compile(r"[$€£¥%\s'’_]|(?<=\d)[.,](?=\d{3}\b)")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d:\d\d|\b(19|20)\d\d\b")


def short(text: object) -> str:
    """At most forty characters of it."""
    shown = str(text)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def check_column(entries: "pd.Series", column: str, name: str, is_target: bool, words: Sequence[str] = ()) -> None:
    """Raise ValueError unless all entries are numbers; say whether it is words, a stray word, or nothing at all.

    Args:
        entries, column: the column and its name.
        name: of the table.
        is_target: whether it is to be predicted.
        words: all input columns that are not numeric, to be named together.
    """
    import pandas as pd

    if entries.dtype.kind not in "biuf":
        stray = entries.notna() & pd.to_numeric(entries, errors="coerce").isna()
        first = int(np.argmax(stray))
        if stray.any() and stray.mean() < 0.5:
            raise ValueError(
                f"column {column!r} in {name} is not numeric in {int(stray.sum())} of {len(entries)} rows (the "
                f"first is {short(entries.iloc[first])!r} in row {first + 1}). Correct or drop these rows."
            )
        shown = ", ".join(short(value) for value in list(dict.fromkeys(entries.dropna().astype(str)))[:3])
        advice = remedy(entries, column, is_target)
        others = [short(each) for each in words if short(each) != column]
        more = f" Not numeric either: {', '.join(others[:8])}{', …' if len(others) > 8 else ''}." if others else ""
        shown = shown or "all entries are missing"
        raise ValueError(f"column {column!r} in {name} is not numeric ({shown}). {advice}{more}")
    check_missing(entries, column, name)


def check_missing(entries: "pd.Series", column: str, name: str) -> None:
    """Raise ValueError if entries are missing."""
    count = int(entries.isna().sum())
    if count:
        raise ValueError(
            f"column {column!r} in {name} has {count} missing or undefined entr{'y' if count == 1 else 'ies'}. Fill "
            "them in (say, by the column's median) or drop these rows, or leave the column out with `drop` (--drop)."
        )


def remedy(entries: "pd.Series", column: str, is_target: bool = False) -> str:
    """What to do about a column of words: dates, numbers with signs around them, names, or categories.

    Args:
        entries: the column.
        column: its name.
        is_target: whether it is to be predicted.

    >>> import pandas as pd
    >>> remedy(pd.Series(["$1,200", "$80"]), "price")
    'These are numbers with signs around them: remove all but digits, the sign and the decimal point.'
    """
    known = entries.dropna()
    some = [str(value)[:_LONGEST].strip() for value in known.iloc[:_MOST]]
    if known.dtype.kind in "mM" or _dates(some):
        numbers = "These are dates or times: turn them into numbers that mean something, such as days since the first"
        return f"{numbers}{'' if is_target else f', or leave it out with `drop` (--drop {column})'}."
    if _share(some, lambda text: _number(_SIGNS.sub("", text).replace(",", "."))) >= _AGREE:
        return "These are numbers with signs around them: remove all but digits, the sign and the decimal point."
    if is_target:
        return "Predict a column of numbers, or one of classes."
    if len(known) > 10 and known.astype(str).nunique() > 0.5 * len(known):
        return f"Nearly all are different, so these are names or free text: leave it out with `drop` (--drop {column})."
    return (
        'Let it be encoded with categories="onehot" (--categories onehot), one column of 0 and 1 per word as '
        f"pandas.get_dummies gives, or leave it out with `drop` (--drop {column})."
    )


def _dates(some: list[str]) -> bool:
    """Whether they have the look of dates and can be read as such."""
    import pandas as pd

    if _share(some, lambda text: bool(_DATE.search(text))) < _AGREE:
        return False
    return bool(pd.to_datetime(pd.Series(some), format="mixed", errors="coerce").notna().mean() >= _AGREE)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _share(some: list[str], holds: Callable[[str], bool]) -> float:
    return sum(map(holds, some)) / len(some) if some else 0.0
