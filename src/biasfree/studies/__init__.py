"""The executable paper: one module per result, prediction beside measurement.

Each module ends in ``STUDY``, or ``STUDIES`` where results share their runs, and reads as a worked example of the
library.
"""

from biasfree.studies._registry import find, names, rank_by_length, studies
from biasfree.studies._study import VERDICTS, Expectation, Result, Study, at_least, at_most, near

__all__ = [
    "VERDICTS",
    "Expectation",
    "Result",
    "Study",
    "at_least",
    "at_most",
    "find",
    "names",
    "near",
    "rank_by_length",
    "studies",
]
