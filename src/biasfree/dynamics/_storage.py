"""Trajectories as labelled arrays, and as NetCDF files."""

import json
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from biasfree import files
from biasfree.datasets import Dataset
from biasfree.dynamics._pieces import Counts, Stretch
from biasfree.dynamics._status import Status
from biasfree.networks import Network
from biasfree.switching import Switches

if TYPE_CHECKING:
    from biasfree.dynamics._trajectory import Trajectory

_FORMAT = "biasfree trajectory 2"
_OLD = "biasfree trajectory 1"  # without stretches and admissibility


def to_xarray(trajectory: "Trajectory") -> xr.Dataset:
    """Variables loss, log_loss, energy, W1 … WL over time, and the data set; the rest as JSON attributes."""
    depth = len(trajectory.weights)
    units = ["input", *(f"hidden{i}" for i in range(1, depth)), "output"]
    variables: dict = {
        "loss": ("time", trajectory.losses, {"long_name": f"{trajectory.settings['loss']} loss"}),
        "log_loss": ("time", trajectory.log_losses, {"long_name": "natural logarithm of the loss"}),
        "energy": ("time", trajectory.energies, {"long_name": "integral of the squared speed"}),
    }
    for i, layer in enumerate(trajectory.weights, 1):
        variables[f"W{i}"] = (("time", units[i], units[i - 1]), layer, {"long_name": f"weights of layer {i}"})
    if trajectory.times[0] > 0:
        for i, weight in enumerate(trajectory.template.weights, 1):
            variables[f"start_W{i}"] = (
                (units[i], units[i - 1]),
                np.asarray(weight),
                {"long_name": "weights at time 0"},
            )
    data, targets = trajectory.dataset, trajectory.dataset.targets
    variables["inputs"] = (("sample", "input"), data.inputs)
    variables["targets"] = (("sample",) if targets.ndim == 1 else ("sample", "output"), targets)
    if trajectory.events is not None:
        for name in ("times", "neurons", "lines", "kinds"):
            column = getattr(trajectory.events, name)
            variables[f"event_{name}"] = ("event", column if name != "kinds" else column.astype(object))
    clock = "flow time" if trajectory.settings["clock"] == "time" else "loss-normalised time s"
    network = {
        "slope": trajectory.template.slope,
        "rectified": trajectory.template.rectified,
        "skips": trajectory.template.skips,
        "origin": dict(trajectory.template.origin),
    }
    attributes = {
        "format": _FORMAT,
        "status": trajectory.status.name,
        "message": trajectory.status.message,
        "settings": _json(trajectory.settings),
        "counts": _json(trajectory.counts.__dict__),
        "network": _json(network),
        "data": _json({"name": data.name, "origin": dict(data.origin), "classes": data.classes}),
        "environment": _json(trajectory.environment),
        "wall_time": trajectory.wall_time,
        "balance_drift": trajectory.balance_drift,
        "energy_gap": trajectory.energy_gap,
        "admissibility": trajectory.admissibility,
        "stretches": json.dumps(trajectory.stretches),
    }
    return xr.Dataset(variables, {"time": ("time", trajectory.times, {"long_name": clock})}, attributes)


def save(trajectory: "Trajectory", path: str | os.PathLike[str]) -> None:
    """Write a NetCDF file, whole or not at all."""
    target = files.writable(path, (".nc",))
    with files.written_whole(target) as draft:
        to_xarray(trajectory).to_netcdf(draft, engine="h5netcdf")


def load(path: str | os.PathLike[str]) -> "Trajectory":
    """Read a NetCDF file written by ``save``."""
    from biasfree.dynamics._trajectory import Trajectory

    source = files.readable(path)
    try:
        with xr.open_dataset(source, engine="h5netcdf") as opened:
            stored = opened.load()
        if stored.attrs.get("format") not in (_FORMAT, _OLD):
            raise ValueError("its format is not known")
        attributes = {
            name: json.loads(stored.attrs[name]) for name in ("settings", "counts", "network", "data", "environment")
        }
        layers = sum(str(name).startswith("W") for name in stored.data_vars)
        weights = tuple(stored[f"W{i}"].to_numpy() for i in range(1, layers + 1))
        start = [
            stored[f"start_W{i}"].to_numpy() if f"start_W{i}" in stored else layer[0]
            for i, layer in enumerate(weights, 1)
        ]
        network, data = attributes["network"], attributes["data"]
        return Trajectory(
            times=stored["time"].to_numpy(),
            losses=stored["loss"].to_numpy(),
            log_losses=stored["log_loss"].to_numpy(),
            weights=weights,
            energies=stored["energy"].to_numpy(),
            template=Network(start, network["slope"], network["rectified"], network["skips"], origin=network["origin"]),
            dataset=Dataset(
                stored["inputs"].to_numpy(),
                stored["targets"].to_numpy(),
                data["name"],
                data["origin"],
                data.get("classes", ()),
            ),
            settings={name: _number(value) for name, value in attributes["settings"].items()},
            status=Status(stored.attrs["status"], stored.attrs["message"]),
            counts=Counts(**{name: _number(value) for name, value in attributes["counts"].items()}),
            wall_time=float(stored.attrs["wall_time"]),
            events=_events(stored),
            stretches=tuple(Stretch(*each) for each in json.loads(stored.attrs.get("stretches", "[]"))),
            admissibility=float(stored.attrs.get("admissibility", math.nan)),
            environment=attributes["environment"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"cannot read {source.name} as a trajectory: {error}.") from error


def _events(stored: xr.Dataset) -> Switches | None:
    if "event_times" not in stored:
        return None
    columns = (stored[f"event_{name}"].to_numpy() for name in ("times", "neurons", "lines", "kinds"))
    times, neurons, met, kinds = columns
    return Switches(times, neurons, met, kinds.astype(str))


def _json(value: Any) -> str:
    """JSON with infinities as strings: files must be readable by any JSON parser."""
    if isinstance(value, Mapping):
        value = {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in value.items()}
    return json.dumps(value)


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value
