"""The exact flow of two-layer networks."""

from biasfree.dynamics._plan import Plan
from biasfree.dynamics.methods._method import Begun, Method
from biasfree.networks import Network


def _begin(plan: Plan) -> Begun:
    from biasfree.dynamics.exact import Exact

    return Begun(Exact(plan), one_thread=True)


def _unfit(network: Network) -> str | None:
    if network.depth == 2 and not any(network.skips):
        return None
    return "method='exact' is for two-layer networks. Use method='auto'."


METHODS = [Method("exact", _begin, _unfit, meets_kinks=True)]
