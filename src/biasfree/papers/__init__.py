"""The index of results: every numbered statement, equation and figure of the papers, and where it lives here.

>>> [entry.functions for entry in find("Eq. 38")]
[('theory.closed_form',)]
>>> [entry.label for entry in find("Theorem 8")]  # the journal's number of workshop Theorem 5
['Theorem 5']
"""

from biasfree.papers._entry import Entry
from biasfree.papers._find import ENTRIES, GROUPS, aliases, find, numbered

__all__ = ["ENTRIES", "GROUPS", "Entry", "aliases", "find", "numbered"]
