"""How a run ended: the names and the sentences, once."""

from typing import NamedTuple


class Status(NamedTuple):
    """How a run ended: a short name, and a sentence."""

    name: str
    message: str

    @property
    def complete(self) -> bool:
        """Whether the run did what was asked, as against being cut short or not to be trusted."""
        return self.name in ("reached", "loss level", "converged")
