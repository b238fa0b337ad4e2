"""The work behind the page, as a worker does it: each job takes a view and gives bytes.

``run`` answers with the curve and all that the panels need. What may take longer, and is not needed to scrub, comes
after it by itself: ``beside`` (linear twin, other slopes, theory), ``plateaus`` and ``diagnose``.
"""

import io
import json
import math
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biasfree import datasets, files
from biasfree.datasets import Dataset
from biasfree.explorer._code import code, diagnose_arguments, diagnose_code, plateaus_code
from biasfree.explorer._packing import packed
from biasfree.explorer._picture import MOST_EVENTS, picture
from biasfree.explorer._predictions import leaving, predictions
from biasfree.explorer._shading import shaded
from biasfree.explorer._view import LARGEST, View

if TYPE_CHECKING:
    from biasfree.dynamics import Trajectory

Report = Callable[[float], None]
_KINDS = ("cross", "slide", "leave", "branch")
_REMEMBERED = 2  # runs, so that what comes after a run need not repeat it


class Bench:
    """Where jobs are done: the server's own file, and the last runs."""

    def __init__(self, file: Dataset | None = None, file_name: str | None = None, target: str | None = None) -> None:
        """Of a server that was started with this file, or none."""
        self._file, self._file_name, self._target = file, file_name, target
        self._runs: OrderedDict[View, Trajectory] = OrderedDict()

    def do(self, kind: str, request: Any, report: Report, content: bytes = b"") -> bytes:
        """Do a job.

        Args:
            kind: a name of ``KINDS``, or "read" for a file that was dropped on the page.
            request: a view as JSON; of a file its name and target.
            report: called with the share of the way that is done; may raise to end the job.
            content: of the file.

        Raises:
            ValueError: one sentence on what is wrong with the view, or with the file.
        """
        if kind == "read":
            return _read(content, request["name"], request["target"])
        return KINDS[kind](self, View.of(request), report)

    def _trained(self, view: View, report: Report) -> "Trajectory":
        run = self._runs.pop(view, None)
        if run is None:
            run = view.run(view.dataset(self._file), progress=lambda now: report(now.fraction))
        self._runs[view] = run
        while len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)
        return run

    def run(self, view: View, report: Report) -> bytes:
        """The curve, and everything that moves with time."""
        run = self._trained(view, report)
        head, arrays = picture(run, view.ones)
        plain = view.plain_data(self._file)
        events: dict[str, Any] = {"all": 0 if run.events is None else len(run.events), "known": run.events is not None}
        if run.events is not None:
            arrays["event_times"] = run.events.times[:MOST_EVENTS]
            codes = [_KINDS.index(kind) for kind in run.events.kinds[:MOST_EVENTS]]
            arrays["event_kinds"] = np.array(codes, dtype=np.int8)
        arrays |= {"times": run.times, "losses": run.losses, "log_losses": run.log_losses}
        summary = run.summary()
        for unneeded in ("environment", "stretches"):
            summary.pop(unneeded)
        return packed(
            {
                "view": view.to_dict(),
                "summary": summary,
                "loss": view.loss,
                "data": {"name": run.dataset.name, "description": str(run.dataset), "editable": _editable(view, plain)},
                "scales": _scales(view, view.slope) | {"name": _name(view)},
                "events": events,
                "event_kinds": _KINDS,
                "code": code(view, self._file_name, self._target),
                **head,
            },
            arrays,
        )

    def beside(self, view: View, report: Report) -> bytes:
        """What is drawn beside the curve: linear twin, other slopes, theory's prediction."""
        run = self._trained(view, report)
        data = run.dataset
        head: dict[str, Any] = {"view": view.to_dict(), "curves": [], "predictions": [], "code": ""}
        arrays: dict[str, np.ndarray] = {}
        slopes = [] if view.slope == 1 else [1.0]
        for slope in [*slopes, *(s for s in view.slopes if s not in (view.slope, 1.0))]:
            other = view.run(data, slope, progress=lambda now: report(now.fraction))
            name = f"curve{len(head['curves'])}"
            label = "linear twin (α = 1)" if slope == 1 else f"α = {slope:g}"
            scales = _scales(view, slope)
            curve = {"slope": slope, "name": label, "key": name, "status": other.status.name, "scales": scales}
            head["curves"].append(curve)
            arrays |= {f"{name}_times": other.times, f"{name}_losses": other.losses}
        report(1.0)
        try:
            predicted = predictions(view, data, run.template, run.times)
        except (ValueError, ArithmeticError) as error:
            head["why_no_prediction"] = str(error)
        else:
            head["why_no_prediction"] = predicted.why_none
            for prediction in predicted.curves:
                name = f"prediction{len(head['predictions'])}"
                head["predictions"].append({"name": prediction.name, "note": prediction.note, "key": name})
                head["code"] += f"{prediction.code}\n"
                arrays |= {f"{name}_times": prediction.times, f"{name}_losses": prediction.losses}
        return packed(head, arrays)

    def plateaus(self, view: View, report: Report) -> bytes:
        """Where the loss waits, why, and until when by prediction; and the law of departure."""
        run = self._trained(view, report)
        intervals, law = [interval._asdict() for interval in shaded(run)], leaving(view, run.dataset)
        lines = [plateaus_code(), *([] if law is None else [law.code]), ""]
        answer = {
            "plateaus": intervals,
            "departure": None if law is None else {"time": law.time, "description": law.description},
            "code": "\n".join(lines),
        }
        return json.dumps(files.plain(answer), allow_nan=False).encode()

    def diagnose(self, view: View, report: Report) -> bytes:
        """The sentence of ``bf.diagnose`` for the view's data and network; by theory alone for two layers."""
        from biasfree.diagnosis import diagnose

        data = view.dataset(self._file)
        if view.loss == "exponential":
            raise ValueError("diagnose takes square or logistic loss, got exponential. Choose another loss.")
        diagnosis = diagnose(data, **diagnose_arguments(view), progress=lambda what, share: report(share))
        answer = {
            "headline": diagnosis.headline,
            "verdict": diagnosis.verdict,
            "diagnosis": diagnosis.to_dict(),
            "code": f"{diagnose_code(view)}\n",
        }
        return json.dumps(files.plain(answer), allow_nan=False).encode()

    def netcdf(self, view: View, report: Report) -> bytes:
        """The trajectory as ``Trajectory.save`` writes it."""
        run = self._trained(view, report)
        with tempfile.TemporaryDirectory(prefix="biasfree-") as folder:
            path = Path(folder) / "run.nc"
            run.save(path)
            return path.read_bytes()

    def csv(self, view: View, report: Report) -> bytes:
        """Times, losses and their logarithms; numbers as Python prints them, so that none loses a digit."""
        run = self._trained(view, report)
        text = io.StringIO()
        text.write("time,loss,log_loss\n")
        for row in zip(run.times.tolist(), run.losses.tolist(), run.log_losses.tolist(), strict=True):
            text.write(",".join(map(repr, row)) + "\n")
        return text.getvalue().encode()


KINDS: dict[str, Callable[[Bench, View, Report], bytes]] = {
    "run": Bench.run,
    "beside": Bench.beside,
    "plateaus": Bench.plateaus,
    "diagnose": Bench.diagnose,
    "netcdf": Bench.netcdf,
    "csv": Bench.csv,
}


def _read(content: bytes, name: str, target: str | None) -> bytes:
    """A dropped file as points, by the reader that ``diagnose`` uses; nothing of it is written."""
    data = datasets.read(content, name, target)
    if data.outputs != 1:
        raise ValueError(f"the explorer shows networks of one output, but {name} has {data.outputs}.")
    for size, what in ((data.samples, "samples"), (data.dim, "input dimensions")):
        limit = LARGEST["samples" if what == "samples" else "dim"]
        if size > limit:
            raise ValueError(f"at most {int(limit):,} {what} can be shown here, got {size:,}.")
    shown = {"name": data.name[:60], "inputs": data.inputs.tolist(), "targets": data.targets.tolist()}
    return json.dumps(shown, allow_nan=False).encode()


def _scales(view: View, slope: float) -> dict[str, float | None]:
    """Factors that turn t into t/ln(1/γ), and into the linear twin's time (1+α)t/2."""
    ratio = 1 / math.log(1 / view.scale) if view.scale < 1 else None
    return {"ratio": ratio, "rescaled": 0.5 * (1 + slope)}


def _name(view: View) -> str:
    kind = {0.0: "ReLU network", 1.0: "linear network"}.get(view.slope, f"leaky ReLU, α = {view.slope:g}")
    return f"{kind}, descent" if view.method == "descent" else kind


def _editable(view: View, plain: Dataset) -> dict[str, Any] | None:
    """The samples for the canvas on which they are placed by hand; None where they are not points of a plane."""
    if plain.dim != 2 or plain.samples > 60:
        return None
    return {"inputs": plain.inputs, "targets": plain.targets}
