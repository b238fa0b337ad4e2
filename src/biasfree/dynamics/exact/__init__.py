"""The exact, event-driven flow of two-layer networks."""

from biasfree.dynamics.exact._exact import Exact

__all__ = ["Exact"]
