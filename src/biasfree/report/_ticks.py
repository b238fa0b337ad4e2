"""Ticks of a finished picture, drawn all at once.

Matplotlib makes five artists of each tick, and looks for the ticks, measures their labels and places an axis's own
label anew whenever it draws. For a picture that no longer changes once is enough.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, Tick
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullLocator

_ROUNDING = 1e-10  # of an axis's length: a tick so little beyond its end is at it, as Matplotlib has it


def join_minor_ticks(figure: Figure) -> None:
    """Make one line's markers of all minor ticks of an axis that have no labels."""
    # Axes may share their ticks, so all are looked at before any is changed.
    unlabelled = [(axes, axis, places) for axes, axis in _shown(figure) if (places := _unlabelled_minor_ticks(axis))]
    for axes, axis, places in unlabelled:
        axis.set_minor_locator(FixedLocator(places[:1]))
        _draw_marks(axes, axis, axis.get_minor_ticks(1)[0], places)
    for _, axis, _ in unlabelled:
        axis.set_minor_locator(NullLocator())


def keep_ticks(figure: Figure) -> None:
    """Have ticks and labels of all axes drawn as they were last, by their axes, without looking for them again."""
    for axes, axis in _shown(figure):
        ticks = [(axis.get_major_ticks(), axis.get_majorticklocs()), (axis.get_minor_ticks(), axis.get_minorticklocs())]
        for kind, places in ticks:
            inside = _inside(axis, places)
            drawn = [tick for tick, seen in zip(kind, inside, strict=True) if seen]
            for label in (label for tick in drawn for label in (tick.label1, tick.label2)):
                _draw_by_axes(label, axes, axis)
            if drawn:
                _draw_marks(axes, axis, drawn[0], places[inside])
        for text in (axis.label, axis.offsetText):
            _fix(text, axes)
            _draw_by_axes(text, axes, axis)
        axis.set_visible(False)


def _shown(figure: Figure) -> list[tuple[Axes, Axis]]:
    """Every axis that is drawn; none of a figure with a grid, whose lines belong to its ticks."""
    every = [(axes, axis) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    if any(axis.get_tick_params(which).get("gridOn") for _, axis in every for which in ("major", "minor")):
        return []
    return [(axes, axis) for axes, axis in every if axes.axison and axis.get_visible()]


def _unlabelled_minor_ticks(axis: Axis) -> list[float]:
    """Where they are; none if one of them has a label."""
    every = np.asarray(axis.get_minorticklocs(), dtype=float)
    places = every[_inside(axis, every)].tolist()
    return [] if any(axis.get_minor_formatter().format_ticks(places)) else places


def _inside(axis: Axis, places: np.ndarray) -> np.ndarray:
    """Which of these places are on the part of an axis that is shown."""
    scale = axis.get_transform().transform
    low, high = sorted(scale(np.asarray(axis.get_view_interval())))
    at, slack = scale(places), _ROUNDING * (high - low)
    return (low - slack <= at) & (at <= high + slack)


def _draw_marks(axes: Axes, axis: Axis, tick: Tick, places: Sequence[float] | np.ndarray) -> None:
    """Have a tick's marks drawn at all these places."""
    for line in (tick.tick1line, tick.tick2line):
        x, y = line.get_data()
        line.set_data(
            *(places, np.repeat(y, len(places))) if axis is axes.xaxis else (np.repeat(x, len(places)), places)
        )
        line.set_in_layout(False)
        _draw_by_axes(line, axes, axis)


def _fix(text: Text, axes: Axes) -> None:
    """Keep a text in its place beside the axes at any resolution."""
    x, y = axes.transAxes.inverted().transform(text.get_transform().transform(text.get_position()))
    text.set_position((x, y))
    text.set_transform(axes.transAxes)


def _draw_by_axes(artist: Artist, axes: Axes, axis: Axis) -> None:
    """Have an artist of an axis drawn by the axes, at the same depth."""
    if artist.get_visible() and not (isinstance(artist, Text) and not artist.get_text()):
        axes.add_artist(artist)
        artist.set(zorder=axis.get_zorder(), clip_on=False)
