"""All studies, in the order of the papers."""

import functools
import importlib
from collections.abc import Sequence

from biasfree import checks, papers
from biasfree.studies._study import Study

# Modules in the order of the report.
_MODULES: tuple[str, ...] = (
    "homogeneity",
    "theorem_1",
    "corollary_2",
    "best_possible_loss",
    "depth_separation",
    "lemmas_8_9",
    "lemmas_10_11",
    "early_phase",
    "figure_3",
    "theorem_5_logistic",
    "eq_34",
    "corollary_14",
    "corollary_6",
    "large_initialisation",
    "weight_decay",
    "large_learning_rate",
    "several_outputs_linear_twin",
    "modes_one_by_one",
    "cross_entropy_twin",
    "figures_4_8",
    "perturbed_symmetry",
    "departure",
    "saddles",
    "stacked_ones",
    "eq_41",
    "eq_42",
    "structure_persists",
    "figure_5",
    "le_jegelka",
)

# Those that take longest, the longest first.
_LONGEST: tuple[str, ...] = (
    "departure",
    "saddles",
    "depth_separation",
    "figure_5",
    "figures_4_8",
    "perturbed_symmetry",
    "corollary_6",
    "figure_3",
    "modes_one_by_one",
    "low_rank_limit",
    "cross_entropy_twin",
    "best_possible_loss",
    "large_initialisation",
    "weight_decay",
    "structure_persists",
    "large_learning_rate",
)


@functools.cache
def studies() -> tuple[Study, ...]:
    """Every study, in the order of the papers."""
    registered: list[Study] = []
    for name in _MODULES:
        module = importlib.import_module(f"biasfree.studies.{name}")
        registered += getattr(module, "STUDIES", None) or [module.STUDY]
    return tuple(registered)


def names() -> dict[str, str]:
    """Every id and alias → the id of its study."""
    return {name: study.id for study in studies() for name in (study.id, *study.aliases)}


def find(wanted: Sequence[str]) -> tuple[Study, ...]:
    """The studies of these names, in the order of the papers; all of them if none is named.

    Args:
        wanted: ids and aliases of studies, or numbers of the papers: "eq-38", "lemma-12", "Theorem 5".

    Raises:
        ValueError: a name that is not known, or a number that no study shows.
    """
    ids = {study for name in wanted for study in _study_ids(name)}
    return tuple(study for study in studies() if not wanted or study.id in ids)


def _study_ids(name: str) -> tuple[str, ...]:
    """The ids of the studies that a name means."""
    known = names()
    if name in known:
        return (known[name],)
    if name in (others := papers.aliases()):
        return others[name]
    entries = papers.numbered(name)
    shown = tuple(study for entry in entries for study in entry.studies)
    if entries and not shown:
        raise ValueError(f"no study shows {entries[0].label}: {entries[0].note}")
    return shown or (known[checks.one_of(name, known, "study")],)


def rank_by_length(module: str) -> int:
    """Where a module of studies stands among all when the long ones come first."""
    name = module.rpartition(".")[2]
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)
