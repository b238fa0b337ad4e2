"""Parts of the exact flow that move it, each against the plain computation it replaces; ``test_exact_events`` has those
that find and decide what happens."""

import math
from ctypes import byref
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import DOP853, RK45, solve_ivp
from scipy.linalg import expm

import biasfree as bf
from biasfree import Network, datasets
from biasfree.dynamics import _field
from biasfree.dynamics.exact import _carried, _chain, _dop853, _groups, _merging, _modes, _rest
from biasfree.dynamics.exact._arrays import START, Desk, Form, Limits, Pattern, Sought, Trial
from biasfree.dynamics.exact._data import Data, by_line, by_moments
from biasfree.dynamics.exact._early import early_phase, spectral_norm
from biasfree.dynamics.exact._field import after_crossing, form_of, no_form, pulls_of, velocity
from biasfree.dynamics.exact._jacobian import dense, times
from biasfree.dynamics.exact._kernels import attempt, engine
from biasfree.dynamics.exact._late import LateStep
from biasfree.dynamics.exact._light import propagated
from biasfree.dynamics.exact._march import Going, Marched, march
from biasfree.dynamics.exact._merging import of_members
from biasfree.dynamics.exact._methods import (
    DEGREE,
    FROM_NODES,
    NODES,
    ORDER_5,
    ORDER_8,
    TABLES,
    Method,
    basis,
    on_curve,
)
from biasfree.dynamics.exact._parallel import alike, heaviest
from biasfree.dynamics.exact._phis import phis
from biasfree.dynamics.exact._sliding import flipped, nobody_slides, written
from biasfree.lines import lines
from biasfree.native import address

# Loss, clock, outputs.
KINDS = [
    ("square", "time", 1), ("square", "time", 3), ("logistic", "time", 1), ("exponential", "time", 1),
    ("logistic", "loss", 1), ("exponential", "loss", 1),
]  # fmt: skip
ANY_ERROR = Limits(rtol=1e300, atol=0.0, energy=1.0)


class Problem(NamedTuple):
    """Rows of a state, among them a passive one and, with ``slides``, a sliding one."""

    data: Data
    pattern: Pattern
    z: np.ndarray


def dataset_of(loss: str, outputs: int, dim: int, rng: np.random.Generator, count: int = 60) -> bf.Dataset:
    inputs = rng.normal(size=(count, dim))
    inputs = np.concatenate([inputs, -2 * inputs[:20], np.zeros((1, dim))])  # lines with samples on both sides
    targets = rng.normal(size=(len(inputs), outputs))
    if loss != "square":
        targets = np.sign(targets)
    return bf.Dataset(inputs, targets[:, 0] if outputs == 1 else targets)


def problem(
    loss: str = "square", clock: str = "time", outputs: int = 1, *, slope: float = 0.3, count: int = 60,
    slides: bool = True, scale: float = 1.0,
) -> Problem:  # fmt: skip
    rng = np.random.default_rng(0)
    dataset = dataset_of(loss, outputs, 3, rng, count)
    data = by_line(lines(dataset.inputs), dataset, slope, loss, clock, 0.01)
    z = scale * rng.normal(size=(4, 3 + outputs))
    side = np.where(z[:3, :3] @ data.transposed < 0, -1.0, 1.0)
    pattern = nobody_slides(side, np.array([0, 1, 2, 1]), 3)  # three neurons and a difference within the second
    if slides:
        held = np.zeros(len(data.directions), dtype=bool)
        held[5] = True
        pattern = written(pattern, data, 2, side[2], held)
    return Problem(data, pattern, z)


class Stepped(NamedTuple):
    """One step and its stages."""

    stages: np.ndarray
    powers: np.ndarray
    curve: np.ndarray
    energies: np.ndarray
    marched: Marched


def stepped(
    problem: Problem, step: float, method: Method, form: Form | None = None, limits: Limits = ANY_ERROR
) -> Stepped:
    """A march of one step."""
    data, pattern, z = problem
    trial, sought = Trial.room(1, *z.shape), Sought.room(200, len(pattern.slides))
    desk = Desk.room(*z.shape, len(pattern.side), *data.transposed.shape)
    form, apart = no_form(data.outputs) if form is None else form, np.ones((2, 1))
    going = Going(step, 0.0, np.inf, step, 0.0, 0, 1, 0.0, -np.inf)
    # What the first stage holds is replaced by the velocity at the end, for the next step.
    desk.rows[START] = z
    attempt(0, 0, 0.0, 0.0, 0.0, data, pattern, form, limits, method, apart[1], trial, desk)
    first, power = trial.stages[0].copy(), trial.powers[0]
    marched = march(z, going, data, pattern, form, limits, method, apart, None, trial, desk, sought)
    trial.stages[0], trial.powers[0] = first, power
    return Stepped(trial.stages, trial.powers, trial.curves[0], trial.energies[0], marched)


class TestVelocity:
    @pytest.mark.parametrize("method", [ORDER_5, ORDER_8], ids=["order 5", "order 8"])
    @pytest.mark.parametrize(("loss", "clock", "outputs"), KINDS)
    def test_numpy_agrees_with_every_compiled_stage(self, loss: str, clock: str, outputs: int, method: Method) -> None:
        given = problem(loss, clock, outputs)
        trial = stepped(given, 0.001, method)
        for s in range(method.stages):
            place = given.z + 0.001 * np.tensordot(TABLES.a[method.number, s, :s], trial.stages[:s], 1)
            plain = velocity(place, pulls_of(place, given.data, given.pattern.side), given.pattern)
            np.testing.assert_allclose(trial.stages[s], plain, rtol=0, atol=1e-13 * np.abs(plain).max())
            assert trial.powers[s] == pytest.approx(np.sum(plain[:3] ** 2), rel=1e-12)

    @pytest.mark.parametrize("scale", [1.0, 1e-200])
    @pytest.mark.parametrize(("loss", "clock", "outputs"), KINDS)
    def test_it_is_the_gradient(self, loss: str, clock: str, outputs: int, scale: float) -> None:
        """Beside backpropagation over all samples, one by one."""
        rng = np.random.default_rng(3)
        dataset = dataset_of(loss, outputs, 3, rng)
        network = Network([scale * rng.normal(size=(5, 3)), scale * rng.normal(size=(outputs, 5))], 0.3)
        problem, kind = _field.problem(network, dataset, loss, 0.01), _field.Kind(loss, network.architecture, clock)
        weights = tuple(jnp.asarray(layer) for layer in network.weights)
        first, second = (np.asarray(layer) for layer in _field.velocity(weights, problem, kind))
        z = np.column_stack([np.asarray(network.weights[0]), np.asarray(network.weights[1]).T])
        data = by_line(lines(dataset.inputs), dataset, 0.3, loss, clock, 0.01)
        side = np.where(z[:, :3] @ data.transposed < 0, -1.0, 1.0)
        found = pulls_of(z, data, side)
        plain = velocity(z, found, nobody_slides(side, np.arange(5), 3))
        expected = np.column_stack([first, second.T])
        np.testing.assert_allclose(plain, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
        assert float(found.level) == pytest.approx(float(_field.log_loss(weights, problem, kind)), abs=1e-13)

    @pytest.mark.parametrize(("loss", "clock", "outputs"), KINDS)
    def test_many_states_at_once(self, loss: str, clock: str, outputs: int) -> None:
        data, pattern, z = problem(loss, clock, outputs)
        states = np.stack([z, -0.3 * z, z[::-1]])
        found = pulls_of(states, data, pattern.side)
        for n, state in enumerate(states):
            np.testing.assert_allclose(
                velocity(states, found, pattern)[n],
                velocity(state, pulls_of(state, data, pattern.side), pattern),
                atol=1e-13,
            )

    @pytest.mark.parametrize("outputs", [1, 3])
    def test_moments_stand_for_all_samples_of_a_linear_network(self, outputs: int) -> None:
        rng = np.random.default_rng(4)
        dataset = dataset_of("square", outputs, 3, rng)
        z = rng.normal(size=(4, 3 + outputs))
        few, many = by_moments(dataset, 0.01, 1.0), by_line(lines(dataset.inputs), dataset, 1.0, "square", "time", 0.01)
        found = []
        for data in (few, many):
            side = np.ones((4, len(data.directions)))
            pulls = pulls_of(z, data, side)
            found.append((float(pulls.level), velocity(z, pulls, nobody_slides(side, np.arange(4), 3))))
        assert found[0][0] == pytest.approx(found[1][0], abs=1e-12)
        np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-12)

    def test_a_sliding_row_stays_on_its_line(self) -> None:
        data, pattern, z = problem(outputs=3)
        moving = velocity(z, pulls_of(z, data, pattern.side), pattern)
        assert abs(moving[2, :3] @ data.directions[5] + data.decay * z[2, :3] @ data.directions[5]) < 1e-13


class TestForms:
    @pytest.mark.parametrize("method", [ORDER_5, ORDER_8], ids=["order 5", "order 8"])
    @pytest.mark.parametrize("outputs", [1, 3])
    def test_velocity_is_that_of_the_lines(self, outputs: int, method: Method) -> None:
        given = problem(outputs=outputs)
        form = form_of(given.data, given.pattern.side)
        assert form.constant.shape == (9, outputs)
        plain, by_form = (stepped(given, 0.02, method, each) for each in (None, form))
        count = method.stages
        np.testing.assert_allclose(by_form.stages[:count], plain.stages[:count], rtol=1e-11, atol=1e-13)

    @pytest.mark.parametrize("outputs", [1, 3])
    def test_crossings_change_it_as_building_it_afresh(self, outputs: int) -> None:
        data, pattern, _ = problem(outputs=outputs)
        form = form_of(data, pattern.side)
        for pair in ((0, 2), (1, 2), (1, 7), (0, 5)):
            pattern = flipped(pattern, [pair])
            after_crossing(form, data, pattern, *pair)
        fresh = form_of(data, pattern.side)
        np.testing.assert_allclose(form.matrix, fresh.matrix, atol=1e-13)
        np.testing.assert_allclose(form.constant, fresh.constant, atol=1e-13)

    def test_many_neurons_on_few_lines_have_none(self) -> None:
        data = problem().data
        assert form_of(data, np.ones((20, len(data.directions)))).constant.size == 0

    def test_other_losses_have_none(self) -> None:
        data, pattern, _ = problem("logistic")
        assert form_of(data, pattern.side).constant.size == 0


class TestBernstein:
    @given(st.lists(st.floats(-10, 10), min_size=DEGREE + 1, max_size=DEGREE + 1), st.floats(0, 1))
    def test_curves_through_eight_points(self, monomials: list[float], x: float) -> None:
        polynomial = np.polynomial.Polynomial(monomials)
        coefficients = FROM_NODES @ polynomial(NODES)
        assert basis(x) @ coefficients == pytest.approx(polynomial(x), abs=1e-11)
        assert coefficients[0] == pytest.approx(polynomial(0), abs=1e-11)
        assert coefficients[-1] == pytest.approx(polynomial(1), abs=1e-11)

    @given(st.lists(st.floats(-1, 1), min_size=DEGREE + 1, max_size=DEGREE + 1))
    def test_a_polynomial_lies_within_its_coefficients(self, coefficients: list[float]) -> None:
        values = basis(np.linspace(0, 1, 101)) @ coefficients
        assert min(coefficients) - 1e-13 <= values.min()
        assert values.max() <= max(coefficients) + 1e-13


class TestSteps:
    """On one pattern, where the flow is smooth, against SciPy at its tightest."""

    @pytest.fixture(scope="class")
    @classmethod
    def smooth(cls):
        given = problem(count=12, outputs=2, scale=0.7)
        data, pattern, z = given

        def moving(_: float, flat: np.ndarray) -> np.ndarray:
            state = flat[:-1].reshape(z.shape)
            found = velocity(state, pulls_of(state, data, pattern.side), pattern)
            return np.append(found.ravel(), np.sum(found[: len(pattern.side)] ** 2))

        start = np.append(z.ravel(), 0.0)
        return given, solve_ivp(moving, (0, 2), start, method="DOP853", rtol=3e-14, atol=1e-15, dense_output=True).sol

    def after(self, given: Problem, step: float, method: Method, count: int) -> np.ndarray:
        z = given.z
        for _ in range(count):
            trial = stepped(given._replace(z=z), step, method)
            assert trial.marched.steps == 1
            z = trial.curve[-1].copy()
        return z

    @pytest.mark.parametrize(
        ("method", "order", "counts", "end"), [(ORDER_5, 5, (16, 32), 0.25), (ORDER_8, 8, (3, 6), 2.0)]
    )
    def test_orders(self, smooth, method: Method, order: int, counts: tuple[int, int], end: float) -> None:
        given, truth = smooth
        rows = slice(0, given.z.size)
        errors = [np.abs(self.after(given, end / n, method, n).ravel() - truth(end)[rows]).max() for n in counts]
        assert errors[1] > 1e-13
        assert order - 0.4 < math.log2(errors[0] / errors[1]) < order + 1.6

    @pytest.mark.parametrize(("method", "order", "step"), [(ORDER_5, 4, 0.05), (ORDER_8, 8, 0.05)])
    def test_orders_of_curves(self, smooth, method: Method, order: int, step: float) -> None:
        """Within one step a curve of order p errs by h^(p+1); that of the energy too."""
        given, truth = smooth
        x, errors = np.linspace(0, 1, 21), []
        for h in (step, step / 2):
            trial = stepped(given, h, method)
            rows = np.einsum("xn,n...->x...", basis(x), trial.curve).reshape(len(x), -1)
            found = np.column_stack([rows, basis(x) @ trial.energies])
            wrong = np.abs(found - truth(h * x).T).max(axis=0)
            errors.append((wrong[:-1].max(), wrong[-1]))
        for rough, fine in zip(*errors, strict=True):
            assert fine > 1e-13
            assert order - 0.6 < math.log2(rough / fine) < order + 1.6

    @pytest.mark.parametrize("method", [ORDER_5, ORDER_8], ids=["order 5", "order 8"])
    def test_a_curve_has_the_velocities_of_both_ends(self, smooth, method: Method) -> None:
        given, _ = smooth
        trial = stepped(given, 0.1, method)
        np.testing.assert_array_equal(trial.curve[0], given.z)
        begin, end = (7 * (trial.curve[i + 1] - trial.curve[i]) / 0.1 for i in (0, 6))
        np.testing.assert_allclose(begin, trial.stages[0], atol=1e-11)
        np.testing.assert_allclose(end, trial.stages[method.core - 1], atol=1e-11)

    @pytest.mark.parametrize("method", [ORDER_5, ORDER_8], ids=["order 5", "order 8"])
    def test_steps_scale_with_the_tolerance_and_nan_is_refused(self, smooth, method: Method) -> None:
        (data, pattern, z), _ = smooth
        given = Problem(data, pattern, z)
        found = [stepped(given, 0.1, method, limits=Limits(10.0**-k, 0.0, 1.0)).marched for k in range(-3, 15)]
        found = [marched for marched in found if marched.step * marched.rate < 1.49]  # not held by stability
        kept = [marched.step for marched in found if marched.rejected == 0 and marched.step < 0.1 * method.grow]
        assert len(kept) >= 2
        # The next step is what the error allows, by the order; then steps are rejected.
        np.testing.assert_allclose(np.divide(kept[:-1], kept[1:]), 10 ** (1 / method.order), rtol=1e-9)
        assert found[-1].rejected > 0
        bad = z.copy()
        bad[0, 0] = np.nan
        assert stepped(given._replace(z=bad), 0.1, method).marched.steps == 0


class TestLate:
    @given(st.floats(-9, 2.8), st.booleans())
    def test_phis_against_many_digits(self, size: float, negative: bool) -> None:
        z = (-1.0 if negative else 1.0) * 10**size
        with localcontext() as context:
            context.prec = 120
            exact, value = Decimal(z), Decimal(z).exp()
            expected = []
            for k in range(8):
                value = (value - 1 / Decimal(math.factorial(k))) / exact
                expected.append(float(value))
        np.testing.assert_allclose(np.ravel(phis(np.array([z]), 8)), expected, rtol=2e-14)

    def test_a_row_that_is_zero_stays_zero(self) -> None:
        """However long, and however fast another would grow where it is: e^{14,000} is no number."""
        way = propagated(np.zeros((1, 3)), np.full((1, 2, 1), 0.1), 0.0, np.array([1e5]))
        assert not way.any()

    def test_a_row_without_a_growing_part_gets_none_from_rounding(self) -> None:
        """w = −v exactly: what grows, w + v, would take over in the end (wide seed 2399)."""
        way = propagated(np.array([[-1.1e-48, 1.1e-48]]), np.array([[[1.3]]]), 0.4, np.linspace(0.0, 30.0, 50))
        assert (way[..., 0] == -way[..., 1]).all()

    @pytest.mark.parametrize(("dim", "outputs"), [(1, 1), (3, 1), (2, 4), (4, 2), (3, 3)])
    def test_light_rows_against_the_exponential_of_a_matrix(self, dim: int, outputs: int) -> None:
        rng = np.random.default_rng(dim + 10 * outputs)
        rows, matrices = rng.normal(size=(3, dim + outputs)), rng.normal(size=(3, dim, outputs))
        matrices[2] = np.outer(matrices[2, :, 0], matrices[2, 0])  # of rank one
        times, decay = np.array([0.0, 0.3, 2.0]), 0.7
        way = propagated(rows, matrices, decay, times)
        for row, matrix, found in zip(rows, matrices, np.swapaxes(way, 0, 1), strict=True):
            pulled = np.block([[np.zeros((dim, dim)), matrix], [matrix.T, np.zeros((outputs, outputs))]])
            expected = [expm(time * (pulled - decay * np.eye(dim + outputs))) @ row for time in times]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)

    def test_a_heavy_row_that_fades_is_not_followed_into_rounding(self) -> None:
        """No sample sees it: it fades as e^{−t}, and a sum of modes would leave 1e-17 of it (wide seed 6318)."""
        data = by_line(lines(np.eye(2)), bf.Dataset(np.eye(2), np.ones(2)), 0.0, "square", "time", 1.0)
        z = np.array([[-1.0, -0.5, 1.0]])
        step = LateStep(z, data, nobody_slides(-np.ones((1, 2)), np.arange(1), 2), 1e-9)
        assert step.try_length(300.0, 1e-9, 0.0) <= 1
        assert step.arcs()
        assert 0 < step.reaches < 7
        np.testing.assert_allclose(step.at(step.reaches), math.exp(-step.reaches) * z, rtol=1e-12)

    def test_a_step_ends_before_a_group_comes_apart(self) -> None:
        """A light row fades, at the rate ½, while the difference between its neurons grows by as much."""
        data = by_line(lines(np.eye(2)), bf.Dataset(np.eye(2), np.ones(2)), 0.0, "square", "time", 0.0)
        z = np.array([[1.0, -1e-3, 1.0], [-1e-63, 1e-60, -1e-60], [0.0, 1e-70, 1e-70]])
        pattern = nobody_slides(np.where(z[:2, :2] @ data.transposed < 0, -1.0, 1.0), np.array([0, 1, 1]), 2)
        parted = 1e-7
        step = LateStep(z, data, pattern, 1e-9, parted)
        assert step.try_length(40.0, 1e-9, 0.0) <= 1
        assert step.arcs()
        assert 5 < step.reaches <= math.log(math.sqrt(parted) / 1e-10)
        free = LateStep(z, data, pattern, 1e-9)
        assert free.try_length(40.0, 1e-9, 0.0) <= 1
        assert free.arcs()
        assert free.reaches == 40.0

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_paces_of_light_rows_are_those_of_singular_values(self, outputs: int) -> None:
        given = problem("square", "time", outputs, count=6)
        z = given.z.copy()
        z[1:] *= 1e-30
        step, decay = LateStep(z, given.data, given.pattern, 1e-9), given.data.decay
        assert step.heavy.tolist() == [0]
        rates, until = np.zeros(3), np.array([np.inf, 0.0, 0.0])
        for row, matrix in zip(z[step.riding] / 1e-30, step._light_pulls(), strict=True):
            left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
            row = row / np.linalg.norm(row)
            first, second = left.T @ row[: len(matrix)], right @ row[len(matrix) :]
            idle = math.sqrt(abs(1 - first @ first - second @ second))
            rates = np.maximum(rates, [np.abs(sizes - decay).max(), sizes[0] + decay, decay])
            until[1] = max(until[1], 0.5 * math.log(np.linalg.norm(first - second) / 1e-12) / sizes[0])
            until[2] = max(until[2], math.log(max(idle / 1e-12, 1.0)) / sizes[0])
        paces = np.empty((3, 2))
        engine().biasfree_light_paces(byref(step.riders[0]), address(step.z), *step.here, address(paces))
        np.testing.assert_allclose(paces, np.column_stack([rates, until]), rtol=1e-9)

    def test_fast_directions_have_short_arcs_where_nothing_was_judged(self) -> None:
        """A way to rest is taken without trying its length: 8 points of one arc would not show what fades at first."""
        late, _ = self.begin(2, 300.0)
        late.length = 2.0
        fastest = float(-late.modes.rates.min())
        assert fastest * late.length > 10
        assert late.arcs().ends[0] <= 1.01 / fastest

    @pytest.mark.parametrize("rtol", [1e-5, 1e-7, 1e-9])
    def test_arcs_are_as_long_as_eight_points_can_follow(self, rtol: float) -> None:
        """What fades fast makes the first ones short, and none once it cannot be seen; each is within the tolerance."""
        rest, _ = self.begin(2, 300.0)
        z, length = rest.z.copy(), 10.0
        stirred = rest.modes.by_mode[np.argmin(rest.modes.rates)].reshape(2, 4)
        z[rest.heavy] += 1e3 * rtol * stirred
        late = LateStep(z, rest.data, rest.pattern, 1e-12)
        while late.try_length(length, rtol, 0.0) > 1:
            length *= 0.7
        arcs = late.arcs()
        assert -late.modes.rates.min() * length > 8
        assert 1 < len(arcs) < 6
        tolerance = rtol * np.abs(late.z[late.heavy]).max(axis=1, keepdims=True)
        for begin, end, curve in zip(arcs.begins, arcs.ends, arcs.curves, strict=True):
            x = np.linspace(0.0, 1.0, 101)
            drawn = on_curve(basis(x), curve)[:, late.heavy]
            true = late._moved(begin + x * (end - begin))[:, late.heavy]
            assert (np.abs(drawn - true) <= tolerance).all()

    def test_what_stands_for_a_cell_is_used_again(self) -> None:
        """The flow keeps Q: a step after another one is the same with the first one's."""
        rng = np.random.default_rng(3)
        inputs = rng.normal(size=(4, 2))
        data = by_line(lines(inputs), bf.Dataset(inputs, rng.normal(size=4)), 0.0, "square", "time", 0.0)
        w = np.array([1.0, 0.3]) + 0.05 * rng.normal(size=(9, 2))
        z = np.column_stack([w, rng.normal(size=9)])
        pattern = nobody_slides(np.where(z[:, :2] @ data.transposed < 0, -1.0, 1.0), np.arange(9), 2)
        assert (pattern.side == pattern.side[0]).all()
        before = LateStep(z, data, pattern, 1e-9)
        assert before.try_length(0.01, 1e-9, 0.0) <= 1
        assert before.arcs()
        ends = []
        for frame in (before.modes.frame, None):
            after = LateStep(before.at(0.01), data, pattern, 1e-9, frame=frame)
            assert (after.modes.turn is before.modes.turn) == (frame is not None)
            assert after.modes.force.size == 9  # of 27 entries
            assert after.try_length(0.01, 1e-9, 0.0) <= 1
            assert after.arcs()
            ends.append(after.at(0.01))
        np.testing.assert_allclose(*ends, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("length", [10.0, 1e4, 3e4, 1e8])
    def test_a_light_row_grows_by_what_it_is_however_long_the_step(self, length: float) -> None:
        """A heavy row has fitted one of two samples; a light one grows by the other, at the rate ½ (wide seed 1465)."""
        data = by_line(lines(np.eye(2)), bf.Dataset(np.eye(2), np.ones(2)), 0.0, "square", "time", 0.0)
        z = np.array([[1.0, -1e-3, 1.0], [-1e-63, 1e-60, 1e-60]])
        pattern = nobody_slides(np.where(z[:, :2] @ data.transposed < 0, -1.0, 1.0), np.arange(2), 2)
        step = LateStep(z, data, pattern, 1e-9)
        assert step.try_length(length, 1e-9, 0.0) <= 1
        arcs = step.arcs()
        assert 0 < len(arcs) <= 300
        for time in (1e-3, 1.0, min(step.reaches, 100.0)):
            np.testing.assert_allclose(step.at(time)[1, 1:], 1e-60 * math.exp(0.5 * time), rtol=1e-8)

    @pytest.mark.parametrize(
        ("slope", "loss", "outputs"), [(0.0, "square", 1), (1.0, "square", 2), (0.3, "cross-entropy", 3)]
    )
    def test_few_rows_stand_for_all_of_a_cell(self, slope: float, loss: str, outputs: int) -> None:
        """Thirty rows in four cells, against an independent method on all of them."""
        rng = np.random.default_rng(7)
        inputs = np.array([[1.0, 0.1], [0.2, 1.0], [0.4, 0.6]])
        targets = rng.normal(size=(3, outputs)) if loss == "square" else np.eye(3)
        data = by_line(lines(inputs), bf.Dataset(inputs, targets), slope, loss, "time", 0.05)
        z = rng.normal(size=(30, 2 + outputs)) * 10.0 ** rng.uniform(-2, 0, size=(30, 1))
        z[:, :2] = np.abs(z[:, :2]) * np.array([[1, 1], [-1, -1], [5, -1]])[np.arange(30) % 3]
        side = np.where(z[:, :2] @ data.transposed < 0, -1.0, 1.0)
        pattern = nobody_slides(side, np.arange(30), 2)
        step = LateStep(z, data, pattern, 1e-14)
        cells = len({row.tobytes() for row in side}) if slope < 1 else 1
        assert len(step.modes.rates) <= cells * (2 + outputs) ** 2 < z.size

        def moving(_: float, flat: np.ndarray) -> np.ndarray:
            state = flat.reshape(z.shape)
            return velocity(state, pulls_of(state, data, side), pattern).ravel()

        assert step.try_length(0.03, 1e-9, 0.0) <= 1
        step.arcs()
        truth = solve_ivp(moving, (0, 0.03), z.ravel(), method="DOP853", rtol=1e-13, atol=1e-16).y[:, -1]
        np.testing.assert_allclose(step.at(0.03), truth.reshape(z.shape), rtol=1e-8, atol=1e-11)

    @pytest.mark.parametrize(
        ("dim", "loss", "clock", "decay", "rests"),
        [
            (3, "square", "time", 0.05, False),
            (7, "square", "time", 0.0, False),
            (7, "square", "time", 0.4, True),
            (7, "logistic", "loss", 0.4, False),
        ],
    )
    def test_few_rows_stand_for_all_that_slide(
        self, dim: int, loss: str, clock: str, decay: float, rests: bool
    ) -> None:
        """Twenty of thirty slide on the first line, one may rest at w = 0; against another method on all of them.

        Two lines: of w only the part in their plane is seen, all else fades.
        """
        rng = np.random.default_rng(3)
        inputs, labels = rng.normal(size=(4, dim))[[0, 1, 0, 1]] * np.array([[1], [1], [-0.5], [2]]), [1.0, -1, 1, 1]
        data = by_line(lines(inputs), bf.Dataset(inputs, np.array(labels)), 0.2, loss, clock, decay)
        z, slides, line = 0.3 * rng.normal(size=(30, dim + 1)), np.arange(20), data.directions[0]
        z[:20, :dim] -= np.outer(z[:20, :dim] @ line, line)
        side = np.where(z[:, :dim] @ data.transposed < 0, -1.0, 1.0)
        side[:20, 0] = 0.0
        pattern = nobody_slides(side, np.arange(30), dim)
        pattern.basis[:20, 0], pattern.span[:20] = line, 1
        pattern = pattern._replace(
            slides=np.column_stack([slides, 0 * slides]), dual=np.repeat(data.directions[:1], 20, axis=0)
        )
        if rests:
            z[29, :dim] = 0.0
            pattern = written(pattern, data, 29, side[29], np.zeros(2, dtype=bool), everything=True)
        step = LateStep(z, data, pattern, 1e-14)
        assert len(step.modes.rates) <= 7 * 4 * 4 + 4 < z.size

        def moving(_: float, flat: np.ndarray) -> np.ndarray:
            state = flat[:-1].reshape(z.shape)
            found = velocity(state, pulls_of(state, data, side), pattern).ravel()
            return np.append(found, np.sum(found**2))

        assert step.try_length(0.01, 1e-9, 0.0) <= 1
        step.arcs()
        truth = solve_ivp(moving, (0, 0.01), np.append(z, 0.0), method="DOP853", rtol=1e-13, atol=1e-16).y[:, -1]
        np.testing.assert_allclose(step.at(0.01), truth[:-1].reshape(z.shape), rtol=1e-8, atol=1e-11)
        assert step.energy(0.01) == pytest.approx(truth[-1], rel=1e-8)
        assert np.abs(step.at(0.01)[:20, :dim] @ line).max() < 1e-14

    def test_nothing_heavy(self) -> None:
        """Rows that are all zero stay so."""
        data = by_line(lines(np.eye(3)[:2]), bf.Dataset(np.eye(3)[:2], np.ones(2)), 0.2, "square", "time", 0.1)
        step = LateStep(np.zeros((2, 4)), data, nobody_slides(np.ones((2, 2)), np.arange(2), 3), 1e-9)
        assert step.try_length(1.0, 1e-9, 1e-12) <= 1
        step.arcs()
        assert not step.at(1.0).any()

    def test_along_a_curved_valley_steps_are_as_long_as_the_way_allows(self) -> None:
        """Of f = wv with decay: wv rests a hundred million times faster than w² − v² = e^{−2λt} falls.

        The iteration diverges there; Newton's method finds the way, and the balance is exact.
        """
        size, decay = 1e4, 1.0
        data = by_line(lines(np.array([[size]])), bf.Dataset([[size]], [size]), 1.0, "square", "time", decay)
        v = 0.7
        w = 1 / v
        for _ in range(50):  # on the valley: nothing is left of the velocity along (v, w)
            w = (1 - 2 * decay * w * v / (w * w + v * v) / size**2) / v
        z, pattern = np.array([[w, v]]), nobody_slides(np.ones((1, 1)), np.array([0]), 1)
        step = LateStep(z, data, pattern, 1e-12)
        assert step.modes.rates.min() < -1e7
        assert step.try_length(1e-2, 1e-8, 0.0) <= 1
        arcs = step.arcs()
        assert len(arcs) == 1
        for time in (3e-3, 1e-2):
            now = step.at(time)[0]
            expected = (w * w - v * v) * math.exp(-2 * decay * time)
            assert abs(now[0] ** 2 - now[1] ** 2 - expected) < 1e-8
        ways = np.array([step.at(time)[0] for time in np.linspace(0, 1e-2, 101)])
        assert math.isclose(step.energy(1e-2), np.sum(np.diff(ways, axis=0) ** 2) * 1e4, rel_tol=1e-3)

    @staticmethod
    def begin(seed: int, when: float, until: float = 2.0):
        """Two heavy rows, a light one, and a passive one of each; on the way to a minimum, and the way from there."""
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(12, 3)) * [1.0, 0.3, 0.1]
        data = by_line(lines(inputs), bf.Dataset(inputs, rng.normal(size=12)), 0.3, "square", "time", 0.0)
        z = rng.normal(size=(5, 4))
        z[2:] *= 1e-9
        side = np.where(z[:3, :3] @ data.transposed < 0, -1.0, 1.0)
        pattern = nobody_slides(side, np.array([0, 1, 2, 1, 2]), 3)

        def moving(_: float, flat: np.ndarray) -> np.ndarray:
            state = flat[:-1].reshape(z.shape)
            found = velocity(state, pulls_of(state, data, side), pattern)
            return np.append(found.ravel(), np.sum(found[:3] ** 2))

        def run(begin: np.ndarray, until: float, **options: Any):
            return solve_ivp(moving, (0, until), np.append(begin.ravel(), 0.0), **options)

        # The way there need not be exact; an implicit method takes a hundredth of the steps.
        begin = run(z, when, method="BDF", rtol=1e-8, atol=1e-18).y[:-1, -1].reshape(z.shape)
        begin[2:] *= 1e-9 / np.abs(begin[2:]).max()
        truth = run(begin, until, method="DOP853", rtol=1e-13, atol=1e-22, dense_output=True).sol
        return LateStep(begin, data, pattern, 1e-12), truth

    @pytest.fixture(scope="class")
    @classmethod
    def stiff(cls):
        late, truth = cls.begin(2, 300.0)
        assert late.modes.rates.min() < -10
        return late, truth

    def test_light_and_passive_rows_are_told_apart(self, stiff) -> None:
        assert stiff[0].heavy.tolist() == [0, 1]
        assert stiff[0].riding.tolist() == [2, 3, 4]

    def test_against_explicit_steps(self, stiff) -> None:
        late, truth = stiff
        heavy, riding = (np.abs(late.z[rows]).max() for rows in (late.heavy, late.riding))
        assert late.try_length(2.0, 1e-7, 0.0) < 1
        arcs = late.arcs()
        assert late.reaches == 2.0
        for time in (0.0, 0.03, 0.3, 1.1, 2.0):
            *rows, energy = truth(time)
            found, rows = late.at(time), np.reshape(rows, late.z.shape)
            np.testing.assert_allclose(found[late.heavy], rows[late.heavy], atol=3e-7 * heavy)
            np.testing.assert_allclose(found[late.riding], rows[late.riding], rtol=0, atol=1e-6 * riding)
            assert late.energy(time) == pytest.approx(energy, rel=1e-6, abs=1e-20)
        for begin, end, curve in zip(arcs.begins, arcs.ends, arcs.curves, strict=True):  # what events are looked for on
            for x in (0.0, 0.37, 1.0):
                found, rows = np.tensordot(basis(x), curve, 1), late.at(begin + x * (end - begin))
                np.testing.assert_allclose(found[late.heavy], rows[late.heavy], atol=1e-7 * heavy)

    def test_at_least_order_eight(self) -> None:
        late, truth = self.begin(5, 60.0, 12.0)
        errors = []
        for length in (12.0, 8.0):
            late.try_length(length, 1e-13, 0.0)
            late.arcs()
            rows = np.reshape(truth(length)[:-1], late.z.shape)
            errors.append(np.abs(late.at(length)[late.heavy] - rows[late.heavy]).max())
        assert errors[1] > 1e-12
        assert math.log(errors[0] / errors[1], 1.5) > 8

    @pytest.mark.parametrize("slides", [False, True])
    @pytest.mark.parametrize(("loss", "clock", "outputs"), KINDS)
    def test_the_jacobian_against_differences(self, loss: str, clock: str, outputs: int, slides: bool) -> None:
        data, pattern, z = problem(loss, clock, outputs, slides=slides, scale=0.3)
        data = data._replace(decay=0.0 if data.by_loss else data.decay)
        for h, line in pattern.slides.tolist():
            z[h, :3] -= (z[h, :3] @ data.directions[line]) * data.directions[line]
        late = LateStep(z, data, pattern, 0.0)
        held, shape = np.tile(np.eye(3), (len(pattern.side), 1, 1))[late.heavy], (late.heavy.size, z.shape[1])
        if pattern.across is not None:
            held = pattern.across[late.heavy]

        def within(flat: np.ndarray) -> np.ndarray:
            rows = flat.reshape(shape).copy()
            rows[:, :3] = np.einsum("hij,hj->hi", held, rows[:, :3])
            return rows.ravel()

        def moving(change: np.ndarray) -> np.ndarray:
            there = z.copy()
            there[late.heavy] += within(change).reshape(shape)
            return within(velocity(there, pulls_of(there, data, pattern.side), pattern)[late.heavy])

        unit = np.eye(late.heavy.size * z.shape[1])
        expected = np.stack([(moving(1e-5 * e) - moving(-1e-5 * e)) / 2e-5 for e in unit])
        whole = dense(late.modes.rows, data)
        np.testing.assert_allclose([within(whole @ within(e)) for e in unit], expected, atol=1e-9)
        np.testing.assert_allclose([within(times(within(e), late.modes.rows, data)) for e in unit], expected, atol=1e-9)

    def test_a_minimum_is_rest_and_a_saddle_is_not(self) -> None:
        dataset = bf.Dataset([[1.0], [-1.0]], [1.0, -1.0])
        data = by_line(lines(dataset.inputs), dataset, 0.3, "square", "time", 0.0)
        side = np.ones((1, 1))
        pattern = nobody_slides(side, np.arange(1), 1)
        size = math.sqrt(0.65 / (0.5 * (1 + 0.09)))  # least squares of one side each
        for z, rests in ((size, True), (1e-12, False)):
            assert LateStep(np.array([[z, z]]), data, pattern, 0.0).rests(1e6, 1e-6) is rests

    def test_sliding_rows_stay_on_their_line(self) -> None:
        data, pattern, z = problem(scale=0.3)
        z[2, :3] -= (z[2, :3] @ data.directions[5]) * data.directions[5]
        late = LateStep(z, data, pattern, 0.0)
        late.try_length(0.1, 1.0, 0.0)
        late.arcs()
        assert abs(late.at(0.1)[2, :3] @ data.directions[5]) < 1e-14


class TestChains:
    """Exponential steps that follow each other in C, and what they find eigenvectors by."""

    @pytest.mark.parametrize("size", [1, 2, 3, 24, 64])
    @pytest.mark.parametrize("kind", ["any", "diagonal", "of low rank", "graded", "zero"])
    def test_eigenvectors(self, size: int, kind: str) -> None:
        rng = np.random.default_rng(size)
        matrix = rng.normal(size=(size, size))
        if kind == "diagonal":
            matrix = np.diag(matrix[0])
        if kind == "of low rank":
            matrix = matrix[:, : 1 + size // 4] @ matrix[:, : 1 + size // 4].T
        if kind == "graded":
            matrix *= np.outer(*[10.0 ** rng.uniform(-5, 5, size)] * 2)
        matrix = 0.0 * matrix if kind == "zero" else matrix + matrix.T
        rates, vectors = _modes._eigenvectors(matrix)
        whole = np.linalg.norm(matrix)
        np.testing.assert_allclose(np.sort(rates), np.linalg.eigvalsh(matrix), rtol=0, atol=1e-14 * whole)
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(size), atol=1e-13)
        np.testing.assert_allclose(vectors @ matrix, rates[:, None] * vectors, atol=1e-13 * whole)

    def test_no_eigenvectors_of_what_is_no_number(self) -> None:
        with pytest.raises(np.linalg.LinAlgError, match="Jacobian"):
            _modes._eigenvectors(np.full((3, 3), np.nan))

    @pytest.mark.parametrize("decay", [0.0, 1e-3])
    @pytest.mark.parametrize(("slope", "width"), [(0.0, 100), (0.0, 60), (0.8, 30)])
    def test_chains_are_what_single_steps_are(self, slope: float, width: int, decay: float, monkeypatch) -> None:
        """Six points to the minimum: of neurons that are folded, light ones, groups and slides."""
        start, taken = Network.init([2, width, 1], slope, 1e-3, 4), list[int]()

        def run() -> bf.Trajectory:
            data = datasets.six_points()
            return bf.gradient_flow(start, data, until=2000.0, save=40, rtol=1e-8, method="exact", weight_decay=decay)

        def watched(*arguments: Any) -> Any:
            course = _chain.chained(*arguments)
            taken.append(0 if course is None else len(course.stops))
            return course

        monkeypatch.setattr(_rest, "chained", watched)
        chained = run()
        monkeypatch.setattr(_rest, "may_chain", lambda step: False)
        single = run()
        assert max(taken) > 1
        assert chained.status.name == single.status.name == "reached"
        assert chained.energy_gap < 1e-7
        for one, other in zip(chained.weights, single.weights, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * np.abs(other).max())
        np.testing.assert_allclose(chained.losses, single.losses, rtol=0, atol=2e-6 * single.losses[0])


class TestGroups:
    """Neurons that act as one, beside NumPy's singular values."""

    @pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-4, 1.0])
    def test_rows_are_singular_vectors(self, spread: float) -> None:
        rng = np.random.default_rng(1)
        for count, columns in ((2, 3), (3, 3), (40, 3), (2, 41), (30, 12), (1500, 4)):
            direction = rng.normal(size=columns)
            neurons = rng.normal(size=(count, 1)) * 1e-200 * (direction + spread * rng.normal(size=(count, columns)))
            ((members, parts), rows), (_, alone) = _groups.several([np.arange(count), np.array([count - 1])], neurons)
            sizes = np.linalg.svd(neurons * 1e200, compute_uv=False)
            rank = len(rows)
            assert members.tolist() == list(range(count))
            assert rank == 1 if spread == 0 else rank == min(count, columns)
            assert parts[:, 0].sum() >= 0
            off = 1e-7 if count > _groups.LARGE else 1e-14  # these are found from squares
            np.testing.assert_allclose(
                np.linalg.norm(rows * 1e200, axis=1), sizes[:rank], rtol=1e-6, atol=off * sizes[0]
            )
            np.testing.assert_allclose(parts @ rows * 1e200, neurons * 1e200, atol=1e-14 * sizes[0])
            if count <= _groups.LARGE:
                np.testing.assert_allclose(parts.T @ parts, np.eye(rank), atol=1e-3 if spread == 1e-12 else 1e-9)
            np.testing.assert_array_equal(alone, neurons[-1:])


class TestRiders:
    """A wide network on symmetric data, with riders and with every unaligned neuron a group of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def runs(cls):
        data = datasets.symmetric_gaussian(dim=5, pairs=100, target="linear_plus_sine", seed=0)
        start = Network.init([5, 600, 1], 0.0, 1e-6, 0)
        boarded = []
        with pytest.MonkeyPatch.context() as patch:
            plain = _carried.Carried._grouped

            def watched(self, neurons, known):
                found = plain(self, neurons, known)
                boarded.append(len(self.riders))
                return found

            patch.setattr(_carried.Carried, "_grouped", watched)
            riding = bf.gradient_flow(start, data, until=60, save=30, method="exact")
            patch.setattr(_carried, "_MANY_SIDES", np.inf)
            strict = bf.gradient_flow(start, data, until=60, save=30, method="exact")
        assert boarded[0] > 20
        assert boarded[1] == 0
        return riding, strict

    def test_losses_agree(self, runs) -> None:
        riding, strict = runs
        np.testing.assert_allclose(riding.losses, strict.losses, atol=1e-7)

    def test_every_neuron_agrees(self, runs) -> None:
        """Each in proportion to its own size, riders too."""
        riding, strict = (np.concatenate([r.weights[0], r.weights[1].transpose(0, 2, 1)], axis=2) for r in runs)
        size = np.linalg.norm(strict, axis=2)
        assert (np.linalg.norm(riding - strict, axis=2) / size).max() < 1e-5

    def test_gauges(self, runs) -> None:
        assert runs[0].balance_drift < 1e-7
        assert runs[0].energy_gap < 1e-6


class TestMerging:
    rng = np.random.default_rng(1)
    neurons = np.outer(rng.uniform(0.5, 2, size=2000), [1.0, 2.0, -1.0]) + 1e-5 * rng.normal(size=(2000, 3))

    def test_every_neuron_comes_back(self) -> None:
        merged = of_members(self.neurons, alike(self.neurons, np.arange(2000), np.zeros(2000), 1e-3))
        assert len(merged.groups) == 1
        rows = merged.rows
        np.testing.assert_allclose(merged.restored(rows), self.neurons, atol=1e-14)
        np.testing.assert_allclose(merged.some(np.array([3, 1]), rows), self.neurons[[3, 1]], atol=1e-14)

    def test_the_leading_row_has_the_groups_square(self) -> None:
        """A large group's rows come from ZᵀZ, a small one's from its singular value decomposition."""
        for count in (500, 2000):
            leading = of_members(self.neurons[:count], [np.arange(count)]).rows[0]
            values, vectors = np.linalg.eigh(self.neurons[:count].T @ self.neurons[:count])
            assert np.sum(leading**2) == pytest.approx(values[-1], rel=1e-12)
            assert abs(leading @ vectors[:, -1]) == pytest.approx(np.linalg.norm(leading), rel=1e-12)

    def test_leaving_changes_nothing_for_anybody(self) -> None:
        merged = of_members(self.neurons, [np.arange(2000)])
        left, first = merged.without(np.array([7, 12]), merged.rows)
        assert first.tolist() == [0]
        assert [len(group.members) for group in left.groups] == [1998, 1, 1]
        np.testing.assert_allclose(left.restored(left.rows), self.neurons, atol=1e-14)
        assert np.sum(left.rows[: len(left.groups)] ** 2) == pytest.approx(np.sum(merged.rows[0] ** 2), rel=1e-9)

    def test_light_ones_are_left(self) -> None:
        neurons = self.neurons.copy()
        neurons[5] = [1e-3, 0, 0]
        found, left = heaviest(neurons, np.arange(2000), 1e-3, light=1e-2)
        assert len(found) == 1
        assert left.tolist() == [5]

    def test_groups_of_many_blocks(self, monkeypatch) -> None:
        """Neurons are worked on some at a time; in how many parts changes nothing."""
        keys, leaving = (np.arange(2000) % 3).astype(float), np.array([0, 4, 1999])

        def all_of_it() -> tuple[Any, ...]:
            members = alike(self.neurons, np.arange(2000), keys, 1e-3)
            merged = of_members(self.neurons, members)
            return members, merged.restored(merged.rows), merged.apart(leaving)

        whole = all_of_it()
        for module in (_groups, _merging):
            monkeypatch.setattr(module, "AT_ONCE", 37)
        parts = all_of_it()
        assert [sorted(members) for members in parts[0]] == [np.flatnonzero(keys == k).tolist() for k in range(3)]
        for one, other in zip(whole[0], parts[0], strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(whole[1:], parts[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)

    def test_spreads_with_and_without_riders(self) -> None:
        """The one with riders does not stand in the way of the other, and both are the plain maximum."""
        merged = of_members(self.neurons, [np.arange(2000)])
        parts, leaving = merged.groups[0].parts, np.argsort(np.abs(merged.groups[0].parts[:, 1]))[-20:]
        plain = np.abs(parts[:, 1:] / parts[:, :1])
        stays = np.setdiff1d(np.arange(2000), leaving)
        for _ in range(2):
            np.testing.assert_array_equal(merged.apart(leaving), [plain[stays].max(axis=0), plain.max(axis=0)])
        assert (np.diff(merged.apart(leaving), axis=0) > 0).any()

    def test_one_neuron_stands_for_its_group(self) -> None:
        """A row moves as its members do, each in proportion; several outputs too."""
        data, pattern, z = problem(outputs=3, slides=False)
        parts = np.array([0.6, 0.8])
        apart = np.concatenate([np.outer(parts, z[0]), z[1:3]])
        merged = of_members(apart, [np.array([0, 1]), np.array([2]), np.array([3])])
        rows = merged.rows
        assert len(rows) == 3
        assert len(merged.owner) == 0
        sides = pattern.side[[0, 0, 1, 2]]
        alone = velocity(apart, pulls_of(apart, data, sides), nobody_slides(sides, np.arange(4), 3))
        side = np.where(rows[:, :3] @ data.transposed < 0, -1.0, 1.0)
        together = velocity(rows, pulls_of(rows, data, side), nobody_slides(side, np.arange(3), 3))
        np.testing.assert_allclose(merged.restored(together), alone, atol=1e-13)


def test_a_neuron_that_one_sample_of_many_sees_moves() -> None:
    """Few samples are asked first: whom these do not see is held against all; whom none sees stays where it is."""
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.uniform(0.5, 1, size=200), rng.uniform(-0.01, 0.01, size=200)])
    inputs[101] = [-1.0, 0.1]
    data = bf.Dataset(inputs, np.where(np.arange(200) == 101, 5.0, 1.0))
    first = np.array([[-0.3, 0.1], [0.2, 0.1]])
    assert (first @ inputs.T > 0).sum(axis=1).tolist() == [1, 199]
    unseen = np.array([[-0.1, -2.0]])
    assert (unseen @ inputs.T < 0).all()
    start = Network([np.concatenate([first, unseen]), 0.3 * np.ones((1, 3))], 0.0)
    exact = bf.gradient_flow(start, data, until=3, method="exact")
    steps = bf.gradient_flow(start, data, until=3, method="dopri8", rtol=1e-9)
    assert exact.status.complete
    assert steps.status.complete
    for one, other in zip(exact.final.weights, steps.final.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    moved = np.abs(np.asarray(exact.final.weights[0]) - np.asarray(start.weights[0])).max(axis=1)
    assert moved[0] > 0.01
    assert moved[2] == 0


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
def test_loss_of_the_early_phase(loss: str) -> None:
    """Its closed form against the networks' own loss; the neglected part is of second order."""
    data = datasets.xor()
    start = Network.init([2, 12, 1], 0.1, 1e-4, 0)
    neurons = np.column_stack([np.asarray(start.weights[0]), np.asarray(start.weights[1])[0]])
    early = early_phase(
        neurons, lines(data.inputs), data.targets, spectral_norm(data.inputs), slope=0.1, loss=loss, decay=0.0,
        scale=1.0, rtol=1e-3, until=100.0,
    )  # fmt: skip
    assert early is not None
    for time in (0.0, 0.5 * early.time, early.time):
        now = early.at(time)
        network = Network([now[:, :-1], now[None, :, -1]], 0.1)
        here = bf.losses.get(loss).value(network(data.inputs).T, data.targets[None])
        nothing = bf.losses.get(loss).value(np.zeros((1, data.samples)), data.targets[None])
        assert float(nothing - here) == pytest.approx(early.gain(time), abs=1e-7, rel=1e-3)
        assert early.gain(time) != 0


def test_starts_of_1e_200() -> None:
    data = datasets.xor()
    run = bf.gradient_flow(Network.init([2, 12, 1], 0.0, 1e-200, 0), data, until=2000, save=20, method="exact")
    assert run.status.name == "reached"
    assert np.isfinite(run.losses).all()
    assert run.energy_gap < 1e-6


def test_order_8_is_scipys() -> None:
    given = np.zeros((16, 16))
    given[:12, :12], given[12, :12], given[13:] = DOP853.A, DOP853.B, DOP853.A_EXTRA
    np.testing.assert_array_equal(_dop853.A, given)
    np.testing.assert_array_equal([_dop853.ERROR, _dop853.ERROR_LOW], [DOP853.E5, DOP853.E3])
    np.testing.assert_array_equal(_dop853.CURVE, DOP853.D)


def test_order_5_is_scipys() -> None:
    a, errors = TABLES.a[1], TABLES.errors[1]
    np.testing.assert_allclose(a[:6, :5], RK45.A, rtol=1e-15)
    np.testing.assert_allclose(a[6, :6], RK45.B, rtol=1e-15)
    np.testing.assert_allclose(np.abs(errors[0, :7]), np.abs(RK45.E), rtol=1e-13)
    assert not a[7:].any()
    assert not errors[1:].any()
