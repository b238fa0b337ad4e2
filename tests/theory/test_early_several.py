"""The early phase of several outputs on any data, beside a general solver and the theory of one output."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from biasfree import Dataset, Network, datasets, theory


def problem(seed: int, outputs: int = 3) -> tuple[Dataset, Network]:
    rng = np.random.default_rng(seed)
    data = Dataset(rng.normal(size=(6, 3)), rng.normal(size=(6, outputs)))
    return data, Network.init([3, 6, outputs], slope=0.1, init_scale=1e-6, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_neurons_that_cross_against_a_general_solver(seed: int) -> None:
    data, network = problem(seed)
    flow = theory.early_flow_several(network, data)
    first, second = (np.asarray(w) for w in network.weights)

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        w, v = state[:3], state[3:]
        signal = data.inputs @ w
        gains = np.where(signal > 0, 1.0, 0.1)
        return np.concatenate([(gains * (data.targets @ v)) @ data.inputs, data.targets.T @ (gains * signal)]) / 6

    slid = set(flow.switches.neurons[flow.switches.kinds != "cross"].tolist())
    checked = 0
    for h in set(range(6)) - slid:
        state = np.concatenate([first[h], second[:, h]])
        found = solve_ivp(velocity, (0, 3), state, "DOP853", rtol=1e-9, atol=1e-16, max_step=0.01).y[:, -1]
        there = flow.at(3.0)
        reached = np.concatenate([np.asarray(there.weights[0])[h], np.asarray(there.weights[1])[:, h]])
        assert np.linalg.norm(reached - found) < 1e-4 * np.linalg.norm(found)
        checked += 1
    assert checked


def test_limits_are_what_late_neurons_tend_to() -> None:
    data, network = problem(7)
    flow = theory.early_flow_several(network, data)
    growing = np.flatnonzero(flow.rate > 0)
    late = flow.at(200.0)
    for h in growing:
        w, v = np.asarray(late.weights[0])[h], np.asarray(late.weights[1])[:, h]
        assert w / np.linalg.norm(w) == pytest.approx(flow.limit_direction[h], abs=1e-6)
        assert v / np.linalg.norm(v) == pytest.approx(flow.limit_output[h], abs=1e-6)
        assert np.log(np.linalg.norm(w)) == pytest.approx(flow.log_amplitude[h] + 200 * flow.rate[h], abs=1e-6)


def test_one_output_is_the_old_theory() -> None:
    data, network = problem(3, outputs=1)
    old, new = theory.early_flow(network, data), theory.early_flow_several(network, data)
    np.testing.assert_allclose(new.rate, np.maximum(old.rate, 0), atol=1e-10)
    growing = old.rate > 0
    np.testing.assert_allclose(new.limit_direction[growing], old.limit_direction[growing], atol=1e-8)
    np.testing.assert_allclose(new.limit_output[growing, 0], old.limit_sign[growing])
    np.testing.assert_allclose(new.log_amplitude[growing], old.log_amplitude[growing], atol=1e-8)


def test_symmetric_data_have_the_modes_of_the_twin() -> None:
    data, network = problem(5)
    symmetric = data.symmetrised()
    flow, modes = theory.early_flow_several(network, symmetric), theory.growing_modes(network, symmetric)
    assert len(flow.directions) == 0
    np.testing.assert_allclose(flow.rate, modes.rates[0])
    np.testing.assert_allclose(np.abs(flow.limit_direction @ modes.inputs[0]), 1, atol=1e-9)
    np.testing.assert_allclose(np.exp(flow.log_amplitude), np.abs(modes.readouts[0]), rtol=1e-8)
    first, second = theory.early_solution(4.0, network, symmetric)
    np.testing.assert_allclose(flow.at(4.0).weights[0], first, rtol=1e-9, atol=1e-18)
    np.testing.assert_allclose(flow.at(4.0).weights[1], second, rtol=1e-9, atol=1e-18)


def test_a_direction_that_lies_on_a_line_is_not_crossed_again_and_again() -> None:
    # Either sample's neurons gather across the other sample's line.
    data = datasets.orthogonal_pair()
    padded = Dataset(data.inputs, np.column_stack([data.targets, np.zeros(data.samples)]))
    start = Network.init([2, 20, 1], slope=0.0, init_scale=1e-12, seed=0)
    grown = theory.early_flow(start, data).at(25.0)
    for scale in (1.0, 1e12):
        one = theory.early_flow(start.with_weights([scale * np.asarray(layer) for layer in grown.weights]), data)
        wide = [one.network.weights[0], np.concatenate([one.network.weights[1], np.zeros((1, 20))])]
        two = theory.early_flow_several(Network(wide, 0.0), padded)
        np.testing.assert_allclose(two.rate, np.maximum(one.rate, 0.0), atol=1e-12)
