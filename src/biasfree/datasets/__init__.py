"""Data sets: the papers' own, generators with explicit seeds, and the user's files."""

from biasfree.datasets._dataset import Dataset
from biasfree.datasets._files import load, read
from biasfree.datasets._generators import (
    BUILTIN,
    builtin,
    depth_separation,
    digits,
    orthogonal_pair,
    separable,
    six_points,
    symmetric_gaussian,
    xor,
)

__all__ = [
    "BUILTIN",
    "Dataset",
    "builtin",
    "depth_separation",
    "digits",
    "load",
    "orthogonal_pair",
    "read",
    "separable",
    "six_points",
    "symmetric_gaussian",
    "xor",
]
