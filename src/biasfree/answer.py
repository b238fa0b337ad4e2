"""What an answer to a user's question is made of; ``biasfree.report`` shows it.

An answer has a title, a verdict, and sections of sentences, tables and pictures. A picture is only named here, with the
numbers it shows: drawing is the business of ``report``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Heads and rows of text; a page shows it whole, a terminal its first rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture to be drawn.

    Attributes:
        kind: its name in ``biasfree.report.PICTURES``, which says what ``data`` it takes.
        caption: one sentence.
        data: arguments of the function that draws it.
    """

    kind: str
    caption: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A heading and what is under it.

    Attributes:
        heading: its title.
        sentences: a paragraph each.
        table: after them.
        pictures: after both; pages and notebooks show them, terminals do not.
    """

    heading: str
    sentences: Sequence[str] = ()
    table: Table | None = None
    pictures: Sequence[Picture] = ()


class Answer(ABC):
    """An answer that prints, shows itself in a notebook, and is written as a page or as JSON.

    Subclasses give the five parts below. ``print`` shows text, a notebook the page's body, ``save`` writes a file.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What was asked."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The answer in one sentence, which begins with the verdict."""

    @property
    def warning(self) -> str | None:
        """A sentence that stands right below the headline where the answer must not be taken as it is."""
        return None

    @property
    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """The rest, in the order of the questions one asks."""

    @property
    def appendix(self) -> tuple[Section, ...]:
        """Sections for a page alone, after all others: a terminal has one screen. Worked out when asked for."""
        return ()

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What the answer rests on, by name: shown at the foot of a page beside versions and platform."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """All numbers, as JSON can hold them; ``title``, ``verdict`` and ``headline`` are among them."""

    def __str__(self) -> str:
        """One screen of text."""
        from biasfree import report

        return report.answer_text(self)

    def __repr__(self) -> str:
        """One line; ``print`` shows the whole."""
        return f"{type(self).__name__}({self.title}: {self.headline})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from biasfree import report

        return report.answer_html(self)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the answer as .html, .json or .txt, whole or not at all.

        Raises:
            ValueError: another ending, or a path that cannot be written.
        """
        from biasfree import report

        report.write_answer(self, path)

    def plot(self) -> "Figure":
        """The first picture.

        Raises:
            ValueError: there is none, since the work ended before there was anything to draw.
        """
        from biasfree import report

        pictures = [picture for section in self.sections for picture in section.pictures]
        if not pictures:
            raise ValueError("this answer has no picture: the work ended before there was anything to draw.")
        return report.draw(pictures[0])
