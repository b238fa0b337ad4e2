"""Data sets: the papers' own, generators with explicit seeds, and the user's files."""

from biasfree.datasets._dataset import Dataset
from biasfree.datasets._files import load, load_inputs, read
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
from biasfree.datasets._tables import Columns, as_dataset, from_table

__all__ = [
    "BUILTIN",
    "Columns",
    "Dataset",
    "as_dataset",
    "builtin",
    "depth_separation",
    "digits",
    "from_table",
    "iris",
    "load",
    "load_inputs",
    "orthogonal_pair",
    "read",
    "separable",
    "six_points",
    "symmetric_gaussian",
    "wine",
    "xor",
]
