"""A study: one result of the papers, its prediction put beside a measurement, and a verdict computed from the
numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from biasfree import checks

HOLDS, APPROXIMATELY, DIFFERS = "holds", "holds approximately", "differs"
VERDICTS = (HOLDS, APPROXIMATELY, DIFFERS)


@dataclass(frozen=True)
class Expectation:
    """What a measured number must be for the result to hold, and how far off it may be to hold approximately.

    Attributes:
        low, high: the result holds if low ≤ measured ≤ high.
        loose_low, loose_high: it holds approximately if the number lies between these.
        text: the expectation in words, e.g. "0.25 ± 1 %" or "≤ 1e-9".
    """

    low: float
    high: float
    loose_low: float
    loose_high: float
    text: str

    def verdict(self, measured: float) -> str:
        """Of this one number; a number that is not finite differs unless infinity is allowed."""
        if math.isnan(measured):
            return DIFFERS
        if self.low <= measured <= self.high:
            return HOLDS
        return APPROXIMATELY if self.loose_low <= measured <= self.loose_high else DIFFERS


def at_most(bound: float, loosely: float | None = None) -> Expectation:
    """The number must not exceed ``bound``; up to ``loosely`` it holds approximately.

    >>> at_most(1e-9).verdict(1e-8), at_most(0.01, loosely=0.05).verdict(0.02)
    ('differs', 'holds approximately')
    """
    loose = bound if loosely is None else loosely
    tail = "" if loosely is None else f" (approximately: ≤ {loosely:g})"
    return Expectation(-math.inf, bound, -math.inf, loose, f"≤ {bound:g}{tail}")


def at_least(bound: float, loosely: float | None = None) -> Expectation:
    """The number must reach ``bound``; down to ``loosely`` it holds approximately.

    >>> at_least(0.1).verdict(0.2)
    'holds'
    """
    loose = bound if loosely is None else loosely
    tail = "" if loosely is None else f" (approximately: ≥ {loosely:g})"
    return Expectation(bound, math.inf, loose, math.inf, f"≥ {bound:g}{tail}")


def near(value: float, relative: float = 0.0, absolute: float = 0.0, loosely: float = 1.0) -> Expectation:
    """The number must be ``value`` within a tolerance; within ``loosely`` times this tolerance it holds approximately.

    >>> near(0.5, relative=0.01).verdict(0.504), near(0.5, relative=0.01, loosely=3).verdict(0.51)
    ('holds', 'holds approximately')
    """
    width = max(relative * abs(value), absolute)
    wide = width * checks.positive(loosely, "loosely")
    shown = f"{value:.6g} ± " + (f"{100 * relative:g} %" if relative * abs(value) >= absolute else f"{absolute:g}")
    tail = "" if loosely == 1 else f" (approximately: within {loosely:g} times that)"
    return Expectation(value - width, value + width, value - wide, value + wide, shown + tail)


@dataclass(frozen=True)
class Result:
    """What a study measured and what was expected.

    Attributes:
        measured: name of a quantity → its number.
        expected: for each quantity that decides the verdict, what it must be; the others are reported, not judged.
        why: a sentence or two on what the numbers say, with the mechanism where it is not obvious.
        data: arrays for the figure, by name; plain arrays, lists, numbers and text only.
        settings: what was run: sizes, scales, rates, seeds.
    """

    measured: Mapping[str, float]
    expected: Mapping[str, Expectation]
    why: str
    data: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Every expectation needs its measurement, and there must be one."""
        missing = set(self.expected) - set(self.measured)
        if missing or not self.expected:
            raise ValueError(f"expectations need measurements of the same names, missing: {sorted(missing) or 'all'}.")

    @property
    def verdict(self) -> str:
        """The worst verdict of all expectations."""
        return max((e.verdict(self.measured[name]) for name, e in self.expected.items()), key=VERDICTS.index)

    @property
    def rule(self) -> str:
        """The rule in words."""
        return "; ".join(f"{name} {e.text}" for name, e in self.expected.items())


@dataclass(frozen=True)
class Study:
    """One result of the papers as something that can be run.

    Attributes:
        id: short name, e.g. "theorem-5-square".
        title: a few words.
        reference: where it stands, e.g. "Zhang et al., Theorem 5, Eqs. 4–5 (journal Theorem 8)".
        statement: what is claimed, in our own words.
        formula: the formula in plain text, "" if there is none.
        run: (seed, quick, protocol) → Result; protocol is "flow" or "paper" (the papers' own descent).
        aliases: other ids, such as a figure's number in the other version of the paper.
    """

    id: str
    title: str
    reference: str
    statement: str
    formula: str
    run: Callable[[int, bool, str], Result]
    aliases: Sequence[str] = ()
