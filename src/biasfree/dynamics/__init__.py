"""How weights move: gradient descent, gradient flow, and the trajectories they leave."""

from biasfree.dynamics._descent import gradient_descent
from biasfree.dynamics._flow import METHODS, gradient_flow
from biasfree.dynamics._gap import DescentGap, descent_gap
from biasfree.dynamics._settings import Progress, Status, Stop
from biasfree.dynamics._trajectory import Counts, Trajectory

__all__ = [
    "METHODS",
    "Counts",
    "DescentGap",
    "Progress",
    "Status",
    "Stop",
    "Trajectory",
    "descent_gap",
    "gradient_descent",
    "gradient_flow",
]
