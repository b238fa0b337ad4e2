"""Six points that almost satisfy Condition 3: a long plateau at the linear solution, which some draws never leave.

Figure 6 of the journal paper, Figure 2 of the workshop paper.
"""

import functools
from typing import Any

import numpy as np

import biasfree as bf
from biasfree import measure, theory
from biasfree.studies._draws import Draw, descents, saved_network
from biasfree.studies._study import Result, Study, at_least, at_most, near

WIDTH, SCALE, RATE = 100, 1e-3, 0.025
UNTIL, SAVES, DURING = 1000, 500, 200
# How many draws are followed, how often they are saved, and a width with fewer neurons to draw.
DRAWS, QUICK_DRAWS, DRAWS_SAVES, NARROW = 20, 5, 200, 30
# How far from the linear solution's loss still counts as the plateau, and what counts as having left it for good.
BAND, LEFT = 0.01, 0.43


def _start(seed: int, width: int = WIDTH) -> bf.Network:
    return bf.Network.init([2, width, 1], 0.0, SCALE, seed)


@functools.cache
def draws(seed: int, width: int, count: int) -> list[Draw]:
    """Several draws by the journal's descent, which passes along sliding surfaces at the price of one step each."""
    starts = [_start(seed + k, width) for k in range(count)]
    sets = [bf.datasets.six_points()] * count
    return descents(starts, sets, learning_rate=RATE, steps=round(UNTIL / RATE), save=DRAWS_SAVES)


def followed(seed: int, quick: bool) -> list[Draw]:
    """The draws at the journal's width."""
    return draws(seed, WIDTH, QUICK_DRAWS if quick else DRAWS)


def stays(run: Draw) -> bool:
    """Whether a draw is still on its plateau in the end."""
    return bool(run.losses[-1] >= LEFT)


@functools.cache
def main_run(seed: int, quick: bool, protocol: str) -> bf.Trajectory | Draw:
    """The first draw that leaves its plateau, by flow, or by the journal's descent if that is asked for."""
    many = followed(seed, quick)
    first = next((run for run in many if not stays(run)), many[0])
    if quick:
        return first
    start, data = first.template, first.dataset
    if protocol == "paper":
        return bf.gradient_descent(start, data, learning_rate=RATE, steps=round(UNTIL / RATE), save=SAVES)
    return bf.gradient_flow(start, data, until=float(UNTIL), save=SAVES, stop=1e-3)


def on_plateau(run: bf.Trajectory | Draw) -> bf.Network:
    """The network in the middle of its wait."""
    return saved_network(run, int(np.searchsorted(run.times, DURING * (1 - 1e-9))))


def _plateau(run: bf.Trajectory | Draw, level: float) -> tuple[float, float]:
    """When the loss comes within the band about a level, and when it leaves it; infinite if it stays."""
    inside = np.abs(run.losses - level) <= BAND * level
    begin = int(np.argmax(inside))
    end = begin + int(np.argmin(inside[begin:]))
    return float(run.times[begin]), float("inf") if inside[begin:].all() else float(run.times[end])


def _settings(seed: int, quick: bool, protocol: str) -> dict[str, Any]:
    count = len(followed(seed, quick))
    how = "exact flow" if protocol == "flow" else f"descent at rate {RATE}"
    return {
        "width": WIDTH, "initial scale": SCALE, "slope": 0.0, "until": UNTIL,
        "draws": f"seeds {seed} to {seed + count - 1}, descent at rate {RATE}",
        "main run": "the first of the draws that leaves" if quick else how,
    }  # fmt: skip


def perturbed_symmetry(seed: int, quick: bool, protocol: str) -> Result:
    """The plateau's level and length, the map on it, and how many draws leave it."""
    data = bf.datasets.six_points()
    map_ = theory.least_squares(data)
    level = float(theory.linear_loss(map_, data))
    run, many = main_run(seed, quick, protocol), followed(seed, quick)
    reached, ended = _plateau(run, level)
    stay = [stays(each) for each in many]
    kept = [each.losses[-1] for each in many if stays(each)]
    linear = measure.linearity(on_plateau(run), data.inputs)
    exact = bf.datasets.six_points(offset=0.0)
    measured = {
        "loss at t = 100 ÷ the linear solution's": float(np.interp(100, run.times, run.losses)) / level,
        "loss at t = 400 ÷ the linear solution's": float(np.interp(400, run.times, run.losses)) / level,
        "plateau reached at t": reached,
        "plateau left at t": ended,
        "length of the plateau ÷ time to reach it": (ended - reached) / reached,
        f"distance of the linear map at t = {DURING} from least squares": float(
            np.linalg.norm(linear.linear_map - map_) / np.linalg.norm(map_)
        ),
        f"share of the output at t = {DURING} that is not linear": linear.error,
        "least loss of any width": theory.best_possible_loss(data).loss,
        "least loss of any width with exact symmetry ÷ the linear solution's": theory.best_possible_loss(exact).loss
        / theory.best_possible_loss(exact, slope=1.0).loss,
        "share of draws that leave": 1 - float(np.mean(stay)),
        "draws": float(len(stay)),
        "earliest end of a plateau": min(_plateau(each, level)[1] for each in many),
        "loss of those that stay ÷ the linear solution's": float(np.mean(kept)) / level if kept else np.nan,
    }
    why = (
        "One point moved by 0.15 makes zero loss possible, yet the network first learns the linear map and waits there "
        "many times as long as it took to get there. Whether it ever leaves is a matter of the draw: of the "
        f"{len(stay)} from seed {seed} on, {sum(stay)} stay for ever"
    )
    if not quick:
        share = float(np.mean([stays(each) for each in draws(seed, NARROW, DRAWS)]))
        measured[f"share of draws that stay at width {NARROW}"] = share
        measured[f"the same, if every neuron is a ticket of its own, from width {WIDTH}"] = float(
            np.mean(stay) ** (NARROW / WIDTH)
        )
        why += f", and {share:.0%} at width {NARROW}: each neuron is a ticket in a lottery"
    return Result(
        measured,
        expected={
            "loss at t = 100 ÷ the linear solution's": near(1.0, absolute=BAND),
            "loss at t = 400 ÷ the linear solution's": near(1.0, absolute=BAND),
            "length of the plateau ÷ time to reach it": at_least(5.0, loosely=2.0),
            f"distance of the linear map at t = {DURING} from least squares": at_most(0.01, loosely=0.05),
            "least loss of any width": at_most(0.0),
            "least loss of any width with exact symmetry ÷ the linear solution's": near(1.0, absolute=1e-9),
            # At least one; which, and how many, the seeds decide.
            "share of draws that leave": at_least(1 / len(stay)),
        },
        why=f"{why}. Neurons that wait slide along the samples' boundaries, and where such a surface turns repelling "
        "the flow is not unique: the time of leaving depends a little on how it is integrated.",
        data={
            "times": many[0].times,
            "losses": np.array([each.losses for each in many]),
            "level": level,
            "left": LEFT,
        },
        settings=_settings(seed, quick, protocol),
    )


def _boundary_distances(network: bf.Network, data: bf.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Each sample's distance to the nearest ray where f = 0, and the largest that its neighbours leave room for."""
    angles = np.linspace(-np.pi, np.pi, 7201)[:-1]
    signs = np.sign(network(np.column_stack([np.cos(angles), np.sin(angles)])))
    zeros = angles[signs != np.roll(signs, 1)]
    where, size = np.arctan2(data.inputs[:, 1], data.inputs[:, 0]), np.linalg.norm(data.inputs, axis=1)

    def nearest(to: np.ndarray, angle: float) -> float:
        return float(np.abs(np.angle(np.exp(1j * (to - angle)))).min(initial=np.pi / 2))

    nearest_zeros = np.array([nearest(zeros, a) for a in where])
    # Half way to the nearest sample of the other label.
    room = np.array([nearest(where[data.targets != y], a) / 2 for a, y in zip(where, data.targets, strict=True)])
    return size * np.sin(nearest_zeros), size * np.sin(room)


def figure_6(seed: int, quick: bool, protocol: str) -> Result:
    """The loss of one draw that leaves its plateau, and what it computes on the plateau and in the end."""
    data = bf.datasets.six_points()
    run, many = main_run(seed, quick, protocol), followed(seed, quick)
    level = float(theory.linear_loss(theory.least_squares(data), data))
    both = (on_plateau(run), saved_network(run, -1))
    correct = [float(np.mean(np.sign(network(data.inputs)) == data.targets)) for network in both]
    linear_correct = float(np.mean(np.sign(data.inputs @ theory.least_squares(data)) == data.targets))
    distance, room = _boundary_distances(both[1], data)
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
            "others": np.array([each.losses for each in many]),
            "other times": many[0].times,
            "map times": np.array([DURING, run.times[-1]]),
            "maps": [_map(network) for network in both],
            "inputs": data.inputs,
            "labels": data.targets,
        },
        settings=_settings(seed, quick, protocol),
    )


def _map(network: bf.Network, half: float = 1.5, points: int = 121) -> dict[str, Any]:
    """The output on a square around the samples."""
    axis = np.linspace(-half, half, points)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return {"half width": half, "outputs": network(grid).reshape(points, points)}


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
