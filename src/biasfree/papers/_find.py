"""From what a reader has at hand, a number or a word, to the entries it means."""

import re

from biasfree.papers._entry import Entry
from biasfree.papers._equations import EQUATIONS
from biasfree.papers._figures import APPENDICES, BEYOND, FIGURES, LE_JEGELKA
from biasfree.papers._statements import STATEMENTS

# In the order in which the index shows them.
GROUPS: dict[str, tuple[Entry, ...]] = {
    "Theorems, lemmas, corollaries": STATEMENTS,
    "Equations": EQUATIONS,
    "Figures": FIGURES,
    "Appendices": APPENDICES,
    "Le & Jegelka": LE_JEGELKA,
    "Beyond the papers": BEYOND,
}
ENTRIES: tuple[Entry, ...] = tuple(entry for group in GROUPS.values() for entry in group)

_WORDS = {
    r"equations?|eqns?\b|eqs?\b": "eq",
    r"theorems?|thms?\b": "theorem",
    r"lemmas?|lemmata": "lemma",
    r"corollar(y|ies)|cors?\b": "corollary",
    r"figures?|figs?\b": "figure",
    r"appendix|app\b": "appendix",
    r"journal": "tmlr",
}
_NUMBERED = r"(tmlr-|workshop-)?(eq|theorem|lemma|corollary|condition|assumption|figure|appendix)-([0-9a-g][0-9.]*)"


def find(wanted: str) -> tuple[Entry, ...]:
    """The entries that a number or some words mean, in the order of the index; empty if there are none.

    Args:
        wanted: a number as it is printed or typed ("Eq. 38", "(24a)", "theorem 5", "journal figure 3", "lemma-12");
            else words, all of which must occur in an entry, e.g. "closed_form" or "early phase".

    >>> [entry.id for entry in find("eq (24a)")]
    ['eq-24']
    >>> [entry.id for entry in find("Figure 3")]
    ['workshop-figure-1', 'workshop-figure-3']
    """
    name = _name(wanted)
    if re.fullmatch(_NUMBERED, name):
        return numbered(wanted) or tuple(entry for entry in ENTRIES if _name(entry.place).startswith(name))
    words = wanted.lower().split()
    return tuple(entry for entry in ENTRIES if words and all(word in _text(entry) for word in words))


def numbered(wanted: str) -> tuple[Entry, ...]:
    """The entries of this number, in both numberings unless one is named; empty if there is none.

    >>> [entry.id for entry in numbered("Eq. 99")]
    []
    """
    name = _name(wanted)
    versions = (name,) if name.startswith(("tmlr-", "workshop-")) else (name, f"tmlr-{name}", f"workshop-{name}")
    return tuple(entry for entry in ENTRIES if set(entry.names) & set(versions))


def aliases() -> dict[str, tuple[str, ...]]:
    """Every name of a numbered result, "eq-38" or "tmlr-theorem-8" → the ids of the studies that show it."""
    return {name: entry.studies for entry in ENTRIES for name in entry.names if entry.studies}


def _name(wanted: str) -> str:
    """A number in the form of an id; what is no number is left as it is."""
    text = re.sub(r"[()\[\]]", " ", wanted.strip().lower())
    if re.fullmatch(r"\s*\d+[a-c]?\s*", text):
        text = f"eq {text}"
    for pattern, word in _WORDS.items():
        text = re.sub(rf"\b(?:{pattern})\b\.?", word, text)
    text = re.sub(r"[\s_-]+", "-", text.strip())
    text = re.sub(r"appendix-([a-g])\.", r"appendix-\1", text)
    return re.sub(r"^(eq-\d+)[a-c]$", r"\1", text)


def _text(entry: Entry) -> str:
    """All that is said of an entry, for a search by words."""
    said = entry.label, entry.journal, entry.place, entry.says, *entry.functions, *entry.studies, entry.note
    return " ".join(said).lower()
