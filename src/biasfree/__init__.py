"""biasfree: when is a bias-free ReLU network effectively a linear network?

Importing this package turns on JAX's float64: an initialisation of 1e-8 squared is below what float32 can
hold beside 1. JAX itself and everything heavy is imported when first used.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ["JAX_ENABLE_X64"] = "1"

if TYPE_CHECKING:
    from biasfree import (
        datasets,
        diagnosis,
        inspection,
        lines,
        losses,
        measure,
        models,
        networks,
        report,
        studies,
        sweeps,
        theory,
    )
    from biasfree.datasets import Dataset
    from biasfree.diagnosis import diagnose
    from biasfree.dynamics import (
        DescentGap,
        Stop,
        Trajectory,
        descent_gap,
        gradient_descent,
        gradient_flow,
    )
    from biasfree.inspection import inspect
    from biasfree.measure import plateaus, skeleton
    from biasfree.networks import Network
    from biasfree.sweeps import sweep

__version__ = "0.1.0"

_HOME = {
    "Dataset": "biasfree.datasets",
    "DescentGap": "biasfree.dynamics",
    "Network": "biasfree.networks",
    "Stop": "biasfree.dynamics",
    "Trajectory": "biasfree.dynamics",
    "descent_gap": "biasfree.dynamics",
    "diagnose": "biasfree.diagnosis",
    "gradient_descent": "biasfree.dynamics",
    "gradient_flow": "biasfree.dynamics",
    "inspect": "biasfree.inspection",
    "plateaus": "biasfree.measure",
    "skeleton": "biasfree.measure",
    "sweep": "biasfree.sweeps",
}
_MODULES = (
    "datasets",
    "diagnosis",
    "dynamics",
    "inspection",
    "lines",
    "losses",
    "measure",
    "models",
    "networks",
    "report",
    "studies",
    "sweeps",
    "theory",
)

__all__ = [
    "Dataset",
    "DescentGap",
    "Network",
    "Stop",
    "Trajectory",
    "datasets",
    "descent_gap",
    "diagnose",
    "diagnosis",
    "gradient_descent",
    "gradient_flow",
    "inspect",
    "inspection",
    "lines",
    "losses",
    "measure",
    "models",
    "networks",
    "plateaus",
    "report",
    "skeleton",
    "studies",
    "sweep",
    "sweeps",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"biasfree.{name}")
    raise AttributeError(f"module 'biasfree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
