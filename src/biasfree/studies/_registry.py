"""All studies, in the order of the papers."""

import functools
import importlib
from collections.abc import Sequence

from biasfree import checks
from biasfree.studies._study import Study

# Modules in the order of the report.
_MODULES: tuple[str, ...] = (
    "homogeneity",
    "theorem_1",
    "corollary_2",
    "lemmas_8_9",
    "lemmas_10_11",
    "corollary_14",
)


@functools.cache
def studies() -> tuple[Study, ...]:
    """Every study, in the order of the papers."""
    found: list[Study] = []
    for name in _MODULES:
        module = importlib.import_module(f"biasfree.studies.{name}")
        found += getattr(module, "STUDIES", None) or [module.STUDY]
    return tuple(found)


def names() -> dict[str, str]:
    """Every id and alias → the id of its study."""
    return {name: study.id for study in studies() for name in (study.id, *study.aliases)}


def find(wanted: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these ids or aliases, in the order of the papers; all of them if none is named.

    Raises:
        ValueError: an id that is not known.
    """
    known = names()
    ids = {known[checks.one_of(name, known, "study")] for name in wanted}
    return tuple(study for study in studies() if not wanted or study.id in ids)
