"""Studies of two layers under symmetry: they hold, and a wrong constant in a formula turns each of them around."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from biasfree import theory
from biasfree.studies import (
    Study,
    corollary_6,
    early_phase,
    eq_34,
    figure_3,
    large_initialisation,
    large_learning_rate,
    theorem_5_logistic,
    weight_decay,
)

FOUND: dict[str, Study] = {
    study.id: study
    for study in (
        *figure_3.STUDIES,
        *corollary_6.STUDIES,
        *early_phase.STUDIES,
        *large_initialisation.STUDIES,
        eq_34.STUDY,
        theorem_5_logistic.STUDY,
        weight_decay.STUDY,
        large_learning_rate.STUDY,
    )
}


@pytest.fixture
def no_memory() -> Iterator[None]:
    """Runs made under a wrong formula must not be kept, nor right ones be used for it."""
    caches = (figure_3.runs, early_phase.runs, large_initialisation.cases)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("study", FOUND)
def test_holds(study: str) -> None:
    result = FOUND[study].run(1, True, "flow")
    assert result.verdict == "holds", {name: result.measured[name] for name in result.expected}


reduced, bound, width_error, lag = (
    theory.reduced_flow,
    theory.lemma_12,
    theory.finite_width_error,
    theory.descent_lag,
)
mode, twin, least_squares, rest = theory.theorem_13, theory.linear_twin, theory.least_squares, theory.regularised_limit
logistic = theory.reduced_flow_logistic

WRONG: list[tuple[str, str, Callable[..., Any]]] = [
    # Time factor 1 instead of (α+1)/2.
    ("theorem-5-square", "linear_time", lambda times, slope: times),
    ("theorem-5-logistic", "linear_time", lambda times, slope: times),
    # Weight factor 1 instead of √(2/(α+1)).
    ("theorem-5-square", "weight_factor", lambda slope: 1.0),
    ("theorem-5-logistic", "weight_factor", lambda slope: 1.0),
    ("eq-34", "reduced_flow", lambda *given: reduced(*given[:-1], 1.0)),
    ("tmlr-figure-3", "finite_width_error", lambda *given: 1.2 * width_error(*given)),
    ("tmlr-figure-3", "reduced_flow", lambda *given: reduced(*given[:-1], 1.0)),
    ("assumption-4", "early_solution", lambda *given: mode(*given)),
    ("corollary-6-least-squares", "least_squares", lambda data: 1.01 * least_squares(data)),
    ("global-minimum", "least_squares", lambda data: 1.1 * least_squares(data)),
    ("weight-decay", "linear_weight_decay", lambda decay, slope: decay),
    ("weight-decay", "regularised_limit", lambda data, decay, slope, loss: rest(data, decay, 1.0, loss)),
    ("large-initialisation", "linear_twin", lambda network: twin(network).rescaled(2.0)),
    ("large-learning-rate", "linear_learning_rate", lambda rate, slope: rate),
    ("large-learning-rate", "descent_lag", lambda *given: 2 * lag(*given)),
    ("corollary-6-max-margin", "reduced_flow_logistic", lambda *given: logistic(*given[:-1], 1.0)),
    ("lemma-12", "lemma_12", lambda *given: replace(bound(*given), rate=0.01 * bound(*given).rate)),
    ("theorem-13", "theorem_13", lambda times, network, data: mode(2 * times, network, data)),
]


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize(("study", "name", "wrong"), WRONG, ids=[f"{study}-{name}" for study, name, _ in WRONG])
def test_a_wrong_constant_is_noticed(
    study: str, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theory, name, wrong)
    assert FOUND[study].run(1, True, "flow").verdict == "differs"
