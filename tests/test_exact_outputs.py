"""The exact flow of networks with several outputs, against an independent solver, one output, symmetries and limits."""

import numpy as np
import pytest

import biasfree as bf
from biasfree import Dataset, Network, datasets
from biasfree.dynamics._pieces import Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._rerun import Rerun
from biasfree.dynamics.exact import _exact, _groups
from tests.several_reference import several_flow


def problem(seed: int, largest: int = 5):
    """A small random problem: data, start, and how to run it."""
    rng = np.random.default_rng([seed, 15])
    dim, samples, width, outputs = (int(n) for n in rng.integers([2, 2, 1, 1], [5, 8, 6, largest + 1]))
    loss = "square" if seed % 2 else "cross-entropy"
    outputs = outputs if loss == "square" else max(2, outputs)
    inputs, scale = rng.normal(size=(samples, dim)), 10 ** rng.uniform(-3, 0)
    first, second = scale * rng.normal(size=(width, dim)) / np.sqrt(dim), scale * rng.normal(size=(outputs, width))
    targets = rng.normal(size=(samples, outputs))
    if loss == "cross-entropy":
        targets = np.eye(outputs)[rng.integers(0, outputs, samples)]
    slope, decay = float(rng.choice([0, 0, 0.1, 0.5])), float(rng.choice([0, 0, 0.1]))
    clock = "loss" if loss == "cross-entropy" and seed % 4 == 0 and decay == 0 else "time"
    how = {"loss": loss, "weight_decay": decay, "clock": clock, "until": float(rng.choice([5.0, 30.0]))}
    return Dataset(inputs, targets), Network([first, second], slope), how


def agrees_with_reference(seed: int) -> None:
    data, start, how = problem(seed)
    # On the loss clock some of these runs would go to 10⁻³⁰⁰⁰⁰: margins of 10⁵, and millions of steps of the reference.
    far = bf.Stop(log_loss=-20.0) if how["clock"] == "loss" else None
    whole = bf.gradient_flow(start, data, **how, rtol=1e-10, save=1, method="exact", stop=far)
    assert whole.status.complete
    # At a branch the flow is not unique: both are followed until just before the first one.
    branches = whole.events.times[whole.events.kinds == "branch"]
    how |= {"until": min(float(whole.times[-1]), 0.999 * branches.min(initial=np.inf))}
    save = np.linspace(0, how["until"], 6)
    run = bf.gradient_flow(start, data, **how, rtol=1e-10, save=save, method="exact")
    truth = several_flow(
        data.inputs, data.targets.reshape(data.samples, -1), *map(np.asarray, start.weights), slope=start.slope,
        loss=how["loss"], decay=how["weight_decay"], clock=how["clock"], until=how["until"], save=save,
    )  # fmt: skip
    np.testing.assert_allclose(run.weights[0], truth.first, rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.weights[1], truth.second, rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", [1, 4, 7, 9, 13, 15])
def test_an_independent_solver_agrees_to_1e_7(seed):
    agrees_with_reference(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_an_independent_solver_agrees_to_1e_7_on_many(seed):
    agrees_with_reference(seed)


def one_output(seed=3, loss="square"):
    rng = np.random.default_rng(seed)
    inputs, targets = rng.normal(size=(8, 3)), rng.normal(size=8)
    targets = targets if loss == "square" else np.sign(targets)
    return inputs, targets, 0.1 * rng.normal(size=(5, 3)), 0.1 * rng.normal(size=(1, 5))


def test_a_second_output_that_has_nothing_to_learn_changes_nothing():
    inputs, targets, first, second = one_output()
    how = {"until": 30.0, "save": 10, "rtol": 1e-9}
    alone = bf.gradient_flow(Network([first, second], 0.0), Dataset(inputs, targets), **how)
    both = bf.gradient_flow(
        Network([first, np.vstack([second, np.zeros(5)])], 0.0),
        Dataset(inputs, np.column_stack([targets, np.zeros(8)])),
        **how,
    )
    np.testing.assert_allclose(both.weights[0], alone.weights[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(both.weights[1][:, :1], alone.weights[1], rtol=0, atol=1e-12)
    assert not both.weights[1][:, 1].any()
    assert str(both.events) == str(alone.events)


def test_turning_the_outputs_turns_the_flow():
    data, start, how = problem(9)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(data.outputs, data.outputs)))[0]
    turned = Network([start.weights[0], turn @ np.asarray(start.weights[1])], start.slope)
    how |= {"rtol": 1e-9, "save": 5}
    one = bf.gradient_flow(start, data, **how)
    other = bf.gradient_flow(turned, Dataset(data.inputs, data.targets @ turn.T), **how)
    np.testing.assert_allclose(other.weights[0], one.weights[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(other.weights[1], turn @ one.weights[1], rtol=0, atol=1e-7)


@pytest.mark.parametrize("clock", ["time", "loss"])
def test_two_classes_are_the_logistic_loss_of_the_difference(clock):
    # With v = ±u/√2 the difference of the outputs is √2 uσ(wᵀx) = uσ(wᵀ√2x), and w, u obey the logistic flow on √2x.
    inputs, signs, first, second = one_output(loss="logistic")
    how = {"until": 30.0 if clock == "time" else 2.0, "save": 10, "rtol": 1e-10, "clock": clock}
    logistic = bf.gradient_flow(
        Network([first, second], 0.1), Dataset(np.sqrt(2) * inputs, signs), loss="logistic", **how
    )
    classes = np.where(signs > 0, 0, 1)
    pair = np.vstack([second, -second]) / np.sqrt(2)
    cross = bf.gradient_flow(Network([first, pair], 0.1), Dataset(inputs, classes), loss="cross-entropy", **how)
    np.testing.assert_allclose(cross.log_losses, logistic.log_losses, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(cross.weights[0], logistic.weights[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.sqrt(2) * cross.weights[1][:, :1], logistic.weights[1], rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", [2, 3, 5, 8])
def test_the_early_phase_in_closed_form_is_what_steps_find(seed, monkeypatch):
    data, start, how = problem(seed)
    tiny = Network([1e-6 * np.asarray(layer) for layer in start.weights], start.slope)
    how |= {"rtol": 1e-10, "until": 60.0, "save": 12, "clock": "time"}
    runs = []
    for least in (0, 10**9):
        monkeypatch.setattr(_exact, "_SMALL", least)
        runs.append(bf.gradient_flow(tiny, data, method="exact", **how))
    closed, steps = runs
    assert closed.stretches[0].how == "early phase, in closed form" != steps.stretches[0].how
    size = np.abs(np.concatenate([steps.weights[0].reshape(13, -1), steps.weights[1].reshape(13, -1)], axis=1)).max(
        axis=1
    )
    for one, other in zip(closed.weights, steps.weights, strict=True):
        assert (np.abs(one - other).reshape(13, -1).max(axis=1) <= 2e-8 * size).all()
    np.testing.assert_allclose(closed.energies, steps.energies, rtol=0, atol=1e-8 * steps.losses[0])
    assert str(closed.events) == str(steps.events)


@pytest.mark.parametrize("rtol", [1e-6, 1e-7])  # at 1e-7 a group came apart within an exponential step, unseen
def test_starts_of_1e_100_cost_no_more_than_others_and_keep_their_accuracy(rtol):
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(6, 3)), rng.normal(size=(6, 3)))
    start = Network.init([3, 30, 3], 0.0, 1e-100, seed=0)
    run = bf.gradient_flow(start, data, until=3000.0, method="exact", save=20, rtol=rtol)
    assert run.status.complete
    assert run.energy_gap < rtol
    assert run.balance_drift < 1e-6
    assert run.losses[-1] < 0.5 * run.losses[0]


def test_a_linear_network_is_carried_by_few_rows_and_ends_at_least_squares():
    rng = np.random.default_rng(1)
    data = Dataset(rng.normal(size=(40, 4)), rng.normal(size=(40, 3)))
    run = bf.gradient_flow(Network.init([4, 50, 3], 1.0, 1e-4, seed=0), data, until=1e4, stop="converged")
    product = run.weights[1][-1] @ run.weights[0][-1]
    np.testing.assert_allclose(product, np.linalg.lstsq(data.inputs, data.targets, rcond=None)[0].T, atol=1e-5)
    assert run.settings["method"] == "exact"


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_the_late_phase_takes_few_steps(loss):
    rng = np.random.default_rng(5)
    targets = rng.normal(size=(12, 3)) if loss == "square" else rng.integers(0, 3, 12)
    data = Dataset(rng.normal(size=(12, 2)), targets)
    start = Network.init([2, 10, 3], 0.1, 1e-2, seed=1)
    run = bf.gradient_flow(start, data, loss=loss, until=1e4, save=10, rtol=1e-8)
    assert run.status.complete
    assert run.energy_gap < 1e-7
    assert any("exponential" in stretch.how for stretch in run.stretches)


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_the_jacobian_is_the_derivative_of_the_velocity(loss):
    from biasfree.dynamics.exact import _field, _jacobian
    from biasfree.dynamics.exact._data import by_line
    from biasfree.dynamics.exact._sliding import nobody_slides
    from biasfree.lines import lines

    rng = np.random.default_rng(2)
    targets = rng.normal(size=(7, 3)) if loss == "square" else np.eye(3)[rng.integers(0, 3, 7)]
    data = by_line(lines(rng.normal(size=(7, 2))), Dataset(rng.normal(size=(7, 2)), targets), 0.2, loss, "time", 0.3)
    z = rng.normal(size=(4, 5))
    side = np.where(z[:, :2] @ data.transposed < 0, -1.0, 1.0)
    pattern = nobody_slides(side, np.arange(4), 2)

    def velocity(at: np.ndarray) -> np.ndarray:
        return _field.velocity(at, _field.pulls_of(at, data, side), pattern).ravel()

    found = _field.pulls_of(z, data, side)
    bent = _jacobian.bends(z, data, side, float(found.level))
    rows = _jacobian.Rows(z, side, None, found.matrices, 0.3, bent, velocity(z))
    whole, step = _jacobian.dense(rows, data), 1e-5
    for column in range(z.size):
        change = np.zeros(z.size)
        change[column] = step
        change = change.reshape(z.shape)
        slope = (velocity(z + change) - velocity(z - change)) / (2 * step)
        np.testing.assert_allclose(whole[:, column], slope, atol=1e-8)
        np.testing.assert_allclose(_jacobian.times(change.ravel() / step, rows, data), slope, atol=1e-8)


def whole_and_finite(seed: int) -> None:
    data, start, how = problem(seed + 10_000)
    # Beyond ln L = −10⁵ the loss clock comes to margins that float64 does not tell apart, and says so.
    stop = bf.Stop(log_loss=-1e5) if how["clock"] == "loss" else None
    run = bf.gradient_flow(start, data, **how, save=5, method="exact", max_steps=20_000, stop=stop)
    assert run.status.name in ("reached", "loss level"), run.status
    assert all(np.isfinite(layer).all() for layer in run.weights)
    assert run.energy_gap < 1e-6
    assert run.balance_drift < 1e-5 or how["weight_decay"] > 0


@pytest.mark.parametrize("hundred", range(2))
def test_random_problems_end_well(hundred):
    for seed in range(30 * hundred, 30 * (hundred + 1)):
        whole_and_finite(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_random_problems_end_well(hundred):
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        whole_and_finite(seed)


def test_auto_takes_the_exact_flow_and_adaptive_steps_agree_with_it():
    data, start, how = problem(2)
    exact = bf.gradient_flow(start, data, **how, save=4, rtol=1e-8)
    assert exact.settings["method"] == "exact"
    adaptive = bf.gradient_flow(start, data, **how, save=4, rtol=1e-8, method="bosh3")
    np.testing.assert_allclose(adaptive.losses, exact.losses, rtol=1e-6)


def test_symmetric_data_with_three_outputs_agree_with_descent_of_its_own():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 4))
    data = Dataset(inputs, inputs @ rng.normal(size=(4, 3))).symmetrised()
    start = Network.init([4, 20, 3], 0.0, 1e-8, seed=0)
    flow = bf.gradient_flow(start, data, method="exact", until=40.0, save=[14.0, 40.0])
    assert "closed form" in flow.stretches[0].how
    assert flow.energy_gap < 1e-6
    ends = []
    for steps in (13_000, 26_000):
        first, second, rate = flow.weights[0][0].copy(), flow.weights[1][0].copy(), 26 / steps
        for _ in range(steps):
            before = first @ data.inputs.T
            active = before > 0
            error = (data.targets.T - second @ (active * before)) / data.samples
            first, second = (
                first + rate * (active * (second.T @ error)) @ data.inputs,
                second + rate * error @ (active * before).T,
            )
        outputs = second @ np.maximum(first @ data.inputs.T, 0)
        ends.append(0.5 * np.sum((data.targets.T - outputs) ** 2) / data.samples)
    assert flow.losses[-1] == pytest.approx(2 * ends[1] - ends[0], rel=1e-3)


def test_classes_are_kept_and_shown():
    data = datasets.Dataset([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["b", "a", "b"], classes=True)
    run = bf.gradient_flow(Network.init([2, 8, 2], 0.0, 0.1, seed=0), data, loss="cross-entropy", until=1.0)
    assert run.dataset.classes == ("a", "b")
    assert run.dataset.labels.tolist() == [1, 0, 1]


def test_saved_runs_keep_their_classes(tmp_path):
    data = Dataset([[1.0, 0.0], [0.0, 1.0]], ["b", "a"], classes=True)
    run = bf.gradient_flow(Network.init([2, 8, 2], 0.0, 0.1, seed=0), data, loss="cross-entropy", until=1.0)
    run.save(tmp_path / "run.nc")
    assert bf.Trajectory.load(tmp_path / "run.nc").dataset.classes == ("a", "b")


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([0.5, 1.0], "whole numbers"),
        ([-1, 1], "whole numbers"),
        ([[0.5, 0.6], [1.0, 0.0]], "sum to one"),
        ([[1.5, -0.5], [1.0, 0.0]], "sum to one"),
    ],
)
def test_targets_that_are_no_classes_are_refused(targets, words):
    with pytest.raises(ValueError, match=words):
        bf.gradient_flow(
            Network.init([1, 2, 2], 0.0, 0.1, seed=0), Dataset([[1.0], [2.0]], targets), loss="cross-entropy", until=1.0
        )


def parted_by_a_line(angle: float, slowed: float, rtol: float, lines: int) -> tuple[np.ndarray, bf.Trajectory]:
    """Five neurons that are parallel but for an angle cross a line beyond which all are slowed; how far they are from
    the second one at the end, in units of that angle. More lines, which they do not meet, make a step cost more."""
    directions = np.concatenate([[0.0, np.arctan2(0.8, 0.6)], np.linspace(0.2, 1.2, lines)])
    inputs = np.column_stack([np.cos(directions), np.sin(directions)])
    second, targets = np.array([1.0, 0.5]), np.zeros((len(inputs), 2))
    targets[:2] = 2 * len(inputs) * np.outer([-0.6 * slowed, 1.0], second)
    tilts = np.array([-1.0, 0.1, 1.0, 0.5, 0.3])
    first = 1e-2 * np.column_stack([angle * tilts - 0.1, np.ones(5)])
    start = Network([first, 1e-2 * np.outer(second / np.linalg.norm(second), np.ones(5))], 0.0)
    run = bf.gradient_flow(start, Dataset(inputs, targets), until=0.4, rtol=rtol, save=1, method="exact")
    ends = np.column_stack([run.weights[0][-1], run.weights[1][-1].T])
    return (ends - ends[1]) / angle, run


@pytest.mark.parametrize("lines", [0, 600])
@pytest.mark.parametrize("rtol", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("slowed", [0.9, 0.97, 0.99])
def test_neurons_that_cross_a_line_as_one_and_go_on_slowly_keep_their_differences(slowed, rtol, lines):
    # Small differences obey a linear equation: in units of the angle they are those of neurons that nothing merges.
    truth, _ = parted_by_a_line(1e-4, slowed, 1e-12, lines)
    for part in (0.03, 0.1, 0.2, 0.5, 0.9):  # of the angle within which neurons are merged
        found, run = parted_by_a_line(part * np.sqrt(rtol / 10), slowed, rtol, lines)
        np.testing.assert_allclose(found, truth, rtol=0, atol=3e-3 * np.abs(truth).max())
        assert sorted(run.events.neurons[run.events.kinds == "cross"].tolist()) == [0, 1, 2, 3, 4]


def areas_between(first: np.ndarray, others: np.ndarray) -> np.ndarray:
    """x_i y_j − x_j y_i of a row and others: what is known of how far they are from parallel."""
    i, j = np.triu_indices(first.shape[-1], 1)
    return first[..., i] * others[..., j] - first[..., j] * others[..., i]


@pytest.mark.parametrize("rtol", [1e-6, 1e-9])
def test_differences_far_below_rounding_are_those_of_the_linear_equation(rtol, monkeypatch):
    # While the output is nothing, z = (w, v) obeys ż = Az, and the areas z_i z'_j − z_j z'_i of two neurons obey a
    # linear equation too. In units of the neurons they fall to 1e-40, and float64 knows the neurons to 1e-16.
    rng = np.random.default_rng(3)
    inputs, targets = np.abs(rng.normal(size=(4, 3))), rng.normal(size=(4, 3))
    first = 1e-90 * (1 + 0.3 * rng.normal(size=(3, 3)))
    start = Network([first, 1e-90 * rng.normal(size=(3, 3))], 0.3)
    pull = inputs.T @ targets / 4
    matrix = np.block([[np.zeros((3, 3)), pull], [pull.T, np.zeros((3, 3))]])
    assert ((first @ inputs.T) > 0).all()
    until, states = 120 / np.linalg.norm(pull, 2), []
    advance = _exact.Exact.advance
    monkeypatch.setattr(_exact.Exact, "advance", lambda self, budget: (states.append(self), advance(self, budget))[1])
    run = bf.gradient_flow(start, Dataset(inputs, targets), until=until, rtol=rtol, save=1, method="exact")
    neurons = np.column_stack([first, start.weights[1].T])
    assert not len(run.events)
    i, j = np.triu_indices(6, 1)
    pairs = np.array([
        [matrix[a, c] * (b == d) - matrix[a, d] * (b == c) + matrix[b, d] * (a == c) - matrix[b, c] * (a == d)
         for c, d in zip(i, j, strict=True)] for a, b in zip(i, j, strict=True)
    ])  # fmt: skip
    growth = np.linalg.eigh(pairs)
    now = states[0]._state.carried  # of the first run; the other one has turned axes
    group, rows = now.groups.groups[0], now.z
    assert now.active == 1
    assert len(group.members) == 3
    passive, parts = rows[1:], group.parts
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = group.members[one], group.members[other]
        begin = areas_between(neurons[a] / 1e-90, neurons[b] / 1e-90)
        truth = growth[1] @ (np.exp(growth[0] * until - 100.0) * (growth[1].T @ begin))
        found = sum(
            (parts[one, k] * parts[other, n] - parts[one, n] * parts[other, k])
            * areas_between(rows[k] * 1e50, rows[n] * 1e50) for k in range(len(rows)) for n in range(k + 1, len(rows))
        ) * (1e80 * np.exp(-100.0))  # fmt: skip
        np.testing.assert_allclose(found, truth, rtol=0, atol=1e-3 * np.abs(truth).max())
    assert np.linalg.norm(passive, axis=1).max() < 1e-25 * np.linalg.norm(rows[0])


@pytest.mark.parametrize("turned", [0.0, 0.7, 2.0])
def test_rows_that_are_straightened_stand_for_the_same_neurons(turned):
    rng = np.random.default_rng(5)
    leading = np.array([np.cos(turned), np.sin(turned), 0, 0])
    across, last = np.array([[0, 0, 0.6, 0.8], [0, 0, -0.8, 0.6]])
    rows = np.array([leading, 1e-9 * leading + 1e-13 * across, 1e-20 * leading + 3e-31 * last])
    group = _groups.Group(np.arange(4), np.linalg.qr(rng.normal(size=(4, 3)))[0])
    new, straight = _groups.straightened(_groups.Formed(group, rows))
    np.testing.assert_allclose(new.parts @ straight, group.parts @ rows, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(new.parts[:, 0]), 1.0, rtol=1e-15)
    assert abs(straight[1] @ straight[0]) < 1e-15 * np.linalg.norm(straight[1])
    np.testing.assert_allclose(straight[1], 1e-13 * across, rtol=0, atol=1e-24)
    np.testing.assert_allclose(straight[2], 3e-31 * last, rtol=0, atol=1e-35)


def test_rows_along_each_other_leave_nothing_and_are_numbers_all_the_same():
    """Seed 665 of several outputs: a difference of which nothing was left was divided by its square."""
    rng = np.random.default_rng(6)
    rows = np.array([1.0, 1e-56, 4e-56, 3e-93])[:, None] * np.array([-6.88932875, 5.31523252, -4.25218602, -1.0630465])
    group = _groups.Group(np.arange(6), np.linalg.qr(rng.normal(size=(6, 4)))[0])
    new, straight = _groups.straightened(_groups.Formed(group, rows))
    assert np.isfinite(straight).all()
    np.testing.assert_allclose(new.parts @ straight, group.parts @ rows, rtol=1e-14)
    assert np.abs(straight[1:]).max() < 1e-71


@pytest.mark.parametrize("slope", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("small", [1e-8, 1e-40, 1e-100])
def test_each_mode_is_learned_in_its_own_time_however_small_the_start(slope, small):
    """White data, two modes across the axes: each is a logistic curve, ȧ = 2ā(s − a)a with ā = (1 + slope)/2.

    From 1e-40 the second is a part of 1e-36 of every neuron when the first is learned. Neurons in opposite pairs are
    as a linear network on symmetric data, whatever the slope.
    """
    rng = np.random.default_rng(4)
    outer, inner, mixed = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (2, 2, 3))
    strengths, mean, size = np.array([3.0, 0.3]), 0.5 * (1 + slope), small**2 / (0.5 * (1 + slope))
    inputs = np.sqrt(2) * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    first, second = small * mixed[:, :2] @ inner, small * outer.T @ mixed[:, :2].T
    pairs = [np.concatenate([first, -first]) / np.sqrt(2), np.concatenate([second, -second], axis=1) / np.sqrt(2)]
    data = Dataset(inputs, inputs @ (outer.T @ np.diag(strengths) @ inner).T)
    middle = np.log(strengths / (mean * mean * size)) / (2 * mean * strengths)
    save = np.sort(
        np.concatenate([time + np.linspace(-2, 2, 9) / mean / s for time, s in zip(middle, strengths, strict=True)])
    )
    run = bf.gradient_flow(Network(pairs, slope), data, until=save[-1], save=save, rtol=1e-8, method="exact")
    times = np.asarray(run.times)
    learned = strengths / (1 + np.exp(-2 * mean * strengths * (times[:, None] - middle)))
    truth = 0.5 * ((strengths - learned) ** 2).sum(axis=1)
    assert run.status.complete
    np.testing.assert_allclose(run.losses, truth, rtol=0, atol=1e-6)


def two_modes(small):
    """Four white points with modes of strength 3 and 0.3 across the axes, six neurons: the second plateau is long."""
    rng = np.random.default_rng(4)
    outer, inner = (np.linalg.qr(rng.standard_normal((2, 2)))[0] for _ in range(2))
    inputs = np.sqrt(2) * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    data = Dataset(inputs, inputs @ (outer.T @ np.diag([3.0, 0.3]) @ inner).T)
    return Network.init([2, 6, 2], 0.9, small, 3), data, 2 * np.log(1 / small) / 0.3 + 40 / 0.3


def test_a_plateau_that_ends_by_rounding_is_told():
    """From 1e-50 what drives the neurons away from the first mode is 1e-45 of them: no gauge of one run sees it."""
    start, data, until = two_modes(1e-50)
    run = bf.gradient_flow(start, data, until=until, method="exact")
    assert run.energy_gap < 1e-6
    assert run.balance_drift < 1e-6
    assert run.counts.rerun_gap > 0.01
    assert run.status.name == "inaccurate"
    assert "second run" in run.status.message
    assert "second run" in str(run)


def test_the_second_run_tells_what_the_first_is_off_by():
    start, data, until = two_modes(1e-8)
    save = np.linspace(0, until, 9)
    run, tight = (
        bf.gradient_flow(start, data, until=until, save=save, rtol=rtol, method="exact") for rtol in (1e-5, 1e-9)
    )
    off = max(np.abs(a - b).max() for a, b in zip(run.weights, tight.weights, strict=True))
    largest = max(np.abs(layer).max() for layer in run.weights)
    assert run.status.name == "reached"
    assert 0.3 < run.counts.rerun_gap / (off / largest) < 3
    assert bf.gradient_flow(start.with_slope(1.0), data, until=until, method="exact").counts.rerun_gap == 0  # one run


def test_the_second_run_may_be_interrupted():
    """What the first one found is there; by how much it may be off is not known then."""
    start, data, until = two_modes(1e-3)
    times = []

    def stop(progress):
        times.append(progress.time)
        if len(times) > 1 and times[-1] <= times[-2]:
            raise KeyboardInterrupt

    run = bf.gradient_flow(start, data, until=until, method="exact", progress=stop)
    assert len(times) > 1
    assert run.status.name == "reached"
    assert "second run, by which it is judged, came to" in run.status.message
    assert run.times[-1] == until


def test_a_run_that_is_cut_short_says_that_it_was_not_run_again():
    start, data, until = two_modes(1e-3)
    cut, linear = (
        bf.gradient_flow(each, data, until=until, method="exact", max_steps=20) for each in (start, start.with_slope(1))
    )
    assert cut.status.name == linear.status.name == "step limit"
    assert "this one was not" in cut.status.message
    assert "this one was not" not in linear.status.message


def test_a_second_run_of_no_numbers_is_no_agreement():
    """The largest of some numbers and a NaN is a NaN, and that is above no limit."""

    def recorded(factor):
        recorder = Recorder(start.weights, np.array([0.0]), 1.0)
        point = Point(tuple(factor * np.asarray(layer) for layer in start.weights), 0.0)
        recorder.take(Piece(0.0, 0.0, lambda _: point, how=""))
        return recorder

    start, data, _ = two_modes(1e-3)
    axes = Rerun(Plan(start, data, "square", 1.0, 1e-6, 0.0), np.eye(2), np.eye(2))
    assert axes.gap(recorded(1.0), recorded(1.0)) == 0
    assert axes.gap(recorded(1.0), recorded(np.nan)) == np.inf
