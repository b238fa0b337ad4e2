"""When to look whether an adaptive run is coming to rest, and how far its end in closed form may be trusted.

It is looked after numbers of steps that do not depend on the machine's speed: soon at first, then seldom enough that
looking stays a small part of the cost. Over a long time flat directions are not yet known to be flat; at the end of a
shorter one they are: so the closed form stands for a few hundred steps at first, and for a hundred times more after
each success, until it reaches the end.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from biasfree.dynamics import _field
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._steady import Rest, find_rest

_REACH, _FARTHER = 300, 100  # steps that the closed form may stand for at first; the factor after each success
_SOON, _SELDOM = 10, 100  # between looks: a tenth of the steps so far, a hundred at most
_AFTER_FAILURE, _LONGEST_WAIT = 3, 300  # a third of them, a few hundred at most
_STEPS, _SLOW = 50, 1e-2  # worth a look if so many steps at this speed would move the weights by so little
_CLEARLY = 0.01  # in ln L; a way in closed form is below √rtol of the weights long, and decay keeps L from vanishing
_HORIZON = 10  # times as long as the run so far must rest last, where no end is given


class Found(NamedTuple):
    """Rest over ``duration``; ``final`` if that is all there is to go."""

    rest: Rest
    duration: float
    final: bool
    since: float  # when it was first seen


class RestWatch:
    """Looks for rest from time to time."""

    def __init__(self, plan: Plan) -> None:
        """On the loss clock nothing rests."""
        self.off = plan.clock != "time"
        self.next_look = 1
        self.products = 0  # of the Hessian with a vector
        self._plan = plan
        self._reach: float = _REACH
        self._since: float | None = None

    def due(self, accepted: int) -> bool:
        """Whether to look after so many steps; says so once."""
        if self.off or accepted < self.next_look:
            return False
        self.next_look += min(1 + self.next_look // _SOON, _SELDOM)
        return True

    def look(
        self, weights: Any, time: float, step: float, speed: float, accepted: int, problem: Any, kind: _field.Kind
    ) -> Found | None:
        """Whether the flow rests from here on, or over the next many steps."""
        if not _STEPS * step * speed <= _SLOW * _norm(weights):
            return None
        until = self._plan.until
        horizon = until - time if math.isfinite(until) else _HORIZON * max(time, step)
        duration = min(horizon, self._reach * step)
        rest, products = find_rest(weights, duration, self._plan.rtol, problem, kind)
        self.products += products
        if rest is None:
            self._since, self._reach = None, _REACH
            self.next_look = accepted + min(1 + accepted // _AFTER_FAILURE, _LONGEST_WAIT)
            return None
        if self._may_pass_level(rest.weights(duration), problem, kind):
            return None
        self._since = time if self._since is None else self._since
        self._reach *= _FARTHER
        return Found(rest, duration, duration == horizon, self._since)

    def _may_pass_level(self, end: _field.Weights, problem: Any, kind: _field.Kind) -> bool:
        """A loss level must be seen when it is passed, not jumped over.

        The loss only falls, so that one above the level at the end is above it all the way. With weight decay it is
        the objective that falls; the loss then moves by little on so short a way, and must be clearly above.
        """
        level = self._plan.stop.level
        if level == -math.inf:
            return False
        clear = level + (_CLEARLY if self._plan.weight_decay else 0.0)
        return not float(_field.log_loss(end, problem, kind)) > clear


def _norm(weights: Any) -> float:
    return math.sqrt(sum(float(np.vdot(w, w)) for w in map(np.asarray, weights)))
