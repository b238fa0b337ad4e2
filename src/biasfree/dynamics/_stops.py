"""When a run ends: what is common to all integrators."""

import math

from biasfree.dynamics import _status
from biasfree.dynamics._pieces import Counts, Piece
from biasfree.dynamics._plan import Plan
from biasfree.dynamics._status import Status

# After so many attempts that made less than this share of the way the run is given up: its end is 10¹² attempts off.
_PATIENCE, _LEAST_SHARE = 20_000, 1e-8

# Of ln L: a run that ended at a level must not, begun again there, be above it by rounding. Sums of losses are right
# to some 1e-16 times the number of samples; this is enough for thousands.
_LEVEL_ROUNDING = 1e-12

_DEAREST = 20  # times the usual work, what one attempt costs at most: Chebyshev steps have a dozen stages or two


def ended(piece: Piece, counts: Counts, plan: Plan) -> Status | None:
    """How the run ended with this piece, or None if it goes on."""
    if piece.ended is not None:
        return piece.ended
    if piece.end >= plan.until:
        return _status.reached(plan.axis, plan.until)
    attempts = counts.accepted + counts.rejected
    made, whole = piece.end - plan.start, plan.until - plan.start
    if attempts >= _PATIENCE and math.isfinite(whole) and made < _LEAST_SHARE * whole:
        return _status.out_of_reach(plan.axis, piece.end, plan.until)
    limited = out_of_steps(attempts, piece.end, plan)
    if limited is not None:
        return limited
    if counts.work >= plan.max_work:
        return _status.out_of_work(plan.axis, piece.end, plan.until, attempts)
    return None


def out_of_steps(attempts: int, time: float, plan: Plan) -> Status | None:
    """Whether there were as many attempts as are allowed."""
    return _status.out_of_steps(plan.axis, time, plan.max_steps) if attempts >= plan.max_steps else None


def at_start(log_loss: float, plan: Plan) -> Status | None:
    """Whether the loss is at the level asked for before anything is integrated."""
    met = plan.stop.level > -math.inf and log_loss - _LEVEL_ROUNDING <= plan.stop.level
    return _status.at_level_from_start() if met else None


def stationary(plan: Plan, time: float) -> Status | None:
    """How a run ends where nothing moves, or None if it is to stand there until its end."""
    if plan.stop.converged:
        return _status.stands_still(plan.axis, time)
    # Only a loss level can be waited for without end, and it is not going to be met.
    return None if math.isfinite(plan.until) else _status.never_at_level()


def attempts_left(counts: Counts, plan: Plan) -> int:
    """Attempts until one of these rules is to be looked at: on any machine a run ends at the same step."""
    attempts = counts.accepted + counts.rejected
    left = plan.max_steps - attempts
    if counts.work > 0 and math.isfinite(plan.max_work):
        # At most so many that the next rule is not passed: towards the end one by one.
        left = min(left, int((plan.max_work - counts.work) / (_DEAREST * counts.work / max(attempts, 1))))
    return max(1, min(left, _PATIENCE - attempts) if attempts < _PATIENCE else left)
