"""One run as a moving picture: the output map, the neurons and the loss."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from biasfree import checks, files
from biasfree.dynamics import Trajectory
from biasfree.report._planes import neuron_colours, plane_of
from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".gif", ".mp4")
_GRID, _SAMPLES = 61, 400


def animate(
    trajectory: Trajectory, path: str | os.PathLike[str] | None = None, *, frames: int = 60, seconds: float = 6.0
) -> Any:
    """The output map, the neurons and the loss of a run over time, as a GIF or MP4.

    Data of two dimensions are shown as they are. Of others, the plane of the two directions along which the inputs
    are largest is shown: the output at points of that plane, samples and neurons projected on it.

    Args:
        trajectory: a run of a network with one output.
        path: ends in .gif or .mp4, which needs ffmpeg; None to have the animation for a notebook.
        frames: at most so many saved networks, chosen evenly in time and in the loss's fall.
        seconds: how long it takes.

    Returns:
        The matplotlib animation.

    Raises:
        ValueError: several outputs, a path that cannot be written, MP4 without ffmpeg.
    """
    import matplotlib as mpl
    from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if trajectory.dataset.outputs != 1:
        raise ValueError(f"an animation shows one output, and this network has {trajectory.dataset.outputs}.")
    frames, seconds = checks.count(frames, "frames", least=2), checks.positive(seconds, "seconds")
    target = None if path is None else film_target(path)
    chosen = moments(trajectory.times, trajectory.losses, frames)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        shown = _Frame(figure, trajectory, chosen)
        shown.draw(len(chosen) - 1)
        canvas.draw()
        # Laid out once: frames differ in what they show, not in where.
        figure.set_layout_engine("none")
        rate = max(1.0, len(chosen) / seconds)
        film = FuncAnimation(figure, shown.draw, frames=len(chosen), interval=1000 / rate, blit=False)
        if target is not None:
            kind = PillowWriter if target.suffix.lower() == ".gif" else FFMpegWriter
            with files.written_whole(target) as draft:
                film.save(str(draft), writer=kind(fps=round(rate)), dpi=110)
    return film


def film_target(path: str | os.PathLike[str]) -> Path:
    """The path, if a film can be written there.

    Raises:
        ValueError: another ending, a path that cannot be written, MP4 without ffmpeg.
    """
    from matplotlib.animation import FFMpegWriter

    target = files.writable(path, FORMATS)
    if target.suffix.lower() == ".mp4" and not FFMpegWriter.isAvailable():
        raise ValueError(f"cannot write {target}: MP4 needs the program ffmpeg, which was not found. Write a .gif.")
    return target


def moments(
    times: Float[np.ndarray, "saved"], losses: Float[np.ndarray, "saved"], count: int
) -> Int[np.ndarray, "frames"]:
    """Indices of saved networks, first and last among them, evenly in the sum of time passed and loss fallen.

    >>> moments(np.arange(5.0), np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 3).tolist()
    [0, 2, 4]
    """
    passed = (times - times[0]) / max(times[-1] - times[0], 1e-300)
    fallen = np.cumsum(np.abs(np.diff(losses, prepend=losses[0])))
    way = passed + fallen / max(fallen[-1], 1e-300)
    wanted = np.linspace(way[0], way[-1], count)
    return np.unique([int(np.argmin(np.abs(way - value))) for value in wanted])


class _Frame:
    """The three panels, and what changes in them."""

    def __init__(self, figure: "Figure", run: Trajectory, chosen: np.ndarray) -> None:
        data = run.dataset
        self.run, self.chosen = run, chosen
        plane, names = plane_of(data.inputs)
        points = data.inputs @ plane.T
        seen = np.random.default_rng(0).permutation(len(points))[:_SAMPLES]
        # Beyond what is far out for most samples nothing is shown.
        reach = 1.15 * float(np.quantile(np.abs(points), 0.995) or 1.0)
        side = np.linspace(-reach, reach, _GRID)
        self.grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2) @ plane
        self.plane = plane
        top = max(float(np.quantile(np.abs(data.targets), 0.98)), 1e-300)
        left, middle, right = figure.subplots(1, 3)
        self.map = left.imshow(
            np.zeros((_GRID, _GRID)), origin="lower", extent=(-reach, reach) * 2, cmap="RdBu_r", vmin=-top, vmax=top,
            aspect="equal",
        )  # fmt: skip
        left.scatter(
            *points[seen].T, c=data.targets[seen], cmap="RdBu_r", vmin=-top, vmax=top, s=9, edgecolors="black",
            linewidths=0.4,
        )  # fmt: skip
        left.set(
            xlabel=names[0], ylabel=names[1], title="output and targets", xlim=(-reach, reach), ylim=(-reach, reach)
        )
        figure.colorbar(self.map, ax=left, shrink=0.8)
        self.neurons = middle.scatter([], [], s=7)
        self.middle = middle
        middle.axhline(0, color="grey", linewidth=0.4)
        middle.axvline(0, color="grey", linewidth=0.4)
        middle.set(xlabel=names[0], ylabel=names[1], title="neurons: rows of $W_1$")
        middle.set_aspect("equal", adjustable="box")
        right.plot(run.times, run.losses, color=COLOURS[0])
        (self.now,) = right.plot([run.times[0]], [run.losses[0]], "o", color=COLOURS[1], markersize=4)
        right.set(xlabel="flow time $t$", ylabel=f"{run.settings['loss']} loss", ylim=(0, None))
        self.title = right.set_title("")

    def draw(self, frame: int) -> tuple:
        """Show one moment."""
        at = int(self.chosen[frame])
        network = self.run.networks[at]
        self.map.set_data(np.asarray(network(self.grid)).reshape(_GRID, _GRID))
        rows = np.asarray(network.weights[0]) @ self.plane.T
        self.neurons.set_offsets(rows)
        self.neurons.set_color(neuron_colours(network))
        reach = 1.1 * max(float(np.abs(rows).max()), 1e-12)
        self.middle.set(xlim=(-reach, reach), ylim=(-reach, reach))
        self.now.set_data([self.run.times[at]], [self.run.losses[at]])
        self.title.set_text(f"$t$ = {self.run.times[at]:.3g}")
        return self.map, self.neurons, self.now, self.title
