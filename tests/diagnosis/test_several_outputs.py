"""Classes and several numbers diagnosed: verdict and accuracy against plain descent, and what a stranger sees."""

import json
import sys
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn import datasets as bundled

import biasfree as bf
from biasfree import cli
from biasfree.diagnosis import Diagnosis, diagnose

RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(30, 3))
QUICK = {"width": 10, "seeds": 1, "simulate": False}


class Descended(NamedTuple):
    """What plain descent finds."""

    times: np.ndarray
    losses: np.ndarray
    bends: np.ndarray
    rights: np.ndarray
    weights: list[tuple[np.ndarray, np.ndarray]]

    def verdict(self, lowest: float, inputs: np.ndarray) -> str:
        """By the rules of docs/diagnosis.md, ``lowest`` the least loss of a linear map."""
        first = self.losses[0]
        escaped = np.flatnonzero(self.losses < first - max(0.5 * (first - lowest), 0.03 * first))
        # A network that does not escape is judged where its course ends.
        sits = self.times >= min(1.5 * self.times[escaped[0]] if len(escaped) else np.inf, self.times[-1])
        straight = (self.bends <= 0.1) & (self.losses >= lowest - 0.03 * first)
        if straight[sits].all() or (straight[-1] and (self.losses >= lowest - 0.03 * first).all()):
            return "linear"
        if straight[sits][0]:
            return "linear until"
        later = [each for each, sat in zip(self.weights, sits, strict=True) if sat]
        return "several linear networks" if apart(later, inputs) else "nonlinear"


def apart(course: list[tuple[np.ndarray, np.ndarray]], inputs: np.ndarray) -> bool:
    """Whether large neurons fall into two groups or more that respond alike within and apart between, all along."""
    first, second = course[-1]
    size = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=0)
    large = size > 0.01 * size.sum()

    def cosines(rows: np.ndarray) -> np.ndarray:
        responses = np.maximum(inputs @ rows[large].T, 0)
        responses /= np.maximum(np.linalg.norm(responses, axis=0), 1e-300)
        return responses.T @ responses

    alike = (cosines(first) > 0.95) & (second[:, large].T @ second[:, large] > 0)
    count, member = connected_components(alike)
    between = member[:, None] != member
    return bool(count > 1 and alike[~between].all() and all(cosines(w)[between].max() < 0.05 for w, _ in course))


def descend(data: bf.Dataset, width: int, until: float, rate: float, looks: int = 100) -> Descended:
    """Plain descent of the start of seed 0 on classes, nothing of the package but that start."""
    first, second = (np.array(w) for w in bf.Network.init([data.dim, width, data.outputs], 0.0, 1e-3, 0).weights)
    x, y, samples = data.inputs, data.targets, data.samples
    basis = np.linalg.qr(x)[0]
    steps, found, weights = round(until / rate), [], []
    every = max(1, steps // looks)
    for step in range(steps + 1):
        hidden = np.maximum(x @ first.T, 0)
        outputs = hidden @ second.T
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        shares = odds / odds.sum(axis=1, keepdims=True)
        if step % every == 0:
            left = outputs - basis @ (basis.T @ outputs)
            bend = np.sqrt((left**2).mean() / max((outputs**2).mean(), (y**2).mean()))
            loss = -np.log((shares * y).sum(axis=1)).mean()
            found.append((step * rate, loss, bend, (outputs.argmax(1) == y.argmax(1)).mean()))
            weights.append((first.copy(), second.copy()))
        wrong = (y - shares) / samples
        moved = ((wrong @ second) * (hidden > 0)).T @ x
        second += rate * wrong.T @ hidden
        first += rate * moved
    return Descended(*np.array(found).T, weights)


def agrees(found: Diagnosis, data: bf.Dataset, until: float, rate: float) -> None:
    """The verdict, and on every plateau the accuracy, within two percentage points."""
    seen = descend(data, found.settings["width"], until, rate)
    assert seen.verdict(found.baselines.plain.loss, data.inputs) == found.verdict
    compared = [stage for stage in found.stages if stage.time <= until]
    assert compared
    for stage in compared:
        place = np.argmin(np.abs(seen.times - stage.time))
        assert stage.accuracy == pytest.approx(seen.rights[place], abs=0.02)
        assert stage.loss == pytest.approx(seen.losses[place], abs=0.002 * seen.losses[0])


@pytest.fixture(scope="module")
def iris(tmp_path_factory) -> tuple[Diagnosis, str]:
    """As a stranger has it: a table with a column of words."""
    bunch = bundled.load_iris(as_frame=True)
    path = tmp_path_factory.mktemp("tables") / "iris.csv"
    bunch.data.assign(species=bunch.target_names[bunch.target]).to_csv(path, index=False)
    return diagnose(path, target="species", width=20, seeds=1), str(path)


def test_iris_is_what_plain_descent_finds(iris) -> None:
    found, _ = iris
    agrees(found, bf.datasets.iris(), until=float(found.forecasts[0].until), rate=0.01)
    assert found.contradiction is None


def test_classes_are_said_and_stand_beside_scikit_learn(iris) -> None:
    found, _ = iris
    told = str(found)
    assert "Column 'species' is taken for classes: 3 of them, setosa, versicolor, virginica" in told
    assert found.settings["loss"] == "cross-entropy"
    assert found.dataset.classes == ("setosa", "versicolor", "virginica")
    for fit in (found.baselines.plain, found.baselines.intercept):
        assert fit.loss == pytest.approx(fit.scikit_learn, rel=1e-4)
        outputs = found.dataset.inputs @ fit.weights.T + fit.constant
        assert fit.accuracy == pytest.approx(np.mean(outputs.argmax(1) == found.dataset.labels))
    last = found.stages[-1]
    assert last.confusions.sum(axis=1).tolist() == [50, 50, 50]
    assert last.accuracy == pytest.approx(np.trace(last.confusions) / 150)
    assert "taken for versicolor" in told
    assert f"{last.accuracy:.1%} of the samples right" in told


def test_the_command_line_needs_nothing_but_the_target(iris, monkeypatch, capsys, tmp_path) -> None:
    _, path = iris
    numbers = tmp_path / "found.json"
    monkeypatch.setattr(
        sys, "argv",
        ["biasfree", "diagnose", path, "--target", "species", "--width", "20", "--seeds", "1", "--no-simulate",
         "--holdout", "0.2", "--html", str(tmp_path / "page.html"), "--json", str(numbers)],
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "3 classes" in capsys.readouterr().out
    found = json.loads(numbers.read_text())
    assert found["data"]["classes"] == ["setosa", "versicolor", "virginica"]
    assert 0.8 < found["stages"][-1]["held_out_accuracy"] <= 1


def test_few_whole_numbers_are_classes_unless_a_number_is_asked_for() -> None:
    table = pd.DataFrame(INPUTS, columns=["a", "b", "c"])
    table["kind"] = (np.digitize(INPUTS @ [1.0, 2.0, 0.5], [-1, 1]) * 10).tolist()
    found = diagnose(table, target="kind", **QUICK)
    assert found.dataset.classes == ("0", "10", "20")
    assert any("Column 'kind' is taken for classes: 3 different whole numbers (0, 10, 20)" in n for n in found.notes)
    assert diagnose(table, "square", target="kind", **QUICK).dataset.classes == ()
    named = diagnose(table.assign(kind=table.kind.map(str).radd("k")), target="kind", **QUICK)
    assert named.stages[-1].confusions.tolist() == found.stages[-1].confusions.tolist()


def test_two_classes_by_cross_entropy_are_those_of_the_logistic_loss() -> None:
    # The flows differ by their starts alone, and end at the same linear map.
    names = np.where(INPUTS @ [1.0, 2.0, 0.5] + 0.8 * RNG.normal(size=30) > 0, "yes", "no")
    table = pd.DataFrame(INPUTS, columns=["a", "b", "c"]).assign(kind=names)
    two = diagnose(table, "cross-entropy", target="kind", **QUICK)
    one = diagnose(table, "logistic", target="kind", **QUICK)
    assert two.baselines.plain.loss == pytest.approx(one.baselines.plain.loss, rel=1e-6)
    assert two.baselines.plain.scikit_learn == pytest.approx(one.baselines.plain.scikit_learn, rel=1e-5)
    assert two.floor.two_layer == pytest.approx(one.floor.two_layer, abs=1e-9)
    assert two.gain.first == pytest.approx(one.gain.first)


def test_several_numbers_on_symmetric_data_are_linear_mode_by_mode() -> None:
    half = RNG.normal(size=(30, 3))
    data = bf.Dataset(half, half @ RNG.normal(size=(3, 3)) @ np.diag([3.0, 1.0, 0.5])).symmetrised()
    found = diagnose(data, width=100, seeds=1, simulate=False)
    assert found.verdict == "linear"
    assert found.reasons[0].name == "even data"
    assert found.baselines.plain.loss < 1e-20
    modes = bf.theory.mode_staircase(bf.Network.init([3, 100, 3], 0.0, 1e-3, 0), data)
    np.testing.assert_allclose(found.to_dict()["staircase"]["times"], modes.times)
    # Half of the first mode's gain is made when the theory says.
    course = found.forecasts[0]
    level = 0.5 * (modes.levels[0] + modes.levels[1])
    assert np.interp(-level, -course.losses, course.times) == pytest.approx(modes.times[0], rel=0.1)


def test_several_columns_are_several_outputs_and_least_squares_stands_beside() -> None:
    table = pd.DataFrame(INPUTS, columns=["a", "b", "c"])
    table["u"], table["v"] = INPUTS @ [1.0, -0.5, 0.3], np.abs(INPUTS[:, 0]) + 0.1 * INPUTS[:, 1]
    found = diagnose(table, target=["u", "v"], holdout=0.2, **QUICK)
    assert found.dataset.outputs == 2
    inputs, targets = found.dataset.inputs, found.dataset.targets
    wanted = np.linalg.lstsq(inputs, targets, rcond=None)[0]
    assert found.baselines.plain.loss == pytest.approx(0.5 * np.sum((inputs @ wanted - targets) ** 2) / len(inputs))
    np.testing.assert_allclose(found.baselines.plain.weights, wanted.T, rtol=1e-9)
    assert found.baselines.intercept.loss == pytest.approx(found.baselines.intercept.scikit_learn)
    assert found.verdict == "nonlinear"  # |a| is no linear map
    assert found.gain.network.loss < found.baselines.plain.loss
    assert not found.stages


@pytest.mark.parametrize(
    ("loss", "target", "sentence"),
    [
        ("logistic", ["a", "b"], "two classes, got 2 outputs"),
        ("cross-entropy", ["a", "b"], "needs classes, got 2 columns of numbers"),
        ("cross-entropy", "a", "30 different numbers"),
    ],
)
def test_losses_that_targets_do_not_have_are_refused(loss, target, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        diagnose(pd.DataFrame(INPUTS, columns=["a", "b", "c"]), loss, target=target, **QUICK)


def test_three_layers_of_classes_are_measured(iris) -> None:
    _, path = iris
    found = diagnose(path, target="species", depth=3, width=8, seeds=1, init_scale=0.1)
    assert found.forecasts[0].how == "simulation"
    assert found.stages[-1].accuracy > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("standardise", [False, True])
def test_wine_is_what_plain_descent_finds(standardise) -> None:
    data = bf.datasets.wine()
    found = diagnose(data, width=30, seeds=1, standardise=standardise)
    last = float(found.forecasts[0].until)
    agrees(found, found.dataset, until=last, rate=0.05 if standardise else 5e-5)


@pytest.mark.slow
def test_ten_digits_are_what_plain_descent_finds() -> None:
    data = bf.datasets.digits()
    found = diagnose(data, width=50, seeds=1)
    agrees(found, data, until=float(found.forecasts[0].until), rate=0.2)
