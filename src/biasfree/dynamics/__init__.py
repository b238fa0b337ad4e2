"""How weights move: gradient descent, gradient flow, and the trajectories they leave."""

from biasfree.dynamics._descent import gradient_descent
from biasfree.dynamics._flow import METHODS, gradient_flow
from biasfree.dynamics._gap import DescentGap, descent_gap
from biasfree.dynamics._pieces import Counts, Stretch
from biasfree.dynamics._plan import Stop
from biasfree.dynamics._progress import Progress
from biasfree.dynamics._status import Status
from biasfree.dynamics._trajectory import Trajectory

__all__ = [
    "METHODS",
    "Counts",
    "DescentGap",
    "Progress",
    "Status",
    "Stop",
    "Stretch",
    "Trajectory",
    "descent_gap",
    "gradient_descent",
    "gradient_flow",
]
