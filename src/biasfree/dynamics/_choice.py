"""Which method integrates a flow, and why."""

from typing import NamedTuple

from biasfree import checks
from biasfree.dynamics._plan import Plan
from biasfree.dynamics.methods import BY_NAME
from biasfree.lines import lines
from biasfree.networks import Network

_CROSSINGS = 10_000  # lines × neurons up to which the exact flow, which meets every crossing, was the faster one
# Lines up to which it was so at any width, with fewer digits wrong: 10 lines and 5,000 neurons take it 9 s and Bosh3
# 104 s, 30 and 1,000 16 s and 42 s, from a scale of 1e-3; from one of 1 it takes as long.
_FEW_LINES = 30
_LOOSE = 1e-4  # from here on stability bounds steps: on digits two fifths of Bosh3's gradients at 1e-2, half at 1e-3


class Choice(NamedTuple):
    """The method of a run.

    Attributes:
        method: its name.
        because: why it was chosen, in a few words.
        fallback: the method that goes on, or begins again, where this one fails; None if it has the last word.
    """

    method: str
    because: str
    fallback: str | None = None


def choose(method: str, plan: Plan) -> Choice:
    """The method, why, and which one goes on where it fails: the exact flow is replaced only if nobody asked for it."""
    network = plan.network
    steps = _adaptive(network, plan.clock)
    if checks.one_of(method, ("auto", *BY_NAME), "method") != "auto":
        unfit = BY_NAME[method].unfit(network)
        if unfit is not None:
            raise ValueError(unfit)
        return Choice(method, "asked for")
    if BY_NAME["exact"].unfit(network) is not None:
        return Choice(steps, "the exact flow is for two layers")
    if plan.smallest_step:
        return Choice(steps, "a smallest step was asked for")
    if network.is_linear:
        return Choice("exact", "a linear network", steps)
    grouped = lines(plan.dataset.inputs)
    work = len(grouped) * network.widths[1]
    if work <= _CROSSINGS:
        return Choice("exact", f"{len(grouped)} lines, {network.widths[1]} neurons", steps)
    if grouped.pairs_up(plan.dataset.targets):
        if network.widths[-1] == 1:
            return Choice("exact", "symmetric data", steps)
        # With several outputs neurons do not gather along one direction: they turn from mode to mode, through all
        # lines. But they share one pull, beside which the flow is smooth (``_shared_pull.AlongSharedPull``).
        if plan.clock == "time":
            return Choice("tsit5", f"symmetric data, {network.widths[-1]} outputs")
    loose = plan.clock == "time" and plan.rtol >= _LOOSE
    if len(grouped) <= _FEW_LINES and not loose:
        return Choice("exact", f"{len(grouped)} lines", steps)
    because = f"{len(grouped)} lines and {network.widths[1]} neurons would cross too often to meet all crossings"
    if loose:
        return Choice("rkc", because)
    return Choice(steps, because)


def _adaptive(network: Network, clock: str) -> str:
    """Low order wins on kinks: on large generic data Bosh3 takes half of Tsit5's evaluations, with smaller errors."""
    return "bosh3" if clock == "loss" or not network.is_linear else "tsit5"
