"""The user's own data, from CSV, TSV, NPZ or Parquet. Nothing in a file is ever executed."""

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from biasfree import checks, files
from biasfree.datasets._dataset import Dataset
from biasfree.datasets._tables import Columns, check_numbers, classified, from_table
from biasfree.datasets._text import LARGE, PACKED, Source, read_text

# Slow to import, and needed for files only.
if TYPE_CHECKING:
    import pandas as pd

_TEXT = (".csv", ".tsv")
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".npz", ".parquet")


class _Options(NamedTuple):
    """What is wanted of a table."""

    target: Columns | None
    drop: Columns
    sep: str | None
    decimal: str | None
    categories: str | None
    classes: bool | None


def load(
    path: str | os.PathLike[str],
    target: Columns | None = None,
    drop: Columns = (),
    *,
    sep: str | None = None,
    decimal: str | None = None,
    categories: str | None = None,
    classes: bool | None = None,
) -> Dataset:
    """Read a data set from a file.

    A table (CSV, TSV, Parquet) has one sample per row; ``target`` names the column to predict, or several, by default a
    column called ``target``, and every other column is an input. A text table without a header row has columns named
    0, 1, …. An NPZ holds arrays ``inputs`` and ``targets`` (``target`` names another array for the latter), or one
    one-dimensional array per column, which is read like a table.

    Several columns are predicted together: ``target=["y1", "y2"]``, or "y1,y2" where no column has this name. A column
    to predict that holds few different words is one of classes; the data set then names them, and its origin says so.

    Args:
        path: a file that ends in .csv, .tsv (or either and .gz), .npz or .parquet.
        target: the column, or array, to predict; several columns are several outputs.
        drop: columns to leave out.
        sep: what separates the entries of a text file; guessed by default.
        decimal: "." or ","; guessed by default.
        categories: "onehot" turns columns of words into columns of 0 and 1; they are refused without.
        classes: whether the target is a class; by default if it is words.

    Raises:
        ValueError: no such file, another format, a missing column, entries that are not finite numbers.
    """
    source = files.readable(path)
    options = _Options(target, drop, sep, decimal, categories, classes)
    return _read(Source(source.name, source.stat().st_size, source), options)


def load_inputs(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read a text or Parquet table of which no column is to be predicted: all are inputs.

    Args:
        path: a file that ends in .csv, .tsv (or either and .gz) or .parquet.

    Raises:
        ValueError: no such file, another format, entries that are not finite numbers.
    """
    place = files.readable(path)
    source = Source(place.name, place.stat().st_size, place)
    if (source.packed and source.suffix not in _TEXT) or source.suffix not in (*_TEXT, ".parquet"):
        raise ValueError(f"cannot read {source.name}: the name must end in {', '.join(_SUFFIXES)}.")
    table = (read_text(source) if source.suffix in _TEXT else _parquet(source)).rename(columns=str)
    check_numbers(table, source.name)
    return table


def read(
    content: bytes,
    name: str,
    target: Columns | None = None,
    drop: Columns = (),
    *,
    sep: str | None = None,
    decimal: str | None = None,
    categories: str | None = None,
    classes: bool | None = None,
) -> Dataset:
    """Read a data set from the bytes of a file, as ``load`` reads the file; nothing is written.

    Args:
        content: what the file holds.
        name: the file's name; its ending says the format.
        target, drop, sep, decimal, categories, classes: as of ``load``.

    Raises:
        ValueError: as ``load``.

    >>> read(b"a,b,target\\n1,2,3\\n4,5,6\\n", "mine.csv").targets
    array([3., 6.])
    """
    options = _Options(target, drop, sep, decimal, categories, classes)
    return _read(Source(Path(name).name, len(content), content), options)


def _read(source: Source, options: _Options) -> Dataset:
    suffix = source.suffix
    if (source.packed and suffix not in _TEXT) or suffix not in (*_TEXT, ".npz", ".parquet"):
        raise ValueError(f"cannot read {source.name}: the name must end in {', '.join(_SUFFIXES)}.")
    if suffix not in _TEXT and (options.sep is not None or options.decimal is not None):
        raise ValueError(f"sep and decimal are of text files, and {source.name} is none. Leave them out.")
    origin = {"file": source.name, "target": options.target}
    if suffix == ".npz":
        arrays = _npz(source, words=str(options.target or "targets"))
        if "inputs" in arrays:
            return _from_arrays(arrays, options, source, origin)
        table = _columns(arrays, source)
    else:
        table = read_text(source, options.sep, options.decimal) if suffix in _TEXT else _parquet(source)
    return from_table(
        table, options.target, options.drop, options.categories, source.name, origin, source.stem, options.classes
    )


def _from_arrays(arrays: dict[str, np.ndarray], options: _Options, source: Source, origin: dict[str, Any]) -> Dataset:
    if (
        options.drop not in ((), [])
        or options.categories
        or not (options.target is None or isinstance(options.target, str))
    ):
        raise ValueError(
            f"{source.name} holds arrays 'inputs' and targets, not a table: its columns have no names. Leave drop and "
            "categories out, and name one array as target."
        )
    wanted = options.target or "targets"
    if wanted not in arrays:
        raise ValueError(f"no array {wanted!r} in {source.name}. It holds: {', '.join(arrays)}.")
    given = arrays[wanted]
    if given.ndim == 1 and (given.dtype.kind == "U" if options.classes is None else options.classes):
        return classified(arrays["inputs"], given, f"array {wanted!r}", source.name, origin, source.stem)
    return Dataset(arrays["inputs"], given, source.stem, origin)


def _columns(arrays: dict[str, np.ndarray], source: Source) -> "pd.DataFrame":
    long = [name for name, array in arrays.items() if array.ndim != 1]
    if long or not arrays:
        raise ValueError(
            f"{source.name} must hold arrays 'inputs' and 'targets', or one-dimensional arrays as columns; "
            f"it holds: {', '.join(arrays) or 'nothing'}."
        )
    if len({len(array) for array in arrays.values()}) > 1:
        raise ValueError(f"the columns in {source.name} differ in length.")
    import pandas as pd

    return pd.DataFrame(arrays)


def _parquet(source: Source) -> "pd.DataFrame":
    checks.installed("pyarrow", extra="parquet", what="reading Parquet")
    import pandas as pd
    from pyarrow.parquet import ParquetFile

    try:
        metadata = ParquetFile(source.opened()).metadata
        declared = 8 * metadata.num_rows * metadata.num_columns
        if declared <= max(LARGE, PACKED * source.size):
            return pd.read_parquet(source.opened()).rename(columns=str)
    except Exception as error:  # pyarrow raises many kinds of error on broken files
        raise ValueError(f"cannot read {source.name} as Parquet: {_first_line(error)}.") from error
    raise ValueError(f"cannot read {source.name} as Parquet: {source.bomb(declared)} Save it as NPZ, with np.savez.")


def _npz(source: Source, words: str) -> dict[str, np.ndarray]:
    """Numeric arrays by name; the array called ``words`` may hold words, which name classes."""
    try:
        with zipfile.ZipFile(source.opened()) as archive:
            declared = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it is not a whole archive of arrays.") from error
    if declared > LARGE and declared > PACKED * source.size:
        raise ValueError(f"cannot read {source.name} as NPZ: {source.bomb(declared)} Save it with np.savez.")
    try:
        with np.load(source.opened(), allow_pickle=False) as archive:
            return {
                name: entry if name == words and entry.dtype.kind == "U" else checks.numeric(entry, f"array {name!r}")
                for name, entry in ((name, archive[name]) for name in archive.files)
            }
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it must be an archive of plain numeric arrays.") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
