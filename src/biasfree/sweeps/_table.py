"""Runs as columns: results of earlier sweeps, and those of this one."""

from collections.abc import Iterable, Mapping

import numpy as np

from biasfree.sweeps._store import FAILED, Batch, as_words, joined

NOT_RUN = 0


class Known:
    """Finished runs by key."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        """Sort once; groups of batches with different columns stay apart."""
        self._groups = [(batch, np.argsort(batch.keys[:, 0], kind="stable")) for batch in joined(list(batches))]

    def find(self, keys: np.ndarray, needed: set[str] | None) -> Iterable[tuple[Batch, np.ndarray, np.ndarray]]:
        """Batches that have every needed column, with the runs they answer and the rows that do."""
        for batch, order in self._groups:
            if needed is not None and not needed <= set(batch.columns):
                continue
            sorted_first = batch.keys[order, 0]
            place = np.minimum(np.searchsorted(sorted_first, keys[:, 0]), len(order) - 1)
            rows = order[place]
            # Half of the key leads there; the other half decides.
            matches = np.flatnonzero((batch.keys[rows] == keys).all(axis=1))
            yield batch, matches, rows[matches]


class Table:
    """State, sentence and kept values of runs.

    Attributes:
        points: (points, axes) of indices into the finest grid; the runs of a point's seeds follow each other.
        level: of refinement at which a point came in.
        kinds: "number", "share" or "text" by name.
        columns: kept values by name.
    """

    points: np.ndarray
    level: np.ndarray

    def __init__(self, runs: int, kinds: Mapping[str, str]) -> None:
        """Nothing is known yet."""
        self.state = np.full(runs, NOT_RUN, dtype=np.uint8)
        self.message = np.full(runs, "", dtype=object)
        self.kinds, self._any = dict(kinds), not kinds  # a user's own run says what it keeps when it returns
        self.columns = {name: self._empty(kind) for name, kind in kinds.items()}

    def take_known(self, keys: np.ndarray, known: Known, needed: set[str] | None) -> np.ndarray:
        """Fill in what is known; gives the runs that are not."""
        for batch, runs, rows in known.find(keys, needed):
            self.put(runs, batch, rows)
        return np.flatnonzero(self.state == NOT_RUN)

    def put(self, runs: np.ndarray, batch: Batch, rows: np.ndarray) -> None:
        """Copy ``rows`` of a batch to ``runs``."""
        self.state[runs], self.message[runs] = batch.state[rows], batch.message[rows]
        for name, column in batch.columns.items():
            if name not in self.columns:
                if not self._any:
                    continue  # kept by an earlier plan
                self.kinds[name] = "text" if column.dtype == object else "number"
                self.columns[name] = self._empty(self.kinds[name])
            values = column[rows]
            if column.dtype == object and self.kinds[name] != "text":
                self._make_words(name)
            elif column.dtype != object and self.kinds[name] == "text":
                values = as_words(values)
            self.columns[name][runs] = values

    def failed(self) -> int:
        """Number of failed runs."""
        return int(np.sum(self.state == FAILED))

    def append(self, other: "Table") -> None:
        """The points of another table after these."""
        self.points = np.concatenate([self.points, other.points])
        self.level = np.concatenate([self.level, other.level])
        for name in {**self.columns, **other.columns}:
            if "text" in (self.kinds.get(name), other.kinds.get(name)):
                self._make_words(name)
                other._make_words(name)
            kind = self.kinds.setdefault(name, other.kinds.get(name, "number"))
            parts = [table.columns.get(name, table._empty(kind)) for table in (self, other)]
            self.columns[name] = np.concatenate(parts)
        self.state = np.concatenate([self.state, other.state])
        self.message = np.concatenate([self.message, other.message])

    def _make_words(self, name: str) -> None:
        """A user's run gave numbers so far, and words elsewhere."""
        if name in self.columns and self.kinds[name] != "text":
            self.columns[name] = as_words(self.columns[name])
        self.kinds[name] = "text"

    def _empty(self, kind: str) -> np.ndarray:
        return np.full(len(self.state), "", dtype=object) if kind == "text" else np.full(len(self.state), np.nan)
