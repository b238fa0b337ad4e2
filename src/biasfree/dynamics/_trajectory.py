"""The result of a run: what was saved, how it was integrated, and how accurate it is."""

import bisect
import functools
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from biasfree import checks, files
from biasfree.datasets import Dataset
from biasfree.dynamics import _field
from biasfree.dynamics._recorder import Recorder
from biasfree.dynamics._settings import Status, axis
from biasfree.networks import Network
from biasfree.provenance import environment
from biasfree.switching import Switches

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Counts:
    """What a run cost.

    Attributes:
        evaluations: of the gradient; a product with the Hessian counts as two.
        accepted, rejected: steps.
        chattered: of the accepted ones, those in which an activation changed straight back.
        smallest_step: smallest accepted step; infinite if every step landed on a time asked for.
        chatter_step: smallest of the chattering steps, 0 if none.
    """

    evaluations: int
    accepted: int
    rejected: int = 0
    chattered: int = 0
    smallest_step: float = 0.0
    chatter_step: float = 0.0


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Saved networks of one run with their times and losses, and everything needed to judge and repeat it.

    Attributes:
        times: saved times, shape (saved,); values of s on the loss clock.
        losses: L at these times (0 where it underflows).
        log_losses: ln L at these times, finite far beyond that.
        weights: per layer, the saved weights, shape (saved, out, in).
        energies: ∫‖Ẇ‖² up to each time; η Σ‖∇L‖² for descent.
        template: the start; gives slope and architecture.
        dataset: what it was trained on.
        settings: method, loss, tolerances, ….
        status: how it ended: ``name`` and ``message``.
        counts: evaluations of the gradient, accepted, rejected and forced steps, smallest step.
        events: of the exact flow, what every neuron (one of each merged group) did at which line and when; else None.
        environment: versions, platform, processor, commit.
        wall_time: seconds, compilation included.
    """

    times: Float[np.ndarray, "saved"]
    losses: Float[np.ndarray, "saved"]
    log_losses: Float[np.ndarray, "saved"]
    weights: tuple[Float[np.ndarray, "saved out in"], ...]
    energies: Float[np.ndarray, "saved"]
    template: Network
    dataset: Dataset
    settings: Mapping[str, Any]
    status: Status
    counts: Counts
    wall_time: float
    events: Switches | None = None
    environment: Mapping[str, str] = field(default_factory=environment)

    @classmethod
    def assemble(
        cls,
        recorder: Recorder,
        *,
        network: Network,
        dataset: Dataset,
        problem: _field.Problem,
        kind: _field.Kind,
        settings: Mapping[str, Any],
        status: Status,
        counts: Counts,
        seconds: float,
        events: Switches | None = None,
    ) -> "Trajectory":
        """Put a trajectory together from what a run recorded."""
        weights = recorder.stacked()
        # One after the other by what is compiled already: all at once would be compiled for every number of them.
        log_losses = recorder.log_losses
        if np.isnan(log_losses).any():
            each = (_field.compiled_log_loss(layers, problem, kind=kind) for layers in zip(*weights, strict=True))
            log_losses = np.array([float(value) for value in each])
        with np.errstate(over="ignore"):  # a run that diverges may end at a loss beyond 1e308
            losses = np.exp(log_losses)
        return cls(
            recorder.times, losses, log_losses, weights, recorder.energies,
            network, dataset, settings, status, counts, seconds, events=events,
        )  # fmt: skip

    # Networks

    @functools.cached_property
    def networks(self) -> list[Network]:
        """The saved networks, one per time."""
        return [self.template.with_weights(layers) for layers in zip(*self.weights, strict=True)]

    @property
    def final(self) -> Network:
        """The last saved network."""
        return self.networks[-1]

    @overload
    def at(self, t: float) -> Network: ...

    @overload
    def at(self, t: Iterable[float]) -> list[Network]: ...

    def at(self, t: float | Iterable[float]) -> Network | list[Network]:
        """The network at time ``t``, or a list of them for several times.

        A saved time gives back what was saved. Between saved times the run is taken up again from the one before,
        with the same method and tolerances: nothing is interpolated. For descent, t is rounded down to a whole step.

        Raises:
            ValueError: a time outside the run.
        """
        if np.ndim(t):  # type: ignore[arg-type]
            return [self._at(float(each)) for each in t]  # type: ignore[union-attr]
        return self._at(float(t))  # type: ignore[arg-type]

    def _at(self, t: float) -> Network:
        if not self.times[0] <= t <= self.times[-1]:
            raise ValueError(f"t must lie within the run, {self.times[0]:g} to {self.times[-1]:g}, got {t:g}.")
        index = int(np.searchsorted(self.times, t, side="right")) - 1
        if self.times[index] == t:
            return self.networks[index]
        from biasfree.dynamics import _descent, _flow

        again = _descent.resume if self.settings["method"] == "descent" else _flow.resume
        saved = tuple(layer[index] for layer in self.weights)
        return self.template.with_weights(again(self, saved, float(self.times[index]), t))

    def time_of_loss(self, level: float) -> float:
        """The first time the loss is at or below ``level``, to about 1e-6 of it; NaN if it never is.

        Between saved times it is found among networks that ``at`` integrates, not by interpolation.
        """
        below = np.flatnonzero(self.log_losses <= math.log(checks.positive(level, "level")))
        if not below.size:
            return math.nan
        if below[0] == 0:
            return float(self.times[0])
        low, high = (float(self.times[below[0] + shift]) for shift in (-1, 0))
        problem, kind = self._compiled_problem()

        def above(t: float) -> float:
            return float(_field.compiled_log_loss(self._at(t).weights, problem, kind=kind)) - math.log(level)

        if self.settings["method"] == "descent":  # the loss is a step function of time
            rate = self.settings["learning_rate"]
            steps = range(round(low / rate), round(high / rate) + 1)
            return rate * steps[bisect.bisect_left(steps, True, key=lambda k: above(k * rate) <= 0)]
        return brentq(above, low, high, xtol=1e-6 * high, rtol=1e-6)

    def _compiled_problem(self) -> tuple[_field.Problem, _field.Kind]:
        loss, decay = self.settings["loss"], self.settings["weight_decay"]
        kind = _field.Kind(loss, self.template.architecture, self.settings["clock"])
        return _field.problem(self.template, self.dataset, loss, decay), kind

    # Accuracy gauges

    @functools.cached_property
    def balance_drift(self) -> float:
        """Gauge 1: largest drift of a neuron's balance ‖incoming‖² − ‖outgoing‖², relative to its largest size.

        Conserved by the flow; weight decay shrinks it by e^{−2λt}, which is taken out. NaN where no neuron obeys
        the law (one layer, neurons at an identity skip) or the factor is unknown (decay on the loss clock).
        """
        decay = self.settings["weight_decay"]
        if decay and self.settings["clock"] == "loss":
            return math.nan
        fade = np.exp(-2 * decay * self.times)[:, None]
        skips, drifts = self.template.skips, []
        for layer, (before, after) in enumerate(zip(self.weights, self.weights[1:], strict=False), 1):
            # A skip that starts or ends at these neurons gives them a weight that does not move.
            if any(span and layer in (end - span, end) for end, span in enumerate(skips, 1)):
                continue
            incoming, outgoing = (before**2).sum(axis=2), (after**2).sum(axis=1)
            balance, size = incoming - outgoing, (incoming + outgoing).max()
            drifts.append(np.abs(balance - fade * balance[0]).max() / size if size > 0 else 0.0)
        return float(max(drifts)) if drifts else math.nan

    @functools.cached_property
    def energy_gap(self) -> float:
        """Gauge 2: largest failure of L(0) − L(t) = ∫‖Ẇ‖², relative to the initial loss.

        With weight decay L includes ½λ‖W‖². On the loss clock ln L takes L's place and the gap is relative to the
        change of ln L; with decay there is then no such law, and the gauge is NaN.
        """
        decay, spent = self.settings["weight_decay"], self.energies - self.energies[0]
        if self.settings["clock"] == "loss":
            if decay:
                return math.nan
            fall = self.log_losses[0] - self.log_losses
            return float(np.max(np.abs(fall - spent) / np.maximum(1.0, np.abs(fall))))
        squares = sum((layer**2).sum(axis=(1, 2)) for layer in self.weights)
        objective = self.losses + 0.5 * decay * squares
        initial = objective[0] + self.energies[0]  # the first saved time need not be 0
        return float(np.max(np.abs(objective[0] - objective - spent)) / initial) if initial > 0 else 0.0

    # Files and text

    def summary(self) -> dict[str, Any]:
        """The card as plain numbers and strings, ready for JSON; what is not finite is None."""
        gauges = {"balance_drift": self.balance_drift, "energy_gap": self.energy_gap}
        result = {
            "status": self.status.name,
            "message": self.status.message,
            "network": str(self.template),
            "network_origin": dict(self.template.origin),
            "data": str(self.dataset),
            "data_origin": dict(self.dataset.origin),
            "settings": dict(self.settings),
            "time": float(self.times[-1]),
            "loss": float(self.losses[-1]),
            "log_loss": float(self.log_losses[-1]),
            "initial_loss": float(self.losses[0]),
            "saved": len(self.times),
            **asdict(self.counts),
            **gauges,
            "wall_time": self.wall_time,
            "environment": dict(self.environment),
        }
        return files.plain(result)

    def to_xarray(self) -> "xr.Dataset":
        """As a labelled xarray Dataset: dimensions time, sample, input, hidden1 …, output."""
        from biasfree.dynamics import _storage

        return _storage.to_xarray(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a NetCDF file (.nc), data set included."""
        from biasfree.dynamics import _storage

        _storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectory":
        """Read back what ``save`` wrote."""
        from biasfree.dynamics import _storage

        return _storage.load(path)

    def __str__(self) -> str:
        """A card: what ran, how it was integrated, how accurate it is, how it ended."""
        settings, counts = self.settings, self.counts
        if settings["method"] == "descent":
            how = f"gradient descent at rate {settings['learning_rate']:g}, {counts.accepted} steps"
        else:
            how = (
                f"{settings['method']} ({settings['because']}), rtol {settings['rtol']:g}: "
                f"{counts.accepted} steps accepted, {counts.rejected} rejected"
                + (f", {counts.chattered} chattering" if counts.chattered else "")
                + (f"; {len(self.events)} events" if self.events is not None else "")
            )
        decay = f", weight decay {settings['weight_decay']:g}" if settings["weight_decay"] else ""
        span = f"{axis(settings['clock'])} = {self.times[0]:g} … {self.times[-1]:g}"
        megabytes = sum(layer.nbytes for layer in self.weights) / 1e6
        seeds = f"network {_seed(self.template.origin)}, data {_seed(self.dataset.origin)}"
        rows = [
            ("network", str(self.template)),
            ("data", str(self.dataset)),
            ("seeds", seeds),
            ("loss", f"{settings['loss']}{decay}: {_level(self, 0)} → {_level(self, -1)}"),
            ("time", f"{span}, {len(self.times)} saved ({megabytes:.1f} MB)"),
            ("method", how),
            ("cost", f"{counts.evaluations} gradient evaluations, {self.wall_time:.2f} s"),
            ("accuracy", self._accuracy()),
            ("status", self.status.message),
        ]
        return "\n".join(["Trajectory", *(f"  {name:<9}{text}" for name, text in rows)])

    __repr__ = __str__

    def _accuracy(self) -> str:
        text = f"balance drift {_gauge(self.balance_drift)}, energy gap {_gauge(self.energy_gap)}"
        if self.counts.chattered and self.energy_gap > 1e-3:
            return f"{text} (while chattering, speeds across the boundary count in full)"
        if self.settings["method"] != "descent" and max(self.balance_drift, self.energy_gap) > 1e-2:
            return f"{text} — poor: use a smaller rtol or atol"
        return text


def _level(trajectory: Trajectory, index: int) -> str:
    log_loss = trajectory.log_losses[index]
    return f"{trajectory.losses[index]:.6g}" if log_loss > -690 else f"10^{log_loss / math.log(10):.1f}"


def _gauge(value: float) -> str:
    return "does not apply" if math.isnan(value) else f"{value:.1e}"


def _seed(origin: Mapping[str, Any]) -> str:
    return str(origin.get("seed", "none"))
