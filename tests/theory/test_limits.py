"""Where training ends: least squares, its regularised kin and the max margin, against other solvers and real flows."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.svm import SVC

import biasfree as bf
from biasfree import losses
from biasfree.theory._limits import least_squares, linear_loss, regularised_limit
from biasfree.theory._margin import MaxMargin, max_margin, max_margin_with_bias, separability

APPENDIX_B = bf.Dataset([[3, 2], [3, 3], [4, 0], [4, 2]], [1, 1, -1, -1])


ONE_OUTPUT = ("square", "logistic", "exponential")


def sample(seed: int, samples: int = 30, dim: int = 4) -> bf.Dataset:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(samples, dim)) @ rng.normal(size=(dim, dim))
    return bf.Dataset(inputs, inputs @ rng.normal(size=dim) + rng.normal(size=samples))


def labelled(seed: int, samples: int = 40, dim: int = 4) -> bf.Dataset:
    """Noisy labels: nearly always not separable."""
    data = sample(seed, samples, dim)
    return bf.Dataset(data.inputs, np.where(data.targets > 0, 1.0, -1.0))


# Least squares


@pytest.mark.parametrize(("samples", "dim"), [(30, 4), (4, 9), (5, 5)])
def test_least_squares_is_the_pseudo_inverse(samples: int, dim: int) -> None:
    data = sample(1, samples, dim)
    assert least_squares(data) == pytest.approx(np.linalg.pinv(data.inputs) @ data.targets, rel=1e-10, abs=1e-12)


def test_least_squares_of_singular_inputs_is_the_shortest_solution() -> None:
    data = sample(2, 30, 3)
    mixing = np.random.default_rng(0).normal(size=(3, 6))
    wide = bf.Dataset(data.inputs @ mixing, data.targets)
    found = least_squares(wide)
    assert wide.covariance @ found == pytest.approx(wide.correlation, rel=1e-12)
    # Of all solutions the one in the row space of the inputs is shortest.
    assert mixing.T @ np.linalg.lstsq(mixing.T, found)[0] == pytest.approx(found, rel=1e-12)


def test_least_squares_of_vector_targets_and_of_no_input_at_all() -> None:
    data = sample(3)
    both = bf.Dataset(data.inputs, np.column_stack([data.targets, data.targets**2]))
    assert least_squares(both).shape == (2, 4)
    assert least_squares(both)[0] == pytest.approx(least_squares(data), rel=1e-13)
    assert not least_squares(bf.Dataset(np.zeros((3, 2)), np.ones(3))).any()
    assert not regularised_limit(bf.Dataset(np.zeros((3, 2)), np.ones(3)), 0.1, 0.0, "logistic").any()


@pytest.mark.parametrize("weight_decay", [0.0, 1e-9])
def test_dimensions_in_other_units_are_not_lost(weight_decay: float) -> None:
    """Columns of 1e8 and 1e-8 beside each other: an SVD of the inputs would take the second for rounding."""
    rng, truth = np.random.default_rng(4), np.array([2e-8, 3.0, -1e8])
    inputs = rng.normal(size=(50, 3)) * [1e8, 1.0, 1e-8]
    data = bf.Dataset(inputs, inputs @ truth)
    if weight_decay == 0:
        assert least_squares(data) == pytest.approx(truth, rel=1e-12)
    found = regularised_limit(data, weight_decay, 1.0)
    # Stationary in each dimension's own units; long doubles, so that the large terms cancel without noise.
    wide = inputs.astype(np.longdouble)
    gradient = wide.T @ (wide @ found - data.targets) / 50 + weight_decay * found / np.linalg.norm(found)
    size = np.sqrt(np.mean(inputs**2, axis=0) * np.mean(data.targets**2))
    assert (np.abs(gradient) / size).max() < 1e-13
    # Where decay is felt at all: it shortens w, most of which is the third dimension.
    assert (np.linalg.norm(found) < 0.99e8) == (weight_decay > 0)


# Weight decay


@pytest.mark.parametrize("loss", ONE_OUTPUT)
@pytest.mark.parametrize(("slope", "share"), [(0.0, 0.01), (0.3, 0.3), (1.0, 0.97)])
def test_regularised_limit_minimises_loss_plus_norm(loss: str, slope: float, share: float) -> None:
    data = labelled(5)
    edge = np.linalg.norm(data.correlation) * (0.5 if loss == "logistic" else 1.0)
    price = share * edge
    found = regularised_limit(data, price * (slope + 1) / 2, slope, loss)

    def cost(w: np.ndarray) -> float:
        return float(linear_loss(w, data, loss)) + price * float(np.linalg.norm(w))

    other = minimize(
        cost, found + 0.1 * edge, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 9999}
    )
    assert found == pytest.approx(other.x, abs=1e-5 * np.linalg.norm(found))
    assert cost(found) <= other.fun + 1e-15
    # Stationary, by the derivative of the loss that networks are trained with.
    residual = np.asarray(losses.get(loss).residual((data.inputs @ found)[None], data.targets[None]))[0]
    assert residual @ data.inputs / data.samples == pytest.approx(price * found / np.linalg.norm(found), abs=1e-12)


@pytest.mark.parametrize("loss", ONE_OUTPUT)
def test_decay_at_the_edge_keeps_everything_at_zero(loss: str) -> None:
    data, slope = labelled(6), 0.5
    edge = np.linalg.norm(data.correlation) * (0.5 if loss == "logistic" else 1.0) * (slope + 1) / 2
    assert not regularised_limit(data, edge * (1 + 1e-12), slope, loss).any()
    just_below = regularised_limit(data, edge * (1 - 1e-6), slope, loss)
    assert 0 < np.linalg.norm(just_below) < 1e-4
    # Just below, w leaves 0 along β.
    assert just_below @ data.correlation == pytest.approx(np.linalg.norm(just_below) * np.linalg.norm(data.correlation))


@given(st.integers(0, 200), st.floats(1e-12, 2.0), st.floats(1e-8, 1e8))
def test_square_limit_scales_with_the_data_and_shrinks_with_decay(seed: int, decay: float, unit: float) -> None:
    data = sample(seed, 12, 3)
    found = regularised_limit(data, decay, 0.0)
    scaled = bf.Dataset(unit * data.inputs, data.targets)
    assert regularised_limit(scaled, unit * decay, 0.0) * unit == pytest.approx(found, rel=1e-7, abs=1e-12)
    assert np.linalg.norm(found) <= np.linalg.norm(least_squares(data)) * (1 + 1e-12)
    assert np.linalg.norm(regularised_limit(data, 1.5 * decay, 0.0)) <= np.linalg.norm(found)


def test_without_decay_square_loss_ends_at_least_squares() -> None:
    for data in (sample(7), sample(7, 3, 8)):
        assert regularised_limit(data, 0.0, 0.0) == pytest.approx(least_squares(data), rel=1e-13)
        assert regularised_limit(data, 1e-14, 0.0) == pytest.approx(least_squares(data), rel=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_without_decay_label_losses_end_where_they_have_a_minimum(loss: str) -> None:
    data = labelled(8)
    found = regularised_limit(data, 0.0, 0.0, loss)
    residual = np.asarray(losses.get(loss).residual((data.inputs @ found)[None], data.targets[None]))[0]
    assert residual @ data.inputs == pytest.approx(np.zeros(data.dim), abs=1e-11)
    touching = bf.Dataset([[1.0, 0.3], [0.1, 1.0], [-0.1, -1.0]], [1, 1, 1])
    for endless in (bf.datasets.separable(3, 20, seed=0), touching):
        with pytest.raises(ValueError, match="no finite minimum"):
            regularised_limit(endless, 0.0, 0.0, loss)


def test_vanishing_decay_points_along_the_max_margin() -> None:
    data = bf.datasets.separable(3, 30, seed=1)
    best = max_margin(data).direction
    apart = []
    for decay in (1e-3, 1e-30, 1e-200):
        found = regularised_limit(data, decay, 0.0, "logistic")
        apart.append(np.linalg.norm(found / np.linalg.norm(found) - best))
    assert apart[0] > 5 * apart[1] > 25 * apart[2]
    assert apart[2] < 1e-3


def test_regularised_limit_refuses_what_it_cannot_answer() -> None:
    with pytest.raises(ValueError, match="weight_decay must be"):
        regularised_limit(sample(0), -1.0, 0.0)
    with pytest.raises(ValueError, match="needs labels"):
        regularised_limit(sample(0), 1.0, 0.0, "logistic")
    with pytest.raises(ValueError, match="scalar targets, got 2 outputs"):
        regularised_limit(bf.Dataset(np.eye(2), np.eye(2)), 1.0, 0.0)


# Against real flows: one shape of data and network, so that each loss is compiled once.


def ends_at(data: bf.Dataset, slope: float, decay: float, loss: str, until: float) -> np.ndarray:
    """The linear map that a simulated two-layer network computes in the end."""
    network = bf.Network.rank_one(3, 6, slope, 0.1, seed=2)
    flow = bf.gradient_flow(
        network, data, loss=loss, until=until, weight_decay=decay, save=1, rtol=1e-10, method="dopri8"
    )
    outputs = np.asarray(flow.final(data.inputs))
    found = np.linalg.lstsq(data.inputs, outputs)[0]
    assert data.inputs @ found == pytest.approx(outputs, abs=1e-9)
    return found


@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_flow_with_decay_ends_at_the_regularised_limit(slope: float) -> None:
    square = bf.datasets.symmetric_gaussian(dim=3, pairs=20, target="linear_plus_sine", seed=3)
    found = ends_at(square, slope, 0.05, "square", 600.0)
    assert found == pytest.approx(regularised_limit(square, 0.05, slope), abs=1e-8)
    # The same decay on the other network, or a squared norm in place of the norm, would be seen.
    assert np.abs(found - regularised_limit(square, 0.05, 1 - slope)).max() > 1e-3
    ridge = np.linalg.solve(square.covariance + 0.1 / (1 + slope) * np.eye(3), square.correlation)
    assert np.abs(found - ridge).max() > 1e-3

    labels = bf.datasets.separable(dim=3, samples=20, symmetric=True, seed=4)
    found = ends_at(labels, slope, 0.05, "logistic", 600.0)
    assert found == pytest.approx(regularised_limit(labels, 0.05, slope, "logistic"), abs=1e-8)


def test_flow_with_much_decay_dies_out() -> None:
    square = bf.datasets.symmetric_gaussian(dim=3, pairs=20, target="linear_plus_sine", seed=3)
    decay = 0.6 * float(np.linalg.norm(square.correlation))
    assert not regularised_limit(square, decay, 0.0).any()
    assert regularised_limit(square, decay, 1.0).any()
    assert np.abs(ends_at(square, 0.0, decay, "square", 600.0)).max() < 1e-9


# Loss of a linear map


@pytest.mark.parametrize("loss", ONE_OUTPUT)
def test_linear_loss_is_the_loss_of_a_linear_network(loss: str) -> None:
    data, rng = labelled(9), np.random.default_rng(0)
    weights = rng.normal(size=(5, 2, data.dim))
    found = linear_loss(weights, data, loss)
    assert found.shape == (5, 2)
    expected = [
        [float(losses.get(loss).value((data.inputs @ w)[None], data.targets[None])) for w in row] for row in weights
    ]
    assert found == pytest.approx(np.array(expected), rel=1e-12)
    assert linear_loss(jnp.asarray(weights[0, 0]), data, loss) == pytest.approx(found[0, 0], rel=1e-14)


def test_linear_loss_of_vector_targets_many_weights_and_more_dimensions_than_samples() -> None:
    rng = np.random.default_rng(1)
    inputs, weights = rng.normal(size=(5, 8)), rng.normal(size=(7, 2, 8))
    for loss in losses.NAMES:
        targets = np.where(rng.normal(size=(5, 2)) > 0, 1.0, -1.0)
        if loss == "cross-entropy":
            targets = rng.dirichlet([1.0, 1.0], 5)
        expected = [float(losses.get(loss).value(w @ inputs.T, targets.T)) for w in weights]
        assert linear_loss(weights, bf.Dataset(inputs, targets), loss) == pytest.approx(np.array(expected), rel=1e-12)


def test_square_loss_near_zero_keeps_its_figures() -> None:
    """Half ⟨(δᵀx)²⟩ at a distance δ from an exact fit; through ⟨y²⟩ it would drown at 1e-16."""
    rng = np.random.default_rng(2)
    inputs, truth, apart = rng.normal(size=(200, 5)), rng.normal(size=5), rng.normal(size=5)
    data = bf.Dataset(inputs, inputs @ truth)
    assert 0 <= linear_loss(truth, data) < 1e-30
    sizes = np.array([1e-3, 1e-6, 1e-9])
    found = linear_loss(truth + sizes[:, None] * apart, data)
    assert found / sizes**2 == pytest.approx(np.full(3, 0.5 * np.mean((inputs @ apart) ** 2)), rel=1e-5)


def test_the_regularised_limit_of_classes_is_refused() -> None:
    classes = bf.Dataset(np.eye(2), [0, 1], classes=("a", "b"))
    with pytest.raises(ValueError, match="scalar targets"):
        regularised_limit(classes, 0.1, 0.0, "cross-entropy")
    with pytest.raises(ValueError, match="scalar targets"):
        regularised_limit(bf.Dataset(np.eye(2), [0.0, 1.0]), 0.1, 0.0, "cross-entropy")


def test_linear_loss_refuses_weights_of_another_dimension() -> None:
    with pytest.raises(ValueError, match=r"must end in shape \(4,\)"):
        linear_loss(np.zeros(3), sample(0))
    with pytest.raises(ValueError, match="must end in shape"):
        linear_loss(0.0, sample(0))


# Max margin


def check_optimal(found: MaxMargin, data: bf.Dataset, tolerance: float = 1e-10) -> None:
    """The Karush–Kuhn–Tucker conditions, which prove a convex problem solved."""
    margins = data.targets * (data.inputs @ found.weights + found.bias)
    pulls = found.multipliers * data.targets[found.support]
    assert margins.min() >= 1 - tolerance
    assert margins[found.support] == pytest.approx(np.ones(len(found.support)), abs=tolerance)
    assert (found.multipliers > 0).all()
    assert pulls @ data.inputs[found.support] == pytest.approx(
        found.weights, abs=tolerance * np.linalg.norm(found.weights)
    )
    if found.bias:
        assert abs(pulls.sum()) <= tolerance * found.multipliers.sum()
    assert found.margin == pytest.approx(1 / np.linalg.norm(found.weights), rel=1e-14)


def random_separable(seed: int) -> bf.Dataset:
    """Between 1 and 40 samples in 1 to 8 dimensions, some copied, with margins from 1e-3 to 1."""
    rng = np.random.default_rng(seed)
    dim, samples = int(rng.integers(1, 9)), int(rng.integers(1, 41))
    data = bf.datasets.separable(dim, samples, 10.0 ** rng.uniform(-3, 0), seed=seed)
    rows = rng.integers(samples, size=samples + 5)
    return bf.Dataset(data.inputs[rows], data.targets[rows])


@pytest.mark.parametrize("seed", range(50))
def test_max_margin_is_optimal(seed: int) -> None:
    data = random_separable(seed)
    check_optimal(max_margin(data), data)
    check_optimal(max_margin(data.with_ones()), data.with_ones())
    if len(np.unique(data.targets)) == 2:
        check_optimal(max_margin_with_bias(data), data)


@pytest.mark.parametrize("seed", range(5))
def test_max_margin_agrees_with_other_solvers(seed: int) -> None:
    data = bf.datasets.separable(3, 25, margin=0.3, seed=seed)
    machine = SVC(kernel="linear", C=1e8, tol=1e-10).fit(data.inputs, data.targets)
    free = max_margin_with_bias(data)
    nearest = (data.targets * machine.decision_function(data.inputs)).min() / np.linalg.norm(machine.coef_)
    assert nearest <= free.margin * (1 + 1e-12)
    assert nearest == pytest.approx(free.margin, rel=1e-5)
    assert np.append(free.weights, free.bias) == pytest.approx(
        np.append(machine.coef_, machine.intercept_), abs=1e-5 * np.linalg.norm(free.weights)
    )
    assert set(free.support) == set(machine.support_)

    signed = data.targets[:, None] * data.inputs
    bound = {"type": "ineq", "fun": lambda w: signed @ w - 1, "jac": lambda w: signed}
    other = minimize(
        lambda w: 0.5 * w @ w, np.ones(3), jac=lambda w: w, constraints=bound, method="SLSQP", options={"ftol": 1e-14}
    )
    assert max_margin(data).weights == pytest.approx(other.x, rel=1e-6)


def test_symmetric_data_need_no_bias() -> None:
    data = bf.datasets.separable(4, 15, symmetric=True, seed=3)
    through, free = max_margin(data), max_margin_with_bias(data)
    assert free.weights == pytest.approx(through.weights, rel=1e-12)
    assert free.bias == pytest.approx(0, abs=1e-13)


def test_stacked_ones_are_no_bias() -> None:
    """Appendix B's point on four samples."""
    free, stacked = max_margin_with_bias(APPENDIX_B), max_margin(APPENDIX_B.with_ones())
    assert free.weights == pytest.approx([-2, 0], abs=1e-14)
    assert free.bias == pytest.approx(7, rel=1e-14)
    assert free.margin == pytest.approx(0.5, rel=1e-14)
    assert stacked.weights == pytest.approx([-2, 2.8, 1.4], rel=1e-14)
    slopes = stacked.weights[:2]
    assert 1 / np.linalg.norm(slopes) == pytest.approx(0.291, abs=5e-4)
    angle = np.degrees(np.arccos(free.direction @ slopes / np.linalg.norm(slopes)))
    assert angle == pytest.approx(54.5, abs=0.05)
    assert "bias 7" in str(free)
    assert "through the origin" in str(stacked)


def test_closed_cases() -> None:
    one = max_margin(bf.Dataset([[3.0, 4.0]], [-1]))
    assert one.weights == pytest.approx([-0.12, -0.16], rel=1e-15)
    assert one.margin == pytest.approx(5, rel=1e-15)
    # Orthogonal samples, more dimensions than samples: w = Σ y_i x_i/‖x_i‖².
    sizes, labels = np.array([1.0, 2.0, 5.0]), np.array([1.0, -1.0, 1.0])
    inputs = np.pad(np.diag(sizes), ((0, 0), (0, 4)))
    assert max_margin(bf.Dataset(inputs, labels)).weights[:3] == pytest.approx(labels / sizes, rel=1e-15)
    # Two samples with a bias: the hyperplane halves the segment between them.
    two = max_margin_with_bias(bf.Dataset([[1.0, 1.0], [4.0, 5.0]], [1, -1]))
    assert two.margin == pytest.approx(2.5, rel=1e-15)
    assert two.weights @ [2.5, 3.0] + two.bias == pytest.approx(0, abs=1e-14)


def test_one_class_only() -> None:
    data = bf.Dataset([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]], [1, 1, 1])
    assert max_margin(data).weights == pytest.approx([1, 1], rel=1e-15)
    with pytest.raises(ValueError, match=r"needs both labels, got only \+1"):
        max_margin_with_bias(data)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_scale_of_inputs_makes_no_difference(unit: float) -> None:
    data = bf.datasets.separable(5, 60, seed=6)
    scaled = bf.Dataset(unit * data.inputs, data.targets)
    for solve in (max_margin, max_margin_with_bias):
        plain, other = solve(data), solve(scaled)
        check_optimal(other, scaled)
        assert other.weights * unit == pytest.approx(plain.weights, rel=1e-10)
        assert other.margin == pytest.approx(unit * plain.margin, rel=1e-12)


def test_samples_and_dimensions_of_unlike_scale() -> None:
    """A far sample does not matter, a near one decides; separability hangs on directions alone."""
    near_and_far = bf.Dataset([[1e-8, 0.0], [-1e8, 1e8], [0.0, 1e8]], [1, 1, 1])
    found = max_margin(near_and_far)
    assert found.weights == pytest.approx([1e8, 1e8], rel=1e-12)
    data = bf.datasets.separable(3, 30, seed=7)
    uneven = bf.Dataset(data.inputs * [1e8, 1.0, 1e-8], data.targets)
    answer = separability(uneven)
    assert (uneven.targets * (uneven.inputs @ answer.weights) > 0).all()
    far_apart = bf.Dataset(data.inputs * np.geomspace(1e-8, 1e8, 30)[:, None], data.targets)
    assert separability(far_apart)
    # Separable through a dimension that is rounding beside the others: said, not guessed.
    noise = np.random.default_rng(0).normal(size=20)
    labels = np.where(np.arange(20) % 2, 1.0, -1.0)
    faint = bf.Dataset(np.column_stack([1e8 * noise, 1e-8 * labels]), labels)
    assert separability(faint)
    with pytest.raises(ValueError, match="too small beside its inputs for double precision"):
        max_margin(faint)


def test_copies_make_no_difference() -> None:
    data = bf.datasets.separable(3, 20, seed=8)
    copies = bf.Dataset(np.repeat(data.inputs, 200, axis=0), np.repeat(data.targets, 200))
    for solve in (max_margin, max_margin_with_bias):
        assert solve(copies).weights == pytest.approx(solve(data).weights, rel=1e-10)
    rounded = bf.Dataset(
        copies.inputs * (1 + 1e-15 * np.random.default_rng(0).normal(size=copies.inputs.shape)), copies.targets
    )
    check_optimal(max_margin(rounded), rounded)


def check_witness(data: bf.Dataset) -> None:
    """A convex combination of y_i x_i that vanishes proves that no w serves all of its samples."""
    answer = separability(data)
    assert not answer
    assert (answer.multipliers > 0).all()
    assert answer.multipliers.sum() == pytest.approx(1)
    pulls = (answer.multipliers * data.targets[answer.witness])[:, None] * data.inputs[answer.witness]
    assert np.linalg.norm(pulls.sum(axis=0)) <= 1e-12 * np.linalg.norm(pulls, axis=1).sum()


@given(st.integers(0, 10_000))
def test_separability_agrees_with_a_linear_programme(seed: int) -> None:
    """Small whole numbers: copies, samples on one line and sets that touch are common."""
    rng = np.random.default_rng(seed)
    dim, samples = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    inputs = rng.integers(-3, 4, size=(samples, dim)).astype(float)
    labels = np.where(inputs @ rng.integers(-2, 3, size=dim) + rng.normal() * 0.5 > 0, 1.0, -1.0)
    data = bf.Dataset(inputs, labels)
    programme = linprog(np.zeros(dim), A_ub=-labels[:, None] * inputs, b_ub=-np.ones(samples), bounds=(None, None))
    answer = separability(data)
    assert answer.separable == (programme.status == 0)
    if answer:
        assert (labels * (inputs @ answer.weights) > 0).all()
        assert np.linalg.norm(answer.weights) == pytest.approx(1)
        check_optimal(max_margin(data), data)
    else:
        check_witness(data)


def test_sets_that_touch_are_not_separable() -> None:
    """Margin zero: samples on the hyperplane, in positions that are not exact in binary."""
    rng = np.random.default_rng(9)
    normal = np.array([1.0, 2.0, -1.0]) / np.sqrt(6)
    flat = rng.normal(size=(6, 3))
    flat -= np.outer(flat @ normal, normal)
    inputs = np.concatenate([flat, -flat, rng.normal(size=(4, 3)) + 5 * normal])
    data = bf.Dataset(inputs, np.ones(16))
    check_witness(data)
    with pytest.raises(ValueError, match="a hyperplane through the origin separates, but in data"):
        max_margin(data)
    lifted = bf.Dataset(inputs + 1e-6 * normal, np.ones(16))
    assert max_margin(lifted).margin == pytest.approx(1e-6, rel=1e-8)


def test_the_message_names_the_samples_at_fault() -> None:
    data = bf.Dataset([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]], [1, 1, -1])
    with pytest.raises(ValueError, match=r"0.75·y₁x₁ \+ 0.25·y₂x₂ = 0"):
        max_margin(data)
    assert "0.75·y₁x₁" in str(separability(data))
    with pytest.raises(ValueError, match=r"= 0 to rounding"):
        max_margin(bf.Dataset([[1.0, 2.0], [0.0, 0.0]], [1, -1]))
    # On the line 0, 1, 2 the middle is of the other label.
    with pytest.raises(ValueError, match=r"samples (0, 2|2, 0) \(label \+1\) equals one of samples 1 \(label −1\)"):
        max_margin_with_bias(bf.Dataset([[0.0], [1.0], [2.0]], [1, -1, 1]))
    check_witness(labelled(10))


def test_margins_need_labels_and_scalar_targets() -> None:
    for solve in (max_margin, max_margin_with_bias, separability):
        with pytest.raises(ValueError, match="needs labels"):
            solve(bf.Dataset([[1.0]], [2.0]))
        with pytest.raises(ValueError, match="one label per sample, got 2 outputs"):
            solve(bf.Dataset([[1.0]], [[1.0, -1.0]]))


def test_many_samples() -> None:
    """100,000 samples in 50 dimensions: nothing of samples × samples is formed."""
    data = bf.datasets.separable(50, 100_000, seed=0)
    check_optimal(max_margin(data), data)
    check_optimal(max_margin_with_bias(data), data)
    labels = data.targets.copy()
    labels[7] *= -1
    wrong = bf.Dataset(data.inputs, labels)
    check_witness(wrong)
    assert separability(wrong).witness[0] == 7
    assert linear_loss(least_squares(data), data) < linear_loss(np.zeros(50), data)
