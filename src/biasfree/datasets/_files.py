"""The user's own data, from CSV, NPZ or Parquet. Nothing in a file is ever executed."""

import os
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import checks, files
from biasfree.datasets._dataset import Dataset

# Slow to import, and needed for files only.
if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".npz", ".parquet")
# Beyond so many bytes, data that were packed more tightly than this are taken for a zip bomb.
_LARGE, _PACKED = 2**28, 100
# More different words than this are names or text, not classes.
_MOST_CLASSES = 100


def load(
    path: str | os.PathLike[str], target: str | Sequence[str] | None = None, classes: bool | None = None
) -> Dataset:
    """Read a data set from a file.

    A table (CSV, Parquet) has one sample per row; ``target`` names the column to predict, by default a column
    called ``target``, and every other column is an input. A CSV without a header row has columns named 0, 1, ….
    An NPZ holds arrays ``inputs`` and ``targets`` (``target`` names another array for the latter), or one
    one-dimensional array per column, which is read like a table.

    Several columns are predicted together: ``target=["y1", "y2"]``, or "y1,y2" where no column has this name. A column
    to predict that holds few different words is one of classes; the data set then names them, and its origin says so.

    Args:
        path: a file that ends in .csv, .npz or .parquet.
        target: the column or columns, or array, to predict.
        classes: True takes a target of numbers for classes too, False takes no target for classes; by default words
            are classes and numbers are numbers.

    Raises:
        ValueError: no such file, another format, a missing column, entries that are not finite numbers.
    """
    source = files.readable(path)
    suffix = source.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"cannot read {source.name}: the name must end in {', '.join(_SUFFIXES)}.")
    origin: dict[str, Any] = {
        "file": source.name,
        "target": target if isinstance(target, str | None) else list(map(str, target)),
    }
    if suffix == ".npz":
        arrays = _npz(source, words=str(target or "targets"))
        if "inputs" in arrays:
            wanted = target or "targets"
            if not isinstance(wanted, str) or wanted not in arrays:
                raise ValueError(f"no array {wanted!r} in {source.name}. It holds: {', '.join(arrays)}.")
            given = arrays[wanted]
            if given.ndim == 1 and (given.dtype.kind == "U" if classes is None else classes):
                return _classified(arrays["inputs"], given, f"array {wanted!r}", source, origin)
            return Dataset(arrays["inputs"], given, source.stem, origin)
        long = [name for name, array in arrays.items() if array.ndim != 1]
        if long or not arrays:
            raise ValueError(
                f"{source.name} must hold arrays 'inputs' and 'targets', or one-dimensional arrays as columns; "
                f"it holds: {', '.join(arrays) or 'nothing'}."
            )
        if len({len(array) for array in arrays.values()}) > 1:
            raise ValueError(f"the columns in {source.name} differ in length.")
        import pandas as pd

        table = pd.DataFrame(arrays)
    else:
        table = _csv(source) if suffix == ".csv" else _parquet(source)
    return _from_table(table, target, source, origin, classes)


def _from_table(
    table: "pd.DataFrame", target: str | Sequence[str] | None, source: Path, origin: dict, classes: bool | None
) -> Dataset:
    columns = list(table.columns)
    wanted = _wanted(target, columns)
    lacking = [name for name in wanted if name not in columns]
    if lacking:
        ask = " Name the column to predict with `target` (--target on the command line)." if target is None else ""
        shown = ", ".join(map(_short, columns[:12])) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
        raise ValueError(f"no column {lacking[0]!r} in {source.name}.{ask} Its columns: {shown}.")
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{source.name} has more than one column named {_short(repeated[0])!r}. Rename or remove all but one."
        )
    if len(columns) <= len(wanted):
        named = ", ".join(map(repr, wanted))
        raise ValueError(f"{source.name} has no input column besides the target {named}.")
    if table.empty:
        raise ValueError(f"{source.name} has columns but no rows.")
    word = wanted[0]
    are_classes = len(wanted) == 1 and (_holds_words(table[word]) if classes is None else classes)
    for column in columns:
        if not (are_classes and column == word):
            _check_column(table[column], _short(column), source)
    # Sample by sample in memory, as all that follows reads them.
    inputs = np.ascontiguousarray(table.drop(columns=wanted).to_numpy(dtype=np.float64))
    if are_classes:
        _check_missing(table[word], _short(word), source)
        return _classified(inputs, table[word].to_numpy(), f"column {_short(word)!r}", source, origin)
    targets = table[wanted].to_numpy(dtype=np.float64)
    return Dataset(inputs, targets[:, 0] if len(wanted) == 1 else targets, source.stem, origin)


def _wanted(target: str | Sequence[str] | None, columns: list[str]) -> list[str]:
    """The columns to predict: one, several, or several in one string, separated by commas."""
    if target is None:
        return ["target"]
    if not isinstance(target, str):
        names = [str(name) for name in target]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"target must name different columns, at least one, got {names}.")
        return names
    parts = [part.strip() for part in target.split(",")]
    return parts if target not in columns and len(parts) > 1 and len(set(parts)) == len(parts) else [target]


def _holds_words(entries: "pd.Series") -> bool:
    """Whether most entries are words: a stray word among numbers is a slip, and is reported as one."""
    import pandas as pd

    if entries.dtype.kind in "biuf":
        return False
    words = entries.notna() & pd.to_numeric(entries, errors="coerce").isna()
    return bool(words.mean() >= 0.5)


def _classified(inputs: np.ndarray, given: np.ndarray, what: str, source: Path, origin: dict) -> Dataset:
    """The data with one class per sample, if there are few enough of them for that."""
    if given.dtype.kind not in "biuf":
        given = given.astype(str)
    named, counts = np.unique(given, return_counts=True)
    if len(named) > _MOST_CLASSES or counts.max() == 1:
        raise ValueError(
            f"{what} in {source.name} is not numeric, or asked for as classes, but has {len(named)} different entries "
            f"in {len(given)} rows. Classes are at most {_MOST_CLASSES} and repeat; predict a column of numbers."
        )
    if len(named) < 2:
        raise ValueError(f"{what} in {source.name} holds one class only, {_short(named[0])!r}; two are the least.")
    data = Dataset(inputs, given, source.stem, origin, classes=True)
    shown = ", ".join(map(_short, data.classes[:5])) + (", …" if len(data.classes) > 5 else "")
    remark = f"{what} is taken for classes: {len(data.classes)} of them, {shown}"
    return Dataset(inputs, data.targets, source.stem, {**origin, "classes": remark}, data.classes)


def _check_column(entries: "pd.Series", column: str, source: Path) -> None:
    """Raise ValueError unless all entries are numbers; say whether it is words, a stray word, or nothing at all."""
    import pandas as pd

    if entries.dtype.kind not in "biuf":
        stray = entries.notna() & pd.to_numeric(entries, errors="coerce").isna()
        first = int(np.argmax(stray))
        if stray.any() and stray.mean() < 0.5:
            raise ValueError(
                f"column {column!r} in {source.name} is not numeric in {int(stray.sum())} of {len(entries)} rows (the "
                f"first is {_short(entries.iloc[first])!r} in row {first + 1}). Correct or drop these rows."
            )
        shown = ", ".join(_short(value) for value in list(dict.fromkeys(entries.dropna().astype(str)))[:3])
        raise ValueError(
            f"column {column!r} in {source.name} is not numeric ({shown or 'all entries are missing'}). Encode it as "
            "numbers, such as one column of 0 and 1 per category (pandas.get_dummies), or leave it out."
        )
    _check_missing(entries, column, source)


def _check_missing(entries: "pd.Series", column: str, source: Path) -> None:
    missing = int(entries.isna().sum())
    if missing:
        raise ValueError(
            f"column {column!r} in {source.name} has {missing} missing or undefined entries. "
            "Fill them in or drop these rows."
        )


def _csv(source: Path) -> "pd.DataFrame":
    import pandas as pd

    # Without pandas' own header, which would rename a repeated column instead of showing it.
    options: dict[str, Any] = {"header": None, "skipinitialspace": True, "encoding": "utf-8-sig"}
    try:
        first = pd.read_csv(source, nrows=1, dtype=str, **options)
        names = [str(name).strip() for name in first.iloc[0].fillna("")]
        headed = not all(_is_number(name) for name in names)
        try:
            table = pd.read_csv(source, skiprows=int(headed), **options)
        except pd.errors.EmptyDataError:
            table = pd.DataFrame(columns=range(len(names)))
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"cannot read {source.name} as CSV: it is empty.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {source.name} as CSV: it is not UTF-8 text. Save it as UTF-8.") from error
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise ValueError(
            f"cannot read {source.name} as CSV: it must be comma-separated text with the same number of entries in "
            "each row."
        ) from error
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise ValueError(f"{source.name} seems to use another separator than the comma. Save it comma-separated.")
    if not headed:
        return table.rename(columns=str)
    if "" in names:
        raise ValueError(
            f"column {names.index('') + 1} of {source.name} has no name (a row index, or a comma too many?). "
            "Name it or remove it."
        )
    if table.shape[1] != len(names):
        raise ValueError(f"{source.name} has {len(names)} column names but {table.shape[1]} entries in a row.")
    return table.set_axis(names, axis=1)


def _parquet(source: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        from pyarrow.parquet import ParquetFile

        told = ParquetFile(source).metadata
        declared = 8 * told.num_rows * told.num_columns
        if declared <= max(_LARGE, _PACKED * source.stat().st_size):
            return pd.read_parquet(source).rename(columns=str)
    except ImportError as error:
        raise ValueError("reading Parquet needs pyarrow. Install it: pip install 'biasfree[parquet]'.") from error
    except Exception as error:  # pyarrow raises many kinds of error on broken files
        raise ValueError(f"cannot read {source.name} as Parquet: {_first_line(error)}.") from error
    raise ValueError(f"cannot read {source.name} as Parquet: {_bomb(source, declared)} Save it as NPZ, with np.savez.")


def _npz(source: Path, words: str) -> dict[str, np.ndarray]:
    """Numeric arrays by name; the array called ``words`` may hold words, which name classes."""
    try:
        with zipfile.ZipFile(source) as archive:
            declared = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it is not a whole archive of arrays.") from error
    if declared > _LARGE and declared > _PACKED * source.stat().st_size:
        raise ValueError(f"cannot read {source.name} as NPZ: {_bomb(source, declared)} Save it with np.savez.")
    try:
        with np.load(source, allow_pickle=False) as archive:
            return {
                name: entry if name == words and entry.dtype.kind == "U" else checks.numeric(entry, f"array {name!r}")
                for name, entry in ((name, archive[name]) for name in archive.files)
            }
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it must be an archive of plain numeric arrays.") from error


def _bomb(source: Path, declared: int) -> str:
    return f"{source.stat().st_size:,} bytes that unpack to {declared:,} are not taken for data."


def _short(text: object) -> str:
    shown = str(text)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
