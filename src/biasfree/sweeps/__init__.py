"""Many runs: phase diagrams of linearity, on one machine or many."""

from biasfree.sweeps._case import Case
from biasfree.sweeps._engine import ClusterError
from biasfree.sweeps._plan import Plan, Range
from biasfree.sweeps._quantities import REGISTRY
from biasfree.sweeps._result import Sweep
from biasfree.sweeps._store import StoreError
from biasfree.sweeps._sweep import SweepProgress, run_plan, sweep
from biasfree.sweeps._toml import load_plan, shipped, shipped_text

load = Sweep.load

__all__ = [
    "REGISTRY",
    "Case",
    "ClusterError",
    "Plan",
    "Range",
    "StoreError",
    "Sweep",
    "SweepProgress",
    "load",
    "load_plan",
    "run_plan",
    "shipped",
    "shipped_text",
    "sweep",
]
