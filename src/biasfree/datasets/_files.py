"""The user's own data, from CSV, NPZ or Parquet. Nothing in a file is ever executed."""

import io
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from biasfree import checks, files
from biasfree.datasets._dataset import Dataset

# Slow to import, and needed for files only.
if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".npz", ".parquet")
# Beyond so many bytes, data that were packed more tightly than this are taken for a zip bomb.
_LARGE, _PACKED = 2**28, 100


def load(path: str | os.PathLike[str], target: str | None = None) -> Dataset:
    """Read a data set from a file.

    A table (CSV, Parquet) has one sample per row; ``target`` names the column to predict, by default a column
    called ``target``, and every other column is an input. A CSV without a header row has columns named 0, 1, ….
    An NPZ holds arrays ``inputs`` and ``targets`` (``target`` names another array for the latter), or one
    one-dimensional array per column, which is read like a table.

    Args:
        path: a file that ends in .csv, .npz or .parquet.
        target: the column, or array, to predict.

    Raises:
        ValueError: no such file, another format, a missing column, entries that are not finite numbers.
    """
    source = files.readable(path)
    return _read(_Source(source.name, source.stat().st_size, source), target)


def read(content: bytes, name: str, target: str | None = None) -> Dataset:
    """Read a data set from the bytes of a file, as ``load`` reads the file; nothing is written.

    Args:
        content: what the file holds.
        name: the file's name; its ending says the format.
        target: the column, or array, to predict.

    Raises:
        ValueError: as ``load``.

    >>> read(b"a,b,target\\n1,2,3\\n4,5,6\\n", "mine.csv").targets
    array([3., 6.])
    """
    return _read(_Source(Path(name).name, len(content), content), target)


class _Source(NamedTuple):
    """A file, or what it holds."""

    name: str
    size: int
    content: Path | bytes

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    def opened(self) -> Any:
        """What pandas, NumPy and pyarrow read from; from its beginning each time."""
        return self.content if isinstance(self.content, Path) else io.BytesIO(self.content)


def _read(source: _Source, target: str | None) -> Dataset:
    suffix = Path(source.name).suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"cannot read {source.name}: the name must end in {', '.join(_SUFFIXES)}.")
    origin = {"file": source.name, "target": target}
    if suffix == ".npz":
        arrays = _npz(source)
        if "inputs" in arrays:
            wanted = target or "targets"
            if wanted not in arrays:
                raise ValueError(f"no array {wanted!r} in {source.name}. It holds: {', '.join(arrays)}.")
            return Dataset(arrays["inputs"], arrays[wanted], source.stem, origin)
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
    return _from_table(table, target, source, origin)


def _from_table(table: "pd.DataFrame", target: str | None, source: _Source, origin: dict) -> Dataset:
    columns = list(table.columns)
    wanted = "target" if target is None else str(target)
    if wanted not in columns:
        ask = " Name the column to predict with `target` (--target on the command line)." if target is None else ""
        shown = ", ".join(map(_short, columns[:12])) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
        raise ValueError(f"no column {wanted!r} in {source.name}.{ask} Its columns: {shown}.")
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{source.name} has more than one column named {_short(repeated[0])!r}. Rename or remove all but one."
        )
    if len(columns) < 2:
        raise ValueError(f"{source.name} has no input column besides the target {wanted!r}.")
    if table.empty:
        raise ValueError(f"{source.name} has columns but no rows.")
    for column in columns:
        _check_column(table[column], _short(column), source)
    # Sample by sample in memory, as all that follows reads them.
    inputs = np.ascontiguousarray(table.drop(columns=wanted).to_numpy(dtype=np.float64))
    return Dataset(inputs, table[wanted].to_numpy(dtype=np.float64), source.stem, origin)


def _check_column(entries: "pd.Series", column: str, source: _Source) -> None:
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
    missing = int(entries.isna().sum())
    if missing:
        raise ValueError(
            f"column {column!r} in {source.name} has {missing} missing or undefined entries. "
            "Fill them in or drop these rows."
        )


def _csv(source: _Source) -> "pd.DataFrame":
    import pandas as pd

    # Without pandas' own header, which would rename a repeated column instead of showing it.
    options: dict[str, Any] = {"header": None, "skipinitialspace": True, "encoding": "utf-8-sig"}
    try:
        first = pd.read_csv(source.opened(), nrows=1, dtype=str, **options)
        names = [str(name).strip() for name in first.iloc[0].fillna("")]
        headed = not all(_is_number(name) for name in names)
        try:
            table = pd.read_csv(source.opened(), skiprows=int(headed), **options)
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


def _parquet(source: _Source) -> "pd.DataFrame":
    import pandas as pd

    try:
        from pyarrow.parquet import ParquetFile

        told = ParquetFile(source.opened()).metadata
        declared = 8 * told.num_rows * told.num_columns
        if declared <= max(_LARGE, _PACKED * source.size):
            return pd.read_parquet(source.opened()).rename(columns=str)
    except ImportError as error:
        raise ValueError("reading Parquet needs pyarrow. Install it: pip install 'biasfree[parquet]'.") from error
    except Exception as error:  # pyarrow raises many kinds of error on broken files
        raise ValueError(f"cannot read {source.name} as Parquet: {_first_line(error)}.") from error
    raise ValueError(f"cannot read {source.name} as Parquet: {_bomb(source, declared)} Save it as NPZ, with np.savez.")


def _npz(source: _Source) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(source.opened()) as archive:
            declared = sum(member.file_size for member in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it is not a whole archive of arrays.") from error
    if declared > _LARGE and declared > _PACKED * source.size:
        raise ValueError(f"cannot read {source.name} as NPZ: {_bomb(source, declared)} Save it with np.savez.")
    try:
        with np.load(source.opened(), allow_pickle=False) as archive:
            return {name: checks.numeric(archive[name], f"array {name!r}") for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise ValueError(f"cannot read {source.name} as NPZ: it must be an archive of plain numeric arrays.") from error


def _bomb(source: _Source, declared: int) -> str:
    return f"{source.size:,} bytes that unpack to {declared:,} are not taken for data."


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
