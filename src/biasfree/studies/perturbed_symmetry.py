"""Six points that almost satisfy Condition 3: a long plateau at the linear solution, which some draws never leave.

Figure 6 of the journal paper, Figure 2 of the workshop paper.
"""

import functools
from typing import Any

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.studies._study import Result, Study, at_least, at_most, near

WIDTH, SCALE, RATE = 100, 1e-3, 0.025
UNTIL, SAVES = 1000, 500
DRAWS, QUICK_DRAWS, TRIES = 10, 4, 3
# How far from the linear solution's loss still counts as the plateau, and what counts as having left it for good.
BAND, LEFT = 0.01, 0.43


def _start(seed: int) -> bf.Network:
    return bf.Network.init([2, WIDTH, 1], 0.0, SCALE, seed)


@functools.cache
def descents(seed: int, quick: bool) -> tuple[bf.Trajectory, ...]:
    """Several draws by the journal's own descent, which passes along sliding surfaces at the price of one step each."""
    steps = round(UNTIL / RATE)
    return tuple(
        bf.gradient_descent(_start(seed + k), bf.datasets.six_points(), learning_rate=RATE, steps=steps, save=SAVES)
        for k in range(QUICK_DRAWS if quick else DRAWS)
    )


@functools.cache
def main_run(seed: int, quick: bool, protocol: str) -> tuple[bf.Trajectory, int]:
    """The first draw that leaves its plateau, by flow unless descent is asked for, and how many flows stayed before."""
    draws = descents(seed, quick)
    leaving = [k for k, run in enumerate(draws) if run.losses[-1] < LEFT] or [0]
    if quick or protocol == "paper":
        return draws[leaving[0]], 0
    stayed = 0
    for k in leaving[:TRIES]:
        # Sliding neurons make tight tolerances dear; this one places the end of the plateau to about 2 %.
        run = bf.gradient_flow(
            _start(seed + k), bf.datasets.six_points(), until=float(UNTIL), save=SAVES, rtol=3e-5, stop=1e-3
        )
        if run.losses[-1] < LEFT:
            break
        stayed += 1
    return run, stayed


def _plateau(run: bf.Trajectory, level: float) -> tuple[float, float]:
    """When the loss comes within the band about a level, and when it leaves it; infinite if it stays."""
    inside = np.abs(run.losses - level) <= BAND * level
    begin = int(np.argmax(inside))
    end = begin + int(np.argmin(inside[begin:]))
    return float(run.times[begin]), float("inf") if inside[begin:].all() else float(run.times[end])


def _settings(seed: int, quick: bool, protocol: str) -> dict[str, Any]:
    return {
        "width": WIDTH, "initial scale": SCALE, "slope": 0.0, "rate of descent": RATE, "until": UNTIL,
        "draws": f"{QUICK_DRAWS if quick else DRAWS}, seeds from {seed}",
        "main run": "descent" if quick or protocol == "paper" else "flow, rtol 3e-5",
    }  # fmt: skip


def perturbed_symmetry(seed: int, quick: bool, protocol: str) -> Result:
    """The plateau's level and length, the map on it, and how many draws leave it."""
    data = bf.datasets.six_points()
    map_ = theory.least_squares(data)
    level = float(theory.linear_loss(map_, data))
    (run, stayed), draws = main_run(seed, quick, protocol), descents(seed, quick)
    reached, ended = _plateau(run, level)
    ends = [_plateau(each, level)[1] for each in draws]
    staying = [each for each in draws if each.losses[-1] >= LEFT]
    linear = measure.linearity(run.networks[int(np.searchsorted(run.times, 200))], data.inputs)
    exact = bf.datasets.six_points(offset=0.0)
    return Result(
        measured={
            "loss at t = 100 ÷ the linear solution's": float(np.interp(100, run.times, run.losses)) / level,
            "loss at t = 400 ÷ the linear solution's": float(np.interp(400, run.times, run.losses)) / level,
            "plateau reached at t": reached,
            "plateau left at t": ended,
            "length of the plateau ÷ time to reach it": (ended - reached) / reached,
            "distance of the linear map at t = 200 from least squares": float(
                np.linalg.norm(linear.linear_map - map_) / np.linalg.norm(map_)
            ),
            "share of the output at t = 200 that is not linear": linear.error,
            "least loss of any width": theory.best_possible_loss(data).loss,
            "least loss of any width with exact symmetry ÷ the linear solution's": theory.best_possible_loss(exact).loss
            / theory.best_possible_loss(exact, slope=1.0).loss,
            "draws that leave by t = 1000, by descent": float(len(draws) - len(staying)),
            "share of draws that stay": len(staying) / len(draws),
            "earliest end of a plateau": min(ends),
            "draws that left by descent and stayed by flow at rtol 3e-5": float(stayed),
            "loss of those that stay ÷ the linear solution's": float(
                np.mean([each.losses[-1] for each in staying]) / level if staying else np.nan
            ),
        },
        expected={
            "loss at t = 100 ÷ the linear solution's": near(1.0, absolute=BAND),
            "loss at t = 400 ÷ the linear solution's": near(1.0, absolute=BAND),
            "length of the plateau ÷ time to reach it": at_least(5.0, loosely=2.0),
            "distance of the linear map at t = 200 from least squares": at_most(0.01, loosely=0.05),
            "least loss of any width": at_most(0.0),
            "least loss of any width with exact symmetry ÷ the linear solution's": near(1.0, absolute=1e-9),
            "draws that leave by t = 1000, by descent": at_least(1.0),
        },
        why="One point moved by 0.15 makes zero loss possible, yet the network first learns the linear map and waits "
        "there about ten times as long as it took to get there. Whether it leaves depends on the draw: of the weights "
        "of seeds 0 to 9 those of 1 and 7 stay for ever, as about 28 % do at this width (82 % at width 30, 3 % at "
        "300). Where a surface that neurons slide on turns repelling the flow is not unique: the time of leaving, and "
        "at loose tolerances now and then whether, depends on how it is integrated.",
        data={
            "times": draws[0].times,
            "losses": np.array([each.losses for each in draws]),
            "level": level,
            "width": WIDTH,
        },
        settings=_settings(seed, quick, protocol),
    )


def _boundary_distances(network: bf.Network, data: bf.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Each sample's distance to the nearest ray where f = 0, and the largest that its neighbours leave room for."""
    angles = np.linspace(-np.pi, np.pi, 7201)[:-1]
    signs = np.sign(np.asarray(network(np.column_stack([np.cos(angles), np.sin(angles)]))))
    zeros = angles[signs != np.roll(signs, 1)]
    where, size = np.arctan2(data.inputs[:, 1], data.inputs[:, 0]), np.linalg.norm(data.inputs, axis=1)

    def nearest(to: np.ndarray, angle: float) -> float:
        return float(np.abs(np.angle(np.exp(1j * (to - angle)))).min(initial=np.pi / 2))

    found = np.array([nearest(zeros, a) for a in where])
    # Half way to the nearest sample of the other label.
    room = np.array([nearest(where[data.targets != y], a) / 2 for a, y in zip(where, data.targets, strict=True)])
    return size * np.sin(found), size * np.sin(room)


def figure_6(seed: int, quick: bool, protocol: str) -> Result:
    """The loss of one draw that leaves its plateau, and what it computes on the plateau and in the end."""
    data = bf.datasets.six_points()
    run, _ = main_run(seed, quick, protocol)
    level = float(theory.linear_loss(theory.least_squares(data), data))
    during = run.networks[int(np.searchsorted(run.times, 200))]
    correct = [float(np.mean(np.sign(np.asarray(n(data.inputs))) == data.targets)) for n in (during, run.final)]
    linear_correct = float(np.mean(np.sign(data.inputs @ theory.least_squares(data)) == data.targets))
    distance, room = _boundary_distances(run.final, data)
    return Result(
        measured={
            "loss in the end ÷ the linear solution's": float(run.losses[-1]) / level,
            "accuracy on the plateau": correct[0],
            "accuracy of the linear solution": linear_correct,
            "accuracy in the end": correct[1],
            "smallest distance to a decision boundary ÷ half way to the other label": float((distance / room).min()),
            "smallest distance to a decision boundary": float(distance.min()),
        },
        expected={
            "loss in the end ÷ the linear solution's": at_most(0.01, loosely=0.1),
            "accuracy on the plateau": near(linear_correct),
            "accuracy in the end": near(1.0),
            "smallest distance to a decision boundary ÷ half way to the other label": at_most(0.5, loosely=1.0),
        },
        why="On the plateau the network classifies like the linear solution, which gets the two middle points wrong; "
        "afterwards it fits all six, but bends its decision boundary around the points on narrow wedges.",
        data={
            "times": run.times,
            "losses": run.losses,
            "level": level,
            "others": np.array([each.losses for each in descents(seed, quick)]),
            "other times": descents(seed, quick)[0].times,
            "map times": np.array([run.times[int(np.searchsorted(run.times, 200))], run.times[-1]]),
            "maps": [_map(network) for network in (during, run.final)],
            "inputs": data.inputs,
            "labels": data.targets,
        },
        settings=_settings(seed, quick, protocol),
    )


def _map(network: bf.Network, half: float = 1.5, points: int = 121) -> dict[str, Any]:
    """The output on a square around the samples."""
    axis = np.linspace(-half, half, points)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return {"half width": half, "outputs": np.asarray(network(grid)).reshape(points, points)}


STUDIES = (
    Study(
        id="perturbed-symmetry",
        title="Almost symmetric data: a long plateau",
        reference="Zhang et al., Appendix B and Figure 2 (journal Figure 6)",
        statement="On data that satisfy Condition 3 but for one slightly moved point, a two-layer ReLU network can "
        "find a nonlinear solution of zero loss, but first stays on a long plateau at the linear solution; some "
        "initial weights never leave it.",
        formula="L ≈ min_w ½⟨(y − wᵀx)²⟩ = 0.4436 on the plateau, 0 afterwards",
        run=perturbed_symmetry,
    ),
    Study(
        id="tmlr-figure-6",
        title="Six points: on the plateau and after",
        reference="Zhang et al., journal version, Figure 6 (workshop Figure 2)",
        statement="The loss goes through a plateau to zero; on the plateau the output is nearly linear, in the end the "
        "decision boundaries run close to the samples.",
        formula="",
        run=figure_6,
        aliases=("workshop-figure-2",),
    ),
)
