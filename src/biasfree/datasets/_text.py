"""Tables as text: comma, semicolon, tab or bar between entries, decimal point or comma, packed or not."""

import csv
import gzip
import io
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = (",", ";", "\t", "|")
# What is looked at to find out how entries are separated.
_SAMPLED_BYTES, _ROWS = 65_536, 50
_DECIMAL_COMMA, _DECIMAL_POINT = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?"), re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
# Beyond so many bytes, data that were packed more tightly than this are taken for a bomb.
LARGE, PACKED = 2**28, 100


class Source(NamedTuple):
    """A file, or what it holds."""

    name: str
    size: int
    content: Path | bytes

    @property
    def stem(self) -> str:
        """The name without its endings."""
        return Path(self.name[:-3] if self.packed else self.name).stem

    @property
    def packed(self) -> bool:
        """Whether it is packed by gzip."""
        return self.name.lower().endswith(".gz")

    @property
    def suffix(self) -> str:
        """The ending that names the format."""
        return Path(self.name[:-3] if self.packed else self.name).suffix.lower()

    def opened(self) -> Any:
        """What pandas, NumPy and pyarrow read from; from its beginning each time."""
        return self.content if isinstance(self.content, Path) else io.BytesIO(self.content)

    def bomb(self, declared: int) -> str:
        """What is said of a file that unpacks to too much."""
        return f"{self.size:,} bytes that unpack to {declared:,} are not taken for data."


class Style(NamedTuple):
    """How the entries of a text table are written."""

    sep: str
    decimal: str


def read_text(source: Source, sep: str | None = None, decimal: str | None = None) -> "pd.DataFrame":
    """Read a text table; columns without names are called 0, 1, ….

    Args:
        source: CSV or TSV, packed by gzip or not.
        sep, decimal: guessed from the first rows unless given.

    Raises:
        ValueError: text that is no table.
    """
    import pandas as pd

    style = _style(source, sep, decimal)
    # Without pandas' own header, which would rename a repeated column instead of showing it.
    options: dict[str, Any] = {
        "header": None, "skipinitialspace": True, "encoding": "utf-8-sig", "sep": style.sep, "decimal": style.decimal,
        "compression": "gzip" if source.packed else None,
    }  # fmt: skip
    try:
        first = pd.read_csv(source.opened(), nrows=1, dtype=str, **options)
        names = [str(name).strip() for name in first.iloc[0].fillna("")]
        headed = not all(_is_number(name, style.decimal) for name in names)
        try:
            table = pd.read_csv(source.opened(), skiprows=int(headed), **options)
        except pd.errors.EmptyDataError:
            table = pd.DataFrame(columns=range(len(names)))
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"cannot read {source.name} as CSV: it is empty.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {source.name} as CSV: it is not UTF-8 text. Save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot read {source.name}: it is not a whole file packed by gzip.") from error
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(
            f"cannot read {source.name} as CSV: it must have the same number of entries in each row, separated by "
            f"{_separator_name(style.sep)} as the first rows are. Name another separator with `sep` (--sep)."
        ) from error
    if not headed:
        return table.rename(columns=str)
    if "" in names:
        raise ValueError(
            f"column {names.index('') + 1} of {source.name} has no name (a row index, or a "
            f"{_separator_name(style.sep)} too many?). Name it or remove it."
        )
    if table.shape[1] != len(names):
        raise ValueError(f"{source.name} has {len(names)} column names but {table.shape[1]} entries in a row.")
    return table.set_axis(names, axis=1)


def _style(source: Source, sep: str | None, decimal: str | None) -> Style:
    if sep is not None and len(sep.replace("\\t", "\t")) != 1:
        raise ValueError(f"sep must be one character between entries (\\t is a tab), got {sep!r}.")
    if decimal is not None and decimal not in (".", ","):
        raise ValueError(f"decimal must be . or , got {decimal!r}.")
    sep = None if sep is None else sep.replace("\\t", "\t")
    if sep is not None and sep == decimal:
        raise ValueError(f"sep and decimal are both {sep!r}: entries could not be separated. Change one of them.")
    lines = _first_lines(source)
    if sep is None:
        sep = "\t" if source.suffix == ".tsv" else _separator(lines, decimal)
    if decimal is None:
        entries = [entry for row in csv.reader(lines, delimiter=sep) for entry in row]
        commas = sum(bool(_DECIMAL_COMMA.fullmatch(entry.strip())) for entry in entries)
        points = sum(bool(_DECIMAL_POINT.fullmatch(entry.strip())) for entry in entries)
        decimal = "," if sep != "," and commas > points else "."
    return Style(sep, decimal)


def _separator(lines: list[str], decimal: str | None) -> str:
    """The one that cuts the first rows into the most entries, the same number in each; else the first row alone."""
    possible = [sep for sep in _SEPARATORS if sep != decimal]
    counts = {sep: [len(row) for row in csv.reader(lines, delimiter=sep)] or [1] for sep in possible}
    # Decimal commas make a comma cut rows of numbers evenly too, but rarely the header as well.
    even = [sep for sep in possible if len(set(counts[sep])) == 1 and counts[sep][0] > 1]
    return max(even or possible, key=lambda sep: counts[sep][0])


def _first_lines(source: Source) -> list[str]:
    """Some whole rows from the top, as far as they are text."""
    try:
        with _unpacked(source) as stream:
            top = stream.read(_SAMPLED_BYTES)
            whole = len(top) < _SAMPLED_BYTES
            if source.packed:
                _measure(source, stream, len(top))
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot read {source.name}: it is not a whole file packed by gzip.") from error
    text = top.decode("utf-8-sig", errors="replace").replace("\0", "")
    lines = [line for line in text.splitlines()[: _ROWS + 1] if line.strip()]
    return lines if whole or len(lines) < 2 else lines[:-1]


def _unpacked(source: Source) -> Any:
    if source.packed:
        return gzip.open(source.opened())
    return source.content.open("rb") if isinstance(source.content, Path) else io.BytesIO(source.content)


def _measure(source: Source, stream: Any, read: int) -> None:
    """Raise ValueError when a packed file unpacks to far more than its size makes likely."""
    most = max(LARGE, PACKED * source.size)
    while chunk := stream.read(1 << 20):
        read += len(chunk)
        if read > most:
            raise ValueError(f"cannot read {source.name}: {source.bomb(read)} Unpack it first.")


def _is_number(text: str, decimal: str) -> bool:
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _separator_name(sep: str) -> str:
    return {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}.get(sep, repr(sep))
