"""The result of a run: what was saved, how it was integrated, and how accurate it is."""

import bisect
import functools
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from jaxtyping import Float

from biasfree import checks
from biasfree.datasets import Dataset
from biasfree.dynamics import _card, _field
from biasfree.dynamics._loop import Outcome
from biasfree.dynamics._pieces import Counts, Stretch
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._status import Status
from biasfree.networks import Network
from biasfree.provenance import environment
from biasfree.shown import Shown
from biasfree.switching import Switches

if TYPE_CHECKING:
    import xarray as xr

    from biasfree.measure import Plateaus

_TINY = 1e-100  # weights whose squares are no numbers, or few: they would drift by nothing
_CLOSE = 1e-6  # of a time found by its loss
_ROUNDINGS = 64.0  # of a sum over neurons and samples, in units of float64's own
_LARGEST_LOG = 700.0  # e^700 is a number


@dataclass(frozen=True, eq=False)
class Trajectory(Shown):
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
        counts: evaluations of the gradient, accepted, rejected and chattering steps, smallest step, work.
        events: of the exact flow, what every neuron did at which line and when; else None.
        stretches: by what the run was integrated: (begin, end, how, steps) of every stretch.
        admissibility: gauge 3, of the exact flow: the largest amount by which a slide broke the rule that holds it
            (a share of a line's pull beyond ±1, times that pull; or any slide on a line that repels), relative to the
            pull of the whole data. NaN where nothing is held on a line: adaptive steps, descent.
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
    stretches: tuple[Stretch, ...] = ()
    admissibility: float = math.nan
    environment: Mapping[str, str] = field(default_factory=environment)

    @classmethod
    def of_flow(cls, outcome: Outcome, plan: Plan, method: str, because: str, seconds: float) -> "Trajectory":
        """Of a flow that was integrated by ``method``."""
        return cls.assemble(outcome, plan, plan.settings(method, because), seconds)

    @classmethod
    def assemble(cls, outcome: Outcome, plan: Plan, settings: Mapping[str, Any], seconds: float) -> "Trajectory":
        """Put a trajectory together from what a run left."""
        recorder = outcome.recorder
        weights, log_losses = recorder.stacked(), recorder.log_losses
        problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
        kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
        # One after the other by what is compiled already: all at once would be compiled for every number of them.
        for index in np.flatnonzero(np.isnan(log_losses)):
            layers = tuple(layer[index] for layer in weights)
            log_losses[index] = float(_field.log_loss(layers, problem, kind))
        with np.errstate(over="ignore"):  # a run that diverges may end at a loss beyond 1e308
            losses = np.exp(log_losses)
        return cls(
            recorder.times, losses, log_losses, weights, recorder.energies,
            plan.network, plan.dataset, settings, outcome.status, outcome.counts, seconds,
            events=outcome.events, stretches=outcome.stretches, admissibility=outcome.admissibility,
        )  # fmt: skip

    @property
    def is_descent(self) -> bool:
        """Whether it was made by ``gradient_descent``."""
        return bool(self.settings["method"] == "descent")

    # Networks

    @functools.cached_property
    def networks(self) -> list[Network]:
        """The saved networks, one per time."""
        return [self.template.with_weights(layers) for layers in zip(*self.weights, strict=True)]

    @property
    def final(self) -> Network:
        """The last saved network."""
        return self._saved_network(-1)

    def _saved_network(self, index: int) -> Network:
        """One of the saved networks, without building the others."""
        return self.template.with_weights([layer[index] for layer in self.weights])

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
            return self._saved_network(index)
        from biasfree.dynamics import _descent, _flow

        again = _descent.resume if self.is_descent else _flow.resume
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
        problem, kind = self.compiled_problem()

        def above(t: float) -> float:
            return float(_field.log_loss(self._at(t).weights, problem, kind)) - math.log(level)

        if self.is_descent:  # the loss is a step function of time
            rate = self.settings["learning_rate"]
            steps = range(round(low / rate), round(high / rate) + 1)
            return rate * steps[bisect.bisect_left(steps, True, key=lambda k: above(k * rate) <= 0)]
        from scipy.optimize import brentq  # loaded when it is needed: it takes as long as a run

        return brentq(above, low, high, xtol=_CLOSE * high, rtol=_CLOSE)

    def compiled_problem(self) -> tuple[_field.Problem, _field.Kind]:
        """What compiled functions of the weights take besides them."""
        loss, decay = self.settings["loss"], self.settings["weight_decay"]
        kind = _field.Kind(loss, self.template.architecture, self.settings["clock"])
        return _field.problem(self.template, self.dataset, loss, decay), kind

    # Accuracy gauges

    @functools.cached_property
    def balance_drift(self) -> float:
        """Gauge 1: largest drift of a neuron's balance ‖incoming‖² − ‖outgoing‖², relative to its largest size.

        Conserved by the flow; weight decay shrinks it by e^{−2λt}, which is taken out. NaN where no neuron obeys
        the law (one layer, neurons at an identity skip) or the factor is unknown (decay on the loss clock), infinite
        where it applies and overflows.
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
            with np.errstate(over="ignore", invalid="ignore"):
                largest = max(float(max(part.max(), -part.min())) for part in (before, after))
                if 0 < largest < _TINY:
                    before, after = before / largest, after / largest
                incoming, outgoing = np.einsum("tij,tij->ti", before, before), np.einsum("tki,tki->ti", after, after)
                balance, size = incoming - outgoing, (incoming + outgoing).max()
                drifts.append(_number(np.abs(balance - fade * balance[0]).max() / size) if size else 0.0)
        return max(drifts) if drifts else math.nan

    @functools.cached_property
    def energy_gap(self) -> float:
        """Gauge 2: largest failure of L(0) − L(t) = ∫‖Ẇ‖², relative to the initial loss.

        With weight decay L includes ½λ‖W‖². On the loss clock ln L takes L's place and the gap is relative to the
        change of ln L; with decay there is then no such law, and the gauge is NaN. So it is where steps chattered:
        there speeds across the boundary count in full, and the law says nothing about accuracy.
        """
        decay, spent = self.settings["weight_decay"], self.energies - self.energies[0]
        by_loss = self.settings["clock"] == "loss"
        if self.counts.chattered or (by_loss and decay):
            return math.nan
        with np.errstate(invalid="ignore", over="ignore"):
            if by_loss:
                fall = self.log_losses[0] - self.log_losses
                return _number(np.max(np.abs(fall - spent) / np.maximum(1.0, np.abs(fall))))
            objective = self.objectives()
            initial = objective[0] + self.energies[0]  # the first saved time need not be 0
            gap = _number(np.max(np.abs(objective[0] - objective - spent)))
            # Of a start that is fitted already no more can be said than outputs are rounded to.
            return gap / max(float(initial), self.rounding) if gap else 0.0

    def objectives(self) -> Float[np.ndarray, "saved"]:
        """What the flow descends on, L + ½λ‖W‖², at the saved times."""
        decay = self.settings["weight_decay"]
        if not decay:
            return self.losses
        with np.errstate(over="ignore"):
            return self.losses + 0.5 * decay * sum((layer**2).sum(axis=(1, 2)) for layer in self.weights)

    @property
    def by_logarithm(self) -> bool:
        """Whether ln L takes the objective's place: on the loss clock, where L may be below any number."""
        return self.settings["clock"] == "loss" and not self.settings["weight_decay"]

    @functools.cached_property
    def output_rounding(self) -> float:
        """How far outputs may be off by rounding: as sums of products, by that of ‖x‖ times the layers' norms."""
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.prod([np.sqrt(np.einsum("tij,tij->t", layer, layer).max()) for layer in self.weights])
            reach = reach * np.sqrt((np.asarray(self.dataset.inputs) ** 2).sum(axis=1).max())
            return _ROUNDINGS * np.finfo(float).eps * float(reach + np.abs(self.dataset.targets).max())

    @property
    def rounding(self) -> float:
        """How far the objective (ln L on the loss clock) may be off by that."""
        noise = self.output_rounding
        if self.by_logarithm:
            return noise
        largest = math.exp(min(float(self.log_losses.max()), _LARGEST_LOG))
        slope = math.sqrt(2 * largest) if self.settings["loss"] == "square" else max(largest, 1.0)
        return slope * noise + noise * min(noise, 1.0)

    # What it means

    def plateaus(self) -> "Plateaus":
        """Its plateaus, explained, with their predicted ends: ``biasfree.plateaus`` of this run."""
        from biasfree.measure import plateaus  # the one import downwards: a run can be asked what it did

        return plateaus(self)

    # Files and text

    def summary(self) -> dict[str, Any]:
        """The card as plain numbers and strings, ready for JSON; what is not finite is None."""
        return _card.summary(self)

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
        return _card.card(self)

    def __repr__(self) -> str:
        """One line; ``print`` shows the card."""
        return _card.line(self)


def _number(gauge: float) -> float:
    """A gauge that overflows is infinite, not unknown."""
    return math.inf if math.isnan(gauge) else float(gauge)
