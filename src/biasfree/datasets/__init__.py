"""Data sets: the papers' own, generators with explicit seeds, and the user's files."""

from biasfree.datasets._dataset import Dataset
from biasfree.datasets._files import load
from biasfree.datasets._generators import (
    BUILTIN,
    builtin,
    depth_separation,
    digits,
    iris,
    orthogonal_pair,
    separable,
    six_points,
    symmetric_gaussian,
    wine,
    xor,
)

__all__ = [
    "BUILTIN",
    "Dataset",
    "builtin",
    "depth_separation",
    "digits",
    "iris",
    "load",
    "orthogonal_pair",
    "separable",
    "six_points",
    "symmetric_gaussian",
    "wine",
    "xor",
]
