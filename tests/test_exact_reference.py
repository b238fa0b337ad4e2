"""The slow exact flow against closed forms, conservation laws, symmetries and descent."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, linprog

from biasfree import datasets
from biasfree.lines import lines
from tests.exact_reference import Reference, extrapolated_descent, facet_normals, group, reference_flow
from tests.systems import SYSTEMS, System


def start(width: int, dim: int, scale: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(width, dim)), scale * rng.normal(size=width)


def energy_gap(run: Reference, decay: float = 0.0) -> float:
    """L(0) − L(t) − ∫‖Ẇ‖²dt at worst, with ½λ‖W‖² in L; ln L on the loss clock is for the caller to ask for."""
    objective = run.losses + 0.5 * decay * ((run.first**2).sum((1, 2)) + (run.second**2).sum(1))
    return float(np.abs(objective[0] - objective - run.energies).max())


def balance_drift(run: Reference, decay: float = 0.0) -> float:
    balance = (run.first**2).sum(2) - run.second**2
    return float(np.abs(balance - balance[0] * np.exp(-2 * decay * run.times)[:, None]).max())


def kinds(run: Reference) -> list[tuple[int, int, str]]:
    return [(event.neuron, event.line, event.kind) for event in run.events]


class TestClosedForms:
    @pytest.mark.parametrize("system", [s for s in SYSTEMS if s.network.depth == 2], ids=lambda s: s.name)
    def test_known_systems(self, system: System) -> None:
        """Linear networks, Theorem 5 on white data at three slopes (neurons along one ray), Eq. 23 from 1e-9."""
        first, second = (np.asarray(w) for w in system.network.weights)
        times = np.array([0.3, 1.0]) * system.until
        run = reference_flow(
            system.dataset.inputs, system.dataset.targets, first, second,
            slope=system.network.slope, until=system.until, save=times, **system.flow,
        )  # fmt: skip
        for time, w, w2 in zip(times, run.first, run.second, strict=True):
            exact = system.exact(time)
            found = system.observe(type(system.network)([w, w2[None]], system.network.slope))
            assert np.abs(found - exact).max() < 1e-10 * np.abs(exact).max()

    @pytest.mark.parametrize("side", [1, -1])
    def test_one_neuron_one_sample(self, side: int) -> None:
        """Balanced at w = ±u, w₂ = u on x = 1: p = σ'u² obeys p' = 2σ'p(q − p) with target ±q."""
        slope, target, u = 0.3, 0.8, 0.2
        gate = 1.0 if side == 1 else slope
        run = reference_flow([[1.0]], [side * target], [[side * u]], [u], slope=slope, until=6.0, save=6)
        exact = target / (1 + (target / (gate * u**2) - 1) * np.exp(-2 * gate * target * run.times))
        np.testing.assert_allclose(gate * run.second[:, 0] ** 2, exact, rtol=1e-10)
        assert run.events == []

    def test_exponential_loss_on_the_loss_clock(self) -> None:
        """One balanced neuron on x = y = 1, L = e^{−u²}: du/ds = u, and ln L passes −1000 on the way."""
        run = reference_flow(
            [[1.0]], [1.0], [[0.5]], [0.5], slope=0.0, loss="exponential", clock="loss", until=4.2, save=6
        )
        np.testing.assert_allclose(run.second[:, 0], 0.5 * np.exp(run.times), rtol=1e-10)
        np.testing.assert_allclose(run.log_losses, -0.25 * np.exp(2 * run.times), rtol=1e-9)
        assert run.log_losses[-1] < -1000


class TestSliding:
    """ReLU, samples (1, 0) with target −3 and one beside it; the neuron slides on w_x = 0 with w_y > 0.

    With q the part of the first sample that counts, q = (1 + ς)/2, the velocity across vanishes for q e₁ ± e₂ = 0.
    """

    def test_slides_for_ever(self) -> None:
        """Second sample (1, 1), target 1: q = e₂/3, and p = w₂w_y obeys p' = p(1 − p)."""
        u = 0.5
        run = reference_flow([[1, 0], [1, 1]], [-3, 1], [[0, u]], [u], slope=0.0, until=8.0, save=8)
        exact = 1 / (1 + (1 / u**2 - 1) * np.exp(-run.times))
        np.testing.assert_allclose(run.second[:, 0] ** 2, exact, rtol=1e-11)
        assert np.abs(run.first[:, 0, 0]).max() == 0
        assert kinds(run) == [(0, 0, "slide")]
        assert energy_gap(run) < 1e-11

    def test_arrives_from_either_side(self) -> None:
        for x in (0.3, -0.3):
            run = reference_flow([[1, 0], [1, 1]], [-3, 1], [[x, 0.5]], [0.5], slope=0.0, until=30.0, save=8)
            assert kinds(run) == [(0, 0, "slide")]
            assert 0 < run.events[0].time < 2
            assert run.first[-1, 0, 0] == 0
            np.testing.assert_allclose(run.second[-1, 0] * run.first[-1, 0, 1], 1, rtol=1e-9)
            assert energy_gap(run) < 1e-11

    def test_leaves_when_the_side_reaches_one(self) -> None:
        """A second neuron, seen by the first sample only, takes e₁ = −3 + r to zero: r' = r(3 − r). Leaves at q = 1."""
        u, v = 0.5, 0.1
        run = reference_flow(
            [[1, 0], [1, 1]], [-3, 1], [[0, u], [v, -3]], [u, -v], slope=0.0, until=8.0, save=16
        )  # fmt: skip

        def pulls(t: float) -> float:
            p = 1 / (1 + (1 / u**2 - 1) * np.exp(-t))
            r = 3 / (1 + (3 / v**2 - 1) * np.exp(-3 * t))
            return (1 - p) - (3 - r)

        assert kinds(run) == [(0, 0, "slide"), (0, 0, "leave")]
        leaves = brentq(pulls, 0, 5, xtol=1e-14)
        assert abs(run.events[1].time - leaves) < 1e-9
        assert (run.first[run.times > leaves, 0, 0] > 0).all()
        assert energy_gap(run) < 1e-11

    def test_branches_where_the_output_weight_changes_sign(self) -> None:
        """Second sample (−1, 1), target −1: w_y = k cosh φ, w₂ = k sinh φ, φ' = −(1 + k² sinh(2φ)/2)/2.

        At φ = 0, q = e₂/e₁ = 1/3, so that ς = −1/3 and the neuron leaves to the negative side.
        """
        w_y, w2 = 0.9, 0.5
        k, phi = np.sqrt(w_y**2 - w2**2), np.arctanh(w2 / w_y)
        when = quad(lambda x: 2 / (1 + 0.5 * k**2 * np.sinh(2 * x)), 0, phi, epsabs=1e-13)[0]
        run = reference_flow([[1, 0], [-1, 1]], [-3, -1], [[0, w_y]], [w2], slope=0.0, until=2 * when, save=10)
        assert kinds(run)[:2] == [(0, 0, "slide"), (0, 0, "branch")]
        assert abs(run.events[1].time - when) < 1e-10
        after = run.times > when * (1 + 1e-9)
        assert (run.first[after, 0, 0] < 0).all()
        assert energy_gap(run) < 1e-11
        assert balance_drift(run) < 1e-11

    @pytest.mark.parametrize("pulled", [True, False])
    def test_passes_through_zero_or_rests(self, pulled: bool) -> None:
        """Held on w_x = 0 by (±1, 0); (0, 1) with target −1 drives w_y to zero, (0, −1) with target 1 drives on.

        With P samples: w_y = k sinh φ, w₂ = k cosh φ, φ' = −(1 + k² sinh(2φ)/2)/P before, and with −w_y = k sinh φ
        afterwards φ' = (1 − k² sinh(2φ)/2)/P.
        """
        inputs, targets = [[1, 0], [-1, 0], [0, 1], [0, -1]], [-3, -3, -1, 1]
        count = 4 if pulled else 3
        w_y, w2 = 0.4, 0.9
        k, phi = np.sqrt(w2**2 - w_y**2), np.arctanh(w_y / w2)
        when = quad(lambda x: count / (1 + 0.5 * k**2 * np.sinh(2 * x)), 0, phi, epsabs=1e-13)[0]
        later = quad(lambda x: count / (1 - 0.5 * k**2 * np.sinh(2 * x)), 0, 0.6, epsabs=1e-13)[0]
        run = reference_flow(
            inputs[:count], targets[:count], [[0, w_y]], [w2], slope=0.0, until=when + later, save=[0, when + later]
        )
        branch = [event for event in run.events if event.kind == "branch"]
        assert len(branch) == 1
        assert abs(branch[0].time - when) < 1e-10
        expected = [0, -k * np.sinh(0.6)] if pulled else [0, 0]
        np.testing.assert_allclose(run.first[-1, 0], expected, atol=1e-10)
        np.testing.assert_allclose(run.second[-1, 0], k * np.cosh(0.6) if pulled else k, rtol=1e-10)
        assert energy_gap(run) < 1e-11

    def test_descent_leaves_zero_as_soon_as_anything_pulls(self) -> None:
        """A neuron rests at w = 0 where some lines attract and some repel: it can stay longer than descent stays.

        Samples span a plane of three dimensions. With ``escape`` descent approaches the flow at first order, without it
        ends elsewhere: both obey energy and balance, which cannot tell them apart.
        """
        rng = np.random.default_rng(2111)
        rng.integers(2, 4), rng.integers(2, 7), rng.integers(1, 4)
        inputs = rng.normal(size=(5, 3))
        inputs[:, -1] = inputs[:, 0]
        targets = 2 * rng.normal(size=5)
        rng.integers(3)
        problem: dict[str, Any] = {
            "inputs": inputs, "targets": targets, "first": 0.5 * rng.normal(size=(2, 3)),
            "second": 1.5 * rng.normal(size=2), "slope": 0.2, "until": 2.0,
        }  # fmt: skip
        descent = extrapolated_descent(**problem, steps=1000, levels=3)
        for escape in (True, False):
            run = reference_flow(**problem, save=2, escape=escape)
            assert run.count("branch") == 1
            assert energy_gap(run) < 1e-11
            assert balance_drift(run) < 1e-11
            end = np.concatenate([run.first[-1].ravel(), run.second[-1]])
            apart = np.abs(descent.levels - end).max(1)
            assert (apart[-1] < 0.3 * apart[0] and apart[-1] < 2e-3) if escape else apart[-1] > 1e-2

    def test_three_lines_of_one_plane(self) -> None:
        """Held at w ∥ e_z by three samples in the plane across, target −1: p = w₂w_z on e_z obeys p' = p(1 − p)/2."""
        angles = 2 * np.pi * np.arange(3) / 3
        inputs = [*np.column_stack([np.cos(angles), np.sin(angles), 0 * angles]), [0, 0, 1]]
        targets, u = [-1, -1, -1, 1], 0.3
        run = reference_flow(inputs, targets, [[0, 0, u]], [u], slope=0.0, until=8.0, save=8)
        np.testing.assert_allclose(run.second[:, 0] ** 2, 1 / (1 + (1 / u**2 - 1) * np.exp(-run.times / 2)), rtol=1e-11)
        assert sorted(kinds(run)) == [(0, line, "slide") for line in range(3)]
        run = reference_flow(inputs, targets, [[0.05, 0.02, 0.6]], [0.8], slope=0.0, until=8.0, save=8)
        assert {event.line for event in run.events if event.kind == "slide"} == {0, 1, 2}
        assert np.abs(run.first[-1, 0, :2]).max() < 1e-15
        assert energy_gap(run) < 1e-11

    def test_leaving_three_lines_of_one_plane(self) -> None:
        """At slope 0.3 the sides hold only while no pull is below 0.3 of another; then two lines are left at once.

        A second neuron takes away the first sample's pull. Descent, which knows nothing of lines, ends nearby, twice as
        close at half the rate.
        """
        angles = 2 * np.pi * np.arange(3) / 3
        inputs = [*np.column_stack([np.cos(angles), np.sin(angles), 0 * angles]), [0, 0, 1]]
        problem: dict[str, Any] = {
            "inputs": inputs, "targets": [-1, -1, -1.2, 1],
            "first": [[0.02, 0.01, 0.6], [0.9, 0, -0.1]], "second": [0.8, -0.2], "slope": 0.3, "until": 10.0,
        }  # fmt: skip
        run = reference_flow(**problem, save=6)
        assert {event.line for event in run.events if event.kind == "slide"} == {0, 1, 2}
        assert kinds(run)[3:] == [(0, 0, "leave"), (0, 2, "leave")]
        leaves = max(event.time for event in run.events)
        then = reference_flow(**problem, save=[leaves])
        before = np.array(inputs[:3]) @ then.first[0].T
        pulls = problem["targets"][:3] - np.where(before > 0, before, 0.3 * before) @ then.second[0]
        np.testing.assert_allclose(np.abs(pulls).min() / np.abs(pulls).max(), 0.3, rtol=1e-9)
        assert energy_gap(run) < 1e-11
        descent = extrapolated_descent(**problem, steps=3000, levels=3)
        end = np.concatenate([run.first[-1].ravel(), run.second[-1]])
        apart = np.abs(descent.levels - end).max(1)
        assert apart[-1] < 1e-3
        assert (apart[1:] < 0.6 * apart[:-1]).all()

    def test_a_start_on_a_surface_that_repels_goes_to_the_positive_side(self) -> None:
        run = reference_flow([[1, 0], [-1, 0]], [3, 3], [[0, 1]], [1.0], slope=0.0, until=1.0, save=2)
        assert kinds(run) == [(0, 0, "branch")]
        assert run.first[-1, 0, 0] > 0


SETS = {"xor": datasets.xor(), "orthogonal pair": datasets.orthogonal_pair(), "six points": datasets.six_points()}


class TestConservation:
    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize(
        ("slope", "loss", "decay"),
        [(0.0, "square", 0.0), (0.3, "square", 0.05), (0.2, "logistic", 0.0), (0.0, "exponential", 0.02)],
    )
    def test_energy_and_balance(self, name: str, slope: float, loss: str, decay: float) -> None:
        data = SETS[name]
        first, second = start(10, 2, 0.1, 0)
        run = reference_flow(
            data.inputs, data.targets, first, second, slope=slope, loss=loss, until=20.0, save=20, weight_decay=decay
        )
        assert energy_gap(run, decay) < 1e-10
        assert balance_drift(run, decay) < 1e-10
        if name == "xor":
            assert run.count("slide") >= 5

    @pytest.mark.parametrize("loss", ["logistic", "exponential"])
    def test_loss_clock(self, loss: str) -> None:
        """d ln L/ds = −‖dW/ds‖², and the path is that of the time clock: both pass the same weights."""
        data = datasets.xor()
        first, second = start(4, 2, 0.3, 1)
        options: dict[str, Any] = {"slope": 0.1, "loss": loss}
        run = reference_flow(data.inputs, data.targets, first, second, clock="loss", until=3.0, save=150, **options)
        assert run.count("slide") > 0
        assert np.abs(run.log_losses[0] - run.log_losses - run.energies).max() < 1e-10
        assert balance_drift(run) < 1e-10
        # dt = ds/L, by Simpson's rule over 1/50 steps: good to about 1e-8 across the kinks.
        rate = np.exp(-run.log_losses)
        elapsed = float((rate[0] + 4 * rate[1::2].sum() + 2 * rate[2:-1:2].sum() + rate[-1]) / 150)
        timed = reference_flow(data.inputs, data.targets, first, second, until=elapsed, save=1, **options)
        np.testing.assert_allclose(timed.first[-1], run.first[-1], atol=1e-6)
        assert Counter(kinds(timed)) == Counter(kinds(run))

    @pytest.mark.parametrize("seed", range(20))
    def test_random_problems(self, seed: int) -> None:
        """Dimensions 1–4 and what makes lines meet: opposite samples, whole-number inputs, flat data, large w₂."""
        rng = np.random.default_rng(seed)
        dim, samples, width = rng.integers(1, 5), rng.integers(1, 7), rng.integers(1, 6)
        inputs = rng.normal(size=(samples, dim))
        if seed % 4 == 1:
            inputs = np.concatenate([inputs, -rng.uniform(0.5, 2, (samples, 1)) * inputs])
        elif seed % 4 == 2:
            inputs = rng.integers(-2, 3, (samples, dim)).astype(float)
        elif seed % 4 == 3:
            inputs[:, -1] = inputs[:, 0]
        loss = ("square", "logistic", "exponential")[seed % 3]
        targets = rng.normal(size=len(inputs)) if loss == "square" else rng.choice([-1.0, 1.0], len(inputs))
        first, second = start(width, dim, 10 ** rng.uniform(-3, 0), seed)
        slope, decay = rng.choice([0, 0.2, 0.7]), rng.choice([0, 0.1])
        run = reference_flow(
            inputs, targets, first, second * rng.choice([1, 3]), slope=slope, loss=loss, until=10.0, save=5,
            weight_decay=decay,
        )  # fmt: skip
        assert energy_gap(run, decay) < 1e-9
        assert balance_drift(run, decay) < 1e-9


class TestSymmetry:
    data = datasets.six_points()

    def flow(self, inputs: Any, targets: Any, first: Any, second: Any, **options: Any) -> Reference:
        return reference_flow(inputs, targets, first, second, slope=0.0, until=60.0, save=4, **options)

    def test_permutation_rotation_duplication(self) -> None:
        first, second = start(6, 2, 0.1, 3)
        inputs, targets = self.data.inputs, self.data.targets
        plain = self.flow(inputs, targets, first, second)
        assert plain.count("slide") > 0
        expected = Counter((event.neuron, event.kind) for event in plain.events)

        order = np.random.default_rng(0).permutation(len(inputs))
        again = self.flow(inputs[order], targets[order], first, second)
        np.testing.assert_allclose(again.first, plain.first, atol=1e-9)
        assert Counter((event.neuron, event.kind) for event in again.events) == expected

        swap = np.random.default_rng(1).permutation(len(first))
        again = self.flow(inputs, targets, first[swap], second[swap])
        np.testing.assert_allclose(again.first, plain.first[:, swap], atol=1e-9)
        assert Counter((int(swap[event.neuron]), event.kind) for event in again.events) == expected

        turn = np.array([[0.8, -0.6], [0.6, 0.8]])
        again = self.flow(inputs @ turn.T, targets, first @ turn.T, second)
        np.testing.assert_allclose(again.first, plain.first @ turn.T, atol=1e-9)
        np.testing.assert_allclose(
            [event.time for event in again.events], [event.time for event in plain.events], rtol=1e-9
        )

        again = self.flow(np.tile(inputs, (3, 1)), np.tile(targets, 3), first, second)
        np.testing.assert_allclose(again.first, plain.first, atol=1e-9)
        assert kinds(again) == kinds(plain)

    def test_zero_neurons_stay_and_do_not_disturb(self) -> None:
        first, second = start(3, 2, 0.3, 4)
        plain = self.flow(self.data.inputs, self.data.targets, first, second)
        more = self.flow(
            self.data.inputs, self.data.targets, np.vstack([first, np.zeros((1, 2))]), np.append(second, 0)
        )
        np.testing.assert_allclose(more.first[:, :3], plain.first, atol=1e-9)
        assert not more.first[:, 3].any()
        assert not more.second[:, 3].any()

    def test_the_tolerance_is_met(self) -> None:
        first, second = start(6, 2, 0.1, 3)
        tight = self.flow(self.data.inputs, self.data.targets, first, second)
        loose = self.flow(self.data.inputs, self.data.targets, first, second, rtol=1e-8)
        np.testing.assert_allclose(loose.losses, tight.losses, atol=1e-8)
        assert kinds(loose) == kinds(tight)


class TestCorners:
    def test_one_dimension(self) -> None:
        """x = ±1, target −1 for both, w₂ > 0: w = k sinh φ falls to zero, where both samples hold it for ever."""
        w, w2 = 0.4, 0.9
        k, phi = np.sqrt(w2**2 - w**2), np.arctanh(w / w2)
        when = quad(lambda x: 2 / (1 + 0.5 * k**2 * np.sinh(2 * x)), 0, phi, epsabs=1e-13)[0]
        run = reference_flow([[1.0], [-1.0]], [-1, -1], [[w]], [w2], slope=0.0, until=9.0, save=3)
        assert kinds(run) == [(0, 0, "slide")]
        assert abs(run.events[0].time - when) < 1e-10
        assert run.first[-1, 0, 0] == 0
        np.testing.assert_allclose(run.second[-1, 0], k, rtol=1e-11)
        assert energy_gap(run) < 1e-11

    def test_the_last_active_sample_is_left_behind_for_ever(self) -> None:
        """ReLU, one sample it overshoots: w is driven to the boundary and dies there."""
        run = reference_flow([[2.0, 0]], [-1], [[0.3, 0.1]], [1.0], slope=0.0, until=9.0, save=9)
        assert kinds(run) == [(0, 0, "cross")]
        np.testing.assert_allclose(run.losses[-1], 0.5, rtol=1e-12)
        np.testing.assert_allclose(run.first[-1, 0], [0, 0.1], atol=1e-12)

    def test_zero_targets_and_zero_inputs(self) -> None:
        first, second = start(4, 2, 0.5, 6)
        run = reference_flow([[1, 2], [0, 0], [-1, 1]], [0, 0, 0], first, second, slope=0.2, until=20.0, save=4)
        assert energy_gap(run) < 1e-10
        still = reference_flow([[0, 0]], [1.0], first, second, slope=0.2, until=5.0, save=2)
        np.testing.assert_array_equal(still.first[-1], first)
        assert still.rested is not None

    @pytest.mark.parametrize("slope", [0.0, 0.3])
    def test_a_start_with_vanishing_weights(self, slope: float) -> None:
        """w = 0 with w₂ ≠ 0, w ≠ 0 with w₂ = 0, and one on a line."""
        data = datasets.six_points()
        first = [[0, 0], [0, 0], [0.3, 0.2], [0.5, -0.5], [0.5, 0.5]]
        run = reference_flow(data.inputs, data.targets, first, [0.4, -0.4, 0, 0.3, 0], slope=slope, until=20, save=5)
        assert energy_gap(run) < 1e-10
        assert balance_drift(run) < 1e-10

    def test_a_run_that_does_not_end_says_so(self) -> None:
        data, (first, second) = datasets.xor(), start(6, 2, 0.1, 0)
        with pytest.raises(RuntimeError, match="more than 2 events"):
            reference_flow(data.inputs, data.targets, first, second, slope=0.0, until=20.0, save=1, max_events=2)


class TestHelpers:
    def test_lines_are_those_of_the_package(self) -> None:
        rng = np.random.default_rng(0)
        for dim in (1, 2, 3):
            inputs = np.concatenate([rng.integers(-2, 3, (12, dim)).astype(float), rng.normal(size=(3, dim))])
            ours, theirs = group(inputs), lines(inputs)
            np.testing.assert_allclose(ours[0], theirs.directions, atol=1e-15)
            np.testing.assert_array_equal(ours[1], theirs.member)
            np.testing.assert_allclose(ours[2], theirs.position, atol=1e-14)

    def test_facets_bound_what_the_sides_reach(self) -> None:
        """A point lies within all facets just when linear programming finds sides in [−1, 1] that reach it."""
        rng = np.random.default_rng(1)
        answers = Counter()
        for dim, count in ((1, 2), (2, 2), (2, 4), (3, 3), (3, 5), (4, 6)):
            columns = rng.normal(size=(dim, count))
            normals = facet_normals(columns)
            for _ in range(20):
                point = columns @ rng.uniform(-1.5, 1.5, count)
                inside = bool((normals @ point <= np.abs(normals @ columns).sum(1)).all())
                assert inside == (linprog(np.zeros(count), A_eq=columns, b_eq=point, bounds=(-1, 1)).status == 0)
                answers[inside] += 1
        assert min(answers.values()) > 20

    def test_facets_of_a_flat_set(self) -> None:
        """Two columns in the plane z = 0: bounded along z too."""
        normals = facet_normals(np.array([[1.0, 0], [0, 1], [0, 0]]))
        assert sorted(map(tuple, np.abs(np.round(normals, 12)))) == sorted(2 * [(0, 0, 1), (0, 1, 0), (1, 0, 0)])


class TestDescent:
    def test_extrapolation_meets_the_flow_where_nothing_switches(self) -> None:
        data = datasets.six_points()
        first, second = np.array([[0.9, 0.3], [-0.7, -0.4], [0.3, -0.8]]), np.array([0.4, 0.3, -0.2])
        options: dict[str, Any] = {"slope": 0.2, "until": 1.0, "weight_decay": 0.1}
        run = reference_flow(data.inputs, data.targets, first, second, save=1, **options)
        assert run.events == []
        descent = extrapolated_descent(data.inputs, data.targets, first, second, steps=50, levels=6, **options)
        np.testing.assert_allclose(descent.first, run.first[-1], atol=1e-11)
        np.testing.assert_allclose(descent.second, run.second[-1], atol=1e-11)
        assert descent.error < 1e-9

    def test_descent_converges_at_first_order_across_kinks(self) -> None:
        """Neurons cross and slide: no extrapolation helps, but descent still ends ever closer to the flow."""
        data, (first, second) = datasets.xor(), start(6, 2, 0.3, 2)
        run = reference_flow(data.inputs, data.targets, first, second, slope=0.1, until=4.0, save=1)
        assert run.count("slide") > 0
        descent = extrapolated_descent(
            data.inputs, data.targets, first, second, slope=0.1, until=4.0, steps=500, levels=4
        )
        end = np.concatenate([run.first[-1].ravel(), run.second[-1]])
        apart = np.abs(descent.levels - end).max(1)
        assert apart[-1] < 2e-3
        assert apart[-1] < 0.25 * apart[0]
