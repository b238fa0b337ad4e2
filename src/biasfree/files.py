"""Files are written whole or not at all, and an unwritable path is found before the work, not after."""

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def writable(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    """Return ``path`` if a file with one of ``suffixes`` can be written there, else raise ValueError."""
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        raise ValueError(f"{target} must end in {' or '.join(suffixes)}.")
    if target.is_dir():
        raise ValueError(f"cannot write {target}: it is a folder. Name a file in it.")
    if target.parent.is_file():
        raise ValueError(f"cannot write {target}: {target.parent} is a file, not a folder. Choose another place.")
    if not target.parent.is_dir():
        raise ValueError(f"cannot write {target}: the folder {target.parent} does not exist. Create it first.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ValueError(f"cannot write {target}: permission denied. Choose another place.")
    return target


def folder(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if it is a folder or one can be made there, else raise ValueError."""
    target = Path(path)
    nearest = next(place for place in (target, *target.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise ValueError(f"cannot make the folder {target}: {nearest} is a file. Choose another place.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {nearest}: permission denied. Choose another place.")
    return target


def readable(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if it names a file, else raise ValueError."""
    source = Path(path)
    if not source.exists():
        raise ValueError(f"no file at {source}. Check the path.")
    if not source.is_file():
        raise ValueError(f"{source} is not a file.")
    return source


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` on success, remove it on failure."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        # mkstemp makes private files; a result should have the permissions any new file has.
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def plain(value: Any, otherwise: Callable[[float], Any] = lambda number: None) -> Any:
    """As JSON can hold it: arrays become lists, and numbers that are not finite what ``otherwise`` makes of them.

    >>> plain({"a": (1, math.inf)}), plain(math.inf, str)
    ({'a': [1, None]}, 'inf')
    """
    if isinstance(value, Mapping):
        return {str(key): plain(each, otherwise) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each, otherwise) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), otherwise)
    if isinstance(value, float) and not math.isfinite(value):
        return otherwise(value)
    return value
