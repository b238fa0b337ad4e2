"""The folder of finished runs: batch files, written whole or not at all by the one process that holds its lock.

A batch file is named after the hash of its own bytes, so that a damaged or cut file is known as such; it is then
removed, and its runs are computed again. Many small files are merged into one from time to time.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from biasfree import files

DONE, FAILED = 1, 2
ABOUT = ("state", "message", "level")  # of every run, beside what is kept of it
_MOST_FILES, _MERGED = 256, 200  # so many files, before so many of the smallest become one


class Batch(NamedTuple):
    """Finished runs.

    Attributes:
        keys: (runs, 2) of uint64.
        state: DONE or FAILED.
        message: sentences of failed runs, empty for others.
        columns: what was kept, by name: float64, or str objects for text.
    """

    keys: np.ndarray
    state: np.ndarray
    message: np.ndarray
    columns: Mapping[str, np.ndarray]

    def only(self, chosen: np.ndarray) -> "Batch":
        """Some of its runs."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Batch(self.keys[chosen], self.state[chosen], self.message[chosen], columns)


class StoreError(RuntimeError):
    """The folder cannot be used; the text says why and what to do."""


class Store:
    """Finished runs in ``folder``; use it within ``locked``."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self.folder = folder
        self.damaged: list[str] = []

    def read(self) -> Iterator[Batch]:
        """Every whole batch; damaged ones are removed and named in ``damaged``, half-written ones are swept away."""
        for draft in self.folder.glob(".batch-*"):
            draft.unlink(missing_ok=True)
        for path in self._files():
            batch = self._read(path)
            if batch is None:
                self.damaged.append(path.name)
                path.unlink(missing_ok=True)
            else:
                yield batch

    def write(self, batch: Batch) -> None:
        """Keep a batch.

        Raises:
            StoreError: the disk is full or the folder cannot be written; nothing half-written is left.
        """
        try:
            self._write(batch)
            if len(paths := self._files()) > _MOST_FILES:
                self._merge(paths)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self.folder}: {error.strerror or error}. Runs finished before are kept; make room, "
                "and the same command goes on."
            ) from error

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("batch-*.npz"))

    def _read(self, path: Path) -> Batch | None:
        raw = path.read_bytes()
        if path.stem != _name(raw):
            return None
        try:
            with np.load(io.BytesIO(raw), allow_pickle=False) as stored:
                return _unpacked({name: stored[name] for name in stored.files})
        except (ValueError, KeyError, zipfile.BadZipFile):
            return None

    def _write(self, batch: Batch) -> Path:
        buffer = io.BytesIO()
        np.savez(buffer, **_packed(batch))  # type: ignore[arg-type]
        raw = buffer.getvalue()
        path = self.folder / f"{_name(raw)}.npz"
        with files.written_whole(path) as draft, draft.open("wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
        return path

    def _merge(self, paths: list[Path]) -> None:
        """Make one file of the smallest; what is cut off in between is there twice, which does no harm."""
        smallest = sorted(paths, key=lambda path: path.stat().st_size)[:_MERGED]
        batches = [(path, batch) for path in smallest if (batch := self._read(path)) is not None]
        written = {self._write(batch) for batch in joined([batch for _, batch in batches])}
        for path, _ in batches:
            if path not in written:
                path.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[Store]:
    """The store of ``folder``, which is made if need be, for this process alone.

    Raises:
        ValueError: another process is at work there, or the folder cannot be made.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise ValueError(
            f"another sweep is at work in {folder}. Wait until it has ended, or name another folder."
        ) from error
    except OSError as error:
        raise ValueError(f"cannot use the folder {folder}: {error.strerror or error}.") from error
    try:
        yield Store(folder)
    finally:
        lock.release()


def as_words(column: np.ndarray) -> np.ndarray:
    """Numbers as words, missing ones empty: a quantity that is a word in one run is one in all."""
    return np.array(["" if np.isnan(value) else repr(float(value)) for value in column], dtype=object)


def joined(batches: list[Batch]) -> list[Batch]:
    """Batches with the same columns as one each."""
    groups: dict[frozenset[str], list[Batch]] = {}
    for batch in batches:
        groups.setdefault(frozenset(batch.columns), []).append(batch)
    return [
        Batch(
            np.concatenate([b.keys for b in group]),
            np.concatenate([b.state for b in group]),
            np.concatenate([b.message for b in group]),
            {name: _one_kind([b.columns[name] for b in group]) for name in group[0].columns},
        )
        for group in groups.values()
    ]


def _one_kind(columns: list[np.ndarray]) -> np.ndarray:
    if len({column.dtype == object for column in columns}) > 1:
        columns = [column if column.dtype == object else as_words(column) for column in columns]
    return np.concatenate(columns)


def _name(raw: bytes) -> str:
    return f"batch-{hashlib.blake2b(raw, digest_size=16).hexdigest()}"


def _packed(batch: Batch) -> dict[str, np.ndarray]:
    """As arrays without objects: words are numbers into a list of the different ones."""
    packed = {"keys": batch.keys, "state": batch.state.astype(np.uint8)}
    texts = {"message": batch.message}
    for name, column in batch.columns.items():
        if column.dtype == object:
            texts[f"text {name}"] = column
        else:
            packed[f"number {name}"] = column
    for name, column in texts.items():
        words, codes = np.unique(column.astype(str), return_inverse=True)
        packed[name], packed[f"words of {name}"] = codes.astype(np.int32), words
    return packed


def _unpacked(packed: Mapping[str, np.ndarray]) -> Batch:
    columns = {}
    for name, column in packed.items():
        if name.startswith("number "):
            columns[name.removeprefix("number ")] = column
        elif name.startswith("text "):
            columns[name.removeprefix("text ")] = packed[f"words of {name}"].astype(object)[column]
    message = packed["words of message"].astype(object)[packed["message"]]
    return Batch(packed["keys"], packed["state"], message, columns)
