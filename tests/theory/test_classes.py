"""Classes: the least cross-entropy with its certificate, and the max-margin maps it tends to."""

import numpy as np
import pytest
from scipy.optimize import minimize

import biasfree as bf
from biasfree import Dataset, theory
from biasfree.theory import best_possible_loss, max_margin_classes


def lines_in_dispute(seed: int, classes: int = 3, soft: bool = False) -> Dataset:
    """Pairs of samples on common lines, with classes or probabilities drawn at random."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(8, 2))
    inputs = np.concatenate([half, -half * rng.uniform(0.5, 2, size=(8, 1)), half[:2] * 1.5])
    if soft:
        return Dataset(inputs, rng.dirichlet(np.ones(classes), len(inputs)), classes=range(classes))
    return Dataset(inputs, rng.integers(0, classes, len(inputs)), classes=range(classes))


def features(data: Dataset, free: str) -> np.ndarray:
    """What multiplies the unknowns: x, and |t| of each sample's line or ray, found here by angles."""
    angle = np.arctan2(*data.inputs.T)
    length = np.linalg.norm(data.inputs, axis=1)
    period = np.pi if free == "even" else 2 * np.pi
    _, group = np.unique(np.round(np.mod(angle + 1e-9, period), 6), return_inverse=True)
    own = np.eye(group.max() + 1)[group] * length[:, None]
    return {"none": data.inputs, "even": np.hstack([data.inputs, own]), "rays": own}[free]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("asked", "free"), [({"slope": 1.0}, "none"), ({"depth": 2}, "even"), ({"depth": 3}, "rays")])
@pytest.mark.parametrize("soft", [False, True])
def test_least_cross_entropy_against_a_general_minimiser(seed: int, asked: dict, free: str, soft: bool) -> None:
    data = lines_in_dispute(seed, soft=soft)
    best = best_possible_loss(data, loss="cross-entropy", **asked)
    phi = features(data, free)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        f = phi @ theta.reshape(-1, 3)
        top = f.max(axis=1, keepdims=True)
        odds = np.exp(f - top)
        total = odds.sum(axis=1, keepdims=True)
        value = np.mean(np.log(total[:, 0]) + top[:, 0] - np.sum(data.targets * f, axis=1))
        return value, (phi.T @ (odds / total - data.targets)).ravel() / len(f)

    found = minimize(
        loss,
        np.zeros(3 * phi.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "ftol": 1e-16, "gtol": 1e-11},
    )
    # An infimum at infinity is approached from above; the certificate holds from below.
    assert best.loss - best.gap <= found.fun + 1e-12
    assert best.loss == pytest.approx(found.fun, abs=2e-4)
    assert 0 <= best.gap < 1e-9
    if best.attained:
        assert best.loss == pytest.approx(found.fun, abs=1e-6)
        outputs = np.asarray(best.network()(data.inputs))
        value = bf.losses.get("cross-entropy").value(outputs.T, data.targets.T)
        assert float(value) == pytest.approx(best.loss, abs=1e-9)


def test_two_classes_are_the_logistic_loss_of_their_difference() -> None:
    for seed in range(5):
        data = lines_in_dispute(seed, classes=2)
        signed = Dataset(data.inputs, 2.0 * data.labels - 1)
        for asked in ({"slope": 1.0}, {"depth": 2}, {"depth": 3}):
            both = [
                best_possible_loss(each, loss=loss, **asked)
                for each, loss in ((data, "cross-entropy"), (signed, "logistic"))
            ]
            assert both[0].loss == pytest.approx(both[1].loss, abs=1e-9)
            assert both[0].attained == both[1].attained


def test_no_training_goes_below_it() -> None:
    data = lines_in_dispute(3)
    best = best_possible_loss(data, loss="cross-entropy")
    for seed in range(3):
        start = bf.Network.init([2, 20, 3], slope=0.0, init_scale=1.0, seed=seed)
        run = bf.gradient_descent(start, data, loss="cross-entropy", learning_rate=0.3, steps=1000)
        assert best.loss - 1e-12 < run.losses[-1] < run.losses[0]


def test_multinomial_regression_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    data = bf.datasets.iris()
    # Two species that overlap, and labels that nobody can separate.
    noisy = Dataset(data.inputs, (data.labels + (np.arange(150) % 7 == 0)) % 3, classes=range(3))
    model = LogisticRegression(C=1e10, fit_intercept=False, tol=1e-12, max_iter=100000).fit(noisy.inputs, noisy.labels)
    theirs = -np.mean(model.predict_log_proba(noisy.inputs)[np.arange(150), noisy.labels])
    best = best_possible_loss(noisy, slope=1.0, loss="cross-entropy")
    assert best.attained
    assert best.loss == pytest.approx(theirs, abs=1e-7)
    np.testing.assert_allclose(theory.linear_loss(best.linear_map, noisy, "cross-entropy"), best.loss, atol=1e-12)
    # Setosa is separable from the others: approached only.
    assert not best_possible_loss(data, slope=1.0, loss="cross-entropy").attained


def test_square_loss_of_several_outputs_is_certified_by_its_closed_form() -> None:
    assert best_possible_loss(lines_in_dispute(0)).gap == 0


def clusters(seed: int, classes: int = 4, dim: int = 5) -> Dataset:
    rng = np.random.default_rng(seed)
    label = np.concatenate([np.arange(classes), rng.integers(0, classes, 20)])
    inputs = 2 * rng.normal(size=(classes, dim))[label] + 0.3 * rng.normal(size=(len(label), dim))
    return Dataset(inputs, label, "clusters", classes=range(classes))


@pytest.mark.parametrize("seed", range(4))
def test_frobenius_margin_is_crammer_and_singer_s(seed: int) -> None:
    from sklearn.svm import LinearSVC

    data = clusters(seed)
    found = max_margin_classes(data, "frobenius")
    model = LinearSVC(multi_class="crammer_singer", C=1e5, fit_intercept=False, tol=1e-10, max_iter=10**6)
    np.testing.assert_allclose(found.weights, model.fit(data.inputs, data.labels).coef_, atol=1e-7)
    assert found.gap < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_nuclear_margin_is_the_least(seed: int) -> None:
    data = clusters(seed, classes=3, dim=3)
    found = max_margin_classes(data)
    assert found.gap <= 1e-9
    outputs = data.inputs @ found.weights.T
    margins = outputs[np.arange(data.samples), data.labels][:, None] - outputs
    assert margins[data.targets == 0].min() == pytest.approx(1, abs=1e-9)
    assert found.size == pytest.approx(np.linalg.svd(found.weights, compute_uv=False).sum())
    # No other map with these margins is smaller: not the Frobenius one, nor any nearby.
    other = max_margin_classes(data, "frobenius")
    assert np.linalg.svd(other.weights, compute_uv=False).sum() >= found.size * (1 - 1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        near = found.weights + 0.05 * rng.normal(size=(3, 3))
        outputs = data.inputs @ near.T
        least = (outputs[np.arange(data.samples), data.labels][:, None] - outputs)[data.targets == 0].min()
        if least > 0:
            assert np.linalg.svd(near / least, compute_uv=False).sum() >= found.size * (1 - 1e-9)


def test_two_classes_have_the_binary_direction_in_both_norms() -> None:
    data = bf.datasets.separable(dim=3, samples=20, seed=1)
    classes = Dataset(data.inputs, (data.targets + 1) / 2, classes=("minus", "plus"))
    svm = theory.max_margin(data)
    for norm in ("nuclear", "frobenius"):
        weights = max_margin_classes(classes, norm).weights
        np.testing.assert_allclose(
            weights, np.array([-svm.weights, svm.weights]) / 2, atol=1e-7 * np.abs(svm.weights).max()
        )


@pytest.mark.parametrize("levels", [(-10, -100), pytest.param((-10, -100, -1000), marks=pytest.mark.slow)])
def test_the_margin_of_a_two_layer_flow_rises_to_the_nuclear_one(levels: tuple[int, ...]) -> None:
    """Its direction follows slowly, like other limits of this kind: by a power of 1/ln(1/L)."""
    data = clusters(0, classes=3, dim=3)
    found = max_margin_classes(data)
    start = bf.Network.init([3, 6, 3], slope=1.0, init_scale=0.1, seed=0)
    run = bf.gradient_flow(
        start, data, loss="cross-entropy", clock="loss", until=np.inf, stop=bf.Stop(log_loss=levels[-1])
    )
    shares, apart = [], []
    for level in levels:
        save = int(np.argmin(np.abs(run.log_losses - level)))
        first, second = (w[save] for w in run.weights)
        outputs = data.inputs @ (second @ first).T
        margins = outputs[np.arange(data.samples), data.labels][:, None] - outputs
        size = 0.5 * (np.sum(first**2) + np.sum(second**2))
        shares.append(margins[data.targets == 0].min() / size / found.margin)
        apart.append(np.linalg.norm(second @ first / np.linalg.norm(second @ first) - found.direction))
    assert sorted(shares) == shares
    assert shares[-1] <= 1
    assert shares[-1] > (0.95 if levels[-1] == -1000 else 0.8)
    assert apart[0] > 1.5 * apart[1]
    assert sorted(apart, reverse=True) == apart


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="linear map separates"):
        max_margin_classes(Dataset([[1.0], [2.0]], [0, 1], classes=("a", "b")))
    with pytest.raises(ValueError, match="between 0 and 1"):
        max_margin_classes(Dataset([[1.0], [2.0]], [[0.5, 0.5], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="unknown norm"):
        max_margin_classes(clusters(0), "euclid")
    with pytest.raises(ValueError, match="max_margin_classes"):
        theory.max_margin(clusters(0))
