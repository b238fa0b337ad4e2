"""Eq. 3's odd, nonlinear function: three layers learn it, two end at the linear solution. Figure 1 of the journal."""

import functools
from typing import Any, NamedTuple

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.studies._draws import Draw, descents, saved_network
from biasfree.studies._study import Result, Study, at_least, at_most, near


class Size(NamedTuple):
    """Of networks and data; ``until`` is when to stop to look at three layers, but for the journal's own epochs."""

    width: int
    pairs: int
    scale: float
    rate: float
    until: float


# The journal's, and one that descent is through with in less than a second.
JOURNAL, QUICK = Size(100, 100, 1e-2, 0.2, until=1600.0), Size(50, 30, 3e-2, 0.5, until=2000.0)
# The journal's epochs; a flow does not need the three-layer ones to the end.
EPOCHS = {2: 10_000, 3: 80_000}
DRAWS, SAVES, RTOL = 3, 200, 1e-5
# Parts of the linear solution's loss: where a network has left it, and where it has learned the function.
LEFT, LEARNED = 0.5, 1e-3
Run = bf.Trajectory | Draw


def size(quick: bool) -> Size:
    """What is run."""
    return QUICK if quick else JOURNAL


@functools.cache
def trained(depth: int, seed: int, draws: int, quick: bool, protocol: str) -> tuple[Run, ...]:
    """Draws of data and weights from this seed on."""
    width, pairs, scale, rate, until = size(quick)
    seeds = range(seed, seed + draws)
    data = [bf.datasets.depth_separation(pairs, seed=each) for each in seeds]
    starts = [bf.Network.init([2, *[width] * (depth - 1), 1], 0.0, scale, each) for each in seeds]
    # Two layers come to rest at one and the same place by any method.
    if quick or depth == 2 or protocol == "paper":
        steps = round(until / rate) if quick else EPOCHS[depth]
        return tuple(descents(starts, data, learning_rate=rate, steps=steps, save=SAVES))
    return tuple(
        bf.gradient_flow(start, each, until=until, save=SAVES, rtol=RTOL, stop=LEARNED * linear_loss(each))
        for start, each in zip(starts, data, strict=True)
    )


def three_layers(seed: int, quick: bool, protocol: str) -> tuple[Run, ...]:
    """Several draws: how soon they leave the linear solution is a matter of the draw."""
    return trained(3, seed, DRAWS, quick, protocol)


def both(seed: int, quick: bool, protocol: str) -> tuple[int, Run, Run]:
    """The first draw of which three layers learn the function, with two and with three layers, and its seed."""
    draws = three_layers(seed, quick, protocol)
    shown = next((k for k, run in enumerate(draws) if passing(run, LEFT) < np.inf), 0)
    return seed + shown, trained(2, seed + shown, 1, quick, protocol)[0], draws[shown]


def parts(run: Run) -> np.ndarray:
    """The loss as part of the linear solution's."""
    return run.losses / linear_loss(run.dataset)


def passing(run: Run, part: float) -> float:
    """When the loss is first below this part of the linear solution's; infinity if it never is."""
    below = parts(run) < part
    return float(run.times[int(np.argmax(below))]) if below.any() else np.inf


def linear_loss(data: bf.Dataset) -> float:
    """The least loss of a linear map."""
    return float(theory.linear_loss(theory.least_squares(data), data))


def settings(quick: bool, protocol: str) -> dict[str, Any]:
    """What was run."""
    width, pairs, scale, rate, until = size(quick)
    ends = {depth: f"until t = {until:g}" if quick else f"for {EPOCHS[depth]:,} epochs" for depth in (2, 3)}
    training = {depth: f"descent at rate {rate:g} {end}" for depth, end in ends.items()}
    if not quick and protocol == "flow":
        training[3] = f"flow at rtol {RTOL:g} until t = {until:g} or the function is learned"
    return {
        "width": width, "initial scale": scale, "slope": 0.0, "pairs": pairs, "draws": DRAWS,
        "two layers": training[2], "three layers": training[3],
    }  # fmt: skip


def depth_separation(seed: int, quick: bool, protocol: str) -> Result:
    """What both depths could reach by theory, and what they reach in training."""
    three, (_, two, _) = three_layers(seed, quick, protocol), both(seed, quick, protocol)
    data, linear = two.dataset, linear_loss(two.dataset)
    target = theory.depth_separation_network()(data.inputs)
    leaving = np.array([passing(run, LEFT) for run in three])
    ends = [float(parts(run)[-1]) for run in three]
    return Result(
        measured={
            "two layers: loss ÷ the linear solution's": float(parts(two)[-1]),
            "two layers: least loss of any width ÷ the linear solution's": theory.best_possible_loss(data).loss
            / linear,
            "three layers: lowest loss of a draw ÷ the linear solution's": min(ends),
            "three layers: least loss of any width": theory.best_possible_loss(data, depth=3).loss,
            "Eq. 3's network against the targets": float(np.abs(target - data.targets).max()),
            "three layers: highest loss of a draw ÷ the linear solution's": max(ends),
            "three layers: share of draws that left the linear solution": float(np.mean(np.isfinite(leaving))),
            "three layers: first draw left at t": float(leaving.min()),
            "three layers: last draw left at t": float(leaving.max()),
            "three layers: looked until t": max(float(run.times[-1]) for run in three),
        },
        expected={
            "two layers: loss ÷ the linear solution's": near(1.0, absolute=1e-3),
            "two layers: least loss of any width ÷ the linear solution's": near(1.0, absolute=1e-9),
            "three layers: lowest loss of a draw ÷ the linear solution's": at_most(LEARNED, loosely=0.05),
            "three layers: least loss of any width": at_most(1e-20),
            "Eq. 3's network against the targets": at_most(1e-12),
        },
        why="g is odd, so two layers of any width can do no better than the linear map. Three layers learn the linear "
        "map first as well. For them it is a saddle, which they leave in the end, but when depends on the weights, the "
        "data and the solver, since it is small errors that lead away from a saddle: some draws are still there when "
        "one stops to look. The share that left and the times stand above.",
        data={
            "times": {"two": [two.times], "three": [run.times for run in three]},
            "parts": {"two": [parts(two)], "three": [parts(run) for run in three]},
        },
        settings=settings(quick, protocol),
    )


def figure_1(seed: int, quick: bool, protocol: str) -> Result:
    """The target, and what a two-layer and a three-layer network have learned of it, on a grid."""
    shown, two, three = both(seed, quick, protocol)
    axis = np.linspace(-2.5, 2.5, 100)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    target, *learned = (
        each(grid) for each in (theory.depth_separation_network(), saved_network(two, -1), saved_network(three, -1))
    )
    norm = np.linalg.norm(target)

    def apart(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.linalg.norm(first - second) / norm)

    best = grid @ theory.least_squares(bf.Dataset(grid, target))
    return Result(
        measured={
            "two layers: distance from least squares": apart(learned[0], grid @ theory.least_squares(two.dataset)),
            "two layers: distance from the target": apart(learned[0], target),
            "three layers: distance from the target": apart(learned[1], target),
            "three layers: failure to be odd": apart(learned[1], -learned[1][::-1]),
            "three layers: time at the linear solution": passing(three, LEFT) - passing(three, 1.1),
            "three layers: learned at t": passing(three, 0.01),
            "seed of the draw shown": float(shown),
        },
        expected={
            "two layers: distance from least squares": at_most(0.02, loosely=0.1),
            # What no linear map betters on this grid, less the distance above.
            "two layers: distance from the target": at_least(apart(best, target) - 0.02),
            "three layers: distance from the target": at_most(0.05, loosely=0.15),
            "three layers: failure to be odd": at_most(0.05, loosely=0.15),
        },
        why="Two layers end at the best linear map. Three layers become the target everywhere in the plane, not only "
        "on the samples: both are positively homogeneous, and the samples' rays are dense.",
        data={
            "half width": float(axis[-1]),
            "maps": [each.reshape(len(axis), len(axis)) for each in (target, *learned)],
            "inputs": two.dataset.inputs,
            "times": [run.times for run in (two, three)],
            "losses": [run.losses for run in (two, three)],
            "level": linear_loss(two.dataset),
        },
        settings=settings(quick, protocol),
    )


STUDIES = (
    Study(
        id="depth-separation",
        title="Three layers express what two cannot",
        reference="Zhang et al., Section 3.2, Eq. 3",
        statement="There are odd functions that three-layer ReLU networks without biases express and learn, and "
        "two-layer ones of whatever width do not: those stop at the linear solution.",
        formula="g(x) = σ(σ(x₁) − σ(x₂)) − σ(σ(−x₁) − σ(−x₂))",
        run=depth_separation,
    ),
    Study(
        id="tmlr-figure-1",
        title="Depth separation in pictures",
        reference="Zhang et al., journal version, Figure 1",
        statement="Trained on the odd function of Eq. 3, a two-layer network ends at a linear map and a three-layer "
        "one at the function itself.",
        formula="g(x) = σ(σ(x₁) − σ(x₂)) − σ(σ(−x₁) − σ(−x₂))",
        run=figure_1,
    ),
)
