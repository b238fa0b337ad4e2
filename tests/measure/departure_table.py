"""Six points: departure times and the share of draws that stay, over asymmetry, scale and width, beside the law.

``python -m tests.measure.departure_table`` prints the table of docs/plateaus.md; ``--figure docs/departure.png`` also
draws the README's picture. Twenty draws at one width take some two minutes on one core.
"""

import argparse
import itertools

import numpy as np

import biasfree as bf
from biasfree import theory
from biasfree.report.figures import figures
from biasfree.studies.departure import BELOW

OFFSETS, SCALES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3), (1e-3, 1e-6, 1e-12, 1e-24, 1e-50)
# Lines of the picture: where most draws leave.
SHOWN, MOST_STAY = 4, 0.9


def departure_times(offset: float, scale: float, width: int, draws: int, until: float) -> np.ndarray:
    """When each draw is 3 % of the first loss below least squares; infinite for those that stay."""
    data = bf.datasets.six_points(offset)
    level = float(theory.linear_loss(theory.least_squares(data), data)) - BELOW * 0.5
    times = []
    for seed in range(draws):
        run = bf.gradient_flow(bf.Network.init([2, width, 1], 0.0, scale, seed), data, until=until, stop=level)
        times.append(float(run.times[-1]) if run.status.name == "loss level" else np.inf)
    return np.array(times)


def law(offset: float, scale: float, width: int) -> theory.Departure:
    """The law for this data, scale and width."""
    return theory.departure(bf.datasets.six_points(offset), init_scale=scale, width=width)


def row(offset: float, scale: float, width: int, draws: int) -> tuple[np.ndarray, float]:
    """Print one cell; the draws' times, and the law's."""
    told = law(offset, scale, width)
    longest = 2 * told.time if np.isfinite(told.time) else 2 * (np.log(1 / scale) + 10) * 9.5 / offset
    times = departure_times(offset, scale, width, draws, longest)
    print(
        f"δ = {offset:<5g} γ = {scale:<6g} width {width:<4d} t·δ = {_middle(times) * offset:7.1f} / "
        f"{told.time * offset:7.1f} stay {np.isinf(times).sum():2d} / {draws * told.stays(width):4.1f} of {draws}",
        flush=True,
    )
    return times, told.time


def _middle(times: np.ndarray) -> float:
    """Of the draws that leave."""
    left = times[np.isfinite(times)]
    return float(np.median(left)) if left.size else np.nan


def slopes(offset: float, scales: list[float], cells: list[tuple[np.ndarray, float]]) -> None:
    """Print δ·dt/d ln(1/γ) from each scale to the next, of draws that leave at both, and the law's."""
    for k, (one, two) in enumerate(itertools.pairwise(cells)):
        both, folds = np.isfinite(one[0]) & np.isfinite(two[0]), np.log(scales[k] / scales[k + 1])
        if both.any():
            measured = float(np.median(two[0][both] - one[0][both])) * offset / folds
            told = (two[1] - one[1]) * offset / folds
            print(
                f"δ = {offset:<5g} {scales[k]:g} to {scales[k + 1]:g}: slope·δ {measured:.3f} / {told:.3f}, "
                f"{both.sum()} draws"
            )


def main() -> None:
    """All cells asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--widths", type=int, nargs="+", default=[100])
    parser.add_argument("--offsets", type=float, nargs="+", default=list(OFFSETS))
    parser.add_argument("--scales", type=float, nargs="+", default=list(SCALES))
    parser.add_argument("--figure", help="where to write the picture, of the first width")
    asked = parser.parse_args()
    found = {
        (width, x, s): row(x, s, width, asked.draws)
        for width in asked.widths
        for x in asked.offsets
        for s in asked.scales
    }
    for width, x in itertools.product(asked.widths, asked.offsets):
        slopes(x, asked.scales, [found[width, x, s] for s in asked.scales])
    if asked.figure:
        width, scales = asked.widths[0], asked.scales[:SHOWN]
        fine = np.geomspace(0.8 * min(asked.offsets), 1.07 * max(x for x in asked.offsets if x < 0.2), 25)
        laws = [[law(float(x), s, width) for x in fine] for s in scales]
        lines = [[one.time if one.stays(width) < MOST_STAY else np.nan for one in rows] for rows in laws]
        times = np.array([[_middle(found[width, x, s][0]) for x in asked.offsets] for s in scales])
        data = {"offsets": asked.offsets, "scales": scales, "times": times, "law offsets": fine, "law": np.array(lines)}
        bf.report.save_figure(figures("departure-law", data)["departure-law"], asked.figure)


if __name__ == "__main__":
    main()
