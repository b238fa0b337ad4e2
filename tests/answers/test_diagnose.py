"""The title's question for data: verdicts on sets whose answer is known, and what the numbers rest on."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import biasfree as bf
from biasfree.answers import _forecast, diagnose
from biasfree.answers._treatment import treat
from biasfree.cli import app

RNG = np.random.default_rng(0)
RANDOM = bf.Dataset(RNG.normal(size=(20, 3)), RNG.normal(size=20), "random")


@pytest.fixture(scope="module")
def six() -> bf.answers.Diagnosis:
    return diagnose(bf.datasets.six_points(), seeds=1)


def test_verdicts_on_the_papers_own_sets(six) -> None:
    symmetric = diagnose(bf.datasets.symmetric_gaussian(5, 50, "linear_plus_sine", seed=0), simulate=False)
    assert (symmetric.verdict, symmetric.count, symmetric.departure_time) == ("linear", 1, None)
    assert six.verdict == "linear until"
    for data, count in ((bf.datasets.xor(), 4), (bf.datasets.orthogonal_pair(), 2)):
        found = diagnose(data, seeds=1, simulate=False)
        assert (found.verdict, found.count) == ("several linear networks", count)
    assert diagnose(RANDOM, seeds=1, simulate=False).verdict == "nonlinear"


def test_departure_is_foretold_to_ten_percent(six) -> None:
    """Against a simulation of its own: when the loss has left the plateau of the linear solution by 3 %."""
    start = bf.Network.init([2, 100, 1], 0.0, 1e-3, seed=0)
    run = bf.gradient_flow(start, bf.datasets.six_points(), until=800, rtol=1e-5, stop=0.4286)
    assert run.status.name == "loss level"
    assert six.departure_time == pytest.approx(run.times[-1], rel=0.1)
    assert six.checks[0].measured["departure_time"] == pytest.approx(six.departure_time, rel=0.02)


def test_exact_course_of_symmetric_data() -> None:
    data = bf.datasets.symmetric_gaussian(3, 20, "linear_plus_sine", seed=3)
    found = diagnose(data, seeds=1)
    check = found.checks[0]
    assert check.measured["escape_time"] == pytest.approx(check.predicted["escape_time"], rel=0.03)
    assert check.measured["departure_time"] is None
    assert check.measured["final_loss"] == pytest.approx(found.solution.loss, rel=1e-3)
    assert found.floor.two_layer == pytest.approx(found.solution.loss, rel=1e-9)
    assert found.floor.deep == pytest.approx(0.0, abs=1e-20)


def test_merging_parallel_neurons_keeps_the_flow() -> None:
    """Parallel neurons stay parallel: the small network's flow is the large one's."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(3, 3))
    directions[:, 2] = np.linalg.norm(directions[:, :2], axis=1) * [1, -1, 1]
    rows = np.repeat(directions, 4, axis=0) * rng.uniform(0.05, 0.2, size=(12, 1))
    large = bf.Network([rows[:, :2], rows[None, :, 2]], 0.0)
    small = _forecast.merged(large, 1e-6)
    assert small.widths == (2, 8, 1)
    data = bf.datasets.six_points()
    runs = [bf.gradient_flow(network, data, until=5, rtol=1e-9, save=4) for network in (large, small)]
    np.testing.assert_allclose(runs[0].losses, runs[1].losses, atol=1e-8)


def test_nonlinearity_is_that_of_the_function_not_of_its_few_samples() -> None:
    data = bf.datasets.orthogonal_pair()
    mirrored = np.concatenate([data.inputs, -data.inputs])
    linear = (mirrored @ [2.0, -1.0])[None]
    rectified = np.maximum(linear, 0)
    assert _forecast.nonlinearity(linear, data)[0] < 1e-14
    assert _forecast.nonlinearity(rectified, data)[0] == pytest.approx(np.sqrt(0.5), rel=0.2)


def test_with_bias_only_conflicts_cost() -> None:
    """Entropy of repeated inputs with both labels, variance of repeated inputs with other targets."""
    inputs = [[1.0, 0.5], [1.0, 0.5], [-2.0, 1.0], [0.0, 3.0]]
    numbers = diagnose(bf.Dataset(inputs, [1.0, 3.0, 2.0, -1.0]), seeds=1, simulate=False)
    assert numbers.floor.with_bias == pytest.approx(0.5 * 2 / 4)
    labels = diagnose(bf.Dataset(inputs, [1.0, -1.0, 1.0, -1.0]), "logistic", seeds=1, simulate=False)
    assert labels.floor.with_bias == pytest.approx(np.log(2) / 2)


def test_treatments_are_said() -> None:
    rng = np.random.default_rng(2)
    inputs = np.column_stack([rng.normal(size=30), 1000 * rng.normal(size=30), np.ones(30), np.zeros(30)])
    treated = treat(bf.Dataset(inputs, rng.integers(0, 2, 30)), "logistic")
    said = " ".join(treated.notes)
    assert set(treated.dataset.targets) == {-1.0, 1.0}
    for word in ("Labels 0 and 1", "constant", "zero throughout", "factor of"):
        assert word in said
    centred = treat(bf.Dataset(inputs, rng.normal(size=30)), "square", standardise=True)
    assert "standardised" in centred.notes[0]
    np.testing.assert_allclose(centred.dataset.inputs[:, :2].mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("data", "loss", "match"),
    [
        (bf.Dataset([[1.0], [2.0], [3.0]], [0.0, 1.0, 2.0]), "logistic", "two classes, got 3"),
        (bf.Dataset([[1.0], [2.0]], [1.0, 1.0]), "logistic", "all labels are 1"),
        (bf.Dataset([[1.0], [2.0]], [0.0, 0.0]), "square", "nothing to learn"),
        (bf.Dataset([[0.0], [0.0]], [1.0, 2.0]), "square", "all inputs are zero"),
        (bf.Dataset([[1.0], [2.0]], [[1.0, 2.0], [3.0, 4.0]]), "square", "one number per sample"),
    ],
)
def test_bad_data_is_refused_with_a_sentence(data, loss, match) -> None:
    with pytest.raises(ValueError, match=match):
        diagnose(data, loss)


def test_command_line(tmp_path) -> None:
    out = tmp_path / "found.json"
    done = CliRunner().invoke(app, ["diagnose", "xor", "--no-simulate", "--seeds", "1", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "several linear networks" in done.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["verdict"] == "several linear networks"
    assert found["count"] == 4
    assert found["solution"]["kind"] == "least squares"
    assert {"two_layer", "deep", "with_bias"} <= found["best_possible_loss"].keys()
    assert {"correlation", "covariance"} <= found["asymmetry"].keys()
    assert found["check"] == []
