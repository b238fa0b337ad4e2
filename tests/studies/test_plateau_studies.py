"""Studies of plateaus: they hold, and a wrong constant in a formula turns each of them around."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import biasfree as bf
from biasfree import theory
from biasfree.studies import Study, departure, saddles

FOUND: dict[str, Study] = {study.id: study for study in (*departure.STUDIES, *saddles.STUDIES)}


@pytest.mark.parametrize("study", FOUND)
def test_holds(study: str) -> None:
    result = FOUND[study].run(0, True, "flow")
    assert result.verdict == "holds", {name: result.measured[name] for name in result.expected}


right, gathered, threshold = theory.departure, theory.gathering_directions, theory.departure_threshold


def of_the_linear_solution_alone(dataset: bf.Dataset, **options: Any) -> theory.Departure:
    """Rates as if decay did not lower them."""
    found = right(dataset, **options | {"weight_decay": 0.0})
    return dataclasses.replace(found, weight_decay=options.get("weight_decay", 0.0))


def without_the_early_phase(dataset: bf.Dataset, **options: Any) -> theory.Departure:
    """1/ρ alone, as if sleepers started at order one."""
    found = right(dataset, **options)
    return dataclasses.replace(
        found, time=found.escape_time + 1 / max(found.rate.lower, 1e-9), per_e_fold=1 / found.escape_rate
    )


def twice_as_fast(*arguments: Any, **options: Any) -> tuple[theory.Gathering, ...]:
    return tuple(dataclasses.replace(g, rate=2 * g.rate) for g in gathered(*arguments, **options))


WRONG: list[tuple[str, str, Callable[..., Any]]] = [
    ("departure-law", "departure", without_the_early_phase),
    ("departure-decay", "departure", of_the_linear_solution_alone),
    ("departure-decay", "departure_threshold", lambda *args, **options: 0.3 * threshold(*args, **options)),
    ("saddle-to-saddle", "gathering_directions", twice_as_fast),
    ("plateau-skeleton", "gathering_directions", twice_as_fast),
]


@pytest.mark.parametrize(("study", "name", "wrong"), WRONG, ids=[f"{study}-{name}" for study, name, _ in WRONG])
def test_a_wrong_constant_is_noticed(
    study: str, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theory, name, wrong)
    result = FOUND[study].run(0, True, "flow")
    assert result.verdict == "differs", {each: result.measured[each] for each in result.expected}
