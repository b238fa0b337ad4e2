"""Studies of deep networks: they hold and can be drawn, and a wrong constant in a formula turns each of them around."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from biasfree import measure, theory
from biasfree.report.figures import figures
from biasfree.studies import (
    Study,
    depth_separation,
    eq_41,
    eq_42,
    figure_5,
    le_jegelka,
    structure_persists,
)

FOUND: dict[str, Study] = {
    study.id: study
    for study in (
        *depth_separation.STUDIES,
        eq_41.STUDY,
        eq_42.STUDY,
        structure_persists.STUDY,
        *figure_5.STUDIES,
        *le_jegelka.STUDIES,
    )
}
DRAWN = {
    "depth-separation", "tmlr-figure-1", "structure-persists", "tmlr-figure-5", "matrix-invariance", "rank-one-limit",
}  # fmt: skip


@pytest.mark.parametrize("study", FOUND)
def test_holds_and_can_be_drawn(study: str) -> None:
    result = FOUND[study].run(1, True, "flow")
    assert result.verdict == "holds", {name: result.measured[name] for name in result.expected}
    assert set(figures(study, result.data)) == DRAWN & {study}


@pytest.mark.parametrize("seed", [0, 2, 3])
@pytest.mark.parametrize("study", ["eq-41", "eq-42"])
def test_other_seeds(study: str, seed: int) -> None:
    assert FOUND[study].run(seed, True, "flow").verdict == "holds"


def test_printed_eq_42_fails_in_the_middle_and_only_there() -> None:
    measured = eq_42.STUDY.run(1, True, "flow").measured
    assert measured["printed, middle layers"] > 0.99
    assert measured["printed, first and last layers"] < 1e-12


effective_map = theory.effective_map
eq_42_velocity: Any = theory.eq_42_velocity
reduced: Any = theory.deep_reduced_flow
staircase, two_paths, bound = theory.deep_staircase, theory.two_path_flow, theory.rank_bound
least_squares, neuron_balance, matrix_balance = theory.least_squares, measure.neuron_balance, measure.matrix_balance


def tighter(network: Any, *, excess: float = 1.0, spread: float = 1.0) -> theory.RankBound:
    """Ji & Telgarsky's bound with smaller constants."""
    found = bound(network)
    layers = [replace(each, excess=excess * each.excess, spread=spread * each.spread) for each in found.layers]
    return replace(found, layers=tuple(layers))


def incoming(subject: Any, layer: int) -> measure.Invariant:
    """‖incoming‖² without ‖outgoing‖²."""
    norms = (np.asarray(subject.weights[layer - 1]) ** 2).sum(axis=-1)
    return replace(neuron_balance(subject, layer), value=norms)


def twice_outgoing(subject: Any, layer: int) -> measure.Invariant:
    """W_kW_kᵀ − 2W_{k+1}ᵀW_{k+1}."""
    after = np.asarray(subject.weights[layer])
    found = matrix_balance(subject, layer)
    return replace(found, value=found.value - np.swapaxes(after, -1, -2) @ after)


WRONG: list[tuple[str, Any, str, Callable[..., Any]]] = [
    # The linear network's factor, 1 instead of ½, and its power, uᴸ instead of (u/√2)ᴸ.
    ("eq-41", theory, "effective_map", lambda n: replace(effective_map(n), map=2 * effective_map(n).map)),
    ("eq-41", theory, "deep_reduced_flow", lambda *given: reduced(*given, rectified=False)),
    # As printed, without the mask; and with ½ in place of ¼ before W_L⋯W₁Σ.
    ("eq-42", theory, "eq_42_velocity", lambda *given, printed=False: eq_42_velocity(*given, printed=True)),
    ("eq-42", theory, "eq_42_velocity", lambda n, s, b, printed=False: eq_42_velocity(n, 2 * s, b, printed=printed)),
    ("structure-persists", theory, "deep_reduced_flow", lambda *given: reduced(*given, rectified=False)),
    # 1 instead of √2 and of ½.
    ("structure-persists", theory, "weight_factor", lambda slope: 1.0),
    ("structure-persists", theory, "linear_time", lambda times, slope: times),
    ("eq-39-40", theory, "deep_reduced_flow", lambda *given, rectified: reduced(*given, rectified=not rectified)),
    ("tmlr-figure-5", theory, "two_path_flow", lambda times, *given: two_paths(1.2 * times, *given)),
    (
        "tmlr-figure-5", theory, "deep_staircase",
        lambda *given: replace(staircase(*given), levels=np.array([1, 0.6, 0]) * staircase(*given).levels[0]),
    ),
    ("depth-separation", theory, "least_squares", lambda data: 1.1 * least_squares(data)),
    ("tmlr-figure-1", theory, "least_squares", lambda data: 1.5 * least_squares(data)),
    ("neuron-invariance", measure, "neuron_balance", incoming),
    ("matrix-invariance", measure, "matrix_balance", twice_outgoing),
    ("stable-neurons", measure, "matrix_balance", twice_outgoing),
    # W in place of M = I + W.
    (
        "residual-invariance", measure, "matrix_balance",
        lambda subject, layer, identity=True: matrix_balance(subject, layer, identity=False),
    ),
    ("rank-one-limit", theory, "rank_bound", lambda network: tighter(network, excess=0.5)),
    ("alignment-limit", theory, "rank_bound", lambda network: tighter(network, spread=0.1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("study", "module", "name", "wrong"), WRONG, ids=[f"{study}-{name}" for study, _, name, _ in WRONG]
)
def test_a_wrong_constant_is_noticed(
    study: str, module: Any, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is trained does not depend on any of these, so that the runs above may be used again.
    monkeypatch.setattr(module, name, wrong)
    assert FOUND[study].run(1, True, "flow").verdict == "differs"
