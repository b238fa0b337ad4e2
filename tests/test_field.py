"""The hand-written gradient against automatic differentiation, and the bound on its variation."""

import decimal
import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from biasfree import Dataset, Network, datasets, gradient_flow, native
from biasfree.dynamics import _field, _many_lines
from biasfree.dynamics._hessian import Hessian
from biasfree.dynamics._runge_kutta import METHODS
from biasfree.dynamics._vector_field import ByLine, ByNumpy, InC, Layers
from biasfree.networks import forward

ARCHITECTURES = [
    ([3, 1], None, None),
    ([3, 2], None, None),
    ([3, 5, 1], None, None),
    ([3, 5, 2], None, None),
    ([3, 5, 4, 1], [True, False], None),
    ([3, 6, 6, 1], [False, False], None),
    ([3, 4, 4, 4, 2], [True, False, False], [0, 1, 0, 0]),
    ([3, 4, 4, 4, 1], [True, False, False], [0, 0, 2, 0]),
    ([3, 4, 4, 4, 1], None, [0, 1, 1, 0]),
    ([3, 3, 1], None, [1, 0]),
    ([1, 1, 1], None, [1, 2]),
]


def problem(widths, rectified, skips, loss):
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(7, widths[0])), np.sign(rng.normal(size=(7, widths[-1]))))
    network = Network.init(widths, 0.3, 1.5, 1, rectified=rectified, skips=skips)
    weights = tuple(map(np.asarray, network.weights))
    return weights, _field.problem(network, data, loss, 0.1), _field.Kind(loss, network.architecture)


def traced(numbers):
    """The same numbers for JAX, which differentiates what NumPy computes."""
    return _field.Problem(*map(jnp.asarray, numbers))


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential", "cross-entropy"])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_hessian_is_minus_the_change_of_the_velocity(architecture, loss) -> None:
    if loss == "cross-entropy" and architecture[0][-1] == 1:
        return  # one class is none
    weights, numbers, kind = problem(*architecture, "logistic")
    kind, rng = kind._replace(loss=loss), np.random.default_rng(1)
    if loss == "cross-entropy":
        numbers = numbers._replace(targets=rng.dirichlet([1.0, 1.0], size=7).T)
    push = tuple(rng.normal(size=weight.shape) for weight in weights)
    there, back = (
        np.concatenate([layer.ravel() for layer in _field.velocity(pushed, numbers, kind)])
        for pushed in (tuple(w + s * p for w, p in zip(weights, push, strict=True)) for s in (1e-6, -1e-6))
    )
    expected = (back - there) / 2e-6
    size = np.abs(expected).max()
    assert size > 0.01
    np.testing.assert_allclose(Hessian(weights, numbers, kind).times(push), expected, rtol=0, atol=1e-8 * size)


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_velocity_is_minus_the_gradient(architecture, loss) -> None:
    weights, numbers, kind = problem(*architecture, loss)

    @jax.jit
    def gradient_of(weights, numbers):
        def objective(weights):
            return jnp.exp(_field.log_loss(weights, numbers, kind)) + 0.05 * _field.squared_norm(weights)

        return jax.grad(objective)(weights)

    gradient = gradient_of(weights, numbers)
    level = np.exp(_field.log_loss(weights, numbers, kind))
    moving = _field.velocity(weights, numbers, kind)
    on_loss_clock = _field.velocity(weights, numbers, kind._replace(clock="loss"))
    for g, v, s in zip(gradient, moving, on_loss_clock, strict=True):
        np.testing.assert_allclose(v, -g, atol=1e-14)
        np.testing.assert_allclose(s * level, v, atol=1e-14)


@pytest.mark.parametrize("clock", ["time", "loss"])
@pytest.mark.parametrize("loss", ["square", "logistic", "exponential", "cross-entropy"])
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_loops_in_c_and_numpy_agree(architecture, loss, clock) -> None:
    if (loss == "cross-entropy" and architecture[0][-1] == 1) or (loss == "square" and clock == "loss"):
        return  # one class is none; square loss has no such clock
    weights, numbers, kind = problem(*architecture, "logistic")
    kind = kind._replace(loss=loss, clock=clock)
    if loss == "cross-entropy":
        numbers = numbers._replace(targets=np.abs(numbers.targets) * [[0.3], [0.7]])
    layers, flat = Layers(weights), np.concatenate([w.ravel() for w in weights])
    fields = [make(layers, numbers, kind) for make in (InC, ByNumpy)]
    first = [field.velocity(flat) for field in fields]
    np.testing.assert_allclose(*first, rtol=1e-12, atol=1e-14)
    (ours, end), (theirs, other) = (
        field.stages(flat, moving, 0.1, METHODS["dopri5"]) for field, moving in zip(fields, first, strict=True)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(end, other, rtol=1e-12, atol=1e-14)
    for one, two in zip(*(field.active() for field in fields), strict=True):
        np.testing.assert_array_equal(one, two)
    levels = [field.log_loss() for field in fields]
    assert levels[0] == pytest.approx(levels[1], rel=1e-13)
    assert levels[0] == pytest.approx(float(_field.log_loss(layers.of(end), numbers, kind)), rel=1e-13)


def inputs_of(kind, rng, samples, dim):
    """Inputs of several kinds: on both sides of their lines, sparse, repeated, at the origin."""
    inputs = rng.normal(size=(samples, dim))
    if kind == "pairs":
        return np.concatenate([inputs, -inputs])
    if kind == "both sides":
        return np.concatenate([inputs, -0.3 * inputs[: samples // 2], 2.0 * inputs[:5], np.zeros((2, dim))])
    if kind == "sparse":
        return inputs * (rng.random((samples, dim)) < rng.random(dim) ** 2)
    return inputs


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential", "cross-entropy"])
@pytest.mark.parametrize("kind", ["one side", "pairs", "both sides", "sparse"])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_by_line_and_numpy_agree(kind, loss, slope) -> None:
    """Widths, dimensions and outputs that fill no tile, rows that are zero, a block of lines and several."""
    rng = np.random.default_rng(1)
    for samples, dim, width, outputs in ((5, 3, 1, 2), (130, 7, 43, 3), (260, 13, 300, 5)):
        outputs = 1 if loss in ("logistic", "exponential") else outputs
        inputs = inputs_of(kind, rng, samples, dim)
        targets = rng.normal(size=(len(inputs), outputs))
        targets = {"square": targets, "cross-entropy": np.exp(targets) / np.exp(targets).sum(1, keepdims=True)}.get(
            loss, np.sign(targets)
        )
        weights = [rng.normal(size=(width, dim)) / dim, rng.normal(size=(outputs, width)) / np.sqrt(width)]
        weights[0][: width // 10] = 0.0
        network = Network(weights, slope)
        numbers = _field.problem(network, Dataset(inputs, targets), loss, 0.1)
        task = _field.Kind(loss, network.architecture)
        layers, flat = Layers(network.weights), np.concatenate([np.ravel(w) for w in weights])
        ours, theirs = (make(layers, numbers, task) for make in (ByLine, ByNumpy))
        np.testing.assert_allclose(ours.velocity(flat), theirs.velocity(flat), rtol=1e-11, atol=1e-14)
        assert ours.log_loss() == pytest.approx(theirs.log_loss(), rel=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 6.0, 60.0])
def test_classes_of_a_block_are_right_from_even_odds_to_certainty(size) -> None:
    """Residuals y − p sample by sample, to their own last digits but three: one neuron for each, orthogonal samples."""
    samples, outputs = 12, 5
    rng = np.random.default_rng(4)
    logits = size * rng.normal(size=(outputs, samples))
    logits[1, :3] = logits[0, :3]  # two classes share the lead, or any other place
    targets = np.eye(outputs)[rng.integers(0, outputs, samples)]
    targets[-1] = 0.2
    network = Network([np.eye(samples), logits], 0.0)
    numbers = _field.problem(network, Dataset(np.eye(samples), targets), "cross-entropy", 0.0)
    field = ByLine(Layers(network.weights), numbers, _field.Kind("cross-entropy", network.architecture))
    moving = field.velocity(np.concatenate([np.eye(samples).ravel(), logits.ravel()]))
    residuals = samples * moving[samples**2 :].reshape(outputs, samples)
    with decimal.localcontext(prec=400):
        for k, i in itertools.product(range(outputs), range(samples)):
            powers = [decimal.Decimal(float(f)).exp() for f in logits[:, i]]
            right = decimal.Decimal(float(targets[i, k])) - powers[k] / sum(powers)
            noise = 1e-13 * abs(float(right)) + (1e-16 if 0 < targets[i, k] < 1 else 1e-300)
            assert abs(residuals[k, i] - float(right)) <= noise


@pytest.mark.parametrize("margin", [0.0, 30.0, 600.0, 3000.0])
def test_the_loss_that_comes_with_a_velocity_is_right_down_to_where_it_underflows(margin) -> None:
    samples, outputs = 20, 4
    classes = np.random.default_rng(6).integers(0, outputs, samples)
    network = Network([np.eye(samples), margin * np.eye(outputs)[classes].T], 0.0)
    numbers = _field.problem(network, Dataset(np.eye(samples), np.eye(outputs)[classes]), "cross-entropy", 0.0)
    kind = _field.Kind("cross-entropy", network.architecture)
    field = ByLine(Layers(network.weights), numbers, kind)
    field.velocity(np.concatenate([np.ravel(layer) for layer in network.weights]))
    right = np.log(3.0) - margin if margin > 30 else np.log(np.log1p(3 * np.exp(-margin)))
    assert np.isfinite(field.known_log_loss()) == (margin < 640)
    assert field.log_loss() == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_by_line_passes_on_what_is_no_number(loss, wrong) -> None:
    rng = np.random.default_rng(5)
    targets = np.eye(3)[rng.integers(0, 3, 50)]
    network = Network.init([4, 20, 3], 0.0, 1.0, 0)
    numbers = _field.problem(network, Dataset(rng.normal(size=(50, 4)), targets), loss, 0.0)
    field = ByLine(Layers(network.weights), numbers, _field.Kind(loss, network.architecture))
    flat = np.concatenate([np.ravel(w) for w in network.weights])
    flat[-1] = wrong
    with np.errstate(all="ignore"):  # as in a run
        assert not np.isfinite(field.velocity(flat)[:80]).all()
        assert not np.isfinite(field.log_loss())


def test_by_line_is_the_same_with_any_number_of_threads(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    network = Network.init([9, 70, 2], 0.0, 1.0, 0)
    numbers = _field.problem(network, Dataset(rng.normal(size=(700, 9)), rng.normal(size=(700, 2))), "square", 0.0)
    flat = np.concatenate([np.ravel(w) for w in network.weights])
    moving = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(_many_lines, "_processors", lambda threads=threads: threads)
        field = ByLine(Layers(network.weights), numbers, _field.Kind("square", network.architecture))
        moving.append(field.velocity(flat))
    assert (moving[0] == moving[1]).all()
    assert (moving[0] == moving[2]).all()


def test_constants_of_by_line_are_those_of_c() -> None:
    source = (Path(native.__file__).parent / "wide.c").read_text()
    assert f"GROUP = {_many_lines._GROUP}, BLOCK = {_many_lines.BLOCK} " in source


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a[0][-1] == 1], ids=str)
def test_margin_power_is_the_mean_squared_gradient_of_the_margins(architecture) -> None:
    weights, numbers, kind = problem(*architecture, "exponential")
    kind = kind._replace(clock="loss")

    def margins(weights):
        return numbers.targets * forward(weights, numbers.inputs, numbers.slope, kind.architecture)

    share = np.exp(-np.asarray(margins(weights)))[0]
    share /= share.sum()
    numbers = traced(numbers)
    each = [np.sum(np.asarray(g)[0] ** 2, axis=(1, 2)) for g in jax.jit(jax.jacobian(margins))(weights)]
    numbers = _field.Problem(*map(np.asarray, numbers))
    assert float(_field.margin_power(weights, numbers, kind)) == pytest.approx(share @ np.sum(each, axis=0), rel=1e-12)


def test_derivative_at_the_kink_is_the_slope() -> None:
    """σ'(0) = α: a neuron whose input is exactly zero must not move when α = 0 (Appendix F.2 needs this)."""
    for slope in (0.0, 0.4):
        network = Network([[[0.0], [1.0]], [[2.0, 1.0]]], slope)
        numbers = _field.problem(network, Dataset([[1.0]], [5.0]), "square", 0.0)
        first, second = _field.velocity(network.weights, numbers, _field.Kind("square", network.architecture))
        assert float(first[0, 0]) == pytest.approx(slope * 2.0 * 4.0)
        assert float(second[0, 0]) == 0.0


@pytest.mark.parametrize(
    ("loss", "clock"),
    [("square", "time"), ("logistic", "time"), ("exponential", "time"), ("logistic", "loss"), ("exponential", "loss")],
)
@pytest.mark.parametrize("chosen", [(0, 5, 8), pytest.param((3, 7), marks=pytest.mark.slow)])
def test_stiffness_bounds_the_hessian(loss, clock, chosen) -> None:
    for architecture in (ARCHITECTURES[i] for i in chosen):
        weights, numbers, kind = problem(*architecture, loss)
        kind = kind._replace(clock=clock)
        numbers = numbers._replace(weight_decay=np.asarray(0.0))
        flat, unravel = jax.flatten_util.ravel_pytree(weights)

        def velocity(flat, unravel=unravel, given=numbers, kind=kind):
            return jax.flatten_util.ravel_pytree(_field.velocity(unravel(flat), traced(given), kind))[0]

        steepest = np.linalg.norm(np.asarray(jax.jit(jax.jacfwd(velocity))(flat)), 2)
        level, squares = float(_field.log_loss(weights, numbers, kind)), np.array([np.sum(w**2) for w in weights])
        bound = _field.Steepness(numbers, kind, level).at(squares)
        outputs = numbers.targets.shape[0]
        assert steepest <= outputs * bound * (1 + 1e-12), (architecture, loss, clock)


@pytest.mark.parametrize("size", [1e60, 1e120, 1e160])
@pytest.mark.parametrize("widths", [[2, 3, 1], [2, 3, 3, 1]])
def test_weights_whose_powers_overflow_end_with_a_status(widths, size) -> None:
    layers = [np.full((out, into), size) for into, out in itertools.pairwise(widths)]
    run = gradient_flow(Network(layers, 0.0), datasets.xor(), until=1.0, method="bosh3", max_steps=500)
    assert run.status.name == "not finite"


def by_line(samples: int = 200) -> tuple[_many_lines.ManyLines, np.ndarray]:
    """Velocities that several threads share, and weights."""
    rng = np.random.default_rng(2)
    data = Dataset(rng.normal(size=(samples, 7)), rng.normal(size=(samples, 2)))
    network = Network.init([7, 60, 2], 0.0, 1.0, 3)
    numbers = _field.problem(network, data, "square", 0.0)
    lines = _many_lines.ManyLines(60, numbers, _field.Kind("square", network.architecture))
    return lines, np.concatenate([np.ravel(w) for w in network.weights])


def test_threads_that_call_at_once_get_their_own_velocities(monkeypatch) -> None:
    """One of them has helpers, the others work alone; all of the library's helpers come and go meanwhile."""
    monkeypatch.setattr(_many_lines, "_processors", lambda: 4)
    callers = [by_line() for _ in range(4)]
    alone = [lines.velocity((1 + n) * flat)[0] for n, (lines, flat) in enumerate(callers)]

    def calls(n: int) -> bool:
        lines, flat = callers[n]
        pauses = np.random.default_rng(n).uniform(0, 6e-4, 150)  # around what a helper waits for more work
        return all(
            time.sleep(pause) is None and np.array_equal(lines.velocity((1 + n) * flat)[0], alone[n])
            for pause in pauses
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_gets_its_own_helpers() -> None:
    """In a process of its own: JAX's threads, which tests have started, do not like a fork."""
    program = """
import os, warnings
warnings.simplefilter("ignore")
from biasfree.dynamics import _many_lines
from tests.test_field import by_line
_many_lines._processors = lambda: 3
lines, flat = by_line()
right = [lines.velocity(flat)[0] for _ in range(3)][0]
child = os.fork()
same = all((lines.velocity(flat)[0] == right).all() for _ in range(200))
if child == 0:
    os._exit(0 if same else 1)
assert same and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=Path(__file__).parents[1])
