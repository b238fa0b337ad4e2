"""Laws of the end of training: the bound's algebra and reach, rates that extrapolate, active blocks, margins.

Runs on the loss clock share one width, dimension and sample count, so that each architecture is compiled once.
"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import biasfree as bf
from biasfree.measure import Approach, LatePhase, late_phase, rank_excess
from biasfree.theory import rank_bound

DATA = bf.datasets.separable(dim=4, samples=16, seed=0)
RELU = bf.Network.init([4, 8, 8, 8, 8, 1], 0.0, 2.0, 0, rectified=[True, True, False, False])
LINEAR = bf.Network.init([4, 8, 8, 1], 1.0, 1.0, 0)
BLOCKS = bf.Network.init([4, 8, 8, 8, 1], 1.0, 1.0, 0, skips=[0, 1, 1, 0])


def train(network: bf.Network, data: bf.Dataset, exponent: float, loss: str = "logistic") -> bf.Trajectory:
    """To a loss of 10 to the minus ``exponent``."""
    level = bf.Stop(log_loss=-exponent * math.log(10))
    run = bf.gradient_flow(network, data, loss=loss, clock="loss", until=np.inf, stop=level)
    assert run.status.name == "loss level"
    assert run.status.message.startswith("the loss fell to the level asked for")
    assert np.isfinite(run.log_losses).all()
    return run


def positive_data() -> bf.Dataset:
    """In the positive orthant, where ReLU neurons can be active on every sample."""
    rng, normal = np.random.default_rng(3), np.array([1.0, -1.0, 1.0, -1.0])
    inputs = np.abs(rng.normal(size=(16, 4))) + 0.1
    inputs = np.abs(inputs + 0.05 * np.outer(np.sign(inputs @ normal), normal))
    return bf.Dataset(inputs, np.sign(inputs @ normal), "positive orthant")


@pytest.fixture(scope="module")
def positive() -> bf.Trajectory:
    return train(RELU, positive_data(), 100)


@pytest.fixture(scope="module")
def linear() -> dict[int, bf.Trajectory]:
    return {exponent: train(LINEAR, DATA, exponent) for exponent in (100, 1000)}


@pytest.fixture(scope="module")
def blocks() -> dict[int, bf.Trajectory]:
    return {exponent: train(BLOCKS, DATA, exponent) for exponent in (100, 1000)}


# The bound


def beyond_rank_one(matrix: np.ndarray) -> float:
    """‖A‖_F² − ‖A‖₂²."""
    return float(np.linalg.norm(matrix) ** 2 - np.linalg.norm(matrix, 2) ** 2)


def square_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


@given(seed=st.integers(0, 10**6), width=st.integers(1, 5), factor=st.floats(1.0, 1e4))
def test_no_network_with_the_same_balance_exceeds_the_bound(seed: int, width: int, factor: float) -> None:
    """A₁ with A₁A₁ᵀ = c²aᵀa + B, for a row ca: all that a flow that conserves B could lead to along a."""
    rng = np.random.default_rng(seed)
    first, row = rng.normal(size=(width, width)), rng.normal(size=(1, width))
    bound = rank_bound(bf.Network([first, row], slope=1.0))
    later = square_root(first @ first.T - row.T @ row + factor**2 * row.T @ row)
    size = np.linalg.norm(later) ** 2
    assert beyond_rank_one(later) <= bound.layers[0].excess + 1e-11 * size
    assert bound.layers[0].excess <= bound.common + 1e-12 * size
    # The row's own leading vector is the row.
    lead = np.linalg.eigh(later @ later.T)[1][:, -1]
    apart = 1 - abs(lead @ row[0]) / np.linalg.norm(row)
    norms = [np.linalg.norm(later, 2), factor * np.linalg.norm(row)]
    assert apart <= bound.misalignment(norms)[0] + 1e-11


def test_the_bound_is_met_when_the_row_takes_the_lowest_direction() -> None:
    """B = diag(4, 3, 1 − 1) with the row along the last axis: the excess tends to 4 + 3 = tr B − λ_min."""
    first, row = np.diag([2.0, np.sqrt(3), 1.0]), np.array([[0.0, 0.0, 1.0]])
    assert rank_bound(bf.Network([first, row], slope=1.0)).layers[0].excess == pytest.approx(7)
    later = square_root(first @ first.T - row.T @ row + 1e4 * row.T @ row)
    assert beyond_rank_one(later) == pytest.approx(7, abs=1e-8)


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ({"slope": 1.0}, [1, 2, 3, 4]),
        ({"slope": 0.0}, [4]),
        ({"slope": 0.0, "rectified": [True, False, False]}, [2, 3, 4]),
        ({"slope": 0.0, "rectified": [False, True, False]}, [3, 4]),
        ({"slope": 1.0, "skips": [0, 1, 1, 0]}, [1, 2, 3, 4]),
        ({"slope": 1.0, "skips": [0, 0, 2, 0]}, [4]),
        ({"slope": 1.0, "skips": [0, 2, 0, 0]}, [3, 4]),
    ],
)
def test_which_layers_have_a_bound(options: dict, layers: list[int]) -> None:
    network = bf.Network.init([3, 3, 3, 3, 1], init_scale=1.0, seed=0, **options)
    found = rank_bound(network)
    assert [each.layer for each in found.layers] == layers
    assert found.layers[-1].excess == 0
    assert (np.diff(found.excess) <= 0).all()
    for each in found.layers:
        matrix = np.asarray(network.weights[each.layer - 1])
        matrix = matrix + np.eye(3) if network.skips[each.layer - 1] == 1 else matrix
        assert beyond_rank_one(matrix) <= each.excess + 1e-12


def test_neurons_active_on_every_sample_join_the_chain() -> None:
    network = bf.Network.init([3, 4, 4, 1], 0.0, 1.0, 0)
    everyone, some = np.ones(4, dtype=bool), np.array([True, False, True, False])
    whole = rank_bound(network.with_slope(1.0))
    np.testing.assert_allclose(rank_bound(network, {1: everyone, 2: everyone}).excess, whole.excess)
    partly = rank_bound(network, {1: everyone, 2: some})
    assert [each.layer for each in partly.layers] == [2, 3]
    assert partly.layers[0].neurons.tolist() == [0, 2]
    # By interlacing a smaller block has a smaller D; nothing holds its direction to that of the whole layer.
    assert partly.layers[0].excess <= whole.layers[1].excess
    assert partly.misalignment([1e3, 1e3]).tolist() == [1.0]


def test_the_bound_holds_at_every_saved_time_and_for_no_other_start(positive, linear, blocks) -> None:
    for run in (positive, linear[1000], blocks[1000]):
        found = rank_excess(run)
        assert found.slack.min() >= 0
        assert (found.misalignment <= found.misalignment_limit + 1e-9).all()
        skips = [np.eye(8) if span else 0 for span in run.template.skips]
        for k, each in enumerate(found.bound.layers):
            expected = [beyond_rank_one(w + skips[each.layer - 1]) for w in run.weights[each.layer - 1]]
            np.testing.assert_allclose(found.excess[:, k], expected, atol=1e-12 * found.size[:, k].max())
        # Of another run, whose matrices start smaller.
        smaller = [0.7 * (w + skip) - skip for w, skip in zip(run.template.weights, skips, strict=True)]
        elsewhere = rank_excess(dataclasses.replace(run, template=run.template.with_weights(smaller)))
        assert not elsewhere.holds
        assert "FAILS" in str(elsewhere)


def test_weight_decay_shrinks_the_bound() -> None:
    data = bf.datasets.symmetric_gaussian(dim=4, pairs=8, seed=0)
    run = bf.gradient_flow(LINEAR, data, until=4.0, weight_decay=0.2, save=8)
    found = rank_excess(run)
    assert found.holds
    np.testing.assert_allclose(found.limit[-1], np.exp(-1.6) * found.bound.excess)
    skipped = dataclasses.replace(run, template=bf.Network(LINEAR.weights, 1.0, skips=[0, 1, 0]))
    with pytest.raises(ValueError, match="pulls W to 0 and not I"):
        rank_excess(skipped)


# Ranks and their rate


@pytest.mark.parametrize("which", ["linear", "blocks"])
def test_the_rate_seen_until_1e_100_predicts_1e_1000(which: str, request: pytest.FixtureRequest) -> None:
    short, long = (late_phase(request.getfixturevalue(which)[exponent]) for exponent in (100, 1000))
    depth = short.network.depth
    assert set(short.approaches) == set(range(1, depth))
    for layer, law in short.approaches.items():
        assert law.exponent == 2 / depth
        assert law.misfit < 0.02
        predicted, measured = 1 - law.share(long.log_losses[-1]), long.shortfall[-1, layer - 1]
        assert predicted == pytest.approx(measured, rel=0.02)
        # The exponent comes to its limit from either side, and is nearer further down.
        there = long.approaches[layer]
        assert abs(there.measured_exponent - there.exponent) < 0.06
        assert abs(there.measured_exponent - there.exponent) < abs(law.measured_exponent - law.exponent)
        # When a share that was not seen yet is passed.
        goal = 1 - 1.3 * measured
        assert goal > short.spectral_share[-1, layer - 1]
        passed = np.interp(goal, long.spectral_share[:, layer - 1], long.log_losses)
        assert law.log_loss_at(goal) == pytest.approx(passed, rel=0.05)


@given(
    exponent=st.sampled_from([2 / 3, 0.4, 0.2]),
    growth=st.floats(0.1, 10),
    offset=st.floats(-5, 5),
    held=st.floats(0.01, 10),
    share=st.floats(0.5, 0.999),
)
def test_the_law_inverts(exponent: float, growth: float, offset: float, held: float, share: float) -> None:
    law = Approach(exponent, exponent, growth, offset, 0.0, held)
    log_loss = law.log_loss_at(share)
    assert log_loss <= 0
    if log_loss < -1e-3:
        assert law.share(log_loss) == pytest.approx(share, rel=1e-6)
        assert law.share(2 * log_loss) > share
    assert dataclasses.replace(law, growth=-1.0).log_loss_at(share) == -math.inf
    assert np.isnan(law.share(1.0))
    with pytest.raises(ValueError, match="below 1"):
        law.log_loss_at(1.0)


def test_distance_and_shares_against_a_plain_decomposition(blocks: dict[int, bf.Trajectory]) -> None:
    run = blocks[1000]
    phase = late_phase(run)
    for index in (0, len(run.times) // 2, -1):
        for k in range(4):
            matrix = run.weights[k][index] + (np.eye(8) if k in (1, 2) else 0)
            left, values, right = np.linalg.svd(matrix)
            apart = np.linalg.norm(matrix / np.linalg.norm(matrix) - np.outer(left[:, 0], right[0]))
            assert phase.distance[index, k] == pytest.approx(apart, abs=1e-7)
            assert phase.spectral_share[index, k] == pytest.approx(values[0] / np.linalg.norm(matrix))
            assert phase.shortfall[index, k] == pytest.approx(1 - phase.spectral_share[index, k], abs=1e-14)


def test_the_block_of_stably_active_neurons(positive: bf.Trajectory) -> None:
    phase = late_phase(positive)
    first, second = phase.active_blocks
    inputs, start = positive.dataset.inputs, int(np.argmax(phase.tail))
    w1, w2 = (w[start:] for w in positive.weights[:2])
    h1 = w1 @ inputs.T
    h2 = w2 @ np.maximum(h1, 0)
    np.testing.assert_array_equal(first.neurons, np.flatnonzero((h1 > 0).all(axis=(0, 2))))
    np.testing.assert_array_equal(second.neurons, np.flatnonzero((h2 > 0).all(axis=(0, 2))))
    assert min(len(first.neurons), len(second.neurons)) >= 2
    np.testing.assert_array_equal(second.inputs, first.neurons)
    values = second.spectrum.singular_values[start:]
    block = w2[:, second.neurons][:, :, second.inputs]
    np.testing.assert_allclose(values, np.linalg.svd(block, compute_uv=False), atol=1e-12)
    # The outgoing weights of the second layer are in the linear chain, those of the first are not.
    assert first.bound is None
    assert (values[:, 1:] ** 2).sum(axis=1).max() <= second.bound
    assert max(beyond_rank_one(w[second.neurons]) for w in w2) <= second.bound
    ranks = second.spectrum.stable_rank
    assert ranks[-1] < ranks[start] < ranks[0]


# Directions and margins


def test_linear_blocks_end_at_the_max_margin_direction(blocks: dict[int, bf.Trajectory]) -> None:
    run = blocks[1000]
    phase, svm = late_phase(run), bf.theory.max_margin(DATA)
    final = np.eye(4)
    for k, weights in enumerate(run.weights):
        final = (weights[-1] + (np.eye(8) if run.template.skips[k] else 0)) @ final
    assert phase.svm_gap[-1] == pytest.approx(1 - final[0] @ svm.direction / np.linalg.norm(final), abs=1e-12)
    assert phase.svm_gap[-1] < 3e-8
    # The angle falls like 1/ln(1/L), with skips too.
    scaled, middle = phase.svm_gap * phase.log_losses**2, int(np.argmin(np.abs(phase.log_losses + 230)))
    assert scaled[middle] == pytest.approx(scaled[-1], rel=0.2)
    # At norm one the largest margin is the SVM's, shared by four layers of equal norm.
    parts = phase.normalised_margin / (svm.margin / 16)
    assert parts.max() <= 1
    assert parts[-1] > 0.9


def test_the_smoothed_margin_never_falls(positive, linear, blocks) -> None:
    """Lyu & Li, with identity skips too where margins are measured in the matrices that act."""
    for run in (positive, linear[1000], blocks[1000]):
        phase = late_phase(run)
        begun = np.flatnonzero(phase.smoothed_margin > 0)[0]
        smoothed, plain, late = phase.smoothed_margin[begun:], phase.normalised_margin[begun:], phase.tail[begun:]
        assert (np.diff(smoothed) > 0).all()
        assert (smoothed <= plain).all()
        assert (np.diff(plain[late]) > 0).all()
        size = _squared(phase) ** (len(phase.acting) / 2)
        np.testing.assert_allclose(phase.margin, phase.normalised_margin * size)
        assert ((plain - smoothed) * size[begun:] <= np.log(16) + 1e-3)[late].all()


def _squared(phase: LatePhase) -> np.ndarray:
    return np.sum([each.norm**2 for each in phase.acting], axis=0)


def test_the_smoothed_margin_by_its_definition(linear: dict[int, bf.Trajectory]) -> None:
    run = linear[100]
    exponential = dataclasses.replace(run, settings={**run.settings, "loss": "exponential"})
    for index in (0, 3, 8):
        margins = DATA.targets * np.asarray(run.networks[index](DATA.inputs))
        size = math.sqrt(sum(np.sum(w[index] ** 2) for w in run.weights)) ** 3
        total = np.sum(np.log1p(np.exp(-margins)))
        assert late_phase(run).smoothed_margin[index] * size == pytest.approx(-np.log(np.expm1(total)), rel=1e-6)
        # The losses of the run taken for those of exponential loss.
        assert late_phase(exponential).smoothed_margin[index] * size == pytest.approx(-np.log(total), rel=1e-6)
        assert late_phase(run).margin[index] == pytest.approx(margins.min())


def test_the_weights_converge_in_direction(positive, linear) -> None:
    for run in (positive, linear[1000]):
        phase = late_phase(run)
        assert (np.diff(phase.angle[phase.tail]) < 0).all()
        theta = np.concatenate([w.reshape(len(w), -1) for w in run.weights], axis=1)
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        np.testing.assert_allclose(np.cos(phase.angle), theta @ theta[-1], atol=1e-12)


# What does not apply


def test_skips_over_several_layers_leave_no_degree(linear: dict[int, bf.Trajectory]) -> None:
    """x + CBx with a small branch, before the row of the SVM, in place of the weights of a run."""
    row = bf.theory.max_margin(DATA).weights[None]
    weights = [np.eye(4), 0.01 * np.eye(8, 4), 0.01 * np.eye(4, 8), row]
    saved = tuple(np.repeat(w[None], len(linear[100].times), axis=0) for w in weights)
    network = bf.Network(weights, 1.0, skips=[0, 0, 2, 0])
    phase = late_phase(dataclasses.replace(linear[100], template=network, weights=saved))
    assert phase.normalised_margin is None
    assert phase.smoothed_margin is None
    assert phase.approaches == {}
    assert phase.svm_gap[0] < 1e-8
    assert [each.layer for each in phase.rank.bound.layers] == [4]
    assert "margin/" not in str(phase)


def flipped(run: bf.Trajectory) -> bf.Trajectory:
    """One label wrong, of the sample that lies deepest in its class."""
    data = run.dataset
    targets = np.array(data.targets)
    targets[np.argmax(np.abs(data.inputs @ bf.theory.max_margin(data).weights))] *= -1
    return dataclasses.replace(run, dataset=bf.Dataset(data.inputs, targets, "flipped"))


def two_outputs(run: bf.Trajectory) -> bf.Trajectory:
    last = np.repeat(run.weights[-1], 2, axis=1)
    network = bf.Network([*run.template.weights[:-1], last[0]], 1.0)
    return dataclasses.replace(run, template=network, weights=(*run.weights[:-1], last))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: dataclasses.replace(run, settings={**run.settings, "weight_decay": 0.1}), "with weight decay"),
        (two_outputs, "one output, this network has 2"),
        (flipped, "max margin needs data that a hyperplane through the origin separates"),
    ],
)
def test_refusals(spoil, words: str, linear: dict[int, bf.Trajectory]) -> None:
    with pytest.raises(ValueError, match=words):
        late_phase(spoil(linear[100]))


def test_refuses_a_network_that_does_not_separate(positive: bf.Trajectory) -> None:
    with pytest.raises(ValueError, match="at the end of this run 1 of 16 are not"):
        late_phase(flipped(positive))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rank_bound(LINEAR, {3: np.ones(1, dtype=bool)}), "1 to 2"),
        (lambda: rank_bound(LINEAR, {1: [0, 1]}), "a mask of 8 neurons"),
        (lambda: rank_bound(LINEAR).misalignment([1.0, 2.0]), "3 layers"),
        (lambda: rank_excess(LINEAR), "pass a Trajectory"),
    ],
)
def test_refusals_of_the_parts(call, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


# ReLU layers down to 1e-1000: some hundred thousand steps each.


def deep_run(network: bf.Network, data: bf.Dataset, loss: str = "logistic") -> LatePhase:
    phase = late_phase(train(network, data, 1000, loss))
    assert phase.log_losses[-1] < -2302
    assert phase.rank.holds
    begun = np.flatnonzero(phase.smoothed_margin > 0)[0]
    assert (np.diff(phase.smoothed_margin[begun:]) > 0).all()
    return phase


@pytest.mark.slow
def test_exponential_loss_to_1e_1000() -> None:
    """Known for two ReLU and three linear layers: 0.97 at 1e-1000, 0.99 at 1e-30000."""
    phase = deep_run(RELU, DATA, "exponential")
    assert ((phase.spectral_share[-1, 2:4] > 0.97) & (phase.spectral_share[-1, 2:4] < 0.98)).all()
    assert (phase.alignment[-1, 2:] > 0.999).all()
    for law in phase.approaches.values():
        assert -30_000 < law.log_loss_at(0.99) / math.log(10) < -3000
        assert law.measured_exponent == pytest.approx(0.4, abs=0.03)


@pytest.mark.slow
def test_relu_layers_before_a_skip_block_to_1e_1000() -> None:
    network = bf.Network.init([4, 8, 8, 8, 8, 1], 0.0, 1.0, 1, rectified=RELU.rectified, skips=[0, 0, 0, 1, 0])
    phase = deep_run(network, DATA)
    assert [each.name for each in phase.rank.bound.layers] == ["W3", "M4", "W5"]
    assert phase.spectral_share[-1, 2] > 0.99
    assert 0.85 < phase.spectral_share[-1, 3] < 0.97
    assert phase.approaches[4].log_loss_at(0.99) < -5000 * math.log(10)


@pytest.mark.slow
def test_digits_to_1e_1000() -> None:
    network = bf.Network.init([64, 8, 8, 1], 0.0, 1.0, 0, rectified=[True, False])
    phase = deep_run(network, bf.datasets.digits((0, 1)))
    assert phase.spectral_share[-1, 1] > 0.99
    assert phase.approaches[2].measured_exponent == pytest.approx(2 / 3, abs=0.02)
    assert phase.alignment[-1, 1] > 0.9999
