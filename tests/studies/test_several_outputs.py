"""Studies of several outputs: they hold, and a wrong constant in a formula turns each of them around."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from biasfree import theory
from biasfree.report.figures import figures
from biasfree.studies import Study, cross_entropy_twin, modes_one_by_one, several_outputs_linear_twin

FOUND: dict[str, Study] = {
    study.id: study for study in (several_outputs_linear_twin.STUDY, modes_one_by_one.STUDY, cross_entropy_twin.STUDY)
}
# Runs are short, but there are two for every slope.
SEED = 1


@pytest.mark.parametrize("study", FOUND)
def test_holds_and_has_a_picture(study: str) -> None:
    result = FOUND[study].run(SEED, True, "flow")
    assert result.verdict == "holds", {name: result.measured[name] for name in result.expected}
    assert study in figures(study, result.data)


stairs, response, mirror = theory.mode_staircase, theory.finite_width_response, theory.mirrored


def late(network: Any, data: Any) -> Any:
    """Every mode 6 % later than predicted."""
    found = stairs(network, data)
    return replace(found, times=1.06 * found.times)


def at_full_pace(network: Any, data: Any) -> Any:
    """t̃ = t instead of (1+α)t/2."""
    found = stairs(network, data)
    return replace(found, slope=1.0)


def larger(network: Any, data: Any, time: float) -> Any:
    found = response(network, data, time)
    return found._replace(weights=1.3 * found.weights, function=2.5 * found.function)


def lopsided(network: Any) -> Any:
    first, second = mirror(network).weights
    factors = np.repeat([1.0, 1.5], network.widths[1])
    return mirror(network).with_weights([factors[:, None] * np.asarray(first), np.asarray(second)])


WRONG: list[tuple[str, str, Callable[..., Any]]] = [
    ("several-outputs-linear-twin", "linear_time", lambda times, slope: np.asarray(times)),
    ("several-outputs-linear-twin", "weight_factor", lambda slope: 1.0),
    # One of the two images larger than the other.
    ("several-outputs-linear-twin", "mirrored", lopsided),
    ("cross-entropy-twin", "linear_time", lambda times, slope: np.asarray(times)),
    ("cross-entropy-twin", "weight_factor", lambda slope: 1.0),
    ("modes-one-by-one", "mode_staircase", late),
    ("modes-one-by-one", "mode_staircase", at_full_pace),
    ("modes-one-by-one", "finite_width_response", larger),
]


@pytest.mark.parametrize(("study", "name", "wrong"), WRONG, ids=[f"{s}-{n}-{i}" for i, (s, n, _) in enumerate(WRONG)])
def test_a_wrong_constant_is_noticed(
    study: str, name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The network of modes-one-by-one is trained once: what it does depends on none of these.
    monkeypatch.setattr(theory, name, wrong)
    assert FOUND[study].run(SEED, True, "flow").verdict == "differs"
