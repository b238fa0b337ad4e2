"""What an index entry says of one numbered result."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One numbered result of a paper and where it lives in this project.

    Attributes:
        id: its name in commands and links, e.g. "eq-38".
        label: as it is printed, e.g. "Eq. 38"; workshop numbering unless it says otherwise.
        place: section or appendix of the paper.
        says: what it says, in our own words.
        functions: public functions and classes, by their path below ``biasfree``.
        studies: ids of the studies that put it beside a measurement.
        tests: paths below ``tests``, with the test's name after ``::``.
        journal: its number in the journal version where that is known, e.g. "Theorem 8".
        note: what is wrong in print, or not shown here; "" if nothing is.
    """

    id: str
    label: str
    place: str
    says: str
    functions: tuple[str, ...]
    studies: tuple[str, ...]
    tests: tuple[str, ...]
    journal: str = ""
    note: str = ""

    @property
    def kind(self) -> str:
        """The first word of its label: Theorem, Eq., Figure, …."""
        return self.label.split()[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it is known by in commands: its id, and that of its journal number."""
        other = "tmlr-" + self.journal.lower().replace(" ", "-") if self.journal else self.id
        return (self.id,) if other == self.id else (self.id, other)


def entry(
    label: str,
    place: str,
    says: str,
    functions: str,
    studies: str,
    tests: str,
    journal: str = "",
    note: str = "",
    id: str = "",
) -> Entry:
    """An entry from lists that are words with spaces between; its id is its label's unless one is given."""
    name = id or label.lower().replace(".", "").replace(" ", "-")
    return Entry(
        name, label, place, says, tuple(functions.split()), tuple(studies.split()), tuple(tests.split()), journal, note
    )
