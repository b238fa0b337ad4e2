"""A trajectory in words and as plain numbers."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from biasfree import files

if TYPE_CHECKING:
    from biasfree.dynamics._trajectory import Trajectory

_POOR = 1e-2  # a gauge above this is said to be poor
_UNDERFLOW = -690.0  # ln L below which a loss is given by its logarithm
_ROUNDING = 1e-12  # what rounding may have changed that is worth a word
_SHOWN = 4  # stretches listed one by one


def card(trajectory: "Trajectory") -> str:
    """What ran, how it was integrated, how accurate it is, how it ended."""
    settings, counts = trajectory.settings, trajectory.counts
    decay = f", weight decay {settings['weight_decay']:g}" if settings["weight_decay"] else ""
    axis = _axis(trajectory)
    megabytes = sum(layer.nbytes for layer in trajectory.weights) / 1e6
    seeds = f"network {_seed(trajectory.template.origin)}, data {_seed(trajectory.dataset.origin)}"
    times = f"{axis} = {trajectory.times[0]:g} … {trajectory.times[-1]:g}"
    rows = [
        ("network", str(trajectory.template)),
        ("data", str(trajectory.dataset)),
        ("seeds", seeds),
        ("loss", f"{settings['loss']}{decay}: {_level(trajectory, 0)} → {_level(trajectory, -1)}"),
        ("time", f"{times}, {len(trajectory.times)} saved ({megabytes:.1f} MB)"),
        ("method", _method(trajectory)),
        ("cost", f"{counts.evaluations} gradient evaluations, {trajectory.wall_time:.2f} s"),
        ("accuracy", _accuracy(trajectory)),
        ("status", trajectory.status.message),
    ]
    if len(trajectory.stretches) > 1:
        rows.insert(6, ("course", _stretches(trajectory)))
    return "\n".join(["Trajectory", *(f"  {name:<9}{text}" for name, text in rows)])


def line(trajectory: "Trajectory") -> str:
    """The run in one line."""
    axis, loss = _axis(trajectory), trajectory.settings["loss"]
    fall = f"{loss} loss {_level(trajectory, 0, 3)} → {_level(trajectory, -1, 3)}"
    return (
        f"Trajectory({trajectory.template} on {trajectory.dataset.name}: {fall} at {axis} = "
        f"{trajectory.times[-1]:g}, {trajectory.status.name})"
    )


def summary(trajectory: "Trajectory") -> dict[str, Any]:
    """The card as plain numbers and strings, ready for JSON; what is not finite is None."""
    result = {
        "status": trajectory.status.name,
        "message": trajectory.status.message,
        "network": str(trajectory.template),
        "network_origin": dict(trajectory.template.origin),
        "data": str(trajectory.dataset),
        "data_origin": dict(trajectory.dataset.origin),
        "settings": dict(trajectory.settings),
        "time": float(trajectory.times[-1]),
        "loss": float(trajectory.losses[-1]),
        "log_loss": float(trajectory.log_losses[-1]),
        "initial_loss": float(trajectory.losses[0]),
        "saved": len(trajectory.times),
        **asdict(trajectory.counts),
        "balance_drift": trajectory.balance_drift,
        "energy_gap": trajectory.energy_gap,
        "admissibility": trajectory.admissibility,
        "stretches": [stretch._asdict() for stretch in trajectory.stretches],
        "wall_time": trajectory.wall_time,
        "environment": dict(trajectory.environment),
    }
    return files.plain(result)


def _method(trajectory: "Trajectory") -> str:
    settings, counts, events = trajectory.settings, trajectory.counts, trajectory.events
    if trajectory.is_descent:
        return f"gradient descent at rate {settings['learning_rate']:g}, {counts.accepted} steps"
    return (
        f"{settings['method']} ({settings['because']}), rtol {settings['rtol']:g}: "
        f"{counts.accepted} steps accepted, {counts.rejected} rejected"
        + (f", {counts.chattered} chattering" if counts.chattered else "")
        + (f"; {len(events)} events" if events is not None else "")
    )


def _stretches(trajectory: "Trajectory") -> str:
    listed = [f"{each.how} to {_axis(trajectory)} = {each.end:.4g}" for each in trajectory.stretches]
    if len(listed) > _SHOWN:
        listed = [*listed[: _SHOWN - 1], f"… ({len(listed) - _SHOWN} more)", listed[-1]]
    return ", ".join(listed)


def _accuracy(trajectory: "Trajectory") -> str:
    drift, gap = trajectory.balance_drift, trajectory.energy_gap
    text = f"balance drift {_gauge(drift)}, energy gap {_gauge(gap)}"
    if trajectory.is_descent:
        return f"it is descent, not the flow; from the flow's laws it departs by: {text}"
    if trajectory.counts.chattered:
        return f"balance drift {_gauge(drift)}; the energy gap does not apply where steps chatter"
    if not math.isnan(trajectory.admissibility):
        text = f"{text}, admissibility {_gauge(trajectory.admissibility)}"
    if trajectory.counts.regrowth_error > _ROUNDING:
        text = f"{text}, rounding of neurons that grew again {_gauge(trajectory.counts.regrowth_error)}"
    if trajectory.counts.rerun_gap:
        text = f"{text}, difference from a second run {_gauge(trajectory.counts.rerun_gap)}"
    if trajectory.counts.local_errors:
        text = f"{text}, errors of all steps {_gauge(trajectory.counts.local_errors)} of the weights"
    if any(value > _POOR for value in (drift, gap, trajectory.admissibility)):
        return f"{text} — poor: use a smaller rtol or atol"
    return text


def _axis(trajectory: "Trajectory") -> str:
    return "t" if trajectory.settings["clock"] == "time" else "s"


def _level(trajectory: "Trajectory", index: int, digits: int = 6) -> str:
    log_loss = trajectory.log_losses[index]
    representable = log_loss > _UNDERFLOW or not math.isfinite(log_loss)
    return f"{trajectory.losses[index]:.{digits}g}" if representable else f"10^{log_loss / math.log(10):.1f}"


def _gauge(value: float) -> str:
    return "does not apply" if math.isnan(value) else f"{value:.1e}"


def _seed(origin: Mapping[str, Any]) -> str:
    return str(origin.get("seed", "none"))
