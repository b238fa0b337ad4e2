"""Condition 3 and the half-space asymmetry, against brute force over pairs, angles and cells."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biasfree import Dataset, datasets
from biasfree.theory._asymmetry import asymmetry
from biasfree.theory._symmetry import symmetry

SEEDS = st.integers(0, 10**6)


def random_pairs(rng: np.random.Generator, pairs: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and odd targets in random order."""
    half = rng.normal(size=(pairs, dim))
    inputs, targets = np.concatenate([half, -half]), rng.normal(size=pairs)
    order = rng.permutation(2 * pairs)
    return inputs[order], np.concatenate([targets, -targets])[order]


# Condition 3


@pytest.mark.parametrize("tolerance", [0.0, 1e-16, 1e-9])
@pytest.mark.parametrize("pairs", [1, 7, 1001])
def test_symmetrised_data_satisfy_the_condition(pairs: int, tolerance: float) -> None:
    inputs, targets = random_pairs(np.random.default_rng(pairs), pairs, 20)
    found = symmetry(Dataset(inputs, targets), tolerance)
    assert found.even
    assert found.odd
    assert found.holds
    assert found.paired_share == found.odd_share == 1
    i, j = found.pairs.T
    assert sorted(found.pairs.ravel()) == list(range(2 * pairs))
    assert (i < j).all()
    assert np.array_equal(inputs[i], -inputs[j])
    assert np.array_equal(targets[i], -targets[j])
    assert str(found) == f"inputs even ({pairs} pair{'s' * (pairs > 1)}), target odd: Condition 3 holds"


@settings(deadline=None, max_examples=100)
@given(SEEDS, st.integers(1, 3), st.integers(1, 2))
def test_counts_and_sums_agree_with_a_look_at_every_point(seed: int, dim: int, outputs: int) -> None:
    """Few distinct points and targets, so that samples repeat; compared with counting each point by hand."""
    rng = np.random.default_rng(seed)
    inputs = rng.integers(-1, 2, size=(rng.integers(1, 14), dim)).astype(float)
    targets = rng.integers(-2, 3, size=(len(inputs), outputs)).astype(float)
    found = symmetry(Dataset(inputs, targets), rng.choice([0.0, 1e-9]))

    keys = [tuple(x) for x in inputs.tolist()]
    opposite = [tuple(-v + 0.0 for v in key) for key in keys]
    surplus = {key: max(0, keys.count(key) - opposite.count(key)) for key in keys if any(key)}
    assert found.origin.tolist() == [i for i, key in enumerate(keys) if not any(key)]
    assert found.even == (not any(surplus.values()))
    assert {key: sum(keys[i] == key for i in found.unpaired) for key in surplus} == surplus

    members = [*found.origin, *found.unpaired, *found.pairs.ravel()]
    assert sorted(members) == list(range(len(inputs)))
    i, j = found.pairs.T
    assert np.array_equal(inputs[i], -inputs[j])
    paired = np.unique(found.pairs)
    sums = {key: sum(targets[i] for i in paired if keys[i] == key or opposite[i] == key) for key in keys}
    assert found.odd == all(not np.any(total) for total in sums.values())
    assert len(found.defects) == len(found.mismatched)
    assert (np.diff(found.defects) <= 0).all()
    for (a, b), defect in zip(found.mismatched, found.defects, strict=True):
        assert defect == pytest.approx(np.linalg.norm(targets[a] + targets[b]))
        assert defect > 0
        assert np.any(sums[keys[a]])


@settings(deadline=None, max_examples=50)
@given(SEEDS, st.integers(0, 3), st.integers(0, 3))
def test_finds_the_samples_that_break_it(seed: int, extra: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, targets = random_pairs(rng, 8, 3)
    inputs, targets = np.concatenate([inputs, rng.normal(size=(extra, 3))]), np.append(targets, np.ones(extra))
    changed = rng.choice(16, wrong, replace=False)
    targets[changed] += 1 + np.arange(wrong)
    found = symmetry(Dataset(inputs, targets))
    assert found.unpaired.tolist() == list(range(16, 16 + extra))
    assert {int(i) for i in changed} <= set(found.mismatched.ravel().tolist())
    assert np.allclose(found.defects, np.abs(targets[found.mismatched].sum(axis=1)))
    assert found.paired_share == pytest.approx(16 / (16 + extra))
    assert found.holds == (extra == wrong == 0)


def test_noisy_duplicates_need_opposite_means_only() -> None:
    """The gradient sees ⟨y …⟩: targets 1 and 3 at x cancel −2 and −2 at −x."""
    inputs = np.array([[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0], [-1.0, -2.0]])
    assert symmetry(Dataset(inputs, [1.0, 3.0, -2.0, -2.0])).holds
    assert symmetry(Dataset(inputs, [1.0, 3.0, -2.0, -2.0]), 0.0).holds
    broken = symmetry(Dataset(inputs, [1.0, 3.0, -2.0, -1.0]))
    assert broken.even
    assert not broken.odd


def test_the_surplus_is_what_fits_worst() -> None:
    """Dropping the unpaired sample must leave an odd target when one choice does."""
    inputs = np.array([[1.0], [1.0], [1.0], [-1.0], [-1.0]])
    found = symmetry(Dataset(inputs, [1.0, -1.0, 1.0, -1.0, -1.0]))
    assert found.unpaired.tolist() == [1]
    assert found.odd
    assert "lack a partner −x: 1)" in str(found)


def test_samples_at_the_origin_are_harmless() -> None:
    found = symmetry(Dataset([[0.0, -0.0], [1.0, 0.0], [-1.0, -0.0]], [5.0, 1.0, -1.0]), 0.0)
    assert found.holds
    assert found.origin.tolist() == [0]
    assert symmetry(Dataset(np.zeros((3, 2)), [1.0, 2.0, 3.0])).holds


def test_tolerance_is_relative_to_the_largest_input_and_target() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = random_pairs(rng, 20, 4)
    moved = inputs + 1e-7 * np.linalg.norm(inputs, axis=1).max() * rng.uniform(-0.1, 0.1, inputs.shape)
    shifted = targets + 1e-7 * np.abs(targets).max() * rng.uniform(0.1, 0.3, targets.shape)
    for scale in (1e-200, 1e-20, 1.0, 1e20, 1e200):
        assert symmetry(Dataset(scale * moved, scale * targets), 1e-7).holds
        assert symmetry(Dataset(scale * moved, targets), 1e-9).unpaired.size == 40
        assert symmetry(Dataset(scale * inputs, scale * shifted), 1e-7).holds
        found = symmetry(Dataset(inputs, scale * shifted), 1e-9)
        assert len(found.mismatched) == 20
        assert found.defects == pytest.approx(np.sort(np.abs(scale * shifted[found.pairs].sum(axis=1)))[::-1])
    assert symmetry(Dataset(inputs, targets), 0.0).holds
    assert not symmetry(Dataset(np.nextafter(inputs, np.where(inputs > 0, np.inf, 0)), targets), 0.0).even


def test_the_papers_sets() -> None:
    assert symmetry(datasets.six_points(0.0), 0.0).holds
    assert symmetry(datasets.six_points()).unpaired.tolist() == [4, 5]
    assert symmetry(datasets.depth_separation(), 0.0).holds
    assert symmetry(datasets.symmetric_gaussian(target="linear_plus_sine")).holds
    assert symmetry(datasets.xor()).unpaired.size == 4
    assert str(symmetry(datasets.xor())) == "inputs not even (no sample of 4 has a partner −x): Condition 3 fails"
    even_target = symmetry(Dataset([[1.0, 1.0], [-1.0, -1.0]], [1.0, 1.0]))
    assert even_target.even
    assert even_target.mismatched.tolist() == [[0, 1]]
    assert even_target.defects.tolist() == [2.0]
    assert "target not odd" in str(even_target)


def test_refuses_a_negative_tolerance() -> None:
    with pytest.raises(ValueError, match="tolerance must be a finite number of at least 0"):
        symmetry(datasets.xor(), -1.0)


def test_a_hundred_thousand_samples() -> None:
    inputs, targets = random_pairs(np.random.default_rng(0), 50_000, 20)
    found = symmetry(Dataset(jnp.asarray(inputs), jnp.asarray(targets)))
    assert found.holds
    assert len(found.pairs) == 50_000


# Asymmetry


def ratios(data: Dataset, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """‖B‖/‖β‖ and ‖Q‖/‖Σ‖ straight from the samples, for many rows of signs."""
    targets = data.targets.reshape(data.samples, -1)
    pull = np.einsum("ns,sk,sd->nkd", signs, targets, data.inputs) / data.samples
    stretch = np.einsum("ns,sd,se->nde", signs, data.inputs, data.inputs) / data.samples
    return (
        np.linalg.norm(pull, axis=(1, 2)) / np.linalg.norm(data.correlation),
        np.linalg.norm(stretch, axis=(1, 2)) / np.linalg.norm(data.covariance),
    )


def all_cells(data: Dataset) -> np.ndarray:
    """Signs in every cell, for samples in general position: next to each ray on which dim − 1 vanish, either sign."""
    rows = []
    for chosen in itertools.combinations(range(data.samples), data.dim - 1):
        ray = np.linalg.svd(data.inputs[list(chosen)])[2][-1]
        block = np.repeat(np.sign(data.inputs @ ray)[None], 2 ** len(chosen), axis=0)
        block[:, chosen] = list(itertools.product((1.0, -1.0), repeat=len(chosen)))
        rows.append(block)
    return np.concatenate(rows)


def at_direction(data: Dataset, direction: np.ndarray) -> tuple[float, float]:
    first, second = ratios(data, np.sign(data.inputs @ direction)[None])
    return float(first[0]), float(second[0])


def draw(seed: int, samples: int, dim: int, outputs: int = 1) -> Dataset:
    rng = np.random.default_rng(seed)
    return Dataset(rng.normal(size=(samples, dim)), rng.normal(size=(samples, outputs)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("outputs", [1, 2])
def test_exact_in_the_plane_against_dense_angles(seed: int, outputs: int) -> None:
    data = draw(seed, 3 + 2 * seed, 2, outputs)
    angles = (np.arange(40_000) + 0.5) * np.pi / 40_000
    dense = ratios(data, np.sign(np.column_stack([np.cos(angles), np.sin(angles)]) @ data.inputs.T))
    found = asymmetry(data)
    for bound, values, k in zip((found.correlation, found.covariance), dense, (0, 1), strict=True):
        assert bound.exact
        assert bound.lower == bound.upper or bound.upper == pytest.approx(bound.lower, rel=1e-12)
        assert bound.lower == pytest.approx(values.max(), rel=1e-12)
        assert at_direction(data, bound.direction)[k] == pytest.approx(bound.lower, rel=1e-12)
        assert bound.typical == pytest.approx(np.sqrt(np.mean(values**2)), rel=2e-3)


@pytest.mark.parametrize("seed", range(12))
def test_exact_in_space_against_all_cells(seed: int) -> None:
    data = draw(seed, 3 + seed, 3, 1 + seed % 2)
    found = asymmetry(data)
    for bound, values in zip((found.correlation, found.covariance), ratios(data, all_cells(data)), strict=True):
        assert bound.exact
        assert bound.lower == pytest.approx(values.max(), rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_search_finds_the_best_of_all_cells_in_four_dimensions(seed: int) -> None:
    data = draw(seed, 6 + seed, 4)
    found = asymmetry(data)
    for bound, values in zip((found.correlation, found.covariance), ratios(data, all_cells(data)), strict=True):
        assert bound.lower == pytest.approx(values.max(), rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_upper_bound_obeys_nesterovs_theorem(seed: int) -> None:
    """The relaxation lies between the maximum over all signs, half spaces or not, and √(π/2) times it."""
    data = draw(seed, 5 + seed, 4)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=data.samples)))
    found = asymmetry(data)
    for bound, values in zip((found.correlation, found.covariance), ratios(data, signs), strict=True):
        assert values.max() * (1 - 1e-12) <= bound.upper <= np.sqrt(np.pi / 2) * values.max() * (1 + 1e-3)


def test_points_of_a_lattice_are_no_trouble() -> None:
    """Many lines share planes, so that cells meet in more than the usual number at a ray."""
    inputs = np.array([x for x in itertools.product((-1.0, 0.0, 1.0, 2.0), repeat=3) if any(x)])
    rng = np.random.default_rng(0)
    data = Dataset(inputs, rng.integers(-2, 3, len(inputs)))
    found = asymmetry(data)
    sampled = ratios(data, np.sign(rng.normal(size=(20_000, 3)) @ inputs.T))
    for bound, values in zip((found.correlation, found.covariance), sampled, strict=True):
        assert bound.exact
        assert bound.lower == pytest.approx(values.max(), rel=1e-10)


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.integers(1, 6), st.integers(1, 12), st.integers(1, 3))
def test_bounds_enclose_and_belong_to_the_direction(seed: int, dim: int, samples: int, outputs: int) -> None:
    data = draw(seed, samples, dim, outputs)
    found = asymmetry(data, seed=seed, effort=4)
    probes = np.random.default_rng(seed).normal(size=(500, dim))
    for bound, values, k in zip(
        (found.correlation, found.covariance), ratios(data, np.sign(probes @ data.inputs.T)), (0, 1), strict=True
    ):
        assert bound.lower <= bound.upper
        assert values.max() <= bound.upper * (1 + 1e-12)
        assert np.linalg.norm(bound.direction) == pytest.approx(1)
        assert at_direction(data, bound.direction)[k] == pytest.approx(bound.lower, rel=1e-9)


def test_upper_bound_is_the_best_over_all_signs_of_orthogonal_terms() -> None:
    """On orthogonal lines every choice of signs gives ‖B‖² = Σ c², and all bounds must say so."""
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    lengths, targets = np.arange(1.0, 7.0), np.array([1.0, -2.0, 3.0, 1.0, 1.0, -1.0])
    found = asymmetry(Dataset(lengths[:, None] * frame, targets))
    for bound in (found.correlation, found.covariance):
        assert bound.lower == pytest.approx(1, rel=1e-12)
        assert bound.upper == pytest.approx(1, rel=1e-3)
        assert bound.typical == pytest.approx(1, rel=1e-12)


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.integers(1, 5), st.integers(1, 2))
def test_symmetric_data_give_exactly_zero(seed: int, dim: int, outputs: int) -> None:
    found = asymmetry(draw(seed, 6, dim, outputs).symmetrised())
    for bound in (found.correlation, found.covariance):
        assert bound.lower == bound.upper == bound.typical == 0
        assert bound.exact


def test_balanced_lines_need_no_pairs() -> None:
    """Two samples at x and one at −√2x: Q vanishes though Condition 3 does not hold."""
    data = Dataset([[1.0, 2.0], [1.0, 2.0], [-np.sqrt(2), -2 * np.sqrt(2)]], [1.0, 1.0, 0.0])
    assert asymmetry(data).covariance.upper == 0
    assert not symmetry(data).even


def test_known_values() -> None:
    """XOR by hand: c = (−6, 4)/4 and q = (−12, −8)/4 on the axes, β = (1, −1)/2, Σ = diag(5, 5/2).

    Six points: but for the lines of (−1, 0) and (1, ε) all cancel, and c = ±(1, √(1+ε²))/6, q = ∓(1, 1+ε²)/6 there.
    """
    xor = asymmetry(datasets.xor())
    assert xor.correlation.lower == pytest.approx(np.sqrt(13) / 2 / np.sqrt(0.5))
    assert xor.covariance.lower == pytest.approx(np.sqrt(13) / np.sqrt(31.25))
    for offset in (0.15, 1e-3, 1e-9):
        six = asymmetry(datasets.six_points(offset))
        both = np.array([-2.0, -offset])
        stretch = np.array([[2.0, offset], [offset, offset**2]])
        data = datasets.six_points(offset)
        assert six.correlation.lower == pytest.approx(np.linalg.norm(both) / 6 / np.linalg.norm(data.correlation))
        assert six.covariance.lower == pytest.approx(np.linalg.norm(stretch) / 6 / np.linalg.norm(data.covariance))
    pair = asymmetry(datasets.orthogonal_pair())
    assert pair.correlation.lower == pytest.approx(1)
    assert pair.covariance.lower == pytest.approx(1)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_grows_continuously_with_targets(dim: int) -> None:
    """Max ‖B‖ is convex and even in an even part added to the target, here exactly proportional to it."""
    data = draw(1, 5, dim).symmetrised()
    even = np.abs(data.inputs @ np.arange(1.0, dim + 1))

    def correlation(size: float) -> float:
        changed = Dataset(data.inputs, data.targets + size * even)
        return asymmetry(changed).correlation.lower * np.linalg.norm(changed.correlation)

    unit = correlation(1.0)
    assert unit > 0
    for size in (1e-9, 1e-6, 1e-3, 10.0):
        assert correlation(size) == pytest.approx(size * unit, rel=1e-4)


def arcsine_law(data: Dataset) -> tuple[float, float]:
    """Root mean squares over uniform r, from E sgn(rᵀx) sgn(rᵀx') = (2/π) arcsin(cos of their angle)."""
    inputs, targets = data.inputs, data.targets.reshape(data.samples, -1)
    unit = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    law = 2 / np.pi * np.arcsin(np.clip(unit @ unit.T, -1, 1))
    np.fill_diagonal(law, 1.0)
    products = inputs @ inputs.T
    pull = np.sum(law * (targets @ targets.T) * products) / data.samples**2
    stretch = np.sum(law * products**2) / data.samples**2
    return np.sqrt(pull) / np.linalg.norm(data.correlation), np.sqrt(stretch) / np.linalg.norm(data.covariance)


@pytest.mark.parametrize("dim", [1, 2, 3, 6])
def test_typical_follows_the_arcsine_law(dim: int) -> None:
    data = draw(dim, 20, dim)
    found = asymmetry(data, effort=2000 if dim == 3 else 200)
    for bound, value in zip((found.correlation, found.covariance), arcsine_law(data), strict=True):
        assert bound.typical == pytest.approx(value, rel=1e-10 if dim <= 2 else 0.03 if dim == 3 else 0.1)


def test_the_maximum_jumps_with_inputs_and_the_typical_value_does_not() -> None:
    """‖B(r)‖ is as large for an offset of 1e-9 as for 0.15, in a wedge of directions as narrow as the offset."""
    offsets = np.array([1e-9, 1e-6, 1e-3])
    found = [asymmetry(datasets.six_points(offset)).correlation for offset in offsets]
    assert [bound.lower for bound in found] == pytest.approx([1, 1, 1], rel=1e-5)
    assert [bound.typical for bound in found] == pytest.approx(np.sqrt(offsets / np.pi), rel=1e-2)


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e100])
def test_rotation_and_units_change_nothing(dim: int, scale: float) -> None:
    data = draw(4, 8, dim)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(dim, dim)))[0]
    plain, turned = asymmetry(data), asymmetry(Dataset(scale * data.inputs @ rotation, data.targets / scale), seed=1)
    for one, other in ((plain.correlation, turned.correlation), (plain.covariance, turned.covariance)):
        assert other.lower == pytest.approx(one.lower, rel=1e-9)
        assert other.upper == pytest.approx(one.upper, rel=1e-2)
        k = 0 if one is plain.correlation else 1
        assert at_direction(data, rotation @ other.direction)[k] == pytest.approx(one.lower, rel=1e-9)


def test_lines_in_a_plane_of_a_larger_space_are_exact() -> None:
    data = draw(3, 9, 2)
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 2)))[0]
    lifted = Dataset(data.inputs @ frame.T, data.targets)
    for one, other in zip(*([a.correlation, a.covariance] for a in map(asymmetry, (data, lifted))), strict=True):
        assert other.exact
        assert other.lower == pytest.approx(one.lower, rel=1e-12)
        assert np.linalg.norm(frame.T @ other.direction) == pytest.approx(1)


def test_one_dimension() -> None:
    """By hand: |Σ|t|y|/|Σty| and |Σt|t||/Σt²."""
    found = asymmetry(Dataset([[1.0], [-2.0], [3.0]], [1.0, 1.0, -0.5]))
    assert found.correlation.lower == found.correlation.typical == pytest.approx(1.5 / 2.5)
    assert found.covariance.lower == pytest.approx(6 / 14)
    assert found.correlation.exact


def test_no_correlation_to_compare_with() -> None:
    even = asymmetry(Dataset([[1.0, 2.0], [-1.0, -2.0]], [1.0, 1.0]))
    assert even.correlation.lower == even.correlation.upper == np.inf
    assert even.covariance.upper == 0
    assert "infinite" in str(even)
    nothing = asymmetry(Dataset(np.zeros((2, 3)), [1.0, 2.0]))
    assert nothing.correlation.upper == nothing.covariance.upper == 0


def test_same_seed_same_answer() -> None:
    data = draw(0, 30, 5)
    assert str(asymmetry(data, seed=3)) == str(asymmetry(data, seed=3))
    assert asymmetry(data, seed=3).correlation.lower == asymmetry(data, seed=3).correlation.lower
    assert "between" in str(asymmetry(data).covariance)
    with pytest.raises(ValueError, match="effort must be a whole number"):
        asymmetry(data, effort=0)


@pytest.mark.slow
def test_a_million_samples() -> None:
    inputs, targets = random_pairs(np.random.default_rng(0), 500_000, 20)
    targets[123_456] += 1
    for tolerance in (0.0, 1e-9):
        found = symmetry(Dataset(inputs, targets), tolerance)
        assert found.even
        assert len(found.mismatched) == 1
        assert 123_456 in found.mismatched


@pytest.mark.slow
def test_asymmetry_of_a_hundred_thousand_samples() -> None:
    data = draw(0, 100_000, 50)
    found = asymmetry(data)
    for bound, k in ((found.correlation, 0), (found.covariance, 1)):
        sign = np.sign(data.inputs @ bound.direction)[:, None]
        whole = (data.correlation, data.covariance)[k]
        half = ((data.targets[:, None] * sign).T @ data.inputs, (data.inputs * sign).T @ data.inputs)[k] / data.samples
        assert bound.lower == pytest.approx(np.linalg.norm(half) / np.linalg.norm(whole), rel=1e-9)
        assert bound.typical < bound.lower < bound.upper
