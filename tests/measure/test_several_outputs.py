"""Measures of runs with three outputs: right where they apply, one sentence where they do not."""

import functools

import numpy as np
import pytest

import biasfree as bf
from biasfree import measure, theory


@functools.cache
def data() -> bf.Dataset:
    rng = np.random.default_rng(0)
    half = rng.normal(size=(20, 4))
    inputs = np.concatenate([half, -half])
    return bf.Dataset(inputs, inputs @ rng.normal(size=(4, 3)))


@functools.cache
def runs() -> tuple[bf.Trajectory, bf.Trajectory]:
    start = bf.Network.init([4, 10, 3], slope=0.0, init_scale=1e-3, seed=0)
    twin = theory.linear_twin(start)
    return (
        bf.gradient_flow(start, data(), until=16, save=np.linspace(0, 16, 33)),
        bf.gradient_flow(twin, data(), until=8, save=np.linspace(0, 8, 33)),
    )


def test_balances_are_conserved() -> None:
    run, twin = runs()
    for subject in (run, twin):
        assert measure.neuron_balance(subject, 1).relative_drift < 1e-6
        assert measure.stream_balance(subject, 1).relative_drift < 1e-6
    assert measure.matrix_balance(twin, 1).relative_drift < 1e-6
    assert measure.matrix_balance(run, 1).relative_drift > 1e-3
    pairs = measure.same_pattern_balance(run, 1)
    assert pairs.conserved


def test_linearity_gives_the_map_of_all_outputs() -> None:
    _, twin = runs()
    found = measure.linearity(twin.final, data().inputs)
    assert found.error < 1e-12
    first, second = twin.final.weights
    np.testing.assert_allclose(found.linear_map, np.asarray(second) @ np.asarray(first), atol=1e-12)


def test_structure_is_that_of_the_modes() -> None:
    _, twin = runs()
    found = measure.structure(twin)
    values = np.linalg.svd(twin.weights[1][-1], compute_uv=False)
    np.testing.assert_allclose(found.layers[1].singular_values[-1], values)
    assert found.alignment[-1, 0] == pytest.approx(1, abs=1e-3)


def test_equivalence_errors_are_what_they_say() -> None:
    run, twin = runs()
    found = measure.equivalence_errors(run, twin)
    apart = np.asarray(run.final(data().inputs)) - np.asarray(twin.final(data().inputs))
    assert found.function[-1] == pytest.approx(np.sqrt(np.mean(apart**2) / np.mean(data().targets ** 2)))
    squares = sum(np.sum((np.sqrt(0.5) * w[-1] - v[-1]) ** 2) for w, v in zip(run.weights, twin.weights, strict=True))
    assert found.weights[-1] == pytest.approx(np.sqrt(squares / sum(np.sum(v[-1] ** 2) for v in twin.weights)))


def test_the_early_phase_departs_between_its_window_and_its_escape() -> None:
    run, _ = runs()
    found = measure.early_phase(run)
    assert found.error[0] < 1e-12
    assert 0 < found.window < found.departure < found.escape
    first, second = theory.early_solution(run.times[1], run.template, data())
    np.testing.assert_allclose(run.weights[0][1], first, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(run.weights[1][1], second, rtol=1e-3, atol=1e-6)


def test_neurons_do_not_depend_on_the_outputs() -> None:
    run, _ = runs()
    signals = data().inputs @ run.weights[0][-1].T
    np.testing.assert_allclose(measure.neurons(run).layers[0].active_share[-1], (signals > 0).mean(axis=0))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda run: measure.assumption_4(run.final), "theory.mirrored"),
        (lambda run: measure.fit_eq_39(run), "3 outputs"),
        (lambda run: measure.fit_eq_40(run), "3 outputs"),
        (lambda run: measure.rank_excess(run), "has 3"),
        (lambda run: measure.late_phase(run), "fall for ever"),
    ],
)
def test_what_is_known_for_one_output_is_refused(ask, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        ask(runs()[0])


def test_the_late_phase_of_classes_is_refused() -> None:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(6, 3))
    classes = bf.Dataset(inputs, np.argmax(inputs, axis=1), classes=range(3))
    start = bf.Network.init([3, 4, 3], slope=1.0, init_scale=0.5, seed=0)
    run = bf.gradient_flow(start, classes, loss="cross-entropy", until=5)
    with pytest.raises(ValueError, match="known for one output"):
        measure.late_phase(run)
