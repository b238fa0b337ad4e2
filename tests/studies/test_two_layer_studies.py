"""Studies of expressivity, of the lemmas and of data without symmetry: they hold for any seed, and notice slips."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import biasfree as bf
from biasfree import Dataset, theory
from biasfree.studies import (
    Study,
    best_possible_loss,
    corollary_2,
    corollary_14,
    figures_4_8,
    homogeneity,
    lemmas_8_9,
    lemmas_10_11,
    perturbed_symmetry,
    stacked_ones,
    theorem_1,
)
from biasfree.studies._draws import descents
from biasfree.studies._shared import small_set

FOUND: dict[str, Study] = {
    study.id: study
    for study in (
        homogeneity.STUDY,
        theorem_1.STUDY,
        corollary_2.STUDY,
        best_possible_loss.STUDY,
        lemmas_8_9.STUDY,
        lemmas_10_11.STUDY,
        corollary_14.STUDY,
        stacked_ones.STUDY,
        *figures_4_8.STUDIES,
        *perturbed_symmetry.STUDIES,
    )
}


@pytest.mark.parametrize("study", FOUND)
def test_holds(study: str) -> None:
    result = FOUND[study].run(0, True, "flow")
    assert result.verdict == "holds", {name: result.measured[name] for name in result.expected}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("study", ["theorem-1", "lemma-8-9", "lemma-10-11", "corollary-14", "stacked-ones"])
def test_holds_for_other_seeds(study: str, seed: int) -> None:
    assert FOUND[study].run(seed, True, "flow").verdict == "holds"


closed, first_terms, bound, stairs = (
    theory.closed_form,
    theory.lemma_11,
    theory.lemma_8,
    theory.several_linear_networks,
)
form, least_squares, best = theory.parity_form, theory.least_squares, theory.best_possible_loss


def without_the_factor(network: Any, data: Any) -> Any:
    """Eq. 16 with 1 instead of (α+1)/2."""
    found, factor = first_terms(network, data), (network.slope + 1) / 2
    first, second = found.first_layer, found.second_layer
    return replace(
        found,
        first_layer=replace(first, right=first.right / factor),
        second_layer=replace(second, right=second.right / factor),
    )


def with_paid_bias(data: Dataset) -> Any:
    """The stacked problem's solution for that of the problem with a bias."""
    found = theory.max_margin(data.with_ones())
    return replace(found, weights=found.weights[:-1], bias=float(found.weights[-1]))


def late(network: Any, data: Any, loss: str) -> Any:
    """Every step of the staircase 2 % later than predicted."""
    found = stairs(network, data, loss)
    return replace(found, times=1.02 * found.times)


def half_as_large(network: Any, data: Any) -> Any:
    found = bound(network, data)
    return replace(found, right=found.right / 2)


def raised(*given: Any, **named: Any) -> Any:
    found = best(*given, **named)
    return replace(found, loss=1.01 * found.loss + 1e-3)


WRONG: list[tuple[str, str, Callable[..., Any]]] = [
    ("theorem-1", "parity_form", lambda network: form(network.with_slope(0.9 * network.slope))),
    ("homogeneity", "homogeneity_error", lambda f, x, factors: float(np.abs(np.asarray(f(2.0 * x) - f(x))).max())),
    ("corollary-2", "least_squares", lambda data: 1.01 * least_squares(data)),
    ("best-possible-loss", "best_possible_loss", raised),
    ("lemma-8-9", "lemma_8", half_as_large),
    ("lemma-10-11", "lemma_11", without_the_factor),
    # Eq. 38's u₀ as printed: the network's own norm.
    (
        "corollary-14",
        "closed_form",
        lambda times, beta, r, norm, slope: closed(times, beta, r, norm * theory.weight_factor(slope), slope),
    ),
    ("stacked-ones", "max_margin_with_bias", with_paid_bias),
    ("orthogonal-inputs", "several_linear_networks", late),
    ("symmetrised-augmentation", "best_possible_loss", raised),
    ("perturbed-symmetry", "least_squares", lambda data: 1.1 * least_squares(data)),
]


@pytest.mark.parametrize(("study", "name", "wrong"), WRONG, ids=[f"{study}-{name}" for study, name, _ in WRONG])
def test_a_wrong_constant_is_noticed(
    study: str, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theory, name, wrong)
    assert FOUND[study].run(0, True, "flow").verdict == "differs"


def test_the_share_that_stays_is_told_and_its_seeds_are_stated() -> None:
    result = FOUND["perturbed-symmetry"].run(0, True, "flow")
    draws = perturbed_symmetry.followed(0, True)
    staying = sum(run.losses[-1] > perturbed_symmetry.LEFT for run in draws)
    assert result.measured["share of draws that leave"] == pytest.approx(1 - staying / len(draws))
    assert f"{staying} stay" in result.why
    assert f"seeds 0 to {len(draws) - 1}" in result.settings["draws"]


# Of few samples the gradient is written out.
@pytest.mark.parametrize(
    "sets", [[small_set(0), small_set(1)], [bf.datasets.six_points(), bf.datasets.six_points(0.2)]]
)
def test_descents_at_once_are_the_library_s_one_by_one(sets: list[bf.Dataset]) -> None:
    starts = [bf.Network.init([sets[0].dim, 20, 1], 0.3, 0.5, seed) for seed in (0, 1)]
    for run, start, data in zip(descents(starts, sets, learning_rate=0.1, steps=80, save=8), starts, sets, strict=True):
        alone = bf.gradient_descent(start, data, learning_rate=0.1, steps=80, save=8)
        assert run.times == pytest.approx(alone.times)
        assert run.losses == pytest.approx(alone.losses, rel=1e-12)
        assert all(np.allclose(a, b, rtol=1e-12, atol=0) for a, b in zip(run.weights, alone.weights, strict=True))
