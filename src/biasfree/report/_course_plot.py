"""The learning curve of a diagnosis and how its outputs bend: predicted, simulated, and the levels that matter."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from biasfree.report._plots import COLOURS, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_courses(
    simulated: Sequence[tuple[Any, Any, Any, Any]],
    predicted: Sequence[tuple[Any, Any]],
    levels: Mapping[str, float],
    departure: float | None,
    loss: str,
) -> "Figure":
    """Loss against flow time of several starts, ReLU and linear twin, with the prediction laid over them.

    Args:
        simulated: (times, losses, and both of the linear twin) of each start.
        predicted: (times, losses) of each start.
        levels: name → loss, drawn as horizontal lines.
        departure: a time to mark, if there is one.
        loss: the name of the loss.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for k, (times, values, twin_times, twin) in enumerate(simulated):
            axes.plot(times, values, color=COLOURS[5], linewidth=3.0, label=None if k else "ReLU, simulated")
            axes.plot(twin_times, twin, color=COLOURS[1], linewidth=1.0, label=None if k else "linear twin, simulated")
        drawn = [pair for pair in predicted if len(pair[0])]
        for k, (times, values) in enumerate(drawn):
            axes.plot(times, values, "--", color="black", linewidth=0.9, label=None if k else "predicted")
        if departure is not None:
            axes.axvline(departure, color=COLOURS[2], linewidth=0.8, linestyle=":", label="leaves the linear solution")
        ends = [float(course[0][-1]) for course in (simulated or drawn)]
        axes.set(xlabel="flow time $t$", ylabel=f"{loss} loss", xlim=(0, max(ends, default=1.0)))
        axes.set_ylim(bottom=0)
        for names, level in _apart(levels, 0.05 * axes.get_ylim()[1]):
            axes.axhline(level, color="grey", linewidth=0.6)
            axes.annotate(
                names,
                (1, level),
                (0, 1.5),
                xycoords=axes.get_yaxis_transform(),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=6.5,
            )
        axes.legend(fontsize=6.5)
    return figure


def plot_bends(
    simulated: Sequence[tuple[Any, Any, Any]],
    predicted: Sequence[tuple[Any, Any, Any]],
    threshold: float,
    departure: float | None,
) -> "Figure":
    """How far outputs are from linear over time, on the samples and as a function.

    Args:
        simulated, predicted: (times, bend on the samples, bend as a function) of each start.
        threshold: above it outputs do not count as linear.
        departure: a time to mark, if there is one.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for k, (times, samples, function) in enumerate(simulated):
            axes.plot(times, samples, color=COLOURS[5], linewidth=3.0, label=None if k else "on the samples, simulated")
            axes.plot(times, function, color=COLOURS[4], linewidth=1.6, label=None if k else "as a function, simulated")
        for k, (times, samples, function) in enumerate(predicted):
            axes.plot(
                times, samples, "--", color="black", linewidth=0.9, label=None if k else "on the samples, predicted"
            )
            axes.plot(
                times, function, ":", color="black", linewidth=0.9, label=None if k else "as a function, predicted"
            )
        axes.axhline(threshold, color="grey", linewidth=0.6)
        if departure is not None:
            axes.axvline(departure, color=COLOURS[2], linewidth=0.8, linestyle=":", label="leaves the linear solution")
        ends = [float(course[0][-1]) for course in (simulated or predicted)]
        axes.set(xlabel="flow time $t$", ylabel="bend of the outputs", xlim=(0, max(ends, default=1.0)))
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=6.5)
    return figure


def _apart(levels: Mapping[str, float], distance: float) -> list[tuple[str, float]]:
    """Levels with their names; those too near to each other to be labelled singly share a label."""
    apart: list[tuple[str, float]] = []
    for name, level in sorted(levels.items(), key=lambda pair: pair[1]):
        if apart and level - apart[-1][1] < distance:
            apart[-1] = (f"{apart[-1][0]}; {name}", apart[-1][1])
        else:
            apart.append((name, level))
    return apart
