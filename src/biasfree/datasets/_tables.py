"""From a table to a data set: which columns are targets, which are inputs, and what must be numbers.

What was done to the table (columns left out, categories encoded) and what stands out in it is reported in
``Dataset.origin``: ``columns`` names the inputs, ``targets`` the outputs, ``notes`` holds sentences.
"""

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import checks
from biasfree.datasets._columns import check_column, check_missing, remedy, short
from biasfree.datasets._dataset import Dataset

# Slow to import, and needed for tables only.
if TYPE_CHECKING:
    import pandas as pd

_ID_NAMES = ("id", "index", "row", "rownumber", "row_number", "rowid", "uuid", "key", "no", "nr")
_MOST_CATEGORIES = 100
# One column or several, by name or, of tables without names, by number.
Columns = str | int | Sequence[str | int]


def from_table(
    table: "pd.DataFrame",
    target: Columns | None = None,
    drop: Columns = (),
    categories: str | None = None,
    name: str = "table",
    origin: dict[str, Any] | None = None,
    called: str | None = None,
    classes: bool | None = None,
) -> Dataset:
    """A data set from a table with one sample per row.

    Args:
        table: all columns but the targets are inputs.
        target: the column to predict, or several for several outputs; by default the one called ``target``.
        drop: columns to leave out.
        categories: "onehot" turns every column of words into one column of 0 and 1 per word; refused without.
        name: of the table, in messages.
        origin: where it comes from.
        called: the data set's name; the table's by default.
        classes: whether the target is a class; by default if it is words.

    Raises:
        ValueError: a missing or repeated column, entries that are no finite numbers.

    >>> import pandas as pd
    >>> data = from_table(pd.DataFrame({"id": [7, 8], "size": [1.0, 2.0], "price": [3.0, 5.0]}), "price", drop="id")
    >>> data.inputs.tolist(), data.targets.tolist(), data.origin["columns"]
    ([[1.0], [2.0]], [3.0, 5.0], ('size',))
    """
    table = table.rename(columns=str)
    wanted, left_out = _targets(target, list(table.columns)), _column_names(drop)
    _check_names(table, wanted, left_out, name)
    table = table.drop(columns=left_out)
    targets = wanted or ["target"]
    if len(table.columns) == len(targets):
        listed = ", ".join(map(repr, map(short, targets)))
        raise ValueError(f"{name} has no input column besides the target {listed}.")
    if table.empty:
        raise ValueError(f"{name} has columns but no rows.")
    notes = [f"Left out: {'column' if len(left_out) == 1 else 'columns'} {', '.join(left_out)}."] if left_out else []
    if categories is not None:
        checks.one_of(categories, ("onehot",), "categories")
        table = _one_hot(table, targets, name, notes)
    word = targets[0]
    are_classes = len(targets) == 1 and (_holds_words(table[word]) if classes is None else classes)
    words = [c for c, kind in table.dtypes.items() if kind.kind not in "biuf" and c not in targets]
    for column in table.columns:
        if are_classes and column == word:
            check_missing(table[column], short(column), name)
        else:
            check_column(table[column], short(column), name, column in targets, words)
    inputs = table.drop(columns=targets)
    notes += _id_like(inputs)
    origin_of_table = {
        **(origin or {"table": name}),
        "target": word if len(targets) == 1 else list(targets),
        "columns": tuple(inputs.columns),
        "targets": tuple(targets),
        "notes": tuple(notes),
    }
    # Sample by sample in memory, as all that follows reads them.
    rows = np.ascontiguousarray(inputs.to_numpy(dtype=np.float64))
    if are_classes:
        return classified(
            rows, table[word].to_numpy(), f"column {short(word)!r}", name, origin_of_table, called or name
        )
    return Dataset(rows, table[targets].to_numpy(dtype=np.float64), called or name, origin_of_table)


def classified(
    inputs: np.ndarray, given: np.ndarray, what: str, name: str, origin: dict[str, Any], called: str
) -> Dataset:
    """The data with one class per sample, if there are few enough of them for that.

    Args:
        inputs: shape (samples, dim).
        given: the class of each sample, a word or a number.
        what, name: the column and the table, in messages.
        origin, called: of the data set.

    Raises:
        ValueError: one class, or so many that they are none.
    """
    if given.dtype.kind not in "biuf":
        given = given.astype(str)
    named, counts = np.unique(given, return_counts=True)
    if len(named) > _MOST_CATEGORIES or counts.max() == 1:
        import pandas as pd

        words = given.dtype.kind not in "biuf"
        advice = remedy(pd.Series(given), what, is_target=True) if words else "Predict it as numbers."
        raise ValueError(
            f"{what} in {name} has {len(named)} different entries in {len(given)} rows ({short(given[0])}, …), and "
            f"classes are at most {_MOST_CATEGORIES} and repeat. {advice}"
        )
    if len(named) < 2:
        raise ValueError(f"{what} in {name} holds one class only, {short(named[0])!r}; two are the least.")
    data = Dataset(inputs, given, called, origin, classes=True)
    shown = ", ".join(map(short, data.classes[:5])) + (", …" if len(data.classes) > 5 else "")
    remark = f"{what} is taken for classes: {len(data.classes)} of them, {shown}"
    return Dataset(inputs, data.targets, called, {**origin, "classes": remark}, data.classes)


def as_dataset(
    data: Any,
    target: Columns | None = None,
    drop: Columns = (),
    *,
    sep: str | None = None,
    decimal: str | None = None,
    categories: str | None = None,
) -> Dataset:
    """A data set from what a user has: a ``Dataset``, a DataFrame, a path, a pair (inputs, targets) or one array.

    Args:
        data: of an array with two axes the last column is the target, or the column whose number ``target`` gives;
            a dictionary of columns is a table. Targets of a pair may be words, which are classes.
        target, drop, categories: as of ``from_table``; columns of arrays are called "0", "1", ….
        sep, decimal: of text files; guessed by default.

    Raises:
        ValueError: anything else, or data that are not what they should be.

    >>> as_dataset(([[1.0, 2.0], [3.0, 4.0]], [1.0, -1.0])).targets
    array([ 1., -1.])
    >>> as_dataset(np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])).targets
    array([5., 6.])
    """
    from biasfree.datasets._files import load

    if isinstance(data, (str, os.PathLike)):
        return load(data, target, drop, sep=sep, decimal=decimal, categories=categories)
    if isinstance(data, dict):
        import pandas as pd

        data = pd.DataFrame(data)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return from_table(data, target, drop, categories, "table")
    options = {"target": _column_names(target), "drop": _column_names(drop), "categories": categories}
    given = [name for name, value in options.items() if value]
    if isinstance(data, Dataset):
        if given:
            raise ValueError(f"{given[0]} names columns of a table, and {data.name} is a data set already.")
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2:
        if given:
            raise ValueError(f"{given[0]} names columns of a table, but inputs and targets were given as a pair.")
        return _from_pair(*data)
    array = checks.numeric(data, "data")
    if array.ndim != 2:
        raise ValueError(
            f"data must be a Dataset, a DataFrame, a path, a pair (inputs, targets) or an array of shape (samples, "
            f"columns), got an array of shape {array.shape}."
        )
    import pandas as pd

    table = pd.DataFrame(array).rename(columns=str)
    last = array.shape[1] - 1
    wanted = [last] if target is None else _counted(target, last)
    return from_table(table, wanted, _counted(drop, last), categories, "array")


def _counted(columns: Columns, last: int) -> list[str | int]:
    """Numbers below zero count from the last column."""
    listed = [columns] if isinstance(columns, (str, int)) else list(columns)
    return [last + 1 + each if isinstance(each, int) and each < 0 else each for each in listed]


def _from_pair(inputs: Any, targets: Any) -> Dataset:
    """Inputs and targets as arrays, lists, DataFrames or Series; names of columns are kept."""
    origin: dict[str, Any] = {"arrays": "inputs and targets"}
    if hasattr(inputs, "columns"):
        for column in inputs.columns:
            check_column(inputs[column], short(column), "the inputs", False)
        origin["columns"] = tuple(map(str, inputs.columns))
        origin["notes"] = tuple(_id_like(inputs.rename(columns=str)))
        inputs = inputs.to_numpy(dtype=np.float64)
    if hasattr(targets, "to_numpy"):
        targets = targets.to_numpy()
    given = np.asarray(targets)
    if given.ndim == 1 and given.dtype.kind in "USO" and all(isinstance(each, str) for each in given):
        return classified(checks.numeric(inputs, "inputs"), given, "the target", "data", origin, "data")
    return Dataset(inputs, targets, "data", origin)


def _targets(target: Columns | None, columns: list[str]) -> list[str]:
    """The columns to predict: one, several, or several in one string, separated by commas; none if not said."""
    names = _column_names(target)
    if len(names) == 1:
        parts = [part.strip() for part in names[0].split(",")]
        return parts if names[0] not in columns and len(parts) > 1 and len(set(parts)) == len(parts) else names
    if target is not None and (not names or len(set(names)) < len(names)):
        raise ValueError(f"target must name different columns, at least one, got {names}.")
    return names


def _holds_words(entries: "pd.Series") -> bool:
    """Whether most entries are words: a stray word among numbers is a slip, and is reported as one."""
    import pandas as pd

    if entries.dtype.kind in "biuf":
        return False
    words = entries.notna() & pd.to_numeric(entries, errors="coerce").isna()
    return bool(words.mean() >= 0.5)


def _column_names(names: Columns | None) -> list[str]:
    if names is None:
        return []
    return [str(names)] if isinstance(names, (str, int)) else [str(name) for name in names]


def _check_names(table: "pd.DataFrame", wanted: list[str], left_out: list[str], name: str) -> None:
    columns = list(table.columns)
    shown = ", ".join(map(short, columns[:12])) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
    for column in wanted or ["target"]:
        if column not in columns:
            ask = "" if wanted else " Name the column to predict with `target` (--target on the command line)."
            raise ValueError(f"no column {short(column)!r} in {name}.{ask} Its columns: {shown}.")
    for column in left_out:
        if column not in columns:
            raise ValueError(f"cannot leave out {short(column)!r}: no such column in {name}. Its columns: {shown}.")
        if column in (wanted or ["target"]):
            raise ValueError(f"column {short(column)!r} cannot be the target and be left out. Take one of the two.")
    _check_repeated(columns, name)


def _check_repeated(columns: list[str], name: str) -> None:
    repeated = [column for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(f"{name} has more than one column named {short(repeated[0])!r}. Rename or remove all but one.")


def _one_hot(table: "pd.DataFrame", targets: list[str], name: str, notes: list[str]) -> "pd.DataFrame":
    """Columns of words as columns of 0 and 1; nothing else is touched."""
    import pandas as pd

    words = [c for c in table.columns if table[c].dtype.kind not in "biuf" and c not in targets]
    for column in words:
        check_missing(table[column], short(column), name)
        count = table[column].nunique()
        if count > _MOST_CATEGORIES:
            raise ValueError(
                f"column {short(column)!r} in {name} has {count} different words, more than {_MOST_CATEGORIES}: it "
                "looks like names or free text, not categories. Leave it out with `drop` (--drop on the command line)."
            )
        notes.append(
            f"Column {short(column)} was encoded as {count} columns of 0 and 1. They add up to 1 on every sample, so "
            "that the network has a constant input, which acts much like a bias."
        )
    return pd.get_dummies(table, columns=words, dtype=float) if words else table


def check_numbers(table: "pd.DataFrame", name: str) -> None:
    """Raise ValueError unless every entry of a table is a number and its columns have different names."""
    if table.empty:
        raise ValueError(f"{name} has no rows of numbers.")
    _check_repeated(list(table.columns), name)
    for k, column in enumerate(table.columns):
        check_column(table.iloc[:, k], short(column), name, False)


def _id_like(inputs: "pd.DataFrame") -> list[str]:
    """Sentences on inputs that look like row numbers or identifiers."""
    remarks = []
    for column in inputs.columns:
        values = inputs[column].to_numpy()
        if len(values) < 3 or values.dtype.kind not in "iuf" or (values != np.round(values)).any():
            continue
        steps = np.diff(values)
        counted = bool(steps[0] != 0 and (steps == steps[0]).all())
        plain = str(column).strip().lower()
        named = plain in _ID_NAMES or plain.endswith(("_id", " id", "-id"))
        if counted or (named and len(np.unique(values)) == len(values)):
            remarks.append(
                f"Column {short(column)} looks like a row number or an identifier (whole numbers, all different) and "
                f"is used as an input. Leave it out with `drop` (--drop {short(column)})."
            )
    return remarks
