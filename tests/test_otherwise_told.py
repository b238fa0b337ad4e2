"""The same problem told in other words has the same flow: turned, mirrored, reordered, neurons or samples doubled.

These are truths about any problem, and nothing of ours tells them. Neurons in halves, (w, v)/√2 twice each, are one
output and one velocity; merging, the closed form of the early phase and steps meet them in other ways than whole ones.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import biasfree as bf
from tests.random_problems import is_large, wide_problem, wide_problem_of_several
from tests.wide import (
    LOOSE,
    REFUSED,
    ROOM,
    SAVES,
    SEPARATRIX,
    TIGHT,
    amplification,
    branched,
    distance,
    last_common,
)

Layers = tuple[np.ndarray, np.ndarray]
MOST_SPLIT = 60  # neurons; twice as many take four times as long


def told_otherwise(
    seed: int, start: bf.Network, data: bf.Dataset
) -> Iterator[tuple[str, Layers, Layers, Callable[[np.ndarray, np.ndarray], Layers]]]:
    """Names; weights and data, otherwise told; and the way back, for weights at several times."""
    rng, (first, second) = np.random.default_rng([seed, 4242]), map(np.asarray, start.weights)
    inputs, targets = np.asarray(data.inputs), np.asarray(data.targets)
    dim, width = inputs.shape[1], len(first)
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    yield "turned", (first @ turn, second), (inputs @ turn, targets), lambda w, v: (w @ turn.T, v)
    axes = np.eye(dim)[rng.permutation(dim)] * rng.choice([-1.0, 1.0], dim)
    yield "mirrored", (first @ axes, second), (inputs @ axes, targets), lambda w, v: (w @ axes.T, v)
    neurons, samples = rng.permutation(width), rng.permutation(len(inputs))
    back = np.argsort(neurons)
    yield (
        "in another order", (first[neurons], second[:, neurons]), (inputs[samples], targets[samples]),
        lambda w, v: (w[:, back], v[..., back]),
    )  # fmt: skip
    yield (
        "samples twice", (first, second), (np.concatenate([inputs] * 2), np.concatenate([targets] * 2)),
        lambda w, v: (w, v),
    )  # fmt: skip
    if width <= MOST_SPLIT:
        half = math.sqrt(0.5)
        split = half * np.concatenate([first] * 2), half * np.concatenate([second] * 2, axis=1)
        yield "in halves", split, (inputs, targets), lambda w, v: (w[:, width:] / half, v[..., width:] / half)


def faults(seed: int, several: bool) -> list[str]:
    """Ways of telling a wide problem in which its flow is another one, and nothing excuses that."""
    start, data, options = (wide_problem_of_several if several else wide_problem)(seed)
    given = {**options, "save": SAVES, "rtol": LOOSE}
    plain, found = bf.gradient_flow(start, data, **given), list[str]()
    for name, weights, samples, back in told_otherwise(seed, start, data):
        run = bf.gradient_flow(bf.Network(weights, start.slope), bf.Dataset(*samples), **given)
        if not (run.status.complete and plain.status.complete):
            assert {run.status.name, plain.status.name} & {*REFUSED, "step limit"}
            continue
        run = dataclasses.replace(run, weights=back(*run.weights))
        difference = distance(plain, run)
        if difference <= ROOM * LOOSE or branched(plain) or branched(run):
            continue
        tight = bf.gradient_flow(start, data, **{**given, "rtol": TIGHT})
        grows = amplification(tight, start, data, options, last_common(plain, run))
        if not (grows > SEPARATRIX and difference <= ROOM * LOOSE * grows):
            found.append(f"seed {seed} {name}: {difference:.1e}, amplification {grows:.1e}")
    return found


@pytest.mark.parametrize("several", [False, True], ids=["one output", "several"])
@pytest.mark.parametrize("begin", [40_000, 40_010, 40_020])
def test_the_flow_is_the_same(begin: int, several: bool) -> None:
    assert not [fault for seed in range(begin, begin + 10) if not is_large(seed) for fault in faults(seed, several)]


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True], ids=["one output", "several"])
@pytest.mark.parametrize("begin", range(30_000, 30_200, 20))
def test_so_it_is_for_many(begin: int, several: bool) -> None:
    assert not [fault for seed in range(begin, begin + 20) if not is_large(seed) for fault in faults(seed, several)]


@pytest.mark.parametrize("seed", [30_021, 30_080])
def test_small_differences_between_parallel_neurons_keep_their_digits(seed: int) -> None:
    """Both come to a plateau that they leave by what neurons differ by, 1e-60 of themselves after 200 e-folds.

    It was lost in the closed form of the early phase, and where a neuron of 1e-24 was merged with one of 1: whole or in
    halves the network stayed there for good, "reached", 9/10 of its weights off, and by turns at other tolerances.
    """
    assert not faults(seed, several=True)
