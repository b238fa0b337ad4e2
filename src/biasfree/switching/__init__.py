"""How neurons meet the surfaces on which their response changes; shared by the theory and the exact flow."""

from biasfree.switching._box import WORK
from biasfree.switching._filippov import Settled, Switches, from_zero, settle, start_on, still_rests
from biasfree.switching._neurons import NO_SECOND, ROUNDING, UNDECIDED, Runner, Segments
from biasfree.switching._several import SeveralModes, SeveralRunner

__all__ = [
    "NO_SECOND",
    "ROUNDING",
    "UNDECIDED",
    "WORK",
    "Runner",
    "Segments",
    "Settled",
    "SeveralModes",
    "SeveralRunner",
    "Switches",
    "from_zero",
    "settle",
    "start_on",
    "still_rests",
]
