"""The explorer: a page on which a whole training run answers each move of a slider, and the server behind it."""

from biasfree.explorer._serving import serve

__all__ = ["serve"]
