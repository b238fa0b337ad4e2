"""The exact, event-driven flow of two-layer networks."""

from biasfree.dynamics.exact._run import Outcome, integrate

__all__ = ["Outcome", "integrate"]
