"""The title's question for a user's own model: is this trained network linear?"""

from biasfree.inspection._inspect import inspect
from biasfree.inspection._inspection import Inspection

__all__ = ["Inspection", "inspect"]
