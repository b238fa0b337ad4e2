"""The papers' figures: ``biasfree reproduce`` as a user runs it beside plain PyTorch descent at the papers' rates.

Ours is timed whole, in a process of its own without any compiled function to start from: imports, compilation,
measurements and pictures included. The peer is given no pictures and no measurements, only its steps; a part of them is
timed and the whole follows in proportion. It runs both ways in which its threads can wait, and the quicker one counts.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import biasfree as bf
from bench._clock import quicker_way, say, timed
from biasfree.studies import depth_separation, figure_3, figure_5, figures_4_8, perturbed_symmetry

FIGURES = tuple(f"tmlr-figure-{number}" for number in (1, 3, 4, 5, 6, 8))
SEED, THREADS, ROUNDS = 0, 2, 5
# Figure 3's epochs are not in the papers: all slopes have come to the linear solution's loss by then.
FIGURE_3_STEPS = 10_000


@dataclass(frozen=True)
class Descent:
    """One run of a figure, as the papers did it."""

    figure: str
    start: bf.Network
    data: bf.Dataset
    rate: float
    steps: int
    loss: str = "square"

    def seconds(self, quick: bool) -> float:
        """PyTorch's seconds for the whole run, from the median turn of some steps."""
        from bench._peers import TorchDescent

        weights = tuple(np.asarray(w) for w in self.start.weights)
        loop = TorchDescent(self.data, weights, self.rate, THREADS, self.start.slope, self.loss)
        loop.advance(20)
        steps = 40 if quick else 150
        turns = [timed(lambda: loop.advance(steps))[0] for _ in range(2 if quick else ROUNDS)]
        return self.steps / steps * median(turns)


def descents() -> Iterator[Descent]:
    """Every run that the figures show."""
    size = depth_separation.JOURNAL
    data = bf.datasets.depth_separation(size.pairs, seed=SEED)
    for depth, epochs in depth_separation.EPOCHS.items():
        start = bf.Network.init([2, *[size.width] * (depth - 1), 1], 0.0, size.scale, SEED)
        yield Descent("tmlr-figure-1", start, data, size.rate, epochs)
    data = bf.datasets.symmetric_gaussian(figure_3.DIM, figure_3.PAIRS, "linear_plus_sine", seed=SEED)
    for slope in (*figure_3.SLOPES, 1.0):
        start = bf.Network.init([figure_3.DIM, figure_3.WIDTH, 1], slope, figure_3.SCALE, SEED)
        yield Descent("tmlr-figure-3", start, data, figure_3.RATE, FIGURE_3_STEPS)
    for figure, loss, longer in (("tmlr-figure-4", "square", 1), ("tmlr-figure-8", "logistic", 2)):
        rate = figures_4_8.RATES[loss]
        start = bf.Network.init([2, figures_4_8.WIDTH, 1], 0.0, figures_4_8.SCALE, SEED)
        for name, data in (("orthogonal inputs", bf.datasets.orthogonal_pair()), ("XOR", bf.datasets.xor())):
            steps = round(longer * figures_4_8.UNTIL[name] / rate)
            yield Descent(figure, start, data, rate, steps, loss)
    data = bf.datasets.symmetric_gaussian(figure_5.DIM, figure_5.PAIRS, "linear", seed=SEED)
    for slope in (0.0, 1.0):
        widths = [figure_5.DIM, figure_5.WIDTH, figure_5.WIDTH, 1]
        start = bf.Network.init(widths, slope, figure_5.SCALE, SEED)
        yield Descent("tmlr-figure-5", start, data, figure_5.RATE, round(figure_5.END / figure_5.RATE))
    start = bf.Network.init([2, perturbed_symmetry.WIDTH, 1], 0.0, perturbed_symmetry.SCALE, SEED)
    steps = round(perturbed_symmetry.UNTIL / perturbed_symmetry.RATE)
    yield Descent("tmlr-figure-6", start, bf.datasets.six_points(), perturbed_symmetry.RATE, steps)


def peer_seconds(figure: str, quick: bool) -> tuple[float, dict[str, float]]:
    """PyTorch's seconds for all runs of a figure: those of the quicker way to wait, and of each."""
    return quicker_way("_paper", figure, int(quick))


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of both, figure by figure for the peer, and the ratio."""
    say("the papers' figures: biasfree reproduce, nothing compiled before")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-c", "from biasfree.cli import main; main()", "reproduce", *FIGURES,
            "--seed", str(SEED), "--out", f"{folder}/report", "--jobs", str(THREADS), "--quiet",
        ]  # fmt: skip
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{folder}/compiled"}
        ours, _ = timed(lambda: subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL))
    peer, waiting = {}, {}
    for figure in FIGURES:
        say(f"{figure}: PyTorch descent, in proportion")
        peer[figure], waiting[figure] = peer_seconds(figure, quick)
    steps = {figure: sum(run.steps for run in descents() if run.figure == figure) for figure in FIGURES}
    total = sum(peer.values())
    return {
        "settings": {"seed": SEED, "threads": THREADS, "steps": steps},
        "ours_seconds": ours,
        "peer_seconds": peer,
        "peer_waiting": waiting,
        "peer_total_seconds": total,
        "ratio": total / ours,
        "extrapolated": True,
    }


if __name__ == "__main__":
    print(json.dumps(sum(run.seconds(sys.argv[2] == "1") for run in descents() if run.figure == sys.argv[1])))
