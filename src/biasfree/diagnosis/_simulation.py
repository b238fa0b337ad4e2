"""How an answer simulates: the one place that chooses the method.

Verdicts are read off to a few percent, so coarse adaptive steps do on most data: they pass over crossings by the
thousand, which the exact flow would meet one by one. On few lines neurons gather on them and slide for long; there
adaptive steps chatter, and the exact flow is the cheaper and the truer one. So it is for linear networks of two layers,
which cross nothing. ``gradient_flow`` by itself takes the exact flow for ten times as many crossings: at its own, finer
tolerance chattering costs more.
"""

from collections.abc import Callable
from typing import Any

from biasfree.datasets import Dataset
from biasfree.dynamics import Progress, Trajectory, gradient_flow
from biasfree.lines import lines
from biasfree.networks import Network

# Lines × neurons up to which the exact flow is the cheaper one, or nearly, on random data of 2 to 20 dimensions.
_CROSSINGS = 2_000
_STEPS = 300_000


def simulated(
    network: Network,
    data: Dataset,
    loss: str,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Trajectory:
    """The gradient flow of a network: exact where that is cheap, by coarse steps elsewhere or if events do not end.

    Args:
        network: any depth.
        data: as many outputs.
        loss: its name.
        progress: as of ``gradient_flow``.
        options: ``until``, ``save``, ``stop`` and ``max_steps`` of ``gradient_flow``.

    Raises:
        KeyboardInterrupt: on Ctrl-C; half a run is none.
    """
    common: dict[str, Any] = {"loss": loss, "progress": progress, "max_steps": _STEPS, **options}
    if network.depth == 2 and (network.is_linear or len(lines(data.inputs)) * network.widths[1] <= _CROSSINGS):
        run = gradient_flow(network, data, method="exact", **common)
        if run.status.name not in ("stuck", "inaccurate", "not finite"):
            return _whole(run)
    return _whole(gradient_flow(network, data, method="bosh3", rtol=1e-4, **common))


def part(progress: Callable[[float], None] | None, begin: float, end: float) -> Callable[[Progress], None] | None:
    """Progress of a run as part of a larger piece of work."""
    if progress is None:
        return None
    return lambda done: progress(begin + (end - begin) * done.fraction)


def _whole(run: Trajectory) -> Trajectory:
    if run.status.name == "interrupted":
        raise KeyboardInterrupt
    return run
