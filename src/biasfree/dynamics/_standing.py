"""Integrators that take no step: for a start at which nothing moves, because the gradient is exactly zero, whatever σ'
is taken to be at σ's kink; and for a run that was interrupted before it began.
"""

import math

import numpy as np

from biasfree import losses
from biasfree.dynamics import _field, _status, _stops
from biasfree.dynamics._pieces import Budget, Counts, How, Piece, Point
from biasfree.dynamics._plan import Plan
from biasfree.networks import hidden_layers
from biasfree.switching import Switches


def stands_still(plan: Plan) -> bool:
    """Whether the start is an exact stationary point: a fitted network, all weights zero, or another saddle.

    A neuron on a kink may be moved by one side's velocity even where the other's is zero; it stands still for sure only
    if nothing arrives at it from above, or if its inputs vanish.
    """
    problem = _field.problem(plan.network, plan.dataset, plan.loss, plan.weight_decay)
    kind = _field.Kind(plan.loss, plan.network.architecture, plan.clock)
    weights = plan.network.weights
    if any(np.asarray(layer).any() for layer in _field.velocity(weights, problem, kind)):
        return False
    if plan.network.depth != 2 or plan.network.is_linear or any(plan.network.skips):
        return True
    signals = hidden_layers(weights, problem.inputs, problem.slope, kind.architecture)
    residual = np.asarray(losses.get(plan.loss).residual(signals[-1], problem.targets))
    arriving = np.asarray(weights[1]).T @ residual
    on_kink = (np.asarray(signals[1]) == 0) & np.asarray(problem.inputs).any(axis=1)
    # Below 0 a ReLU's output is 0 as well: it is on the kink only where its input is.
    on_kink &= np.asarray(weights[0]) @ np.asarray(problem.inputs).T == 0
    return not (on_kink & (arriving != 0)).any()


class Standing:
    """The integrator of such a start: one piece, in which nothing happens."""

    dense = True

    def __init__(self, plan: Plan) -> None:
        """Stay at the plan's network."""
        self._plan = plan

    def advance(self, budget: Budget) -> Piece:
        """To the end; a run that is to stop at rest ends at once."""
        plan = self._plan
        here = Point(tuple(np.asarray(layer) for layer in plan.network.weights), 0.0)
        ended = _stops.stationary(plan, plan.start)
        end = plan.start if ended is not None else plan.until
        return Piece(plan.start, end, lambda _: here, How.AT_REST, accepted=0, ended=ended)

    def counts(self) -> Counts:
        """One gradient."""
        return Counts(evaluations=1, accepted=0)

    def remark(self) -> str:
        """Why there was nothing to do."""
        return "" if self._plan.stop.converged else f"Nothing was integrated: {_status.STATIONARY}"

    def events(self) -> Switches | None:
        """None happened."""
        return Switches.of([])

    def admissibility(self) -> float:
        """Does not apply: nothing slides."""
        return math.nan


class Unbegun:
    """In the place of an integrator whose making Ctrl-C ended: the loop, which catches it, keeps the start."""

    dense = True

    def advance(self, budget: Budget) -> Piece:
        """Hand Ctrl-C on."""
        raise KeyboardInterrupt

    def counts(self) -> Counts:
        """Nothing that was finished."""
        return Counts(evaluations=0, accepted=0)

    def remark(self) -> str:
        """Nothing to say."""
        return ""

    def events(self) -> Switches | None:
        """Not known."""
        return None

    def admissibility(self) -> float:
        """Does not apply: nothing slides."""
        return math.nan
