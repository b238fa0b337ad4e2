"""Powers of ten on logarithmic axes as plain text: as mathematics each one is parsed anew for every picture."""

import re
from typing import Any

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogFormatterSciNotation

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain_powers(figure: Figure) -> None:
    """Have all logarithmic axes of a figure write 10⁻³."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            major, minor = axis.get_major_formatter(), axis.get_minor_formatter()
            if isinstance(major, LogFormatterSciNotation):
                axis.set_major_formatter(_PlainPowers(major))
            if isinstance(minor, LogFormatterSciNotation):
                axis.set_minor_formatter(_PlainPowers(minor))


def plain(label: str) -> str:
    r"""Matplotlib's label of a tick without its mathematics; as it is if it is no power.

    >>> plain(r"$\mathdefault{10^{-3}}$"), plain(r"$\mathdefault{-2\times10^{4}}$"), plain("0.5")
    ('10⁻³', '−2×10⁴', '0.5')
    """
    found = re.fullmatch(r"\$\\mathdefault\{(-?)(?:(\d+)\\times)?(\d+)\^\{(-?\d+)\}\}\$", label)
    if found is None:
        return label
    sign, factor, base, power = found.groups()
    return ("−" if sign else "") + (f"{factor}×" if factor else "") + base + power.translate(_RAISED)


class _PlainPowers(Formatter):
    """A formatter's labels as plain text; which ticks have one is up to it."""

    def __init__(self, original: LogFormatterSciNotation) -> None:
        self._original = original

    def set_axis(self, axis: Axis | Any | None) -> None:
        super().set_axis(axis)
        self._original.set_axis(axis)

    def set_locs(self, locs: Any) -> None:
        super().set_locs(locs)
        self._original.set_locs(locs)

    def __call__(self, x: float, pos: int | None = None) -> str:
        return plain(self._original(x, pos))
