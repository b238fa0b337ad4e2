"""Which method integrates a flow, and why."""

from biasfree import checks
from biasfree.dynamics._plan import Plan
from biasfree.lines import lines
from biasfree.networks import Network

METHODS = ("auto", "exact", "bosh3", "dopri5", "tsit5", "dopri8", "rkc")
_CROSSINGS = 10_000  # lines × neurons up to which the exact flow, which meets every crossing, was the faster one
_LOOSE = 1e-4  # from here on stability bounds steps: on digits two fifths of Bosh3's gradients at 1e-2, half at 1e-3


def choose(method: str, plan: Plan) -> tuple[str, str]:
    """The method, and why."""
    network = plan.network
    fits = network.depth == 2 and not any(network.skips)
    if checks.one_of(method, METHODS, "method") == "exact" and not fits:
        raise ValueError("method='exact' is for two-layer networks. Use method='auto'.")
    if method != "auto":
        return method, "asked for"
    if not fits:
        return adaptive(network, plan.clock), "the exact flow is for two layers"
    if plan.smallest_step:
        return adaptive(network, plan.clock), "a smallest step was asked for"
    if network.is_linear:
        return "exact", "a linear network"
    grouped = lines(plan.dataset.inputs)
    work = len(grouped) * network.widths[1]
    if work <= _CROSSINGS:
        return "exact", f"{len(grouped)} lines, {network.widths[1]} neurons"
    if grouped.pairs_up(plan.dataset.targets):
        if network.widths[-1] == 1:
            return "exact", "symmetric data"
        # With several outputs neurons do not gather along one direction: they turn from mode to mode, through all
        # lines. But they share one pull, beside which the flow is smooth (``_shared_pull.AlongSharedPull``).
        if plan.clock == "time":
            return "tsit5", f"symmetric data, {network.widths[-1]} outputs"
    because = f"{len(grouped)} lines and {network.widths[1]} neurons would cross too often to meet all crossings"
    if plan.clock == "time" and plan.rtol >= _LOOSE:
        return "rkc", because
    return adaptive(network, plan.clock), because


def adaptive(network: Network, clock: str) -> str:
    """Low order wins on kinks: on large generic data Bosh3 takes half of Tsit5's evaluations, with smaller errors."""
    return "bosh3" if clock == "loss" or not network.is_linear else "tsit5"
