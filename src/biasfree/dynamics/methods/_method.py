"""What a method is."""

from collections.abc import Callable
from typing import NamedTuple

from biasfree.dynamics._pieces import Integrator
from biasfree.dynamics._plan import Plan
from biasfree.networks import Network


class Begun(NamedTuple):
    """An integrator at its start, and whether a matrix library's threads would only stand in its way."""

    integrator: Integrator
    one_thread: bool


def fits_all(network: Network) -> None:
    """Every network will do."""


class Method(NamedTuple):
    """A way to integrate a flow.

    Attributes:
        name: what users call it.
        begin: make its integrator; what is large to import is imported here.
        unfit: why a network cannot be integrated by it, as a sentence; None if it can.
        meets_kinks: whether steps end where σ' jumps, so that the energy gauge is as small as for a smooth flow.
    """

    name: str
    begin: Callable[[Plan], Begun]
    unfit: Callable[[Network], str | None] = fits_all
    meets_kinks: bool = False
